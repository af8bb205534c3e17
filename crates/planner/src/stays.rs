//! What outlives a cluster that is destroyed, because destroy does not take it away.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::Cluster;
use serde::Serialize;

use crate::advice::Advice;
use crate::guard;
use crate::guards;
use crate::names::{self, Images};
use crate::survey::Notes;
use crate::world::{Aspect, GuestView, ObjectKind, Objects, Ownership, World, object_has};

/// What outlives a cluster, as far as it could be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Staying {
    /// VMIDs of its templates, but for those whose create died.
    pub templates: Vec<u32>,
    /// Volume ids of the disk images and boot ISOs that its nodes boot from, each with the hosts that have it.
    pub images: BTreeMap<String, BTreeSet<String>>,
    /// What Proxmox keeps to guard its VMs, put there on request.
    pub guards: Vec<StayingGuard>,
    /// Whether its secrets are in the store.
    pub secrets: bool,
    /// Where nobody could look for more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// An object that Proxmox keeps to guard VMs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StayingGuard {
    /// Of which kind.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// Whether it names a VM of somebody else, so that no command of ours removes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub theirs: bool,
}

/// What outlives the cluster.
pub fn staying(cluster: &Cluster, images: &Images, world: &World) -> Staying {
    let storage = &cluster.proxmox.images_storage;
    let declared: BTreeSet<String> = images.all().map(|image| image.volid(storage)).collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for volume in world.volumes.iter().filter(|volume| declared.contains(&volume.volid)) {
        found.entry(volume.volid.clone()).or_default().insert(volume.host.clone());
    }
    Staying {
        templates: templates(world).map(|guest| guest.vmid).collect(),
        images: found,
        guards: guards(cluster, world),
        secrets: world.secrets_stored,
        unseen: unseen(world),
    }
}

/// The objects that carry this cluster's name and comment.
fn guards(cluster: &Cluster, world: &World) -> Vec<StayingGuard> {
    let mut found = Vec::new();
    let mut look = |kind, objects: &Objects, comment: &str, is_named: &dyn Fn(&str) -> bool| {
        let ours = objects.iter().filter(|(id, there)| is_named(id) && object_has(there, "comment", comment));
        found.extend(ours.map(|(id, there)| {
            let mut vmids = guard::named(there).into_iter().chain(guards::ha_managed(id));
            let theirs = vmids.any(|vmid| guard::is_theirs(cluster, world, vmid));
            StayingGuard { kind, id: id.clone(), theirs }
        }));
    };
    if let Some(view) = &world.availability {
        let comment = guards::ha_comment(cluster);
        let (rule, group) = (guards::ha_rule(cluster), format!("daedal-{}-", cluster.name));
        match view.rules {
            true => look(ObjectKind::HaRule, &view.apart, &comment, &|id| id == rule),
            false => look(ObjectKind::HaGroup, &view.apart, &comment, &|id| id.starts_with(&group)),
        }
        look(ObjectKind::HaResource, &view.resources, &comment, &|id| id.starts_with("vm:"));
    }
    if let Some(view) = &world.backups {
        let job = guards::backup_job(cluster);
        look(ObjectKind::BackupJob, &view.jobs, &guards::backup_comment(cluster), &|id| id == job);
    }
    found
}

/// What could not be read although it may be there.
fn unseen(world: &World) -> Vec<String> {
    let guards = |what: &&Aspect| matches!(what, Aspect::HighAvailability | Aspect::BackupJobs);
    world
        .unobserved
        .iter()
        .map(|unobserved| &unobserved.what)
        .filter(guards)
        .map(ToString::to_string)
        .collect()
}

/// The notes of a plan to destroy about it.
pub(crate) fn notes(world: &World, notes: &mut Notes) {
    let complete = templates(world).filter(|guest| guest.template);
    let vmids: Vec<u32> = complete.map(|guest| guest.vmid).collect();
    if !vmids.is_empty() {
        notes.info(Advice::TemplatesStay { vmids });
    }
    let pinned: BTreeSet<&str> = world.image_pins.iter().map(|pin| pin.file.as_str()).collect();
    if world.volumes.iter().any(|volume| pinned.contains(names::volid_file(&volume.volid))) {
        notes.info(Advice::ImagesStay {});
    }
}

/// The templates of this cluster that can be destroyed, complete or not.
fn templates(world: &World) -> impl Iterator<Item = &GuestView> {
    let is_template = |guest: &&GuestView| matches!(guest.ownership, Ownership::Template { dead: false, .. });
    world.guests.values().filter(is_template)
}
