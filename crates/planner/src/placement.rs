//! Which host each new node goes to.
//!
//! Existing nodes stay; pinned ones go where they are pinned; control planes go to the host with the fewest control
//! planes that has room; workers to the host with the fewest workers that has room. Ties go to the host declared first,
//! so that on empty hosts workers land in interleaved slots A0 B0 C0 A1 B1 … as far as each host reaches.

use std::collections::{BTreeSet, HashMap};

use daedal_inventory::{Cluster, Node, Role};

use crate::capacity::{Need, RESOURCES, Rooms};
use crate::error::{NoRoom, PlanError, Resource, Shortfall};
use crate::survey::{State, Survey};

/// Host of every node that is to be created, by node name.
pub(crate) type Places<'w> = HashMap<&'w str, usize>;

/// Finds a place for every node that `wanted` lets through, and takes the room. All shortfalls are reported at once.
pub(crate) fn place<'w>(
    cluster: &Cluster,
    survey: &Survey<'w>,
    rooms: &mut Rooms,
    wanted: impl Fn(&Node) -> bool,
) -> Result<Places<'w>, PlanError> {
    let (mut failure, mut homeless) = (NoRoom::default(), Vec::new());
    let mut places = Places::new();
    let mut free_nodes: Vec<&'w Node> = Vec::new();
    // What must be on each host, whatever we choose: growth of what is there, and what is pinned.
    let mut forced: Vec<(Need, Vec<String>)> = vec![Default::default(); rooms.rooms.len()];
    let usable: Vec<usize> = (0..rooms.rooms.len())
        .filter(|at| rooms.rooms[*at].declared && rooms.rooms[*at].unusable.is_none())
        .collect();
    for surveyed in &survey.nodes {
        let node = surveyed.node;
        let mut force = |at: usize, need: Need| {
            if need != Need::default() {
                forced[at].0.add(need);
                forced[at].1.push(node.name.clone());
            }
            // What it has already it was started with.
            if need.cores > 0 {
                too_large(rooms, at, rooms.need(node), std::slice::from_ref(&node.name), &mut failure);
            }
        };
        match (&surveyed.state, cluster.placement.pin.get(&node.name)) {
            (State::Blocked { .. }, _) => {}
            (State::Absent, _) if !wanted(node) => {}
            (State::Absent, Some(pin)) => match rooms.at(pin).filter(|at| usable.contains(at)) {
                Some(at) => {
                    force(at, rooms.need(node));
                    places.insert(&node.name, at);
                }
                None => homeless.push(format!("{} (pinned to {pin})", node.name)),
            },
            (State::Absent, None) => match usable[..] {
                [] => homeless.push(node.name.clone()),
                [only] => {
                    force(only, rooms.need(node));
                    places.insert(&node.name, only);
                }
                _ => free_nodes.push(node),
            },
            (state @ (State::Creating { .. } | State::Present(_)), _) => {
                if let Some(at) = surveyed.host().and_then(|host| rooms.at(host)) {
                    force(at, rooms.growth(cluster, node, state));
                }
            }
        }
    }
    failure.homeless = homeless;
    for (at, (need, nodes)) in forced.into_iter().enumerate() {
        too_much(rooms, at, need, &nodes, &mut failure);
        rooms.take(at, need);
    }
    let spread = Spread::new(survey, rooms, &usable, &places);
    // As declared if that works out; else the largest first, which packs unequal sizes better.
    let attempt = spread.clone().run(rooms.clone(), &free_nodes).or_else(|_| {
        let mut by_size = free_nodes.clone();
        by_size.sort_by_key(|node| (node.role, std::cmp::Reverse(rooms.need(node))));
        spread.run(rooms.clone(), &by_size)
    });
    match attempt {
        Ok((filled, found)) => {
            *rooms = filled;
            places.extend(found);
        }
        Err(unfilled) => {
            let (filled, left) = *unfilled;
            explain(&filled, &usable, &left, &mut failure);
        }
    }
    if failure == NoRoom::default() {
        return Ok(places);
    }
    failure.unusable =
        rooms.rooms.iter().filter(|room| room.declared).filter_map(|room| room.unusable.clone()).collect();
    Err(PlanError::NoRoom(failure))
}

/// Notes every resource of which these nodes want more than is free on that host.
fn too_much(rooms: &Rooms, at: usize, need: Need, nodes: &[String], failure: &mut NoRoom) {
    let free = rooms.free(at);
    let short = RESOURCES.into_iter().filter(|resource| need.get(*resource) > free.get(*resource));
    failure.shortfalls.extend(short.map(|resource| Shortfall {
        host: rooms.rooms[at].host.clone(),
        resource,
        wanted: need.get(resource),
        free: free.get(resource),
        nodes: nodes.to_vec(),
    }));
}

/// Notes nodes that want more vCPUs than a VM on that host can have.
fn too_large(rooms: &Rooms, at: usize, need: Need, nodes: &[String], failure: &mut NoRoom) {
    let Some(most) = rooms.too_many_cores(at, need) else { return };
    let host = &rooms.rooms[at].host;
    let same = failure.shortfalls.iter_mut().find(|short| {
        (short.host == *host, short.resource, short.wanted) == (true, Resource::CoresOfOne, need.cores)
    });
    match same {
        Some(short) => short.nodes.extend_from_slice(nodes),
        None => failure.shortfalls.push(Shortfall {
            host: host.clone(),
            resource: Resource::CoresOfOne,
            wanted: need.cores,
            free: most,
            nodes: nodes.to_vec(),
        }),
    }
}

/// For every size of node that found no host: what each host lacks for it.
fn explain(rooms: &Rooms, usable: &[usize], left: &[&Node], failure: &mut NoRoom) {
    let mut sizes: Vec<(Need, Vec<String>)> = Vec::new();
    for node in left {
        let need = rooms.need(node);
        match sizes.iter_mut().find(|(size, _)| *size == need) {
            Some((_, nodes)) => nodes.push(node.name.clone()),
            None => sizes.push((need, vec![node.name.clone()])),
        }
    }
    for (need, nodes) in sizes {
        for at in usable {
            too_large(rooms, *at, need, &nodes, failure);
            too_much(rooms, *at, need, &nodes, failure);
        }
        failure.homeless.extend(nodes);
    }
}

/// How many nodes of each role are on each usable host.
#[derive(Clone)]
struct Spread {
    usable: Vec<usize>,
    control_planes: Vec<usize>,
    workers: Vec<usize>,
}

type Attempt<'w> = Result<(Rooms, Places<'w>), Box<(Rooms, Vec<&'w Node>)>>;

impl Spread {
    fn new(survey: &Survey<'_>, rooms: &Rooms, usable: &[usize], places: &Places<'_>) -> Self {
        let mut spread = Self {
            usable: usable.to_vec(),
            control_planes: vec![0; rooms.rooms.len()],
            workers: vec![0; rooms.rooms.len()],
        };
        for surveyed in &survey.nodes {
            let placed = places.get(surveyed.node.name.as_str()).copied();
            if let Some(at) = placed.or_else(|| surveyed.host().and_then(|host| rooms.at(host))) {
                spread.counts(surveyed.node.role)[at] += 1;
            }
        }
        spread
    }

    fn counts(&mut self, role: Role) -> &mut Vec<usize> {
        match role {
            Role::ControlPlane => &mut self.control_planes,
            Role::Worker => &mut self.workers,
        }
    }

    fn run<'w>(mut self, mut rooms: Rooms, nodes: &[&'w Node]) -> Attempt<'w> {
        let mut places = Places::new();
        let mut left = Vec::new();
        for role in [Role::ControlPlane, Role::Worker] {
            let of_role = || nodes.iter().copied().filter(move |node| node.role == role);
            let Some(smallest) = of_role().map(|node| rooms.need(node)).reduce(Need::min) else { continue };
            let counts = self.counts(role).clone();
            // A host that has no room for the smallest is full for good.
            let roomy = self.usable.iter().filter(|at| rooms.fits(**at, smallest));
            let mut queue: BTreeSet<(usize, usize)> = roomy.map(|at| (counts[*at], *at)).collect();
            for node in of_role() {
                let need = rooms.need(node);
                let Some(&entry) = queue.iter().find(|(_, at)| rooms.fits(*at, need)) else {
                    left.push(node);
                    continue;
                };
                let (count, at) = entry;
                rooms.take(at, need);
                places.insert(&node.name, at);
                self.counts(role)[at] += 1;
                queue.remove(&entry);
                if rooms.fits(at, smallest) {
                    queue.insert((count + 1, at));
                }
            }
        }
        if left.is_empty() { Ok((rooms, places)) } else { Err(Box::new((rooms, left))) }
    }
}
