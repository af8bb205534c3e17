//! Daedal through its command line: one binary of tests, because each would link the whole program again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod access;
mod addons;
mod at_rest;
mod canaries;
mod ci_templates;
mod clusters;
mod common;
mod day_one;
mod day_two;
mod differences;
mod folders;
mod helm_template;
mod honest;
mod identity;
mod imports;
mod keys;
mod kill;
mod lab_world;
mod live;
mod manners;
mod mission;
mod offline;
mod outputs;
mod overlays;
mod patches;
mod phases;
mod pipelines;
mod proxmox_clients;
mod real_clients;
mod real_nodes;
mod real_talosctl;
mod schemas;
mod secrets;
mod seeds;
mod settings;
mod sops;
mod ssh;
mod stores;
mod stories;
mod story;
mod talosctl;
mod templates;
mod trust;
mod width;

/// Only what is named above is built: a file that is not would never run.
#[test]
fn every_file_of_tests_is_built() {
    let built = include_str!("cli.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let own: &[&str] = &["cli"];
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "rs") && !own.contains(&name.as_str()) {
            assert!(built.contains(&format!("\nmod {name};\n")), "{name} is in no test binary");
        }
    }
}
