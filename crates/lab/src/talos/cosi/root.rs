//! The secrets behind the node API, as a node shows them to administrators.

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

/// The authority that signs, those that are accepted, the names that certificates are for, and the token for trustd.
pub(super) fn os_root(node: &Node) -> Vec<Item> {
    let config = { node.state().config.clone() };
    config.iter().map(|config| item(config)).collect()
}

fn item(config: &MachineConfig) -> Item {
    let pem = |pointer: &str| config.pem_at(pointer).unwrap_or_default();
    let (issuing, key) = (pem("/machine/ca/crt"), pem("/machine/ca/key"));
    // The one that signs is told first by the config, and last among the accepted ones by the node.
    let (signing, others): (Vec<_>, Vec<_>) = config.client_cas().into_iter().partition(|ca| *ca == issuing);
    let accepted = [others, signing].concat();
    let (addresses, names): (Vec<String>, Vec<String>) =
        config.list_at("/machine/certSANs").into_iter().partition(|name| name.parse::<IpAddr>().is_ok());
    let token = config.text_at("/machine/token").unwrap_or_default().to_owned();
    // A worker has no key to sign with, and so no authority that does.
    let signs = !key.is_empty();
    let mut yaml = json!({
        "acceptedCAs": accepted.iter().map(|pem| json!({"crt": STANDARD.encode(pem)})).collect::<Vec<_>>(),
        "certSANIPs": addresses,
        "certSANDNSNames": names,
        "token": token,
    });
    if signs {
        yaml["issuingCA"] = json!({"crt": STANDARD.encode(&issuing), "key": STANDARD.encode(&key)});
    }
    let ip = |text: &String| match text.parse().ok()? {
        IpAddr::V4(ip) => Some(Address { ip: ip.octets().to_vec() }),
        IpAddr::V6(ip) => Some(Address { ip: ip.octets().to_vec() }),
    };
    let proto = OsRootSpec {
        issuing: signs
            .then(|| CertificateAndKey { certificate: issuing.into_bytes(), key: key.into_bytes() }),
        addresses: addresses.iter().filter_map(ip).collect(),
        names,
        token,
        accepted: accepted
            .into_iter()
            .map(|pem| CertificateAndKey { certificate: pem.into_bytes(), key: Vec::new() })
            .collect(),
    };
    Item { id: "os".to_owned(), yaml, proto: prost::Message::encode_to_vec(&proto) }
}
