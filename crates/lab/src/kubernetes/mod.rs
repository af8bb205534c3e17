//! A Kubernetes API over an object store: discovery, reads, writes, server-side apply, watches, tables.

mod admission;
mod api;
mod apply;
mod controllers;
mod defaults;
mod deletion;
mod discovery;
pub(crate) mod kubelet;
mod merge;
mod network;
mod pods;
mod protobuf;
mod resources;
mod schema;
mod security;
mod selector;
mod status;
mod store;
mod table;
mod validate;
mod watching;
mod webhooks;
mod write;

use std::sync::Arc;

use rcgen::KeyPair;
use rustls::ServerConfig;

pub(crate) use api::handler;
pub(crate) use controllers::start as start_controllers;
pub(crate) use pods::{new_cluster, publish_authorities};
pub use store::SavedStore;
pub(crate) use store::{Key, Store};

use crate::Pace;
use crate::talos::MachineConfig;
use crate::talos::keys::{Authority, Clients, KeyError, ServerNames, server_config};
use crate::talos::node::Node;

/// TLS of a node's API server, from the cluster's authority in the node's configuration.
pub(crate) fn tls(
    config: &MachineConfig,
    node: &Node,
    key: &KeyPair,
    pace: Pace,
) -> Result<Arc<ServerConfig>, KeyError> {
    let ca = config.pem_at("/cluster/ca/crt").ok_or(KeyError::Pem)?;
    let authority = Authority::new(&ca, &config.pem_at("/cluster/ca/key").ok_or(KeyError::Pem)?)?;
    let mut names = ServerNames { common_name: "kube-apiserver".into(), ..ServerNames::default() };
    {
        let state = node.state();
        names.addresses.extend(state.links.iter().flat_map(|l| &l.addresses).map(|n| n.addr()));
        names.addresses.extend(state.links.iter().filter_map(|l| l.vip));
        names.hosts.push(state.hostname.clone());
    }
    names.addresses.push(std::net::Ipv4Addr::LOCALHOST.into());
    let mut extra = config.list_at("/cluster/apiServer/certSANs");
    extra.extend(config.endpoint_host());
    for name in extra {
        match name.parse() {
            Ok(address) => names.addresses.push(address),
            Err(_) => names.hosts.push(name),
        }
    }
    for host in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
        names.hosts.push(host.into());
    }
    names.hosts.push("kubernetes.default.svc.cluster.local".into());
    names.addresses.sort();
    names.addresses.dedup();
    let chain = authority.server(key, &names)?;
    server_config(chain, key, Clients::Optional(config.kubernetes_cas()), &[b"h2", b"http/1.1"], pace)
}
