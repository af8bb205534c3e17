//! Patches from folders, by role, with facts and with what the environment gives.

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

/// Mission: I4
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
    let patch = |value: &str| format!("[{{inline: 'machine: {{env: {{A: \"{value}\"}}}}'}}]");
    for (written, meant) in facts {
        let cluster = with(&patch(written)).expect(written).cluster;
        let text = cluster.patches[0].text_for(&cluster, cluster.node("worker-2").expect("a worker"));
        assert_eq!(text, format!("machine: {{env: {{A: \"{meant}\"}}}}"), "{written}");
    }
    let cluster = with(&patch("${node.mac} ${node.role}")).expect("loads").cluster;
    let first = cluster.node("cp-1").expect("a control plane");
    let text = cluster.patches[0].text_for(&cluster, first);
    assert_eq!(text, format!("machine: {{env: {{A: \"{} controlplane\"}}}}", first.mac));
}

/// A folder with one patch, and an environment in which everything has the same value.
struct One(&'static str);

impl Files for One {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.to_str() {
            Some("a.yaml") => Ok(self.0.to_owned()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn variable(&self, _: &str) -> Option<String> {
        Some("hush".to_owned())
    }
}

/// What is wrong with the patches, as `file:line:column message`, and the first finding drawn.
fn faults_in(patches: &str, file: &'static str) -> (Vec<String>, String) {
    let text = HOME.replace("\n  pools:", &format!("\n  patches:\n{patches}\n  pools:"));
    let before = 1 + text.lines().position(|line| line == "  patches:").expect("patches");
    let source = Source { name: "cluster.yaml".to_owned(), text };
    let found = load(&[source], &One(file)).expect_err("there are faults");
    let shown = found.iter().map(|diagnostic| {
        let place = diagnostic.place.as_ref().expect("a place");
        let line = if place.file == "cluster.yaml" { place.line - before } else { place.line };
        format!("{}:{line}:{} {}", place.file, place.column, diagnostic.message)
    });
    let mut drawn = String::new();
    let first = found.iter().next().expect("a finding");
    miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
        .render_report(&mut drawn, first)
        .expect("can be drawn");
    (shown.collect(), drawn)
}

fn places(found: &[String]) -> Vec<&str> {
    found.iter().map(|said| said.split(' ').next().expect("a place")).collect()
}

#[test]
fn what_is_wrong_with_a_patch_is_pointed_at_and_its_values_are_not_shown() {
    let file = "{}\n---\nmachine: # hush-0\n  sysctls: {a: hush-1}\n  kublet: # hush-2\n    image: hush-3\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: hush-4\naddresses:\n  - address: 10.0.0.1/24\n  - {routePriority: 1, adress: hush-5}\n---\nkind: hush-6\n";
    let (found, drawn) = faults_in("    - file: a.yaml", file);
    let said = "The patch a.yaml cannot be used:";
    assert_eq!(
        found,
        [
            format!("a.yaml:5:3 {said} `machine.kublet` is not a known key; did you mean `kubelet`?"),
            format!(
                "a.yaml:13:24 {said} `addresses[1].adress` of LinkConfig is not a known key; did you mean `address`?"
            ),
            format!("a.yaml:15:1 {said} `kind` and `apiVersion` must both be set, or neither."),
        ]
    );
    assert!(drawn.contains("5 │   ******: * ****-*") && !drawn.contains("hush"), "{drawn}");

    let block = "    - role: worker\n      inline: |\n\n        machine:\n          sysctls:\n            net.core.x: [hush]\n          kubelet: {extraArgs: {ü: hush}, imag: hush}\n";
    let (found, drawn) = faults_in(block, "");
    assert_eq!(places(&found), ["cluster.yaml:6:13", "cluster.yaml:7:43"], "{found:?}");
    assert!(
        drawn.contains("**********: [****]") && drawn.contains("{extraArgs: {**: ****}, ****: ****}"),
        "{drawn}"
    );
    assert!(drawn.contains("sysctls:") && !drawn.contains("net.core.x:"), "{drawn}");

    let quoted = "    - inline: \"machine: {kublet: hush}\"";
    let (found, drawn) = faults_in(quoted, "");
    assert_eq!(places(&found), ["cluster.yaml:1:15"], "{found:?}");
    assert!(!drawn.contains("hush"), "{drawn}");
}

/// The versions of Talos differ in what they know, and a patch is judged by the one that is declared.
#[test]
fn a_patch_is_judged_by_the_declared_version() {
    let patch = "    - inline: |\n        apiVersion: v1alpha1\n        kind: KubeSpanConfig\n        enabled: true\n";
    let (found, _) = faults_in(patch, "");
    assert_eq!(places(&found), ["cluster.yaml:3:9"], "{found:?}");
    assert!(found[0].contains("Talos v1.12 does not know; it came with v1.13"), "{found:?}");
}

/// What shows only with the environment's values in place may be made of them.
#[test]
fn a_fault_that_the_environment_brings_quotes_nothing_of_it() {
    let patch = "    - inline: |\n        machine:\n          '${env.A}': c\n          b: c";
    let (found, _) = faults_in(patch, "");
    assert_eq!(places(&found), ["cluster.yaml:2:9", "cluster.yaml:4:11"], "{found:?}");
    assert!(found[0].ends_with("cannot be used: what ${env.A} puts in does not fit."), "{found:?}");
    assert!(found[1].contains("`machine.") && found[1].contains(" is not a known key"), "{found:?}");
}

/// A pool's patch is that of each of its nodes, and its fault is one, also where it names the node.
#[test]
fn what_is_wrong_with_a_pools_patch_is_said_once() {
    let at = "      address: 10.0.0.21    # .21, .22\n";
    let patch = "      patches:\n        - inline: |\n            machine: {kubelet: {'${node.name}': 1}}\n";
    let text = HOME.replace(at, &format!("{at}{patch}"));
    let source = Source { name: "cluster.yaml".to_owned(), text };
    let found = load(&[source], &One("")).expect_err("there is a fault");
    let said: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("`machine.kubelet."), "{said:?}");
}

/// What is a secret in a patch that is no YAML nobody knows: it is told by its line, and not a word of it is shown.
#[test]
fn of_a_patch_that_is_no_yaml_only_the_line_is_told() {
    let (found, drawn) =
        faults_in("    - inline: |\n        machine:\n          env: {A: hush\n          b: c", "");
    assert_eq!(places(&found), ["cluster.yaml:4:12"], "{found:?}");
    let told = "The patch spec.patches[0].inline cannot be read: line ";
    assert!(found[0].contains(told) && found[0].ends_with(" is not valid YAML."), "{found:?}");
    assert!(!drawn.contains("env") && !drawn.contains("hush") && !drawn.contains('│'), "{drawn}");
    for broken in [
        "Password=hush;Host=db:\t'5\n",
        "a: b\nhush: [\n",
        "a: 1\nhush: 2\nhush: 3\n",
        "!hush a: b\n",
        "# hush\n",
        "a: !hush {b: c}\n",
    ] {
        let (found, drawn) = faults_in("    - file: a.yaml", broken);
        assert!(found[0].contains("The patch `a.yaml` "), "{found:?}");
        assert!(!drawn.contains("hush") && !drawn.contains('│'), "{broken}: {drawn}");
    }
}
