//! What single fields of documents must hold, as data: names, what has to be there, bounds of numbers, schemes of addresses.

use yaml_serde::Value;

use super::Findings;
use crate::config::{
    document::{DocumentId, MachineConfig},
    schema::{self, duration_nanoseconds, is_address, is_prefix},
    url::Url,
};

/// What a field must be.
#[derive(Clone, Copy)]
enum Must {
    /// A text with something in it.
    BeThere,
    /// Keys with something in them.
    HoldKeys,
    /// Such a name.
    Name(Name),
    /// An IP address.
    BeAddress,
    /// An address with its prefix.
    BePrefix,
    /// The key of a label.
    BeQualified,
    /// A duration or a number that is not below zero.
    NotBeNegative,
    /// A duration of nothing or of so many seconds at least.
    LastSeconds(i64),
    /// A number from the first to the second.
    LieBetween(i64, i64),
    /// 32 bytes in base64; the flag says whether they have to be there.
    BeKey(bool),
    /// An address of the web or of a service.
    BeUrl(Scheme),
}
use Must::{
    BeAddress, BeKey, BePrefix, BeQualified, BeThere, BeUrl, HoldKeys, LastSeconds, LieBetween, NotBeNegative,
};

/// What a name is made of.
#[derive(Clone, Copy)]
struct Name {
    most: usize,
    upper: bool,
    underscore: bool,
}

/// What addresses begin with, and what may be in them.
#[derive(Clone, Copy)]
struct Scheme {
    schemes: &'static [&'static str],
    host: bool,
    path: bool,
    port: bool,
}

const VOLUME: Must = Must::Name(Name { most: 34, upper: true, underscore: false });
const EXISTING: Must = Must::Name(Name { most: usize::MAX, upper: true, underscore: false });
const GROUP: Must = Must::Name(Name { most: 63, upper: true, underscore: true });
const ARRAY: Must = Must::Name(Name { most: 32, upper: true, underscore: true });
const CONTAINER: Must = Must::Name(Name { most: 63, upper: false, underscore: false });
const WEB: Must = BeUrl(Scheme { schemes: &["https", "http"], host: false, path: true, port: false });
const PAGE: Must = BeUrl(Scheme { schemes: &["https", "http"], host: true, path: true, port: false });
const DISCOVERY: Must =
    BeUrl(Scheme { schemes: &["https", "http", "grpc"], host: true, path: true, port: false });
const SIDEROLINK: Must = BeUrl(Scheme { schemes: &["https", "grpc"], host: false, path: false, port: false });
const LOGS: Must = BeUrl(Scheme { schemes: &["tcp", "udp"], host: false, path: false, port: true });

/// A kind, the path of a field of it with `[]` for every element of a list, and what the field must be.
const RULES: &[(&str, &str, Must)] = &[
    ("BGPInstanceConfig", "name", BeThere),
    ("BGPInstanceConfig", "localASN", LieBetween(1, 4_294_967_295)),
    ("BGPInstanceConfig", "neighbors.[].holdTime", NotBeNegative),
    ("BGPInstanceConfig", "neighbors.[].bfd.transmitInterval", NotBeNegative),
    ("BGPInstanceConfig", "neighbors.[].bfd.receiveInterval", NotBeNegative),
    ("BlackholeRouteConfig", "name", BePrefix),
    ("CRICustomizationConfig", "name", BeQualified),
    ("ContainerConfig", "name", CONTAINER),
    ("ContainerConfig", "runAs.uid", NotBeNegative),
    ("ContainerConfig", "runAs.gid", NotBeNegative),
    ("DHCPv4Config", "name", BeThere),
    ("DHCPv6Config", "name", BeThere),
    ("DiscoveryIdentityConfig", "clusterID", BeThere),
    ("DiscoveryIdentityConfig", "clusterSecret", BeKey(true)),
    ("DiscoveryServiceConfig", "name", BeThere),
    ("DiscoveryServiceConfig", "endpoint", DISCOVERY),
    ("EthernetConfig", "name", BeThere),
    ("ExistingVolumeConfig", "name", EXISTING),
    ("ExtensionServiceConfig", "name", BeThere),
    ("ExternalVolumeConfig", "name", VOLUME),
    ("FilesystemScrubConfig", "interval", LastSeconds(10)),
    ("FilesystemTrimConfig", "interval", NotBeNegative),
    ("HCloudVIPConfig", "name", BeAddress),
    ("HCloudVIPConfig", "link", BeThere),
    ("HCloudVIPConfig", "apiToken", BeThere),
    ("HTTPProbeConfig", "name", BeThere),
    ("HTTPProbeConfig", "url", PAGE),
    ("HTTPProbeConfig", "timeout", NotBeNegative),
    ("HTTPProbeConfig", "interval", NotBeNegative),
    ("HTTPProbeConfig", "failureThreshold", NotBeNegative),
    ("KernelModuleConfig", "name", BeThere),
    ("KmsgLogConfig", "name", BeThere),
    ("KmsgLogConfig", "url", LOGS),
    ("KubeAdmissionControlConfig", "name", BeThere),
    ("KubeAuthorizerConfig", "name", BeThere),
    ("KubeClusterConfig", "clusterName", BeThere),
    ("KubeEtcdEncryptionConfig", "config", HoldKeys),
    ("KubeExternalManifestConfig", "url", WEB),
    ("KubeFlannelCNIConfig", "backendType", BeThere),
    ("KubePrismConfig", "port", LieBetween(1, 65_535)),
    ("KubeStaticPodConfig", "pod", HoldKeys),
    ("LVMLogicalVolumeConfig", "name", GROUP),
    ("LVMLogicalVolumeConfig", "provisioning.volumeGroup", BeThere),
    ("LVMVolumeGroupConfig", "name", GROUP),
    ("LinkAliasConfig", "name", BeThere),
    ("NetworkRuleConfig", "name", BeThere),
    ("OOMConfig", "sampleInterval", NotBeNegative),
    ("RAIDArrayConfig", "name", ARRAY),
    ("RawVolumeConfig", "name", VOLUME),
    ("RegistryAuthConfig", "name", BeThere),
    ("RegistryMirrorConfig", "name", BeThere),
    ("RegistryMirrorConfig", "endpoints.[].url", WEB),
    ("RegistryTLSConfig", "name", BeThere),
    ("SideroLinkConfig", "apiUrl", SIDEROLINK),
    ("StaticHostConfig", "name", BeAddress),
    ("SwapVolumeConfig", "name", VOLUME),
    ("TCPProbeConfig", "name", BeThere),
    ("TCPProbeConfig", "endpoint", BeThere),
    ("TCPProbeConfig", "timeout", NotBeNegative),
    ("TCPProbeConfig", "interval", NotBeNegative),
    ("TCPProbeConfig", "failureThreshold", NotBeNegative),
    ("TimeSyncConfig", "bootTimeout", NotBeNegative),
    ("UserVolumeConfig", "name", VOLUME),
    ("WatchdogTimerConfig", "device", BeThere),
    ("WatchdogTimerConfig", "timeout", LastSeconds(10)),
    ("WireguardConfig", "privateKey", BeKey(true)),
    ("WireguardConfig", "listenPort", LieBetween(0, 65_535)),
    ("WireguardConfig", "peers.[].publicKey", BeKey(true)),
    ("WireguardConfig", "peers.[].presharedKey", BeKey(false)),
    ("WireguardConfig", "peers.[].persistentKeepaliveInterval", NotBeNegative),
    ("ZswapConfig", "maxPoolPercent", LieBetween(0, 100)),
];

impl MachineConfig {
    pub(super) fn lint_rules(&self, found: &mut Findings) {
        for (kind, path, must) in RULES {
            for document in self.of_kind(kind) {
                for value in each(document, path) {
                    if let Some(fault) = must.fault(value) {
                        let key = path.replace(".[]", "[]");
                        let place = DocumentId::of(document).to_string();
                        found.error(&place, &format!("needs a `{key}` {fault}"));
                    }
                }
            }
        }
    }
}

/// Whether a text is 32 bytes in base64.
pub(super) fn is_key(text: &str) -> bool {
    schema::bytes(text).is_some_and(|key| key.len() == 32)
}

/// Every value at a path with `[]` for the elements of a list; `None` for one that is not there, though what is above it is.
fn each<'a>(value: &'a Value, path: &str) -> Vec<Option<&'a Value>> {
    match path.split_once(".[].") {
        Some((list, rest)) => super::items(value, list).flat_map(|item| each(item, rest)).collect(),
        None => vec![super::at(value, path).filter(|value| !value.is_null())],
    }
}

impl Must {
    /// What is wrong with a value, as the end of the sentence that it is needed.
    fn fault(self, value: Option<&Value>) -> Option<String> {
        let text = value.and_then(Value::as_str).unwrap_or_default();
        let fault = |is_good: bool, message: &str| (!is_good).then(|| message.to_owned());
        match self {
            BeThere => fault(!text.is_empty(), "with something in it"),
            HoldKeys => {
                let filled = value.and_then(Value::as_mapping).is_some_and(|keys| !keys.is_empty());
                fault(filled, "with something in it")
            }
            Self::Name(name) => name.fault(text),
            BeAddress => fault(is_address(text), "that is an IP address"),
            BePrefix => fault(is_prefix(text), "that is an address with its prefix, such as 10.0.0.0/24"),
            BeQualified => super::node::key_fault(text).map(|fault| format!("that {fault}")),
            NotBeNegative => {
                let number = value.and_then(Value::as_i64);
                let negative = number.or_else(|| duration_nanoseconds(text)).is_some_and(|number| number < 0);
                fault(!negative, "that is not below zero")
            }
            LastSeconds(least) => {
                let lasts = duration_nanoseconds(text).unwrap_or_default();
                let is_good = lasts == 0 || lasts >= least * 1_000_000_000;
                fault(is_good, &format!("of at least {least} seconds"))
            }
            LieBetween(least, most) => {
                let number = value.and_then(Value::as_i64);
                // What is not there is zero, and what is no number is told elsewhere.
                let number = if value.is_none() { Some(0) } else { number };
                let is_good = number.is_none_or(|number| (least..=most).contains(&number));
                fault(is_good, &format!("from {least} to {most}"))
            }
            BeKey(needed) => fault(is_key(text) || (!needed && text.is_empty()), "of 32 bytes in base64"),
            BeUrl(scheme) => scheme.fault(text),
        }
    }
}

impl Name {
    fn fault(self, name: &str) -> Option<String> {
        let plain = |byte: u8| {
            byte.is_ascii_lowercase()
                || byte.is_ascii_digit()
                || byte == b'-'
                || (self.upper && byte.is_ascii_uppercase())
                || (self.underscore && byte == b'_')
        };
        let is_good = !name.is_empty() && name.len() <= self.most && name.bytes().all(plain);
        (!is_good).then(|| {
            let letters = if self.upper { "letters" } else { "lower-case letters" };
            let signs =
                if self.underscore { "digits, hyphens and underscores" } else { "digits and hyphens" };
            match self.most {
                usize::MAX => format!("of {letters}, {signs}"),
                most => format!("of 1 to {most} {letters}, {signs}"),
            }
        })
    }
}

impl Scheme {
    /// What cannot be read is told where keys and values are looked at.
    fn fault(self, text: &str) -> Option<String> {
        let url = Url::parse(text).ok()?;
        if !self.schemes.contains(&url.scheme.as_str()) {
            let schemes: Vec<String> = self.schemes.iter().map(|scheme| format!("{scheme}://")).collect();
            return Some(format!("that begins with {}", schemes.join(" or ")));
        }
        if self.host && (url.is_opaque || url.hostname().is_empty()) {
            return Some("with a host in it".into());
        }
        if !self.path && !matches!(url.path.as_str(), "" | "/") {
            return Some("with nothing behind its host and port".into());
        }
        (self.port && url.port().is_empty()).then(|| "with a port, such as tcp://10.0.0.5:514".into())
    }
}
