//! The authorities of real nodes are changed by talosctl, and the kept secrets follow.

use std::path::Path;
use std::time::Duration;

use super::{Kit, eventually};
use crate::common::{good, text};

/// The nodes whose authorities are changed.
const NODES: [&str; 4] =
    ["--control-plane-nodes", "10.77.0.11,10.77.0.12,10.77.0.13", "--worker-nodes", "10.77.0.21"];

/// The steps of the manual: talosctl changes the authority of the node API on every node, and the kept secrets follow.
pub fn of_talos(kit: &Kit) {
    let talosconfig = kit.path("talosconfig-of-talosctl").display().to_string();
    let rotate =
        ["rotate-ca", "--kubernetes=false", "--dry-run=false", "-o", &talosconfig, "-n", "10.77.0.11"];
    println!("{}", good(&kit.talosctl(&[&rotate[..], &NODES[..]].concat())));
    let old = kit.talosctl(&["-n", "10.77.0.11", "version"]);
    assert!(!old.status.success(), "the old access still works: {old:?}");
    // Until the kept secrets have followed, nobody takes the nodes for this cluster's.
    let (plan, code) = kit.plan();
    assert!(code != Some(0), "{plan}");

    follow(kit, &["--talosconfig", &talosconfig]);
    good(&kit.talosctl(&["-n", "10.77.0.21", "version"]));
}

/// The same for the authority of Kubernetes.
pub fn of_kubernetes(kit: &Kit) {
    let rotate = ["rotate-ca", "--talos=false", "--dry-run=false", "-n", "10.77.0.11"];
    println!("{}", good(&kit.talosctl(&[&rotate[..], &NODES[..]].concat())));
    // API servers that are told to forget the old authority restart for it: kubelets look for new manifests every 20 seconds.
    std::thread::sleep(Duration::from_secs(40));
    for node in ["10.77.0.11", "10.77.0.12", "10.77.0.13"] {
        kit.whole(node);
    }
    let mut said = String::new();
    let refused = eventually(40, Duration::from_secs(3), || {
        said = text(&kit.exec(Path::new("kubectl"), &["get", "nodes", "--request-timeout=20s"]).stderr);
        said.contains("unknown authority")
    });
    assert!(refused, "the old access still works: {said}");
    // Nobody waits for an API server of the old authority.
    let held = kit.daedal_within("120", &["apply", "--yes"]);
    let said = text(&held.stdout) + &text(&held.stderr);
    assert!(!held.status.success() && said.contains("secrets import --replace"), "{said}");
    follow(kit, &[]);
    let nodes = kit.kubectl(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), 4, "{nodes}");
}

/// The kept secrets follow what a control plane runs on, and the plan after the apply is empty.
fn follow(kit: &Kit, access: &[&str]) {
    let show = ["-n", "10.77.0.11", "get", "machineconfig", "v1alpha1", "-o", "jsonpath={.spec}"];
    let config = kit.path("control-plane.yaml");
    std::fs::write(&config, good(&kit.talosctl(&[access, &show[..]].concat()))).unwrap();
    good(&kit.daedal(&["secrets", "import", "--replace", &config.display().to_string()]));
    good(&kit.daedal_within("240", &["apply", "--yes"]));
    kit.keep_access();
    // An API server may still be on its way back.
    let mut last = String::new();
    let empty = eventually(20, Duration::from_secs(3), || {
        let (plan, code) = kit.plan();
        last = plan;
        code == Some(0)
    });
    assert!(empty, "{last}");
}
