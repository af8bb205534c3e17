//! What Talos is told of one node, whole.

mod addons;
mod roles;
mod whole;

use std::sync::Arc;

use daedal_inventory::{Source, load};
use daedal_talos_config::Dhcp;
use daedal_talos_config::nocloud::Cidata;

use super::*;
use crate::{RunningVersions, SharedConfigs};

/// Secrets that nobody keeps, made at once.
fn secrets() -> SecretsBundle {
    let rng = &mut <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    SecretsBundle::generate_with_key_size(rng, jiff::Timestamp::UNIX_EPOCH, 512).unwrap()
}

fn cluster() -> Cluster {
    cluster_with("")
}

/// The cluster with further lines at the end of its inventory.
fn cluster_with(more: &str) -> Cluster {
    let text = r#"
apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {name: home}
spec:
  environment: lab
  talos: {version: v1.12.0, extensions: [qemu-guest-agent]}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {id: "daedal@pve!cli", secret: {env: X}}
    tls: {insecure: true}
    hosts: [atlas]
    storage: {disks: local-lvm, images: local}
    bridge: vmbr1
    vlan: 20
  network: {cidr: 10.0.0.0/16, gateway: 10.0.0.1, mtu: 1400}
  pools:
    - {name: cp, role: controlplane, count: 1, cores: 4, memory: 8GiB, disk: 40GiB, vmid: 300, address: 10.0.0.11}
"#;
    let source = Source { name: "cluster.yaml".into(), text: format!("{text}{more}") };
    let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    load(&[source], &no_files).unwrap().cluster
}

/// The network as declared: cards with addresses of their own, a bond, addresses that are asked for.
/// Mission: M19, M23
#[test]
fn cards_bonds_and_dhcp_reach_the_machine_config() {
    let mut cluster = cluster();
    let card = |mac: &str, bonded: bool| daedal_inventory::Nic {
        mac: mac.into(),
        bridge: "vmbr2".into(),
        vlan: None,
        mtu: None,
        dhcp: false,
        address: (!bonded).then(|| "10.50.0.11/24".parse().unwrap()),
        routes: Vec::new(),
        bonded,
    };
    cluster.nodes[0].nics = vec![card("02:00:00:00:00:02", false), card("02:00:00:00:00:03", true)];
    cluster.nodes[0].machine.vlans =
        vec![daedal_inventory::options::Vlan { id: 7, addresses: Vec::new(), routes: Vec::new(), mtu: None }];
    let options = node_options(&cluster, &cluster.nodes[0]).unwrap();
    assert_eq!(options.links.len(), 2, "without a bond, what is bonded is left alone");
    assert_eq!(options.links[1].addresses, ["10.50.0.11/24".parse().unwrap()]);

    cluster.nodes[0].hardware.bond = Some(daedal_inventory::hardware::Bond::default());
    cluster.network.dhcp = true;
    let options = node_options(&cluster, &cluster.nodes[0]).unwrap();
    let [bond] = &options.bonds[..] else { panic!("{:?}", options.bonds) };
    assert_eq!((bond.name.as_str(), bond.mtu, bond.members.len()), ("bond0", Some(1400), 2));
    assert!(bond.addresses.is_empty() && bond.routes.is_empty() && bond.dhcp == Some(Dhcp::IPV4));
    assert_eq!((bond.vlans[0].id, options.links.len()), (7, 1));
}

/// Patches reach exactly whom they are for, and the nearer one has the last word: cluster, pool, node.
/// Mission: F9
#[test]
fn patches_reach_their_roles_and_nodes_and_the_nearest_wins() {
    let label =
        |key: &str, value: &str| format!("{{inline: \"machine: {{nodeLabels: {{{key}: '{value}'}}}}\"");
    let more = format!(
        "    - name: w
      role: worker
      vmid: 310
      address: 10.0.0.21
      cores: 4
      memory: 8GiB
      disk: 40GiB
      patches: [{both}}}, {pool}}}]
      nodes: [{{}}, {{patches: [{node}}}, {own}}}]}}]
  patches: [{all}}}, {cps}, role: controlplane}}, {workers}, role: worker}}]
",
        both = label("nearest", "pool"),
        pool = label("of", "pool"),
        node = label("nearest", "node"),
        own = label("named", "w-2"),
        all = label("nearest", "cluster"),
        cps = label("role", "controlplane"),
        workers = label("role", "worker"),
    );
    let cluster = cluster_with(&more);
    let secrets = secrets();
    let labels = |name: &str| {
        let config = judged(&cluster, cluster.node(name).unwrap(), &secrets).unwrap().config;
        let whole: yaml_serde::Value =
            yaml_serde::from_str(first_document(config.to_yaml().expose())).unwrap();
        ["nearest", "role", "of", "named"]
            .map(|key| whole["machine"]["nodeLabels"][key].as_str().unwrap_or("-").to_owned())
    };
    assert_eq!(labels("cp-1"), ["cluster", "controlplane", "-", "-"]);
    assert_eq!(labels("w-1"), ["pool", "worker", "pool", "-"]);
    assert_eq!(labels("w-2"), ["node", "worker", "pool", "w-2"]);
}

fn first_document(text: &str) -> &str {
    text.split("\n---").next().unwrap()
}

/// Whoever asks gets the same config, and the medium has its very text; what it is made from makes the difference.
#[test]
fn configs_are_made_once_for_the_same_cluster_secrets_and_versions() {
    let (cluster, secrets, shared) = (cluster(), secrets(), SharedConfigs::default());
    let first = shared.of(&cluster, &secrets).node("cp-1").unwrap();
    assert!(Arc::ptr_eq(&first, &shared.of(&cluster, &secrets).node("cp-1").unwrap()));
    let iso = shared.of(&cluster, &secrets).media(&cluster.nodes[0]).unwrap();
    assert!(Cidata::from_iso(&iso).unwrap().unwrap().user_data == *first.text());
    assert_eq!(shared.generations().into_values().collect::<Vec<_>>(), [1]);

    let configs = shared.of(&cluster, &secrets);
    let newer = RunningVersions { talos: "v1.12.1".into(), ..configs.declared().clone() };
    assert!(configs.node_of("cp-1", &newer).unwrap().text() != first.text());
    assert!(Arc::ptr_eq(&first, &configs.node("cp-1").unwrap()));
    let none = RunningVersions { talos: "new".into(), ..newer };
    assert!(matches!(configs.node_of("cp-1", &none), Err(Error::NoVersion { .. })));
    assert!(matches!(configs.node("cp-9"), Err(Error::NoNode { .. })));

    let mut other = cluster;
    other.nodes[0].labels.insert("rack".into(), "a".into());
    assert!(shared.of(&other, &secrets).node("cp-1").unwrap().text() != first.text());
    assert_eq!(shared.generations().into_values().collect::<Vec<_>>(), [2, 1]);
}
