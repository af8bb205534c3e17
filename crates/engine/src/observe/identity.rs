//! Which cluster a node is of: the secrets in the machine config that it runs on, beside a bundle.

use std::collections::BTreeMap;

use daedal_inventory::Cluster;
use daedal_planner::{TalosView, World};
use daedal_talos_config::{MachineConfig, SecretsBundle};
use futures::stream::{self, StreamExt};

use crate::engine::Engine;
use crate::error::{Error, chain};
use crate::nodes::{Former, Nodes, Peer};

/// What secrets a node runs on, beside those of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// On these: whatever its config holds is the bundle's.
    These,
    /// On others: the ones that differ, by the bundle's names of them.
    Others(Vec<&'static str>),
    /// Its config could not be read, and why.
    Unread(String),
}

impl Engine {
    /// Compares a bundle with the configs of all nodes that answered to it, declared or not, by name. To answer proves no more
    /// than the authority of the node API.
    pub async fn nodes_beside(
        &self,
        cluster: &Cluster,
        world: &World,
        secrets: &SecretsBundle,
    ) -> Result<BTreeMap<String, RunsOn>, Error> {
        let nodes = &Nodes::new(&self.parts, secrets)?;
        let cluster = cluster.located(&world.addresses);
        let answers = |talos: &TalosView| matches!(talos, TalosView::Configured { .. });
        let declared = cluster
            .nodes
            .iter()
            .filter(|node| world.nodes.get(&node.name).is_some_and(|view| answers(&view.talos)))
            .map(|node| Box::new(node.clone()) as Box<dyn Peer + Send>);
        let former =
            world.former.iter().filter(|(_, view)| answers(&view.talos)).filter_map(|(name, view)| {
                let address = view.address.as_ref()?.parse().ok()?;
                let called = view.called.clone().unwrap_or_else(|| name.clone());
                Some(Box::new(Former { name: name.clone(), address, called }) as Box<dyn Peer + Send>)
            });
        let peers: Vec<_> = declared.chain(former).collect();
        let asked = peers.into_iter().map(|peer| async move {
            let runs_on = match nodes.running_config(&*peer, self.parts.limits.probe_timeout).await {
                Ok(config) => match MachineConfig::from_yaml(config.expose()) {
                    Ok(config) => beside(secrets, &config),
                    Err(error) => RunsOn::Unread(chain(&error)),
                },
                Err(why) => RunsOn::Unread(why),
            };
            (peer.name().to_owned(), runs_on)
        });
        Ok(stream::iter(asked).buffer_unordered(self.parts.limits.probes).collect().await)
    }
}

fn beside(secrets: &SecretsBundle, config: &MachineConfig) -> RunsOn {
    match secrets.held_otherwise_by(config) {
        others if others.is_empty() => RunsOn::These,
        others => RunsOn::Others(others),
    }
}
