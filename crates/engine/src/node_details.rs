//! The details of one node, from all three sides: what Proxmox, Talos and Kubernetes say of it, what they have nothing of, and what
//! could not be asked. [`NodeDetails`] claims nothing that was not seen.

mod kubernetes;
mod proxmox;
mod talos;

use std::collections::BTreeMap;

use daedal_inventory::{Cluster, Node, Role};
use serde::Serialize;

pub use self::kubernetes::{ConditionDetails, KubernetesAddress, KubernetesDetails, TaintDetails};
pub use self::proxmox::{NicDetails, ProxmoxDetails, VolumeDetails};
pub use self::talos::{
    AddressDetails, DiskDetails, EtcdDetails, ExtensionDetails, LinkDetails, ServiceDetails, TalosDetails,
    UnmetCondition, Unread,
};
use crate::engine::Engine;
use crate::error::{Error, chain};
use crate::kubernetes::Kubernetes;
use crate::nodes::Nodes;

/// One node from all three sides.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDetails {
    /// Its name.
    pub node: String,
    /// Its cluster.
    pub cluster: String,
    /// Its pool.
    pub pool: String,
    /// Its role.
    pub role: Role,
    /// Its declared address.
    pub address: String,
    /// What Proxmox says.
    pub proxmox: Side<ProxmoxDetails>,
    /// What Talos says.
    pub talos: Side<TalosDetails>,
    /// What Kubernetes says.
    pub kubernetes: Side<KubernetesDetails>,
    /// Why Proxmox could not be asked, where that is so.
    #[serde(skip)]
    pub blocked: Option<Error>,
}

/// What one side says, that it has nothing, or why it could not be asked.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Side<T> {
    /// It was asked.
    Seen(T),
    /// It was asked, and has nothing of the node: a sentence.
    Absent(String),
    /// It could not be asked, or did not answer, and why.
    Unseen(String),
}

/// Why there is nothing to show of a side.
enum NotSeen {
    /// It was asked, and has nothing of the node.
    Absent(String),
    /// Nothing is known.
    Unseen(String),
    /// A call to Proxmox failed.
    Failed(Error),
}

impl From<daedal_proxmox::Error> for NotSeen {
    fn from(error: daedal_proxmox::Error) -> Self {
        Self::Failed(Error::Proxmox(error))
    }
}

impl From<daedal_talos_client::Error> for NotSeen {
    fn from(error: daedal_talos_client::Error) -> Self {
        Self::Unseen(chain(&error))
    }
}

impl<T> Side<T> {
    /// The side, and the error if one is the reason that it could not be asked.
    fn of(result: Result<T, NotSeen>) -> (Self, Option<Error>) {
        match result {
            Ok(seen) => (Self::Seen(seen), None),
            Err(NotSeen::Absent(what)) => (Self::Absent(what), None),
            Err(NotSeen::Unseen(why)) => (Self::Unseen(why), None),
            Err(NotSeen::Failed(error)) => (Self::Unseen(chain(&error)), Some(error)),
        }
    }
}

impl Engine {
    /// Everything about one declared node, from all three sides; a side that cannot be asked says why.
    pub async fn node_page(&self, cluster: &Cluster, node: &Node) -> NodeDetails {
        let found = match cluster.network.discovered {
            // Where Proxmox cannot be asked, its own side says so.
            true => self.observe_with(cluster, None).await.map(|world| world.addresses).unwrap_or_default(),
            false => BTreeMap::new(),
        };
        let cluster = &*cluster.located(&found);
        let node = cluster.node(&node.name).unwrap_or(node);
        let parts = &self.parts;
        let secrets = match self.stored_secrets().await {
            Ok(Some(secrets)) => Ok(secrets),
            Ok(None) => {
                let (name, place) = (&cluster.name, parts.store.place());
                Err(format!("the secrets of cluster {name} are not in {}", place.display()))
            }
            Err(error) => Err(chain(&error)),
        };
        let unseen = |why: &String| NotSeen::Unseen(why.clone());
        let (proxmox, talos, kubernetes) = tokio::join!(
            self.proxmox_page(cluster, node, secrets.as_ref().ok()),
            async {
                let nodes = Nodes::new(parts, secrets.as_ref().map_err(unseen)?)
                    .map_err(|error| NotSeen::Unseen(chain(&error)))?;
                Box::pin(self.talos_page(&nodes, node)).await
            },
            async {
                let kubernetes = Kubernetes::new(parts, secrets.as_ref().map_err(unseen)?)
                    .map_err(|error| NotSeen::Unseen(chain(&error)))?;
                self.kubernetes_page(&kubernetes, cluster, node).await
            },
        );
        let (proxmox, blocked) = Side::of(proxmox);
        NodeDetails {
            node: node.name.clone(),
            cluster: cluster.name.clone(),
            pool: node.pool.clone(),
            role: node.role,
            address: node.shown_address(),
            proxmox,
            talos: Side::of(talos).0,
            kubernetes: Side::of(kubernetes).0,
            blocked,
        }
    }
}
