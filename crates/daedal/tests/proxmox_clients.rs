//! Clients that others wrote, against a served lab: a VM's whole life through each. Part of the second tier:
//! `cargo xtask conformance` finds them and says where in `DAEDAL_PROXMOXER`, `DAEDAL_GO_PROXMOX` and `DAEDAL_ANSIBLE`;
//! without them a line says what was skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::served::Served;
use common::{client, good};

fn stories() -> PathBuf {
    common::root().join("crates/daedal/tests/clients")
}

/// Runs a client that finds the lab as it would find a Proxmox behind a proxy.
fn tell(served: &Served, folder: &tempfile::TempDir, mut command: Command) {
    let iso = folder.path().join("ansible.iso");
    std::fs::write(&iso, vec![0; 50_000]).unwrap();
    let told = command
        .env("HTTPS_PROXY", served.announced("proxy"))
        .env("REQUESTS_CA_BUNDLE", served.announced("ca"))
        .env("SSL_CERT_FILE", served.announced("ca"))
        .env("LAB_TOKEN", served.token())
        .env("LAB_PASSWORD", served.token())
        .env("LAB_ISO", iso)
        .env("HOME", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    println!("{}", good(&told));
}

#[test]
fn proxmoxer_tells_its_story() {
    let Some(python) = client("DAEDAL_PROXMOXER") else { return };
    let (served, folder) = (Served::start(), tempfile::tempdir().unwrap());
    let mut command = Command::new(python);
    command.arg(stories().join("proxmoxer_story.py"));
    tell(&served, &folder, command);
}

#[test]
fn go_proxmox_tells_its_story() {
    let Some(program) = client("DAEDAL_GO_PROXMOX") else { return };
    let (served, folder) = (Served::start(), tempfile::tempdir().unwrap());
    tell(&served, &folder, Command::new(program));
}

#[test]
fn ansible_tells_its_story() {
    let Some(playbook) = client("DAEDAL_ANSIBLE") else { return };
    let (served, folder) = (Served::start(), tempfile::tempdir().unwrap());
    let python = playbook.with_file_name("python");
    let mut command = Command::new(playbook);
    command
        .args(["-i", "localhost,", "-e"])
        .arg(format!("ansible_python_interpreter={}", python.display()))
        .arg(stories().join("ansible_story.yaml"))
        .env("ANSIBLE_NOCOLOR", "1")
        .env("ANSIBLE_LOCALHOST_WARNING", "0")
        .env("ANSIBLE_HOME", folder.path());
    tell(&served, &folder, command);
}
