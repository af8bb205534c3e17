//! Whether a saved plan still fits: made anew from the world of now, it must come out the same.

use std::collections::HashSet;

use daedal_inventory::Cluster;

use crate::apply::{plan_apply, plan_restore};
use crate::destroy::{plan_destroy, plan_destroy_without_secrets};
use crate::digest;
use crate::error::PlanError;
use crate::names::Images;
use crate::phase::plan_phase;
use crate::plan::{Action, FORMAT, Plan, Purpose, Step};
use crate::remove::{Removal, plan_remove};
use crate::world::World;

/// What names a plan: the same plan has the same id, and any other has another.
pub fn plan_id(plan: &Plan) -> String {
    digest::hex12(&digest::of(plan)).to_owned()
}

/// Why a saved plan is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// It was made for something else.
    #[error("the plan does not belong here: {0}")]
    Other(String),
    /// The inventory is another.
    #[error("the inventory has changed since the plan was made; make a new one")]
    Inventory,
    /// No plan can be made now.
    #[error("the plan no longer fits, and no other can be made now")]
    NoPlan(#[source] PlanError),
    /// The world is another: what no longer applies, and what would be needed now.
    #[error("the world has changed since the plan was made")]
    World(Vec<Moved>),
    /// The world is the same, so the plan itself was changed.
    #[error("the plan was changed after it was made; make a new one")]
    Altered,
}

/// Whether a saved plan has the format of this version; another one cannot be read as a whole.
pub fn known_format(format: u32) -> Result<(), Unfit> {
    match format == FORMAT {
        true => Ok(()),
        false => Err(Unfit::Other(format!("its format is {format}, this version knows {FORMAT}"))),
    }
}

/// How a plan made now differs from a saved one.
#[derive(Clone, Debug, PartialEq)]
pub enum Moved {
    /// This step is no longer needed, or no longer possible.
    Gone(Box<Step>),
    /// This step is needed now.
    Needed(Box<Step>),
    /// The same steps are needed in another order.
    Order,
}

/// Differences named at most, each way.
const NAMED: usize = 3;

/// Makes the plan anew and compares. Room is proved again on the way. What only words the plan (reasons, notes, the
/// table of hosts) may differ; steps and their order may not.
pub fn fits(plan: &Plan, cluster: &Cluster, images: &Images, world: &World) -> Result<(), Unfit> {
    known_format(plan.format)?;
    if (&plan.cluster, plan.uuid) != (&cluster.name, cluster.uuid) {
        return Err(Unfit::Other(format!("it is for cluster {} ({})", plan.cluster, plan.uuid)));
    }
    if plan.intent != digest::intent(cluster) {
        return Err(Unfit::Inventory);
    }
    let now = match plan.purpose {
        Purpose::Apply if let Some(phase) = plan.phase => plan_phase(cluster, images, world, phase),
        Purpose::Apply => {
            let recovery = plan.steps.iter().find_map(|step| match &step.action {
                Action::Bootstrap { recover } => recover.as_ref(),
                _ => None,
            });
            match recovery {
                Some(snapshot) => plan_restore(cluster, images, world, snapshot),
                None => plan_apply(cluster, images, world),
            }
        }
        Purpose::Destroy if plan.without_secrets => plan_destroy_without_secrets(cluster, world),
        Purpose::Destroy => plan_destroy(cluster, world),
        Purpose::Remove => {
            let nodes: Vec<String> = plan.nodes.iter().map(|node| node.name.clone()).collect();
            let drain = plan.steps.iter().any(|step| step.action == Action::Drain);
            plan_remove(cluster, world, &Removal { nodes: &nodes, drain })
        }
        // They answer a question that was asked once.
        _ => return Err(Unfit::Other("plans of its purpose are not saved".to_owned())),
    }
    .map_err(Unfit::NoPlan)?;
    if now.steps.len() == plan.steps.len() && now.steps.iter().zip(&plan.steps).all(|(a, b)| same(a, b)) {
        return Ok(());
    }
    if now.basis == plan.basis {
        return Err(Unfit::Altered);
    }
    let key = |step: &Step| digest::of(&(&step.node, &step.host, &step.action));
    let (then_keys, now_keys): (HashSet<String>, HashSet<String>) =
        (plan.steps.iter().map(key).collect(), now.steps.iter().map(key).collect());
    let gone = plan.steps.iter().filter(|step| !now_keys.contains(&key(step)));
    let more = now.steps.iter().filter(|step| !then_keys.contains(&key(step)));
    let boxed = |step: &Step| Box::new(step.clone());
    let mut why: Vec<Moved> = gone.map(|step| Moved::Gone(boxed(step))).take(NAMED).collect();
    why.extend(more.map(|step| Moved::Needed(boxed(step))).take(NAMED));
    if why.is_empty() {
        why.push(Moved::Order);
    }
    Err(Unfit::World(why))
}

fn same(a: &Step, b: &Step) -> bool {
    (a.id, &a.needs, &a.node, &a.host, &a.action, a.impact)
        == (b.id, &b.needs, &b.node, &b.host, &b.action, b.impact)
}
