//! Finding volumes on the images storage, whether every host has its own or all share one.

use std::collections::HashMap;

use daedal_inventory::Cluster;

use crate::world::{VolumeView, World};

/// Where a volume is: the host, or nothing where the storage is the same on every host.
pub(crate) type Place = (String, String);

/// Volumes by place.
#[derive(Debug)]
pub(crate) struct Volumes<'w> {
    shared: bool,
    by_place: HashMap<(&'w str, &'w str), &'w VolumeView>,
}

impl<'w> Volumes<'w> {
    pub(crate) fn new(cluster: &Cluster, world: &'w World) -> Self {
        let storage = &cluster.proxmox.images_storage;
        let shared =
            world.hosts.values().any(|host| host.storages.get(storage).is_some_and(|seen| seen.shared));
        let mut by_place = HashMap::new();
        for volume in world.volumes.iter().filter(|volume| volume.storage == *storage) {
            let host = if shared { "" } else { volume.host.as_str() };
            by_place.entry((host, volume.volid.as_str())).or_insert(volume);
        }
        Self { shared, by_place }
    }

    /// The volume as this host sees it.
    pub(crate) fn find(&self, host: &str, volid: &str) -> Option<&'w VolumeView> {
        self.by_place.get(&(self.host(host), volid)).copied()
    }

    /// Every volume once, in a fixed order.
    pub(crate) fn all(&self) -> Vec<&'w VolumeView> {
        let mut all: Vec<_> = self.by_place.values().copied().collect();
        all.sort_by(|a, b| (&a.host, &a.volid).cmp(&(&b.host, &b.volid)));
        all
    }

    /// What tells this volume on this host from others.
    pub(crate) fn place(&self, host: &str, volid: &str) -> Place {
        (self.host(host).to_owned(), volid.to_owned())
    }

    /// Whether two hosts see the same volumes.
    pub(crate) fn same(&self, one: &str, other: &str) -> bool {
        self.host(one) == self.host(other)
    }

    fn host<'a>(&self, host: &'a str) -> &'a str {
        if self.shared { "" } else { host }
    }
}
