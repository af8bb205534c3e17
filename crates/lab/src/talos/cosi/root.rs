//! The secrets behind the node API and behind Kubernetes, as a node shows them to administrators.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Item;
use crate::talos::config::MachineConfig;
use crate::talos::node::Node;

#[derive(Clone, PartialEq, prost::Message)]
struct OsRootSpec {
    #[prost(message, optional, tag = "1")]
    issuing: Option<CertificateAndKey>,
    #[prost(message, repeated, tag = "2")]
    addresses: Vec<Address>,
    #[prost(string, repeated, tag = "3")]
    names: Vec<String>,
    #[prost(string, tag = "4")]
    token: String,
    #[prost(message, repeated, tag = "5")]
    accepted: Vec<CertificateAndKey>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CertificateAndKey {
    #[prost(bytes = "vec", tag = "1")]
    certificate: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Address {
    #[prost(bytes = "vec", tag = "1")]
    ip: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KubernetesRootSpec {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    endpoint: Option<FullPath>,
    #[prost(message, optional, tag = "3")]
    local_endpoint: Option<FullPath>,
    #[prost(string, repeated, tag = "4")]
    names: Vec<String>,
    #[prost(string, tag = "6")]
    domain: String,
    #[prost(message, optional, tag = "7")]
    issuing: Option<CertificateAndKey>,
    #[prost(message, optional, tag = "8")]
    service_account: Option<OnlyKey>,
    #[prost(message, optional, tag = "9")]
    aggregator: Option<CertificateAndKey>,
    #[prost(string, tag = "10")]
    aescbc: String,
    #[prost(string, tag = "11")]
    token_id: String,
    #[prost(string, tag = "12")]
    token_secret: String,
    #[prost(string, tag = "13")]
    secretbox: String,
    #[prost(message, repeated, tag = "14")]
    services: Vec<Address>,
    #[prost(message, repeated, tag = "15")]
    accepted: Vec<CertificateAndKey>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FullPath {
    #[prost(string, tag = "1")]
    path: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OnlyKey {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// The authority that signs for Kubernetes, those that are accepted, and what else its control plane is made of. Workers have none.
pub(super) fn kubernetes_root(node: &Node) -> Vec<Item> {
    let config = { node.state().config.clone() };
    config.iter().filter(|config| config.is_control_plane()).map(|config| kubernetes_item(config)).collect()
}

fn kubernetes_item(config: &MachineConfig) -> Item {
    let pem = |pointer: &str| config.pem_at(pointer).unwrap_or_default();
    let text = |pointer: &str| config.text_at(pointer).unwrap_or_default().to_owned();
    let [issuing, aggregator] =
        ["/cluster/ca", "/cluster/aggregatorCA"].map(|place| CertificateAndKey::at(config, place));
    let account = pem("/cluster/serviceAccount/key");
    let accepted = config.kubernetes_cas();
    let endpoint = config.endpoint().to_owned();
    let local = match config.flag_at("/machine/features/kubePrism/enabled") {
        true => "https://127.0.0.1:7445".to_owned(),
        false => "https://localhost:6443".to_owned(),
    };
    let names = config.list_at("/cluster/apiServer/certSANs");
    let domain = config.text_at("/cluster/network/dnsDomain").unwrap_or("cluster.local").to_owned();
    let token = text("/cluster/token");
    let (token_id, token_secret) = token.split_once('.').unwrap_or_default();
    let (aescbc, secretbox) =
        (text("/cluster/aescbcEncryptionSecret"), text("/cluster/secretboxEncryptionSecret"));
    let subnets = config.list_at("/cluster/network/serviceSubnets");
    let first = |subnet: &String| subnet.parse::<ipnet::IpNet>().ok()?.hosts().next();
    let services: Vec<IpAddr> = subnets.iter().filter_map(first).collect();
    let yaml = json!({
        "name": config.cluster_name(),
        "endpoint": location(&endpoint),
        "local_endpoint": location(&local),
        "certSANs": names,
        "apiServerIPs": services,
        "dnsDomain": domain,
        "issuingCA": issuing.shown(),
        "acceptedCAs": shown(&accepted),
        "serviceAccount": {"key": STANDARD.encode(&account)},
        "aggregatorCA": aggregator.shown(),
        "aesCBCEncryptionSecret": aescbc,
        "bootstrapTokenID": token_id,
        "bootstrapTokenSecret": token_secret,
        "secretboxEncryptionSecret": secretbox,
    });
    let proto = KubernetesRootSpec {
        name: config.cluster_name().to_owned(),
        endpoint: Some(FullPath { path: endpoint }),
        local_endpoint: Some(FullPath { path: local }),
        names,
        domain,
        issuing: Some(issuing),
        service_account: Some(OnlyKey { key: account.into_bytes() }),
        aggregator: Some(aggregator),
        aescbc,
        token_id: token_id.to_owned(),
        token_secret: token_secret.to_owned(),
        secretbox,
        services: services.into_iter().map(octets).collect(),
        accepted: certificates(accepted),
    };
    Item { id: "k8s".to_owned(), yaml, proto: prost::Message::encode_to_vec(&proto) }
}

/// A URL as Go's encoder writes it: part by part.
fn location(url: &str) -> serde_json::Value {
    let parsed = url::Url::parse(url).ok();
    let host = parsed.as_ref().and_then(|url| {
        Some(match url.port() {
            Some(port) => format!("{}:{port}", url.host_str()?),
            None => url.host_str()?.to_owned(),
        })
    });
    json!({
        "scheme": parsed.as_ref().map_or("https", |url| url.scheme()), "opaque": "", "user": null,
        "host": host.unwrap_or_default(), "path": "", "fragment": "", "rawquery": "", "rawpath": "",
        "rawfragment": "", "forcequery": false, "omithost": false,
    })
}

fn octets(ip: IpAddr) -> Address {
    match ip {
        IpAddr::V4(ip) => Address { ip: ip.octets().to_vec() },
        IpAddr::V6(ip) => Address { ip: ip.octets().to_vec() },
    }
}

impl CertificateAndKey {
    fn at(config: &MachineConfig, place: &str) -> Self {
        let pem = |key: &str| config.pem_at(&format!("{place}/{key}")).unwrap_or_default().into_bytes();
        Self { certificate: pem("crt"), key: pem("key") }
    }

    fn shown(&self) -> serde_json::Value {
        json!({"crt": STANDARD.encode(&self.certificate), "key": STANDARD.encode(&self.key)})
    }
}

/// Authorities that are accepted, of which nobody has the keys.
fn shown(accepted: &[String]) -> Vec<serde_json::Value> {
    accepted.iter().map(|pem| json!({"crt": STANDARD.encode(pem)})).collect()
}

fn certificates(all: Vec<String>) -> Vec<CertificateAndKey> {
    all.into_iter().map(|pem| CertificateAndKey { certificate: pem.into_bytes(), key: Vec::new() }).collect()
}

/// The authority that signs, those that are accepted, the names that certificates are for, and the token for trustd.
pub(super) fn os_root(node: &Node) -> Vec<Item> {
    let config = { node.state().config.clone() };
    config.iter().map(|config| item(config)).collect()
}

fn item(config: &MachineConfig) -> Item {
    // A worker has no key to sign with, and so no authority that does.
    let issuing = Some(CertificateAndKey::at(config, "/machine/ca")).filter(|pair| !pair.key.is_empty());
    let accepted = config.client_cas();
    let (addresses, names): (Vec<String>, Vec<String>) =
        config.list_at("/machine/certSANs").into_iter().partition(|name| name.parse::<IpAddr>().is_ok());
    let token = config.text_at("/machine/token").unwrap_or_default().to_owned();
    let mut yaml = json!({
        "acceptedCAs": shown(&accepted),
        "certSANIPs": addresses,
        "certSANDNSNames": names,
        "token": token,
    });
    if let Some(issuing) = &issuing {
        yaml["issuingCA"] = issuing.shown();
    }
    let ip = |text: &String| text.parse().ok().map(octets);
    let proto = OsRootSpec {
        issuing,
        addresses: addresses.iter().filter_map(ip).collect(),
        names,
        token,
        accepted: certificates(accepted),
    };
    Item { id: "os".to_owned(), yaml, proto: prost::Message::encode_to_vec(&proto) }
}
