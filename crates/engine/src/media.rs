//! A node's config media: a `cidata` volume with its machine config, name and network.

use std::fmt::Write as _;
use std::net::IpAddr;

use daedal_inventory::{Cluster, Node};
use daedal_talos::SecretsBundle;

use crate::error::Error;
use crate::iso::{self, IsoFile};
use crate::machine;

/// The whole ISO, the same bytes for the same inventory and secrets.
pub(crate) fn build(cluster: &Cluster, node: &Node, secrets: &SecretsBundle) -> Result<Vec<u8>, Error> {
    let config = machine::config(cluster, node, secrets)?;
    let meta = format!("instance-id: {}\nlocal-hostname: {}\n", node.uuid, node.name);
    let network = network_config(cluster, node);
    Ok(iso::build(
        "cidata",
        &[
            IsoFile { name: "meta-data", short: "METADATA", content: meta.as_bytes() },
            IsoFile { name: "network-config", short: "NETCONF", content: network.as_bytes() },
            IsoFile { name: "user-data", short: "USERDATA", content: config.expose().as_bytes() },
        ],
    ))
}

/// The network in cloud-init's second format, so that the address is there even before the config is read.
fn network_config(cluster: &Cluster, node: &Node) -> String {
    let network = &cluster.network;
    let gateway = match network.gateway {
        IpAddr::V4(_) => "gateway4",
        IpAddr::V6(_) => "gateway6",
    };
    let mut text = format!(
        "version: 2\nethernets:\n  net0:\n    match:\n      macaddress: \"{}\"\n    dhcp4: false\n    \
         addresses: [\"{}\"]\n    {gateway}: \"{}\"\n",
        node.mac.to_lowercase(),
        node.address,
        network.gateway,
    );
    if !network.dns.is_empty() {
        let servers: Vec<String> = network.dns.iter().map(|server| format!("\"{server}\"")).collect();
        let _ = write!(text, "    nameservers:\n      addresses: [{}]\n", servers.join(", "));
    }
    if let Some(mtu) = network.mtu {
        let _ = writeln!(text, "    mtu: {mtu}");
    }
    text
}
