//! Patches from folders, by role, with facts and with what the environment gives.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io;
use std::path::Path;

use daedal_inventory::{Files, Loaded, Role, Source, load};

const HOME: &str = include_str!("../../../examples/home/cluster.yaml");

struct Folder;

impl Files for Folder {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.to_str() {
            Some("patches/10-a.yaml") => Ok("machine: {certSANs: [a]}\n".to_owned()),
            Some("patches/20-b.yaml") => Ok("machine: {certSANs: [\"${node.name}\"]}\n".to_owned()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        match folder.to_str() {
            Some("patches/") => Ok(["20-b.yaml", "README.md", "10-a.yaml"].map(str::to_owned).to_vec()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "TS_AUTHKEY").then(|| "tskey-1".to_owned())
    }
}

fn with(patches: &str) -> Result<Loaded, String> {
    let text = HOME.replace("\n  pools:", &format!("\n  patches: {patches}\n  pools:"));
    let source = Source { name: "cluster.yaml".to_owned(), text };
    load(&[source], &Folder).map_err(|found| {
        let texts: Vec<String> =
            found.iter().map(|d| format!("{} {}", d.message, d.help.clone().unwrap_or_default())).collect();
        texts.join("\n")
    })
}

#[test]
fn a_folder_of_patches_is_read_in_order() {
    let cluster = with("[{folder: patches/, role: worker}]").expect("loads").cluster;
    let origins: Vec<&str> = cluster.patches.iter().map(|patch| patch.origin.as_str()).collect();
    assert_eq!(origins, ["patches/10-a.yaml", "patches/20-b.yaml"]);
    assert!(cluster.patches.iter().all(|p| p.is_for(Role::Worker) && !p.is_for(Role::ControlPlane)));
    let worker = cluster.workers().next().expect("a worker");
    assert_eq!(cluster.patches[1].text_for(&cluster, worker), "machine: {certSANs: [\"worker-1\"]}\n");
    assert!(cluster.patches[1].speaks_of_nodes() && !cluster.patches[0].speaks_of_nodes());
    assert!(with("[{folder: nowhere}]").expect_err("no folder").contains("cannot be read"));
}

#[test]
fn facts_and_environment_stand_in_patches() {
    let loaded =
        with(r#"[{inline: "machine: {env: {A: \"${env.TS_AUTHKEY}\", B: \"${cluster.name} $${x}\"}}"}]"#);
    let cluster = loaded.expect("loads").cluster;
    let text = cluster.patches[0].text_for(&cluster, &cluster.nodes[0]);
    assert_eq!(text, r#"machine: {env: {A: "tskey-1", B: "home ${x}"}}"#);
    assert_eq!(cluster.patches[0].secret_texts().collect::<Vec<_>>(), ["tskey-1"]);
    assert!(!format!("{cluster:?}").contains("tskey-1"), "a patch is not printed by accident");
    let unknown = with(r#"[{inline: "machine: {type: \"${node.nam}\"}"}]"#).expect_err("no such fact");
    assert!(unknown.contains("Did you mean `${node.name}`?"), "{unknown}");
    let unset = with(r#"[{inline: "machine: {type: \"${env.NOT_SET}\"}"}]"#).expect_err("not set");
    assert!(unset.contains("NOT_SET") && !unset.contains("tskey"), "{unset}");
    let both = with("[{inline: a, file: b}]").expect_err("two places");
    assert!(both.contains("exactly one place"), "{both}");
}

/// Every name that may stand in a patch, and what it stands for.
#[test]
fn every_fact_stands_for_what_it_says() {
    let facts = [
        ("${node.name}", "worker-2"),
        ("${node.address}", "10.0.0.22"),
        ("${node.cidr}", "10.0.0.22/16"),
        ("${node.vmid}", "304"),
        ("${node.pool}", "worker"),
        ("${node.role}", "worker"),
        ("${cluster.name}", "home"),
        ("${cluster.endpoint}", "10.0.0.20"),
        ("${cluster.vip}", "10.0.0.20"),
        ("${network.cidr}", "10.0.0.0/16"),
        ("${network.gateway}", "10.0.0.1"),
        ("${talos.version}", "v1.12.0"),
        ("${kubernetes.version}", "v1.35.0"),
        ("${env.TS_AUTHKEY}", "tskey-1"),
        ("$${node.name}", "${node.name}"),
        ("${HOME}", "${HOME}"),
    ];
    for (written, meant) in facts {
        let cluster = with(&format!("[{{inline: 'a: \"{written}\"'}}]")).expect(written).cluster;
        let text = cluster.patches[0].text_for(&cluster, cluster.node("worker-2").expect("a worker"));
        assert_eq!(text, format!("a: \"{meant}\""), "{written}");
    }
    let cluster = with("[{inline: 'a: ${node.mac} ${node.role}'}]").expect("loads").cluster;
    let first = cluster.node("cp-1").expect("a control plane");
    assert_eq!(cluster.patches[0].text_for(&cluster, first), format!("a: {} controlplane", first.mac));
}
