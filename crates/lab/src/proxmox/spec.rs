//! What a pretend datacenter should contain: hosts, storages, bridges, VMs of others, accounts.

use serde::{Deserialize, Serialize};

use crate::image::SystemImage;

/// A whole datacenter as somebody wants it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatacenterSpec {
    /// Proxmox release, `9.2.11` or an `8.4` one.
    pub version: String,
    /// The hosts, the first of which answers on `endpoints`.
    pub hosts: Vec<HostSpec>,
    /// Names and addresses besides the hosts' own on which the API answers, with a port if it is not 8006.
    pub endpoints: Vec<String>,
    /// Images that somebody put on storages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageSpec>,
    /// VMs that belong to somebody else.
    pub vms: Vec<VmSpec>,
    /// Users with passwords.
    pub users: Vec<UserSpec>,
    /// API tokens.
    pub tokens: Vec<TokenSpec>,
    /// Resource pools.
    pub pools: Vec<String>,
    /// DNS names that somebody's resolver knows, and the addresses they lead to.
    pub names: std::collections::BTreeMap<String, String>,
    /// Which of Proxmox's awkward ways it has.
    pub realities: super::Realities,
    /// Decides every MAC, uuid and process number that is made up.
    pub seed: u64,
}

impl Default for DatacenterSpec {
    fn default() -> Self {
        Self {
            version: "9.2.11".into(),
            hosts: Vec::new(),
            endpoints: Vec::new(),
            images: Vec::new(),
            vms: Vec::new(),
            users: Vec::new(),
            tokens: Vec::new(),
            pools: Vec::new(),
            names: std::collections::BTreeMap::new(),
            realities: super::Realities::default(),
            seed: 1,
        }
    }
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostSpec {
    /// Node name; the API also answers on `<name>` and `<name>.lan`.
    pub name: String,
    /// What its processors are: `x86_64` or `aarch64`.
    pub machine: String,
    /// Logical CPUs.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Storages; equal names with `shared` are one storage.
    pub storages: Vec<StorageSpec>,
    /// Bridges; `zone/name` is a VNet of an SDN zone.
    pub bridges: Vec<String>,
    /// Those of them that have no physical port, so that no VLAN leads out of them.
    pub portless: Vec<String>,
    /// More names and addresses of this host on which the API answers.
    pub endpoints: Vec<String>,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            machine: "x86_64".into(),
            cpus: 16,
            memory: 64 << 30,
            storages: vec![StorageSpec::local(), StorageSpec::local_lvm()],
            bridges: vec!["vmbr0".into()],
            portless: Vec::new(),
            endpoints: Vec::new(),
        }
    }
}

impl HostSpec {
    /// A host with the storages and bridge that an installer makes.
    pub fn new(name: impl Into<String>, cpus: u32, memory: u64) -> Self {
        Self { name: name.into(), cpus, memory, ..Self::default() }
    }
}

/// A storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageSpec {
    /// Storage id.
    pub name: String,
    /// Plugin type: `dir`, `nfs`, `lvm`, `lvmthin`, `zfspool`, `rbd`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Content types.
    pub content: Vec<String>,
    /// Bytes.
    pub size: u64,
    /// Bytes that others use already.
    #[serde(default)]
    pub used: u64,
    /// Whether all hosts that name it see the same volumes.
    #[serde(default)]
    pub shared: bool,
}

impl StorageSpec {
    /// A storage that is empty and not shared.
    pub fn new(name: &str, kind: &str, content: &[&str], size: u64) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            content: content.iter().map(|&one| one.into()).collect(),
            size,
            used: 0,
            shared: false,
        }
    }

    /// The directory storage of an installed host, with `import` enabled.
    pub fn local() -> Self {
        Self::new("local", "dir", &["iso", "import", "vztmpl", "backup"], 100 << 30)
    }

    /// The thin pool of an installed host.
    pub fn local_lvm() -> Self {
        Self::new("local-lvm", "lvmthin", &["images", "rootdir"], 800 << 30)
    }
}

/// An image that is on a storage from the start, on every host that has the storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageSpec {
    /// Its volume, such as `local:iso/talos.iso` or `local:import/talos.qcow2`.
    pub volume: String,
    /// What is in it.
    pub system: SystemImage,
}

/// A VM that is there from the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmSpec {
    /// VMID.
    pub vmid: u32,
    /// Host.
    pub host: String,
    /// Config values as the API shows them (`name`, `cores`, `memory`, …).
    #[serde(default)]
    pub config: std::collections::BTreeMap<String, String>,
    /// A disk as `(storage, bytes)`, made as `scsi0`.
    #[serde(default)]
    pub disk: Option<(String, u64)>,
    /// Whether it runs. Such a VM has nothing inside.
    #[serde(default)]
    pub running: bool,
    /// Resource pool.
    #[serde(default)]
    pub pool: Option<String>,
}

/// A user with a password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// `name@realm`.
    pub id: String,
    /// Password; none: cannot log in.
    #[serde(default)]
    pub password: Option<String>,
    /// What it may do.
    #[serde(default)]
    pub grants: Vec<Grant>,
}

/// An API token.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// `name@realm!token`.
    pub id: String,
    /// Its secret.
    pub secret: String,
    /// Whether it may only do what both it and its user may.
    #[serde(default = "yes")]
    pub privilege_separation: bool,
    /// What token and user may do.
    #[serde(default)]
    pub grants: Vec<Grant>,
}

impl std::fmt::Debug for TokenSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenSpec").field("id", &self.id).finish_non_exhaustive()
    }
}

fn yes() -> bool {
    true
}

impl TokenSpec {
    /// A token with exactly the privileges that the default path needs, and no pool.
    pub fn minimal(id: impl Into<String>, secret: impl Into<String>) -> Self {
        let grants = vec![
            Grant::new("/vms", VM_PRIVILEGES),
            Grant::new("/storage", STORAGE_PRIVILEGES),
            Grant::new("/nodes", &["Sys.AccessNetwork", "Sys.Audit"]),
            // Shows the tasks of all hosts in one list.
            Grant::new("/", &["Sys.Audit"]),
            Grant::new("/sdn/zones/localnetwork", &["SDN.Use"]),
        ];
        Self { id: id.into(), secret: secret.into(), privilege_separation: true, grants }
    }

    /// The same whose rights on VMs come through a pool: it sees none that is not in there.
    pub fn in_pool(id: impl Into<String>, secret: impl Into<String>, pool: &str) -> Self {
        let mut token = Self::minimal(id, secret);
        for grant in token.grants.iter_mut().filter(|grant| grant.path == "/vms") {
            grant.path = format!("/pool/{pool}");
            grant.privileges.push("Pool.Audit".to_owned());
        }
        // On `/` it would show every VM's tasks, and below it everything.
        token.grants.retain(|grant| grant.path != "/");
        token
    }

    /// A token that may do everything a token may do.
    pub fn administrator(id: impl Into<String>, secret: impl Into<String>) -> Self {
        let grants = vec![Grant { path: "/".into(), role: Some("Administrator".into()), privileges: vec![] }];
        Self { id: id.into(), secret: secret.into(), privilege_separation: true, grants }
    }
}

const VM_PRIVILEGES: &[&str] = &[
    "VM.Allocate",
    "VM.Audit",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.GuestAgent.Audit",
    // What the agent's privilege was called before 9.0; each release takes the one it knows.
    "VM.Monitor",
    "VM.PowerMgmt",
];

const STORAGE_PRIVILEGES: &[&str] =
    &["Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"];

/// Privileges or a role on a path, and below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// ACL path.
    pub path: String,
    /// A role by name.
    #[serde(default)]
    pub role: Option<String>,
    /// Or single privileges, for which a role is made.
    #[serde(default)]
    pub privileges: Vec<String>,
}

impl Grant {
    /// Single privileges on a path.
    pub fn new(path: &str, privileges: &[&str]) -> Self {
        Self { path: path.into(), role: None, privileges: privileges.iter().map(|&one| one.into()).collect() }
    }
}
