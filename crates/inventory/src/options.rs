//! What a machine is told besides its place in the cluster: written, resolved and read in one shape.
//!
//! The same options may stand on the cluster, a pool and a node; see [`Machine::extend`] for how they meet.

mod machine;
mod registry;
mod text;

use std::collections::BTreeMap;

use daedal_talos_config::KernelModule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use machine::{DiskSelector, ExtensionService, ServiceFile};
pub use registry::{Registry, RegistryAuth, RegistryMirror, RegistryTls};
pub(crate) use text::Hidden;
pub use text::{SecretText, SopsText, Text, VaultText};

/// Machine settings. Maps and lists of the cluster, the pool and the node are merged; the more specific level wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Machine {
    /// Kernel settings, such as `vm.max_map_count: "262144"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Kernel modules to load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_modules: Vec<KernelModule>,
    /// Folders of the host that the kubelet, and pods through it, see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_mounts: Vec<ExtraMount>,
    /// Volumes of one's own, mounted at `/var/mnt/<name>`; from Talos v1.10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_volumes: Vec<UserVolume>,
    /// Disk encryption of Talos's own partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Where the logs of services go, such as `tcp://10.0.0.9:6001`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
    /// Where the messages of the kernel go, such as `udp://10.0.0.9:6002`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_logs: Vec<String>,
    /// Kubernetes annotations of the nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Domains appended to short names; from Talos v1.9.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search_domains: Vec<String>,
    /// Routes through the first network card, besides the default one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// VLANs on the first network card.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
    /// How the node gets its name: `static` (the default) or `dhcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<HostnameFrom>,
    /// What the services of system extensions are told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extension_services: Vec<ExtensionService>,
    /// What the disk for Talos must be like, instead of `talos.installDisk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_disk: Option<DiskSelector>,
}

/// How a node gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostnameFrom {
    /// The name it has in the inventory.
    Static,
    /// What DHCP or the platform gives it.
    Dhcp,
}

/// A folder of the host that the kubelet sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtraMount {
    /// Where the kubelet sees it.
    #[schemars(example = "/var/lib/longhorn")]
    pub destination: String,
    /// Where it is on the host; the same by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Mount options; `bind`, `rshared` and `rw` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
}

/// A volume of one's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserVolume {
    /// Its name; it is mounted at `/var/mnt/<name>`.
    #[schemars(example = &"data")]
    pub name: String,
    /// Which disk it is on, as an expression; `!system_disk` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Smallest size, such as `10GiB`.
    #[schemars(example = &"10GiB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<String>,
    /// Largest size, such as `100GiB`.
    #[schemars(example = &"100GiB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<String>,
    /// Whether it takes what is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grow: Option<bool>,
    /// File system; `xfs` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FileSystem>,
    /// What opens it, if it is to be encrypted; from Talos v1.11.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Vec<EncryptionKey>>,
}

/// File system of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
}

/// Disk encryption of Talos's own partitions: for each, what opens it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Encryption {
    /// The partition with the config and the node's identity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<EncryptionKey>,
    /// The partition with everything else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ephemeral: Vec<EncryptionKey>,
}

/// What opens an encrypted volume: exactly one of the keys. A passphrase belongs into a patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EncryptionKey {
    /// The machine's TPM; `secureBoot: true` refuses to seal while secure boot is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<Tpm>,
    /// Address of a key service (Sidero's KMS protocol).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kms: Option<String>,
    /// Derived from the node's own UUID: against lost disks, not lost machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<bool>,
}

/// The machine's TPM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tpm {
    /// Refuse to seal while secure boot is off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub secure_boot: bool,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Route {
    /// Where to, such as `192.168.0.0/16`.
    #[schemars(example = "192.168.0.0/16")]
    pub to: String,
    /// Through whom.
    #[schemars(example = "10.0.0.2")]
    pub via: String,
    /// Preference; lower wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// A VLAN on the first network card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Vlan {
    /// Its number.
    #[schemars(range(min = 1, max = 4094), example = 100)]
    pub id: u16,
    /// Addresses of the pool's first node on it, with a prefix length, such as `10.100.0.11/24`; the other nodes count on. Of a
    /// listed node its own. Without any, one is asked for by DHCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Routes through it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// MTU, if not the card's.
    #[schemars(range(min = 576, max = 65520))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
}

impl Machine {
    /// Adds what stands nearer to the node.
    pub fn extend(&mut self, nearer: &Self) {
        self.sysctls.extend(nearer.sysctls.clone());
        self.annotations.extend(nearer.annotations.clone());
        by_name(&mut self.kernel_modules, &nearer.kernel_modules, |a, b| a.name == b.name);
        by_name(&mut self.extra_mounts, &nearer.extra_mounts, |a, b| a.destination == b.destination);
        by_name(&mut self.user_volumes, &nearer.user_volumes, |a, b| a.name == b.name);
        by_name(&mut self.logs, &nearer.logs, |a, b| a == b);
        by_name(&mut self.kernel_logs, &nearer.kernel_logs, |a, b| a == b);
        by_name(&mut self.search_domains, &nearer.search_domains, |a, b| a == b);
        by_name(&mut self.routes, &nearer.routes, |a, b| a.to == b.to);
        by_name(&mut self.vlans, &nearer.vlans, |a, b| a.id == b.id);
        if nearer.encryption.is_some() {
            self.encryption.clone_from(&nearer.encryption);
        }
        self.hostname = nearer.hostname.or(self.hostname);
        by_name(&mut self.extension_services, &nearer.extension_services, |a, b| a.name == b.name);
        if nearer.install_disk.is_some() {
            self.install_disk.clone_from(&nearer.install_disk);
        }
    }

    /// Leaves what another says as well.
    pub fn keep_common(&mut self, other: &Self) {
        self.sysctls.retain(|key, value| other.sysctls.get(key) == Some(value));
        self.annotations.retain(|key, value| other.annotations.get(key) == Some(value));
        self.kernel_modules.retain(|module| other.kernel_modules.contains(module));
        self.extra_mounts.retain(|mount| other.extra_mounts.contains(mount));
        self.user_volumes.retain(|volume| other.user_volumes.contains(volume));
        self.logs.retain(|log| other.logs.contains(log));
        self.kernel_logs.retain(|log| other.kernel_logs.contains(log));
        self.search_domains.retain(|domain| other.search_domains.contains(domain));
        self.routes.retain(|route| other.routes.contains(route));
        self.vlans.retain(|vlan| other.vlans.contains(vlan));
        self.extension_services.retain(|service| other.extension_services.contains(service));
        self.encryption.take_if(|encryption| other.encryption.as_ref() != Some(encryption));
        self.install_disk.take_if(|disk| other.install_disk.as_ref() != Some(disk));
        self.hostname.take_if(|hostname| other.hostname != Some(*hostname));
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Adds to a list; what has the same name is replaced where it stands.
fn by_name<T: Clone>(list: &mut Vec<T>, nearer: &[T], same: impl Fn(&T, &T) -> bool) {
    for item in nearer {
        match list.iter_mut().find(|there| same(there, item)) {
            Some(there) => *there = item.clone(),
            None => list.push(item.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_wins_and_lists_add_up() {
        let read = |text: &str| -> Machine { yaml_serde::from_str(text).expect("a machine") };
        let mut machine = read(
            "{sysctls: {a: '1', b: '2'}, kernelModules: [{name: nbd}], vlans: [{id: 5}], logs: ['tcp://a:1']}",
        );
        machine.extend(&read(
            "{sysctls: {b: '3'}, kernelModules: [{name: nbd, parameters: [x=1]}, {name: drbd}], hostname: dhcp}",
        ));
        let expected = read(
            "{sysctls: {a: '1', b: '3'}, kernelModules: [{name: nbd, parameters: [x=1]}, {name: drbd}],
              vlans: [{id: 5}], logs: ['tcp://a:1'], hostname: dhcp}",
        );
        assert_eq!(machine, expected);
        assert!(Machine::default().is_empty() && !machine.is_empty());
        machine.keep_common(&read(
            "{sysctls: {a: '1', b: '4'}, kernelModules: [{name: drbd}, {name: nbd}], vlans: [{id: 5}], hostname: static}",
        ));
        assert_eq!(machine, read("{sysctls: {a: '1'}, kernelModules: [{name: drbd}], vlans: [{id: 5}]}"));
    }
}
