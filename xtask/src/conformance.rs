//! Runs the suites that compare us with real peers, and says which were skipped because a peer is not there.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::{cargo, finished, peers};

/// A suite: tests that need a peer, and how to tell that it is there.
struct Suite {
    name: &'static str,
    what: &'static str,
    peer: fn() -> Option<PathBuf>,
    build: &'static str,
    cargo: &'static [&'static str],
}

const SUITES: &[Suite] = &[
    Suite {
        name: "talos",
        what: "secrets, machine configs and patches beside Talos's own library",
        peer: || peers::built("config-tool-", "config-tool"),
        build: "config-tool",
        cargo: &["test", "--package", "daedal-talos", "--test", "conformance", "--", "--nocapture"],
    },
    Suite {
        name: "factory",
        what: "schematic ids beside the Image Factory's own library",
        peer: || peers::built("schematic-id-", "schematic-id"),
        build: "schematic-id",
        cargo: &["test", "--package", "daedal-image-factory", "--test", "conformance", "--", "--nocapture"],
    },
    Suite {
        name: "proxmox-client",
        what: "recorded answers of the real API, as the client reads them",
        peer: || peers::proxmox_data().filter(|data| data.is_dir()),
        build: "a folder of recorded exchanges (DAEDAL_PROXMOX_DATA)",
        cargo: &["test", "--package", "daedal-proxmox", "--test", "recordings", "--", "--nocapture"],
    },
    Suite {
        name: "proxmox",
        what: "recorded exchanges with the real API, replayed against the lab",
        peer: || peers::proxmox_data().filter(|data| data.is_dir()),
        build: "a folder of recorded exchanges (DAEDAL_PROXMOX_DATA)",
        cargo: &["test", "--package", "daedal-lab", "--test", "proxmox", "replay", "--", "--nocapture"],
    },
    Suite {
        name: "helm",
        what: "real charts and 10,000 generated template snippets beside helm template",
        peer: || peers::built("helm-", "helm"),
        build: "helm",
        cargo: &["run", "--quiet", "--release", "--package", "daedal-helm", "--example", "conformance"],
    },
    Suite {
        name: "clients",
        what: "unmodified kubectl and talosctl against a served lab",
        peer: || peers::on_path("kubectl").or_else(|| peers::built("talos-", "talosctl")),
        build: "kubectl or talosctl",
        cargo: &["test", "--package", "daedal", "--test", "real_clients", "--", "--nocapture"],
    },
];

/// Runs the named suites, or all.
pub fn run(args: &[String]) -> ExitCode {
    let built_only = args.iter().any(|a| a == "--built-only");
    let wanted: Vec<&String> = args.iter().filter(|a| !a.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|name| !SUITES.iter().any(|s| s.name == name.as_str())) {
        let known: Vec<_> = SUITES.iter().map(|s| s.name).collect();
        eprintln!("no suite is called '{unknown}'; there are: {}", known.join(", "));
        return ExitCode::from(64);
    }
    let mut results = Vec::new();
    for suite in SUITES.iter().filter(|s| wanted.is_empty() || wanted.iter().any(|w| w.as_str() == s.name)) {
        println!("\n==> {}: {}", suite.name, suite.what);
        let verdict = if (suite.peer)().is_none() {
            println!("skipped: {} is not on this machine", suite.build);
            if built_only { "skipped" } else { "missing" }
        } else {
            let mut command = cargo();
            command.args(suite.cargo).env("DAEDAL_PEERS", peers::folder());
            if finished(&mut command) == ExitCode::SUCCESS { "agrees" } else { "DIFFERS" }
        };
        results.push((suite.name, verdict));
    }
    println!("\n{:<15} verdict", "suite");
    for (name, verdict) in &results {
        println!("{name:<15} {verdict}");
    }
    if results.iter().any(|(_, v)| matches!(*v, "DIFFERS" | "missing")) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
