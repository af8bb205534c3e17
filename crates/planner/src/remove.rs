//! `plan_remove`: nodes that the inventory no longer names leave etcd and Kubernetes, and their VMs go.
//!
//! The VM goes last: as long as it is there it carries its mark, and a run that was cut short finds what is left to do.

use std::collections::{HashMap, HashSet};

use daedal_inventory::{Cluster, Role};

use crate::advice::{Advice, GuestName, NotEvicted};
use crate::capacity::Rooms;
use crate::destroy::{obstacle, proven};
use crate::doubtful::in_doubt;
use crate::error::PlanError;
use crate::graph::{Graph, Subject};
use crate::names;
use crate::plan::{Action, Fate, Impact, Plan, PlannedNode, Purpose, Quorum, StepId};
use crate::survey::{Notes, Survey, claims, nobodys_member};
use crate::volumes::Volumes;
use crate::world::{FormerView, GuestView, MemberView, Ownership, TalosView, World};

/// What is to be removed, and how.
#[derive(Clone, Copy, Debug)]
pub struct Removal<'a> {
    /// Names of nodes that are no longer declared.
    pub nodes: &'a [String],
    /// Whether pods are evicted before their node goes.
    pub drain: bool,
}

/// A node that goes.
struct Going<'w> {
    name: &'w str,
    guest: Option<&'w GuestView>,
    former: FormerView,
    member: Option<&'w MemberView>,
}

/// Plans the removal of nodes that are no longer declared: one after the other, each only if etcd is whole without it.
/// Never anything under `protect: true`, nor a node that is declared.
pub fn plan_remove(cluster: &Cluster, world: &World, removal: &Removal<'_>) -> Result<Plan, PlanError> {
    if cluster.protect {
        return Err(PlanError::Protected { cluster: cluster.name.clone() });
    }
    if let Some(node) = removal.nodes.iter().find(|name| cluster.node(name).is_some()) {
        return Err(PlanError::StillDeclared { cluster: cluster.name.clone(), node: node.clone() });
    }
    proven(cluster, world)?;
    let survey = Survey::new(cluster, world);
    let before = Rooms::count(cluster, world, &survey);
    let mut rooms = before.clone();
    let mut notes = Notes::default();
    let claims = claims(world);
    let mut members: Vec<&MemberView> = world.members.iter().collect();
    let voters = |members: &[&MemberView]| {
        u32::try_from(members.iter().filter(|member| !member.learner).count()).unwrap_or(u32::MAX)
    };
    let mut quorum = Quorum { before: voters(&members), ..Quorum::default() };

    let mut going: Vec<Going<'_>> = Vec::new();
    let mut blocked: Vec<Going<'_>> = Vec::new();
    let mut named = HashSet::new();
    for name in removal.nodes.iter().map(String::as_str).filter(|name| named.insert(*name)) {
        let claimants = claims.get(name).map_or(&[][..], Vec::as_slice);
        let one = Going {
            name,
            guest: claimants.first().copied(),
            former: world.former.get(name).cloned().unwrap_or_default(),
            member: members.iter().find(|member| member.name == name).copied(),
        };
        if claimants.len() > 1 {
            let guests = claimants.iter().map(|guest| GuestName::from(*guest)).collect();
            notes.problem(Advice::SeveralClaim { node: name.to_owned(), guests, for_apply: false });
            blocked.push(one);
        } else if let Some(advice) = in_the_way(cluster, world, &one, &members) {
            notes.problem(advice);
            blocked.push(one);
        } else if one.guest.is_none() && one.member.is_none() && one.former.ready.is_none() {
            let undeclared = others(&survey, world, removal);
            notes.problem(Advice::NoSuchNode { node: name.to_owned(), undeclared });
        } else {
            members.retain(|member| member.name != name);
            if let Some(known_as) = one.former.known_as.clone() {
                notes.info(Advice::KnownAs { node: name.to_owned(), known_as });
            }
            going.push(one);
        }
    }
    quorum.after = voters(&members);
    quorum.lowest = quorum.after;
    even_number(quorum, &mut notes);
    for unobserved in &world.unobserved {
        notes.unobserved(unobserved);
    }

    let mut graph = Graph::default();
    steps(cluster, world, &going, removal.drain, &mut graph, &mut notes);
    for guest in going.iter().filter_map(|one| one.guest) {
        rooms.release(guest);
    }
    let on_host = staying(&survey, &going);
    let nodes = going.iter().map(|one| planned(one, Fate::Destroy));
    let nodes = nodes.chain(blocked.iter().map(|one| planned(one, Fate::Blocked))).collect();
    let (steps, notes) = (graph.steps, notes.sorted());
    let hosts = rooms.budgets(&before, &on_host);
    Ok(Plan { nodes, steps, hosts, quorum, notes, ..Plan::empty(Purpose::Remove, cluster, world) })
}

/// Warns of a number of members that bears no more losses than one less.
fn even_number(quorum: Quorum, notes: &mut Notes) {
    if quorum.after < quorum.before && quorum.after.is_multiple_of(2) {
        notes.warning(Advice::EvenMembers { members: quorum.after });
    }
}

/// Our nodes that stay, by host.
fn staying<'w>(survey: &Survey<'w>, going: &[Going<'_>]) -> HashMap<&'w str, Vec<String>> {
    let mut on_host: HashMap<&str, Vec<String>> = HashMap::new();
    for surveyed in &survey.nodes {
        if let Some(host) = surveyed.host() {
            on_host.entry(host).or_default().push(surveyed.node.name.clone());
        }
    }
    let gone: HashSet<u32> = going.iter().filter_map(|one| Some(one.guest?.vmid)).collect();
    for guest in survey.undeclared.iter().filter(|guest| !gone.contains(&guest.vmid)) {
        if let Ownership::Ours { node, .. } = &guest.ownership {
            on_host.entry(&guest.host).or_default().push(node.clone());
        }
    }
    on_host
}

fn planned(one: &Going<'_>, fate: Fate) -> PlannedNode {
    let guest = one.guest;
    PlannedNode {
        name: one.name.to_owned(),
        role: one.former.role,
        vmid: guest.map_or(0, |guest| guest.vmid),
        host: guest.map(|guest| guest.host.clone()),
        address: one.former.address.clone().unwrap_or_default(),
        cores: guest.map_or(0, |guest| guest.cores),
        memory: guest.map_or(0, |guest| guest.memory),
        disk: guest.map_or(0, GuestView::system_disk),
        fate,
    }
}

/// What else could have been meant.
fn others(survey: &Survey<'_>, world: &World, removal: &Removal<'_>) -> Vec<String> {
    let mut names: Vec<String> = survey
        .undeclared
        .iter()
        .filter_map(|guest| match &guest.ownership {
            Ownership::Ours { node, .. } => Some(node.clone()),
            _ => None,
        })
        .chain(world.former.keys().cloned())
        .filter(|name| !removal.nodes.contains(name))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Why a node cannot go now.
fn in_the_way(cluster: &Cluster, world: &World, one: &Going<'_>, members: &[&MemberView]) -> Option<Advice> {
    let node = one.name.to_owned();
    if one.guest.is_none()
        && let Some(advice) = in_doubt(cluster, world, one.name)
    {
        return Some(advice);
    }
    match one.guest {
        None if !world.unlisted_hosts.is_empty() => {
            let hosts = world.unlisted_hosts.iter().cloned().collect();
            return Some(Advice::VmMayBeHidden { node, hosts });
        }
        Some(guest) if matches!(guest.ownership, Ownership::HalfMade { .. }) => {
            return Some(Advice::StillCreated { node, guest: guest.into() });
        }
        Some(guest) => {
            if let Some(advice) = obstacle(one.name, guest, None, world) {
                return Some(advice);
            }
        }
        None => {}
    }
    if one.guest.is_none() && one.member.is_none() && one.former.ready.is_none() && world.kubernetes_told {
        return None;
    }
    if !world.kubernetes_told {
        return Some(Advice::NoApiServer { node });
    }
    let endpoint = cluster.located(&world.addresses).kubernetes.endpoint_host.clone();
    if endpoint.is_some() && one.former.address == endpoint {
        return Some(Advice::IsEndpoint { node });
    }
    if world.members.is_empty() && one.former.role != Some(Role::Worker) {
        return Some(Advice::MembersUnknown { node });
    }
    if let (Some(_), None) = (one.guest, one.member)
        && one.former.role != Some(Role::Worker)
        && let Some(MemberView { id, name, guessed, .. }) = nobodys_member(cluster, world)
    {
        let (member, id) = (name.clone(), id.clone());
        return Some(Advice::MemberUnclear { node, member, id, guessed: *guessed });
    }
    left_without(cluster, node, one.member?, members)
}

/// Why etcd cannot do without a member now.
fn left_without(
    cluster: &Cluster,
    node: String,
    member: &MemberView,
    members: &[&MemberView],
) -> Option<Advice> {
    let rest: Vec<&MemberView> = members.iter().copied().filter(|other| other.id != member.id).collect();
    let is_declared =
        |member: &&MemberView| cluster.node(&member.name).is_some_and(|node| node.role == Role::ControlPlane);
    if !rest.iter().any(is_declared) {
        return Some(Advice::LastControlPlane { node });
    }
    let named = |such: &dyn Fn(&MemberView) -> bool| -> Vec<String> {
        rest.iter().filter(|member| such(member)).map(|member| called(member)).collect()
    };
    let learners = named(&|member| member.learner);
    if !learners.is_empty() {
        return Some(Advice::StillLearning { node, members: learners });
    }
    let silent = named(&|member| !member.serves);
    (!silent.is_empty()).then_some(Advice::MembersSilent { node, members: silent })
}

/// A member, for people.
fn called(member: &MemberView) -> String {
    match member.name.as_str() {
        "" => format!("the unnamed member {}", member.id),
        name => name.to_owned(),
    }
}

fn steps(
    cluster: &Cluster,
    world: &World,
    going: &[Going<'_>],
    drain: bool,
    graph: &mut Graph,
    notes: &mut Notes,
) {
    let volumes = Volumes::new(cluster, world);
    // Pods that leave one of them must not go to another.
    let cordons: Vec<Option<StepId>> = going
        .iter()
        .map(|one| {
            let subject = Subject { node: Some(one.name), host: None };
            let reason = "it goes, and what leaves it must find another place";
            one.former.ready.map(|_| graph.add(subject, Action::Cordon, reason, []))
        })
        .collect();
    let (mut drained, mut last_member) = (None, None);
    for (one, cordon) in going.iter().zip(&cordons) {
        let subject = Subject { node: Some(one.name), host: None };
        let running = one.guest.is_some_and(|guest| guest.running);
        let mut done = *cordon;
        match (drain, one.former.ready, running) {
            (true, Some(true), true) => {
                let needs = cordons.iter().copied().chain([drained]);
                let reason = "they are re-created elsewhere; one node at a time";
                drained = Some(graph.add(subject, Action::Drain, reason, needs));
                done = drained;
            }
            (_, Some(_), _) => {
                let why = match (drain, running) {
                    (false, _) => NotEvicted::AsAsked,
                    (true, true) => NotEvicted::NotReady,
                    (true, false) => NotEvicted::NotRunning,
                };
                notes.warning(Advice::PodsNotEvicted { node: one.name.to_owned(), why });
            }
            (_, None, _) => {}
        }
        if let Some(member) = one.member {
            let (action, reason) = leaving(one, member);
            let needs = [done, last_member];
            done = Some(graph.add_with(subject, action, reason, needs, Impact::Destroy));
        }
        if let Some(guest) = one.guest.filter(|guest| guest.running) {
            let subject = Subject { node: Some(one.name), host: Some(&guest.host) };
            let (action, reason) =
                (Action::StopVm { vmid: guest.vmid }, "hard: nothing on it is needed any more");
            done = Some(graph.add_with(subject, action, reason, [done], Impact::Restart));
        }
        if one.former.ready.is_some() {
            let reason = "its kubelet is gone for good";
            done = Some(graph.add_with(subject, Action::ForgetNode, reason, [done], Impact::Destroy));
        }
        if let Some(guest) = one.guest {
            let subject = Subject { node: Some(one.name), host: Some(&guest.host) };
            let reason = "with its disks; its data is lost";
            let action = Action::DestroyVm { vmid: guest.vmid };
            done = Some(graph.add_with(subject, action, reason, [done], Impact::Destroy));
        }
        media(cluster, world, &volumes, one, done, graph);
        if one.member.is_some() {
            let reason = "its address may have been here, and the others must carry on";
            last_member = Some(graph.add(Subject::default(), Action::AwaitEndpoint, reason, [done]));
        }
    }
}

/// How a member leaves etcd.
fn leaving(one: &Going<'_>, member: &MemberView) -> (Action, &'static str) {
    let answers = matches!(one.former.talos, TalosView::Configured { .. });
    let id = member.id.clone();
    match (&one.former.address, answers && member.serves) {
        (Some(address), true) => (
            Action::LeaveEtcd { member: id, address: address.clone() },
            "gracefully, once all others are whole",
        ),
        _ => (Action::RemoveMember { member: id }, "it cannot leave by itself; once all others are whole"),
    }
}

/// The node's config media go with it, but for one that another VM has in its drive.
fn media(
    cluster: &Cluster,
    world: &World,
    volumes: &Volumes<'_>,
    one: &Going<'_>,
    gone: Option<StepId>,
    graph: &mut Graph,
) {
    for volume in volumes.all() {
        let secrets = world.secrets_id.as_ref();
        let of = names::own_media_node(cluster, secrets, names::volid_file(&volume.volid));
        let place = volumes.place(&volume.host, &volume.volid);
        let used = world.guests.values().any(|guest| {
            let medium = guest.config.as_ref().and_then(|config| config.media.as_deref());
            Some(guest.vmid) != one.guest.map(|guest| guest.vmid)
                && medium.is_some_and(|medium| volumes.place(&guest.host, medium) == place)
        });
        if names::may_be_medium(&volume.content) && of == Some(one.name) && !used {
            let subject = Subject { node: Some(one.name), host: Some(&volume.host) };
            let action = Action::DeleteMedia { volid: volume.volid.clone() };
            graph.add(subject, action, "it holds keys", [gone]);
        }
    }
}
