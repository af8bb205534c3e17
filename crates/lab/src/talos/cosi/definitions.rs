//! Which types of resources a node has, and how tools may print them.

use crate::talos::version_at_least;

/// A type of resource.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) singular: &'static str,
    pub(super) namespace: &'static str,
    pub(super) owner: &'static str,
    pub(super) aliases: &'static [&'static str],
    columns: &'static [(&'static str, &'static str)],
    /// Columns before those, and the minor version of Talos that brought them.
    newer: &'static [(u32, (&'static str, &'static str))],
    pub(super) sensitive: bool,
    /// Depends on other machines too.
    pub(super) shared: bool,
}

const fn kind(
    name: &'static str,
    singular: &'static str,
    namespace: &'static str,
    owner: &'static str,
    aliases: &'static [&'static str],
    columns: &'static [(&'static str, &'static str)],
) -> Kind {
    Kind { name, singular, namespace, owner, aliases, columns, newer: &[], sensitive: false, shared: false }
}

impl Kind {
    const fn shared(self) -> Self {
        Self { shared: true, ..self }
    }

    const fn newer(self, newer: &'static [(u32, (&'static str, &'static str))]) -> Self {
        Self { newer, ..self }
    }

    /// What tools print of it, for a version of Talos.
    pub(super) fn columns(&self, version: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
        let newer = self.newer.iter().filter(|(minor, _)| version_at_least(version, *minor));
        newer.map(|(_, column)| *column).chain(self.columns.iter().copied())
    }

    const fn sensitive(self) -> Self {
        Self { sensitive: true, ..self }
    }
}

pub(super) const KINDS: &[Kind] = &[
    kind("Namespaces.meta.cosi.dev", "Namespace", "meta", "", &["ns"], &[]),
    kind(
        "ResourceDefinitions.meta.cosi.dev",
        "ResourceDefinition",
        "meta",
        "",
        &["api-resources"],
        &[("Aliases", "{.aliases[:]}")],
    ),
    kind(
        "MachineStatuses.runtime.talos.dev",
        "MachineStatus",
        "runtime",
        "runtime.MachineStatusController",
        &[],
        &[("Stage", "{.stage}"), ("Ready", "{.status.ready}")],
    ),
    kind(
        "Versions.runtime.talos.dev",
        "Version",
        "runtime",
        "runtime.VersionController",
        &[],
        &[("Version", "{.version}")],
    )
    .newer(&[(13, ("Name", "{.name}"))]),
    kind(
        "ExtensionStatuses.runtime.talos.dev",
        "ExtensionStatus",
        "runtime",
        "runtime.ExtensionStatusController",
        &["extensions"],
        &[("Name", "{.metadata.name}"), ("Version", "{.metadata.version}")],
    ),
    kind(
        "SecurityStates.talos.dev",
        "SecurityState",
        "runtime",
        "runtime.SecurityStateController",
        &["securitystate"],
        &[("SecureBoot", "{.secureBoot}")],
    ),
    kind(
        "PlatformMetadatas.talos.dev",
        "PlatformMetadata",
        "runtime",
        "network.PlatformConfigController",
        &["platformmetadata"],
        &[
            ("Platform", "{.platform}"),
            ("Type", "{.instanceType}"),
            ("Region", "{.region}"),
            ("Zone", "{.zone}"),
        ],
    ),
    kind(
        "MetaKeys.runtime.talos.dev",
        "MetaKey",
        "runtime",
        "runtime.State",
        &["meta"],
        &[("Value", "{.value}")],
    ),
    kind(
        "Services.v1alpha1.talos.dev",
        "Service",
        "runtime",
        "v1alpha1.ServiceController",
        &["svc"],
        &[("Running", "{.running}"), ("Healthy", "{.healthy}"), ("Health Unknown", "{.unknown}")],
    ),
    kind(
        "SystemInformations.hardware.talos.dev",
        "SystemInformation",
        "hardware",
        "hardware.SystemInfoController",
        &["systeminformation"],
        &[("Manufacturer", "{.manufacturer}"), ("ProductName", "{.productName}"), ("UUID", "{.uuid}")],
    ),
    kind(
        "HostnameStatuses.net.talos.dev",
        "HostnameStatus",
        "network",
        "network.HostnameSpecController",
        &["hostname"],
        &[("Hostname", "{.hostname}"), ("Domainname", "{.domainname}")],
    ),
    kind(
        "NodeAddresses.net.talos.dev",
        "NodeAddress",
        "network",
        "network.NodeAddressController",
        &[],
        &[("Addresses", "{.addresses}"), ("SortAlgorithm", "{.sortAlgorithm}")],
    ),
    kind(
        "AddressStatuses.net.talos.dev",
        "AddressStatus",
        "network",
        "network.AddressStatusController",
        &["address", "addresses"],
        &[("Address", "{.address}"), ("Link", "{.linkName}")],
    ),
    kind(
        "LinkStatuses.net.talos.dev",
        "LinkStatus",
        "network",
        "network.LinkStatusController",
        &["link", "links"],
        &[
            ("Alias", "{.alias}"),
            ("Type", "{.type}"),
            ("Kind", "{.kind}"),
            ("Hw Addr", "{.hardwareAddr}"),
            ("Oper State", "{.operationalState}"),
            ("Link State", "{.linkState}"),
        ],
    ),
    kind(
        "NetworkStatuses.net.talos.dev",
        "NetworkStatus",
        "network",
        "network.StatusController",
        &["netstatus", "netstatuses"],
        &[
            ("Address", "{.addressReady}"),
            ("Connectivity", "{.connectivityReady}"),
            ("Hostname", "{.hostnameReady}"),
            ("Etc", "{.etcFilesReady}"),
        ],
    ),
    kind(
        "TimeStatuses.v1alpha1.talos.dev",
        "TimeStatus",
        "runtime",
        "time.SyncController",
        &["timestatus"],
        &[("Synced", "{.synced}")],
    ),
    kind(
        "Disks.block.talos.dev",
        "Disk",
        "runtime",
        "block.DisksController",
        &[],
        &[
            ("Size", "{.pretty_size}"),
            ("Read Only", "{.readonly}"),
            ("Transport", "{.transport}"),
            ("Rotational", "{.rotational}"),
            ("WWID", "{.wwid}"),
            ("Model", "{.model}"),
            ("Serial", "{.serial}"),
        ],
    ),
    kind(
        "SystemDisks.block.talos.dev",
        "SystemDisk",
        "runtime",
        "block.SystemDiskController",
        &[],
        &[("Disk", "{.diskID}")],
    ),
    kind(
        "DiscoveredVolumes.block.talos.dev",
        "DiscoveredVolume",
        "runtime",
        "block.DiscoveryController",
        &[],
        &[
            ("Type", "{.type}"),
            ("Size", "{.pretty_size}"),
            ("Discovered", "{.name}"),
            ("Label", "{.label}"),
            ("PartitionLabel", "{.partition_label}"),
        ],
    ),
    kind(
        "Members.cluster.talos.dev",
        "Member",
        "cluster",
        "cluster.EndpointController",
        &[],
        &[
            ("Hostname", "{.hostname}"),
            ("Machine Type", "{.machineType}"),
            ("OS", "{.operatingSystem}"),
            ("Addresses", "{.addresses}"),
        ],
    )
    .shared(),
    kind(
        "VolumeStatuses.block.talos.dev",
        "VolumeStatus",
        "runtime",
        "block.VolumeManagerController",
        &[],
        &[("Type", "{.type}"), ("Phase", "{.phase}"), ("Location", "{.location}"), ("Size", "{.prettySize}")],
    ),
    kind(
        "Diagnostics.runtime.talos.dev",
        "Diagnostic",
        "runtime",
        "runtime.DiagnosticsController",
        &[],
        &[("Message", "{.message}")],
    ),
    kind(
        "Infos.cluster.talos.dev",
        "Info",
        "cluster",
        "cluster.InfoController",
        &[],
        &[("Cluster ID", "{.clusterId}"), ("Cluster Name", "{.clusterName}")],
    ),
    kind(
        "EtcdMembers.etcd.talos.dev",
        "EtcdMember",
        "etcd",
        "etcd.MemberController",
        &[],
        &[("Member ID", "{.memberId}")],
    )
    .shared(),
    kind(
        "Nodenames.kubernetes.talos.dev",
        "Nodename",
        "k8s",
        "k8s.NodenameController",
        &[],
        &[("Nodename", "{.nodename}")],
    ),
    kind(
        "NodeStatuses.kubernetes.talos.dev",
        "NodeStatus",
        "k8s",
        "k8s.NodeStatusController",
        &[],
        &[("Ready", "{.nodeReady}"), ("Unschedulable", "{.unschedulable}")],
    ),
    kind("MachineConfigs.config.talos.dev", "MachineConfig", "config", "config.AcquireController", &[], &[])
        .sensitive(),
    kind(
        "KubernetesRootSecrets.secrets.talos.dev",
        "KubernetesRootSecret",
        "secrets",
        "secrets.RootKubernetesController",
        &[],
        &[],
    )
    .sensitive(),
    kind("OSRootSecrets.secrets.talos.dev", "OSRootSecret", "secrets", "secrets.RootOSController", &[], &[])
        .sensitive(),
    kind(
        "MachineTypes.config.talos.dev",
        "MachineType",
        "config",
        "config.MachineTypeController",
        &[],
        &[("Type", "{}")],
    ),
];

/// A type by its full name, or by a name that tools accept for it.
pub(super) fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.name.eq_ignore_ascii_case(name))
}

impl Kind {
    /// The short names that the server makes up by itself, and those that were given.
    pub(super) fn own_aliases(&self) -> Vec<String> {
        let plural = self.name.split('.').next().unwrap_or_default();
        let mut aliases: Vec<String> = self.aliases.iter().map(|a| (*a).to_owned()).collect();
        aliases.push(self.singular.to_ascii_lowercase());
        let letters: String = plural.chars().filter(char::is_ascii_uppercase).collect();
        if letters.len() > 1 {
            aliases.push(letters.to_ascii_lowercase());
            if !letters.ends_with('S') {
                aliases.push(format!("{}s", letters.to_ascii_lowercase()));
            }
        }
        aliases
    }

    /// All names that tools may use.
    pub(super) fn all_aliases(&self) -> Vec<String> {
        let (plural, suffix) = self.name.split_once('.').unwrap_or((self.name, ""));
        let plural = plural.to_ascii_lowercase();
        let mut all = vec![plural.clone()];
        let parts: Vec<&str> = suffix.split('.').collect();
        for end in 1..parts.len() {
            all.push(format!("{plural}.{}", parts[..end].join(".")));
        }
        all.extend(self.own_aliases());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unambiguous_where_tools_use_them() {
        for name in [
            "members",
            "machinestatus",
            "disks",
            "links",
            "addresses",
            "hostname",
            "machineconfig",
            "services",
        ] {
            let hits: Vec<_> = KINDS.iter().filter(|k| k.all_aliases().iter().any(|a| a == name)).collect();
            assert_eq!(hits.len(), 1, "{name}: {hits:?}");
        }
    }
}
