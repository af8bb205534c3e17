//! What creation, a second look and planning cost, measured against the lab in one process and virtual time.
//!
//! `cargo xtask bench [NODES…]` (5, 50 and 500 unless told) prints the tables of `docs/benchmarks.md`. Wall time is the
//! lab's; the critical path is the longest chain of steps, queueing left out; calls are counted at the client, every
//! try of every call. Each row is a process of its own, so that its peak memory is its own; it holds the lab as well.

// A program that prints, and that may give up where a measurement cannot be made.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic, clippy::large_futures)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daedal_dial::{BoxStream, Dial, Dialer, Dialing, Target};
use daedal_engine::{Clock, Effects, Engine, Entropy, Limits, Parts, Run};
use daedal_inventory::{Cluster, Source, load};
use daedal_lab::proxmox::{DatacenterSpec, HostSpec, TokenSpec};
use daedal_lab::{Lab, LabSpec, Pace};
use daedal_planner::{HostView, StorageView, World, plan_apply, plan_destroy};
use daedal_proxmox::{CallCounter, Client, Token, Trust};
use daedal_store::Store;
use daedal_talos::SecretsBundle;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const TOKEN: &str = "daedal@pve!cli";
const SECRET: &str = "00000000-0000-4000-8000-000000000000";
const EPOCH: i64 = 1_790_000_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("create") => create(args[1].parse().unwrap(), args[2].parse().unwrap()),
        Some("plan") => plan(args[1].parse().unwrap()),
        _ => {
            let sizes = if args.is_empty() { vec!["5".into(), "50".into(), "500".into()] } else { args };
            println!(
                "| nodes | latency | changes per node | calls per node | failed | wall | ÷ critical path | second look: calls | its plan | destroy: calls per node | processor | peak memory |"
            );
            println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
            for size in &sizes {
                for latency in ["0", "20", "100"] {
                    child(&["create", size, latency]);
                }
            }
            println!();
            println!("| nodes | first plan | steps | peak memory |");
            println!("|---|---|---|---|");
            for size in ["1000", "10000"] {
                child(&["plan", size]);
            }
        }
    }
}

/// Runs one row in a process of its own.
fn child(args: &[&str]) {
    let status = Command::new(std::env::current_exe().unwrap()).args(args).status().unwrap();
    assert!(status.success(), "the row {args:?} failed");
}

/// Creates, looks again and destroys a cluster of so many nodes, with so many milliseconds to every peer and back.
fn create(nodes: usize, latency: u64) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let hosts: Vec<String> = (1..=(nodes / 25).max(2)).map(|n| format!("host{n}")).collect();
        let cluster = cluster(nodes, &hosts);
        let lab = Lab::new(LabSpec {
            epoch: EPOCH,
            datacenter: DatacenterSpec {
                hosts: hosts.iter().map(|name| HostSpec::new(name, 256, 1 << 40)).collect(),
                tokens: vec![TokenSpec::minimal(TOKEN, SECRET)],
                ..DatacenterSpec::default()
            },
            ..LabSpec::default()
        })
        .unwrap();
        let counter = Arc::new(CallCounter::new());
        let folder = tempfile::tempdir().unwrap();
        let dialer: Dialer = Arc::new(Distant { near: lab.dialer(), one_way: Duration::from_millis(latency) / 2 });
        let engine = engine(&lab, dialer, &cluster, &counter, folder.path());
        let processor = processor_time();

        let world = engine.observe(&cluster).await.unwrap();
        let plan = plan_apply(&cluster, &engine.image(&cluster), &world).unwrap();
        let report = engine.execute(&cluster, &world, &plan, &Run::silent()).await.unwrap();
        assert!(report.succeeded(), "{:#?}", report.failures().collect::<Vec<_>>());
        let made = counter.counts();

        let world = engine.observe(&cluster).await.unwrap();
        let looked = counter.counts().total - made.total;
        let clock = Instant::now();
        let second = plan_apply(&cluster, &engine.image(&cluster), &world).unwrap();
        let planned = clock.elapsed();
        assert!(second.is_empty(), "{:#?}", second.steps);

        let before = counter.counts().total;
        let plan = plan_destroy(&cluster, &world).unwrap();
        let destroyed = engine.execute(&cluster, &world, &plan, &Run::silent()).await.unwrap();
        assert!(destroyed.succeeded());
        let destroy = counter.counts().total - before;

        let each = |calls: u64| calls as f64 / nodes as f64;
        println!(
            "| {nodes} | {latency} ms | {:.2} | {:.2} | {} | {:.1} s | {:.3} | {looked} | {:.1} ms | {:.2} | {} | {} |",
            each(made.mutating),
            each(made.total),
            made.failed,
            report.took.as_secs_f64(),
            report.took.as_secs_f64() / report.critical_time().as_secs_f64(),
            planned.as_secs_f64() * 1000.0,
            each(destroy),
            match (processor, processor_time()) {
                (Some(from), Some(to)) => format!("{:.1} s", (to - from).as_secs_f64()),
                _ => "–".to_owned(),
            },
            peak_memory(),
        );
    });
}

/// Plans a whole new cluster of so many nodes on empty hosts.
fn plan(nodes: usize) {
    let hosts: Vec<String> = (1..=nodes / 50).map(|n| format!("host{n}")).collect();
    let cluster = cluster(nodes, &hosts);
    let storage = |content: &[&str]| StorageView {
        kind: "dir".into(),
        content: content.iter().map(ToString::to_string).collect(),
        active: true,
        shared: false,
        total: 1 << 50,
        available: 1 << 50,
    };
    let host = HostView {
        online: true,
        cpus: 256,
        memory: 1 << 40,
        bridges: BTreeSet::from(["vmbr0".to_owned()]),
        bridges_seen: true,
        storages: BTreeMap::from([
            ("local".to_owned(), storage(&["import", "iso"])),
            ("local-lvm".to_owned(), storage(&["images"])),
        ]),
    };
    let world = World {
        proxmox_version: "9.2.11".into(),
        hosts: hosts.iter().map(|name| (name.clone(), host.clone())).collect(),
        ..World::default()
    };
    let image = daedal_planner::ImageRef {
        file: "talos.qcow2".into(),
        url: "https://factory.talos.dev/image".into(),
        schematic_id: "0".repeat(64),
    };
    let mut best = Duration::MAX;
    let mut steps = 0;
    for _ in 0..5 {
        let clock = Instant::now();
        let plan = plan_apply(&cluster, &image, &world).unwrap();
        best = best.min(clock.elapsed());
        steps = plan.steps.len();
    }
    println!("| {nodes} | {:.1} ms | {steps} | {} |", best.as_secs_f64() * 1000.0, peak_memory());
}

fn engine(
    lab: &Lab,
    dialer: Dialer,
    cluster: &Cluster,
    counter: &Arc<CallCounter>,
    folder: &std::path::Path,
) -> Engine {
    let trust = Trust::Ca(lab.pki().ca_pem().to_owned());
    let proxmox = Client::builder(&cluster.proxmox.endpoint, Token::new(TOKEN, SECRET).unwrap())
        .dialer(dialer.clone())
        .trust(trust.clone())
        .observer(counter.clone())
        .build()
        .unwrap();
    let made = Timestamp::from_second(EPOCH - 3600).unwrap();
    // Making keys is not what is measured.
    let secrets = SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(1), made, 1024).unwrap();
    Engine::new(Parts {
        proxmox,
        factory: daedal_image_factory::Factory::new(&cluster.talos.factory, dialer.clone(), &trust).unwrap(),
        nodes: dialer,
        store: Store::in_folder(folder.join("store"), &cluster.name, cluster.uuid.to_string()),
        outputs: folder.join("outputs"),
        clock: Arc::new(LabClock(lab.pace())),
        entropy: Entropy::from_seed([7; 32]),
        new_secrets: Arc::new(move |_, _| Ok(secrets.clone())),
        effects: Effects::default(),
        limits: Limits::default(),
    })
}

fn cluster(nodes: usize, hosts: &[String]) -> Cluster {
    let control_planes = if nodes >= 3 { 3 } else { 1 };
    let text = format!(
        "apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {{name: bench}}
spec:
  talos: {{version: v1.12.0, extensions: [qemu-guest-agent]}}
  kubernetes: {{version: v1.35.0}}
  proxmox:
    endpoint: https://host1.lan:8006
    token: {{id: \"{TOKEN}\", secret: {{env: X}}}}
    tls: {{insecure: true}}
    hosts: [{}]
    storage: {{disks: local-lvm, images: local}}
    bridge: vmbr0
  network: {{cidr: 172.16.0.0/16, gateway: 172.16.255.1, dns: [1.1.1.1], vip: 172.16.255.20}}
  pools:
    - {{name: cp, role: controlplane, count: {control_planes}, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 300, address: 172.16.1.1}}
    - {{name: worker, role: worker, count: {}, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 1000, address: 172.16.2.1}}
",
        hosts.join(", "),
        nodes - control_planes,
    );
    let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    load(&[Source { name: "bench.yaml".into(), text }], &no_files)
        .unwrap_or_else(|errors| panic!("{errors:?}"))
        .cluster
}

/// The lab's time is everybody's time.
struct LabClock(Pace);

impl Clock for LabClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.now()).unwrap()
    }
}

/// Puts distance between here and every peer: connecting takes a round trip, bytes take half of one each way.
struct Distant {
    near: Dialer,
    one_way: Duration,
}

impl Dial for Distant {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            if self.one_way.is_zero() {
                return self.near.dial(target).await;
            }
            tokio::time::sleep(self.one_way * 2).await;
            let peer = self.near.dial(target).await?;
            let (ours, far) = tokio::io::duplex(256 * 1024);
            let (from_us, to_us) = tokio::io::split(far);
            let (from_peer, to_peer) = tokio::io::split(peer);
            tokio::spawn(carry(from_us, to_peer, self.one_way));
            tokio::spawn(carry(from_peer, to_us, self.one_way));
            Ok(Box::new(ours) as BoxStream)
        })
    }
}

/// Carries bytes one way, each late by the same time, any number of them under way at once.
async fn carry(
    mut from: impl tokio::io::AsyncRead + Unpin + Send + 'static,
    mut to: impl tokio::io::AsyncWrite + Unpin + Send + 'static,
    late: Duration,
) {
    let (sender, mut under_way) = tokio::sync::mpsc::unbounded_channel();
    let read = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if sender.send((tokio::time::Instant::now() + late, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = under_way.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

/// The process's peak of resident memory, where the system tells.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or_else(|| "–".to_owned(), |kib| format!("{} MiB", kib >> 10))
}

/// Processor time of this process so far, where the system tells.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    // The kernel counts a hundred ticks a second for programs, whatever its own clock does.
    Some(Duration::from_millis(ticks * 10))
}
