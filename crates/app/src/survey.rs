//! What a Proxmox has, and what of it a new cluster should use.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use daedal_proxmox::{Client, Error, Resource};
use ipnet::{IpNet, Ipv4Net};

use crate::draft::Draft;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Proxmox VE version.
    pub version: String,
    /// Hosts that are online.
    pub hosts: BTreeMap<String, HostSeen>,
    /// VMIDs that are taken.
    pub vmids: BTreeSet<u32>,
}

/// A host.
#[derive(Clone, Debug, Default)]
pub struct HostSeen {
    /// What its processors are, as its kernel says it.
    pub machine: String,
    /// Bytes of memory that nobody was promised.
    pub free_memory: u64,
    /// Storages that are available.
    pub storages: BTreeMap<String, StorageSeen>,
    /// Bridges, with the host's own address and gateway there.
    pub bridges: BTreeMap<String, (Option<IpNet>, Option<IpAddr>)>,
}

/// A storage as a host sees it.
#[derive(Clone, Debug, Default)]
pub struct StorageSeen {
    /// Plugin type.
    pub kind: String,
    /// Content types.
    pub content: BTreeSet<String>,
    /// Free bytes.
    pub free: u64,
}

impl Survey {
    /// Looks; changes nothing.
    pub async fn of(client: &Client) -> Result<Self, Error> {
        let (version, resources) = tokio::try_join!(client.version(), client.resources())?;
        let mut survey = Self { version: version.version, ..Self::default() };
        for row in resources.iter().filter(|row| row.kind == "node" && row.status == "online") {
            survey
                .hosts
                .insert(row.node.clone(), HostSeen { free_memory: row.maxmem, ..HostSeen::default() });
        }
        for row in &resources {
            survey.add(row);
        }
        for (name, host) in &mut survey.hosts {
            // A token may not see it; then the hosts are what most are.
            host.machine = client.node_status(name).await.unwrap_or_default().kernel.machine;
            for bridge in client.bridges(name).await? {
                let address = bridge.cidr.as_deref().and_then(|text| text.parse().ok());
                let gateway = bridge.gateway.as_deref().and_then(|text| text.parse().ok());
                host.bridges.insert(bridge.iface, (address, gateway));
            }
        }
        Ok(survey)
    }

    fn add(&mut self, row: &Resource) {
        if let Some(vmid) = row.vmid {
            self.vmids.insert(vmid);
        }
        let Some(host) = self.hosts.get_mut(&row.node) else { return };
        match row.kind.as_str() {
            "storage" if row.status == "available" => {
                let seen = StorageSeen {
                    kind: row.plugintype.clone(),
                    content: row.content.iter().cloned().collect(),
                    free: row.maxdisk.saturating_sub(row.disk),
                };
                host.storages.insert(row.storage.clone(), seen);
            }
            "qemu" | "lxc" => host.free_memory = host.free_memory.saturating_sub(row.maxmem),
            _ => {}
        }
    }

    /// Storages that every one of the hosts has, as the first of them sees them.
    fn common<'a>(&'a self, hosts: &'a [String]) -> impl Iterator<Item = (&'a str, &'a StorageSeen)> {
        let first = hosts.first().and_then(|host| self.hosts.get(host));
        first.into_iter().flat_map(|host| &host.storages).filter_map(move |(name, seen)| {
            let everywhere = hosts
                .iter()
                .all(|host| self.hosts.get(host).is_some_and(|host| host.storages.contains_key(name)));
            everywhere.then_some((name.as_str(), seen))
        })
    }

    /// The storage with most room for disks, block storage first.
    pub fn disks(&self, hosts: &[String]) -> Option<String> {
        let block = |kind: &str| matches!(kind, "lvmthin" | "zfspool" | "rbd" | "btrfs");
        self.common(hosts)
            .filter(|(_, seen)| seen.content.contains("images"))
            .max_by_key(|(name, seen)| (block(&seen.kind), seen.free, std::cmp::Reverse(*name)))
            .map(|(name, _)| name.to_owned())
    }

    /// Whether this Proxmox VE can import disk images.
    pub fn imports(&self) -> bool {
        daedal_proxmox::imports_disk_images(&self.version)
    }

    /// The storage for images and config media, and the content types that it still must be given.
    pub fn images(&self, hosts: &[String]) -> Option<(String, Vec<&'static str>)> {
        let wanted: &[&str] = if self.imports() { &["import", "iso"] } else { &["iso"] };
        let files = |kind: &str| matches!(kind, "dir" | "nfs" | "cifs" | "cephfs" | "btrfs");
        let lacking = |seen: &StorageSeen| -> Vec<&'static str> {
            wanted.iter().copied().filter(|content| !seen.content.contains(*content)).collect()
        };
        self.common(hosts)
            .filter(|(_, seen)| files(&seen.kind))
            .max_by_key(|(name, seen)| {
                (std::cmp::Reverse(lacking(seen).len()), seen.free, std::cmp::Reverse(*name))
            })
            .map(|(name, seen)| (name.to_owned(), lacking(seen)))
    }

    /// All content types of a storage, with some more.
    pub fn content_with(&self, hosts: &[String], storage: &str, more: &[&str]) -> String {
        let seen = self.common(hosts).find(|(name, _)| *name == storage).map(|(_, seen)| seen);
        let known = seen.into_iter().flat_map(|seen| seen.content.iter().map(String::as_str));
        let all: BTreeSet<&str> = known.chain(more.iter().copied()).collect();
        all.into_iter().collect::<Vec<_>>().join(",")
    }

    /// Whether all these hosts are arm64.
    pub fn arm(&self, hosts: &[String]) -> bool {
        let machine = |host: &String| self.hosts.get(host).map(|host| host.machine.as_str());
        hosts.iter().all(|host| machine(host) == Some("aarch64"))
    }

    /// A bridge that every host has; the usual one if it is among them.
    pub fn bridge(&self, hosts: &[String]) -> Option<String> {
        let first = hosts.first().and_then(|host| self.hosts.get(host))?;
        let everywhere = |name: &&String| {
            hosts.iter().all(|host| self.hosts.get(host).is_some_and(|host| host.bridges.contains_key(*name)))
        };
        let mut common: Vec<&String> = first.bridges.keys().filter(everywhere).collect();
        common.sort_by_key(|name| (name.as_str() != "vmbr0", name.len(), name.as_str()));
        common.first().map(|name| (*name).clone())
    }

    /// The network that the hosts are in on a bridge, and its gateway, where Proxmox knows.
    pub fn network(&self, bridge: &str) -> (Option<Ipv4Net>, Option<Ipv4Addr>) {
        let seen = self.hosts.values().filter_map(|host| host.bridges.get(bridge));
        let (mut network, mut gateway) = (None, None);
        for (address, way) in seen {
            if let (None, Some(IpNet::V4(address))) = (network, address) {
                network = Some(address.trunc());
            }
            if let (None, Some(IpAddr::V4(way))) = (gateway, way) {
                gateway = Some(*way);
            }
        }
        (network, gateway)
    }

    /// Addresses that are somebody's already.
    pub fn taken(&self) -> BTreeSet<Ipv4Addr> {
        let all = self.hosts.values().flat_map(|host| host.bridges.values());
        all.flat_map(|(address, gateway)| [address.map(|net| net.addr()), *gateway])
            .filter_map(|one| match one {
                Some(IpAddr::V4(address)) => Some(address),
                _ => None,
            })
            .collect()
    }

    /// The first of a hundred free VMIDs, or of as many as are needed.
    pub fn vmid(&self, needed: u32) -> u32 {
        let free = |first: u32, count: u32| self.vmids.range(first..first + count).next().is_none();
        (3..10_000)
            .map(|hundred| hundred * 100)
            .find(|first| free(*first, 100))
            .or_else(|| (100..1_000_000).find(|first| free(*first, needed)))
            .unwrap_or(100)
    }
}

/// Where the nodes go in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The API server's.
    pub vip: Ipv4Addr,
    /// The first control plane's.
    pub control_planes: Ipv4Addr,
    /// The first worker's.
    pub workers: Ipv4Addr,
}

/// A run of addresses that nobody is known to have: the virtual one, ten for control planes, then the workers.
pub fn addresses(network: Ipv4Net, taken: &BTreeSet<Ipv4Addr>, workers: u32) -> Option<Addresses> {
    let base = u32::from(network.network());
    let size = u32::from(network.broadcast()) - base;
    let length = 11 + workers.max(1);
    let nth = |offset: u32| Ipv4Addr::from(base + offset);
    (1..=size / 10)
        .map(|ten| ten * 10)
        .filter(|start| start + length <= size)
        .find(|start| taken.range(nth(*start)..nth(start + length)).next().is_none())
        .map(|start| Addresses { vip: nth(start), control_planes: nth(start + 1), workers: nth(start + 11) })
}

/// What a new cluster should use; what is left open is chosen.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Hosts; none: all that are online.
    pub hosts: Vec<String>,
    /// Storage of disks.
    pub disks: Option<String>,
    /// Storage of images.
    pub images: Option<String>,
    /// Bridge.
    pub bridge: Option<String>,
}

/// What a new cluster uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Hosts.
    pub hosts: Vec<String>,
    /// Storage of disks.
    pub disks: String,
    /// Storage of images.
    pub images: String,
    /// All content types that the storage of images must have, if it lacks one.
    pub content: Option<String>,
    /// Bridge.
    pub bridge: String,
}

/// What every host should have and none was found of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A host that was asked for is not online.
    Host {
        /// Its name.
        name: String,
        /// Those that are.
        online: Vec<String>,
    },
    /// A storage for disks.
    Disks,
    /// A storage for images.
    Images,
    /// A bridge.
    Bridge,
}

impl Survey {
    /// Chooses what was left open.
    pub fn choose(&self, wishes: &Wishes) -> Result<Choice, Lack> {
        let hosts = match wishes.hosts.is_empty() {
            true => self.hosts.keys().cloned().collect(),
            false => wishes.hosts.clone(),
        };
        if let Some(missing) = hosts.iter().find(|host| !self.hosts.contains_key(*host)) {
            let online = self.hosts.keys().cloned().collect();
            return Err(Lack::Host { name: missing.clone(), online });
        }
        let disks = wishes.disks.clone().or_else(|| self.disks(&hosts)).ok_or(Lack::Disks)?;
        let (images, lacking) = match &wishes.images {
            Some(images) => (images.clone(), Vec::new()),
            None => self.images(&hosts).ok_or(Lack::Images)?,
        };
        let content = (!lacking.is_empty()).then(|| self.content_with(&hosts, &images, &lacking));
        let bridge = wishes.bridge.clone().or_else(|| self.bridge(&hosts)).ok_or(Lack::Bridge)?;
        Ok(Choice { hosts, disks, images, content, bridge })
    }

    /// Whether so many nodes should be small: half of what is free stays free, for upgrades and for others.
    pub fn is_tight(&self, hosts: &[String], nodes: u32) -> bool {
        let free = hosts.iter().filter_map(|host| self.hosts.get(host)).map(|host| host.free_memory);
        Draft::memory(nodes, false) > free.sum::<u64>() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(kind: &str, content: &[&str], free: u64) -> StorageSeen {
        StorageSeen { kind: kind.into(), content: content.iter().map(ToString::to_string).collect(), free }
    }

    fn host(storages: &[(&str, StorageSeen)], bridges: &[&str]) -> HostSeen {
        HostSeen {
            machine: "x86_64".into(),
            free_memory: 64 << 30,
            storages: storages.iter().map(|(name, seen)| ((*name).to_owned(), seen.clone())).collect(),
            bridges: bridges.iter().map(|name| ((*name).to_owned(), (None, None))).collect(),
        }
    }

    #[test]
    fn only_what_every_host_has_is_chosen() {
        let local = storage("dir", &["iso", "vztmpl", "backup"], 90 << 30);
        let thin = storage("lvmthin", &["images", "rootdir"], 700 << 30);
        let only_a = storage("zfspool", &["images"], 9000 << 30);
        let mut survey = Survey::default();
        let one = [("local", local.clone()), ("local-lvm", thin.clone()), ("tank", only_a)];
        survey.hosts.insert("a".into(), host(&one, &["vmbr1", "vmbr0", "vmbr7"]));
        survey.hosts.insert("b".into(), host(&[("local", local), ("local-lvm", thin)], &["vmbr0", "vmbr1"]));
        let both = ["a".to_owned(), "b".to_owned()];
        assert_eq!(survey.disks(&both).as_deref(), Some("local-lvm"));
        assert_eq!(survey.disks(&both[..1]).as_deref(), Some("tank"));
        assert_eq!(survey.images(&both), Some(("local".to_owned(), vec!["import"])));
        assert_eq!(survey.content_with(&both, "local", &["import"]), "backup,import,iso,vztmpl");
        assert_eq!(survey.bridge(&both).as_deref(), Some("vmbr0"));
        let wishes = Wishes { hosts: both[..1].to_vec(), bridge: Some("vmbr7".into()), ..Wishes::default() };
        let choice = survey.choose(&wishes).unwrap();
        assert_eq!((choice.disks.as_str(), choice.bridge.as_str()), ("tank", "vmbr7"));
        assert_eq!(choice.content.as_deref(), Some("backup,import,iso,vztmpl"));
        let wishes = Wishes { hosts: vec!["c".into()], ..Wishes::default() };
        let lack = Lack::Host { name: "c".into(), online: both.to_vec() };
        assert_eq!(survey.choose(&wishes), Err(lack));
        assert_eq!(Survey::default().choose(&Wishes::default()), Err(Lack::Disks));
        assert!(!survey.is_tight(&both, 8) && survey.is_tight(&both, 9));
        // An old Proxmox VE imports nothing.
        survey.version = "8.3.5".into();
        assert_eq!(survey.images(&both), Some(("local".to_owned(), Vec::new())));
    }

    #[test]
    fn a_free_hundred_of_vmids_and_a_free_run_of_addresses() {
        let mut survey = Survey::default();
        assert_eq!(survey.vmid(5), 300);
        survey.vmids.extend([100, 399, 455]);
        assert_eq!(survey.vmid(5), 500);
        let network: Ipv4Net = "10.0.0.0/24".parse().unwrap();
        let taken =
            |list: &[&str]| list.iter().map(|one| one.parse().unwrap()).collect::<BTreeSet<Ipv4Addr>>();
        let found = addresses(network, &taken(&["10.0.0.1", "10.0.0.2"]), 2).unwrap();
        assert_eq!(found.vip, Ipv4Addr::new(10, 0, 0, 10));
        assert_eq!(found.control_planes, Ipv4Addr::new(10, 0, 0, 11));
        assert_eq!(found.workers, Ipv4Addr::new(10, 0, 0, 21));
        let found = addresses(network, &taken(&["10.0.0.12", "10.0.0.31"]), 2).unwrap();
        assert_eq!(found.vip, Ipv4Addr::new(10, 0, 0, 40));
        assert_eq!(addresses("10.0.0.0/29".parse().unwrap(), &BTreeSet::new(), 1), None);
    }
}
