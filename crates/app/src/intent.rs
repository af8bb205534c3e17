//! What is to become of a cluster, and the look and the plan that it takes.

use daedal_inventory::Node;
use daedal_planner::{
    BackupWish, FirewallWish, Phase, Plan, PlanError, Pruning, Purpose, Recovery, Removal, World, plan_apply,
    plan_backup_job, plan_destroy, plan_destroy_without_secrets, plan_firewall, plan_ha, plan_mark,
    plan_phase, plan_prune_templates, plan_prune_volumes, plan_remove, plan_restore,
};

use crate::error::Error;
use crate::session::Session;

/// What is to become of a cluster.
#[derive(Clone, Debug)]
pub enum Intent<'a> {
    /// What the inventory says.
    Apply,
    /// The part of it that is this phase's.
    Phase(Phase),
    /// Exactly what a plan says that was approved before.
    Saved(Box<Plan>),
    /// It is to be gone.
    Destroy {
        /// Although no secrets prove whose the VMs are.
        without_secrets: bool,
    },
    /// Nodes that are no longer declared are to be gone.
    Remove(Removal<'a>),
    /// What the inventory says, with an etcd from a snapshot.
    Restore(Recovery),
    /// Templates that nothing needs are to be gone.
    PruneTemplates(Pruning),
    /// Volumes that no VM uses are to be gone.
    PruneVolumes(Pruning),
    /// The VM of a node is to have its lost mark back.
    Mark(Box<Node>),
    /// The firewalls of its VMs are to be so; none: off.
    Firewall(Option<FirewallWish>),
    /// Its control planes are to be highly available, or no longer.
    Ha {
        /// Whether they are to be.
        on: bool,
    },
    /// Its VMs are to be backed up so; none: no longer.
    BackupJob(Option<BackupWish>),
}

impl Intent<'_> {
    /// Whether the stored secrets prove what is destroyed.
    pub fn is_proven(&self) -> bool {
        match self {
            Self::Destroy { without_secrets } => !without_secrets,
            Self::PruneTemplates(pruning) | Self::PruneVolumes(pruning) => !pruning.without_secrets,
            _ => true,
        }
    }
}

impl Session {
    /// Looks at as much of the world as an intent is about.
    pub async fn look(&self, intent: &Intent<'_>) -> Result<World, Error> {
        Ok(Box::pin(self.seen(intent)).await?)
    }

    async fn seen(&self, intent: &Intent<'_>) -> Result<World, daedal_engine::Error> {
        let (engine, cluster) = (&self.engine, &self.cluster);
        Ok(match intent {
            Intent::Phase(Phase::Generate) => engine.observe_kept(cluster).await?,
            Intent::Apply | Intent::Phase(_) | Intent::Saved(_) | Intent::Restore(_) => {
                engine.observe(cluster).await?
            }
            Intent::Remove(_) => engine.observe_machines(cluster).await?,
            Intent::Destroy { without_secrets } => {
                let mut world = match without_secrets {
                    false => engine.observe_machines(cluster).await?,
                    true => engine.observe_with(cluster, None).await?,
                };
                engine.look_at_guards(&mut world).await;
                world
            }
            // Which secrets a mark names does not matter then.
            Intent::PruneTemplates(pruning) | Intent::PruneVolumes(pruning) if pruning.without_secrets => {
                engine.observe_with(cluster, None).await?
            }
            Intent::PruneTemplates(_) | Intent::PruneVolumes(_) => engine.observe_proxmox(cluster).await?,
            Intent::Mark(node) => engine.observe_mark(cluster, node).await?,
            Intent::Firewall(_) => engine.observe_for(cluster, Purpose::Firewall).await?,
            Intent::Ha { .. } => engine.observe_for(cluster, Purpose::Ha).await?,
            Intent::BackupJob(_) => engine.observe_for(cluster, Purpose::BackupJob).await?,
        })
    }

    /// The plan that leads there from a world, judged by the checker. A saved one is that very plan, or none.
    pub fn plan(&self, intent: &Intent<'_>, world: &World) -> Result<Plan, Error> {
        let plan = match intent {
            Intent::Saved(plan) => self.still_fits(plan, world)?,
            intent => self.planned(intent, world)?,
        };
        let findings = daedal_planner::check(&self.cluster, world, &plan);
        if findings.is_empty() { Ok(plan) } else { Err(Error::Unsafe(findings)) }
    }

    fn planned(&self, intent: &Intent<'_>, world: &World) -> Result<Plan, PlanError> {
        let (cluster, images) = (&self.cluster, &self.images);
        match intent {
            Intent::Apply | Intent::Saved(_) => plan_apply(cluster, images, world),
            Intent::Phase(phase) => plan_phase(cluster, images, world, *phase),
            Intent::Destroy { without_secrets: false } => plan_destroy(cluster, world),
            Intent::Destroy { without_secrets: true } => plan_destroy_without_secrets(cluster, world),
            Intent::Remove(removal) => plan_remove(cluster, world, removal),
            Intent::Restore(snapshot) => plan_restore(cluster, images, world, snapshot),
            Intent::PruneTemplates(pruning) => plan_prune_templates(cluster, images, world, *pruning),
            Intent::PruneVolumes(pruning) => plan_prune_volumes(cluster, world, *pruning),
            Intent::Mark(node) => plan_mark(cluster, world, node),
            Intent::Firewall(wish) => plan_firewall(cluster, world, wish.as_ref()),
            Intent::Ha { on } => plan_ha(cluster, world, *on),
            Intent::BackupJob(wish) => plan_backup_job(cluster, world, wish.as_ref()),
        }
    }

    fn still_fits(&self, plan: &Plan, world: &World) -> Result<Plan, Error> {
        if plan.purpose != Purpose::Apply {
            return Err(Error::NotAnApply);
        }
        daedal_planner::fits(plan, &self.cluster, &self.images, world).map_err(Error::NoLongerFits)?;
        Ok(plan.clone())
    }
}
