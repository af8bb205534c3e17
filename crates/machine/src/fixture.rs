//! Clusters to try things on.

use std::collections::BTreeMap;

use daedal_inventory::*;
use uuid::Uuid;

use crate::names::{Content, ImageRef, Images, image_file};

/// Bytes.
pub const GIB: u64 = 1 << 30;

/// One node of a pool.
pub fn node(cluster: Uuid, pool: &str, role: Role, index: u32, vmid: u32, address: &str) -> Node {
    let name = format!("{pool}-{index}");
    let uuid = Uuid::new_v5(&cluster, name.as_bytes());
    let b = uuid.as_bytes();
    Node {
        mac: format!("BC:24:11:{:02X}:{:02X}:{:02X}", b[0], b[1], b[2]),
        uuid,
        name,
        pool: pool.into(),
        role,
        vmid,
        address: Some(format!("{address}/16").parse().unwrap()),
        cores: 4,
        memory: 8 * GIB,
        disk: if role == Role::ControlPlane { 40 } else { 60 } * GIB,
        tags: vec![],
        labels: BTreeMap::new(),
        taints: BTreeMap::new(),
        patches: vec![],
        machine: daedal_inventory::options::Machine::default(),
        hardware: daedal_inventory::hardware::Hardware::default(),
        disks: vec![],
        nics: vec![],
    }
}

/// A cluster of any size on these hosts; VMIDs from 300 for control planes, from 1000 for workers beyond `home`.
pub fn cluster(name: &str, hosts: &[&str], control_planes: u32, workers: u32) -> Cluster {
    let uuid = Uuid::new_v5(&Uuid::NAMESPACE_DNS, name.as_bytes());
    let worker_vmid = 300 + control_planes;
    let nodes = (1..=control_planes)
        .map(|i| node(uuid, "cp", Role::ControlPlane, i, 299 + i, &format!("10.0.0.{}", 10 + i)))
        .chain((1..=workers).map(|i| {
            let address = format!("10.0.{}.{}", (20 + i) / 200, (20 + i) % 200);
            node(uuid, "worker", Role::Worker, i, worker_vmid - 1 + i, &address)
        }))
        .collect();
    Cluster {
        name: name.into(),
        uuid,
        environment: Some("lab".into()),
        ha: control_planes >= 3,
        protect: false,
        restarts: daedal_inventory::Restarts::Allowed,
        outputs: Outputs::default(),
        store: StorePlace::Folder,
        key: None,
        secrets: SecretsPlace::Store,
        tags: vec![],
        talos: Talos {
            version: "1.12.0".parse().unwrap(),
            extensions: vec!["siderolabs/qemu-guest-agent".into()],
            kernel_args: vec![],
            factory: "https://factory.talos.dev".into(),
            factory_tls: TlsTrust::System,
            arch: Arch::Amd64,
            install_disk: "/dev/sda".into(),
            secure_boot: false,
            image_sha256: None,
            meta: BTreeMap::new(),
            overlay: None,
            bootloader: None,
        },
        kubernetes: Kubernetes {
            version: "1.35.0".parse().unwrap(),
            pod_subnets: vec!["10.244.0.0/16".parse().unwrap()],
            service_subnets: vec!["10.96.0.0/12".parse().unwrap()],
            dns_domain: "cluster.local".into(),
            endpoint_host: Some("10.0.0.20".into()),
            endpoint_port: 6443,
            cert_sans: vec![],
            cni: Cni::Flannel,
            cni_manifests: vec![],
            no_discovery: false,
            discovery_service: None,
            kubespan: false,
            kube_proxy: true,
            schedule_on_control_planes: false,
        },
        proxmox: proxmox(hosts),
        reach: Reach::Direct,
        network: Network {
            cidr: "10.0.0.0/16".parse().unwrap(),
            gateway: "10.0.0.1".parse().unwrap(),
            dns: vec!["1.1.1.1".parse().unwrap()],
            ntp: vec![],
            vip: Some("10.0.0.20".parse().unwrap()),
            mtu: None,
            dhcp: false,
            discovered: false,
        },
        boot: Boot::default(),
        placement: Placement::default(),
        registry_mirrors: BTreeMap::new(),
        registries: BTreeMap::new(),
        patches: vec![],
        machine: daedal_inventory::options::Machine::default(),
        nodes,
        addons: vec![],
        lacks: vec![],
    }
}

fn proxmox(hosts: &[&str]) -> Proxmox {
    Proxmox {
        endpoint: "https://atlas.lan:8006".into(),
        token_id: "daedal@pve!cli".into(),
        token_secret: SecretRef::Env("PROXMOX_TOKEN_SECRET".into()),
        tls: TlsTrust::System,
        hosts: hosts.iter().map(|h| Host { name: (*h).into(), capacity: None }).collect(),
        disks_storage: "local-lvm".into(),
        template_disks: None,
        cloud_init_drives: None,
        images_storage: "local".into(),
        bridge: "vmbr0".into(),
        vlan: None,
        pool: None,
        cpu_overcommit: 1.0,
        disk_overcommit: 1.0,
        memory_reserve: 2 * GIB,
    }
}

/// The five-node cluster on one host.
pub fn home() -> Cluster {
    cluster("home", &["atlas"], 3, 2)
}

/// The image every fixture cluster uses.
pub fn image(cluster: &Cluster) -> ImageRef {
    let schematic_id = "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245".to_owned();
    let content = if cluster.boot.takes_iso() { Content::Iso } else { Content::Import };
    ImageRef {
        content,
        file: image_file(cluster, &schematic_id),
        url: format!("https://factory.talos.dev/image/{schematic_id}/v1.12.0/nocloud-amd64.qcow2"),
        schematic_id,
    }
}

/// What the nodes of a fixture cluster boot from.
pub fn images(cluster: &Cluster) -> Images {
    let installer = cluster.boot.takes_iso().then(|| image(cluster).schematic_id);
    let of_node = |node: &Node| {
        let schematic_id = node.uuid.simple().to_string().repeat(2);
        let image = ImageRef { file: image_file(cluster, &schematic_id), schematic_id, ..image(cluster) };
        (node.name.clone(), image)
    };
    match &cluster.boot {
        boot if boot.own_images() => Images {
            shared: None,
            own: cluster.nodes.iter().map(of_node).collect(),
            installer,
            upgrade: None,
        },
        boot => {
            Images { shared: boot.volume().is_none().then(|| image(cluster)), installer, ..Images::default() }
        }
    }
}
