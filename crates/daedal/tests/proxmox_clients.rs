//! Clients that others wrote, against a served lab: a VM's whole life through each. Part of the second tier:
//! `cargo xtask conformance` finds them and says where in `DAEDAL_PROXMOXER`, `DAEDAL_GO_PROXMOX`, `DAEDAL_ANSIBLE` and
//! `DAEDAL_TOFU`; without them a line says what was skipped.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use common::served::Served;
use common::{client, good};
use daedal_dial::Trust;
use daedal_image_factory::Factory;
use daedal_talos_image::Schematic;

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
#[ignore = "needs real peers: cargo xtask conformance"]
fn proxmoxer_tells_its_story() {
    let Some(python) = client("DAEDAL_PROXMOXER") else { return };
    let (served, folder) = (Served::start(), tempfile::tempdir().unwrap());
    let mut command = Command::new(python);
    command.arg(stories().join("proxmoxer_story.py"));
    tell(&served, &folder, command);
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn go_proxmox_tells_its_story() {
    let Some(program) = client("DAEDAL_GO_PROXMOX") else { return };
    let (served, folder) = (Served::start(), tempfile::tempdir().unwrap());
    tell(&served, &folder, Command::new(program));
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn ansible_tells_its_story() {
    let Some(playbook) = client("DAEDAL_ANSIBLE") else { return };
    play(&playbook, &stories().join("ansible_story.yaml"));
}

/// The modules' old names, which older playbooks still have.
#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn ansible_tells_its_story_by_the_old_names() {
    let Some(playbook) = client("DAEDAL_ANSIBLE") else { return };
    let folder = tempfile::tempdir().unwrap();
    let story = std::fs::read_to_string(stories().join("ansible_story.yaml")).unwrap();
    let old = folder.path().join("old_names.yaml");
    std::fs::write(&old, story.replace("community.proxmox.", "community.general.")).unwrap();
    play(&playbook, &old);
}

fn play(playbook: &Path, story: &Path) {
    let (served, folder) = (Served::start(), tempfile::tempdir().unwrap());
    let python = playbook.with_file_name("python");
    let mut command = Command::new(playbook);
    command
        .args(["-i", "localhost,", "-e"])
        .arg(format!("ansible_python_interpreter={}", python.display()))
        .arg(story)
        .env("ANSIBLE_NOCOLOR", "1")
        .env("ANSIBLE_LOCALHOST_WARNING", "0")
        .env("ANSIBLE_HOME", folder.path());
    tell(&served, &folder, command);
}

/// Where the lab's Image Factory has a disk image for Proxmox to download.
async fn image(served: &Served) -> String {
    const FACTORY: &str = "https://factory.talos.dev";
    let proxy = format!("http://{}", served.announced("proxy").trim_start_matches("http://"));
    let dialer = Arc::new(daedal_dial::Proxy::parse(&proxy).unwrap());
    let trust = Trust::Ca(std::fs::read_to_string(served.announced("ca")).unwrap());
    let factory = Factory::new(FACTORY, dialer, &trust).unwrap();
    let schematic = factory.register(&Schematic::default()).await.unwrap();
    format!("{FACTORY}/image/{schematic}/v1.12.0/nocloud-amd64.qcow2")
}

/// OpenTofu with a provider of Terraform's beside it, in one folder.
#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn terraform_tells_its_story() {
    let Some(tofu) = client("DAEDAL_TOFU") else { return };
    let (served, folder) = (Served::start(), tempfile::tempdir().unwrap());
    let overrides = format!(
        "provider_installation {{\n  dev_overrides {{ \"bpg/proxmox\" = \"{}\" }}\n  direct {{}}\n}}\n",
        tofu.parent().unwrap().display()
    );
    std::fs::write(folder.path().join("terraform.rc"), overrides).unwrap();
    std::fs::copy(stories().join("terraform/main.tf"), folder.path().join("main.tf")).unwrap();
    let image = image(&served).await;
    let run = |words: &[&str]| {
        let mut command = Command::new(&tofu);
        command
            .args(words)
            .env("TF_CLI_CONFIG_FILE", folder.path().join("terraform.rc"))
            .env("TF_VAR_image", &image)
            .env("TF_VAR_iso", folder.path().join("ansible.iso"))
            .env("CHECKPOINT_DISABLE", "1")
            .env("PROXMOX_VE_USERNAME", "root@pam")
            .env("PROXMOX_VE_PASSWORD", served.token());
        tell(&served, &folder, command);
    };
    run(&["apply", "-auto-approve", "-no-color"]);
    // Nothing is left to do: every field reads back as it was written.
    run(&["plan", "-detailed-exitcode", "-no-color"]);
    let larger = ["-var", "memory=2048", "-var", "disk=12"];
    run(&[&["apply", "-auto-approve", "-no-color"][..], &larger].concat());
    run(&[&["plan", "-detailed-exitcode", "-no-color"][..], &larger].concat());
    run(&[&["destroy", "-auto-approve", "-no-color"][..], &larger].concat());
}
