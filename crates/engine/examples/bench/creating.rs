//! A whole cluster made in the in-process lab under paused time: what it cost in calls, time and memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daedal_dial::{Dialer, Target};
use daedal_engine::{Clock, Effects, Engine, Entropy, Limits, Parts, Report, Run, StepState};
use daedal_inventory::Cluster;
use daedal_lab::proxmox::{DatacenterSpec, HostSpec, StorageSpec, TokenSpec};
use daedal_lab::{Lab, LabSpec, Pace};
use daedal_planner::{Action, Plan, plan_apply, plan_destroy};
use daedal_proxmox::{CallCounter, Client, Token, Trust};
use daedal_store::Store;
use daedal_talos::SecretsBundle;
use jiff::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::latency::Late;
use crate::machine::peak_memory;
use crate::{Failure, inventory};

const SECRET: &str = "7f3b1f9e-57a4-4c8e-9a53-0d6f0b8a9c11";
const EPOCH: i64 = 1_790_000_000;

/// What making one cluster took. Times are seconds: simulated, unless it says otherwise.
#[derive(Debug, Serialize, Deserialize)]
pub struct Creating {
    pub nodes: u32,
    pub hosts: u32,
    pub latency_ms: u64,
    /// Calls to Proxmox from the first look to the end of the run.
    pub mutating: u64,
    pub total: u64,
    pub failed: u64,
    pub by_shape: BTreeMap<String, u64>,
    /// Calls of the look before the plan.
    pub first_look: u64,
    /// Calls of the next look, which finds nothing to do.
    pub no_op: u64,
    /// Calls of taking it all down again.
    pub destroy: u64,
    /// From the run's beginning to its end.
    pub wall: f64,
    /// The longest chain of steps, each as long as what it waited for really took, none queueing.
    pub critical: f64,
    /// Time that the steps of the chain which ended last spent queueing for a turn.
    pub queued: f64,
    /// How long after the event each wait ended, by what was waited for.
    pub lateness: BTreeMap<String, Lateness>,
    /// On the wall.
    pub real: f64,
    pub memory: Option<u64>,
}

/// How late waits of one kind ended, in seconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lateness {
    pub waits: usize,
    pub median: f64,
    pub p95: f64,
    pub most: f64,
}

/// Makes one cluster in a lab of its own.
pub fn measure(nodes: u32, hosts: u32, latency_ms: u64) -> Result<Creating, Failure> {
    let began = std::time::Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let mut measured = runtime.block_on(create(nodes, hosts, latency_ms))?;
    measured.real = began.elapsed().as_secs_f64();
    measured.memory = peak_memory();
    Ok(measured)
}

async fn create(nodes: u32, hosts: u32, latency_ms: u64) -> Result<Creating, Failure> {
    let names = inventory::hosts(hosts);
    let cluster = inventory::resolve(&inventory::text(nodes, &names)?)?;
    let host = |name: &String| HostSpec {
        storages: vec![
            StorageSpec::local(),
            StorageSpec::new("local-lvm", "lvmthin", &["images", "rootdir"], 4 << 40),
        ],
        ..HostSpec::new(name.as_str(), 128, 512 << 30)
    };
    let datacenter = DatacenterSpec {
        hosts: names.iter().map(host).collect(),
        tokens: vec![TokenSpec::minimal(inventory::TOKEN, SECRET)],
        ..DatacenterSpec::default()
    };
    let lab = Lab::new(LabSpec { datacenter, epoch: EPOCH, ..LabSpec::default() })?;
    let dialer: Dialer = Arc::new(Late::new(lab.dialer(), Duration::from_millis(latency_ms)));
    let folder = tempfile::tempdir()?;
    let counter = Arc::new(CallCounter::new());
    let engine = engine(&lab, &cluster, &dialer, folder.path(), &counter)?;

    let world = engine.observe(&cluster).await?;
    let first_look = counter.counts().total;
    let plan = plan_apply(&cluster, &engine.image(&cluster), &world)?;
    let events = Events::follow(&lab);
    let origin = Instant::now();
    let report = engine.execute(&cluster, &world, &plan, &Run::silent()).await?;
    for step in &report.steps {
        if let StepState::Failed { error, .. } = &step.state {
            return Err(format!("{:?}: {} failed: {error}", step.node, step.stage).into());
        }
    }
    if !report.succeeded() {
        return Err("not every step was done".into());
    }
    let made = counter.counts();

    let world = engine.observe(&cluster).await?;
    let plan_again = plan_apply(&cluster, &engine.image(&cluster), &world)?;
    if let Some(step) = plan_again.steps.first() {
        return Err(format!("the finished cluster still has something to do: {step:?}").into());
    }
    let looked = counter.counts().total;
    let taken_down =
        engine.execute(&cluster, &world, &plan_destroy(&cluster, &world)?, &Run::silent()).await?;
    if !taken_down.succeeded() {
        return Err("it could not be destroyed".into());
    }
    let late = events.lateness(&cluster, &plan, &report, origin);
    Ok(Creating {
        nodes,
        hosts,
        latency_ms,
        mutating: made.mutating,
        total: made.total,
        failed: made.failed,
        by_shape: made.by_shape,
        first_look,
        no_op: looked - made.total,
        destroy: counter.counts().total - looked,
        wall: report.took.as_secs_f64(),
        critical: critical(&report, &late).as_secs_f64(),
        queued: queued(&report).as_secs_f64(),
        lateness: summary(&plan, &late),
        real: 0.0,
        memory: None,
    })
}

fn engine(
    lab: &Lab,
    cluster: &Cluster,
    dialer: &Dialer,
    folder: &std::path::Path,
    counter: &Arc<CallCounter>,
) -> Result<Engine, Failure> {
    let trust = Trust::Ca(lab.pki().ca_pem().to_owned());
    let proxmox = Client::builder(&cluster.proxmox.endpoint, Token::new(inventory::TOKEN, SECRET)?)
        .dialer(dialer.clone())
        .trust(trust.clone())
        .observer(counter.clone())
        .build()?;
    // A key of 1024 bits: how long a real one takes to find is chance, and no part of what is measured here.
    let born = Timestamp::from_second(EPOCH - 3600)?;
    let secrets = SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(1), born, 1024)?;
    Ok(Engine::new(Parts {
        proxmox,
        factory: daedal_image_factory::Factory::new(&cluster.talos.factory, dialer.clone(), &trust)?,
        nodes: dialer.clone(),
        store: Store::in_folder(folder.join("store"), &cluster.name, cluster.uuid.to_string()),
        outputs: folder.join("outputs"),
        clock: Arc::new(LabClock(lab.pace())),
        entropy: Entropy::from_seed([7; 32]),
        new_secrets: Arc::new(move |_, _| Ok(secrets.clone())),
        effects: Effects::default(),
        limits: Limits::default(),
    }))
}

/// The lab's time is everybody's time.
struct LabClock(Pace);

impl Clock for LabClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.now()).unwrap_or_default()
    }
}

/// When the things that are waited for really happened.
struct Events {
    /// The latest end of a task, by kind and VMID.
    tasks: Arc<Mutex<HashMap<(String, String), Instant>>>,
    /// When something began to answer on an address.
    open: Arc<Mutex<HashMap<Target, Instant>>>,
}

impl Events {
    fn follow(lab: &Lab) -> Self {
        let (tasks, open) = (Arc::<Mutex<HashMap<_, _>>>::default(), Arc::<Mutex<HashMap<_, _>>>::default());
        let ends = tasks.clone();
        lab.datacenter().on_task_end(Arc::new(move |kind, id| {
            let key = (kind.to_owned(), id.to_owned());
            ends.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Instant::now());
        }));
        let (fabric, opened) = (lab.fabric().clone(), open.clone());
        let mut changes = fabric.changes();
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let (targets, now) = (fabric.targets(), Instant::now());
                let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
                for target in targets {
                    opened.entry(target).or_insert(now);
                }
            }
        });
        Self { tasks, open }
    }

    /// How long after its event each step ended, where that is known.
    fn lateness(
        &self,
        cluster: &Cluster,
        plan: &Plan,
        report: &Report,
        origin: Instant,
    ) -> Vec<Option<Duration>> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let addresses: HashMap<&str, String> =
            cluster.nodes.iter().map(|node| (node.name.as_str(), node.address.addr().to_string())).collect();
        let task = |kind: &str, vmid: u32| tasks.get(&(kind.to_owned(), vmid.to_string())).copied();
        let steps = plan.steps.iter().zip(&report.steps);
        steps
            .map(|(step, entry)| {
                let happened = match &step.action {
                    Action::CreateVm { vmid, .. } => task("qmcreate", *vmid),
                    Action::GrowDisk { vmid, .. } => task("resize", *vmid),
                    Action::StartVm { vmid } => task("qmstart", *vmid),
                    Action::AwaitApi => {
                        let address = addresses.get(step.node.as_deref()?)?;
                        open.get(&Target::new(address, 50_000)).copied()
                    }
                    Action::AwaitEndpoint => {
                        let kubernetes = &cluster.kubernetes;
                        open.get(&Target::new(&kubernetes.endpoint_host, kubernetes.endpoint_port)).copied()
                    }
                    _ => None,
                }?;
                let (began, ended) = (origin + entry.start?, origin + entry.end?);
                // What was there before the wait began was not waited for.
                (happened >= began).then(|| ended.saturating_duration_since(happened))
            })
            .collect()
    }
}

/// What a wait is for, in the table.
fn kind(action: &Action) -> &'static str {
    match action {
        Action::StartVm { .. } => "start tasks (relaxed: the boot goes on meanwhile)",
        Action::CreateVm { .. } | Action::GrowDisk { .. } => "create and resize tasks",
        Action::AwaitApi => "node answers over mTLS",
        _ => "API endpoint",
    }
}

fn summary(plan: &Plan, late: &[Option<Duration>]) -> BTreeMap<String, Lateness> {
    let mut kinds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (step, late) in plan.steps.iter().zip(late) {
        if let Some(late) = late {
            kinds.entry(kind(&step.action)).or_default().push(late.as_secs_f64());
        }
    }
    let sum = |(kind, mut all): (&str, Vec<f64>)| {
        all.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let last = all.len().saturating_sub(1);
            all.get((last as f64 * share).ceil() as usize).copied().unwrap_or_default()
        };
        let lateness = Lateness { waits: all.len(), median: at(0.5), p95: at(0.95), most: at(1.0) };
        (kind.to_owned(), lateness)
    };
    kinds.into_iter().map(sum).collect()
}

/// The longest chain of needs, with each step as long as it was minus how late its end was noticed.
fn critical(report: &Report, late: &[Option<Duration>]) -> Duration {
    let mut ends: Vec<Duration> = Vec::with_capacity(report.steps.len());
    for (step, late) in report.steps.iter().zip(late) {
        let took = step.end.unwrap_or_default().saturating_sub(step.start.unwrap_or_default());
        // A start is noticed late on purpose: the machine boots meanwhile, and the wait for it is as much shorter.
        let late = if step.stage == "starting the VM" { Duration::ZERO } else { late.unwrap_or_default() };
        let begin = step.needs.iter().filter_map(|need| ends.get(*need as usize)).max();
        ends.push(begin.copied().unwrap_or_default() + took.saturating_sub(late));
    }
    ends.into_iter().max().unwrap_or_default()
}

/// How long the steps on the chain that ended last were ready and had to queue.
fn queued(report: &Report) -> Duration {
    let steps = report.critical_path.iter().filter_map(|id| report.steps.get(*id as usize));
    steps.filter_map(|step| Some(step.start?.saturating_sub(step.ready?))).sum()
}
