//! Chores of the project: `cargo xtask conformance`, `soak`, `bench` and `protos`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

#[cfg(test)]
mod architecture;
mod conformance;
mod peers;
mod protos;
mod soak;

use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask conformance [SUITE…] [--built-only]   our answers beside those of real peers
       cargo xtask soak [OPTIONS] [FILTER…]              tests many times, and how often each failed
       cargo xtask bench [ARGS…]                         calls, times and memory, as ratios in one run
       cargo xtask protos [--check]                      wire types of the Talos API from its protocol files";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("conformance") => conformance::run(&args.collect::<Vec<_>>()),
        Some("soak") => soak::run(&args.collect::<Vec<_>>()),
        Some("protos") => protos::run(&args.collect::<Vec<_>>()),
        Some("bench") => match args.collect::<Vec<_>>().split_first() {
            Some((first, rest)) if first == "helm" => bench_helm(rest),
            Some((first, _)) if first == "talos" => bench_talos(),
            Some((first, rest)) => bench(&[std::slice::from_ref(first), rest].concat()),
            None => bench(&[]),
        },
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(64)
        }
    }
}

/// Runs the benchmark program in release mode.
fn bench(args: &[String]) -> ExitCode {
    let mut command = cargo();
    command
        .args(["run", "--quiet", "--release", "--package", "daedal-engine", "--example", "bench", "--"])
        .args(args);
    finished(&mut command)
}

/// Renders Cilium's chart beside `helm template`, in release mode.
fn bench_helm(args: &[String]) -> ExitCode {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--package", "daedal-helm", "--example", "template"]);
    if finished(&mut build) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    let mut command = cargo();
    command
        .args(["run", "--quiet", "--release", "--package", "daedal-helm", "--example", "beside_helm", "--"])
        .args(args)
        .env("DAEDAL_PEERS", peers::folder());
    finished(&mut command)
}

/// Generates machine configs beside `talosctl gen config`, in release mode.
fn bench_talos() -> ExitCode {
    let mut command = cargo();
    command
        .args(["run", "--quiet", "--release", "--package", "daedal-talos-config", "--example", "speed"])
        .env("DAEDAL_PEERS", peers::folder());
    finished(&mut command)
}

/// The cargo that runs us.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a command to its end.
fn finished(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run {command:?}: {error}");
            ExitCode::FAILURE
        }
    }
}
