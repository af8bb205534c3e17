//! Advice of the other crates, with the flags that lead from here to the same cluster.

use std::sync::OnceLock;

use daedal_planner::{Command, Fix, Plan};

use crate::cli::Target;
use crate::commands::call;

/// The cluster that this run is about.
static TARGET: OnceLock<Target> = OnceLock::new();

/// Lets all advice from now on be about this cluster.
pub fn is_about(target: &Target) {
    let _ = TARGET.set(target.clone());
}

/// The text of an advice, whose commands can be pasted as they are.
pub fn told(fix: &Fix) -> String {
    fix.told(|command: &Command| match TARGET.get() {
        Some(target) => call(target, &command.to_string()),
        None => format!("daedal {command}"),
    })
}

/// The same advice with nothing left to add.
pub fn complete(fix: &mut Option<Fix>) {
    if let Some(fix) = fix {
        *fix = Fix::from(told(fix));
    }
}

/// The same plan, for people or programs, with nothing left to add to its advice. What is saved or executed is the plan itself.
pub fn complete_plan(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.notes.iter_mut().for_each(|note| complete(&mut note.fix));
    plan.differences.iter_mut().for_each(|difference| complete(&mut difference.fix));
    plan
}
