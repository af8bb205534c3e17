//! Carries out an intent that changes one thing of a cluster: looks, plans, shows, asks where that is the rule, executes, sums up.

use daedal_app::{Answers, Error, Intent, has_problems};
use daedal_planner::{PlanError, World};

use crate::cli::{Format, Target};
use crate::commands::approval::{self, Otherwise};
use crate::commands::{apply, execute, plan};
use crate::console;
use crate::failure::Outcome;
use crate::session::{Session, failure};
use crate::words::count;

/// How a command carries out its intent.
pub struct Manner<'a> {
    /// What the command is for.
    pub target: &'a Target,
    /// What the lock says is being done.
    pub doing: &'a str,
    /// The command without its target, for the advice to run it again.
    pub words: &'a str,
    /// Only show what would be done.
    pub plan_only: bool,
    /// Tell every node in full.
    pub full: bool,
    /// What was answered in advance.
    pub answers: Answers,
    /// How to say it.
    pub format: Format,
    /// Whether to colour it.
    pub color: bool,
}

/// Carries out an intent for which no machine config is made. `advice` says what helps where the planner refuses.
pub async fn run(
    intent: &Intent<'_>,
    manner: &Manner<'_>,
    advice: impl Fn(&PlanError, &World) -> Option<String>,
) -> Outcome {
    let session = Session::open_lacking(manner.target, manner.color).await?;
    Box::pin(run_in(&session, intent, manner, advice)).await
}

/// The same in a session that is open.
pub async fn run_in(
    session: &Session,
    intent: &Intent<'_>,
    manner: &Manner<'_>,
    advice: impl Fn(&PlanError, &World) -> Option<String>,
) -> Outcome {
    let Manner { target, doing, words, plan_only, full, format, color, answers } = manner;
    let _lock = match plan_only {
        true => None,
        false => Some(session.lock(doing).await?),
    };
    session.log_in().await?;
    let world = session.look(intent).await.map_err(|error| failure(&error))?;
    let plan = session.plan(intent, &world).map_err(|error| {
        let advice = match &error {
            Error::Plan(refused) => advice(refused, &world),
            _ => None,
        };
        advice.into_iter().fold(failure(&error), crate::failure::Failure::hint)
    })?;
    if *format == Format::Text || *plan_only {
        plan::show(&plan, *full, *format, *color);
    }
    if *plan_only {
        return Ok(plan::verdict(&plan));
    }
    if plan.is_empty() {
        plan::tell_unchanged(&plan, *format);
        return Ok(plan::verdict(&plan));
    }
    let again = apply::command(target, words);
    let otherwise = Otherwise { again: &again, yes: "Give --yes." };
    approval::approve(session, intent, &world, &plan, answers, &otherwise).await?;
    let report = execute::execute(session, &world, &plan, *format, *color).await?;
    execute::conclude(&plan, &report, &again)?;
    match format {
        Format::Json => {
            let mut json = execute::as_json(&plan, &report);
            json["counts"] = serde_json::json!(daedal_planner::counts(&plan));
            console::json(&json);
        }
        Format::Text => console::answer(&format!(
            "\nCluster {}: {}, {} in {:.1} s.{}\n",
            plan.cluster,
            daedal_words::outcome(&plan),
            count(report.steps.len(), "step"),
            report.took.as_secs_f64(),
            if has_problems(&plan) { " It is incomplete: see Problems above." } else { "" },
        )),
    }
    Ok(plan::verdict(&plan))
}

/// How something is pruned that the planner refuses to.
pub fn despite(refused: &PlanError) -> Option<String> {
    let hint = match refused {
        PlanError::Protected { .. } => "To prune them all the same: --protected",
        PlanError::Unproven { .. } | PlanError::UnprovenVolumes { .. } => {
            "If the secrets are lost and everything listed is yours: --without-secrets"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}
