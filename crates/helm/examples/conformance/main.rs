//! Renders real charts and generated template snippets with us and with real Helm, and says where they differ.
//!
//! `conformance [--helm4] [--offline] [charts] [keys] [snippets] [COUNT] [CHART…]`: without arguments the listed charts,
//! keys of every kind and 10,000 snippets; a path is a chart to try. Needs a built `helm` (under `DAEDAL_PEERS`, or named by `HELM`) and, for
//! the listed charts, Go's module cache, which is where they come from; `--offline` skips those that are not in it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod charts;
mod generate;
mod keys;
mod peer;
#[path = "../shared/peers.rs"]
mod peers;
mod sets;
mod snippets;
#[path = "../../tests/verifiers/mod.rs"]
mod verifiers;

use std::process::ExitCode;

use peer::Helm;
use verifiers::Verifiers;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| args.iter().any(|a| a == name);
    let major = if given("--helm4") { 4 } else { 3 };
    let Some(helm) = Helm::find(major) else {
        println!("skipped: no built helm {major} under DAEDAL_PEERS, and HELM names none");
        return ExitCode::SUCCESS;
    };
    let paths: Vec<&String> = args.iter().filter(|a| a.contains('/')).collect();
    let count: usize = args.iter().find_map(|a| a.parse().ok()).unwrap_or(10_000);
    let all = paths.is_empty() && !["charts", "snippets", "keys"].into_iter().any(given);
    let mut different = 0;
    println!("{}", helm.version());
    let verifiers = Verifiers::find();
    if let Err(missing) = &verifiers {
        println!("skipped: keys and certificates are not verified: {missing}");
    }
    let verifiers = verifiers.ok();
    if all || !paths.is_empty() || given("charts") {
        different += charts::run(&helm, verifiers.as_ref(), &paths, given("--offline"));
    }
    if let Some(verifiers) = verifiers.as_ref().filter(|_| all || given("keys")) {
        different += keys::run(&helm, verifiers);
    }
    if all || given("snippets") {
        different += snippets::run(&helm, count);
    }
    if different == 0 {
        println!("\nno differences");
        ExitCode::SUCCESS
    } else {
        eprintln!("\n{different} differences");
        ExitCode::FAILURE
    }
}
