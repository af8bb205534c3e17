//! The rules by which a node refuses a machine configuration.

use serde_json::{Map, Value};

use super::config::{ConfigError, MachineConfig};
use super::version_at_least;

const KINDS_1_9: [&str; 10] = [
    "EventSinkConfig",
    "ExtensionServiceConfig",
    "KmsgLogConfig",
    "KubespanEndpointsConfig",
    "NetworkDefaultActionConfig",
    "NetworkRuleConfig",
    "SideroLinkConfig",
    "TrustedRootsConfig",
    "VolumeConfig",
    "WatchdogTimerConfig",
];
const KINDS_1_10: [&str; 3] = ["EthernetConfig", "PCIDriverRebindConfig", "UserVolumeConfig"];
const KINDS_1_11: [&str; 4] = ["ExistingVolumeConfig", "RawVolumeConfig", "SwapVolumeConfig", "ZswapConfig"];
const KINDS_1_12: [&str; 19] = [
    "BondConfig",
    "BridgeConfig",
    "DHCPv4Config",
    "DHCPv6Config",
    "DummyLinkConfig",
    "HCloudVIPConfig",
    "HostnameConfig",
    "Layer2VIPConfig",
    "LinkAliasConfig",
    "LinkConfig",
    "OOMConfig",
    "RegistryAuthConfig",
    "RegistryMirrorConfig",
    "RegistryTLSConfig",
    "ResolverConfig",
    "StaticHostConfig",
    "TimeSyncConfig",
    "VLANConfig",
    "WireguardConfig",
];
const KINDS_1_13: [&str; 8] = [
    "BlackholeRouteConfig",
    "EnvironmentConfig",
    "ExternalVolumeConfig",
    "ImageVerificationConfig",
    "KubeSpanConfig",
    "RoutingRuleConfig",
    "TCPProbeConfig",
    "VRFConfig",
];
const KINDS_1_14: [&str; 45] = [
    "BGPInstanceConfig",
    "CRIBaseRuntimeSpecConfig",
    "CRICustomizationConfig",
    "ContainerConfig",
    "DiscoveryIdentityConfig",
    "DiscoveryServiceConfig",
    "EtcFileConfig",
    "FilesystemScrubConfig",
    "FilesystemTrimConfig",
    "HTTPProbeConfig",
    "ImageCacheConfig",
    "KernelModuleConfig",
    "KubeAPIServerCAConfig",
    "KubeAPIServerConfig",
    "KubeAdmissionControlConfig",
    "KubeAggregatorCAConfig",
    "KubeAuditPolicyConfig",
    "KubeAuthenticationConfig",
    "KubeAuthorizerConfig",
    "KubeClusterConfig",
    "KubeControllerManagerConfig",
    "KubeCoreDNSConfig",
    "KubeCredentialProviderConfig",
    "KubeEtcdEncryptionConfig",
    "KubeExternalManifestConfig",
    "KubeFlannelCNIConfig",
    "KubeInlineManifestConfig",
    "KubeNetworkConfig",
    "KubeNodeConfig",
    "KubePrismConfig",
    "KubeProxyConfig",
    "KubeSchedulerConfig",
    "KubeServiceAccountConfig",
    "KubeStaticPodConfig",
    "KubeTalosAPIAccessConfig",
    "KubeletConfig",
    "LVMLogicalVolumeConfig",
    "LVMVolumeGroupConfig",
    "RAIDArrayConfig",
    "SecurityProfileConfig",
    "SysctlConfig",
    "SysfsConfig",
    "UdevRulesConfig",
    "UnattendedInstallConfig",
    "VethConfig",
];

const ROOT: [&str; 5] = ["version", "debug", "persist", "machine", "cluster"];
const MACHINE: [&str; 27] = [
    "acceptedCAs",
    "baseRuntimeSpecOverrides",
    "ca",
    "certSANs",
    "controlPlane",
    "disks",
    "env",
    "features",
    "files",
    "install",
    "kernel",
    "kubelet",
    "logging",
    "network",
    "nodeAnnotations",
    "nodeLabels",
    "nodeTaints",
    "pods",
    "registries",
    "seccompProfiles",
    "sysctls",
    "sysfs",
    "systemDiskEncryption",
    "time",
    "token",
    "type",
    "udev",
];
const CLUSTER: [&str; 26] = [
    "acceptedCAs",
    "adminKubeconfig",
    "aescbcEncryptionSecret",
    "aggregatorCA",
    "allowSchedulingOnControlPlanes",
    "allowSchedulingOnMasters",
    "apiServer",
    "ca",
    "clusterName",
    "controlPlane",
    "controllerManager",
    "coreDNS",
    "discovery",
    "etcd",
    "externalCloudProvider",
    "extraManifestHeaders",
    "extraManifests",
    "id",
    "inlineManifests",
    "network",
    "proxy",
    "scheduler",
    "secret",
    "secretboxEncryptionSecret",
    "serviceAccount",
    "token",
];
const LINK: [&str; 8] = ["apiVersion", "kind", "name", "up", "mtu", "addresses", "routes", "multicast"];
const LINK_ALIAS: [&str; 4] = ["apiVersion", "kind", "name", "selector"];
const HOSTNAME: [&str; 4] = ["apiVersion", "kind", "auto", "hostname"];
const LAYER2_VIP: [&str; 4] = ["apiVersion", "kind", "name", "link"];
const RESOLVER: [&str; 4] = ["apiVersion", "kind", "nameservers", "searchDomains"];
const RESOLVER_1_14: [&str; 5] = ["apiVersion", "kind", "nameservers", "searchDomains", "hostDNS"];
const TIME_SYNC: [&str; 6] = ["apiVersion", "kind", "enabled", "bootTimeout", "ntp", "ptp"];

fn known_kind(kind: &str, version: &str) -> bool {
    let since = |minor: u32, kinds: &[&str]| version_at_least(version, minor) && kinds.contains(&kind);
    since(9, &KINDS_1_9)
        || kind == "KubeSpanEndpointsConfig"
        || since(10, &KINDS_1_10)
        || since(11, &KINDS_1_11)
        || since(12, &KINDS_1_12)
        || since(13, &KINDS_1_13)
        || since(14, &KINDS_1_14)
}

/// Checks one document: known kind, known keys.
pub(super) fn document(value: &Value, version: &str, line: usize) -> Result<(), ConfigError> {
    let Some(object) = value.as_object() else { return Ok(()) };
    let Some(kind) = object.get("kind").and_then(Value::as_str) else {
        let mut unknown = unknown_keys(object, &ROOT, "");
        for (section, known) in [("machine", &MACHINE[..]), ("cluster", &CLUSTER[..])] {
            if let Some(inner) = object.get(section).and_then(Value::as_object) {
                unknown.extend(unknown_keys(inner, known, section));
            }
        }
        return if unknown.is_empty() { Ok(()) } else { Err(ConfigError::UnknownKeys(unknown.join("\n"))) };
    };
    let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if api_version != "v1alpha1" || !known_kind(kind, version) {
        return Err(ConfigError::UnknownKind { api_version: api_version.into(), kind: kind.into(), line });
    }
    let known: &[&str] = match kind {
        "LinkConfig" => &LINK,
        "LinkAliasConfig" => &LINK_ALIAS,
        "HostnameConfig" => &HOSTNAME,
        "Layer2VIPConfig" => &LAYER2_VIP,
        "ResolverConfig" if version_at_least(version, 14) => &RESOLVER_1_14,
        "ResolverConfig" => &RESOLVER,
        "TimeSyncConfig" => &TIME_SYNC,
        _ => return Ok(()),
    };
    let unknown = unknown_keys(object, known, "");
    if unknown.is_empty() { Ok(()) } else { Err(ConfigError::UnknownKeys(unknown.join("\n"))) }
}

fn unknown_keys(object: &Map<String, Value>, known: &[&str], section: &str) -> Vec<String> {
    object
        .keys()
        .filter(|key| !known.contains(&key.as_str()))
        .map(|key| if section.is_empty() { format!("{key}: …") } else { format!("{section}:\n    {key}: …") })
        .collect()
}

/// The rules between fields and documents.
pub(super) fn rules(config: &MachineConfig) -> Vec<String> {
    let mut problems = Vec::new();
    let mut require = |holds: bool, problem: &str| {
        if !holds {
            problems.push(problem.to_owned());
        }
    };
    let control_plane = config.is_control_plane();
    let kind = config.text_at("/machine/type");
    require(
        matches!(kind, Some("controlplane" | "worker" | "init" | "join")),
        &format!("unknown machine type {:?}", kind.unwrap_or_default()),
    );
    require(config.text_at("/machine/token").is_some(), "trustd token is required (.machine.token)");
    require(config.pem_at("/machine/ca/crt").is_some(), "issuing CA is required (.machine.ca)");
    require(
        config.text_at("/cluster/controlPlane/endpoint").is_some(),
        "cluster controlplane endpoint is required (.cluster.controlPlane.endpoint)",
    );
    require(config.pem_at("/cluster/ca/crt").is_some(), "cluster CA is required (.cluster.ca)");
    require(config.text_at("/cluster/token").is_some(), "cluster token is required (.cluster.token)");
    let persists = config.main().get("persist").is_none_or(|p| p == &Value::Bool(true));
    require(persists, "persist should be set to true");
    if control_plane {
        require(
            config.pem_at("/machine/ca/key").is_some(),
            "issuing CA key is required for controlplane nodes (.machine.ca.key)",
        );
        require(
            config.pem_at("/cluster/ca/key").is_some(),
            "cluster CA key is required for controlplane nodes (.cluster.ca.key)",
        );
        require(config.pem_at("/cluster/etcd/ca/crt").is_some(), "etcd CA is required (.cluster.etcd.ca)");
        require(
            config.pem_at("/cluster/etcd/ca/key").is_some(),
            "etcd CA key is required (.cluster.etcd.ca.key)",
        );
        require(
            config.pem_at("/cluster/serviceAccount/key").is_some(),
            "service account key is required (.cluster.serviceAccount.key)",
        );
    } else {
        require(
            config.text_at("/machine/ca/key").is_none(),
            "issuing CA key is not allowed on non-controlplane nodes (.machine.ca.key)",
        );
        require(
            config.text_at("/cluster/ca/key").is_none(),
            "cluster CA key is not allowed on non-controlplane nodes (.cluster.ca.key)",
        );
        require(
            config.main().pointer("/cluster/etcd").is_none(),
            "etcd config is only allowed on control plane machines",
        );
        let interfaces = config.main().pointer("/machine/network/interfaces").and_then(Value::as_array);
        let vip = interfaces.into_iter().flatten().any(|i| i.get("vip").is_some());
        require(!vip, "virtual (shared) IP is not allowed on non-controlplane nodes");
    }
    let mut hostnames = 0;
    for document in config.kind("HostnameConfig") {
        hostnames += 1;
        let auto = document.get("auto").and_then(Value::as_str);
        let fixed = document.get("hostname").and_then(Value::as_str);
        require(auto.is_some() || fixed.is_some(), "either 'auto' or 'hostname' must be set");
        require(
            fixed.is_none() || matches!(auto, None | Some("off")),
            "'auto' and 'hostname' cannot be set at the same time",
        );
        let parsed = document.get("auto").is_none_or(Value::is_string);
        require(parsed, "'auto' is not a string");
    }
    if hostnames > 0 {
        require(
            config.text_at("/machine/network/hostname").is_none(),
            "static hostname is already set in v1alpha1 config",
        );
        require(
            !config.flag_at("/machine/features/stableHostname"),
            "stable hostname is already set in v1alpha1 config",
        );
    }
    for document in config.kind("Layer2VIPConfig") {
        let name = document.get("name").and_then(Value::as_str).unwrap_or_default();
        require(name.parse::<std::net::IpAddr>().is_ok(), &format!("invalid VIP address {name:?}"));
        require(document.get("link").is_some_and(Value::is_string), "link name must be specified");
    }
    problems
}
