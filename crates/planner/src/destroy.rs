//! `plan_destroy`: remove every VM and config medium of the cluster; images stay.

use std::collections::{HashMap, HashSet};

use daedal_inventory::Cluster;

use crate::advice::{Advice, GuestName, MediaHidden, UnlistedRisk};
use crate::capacity::{Rooms, by_host};
use crate::error::PlanError;
use crate::graph::{Graph, Subject};
use crate::plan::{Action, Fate, Impact, Level, Plan, PlannedNode, Purpose, Quorum, StepId};
use crate::survey::{Notes, Survey, claims, full_name};
use crate::volumes::{Place, Volumes};
use crate::world::{Aspect, EtcdView, GuestView, Likeness, Ownership, TalosView, World};
use crate::{names, stays};

/// Plans the end of the cluster: every VM that is ours, wherever it is, also of nodes no longer declared; and every
/// config medium. Never anything under `protect: true`, and nothing without the secrets that prove it to be ours.
pub fn plan_destroy(cluster: &Cluster, world: &World) -> Result<Plan, PlanError> {
    if !cluster.protect {
        proven(cluster, world)?;
    }
    plan(cluster, world, false)
}

/// Plans the same without that proof, for somebody who lost the secrets, looked at the VMs and said how many they are.
pub fn plan_destroy_without_secrets(cluster: &Cluster, world: &World) -> Result<Plan, PlanError> {
    plan(cluster, world, true)
}

fn plan(cluster: &Cluster, world: &World, without_secrets: bool) -> Result<Plan, PlanError> {
    if cluster.protect {
        return Err(PlanError::Protected { cluster: cluster.name.clone() });
    }
    let survey = Survey::new(cluster, world);
    let before = Rooms::count(cluster, world, &survey);
    let mut rooms = before.clone();
    let volumes = Volumes::new(cluster, world);
    let (mut graph, mut notes) = (Graph::default(), Notes::default());
    let claims = claims(world);
    let order: HashMap<&str, usize> =
        cluster.nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let mut doomed: Vec<(&str, &GuestView)> = claims
        .iter()
        .filter_map(|(node, guests)| match guests[..] {
            [guest] => Some((*node, guest)),
            _ => None,
        })
        .collect();
    doomed.sort_by_key(|(node, guest)| (order.get(node).copied().unwrap_or(usize::MAX), guest.vmid));
    contested(&claims, &mut notes);

    let mut nodes = Vec::new();
    let mut used_by: HashMap<Place, StepId> = HashMap::new();
    let mut in_use: HashSet<Place> = HashSet::new();
    let mut quorum = Quorum::default();
    for (name, guest) in doomed {
        let declared = order.get(name).and_then(|at| cluster.nodes.get(*at));
        let obstacle = obstacle(name, guest, declared.map(|node| node.vmid), world);
        let medium = guest.config.as_ref().and_then(|config| config.media.as_deref());
        let place = medium.map(|volid| volumes.place(&guest.host, volid));
        let member = match world.nodes.get(name) {
            Some(view) => view.etcd == EtcdView::Member,
            None => world.members.iter().any(|member| member.name == name && !member.learner),
        };
        quorum.before += u32::from(member);
        let fate = match obstacle {
            Some(advice) => {
                notes.problem(advice);
                in_use.extend(place);
                quorum.after += u32::from(member);
                Fate::Blocked
            }
            None => {
                let gone = destroy(name, guest, &mut graph);
                used_by.extend(place.map(|place| (place, gone)));
                rooms.release(guest);
                Fate::Destroy
            }
        };
        nodes.push(PlannedNode {
            name: name.to_owned(),
            role: declared.map(|node| node.role),
            vmid: guest.vmid,
            host: Some(guest.host.clone()),
            address: declared
                .and_then(|node| world.address(node))
                .map(|address| address.to_string())
                .unwrap_or_default(),
            cores: guest.cores,
            memory: guest.memory,
            disk: guest.system_disk(),
            fate,
        });
    }
    quorum.lowest = quorum.after;
    let used = Used { by: &used_by, anyhow: &in_use };
    media(cluster, &volumes, world, used, &order, without_secrets, &mut graph);
    untouched(cluster, world, &mut notes);
    stays::notes(world, &mut notes);

    let staying = nodes.iter().filter(|node| node.fate == Fate::Blocked);
    let hosts = rooms.budgets(&before, &by_host(staying));
    let (steps, notes) = (graph.steps, notes.sorted());
    let not_seen: Vec<String> = unseen(world).collect();
    let plan = Plan::empty(Purpose::Destroy, cluster, world);
    let unseen = !not_seen.is_empty();
    Ok(Plan { nodes, steps, hosts, quorum, notes, without_secrets, unseen, not_seen, ..plan })
}

/// Names the nodes that several guests claim to be.
fn contested(claims: &HashMap<&str, Vec<&GuestView>>, notes: &mut Notes) {
    let mut several: Vec<_> = claims.iter().filter(|(_, guests)| guests.len() > 1).collect();
    several.sort_by_key(|(node, _)| **node);
    for (node, guests) in several {
        let guests = guests.iter().map(|guest| GuestName::from(*guest)).collect();
        notes.problem(Advice::SeveralClaim { node: (*node).to_owned(), guests, for_apply: false });
    }
}

/// Refuses where VMs have this cluster's mark and no secrets prove that they are this store's.
pub(crate) fn proven(cluster: &Cluster, world: &World) -> Result<(), PlanError> {
    let claims = claims(world);
    let mut vms: Vec<&GuestView> = claims.values().flatten().copied().collect();
    if world.secrets_stored || vms.is_empty() {
        return Ok(());
    }
    vms.sort_by_key(|guest| guest.vmid);
    let vms = vms.into_iter().map(full_name).collect();
    Err(PlanError::Unproven { cluster: cluster.name.clone(), vms })
}

/// Why a VM of ours cannot be destroyed.
pub(crate) fn obstacle(
    node: &str,
    guest: &GuestView,
    declared_vmid: Option<u32>,
    world: &World,
) -> Option<Advice> {
    let (node, vm) = (node.to_owned(), GuestName::from(guest));
    if let Some(declared) = declared_vmid.filter(|vmid| *vmid != guest.vmid) {
        return Some(Advice::OtherVmid { node, guest: vm, declared });
    }
    if world.hosts.get(&guest.host).is_some_and(|host| !host.online) {
        return Some(Advice::HostOffline { node, guest: vm, leaving: true });
    }
    if strangers(guest, world) {
        return Some(Advice::MarkNotProven { node, guest: vm });
    }
    match &guest.ownership {
        Ownership::HalfMade { task_running: true, .. } => None,
        Ownership::HalfMade { .. } => Some(Advice::DiedHalfWay { node, died: guest.died(), goes_on: false }),
        _ if guest.template => Some(Advice::TurnedIntoTemplate { node, guest: vm }),
        // What we set ourselves is taken off by the step.
        _ if guest.config.as_ref().is_some_and(|config| config.is_protected() && !config.protected_by_us) => {
            Some(Advice::VmProtected { node, guest: vm })
        }
        _ => guest.lock.clone().map(|lock| Advice::CannotDestroyLocked { node, guest: vm, lock }),
    }
}

/// Whether a VM is not taken for ours although its mark, which names no secrets, says so: what answers there knows others.
fn strangers(guest: &GuestView, world: &World) -> bool {
    let Ownership::Ours { node, .. } = &guest.ownership else { return false };
    let unsigned = guest.config.as_ref().is_some_and(|config| config.unsigned);
    unsigned && world.nodes.get(node).is_some_and(|view| view.talos == TalosView::OtherCluster)
}

fn destroy(node: &str, guest: &GuestView, graph: &mut Graph) -> StepId {
    let subject = Subject { node: Some(node), host: Some(&guest.host) };
    let vmid = guest.vmid;
    let ready = match &guest.ownership {
        Ownership::HalfMade { upid, .. } => {
            let action = Action::AwaitCreate { vmid, upid: upid.clone() };
            Some(graph.add(subject, action, "it is still being created", []))
        }
        _ if guest.running => {
            let action = Action::StopVm { vmid };
            Some(graph.add_with(subject, action, "hard, without asking the guest", [], Impact::Restart))
        }
        _ => None,
    };
    let reason = "with its disks; its data is lost";
    graph.add_with(subject, Action::DestroyVm { vmid }, reason, [ready], Impact::Destroy)
}

/// Where config media are in drives.
#[derive(Clone, Copy)]
struct Used<'a> {
    /// Of VMs that go, and the step after which they are gone.
    by: &'a HashMap<Place, StepId>,
    /// Of VMs that stay.
    anyhow: &'a HashSet<Place>,
}

/// Every config medium of this cluster, once the VM that has it in its drive is gone.
fn media(
    cluster: &Cluster,
    volumes: &Volumes<'_>,
    world: &World,
    used: Used<'_>,
    order: &HashMap<&str, usize>,
    without_secrets: bool,
    graph: &mut Graph,
) {
    // Foreign guests and look-alikes may have one in their drive, too.
    let mut in_use = used.anyhow.clone();
    for guest in world.guests.values() {
        let ours = matches!(guest.ownership, Ownership::Ours { .. } | Ownership::HalfMade { .. });
        if let Some(volid) =
            guest.config.as_ref().and_then(|config| config.media.as_deref()).filter(|_| !ours)
        {
            in_use.insert(volumes.place(&guest.host, volid));
        }
    }
    // A VM that is just being created names its medium only when it is done.
    let creating: HashMap<&str, StepId> = graph
        .steps
        .iter()
        .filter(|step| matches!(step.action, Action::DestroyVm { .. }))
        .filter_map(|step| Some((step.node.as_deref()?, step.id)))
        .map(|(node, id)| (order.get_key_value(node).map_or("", |(name, _)| *name), id))
        .collect();
    for volume in volumes.all() {
        let file = names::volid_file(&volume.volid);
        let node = match without_secrets {
            true => names::media_node(cluster, file),
            false => names::own_media_node(cluster, world.secrets_id.as_ref(), file),
        };
        let Some(node) = node else { continue };
        let place = volumes.place(&volume.host, &volume.volid);
        if !names::may_be_medium(&volume.content) || in_use.contains(&place) {
            continue;
        }
        let needs = [used.by.get(&place).copied(), creating.get(node).copied()];
        let subject = Subject { node: order.contains_key(node).then_some(node), host: Some(&volume.host) };
        let action = Action::DeleteMedia { volid: volume.volid.clone() };
        graph.add(subject, action, "it holds keys", needs);
    }
}

/// Guests that stay although they may be of this cluster, and whatever else could not be seen to be gone: to call the cluster gone
/// would be untrue.
fn untouched(cluster: &Cluster, world: &World, notes: &mut Notes) {
    let templates = cluster.templates().map(|(vmid, ..)| vmid);
    let vmids: HashSet<u32> = cluster.nodes.iter().map(|node| node.vmid).chain(templates).collect();
    for guest in world.guests.values() {
        untouched_guest(cluster, guest, vmids.contains(&guest.vmid), notes);
    }
    for host in world.unlisted_hosts.iter().cloned() {
        notes.problem(Advice::HostUnlisted { host, risk: UnlistedRisk::Vms });
    }
    let storage = &cluster.proxmox.images_storage;
    let shared = world.hosts.values().any(|host| host.storages.get(storage).is_some_and(|seen| seen.shared));
    // Of shared storage, one host that answers tells all.
    let told = shared && world.volumes.iter().any(|volume| volume.storage == *storage);
    for unobserved in &world.unobserved {
        match &unobserved.what {
            what @ Aspect::Storage { storage: unseen, host }
                if unseen == storage && (host.is_none() || !told) =>
            {
                let hidden = MediaHidden::Unlisted { why: unobserved.why.clone() };
                notes.problem(Advice::MediaMayBeLeft { what: what.clone(), hidden });
            }
            // Of these, a problem is noted already, without the reason.
            Aspect::Guests(host) if world.unlisted_hosts.contains(host) => notes.unobserved(unobserved),
            Aspect::Vm { vmid, .. } if is_unreadable(world, *vmid) => {}
            what if what.hides_guests() => {
                let (what, why, fix) = (what.clone(), unobserved.why.clone(), unobserved.fix.clone());
                notes.problem(Advice::VmsMayBeLeft { what, why, fix });
            }
            // No destroy takes these away, and many tokens may not read them: they are named among what stays.
            Aspect::HighAvailability | Aspect::BackupJobs => {}
            _ => notes.unobserved(unobserved),
        }
    }
    for host in cluster.proxmox.hosts.iter().filter(|_| !shared) {
        if world.hosts.get(&host.name).is_some_and(|seen| !seen.online) {
            let what = Aspect::storage_on(storage, &host.name);
            notes.problem(Advice::MediaMayBeLeft { what, hidden: MediaHidden::Offline });
        }
    }
}

/// What could not be seen and may hold something of a cluster.
fn unseen(world: &World) -> impl Iterator<Item = String> {
    let hides =
        |what: &&Aspect| what.hides_guests() || what.hides_disks() || matches!(what, Aspect::Storage { .. });
    world.unobserved.iter().map(|unobserved| &unobserved.what).filter(hides).map(ToString::to_string)
}

fn is_unreadable(world: &World, vmid: u32) -> bool {
    let guest = world.guests.get(&vmid);
    guest.is_some_and(|guest| matches!(guest.ownership, Ownership::Unreadable { .. }))
}

/// What is said of a guest that is not destroyed: a problem where it may be of this cluster.
fn untouched_guest(cluster: &Cluster, guest: &GuestView, on_our_vmid: bool, notes: &mut Notes) {
    let vm = GuestName::from(guest);
    match &guest.ownership {
        Ownership::Foreign if on_our_vmid => notes.info(Advice::ForeignGuest { guest: vm }),
        Ownership::LookAlike { why, likeness: likeness @ Likeness::OtherMark } if !on_our_vmid => {
            notes.warning(Advice::LookAlike { guest: vm, why: why.clone(), likeness: *likeness });
        }
        Ownership::LookAlike { why, likeness } => {
            let node =
                cluster.nodes.iter().find(|node| node.vmid == guest.vmid).map(|node| node.name.clone());
            let (why, likeness, cluster) = (why.clone(), *likeness, cluster.name.clone());
            notes.problem(Advice::LookAlikeStays { guest: vm, why, likeness, cluster, node });
        }
        Ownership::Template { dead: true, .. } => {
            notes.problem(Advice::TemplateDied { died: guest.died(), cloning: false });
        }
        Ownership::Template { .. } if !guest.template => {
            let level = if guest.running { Level::Problem } else { Level::Warning };
            notes.add(level, Advice::IncompleteTemplate { guest: vm, running: guest.running });
        }
        Ownership::Unreadable { why } => {
            notes.problem(Advice::GuestUnreadable { guest: vm, why: why.clone() });
        }
        _ => {}
    }
}
