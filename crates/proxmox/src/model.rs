//! What Proxmox answers, as plain data. Fields that a token may not see, or that a release does not send, are empty.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;

use crate::lenient;

/// `GET /version`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Version {
    /// Such as `9.2.11`.
    pub version: String,
    /// Such as `9.2`.
    pub release: String,
    /// Commit it was built from.
    pub repoid: String,
}

/// One row of `GET /cluster/resources`. Names and power states here are up to 10 s old; ask the node for those.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resource {
    /// `qemu`, `lxc`, `node`, `storage`, `pool`, `sdn`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Node it is on.
    #[serde(deserialize_with = "lenient::text")]
    pub node: String,
    /// VMID of a guest.
    #[serde(deserialize_with = "lenient::opt_small")]
    pub vmid: Option<u32>,
    /// Name of a guest, possibly stale or absent.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// `running`, `stopped`, `online`, `available`, `unknown` …
    #[serde(deserialize_with = "lenient::text")]
    pub status: String,
    /// Whether a guest is a template.
    #[serde(deserialize_with = "lenient::flag")]
    pub template: bool,
    /// A guest's lock.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub lock: Option<String>,
    /// A guest's tags.
    #[serde(deserialize_with = "lenient::list")]
    pub tags: Vec<String>,
    /// A guest's pool.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub pool: Option<String>,
    /// CPUs of a node or guest.
    #[serde(deserialize_with = "lenient::small")]
    pub maxcpu: u32,
    /// Bytes of memory of a node or guest.
    #[serde(deserialize_with = "lenient::number")]
    pub maxmem: u64,
    /// Bytes of disk of a guest (its boot disk), or size of a storage.
    #[serde(deserialize_with = "lenient::number")]
    pub maxdisk: u64,
    /// Bytes used of a storage.
    #[serde(deserialize_with = "lenient::number")]
    pub disk: u64,
    /// Name of a storage.
    #[serde(deserialize_with = "lenient::text")]
    pub storage: String,
    /// Type of a storage (`dir`, `lvmthin` …).
    #[serde(deserialize_with = "lenient::text")]
    pub plugintype: String,
    /// Content types of a storage.
    #[serde(deserialize_with = "lenient::list")]
    pub content: Vec<String>,
    /// Whether a storage is the same on every node.
    #[serde(deserialize_with = "lenient::flag")]
    pub shared: bool,
}

/// One row of `GET /nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name.
    pub node: String,
    /// `online`, `offline`, `unknown`.
    #[serde(deserialize_with = "lenient::text")]
    pub status: String,
    /// Logical CPUs; 0 without Sys.Audit.
    #[serde(deserialize_with = "lenient::small")]
    pub maxcpu: u32,
    /// Bytes of memory; 0 without Sys.Audit.
    #[serde(deserialize_with = "lenient::number")]
    pub maxmem: u64,
    /// Bytes of memory in use.
    #[serde(deserialize_with = "lenient::number")]
    pub mem: u64,
    /// SHA-256 fingerprint of its certificate.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub ssl_fingerprint: Option<String>,
}

impl Node {
    /// Whether it is online.
    pub fn online(&self) -> bool {
        self.status == "online"
    }
}

/// `GET /nodes/N/status`, the parts that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// CPUs.
    pub cpuinfo: CpuInfo,
    /// The kernel that runs.
    #[serde(rename = "current-kernel")]
    pub kernel: KernelInfo,
    /// Memory.
    pub memory: MemoryInfo,
    /// Such as `pve-manager/9.2.11/14a22df35955d97d`.
    #[serde(deserialize_with = "lenient::text")]
    pub pveversion: String,
    /// Seconds since boot.
    #[serde(deserialize_with = "lenient::number")]
    pub uptime: u64,
}

/// A node's kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KernelInfo {
    /// What it runs on, such as `x86_64` or `aarch64`.
    #[serde(deserialize_with = "lenient::text")]
    pub machine: String,
}

/// A node's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CpuInfo {
    /// Logical CPUs.
    #[serde(deserialize_with = "lenient::small")]
    pub cpus: u32,
    /// Cores.
    #[serde(deserialize_with = "lenient::small")]
    pub cores: u32,
    /// Sockets.
    #[serde(deserialize_with = "lenient::small")]
    pub sockets: u32,
    /// Model name.
    #[serde(deserialize_with = "lenient::text")]
    pub model: String,
}

/// A node's memory in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MemoryInfo {
    /// In all.
    #[serde(deserialize_with = "lenient::number")]
    pub total: u64,
    /// In use.
    #[serde(deserialize_with = "lenient::number")]
    pub used: u64,
    /// Free.
    #[serde(deserialize_with = "lenient::number")]
    pub free: u64,
}

/// One row of `GET /nodes/N/storage`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// Name.
    pub storage: String,
    /// Type (`dir`, `lvmthin`, `zfspool`, `nfs` …).
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub kind: String,
    /// Content types it is configured for.
    #[serde(deserialize_with = "lenient::list")]
    pub content: Vec<String>,
    /// Reachable now.
    #[serde(deserialize_with = "lenient::flag")]
    pub active: bool,
    /// Not disabled.
    #[serde(deserialize_with = "lenient::flag")]
    pub enabled: bool,
    /// The same on every node.
    #[serde(deserialize_with = "lenient::flag")]
    pub shared: bool,
    /// Bytes in all.
    #[serde(deserialize_with = "lenient::number")]
    pub total: u64,
    /// Bytes in use.
    #[serde(deserialize_with = "lenient::number")]
    pub used: u64,
    /// Bytes free.
    #[serde(deserialize_with = "lenient::number")]
    pub avail: u64,
}

/// One row of `GET /nodes/N/network`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Name, such as `vmbr0`.
    pub iface: String,
    /// `bridge`, `OVSBridge`, `eth` …
    #[serde(rename = "type", deserialize_with = "lenient::text")]
    pub kind: String,
    /// Up.
    #[serde(deserialize_with = "lenient::flag")]
    pub active: bool,
    /// Address with prefix length.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub cidr: Option<String>,
    /// The host's gateway, if it is behind this interface.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub gateway: Option<String>,
}

/// `GET /nodes/N/storage/S/content/V`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeInfo {
    /// `qcow2`, `raw` …
    #[serde(deserialize_with = "lenient::text")]
    pub format: String,
    /// Bytes of the disk in it.
    #[serde(deserialize_with = "lenient::opt_number")]
    pub size: Option<u64>,
    /// Bytes that the file takes.
    #[serde(deserialize_with = "lenient::opt_number")]
    pub used: Option<u64>,
}

/// One row of `GET /nodes/N/storage/S/content`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// Such as `local:iso/x.iso`.
    pub volid: String,
    /// `iso`, `import`, `images` …
    #[serde(deserialize_with = "lenient::text")]
    pub content: String,
    /// `iso`, `qcow2`, `raw` …
    #[serde(deserialize_with = "lenient::text")]
    pub format: String,
    /// Bytes, where the storage says.
    #[serde(deserialize_with = "lenient::opt_number")]
    pub size: Option<u64>,
    /// Roughly the bytes, where the storage cannot say exactly.
    #[serde(rename = "approximate-size", deserialize_with = "lenient::opt_number")]
    pub approximate_size: Option<u64>,
    /// Guest it belongs to.
    #[serde(deserialize_with = "lenient::opt_small")]
    pub vmid: Option<u32>,
    /// Made at, Unix seconds.
    #[serde(deserialize_with = "lenient::opt_number")]
    pub ctime: Option<u64>,
}

/// One row of `GET /nodes/N/qemu`; immediate, unlike [`Resource`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VmRow {
    /// VMID.
    #[serde(deserialize_with = "lenient::small")]
    pub vmid: u32,
    /// Name (`VM 300` while it is being created).
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// `running` or `stopped`.
    #[serde(deserialize_with = "lenient::text")]
    pub status: String,
    /// Lock.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub lock: Option<String>,
    /// Tags.
    #[serde(deserialize_with = "lenient::list")]
    pub tags: Vec<String>,
    /// Template.
    #[serde(deserialize_with = "lenient::flag")]
    pub template: bool,
    /// vCPUs.
    #[serde(deserialize_with = "lenient::small")]
    pub cpus: u32,
    /// Bytes of memory.
    #[serde(deserialize_with = "lenient::number")]
    pub maxmem: u64,
    /// Bytes of the boot disk.
    #[serde(deserialize_with = "lenient::number")]
    pub maxdisk: u64,
}

impl VmRow {
    /// Whether it runs.
    pub fn running(&self) -> bool {
        self.status == "running"
    }
}

/// `GET …/status/current`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VmStatus {
    /// `running` or `stopped`.
    #[serde(deserialize_with = "lenient::text")]
    pub status: String,
    /// What QEMU says: `running`, `paused`, `prelaunch` …
    #[serde(deserialize_with = "lenient::text")]
    pub qmpstatus: String,
    /// Name.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// Lock.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub lock: Option<String>,
    /// Template.
    #[serde(deserialize_with = "lenient::flag")]
    pub template: bool,
    /// Agent option on.
    #[serde(deserialize_with = "lenient::flag")]
    pub agent: bool,
    /// Seconds it runs.
    #[serde(deserialize_with = "lenient::number")]
    pub uptime: u64,
    /// High availability.
    pub ha: HaState,
}

impl VmStatus {
    /// Whether it runs.
    pub fn running(&self) -> bool {
        self.status == "running"
    }
}

/// High availability of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HaState {
    /// Managed by the HA stack.
    #[serde(deserialize_with = "lenient::flag")]
    pub managed: bool,
}

/// One row of `GET /cluster/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterMember {
    /// `cluster` or `node`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the cluster or node.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// Node's address.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub ip: Option<String>,
    /// Node is online.
    #[serde(deserialize_with = "lenient::flag")]
    pub online: bool,
    /// Node is the one that answered.
    #[serde(deserialize_with = "lenient::flag")]
    pub local: bool,
    /// Cluster has quorum.
    #[serde(deserialize_with = "lenient::flag")]
    pub quorate: bool,
}

/// `GET /nodes/N/time`.
#[derive(Deserialize)]
pub(crate) struct NodeTime {
    pub(crate) time: i64,
}

/// One row of `GET /pools`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// Name.
    pub poolid: String,
    /// Comment.
    #[serde(deserialize_with = "lenient::opt_text")]
    pub comment: Option<String>,
}

/// `GET /access/permissions`: privileges by path; the value says whether they propagate.
pub type Permissions = BTreeMap<String, BTreeMap<String, Propagates>>;

/// Whether a privilege holds for what lies below its path too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Propagates(#[serde(deserialize_with = "lenient::flag")] pub bool);

/// Whether `permissions` hold `privilege` on `path`, by itself or from above.
pub fn permitted(permissions: &Permissions, path: &str, privilege: &str) -> bool {
    let mut at = path;
    loop {
        if let Some(here) = permissions.get(at) {
            // The entry nearest to the path decides; Proxmox already merged what comes from above into it.
            return here.get(privilege).is_some_and(|propagates| at == path || propagates.0);
        }
        if at == "/" || at.is_empty() {
            return false;
        }
        at = match at.rfind('/') {
            Some(0) | None => "/",
            Some(slash) => &at[..slash],
        };
    }
}

/// A network interface as the guest agent tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestInterface {
    /// Name inside the guest.
    pub name: String,
    /// MAC, as the guest writes it.
    pub mac: Option<String>,
    /// Addresses with prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
}

#[derive(Deserialize)]
pub(crate) struct AgentReply {
    #[serde(default)]
    pub(crate) result: Vec<AgentInterface>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct AgentInterface {
    name: String,
    #[serde(default)]
    hardware_address: Option<String>,
    #[serde(default)]
    ip_addresses: Vec<AgentAddress>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct AgentAddress {
    ip_address: String,
    #[serde(default, deserialize_with = "lenient::small")]
    prefix: u32,
}

impl From<AgentInterface> for GuestInterface {
    fn from(raw: AgentInterface) -> Self {
        let address = |raw: &AgentAddress| {
            // Link-local addresses may carry a zone.
            let bare = raw.ip_address.split('%').next()?;
            Some((bare.parse().ok()?, u8::try_from(raw.prefix).ok()?))
        };
        Self {
            name: raw.name,
            mac: raw.hardware_address,
            addresses: raw.ip_addresses.iter().filter_map(address).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_numbers_are_read_alike() {
        let row: VmRow = serde_json::from_str(
            r#"{"vmid":"300","name":7,"status":"running","cpus":"2","maxmem":5.36870912e8,"template":"1","tags":"b;a"}"#,
        )
        .unwrap();
        assert_eq!((row.vmid, row.cpus, row.maxmem, row.template), (300, 2, 536_870_912, true));
        assert_eq!((row.name.as_str(), row.tags), ("7", vec!["b".to_owned(), "a".to_owned()]));
        assert!(serde_json::from_str::<VmRow>(r#"{"vmid":"abc"}"#).is_err());
    }

    #[test]
    fn the_nearest_path_decides() {
        let permissions: Permissions = serde_json::from_str(
            r#"{"/":{"Sys.Audit":1},"/vms":{"VM.Audit":1,"VM.Allocate":0},"/storage/local":{"Datastore.Audit":1}}"#,
        )
        .unwrap();
        assert!(permitted(&permissions, "/nodes/atlas", "Sys.Audit"));
        assert!(permitted(&permissions, "/vms/300", "VM.Audit"));
        assert!(permitted(&permissions, "/vms", "VM.Allocate"));
        assert!(!permitted(&permissions, "/vms/300", "VM.Allocate"));
        assert!(!permitted(&permissions, "/storage/data", "Datastore.Audit"));
        assert!(!permitted(&permissions, "/vms/300", "Sys.Audit"));
    }
}
