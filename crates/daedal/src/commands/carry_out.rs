//! Carries out a plan that changes one thing of a cluster: shows it, asks where that is the rule, executes it, sums it up.

use daedal_planner::{Plan, World};

use crate::cli::{Format, Target};
use crate::commands::{apply, execute, plan};
use crate::console;
use crate::failure::Outcome;
use crate::session::Session;
use crate::words::count;

/// How a command carries out its plan.
pub struct Manner<'a> {
    /// What the command is for.
    pub target: &'a Target,
    /// The command without its target, for the advice to run it again.
    pub words: &'a str,
    /// Only show what would be done.
    pub plan_only: bool,
    /// Tell every node in full.
    pub full: bool,
    /// How to say it.
    pub format: Format,
    /// Whether to colour it.
    pub color: bool,
}

/// Carries out a plan that the checker let pass.
pub async fn run(
    session: &Session,
    world: &World,
    plan: &Plan,
    manner: &Manner<'_>,
    consent: impl FnOnce(&Plan) -> Outcome<()>,
) -> Outcome {
    let Manner { target, words, plan_only, full, format, color } = *manner;
    if format == Format::Text || plan_only {
        plan::show(plan, full, format, color);
    }
    if plan_only {
        return Ok(plan::verdict(plan));
    }
    if plan.is_empty() {
        plan::tell_unchanged(plan, format);
        return Ok(plan::verdict(plan));
    }
    consent(plan)?;
    let report = execute::execute(session, world, plan, format, color).await?;
    execute::conclude(plan, &report, &apply::command(target, words))?;
    match format {
        Format::Json => {
            let mut json = execute::as_json(plan, &report);
            json["counts"] = serde_json::json!(daedal_planner::counts(plan));
            console::json(&json);
        }
        Format::Text => console::answer(&format!(
            "\nCluster {}: {}, {} in {:.1} s.\n",
            plan.cluster,
            daedal_planner::outcome(plan),
            count(report.steps.len(), "step"),
            report.took.as_secs_f64(),
        )),
    }
    Ok(plan::verdict(plan))
}

/// How a command asks before it carries out its plan.
pub fn asking(yes: bool) -> impl FnOnce(&Plan) -> Outcome<()> {
    move |plan| match yes {
        true => Ok(()),
        false => apply::consent_to(plan, "Give --yes."),
    }
}
