//! The nodes' Talos API, spoken over mTLS with credentials minted from the secrets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daedal_dial::{Dialer, Target};
use daedal_inventory::Node;
use daedal_talos::client::{
    self, Bootstrap, Client, ConnectOptions, EtcdMember, FailureKind, ResourceEvents,
};
use daedal_talos::{ApiRole, ClientCredentials, Error as TalosError, SecretsBundle};
use jiff::SignedDuration;
use rand::rngs::StdRng;

use crate::clock::Clock;
use crate::error::{Error, chain};

/// Where every node's API listens.
const API_PORT: u16 = 50_000;
/// How long the credentials minted for one run last.
const LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A member that boots also says for a moment that its etcd is being prepared; one that still says so after this long
/// waits to be bootstrapped or taken in.
pub(crate) const PREPARING_PASSES: Duration = Duration::from_secs(3);

/// What a node's API says of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Answers over mTLS with our keys.
    Configured { version: String, stage: String },
    /// Answers without a client certificate: it has no config.
    Maintenance,
    /// Has a config of another cluster.
    OtherCluster,
    /// Does not answer, and why.
    Unreachable(String),
}

/// What a control plane says of etcd.
#[derive(Clone, Debug)]
pub(crate) enum Membership {
    /// It is in one, with these members.
    Of(Vec<Member>),
    /// It answers, and its etcd waits to be bootstrapped or taken in.
    NotJoined(String),
    /// It does not say.
    Unreachable(String),
}

/// One etcd member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its node's name; empty until it has started.
    pub(crate) name: String,
    /// It may not vote yet.
    pub(crate) learner: bool,
}

/// No call takes longer. A node waits up to five seconds for its clock before it answers a bootstrap.
const LONGEST_CALL: Duration = Duration::from_secs(15);

/// How a node took the bootstrap call.
#[derive(Debug)]
pub(crate) enum Bootstrapped {
    /// etcd starts now.
    Accepted,
    /// It has etcd data: it was done before.
    Already,
    /// It cannot yet, and did nothing.
    NotYet(String),
    /// It will not.
    Refused(TalosError),
    /// The answer was lost: it may have happened.
    Unknown(String),
}

/// Speaks to any node of one cluster. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Nodes {
    dialer: Dialer,
    credentials: ClientCredentials,
    clock: client::Clock,
    open: Arc<Mutex<HashMap<String, Client>>>,
}

impl Nodes {
    /// Mints an administrator's certificate.
    pub(crate) fn new(
        dialer: Dialer,
        secrets: &SecretsBundle,
        rng: &mut StdRng,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        // Clocks of nodes that just booted may be a little behind.
        let from = clock.now() - SignedDuration::from_secs(60);
        let credentials = secrets
            .client_credentials(ApiRole::Admin, LIFETIME, rng, from)
            .map_err(|source| Error::Credentials { source })?;
        let clock = clock.clone();
        Ok(Self { dialer, credentials, clock: Arc::new(move || clock.now()), open: Arc::default() })
    }

    fn target(node: &Node) -> Target {
        Target::new(node.address.addr().to_string(), API_PORT)
    }

    fn options(&self, patience: Duration) -> ConnectOptions {
        ConnectOptions {
            connect_timeout: patience,
            // Who asks bounds the call himself; the connection outlives him, and the next may have more patience.
            call_timeout: patience.max(LONGEST_CALL),
            clock: Some(self.clock.clone()),
            ..ConnectOptions::default()
        }
    }

    /// A connection to a node: the one there is, or a new one.
    async fn connect(&self, node: &Node, patience: Duration) -> Result<Client, TalosError> {
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&node.name).cloned();
        if let Some(client) = known {
            return Ok(client);
        }
        let options = self.options(patience);
        let client =
            Client::connect(self.dialer.clone(), Self::target(node), &self.credentials, &options).await?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(node.name.clone(), client.clone());
        Ok(client)
    }

    /// Forgets a connection on which a call did not come through.
    fn forget(&self, node: &Node) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&node.name);
    }

    /// Opens a new connection. A node that lets one be opened has our config: its certificate is of our authority.
    pub(crate) async fn reach(&self, node: &Node, patience: Duration) -> Result<(), Probe> {
        let options = self.options(patience);
        let opening = Client::connect(self.dialer.clone(), Self::target(node), &self.credentials, &options);
        match opening.await {
            Ok(client) => {
                self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(node.name.clone(), client);
                Ok(())
            }
            Err(error) => Err(self.explain(node, &error, patience).await),
        }
    }

    /// Follows a control plane's etcd service: what it is now, then every change.
    pub(crate) async fn follow_etcd(
        &self,
        node: &Node,
        patience: Duration,
    ) -> Result<ResourceEvents, TalosError> {
        let client = self.connect(node, patience).await?;
        client.watch("runtime", "Services.v1alpha1.talos.dev", Some("etcd")).await
    }

    /// What answers at a node's address.
    pub(crate) async fn probe(&self, node: &Node, patience: Duration) -> Probe {
        let ask = async {
            let client = self.connect(node, patience).await?;
            let version = client.version().await?;
            let stage = client.machine_status().await?.map(|status| status.stage).unwrap_or_default();
            Ok::<_, TalosError>((version.tag, stage))
        };
        let error = match tokio::time::timeout(patience, ask).await {
            Ok(Ok((version, stage))) => return Probe::Configured { version, stage },
            Ok(Err(error)) => error,
            Err(_) => {
                self.forget(node);
                return Probe::Unreachable("no answer in time".to_owned());
            }
        };
        self.forget(node);
        self.explain(node, &error, patience).await
    }

    /// What a failed call says of the node.
    async fn explain(&self, node: &Node, error: &TalosError, patience: Duration) -> Probe {
        // A certificate that is not ours is another cluster's, or that of a node without a config.
        if error.kind() != Some(FailureKind::OtherCluster) {
            return Probe::Unreachable(chain(error));
        }
        let options = self.options(patience);
        let look = client::probe(self.dialer.clone(), Self::target(node), &self.credentials, &options);
        match tokio::time::timeout(patience, look).await {
            Ok(Ok(client::Probe::Maintenance { .. })) => Probe::Maintenance,
            Ok(Ok(client::Probe::OtherCluster { .. })) => Probe::OtherCluster,
            Ok(Ok(client::Probe::Configured)) => Probe::Unreachable(chain(error)),
            Ok(Ok(client::Probe::Unreachable(error)) | Err(error)) => Probe::Unreachable(chain(&error)),
            Err(_) => Probe::Unreachable("no answer in time".to_owned()),
        }
    }

    /// What a control plane says of etcd.
    pub(crate) async fn members(&self, node: &Node, patience: Duration) -> Membership {
        let ask = async {
            let client = match self.connect(node, patience).await {
                Ok(client) => client,
                Err(error) => return Membership::Unreachable(chain(&error)),
            };
            let error = match client.etcd_members().await {
                Ok(members) => {
                    let member =
                        |member: EtcdMember| Member { name: member.hostname, learner: member.is_learner };
                    return Membership::Of(members.into_iter().map(member).collect());
                }
                Err(error) => error,
            };
            if matches!(error.kind(), Some(FailureKind::Unreachable | FailureKind::Timeout)) {
                self.forget(node);
                return Membership::Unreachable(chain(&error));
            }
            // Silence of etcd is not absence: only the service itself tells that it waits.
            match client.service_list().await {
                Ok(services) => match services.iter().find(|service| service.id == "etcd") {
                    Some(etcd) if etcd.state == "Preparing" => {
                        Membership::NotJoined("its etcd waits".to_owned())
                    }
                    Some(etcd) => Membership::Unreachable(format!("its etcd is {}", etcd.state)),
                    None => Membership::Unreachable(chain(&error)),
                },
                Err(error) => Membership::Unreachable(chain(&error)),
            }
        };
        match tokio::time::timeout(patience, ask).await {
            Ok(answer) => answer,
            Err(_) => {
                self.forget(node);
                Membership::Unreachable("no answer in time".to_owned())
            }
        }
    }

    /// Bootstraps etcd on a node.
    pub(crate) async fn bootstrap(&self, node: &Node, patience: Duration) -> Bootstrapped {
        let client = match self.connect(node, patience).await {
            Ok(client) => client,
            Err(error) if error.kind() == Some(FailureKind::OtherCluster) => {
                return Bootstrapped::Refused(error);
            }
            // Nothing was asked yet.
            Err(error) => return Bootstrapped::NotYet(chain(&error)),
        };
        let Ok(answer) = tokio::time::timeout(patience, client.bootstrap()).await else {
            self.forget(node);
            return Bootstrapped::Unknown("no answer in time".to_owned());
        };
        match answer {
            Ok(Bootstrap::Started) => Bootstrapped::Accepted,
            Ok(Bootstrap::AlreadyDone) => Bootstrapped::Already,
            Err(error) => match error.kind() {
                Some(FailureKind::FailedPrecondition) => Bootstrapped::NotYet(chain(&error)),
                Some(FailureKind::Unreachable | FailureKind::Timeout | FailureKind::Transient) => {
                    self.forget(node);
                    Bootstrapped::Unknown(chain(&error))
                }
                _ => Bootstrapped::Refused(error),
            },
        }
    }
}
