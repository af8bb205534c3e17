//! What several clusters on one Proxmox cannot all have.

use std::collections::BTreeMap;
use std::net::IpAddr;

use daedal_inventory::Cluster;

/// Something that two clusters on one Proxmox both declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The clusters, by their names.
    pub clusters: [String; 2],
    /// What it is.
    pub what: Overlapping,
}

/// What only one of several clusters can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overlapping {
    /// The uid, which tells its VMs from those of others.
    Uid,
    /// A VMID.
    Vmid(u32),
    /// An address on a bridge.
    Address(IpAddr),
}

/// What the clusters cannot all have, each once. Clusters on different Proxmoxes do not meet, nor do addresses on different
/// bridges or VLANs.
pub fn overlaps<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Vec<Overlap> {
    let mut owners: BTreeMap<(String, String, Overlapping), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for cluster in clusters {
        let proxmox = &cluster.proxmox;
        let addresses = cluster.nodes.iter().filter_map(|node| node.ip()).chain(cluster.network.vip);
        let vmids = cluster.nodes.iter().map(|node| (String::new(), Overlapping::Vmid(node.vmid)));
        let own = [(cluster.uuid.to_string(), Overlapping::Uid)];
        let network = format!("{} {}", proxmox.bridge, proxmox.vlan.unwrap_or_default());
        let addresses = addresses.map(|address| (network.clone(), Overlapping::Address(address)));
        for (within, what) in own.into_iter().chain(vmids).chain(addresses) {
            let key = (proxmox.endpoint.clone(), within, what);
            match owners.get(&key) {
                Some(other) if *other != cluster.name => {
                    found.push(Overlap { clusters: [(*other).to_owned(), cluster.name.clone()], what });
                }
                Some(_) => {}
                None => drop(owners.insert(key, &cluster.name)),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use daedal_inventory::{Source, load};

    use super::*;

    fn cluster(name: &str, vmid: u32, address: &str) -> Cluster {
        let text = format!(
            "apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {{name: {name}}}
spec:
  talos: {{version: v1.12.0}}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {{id: \"daedal@pve!cli\", secret: {{env: X}}}}
    hosts: [atlas]
    storage: {{disks: local-lvm, images: local}}
    bridge: vmbr0
  network: {{cidr: 10.0.0.0/24, gateway: 10.0.0.1, dns: [1.1.1.1]}}
  pools:
    - {{name: cp, role: controlplane, count: 1, cores: 2, memory: 4GiB, disk: 20GiB, vmid: {vmid}, address: {address}}}
"
        );
        let none = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        load(&[Source { name: "cluster.yaml".into(), text }], &none).unwrap().cluster
    }

    #[test]
    fn a_vmid_and_an_address_are_one_clusters() {
        let home = cluster("home", 300, "10.0.0.11");
        let away = cluster("away", 400, "10.0.0.12");
        assert_eq!(overlaps([&home, &away]), []);
        let names = || ["home".to_owned(), "away".to_owned()];
        let (vmid, address) = (Overlapping::Vmid(300), Overlapping::Address("10.0.0.11".parse().unwrap()));
        for (away, what) in
            [(cluster("away", 300, "10.0.0.12"), vmid), (cluster("away", 400, "10.0.0.11"), address)]
        {
            assert_eq!(overlaps([&home, &away]), [Overlap { clusters: names(), what }]);
            let mut elsewhere = away.clone();
            elsewhere.proxmox.endpoint = "https://boreas.lan:8006".to_owned();
            assert_eq!(overlaps([&home, &elsewhere]), []);
        }
        let mut elsewhere = cluster("away", 400, "10.0.0.11");
        elsewhere.proxmox.bridge = "vmbr1".to_owned();
        assert_eq!(overlaps([&home, &elsewhere]), []);
        let twin = Cluster { uuid: home.uuid, ..away };
        assert_eq!(overlaps([&home, &twin]), [Overlap { clusters: names(), what: Overlapping::Uid }]);
    }
}
