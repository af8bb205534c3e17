use super::*;
use crate::fixture;

/// The digests that stand on VMs in the world. If one of these changes, every such VM looks as if it was asked for otherwise:
/// leave out of the form what is not said instead.
#[test]
fn digests_stay_what_they_are() {
    let mut cluster = fixture::home();
    assert_eq!(node_digest(&cluster, &cluster.nodes[0]), "ec6999e4b198490d2d3e37611c3ff5cd");
    everything(&mut cluster);
    assert_eq!(node_digest(&cluster, &cluster.nodes[0]), "d6c253c027ebb3c658b915444647ce07");
}

/// Says something in every field of the form.
fn everything(cluster: &mut Cluster) {
    cluster.talos.secure_boot = true;
    cluster.talos.kernel_args = vec!["console=ttyS0".into()];
    cluster.talos.image_sha256 = Some("ab".repeat(32));
    cluster.talos.meta = [(12, "x".to_owned())].into();
    let overlay = serde_json::json!({"name": "rpi_generic", "image": "siderolabs/sbc-raspberrypi"});
    cluster.talos.overlay = serde_json::from_value(overlay).unwrap();
    cluster.kubernetes.cert_sans = vec!["api.example.org".into()];
    cluster.kubernetes.cni_manifests = vec!["https://example.org/cni.yaml".into()];
    cluster.kubernetes.no_discovery = true;
    cluster.kubernetes.discovery_service = Some("https://discovery.example.org".into());
    cluster.kubernetes.kubespan = true;
    cluster.network.ntp = vec!["time.example.org".into()];
    cluster.network.mtu = Some(9000);
    cluster.network.dhcp = true;
    cluster.network.discovered = true;
    let mirrors = serde_json::json!({"docker.io": {"endpoints": ["https://mirror.example.org"]}});
    cluster.registry_mirrors = serde_json::from_value(mirrors).unwrap();
    let node = &mut cluster.nodes[0];
    node.labels = [("a".to_owned(), "b".to_owned())].into();
    node.taints = [("c".to_owned(), "d:NoSchedule".to_owned())].into();
    node.machine = serde_json::from_value(serde_json::json!({
        "sysctls": {"vm.max_map_count": "262144"},
        "kernelModules": [{"name": "nbd", "parameters": ["nbds_max=8"]}],
        "logs": ["tcp://10.0.0.9:6001"],
        "kernelLogs": ["udp://10.0.0.9:6002"],
        "annotations": {"a": "b"},
        "searchDomains": ["example.org"],
        "hostname": "dhcp",
    }))
    .unwrap();
    node.nics = vec![daedal_inventory::Nic {
        mac: "BC:24:11:00:00:09".into(),
        bridge: "vmbr1".into(),
        vlan: Some(7),
        mtu: Some(1400),
        dhcp: false,
        address: None,
        routes: vec![],
        bonded: true,
    }];
    node.hardware.bond = Some(Default::default());
}
