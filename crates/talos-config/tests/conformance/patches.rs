//! Patches against the real patcher: chosen ones, and thousands made from the table of fields.

mod making;

use std::collections::BTreeMap;

use daedal_talos_config::{MachineConfig, NodeOptions, Patch, Role};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value as Json, json};

use self::making::{delete_something, document, fields, yaml};
use crate::peer::{ConfigTool, Contract, Tally, bundle, difference, newest};

/// Pairs of config and patch for each version of the library.
const PAIRS: usize = 3_600;

/// Values that the real decoder refuses, and what its merge cannot do at all: nothing can be compared.
fn says_nothing_of_merging(error: &str) -> bool {
    [
        "decod",
        "unmarshal",
        "not settable",
        "conflicting",
        "construct",
        "panic",
        "invalid",
        "pars",
        "unknown",
        "not a valid",
        "failed to",
    ]
    .iter()
    .any(|word| error.contains(word))
        && !error.contains("unknown keys")
        && !error.contains("not registered")
        && !error.contains("patch delete")
        && !error.contains("type mismatch")
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn random_patches_do_the_same() {
    let mut tally = Tally::new("patches: random pairs of config and patch");
    let kinds = fields();
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut deletes, mut refused, mut several, mut too_new) = (0, 0, 0, 0);
    let mut libraries = 0;
    for contract in newest() {
        let minor = contract.minor;
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        libraries += 1;
        let mut rng = StdRng::seed_from_u64(11);
        let known: Vec<&String> =
            kinds.iter().filter(|(_, f)| f.since <= minor).map(|(kind, _)| kind).collect();
        let later: Vec<&String> =
            kinds.iter().filter(|(_, f)| f.since > minor).map(|(kind, _)| kind).collect();
        let mut pairs = 0;
        for attempt in 0.. {
            assert!(attempt < PAIRS * 8, "too few of the patches are accepted: {pairs} of {attempt}");
            if pairs == PAIRS {
                break;
            }
            let mut base = vec![
                json!({"version": "v1alpha1", "machine": {"type": "worker", "token": "t"}, "cluster": {}}),
            ];
            if minor >= 14 {
                base.push(json!({"apiVersion": "v1alpha1", "kind": "KubeClusterConfig", "clusterName": "c"}));
            }
            let mut patch = Vec::new();
            // The main document is as much in use as all others together.
            let count = if rng.gen_bool(0.15) { 2 } else { 1 };
            let mut chosen: Vec<&str> = Vec::new();
            let mut has_delete = false;
            for _ in 0..count {
                let kind: &str = if rng.gen_bool(0.35) { "" } else { known.choose(&mut rng).unwrap() };
                if chosen.contains(&kind) {
                    continue;
                }
                chosen.push(kind);
                let named = kinds[kind].below.contains_key("name");
                let present = document(kind, &kinds[kind], minor, named, &mut rng);
                // Now and then with keys that only a later version knows.
                let knowing = if rng.gen_bool(0.05) { 14 } else { minor };
                let mut wish = document(kind, &kinds[kind], knowing, named, &mut rng);
                if rng.gen_bool(0.25) {
                    delete_something(&present, &mut wish, &mut rng);
                    has_delete |= wish.to_string().contains("$patch");
                }
                // Or with a key that none does.
                if rng.gen_bool(0.03) {
                    wish["surely"] = "nothing".into();
                }
                let same = |d: &Json| d["kind"] == present["kind"];
                match base.iter_mut().find(|d| same(d)) {
                    Some(there) => join(there, present),
                    None => base.push(present),
                }
                patch.push(wish);
            }
            // And now and then a document that only a later version knows.
            if rng.gen_bool(0.05)
                && let Some(kind) = later.choose(&mut rng)
            {
                let named = kinds[kind.as_str()].below.contains_key("name");
                patch.push(document(kind, &kinds[kind.as_str()], 14, named, &mut rng));
            }
            let (config, patch) = (yaml(&base), yaml(&patch));
            let Ok(config) = tool.ask(&json!({"config": config})) else { continue };
            let theirs = tool.patched(&config, &patch);
            let mut ours = config.clone();
            let done = Patch::for_contract(&patch, contract.own()).and_then(|patch| ours.apply_patch(&patch));
            let what = |where_: String| format!("v1.{minor} {where_}\n{patch}");
            let judged = match (done, theirs) {
                (_, Err(error)) if says_nothing_of_merging(&error) => continue,
                // 1.12 does not find what kinds of links have in common; ours does as later versions do.
                (_, Err(error)) if minor == 12 && error.contains("lookup failed") => continue,
                (Ok(()), Ok(theirs)) => match tool.normal(&ours) {
                    Ok(ours) => difference(&ours, &theirs).map(what),
                    Err(error) => Some(what(error)),
                },
                (Err(_), Err(theirs)) if theirs.contains("not registered") => {
                    too_new += 1;
                    None
                }
                (Err(_), Err(_)) => {
                    refused += 1;
                    None
                }
                (ours, theirs) => Some(what(format!("ours {ours:?}, theirs {:?}", theirs.map(|_| ())))),
            };
            pairs += 1;
            several += usize::from(chosen.len() > 1);
            deletes += usize::from(has_delete);
            for kind in chosen {
                *compared.entry(kind).or_default() += 1;
            }
            tally.case(judged);
        }
    }
    if tally.cases() > 0 {
        println!(
            "{deletes} with deletes, {several} of several documents, {refused} refused by both, {too_new} for a kind of a \
             later version; {} kinds",
            compared.len()
        );
        // What each library is asked must be among what was compared, and not only among what was made.
        assert!(deletes >= 400 * libraries, "{deletes} with deletes");
        assert!(several >= 200 * libraries, "{several} of several documents");
        assert!(refused >= 50 * libraries, "{refused} refused by both");
        assert!(too_new >= 100, "{too_new} of a later version");
        assert_eq!(compared.len(), kinds.len(), "every kind of document");
        assert!(tally.cases() >= 10_000);
    }
    tally.done();
}

fn join(left: &mut Json, right: Json) {
    match (left, right) {
        (Json::Object(left), Json::Object(right)) => {
            for (key, value) in right {
                join(left.entry(key).or_insert(Json::Null), value);
            }
        }
        (left, right) => *left = right,
    }
}

/// A config of a contract with little in it.
fn config(contract: Contract, role: Role) -> MachineConfig {
    let mut node = NodeOptions::new(role, "node-1");
    node.labels.insert("example.org/rack".into(), "a".into());
    node.install.disk = Some("/dev/sda".into());
    node.nameservers = vec!["1.1.1.1".parse().unwrap()];
    let version = format!("v1.{}.0", contract.minor);
    let cluster = daedal_talos_config::ClusterOptions::new(
        "c1",
        "https://10.0.0.20:6443",
        version,
        contract.kubernetes,
    );
    MachineConfig::generate(bundle(), &cluster, &node).unwrap()
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn chosen_patches_do_the_same() {
    let patches = [
        "machine: {certSANs: [x.example.org], sysctls: {net.core.somaxconn: '65535'}}",
        "machine: {certSANs: [], features: {diskQuotaSupport: false}}",
        "machine: {ca: {crt: QUJD}}",
        "cluster: {controlPlane: {endpoint: 'https://other'}}",
        "cluster: {extraManifests: ['https://x'], inlineManifests: [{name: n, contents: 'a: 1'}]}",
        "machine: {network: {interfaces: [{interface: eth0, dhcp: true, vlans: [{vlanId: 4, dhcp: true}]}, {deviceSelector: {driver: virtio}, mtu: 9000}]}}",
        "machine: {nodeLabels: {example.org/rack: {$patch: delete}, new: label}}",
        "machine: {nodeLabels: {example.org/rack: , example.org/storage: }}",
        "machine: {nodeLabels: {~: a}}",
        "machine: {kubelet: {extraArgs: {v: , w: '1'}, extraConfig: {a: }}}\n",
        "cluster: {apiServer: {extraArgs: {v: '1'}}}",
        "cluster: {apiServer: {extraArgs: {v: }}}",
        "cluster: {apiServer: {auditPolicy: {rules: {$patch: delete}}}}",
        "cluster: {apiServer: {auditPolicy: {$patch: delete}}}",
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {defaults: {$patch: delete}}}]}}",
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {defaults: {enforce: }}}]}}",
        "machine: {kubelet: {$patch: replace, image: x}}",
        "machine: {kubelet: {$patch: Delete}}",
        "machine: {sysctls: {$patch: replace, a: b}}",
        "machine: {network: {interfaces: [{interface: eth0, $patch: merge}]}}",
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: a\n$patch: replace",
        "apiVersion: v1alpha2\nkind: VolumeConfig\nname: EPHEMERAL",
        "machine: {acceptedCAs: [{crt: QUJD, $patch: delete}]}",
        "version: v1alpha2\nmachine: {certSANs: [x]}",
        "version: ''\nmachine: {certSANs: [x]}",
        "version: v1alpha1\nmachine: {certSANs: [x]}",
        "5: x",
        "machine: {5: x}",
        "machine: {true: x}",
        "machine: {kubelet: {~: x}}",
        "machine: {sysctls: {? [a] : b}}",
        "machine: {sysctls: {? {a: b} : c}}",
        "machine: {ca: {5: x}}",
        "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: a\nurl: tcp://1.2.3.4:5\n---\napiVersion: v1alpha1\nkind: KmsgLogConfig\nname: a\nurl: udp://1.2.3.4:5",
        "machine: {certSANs: [x]}\n---\nmachine: {certSANs: [y], sysctls: {a: b}}",
        "- op: test\n  path: /machine/nothing",
        "- op: test\n  path: /machine/type",
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: net0\nmtu: 9000\naddresses: [{address: 10.1.0.1/24, routePriority: 0}]",
        "apiVersion: v1alpha1\nkind: ResolverConfig\n$patch: delete",
        "apiVersion: v1alpha1\nkind: ResolverConfig\nnameservers: [{address: 1.1.1.1, $patch: delete}]",
        "apiVersion: v1alpha1\nkind: ResolverConfig\nnameservers: [{address: 9.9.9.9}]\nsearchDomains: {disableDefault: true}",
        "apiVersion: v1alpha1\nkind: TimeSyncConfig\nenabled: false\nbootTimeout: 30s",
        "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\nprovisioning: {diskSelector: {match: '!system_disk'}, minSize: 10GiB}",
        "apiVersion: v1alpha1\nkind: HostnameConfig\n$patch: delete\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable",
        "apiVersion: v1alpha1\nkind: NothingConfig\nname: nothing",
        "apiVersion: v1alpha1\nkind: SysctlConfig\nparams: {vm.max_map_count: '262144'}",
        "apiVersion: v1alpha1\nkind: SysctlConfig\n$patch: delete",
        "apiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: true",
        "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: data\nprovisioning: {diskSelector: {match: '!system_disk'}, minSize: 10GiB}\ntrim: {enabled: true}",
        "machine: {network: {kubespan: {$patch: delete}}}",
        "machine: {sysctls: {missing: {$patch: delete}}}",
        "machine: {instal: {disk: x}}",
        "machine: {install: {disk: [x]}}",
        "machine: {certSANs: {a: b}}",
        "machine: [a]",
        "kind: LinkConfig\nname: a",
        "- op: add\n  path: /machine/certSANs/-\n  value: x.example.org",
        "[{\"op\": \"replace\", \"path\": \"/machine/type\", \"value\": \"worker\"}, {\"op\": \"remove\", \"path\": \"/machine/token\"}]",
        "- op: remove\n  path: /machine/nothing",
        "# why\n- op: add\n  path: /machine/certSANs/-\n  value: x.example.org",
        "---\n- op: add\n  path: /machine/certSANs/-\n  value: x.example.org",
        "# why\n---\n# more\n- op: add\n  path: /machine/certSANs/-\n  value: x.example.org\n",
        "\n \n[{\"op\": \"add\", \"path\": \"/machine/certSANs/-\", \"value\": \"x.example.org\"}]\n",
        "# why\n[{\"op\": \"add\", \"path\": \"/machine/certSANs/-\", \"value\": \"x.example.org\"}]\n",
        "- op: add\n  path: /machine/certSANs/-\n  value: x.example.org\n---\nmachine: {type: worker}\n",
        "- op: test\n  path: /machine/type\n  value: controlplane\n- op: copy\n  from: /machine/token\n  path: /cluster/token",
        "- op: test\n  path: /machine/type\n  value: other",
        "- op: move\n  from: /machine/nodeLabels\n  path: /machine/nodeAnnotations",
        "- op: add\n  path: /machine/nothing/below\n  value: 1",
    ];
    let mut tally = Tally::new("patches: chosen ones, JSON patches among them");
    for contract in crate::peer::CONTRACTS {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        for role in [Role::ControlPlane, Role::Worker] {
            let config = config(contract, role);
            for patch in patches {
                let theirs = tool.patched(&config, patch);
                let mut ours = config.clone();
                let done = Patch::for_contract(patch, contract.of_library())
                    .and_then(|patch| ours.apply_patch(&patch));
                let what = format!("v1.{} {role:?} {patch}", contract.minor);
                tally.case(match (done, theirs) {
                    (Ok(()), Ok(theirs)) => match tool.normal(&ours) {
                        Ok(ours) => difference(&ours, &theirs).map(|where_| format!("{what}: {where_}")),
                        Err(error) => Some(format!("{what}: {error}")),
                    },
                    (Err(_), Err(_)) => None,
                    // Before 1.14, deleting a document that is not there left an empty one behind.
                    (Ok(()), Err(error)) if error.contains("unreadable answer") => None,
                    // 1.12 does not find elements by their addresses, nor anything in a free form.
                    (Ok(()), Err(error)) if contract.minor <= 12 && error.contains("lookup failed") => None,
                    // It breaks at what says nothing in a free form.
                    (Ok(()), Err(error)) if error.contains("panic") && patch.contains("enforce: ") => None,
                    (ours, theirs) => Some(format!("{what}: ours {ours:?}, theirs {:?}", theirs.map(|_| ()))),
                });
            }
        }
    }
    tally.done();
}
