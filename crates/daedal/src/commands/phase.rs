//! `daedal generate`, `daedal provision`, `daedal bootstrap`: the phases of an apply, each on its own.

use daedal_app::{Intent, has_problems};
use daedal_engine::Report;
use daedal_planner::{Action, Fate, Phase, Plan};

use crate::cli::{Consent, Format, Target};
use crate::commands::approval::{self, Otherwise};
use crate::commands::{apply, execute, plan};
use crate::console;
use crate::failure::Outcome;
use crate::session::Session;
use crate::words::count;

/// What the command was told besides the target.
pub struct Options {
    /// Which phase.
    pub phase: Phase,
    /// What is agreed to in advance.
    pub consent: Consent,
    /// Tell every node in full.
    pub full: bool,
}

impl Options {
    /// Making files asks nobody for anything.
    pub fn generate() -> Self {
        let consent = Consent { yes: true, onto: None, plan_only: false };
        Self { phase: Phase::Generate, consent, full: false }
    }
}

/// Runs the command.
pub async fn run(target: &Target, options: &Options, format: Format, color: bool) -> Outcome {
    let Options { phase, consent, full } = options;
    let session = match phase {
        Phase::Generate => Session::open_apart(target, color).await?,
        _ => Session::open(target, color).await?,
    };
    plan::vet(&session, color).await?;
    let word = phase.to_string();
    let _lock = match consent.plan_only {
        true => None,
        false => Some(session.lock(&word).await?),
    };
    let intent = Intent::Phase(*phase);
    let (world, plan) = plan::made(&session, &intent).await?;
    plan::buildable(&session, &plan).await?;
    if format == Format::Text || consent.plan_only {
        plan::show(&plan, *full, format, color);
    }
    if consent.plan_only {
        return Ok(plan::verdict(&plan));
    }
    if plan.is_empty() {
        plan::tell_unchanged(&plan, format);
        return Ok(plan::verdict(&plan));
    }
    let again = apply::command(target, &word);
    let otherwise = Otherwise { again: &again, yes: "Give --yes." };
    approval::approve(&session, &intent, &world, &plan, &consent.answers(None), &otherwise).await?;
    let report = execute::execute(&session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, &again)?;
    // What a node runs on is seen only once it was started.
    let follow_up = match *phase == Phase::Provision && session.starts_changed(&world, &plan) {
        true => {
            let follow = apply::Follow { intent, again: &again, yes: consent.yes, full: *full };
            Some(apply::follow_up(&session, &follow, format, color).await?)
        }
        false => None,
    };
    let more = follow_up.as_ref().and_then(|after| Some((&after.plan, after.report.as_ref()?)));
    let runs: Vec<(&Plan, &Report)> = [Some((&plan, &report)), more].into_iter().flatten().collect();
    let last = follow_up.as_ref().map_or(&plan, |after| &after.plan);
    match format {
        Format::Json => {
            let mut json = execute::as_json(last, &report);
            if let Some((plan, report)) = more {
                json["followUp"] = execute::as_json(plan, report);
            }
            console::json(&json);
        }
        Format::Text => {
            let found = follow_up.as_ref().map_or(&world, |after| &after.world);
            let ended = apply::Ended { found, last, runs: &runs };
            console::answer(&match phase {
                Phase::Generate => generated(&session, target, last).await?,
                Phase::Provision => provisioned(target, &ended),
                Phase::Bootstrap => {
                    let mut text = apply::summary(&session, target, &ended).await;
                    if daedal_words::left_for(last, Phase::Provision) {
                        let go_on = apply::command(target, "provision");
                        text.push_str(&format!(
                            "\nChanges of nodes are left to provision, see Notes:\n  {go_on}\n"
                        ));
                    }
                    text
                }
                Phase::Addons => apply::summary(&session, target, &ended).await,
            });
        }
    }
    Ok(plan::verdict(last))
}

/// What lies where, after nobody was asked.
async fn generated(session: &Session, target: &Target, plan: &Plan) -> Outcome<String> {
    let outputs = session.engine.outputs();
    let wrote = plan.steps.iter().any(|step| step.action == Action::WriteOutputs);
    let files = match wrote {
        true => {
            format!(" {} in {}.", count(outputs.names().len(), "output file"), outputs.folder().display())
        }
        false => String::new(),
    };
    Ok(format!(
        "\nCluster {}: its secrets are stored in {}.{files} Proxmox and the nodes were not asked.\n\nNext:\n  {}\n",
        plan.cluster,
        session.store.place().display(),
        apply::command(target, "provision"),
    ))
}

/// Which nodes have their VM and answer.
fn provisioned(target: &Target, ended: &apply::Ended<'_>) -> String {
    let plan = ended.last;
    let answer = plan.nodes.iter().filter(|node| node.fate != Fate::Blocked).count();
    let nodes = count(plan.nodes.len(), "node");
    let state = match has_problems(plan) {
        true => {
            format!("is provisioned in part, see Problems above: {answer} of {nodes} answer over mutual TLS")
        }
        false => format!("is provisioned: {nodes} answer over mutual TLS"),
    };
    let stays = daedal_words::differing(plan).map(|stays| format!("; {stays}")).unwrap_or_default();
    let not_seen = daedal_words::not_seen(plan).map(|which| format!(" {which}")).unwrap_or_default();
    let next = match daedal_words::left_for(plan, Phase::Bootstrap) {
        true => "bootstrap",
        false => "status",
    };
    format!(
        "\nCluster {} {state}{stays}{}, {} in {:.1} s.{not_seen}\n\nNext:\n  {}\n",
        plan.cluster,
        ended.created(),
        count(ended.steps().count(), "step"),
        ended.runs.iter().map(|(_, report)| report.took).sum::<std::time::Duration>().as_secs_f64(),
        apply::command(target, next),
    )
}
