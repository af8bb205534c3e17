//! Judges the machine configs of a cluster before anything is done: what a setting or a patch breaks is told at once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use daedal_inventory::{Cluster, Role};
use daedal_talos::SecretsBundle;
use jiff::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::error::Error;
use crate::machine;

/// Stands for an endpoint that nobody can know before the first control plane is up.
const UNKNOWN_ENDPOINT: &str = "endpoint.invalid";

/// Makes the machine config of every node, and what those of a role have in common, with secrets that nobody keeps, as [`Engine::execute`](crate::Engine::execute) will with
/// the real ones. An error is a config that would not be sent; what comes back deserves a second look, with the nodes it is about.
pub fn vet(cluster: &Cluster) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let failed = |source| Error::Credentials { source };
    // Always the same ones: they protect nothing, and a small key is made at once.
    let rng = &mut StdRng::seed_from_u64(0);
    let secrets = SecretsBundle::generate_with_key_size(rng, Timestamp::UNIX_EPOCH, 1024).map_err(failed)?;
    let mut doubts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let cluster = with_endpoint(cluster);
    for node in &cluster.nodes {
        for doubt in machine::judged(&cluster, node, &secrets)?.doubts {
            doubts.entry(doubt).or_default().push(node.name.clone());
        }
    }
    // What is doubtful about a card that only nodes have is no news here, and everything else was said of the nodes.
    for role in [Role::ControlPlane, Role::Worker] {
        machine::role_config(&cluster, role, &secrets)?;
    }
    Ok(doubts)
}

fn with_endpoint(cluster: &Cluster) -> Cow<'_, Cluster> {
    if cluster.kubernetes.endpoint_host.is_some() {
        return Cow::Borrowed(cluster);
    }
    let mut located = cluster.clone();
    located.kubernetes.endpoint_host = Some(UNKNOWN_ENDPOINT.to_owned());
    Cow::Owned(located)
}
