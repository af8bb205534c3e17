//! `daedal templates list|prune`: what VMs are cloned from, and how what is left over goes.

use clap::Subcommand;
use daedal_engine::TemplateList;
use daedal_inventory::Role;
use daedal_planner::{Plan, PlanError, Pruning, TemplateRow, plan_prune_templates};

use crate::cli::{Format, Target};
use crate::commands::carry_out::{self, Manner};
use crate::commands::plan;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
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
    },
    /// Destroy templates that are incomplete or outdated; keep those that disks are linked to.
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
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// Only show the plan.
        #[arg(long)]
        plan_only: bool,
    },
}

/// Runs the command.
pub async fn run(command: &TemplatesCommand, format: Format, color: bool) -> Outcome {
    match command {
        TemplatesCommand::List { target } => {
            let session = Session::open_lacking(target, color).await?;
            let mut found =
                session.engine.templates(&session.cluster).await.map_err(|error| engine_failure(&error))?;
            found.unobserved.iter_mut().for_each(|one| advice::complete(&mut one.fix));
            match format {
                Format::Json => console::json(&found),
                Format::Text => console::result(&listed(&found)),
            }
            Ok(Exit::Done)
        }
        TemplatesCommand::Prune { target, all, protected, without_secrets, yes, plan_only } => {
            let (all, protected) = (*all, *protected);
            let pruning = Pruning { all, protected, without_secrets: without_secrets.is_some() };
            let consent = Consent { yes: *yes, number: without_secrets.flatten(), plan_only: *plan_only };
            prune(target, pruning, &consent, format, color).await
        }
    }
}

/// What was said in advance.
struct Consent {
    yes: bool,
    number: Option<usize>,
    plan_only: bool,
}

impl Consent {
    /// Asks for what was not said. Whoever has no secrets must say how many templates go.
    fn to(&self, plan: &Plan) -> Outcome<()> {
        carry_out::asking(self.yes)(plan)?;
        if !plan.without_secrets {
            return Ok(());
        }
        let number = match self.number {
            Some(number) => number.to_string(),
            None => console::ask("No secrets prove that these templates are yours. Type how many they are:")
                .ok_or_else(|| {
                    Failure::new(Exit::Usage, "nothing was destroyed: there is no terminal to ask on")
                        .hint("Give --without-secrets=NUMBER, the number of templates")
                })?,
        };
        match number == plan.steps.len().to_string() {
            true => Ok(()),
            false => Err(Failure::new(Exit::Failed, "nothing was destroyed: that is not their number")),
        }
    }
}

async fn prune(target: &Target, pruning: Pruning, consent: &Consent, format: Format, color: bool) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    let _lock = match consent.plan_only {
        true => None,
        false => Some(session.lock("templates prune").await?),
    };
    let world = match pruning.without_secrets {
        true => session.observe_unproven().await?,
        false => session.observe_proxmox().await?,
    };
    let plan = plan_prune_templates(&session.cluster, &session.image, &world, pruning);
    let otherwise = match &plan {
        Err(PlanError::Protected { .. }) => Some("To prune them all the same: --protected"),
        Err(PlanError::Unproven { .. }) => {
            Some("If the secrets are lost and everything listed is yours: --without-secrets")
        }
        _ => None,
    };
    let plan = plan::made(&session, &world, plan).map_err(|failure| match otherwise {
        Some(hint) => failure.hint(hint),
        None => failure,
    })?;
    let words = if pruning.all { "templates prune --all" } else { "templates prune" };
    let manner = Manner { target, words, plan_only: consent.plan_only, full: false, format, color };
    carry_out::run(&session, &world, &plan, &manner, |plan| consent.to(plan)).await
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
        let (Some(problem), Some(fix)) = (&row.problem, &row.fix) else { continue };
        text.push_str(&format!("\n{}\n", console::wrapped(&format!("{}: {problem}.", row.vmid), 2)));
        text.push_str(&format!("{}\n", console::wrapped(&format!("  fix: {fix}"), 7)));
    }
    if !unobserved.is_empty() {
        text.push_str("\nNot everything was seen:\n");
        text.push_str(&console::unseen(unobserved));
    }
    text
}

fn render(rows: &[TemplateRow]) -> String {
    let row = |row: &TemplateRow| {
        let role = match row.role {
            Role::ControlPlane => "control plane",
            Role::Worker => "worker",
        };
        let state = match (row.current, row.complete, row.running) {
            _ if row.problem.is_some() => "stuck: its create task died",
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
