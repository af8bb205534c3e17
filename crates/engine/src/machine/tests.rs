//! What is asked of Proxmox for one node, whole.

use daedal_inventory::{Source, load};

use super::*;

fn cluster() -> Cluster {
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
    let source = Source { name: "cluster.yaml".into(), text: text.to_owned() };
    let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    load(&[source], &no_files).unwrap().cluster
}

/// What the mission asks of a VM (H5), and what Talos needs of it: the whole call, so that nothing changes unseen.
/// Mission: H5
#[test]
fn a_vm_is_asked_for_as_talos_wants_it() {
    let cluster = cluster();
    let node = &cluster.nodes[0];
    let (image, media) = (Some("local:import/talos.qcow2"), Some("local:iso/cp-1.iso"));
    let params = vm(&cluster, node, Sources { image, media, iso: None }, &Stamp::default()).params();
    let (mac, uuid) = (&node.mac, &node.uuid);
    let expected = [
        ("agent", "enabled=1".to_owned()),
        ("balloon", "0".to_owned()),
        ("bios", "ovmf".to_owned()),
        ("boot", "order=scsi0;ide2".to_owned()),
        ("cores", "4".to_owned()),
        ("cpu", "x86-64-v2-AES".to_owned()),
        ("description", daedal_planner::description(&cluster, node, &Stamp::default())),
        ("efidisk0", "local-lvm:1,efitype=4m,pre-enrolled-keys=0".to_owned()),
        ("ide2", "local:iso/cp-1.iso,media=cdrom".to_owned()),
        ("machine", "q35".to_owned()),
        ("memory", "8192".to_owned()),
        ("name", "cp-1".to_owned()),
        ("net0", format!("virtio={mac},bridge=vmbr1,tag=20,mtu=1400")),
        ("onboot", "1".to_owned()),
        ("ostype", "l26".to_owned()),
        ("scsi0", "local-lvm:0,import-from=local:import/talos.qcow2,discard=on,iothread=1,ssd=1".to_owned()),
        ("scsihw", "virtio-scsi-single".to_owned()),
        ("serial0", "socket".to_owned()),
        ("smbios1", format!("uuid={uuid}")),
        ("tags", daedal_planner::names::tags(&cluster, node).join(";")),
        ("vmid", "300".to_owned()),
    ];
    let mut found: Vec<(&str, String)> = params.iter().map(|(key, value)| (key, value.to_owned())).collect();
    found.sort();
    assert_eq!(found, expected);
}

/// Every option of the hardware, on one VM.
#[test]
fn hardware_is_asked_for_as_declared() {
    let mut cluster = cluster();
    let node = &mut cluster.nodes[0];
    node.hardware = Hardware {
        machine: Some(daedal_inventory::hardware::Chipset::I440fx),
        firmware: Some(Firmware::Seabios),
        tpm: Some(true),
        cpu: Some("host".into()),
        numa: Some(true),
        serial_console: Some(false),
        watchdog: Some(true),
        start_order: Some(1),
        start_delay: Some(30),
        pci: vec!["gpu".into()],
        ..Hardware::default()
    };
    node.disks = vec![
        daedal_inventory::Disk { storage: None, size: 100 << 30 },
        daedal_inventory::Disk { storage: Some("fast".into()), size: 10 << 30 },
    ];
    let mac = "02:00:00:00:00:02".to_owned();
    node.nics = vec![daedal_inventory::Nic {
        mac,
        bridge: "vmbr2".into(),
        vlan: Some(30),
        mtu: Some(9000),
        dhcp: true,
        address: None,
        routes: Vec::new(),
        bonded: false,
    }];
    let params = vm(&cluster, &cluster.nodes[0], Sources::default(), &Stamp::default()).params();
    for (option, value) in [
        ("machine", Some("pc")),
        ("bios", Some("seabios")),
        ("efidisk0", None),
        ("tpmstate0", Some("local-lvm:1,version=v2.0")),
        ("cpu", Some("host")),
        ("numa", Some("1")),
        ("serial0", None),
        ("watchdog", Some("action=reset,model=i6300esb")),
        ("startup", Some("order=1,up=30")),
        ("hostpci0", Some("mapping=gpu")),
        ("scsi1", Some("local-lvm:100,discard=on,iothread=1,ssd=1,serial=daedal-disk-1")),
        ("scsi2", Some("fast:10,discard=on,iothread=1,ssd=1,serial=daedal-disk-2")),
        ("net1", Some("virtio=02:00:00:00:00:02,bridge=vmbr2,tag=30,mtu=9000")),
    ] {
        assert_eq!(params.get(option), value, "{option}");
    }
}

/// Boot ISO and config ISO together on one VM (H13): an empty disk of the right size, and both in their drives.
/// Mission: H13
#[test]
fn a_vm_that_installs_itself_has_an_empty_disk_and_two_drives() {
    let cluster = cluster();
    let (iso, media) = (Some("local:iso/talos.iso"), Some("local:iso/cp-1.iso"));
    let params =
        vm(&cluster, &cluster.nodes[0], Sources { image: None, iso, media }, &Stamp::default()).params();
    assert_eq!(params.get("scsi0"), Some("local-lvm:40,discard=on,iothread=1,ssd=1"));
    assert_eq!(params.get("ide0"), Some("local:iso/talos.iso,media=cdrom"));
    assert_eq!(params.get("ide2"), Some("local:iso/cp-1.iso,media=cdrom"));
    assert_eq!(params.get("boot"), Some("order=scsi0;ide0;ide2"));
}
