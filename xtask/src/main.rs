//! Chores of the project: `cargo xtask conformance`, `soak`, `laws`, `bench`, `mission`, `reference`, `protos`, `dist` and `image`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

#[cfg(test)]
mod architecture;
mod archive;
#[cfg(test)]
mod book;
mod build;
mod built;
mod conformance;
mod dist;
mod elf;
mod image;
mod laws;
mod mission;
mod peers;
mod protos;
mod reference;
mod soak;

use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask conformance [SUITE…] [--built-only]   our answers beside those of real peers
       cargo xtask soak [OPTIONS] [FILTER…]              tests many times, and how often each failed
       cargo xtask laws [--seed N]                       random laws on a new seed, or on this one
       cargo xtask bench [ARGS…]                         calls, times and memory, as ratios in one run
       cargo xtask mission [--check]                     docs/mission.md from what the tests say
       cargo xtask reference [--check]                   docs/inventory-reference.md from the schema
       cargo xtask protos [--check]                      wire types of the Talos API from its protocol files
       cargo xtask dist [OPTIONS]                        a release: archive, list of contents, checksums
       cargo xtask image [OPTIONS]                       a container image of the static binary";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("conformance") => conformance::run(&args.collect::<Vec<_>>()),
        Some("soak") => soak::run(&args.collect::<Vec<_>>()),
        Some("laws") => laws::run(&args.collect::<Vec<_>>()),
        Some("mission") => mission::run(&args.collect::<Vec<_>>()),
        Some("dist") => dist::run(&args.collect::<Vec<_>>()),
        Some("image") => image::run(&args.collect::<Vec<_>>()),
        Some("reference") => reference::run(&args.collect::<Vec<_>>()),
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

/// The root of the project.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
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
