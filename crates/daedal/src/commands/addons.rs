//! `daedal addons`: the fourth phase of an apply; `list`, `show` and `diff` tell what is in the cluster.

use clap::Subcommand;
use daedal_engine::{AddonState, AddonStatus};
use daedal_inventory::Entry;
use daedal_planner::{AddonObject, AddonView, ObjectState, Readiness, World};

use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::Session;
use crate::{console, table};

/// Looking at add-ons.
#[derive(Debug, Subcommand)]
pub enum AddonsCommand {
    /// List the add-ons: what each is made of, who looks after it, and whether it is ready.
    List {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
    },
    /// Show every object of an add-on, and how it is.
    Show {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// The add-on.
        name: String,
    },
    /// List the add-ons that are known by name, with their versions and what is particular about them on Talos.
    Catalogue,
    /// Show what differs from the inventory, field by field; exits with 2 if anything does.
    Diff {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// The add-on; all of them if none is given.
        name: Option<String>,
    },
}

/// Runs the command.
pub async fn run(command: &AddonsCommand, format: Format, color: bool) -> Outcome {
    match command {
        AddonsCommand::List { target } => {
            let session = Session::open(target, color).await?;
            let world = session.observe_addons().await?;
            let rows = daedal_engine::addon_statuses(&session.cluster, &world);
            match format {
                Format::Json => console::json(&rows),
                Format::Text if rows.is_empty() => {
                    console::say("No add-ons are declared, and none are left.");
                }
                Format::Text => console::result(&listed(&rows)),
            }
            seen(&world, &rows)
        }
        AddonsCommand::Show { target, name } => {
            let session = Session::open(target, color).await?;
            let world = session.observe_addons().await?;
            let view = found(&world, name)?;
            match format {
                Format::Json => console::json(view),
                Format::Text => console::result(&shown(view)),
            }
            unrendered(name, view)?;
            seen(&world, &[])
        }
        AddonsCommand::Catalogue => {
            match format {
                Format::Json => console::json(&daedal_inventory::catalogue().map(entry).collect::<Vec<_>>()),
                Format::Text => console::result(&catalogue()),
            }
            Ok(Exit::Done)
        }
        AddonsCommand::Diff { target, name } => {
            let session = Session::open(target, color).await?;
            let world = session.observe_addons().await?;
            diff(&world, name.as_deref(), format)
        }
    }
}

fn entry(entry: &Entry) -> serde_json::Value {
    serde_json::json!({
        "name": entry.name, "about": entry.about, "version": entry.source.version(), "namespace": entry.namespace,
        "retired": entry.retired, "talos": entry.talos,
    })
}

/// The catalogue as a table.
fn catalogue() -> String {
    let row = |entry: &Entry| {
        let retired = if entry.retired.is_some() { " (retired)" } else { "" };
        let version = table::or_nothing(Some(entry.source.version().to_owned()).filter(|it| !it.is_empty()));
        vec![entry.name.to_owned(), version, format!("{}{retired}", entry.about)]
    };
    let rows: Vec<Vec<String>> = daedal_inventory::catalogue().map(row).collect();
    table::render(&["NAME", "VERSION", "WHAT"], &rows)
}

/// What differs, with an exit code that says whether anything does.
fn diff(world: &World, name: Option<&str>, format: Format) -> Outcome {
    if let Some(name) = name {
        unrendered(name, found(world, name)?)?;
    }
    let all = world.addons.iter().flat_map(|addons| &addons.declared);
    let chosen: Vec<_> = all.filter(|(one, _)| name.is_none_or(|name| *one == name)).collect();
    seen(world, &[])?;
    for (name, view) in &chosen {
        unrendered(name, view)?;
    }
    match format {
        Format::Json => console::json(
            &chosen.iter().map(|(name, view)| (*name, *view)).collect::<std::collections::BTreeMap<_, _>>(),
        ),
        Format::Text => {
            let text: String = chosen.iter().map(|(name, view)| differences(name, view)).collect();
            match text.is_empty() {
                true => console::say("No differences."),
                false => console::result(text.trim_end()),
            }
        }
    }
    let same = chosen.iter().all(|(_, view)| view.is_as_declared() && view.extra.is_empty());
    Ok(if same { Exit::Done } else { Exit::Changes })
}

fn found<'w>(world: &'w World, name: &str) -> Outcome<&'w AddonView> {
    let declared = world.addons.as_ref().map(|addons| &addons.declared);
    declared.and_then(|declared| declared.get(name)).ok_or_else(|| {
        let names: Vec<&str> = declared.iter().flat_map(|all| all.keys()).map(String::as_str).collect();
        let hint = match names.is_empty() {
            true => "The inventory declares no add-ons (`spec.addons`).".to_owned(),
            false => format!("Declared are: {}.", names.join(", ")),
        };
        Failure::new(Exit::NoInput, format!("no add-on {name} is declared")).hint(hint)
    })
}

fn unrendered(name: &str, view: &AddonView) -> Outcome<()> {
    match &view.unrendered {
        None => Ok(()),
        Some(why) => Err(Failure::new(Exit::Failed, format!("add-on {name} cannot be rendered: {why}"))),
    }
}

/// Whether the cluster told of its add-ons; if not, that is a failure, after what is known without it was printed.
fn seen(world: &World, rows: &[AddonStatus]) -> Outcome {
    let told = world.addons.as_ref().is_none_or(|addons| addons.told);
    let broken = rows.iter().any(|row| matches!(row.state, AddonState::NotRendered { .. }));
    match (told, broken) {
        (true, false) => Ok(Exit::Done),
        (true, true) => Ok(Exit::Failed),
        (false, _) => {
            let whys = world.unobserved.iter().map(|one| format!("{}: {}", one.what, one.why));
            let mut failure =
                Failure::new(Exit::Unavailable, "Kubernetes could not be asked what is in the cluster");
            failure.causes = whys.collect();
            Err(failure)
        }
    }
}

/// Add-ons as a table, and below it why some are not as they should be: such sentences are too long for a column.
pub fn listed(rows: &[AddonStatus]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.addon.clone(),
                table::or_nothing(row.chart.clone()),
                row.objects.to_string(),
                daedal_words::owner(&row.owner),
                state(row),
                match row.ready {
                    Some(true) => "yes".to_owned(),
                    Some(false) => "no".to_owned(),
                    None => table::or_nothing(None),
                },
            ]
        })
        .collect();
    let mut text = table::render(&["ADD-ON", "CHART", "OBJECTS", "OWNER", "STATE", "READY"], &cells);
    let whys: Vec<String> = rows.iter().filter_map(|row| Some((row, why(row)?))).map(told).collect();
    if !whys.is_empty() {
        text.push_str(&format!("\n{}", whys.concat()));
    }
    text
}

/// Why an add-on is not as it should be.
fn why(row: &AddonStatus) -> Option<&str> {
    match &row.state {
        AddonState::NotRendered { why } => Some(why),
        _ => row.unready.as_deref(),
    }
}

fn told((row, why): (&AddonStatus, &str)) -> String {
    console::wrapped(&format!("{}: {why}\n", row.addon), 2)
}

fn state(row: &AddonStatus) -> String {
    match &row.state {
        AddonState::AsDeclared => "as declared".to_owned(),
        AddonState::Absent => "not applied".to_owned(),
        AddonState::Differs { objects } => format!("{} differ", crate::words::count(*objects, "object")),
        AddonState::Owned => "left to its owner".to_owned(),
        AddonState::NotRendered { .. } => "cannot be rendered".to_owned(),
        AddonState::NotSeen => "not seen".to_owned(),
        AddonState::Former => "no longer declared".to_owned(),
    }
}

/// Every object of an add-on.
fn shown(view: &AddonView) -> String {
    let row = |object: &AddonObject| {
        let state = match &object.state {
            ObjectState::NotSeen => "not seen".to_owned(),
            ObjectState::Absent => "absent".to_owned(),
            ObjectState::AsDeclared => "as declared".to_owned(),
            ObjectState::Differs { conflicts, .. } if !conflicts.is_empty() => "in conflict".to_owned(),
            ObjectState::Differs { .. } => "differs".to_owned(),
            ObjectState::Refused { why, .. } => format!("refused: {why}"),
        };
        let ready = match (&object.state, &object.readiness) {
            (ObjectState::NotSeen | ObjectState::Absent, _) => table::or_nothing(None),
            (_, Readiness::Ready) => "yes".to_owned(),
            (_, Readiness::Waiting(why) | Readiness::Failed(why)) => why.clone(),
        };
        vec![object.id.to_string(), state, ready]
    };
    let mut rows: Vec<Vec<String>> = view.objects.iter().map(row).collect();
    rows.extend(
        view.extra
            .iter()
            .map(|id| vec![id.to_string(), "no longer part of it".to_owned(), table::or_nothing(None)]),
    );
    table::render(&["OBJECT", "STATE", "READY"], &rows)
}

/// What of an add-on is other than declared.
fn differences(name: &str, view: &AddonView) -> String {
    let mut text = String::new();
    for object in &view.objects {
        let id = &object.id;
        match &object.state {
            ObjectState::AsDeclared | ObjectState::NotSeen => {}
            ObjectState::Absent => text.push_str(&format!("  + {id}\n")),
            ObjectState::Refused { why, .. } => text.push_str(&format!("  ! {id}: {why}\n")),
            ObjectState::Differs { changes, conflicts } => {
                text.push_str(&format!("  ~ {id}\n"));
                for change in changes {
                    let or_not =
                        |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
                    let (from, to) = (or_not(&change.from), or_not(&change.to));
                    text.push_str(&format!("      {}: {from} → {to}\n", change.path));
                }
                for conflict in conflicts {
                    text.push_str(&format!("      {} is owned by {}\n", conflict.field, conflict.manager));
                }
            }
        }
    }
    text.extend(view.extra.iter().map(|id| format!("  - {id}\n")));
    match text.is_empty() {
        true => text,
        false => format!("{name}\n{text}"),
    }
}
