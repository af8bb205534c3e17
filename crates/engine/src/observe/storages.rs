//! What is on the storages: images and config media, and the disks of all guests. Each host is asked once for each storage, whatever
//! is wanted of it; of a shared one, one host that answers tells all.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::Cluster;
use daedal_planner::{Aspect, DiskList, DiskView, HostView, StorageView, VolumeView};
use daedal_proxmox::{Client, Volume};
use futures::future::join_all;

use super::UnobservedList;

/// What was listed.
#[derive(Default)]
pub(super) struct Contents {
    /// Images and config media, by host and volume.
    pub(super) volumes: Vec<VolumeView>,
    /// The disks of all guests.
    pub(super) disks: Vec<DiskList>,
}

/// What is wanted of a storage.
#[derive(Clone, Copy, Default)]
struct Wanted {
    files: bool,
    disks: bool,
}

/// Lists all storages that the cluster uses.
pub(super) async fn look(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &BTreeMap<String, HostView>,
    unobserved: &UnobservedList,
) -> Contents {
    let mut wanted: BTreeMap<&str, Wanted> = BTreeMap::new();
    // What is declared to be there may lie on another storage than the images.
    for storage in
        std::iter::once(cluster.proxmox.images_storage.as_str()).chain(cluster.boot.volume_storage())
    {
        wanted.entry(storage).or_default().files = true;
    }
    for storage in cluster.proxmox.storages_of_disks() {
        wanted.entry(storage).or_default().disks = true;
    }
    let asked = wanted.into_iter().map(|(storage, wanted)| async move {
        Lister { proxmox, storage, wanted, hosts, unobserved }.list().await
    });
    let mut all = Contents::default();
    for Contents { volumes, disks } in join_all(asked).await {
        all.volumes.extend(volumes);
        all.disks.extend(disks);
    }
    all.volumes.sort_by(|a, b| (&a.host, &a.volid).cmp(&(&b.host, &b.volid)));
    all
}

/// One storage.
struct Lister<'a> {
    proxmox: &'a Client,
    storage: &'a str,
    wanted: Wanted,
    hosts: &'a BTreeMap<String, HostView>,
    unobserved: &'a UnobservedList,
}

impl<'a> Lister<'a> {
    async fn list(&self) -> Contents {
        // A storage that a host does not have is a matter for the planner, not a thing unseen.
        let having: Vec<(&str, &StorageView)> = self
            .hosts
            .iter()
            .filter(|(_, host)| host.online)
            .filter_map(|(name, host)| Some((name.as_str(), host.storages.get(self.storage)?)))
            // Disks are nothing to ask for where the storage is not active: that is told by itself.
            .filter(|(_, view)| self.wanted.files || view.active)
            .collect();
        let mut contents = Contents::default();
        if !self.is_shared() {
            let lists = join_all(having.iter().map(|(host, view)| self.ask(host, view))).await;
            for ((host, view), volumes) in having.iter().zip(lists) {
                let Some(volumes) = volumes else { continue };
                self.take(&mut contents, &[host], view, volumes);
            }
            return contents;
        }
        if having.is_empty() && self.wanted.files {
            let nowhere = Aspect::Storage { storage: self.storage.to_owned(), host: None };
            self.unobserved.say(nowhere, "no host that is online has it");
        }
        for (host, view) in &having {
            // One that does not answer is named; the next can tell the same.
            let Some(volumes) = self.ask(host, view).await else { continue };
            let mut all: Vec<&str> = having.iter().map(|(host, _)| *host).collect();
            // The disks are those of whoever was asked.
            all.sort_by_key(|one| one != host);
            self.take(&mut contents, &all, view, volumes);
            break;
        }
        contents
    }

    fn is_shared(&self) -> bool {
        self.hosts.values().any(|host| host.storages.get(self.storage).is_some_and(|view| view.shared))
    }

    async fn ask(&self, host: &str, view: &StorageView) -> Option<Vec<Volume>> {
        let (storage, Wanted { files, disks }) = (self.storage, self.wanted);
        let content = (!files).then_some("images");
        match self.proxmox.volumes(host, storage, content).await {
            Ok(volumes) => Some(volumes),
            Err(error) => {
                if files {
                    self.unobserved.add(Aspect::storage_on(storage, host), &error);
                }
                if disks && view.active {
                    let (storage, host) = (storage.to_string(), host.to_string());
                    self.unobserved.add(Aspect::Disks { storage, host }, &error);
                }
                None
            }
        }
    }

    /// Sorts out what was listed; the first of the hosts was asked, and the others have the same.
    fn take(&self, contents: &mut Contents, hosts: &[&str], view: &StorageView, volumes: Vec<Volume>) {
        if self.wanted.files {
            for host in hosts {
                let files = volumes
                    .iter()
                    .filter(|volume| matches!(volume.content.as_str(), "iso" | "import" | "snippets"));
                contents.volumes.extend(files.map(|volume| self.file(host, volume)));
            }
        }
        if let Some(host) = hosts.first().filter(|_| self.wanted.disks && view.active) {
            let disks = volumes.into_iter().filter(|volume| volume.content == "images").filter_map(disk);
            let (host, storage) = ((*host).to_owned(), self.storage.to_owned());
            contents.disks.push(DiskList { host, storage, disks: disks.collect() });
        }
    }

    fn file(&self, host: &str, volume: &Volume) -> VolumeView {
        VolumeView {
            host: host.to_owned(),
            storage: self.storage.to_owned(),
            volid: volume.volid.clone(),
            content: volume.content.clone(),
            size: volume.size.unwrap_or(0),
        }
    }
}

fn disk(volume: Volume) -> Option<DiskView> {
    let size = volume.size.or(volume.approximate_size).unwrap_or(0);
    Some(DiskView { volid: volume.volid, vmid: volume.vmid?, size })
}

/// A storage that is switched off is not in the list of everything; its host tells.
pub(super) async fn find_disabled(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &mut BTreeMap<String, HostView>,
) {
    let needed: BTreeSet<&String> =
        cluster.proxmox.storages_of_disks().chain([&cluster.proxmox.images_storage]).collect();
    let needed = &needed;
    let lacking = hosts.iter_mut().filter(|(_, host)| {
        host.online && needed.iter().any(|storage| !host.storages.contains_key(*storage))
    });
    join_all(lacking.map(|(name, host)| async move {
        // Where it cannot be asked, the storage stays unseen, which the planner says.
        for row in proxmox.storages(name).await.unwrap_or_default() {
            if !row.enabled && needed.contains(&row.storage) {
                let view = StorageView {
                    kind: row.kind,
                    content: row.content.into_iter().collect(),
                    disabled: true,
                    shared: row.shared,
                    ..StorageView::default()
                };
                host.storages.entry(row.storage).or_insert(view);
            }
        }
    }))
    .await;
}
