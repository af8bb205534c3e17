//! What all nodes of a role have in common, as a file for people: `controlplane.yaml` and `worker.yaml`.

use daedal_inventory::{Cluster, Role};
use daedal_talos_config::MachineConfig;
use serde_json::json;

use super::secrets;
use super::whole::{Place, VERSIONS, assert_all, assert_none, loaded};
use crate::config::role_config;
use crate::{Error, vet};

/// Settings of the cluster, of all workers, and of one of them.
fn cluster(talos: &str, patches: &str) -> Cluster {
    loaded(&format!(
        r#"
  talos: {{version: {talos}, extensions: [tailscale]}}
  network: {{cidr: 10.0.0.0/16, gateway: 10.0.0.1, vip: 10.0.0.9, dns: [10.0.0.2], ntp: [time.example.org]}}
  registryMirrors: {{ghcr.io: {{endpoints: ['https://one.lan']}}}}
  machine:
    sysctls: {{vm.max_map_count: "262144", vm.overcommit_memory: "1"}}
    annotations: {{example.org/everywhere: "yes"}}
    searchDomains: [example.org]
    extensionServices: [{{name: tailscale, environment: {{TS_AUTHKEY: {{env: TS_AUTHKEY}}}}}}]
  patches: {patches}
  pools:
    - {{name: cp, role: controlplane, count: 1}}
    - name: w
      role: worker
      labels: {{example.org/pool: w}}
      taints: {{example.org/reserved: NoSchedule}}
      machine: {{sysctls: {{net.core.somaxconn: "1024"}}}}
      nodes:
        - {{labels: {{example.org/own: a}}, machine: {{sysctls: {{vm.overcommit_memory: "2"}}}}}}
        - {{machine: {{sysctls: {{kernel.pid_max: "65536"}}}}}}
"#
    ))
}

/// Without what is a document of its own in every version: JSON patches are for configs of one document.
fn of_one_document(mut cluster: Cluster) -> Cluster {
    let nodes = cluster.nodes.iter_mut().map(|node| &mut node.machine);
    std::iter::once(&mut cluster.machine).chain(nodes).for_each(|machine| machine.extension_services.clear());
    cluster
}

fn both(cluster: &Cluster) -> [MachineConfig; 2] {
    [Role::ControlPlane, Role::Worker].map(|role| role_config(cluster, role, &secrets()).unwrap().config)
}

/// Mission: E9, H7
#[test]
fn role_configs_hold_what_all_nodes_of_a_role_have_in_common() {
    for talos in VERSIONS {
        let cluster = cluster(talos, "[{inline: 'machine: {certSANs: [\"${node.name}\", x]}'}]");
        let [control_plane, worker] = both(&cluster);
        let (sysctls, labels, annotations, taints, dns, time): (Place, Place, Place, Place, Place, Place) =
            match talos {
                "v1.14.0" => (
                    ("SysctlConfig", "", "/params"),
                    ("KubeNodeConfig", "", "/labels"),
                    ("KubeNodeConfig", "", "/annotations"),
                    ("KubeNodeConfig", "", "/taints"),
                    ("ResolverConfig", "", "/nameservers/0/address"),
                    ("TimeSyncConfig", "", "/ntp/servers"),
                ),
                "v1.12.0" => (
                    ("", "", "/machine/sysctls"),
                    ("", "", "/machine/nodeLabels"),
                    ("", "", "/machine/nodeAnnotations"),
                    ("", "", "/machine/nodeTaints"),
                    ("ResolverConfig", "", "/nameservers/0/address"),
                    ("TimeSyncConfig", "", "/ntp/servers"),
                ),
                _ => (
                    ("", "", "/machine/sysctls"),
                    ("", "", "/machine/nodeLabels"),
                    ("", "", "/machine/nodeAnnotations"),
                    ("", "", "/machine/nodeTaints"),
                    ("", "", "/machine/network/nameservers/0"),
                    ("", "", "/machine/time/servers"),
                ),
            };
        let mirror = match talos {
            "v1.11.0" => ("", "", "/machine/registries/mirrors/ghcr.io/endpoints/0"),
            _ => ("RegistryMirrorConfig", "ghcr.io", "/endpoints/0/url"),
        };
        for config in [&control_plane, &worker] {
            let everywhere = [
                (
                    ("ExtensionServiceConfig", "tailscale", "/environment"),
                    json!(["TS_AUTHKEY=the TS_AUTHKEY"]),
                ),
                (annotations, json!({"example.org/everywhere": "yes"})),
                (dns, json!("10.0.0.2")),
                (time, json!(["time.example.org"])),
                (mirror, json!("https://one.lan")),
                // A patch that speaks of nodes is theirs alone.
                (("", "", "/machine/certSANs"), json!([])),
            ];
            assert_all(talos, config, &everywhere);
            assert_eq!((config.hostname(), config.addresses()), (None, Vec::new()), "{talos}");
            assert!(config.virtual_addresses().is_empty(), "{talos}");
        }
        let declared = json!({"vm.max_map_count": "262144", "vm.overcommit_memory": "1"});
        assert_all(talos, &control_plane, &[(sysctls, declared)]);
        let declared = json!({
            "net.core.somaxconn": "1024", "vm.max_map_count": "262144", "vm.overcommit_memory": "1",
        });
        let of_workers = [
            (sysctls, declared),
            (labels, json!({"example.org/pool": "w"})),
            (taints, json!({"example.org/reserved": ":NoSchedule"})),
        ];
        assert_all(talos, &worker, &of_workers);
        assert_none(talos, &control_plane, &[("", "", "/machine/nodeLabels/example.org~1pool")]);
    }
}

/// A role without nodes has what the cluster says, for whoever joins one by hand.
#[test]
fn a_role_without_nodes_has_what_the_cluster_says() {
    let cluster = loaded(
        "
  talos: {version: v1.12.0}
  network: {cidr: 10.0.0.0/16, gateway: 10.0.0.1}
  machine: {sysctls: {vm.max_map_count: '262144'}, hostname: dhcp}
  pools: [{name: cp, role: controlplane, count: 1}]",
    );
    let [_, worker] = both(&cluster);
    assert_all("v1.12.0", &worker, &[(("", "", "/machine/sysctls/vm.max_map_count"), json!("262144"))]);
    assert_none("v1.12.0", &worker, &[("HostnameConfig", "", "")]);
}

/// What fits every node is not refused when the files are written.
#[test]
fn patches_of_what_is_declared_fit_role_configs() {
    let add = "[{op: add, path: /machine/sysctls/kernel.panic, value: \"10\"}]";
    let delete = "machine: {sysctls: {vm.max_map_count: {$patch: delete}}}";
    for (talos, patch) in [("v1.11.0", add), ("v1.11.0", delete), ("v1.12.0", delete)] {
        let cluster = of_one_document(cluster(talos, &format!("[{{inline: '{patch}'}}]")));
        vet(&cluster).unwrap();
        for config in both(&cluster) {
            if patch == add {
                assert_all(talos, &config, &[(("", "", "/machine/sysctls/kernel.panic"), json!("10"))]);
            } else {
                assert_none(talos, &config, &[("", "", "/machine/sysctls/vm.max_map_count")]);
            }
        }
    }
}

/// What fits nodes only is refused before anything is done, by the patch's name and the file's, with the way out.
#[test]
fn a_patch_that_fits_nodes_alone_is_left_out_and_told() {
    let of_a_card = "[{op: add, path: /machine/network/interfaces/0/mtu, value: 9000}]";
    let cluster = of_one_document(cluster("v1.11.0", &format!("[{{role: worker, inline: '{of_a_card}'}}]")));
    let doubts = vet(&cluster).unwrap();
    let told = doubts.iter().find(|doubt| doubt.text.contains("spec.patches[0].inline")).unwrap();
    assert!(told.text.contains("worker.yaml is written without it"), "{told:?}");
    assert!(both(&cluster)[1].get("machine.network.interfaces").is_none());
}

/// What only control planes may have is no fault of a cluster that has no workers, nor is a half that each pool completes.
#[test]
fn a_cluster_whose_nodes_are_all_valid_is_not_refused_for_its_role_files() {
    let mut alone =
        cluster("v1.12.0", "[{inline: 'cluster: {etcd: {extraArgs: {quota-backend-bytes: \"1\"}}}'}]");
    alone.nodes.retain(|node| node.role == Role::ControlPlane);
    assert!(vet(&alone).unwrap().iter().all(|doubt| !doubt.text.contains("written without")));
    assert!(both(&alone)[0].text("cluster.etcd.extraArgs.quota-backend-bytes").is_some());
    assert!(both(&alone)[1].get("cluster.etcd").is_none());
}

/// An address that a patch gives to two nodes is refused, by both names and the patch's; what is shared on purpose is not.
#[test]
fn no_two_final_configs_have_one_address() {
    let document = |kind: &str, rest: &str| format!("{{apiVersion: v1alpha1, kind: {kind}, {rest}}}");
    let vlan =
        document("VLANConfig", "name: net0.7, vlanID: 7, parent: net0, addresses: [{address: 10.7.0.5/24}]");
    let error = vet(&cluster("v1.12.0", &format!("[{{role: worker, inline: '{vlan}'}}]"))).unwrap_err();
    let said = error.to_string();
    assert_eq!(
        said,
        "nodes w-1 and w-2 would both have the address 10.7.0.5, by the patch spec.patches[0].inline"
    );
    assert!(matches!(error, Error::SharedAddress { patch: Some(_), .. }), "{error:?}");
    let dummy = document("DummyLinkConfig", "name: dummy0, addresses: [{address: 10.8.0.1/24}]");
    let anycast = document("LinkConfig", "name: lo, addresses: [{address: 10.9.0.53/32}]");
    let local = document("LinkConfig", "name: net0, addresses: [{address: fe80::1/64}]");
    let bridge = document("BridgeConfig", "name: br0, addresses: [{address: 192.168.100.1/24}]");
    let spelled = document("DummyLinkConfig", "name: dummy0, addresses: [{address: FD00:0::8/64}]");
    for shared in [dummy, spelled, anycast, local, bridge] {
        vet(&cluster("v1.12.0", &format!("[{{inline: '{shared}'}}]"))).unwrap();
    }
}
