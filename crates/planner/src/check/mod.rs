//! The checker: judges any plan against cluster and world, however it was made. It shares definitions with the planner
//! (names, digests) but none of its reasoning, and runs in tests and before anything moves.

mod addons;
mod etcd;
mod files;
mod firewall;
mod graph;
mod guard;
mod mark;
mod prune;
mod remove;
mod room;
mod template;
mod vm;

use std::collections::{HashMap, HashSet};
use std::fmt;

use daedal_inventory::{Cluster, Node, Role};

use crate::digest;
use crate::names;
use crate::phase::Phase;
use crate::plan::{Action, Impact, Plan, Purpose, Step, StepId};
use crate::world::{GuestView, Ownership, TalosView, World};

/// Something a plan must not do or lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which rule is broken.
    pub rule: Rule,
    /// The step, if it is about one.
    pub step: Option<StepId>,
    /// What is wrong, in one sentence.
    pub text: String,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The plan is for this cluster as it is declared now.
    Identity,
    /// Steps are numbered and need only earlier ones.
    Graph,
    /// Only what is ours is touched, and only where it is.
    Ownership,
    /// VMs are made on free VMIDs, once, as declared.
    Creation,
    /// A step comes after what it depends on.
    Order,
    /// Hosts are not promised more than they have.
    Room,
    /// etcd keeps its quorum and is bootstrapped at most once.
    Etcd,
    /// Nothing is destroyed without reason, and it is said.
    Destruction,
    /// A plan that is limited to a phase does nothing of another.
    Phase,
    /// Secrets are stored before they are used, and never made anew under a living cluster.
    Secrets,
    /// Add-ons are applied as they are rendered.
    Addons,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "step {step}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// Judges a plan. An empty answer means that it may be executed.
pub fn check(cluster: &Cluster, world: &World, plan: &Plan) -> Vec<Finding> {
    let mut checker = Checker::new(cluster, world, plan);
    checker.identity();
    if !checker.graph() {
        // Nothing can be said about an order that is none.
        return checker.findings;
    }
    for step in &plan.steps {
        checker.step(step);
    }
    checker.room();
    checker.quorum();
    checker.findings
}

struct Checker<'a> {
    cluster: &'a Cluster,
    world: &'a World,
    plan: &'a Plan,
    findings: Vec<Finding>,
    nodes: HashMap<&'a str, &'a Node>,
    digests: digest::NodeDigests<'a>,
    /// Guests that claim to be a node of ours.
    claims: HashMap<&'a str, Vec<&'a GuestView>>,
    /// Steps by what they are about.
    by_vmid: HashMap<u32, Vec<&'a Step>>,
    /// [`Action::AwaitEtcd`] of each node.
    joins: HashMap<&'a str, Vec<StepId>>,
    bootstrap: Option<StepId>,
    endpoint: Option<StepId>,
    files: files::Files<'a>,
    /// Whether some control plane answers already.
    trusted: bool,
    control_plane_apis: Vec<StepId>,
}

impl<'a> Checker<'a> {
    fn new(cluster: &'a Cluster, world: &'a World, plan: &'a Plan) -> Self {
        let nodes: HashMap<&str, &Node> =
            cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let mut claims: HashMap<&str, Vec<&GuestView>> = HashMap::new();
        for guest in world.guests.values() {
            if let Ownership::Ours { node, .. } | Ownership::HalfMade { node, .. } = &guest.ownership {
                claims.entry(node).or_default().push(guest);
            }
        }
        let mut by_vmid: HashMap<u32, Vec<&Step>> = HashMap::new();
        let mut joins: HashMap<&str, Vec<StepId>> = HashMap::new();
        let (mut bootstrap, mut endpoint, mut control_plane_apis) = (None, None, Vec::new());
        for step in &plan.steps {
            if let Some(vmid) = vm::vmid(&step.action) {
                by_vmid.entry(vmid).or_default().push(step);
            }
            match (&step.action, step.node.as_deref()) {
                (Action::AwaitApi, Some(node))
                    if nodes.get(node).is_some_and(|node| node.role == Role::ControlPlane)
                        && !is_up(world, node) =>
                {
                    control_plane_apis.push(step.id);
                }
                (Action::AwaitEtcd, Some(node)) => joins.entry(node).or_default().push(step.id),
                (Action::Bootstrap { .. }, _) => bootstrap = Some(step.id),
                (Action::AwaitEndpoint, _) => endpoint = Some(step.id),
                _ => {}
            }
        }
        let trusted = cluster.control_planes().any(|node| is_up(world, &node.name));
        Self {
            cluster,
            world,
            plan,
            findings: Vec::new(),
            nodes,
            digests: digest::NodeDigests::new(cluster),
            claims,
            by_vmid,
            joins,
            bootstrap,
            endpoint,
            files: files::Files::new(cluster, world, plan),
            trusted,
            control_plane_apis,
        }
    }

    fn find(&mut self, rule: Rule, step: Option<&Step>, text: impl Into<String>) {
        self.findings.push(Finding { rule, step: step.map(|step| step.id), text: text.into() });
    }

    fn demand(&mut self, holds: bool, rule: Rule, step: &Step, text: &str) {
        if !holds {
            self.find(rule, Some(step), format!("{} ({}).", text, step.action.code()));
        }
    }

    /// Whether some step that must be done before this one is such.
    fn after(&self, step: &Step, such: impl Fn(&Step) -> bool) -> bool {
        let mut seen = HashSet::new();
        let mut left: Vec<StepId> = step.needs.clone();
        while let Some(id) = left.pop() {
            let earlier = &self.plan.steps[id as usize];
            if such(earlier) {
                return true;
            }
            if seen.insert(id) {
                left.extend(&earlier.needs);
            }
        }
        false
    }

    /// Whether all of these must be done before this one.
    fn after_all(&self, step: &Step, all: &[StepId]) -> bool {
        let direct = all.iter().filter(|id| !step.needs.contains(id));
        direct.copied().all(|id| self.after(step, |earlier| earlier.id == id))
    }

    /// Whether a node answers already, or will before this step.
    fn answers_before(&self, step: &Step, node: &str) -> bool {
        is_up(self.world, node)
            || self.after(step, |earlier| {
                earlier.action == Action::AwaitApi && earlier.node.as_deref() == Some(node)
            })
    }

    /// What the medium that a node gets now is called.
    fn media_file(&self, node: &Node) -> String {
        let secrets = self.world.secrets_id.as_ref();
        names::media_file_of(self.cluster, &node.name, self.digests.of(node), secrets)
    }

    fn identity(&mut self) {
        let plan = self.plan;
        if plan.format != crate::plan::FORMAT {
            self.find(
                Rule::Identity,
                None,
                format!("The plan has format {}, which is not ours.", plan.format),
            );
        }
        if plan.cluster != self.cluster.name || plan.uuid != self.cluster.uuid {
            self.find(
                Rule::Identity,
                None,
                format!("The plan is for cluster {} ({}).", plan.cluster, plan.uuid),
            );
        }
        if plan.intent != digest::intent(self.cluster) {
            self.find(Rule::Identity, None, "The inventory is not the one the plan was made from.");
        }
        let existing = |step: &&Step| {
            let (Action::StopVm { vmid }
            | Action::DestroyVm { vmid }
            | Action::DropTemplate { vmid, .. }
            | Action::UpdateVm { vmid, .. }
            | Action::GrowDisk { vmid, .. }
            | Action::EjectMedia { vmid }) = &step.action
            else {
                return false;
            };
            self.world.guests.contains_key(vmid)
        };
        if !self.world.secrets_stored
            && !plan.without_secrets
            && let Some(step) = plan.steps.iter().find(existing)
        {
            let text = "An existing VM is touched, and no secrets prove that it is ours.";
            self.find(Rule::Secrets, Some(step), text);
        }
        let allowed = plan.purpose.prunes() && plan.despite_protection;
        if plan.purpose.destroys() && self.cluster.protect && !allowed {
            self.find(
                Rule::Destruction,
                None,
                "The cluster is protected, but the plan destroys it, or a part.",
            );
        }
    }

    fn step(&mut self, step: &Step) {
        self.purpose_and_impact(step);
        match &step.action {
            Action::CreateSecrets => self.create_secrets(step),
            Action::WriteOutputs => self.secrets_before(step),
            Action::RegisterSchematic { .. } => {}
            Action::PinImage { .. } => {
                let registered = self.after(step, |s| matches!(s.action, Action::RegisterSchematic { .. }));
                self.demand(
                    registered,
                    Rule::Order,
                    step,
                    "The factory was not told of the schematic before",
                );
            }
            Action::DownloadImage { content, file, .. } => self.download(step, *content, file),
            Action::DeleteImage { volid } => self.delete_image(step, volid),
            Action::UploadMedia { storage, file } => self.upload(step, storage, file),
            Action::DeleteMedia { volid } => self.delete_media(step, volid),
            Action::CreateVm { vmid, image, iso, template, media, digest } => {
                self.create_vm(step, *vmid, digest);
                self.sources(step, image.as_deref(), iso.as_deref(), template.as_ref(), media.as_deref());
            }
            Action::MakeTemplate { vmid, role, image, digest, through } => {
                self.template_through(step, through.as_deref());
                self.make_template(step, *vmid, *role, image, digest);
            }
            Action::DropTemplate { vmid, digest } => self.drop_template(step, *vmid, digest),
            Action::DeleteVolume { volid, vmid } => self.delete_volume(step, volid, *vmid),
            Action::PutClusterObject { kind, id, vms, options, .. } => {
                self.put_object(step, *kind, id, vms, options);
            }
            Action::FillIpSet { .. }
            | Action::DropIpSet { .. }
            | Action::SetFirewallRules { .. }
            | Action::SetFirewallOptions { .. }
            | Action::FilterCard { .. } => self.firewall(step),
            Action::RemoveClusterObject { kind, id, vm } => self.remove_object(step, *kind, id, *vm),
            Action::AwaitCreate { vmid, upid } => self.await_create(step, *vmid, upid),
            Action::GrowDisk { vmid, size } => self.grow(step, *vmid, *size),
            Action::UpdateVm { vmid, changes } => self.update(step, *vmid, changes),
            Action::AttachMedia { vmid, media } => self.attach(step, *vmid, media),
            Action::StartVm { vmid } => self.start(step, *vmid),
            Action::RestartVm { vmid } => self.restart(step, *vmid),
            Action::StopVm { vmid } => self.stop(step, *vmid),
            Action::DestroyVm { vmid } => self.destroy(step, *vmid),
            Action::EjectMedia { vmid } => self.eject(step, *vmid),
            Action::MarkConfigured { vmid } => self.mark_configured(step, *vmid),
            Action::RestoreMark { .. } => self.restore_mark(step),
            Action::GiveConfig { vmid, console } => self.give_config(step, *vmid, *console),
            Action::ApplyConfig { running, declared, reboot, versions, .. } => {
                self.apply_config(step, [running, declared], *reboot, versions.as_ref());
            }
            Action::AwaitApi => self.await_api(step),
            Action::Bootstrap { recover } => self.bootstrap_step(step, recover.as_ref()),
            Action::AwaitEtcd => self.await_etcd(step),
            Action::AwaitEndpoint => {
                self.after_bootstrap(step);
                self.vouched(step, "The API server is awaited before a control plane that runs it");
            }
            Action::AwaitReady => self.await_ready(step),
            Action::ApplyAddon { addon, stage, objects, .. } => {
                self.apply_addon(step, addon, *stage, objects);
            }
            Action::AwaitAddon { addon, .. } => self.await_addon(step, addon),
            Action::PruneAddon { addon, objects, gone, .. } => {
                self.prune_addon(step, addon, objects, *gone);
            }
            Action::Cordon | Action::Drain | Action::ForgetNode => self.of_kubernetes(step),
            Action::LeaveEtcd { .. } | Action::RemoveMember { .. } => self.leaves(step),
        }
    }

    fn purpose_and_impact(&mut self, step: &Step) {
        let of_destroy = matches!(
            step.action,
            Action::AwaitCreate { .. }
                | Action::StopVm { .. }
                | Action::DestroyVm { .. }
                | Action::DeleteMedia { .. }
        );
        let of_remove = matches!(
            step.action,
            Action::Cordon
                | Action::Drain
                | Action::LeaveEtcd { .. }
                | Action::RemoveMember { .. }
                | Action::ForgetNode
        );
        let of_prune_volumes = matches!(step.action, Action::DeleteVolume { .. });
        let of_guard = guard::purpose(&step.action);
        let of_mark = matches!(step.action, Action::RestoreMark { .. });
        let fits = match self.plan.purpose {
            Purpose::Destroy => of_destroy,
            Purpose::Remove => {
                of_remove
                    || step.action == Action::AwaitEndpoint
                    || (of_destroy && !matches!(step.action, Action::AwaitCreate { .. }))
            }
            Purpose::PruneTemplates => matches!(step.action, Action::DropTemplate { .. }),
            Purpose::PruneVolumes => of_prune_volumes,
            Purpose::Firewall | Purpose::Ha | Purpose::BackupJob => of_guard == Some(self.plan.purpose),
            Purpose::Mark => of_mark,
            Purpose::Apply => !of_remove && !of_prune_volumes && !of_mark && of_guard.is_none(),
        };
        self.demand(fits, Rule::Destruction, step, "The plan is not for such a step");
        self.phase(step);
        let least = match step.action {
            Action::DestroyVm { .. }
            | Action::DeleteImage { .. }
            | Action::DropTemplate { .. }
            | Action::DeleteVolume { .. }
            | Action::LeaveEtcd { .. }
            | Action::RemoveMember { .. }
            | Action::ForgetNode => Impact::Destroy,
            Action::StopVm { .. } | Action::RestartVm { .. } | Action::ApplyConfig { reboot: true, .. } => {
                Impact::Restart
            }
            _ => Impact::None,
        };
        self.demand(step.impact >= least, Rule::Destruction, step, "The step does more harm than it says");
    }

    /// A phase does nothing of another; what runs between changes of VMs may be awaited with them.
    fn phase(&mut self, step: &Step) {
        let files = matches!(step.action, Action::CreateSecrets | Action::WriteOutputs);
        let bootstraps = matches!(step.action, Action::Bootstrap { .. });
        let awaits = matches!(step.action, Action::AwaitEtcd | Action::AwaitEndpoint | Action::AwaitReady);
        let addon = step.action.addon().map(|(_, network)| network);
        let outputs = step.action == Action::WriteOutputs;
        let fits = match self.plan.phase {
            None => true,
            Some(_) if self.plan.purpose != Purpose::Apply => false,
            Some(Phase::Generate) => files,
            Some(Phase::Provision) => step.action != Action::CreateSecrets && !bootstraps && addon.is_none(),
            Some(Phase::Bootstrap) => bootstraps || awaits || outputs || addon == Some(true),
            Some(Phase::Addons) => outputs || addon.is_some(),
        };
        self.demand(fits, Rule::Phase, step, "The step is of another phase");
    }

    fn create_secrets(&mut self, step: &Step) {
        let stored = self.world.secrets_stored;
        self.demand(!stored, Rule::Secrets, step, "Secrets are stored already and would be replaced");
        let alive = self.world.guests.values().any(|guest| matches!(guest.ownership, Ownership::Ours { .. }));
        self.demand(!alive, Rule::Secrets, step, "VMs of this cluster exist and would not know new secrets");
        let blind = !self.world.unlisted_hosts.is_empty();
        self.demand(!blind, Rule::Secrets, step, "VMs of this cluster may exist where nobody could look");
        let hidden = self.nodes.values().any(|node| {
            let on_vmid = self.world.guests.get(&node.vmid).map(|guest| &guest.ownership);
            matches!(on_vmid, Some(Ownership::LookAlike { .. } | Ownership::Unreadable { .. }))
        });
        self.demand(!hidden, Rule::Secrets, step, "A guest on one of our VMIDs may know other secrets");
        let twice = self.plan.steps[..step.id as usize].iter().any(|s| s.action == Action::CreateSecrets);
        self.demand(!twice, Rule::Secrets, step, "Secrets are made twice");
    }

    fn secrets_before(&mut self, step: &Step) {
        let there = self.world.secrets_stored || self.after(step, |s| s.action == Action::CreateSecrets);
        self.demand(there, Rule::Secrets, step, "Secrets are used before they are stored");
    }

    fn await_api(&mut self, step: &Step) {
        let Some(node) = self.declared(step) else { return };
        let running =
            self.world.guests.get(&node.vmid).is_some_and(|guest| guest.running && is_ours(guest, node));
        let started = self.after(step, |s| s.action == Action::StartVm { vmid: node.vmid });
        self.demand(running || started, Rule::Order, step, "The node is awaited but its VM is not started");
        let waits = self.waits_for_config(node);
        let given =
            self.after(step, |s| matches!(s.action, Action::GiveConfig { vmid, .. } if vmid == node.vmid));
        self.demand(given || !waits, Rule::Order, step, "The node is awaited but never gets its config");
        if node.role == Role::Worker {
            self.vouched(step, "A worker is awaited before a control plane that vouches for it");
        }
    }

    /// Workers and the endpoint live off a control plane: the one that is bootstrapped, or else any.
    fn vouched(&mut self, step: &Step, text: &str) {
        let target = self.bootstrap.and_then(|id| self.plan.steps[id as usize].node.as_deref());
        let after = self.trusted
            || match target {
                Some(target) => self.answers_before(step, target),
                None => self.after(step, |earlier| self.control_plane_apis.contains(&earlier.id)),
            };
        self.demand(after, Rule::Order, step, text);
    }

    fn await_ready(&mut self, step: &Step) {
        let Some(node) = self.declared(step) else { return };
        let answers = self.answers_before(step, &node.name);
        self.demand(answers, Rule::Order, step, "Readiness is awaited before the node answers");
        let endpoint = self.endpoint.is_none_or(|id| self.after_all(step, &[id]));
        self.demand(endpoint, Rule::Order, step, "Readiness is awaited before the API server answers");
        // One that is restarted after its config changed votes, and is awaited, twice.
        let joins = self.joins.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
        let latest = joins.iter().rfind(|id| **id < step.id).or(joins.last());
        let votes = latest.is_none_or(|id| self.after_all(step, &[*id]));
        self.demand(votes, Rule::Order, step, "Readiness is awaited before the node votes in etcd");
        self.network_before(step);
    }

    /// The declared node a step is about; a finding if there is none.
    fn declared(&mut self, step: &Step) -> Option<&'a Node> {
        let node = step.node.as_deref().and_then(|name| self.nodes.get(name)).copied();
        self.demand(node.is_some(), Rule::Ownership, step, "The step is about no declared node");
        node
    }
}

fn is_up(world: &World, node: &str) -> bool {
    world.nodes.get(node).is_some_and(|view| matches!(view.talos, TalosView::Configured { .. }))
}

fn is_ours(guest: &GuestView, node: &Node) -> bool {
    matches!(&guest.ownership, Ownership::Ours { node: name, .. } if *name == node.name)
}
