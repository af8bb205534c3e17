//! What the real validator refuses, our own lint finds; and what it misses.

use daedal_talos_config::{ClusterOptions, MachineConfig, NodeOptions, Patch, Role, Severity};
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
#[ignore = "needs real peers: cargo xtask conformance"]
fn what_the_library_refuses_our_lint_finds() {
    let before_the_split = [
        (Role::Worker, "cluster: {controlPlane: {endpoint: {$patch: delete}}}"),
        (Role::Worker, "machine: {install: {extraKernelArgs: [a=b]}}"),
    ];
    let always = [
        (Role::Worker, "machine: {ca: {key: LS0t}}"),
        (Role::ControlPlane, "machine: {ca: {$patch: delete}}"),
        (Role::Worker, "machine: {ca: {$patch: delete}}"),
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
            let found = ours.lint(contract.release()).iter().any(|lint| lint.severity == Severity::Error);
            tally.case((!found).then(|| format!("v1.{}: the lint misses {patch}", contract.minor)));
        }
    }
    tally.done();
}

/// Fields that a document has taken the place of: ours are refused exactly where the real ones are.
#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn what_stands_beside_its_successor_is_judged_as_the_library_does() {
    const FIELDS: &[&str] = &[
        "machine: {kubelet: {extraArgs: {v: '2'}}}",
        "machine: {kubelet: {registerWithFQDN: true}}",
        "machine: {kubelet: {}}",
        "machine: {nodeLabels: {a: b}}",
        "machine: {nodeAnnotations: {a: b}}",
        "machine: {nodeTaints: {a: 'b:NoSchedule'}}",
        "machine: {network: {nameservers: [10.0.0.1]}}",
        "machine: {network: {searchDomains: [a.lan]}}",
        "machine: {network: {disableSearchDomain: true}}",
        "machine: {network: {disableSearchDomain: false}}",
        "machine: {network: {kubespan: {enabled: false}}}",
        "machine: {time: {servers: [a.lan]}}",
        "machine: {time: {disabled: true}}",
        "machine: {time: {disabled: false}}",
        "machine: {time: {bootTimeout: 5m0s}}",
        "machine: {install: {wipe: true}}",
        "machine: {sysctls: {a: b}}",
        "machine: {features: {kubePrism: {enabled: true, port: 7446}}}",
        "machine: {features: {hostDNS: {enabled: true}}}",
        "machine: {features: {stableHostname: true}}",
        "machine: {features: {stableHostname: false}}",
        "machine: {features: {imageCache: {localEnabled: true}}}",
        "machine: {baseRuntimeSpecOverrides: {process: {rlimits: []}}}",
        "machine: {controlPlane: {scheduler: {disabled: true}}}",
        "cluster: {network: {podSubnets: [10.1.0.0/16]}}",
        "cluster: {network: {dnsDomain: a.lan}}",
        "cluster: {apiServer: {extraArgs: {v: '2'}}}",
        "cluster: {controllerManager: {extraArgs: {v: '2'}}}",
        "cluster: {scheduler: {extraArgs: {v: '2'}}}",
        "cluster: {proxy: {extraArgs: {v: '2'}}}",
        "cluster: {coreDNS: {disabled: true}}",
        "cluster: {discovery: {enabled: true}}",
        "cluster: {clusterName: other}",
        "cluster: {controlPlane: {endpoint: 'https://10.0.0.30:6443'}}",
        "cluster: {controlPlane: {localAPIServerPort: 6444}}",
        "cluster: {allowSchedulingOnControlPlanes: true}",
        "cluster: {allowSchedulingOnControlPlanes: false}",
        "cluster: {secretboxEncryptionSecret: c2VjcmV0}",
        "cluster: {aescbcEncryptionSecret: c2VjcmV0}",
        "cluster: {id: other}",
        "machine: {network: {searchDomains: []}}",
        "machine: {time: {bootTimeout: 0s}}",
        "apiVersion: v1alpha1\nkind: ResolverConfig\nnameservers: [{address: 10.0.0.1}]",
        "apiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: true",
        "machine: {network: {kubespan: {enabled: true}}}\n---\napiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: true",
        "machine: {features: {imageCache: {localEnabled: true}}}\n---\napiVersion: v1alpha1\nkind: ImageCacheConfig",
        "machine: {baseRuntimeSpecOverrides: {process: {noNewPrivileges: true}}}\n---\napiVersion: v1alpha1\nkind: CRIBaseRuntimeSpecConfig",
        "machine: {features: {kubernetesTalosAPIAccess: {enabled: true}}}\n---\napiVersion: v1alpha1\nkind: KubeTalosAPIAccessConfig\nallowedRoles: ['os:reader']",
        "machine: {kubelet: {credentialProviderConfig: {kind: CredentialProviderConfig}}}\n---\napiVersion: v1alpha1\nkind: KubeCredentialProviderConfig",
        "machine: {systemDiskEncryption: {state: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}}}\n---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: STATE\nencryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}",
        "machine: {systemDiskEncryption: {state: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}}}\n---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\nencryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}",
    ];
    let mut tally = Tally::new("lint: fields beside the documents that took their place");
    let mut refused = 0;
    for contract in newest() {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        for (role, patch) in [Role::ControlPlane, Role::Worker]
            .into_iter()
            .flat_map(|role| FIELDS.iter().map(move |patch| (role, patch)))
        {
            let version = format!("v1.{}.0", contract.minor);
            let cluster = ClusterOptions::new("c1", "https://10.0.0.20:6443", version, contract.kubernetes);
            let mut node = NodeOptions::new(role, "node-1");
            node.install.disk = Some("/dev/sda".into());
            node.nameservers = vec!["10.0.0.2".parse().unwrap()];
            node.time_servers = vec!["time.lan".into()];
            let mut ours = MachineConfig::generate(bundle(), &cluster, &node).unwrap();
            ours.apply_patch(&Patch::from_yaml(patch).unwrap()).unwrap();
            let request = json!({"config": ours.to_yaml().expose(), "validate": {"mode": "metal"}});
            let real = tool.ask(&request);
            let found: Vec<_> =
                ours.lint(contract.release()).into_iter().filter(|l| l.severity == Severity::Error).collect();
            refused += usize::from(real.is_err());
            tally.case((real.is_err() == found.is_empty()).then(|| {
                format!("v1.{} {role:?} {patch}: {:?} beside {found:?}", contract.minor, real.err())
            }));
        }
    }
    assert!(refused == 0 || refused >= 40, "{refused} refused");
    tally.done();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
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
            let found = ours.lint(contract.release()).iter().any(|lint| lint.severity == Severity::Error);
            tally.case((!found).then(|| format!("v1.{}: the lint misses {patch}", contract.minor)));
        }
    }
    tally.done();
}
