//! The state of a cluster as a table: node × host × VMID × address × VM × Talos × etcd × Ready.

use daedal_inventory::{Cluster, Node, Role};
use daedal_machine::access::Credential;
use daedal_planner::{
    AddonOwner, AddonView, AddonsView, Advice, Aspect, Command, EtcdView, Fix, GuestView, Hindrance,
    Likeness, NodeView, ObjectState, Ownership, Plan, PlanError, TalosView, Unobserved, Unreached, World,
    readiness, storage_warnings,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::chain;

/// The state of a whole cluster.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// Cluster name.
    pub cluster: String,
    /// One row per declared node, in the inventory's order.
    pub nodes: Vec<NodeStatus>,
    /// Names of nodes that are there although they are not declared: VMs of ours, members of etcd, nodes of Kubernetes.
    pub undeclared: Vec<String>,
    /// The API endpoint, `https://10.0.0.20:6443`.
    pub endpoint: String,
    /// Whether it answers; nothing if it was not asked.
    pub endpoint_answers: Option<bool>,
    /// Why it does not.
    pub endpoint_why: Option<String>,
    /// Whether every node is running, configured, a member if it should be, and Ready; nothing if that could not be seen.
    pub healthy: Option<bool>,
    /// Whether the nodes were compared in part only, for want of secrets that the inventory refers to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partly: bool,
    /// The sides that could not be asked. Nothing is known of what they would have said.
    pub unasked: Vec<Unasked>,
    /// Whether all is as declared; nothing if not all of it could be compared.
    pub as_declared: Option<bool>,
    /// What is wrong with the storages that its VMs are on.
    pub storages: Vec<Advice>,
    /// What could not be seen.
    #[serde(rename = "blind")]
    pub unobserved: Vec<Unobserved>,
    /// The add-ons, declared ones and those that are left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addons: Vec<AddonStatus>,
    /// The client certificates in the output files.
    pub credentials: Vec<Credential>,
}

/// A side of a cluster, besides Proxmox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Side {
    /// The nodes' own API, which also tells of etcd.
    Talos,
    /// The API server.
    Kubernetes,
}

/// A side that could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unasked {
    /// Which.
    pub side: Side,
    /// What stood in the way.
    pub because: Hindrance,
    /// The whole of it, in one sentence.
    pub why: String,
    /// What would give access.
    pub access: Vec<String>,
}

/// One node's row.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Node name.
    pub node: String,
    /// Role.
    #[schemars(with = "String")]
    pub role: Role,
    /// Host it is on.
    pub host: Option<String>,
    /// VMID.
    pub vmid: u32,
    /// Address without prefix length.
    pub address: String,
    /// `running`, `stopped`, `absent`, `foreign`, `creating`, `stuck in lock: create` … `unknown` where a host did not list its VMs.
    pub vm: String,
    /// Whether a VM of this node runs; nothing if that could not be seen.
    pub running: Option<bool>,
    /// `v1.12.0 running`, `maintenance`, `unreachable`, `other cluster` or `not asked`; nothing where no VM runs.
    pub talos: Option<String>,
    /// `member`, `learner`, `not joined`, `unknown` or `not asked`; nothing for workers.
    pub etcd: Option<String>,
    /// `Ready`, `NotReady` or `not asked`; nothing for what Kubernetes does not know.
    pub ready: Option<String>,
    /// Whether it runs, is configured, a member if it should be, and Ready; nothing if that could not be seen.
    pub healthy: Option<bool>,
    /// What of it is not as declared, one clause each.
    pub differences: Vec<String>,
}

impl NodeStatus {
    /// Whether all of it is as it should be; nothing if that could not be seen.
    pub fn is_well(&self) -> Option<bool> {
        if self.differences.is_empty() { self.healthy } else { Some(false) }
    }
}

impl StatusReport {
    /// Puts what was observed beside what was declared.
    pub fn of(cluster: &Cluster, world: &World) -> Self {
        let cluster = &*cluster.located(&world.addresses);
        let unasked = unasked(cluster, world);
        // Where no VM is ours, that has been said already.
        let unproven = if unasked.is_empty() { unproven(cluster, world) } else { Vec::new() };
        let nodes: Vec<_> = cluster.nodes.iter().map(|node| row(node, world, &unasked)).collect();
        let nodes_healthy = all(nodes.iter().map(|node| node.healthy));
        let kubernetes = unasked.iter().find(|unasked| unasked.side == Side::Kubernetes);
        // Where no VM runs, nobody asks it.
        let asked = world.endpoint_answers || world.endpoint_unreached.is_some();
        let endpoint_answers = asked.then_some(world.endpoint_answers);
        Self {
            cluster: cluster.name.clone(),
            nodes,
            undeclared: world.undeclared(cluster).into_iter().map(str::to_owned).collect(),
            endpoint: cluster.kubernetes.endpoint_url().unwrap_or_default(),
            endpoint_answers,
            endpoint_why: world.endpoint_unreached.as_ref().map(|unreached| unreached.why.clone()),
            healthy: all([
                nodes_healthy,
                if kubernetes.is_some() { None } else { endpoint_answers },
                addons_healthy(world),
                // What could not be compared may differ.
                if cluster.lacks.is_empty() { Some(true) } else { None },
            ]),
            partly: !cluster.lacks.is_empty(),
            unasked,
            as_declared: None,
            storages: storage_warnings(cluster, world),
            unobserved: world.unobserved.iter().cloned().chain(unproven).collect(),
            addons: addon_statuses(cluster, world),
            credentials: Vec::new(),
        }
    }

    /// Says of every node what is not as declared: what apply would change, and what it would leave.
    pub fn compare(&mut self, plan: Result<Plan, PlanError>) {
        // What is somebody else's, or may be, is not compared.
        let theirs = |one: &Unasked| matches!(one.because, Hindrance::OtherSecrets | Hindrance::LostMarks);
        if self.unasked.iter().any(theirs) {
            return;
        }
        let plan = match plan {
            Ok(plan) => plan,
            // Where a side could not be asked, that has been said already.
            Err(_) if !self.unasked.is_empty() => return,
            Err(error) => {
                let fix = error.fix();
                self.unobserved.push(Unobserved { what: Aspect::Declared, why: chain(&error), fix });
                return;
            }
        };
        for node in &mut self.nodes {
            let stay = plan.differences.iter().filter(|difference| difference.node == node.node);
            node.differences = stay.map(daedal_words::difference).collect();
            // Of a node that is not well, the table tells.
            if node.healthy == Some(true) {
                let steps = plan.steps.iter().filter(|step| step.node.as_deref() == Some(&node.node));
                let mut changes: Vec<String> = steps
                    .filter(|step| !step.action.waits())
                    .map(|step| daedal_words::action(&step.action))
                    .collect();
                changes.dedup();
                node.differences.extend(changes.into_iter().map(|change| format!("`apply` would {change}")));
            }
        }
        let seen = !plan.unseen && self.unasked.is_empty();
        self.as_declared = if plan.finds_no_difference() { seen.then_some(true) } else { Some(false) };
    }
}

/// One add-on's row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonStatus {
    /// Its name.
    pub addon: String,
    /// The chart that it is made of, with its version.
    pub chart: Option<String>,
    /// How many objects it has.
    pub objects: usize,
    /// Who looks after it.
    pub owner: AddonOwner,
    /// What of it is in the cluster.
    pub state: AddonState,
    /// Whether all of it is ready; nothing if that could not be seen, or it is not there.
    pub ready: Option<bool>,
    /// The first object that is not, and why.
    pub unready: Option<String>,
}

/// What of an add-on is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum AddonState {
    /// All of it, as declared.
    AsDeclared,
    /// Nothing.
    Absent,
    /// Some of it is missing, or other than declared.
    Differs {
        /// So many objects.
        objects: usize,
    },
    /// Somebody else looks after it.
    Owned,
    /// It could not be rendered.
    NotRendered {
        /// Why.
        why: String,
    },
    /// Nobody could ask.
    NotSeen,
    /// It is left of an earlier inventory.
    Former,
}

/// A row for every add-on.
pub fn addon_statuses(cluster: &Cluster, world: &World) -> Vec<AddonStatus> {
    let none = AddonsView::default();
    let seen = world.addons.as_ref().unwrap_or(&none);
    let declared = cluster.addons.iter().map(|addon| {
        let view = seen.declared.get(&addon.name);
        let of = |such: fn(&ObjectState) -> bool| {
            view.map_or(0, |view| view.objects.iter().filter(|one| such(&one.state)).count())
        };
        let absent = of(|state| *state == ObjectState::Absent);
        let as_declared = of(|state| *state == ObjectState::AsDeclared);
        let objects = view.map_or(0, |view| view.objects.len());
        let extra = view.map_or(0, |view| view.extra.len());
        let state = match view {
            Some(AddonView { unrendered: Some(why), .. }) => AddonState::NotRendered { why: why.clone() },
            Some(view) if view.owner.is_some() => AddonState::Owned,
            Some(_) if seen.told && objects == as_declared && extra == 0 => AddonState::AsDeclared,
            Some(_) if seen.told && objects == absent && extra == 0 => AddonState::Absent,
            Some(_) if seen.told => AddonState::Differs { objects: objects - as_declared + extra },
            _ => AddonState::NotSeen,
        };
        let there = seen.told && objects > absent && !matches!(state, AddonState::NotRendered { .. });
        let unready = view.filter(|_| there).and_then(AddonView::unready);
        AddonStatus {
            addon: addon.name.clone(),
            chart: view
                .and_then(|view| view.chart.as_ref())
                .map(|(name, version)| format!("{name} {version}")),
            objects,
            owner: view.and_then(|view| view.owner.clone()).map(|(owner, _)| owner).unwrap_or_default(),
            state,
            ready: there.then_some(unready.is_none()),
            unready: unready.map(|(id, why)| format!("{id}: {why}")),
        }
    });
    let former = seen.former.iter().map(|(name, view)| AddonStatus {
        addon: name.clone(),
        chart: None,
        objects: view.objects.len(),
        owner: AddonOwner::Daedal,
        state: AddonState::Former,
        ready: None,
        unready: None,
    });
    declared.chain(former).collect()
}

/// Whether the add-ons that are in the cluster are ready; nothing if nobody could ask.
fn addons_healthy(world: &World) -> Option<bool> {
    match &world.addons {
        Some(seen) if seen.told => Some(seen.declared.values().all(|view| view.unready().is_none())),
        Some(seen) if !seen.declared.is_empty() => None,
        _ => Some(true),
    }
}

/// Whether all is well: not if anything is not, and unknown if anything is.
fn all(each: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    each.into_iter()
        .try_fold(Some(true), |so_far, one| match one {
            Some(false) => Err(()),
            Some(true) => Ok(so_far),
            None => Ok(None),
        })
        .unwrap_or(Some(false))
}

/// Whether a guest is the VM of a node.
fn is_its(guest: &GuestView, node: &Node) -> bool {
    matches!(&guest.ownership, Ownership::Ours { node: owner, .. } if *owner == node.name)
}

/// How a running guest on a node's VMID looks like the node's own without being proven so.
fn unproven_as(guest: &GuestView) -> Option<Likeness> {
    match &guest.ownership {
        Ownership::LookAlike {
            likeness: likeness @ (Likeness::OtherSecrets | Likeness::LostMark), ..
        } => Some(*likeness).filter(|_| guest.running),
        _ => None,
    }
}

/// Nodes beside others of ours whose running VM is not proven theirs, and what helps.
fn unproven(cluster: &Cluster, world: &World) -> Vec<Unobserved> {
    let one = |node: &Node| {
        let guest = world.guests.get(&node.vmid)?;
        let (why, fix) = match unproven_as(guest)? {
            Likeness::LostMark => (
                "has lost its mark, so nothing proves that it is this node",
                Fix::from("if it is, give it its mark back: ").run(Command::NodeMark(node.name.clone())),
            ),
            _ => (
                "was made with other secrets than those of this store",
                "use the store that has its secrets (--state DIR)".into(),
            ),
        };
        let why = format!("VM {} on {} runs and {why}", guest.vmid, guest.host);
        Some(Unobserved { what: Aspect::Node(node.name.clone()), why, fix: Some(fix) })
    };
    cluster.nodes.iter().filter_map(one).collect()
}

/// The sides that could not be asked: for want of secrets, or because not one that should answer could be reached.
fn unasked(cluster: &Cluster, world: &World) -> Vec<Unasked> {
    let runs =
        |node: &&Node| world.guests.get(&node.vmid).is_some_and(|guest| guest.running && is_its(guest, node));
    let running: Vec<&Node> = cluster.nodes.iter().filter(runs).collect();
    let because = |side, unreached: &Unreached| Unasked {
        side,
        because: unreached.because,
        why: unreached.why.clone(),
        access: Vec::new(),
    };
    let neither = |because_of, why: String| {
        let unreached = Unreached { because: because_of, why };
        vec![because(Side::Talos, &unreached), because(Side::Kubernetes, &unreached)]
    };
    let alike = |likeness| -> Vec<&str> {
        let is_alike = |node: &&Node| world.guests.get(&node.vmid).and_then(unproven_as) == Some(likeness);
        cluster.nodes.iter().filter(is_alike).map(|node| node.name.as_str()).collect()
    };
    let (theirs, lost) = (alike(Likeness::OtherSecrets), alike(Likeness::LostMark));
    if running.is_empty() && theirs.is_empty() && lost.is_empty() {
        return Vec::new();
    }
    if !world.secrets_stored {
        return neither(Hindrance::NoSecrets, "the secrets of the cluster are not at hand".to_owned());
    }
    if running.is_empty() && !theirs.is_empty() {
        let why = "the VMs were made with other secrets than those of this store";
        return neither(Hindrance::OtherSecrets, format!("{why} ({})", theirs.join(", ")));
    }
    if running.is_empty() {
        let why = "the VMs have lost their marks, so nothing proves that they are this cluster's";
        return neither(Hindrance::LostMarks, format!("{why} ({})", lost.join(", ")));
    }
    let mut sides = Vec::new();
    let silent: Vec<&Unreached> = running.iter().filter_map(|node| world.unreached.get(&node.name)).collect();
    if let ([first, ..], true) = (&silent[..], silent.len() == running.len()) {
        sides.push(because(Side::Talos, first));
    }
    let planes = running.iter().any(|node| node.role == Role::ControlPlane);
    if let (Some(unreached), true, false) = (&world.endpoint_unreached, planes, world.kubernetes_told) {
        // Where nodes answer, an API server that does not is a finding and not a lack of access.
        if !sides.is_empty() {
            sides.push(because(Side::Kubernetes, unreached));
        }
    }
    sides
}

/// One node from all sides.
fn row(node: &Node, world: &World, unasked: &[Unasked]) -> NodeStatus {
    // A migrated VM keeps its VMID, so the VMID finds it wherever it is.
    let guest = world.guests.get(&node.vmid);
    let running = guest.is_some_and(|guest| guest.running && is_its(guest, node));
    let vm_unseen = match guest {
        Some(guest) => matches!(guest.ownership, Ownership::Unreadable { .. }),
        // It may be on a host that did not list its VMs.
        None => !world.unlisted_hosts.is_empty(),
    };
    let unproven = guest.and_then(unproven_as).is_some();
    let not_asked = |side| {
        let hit = |unasked: &Unasked| unasked.side == side && unasked.because == Hindrance::NoSecrets;
        (unproven || (running && unasked.iter().any(hit))).then_some("not asked")
    };
    let view = world.nodes.get(&node.name);
    let is_control_plane = node.role == Role::ControlPlane;
    let etcd = view.map(|view| etcd_word(&view.etcd)).or_else(|| not_asked(Side::Talos));
    let ready = view.and_then(|view| view.ready).map(readiness).or_else(|| not_asked(Side::Kubernetes));
    NodeStatus {
        node: node.name.clone(),
        role: node.role,
        host: guest.map(|guest| guest.host.clone()),
        vmid: node.vmid,
        address: node.shown_address(),
        vm: match guest {
            Some(guest) => vm_word(guest, &node.name),
            None if vm_unseen => "unknown".to_owned(),
            None => "absent".to_owned(),
        },
        running: (!vm_unseen && !unproven).then_some(running),
        talos: view.map(|view| view.talos.to_string()).or_else(|| not_asked(Side::Talos).map(str::to_owned)),
        etcd: etcd.filter(|_| is_control_plane).map(str::to_owned),
        ready: ready.map(str::to_owned),
        healthy: match (vm_unseen || unproven, running, view) {
            (true, ..) | (_, true, None) => None,
            (_, true, _) if !unasked.is_empty() => None,
            (.., view) => Some(running && view.is_some_and(|view| is_well(view, is_control_plane))),
        },
        differences: Vec::new(),
    }
}

fn is_well(view: &NodeView, is_control_plane: bool) -> bool {
    matches!(view.talos, TalosView::Configured { .. })
        && (!is_control_plane || view.etcd == EtcdView::Member)
        && view.ready == Some(true)
}

fn etcd_word(etcd: &EtcdView) -> &'static str {
    match etcd {
        EtcdView::Unknown => "unknown",
        EtcdView::NotJoined => "not joined",
        EtcdView::Learner => "learner",
        EtcdView::Member => "member",
    }
}

/// What a guest is to a node, in a word or two.
pub fn vm_word(guest: &GuestView, node: &str) -> String {
    match &guest.ownership {
        Ownership::Ours { node: owner, .. } if *owner == node => {
            let power = if guest.running { "running" } else { "stopped" };
            match &guest.lock {
                Some(lock) => format!("{power} (lock: {lock})"),
                None => power.to_owned(),
            }
        }
        Ownership::Ours { node: owner, .. } => format!("is our node {owner}"),
        Ownership::Foreign => "foreign".to_owned(),
        Ownership::Template { .. } => "template".to_owned(),
        Ownership::LookAlike { likeness: Likeness::LostMark, .. } => "mark lost".to_owned(),
        Ownership::LookAlike { likeness: Likeness::OtherSecrets, .. } => "other secrets".to_owned(),
        Ownership::LookAlike { .. } => "look-alike".to_owned(),
        Ownership::HalfMade { task_running: true, .. } => "creating".to_owned(),
        Ownership::HalfMade { .. } => format!("stuck in lock: {}", guest.lock.as_deref().unwrap_or("create")),
        Ownership::Unreadable { .. } => "unreadable".to_owned(),
    }
}
