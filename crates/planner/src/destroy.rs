//! `plan_destroy`: remove every VM and config medium of the cluster; images stay.

use std::collections::{HashMap, HashSet};

use daedal_inventory::Cluster;

use crate::capacity::{Rooms, by_host};
use crate::error::PlanError;
use crate::fix::{Command, Fix};
use crate::graph::{Graph, Subject};
use crate::plan::{Action, Fate, Impact, Level, Plan, PlannedNode, Purpose, Quorum, StepId};
use crate::survey::{Notes, Survey, claims, full_name, look_alike};
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
        let obstacle = obstacle(guest, declared.map(|node| node.vmid), world);
        let medium = guest.config.as_ref().and_then(|config| config.media.as_deref());
        let place = medium.map(|volid| volumes.place(&guest.host, volid));
        let member = match world.nodes.get(name) {
            Some(view) => view.etcd == EtcdView::Member,
            None => world.members.iter().any(|member| member.name == name && !member.learner),
        };
        quorum.before += u32::from(member);
        let fate = match obstacle {
            Some((text, fix)) => {
                notes.problem(name, text, fix);
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
    let plan = Plan::empty(Purpose::Destroy, cluster, world);
    Ok(Plan { nodes, steps, hosts, quorum, notes, without_secrets, ..plan })
}

/// Names the nodes that several guests claim to be.
fn contested(claims: &HashMap<&str, Vec<&GuestView>>, notes: &mut Notes) {
    for (node, guests) in claims.iter().filter(|(_, guests)| guests.len() > 1) {
        let all: Vec<String> = guests.iter().map(|guest| full_name(guest)).collect();
        let text = format!("{} all claim to be this node. None of them is touched.", all.join(" and "));
        notes.problem(*node, text, None);
    }
    notes.0.sort_by(|a, b| a.about.as_str().cmp(b.about.as_str()));
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

/// Why a VM of ours cannot be destroyed, and what would help.
pub(crate) fn obstacle(
    guest: &GuestView,
    declared_vmid: Option<u32>,
    world: &World,
) -> Option<(String, Option<Fix>)> {
    let who = full_name(guest);
    if let Some(vmid) = declared_vmid.filter(|vmid| *vmid != guest.vmid) {
        let fix = format!("set `vmid: {}` for it in the inventory", guest.vmid);
        return Some((
            format!("{who} is this node, but the inventory says VMID {vmid}. It is not touched."),
            Some(fix.into()),
        ));
    }
    if world.hosts.get(&guest.host).is_some_and(|host| !host.online) {
        return Some((
            format!("{who} stays: its host is offline."),
            Some(format!("bring {} back", guest.host).into()),
        ));
    }
    if let Some(text) = strangers(guest, world) {
        return Some((text, None));
    }
    match &guest.ownership {
        Ownership::HalfMade { task_running: true, .. } => None,
        Ownership::HalfMade { .. } => {
            let (text, fix) = guest.died_half_way();
            Some((format!("{text}."), Some(fix.into())))
        }
        _ if guest.template => Some((format!("{who} was turned into a template. It is not touched."), None)),
        // What we set ourselves is taken off by the step.
        _ if guest.config.as_ref().is_some_and(|config| config.is_protected() && !config.protected_by_us) => {
            Some((
                format!("{who} is protected against removal in Proxmox. It is not touched."),
                Some(format!("on {}: qm set {} --protection 0", guest.host, guest.vmid).into()),
            ))
        }
        _ => guest.lock.as_ref().map(|lock| {
            let text = format!("{who} is locked ({lock}) and cannot be destroyed now.");
            (text, Some("run again when the lock is gone".into()))
        }),
    }
}

/// Why a VM is not taken for ours although its mark, which names no secrets, says so: what answers there knows others.
fn strangers(guest: &GuestView, world: &World) -> Option<String> {
    let Ownership::Ours { node, .. } = &guest.ownership else { return None };
    let unsigned = guest.config.as_ref().is_some_and(|config| config.unsigned);
    let other = world.nodes.get(node).is_some_and(|view| view.talos == TalosView::OtherCluster);
    (unsigned && other).then(|| {
        format!(
            "{} has an old mark, which names no secrets, and what answers at its address does not know those of this \
             store: it may be somebody else's. It is not touched.",
            full_name(guest)
        )
    })
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
        if volume.content != "iso" || in_use.contains(&place) {
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
    let again = || Some(Fix::from("run destroy again when it can be seen"));
    for host in &world.unlisted_hosts {
        let text = "Its guests could not be listed: VMs of this cluster may be left there.";
        notes.problem(format!("host {host}"), text, again());
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
                let why = &unobserved.why;
                let text = format!(
                    "Could not be seen: {why}. Config media with keys of this cluster may be left there."
                );
                notes.problem(what.to_string(), text, again());
            }
            _ => notes.unobserved(unobserved),
        }
    }
    for host in cluster.proxmox.hosts.iter().filter(|_| !shared) {
        if world.hosts.get(&host.name).is_some_and(|seen| !seen.online) {
            let text = "The host is offline: config media with keys of this cluster may be left there.";
            notes.problem(Aspect::storage_on(storage, &host.name).to_string(), text, again());
        }
    }
}

/// What is said of a guest that is not destroyed: a problem where it may be of this cluster.
fn untouched_guest(cluster: &Cluster, guest: &GuestView, on_our_vmid: bool, notes: &mut Notes) {
    let who = full_name(guest);
    match &guest.ownership {
        Ownership::Foreign if on_our_vmid => {
            notes.info(who, "Has one of our VMIDs but is not ours. It is not touched.");
        }
        Ownership::LookAlike { why, likeness: likeness @ Likeness::OtherMark } if !on_our_vmid => {
            notes.warning(who, look_alike(why, *likeness));
        }
        Ownership::LookAlike { why, likeness } => {
            notes.problem(who, look_alike(why, *likeness), look_alike_fix(cluster, guest, *likeness));
        }
        Ownership::Template { dead: true, .. } => {
            let (text, fix) = guest.died_half_way();
            notes.add(Level::Warning, who, format!("{text}."), Some(fix.into()));
        }
        Ownership::Template { .. } if !guest.template => {
            let (level, runs) = match guest.running {
                true => (Level::Problem, " It runs."),
                false => (Level::Warning, ""),
            };
            let text = format!("It is an incomplete template of this cluster, and stays.{runs}");
            let prune = Command::TemplatesPrune { all: false, protected: false };
            notes.add(level, who, text, Some(Fix::from("to destroy it: ").run(prune)));
        }
        Ownership::Unreadable { why } if on_our_vmid => {
            notes.problem(who, format!("Its config could not be read: {why}. It is not touched."), None);
        }
        _ => {}
    }
}

/// What to do about a guest that has something of this cluster and is not proven to be its own.
fn look_alike_fix(cluster: &Cluster, guest: &GuestView, likeness: Likeness) -> Option<Fix> {
    match likeness {
        Likeness::LostMark => {
            let node = cluster.nodes.iter().find(|node| node.vmid == guest.vmid)?;
            let fix = Fix::from(format!("if it is {}, give it its mark back: ", node.name));
            Some(fix.run(Command::NodeMark(node.name.clone())).words(", then run again"))
        }
        Likeness::OtherSecrets => {
            Some("run destroy with the store that has its secrets (--state DIR)".into())
        }
        Likeness::Copy | Likeness::OtherMark => Some(Fix::from(format!(
            "look at `qm config {}` on {}; if it is to stay, remove the `daedal-mark` line from its notes and the tag \
             daedal-{}, and give it another SMBIOS uuid",
            guest.vmid, guest.host, cluster.name
        ))),
    }
}
