//! Unmodified kubectl against a served lab. Part of the second tier: `cargo xtask conformance kubectl` finds it and says where in
//! `DAEDAL_KUBECTL`; without it a line says what was skipped.

use crate::common;

use std::process::Command;

use common::{Lab, client, good};

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn real_kubectl_lists_the_nodes() {
    let Some(kubectl) = client("DAEDAL_KUBECTL") else { return };
    let lab = Lab::new();
    good(&lab.run(&["apply", "--yes"], "home"));
    let kubeconfig = lab.dir().join("clusters/home/outputs/kubeconfig");
    let nodes = Command::new(&kubectl)
        .args(["get", "nodes", "-o", "wide", "--request-timeout=20s"])
        .env("KUBECONFIG", &kubeconfig)
        .env("HOME", lab.dir())
        .output()
        .unwrap();
    let table = good(&nodes);
    println!("{table}");
    for (node, address) in [("cp-1", "10.0.0.11"), ("cp-3", "10.0.0.13"), ("worker-2", "10.0.0.22")] {
        let row =
            table.lines().find(|line| line.starts_with(node)).unwrap_or_else(|| panic!("{node} in {table}"));
        assert!(row.contains(" Ready ") && row.contains(address) && row.contains("v1.35.0"), "{row}");
    }
    // Server-side apply and reading it back.
    let manifest = lab.dir().with_file_name("cm.yaml");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello, namespace: default}\ndata: {a: b}\n";
    std::fs::write(&manifest, text).unwrap();
    let apply = Command::new(&kubectl)
        .args(["apply", "--server-side", "--validate=false", "--request-timeout=20s", "-f"])
        .arg(&manifest)
        .env("KUBECONFIG", &kubeconfig)
        .env("HOME", lab.dir())
        .output()
        .unwrap();
    good(&apply);
    let get = Command::new(&kubectl)
        .args(["get", "configmap", "hello", "-o", "jsonpath={.data.a}"])
        .env("KUBECONFIG", &kubeconfig)
        .env("HOME", lab.dir())
        .output()
        .unwrap();
    assert_eq!(good(&get), "b");
}
