//! The nodes' Talos API, spoken over mTLS with credentials minted from the secrets.

mod etcd;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daedal_dial::{Dialer, Target};
use daedal_inventory::Node;
use daedal_planner::Unreached;
use daedal_talos_client::{
    self as client, ApplyMode, Client, ConnectOptions, Error as TalosError, FailureKind, Reset,
    WipedPartition,
};
use daedal_talos_config::{ApiRole, ClientCredentials, MachineConfig, Marks, Secret, SecretsBundle};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::addresses::{self, Addresses};
use crate::engine::Parts;
use crate::error::{Error, chain};
use crate::node_identities::written;
use crate::unreached::{silent, unreached};

pub(crate) use self::etcd::{Bootstrapped, Changed, Member, Membership, PREPARING_PASSES};

/// Where every node's API listens.
const API_PORT: u16 = 50_000;
/// How long the credentials minted for one run last.
const LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);

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
    Unreachable(Unreached),
}

/// What is behind an address.
pub(crate) enum ProbeResult {
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
        Some(uuid) => written(uuid).contains(&node.uuid),
        None => macs.iter().any(|mac| mac.eq_ignore_ascii_case(&node.mac)),
    }
}

/// A machine's SMBIOS uuid, as it says.
async fn machine(client: &Client) -> Result<Option<Uuid>, TalosError> {
    let kind = "SystemInformations.hardware.talos.dev";
    let system = client.get("hardware", kind, "systeminformation").await?;
    Ok(system.and_then(|system| system.spec().get("uuid")?.as_str()?.parse().ok()))
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
    /// What it calls itself.
    pub(crate) called: String,
}

impl Peer for Former {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self, _: &Addresses) -> Option<IpAddr> {
        Some(self.address)
    }
}

/// No call takes longer. A node waits up to five seconds for its clock before it answers a bootstrap.
const LONGEST_CALL: Duration = Duration::from_secs(15);

/// Why a node refuses a config, in its own words, but for the secrets that they quote.
pub(crate) fn refusal(
    config: &MachineConfig,
    marks: &Marks<'_>,
    error: &daedal_talos_client::Error,
) -> String {
    config.quoted(&chain(error), marks)
}

/// How a node took a machine config.
#[derive(Debug)]
pub(crate) enum Configured {
    /// It takes it, with a reboot or without.
    Accepted { reboot: bool },
    /// Not now, and nothing was done.
    NotYet(TalosError),
    /// It will not.
    Refused(TalosError),
    /// The answer was lost: it may have happened.
    Unknown(TalosError),
    /// The same, because none came in time.
    Silent,
}

/// Speaks to any node of one cluster. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Nodes {
    dialer: Dialer,
    credentials: ClientCredentials,
    clock: client::Clock,
    /// By where they lead to: two nodes may have had the same name.
    open: Arc<Mutex<HashMap<Target, Client>>>,
    addresses: Addresses,
}

impl Nodes {
    /// Mints an administrator's certificate.
    pub(crate) fn new(parts: &Parts, secrets: &SecretsBundle) -> Result<Self, Error> {
        // Clocks of nodes that just booted may be a little behind.
        let from = parts.clock.now() - SignedDuration::from_secs(60);
        let credentials = secrets
            .client_credentials(ApiRole::Admin, LIFETIME, &mut parts.entropy.generator(), from)
            .map_err(|source| daedal_machine::Error::Credentials { source })?;
        let clock = parts.clock.clone();
        Ok(Self {
            dialer: parts.routes.nodes.clone(),
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
        let target = self.target(node);
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&target).cloned();
        if let Some(client) = known {
            return Ok(client);
        }
        let options = self.options(patience);
        let client =
            Client::connect(self.dialer.clone(), target.clone(), &self.credentials, &options).await?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(target, client.clone());
        Ok(client)
    }

    /// Forgets a connection on which a call did not come through.
    fn forget(&self, node: &dyn Peer) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.target(node));
    }

    /// The answer to a question. A connection on which it did not come through is forgotten.
    async fn answer<T>(
        &self,
        node: &dyn Peer,
        patience: Duration,
        ask: impl Future<Output = Result<T, TalosError>>,
    ) -> Result<T, String> {
        let why = match tokio::time::timeout(patience, ask).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => chain(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        self.forget(node);
        Err(why)
    }

    /// Opens a new connection. A node that lets one be opened has our config: its certificate is of our authority.
    pub(crate) async fn reach(&self, node: &Node, patience: Duration) -> Result<(), Probe> {
        let (target, options) = (self.target(node), self.options(patience));
        let opening = Client::connect(self.dialer.clone(), target.clone(), &self.credentials, &options);
        match opening.await {
            Ok(client) => {
                self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(target, client);
                Ok(())
            }
            Err(error) => Err(self.explain(node, &error, patience).await),
        }
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
                return Probe::Unreachable(silent());
            }
        };
        self.forget(node);
        self.explain(node, &error, patience).await
    }

    /// What a failed call says of the node.
    async fn explain(&self, node: &dyn Peer, error: &TalosError, patience: Duration) -> Probe {
        // A certificate that is not ours is another cluster's, or that of a node without a config.
        if error.kind() != Some(FailureKind::OtherCluster) {
            return Probe::Unreachable(unreached(error));
        }
        let options = self.options(patience);
        let look = client::probe(self.dialer.clone(), self.target(node), &self.credentials, &options);
        match tokio::time::timeout(patience, look).await {
            Ok(Ok(client::Probe::Maintenance { .. })) => Probe::Maintenance,
            Ok(Ok(client::Probe::OtherCluster { .. })) => Probe::OtherCluster,
            Ok(Ok(client::Probe::Configured)) => Probe::Unreachable(unreached(error)),
            Ok(Ok(client::Probe::Unreachable(error)) | Err(error)) => Probe::Unreachable(unreached(&error)),
            Err(_) => Probe::Unreachable(silent()),
        }
    }

    /// Looks who is behind an address, and if it waits for a config, holds on to it by its key. Nothing of ours is shown.
    pub(crate) async fn probe_address(&self, address: IpAddr, patience: Duration) -> ProbeResult {
        let (target, options) = (Target::new(address.to_string(), API_PORT), self.options(patience));
        let look = async {
            let found =
                client::probe(self.dialer.clone(), target.clone(), &self.credentials, &options).await?;
            let fingerprint = match found {
                client::Probe::Maintenance { fingerprint } => fingerprint,
                client::Probe::Configured => return Ok(ProbeResult::Ours),
                client::Probe::OtherCluster { .. } => return Ok(ProbeResult::OtherCluster),
                client::Probe::Unreachable(error) => return Err(error),
            };
            let dialer = self.dialer.clone();
            let (client, _) =
                Client::connect_maintenance(dialer, target.clone(), Some(&fingerprint), &options).await?;
            let uuid = machine(&client).await?;
            let links = match uuid {
                Some(_) => Vec::new(),
                None => client.list("network", "LinkStatuses.net.talos.dev").await?,
            };
            let mac = |link: client::Resource| Some(link.spec().get("hardwareAddr")?.as_str()?.to_owned());
            let macs = links.into_iter().filter_map(mac).collect();
            Ok::<_, TalosError>(ProbeResult::Waits(Box::new(Waiting { client, fingerprint, uuid, macs })))
        };
        match tokio::time::timeout(patience, look).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => ProbeResult::Silent(chain(&error)),
            Err(_) => ProbeResult::Silent("no answer in time".to_owned()),
        }
    }

    /// Whether who answers at a node's address calls itself as that node does, and if so its machine's uuid, where it tells.
    /// Somebody else may have the address by now.
    pub(crate) async fn machine(&self, node: &Former, patience: Duration) -> Option<Option<Uuid>> {
        let ask = async {
            let client = self.connect(node, patience).await?;
            Ok(match client.hostname().await? == node.called {
                true => Some(machine(&client).await?),
                false => None,
            })
        };
        self.answer(node, patience, ask).await.ok().flatten()
    }

    /// Wipes what a node has of its config and its data off its disk, and switches it off.
    pub(crate) async fn strip(&self, node: &Node, patience: Duration) -> Result<(), TalosError> {
        let client = self.connect(node, patience).await?;
        let reset = Reset::partitions(WipedPartition::State, [WipedPartition::Ephemeral]);
        client.reset(&reset).await.map(drop)
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
    pub(crate) async fn running_config(&self, node: &dyn Peer, patience: Duration) -> Result<Secret, String> {
        let ask = async {
            let client = self.connect(node, patience).await?;
            client.machine_config().await
        };
        let config = self.answer(node, patience, ask).await?;
        config.ok_or_else(|| "it has no machine config".to_owned())
    }

    /// The schematic that a node's system was built by; nothing if it does not say so.
    pub(crate) async fn schematic(&self, node: &dyn Peer, patience: Duration) -> Option<String> {
        let ask = async {
            let client = self.connect(node, patience).await?;
            client.extensions().await
        };
        let extensions = self.answer(node, patience, ask).await.ok()?;
        extensions.into_iter().find(|(name, _)| name == "schematic").map(|(_, id)| id)
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
            Err(error) => return Configured::NotYet(error),
        };
        let asked = client.apply_configuration(config, mode, dry_run);
        let Ok(answer) = tokio::time::timeout(patience, asked).await else {
            self.forget(node);
            return Configured::Silent;
        };
        match answer {
            Ok(applied) => Configured::Accepted { reboot: applied.mode == ApplyMode::Reboot },
            Err(error) => match error.kind() {
                Some(FailureKind::FailedPrecondition) => Configured::NotYet(error),
                Some(FailureKind::Unreachable | FailureKind::Timeout | FailureKind::Transient) => {
                    self.forget(node);
                    Configured::Unknown(error)
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
            Probe::Unreachable(unreached) => Some(unreached.why),
        }
    }
}
