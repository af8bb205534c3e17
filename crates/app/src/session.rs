//! One cluster, ready to be looked at and acted on: the use cases are its methods, in the order in which they come.

use std::time::Duration;

use daedal_engine::{Engine, NotInFactory, Report, Run, chain};
use daedal_inventory::Cluster;
use daedal_planner::{Action, Images, Plan, World};
use daedal_store::{Lock, Owner, Store};

use crate::error::Error;

/// One cluster: what is declared, its engine, and where things are kept.
#[derive(Clone)]
pub struct Session {
    /// What is declared.
    pub cluster: Cluster,
    /// The engine.
    pub engine: Engine,
    /// Where secrets are kept.
    pub store: Store,
    /// The images that the nodes boot from.
    pub images: Images,
}

/// How long the Image Factory is asked before its answer is left to the run.
const FACTORY_PATIENCE: Duration = Duration::from_secs(20);

impl Session {
    /// A session of a cluster with its engine.
    pub fn new(cluster: Cluster, engine: Engine, store: Store) -> Self {
        let images = engine.images(&cluster);
        Self { cluster, engine, store, images }
    }

    /// Refuses a plan for an image that the Image Factory cannot build, before anything else is done in vain. Gives why the factory
    /// could not be asked, if so: the run asks again, and ends with the reason if it is still so.
    pub async fn buildable(&self, plan: &Plan) -> Result<Option<String>, Error> {
        match plan.steps.iter().any(|step| matches!(step.action, Action::RegisterSchematic { .. })) {
            true => self.factory_has_all().await,
            false => Ok(None),
        }
    }

    /// The same for whatever the inventory asks for, before there is a plan that needs it.
    pub async fn factory_has_all(&self) -> Result<Option<String>, Error> {
        let asked = tokio::time::timeout(FACTORY_PATIENCE, self.engine.not_in_factory(&self.cluster)).await;
        let missing = match asked {
            Ok(Ok(missing)) => missing,
            Ok(Err(error)) => return Ok(Some(chain(&error))),
            Err(_) => return Ok(Some("no answer came".to_owned())),
        };
        let missing: Vec<NotInFactory> = missing.into_iter().filter(|missing| !missing.harmless).collect();
        match missing.is_empty() {
            true => Ok(None),
            false => Err(Error::NotBuildable { factory: self.cluster.talos.factory.clone(), missing }),
        }
    }

    /// Makes sure that what a plan is about to encrypt can be encrypted, and makes the key if there is none; tells whether it did.
    /// None: the plan needs no key of ours.
    pub async fn ready_key(&self, plan: &Plan) -> Result<Option<bool>, Error> {
        match plan.steps.iter().any(|step| matches!(step.action, Action::CreateSecrets)) {
            true => Ok(self.store.ready_for_secrets().await?),
            false => Ok(None),
        }
    }

    /// Executes a plan. What happens meanwhile is told by the run's events.
    pub async fn run(&self, world: &World, plan: &Plan, run: &Run) -> Result<Report, Error> {
        Ok(Box::pin(self.engine.execute(&self.cluster, world, plan, run)).await?)
    }
}

/// Takes a cluster's lock until it is dropped. Whoever changes anything holds it from the look to the end.
pub async fn lock(store: &Store, owner: &Owner) -> Result<Lock, daedal_store::Error> {
    // Whoever just took it needs an instant to write its name, and the error should have it.
    let mut taken = store.lock(owner).await;
    for _ in 0..50 {
        if !matches!(taken, Err(daedal_store::Error::Locked { owner: None, .. })) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        taken = store.lock(owner).await;
    }
    taken
}
