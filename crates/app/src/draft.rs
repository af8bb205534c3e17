//! The inventory of a new cluster.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use uuid::Uuid;

use crate::survey::Addresses;

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
    use std::collections::BTreeSet;

    use super::*;
    use crate::survey::{Survey, addresses};

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
}
