//! What a plan relies on in the world, as one digest. Left out is what changes by itself all the time, such as the free
//! bytes of a storage or other people's guests: room is proved anew whenever a plan is made.

use std::collections::HashSet;

use daedal_addons::ObjectId;
use daedal_inventory::Cluster;
use daedal_machine::vm::Options;
use serde::Serialize;

use crate::digest;
use crate::mark::SecretsId;
use crate::names;
use crate::world::{
    AddonsView, ConfigView, DryRun, EtcdView, GuestView, ImagePin, NodeView, ObjectState, Ownership,
    TalosView, VmConfig, World,
};

#[derive(Serialize)]
struct Basis<'w> {
    guests: Vec<Guest<'w>>,
    nodes: Vec<(&'w str, &'static str, &'w EtcdView, Option<bool>, MachineConfig<'w>)>,
    /// Members of etcd that do not serve or do not vote: they decide who may be interrupted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    silent: Vec<&'w str>,
    volumes: Vec<(&'w str, &'w str, u64)>,
    online: Vec<&'w str>,
    unlisted: Vec<&'w str>,
    secrets_stored: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<&'w SecretsId>,
    image_pins: &'w [ImagePin],
    endpoint_answers: bool,
    outputs_current: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    addons: Option<Addons<'w>>,
}

/// An object of an add-on: what it is called, the digest of what it is to be, and what it is.
type Seen<'w> = (&'w ObjectId, &'w str, &'w ObjectState);

/// What is in the cluster of add-ons, but for how ready it is.
#[derive(Serialize)]
struct Addons<'w> {
    told: bool,
    declared: Vec<(&'w str, Vec<Seen<'w>>, &'w [ObjectId], bool)>,
    former: Vec<(&'w str, &'w [ObjectId])>,
}

fn addons(view: &AddonsView) -> Addons<'_> {
    let declared = view.declared.iter().map(|(name, view)| {
        let objects = view.objects.iter().map(|one| (&one.id, one.digest.as_str(), &one.state));
        (name.as_str(), objects.collect(), &view.extra[..], view.owner.is_some())
    });
    let former = view.former.iter().map(|(name, view)| (name.as_str(), &view.objects[..]));
    Addons { told: view.told, declared: declared.collect(), former: former.collect() }
}

#[derive(Serialize)]
struct Guest<'w> {
    vmid: u32,
    host: &'w str,
    running: bool,
    template: bool,
    lock: &'w Option<String>,
    ownership: &'w Ownership,
    config: Option<Config<'w>>,
}

/// A VM's config without Proxmox's own digest of it, which changes with things we do not compare.
#[derive(Serialize)]
struct Config<'w> {
    options: &'w Options,
    disk: u64,
    media: Option<&'w str>,
    iso: Option<&'w str>,
    base: Option<u32>,
    waiting: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unsigned: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    protected_by_us: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<&'w VmConfig>,
}

/// Digest of what a plan for this cluster relies on.
pub(crate) fn basis(cluster: &Cluster, world: &World) -> String {
    let templates = cluster.templates().map(|(vmid, ..)| vmid);
    let vmids: HashSet<u32> = cluster.nodes.iter().map(|node| node.vmid).chain(templates).collect();
    let concerns = |guest: &&GuestView| vmids.contains(&guest.vmid) || guest.ownership != Ownership::Foreign;
    let mut volumes: Vec<_> = world
        .volumes
        .iter()
        .filter(|volume| {
            volume.content == "import"
                || names::is_boot_iso(cluster, &volume.volid)
                || names::media_node(cluster, names::volid_file(&volume.volid)).is_some()
        })
        .map(|volume| (volume.host.as_str(), volume.volid.as_str(), volume.size))
        .collect();
    volumes.sort_unstable();
    let silent = world.members.iter().filter(|member| member.learner || !member.serves);
    digest::of(&Basis {
        guests: world.guests.values().filter(concerns).map(guest).collect(),
        nodes: world
            .nodes
            .iter()
            .map(|(name, view)| (name.as_str(), talos(view), &view.etcd, view.ready, config(view)))
            .collect(),
        silent: silent.map(|member| member.id.as_str()).collect(),
        volumes,
        online: world.hosts.iter().filter(|(_, host)| host.online).map(|(name, _)| name.as_str()).collect(),
        unlisted: world.unlisted_hosts.iter().map(String::as_str).collect(),
        secrets_stored: world.secrets_stored,
        secrets: world.secrets_id.as_ref(),
        image_pins: &world.image_pins,
        endpoint_answers: world.endpoint_answers,
        outputs_current: world.outputs_current,
        addons: world.addons.as_ref().map(addons),
    })
}

fn guest(guest: &GuestView) -> Guest<'_> {
    let config = guest.config.as_ref().map(|config| {
        let VmConfig { options, disk, media, iso, base, waiting, unsigned, protected_by_us, runs, .. } =
            config;
        Config {
            options,
            disk: *disk,
            media: media.as_deref(),
            iso: iso.as_deref(),
            base: *base,
            waiting: *waiting,
            unsigned: *unsigned,
            protected_by_us: *protected_by_us,
            runs: runs.as_deref(),
        }
    });
    let GuestView { vmid, host, running, template, lock, ownership, .. } = guest;
    Guest { vmid: *vmid, host, running: *running, template: *template, lock, ownership, config }
}

/// The config a node runs on, where it is not the declared one.
#[derive(Serialize)]
#[serde(untagged)]
enum MachineConfig<'w> {
    Plain(&'w str),
    Kept { running: &'w str, answer: &'w DryRun },
    NotMade { talos: &'w str, why: &'w str },
}

fn config(view: &NodeView) -> MachineConfig<'_> {
    match &view.config {
        ConfigView::Unknown => MachineConfig::Plain("unknown"),
        ConfigView::AsDeclared => MachineConfig::Plain("as declared"),
        ConfigView::Differs(difference) => {
            let running = &difference.running.digest;
            match &difference.answer {
                DryRun::Accepted { .. } => MachineConfig::Plain(running),
                answer => MachineConfig::Kept { running, answer },
            }
        }
        ConfigView::NotMade { talos, why } => MachineConfig::NotMade { talos, why },
    }
}

/// Version and stage come and go while a node boots; only the kind of answer counts.
fn talos(view: &NodeView) -> &'static str {
    match view.talos {
        TalosView::Unreachable => "unreachable",
        TalosView::Maintenance => "maintenance",
        TalosView::Configured { .. } => "configured",
        TalosView::OtherCluster => "other cluster",
    }
}
