//! The engine: its parts, and what is shared by looking and acting.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use daedal_dial::Routes;
use daedal_inventory::Cluster;
use daedal_machine::{Configs, SecondLook, SharedConfigs};
use daedal_planner::{Generation, Images, SecretsId, World};
use daedal_store::Store;
use daedal_talos_config::SecretsBundle;
use jiff::Timestamp;
use rand::rngs::StdRng;

use crate::addons::{AddonFiles, Releases};
use crate::addresses;
use crate::clock::Clock;
use crate::effects::{EffectKind, Effects};
use crate::entropy::Entropy;
use crate::error::Error;
use crate::host_files::HostFiles;
use crate::kubernetes::Kubernetes;
use crate::limits::Limits;
use crate::outputs::Outputs;
use crate::site::Site;
use crate::status::StatusReport;

/// Makes a secrets bundle from randomness at a time.
pub type NewSecrets =
    Arc<dyn Fn(&mut StdRng, Timestamp) -> Result<SecretsBundle, daedal_talos_config::Error> + Send + Sync>;

/// Everything an engine is made of.
#[derive(Clone)]
pub struct Parts {
    /// The Proxmox API.
    pub proxmox: daedal_proxmox::Client,
    /// The Image Factory.
    pub factory: daedal_image_factory::Factory,
    /// How each kind of peer is reached; the two clients above were built with theirs.
    pub routes: Routes,
    /// Where snippets are put, where the boot path has any.
    pub host_files: Option<Arc<dyn HostFiles>>,
    /// Where secrets and pins are kept.
    pub store: Store,
    /// Folder for talosconfig, kubeconfig and the like.
    pub outputs: PathBuf,
    /// Who applies, as `user@host`; stands in the marks on VMs.
    pub author: String,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Where keys come from.
    pub entropy: Entropy,
    /// How a new secrets bundle is made; [`Parts::generated_secrets`] unless a test wants it quicker.
    pub new_secrets: NewSecrets,
    /// The point every mutating call passes.
    pub effects: Effects,
    /// Where charts and manifests of add-ons come from.
    pub addons: Arc<dyn AddonFiles>,
    /// Parallelism and patience; what is per host and storage, the [`Site`] keeps.
    pub limits: Limits,
}

impl Parts {
    /// Secrets as Talos wants them, the service account's key of 4096 bits included.
    pub fn generated_secrets() -> NewSecrets {
        Arc::new(SecretsBundle::generate)
    }
}

/// Observes and executes for one cluster. Keeps nothing between calls but the machine configs that it made, and what its
/// [`Site`] does.
#[derive(Clone)]
pub struct Engine {
    pub(crate) site: Site,
    pub(crate) parts: Parts,
    pub(crate) outputs: Outputs,
    configs: Arc<SharedConfigs>,
    pub(crate) releases: Releases,
}

impl Engine {
    /// An engine of these parts, alone on its site.
    pub fn new(parts: Parts) -> Self {
        Site::new(&parts.limits).engine(parts)
    }

    pub(crate) fn on(site: Site, parts: Parts) -> Self {
        let outputs = Outputs::new(&parts.outputs, parts.store.keys().clone());
        Self { site, parts, outputs, configs: Arc::default(), releases: Releases::default() }
    }

    /// The files that the cluster's users get.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Makes all machine configs, and says what deserves a second look. An error is a config that would not be sent. Where the
    /// stored secrets can be read, they are those that the run needs; what is wrong is judged with secrets that nobody keeps.
    pub async fn vet(&self, cluster: &Cluster) -> Result<Vec<SecondLook>, Error> {
        if cluster.kubernetes.endpoint_host.is_some()
            && let Ok(Some(secrets)) = self.stored_secrets().await
            && let Ok(doubts) = daedal_machine::vet_configs(&self.configs(cluster, &secrets))
        {
            return Ok(doubts);
        }
        vet(cluster)
    }

    /// The machine configs of this cluster with these secrets, each made once however many look at it.
    pub(crate) fn configs(&self, cluster: &Cluster, secrets: &SecretsBundle) -> Arc<Configs> {
        self.configs.of(cluster, secrets)
    }

    /// How often each node's machine config was made, by name and versions.
    pub fn config_generations(&self) -> BTreeMap<(String, String), usize> {
        self.configs.generations()
    }

    /// What the cluster's nodes boot from, computed offline.
    pub fn images(&self, cluster: &Cluster) -> Images {
        daedal_machine::image::references(cluster)
    }

    /// Records that whoever uses this store has seen what was applied last, and agrees.
    pub async fn acknowledge(&self, world: &World) -> Result<(), Error> {
        let Some(unseen) = world.unseen() else { return Ok(()) };
        self.record(&unseen.newest).await
    }

    /// Records a generation before the first mark names it: a run that is cut short is never a stranger to its own store.
    pub(crate) async fn record(&self, generation: &Generation) -> Result<(), Error> {
        let what = format!("generation {}", generation.number);
        let store = async { Ok::<_, Error>(self.parts.store.record_generation(generation).await?) };
        self.parts.effects.perform(EffectKind::StoreGeneration, what, store).await
    }

    /// The state of a cluster as a table.
    pub async fn status(&self, cluster: &Cluster) -> Result<StatusReport, Error> {
        // Without secrets the nodes cannot be asked; Proxmox can, and what it says is worth knowing.
        let (world, _) = self.look_lacking(cluster).await?;
        let secrets = match world.secrets_stored {
            true => self.stored_secrets().await.ok().flatten(),
            false => None,
        };
        let world = self.look_at_addons(cluster, world, secrets.as_ref()).await;
        let mut report = StatusReport::of(cluster, &world);
        report.compare(daedal_planner::plan_apply(cluster, &self.images(cluster), &world));
        report.credentials = self.outputs.credentials(self.parts.clock.now()).await;
        Ok(report)
    }

    /// Whether the cluster's secrets are at hand; an error says why they cannot be read.
    pub async fn has_secrets(&self) -> Result<bool, Error> {
        Ok(self.stored_secrets().await?.is_some())
    }

    /// A client of the cluster's API server, as an administrator. Nothing is asked yet.
    pub async fn kubernetes(&self, cluster: &Cluster) -> Result<kube::Client, Error> {
        let secrets = self.stored_secrets().await?.ok_or(Error::NoSecrets)?;
        let kubernetes = Kubernetes::new(&self.parts, &secrets)?;
        let found = self.found_addresses().await?;
        kubernetes.client(&addresses::endpoint(&cluster.located(&found)))
    }

    /// Where nodes were found when the cluster was last applied, by name.
    pub async fn found_addresses(&self) -> Result<BTreeMap<String, IpAddr>, Error> {
        addresses::found_addresses(&self.parts.store, &self.outputs).await
    }

    /// The id of the stored secrets; none if there are none.
    pub(crate) async fn secrets_id(&self) -> Result<Option<SecretsId>, Error> {
        Ok(self.stored_secrets().await?.as_ref().map(secrets_id))
    }

    /// The stored secrets bundle; none if there never was one.
    pub(crate) async fn stored_secrets(&self) -> Result<Option<SecretsBundle>, Error> {
        let Some(bytes) = self.parts.store.secrets().await? else { return Ok(None) };
        let text = std::str::from_utf8(bytes.expose()).map_err(|source| Error::SecretsNotText { source })?;
        SecretsBundle::from_yaml(text).map(Some).map_err(|source| Error::BadSecrets { source })
    }
}

/// Makes all machine configs with secrets that nobody keeps, and says what deserves a second look. An error is a config that
/// would not be sent.
pub fn vet(cluster: &Cluster) -> Result<Vec<SecondLook>, Error> {
    Ok(daedal_machine::vet(cluster)?)
}

/// The id of secrets. It is made of what no rotation of an authority changes.
pub(crate) fn secrets_id(secrets: &SecretsBundle) -> SecretsId {
    let mut key = secrets.cluster_id.clone().into_bytes();
    key.push(0);
    key.extend(secrets.cluster_secret.expose().as_bytes());
    SecretsId::derive(&key)
}
