//! Executes a plan: every step finds out what is already done, and reads the world again where it cannot know.

mod addons;
mod change;
mod claim;
mod cluster;
mod config;
mod console;
mod create;
mod firewall;
mod give;
mod graph;
mod guard;
mod host_limits;
mod image;
mod install;
mod limiter;
mod mark;
mod remove;
mod restart;
mod snippet;
mod template;
mod trying;
pub(crate) mod vm;
mod waiting;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_inventory::{Cluster, Node};
use daedal_machine::Configs;
use daedal_planner::{Action, Generation, Judge, Phase, Plan, Purpose, Stamp, Step, StepId, World};
use daedal_proxmox::TaskWatcher;
use daedal_store::{Entry, Journal};
use daedal_talos_config::SecretsBundle;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::OnceCell;

use self::addons::Apply;
use self::claim::Claim;
use self::host_limits::HostLimits;
use self::install::Install;
pub(crate) use self::limiter::Limiter;
use crate::addresses::{self, Addresses};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, chain};
use crate::event::StepRef;
use crate::execute::graph::{Ended, Failure, Work, Worker};
use crate::execute::waiting::Readiness;
use crate::kubernetes::Kubernetes;
use crate::machine::Sources;
use crate::node_identities::NodeIdentities;
use crate::nodes::{Nodes, Probe};
use crate::observe::placed;
use crate::report::Report;
use crate::run::Run;
use daedal_machine::views::Hosts;

/// How a step ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    AlreadyDone,
}

impl Engine {
    /// Executes a plan made from this cluster and world. Failures of steps are in the report; an error means that
    /// nothing was begun.
    pub async fn execute(
        &self,
        cluster: &Cluster,
        world: &World,
        plan: &Plan,
        run: &Run,
    ) -> Result<Report, Error> {
        if plan.uuid != cluster.uuid || plan.intent != daedal_planner::intent(cluster) {
            return Err(Error::Plan { why: "it was made for another inventory".to_owned() });
        }
        let findings = daedal_planner::check(cluster, world, plan);
        if let [first, rest @ ..] = &findings[..] {
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
            return Err(Error::Plan { why: format!("the checker refuses it: {first}{more}") });
        }
        let executor = Executor::new(self, cluster, world, plan, run)?;
        if let Some(generation) = &executor.generation {
            self.record(generation).await?;
        }
        let by = run.approved_by.as_ref().map(|who| format!(", approved by {who}")).unwrap_or_default();
        let which = format!("plan {}{by}", daedal_planner::plan_id(plan));
        executor.journal("run begun", &format!("{:?} {}", plan.purpose, plan.cluster), &which);
        let began = self.parts.clock.now();
        let report = tokio::select! {
            report = graph::run(&executor, plan, run, began) => report,
            never = executor.readiness.drive(&executor) => match never {},
        };
        let failed = report.failures().count();
        executor.journal(
            "run ended",
            &plan.cluster,
            &format!("{failed} failed, {} left", report.left().count()),
        );
        // The journal is for people: a full disk must not fail a run that succeeded.
        if let Err(error) = executor.journal.close().await {
            tracing::warn!(error = %chain(&error), "the journal could not be written");
        }
        Ok(report)
    }
}

/// One run's shared state.
pub(crate) struct Executor<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) cluster: &'a Cluster,
    pub(crate) world: &'a World,
    pub(crate) plan: &'a Plan,
    pub(crate) run: &'a Run,
    pub(crate) judge: Judge<'a>,
    pub(crate) tasks: TaskWatcher,
    pub(crate) readiness: Readiness,
    pub(crate) addresses: Addresses,
    pub(crate) identities: NodeIdentities,
    /// When the run began, if it restores a snapshot: nodes that reported before are memories.
    pub(crate) reborn: Option<Timestamp>,
    /// Nodes that this very run reboots, and the boot before: what that reported is no news of the next.
    former_boots: Mutex<HashMap<String, String>>,
    secrets: OnceCell<Arc<SecretsBundle>>,
    configs: OnceCell<Arc<Configs>>,
    nodes: OnceCell<Nodes>,
    kubernetes: OnceCell<Kubernetes>,
    by_name: HashMap<&'a str, &'a Node>,
    /// The generation that this run applies; none where it changes nothing for good.
    generation: Option<Generation>,
    /// Whose the cluster is that this run begins.
    pub(crate) claim: Claim,
    /// VMs this very run made: known to be ours without asking again.
    fresh: Mutex<BTreeSet<u32>>,
    /// VMs this very run gave the declared config.
    given: Mutex<BTreeSet<u32>>,
    /// VMs whose create starts them.
    starting: Mutex<BTreeSet<u32>>,
    /// Steps that gave up on a peer: what they did before it fell silent may have happened.
    given_up: Mutex<BTreeSet<StepId>>,
    host_limits: HostLimits<'a>,
    journal: Journal,
}

impl<'a> Executor<'a> {
    fn new(
        engine: &'a Engine,
        cluster: &'a Cluster,
        world: &'a World,
        plan: &'a Plan,
        run: &'a Run,
    ) -> Result<Self, Error> {
        let addresses = Addresses::new(world.addresses.clone());
        Ok(Self {
            engine,
            cluster,
            world,
            plan,
            run,
            judge: Judge::knowing(cluster, world.secrets_id.clone()),
            tasks: engine.site.tasks(&engine.parts.proxmox),
            readiness: Readiness::default(),
            identities: NodeIdentities::new(cluster, world, addresses.clone()),
            addresses,
            reborn: restores(plan).then(|| engine.parts.clock.now()),
            former_boots: Mutex::default(),
            secrets: OnceCell::new(),
            configs: OnceCell::new(),
            nodes: OnceCell::new(),
            kubernetes: OnceCell::new(),
            by_name: cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            generation: writes_marks(plan).then(|| Generation {
                number: world.next_generation(),
                by: engine.parts.author.clone(),
                at: engine.parts.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            }),
            claim: Claim::of(plan, world),
            fresh: Mutex::default(),
            given: Mutex::default(),
            starting: Mutex::default(),
            given_up: Mutex::default(),
            host_limits: HostLimits::new(&engine.site, cluster, world, plan),
            journal: engine.parts.store.journal(),
        })
    }

    async fn step(&self, step: &Step) -> Result<Outcome, Error> {
        // Whoever lost the lock begins nothing more.
        self.engine.parts.store.still_locked().await?;
        self.work_of(step).await
    }

    /// The work of a step. Each kind of work lies on the heap: together they would make a frame that no thread has room for.
    fn work_of<'s>(&'s self, step: &'s Step) -> BoxFuture<'s, Result<Outcome, Error>> {
        match &step.action {
            Action::CreateSecrets => Box::pin(self.create_secrets()),
            Action::RegisterSchematic { id } => Box::pin(self.register_schematic(id)),
            Action::PinImage { file, url } => Box::pin(self.pin_image(step, file, url)),
            Action::DownloadImage { content, storage, file, url } => {
                Box::pin(self.download_image(step, *content, storage, file, url))
            }
            Action::DeleteImage { volid } => Box::pin(self.delete_image(step, volid)),
            Action::UploadMedia { storage, file } => Box::pin(self.upload_media(step, storage, file)),
            Action::MakeTemplate { vmid, role, image, digest, through: None } => {
                Box::pin(self.make_template(step, *vmid, *role, image, digest))
            }
            Action::MakeTemplate { vmid, role, image, digest, through: Some(through) } => {
                let make = Install { vmid: *vmid, role: *role, iso: image, digest, through };
                Box::pin(self.install_template(step, make))
            }
            Action::DropTemplate { vmid, digest } => Box::pin(self.drop_template(step, *vmid, digest)),
            Action::DeleteVolume { volid, vmid } => Box::pin(self.delete_leftover(step, volid, *vmid)),
            Action::FillIpSet { vmid, members, .. } => Box::pin(self.fill_set(step, *vmid, members)),
            Action::DropIpSet { vmid } => Box::pin(self.drop_set(step, *vmid)),
            Action::SetFirewallRules { vmid, rules, .. } => Box::pin(self.set_rules(step, *vmid, rules)),
            Action::SetFirewallOptions { vmid, options, .. } => {
                Box::pin(self.set_options(step, *vmid, options))
            }
            Action::FilterCard { vmid, on } => Box::pin(self.filter_card(step, *vmid, *on)),
            Action::PutClusterObject { kind, id, vms, options, .. } => {
                Box::pin(self.put_object(step, *kind, id, vms, options))
            }
            Action::RemoveClusterObject { kind, id, vm } => {
                Box::pin(self.remove_object(step, *kind, id, *vm))
            }
            Action::CreateVm { .. } => Box::pin(self.create(step)),
            Action::AwaitCreate { vmid, upid } => Box::pin(self.await_create(step, *vmid, upid)),
            Action::GrowDisk { vmid, size } => Box::pin(self.grow_disk(step, *vmid, *size)),
            Action::UpdateVm { vmid, changes } => Box::pin(self.update_vm(step, *vmid, changes)),
            Action::AttachMedia { vmid, media } => {
                Box::pin(async move { self.attach_media(step, *vmid, &self.medium(media)).await })
            }
            Action::StartVm { vmid } => Box::pin(self.start_vm(step, *vmid)),
            Action::RestartVm { vmid } => Box::pin(self.restart_vm(step, *vmid)),
            Action::GiveConfig { vmid, console } => Box::pin(self.give_config(step, *vmid, *console)),
            Action::ApplyConfig { running, declared, reboot, versions, .. } => {
                Box::pin(self.apply_config(step, [running, declared], *reboot, versions.as_ref()))
            }
            Action::AwaitApi => Box::pin(self.await_api(step)),
            Action::Bootstrap { recover } => Box::pin(self.bootstrap(step, recover.as_ref())),
            Action::AwaitEtcd => Box::pin(self.await_etcd(step)),
            Action::AwaitEndpoint => Box::pin(self.await_endpoint(step)),
            Action::AwaitReady => Box::pin(self.await_ready(step)),
            Action::EjectMedia { vmid } | Action::MarkConfigured { vmid } => {
                Box::pin(self.settle(step, *vmid))
            }
            Action::RestoreMark { .. } => Box::pin(self.restore_mark(step)),
            Action::DeleteMedia { volid } => {
                Box::pin(async move { self.delete_media(step, &self.medium(volid)).await })
            }
            Action::WriteOutputs => Box::pin(self.write_outputs()),
            Action::ApplyAddon { addon, stage, objects, force, .. } => {
                let apply = Apply { addon, stage: *stage, objects, force: *force };
                Box::pin(self.apply_addon(step, apply))
            }
            Action::AwaitAddon { addon, .. } => Box::pin(self.await_addon(step, addon)),
            Action::PruneAddon { addon, objects, gone, .. } => {
                Box::pin(self.prune_addon(step, addon, objects, *gone))
            }
            Action::Cordon => Box::pin(self.cordon(step)),
            Action::Drain => Box::pin(self.drain(step)),
            Action::LeaveEtcd { member, address } => Box::pin(self.leave_etcd(step, member, Some(address))),
            Action::RemoveMember { member } => Box::pin(self.leave_etcd(step, member, None)),
            Action::ForgetNode => Box::pin(self.forget_node(step)),
            Action::StopVm { vmid } => Box::pin(async move {
                if self.plan.purpose == Purpose::Remove {
                    self.has_left(step).await?;
                }
                self.stop_vm(step, *vmid).await
            }),
            Action::DestroyVm { vmid } => Box::pin(self.destroy_vm(step, *vmid)),
        }
    }

    /// Creates a VM, from its role's template or from an image.
    async fn create(&self, step: &Step) -> Result<Outcome, Error> {
        let Action::CreateVm { vmid, template, image, iso, media, .. } = &step.action else {
            return Err(Error::Plan { why: "its step creates no VM".to_owned() });
        };
        let media = media.as_deref().map(|media| self.medium(media));
        let media = media.as_deref();
        let made = match template {
            Some(template) => self.clone_vm(step, *vmid, template).await,
            None => {
                let (image, iso) = (image.as_deref(), iso.as_deref());
                self.create_vm(step, *vmid, Sources { image, iso, media }).await
            }
        };
        self.unless_theirs(step, media, made).await
    }

    /// What all marks that this run writes have in common.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { secrets: self.judge.secrets().cloned(), generation: self.generation.clone() }
    }

    /// A medium's name or volume id as it is called: a plan that was made before there were secrets does not know their id.
    pub(crate) fn medium<'s>(&self, named: &'s str) -> Cow<'s, str> {
        let there = || self.world.volumes.iter().any(|volume| volume.volid == named);
        match (self.judge.secrets(), &self.world.secrets_id) {
            (Some(secrets), None) if !there() => Cow::Owned(daedal_planner::names::signed(named, secrets)),
            _ => Cow::Borrowed(named),
        }
    }

    /// The cluster with all addresses that are known by now.
    pub(crate) fn located(&self) -> Cow<'a, Cluster> {
        self.cluster.located(&self.addresses.all())
    }

    /// The secrets bundle, read once per run.
    pub(crate) async fn secrets(&self) -> Result<Arc<SecretsBundle>, Error> {
        let read = || async { self.engine.stored_secrets().await?.map(Arc::new).ok_or(Error::NoSecrets) };
        self.secrets.get_or_try_init(read).await.cloned()
    }

    /// The machine configs of the cluster with all addresses that are known by now.
    pub(crate) async fn configs(&self) -> Result<Arc<Configs>, Error> {
        let secrets = self.secrets().await?;
        Ok(match self.located() {
            Cow::Borrowed(cluster) => {
                let shared = || async { self.engine.configs(cluster, &secrets) };
                self.configs.get_or_init(shared).await.clone()
            }
            Cow::Owned(cluster) => self.engine.configs(&cluster, &secrets),
        })
    }

    /// The nodes' Talos API, with credentials minted once per run.
    pub(crate) async fn nodes(&self) -> Result<&Nodes, Error> {
        let make = || async {
            let nodes = Nodes::new(&self.engine.parts, &*self.secrets().await?)?;
            Ok(nodes.finding(self.addresses.clone()))
        };
        self.nodes.get_or_try_init(make).await
    }

    /// The API servers, with credentials minted once per run.
    pub(crate) async fn kubernetes(&self) -> Result<&Kubernetes, Error> {
        let make = || async { Kubernetes::new(&self.engine.parts, &*self.secrets().await?) };
        self.kubernetes.get_or_try_init(make).await
    }

    /// The node a step is about.
    pub(crate) fn node(&self, step: &Step) -> Result<&'a Node, Error> {
        let name = step.node.as_deref().unwrap_or_default();
        let node = self.by_name.get(name).copied();
        node.ok_or_else(|| Error::Plan { why: format!("step {} names node `{name}`", step.id) })
    }

    /// The host a step is to be done on.
    pub(crate) fn host<'s>(&self, step: &'s Step) -> Result<&'s str, Error> {
        step.host.as_deref().ok_or_else(|| Error::Plan { why: format!("step {} names no host", step.id) })
    }

    pub(crate) fn made(&self, vmid: u32) {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).insert(vmid);
    }

    pub(crate) fn is_fresh(&self, vmid: u32) -> bool {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).contains(&vmid)
    }

    /// The call that made the VM starts it, too.
    pub(crate) fn will_start(&self, vmid: u32) {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner).insert(vmid);
    }

    pub(crate) fn starts_by_itself(&self, vmid: u32) -> bool {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner).contains(&vmid)
    }

    fn gave_up(&self, step: StepId) {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).insert(step);
    }

    /// Whether this step was begun before in this run, and its effect may be there.
    pub(crate) fn is_begun_again(&self, step: &Step) -> bool {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).contains(&step.id)
    }

    /// A node reboots, and Kubernetes knew it by this boot.
    pub(crate) fn reboots(&self, node: &Node, boot: String) {
        let mut former = self.former_boots.lock().unwrap_or_else(PoisonError::into_inner);
        former.insert(node.name.clone(), boot);
    }

    pub(crate) fn former_boot(&self, node: &Node) -> Option<String> {
        self.former_boots.lock().unwrap_or_else(PoisonError::into_inner).get(&node.name).cloned()
    }

    pub(crate) fn gave(&self, vmid: u32) {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).insert(vmid);
    }

    pub(crate) fn was_given(&self, vmid: u32) -> bool {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).contains(&vmid)
    }

    /// Which host each node is or will be on.
    pub(crate) fn hosts(&self) -> Hosts {
        let mut hosts = placed(self.cluster, self.world);
        for step in &self.plan.steps {
            let makes = matches!(step.action, Action::CreateVm { .. } | Action::AwaitCreate { .. });
            if let (true, Some(node), Some(host)) = (makes, &step.node, &step.host) {
                hosts.insert(node.clone(), host.clone());
            }
        }
        hosts
    }

    fn journal(&self, what: &str, subject: &str, detail: &str) {
        let entry = Entry {
            at: self.engine.parts.clock.now(),
            what: what.to_owned(),
            subject: subject.to_owned(),
            detail: detail.to_owned(),
        };
        self.journal.note(&entry);
    }
}

impl Worker for Executor<'_> {
    fn work<'s>(&'s self, step: &'s Step) -> Work<'s> {
        Box::pin(async move {
            match self.step(step).await {
                Ok(Outcome::Done) => Ended::Done,
                Ok(Outcome::AlreadyDone) => Ended::AlreadyDone,
                Err(Error::Stopped) => Ended::Stopped,
                Err(error) => {
                    let peer = is_of_a_peer(&error, &step.action);
                    if peer {
                        self.gave_up(step.id);
                    }
                    Ended::Failed { failure: Failure::of(&error), peer }
                }
            }
        })
    }

    fn is_back<'s>(&'s self, step: &'s Step) -> Pin<Box<dyn Future<Output = bool> + Send + 's>> {
        Box::pin(async move {
            let patience = self.engine.parts.limits.probe_timeout;
            match &step.action {
                Action::AwaitApi | Action::AwaitEtcd | Action::AwaitReady => {
                    let (Ok(node), Ok(nodes)) = (self.node(step), self.nodes().await) else { return false };
                    matches!(nodes.probe(node, patience).await, Probe::Configured { .. })
                }
                Action::AwaitEndpoint => {
                    let endpoint = addresses::endpoint(&self.located());
                    let Ok(kubernetes) = self.kubernetes().await else { return false };
                    kubernetes.answers(&endpoint, patience).await.is_ok()
                }
                _ => {
                    let proxmox = &self.engine.parts.proxmox;
                    let asked = async {
                        match &step.host {
                            // Another host answers for the whole cluster while this one is away.
                            Some(host) => proxmox.vms(host).await.map(drop),
                            None => proxmox.version().await.map(drop),
                        }
                    };
                    matches!(tokio::time::timeout(patience, asked).await, Ok(Ok(())))
                }
            }
        })
    }

    fn before<'s>(&'s self, step: &'s Step) -> BoxFuture<'s, Option<Ended>> {
        Box::pin(async move {
            let error = self.claim.settled(step).await?;
            let failure = Failure { kind: ErrorKind::NotOurs, error, fix: None };
            Some(Ended::Failed { failure, peer: false })
        })
    }

    fn limiter(&self, step: &Step) -> Option<Arc<Limiter>> {
        self.host_limits.of(step)
    }

    fn failed(&self) {
        self.claim.open();
    }

    fn note(&self, step: &Step, ended: Option<&Ended>) {
        let subject = StepRef::of(step).subject();
        match ended {
            None => self.journal("begun", &subject, ""),
            Some(Ended::Done) => self.journal("done", &subject, ""),
            Some(Ended::AlreadyDone) => self.journal("done", &subject, "already"),
            Some(Ended::Stopped) => self.journal("stopped", &subject, ""),
            Some(Ended::Failed { failure, .. }) => self.journal("failed", &subject, &failure.error),
        }
    }
}

/// Whether a step failed because a peer does not answer, and can be begun again when it does.
fn is_of_a_peer(error: &Error, action: &Action) -> bool {
    use daedal_proxmox::Kind;
    match (error, action) {
        (Error::Proxmox(error), _) => {
            matches!(error.kind(), Kind::Unreachable { .. } | Kind::NoQuorum { .. })
                || matches!(error.kind(), Kind::MayHaveHappened { .. })
        }
        (
            Error::Deadline { .. },
            Action::AwaitApi | Action::AwaitEtcd | Action::AwaitEndpoint | Action::AwaitReady,
        ) => true,
        _ => false,
    }
}

/// Whether a run changes VMs, whose marks tell of it.
fn writes_marks(plan: &Plan) -> bool {
    let of_machines = !matches!(plan.phase, Some(Phase::Bootstrap | Phase::Addons));
    plan.purpose == Purpose::Apply && of_machines && plan.touches_machines()
}

/// Whether a new etcd begins with a snapshot.
fn restores(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| matches!(step.action, Action::Bootstrap { recover: Some(_) }))
}
