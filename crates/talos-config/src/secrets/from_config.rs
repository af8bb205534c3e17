//! A cluster's secrets taken back out of a control plane's machine config, for clusters whose bundle is lost.

use base64::{Engine, engine::general_purpose::STANDARD};
use yaml_serde::Value;

use crate::{
    Error, Result,
    config::{MachineConfig, Role},
    secret::Secret,
    secrets::{CertificateAndKey, EncryptionSecret, SecretsBundle},
};

fn missing(field: &str) -> Error {
    Error::Bundle { field: field.into(), reason: "is missing in the machine config".into() }
}

impl SecretsBundle {
    /// Reads the secrets out of a control plane's config, of any version. A worker's does not hold them.
    pub fn from_machine_config(config: &MachineConfig) -> Result<Self> {
        if config.role() != Some(Role::ControlPlane) {
            let reason = "is not `controlplane`: only a control plane's config holds every secret".into();
            return Err(Error::Bundle { field: "machine.type".into(), reason });
        }
        let text = |path: &str, kind: &str, inner: &str| -> Result<String> {
            let found = config.text_or(path, kind, inner).filter(|text| !text.is_empty());
            found.map(str::to_owned).ok_or_else(|| missing(path))
        };
        let decoded = |path: &str| -> Result<String> {
            let encoded = config.text(path).filter(|text| !text.is_empty()).ok_or_else(|| missing(path))?;
            let wrong = || Error::Bundle { field: path.into(), reason: "is not PEM in base64".into() };
            String::from_utf8(STANDARD.decode(encoded).map_err(|_| wrong())?).map_err(|_| wrong())
        };
        // Base64 in the main document, plain in documents.
        let pem = |path: &str, kind: &str, inner: &str| -> Result<String> {
            match config.in_document(kind, inner).and_then(Value::as_str) {
                Some(text) => Ok(text.to_owned()),
                None => decoded(path),
            }
        };
        let pair = |path: &str, kind: &str| -> Result<CertificateAndKey> {
            Ok(CertificateAndKey {
                crt: pem(&format!("{path}.crt"), kind, "issuingCA.cert")?,
                key: Secret::new(pem(&format!("{path}.key"), kind, "issuingCA.key")?),
            })
        };
        let bundle = Self {
            cluster_id: text("cluster.id", "DiscoveryIdentityConfig", "clusterID")?,
            cluster_secret: Secret::new(text("cluster.secret", "DiscoveryIdentityConfig", "clusterSecret")?),
            bootstrap_token: Secret::new(text("cluster.token", "", "")?),
            encryption: encryption(config)?,
            trustd_token: Secret::new(text("machine.token", "", "")?),
            etcd: pair("cluster.etcd.ca", "")?,
            k8s: pair("cluster.ca", "KubeAPIServerCAConfig")?,
            k8s_aggregator: pair("cluster.aggregatorCA", "KubeAggregatorCAConfig")?,
            k8s_service_account: Secret::new(pem(
                "cluster.serviceAccount.key",
                "KubeServiceAccountConfig",
                "issuer.privateKey",
            )?),
            os: pair("machine.ca", "")?,
        };
        bundle.validate()?;
        Ok(bundle)
    }
}

pub(super) fn encryption(config: &MachineConfig) -> Result<EncryptionSecret> {
    let of = |path: &str| config.text(path).filter(|text| !text.is_empty()).map(Secret::new);
    let (mut secretbox, mut aes_cbc) =
        (of("cluster.secretboxEncryptionSecret"), of("cluster.aescbcEncryptionSecret"));
    let keys = config
        .in_document("KubeEtcdEncryptionConfig", "config.resources")
        .and_then(Value::as_sequence)
        .into_iter()
        .flatten()
        .filter_map(|resource| resource.get("providers")?.as_sequence())
        .flatten()
        .filter_map(|provider| provider.get("secretbox")?.get("keys")?.as_sequence())
        .flatten();
    for key in keys {
        let place = match key.get("name").and_then(Value::as_str) {
            Some("key1") => &mut aes_cbc,
            _ => &mut secretbox,
        };
        *place = place.take().or_else(|| key.get("secret").and_then(Value::as_str).map(Secret::new));
    }
    match (secretbox, aes_cbc) {
        (Some(secret), None) => Ok(EncryptionSecret::Secretbox(secret)),
        (None, Some(secret)) => Ok(EncryptionSecret::AesCbc(secret)),
        (None, None) => Err(missing("cluster.secretboxEncryptionSecret")),
        // Talos reads with both and writes with the first, but its bundles have a place for one only. To drop the other
        // would make unreadable what it encrypted.
        (Some(_), Some(_)) => Err(Error::Bundle {
            field: "cluster.aescbcEncryptionSecret".into(),
            reason: "stands beside the key for secretbox, and a bundle holds one of them. Rewrite every Secret of \
                     the cluster (kubectl get secrets -A -o json | kubectl replace -f -), then take the older key out \
                     of the config"
                .into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{ClusterOptions, Contract, NodeOptions, Patch},
        secrets::tests::test_bundle,
    };

    fn config(minor: u32, kubernetes: u32, role: Role) -> MachineConfig {
        let (talos, kubernetes) = (format!("v1.{minor}.0"), format!("v1.{kubernetes}.0"));
        let cluster = ClusterOptions::new("home", "https://10.0.0.20:6443", talos, kubernetes);
        MachineConfig::generate(&test_bundle(), &cluster, &NodeOptions::new(role, "cp-1")).unwrap()
    }

    #[test]
    fn every_version_gives_the_secrets_back() {
        for contract in Contract::all() {
            let newest = *contract.kubernetes_minors.end();
            let made = config(contract.talos_minor, newest, Role::ControlPlane);
            let back = SecretsBundle::from_machine_config(&made).unwrap();
            assert_eq!(back, test_bundle(), "v1.{}", contract.talos_minor);
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let worker = config(12, 35, Role::Worker);
        let error = SecretsBundle::from_machine_config(&worker).unwrap_err().to_string();
        assert!(error.contains("machine.type"), "{error}");
        let mut broken = config(12, 35, Role::ControlPlane);
        broken.apply_patch(&Patch::from_yaml("cluster: {etcd: {$patch: delete}}").unwrap()).unwrap();
        let error = SecretsBundle::from_machine_config(&broken).unwrap_err().to_string();
        assert!(error.contains("`cluster.etcd.ca.crt` is missing"), "{error}");
    }

    #[test]
    fn two_keys_are_refused_rather_than_one_dropped() {
        let key = "aescbcEncryptionSecret: bm90aGluZ25vdGhpbmdub3RoaW5nbm90aGluZ25vdGg=";
        let mut both = config(12, 35, Role::ControlPlane);
        both.apply_patch(&Patch::from_yaml(&format!("cluster: {{{key}}}")).unwrap()).unwrap();
        let error = SecretsBundle::from_machine_config(&both).unwrap_err().to_string();
        assert!(error.contains("cluster.aescbcEncryptionSecret") && !error.contains("bm90"), "{error}");
        let older = "apiVersion: v1alpha1\nkind: KubeEtcdEncryptionConfig\nconfig: {resources: [{resources: [secrets], \
                     providers: [{secretbox: {keys: [{name: key1, secret: bm90}]}}]}]}";
        let mut both = config(14, 37, Role::ControlPlane);
        both.apply_patch(&Patch::from_yaml(older).unwrap()).unwrap();
        let error = SecretsBundle::from_machine_config(&both).unwrap_err().to_string();
        assert!(error.contains("cluster.aescbcEncryptionSecret"), "{error}");
    }
}
