//! What was found in somebody's files, and the document that it comes to.

use super::writer::{Map, Out, plain, word, words};

/// The environment variable that the document names for the token's secret.
pub(super) const TOKEN_SECRET: &str = "PROXMOX_TOKEN_SECRET";

/// A value that an inventory needs and the files do not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) key: &'static str,
    pub(super) example: &'static str,
    pub(super) why: &'static str,
}

/// A cluster as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) name: Option<String>,
    pub(super) environment: Option<String>,
    pub(super) ha: Option<bool>,
    pub(super) tags: Vec<String>,
    pub(super) talos: Option<String>,
    pub(super) extensions: Vec<String>,
    pub(super) arch: Option<String>,
    pub(super) kubernetes: Option<String>,
    pub(super) api: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) token: Option<String>,
    pub(super) insecure: bool,
    pub(super) hosts: Vec<Host>,
    pub(super) disks: Option<String>,
    pub(super) images: Option<String>,
    pub(super) templates: Option<String>,
    pub(super) cloud_init: Option<String>,
    pub(super) bridge: Option<String>,
    pub(super) vlan: Option<u64>,
    pub(super) resource_pool: Option<String>,
    pub(super) cidr: Option<String>,
    pub(super) gateway: Option<String>,
    pub(super) dns: Vec<String>,
    pub(super) vip: Option<String>,
    pub(super) mtu: Option<u64>,
    /// `true` or `discovered`.
    pub(super) dhcp: Option<&'static str>,
    pub(super) boot: Map,
    pub(super) cpu: Option<String>,
    /// A login server and the variable of the key, for the tailscale extension.
    pub(super) tailscale: Option<(String, &'static str)>,
    pub(super) pools: Vec<Pool>,
    pub(super) strategy: Option<&'static str>,
    pub(super) pins: Vec<(String, String)>,
}

/// A Proxmox host.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) cores: Option<u64>,
    pub(super) memory: Option<String>,
}

/// Nodes of one role.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub(super) name: &'static str,
    pub(super) role: &'static str,
    pub(super) count: Option<u64>,
    pub(super) size: Size,
    pub(super) vmid: Option<String>,
    pub(super) address: Option<String>,
    /// An empty disk besides the system's.
    pub(super) extra_disk: Option<String>,
    /// The name of the volume on it.
    pub(super) volume: Option<&'static str>,
    pub(super) nodes: Vec<Node>,
}

/// How large a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) cores: Option<u64>,
    pub(super) memory: Option<String>,
    pub(super) disk: Option<String>,
}

/// A node that is listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) name: Option<String>,
    pub(super) vmid: Option<u64>,
    pub(super) address: Option<String>,
    pub(super) mac: Option<String>,
    pub(super) size: Size,
}

impl Pool {
    /// The pool of a role.
    pub(super) fn of(role: &'static str) -> Self {
        Self { name: if role == "worker" { role } else { "cp" }, role, ..Self::default() }
    }

    fn out(&self) -> Out {
        let mut map = Map::default();
        map.put("name", Some(word(self.name))).put("role", Some(word(self.role)));
        map.put("count", self.count.map(plain));
        self.size.put(&mut map);
        map.put("vmid", self.vmid.as_ref().map(plain)).put("address", self.address.as_ref().map(plain));
        let disk = self.extra_disk.as_ref().map(|size| {
            let mut disk = Map::default();
            disk.put("size", Some(word(size)));
            let mut hardware = Map::default();
            hardware.put("disks", disk.done().map(|disk| Out::List(vec![disk])));
            hardware
        });
        map.put("hardware", disk.and_then(Map::done));
        let volume = self.volume.map(|name| {
            let mut volume = Map::default();
            volume
                .put("name", Some(word(name)))
                .put("minSize", Some(word("10GiB")))
                .put("grow", Some(plain(true)));
            let mut machine = Map::default();
            machine.put("userVolumes", volume.done().map(|volume| Out::List(vec![volume])));
            machine
        });
        map.put("machine", volume.and_then(Map::done));
        let nodes: Vec<Out> = self.nodes.iter().filter_map(|node| node.out()).collect();
        map.put("nodes", (!nodes.is_empty()).then_some(Out::List(nodes)));
        Out::Map(map.items())
    }
}

impl Size {
    fn put(&self, map: &mut Map) {
        map.put("cores", self.cores.map(plain));
        map.put("memory", self.memory.as_ref().map(word)).put("disk", self.disk.as_ref().map(word));
    }
}

impl Node {
    fn out(&self) -> Option<Out> {
        let mut map = Map::default();
        map.put("name", self.name.as_ref().map(word)).put("vmid", self.vmid.map(plain));
        map.put("address", self.address.as_ref().map(word)).put("mac", self.mac.as_ref().map(word));
        self.size.put(&mut map);
        map.done()
    }
}

/// Puts a value that must be there, or the line to fill in.
fn needed(map: &mut Map, missing: &mut Vec<Missing>, value: Option<Out>, lack: Missing) {
    let key = lack.key.rsplit('.').next().unwrap_or(lack.key);
    match value {
        Some(value) => {
            map.put(key, Some(value));
        }
        None => {
            map.missing(key, plain(lack.example), lack.why);
            missing.push(lack);
        }
    }
}

impl Draft {
    /// The text of the document, and what it lacks.
    pub(super) fn document(self) -> (String, Vec<Missing>) {
        let mut missing = Vec::new();
        let mut document = Map::default();
        document.put("apiVersion", Some(word("daedal.dev/v1alpha1"))).put("kind", Some(word("Cluster")));
        let mut metadata = Map::default();
        let lack = Missing { key: "metadata.name", example: "home", why: "what the cluster is called" };
        needed(&mut metadata, &mut missing, self.name.as_ref().map(word), lack);
        document.put("metadata", metadata.done());
        let mut spec = Map::default();
        spec.put("environment", self.environment.as_ref().map(word)).put("ha", self.ha.map(plain));
        spec.put("tags", words(&self.tags));
        spec.put("talos", self.talos(&mut missing).done());
        let mut kubernetes = Map::default();
        kubernetes
            .put("version", self.kubernetes.as_ref().map(word))
            .put("endpoint", self.api.as_ref().map(word));
        spec.put("kubernetes", kubernetes.done());
        spec.put("proxmox", self.proxmox(&mut missing).done());
        spec.put("network", self.network(&mut missing).done());
        spec.put("boot", self.boot.clone().done());
        let mut hardware = Map::default();
        hardware.put("cpu", self.cpu.as_ref().map(word));
        spec.put("hardware", hardware.done());
        spec.put("machine", self.tailscale.as_ref().and_then(tailscale));
        let pools: Vec<Out> = self.pools.iter().map(Pool::out).collect();
        let lack = Missing {
            key: "spec.pools",
            example: "[{name: cp, role: controlplane, count: 1}]",
            why: "the nodes, in groups of equals",
        };
        needed(&mut spec, &mut missing, (!pools.is_empty()).then_some(Out::List(pools)), lack);
        let mut placement = Map::default();
        placement.put("strategy", self.strategy.map(word));
        let mut pins = Map::default();
        for (node, host) in &self.pins {
            pins.named(node, word(host));
        }
        placement.put("pin", pins.done());
        spec.put("placement", placement.done());
        document.put("spec", spec.done());
        (document.document(), missing)
    }

    fn talos(&self, missing: &mut Vec<Missing>) -> Map {
        let mut talos = Map::default();
        let lack =
            Missing { key: "spec.talos.version", example: "v1.12.0", why: "the Talos version of the nodes" };
        needed(&mut talos, missing, self.talos.as_ref().map(word), lack);
        talos.put("extensions", words(&self.extensions)).put("arch", self.arch.as_ref().map(word));
        talos
    }

    fn proxmox(&self, missing: &mut Vec<Missing>) -> Map {
        let mut proxmox = Map::default();
        let lack = Missing {
            key: "spec.proxmox.endpoint",
            example: "https://atlas.lan:8006",
            why: "the URL of the Proxmox API",
        };
        needed(&mut proxmox, missing, self.endpoint.as_ref().map(word), lack);
        let mut secret = Map::default();
        secret.put("env", Some(word(TOKEN_SECRET)));
        let mut token = Map::default();
        let lack = Missing {
            key: "spec.proxmox.token.id",
            example: "\"daedal@pve!cli\"",
            why: "the API token, user@realm!name",
        };
        needed(&mut token, missing, self.token.as_ref().map(word), lack);
        token.put("secret", secret.done());
        proxmox.put("token", token.done());
        let mut tls = Map::default();
        tls.put("insecure", self.insecure.then(|| plain(true)));
        proxmox.put("tls", tls.done());
        let hosts: Vec<Out> = self.hosts.iter().map(Host::out).collect();
        let lack = Missing {
            key: "spec.proxmox.hosts",
            example: "[atlas]",
            why: "the Proxmox nodes that may be used",
        };
        needed(&mut proxmox, missing, (!hosts.is_empty()).then_some(Out::List(hosts)), lack);
        let mut storage = Map::default();
        let lack = Missing {
            key: "spec.proxmox.storage.disks",
            example: "local-lvm",
            why: "the storage of the VMs' disks",
        };
        needed(&mut storage, missing, self.disks.as_ref().map(word), lack);
        let lack = Missing {
            key: "spec.proxmox.storage.images",
            example: "local",
            why: "the storage of images and config media",
        };
        needed(&mut storage, missing, self.images.as_ref().map(word), lack);
        storage.put("templates", self.templates.as_ref().map(word));
        storage.put("cloudInit", self.cloud_init.as_ref().map(word));
        proxmox.put("storage", storage.done());
        proxmox.put("bridge", self.bridge.as_ref().map(word)).put("vlan", self.vlan.map(plain));
        proxmox.put("pool", self.resource_pool.as_ref().map(word));
        proxmox
    }

    fn network(&self, missing: &mut Vec<Missing>) -> Map {
        let mut network = Map::default();
        let lack = Missing {
            key: "spec.network.cidr",
            example: "10.0.0.0/24",
            why: "the network that all nodes are in",
        };
        needed(&mut network, missing, self.cidr.as_ref().map(word), lack);
        let lack = Missing {
            key: "spec.network.gateway",
            example: "10.0.0.1",
            why: "the default gateway of that network",
        };
        needed(&mut network, missing, self.gateway.as_ref().map(word), lack);
        network.put("dns", words(&self.dns)).put("vip", self.vip.as_ref().map(word));
        network.put("mtu", self.mtu.map(plain)).put("dhcp", self.dhcp.map(plain));
        network
    }
}

impl Host {
    fn out(&self) -> Out {
        let mut capacity = Map::default();
        capacity.put("cores", self.cores.map(plain)).put("memory", self.memory.as_ref().map(word));
        match capacity.done() {
            Some(capacity) => {
                let mut host = Map::default();
                host.put("name", Some(word(&self.name))).put("capacity", Some(capacity));
                Out::Map(host.items())
            }
            None => word(&self.name),
        }
    }
}

/// What the tailscale extension is told.
fn tailscale((server, variable): &(String, &'static str)) -> Option<Out> {
    let mut key = Map::default();
    key.put("env", Some(word(*variable)));
    let mut environment = Map::default();
    environment.named("TS_AUTHKEY", key.done()?);
    environment.named("TS_EXTRA_ARGS", word(format!("--login-server={server}")));
    let mut service = Map::default();
    service.put("name", Some(word("tailscale"))).put("environment", environment.done());
    let mut machine = Map::default();
    machine.put("extensionServices", Some(Out::List(vec![service.done()?])));
    machine.done()
}
