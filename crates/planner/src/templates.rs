//! The templates that a cluster has made: which there are, and whether they are of use.

use daedal_inventory::{Cluster, Role};
use serde::Serialize;

use crate::advice::Died;
use crate::digest::template_digest;
use crate::names::Images;
use crate::world::{GuestView, Ownership, World};

/// A template of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRow {
    /// VMID.
    pub vmid: u32,
    /// Host.
    pub host: String,
    /// Name, which tells version and schematic.
    pub name: String,
    /// The role whose nodes are cloned from it.
    pub role: Role,
    /// Whether it is declared, complete, and made of what is declared now.
    pub current: bool,
    /// Whether it became a template; not while it is made, or where that was interrupted.
    pub complete: bool,
    /// Whether it runs, as one does while an ISO installs it.
    pub running: bool,
    /// Our VMs whose disks are linked to it.
    pub linked: Vec<String>,
    /// How it is stuck, where the task that creates it died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died: Option<Died>,
    /// What its mark says that it was made of.
    #[serde(skip)]
    pub digest: String,
}

/// The templates with this cluster's mark, by VMID, wherever they are.
pub fn templates(cluster: &Cluster, images: &Images, world: &World) -> Vec<TemplateRow> {
    let row = |guest: &GuestView| {
        let Ownership::Template { role, digest, .. } = &guest.ownership else { return None };
        let declared = cluster
            .templates()
            .any(|(vmid, of, at)| (vmid, of, at.name.as_str()) == (guest.vmid, *role, guest.host.as_str()));
        let wanted = images.shared.as_ref().map(|image| template_digest(cluster, *role, &image.file));
        let linked = world
            .guests
            .values()
            .filter(|other| other.config.as_ref().is_some_and(|config| config.base == Some(guest.vmid)));
        Some(TemplateRow {
            vmid: guest.vmid,
            host: guest.host.clone(),
            name: guest.name.clone(),
            role: *role,
            current: declared && guest.template && wanted.as_ref() == Some(digest),
            complete: guest.template,
            running: guest.running,
            linked: linked.map(|other| other.name.clone()).collect(),
            died: guest.is_dead_template().then(|| guest.died()),
            digest: digest.clone(),
        })
    };
    world.guests.values().filter_map(row).collect()
}
