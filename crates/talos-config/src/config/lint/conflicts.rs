//! Fields of the main document that cannot stand beside the document that has taken their place.

use yaml_serde::Value;

use super::Findings;
use crate::config::{
    contract::Release,
    document::{DocumentId, MachineConfig},
    schema::{duration_nanoseconds, is_address},
};

/// When a field counts as set.
#[derive(Clone, Copy)]
enum Set {
    /// If it is there at all.
    There,
    /// If there is something in it: neither empty, nor false, nor zero, nor no time at all.
    Filled,
    /// If there is an address in it; Talos leaves out what is none.
    Addresses,
}
use Set::{Addresses, Filled, There};

/// Kinds of which not two may be about the same thing.
const EXCLUSIVE: [(&str, &str); 2] =
    [("UserVolumeConfig", "ExistingVolumeConfig"), ("Layer2VIPConfig", "HCloudVIPConfig")];

/// Which field is refused beside which document, and since which minor version.
const CONFLICTS: &[(&str, &str, Set, u32)] = &[
    ("HostnameConfig", "machine.network.hostname", Filled, 12),
    ("HostnameConfig", "machine.features.stableHostname", Filled, 12),
    ("ResolverConfig", "machine.network.searchDomains", There, 12),
    ("ResolverConfig", "machine.network.nameservers", Addresses, 12),
    ("ResolverConfig", "machine.network.disableSearchDomain", Filled, 12),
    ("TimeSyncConfig", "machine.time.disabled", Filled, 12),
    ("TimeSyncConfig", "machine.time.servers", Filled, 12),
    ("TimeSyncConfig", "machine.time.bootTimeout", Filled, 12),
    ("KubeSpanConfig", "machine.network.kubespan", There, 13),
    ("DiscoveryIdentityConfig", "cluster.id", Filled, 14),
    ("DiscoveryIdentityConfig", "cluster.secret", Filled, 14),
    ("DiscoveryServiceConfig", "cluster.discovery", There, 14),
    ("CRIBaseRuntimeSpecConfig", "machine.baseRuntimeSpecOverrides", There, 14),
    ("ImageCacheConfig", "machine.features.imageCache", There, 14),
    ("KubeAdmissionControlConfig", "cluster.apiServer.admissionControl", Filled, 14),
    ("KubeAuthorizerConfig", "cluster.apiServer.admissionControl", Filled, 14),
    ("KubeAuditPolicyConfig", "cluster.apiServer.auditPolicy", Filled, 14),
    ("KubeAggregatorCAConfig", "cluster.aggregatorCA", There, 14),
    ("KubeAPIServerConfig", "cluster.apiServer", There, 14),
    ("KubeAPIServerConfig", "cluster.controlPlane.localAPIServerPort", Filled, 14),
    ("KubeAPIServerCAConfig", "cluster.ca", There, 14),
    ("KubeClusterConfig", "cluster.clusterName", Filled, 14),
    ("KubeClusterConfig", "cluster.controlPlane", There, 14),
    ("KubeControllerManagerConfig", "cluster.controllerManager", There, 14),
    ("KubeControllerManagerConfig", "machine.controlPlane.controllerManager", There, 14),
    ("KubeCoreDNSConfig", "cluster.coreDNS", There, 14),
    ("KubeCredentialProviderConfig", "machine.kubelet", There, 14),
    ("KubeEtcdEncryptionConfig", "cluster.secretboxEncryptionSecret", Filled, 14),
    ("KubeEtcdEncryptionConfig", "cluster.aescbcEncryptionSecret", Filled, 14),
    ("KubeFlannelCNIConfig", "cluster.network", There, 14),
    ("KubeletConfig", "machine.kubelet", There, 14),
    ("KubePrismConfig", "machine.features.kubePrism", There, 14),
    ("KubeNetworkConfig", "cluster.network", There, 14),
    ("KubeNodeConfig", "cluster.allowSchedulingOnControlPlanes", There, 14),
    ("KubeNodeConfig", "cluster.allowSchedulingOnMasters", There, 14),
    ("KubeNodeConfig", "machine.kubelet.skipNodeRegistration", There, 14),
    ("KubeNodeConfig", "machine.kubelet.registerWithFQDN", There, 14),
    ("KubeNodeConfig", "machine.kubelet.nodeIP", There, 14),
    ("KubeNodeConfig", "machine.nodeLabels", There, 14),
    ("KubeNodeConfig", "machine.nodeAnnotations", There, 14),
    ("KubeNodeConfig", "machine.nodeTaints", There, 14),
    ("KubeProxyConfig", "cluster.proxy", There, 14),
    ("KubeSchedulerConfig", "cluster.scheduler", There, 14),
    ("KubeSchedulerConfig", "machine.controlPlane.scheduler", There, 14),
    ("KubeServiceAccountConfig", "cluster.serviceAccount", There, 14),
    ("KubeTalosAPIAccessConfig", "machine.features.kubernetesTalosAPIAccess", There, 14),
    ("UnattendedInstallConfig", "machine.install", There, 14),
];

impl Set {
    fn holds(self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null) => false,
            (There, _) => true,
            (Addresses, list) => {
                list.as_sequence().into_iter().flatten().filter_map(Value::as_str).any(is_address)
            }
            (Filled, Value::Bool(flag)) => *flag,
            (Filled, Value::String(text)) => !text.is_empty() && duration_nanoseconds(text) != Some(0),
            (Filled, Value::Sequence(list)) => !list.is_empty(),
            (Filled, Value::Mapping(map)) => !map.is_empty(),
            (Filled, Value::Number(number)) => number.as_f64() != Some(0.0),
            (Filled, Value::Tagged(_)) => true,
        }
    }
}

impl MachineConfig {
    pub(super) fn lint_conflicts(&self, release: Release, found: &mut Findings) {
        for (kind, path, set, since) in CONFLICTS {
            if release.minor() >= *since
                && self.get(path).is_some_and(|value| set.holds(value))
                && self.of_kind(kind).next().is_some()
            {
                found.error(
                    path,
                    &format!("cannot stand beside {kind}, which has taken its place; set it there"),
                );
            }
        }
        for (kind, other) in EXCLUSIVE {
            for document in self.of_kind(kind) {
                let id = DocumentId::of(document);
                if self.of_kind(other).any(|document| DocumentId::of(document).name == id.name) {
                    found.error(&id.to_string(), &format!("cannot stand beside a {other} of the same name"));
                }
            }
        }
        // Two kinds of volumes were encrypted by the main document, each by its own field.
        for (name, path) in [
            ("STATE", "machine.systemDiskEncryption.state"),
            ("EPHEMERAL", "machine.systemDiskEncryption.ephemeral"),
        ] {
            let volume = |document: &&Value| {
                document.get("name").and_then(Value::as_str) == Some(name)
                    && document.get("encryption").is_some_and(|value| !value.is_null())
            };
            if self.get(path).is_some_and(|value| !value.is_null())
                && self.of_kind("VolumeConfig").any(|document| volume(&document))
            {
                found.error(path, "cannot stand beside the encryption of VolumeConfig; set it there");
            }
        }
        let host_dns = |document: &Value| document.get("hostDNS").is_some_and(super::volumes::is_filled);
        if release.minor() >= 14
            && self.get("machine.features.hostDNS").is_some_and(|value| There.holds(value))
            && self.of_kind("ResolverConfig").any(host_dns)
        {
            let message =
                "cannot stand beside `hostDNS` of ResolverConfig, which has taken its place; set it there";
            found.error("machine.features.hostDNS", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_and_the_document_that_took_its_place_do_not_stand_together() {
        let of = |version: &str, rest: &str| -> Vec<String> {
            let text = format!("version: v1alpha1\n{rest}");
            let config = MachineConfig::from_yaml(&text).unwrap();
            let lints = config.lint(Release::of(version).unwrap());
            lints.into_iter().filter(|lint| lint.message.contains("stand beside")).map(|l| l.place).collect()
        };
        let kubelet = "machine: {kubelet: {}}\n---\napiVersion: v1alpha1\nkind: KubeletConfig\n";
        assert_eq!(of("v1.14.0", kubelet), ["machine.kubelet"]);
        let time = "machine: {time: {disabled: false, servers: [a]}}\n---\napiVersion: v1alpha1\nkind: TimeSyncConfig\n";
        assert_eq!(of("v1.12.0", time), ["machine.time.servers"]);
        let nothing = "machine: {time: {bootTimeout: 0s}, network: {searchDomains: []}}\n---\napiVersion: v1alpha1\nkind: ";
        assert_eq!(of("v1.12.0", &format!("{nothing}TimeSyncConfig\n")), Vec::<String>::new());
        assert_eq!(of("v1.12.0", &format!("{nothing}ResolverConfig\n")), ["machine.network.searchDomains"]);
        let alone = of("v1.14.0", "machine: {kubelet: {}, time: {servers: [a]}}\n");
        assert!(alone.is_empty(), "{alone:?}");
    }
}
