//! The Kubernetes side: a client over dialled streams with credentials minted from the secrets, and a shared watch.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daedal_dial::{Bounded, Bounds, Connector, Dialer, Target, is_of_another_authority, tls_error};
use daedal_talos_config::SecretsBundle;
use daedal_talos_config::pki::{Leaf, Usage, certificate_from_pem};
use futures::TryStreamExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioExecutor;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::client::{Body, middleware::BaseUriLayer};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::UnixTime;
use tower::Layer;
use tower::util::MapResponseLayer;
use uuid::Uuid;

use crate::clock::Clock;
use crate::engine::Parts;
use crate::error::Error;
use crate::node_identities::{KubeNodes, NodeIdentities};

/// Where every control plane's own API server listens, whatever the endpoint's port is.
pub(crate) const API_SERVER_PORT: u16 = 6443;

/// How long the credentials minted for one run last.
const LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);

/// What Kubernetes says of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KubeNode {
    /// Its Ready condition.
    pub(crate) ready: bool,
    /// When it last reported that.
    pub(crate) heartbeat: Option<Timestamp>,
    /// Which boot of its machine reported.
    pub(crate) boot: Option<String>,
    /// Kubelet version.
    pub(crate) kubelet: String,
    /// Its addresses inside the cluster, best first.
    pub(crate) addresses: Vec<IpAddr>,
    /// Its machine's uuid, where it tells.
    pub(crate) machine: Option<Uuid>,
    /// Whether it says that it is a control plane.
    pub(crate) control_plane: bool,
}

/// Makes clients for any address of one cluster's API servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Kubernetes {
    dialer: Dialer,
    tls: Arc<ClientConfig>,
}

/// The checks that fail, from the page of `/readyz`: some three dozen lines, of which those with a minus matter.
fn unready(page: &str) -> Vec<String> {
    let failed = page.lines().filter_map(|line| line.strip_prefix("[-]"));
    failed.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

impl Kubernetes {
    /// Mints an administrator's certificate and trusts the cluster's own authority only.
    pub(crate) fn new(parts: &Parts, secrets: &SecretsBundle) -> Result<Self, Error> {
        let (now, rng) = (parts.clock.now(), &mut parts.entropy.generator());
        let talos = |source| daedal_machine::Error::Credentials { source };
        let leaf = Leaf {
            common_name: Some("admin".into()),
            organization: Some("system:masters".into()),
            names: Vec::new(),
            usage: Usage::KubernetesClient,
            not_before: now - SignedDuration::from_secs(10),
            not_after: now + LIFETIME,
        };
        let identity =
            secrets.k8s.authority().and_then(|authority| authority.issue(&leaf, rng)).map_err(talos)?;
        let certificate = certificate_from_pem(&identity.certificate).map_err(talos)?;
        let authority = certificate_from_pem(&secrets.k8s.crt).map_err(talos)?;
        let tls = |source| Error::Tls { source };
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(tls)?;
        let config =
            ClientConfig::builder_with_details(daedal_dial::provider(), Arc::new(Time(parts.clock.clone())))
                .with_safe_default_protocol_versions()
                .map_err(tls)?
                .with_root_certificates(roots)
                .with_client_auth_cert(vec![certificate], identity.key.to_der())
                .map_err(tls)?;
        Ok(Self { dialer: parts.routes.kubernetes.clone(), tls: Arc::new(config) })
    }

    /// A client of the API server at `target`.
    pub(crate) fn client(&self, target: &Target) -> Result<kube::Client, Error> {
        let base = format!("https://{target}")
            .parse::<http::Uri>()
            .map_err(|source| Error::Address { text: target.to_string(), source })?;
        let connector = Connector::new(self.dialer.clone()).to(target.clone()).tls(self.tls.clone(), None);
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .build::<_, Body>(connector);
        // A compromised API server must not be able to fill our memory.
        let bounded = MapResponseLayer::new(|answer: http::Response<Incoming>| {
            answer.map(|body| Bounded::new(body, Bounds::LIST))
        });
        Ok(kube::Client::new(bounded.layer(BaseUriLayer::new(base).layer(http)), "default"))
    }

    /// Whether the API server at `target` is ready to serve, within `patience`.
    pub(crate) async fn answers(&self, target: &Target, patience: Duration) -> Result<(), Error> {
        let client = self.client(target)?;
        let request =
            http::Request::get("/readyz").body(Vec::new()).map_err(|source| Error::Request { source })?;
        let asked = tokio::time::timeout(patience, client.request_text(request)).await;
        let what = format!("ask the API server at {target} whether it is ready");
        match asked {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if !unready(&status.message).is_empty() => {
                Err(Error::ApiNotReady { target: target.to_string(), checks: unready(&status.message) })
            }
            Ok(Err(source)) => Err(failure(what, target, source)),
            Err(_) => Err(Error::Deadline {
                what: format!("the API server at {target}"),
                after: patience,
                last: None,
            }),
        }
    }

    /// All nodes, from the API server at `target`.
    pub(crate) async fn nodes(
        &self,
        target: &Target,
        identities: &NodeIdentities,
        patience: Duration,
    ) -> Result<KubeNodes, Error> {
        let api: Api<Node> = Api::all(self.client(target)?);
        let what = format!("list nodes at {target}");
        match tokio::time::timeout(patience, api.list(&ListParams::default())).await {
            Ok(Ok(list)) => Ok(KubeNodes::new(list.items.iter().filter_map(seen), identities)),
            Ok(Err(source)) => Err(failure(what, target, source)),
            Err(_) => Err(Error::Deadline {
                what: format!("the API server at {target}"),
                after: patience,
                last: None,
            }),
        }
    }

    /// One node's object as the API server at `target` has it, under whatever name; none if it does not know it.
    pub(crate) async fn node(
        &self,
        target: &Target,
        node: &str,
        identities: &NodeIdentities,
        patience: Duration,
    ) -> Result<Option<Node>, Error> {
        let api: Api<Node> = Api::all(self.client(target)?);
        match tokio::time::timeout(patience, api.list(&ListParams::default())).await {
            Ok(Ok(list)) => {
                let known = KubeNodes::new(list.items.iter().filter_map(seen), identities);
                let name = known.of(node).map(|(name, _)| name.to_owned());
                Ok(list.items.into_iter().find(|one| name.is_some() && one.metadata.name == name))
            }
            Ok(Err(source)) => Err(failure(format!("read node {node} at {target}"), target, source)),
            Err(_) => Err(late(target, patience)),
        }
    }

    /// Lists nodes at `target`, so that they can be followed from there.
    pub(crate) async fn begin(
        &self,
        target: &Target,
        identities: &NodeIdentities,
        patience: Duration,
    ) -> Result<Beginning, Error> {
        let api: Api<Node> = Api::all(self.client(target)?);
        let list = tokio::time::timeout(patience, api.list(&ListParams::default()))
            .await
            .map_err(|_| late(target, patience))?
            .map_err(|source| failed(target, source))?;
        Ok(Beginning {
            nodes: KubeNodes::new(list.items.iter().filter_map(seen), identities),
            version: list.metadata.resource_version.unwrap_or_else(|| "0".into()),
            target: target.clone(),
            api,
        })
    }
}

/// For how long a watch may say nothing: the server ends one after sixty seconds.
const SILENCE: Duration = Duration::from_secs(75);

/// A list of nodes from which they can be followed.
pub(crate) struct Beginning {
    api: Api<Node>,
    target: Target,
    nodes: KubeNodes,
    version: String,
}

impl Beginning {
    /// Watches nodes, publishing every change, until the connection ends or goes quiet.
    pub(crate) async fn follow(
        self,
        identities: &NodeIdentities,
        patience: Duration,
        publish: &tokio::sync::watch::Sender<Followed>,
    ) -> Result<(), Error> {
        let Self { api, target, nodes, version } = self;
        let failed = |source| failed(&target, source);
        let late = || late(&target, patience);
        publish.send_modify(|followed| *followed = Followed { nodes, ..Followed::default() });
        // The server ends a watch by itself well before a silent connection would be noticed.
        let params = WatchParams::default().timeout(60);
        let opened =
            tokio::time::timeout(patience, api.watch(&params, &version)).await.map_err(|_| late())?;
        let mut events = std::pin::pin!(opened.map_err(failed)?);
        loop {
            let next = tokio::time::timeout(SILENCE, events.try_next()).await;
            match next.map_err(|_| self::late(&target, SILENCE))?.map_err(failed)? {
                None => return Ok(()),
                Some(WatchEvent::Added(node) | WatchEvent::Modified(node)) => {
                    publish.send_modify(|followed| {
                        seen(&node)
                            .into_iter()
                            .for_each(|(name, node)| followed.nodes.put(name, node, identities));
                    });
                }
                Some(WatchEvent::Deleted(node)) => publish.send_modify(|followed| {
                    followed.nodes.remove(node.metadata.name.as_deref().unwrap_or_default());
                }),
                // Too old a version, or the like: list again.
                Some(WatchEvent::Error(_)) => return Ok(()),
                Some(WatchEvent::Bookmark(_)) => {}
            }
        }
    }
}

fn failed(target: &Target, source: kube::Error) -> Error {
    failure(format!("watch nodes at {target}"), target, source)
}

/// Why something failed. Whoever is not of the kept authority will not become so by waiting.
fn failure(what: String, target: &Target, source: kube::Error) -> Error {
    match tls_error(&source).is_some_and(is_of_another_authority) {
        true => Error::OtherAuthority { target: target.to_string() },
        false => Error::Kubernetes { what, source: Box::new(source) },
    }
}

fn late(target: &Target, patience: Duration) -> Error {
    Error::Deadline { what: format!("news of nodes from {target}"), after: patience, last: None }
}

/// The engine's clock, by which certificates are judged too.
struct Time(Arc<dyn Clock>);

impl std::fmt::Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Time")
    }
}

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// What a follower of the nodes knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Followed {
    /// The nodes as last seen.
    pub(crate) nodes: KubeNodes,
    /// Why nothing is seen at the moment.
    pub(crate) trouble: Option<String>,
    /// An API server of another authority, if all are: nothing will be seen.
    pub(crate) stranger: Option<String>,
}

fn seen(node: &Node) -> Option<(String, KubeNode)> {
    let name = node.metadata.name.clone()?;
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let condition = conditions.clone().find(|one| one.type_ == "Ready");
    let ready = condition.is_some_and(|one| one.status == "True");
    let heartbeat = condition.and_then(|one| one.last_heartbeat_time.as_ref()).map(|time| time.0);
    let info = status.and_then(|status| status.node_info.as_ref());
    let boot = info.map(|info| info.boot_id.clone()).filter(|boot| !boot.is_empty());
    let kubelet = info.map(|info| info.kubelet_version.clone()).unwrap_or_default();
    let addresses = status.and_then(|status| status.addresses.as_ref()).into_iter().flatten();
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    let addresses = internal.filter_map(|address| address.address.parse().ok()).collect();
    let machine = info.and_then(|info| info.system_uuid.parse().ok());
    let labels = node.metadata.labels.as_ref();
    let control_plane = labels.is_some_and(|all| all.contains_key("node-role.kubernetes.io/control-plane"));
    Some((name, KubeNode { ready, heartbeat, boot, kubelet, addresses, machine, control_plane }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_page_of_checks_only_those_that_fail_are_told() {
        let page = "[+]ping ok\n[-]informer-sync failed: reason withheld\n[+]etcd ok\n\
                    [-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nreadyz check failed";
        let checks = unready(page);
        assert_eq!(checks, ["informer-sync", "poststarthook/rbac/bootstrap-roles"]);
        let error = Error::ApiNotReady { target: "10.0.0.1:6443".into(), checks };
        let told = "the API server at 10.0.0.1:6443 is not ready: informer-sync is not, nor are 1 more";
        assert_eq!(error.to_string(), told);
        assert!(unready("Unauthorized").is_empty());
    }
}
