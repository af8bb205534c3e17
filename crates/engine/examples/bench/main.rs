//! `cargo xtask bench`: what making clusters costs in calls, time and memory, beside the goals.
//!
//! Clusters are made in the in-process lab under paused time, so that simulated minutes pass in an instant and every
//! figure but "real time", memory and processor time is the same on every machine. Each size runs in a process of its
//! own, so that peaks of memory do not mix.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod creating;
mod inventory;
#[path = "../../tests/lab/lateness.rs"]
mod lateness;
mod machine;
mod paths;
mod planning;
mod table;

use std::process::{Command, ExitCode};

use serde::de::DeserializeOwned;

use crate::creating::{Case, Creating};
use crate::planning::Planning;
use crate::table::Table;

/// Anything that keeps a figure from being measured.
pub type Failure = Box<dyn std::error::Error>;

const USAGE: &str = "\
usage: bench [--quick] [--calls] | bench paths
  --quick  up to 50 nodes, and plans of 1,000
  --calls  also which calls were made how often
  paths    only the calls per node of each boot path";

/// Nodes, hosts, milliseconds of round trip.
const CLUSTERS: [(u32, u32, u64); 7] =
    [(5, 1, 1), (50, 5, 1), (50, 5, 20), (50, 5, 100), (100, 5, 1), (500, 25, 1), (500, 25, 100)];
const PLANS: [u32; 2] = [1_000, 10_000];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["one-cluster", nodes, hosts, latency] => one_cluster(nodes, hosts, latency),
        ["one-path", nodes, hosts, boot, image] => one_path(nodes, hosts, boot, image),
        ["paths"] => paths::all(),
        ["one-plan", nodes] => one_plan(nodes),
        flags if flags.iter().all(|flag| ["--quick", "--calls"].contains(flag)) => {
            all(flags.contains(&"--quick"), flags.contains(&"--calls"))
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn one_cluster(nodes: &str, hosts: &str, latency: &str) -> Result<bool, Failure> {
    let (nodes, hosts, latency_ms) = (nodes.parse()?, hosts.parse()?, latency.parse()?);
    let measured = creating::measure(&Case { nodes, hosts, latency_ms, boot: "{}", large: false })?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(true)
}

fn one_path(nodes: &str, hosts: &str, boot: &str, image: &str) -> Result<bool, Failure> {
    let large = image == "large";
    let (nodes, hosts) = (nodes.parse()?, hosts.parse()?);
    let measured = creating::measure(&Case { nodes, hosts, latency_ms: 1, boot, large })?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(true)
}

fn one_plan(nodes: &str) -> Result<bool, Failure> {
    println!("{}", serde_json::to_string(&planning::measure(nodes.parse()?)?)?);
    Ok(true)
}

/// Measures everything, prints the table, and says whether everything could be measured.
fn all(quick: bool, calls: bool) -> Result<bool, Failure> {
    let mut table = Table::default();
    let mut complete = true;
    let mut clusters: Vec<Creating> = Vec::new();
    for (nodes, hosts, latency) in CLUSTERS {
        if quick && nodes > 50 {
            continue;
        }
        let args = ["one-cluster".to_owned(), nodes.to_string(), hosts.to_string(), latency.to_string()];
        match in_child::<Creating>(&args) {
            Ok(measured) => {
                eprintln!("{nodes} nodes on {hosts} hosts at {latency} ms: {:.1} s", measured.real);
                clusters.push(measured);
            }
            Err(error) => {
                complete = false;
                eprintln!("{nodes} nodes on {hosts} hosts at {latency} ms could not be measured: {error}");
            }
        }
    }
    let mut plans: Vec<Planning> = Vec::new();
    for nodes in PLANS {
        if quick && nodes > 1_000 {
            continue;
        }
        match in_child::<Planning>(&["one-plan".to_owned(), nodes.to_string()]) {
            Ok(measured) => plans.push(measured),
            Err(error) => {
                complete = false;
                eprintln!("planning {nodes} nodes could not be measured: {error}");
            }
        }
    }
    table.clusters(&clusters);
    table.plans(&plans);
    match start_up() {
        Ok(Some(seconds)) => table.start_up(seconds),
        Ok(None) => eprintln!("start-up not measured: build the binary first (`cargo build --release`)"),
        Err(error) => {
            complete = false;
            eprintln!("start-up could not be measured: {error}");
        }
    }
    println!("{table}");
    complete &= paths::all()?;
    if calls {
        for cluster in &clusters {
            println!("\n{} nodes, {} ms: calls", cluster.nodes, cluster.latency_ms);
            for (shape, count) in &cluster.by_shape {
                println!("{count:>7}  {:>6.2} per node  {shape}", *count as f64 / f64::from(cluster.nodes));
            }
        }
    }
    Ok(complete)
}

/// Runs this program again for one figure.
fn in_child<T: DeserializeOwned>(args: &[String]) -> Result<T, Failure> {
    let output = Command::new(std::env::current_exe()?).args(args).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Seconds that `daedal --version` takes, the best of many (a busy machine only adds); none if the binary is not there.
fn start_up() -> Result<Option<f64>, Failure> {
    let example = std::env::current_exe()?;
    let Some(folder) = example.ancestors().nth(2) else { return Ok(None) };
    let binary = folder.join("daedal");
    if !binary.is_file() {
        return Ok(None);
    }
    let mut best: Option<f64> = None;
    for _ in 0..100 {
        let began = std::time::Instant::now();
        let output = Command::new(&binary).arg("--version").output()?;
        if !output.status.success() {
            return Err(format!("{} --version: {}", binary.display(), output.status).into());
        }
        let took = began.elapsed().as_secs_f64();
        best = Some(best.map_or(took, |best| best.min(took)));
    }
    Ok(best)
}
