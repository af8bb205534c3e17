//! Talos's side of a node: its own words.

use daedal_inventory::{Node, Role};
use daedal_talos_client::{Client, Resource};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{NotSeen, Side};
use crate::engine::Engine;
use crate::error::chain;
use crate::nodes::Nodes;

/// A node's own words.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosDetails {
    /// Talos version.
    pub version: String,
    /// Platform and architecture, `nocloud/amd64`.
    pub platform: String,
    /// Stage of its life; nothing while it does not say.
    pub stage: Option<String>,
    /// Whether all is as it should be in this stage; nothing while it does not say.
    pub ready: Option<bool>,
    /// What it waits for.
    pub waits_for: Vec<UnmetCondition>,
    /// Services.
    pub services: Vec<ServiceDetails>,
    /// Addresses.
    pub addresses: Vec<AddressDetails>,
    /// Links.
    pub links: Vec<LinkDetails>,
    /// Disks.
    pub disks: Vec<DiskDetails>,
    /// System extensions.
    pub extensions: Vec<ExtensionDetails>,
    /// Its etcd member; none on workers.
    pub etcd: Option<Side<EtcdDetails>>,
    /// When the certificate of its API ends.
    pub certificate_ends: Option<Timestamp>,
    /// What of it could not be read: the lists above lack it.
    #[serde(rename = "blind")]
    pub unread: Vec<Unread>,
}

/// Something that a node did not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unread {
    /// What.
    pub what: &'static str,
    /// Why.
    pub why: String,
}

/// Something that a node waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnmetCondition {
    /// What.
    pub name: String,
    /// Why it is not there.
    pub reason: String,
}

/// A service of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDetails {
    /// Name.
    pub name: String,
    /// State, such as `Running`.
    pub state: String,
    /// Whether it is healthy, where that is known.
    pub healthy: Option<bool>,
}

/// An address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressDetails {
    /// The address with its prefix length.
    pub address: String,
    /// The link that it is on.
    pub link: String,
}

/// A link of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkDetails {
    /// Name.
    pub name: String,
    /// MAC.
    pub mac: String,
    /// Operational state, such as `up`.
    pub state: String,
}

/// A disk as the node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskDetails {
    /// Device, such as `/dev/sda`.
    pub device: String,
    /// Bytes.
    pub size: Option<u64>,
    /// Model.
    pub model: String,
}

/// A system extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionDetails {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// A control plane's etcd member.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdDetails {
    /// Its id in hex, as etcd writes it.
    pub id: String,
    /// It follows, but does not vote yet.
    pub learner: bool,
    /// It leads.
    pub leader: bool,
    /// Bytes of its database.
    pub db_size: u64,
    /// How many members there are.
    pub members: usize,
    /// What it complains about.
    pub errors: Vec<String>,
}

impl Engine {
    pub(super) async fn talos_page(&self, nodes: &Nodes, node: &Node) -> Result<TalosDetails, NotSeen> {
        if node.address.is_none() {
            let why = "its address is not known: none is declared, and its guest agent reports none";
            return Err(NotSeen::Unseen(why.to_owned()));
        }
        let patience = self.parts.limits.call_timeout;
        let asked = async {
            let client = nodes.client(node, patience).await?;
            let version = client.version().await?;
            let status = client.machine_status().await?;
            let (services, addresses, links, disks, extensions, etcd, ends) = tokio::join!(
                client.service_list(),
                listed(&client, "network", "AddressStatuses.net.talos.dev"),
                listed(&client, "network", "LinkStatuses.net.talos.dev"),
                listed(&client, "runtime", "Disks.block.talos.dev"),
                client.extensions(),
                etcd_page(&client, node),
                nodes.certificate_end(node, patience),
            );
            let mut unread = Vec::new();
            let services = seen(services, "services", &mut unread).into_iter().map(|service| {
                ServiceDetails { name: service.id, state: service.state, healthy: service.healthy }
            });
            let addresses = seen(addresses, "addresses", &mut unread);
            let links = seen(links, "links", &mut unread);
            let disks = seen(disks, "disks", &mut unread);
            let extensions = seen(extensions, "extensions", &mut unread).into_iter();
            let certificate_ends = seen(ends.map(Some), "certificate", &mut unread);
            Ok(TalosDetails {
                version: version.tag,
                platform: format!("{}/{}", version.platform, version.arch),
                stage: status.as_ref().map(|status| status.stage.clone()),
                ready: status.as_ref().map(|status| status.ready),
                waits_for: status
                    .into_iter()
                    .flat_map(|status| status.unmet)
                    .map(|(name, reason)| UnmetCondition { name, reason })
                    .collect(),
                services: services.collect(),
                addresses: addresses.iter().map(|(_, spec)| address(spec)).collect(),
                links: links.into_iter().filter_map(|(name, spec)| link(name, &spec)).collect(),
                disks: disks.iter().map(|(_, spec)| disk(spec)).collect(),
                extensions: extensions.map(|(name, version)| ExtensionDetails { name, version }).collect(),
                etcd,
                certificate_ends,
                unread,
            })
        };
        match Box::pin(tokio::time::timeout(patience * 2, asked)).await {
            Ok(details) => details,
            Err(_) => Err(NotSeen::Unseen("no answer in time".to_owned())),
        }
    }
}

/// What a node answered; what it did not is named.
fn seen<T: Default>(
    answer: Result<T, daedal_talos_client::Error>,
    what: &'static str,
    unread: &mut Vec<Unread>,
) -> T {
    answer.unwrap_or_else(|error| {
        unread.push(Unread { what, why: chain(&error) });
        T::default()
    })
}

/// Resources of a kind, by id.
async fn listed(
    client: &Client,
    namespace: &str,
    kind: &str,
) -> Result<Vec<(String, Value)>, daedal_talos_client::Error> {
    let found = client.list(namespace, kind).await?.into_iter();
    let spec = |resource: &Resource| serde_json::to_value(resource.spec()).unwrap_or_default();
    Ok(found.map(|resource| (resource.id.clone(), spec(&resource))).collect())
}

fn text(spec: &Value, key: &str) -> String {
    spec[key].as_str().unwrap_or_default().to_owned()
}

fn address(spec: &Value) -> AddressDetails {
    AddressDetails { address: text(spec, "address"), link: text(spec, "linkName") }
}

/// A link that has an address of its own kind.
fn link(name: String, spec: &Value) -> Option<LinkDetails> {
    let mac = Some(text(spec, "hardwareAddr")).filter(|mac| !mac.is_empty())?;
    Some(LinkDetails { name, mac, state: text(spec, "operationalState") })
}

fn disk(spec: &Value) -> DiskDetails {
    DiskDetails { device: text(spec, "dev_path"), size: spec["size"].as_u64(), model: text(spec, "model") }
}

async fn etcd_page(client: &Client, node: &Node) -> Option<Side<EtcdDetails>> {
    if node.role != Role::ControlPlane {
        return None;
    }
    let asked = tokio::try_join!(client.etcd_members(), client.etcd_status());
    let details = asked.map_err(NotSeen::from).map(|(members, status)| EtcdDetails {
        id: format!("{:x}", status.member_id),
        learner: status.is_learner,
        leader: status.leader == status.member_id,
        db_size: u64::try_from(status.db_size).unwrap_or_default(),
        members: members.len(),
        errors: status.errors,
    });
    Some(Side::of(details).0)
}
