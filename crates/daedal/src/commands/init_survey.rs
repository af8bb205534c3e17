//! What a Proxmox has, what of it a new cluster should use, and the inventory that says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use daedal_proxmox::{Client, Error, Resource};
use ipnet::{IpNet, Ipv4Net};
use uuid::Uuid;

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

/// Everything that the inventory says.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The cluster's name.
    pub name: String,
    /// What tells this cluster from every other of that name.
    pub uid: Uuid,
    /// Where Proxmox answers.
    pub endpoint: String,
    /// The token's id.
    pub token: String,
    /// Where its secret is, as the inventory writes it.
    pub secret: String,
    /// How the certificate is trusted, as the inventory writes it; none: by the system's CAs.
    pub tls: Option<String>,
    /// A proxy to go through.
    pub proxy: Option<String>,
    /// Hosts.
    pub hosts: Vec<String>,
    /// Storage of disks.
    pub disks: String,
    /// Storage of images.
    pub images: String,
    /// Bridge.
    pub bridge: String,
    /// Resource pool.
    pub pool: Option<String>,
    /// Network.
    pub network: Ipv4Net,
    /// Gateway.
    pub gateway: Ipv4Addr,
    /// Resolvers.
    pub dns: Vec<String>,
    /// Where the nodes go.
    pub addresses: Addresses,
    /// The first VMID.
    pub vmid: u32,
    /// How many control planes.
    pub control_planes: u32,
    /// How many workers.
    pub workers: u32,
    /// Whether the nodes should be small.
    pub small: bool,
    /// Talos version.
    pub talos: String,
    /// Whether the nodes are arm64.
    pub arm: bool,
    /// Whether Proxmox VE can import disk images.
    pub imports: bool,
    /// Proxmox VE version, for the comment.
    pub version: String,
}

impl Draft {
    /// Bytes of memory that all nodes together take, at that size.
    pub fn memory(count: u32, small: bool) -> u64 {
        u64::from(count) * if small { 4 << 30 } else { 8 << 30 }
    }

    /// The inventory.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let mut put = |line: &str| {
            let _ = writeln!(text, "{line}");
        };
        self.head(&mut put);
        self.proxmox(&mut put);
        self.network(&mut put);
        self.pools(&mut put);
        text
    }

    fn head(&self, put: &mut impl FnMut(&str)) {
        put("# A Talos cluster, as `daedal init` found room for it. Change what you like; then:");
        put("#");
        put("#   daedal check --live -f FILE     can Proxmox do what this asks?");
        put("#   daedal plan  -f FILE            what would happen");
        put("#   daedal apply -f FILE            make it so");
        put("#");
        put(
            "# `daedal inventory show --resolved -f FILE` prints every default; `daedal inventory schema` is for editors.",
        );
        put("apiVersion: daedal.dev/v1alpha1");
        put("kind: Cluster");
        put("");
        put("metadata:");
        put(&format!("  name: {:<20} # every VM carries it as a tag", self.name));
        put(&format!(
            "  uid: {} # tells it from every other cluster of that name; never change it",
            self.uid
        ));
        put("");
        put("spec:");
        put("  talos:");
        put(&format!("    version: {}", self.talos));
        if self.arm {
            put("    arch: arm64                # as the hosts are");
        }
        put("    extensions:                # built into the image by the Image Factory");
        put("      - qemu-guest-agent       # lets Proxmox see addresses and shut nodes down");
        put("  # kubernetes: {version: …}   # left out, it is the newest one that this Talos supports");
        put("");
    }

    fn proxmox(&self, put: &mut impl FnMut(&str)) {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        put(&format!("  proxmox:                     # Proxmox VE {}", self.version));
        put(&format!("    endpoint: {}", quoted(&self.endpoint)));
        put("    token:");
        put(&format!("      id: {}", quoted(&self.token)));
        put(&format!("      secret: {} # where it is; it never stands in this file", self.secret));
        if let Some(tls) = &self.tls {
            put(&format!("    tls: {tls}"));
        }
        put(&format!("    hosts: [{}]", self.hosts.join(", ")));
        put("    storage:");
        put(&format!("      disks: {:<18} # VM disks", self.disks));
        let kept = match self.imports {
            true => "downloaded images and config media: content `import` and `iso`",
            false => "downloaded and config ISOs: content `iso`",
        };
        put(&format!("      images: {:<17} # {kept}", self.images));
        put(&format!("    bridge: {}", self.bridge));
        match &self.pool {
            Some(pool) => put(&format!("    pool: {pool}")),
            None => put(
                "    # pool: talos              # a resource pool, for tokens that may touch nothing outside it",
            ),
        }
        if let Some(proxy) = &self.proxy {
            put(&format!("  reach: {{proxy: {}}}", quoted(proxy)));
        }
    }

    fn network(&self, put: &mut impl FnMut(&str)) {
        put("");
        put("  network:                     # addresses of your own: no DHCP is needed");
        put(&format!("    cidr: {}", self.network));
        put(&format!("    gateway: {}", self.gateway));
        put(&format!("    dns: [{}]", self.dns.join(", ")));
        put(&format!(
            "    vip: {:<20} # the API server's; whichever control plane is up answers on it",
            self.addresses.vip
        ));
        if !self.imports {
            put("");
            put("  boot:                        # before 8.4 Proxmox VE cannot import disk images");
            put("    from: iso");
            put("    config: cidata");
        }
    }

    fn pools(&self, put: &mut impl FnMut(&str)) {
        let (cores, memory, cp_disk, worker_disk) = if self.small { (2, 4, 20, 20) } else { (4, 8, 40, 60) };
        put("");
        put("  pools:");
        put("    - name: cp");
        put("      role: controlplane");
        put(&format!("      count: {:<17} # 1, 3 or 5: most of them must be alive", self.control_planes));
        put(&format!("      cores: {cores}"));
        put(&format!("      memory: {memory}GiB"));
        put(&format!("      disk: {cp_disk}GiB"));
        put(&format!("      vmid: {:<18} # the first one's; the others follow", self.vmid));
        put(&format!("      address: {:<15} # the same", self.addresses.control_planes));
        if self.workers > 0 {
            put("");
            put("    - name: worker");
            put("      role: worker");
            put(&format!("      count: {}", self.workers));
            put(&format!("      cores: {cores}"));
            put(&format!("      memory: {memory}GiB"));
            put(&format!("      disk: {worker_disk}GiB"));
            put(&format!("      vmid: {}", self.vmid + 10));
            put(&format!("      address: {}", self.addresses.workers));
        }
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
        // An old Proxmox VE imports nothing.
        survey.version = "8.3.5".into();
        assert_eq!(survey.images(&both), Some(("local".to_owned(), Vec::new())));
    }

    #[test]
    fn nodes_of_a_proxmox_that_cannot_import_boot_from_an_iso() {
        for (version, from) in
            [("8.3.5", daedal_inventory::BootFrom::Iso), ("8.4.0", daedal_inventory::BootFrom::DiskImage)]
        {
            let network = "10.0.0.0/24".parse().unwrap();
            let draft = Draft {
                name: "home".into(),
                uid: Uuid::from_u128(7),
                endpoint: "https://atlas.lan:8006".into(),
                token: "daedal@pve!cli".into(),
                secret: "{env: PROXMOX_TOKEN_SECRET}".into(),
                tls: None,
                proxy: None,
                hosts: vec!["atlas".into()],
                disks: "local-lvm".into(),
                images: "local".into(),
                bridge: "vmbr0".into(),
                pool: None,
                network,
                gateway: Ipv4Addr::new(10, 0, 0, 1),
                dns: vec!["1.1.1.1".into()],
                addresses: addresses(network, &BTreeSet::new(), 1).unwrap(),
                vmid: 300,
                control_planes: 1,
                workers: 1,
                small: true,
                talos: "v1.12.0".into(),
                arm: false,
                imports: Survey { version: version.into(), ..Survey::default() }.imports(),
                version: version.into(),
            };
            let source = daedal_inventory::Source { name: "cluster.yaml".into(), text: draft.render() };
            let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
            let cluster = daedal_inventory::load(&[source], &no_files).unwrap().cluster;
            assert_eq!((cluster.boot.from, cluster.boot.by_medium()), (from, true), "{version}");
        }
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
