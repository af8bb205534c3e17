//! `daedal templates list|prune`: what VMs are cloned from, and how what is left over goes.

use clap::Subcommand;
use daedal_engine::{Pruning, TemplateRow};
use daedal_inventory::Role;

use crate::cli::{Format, Target};
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, engine_failure};
use crate::table;

/// Templates.
#[derive(Debug, Subcommand)]
pub enum TemplatesCommand {
    /// List the templates that this cluster has made.
    List {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
    },
    /// Destroy templates that are incomplete, or made of something else than is declared now. One that disks are linked to stays.
    Prune {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Also those that are current.
        #[arg(long)]
        all: bool,
        /// Also in a cluster that says `protect: true`.
        #[arg(long)]
        protected: bool,
        /// Destroy templates although no secrets prove that they are yours; asks for their number unless it is given.
        #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true)]
        without_secrets: Option<Option<usize>>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Runs the command.
pub async fn run(command: &TemplatesCommand, format: Format, color: bool) -> Outcome {
    match command {
        TemplatesCommand::List { target } => {
            let session = Session::open_lacking(target, color).await?;
            let rows =
                session.engine.templates(&session.cluster).await.map_err(|error| engine_failure(&error))?;
            match format {
                Format::Json => console::json(&rows),
                Format::Text if rows.is_empty() => console::result("There are no templates of this cluster."),
                Format::Text => console::result(render(&rows).trim_end()),
            }
            Ok(Exit::Done)
        }
        TemplatesCommand::Prune { target, all, protected, without_secrets, yes } => {
            let (all, protected) = (*all, *protected);
            let pruning = Pruning { all, protected, without_secrets: without_secrets.is_some() };
            let consent = Consent { yes: *yes, number: without_secrets.flatten() };
            prune(target, pruning, &consent, format, color).await
        }
    }
}

/// What was said in advance.
struct Consent {
    yes: bool,
    number: Option<usize>,
}

impl Consent {
    /// Asks for what was not said. Whoever has no secrets must say how many templates go.
    fn to(&self, going: &[TemplateRow], pruning: Pruning) -> Outcome<()> {
        let nobody = |hint: &str| {
            Failure::new(Exit::Usage, "nothing was destroyed: there is no terminal to ask on")
                .hint(hint.to_owned())
        };
        if going.is_empty() || (self.yes && !pruning.without_secrets) {
            return Ok(());
        }
        console::progress(render(going).trim_end());
        if !self.yes {
            let agrees = console::agrees("Destroy these templates?").ok_or_else(|| nobody("Give --yes"))?;
            if !agrees {
                return Err(Failure::new(Exit::Failed, "nothing was destroyed: the answer was not yes"));
            }
        }
        if !pruning.without_secrets {
            return Ok(());
        }
        let number = match self.number {
            Some(number) => number.to_string(),
            None => console::ask("No secrets prove that these templates are yours. Type how many they are:")
                .ok_or_else(|| nobody("Give --without-secrets=NUMBER, the number of templates"))?,
        };
        match number == going.len().to_string() {
            true => Ok(()),
            false => Err(Failure::new(Exit::Failed, "nothing was destroyed: that is not their number")),
        }
    }
}

async fn prune(target: &Target, pruning: Pruning, consent: &Consent, format: Format, color: bool) -> Outcome {
    let session = Session::open(target, color).await?;
    let _lock = session.lock("templates prune").await?;
    let rows = session.engine.prunable_templates(&session.cluster, pruning).await;
    let rows = rows.map_err(|error| engine_failure(&error))?;
    let going: Vec<TemplateRow> = rows.iter().filter(|row| row.linked.is_empty()).cloned().collect();
    consent.to(&going, pruning)?;
    let pruned = session.engine.prune_templates(&session.cluster, pruning, rows).await;
    let pruned = pruned.map_err(|error| engine_failure(&error))?;
    match format {
        Format::Json => console::json(&pruned),
        Format::Text if pruned.is_empty() => console::result("There is nothing to prune."),
        Format::Text => {
            for one in &pruned {
                let (vmid, host) = (one.template.vmid, &one.template.host);
                console::result(&match &one.kept {
                    None => format!("destroyed  template {vmid} on {host}"),
                    Some(why) => format!("kept       template {vmid} on {host}: {why}"),
                });
            }
        }
    }
    let failed = pruned.iter().any(|one| one.template.linked.is_empty() && one.kept.is_some());
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn render(rows: &[TemplateRow]) -> String {
    let row = |row: &TemplateRow| {
        let role = match row.role {
            Role::ControlPlane => "control plane",
            Role::Worker => "worker",
        };
        let state = match (row.current, row.complete, row.running) {
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
