//! All groups of settings in one inventory, and each of them found again in the datacenter.

use crate::common;

use common::{Changed, Lab, good};

/// Proxmox, networks, cluster, nodes, templates, resources, VMID ranges, distribution and tags.
/// Mission: M11, M16
#[tokio::test]
async fn every_group_of_settings_arrives() {
    let lab = Lab::new();
    let inventory = Changed::new(
        "modules",
        &[
            ("    bridge: vmbr0\n", "    bridge: vmbr1\n    vlan: 30\n"),
            ("tags: [team-a]", "tags: [Team-A]"),
            ("pin: {cp-1: pve1}", "pin: {cp-1: pve1, worker-1: pve2}"),
            ("count: 3 ", "count: 1 "),
            ("count: 4 ", "count: 1 "),
            ("tags: [workload]", "tags: [big]"),
        ],
    );
    good(&inventory.run(&lab, &["apply", "--yes"]));
    let root = lab.root("https://10.20.0.2:8006").await;
    let rows = root.resources_of("vm").await.unwrap();
    let of = |vmid: u32| {
        rows.iter().find(|row| row.vmid == Some(vmid)).unwrap_or_else(|| panic!("{vmid}: {rows:#?}"))
    };
    // On each further host, templates are numbered two less.
    let templates: Vec<_> = rows.iter().filter(|row| row.template).filter_map(|row| row.vmid).collect();
    assert_eq!(templates, [997, 998], "{rows:#?}");
    let (cp, worker) = (of(2000), of(3000));
    assert_eq!(
        (worker.node.as_str(), worker.pool.as_deref(), cp.pool.as_deref()),
        ("pve2", Some("talos"), Some("talos"))
    );
    let cp = root.vm_config(&cp.node, 2000).await.unwrap();
    let worker = root.vm_config("pve2", 3000).await.unwrap();
    assert_eq!(cp.tags, ["daedal", "daedal-modules", "staging", "team-a"]);
    assert_eq!(worker.tags, ["big", "daedal", "daedal-modules", "staging", "team-a"]);
    assert_eq!((cp.vcpus(), cp.memory_mib, worker.vcpus(), worker.memory_mib), (4, 4096, 8, 8192));
    assert_eq!(worker.disks["scsi0"].storage(), "local-zfs");
    let nic = &worker.nics["net0"];
    assert_eq!((nic.bridge.as_str(), nic.vlan), ("vmbr1", Some(30)));
    assert!(nic.mac.as_ref().unwrap().starts_with("BC:24:11"));
    good(&inventory.run(&lab, &["plan", "--detailed-exitcode"]));
}

/// DHCP gives any address, the guest agents say which, and the first control plane's is the endpoint.
/// Mission: E7
#[test]
fn a_cluster_whose_addresses_nobody_declares() {
    let lab = Lab::new();
    let inventory = Changed::new(
        "modules",
        &[
            (", templates: templates, cloudInit: local-lvm}", "}"),
            ("    vip: +5                 # 10.20.0.5; leave it out for none\n", "    dhcp: discovered\n"),
            (
                "    from: template\n    config: cloud-init-drive ",
                "    from: disk-image\n    config: maintenance ",
            ),
            (
                "    template: {controlplane: 998, worker: 999, clone: full}   # 996 and 997 on the second host\n",
                "",
            ),
            ("      address: +10          # 10.20.0.10, .11, .12\n", ""),
            ("      address: +20          # 10.20.0.20 … .23\n", ""),
            ("count: 3 ", "count: 1 "),
            ("count: 4 ", "count: 1 "),
        ],
    );
    let nothing = inventory.run(&lab, &["outputs", "dnsmasq"]);
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(!nothing.status.success() && said.contains("declares no addresses"), "{said}");
    good(&inventory.run(&lab, &["apply", "--yes"]));
    let plan = inventory.json(&lab, &["plan"]);
    assert_eq!(plan["steps"], serde_json::json!([]), "{plan:#}");
    let status = inventory.json(&lab, &["status"]);
    let first = status["nodes"][0]["address"].as_str().unwrap();
    assert!(first.starts_with("10.20.0."), "{status:#}");
    assert_eq!(status["endpoint"], format!("https://{first}:6443"), "{status:#}");
    for minted in ["kubeconfig", "talosconfig"] {
        let minted = inventory.run(&lab, &["secrets", minted, "--stdout"]);
        good(&minted);
        assert!(String::from_utf8_lossy(&minted.stdout).contains(first), "{minted:?}");
    }
    let page = inventory.json(&lab, &["node", "show", "worker-1"]);
    assert_eq!(page["address"], status["nodes"][1]["address"], "{page:#}");
    assert!(page["kubernetes"].to_string().contains("kubelet"), "{page:#}");
    good(&inventory.run(&lab, &["destroy", "--confirm", "modules"]));
}
