//! Judges the machine configs of a cluster before anything is done: what a setting or a patch breaks is told at once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use daedal_inventory::{Cluster, Node, Role};
use daedal_talos_config::{MachineConfig, SecretsBundle};
use jiff::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::Serialize;

use crate::config;
use crate::configs::Configs;
use crate::error::Error;

/// Stands for an endpoint that nobody can know before the first control plane is up.
const UNKNOWN_ENDPOINT: &str = "endpoint.invalid";

/// What deserves a second look before anything is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecondLook {
    /// What is probably not as meant.
    pub text: String,
    /// The nodes it is about.
    pub nodes: Vec<String>,
}

/// Makes the machine config of every node, and what those of a role have in common, with secrets that nobody keeps. An error
/// is a config that would not be sent.
pub fn vet(cluster: &Cluster) -> Result<Vec<SecondLook>, Error> {
    let failed = |source| Error::Credentials { source };
    // Always the same ones: they protect nothing, and a small key is made at once.
    let rng = &mut StdRng::seed_from_u64(0);
    let secrets = SecretsBundle::generate_with_key_size(rng, Timestamp::UNIX_EPOCH, 1024).map_err(failed)?;
    vet_configs(&Configs::new(&with_endpoint(cluster), &secrets))
}

/// Makes the machine config of every node, and what those of a role have in common. An error is a config that would not be
/// sent.
pub fn vet_configs(configs: &Configs) -> Result<Vec<SecondLook>, Error> {
    let mut doubts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut owners: HashMap<IpAddr, &Node> = HashMap::new();
    let cluster = configs.cluster();
    for node in &cluster.nodes {
        let made = configs.node(&node.name)?;
        for address in made.own_addresses.iter().copied() {
            let Some(first) = owners.insert(address, node).filter(|first| first.name != node.name) else {
                continue;
            };
            return Err(Error::SharedAddress {
                address,
                first: first.name.clone(),
                second: node.name.clone(),
                patch: config::address_from(cluster, node, configs.secrets(), address)?,
            });
        }
        for doubt in &made.doubts {
            doubts.entry(doubt.clone()).or_default().push(node.name.clone());
        }
    }
    for role in [Role::ControlPlane, Role::Worker] {
        let nodes: Vec<String> =
            cluster.nodes.iter().filter(|node| node.role == role).map(|node| node.name.clone()).collect();
        let common = configs.role(role)?;
        for patch in common.left_out.iter().filter(|_| !nodes.is_empty()) {
            let text = format!(
                "the patch {patch} fits each node, but not what they have in common: {} is written without it",
                cluster.outputs.names.of_role(role)
            );
            doubts.entry(text).or_default().extend(nodes.iter().cloned());
        }
    }
    Ok(doubts.into_iter().map(|(text, nodes)| SecondLook { text, nodes }).collect())
}

/// The addresses that must be one node's alone. Others are shared on purpose: virtual ones, those of a single host or of a
/// dummy link, which are announced from several places; or belong to a link only.
pub(crate) fn own_addresses(config: &MachineConfig) -> Vec<IpAddr> {
    let nets_of = |link: &yaml_serde::Value| -> Vec<_> {
        let entries = link.get("addresses").and_then(|list| list.as_sequence()).into_iter().flatten();
        let net = |entry: &yaml_serde::Value| entry.get("address").unwrap_or(entry).as_str()?.parse().ok();
        entries.filter_map(net).collect()
    };
    let interfaces = config.get("machine.network.interfaces").and_then(|list| list.as_sequence());
    // A bridge without links is each node's own, for what runs on it.
    let leads_nowhere = |bridge: &yaml_serde::Value, links: &str| {
        bridge.get(links).and_then(|links| links.as_sequence()).is_none_or(|links| links.is_empty())
    };
    let apart = interfaces.into_iter().flatten().filter(|link| {
        link.get("dummy").and_then(|is| is.as_bool()) == Some(true)
            || link
                .get("bridge")
                .is_some_and(|bridge| !bridge.is_null() && leads_nowhere(bridge, "interfaces"))
    });
    let bridges = config.of_kind("BridgeConfig").filter(|bridge| leads_nowhere(bridge, "links"));
    let announced: Vec<_> =
        apart.chain(config.of_kind("DummyLinkConfig")).chain(bridges).flat_map(nets_of).collect();
    let shared = config.virtual_addresses();
    let local = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback(),
    };
    let own = config.addresses().into_iter().filter(|net| {
        net.prefix_len() < net.max_prefix_len() && !announced.contains(net) && !local(net.addr())
    });
    own.map(|net| net.addr()).filter(|address| !shared.contains(address)).collect()
}

/// The cluster with an endpoint, whatever it will be.
fn with_endpoint(cluster: &Cluster) -> Cow<'_, Cluster> {
    if cluster.kubernetes.endpoint_host.is_some() {
        return Cow::Borrowed(cluster);
    }
    let mut located = cluster.clone();
    located.kubernetes.endpoint_host = Some(UNKNOWN_ENDPOINT.to_owned());
    Cow::Owned(located)
}
