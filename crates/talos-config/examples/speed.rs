//! Machine configs for many nodes, made in this process, beside `talosctl gen config`, a process for each pair of roles.
//!
//! `cargo xtask bench talos`; `DAEDAL_PEERS` names the folder with the built talosctl.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use daedal_talos_config::{
    ClusterOptions, Link, MachineConfig, Marks, NodeOptions, Patch, Role, SecretsBundle,
};
use jiff::Timestamp;
use rand::{SeedableRng, rngs::StdRng};

const TALOS: &str = "v1.12.0";
const KUBERNETES: &str = "v1.35.0";
const NODES: u32 = 1000;
const RUNS: usize = 15;
/// How many times as fast as talosctl a config must be made.
const LEAST_RATIO: f64 = 20.0;

fn main() -> ExitCode {
    let now = Timestamp::from_second(1_767_225_600).unwrap();
    let secrets = SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(7), now, 2048).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.yaml");
    std::fs::write(&file, secrets.to_yaml().expose()).unwrap();
    let talosctl = std::env::var_os("DAEDAL_PEERS")
        .map(|peers| PathBuf::from(peers).join(format!("talos-{TALOS}")).join("talosctl"))
        .filter(|path| path.is_file());

    let (mut ours, mut theirs, mut compared) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that whatever else the machine does weighs on both.
    for _ in 0..RUNS {
        ours.push(generate(&secrets) / NODES);
        compared.push(compare(&secrets) / NODES);
        // One run makes a control plane's and a worker's config.
        theirs.extend(talosctl.as_deref().map(|talosctl| gen_config(talosctl, &file, folder.path()) / 2));
    }
    let ours = median(ours);
    println!("ours, in process, written as YAML: {:.3} ms a node", ours.as_secs_f64() * 1000.0);
    let compared = median(compared).as_secs_f64() * 1000.0;
    println!("a look at a changed node (generate, read what runs, compare): {compared:.3} ms a node");
    if theirs.is_empty() {
        println!("skipped: talos-{TALOS}/talosctl is not there (DAEDAL_PEERS)");
        return ExitCode::SUCCESS;
    }
    let theirs = median(theirs);
    println!("talosctl gen config: {:.3} ms a config", theirs.as_secs_f64() * 1000.0);
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    println!("ratio: {ratio:.0}");
    if ratio < LEAST_RATIO {
        println!("too slow: at least {LEAST_RATIO} times as fast is promised");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn generate(secrets: &SecretsBundle) -> Duration {
    let began = Instant::now();
    let bytes: usize = (0..NODES).map(|index| config(secrets, index).to_yaml().expose().len()).sum();
    assert!(bytes > 1000 * NODES as usize);
    began.elapsed()
}

/// Every node runs on a config with one field that is no longer declared.
fn compare(secrets: &SecretsBundle) -> Duration {
    let running = |role: u32| {
        let mut config = config(secrets, role);
        let patch = Patch::from_yaml("machine: {sysctls: {vm.max_map_count: '262144'}}").unwrap();
        config.apply_patch(&patch).unwrap();
        config.to_yaml()
    };
    let running = [running(0), running(1)];
    let began = Instant::now();
    for (index, running) in (0..NODES).zip(running.iter().cycle()) {
        let running = MachineConfig::from_yaml(running.expose()).unwrap();
        let marks = Marks::new(&secrets.cluster_secret);
        assert!(!running.differences(&config(secrets, index), &marks).is_empty());
    }
    began.elapsed()
}

fn config(secrets: &SecretsBundle, index: u32) -> MachineConfig {
    let cluster = ClusterOptions::new("home", "https://10.0.0.20:6443", TALOS, KUBERNETES);
    // Half of them control planes, as talosctl writes one of each.
    let role = if index.is_multiple_of(2) { Role::ControlPlane } else { Role::Worker };
    let mut node = NodeOptions::new(role, format!("node-{index}"));
    let [_, _, high, low] = index.to_be_bytes();
    let link = Link::new(daedal_talos_config::Mac::new([2, 0, 0, 0, high, low]));
    node.links = vec![Link { addresses: vec![format!("10.0.{high}.{low}/16").parse().unwrap()], ..link }];
    MachineConfig::generate(secrets, &cluster, &node).unwrap()
}

fn gen_config(talosctl: &Path, secrets: &Path, folder: &Path) -> Duration {
    let began = Instant::now();
    let done = Command::new(talosctl)
        .args(["gen", "config", "home", "https://10.0.0.20:6443", "--force", "--with-docs=false"])
        .args(["--with-examples=false", "--kubernetes-version", KUBERNETES, "--with-secrets"])
        .arg(secrets)
        .arg("-o")
        .arg(folder.join("out"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
