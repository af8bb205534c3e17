//! A whole cluster made in the in-process lab under paused time: what it cost in calls, time and memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use daedal_dial::{Dialer, Routes};
use daedal_engine::{Clock, Effects, Engine, Entropy, Limits, Parts, Report, Run, StepState};
use daedal_inventory::Cluster;
use daedal_lab::proxmox::{DatacenterSpec, HostSpec, StorageSpec, TokenSpec};
use daedal_lab::{Dhcp, Distant, Lab, LabSpec, Pace};
use daedal_planner::{plan_apply, plan_destroy};
use daedal_proxmox::{CallCounter, Client, Token, Trust};
use daedal_store::{Keyring, Store};
use daedal_talos_config::SecretsBundle;
use jiff::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::lateness::{Wait, p95, waits};
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

/// The cluster that is made.
pub struct Case<'a> {
    pub nodes: u32,
    pub hosts: u32,
    pub latency_ms: u64,
    /// `boot:` as the inventory says it.
    pub boot: &'a str,
    /// Whether the disks in the images are as large as declared.
    pub large: bool,
}

/// Makes one cluster in a lab of its own.
pub fn measure(case: &Case<'_>) -> Result<Creating, Failure> {
    let began = std::time::Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let mut measured = runtime.block_on(create(case))?;
    measured.real = began.elapsed().as_secs_f64();
    measured.memory = peak_memory();
    Ok(measured)
}

async fn create(case: &Case<'_>) -> Result<Creating, Failure> {
    let Case { nodes, hosts, latency_ms, boot, large } = *case;
    let names = inventory::hosts(hosts);
    let cluster = inventory::resolve(&inventory::text(nodes, &names, boot)?)?;
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
    // Where nothing else tells a node its address, the network's DHCP server has a reservation for it.
    let dhcp =
        Dhcp::reserved(cluster.nodes.iter().filter_map(|node| Some((node.mac.clone(), node.address?))));
    let lab = Lab::new(LabSpec { datacenter, epoch: EPOCH, dhcp: Some(dhcp), ..LabSpec::default() })?;
    if large {
        lab.factory().set_disk_size(cluster.nodes.iter().map(|node| node.disk).max().unwrap_or_default());
    }
    let dialer: Dialer = Arc::new(Distant::new(lab.dialer(), Duration::from_millis(latency_ms)));
    let folder = tempfile::tempdir()?;
    let counter = Arc::new(CallCounter::new());
    let engine = engine(&lab, &cluster, &dialer, folder.path(), &counter)?;

    let world = engine.observe(&cluster).await?;
    let first_look = counter.counts().total;
    let plan = plan_apply(&cluster, &engine.images(&cluster), &world)?;
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
    let plan_again = plan_apply(&cluster, &engine.images(&cluster), &world)?;
    if let Some(step) = plan_again.steps.first() {
        return Err(format!("the finished cluster still has something to do: {step:?}").into());
    }
    let looked = counter.counts().total;
    let taken_down =
        engine.execute(&cluster, &world, &plan_destroy(&cluster, &world)?, &Run::silent()).await?;
    if !taken_down.succeeded() {
        return Err("it could not be destroyed".into());
    }
    let waits = waits(&cluster, &report, origin, &lab.faults().moments());
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
        critical: critical(&report, &waits).as_secs_f64(),
        queued: queued(&report).as_secs_f64(),
        lateness: summary(&report, waits),
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
    let keys = Keyring::in_file(folder.join("key.txt"));
    keys.make()?;
    Ok(Engine::new(Parts {
        author: "bench@here".into(),
        proxmox,
        factory: daedal_image_factory::Factory::new(&cluster.talos.factory, dialer.clone(), &trust)?,
        routes: Routes::same(dialer.clone()),
        host_files: None,
        store: Store::in_folder(folder.join("store"), &cluster.name, cluster.uuid.to_string(), keys),
        outputs: folder.join("outputs"),
        clock: Arc::new(LabClock(lab.pace())),
        entropy: Entropy::from_seed([7; 32]),
        new_secrets: Arc::new(move |_, _| Ok(secrets.clone())),
        effects: Effects::default(),
        addons: Arc::new(daedal_engine::NoFiles),
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

fn summary(report: &Report, waits: Vec<Wait>) -> BTreeMap<String, Lateness> {
    let mut stages: BTreeMap<&str, Vec<Wait>> = BTreeMap::new();
    for wait in waits {
        if let Some(step) = report.steps.get(wait.step) {
            stages.entry(step.stage).or_default().push(wait);
        }
    }
    let sum = |(stage, waits): (&str, Vec<Wait>)| {
        let at = |index: usize| waits.get(index).map_or(0.0, |wait| wait.late.as_secs_f64());
        let lateness = Lateness {
            waits: waits.len(),
            median: at(waits.len() / 2),
            p95: p95(&waits).as_secs_f64(),
            most: at(waits.len().saturating_sub(1)),
        };
        (stage.to_owned(), lateness)
    };
    stages.into_iter().map(sum).collect()
}

/// The longest chain of needs, with each step as long as it was minus how late its end was noticed.
fn critical(report: &Report, waits: &[Wait]) -> Duration {
    let late: HashMap<usize, Duration> = waits.iter().map(|wait| (wait.step, wait.late)).collect();
    let mut ends: Vec<Duration> = Vec::with_capacity(report.steps.len());
    for (at, step) in report.steps.iter().enumerate() {
        let took = step.end.unwrap_or_default().saturating_sub(step.start.unwrap_or_default());
        let late = late.get(&at).copied().unwrap_or_default();
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
