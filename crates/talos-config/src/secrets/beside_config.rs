//! A bundle beside the machine config that a node runs on: whether they are of the same cluster, secret by secret.

use base64::{Engine, engine::general_purpose::STANDARD};
use yaml_serde::Value;
use zeroize::Zeroizing;

use super::from_config::encryption;
use crate::{
    config::{MachineConfig, Role},
    pem,
    secrets::{EncryptionSecret, SecretsBundle},
};

/// Where a secret stands in a config: in the main document, or in one of its own from Talos 1.14 on.
struct Place<'a> {
    /// The bundle's name of it.
    field: &'static str,
    path: &'static str,
    kind: &'static str,
    inner: &'static str,
    ours: &'a str,
}

impl SecretsBundle {
    /// The secrets that a config holds otherwise than this bundle does, by the bundle's names of them.
    ///
    /// What a config does not hold is not compared, except on a control plane: it cannot do without the authorities and
    /// tokens, so one that is not found there is told as well.
    pub fn held_otherwise_by(&self, config: &MachineConfig) -> Vec<&'static str> {
        let needed = config.role() != Some(Role::Worker);
        let mut otherwise = Vec::new();
        for place in self.texts() {
            let theirs = config.text_or(place.path, place.kind, place.inner).filter(|text| !text.is_empty());
            // Without discovery a cluster may have no identity there.
            let needed = needed && !place.field.starts_with("cluster.");
            if theirs.map_or(needed, |theirs| theirs != place.ours) {
                otherwise.push(place.field);
            }
        }
        for place in self.pems() {
            let theirs = pem_of(config, &place);
            let same = theirs.as_ref().map(|theirs| is_same_pem(theirs, place.ours));
            if !same.unwrap_or(!needed) {
                otherwise.push(place.field);
            }
        }
        // From Talos 1.14 on a worker has Kubernetes' authority only among those that it accepts.
        let accepted =
            config.in_document("KubeAPIServerCAConfig", "acceptedCAs").and_then(Value::as_sequence);
        if let (false, None, Some(accepted)) = (needed, config.text("cluster.ca.crt"), accepted)
            && !accepted.iter().filter_map(Value::as_str).any(|one| is_same_pem(one, &self.k8s.crt))
        {
            otherwise.push("certs.k8s.crt");
        }
        // A cluster may encrypt what etcd holds in a way of its own.
        if let Ok(theirs) = encryption(config)
            && theirs != self.encryption
        {
            otherwise.push(match theirs {
                EncryptionSecret::Secretbox(_) => "secrets.secretboxencryptionsecret",
                EncryptionSecret::AesCbc(_) => "secrets.aescbcencryptionsecret",
            });
        }
        otherwise
    }

    fn texts(&self) -> [Place<'_>; 4] {
        let discovery = "DiscoveryIdentityConfig";
        [
            ("cluster.id", "cluster.id", discovery, "clusterID", self.cluster_id.as_str()),
            ("cluster.secret", "cluster.secret", discovery, "clusterSecret", self.cluster_secret.expose()),
            ("secrets.bootstraptoken", "cluster.token", "", "", self.bootstrap_token.expose()),
            ("trustdinfo.token", "machine.token", "", "", self.trustd_token.expose()),
        ]
        .map(Place::new)
    }

    fn pems(&self) -> [Place<'_>; 9] {
        let (api, aggregator, account) =
            ("KubeAPIServerCAConfig", "KubeAggregatorCAConfig", "KubeServiceAccountConfig");
        let (crt, key) = ("issuingCA.cert", "issuingCA.key");
        [
            ("certs.etcd.crt", "cluster.etcd.ca.crt", "", "", self.etcd.crt.as_str()),
            ("certs.etcd.key", "cluster.etcd.ca.key", "", "", self.etcd.key.expose()),
            ("certs.k8s.crt", "cluster.ca.crt", api, crt, self.k8s.crt.as_str()),
            ("certs.k8s.key", "cluster.ca.key", api, key, self.k8s.key.expose()),
            (
                "certs.k8saggregator.crt",
                "cluster.aggregatorCA.crt",
                aggregator,
                crt,
                &self.k8s_aggregator.crt,
            ),
            (
                "certs.k8saggregator.key",
                "cluster.aggregatorCA.key",
                aggregator,
                key,
                self.k8s_aggregator.key.expose(),
            ),
            (
                "certs.k8sserviceaccount.key",
                "cluster.serviceAccount.key",
                account,
                "issuer.privateKey",
                self.k8s_service_account.expose(),
            ),
            ("certs.os.crt", "machine.ca.crt", "", "", self.os.crt.as_str()),
            ("certs.os.key", "machine.ca.key", "", "", self.os.key.expose()),
        ]
        .map(Place::new)
    }
}

impl<'a> Place<'a> {
    fn new(
        (field, path, kind, inner, ours): (&'static str, &'static str, &'static str, &'static str, &'a str),
    ) -> Self {
        Self { field, path, kind, inner, ours }
    }
}

/// A PEM text of a config: plain in a document of its own, base64 in the main one. What is no base64 is nobody's PEM.
fn pem_of(config: &MachineConfig, place: &Place<'_>) -> Option<Zeroizing<String>> {
    let plain = config.in_document(place.kind, place.inner).and_then(Value::as_str);
    if let Some(plain) = plain.filter(|text| !text.is_empty()) {
        return Some(Zeroizing::new(plain.to_owned()));
    }
    let encoded = config.text(place.path).filter(|text| !text.is_empty())?;
    let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Some(Zeroizing::new(decoded.unwrap_or_default()))
}

/// Whether two PEM texts hold the same, however their lines are broken.
fn is_same_pem(one: &str, other: &str) -> bool {
    pem::decode(one).is_some_and(|(_, one)| pem::decode(other).is_some_and(|(_, other)| one == other))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;
    use crate::{
        config::{ClusterOptions, Contract, NodeOptions, Patch},
        secret::Secret,
        secrets::tests::test_bundle,
    };

    fn config(contract: &Contract, role: Role) -> MachineConfig {
        let talos = format!("v1.{}.0", contract.talos_minor);
        let kubernetes = format!("v1.{}.0", contract.kubernetes_minors.end());
        let cluster = ClusterOptions::new("home", "https://10.0.0.20:6443", talos, kubernetes);
        MachineConfig::generate(&test_bundle(), &cluster, &NodeOptions::new(role, "node-1")).unwrap()
    }

    /// Every secret exchanged by itself, with the names under which control planes and workers tell it.
    fn exchanged() -> Vec<(SecretsBundle, Vec<&'static str>, Vec<&'static str>)> {
        let rng = &mut StdRng::seed_from_u64(77);
        let other = SecretsBundle::generate_with_key_size(rng, Timestamp::UNIX_EPOCH, 512).unwrap();
        let with = |change: &dyn Fn(&mut SecretsBundle)| {
            let mut bundle = test_bundle();
            change(&mut bundle);
            bundle
        };
        let pair = |crt, key| vec![crt, key];
        let only = |field| vec![field];
        vec![
            (test_bundle(), vec![], vec![]),
            (with(&|b| b.cluster_id = other.cluster_id.clone()), only("cluster.id"), only("cluster.id")),
            (
                with(&|b| b.cluster_secret = other.cluster_secret.clone()),
                only("cluster.secret"),
                only("cluster.secret"),
            ),
            (
                with(&|b| b.bootstrap_token = other.bootstrap_token.clone()),
                only("secrets.bootstraptoken"),
                only("secrets.bootstraptoken"),
            ),
            (
                with(&|b| b.trustd_token = other.trustd_token.clone()),
                only("trustdinfo.token"),
                only("trustdinfo.token"),
            ),
            (
                with(&|b| b.encryption = other.encryption.clone()),
                only("secrets.secretboxencryptionsecret"),
                vec![],
            ),
            (with(&|b| b.etcd = other.etcd.clone()), pair("certs.etcd.crt", "certs.etcd.key"), vec![]),
            (
                with(&|b| b.k8s = other.k8s.clone()),
                pair("certs.k8s.crt", "certs.k8s.key"),
                only("certs.k8s.crt"),
            ),
            (
                with(&|b| b.k8s_aggregator = other.k8s_aggregator.clone()),
                pair("certs.k8saggregator.crt", "certs.k8saggregator.key"),
                vec![],
            ),
            (
                with(&|b| b.k8s_service_account = other.k8s_service_account.clone()),
                only("certs.k8sserviceaccount.key"),
                vec![],
            ),
            (with(&|b| b.os = other.os.clone()), pair("certs.os.crt", "certs.os.key"), only("certs.os.crt")),
        ]
    }

    #[test]
    fn every_secret_that_is_another_is_told_in_every_version() {
        for contract in Contract::all() {
            let (plane, worker) = (config(contract, Role::ControlPlane), config(contract, Role::Worker));
            for (bundle, of_plane, of_worker) in exchanged() {
                let minor = contract.talos_minor;
                assert_eq!(bundle.held_otherwise_by(&plane), of_plane, "v1.{minor}, control plane");
                assert_eq!(bundle.held_otherwise_by(&worker), of_worker, "v1.{minor}, worker");
            }
        }
    }

    #[test]
    fn what_a_control_plane_lacks_is_told_and_line_breaks_are_not() {
        let contract = Contract::of("v1.12.0").unwrap();
        let mut plane = config(contract, Role::ControlPlane);
        plane.apply_patch(&Patch::from_yaml("cluster: {etcd: {$patch: delete}}").unwrap()).unwrap();
        assert_eq!(test_bundle().held_otherwise_by(&plane), ["certs.etcd.crt", "certs.etcd.key"]);
        let mut bundle = test_bundle();
        bundle.os.crt = bundle.os.crt.replace('\n', "\r\n");
        bundle.os.key = Secret::new(bundle.os.key.expose().trim_end());
        assert!(bundle.held_otherwise_by(&config(contract, Role::Worker)).is_empty());
        assert!(bundle.held_otherwise_by(&config(contract, Role::ControlPlane)).is_empty());
    }
}
