//! What people reach a cluster with: talosconfig and kubeconfig, minted from the secrets bundle without asking anybody.

use daedal_inventory::{Cluster, Reach};
use daedal_talos_config::{ApiRole, KubeconfigOptions, Secret, SecretsBundle, Talosconfig};
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;

/// Client certificates are renewed when less than this is left of them, or a third of their life where that is less.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(60 * 24);

/// A talosconfig for a role.
pub fn talosconfig(
    cluster: &Cluster,
    secrets: &SecretsBundle,
    role: ApiRole,
    lifetime: SignedDuration,
    rng: &mut StdRng,
    now: Timestamp,
) -> Result<Secret, Error> {
    let credentials = |source| Error::Credentials { source };
    let address = |node: &daedal_inventory::Node| Some(node.ip()?.to_string());
    let file = Talosconfig {
        context: cluster.name.clone(),
        endpoints: cluster.control_planes().filter_map(address).collect(),
        nodes: cluster.control_planes().filter_map(address).take(1).collect(),
        credentials: secrets.client_credentials(role, lifetime, rng, now).map_err(credentials)?,
    };
    file.to_yaml().map_err(credentials)
}

/// An admin kubeconfig.
pub fn kubeconfig(
    cluster: &Cluster,
    secrets: &SecretsBundle,
    lifetime: SignedDuration,
    rng: &mut StdRng,
    now: Timestamp,
) -> Result<Secret, Error> {
    let options = KubeconfigOptions {
        cluster: cluster.name.clone(),
        server: cluster.kubernetes.endpoint_url().ok_or(Error::Unlocated)?,
        proxy_url: match (cluster.outputs.kubeconfig_proxy, &cluster.reach) {
            (Some(port), _) => Some(format!("http://127.0.0.1:{port}")),
            (None, Reach::Proxy(url)) => Some(url.clone()),
            // Where that is declared, a local proxy leads there: `daedal proxy`.
            (None, Reach::Direct | Reach::Ssh(_)) => None,
        },
    };
    secrets.kubeconfig(&options, lifetime, rng, now).map_err(|source| Error::Credentials { source })
}

/// The client certificate in an output file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    /// The file: `talosconfig` or `kubeconfig`.
    pub file: String,
    /// When its certificate ends.
    #[schemars(with = "String")]
    pub ends: Timestamp,
    /// Whether it has ended or will soon: the next apply renews it.
    pub due: bool,
}

impl Credential {
    /// Judges a certificate by how much of its life is left.
    pub fn judge(file: &str, (begins, ends): (Timestamp, Timestamp), now: Timestamp) -> Self {
        let margin = RENEW_BEFORE.min(ends.duration_since(begins) / 3);
        Self { file: file.to_owned(), ends, due: ends.duration_since(now) <= margin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_due_two_months_before_its_end_or_in_its_last_third() {
        let born = Timestamp::from_second(1_800_000_000).unwrap();
        let due = |life_hours: i64, age_hours: i64| {
            let ends = born + SignedDuration::from_hours(life_hours);
            Credential::judge("talosconfig", (born, ends), born + SignedDuration::from_hours(age_hours)).due
        };
        assert!(!due(8760, 0) && !due(8760, 8760 - 60 * 24 - 1) && due(8760, 8760 - 60 * 24));
        assert!(!due(9, 5) && due(9, 6) && due(9, 1000));
    }
}
