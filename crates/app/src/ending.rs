//! What is true at the end, as a last look shows it.

use daedal_planner::{Action, Fate, Level, Ownership, Plan, Remains, Staying, World};

use crate::error::Error;
use crate::session::Session;

/// What a look says after a destruction.
#[derive(Clone, Debug)]
pub struct Destroyed {
    /// What is of this cluster or may be, by name, and should have been destroyed.
    pub left: Vec<String>,
    /// What no destroy takes away.
    pub stays: Staying,
    /// Whether outputs that led to the cluster were deleted.
    pub forgotten: bool,
}

/// What a look says of a node that was removed.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The node.
    pub node: String,
    /// What is left of it.
    pub remains: Remains,
}

impl Session {
    /// What a world shows of a cluster that should be gone, with the plan that destroys what is left in it. What leads to a cluster
    /// that is gone leads nowhere, and goes with it; the secrets themselves stay.
    pub async fn destroyed(&self, world: &World, plan: &Plan) -> Result<Destroyed, Error> {
        let stays = daedal_planner::staying(&self.cluster, &self.images, world);
        let left = left(plan);
        let forgotten = left.is_empty() && self.forget_outputs().await?;
        Ok(Destroyed { left, stays, forgotten })
    }

    /// Deletes what leads to the cluster. Returns whether there was anything.
    async fn forget_outputs(&self) -> Result<bool, Error> {
        let outputs = self.engine.outputs();
        let any = !outputs.names().is_empty();
        outputs.forget().await?;
        self.store.forget_addresses().await?;
        Ok(any)
    }

    /// What a world shows of the nodes that a plan removed.
    pub fn removed(&self, world: &World, plan: &Plan) -> Vec<Removed> {
        let going = plan.nodes.iter().filter(|node| node.fate == Fate::Destroy);
        let removed = going.map(|node| Removed {
            node: node.name.clone(),
            remains: daedal_planner::remains(&self.cluster, world, &node.name, node.role),
        });
        removed.collect()
    }

    /// Whether a plan starts a node whose declared config changed while it was off: what it runs on is seen only then.
    pub fn starts_changed(&self, world: &World, plan: &Plan) -> bool {
        let started = plan.steps.iter().filter(|step| matches!(step.action, Action::StartVm { .. }));
        let mut nodes = started.filter_map(|step| self.cluster.node(step.node.as_deref()?));
        nodes.any(|node| match world.guests.get(&node.vmid).map(|guest| &guest.ownership) {
            Some(Ownership::Ours { digest, .. }) => {
                *digest != daedal_planner::node_digest(&self.cluster, node)
            }
            _ => false,
        })
    }
}

/// What a plan to destroy cannot destroy, or what still has to be, by name.
fn left(plan: &Plan) -> Vec<String> {
    let problems = plan.notes.iter().filter(|note| note.level == Level::Problem);
    let mut left: Vec<String> = problems.map(|note| daedal_words::about(&note.advice)).collect();
    let dying = plan.nodes.iter().filter(|node| node.fate == Fate::Destroy).map(|node| node.name.clone());
    left.extend(dying);
    left.extend(plan.steps.iter().filter_map(|step| match &step.action {
        Action::DeleteMedia { volid } => Some(volid.clone()),
        _ => None,
    }));
    left
}
