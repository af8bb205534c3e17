//! Patches of every kind, from files to what the nodes run.

use crate::common;

use common::{Changed, Lab, good};
use daedal_talos_config::MachineConfig;

/// A folder of patches, and patches by role, pool and node, with facts and what the environment gives.
/// Mission: M19, I4, F9
#[test]
fn patches_from_a_folder_for_roles_pools_and_nodes_reach_the_nodes() {
    let inventory = Changed::new(
        "home",
        &[
            ("count: 3 ", "count: 1 "),
            ("  pools:", "  patches: [{folder: patches}, {role: worker, file: workers.yaml}]\n\n  pools:"),
            (
                "      count: 2\n",
                "      patches: [{inline: 'machine: {nodeLabels: {pool: \"${node.pool}-${node.vmid}\", near: pool}}'}]\n      \
                 nodes: [{}, {patches: [{file: own.yaml}]}]\n",
            ),
        ],
    );
    let folder = inventory.file().parent().unwrap().to_path_buf();
    std::fs::create_dir(folder.join("patches")).unwrap();
    for (name, text) in [
        ("patches/20-later.yaml", "machine: {nodeLabels: {order: later}}"),
        (
            "patches/10-first.yaml",
            "machine: {nodeLabels: {order: first, name: '${node.name}', near: cluster}}",
        ),
        ("patches/README.md", "not: [a patch"),
        ("workers.yaml", "machine: {nodeLabels: {role: '${node.role}-of-${cluster.name}'}}"),
        (
            "own.yaml",
            "machine: {nodeLabels: {near: node, rack: '${env.RACK}'}, nodeAnnotations: {left: '$${x}'}}",
        ),
    ] {
        std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
    }
    let lab = Lab::new();
    let run = |command_line: &[&str]| {
        good(&lab.command_on(command_line, &inventory.file()).env("RACK", "r7").output().unwrap())
    };
    run(&["check"]);
    run(&["apply", "--yes"]);
    let labels = |file: &str| {
        let config = MachineConfig::from_yaml(&run(&["outputs", file])).unwrap();
        let at = |map: &str, key: &str| config.text(&format!("machine.{map}.{key}")).map(str::to_owned);
        let label = |key: &str| at("nodeLabels", key).or_else(|| at("nodeAnnotations", key));
        ["order", "name", "near", "role", "pool", "rack", "left"]
            .map(|key| label(key).unwrap_or_else(|| "-".to_owned()))
    };
    assert_eq!(labels("cp-1.yaml"), ["later", "cp-1", "cluster", "-", "-", "-", "-"]);
    let first = ["later", "worker-1", "pool", "worker-of-home", "worker-303", "-", "-"];
    assert_eq!(labels("worker-1.yaml"), first);
    let second = ["later", "worker-2", "node", "worker-of-home", "worker-304", "r7", "${x}"];
    assert_eq!(labels("worker-2.yaml"), second);
    // What speaks of nodes is not in what they have in common.
    assert_eq!(labels("worker.yaml"), ["later", "-", "-", "-", "-", "-", "-"]);
    // The nodes run what the files say: there is nothing left to change.
    run(&["plan", "--detailed-exitcode"]);
}
