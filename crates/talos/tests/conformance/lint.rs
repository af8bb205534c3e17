//! What the real validator refuses, our own lint finds; and what it misses.

use daedal_talos::config::{ClusterOptions, MachineConfig, NodeOptions, Patch, Role, Severity};
use serde_json::json;

use crate::peer::{ConfigTool, Contract, Tally, bundle, newest};

fn config(contract: Contract, role: Role) -> MachineConfig {
    let version = format!("v1.{}.0", contract.minor);
    let cluster = ClusterOptions::new("c1", "https://10.0.0.20:6443", version, contract.kubernetes);
    let mut node = NodeOptions::new(role, "node-1");
    node.install.disk = Some("/dev/sda".into());
    MachineConfig::generate(bundle(), &cluster, &node).unwrap()
}

#[test]
fn what_the_library_refuses_our_lint_finds() {
    let before_the_split = [
        (Role::Worker, "cluster: {controlPlane: {endpoint: {$patch: delete}}}"),
        (Role::Worker, "machine: {install: {extraKernelArgs: [a=b]}}"),
    ];
    let always = [
        (Role::Worker, "machine: {ca: {key: LS0t}}"),
        (Role::ControlPlane, "machine: {ca: {$patch: delete}}"),
        (Role::Worker, "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable"),
        (Role::Worker, "persist: false"),
        (Role::Worker, "machine: {network: {interfaces: [{interface: eth0, vip: {ip: 10.0.0.9}}]}}"),
        (Role::Worker, "machine: {network: {hostname: x}}"),
        (Role::Worker, "machine: {type: other}"),
    ];
    let mut tally = Tally::new("lint: faults that the validator refuses");
    for contract in newest() {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        let faults = always.iter().chain(before_the_split.iter().filter(|_| contract.minor < 14));
        for (role, patch) in faults {
            let mut ours = config(contract, *role);
            ours.apply_patch(&Patch::from_yaml(patch).unwrap()).unwrap();
            let request = json!({"config": ours.to_yaml().expose(), "validate": {"mode": "metal"}});
            assert!(tool.ask(&request).is_err(), "v1.{} accepts {patch}", contract.minor);
            let found = ours.lint(contract.own()).iter().any(|lint| lint.severity == Severity::Error);
            tally.case((!found).then(|| format!("v1.{}: the lint misses {patch}", contract.minor)));
        }
    }
    tally.done();
}

#[test]
fn what_the_library_misses_our_lint_finds() {
    let link = |name: &str, address: &str| {
        format!("apiVersion: v1alpha1\nkind: LinkConfig\nname: {name}\naddresses: [{{address: {address}}}]\n")
    };
    let missed = [
        (
            Role::Worker,
            format!(
                "{}---\napiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: 10.0.0.9\nlink: net0",
                link("net0", "10.0.0.5/24")
            ),
        ),
        (Role::ControlPlane, format!("{}---\n{}", link("net0", "10.0.0.5/24"), link("net1", "10.0.0.5/24"))),
        (
            Role::ControlPlane,
            format!(
                "{}---\napiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: 10.0.0.5\nlink: net0",
                link("net0", "10.0.0.5/24")
            ),
        ),
        (Role::Worker, link("net0", "10.0.0.0/24")),
    ];
    let mut tally = Tally::new("lint: faults that the validator misses");
    for contract in newest() {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        for (role, patch) in &missed {
            let mut ours = config(contract, *role);
            ours.apply_patch(&Patch::from_yaml(patch).unwrap()).unwrap();
            let request = json!({"config": ours.to_yaml().expose(), "validate": {"mode": "metal"}});
            assert!(tool.ask(&request).is_ok(), "v1.{} refuses it by now: {patch}", contract.minor);
            let found = ours.lint(contract.own()).iter().any(|lint| lint.severity == Severity::Error);
            tally.case((!found).then(|| format!("v1.{}: the lint misses {patch}", contract.minor)));
        }
    }
    tally.done();
}
