//! The nodes' Talos API, spoken over mTLS with credentials minted from the secrets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daedal_dial::{Dialer, Target};
use daedal_inventory::Node;
use daedal_talos::client::{
    self, ApplyMode, Bootstrap, Client, ConnectOptions, EtcdMember, FailureKind, Reset, ResourceEvents,
    WipedPartition,
};
use daedal_talos::{ApiRole, ClientCredentials, Error as TalosError, Secret, SecretsBundle};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::addresses::{self, Addresses};
use crate::backup;
use crate::engine::Parts;
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

/// What is behind an address.
pub(crate) enum Door {
    /// A node that waits for a config.
    Waits(Box<Waiting>),
    /// A node of ours with its config.
    Ours,
    /// A node of another cluster.
    OtherCluster,
    /// Nothing that answers, and why.
    Silent(String),
}

/// A node in maintenance mode, and what it says of itself.
pub(crate) struct Waiting {
    /// A connection that only the node with the key seen first can hold.
    pub(crate) client: Client,
    /// The key's fingerprint, as Talos prints it.
    pub(crate) fingerprint: String,
    uuid: Option<Uuid>,
    macs: Vec<String>,
}

impl Waiting {
    /// Whether it says that it is this node's VM: by its SMBIOS uuid, or where it has none, by its MAC.
    pub(crate) fn is(&self, node: &Node) -> bool {
        is_node(self.uuid, &self.macs, node)
    }
}

/// A uuid that is told decides; only where none is, a card with the node's MAC must be there.
fn is_node(uuid: Option<Uuid>, macs: &[String], node: &Node) -> bool {
    match uuid {
        // Some firmware writes the first fields the other way round.
        Some(uuid) => uuid == node.uuid || Uuid::from_bytes_le(*uuid.as_bytes()) == node.uuid,
        None => macs.iter().any(|mac| mac.eq_ignore_ascii_case(&node.mac)),
    }
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

/// Someone whose Talos API can be asked.
pub(crate) trait Peer: Sync {
    /// Its name.
    fn name(&self) -> &str;
    /// Where it answers, with what was found of nodes whose addresses are not declared.
    fn address(&self, found: &Addresses) -> Option<IpAddr>;
}

impl Peer for Node {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self, found: &Addresses) -> Option<IpAddr> {
        found.of(self)
    }
}

/// A node that the inventory does not name, at the address that others know of it.
#[derive(Clone, Debug)]
pub(crate) struct Former {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
}

impl Peer for Former {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self, _: &Addresses) -> Option<IpAddr> {
        Some(self.address)
    }
}

/// One etcd member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its id.
    pub(crate) id: u64,
    /// Its node's name; empty until it has started.
    pub(crate) name: String,
    /// Where it says that others reach it.
    pub(crate) address: Option<IpAddr>,
    /// It may not vote yet.
    pub(crate) learner: bool,
}

/// Asks a node for its etcd. Where that does not run, nodes say nothing of it at all; only the service tells that it waits.
async fn membership(client: &Client, patience: Duration) -> Result<Membership, TalosError> {
    let mut members = std::pin::pin!(client.etcd_members());
    let services = tokio::select! {
        biased;
        answer = &mut members => return answer.map(of),
        services = client.service_list() => services?,
    };
    let state = services.iter().find(|service| service.id == "etcd").map(|service| service.state.as_str());
    match state {
        None => Ok(Membership::Unreachable("its etcd has not begun".to_owned())),
        Some("Preparing") => Ok(Membership::NotJoined("its etcd waits".to_owned())),
        Some(state) if state != "Running" => Ok(Membership::Unreachable(format!("its etcd is {state}"))),
        Some(_) => match tokio::time::timeout(patience / 2, members).await {
            Ok(answer) => answer.map(of),
            Err(_) => Ok(Membership::Unreachable("its etcd does not answer".to_owned())),
        },
    }
}

fn of(members: Vec<EtcdMember>) -> Membership {
    let member = |member: EtcdMember| Member {
        id: member.id,
        address: member.peer_urls.iter().chain(&member.client_urls).find_map(|url| host(url)),
        name: member.hostname,
        learner: member.is_learner,
    };
    Membership::Of(members.into_iter().map(member).collect())
}

/// The address in a URL such as `https://10.0.0.11:2380` or `https://[fd00::11]:2380`.
fn host(url: &str) -> Option<IpAddr> {
    let rest = url.split_once("://")?.1;
    let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
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

/// How a change of etcd's members went.
#[derive(Debug)]
pub(crate) enum Changed {
    /// It is done.
    Done,
    /// Not now, or the answer was lost: whoever asks looks again.
    NotYet(String),
    /// It will not.
    Refused(TalosError),
}

/// How a node took a machine config.
#[derive(Debug)]
pub(crate) enum Configured {
    /// It takes it, with a reboot or without.
    Accepted { reboot: bool },
    /// Not now, and nothing was done.
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
    addresses: Addresses,
}

impl Nodes {
    /// Mints an administrator's certificate.
    pub(crate) fn new(parts: &Parts, secrets: &SecretsBundle) -> Result<Self, Error> {
        // Clocks of nodes that just booted may be a little behind.
        let from = parts.clock.now() - SignedDuration::from_secs(60);
        let credentials = secrets
            .client_credentials(ApiRole::Admin, LIFETIME, &mut parts.entropy.generator(), from)
            .map_err(|source| Error::Credentials { source })?;
        let clock = parts.clock.clone();
        Ok(Self {
            dialer: parts.nodes.clone(),
            credentials,
            clock: Arc::new(move || clock.now()),
            open: Arc::default(),
            addresses: Addresses::default(),
        })
    }

    /// The same, with an eye on addresses that are found on the way.
    pub(crate) fn finding(self, addresses: Addresses) -> Self {
        Self { addresses, ..self }
    }

    fn target(&self, node: &dyn Peer) -> Target {
        addresses::at(node.address(&self.addresses), API_PORT)
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
    async fn connect(&self, node: &dyn Peer, patience: Duration) -> Result<Client, TalosError> {
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(node.name()).cloned();
        if let Some(client) = known {
            return Ok(client);
        }
        let options = self.options(patience);
        let client =
            Client::connect(self.dialer.clone(), self.target(node), &self.credentials, &options).await?;
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(node.name().to_owned(), client.clone());
        Ok(client)
    }

    /// Forgets a connection on which a call did not come through.
    fn forget(&self, node: &dyn Peer) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(node.name());
    }

    /// Opens a new connection. A node that lets one be opened has our config: its certificate is of our authority.
    pub(crate) async fn reach(&self, node: &Node, patience: Duration) -> Result<(), Probe> {
        let options = self.options(patience);
        let opening = Client::connect(self.dialer.clone(), self.target(node), &self.credentials, &options);
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
    pub(crate) async fn probe(&self, node: &dyn Peer, patience: Duration) -> Probe {
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
    async fn explain(&self, node: &dyn Peer, error: &TalosError, patience: Duration) -> Probe {
        // A certificate that is not ours is another cluster's, or that of a node without a config.
        if error.kind() != Some(FailureKind::OtherCluster) {
            return Probe::Unreachable(chain(error));
        }
        let options = self.options(patience);
        let look = client::probe(self.dialer.clone(), self.target(node), &self.credentials, &options);
        match tokio::time::timeout(patience, look).await {
            Ok(Ok(client::Probe::Maintenance { .. })) => Probe::Maintenance,
            Ok(Ok(client::Probe::OtherCluster { .. })) => Probe::OtherCluster,
            Ok(Ok(client::Probe::Configured)) => Probe::Unreachable(chain(error)),
            Ok(Ok(client::Probe::Unreachable(error)) | Err(error)) => Probe::Unreachable(chain(&error)),
            Err(_) => Probe::Unreachable("no answer in time".to_owned()),
        }
    }

    /// Looks who is behind an address, and if it waits for a config, holds on to it by its key. Nothing of ours is shown.
    pub(crate) async fn door(&self, address: IpAddr, patience: Duration) -> Door {
        let (target, options) = (Target::new(address.to_string(), API_PORT), self.options(patience));
        let look = async {
            let found =
                client::probe(self.dialer.clone(), target.clone(), &self.credentials, &options).await?;
            let fingerprint = match found {
                client::Probe::Maintenance { fingerprint } => fingerprint,
                client::Probe::Configured => return Ok(Door::Ours),
                client::Probe::OtherCluster { .. } => return Ok(Door::OtherCluster),
                client::Probe::Unreachable(error) => return Err(error),
            };
            let dialer = self.dialer.clone();
            let (client, _) =
                Client::connect_maintenance(dialer, target.clone(), Some(&fingerprint), &options).await?;
            let kind = "SystemInformations.hardware.talos.dev";
            let system = client.get("hardware", kind, "systeminformation").await?;
            let uuid = system.and_then(|system| system.spec().get("uuid")?.as_str()?.parse().ok());
            let links = match uuid {
                Some(_) => Vec::new(),
                None => client.list("network", "LinkStatuses.net.talos.dev").await?,
            };
            let mac = |link: client::Resource| Some(link.spec().get("hardwareAddr")?.as_str()?.to_owned());
            let macs = links.into_iter().filter_map(mac).collect();
            Ok::<_, TalosError>(Door::Waits(Box::new(Waiting { client, fingerprint, uuid, macs })))
        };
        match tokio::time::timeout(patience, look).await {
            Ok(Ok(door)) => door,
            Ok(Err(error)) => Door::Silent(chain(&error)),
            Err(_) => Door::Silent("no answer in time".to_owned()),
        }
    }

    /// What a control plane says of etcd.
    pub(crate) async fn members(&self, node: &dyn Peer, patience: Duration) -> Membership {
        let client = match tokio::time::timeout(patience, self.connect(node, patience)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Membership::Unreachable(chain(&error)),
            Err(_) => {
                self.forget(node);
                return Membership::Unreachable("no answer in time".to_owned());
            }
        };
        let answer = match tokio::time::timeout(patience, membership(&client, patience)).await {
            Ok(Ok(membership)) => return membership,
            Ok(Err(error)) => {
                if !matches!(error.kind(), Some(FailureKind::Unreachable | FailureKind::Timeout)) {
                    return Membership::Unreachable(chain(&error));
                }
                chain(&error)
            }
            Err(_) => "no answer in time".to_owned(),
        };
        self.forget(node);
        Membership::Unreachable(answer)
    }

    /// Wipes what a node has of its config and its data off its disk, and switches it off.
    pub(crate) async fn strip(&self, node: &Node, patience: Duration) -> Result<(), TalosError> {
        let client = self.connect(node, patience).await?;
        let partitions = vec![WipedPartition::State, WipedPartition::Ephemeral];
        client.reset(&Reset { graceful: false, reboot: false, partitions }).await.map(drop)
    }

    /// A client of a node, for whoever wants to ask much.
    pub(crate) async fn client(&self, node: &dyn Peer, patience: Duration) -> Result<Client, TalosError> {
        self.connect(node, patience).await
    }

    /// When the certificate that a node shows ends.
    pub(crate) async fn certificate_end(
        &self,
        node: &Node,
        patience: Duration,
    ) -> Result<Timestamp, TalosError> {
        client::certificate_end(self.dialer.clone(), self.target(node), &self.options(patience)).await
    }

    /// The machine config a node runs on.
    pub(crate) async fn running_config(&self, node: &Node, patience: Duration) -> Result<Secret, String> {
        let ask = async {
            let client = self.connect(node, patience).await?;
            client.machine_config().await
        };
        match tokio::time::timeout(patience, ask).await {
            Ok(Ok(Some(config))) => Ok(config),
            Ok(Ok(None)) => Err("it has no machine config".to_owned()),
            Ok(Err(error)) => {
                self.forget(node);
                Err(chain(&error))
            }
            Err(_) => {
                self.forget(node);
                Err("no answer in time".to_owned())
            }
        }
    }

    /// Gives a node a machine config, or only asks what it would do with it.
    pub(crate) async fn configure(
        &self,
        node: &Node,
        config: &Secret,
        mode: ApplyMode,
        dry_run: bool,
        patience: Duration,
    ) -> Configured {
        let client = match self.connect(node, patience).await {
            Ok(client) => client,
            // Nothing was asked yet.
            Err(error) => return Configured::NotYet(chain(&error)),
        };
        let asked = client.apply_configuration(config, mode, dry_run);
        let Ok(answer) = tokio::time::timeout(patience, asked).await else {
            self.forget(node);
            return Configured::Unknown("no answer in time".to_owned());
        };
        match answer {
            Ok(applied) => Configured::Accepted { reboot: applied.mode == ApplyMode::Reboot },
            Err(error) => match error.kind() {
                Some(FailureKind::FailedPrecondition) => Configured::NotYet(chain(&error)),
                Some(FailureKind::Unreachable | FailureKind::Timeout | FailureKind::Transient) => {
                    self.forget(node);
                    Configured::Unknown(chain(&error))
                }
                _ => Configured::Refused(error),
            },
        }
    }

    /// Whether a node has finished booting: its stage, if it is another than `running`.
    pub(crate) async fn still_booting(&self, node: &Node, patience: Duration) -> Option<String> {
        match self.probe(node, patience).await {
            Probe::Configured { stage, .. } if stage == "running" => None,
            Probe::Configured { stage, .. } => Some(format!("it is {stage}")),
            Probe::Maintenance => Some("it is in maintenance mode".to_owned()),
            Probe::OtherCluster => Some("it answers as another cluster's".to_owned()),
            Probe::Unreachable(why) => Some(why),
        }
    }

    /// Uploads a snapshot to a node whose etcd is to begin with it.
    pub(crate) async fn upload_snapshot(&self, node: &Node, file: &Path, patience: Duration) -> Changed {
        let parts = backup::parts(file.to_owned());
        let call = async |client: Client| client.etcd_recover(parts).await.map(|()| None);
        self.change(node, patience, call).await
    }

    /// Lets a node leave etcd by itself. What answers at its address must say that it is that node.
    pub(crate) async fn leave_etcd(&self, node: &Former, patience: Duration) -> Changed {
        let call = async |client: Client| {
            let hostname = client.hostname().await?;
            if hostname != node.name {
                return Ok(Some(format!("{} answers as {hostname}", node.address)));
            }
            // A leader that hands over costs the others no election; one that cannot may leave all the same.
            let _ = client.etcd_forfeit_leadership().await;
            client.etcd_leave_cluster().await.map(|()| None)
        };
        self.change(node, patience, call).await
    }

    /// Has a node take another's member out of etcd.
    pub(crate) async fn remove_member(&self, through: &dyn Peer, member: u64, patience: Duration) -> Changed {
        let call = async |client: Client| client.etcd_remove_member(member).await.map(|()| None);
        self.change(through, patience, call).await
    }

    async fn change(
        &self,
        node: &dyn Peer,
        patience: Duration,
        call: impl AsyncFnOnce(Client) -> Result<Option<String>, TalosError>,
    ) -> Changed {
        let client = match tokio::time::timeout(patience, self.connect(node, patience)).await {
            Ok(Ok(client)) => client,
            // Nothing was asked yet.
            Ok(Err(error)) => return Changed::NotYet(chain(&error)),
            Err(_) => return Changed::NotYet("no answer in time".to_owned()),
        };
        match tokio::time::timeout(patience, call(client)).await {
            Ok(Ok(None)) => Changed::Done,
            Ok(Ok(Some(why))) => Changed::NotYet(why),
            Ok(Err(error)) if error.kind().is_some_and(|kind| !kind.may_pass()) => Changed::Refused(error),
            Ok(Err(error)) => {
                self.forget(node);
                Changed::NotYet(chain(&error))
            }
            Err(_) => {
                self.forget(node);
                Changed::NotYet("no answer in time".to_owned())
            }
        }
    }

    /// Whether a member serves: it follows a leader, votes, and complains of nothing. An error says what is wrong.
    pub(crate) async fn serves(&self, node: &dyn Peer, patience: Duration) -> Result<(), String> {
        let ask = async {
            let client = self.connect(node, patience).await?;
            client.etcd_status().await
        };
        match tokio::time::timeout(patience, ask).await {
            Ok(Ok(status)) if status.is_learner => Err("it is a learner".to_owned()),
            Ok(Ok(status)) if status.leader == 0 => Err("it has no leader".to_owned()),
            Ok(Ok(status)) => match status.errors.first() {
                None => Ok(()),
                Some(error) => Err(error.clone()),
            },
            Ok(Err(error)) => {
                self.forget(node);
                Err(chain(&error))
            }
            Err(_) => {
                self.forget(node);
                Err("no answer in time".to_owned())
            }
        }
    }

    /// Bootstraps etcd on a node, empty or with the snapshot that was uploaded.
    pub(crate) async fn bootstrap(&self, node: &Node, recover: bool, patience: Duration) -> Bootstrapped {
        let client = match self.connect(node, patience).await {
            Ok(client) => client,
            Err(error) if error.kind() == Some(FailureKind::OtherCluster) => {
                return Bootstrapped::Refused(error);
            }
            // Nothing was asked yet.
            Err(error) => return Bootstrapped::NotYet(chain(&error)),
        };
        let call = async {
            match recover {
                true => client.bootstrap_recovered(false).await,
                false => client.bootstrap().await,
            }
        };
        let Ok(answer) = tokio::time::timeout(patience, call).await else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_a_members_url_is_found() {
        assert_eq!(host("https://10.0.0.11:2380"), Some("10.0.0.11".parse().unwrap()));
        assert_eq!(host("https://[fd00::11]:2380"), Some("fd00::11".parse().unwrap()));
        assert_eq!(host("https://cp-1.lan:2380"), None);
    }
}
