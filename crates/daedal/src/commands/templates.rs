//! `daedal templates list|prune`: what VMs are cloned from, and how what is left over goes.

use clap::Subcommand;
use daedal_app::{Answers, Intent};
use daedal_engine::TemplateList;
use daedal_inventory::Role;
use daedal_planner::{Pruning, TemplateRow};

use crate::cli::{Consent, Format, Many, Target};
use crate::commands::carry_out::{self, Manner};
use crate::commands::many;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{Session, engine_failure};
use crate::table;
use crate::{advice, console};

/// Manage templates.
#[derive(Debug, Subcommand)]
pub enum TemplatesCommand {
    /// List the templates of this cluster.
    List {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
    },
    /// Destroy templates that are incomplete or outdated; keep those that disks are linked to.
    #[command(after_long_help = "Examples:\n  daedal templates prune\n  daedal templates prune --all --yes")]
    Prune {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Also destroy templates that are current.
        #[arg(long)]
        all: bool,
        /// Also if the cluster has `protect: true`.
        #[arg(long)]
        protected: bool,
        /// Destroy templates although no secrets prove that they are yours; asks for their number unless it is given.
        #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true)]
        without_secrets: Option<Option<usize>>,
        /// What is agreed to.
        #[command(flatten)]
        consent: Consent,
    },
}

/// Runs the command.
pub async fn run(command: &TemplatesCommand, format: Format, color: bool) -> Outcome {
    match command {
        TemplatesCommand::List { target, many } => {
            let list = |target: Target| async move { Box::pin(list(&target, format, color)).await };
            many::run(target.clone(), many.all, format, color, list).await
        }
        TemplatesCommand::Prune { target, all, protected, without_secrets, consent } => {
            let (all, protected) = (*all, *protected);
            let pruning = Pruning { all, protected, without_secrets: without_secrets.is_some() };
            let answers = consent.answers(without_secrets.flatten());
            prune(target, pruning, answers, consent.plan_only, format, color).await
        }
    }
}

async fn list(target: &Target, format: Format, color: bool) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    let mut found =
        session.engine.templates(&session.cluster).await.map_err(|error| engine_failure(&error))?;
    found.unobserved.iter_mut().for_each(|one| advice::complete(&mut one.fix));
    match format {
        Format::Json => console::json(&as_json(&found)),
        Format::Text => console::result(&listed(&found)),
    }
    Ok(Exit::Done)
}

async fn prune(
    target: &Target,
    pruning: Pruning,
    answers: Answers,
    plan_only: bool,
    format: Format,
    color: bool,
) -> Outcome {
    let words = if pruning.all { "templates prune --all" } else { "templates prune" };
    let doing = "templates prune";
    let manner = Manner { target, doing, words, plan_only, full: false, answers, format, color };
    carry_out::run(&Intent::PruneTemplates(pruning), &manner, |refused, _| carry_out::despite(refused)).await
}

/// The templates, and what could not be seen: none is said only where all was.
fn listed(found: &TemplateList) -> String {
    let TemplateList { templates, unobserved } = found;
    let mut text = match (templates.is_empty(), unobserved.is_empty()) {
        (true, true) => return "There are no templates of this cluster.".to_owned(),
        (true, false) => {
            return "No template of this cluster was found, but not everything was seen:\n".to_owned()
                + &console::unseen(unobserved);
        }
        (false, _) => render(templates),
    };
    for row in templates {
        let Some((problem, fix)) = stuck(row) else { continue };
        text.push_str(&format!("\n{}\n", console::wrapped(&format!("{}: {problem}.", row.vmid), 2)));
        text.push_str(&format!("{}\n", console::wrapped(&format!("  fix: {fix}"), 7)));
    }
    if !unobserved.is_empty() {
        text.push_str("\nNot everything was seen:\n");
        text.push_str(&console::unseen(unobserved));
    }
    text
}

/// Why a template is stuck and what frees it, in words.
fn stuck(row: &TemplateRow) -> Option<(String, String)> {
    row.died.as_ref().map(|died| (daedal_words::died_half_way(died), daedal_words::free(died)))
}

/// The list for programs, with the words beside the codes.
fn as_json(found: &TemplateList) -> serde_json::Value {
    let mut json = serde_json::json!(found);
    for (at, row) in found.templates.iter().enumerate() {
        if let Some((problem, fix)) = stuck(row) {
            json["templates"][at]["problem"] = problem.into();
            json["templates"][at]["fix"] = fix.into();
        }
    }
    json
}

fn render(rows: &[TemplateRow]) -> String {
    let row = |row: &TemplateRow| {
        let role = match row.role {
            Role::ControlPlane => "control plane",
            Role::Worker => "worker",
        };
        let state = match (row.current, row.complete, row.running) {
            _ if row.died.is_some() => "stuck: its create task died",
            (true, ..) => "current",
            (_, true, _) => "old",
            (_, false, false) => "incomplete",
            (_, false, true) => "incomplete, running",
        };
        let linked = if row.linked.is_empty() { "-".to_owned() } else { row.linked.join(", ") };
        vec![row.vmid.to_string(), row.host.clone(), role.into(), state.into(), linked, row.name.clone()]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    table::render(&["VMID", "HOST", "ROLE", "STATE", "LINKED CLONES", "NAME"], &rows)
}
