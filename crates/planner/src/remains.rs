//! What a look finds of a node that was taken out.

use daedal_inventory::{Cluster, Role};
use serde::Serialize;

use crate::doubtful::may_be;
use crate::names;
use crate::survey::{claims, full_name};
use crate::world::{Aspect, World};

/// What is left of a node, and where nobody could look whether something is. It is gone where both are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remains {
    /// What is there.
    pub found: Vec<String>,
    /// What could not be seen.
    pub unseen: Vec<String>,
}

impl Remains {
    /// Whether everything was looked at and nothing was found.
    pub fn is_gone(&self) -> bool {
        self.found.is_empty() && self.unseen.is_empty()
    }
}

/// What is left in the world of a node that is no longer declared; its role, where that was known before it went.
pub fn remains(cluster: &Cluster, world: &World, node: &str, role: Option<Role>) -> Remains {
    let mut all = Remains::default();
    let mut guests = claims(world).remove(node).unwrap_or_default();
    guests.extend(may_be(cluster, world, node));
    let found: Vec<u32> = guests.iter().map(|guest| guest.vmid).collect();
    all.found.extend(guests.into_iter().map(full_name));
    if world.members.iter().any(|member| member.name == node) {
        all.found.push("its member of etcd".to_owned());
    }
    if world.former.get(node).is_some_and(|former| former.ready.is_some()) {
        all.found.push("its node in Kubernetes".to_owned());
    }
    let secrets = world.secrets_id.as_ref();
    let is_medium =
        |volid: &str| names::own_media_node(cluster, secrets, names::volid_file(volid)) == Some(node);
    let media = world
        .volumes
        .iter()
        .filter(|volume| names::may_be_medium(&volume.content) && is_medium(&volume.volid));
    all.found.extend(media.map(|volume| format!("{} on {}", volume.volid, volume.host)));

    all.unseen.extend(world.unlisted_hosts.iter().map(|host| Aspect::Guests(host.clone()).to_string()));
    for what in world.unobserved.iter().map(|unobserved| &unobserved.what).filter(|what| what.hides_guests())
    {
        let is_found = matches!(what, Aspect::Vm { vmid, .. } if found.contains(vmid));
        let name = what.to_string();
        if !is_found && !all.unseen.contains(&name) {
            all.unseen.push(name);
        }
    }
    if world.members.is_empty() && role != Some(Role::Worker) {
        all.unseen.push(Aspect::Etcd.to_string());
    }
    if !world.kubernetes_told {
        all.unseen.push(Aspect::Kubernetes.to_string());
    }
    let images = |what: &Aspect| matches!(what, Aspect::Storage { storage, .. } if *storage == cluster.proxmox.images_storage);
    let storages = world.unobserved.iter().filter(|unobserved| images(&unobserved.what));
    all.unseen.extend(storages.map(|unobserved| unobserved.what.to_string()));
    all
}
