//! What people and programs use to reach a cluster: Talos client credentials, talosconfig, admin kubeconfig.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use rand::{CryptoRng, RngCore};
use serde::Serialize;
use yaml_serde::Value;
use zeroize::Zeroizing;

use crate::{
    Error, Result,
    pki::{self, Leaf, Usage},
    secret::Secret,
    secrets::SecretsBundle,
};

/// How long credentials last when nothing else is said.
pub const DEFAULT_LIFETIME: SignedDuration = SignedDuration::from_hours(8_760);

/// What a client of the node API may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiRole {
    /// Everything.
    Admin,
    /// Everything but secrets and configuration.
    Operator,
    /// Reading.
    Reader,
    /// Taking etcd snapshots.
    EtcdBackup,
}

impl ApiRole {
    /// The role as the certificate's organization says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "os:admin",
            Self::Operator => "os:operator",
            Self::Reader => "os:reader",
            Self::EtcdBackup => "os:etcd:backup",
        }
    }

    /// Every role there is.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Operator, Self::Reader, Self::EtcdBackup];

    /// The role of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// What a client of the node API shows and trusts, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentials {
    /// Authority that the node's certificate must come from.
    pub ca: String,
    /// The client's certificate.
    pub crt: String,
    /// The client's key.
    pub key: Secret,
}

impl ClientCredentials {
    /// When the certificate ends.
    pub fn expires_at(&self) -> Result<Timestamp> {
        pki::expires_at(&pki::certificate_from_pem(&self.crt)?)
    }

    /// From when to when the certificate is valid.
    pub fn validity(&self) -> Result<(Timestamp, Timestamp)> {
        pki::validity(&pki::certificate_from_pem(&self.crt)?)
    }
}

impl SecretsBundle {
    /// Mints credentials for the node API.
    pub fn client_credentials<R: RngCore + CryptoRng>(
        &self,
        role: ApiRole,
        lifetime: SignedDuration,
        rng: &mut R,
        now: Timestamp,
    ) -> Result<ClientCredentials> {
        let leaf = Leaf {
            common_name: None,
            organization: Some(role.as_str().into()),
            names: Vec::new(),
            usage: Usage::Client,
            not_before: now,
            not_after: pki::after(now, lifetime)?,
        };
        let identity = self.os.authority()?.issue(&leaf, rng)?;
        Ok(ClientCredentials {
            ca: self.os.crt.clone(),
            crt: identity.certificate,
            key: identity.key.to_pem(),
        })
    }

    /// Mints an admin kubeconfig.
    pub fn kubeconfig<R: RngCore + CryptoRng>(
        &self,
        options: &KubeconfigOptions,
        lifetime: SignedDuration,
        rng: &mut R,
        now: Timestamp,
    ) -> Result<Secret> {
        let leaf = Leaf {
            common_name: Some("admin".into()),
            organization: Some("system:masters".into()),
            names: Vec::new(),
            usage: Usage::KubernetesClient,
            not_before: pki::after(now, SignedDuration::from_secs(-10))?,
            not_after: pki::after(now, lifetime)?,
        };
        let identity = self.k8s.authority()?.issue(&leaf, rng)?;
        let user = format!("admin@{}", options.cluster);
        let file = Kubeconfig {
            api_version: "v1",
            kind: "Config",
            clusters: [Named {
                name: options.cluster.clone(),
                value: NamedKind::Cluster(KubeCluster {
                    server: options.server.clone(),
                    certificate_authority_data: STANDARD.encode(&self.k8s.crt),
                    proxy_url: options.proxy_url.clone(),
                }),
            }],
            users: [Named {
                name: user.clone(),
                value: NamedKind::User(KubeUser {
                    client_certificate_data: STANDARD.encode(&identity.certificate),
                    client_key_data: Zeroizing::new(STANDARD.encode(identity.key.to_pem().expose())),
                }),
            }],
            contexts: [Named {
                name: user.clone(),
                value: NamedKind::Context(KubeContext {
                    cluster: options.cluster.clone(),
                    namespace: "default",
                    user: user.clone(),
                }),
            }],
            current_context: user,
        };
        yaml_serde::to_string(&file).map(Secret::new).map_err(Error::Yaml)
    }
}

/// From when to when the client certificate of a kubeconfig's first user is valid.
pub fn kubeconfig_validity(text: &str) -> Result<(Timestamp, Timestamp)> {
    let fault = |reason: &str| Error::Certificate { reason: reason.into() };
    let root: Value = yaml_serde::from_str(text).map_err(|_| fault("the kubeconfig is not valid YAML"))?;
    let encoded = root
        .get("users")
        .and_then(|users| users.get(0)?.get("user")?.get("client-certificate-data")?.as_str())
        .ok_or_else(|| fault("the kubeconfig has no client certificate"))?;
    let pem = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pem = pem.ok_or_else(|| fault("the kubeconfig's client certificate is not PEM in base64"))?;
    pki::validity(&pki::certificate_from_pem(&pem)?)
}

/// What an admin kubeconfig says besides its credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigOptions {
    /// The cluster's name; the user and context are called `admin@<cluster>`.
    pub cluster: String,
    /// `https://…:6443`.
    pub server: String,
    /// A proxy that clients should use, as `http://…` or `socks5://…`.
    pub proxy_url: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Kubeconfig {
    api_version: &'static str,
    kind: &'static str,
    clusters: [Named; 1],
    users: [Named; 1],
    contexts: [Named; 1],
    #[serde(rename = "current-context")]
    current_context: String,
}

#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    value: NamedKind,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum NamedKind {
    Cluster(KubeCluster),
    User(KubeUser),
    Context(KubeContext),
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct KubeCluster {
    server: String,
    certificate_authority_data: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_url: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct KubeUser {
    client_certificate_data: String,
    #[serde(serialize_with = "exposed")]
    client_key_data: Zeroizing<String>,
}

#[derive(Serialize)]
struct KubeContext {
    cluster: String,
    namespace: &'static str,
    user: String,
}

fn exposed<S: serde::Serializer>(text: &Zeroizing<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// A talosconfig with one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Talosconfig {
    /// Name of the context: the cluster's.
    pub context: String,
    /// Addresses of nodes to connect to (control planes).
    pub endpoints: Vec<String>,
    /// Nodes that commands are for when none is given.
    pub nodes: Vec<String>,
    /// What to show and trust.
    pub credentials: ClientCredentials,
}

#[derive(Serialize)]
struct TalosconfigContext {
    endpoints: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
    ca: String,
    crt: String,
    #[serde(serialize_with = "exposed")]
    key: Zeroizing<String>,
}

impl Talosconfig {
    /// Writes the file that talosctl reads.
    pub fn to_yaml(&self) -> Result<Secret> {
        let context = TalosconfigContext {
            endpoints: self.endpoints.clone(),
            nodes: self.nodes.clone(),
            ca: STANDARD.encode(&self.credentials.ca),
            crt: STANDARD.encode(&self.credentials.crt),
            key: Zeroizing::new(STANDARD.encode(self.credentials.key.expose())),
        };
        #[derive(Serialize)]
        struct File<'a> {
            context: &'a str,
            contexts: indexmap::IndexMap<&'a str, TalosconfigContext>,
        }
        let file = File { context: &self.context, contexts: [(self.context.as_str(), context)].into() };
        yaml_serde::to_string(&file).map(Secret::new).map_err(Error::Yaml)
    }

    /// Reads the current context of a talosconfig.
    pub fn from_yaml(text: &str) -> Result<Self> {
        let fault =
            |field: &str, reason: &str| Error::Talosconfig { field: field.into(), reason: reason.into() };
        let root: Value = yaml_serde::from_str(text).map_err(|_| fault(".", "is not valid YAML"))?;
        let context =
            root.get("context").and_then(Value::as_str).ok_or_else(|| fault("context", "is missing"))?;
        let path = format!("contexts.{context}");
        let section = root
            .get("contexts")
            .and_then(|contexts| contexts.get(context))
            .ok_or_else(|| fault(&path, "is missing"))?;
        let list = |name: &str| -> Vec<String> {
            let items = section.get(name).and_then(Value::as_sequence);
            items.into_iter().flatten().filter_map(|item| item.as_str().map(Into::into)).collect()
        };
        let decoded = |name: &str| -> Result<Secret> {
            let field = format!("{path}.{name}");
            let text =
                section.get(name).and_then(Value::as_str).ok_or_else(|| fault(&field, "is missing"))?;
            let bytes =
                STANDARD.decode(text).map(Zeroizing::new).map_err(|_| fault(&field, "is not base64"))?;
            std::str::from_utf8(&bytes).map(Secret::new).map_err(|_| fault(&field, "is not PEM"))
        };
        Ok(Self {
            context: context.into(),
            endpoints: list("endpoints"),
            nodes: list("nodes"),
            credentials: ClientCredentials {
                ca: decoded("ca")?.expose().into(),
                crt: decoded("crt")?.expose().into(),
                key: decoded("key")?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;
    use crate::secrets::tests::{now, test_bundle};

    #[test]
    fn roles_are_called_as_talos_calls_them() {
        for role in ApiRole::ALL {
            assert_eq!(ApiRole::parse(role.as_str()), Some(role));
            let rng = &mut StdRng::seed_from_u64(2);
            let ttl = SignedDuration::from_hours(8);
            let minted = test_bundle().client_credentials(role, ttl, rng, now()).unwrap();
            let der = pki::certificate_from_pem(&minted.crt).unwrap();
            assert_eq!(pki::parse(&der).unwrap().subject().to_string(), format!("O={}", role.as_str()));
            assert_eq!(minted.validity().unwrap(), (now(), now() + ttl));
        }
        assert_eq!(ApiRole::parse("admin"), None);
    }

    #[test]
    fn talosconfig_survives_the_file_and_carries_the_role() {
        let bundle = test_bundle();
        let credentials = bundle
            .client_credentials(ApiRole::Admin, DEFAULT_LIFETIME, &mut StdRng::seed_from_u64(1), now())
            .unwrap();
        assert_eq!(credentials.expires_at().unwrap(), now() + DEFAULT_LIFETIME);
        let der = pki::certificate_from_pem(&credentials.crt).unwrap();
        let parsed = pki::parse(&der).unwrap();
        assert_eq!(parsed.subject().to_string(), "O=os:admin");
        let authority = pki::certificate_from_pem(&bundle.os.crt).unwrap();
        let extended = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.client_auth && !extended.server_auth);
        assert_eq!(parsed.issuer(), pki::parse(&authority).unwrap().subject());

        let file = Talosconfig {
            context: "home".into(),
            endpoints: vec!["10.0.0.11".into()],
            nodes: Vec::new(),
            credentials,
        };
        let text = file.to_yaml().unwrap();
        assert_eq!(Talosconfig::from_yaml(text.expose()).unwrap(), file);
        assert!(!text.expose().contains("nodes"));
        let error = Talosconfig::from_yaml("context: home\ncontexts: {home: {ca: '!'}}").unwrap_err();
        assert!(error.to_string().contains("contexts.home.ca"), "{error}");
    }

    #[test]
    fn kubeconfig_is_an_admins() {
        let options = KubeconfigOptions {
            cluster: "home".into(),
            server: "https://10.0.0.20:6443".into(),
            proxy_url: Some("socks5://127.0.0.1:1080".into()),
        };
        let rng = &mut StdRng::seed_from_u64(1);
        let text = test_bundle().kubeconfig(&options, DEFAULT_LIFETIME, rng, now()).unwrap();
        let file: Value = yaml_serde::from_str(text.expose()).unwrap();
        assert_eq!(file["current-context"], "admin@home");
        assert_eq!(file["clusters"][0]["cluster"]["proxy-url"], "socks5://127.0.0.1:1080");
        assert_eq!(file["contexts"][0]["context"]["user"], file["users"][0]["name"]);
        let crt = file["users"][0]["user"]["client-certificate-data"].as_str().unwrap();
        let crt = String::from_utf8(STANDARD.decode(crt).unwrap()).unwrap();
        let der = pki::certificate_from_pem(&crt).unwrap();
        let parsed = pki::parse(&der).unwrap();
        let validity = kubeconfig_validity(text.expose()).unwrap();
        assert_eq!(validity, (now() - SignedDuration::from_secs(10), now() + DEFAULT_LIFETIME));
        assert!(kubeconfig_validity("users: []").is_err());
        assert_eq!(parsed.subject().to_string(), "O=system:masters, CN=admin");
        assert_eq!(parsed.validity().not_before.timestamp(), now().as_second() - 10);
        assert!(parsed.key_usage().unwrap().unwrap().value.key_encipherment());
    }
}
