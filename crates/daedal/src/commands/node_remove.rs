//! `daedal node remove`: nodes that are no longer declared leave the cluster, and their VMs go.

use daedal_app::{Answers, Intent, Removed};
use daedal_engine::Report;
use daedal_planner::{Plan, Remains, Removal, World};

use crate::cli::{Format, Target};
use crate::commands::approval::{self, Otherwise};
use crate::commands::{apply, execute, plan};
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::Session;
use crate::words::count;

/// What the command was told besides names and target.
pub struct Options {
    /// Do not ask.
    pub yes: bool,
    /// The generation to go on from.
    pub onto: Option<u32>,
    /// Only show what would be done.
    pub plan_only: bool,
    /// Evict pods first.
    pub drain: bool,
    /// Tell every node in full.
    pub full: bool,
}

/// Runs the command.
pub async fn run(
    names: &[String],
    target: &Target,
    options: &Options,
    format: Format,
    color: bool,
) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    plan::say_warnings(&session, color);
    let _lock = match options.plan_only {
        true => None,
        false => Some(session.lock("node remove").await?),
    };
    let intent = Intent::Remove(Removal { nodes: names, drain: options.drain });
    let (world, plan) = plan::made(&session, &intent).await?;
    let unknown: Vec<&str> = (names.iter().map(String::as_str))
        .filter(|name| plan.nodes.iter().all(|node| node.name != *name))
        .collect();
    if plan.nodes.is_empty() && !unknown.is_empty() {
        return Err(no_such_node(&unknown, &session, &world));
    }
    if format == Format::Text || options.plan_only {
        plan::show(&plan, options.full, format, color);
    }
    let verdict = if unknown.is_empty() { plan::verdict(&plan) } else { Exit::NoInput };
    if options.plan_only {
        return Ok(verdict);
    }
    if plan.is_empty() {
        plan::tell_unchanged(&plan, format);
        return Ok(verdict);
    }
    let again = apply::command(target, &format!("node remove {}", names.join(" ")));
    let answers = Answers { yes: options.yes, onto: options.onto, ..Answers::default() };
    let otherwise = Otherwise { again: &again, yes: "Give --yes." };
    approval::approve(&session, &intent, &world, &plan, &answers, &otherwise).await?;
    let report = execute::execute(&session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, &again)?;
    // Only a look afterwards tells what is gone.
    let removed = session.removed(&session.observe().await?, &plan);
    let all_gone = removed.iter().all(|one| one.remains.is_gone());
    match format {
        Format::Json => {
            let mut json = execute::as_json(&plan, &report);
            json["removed"] =
                removed.iter().map(|one| (one.node.clone(), serde_json::json!(one.remains))).collect();
            console::json(&json);
        }
        Format::Text => console::answer(&ending(&plan, &report, &removed, &apply::command(target, "apply"))),
    }
    Ok(if all_gone { verdict } else { Exit::Failed })
}

/// How it went: what is gone, and in the last lines what is not, or could not be seen to be.
fn ending(plan: &Plan, report: &Report, removed: &[Removed], apply: &str) -> String {
    let (gone, left): (Vec<_>, Vec<_>) = removed.iter().partition(|one| one.remains.is_gone());
    let (steps, took) = (count(report.steps.len(), "step"), report.took.as_secs_f64());
    let names: Vec<&str> = gone.iter().map(|one| one.node.as_str()).collect();
    let mut text = match &names[..] {
        [] => format!("\nCluster {}: {steps} in {took:.1} s.\n", plan.cluster),
        names => format!(
            "\n{} {} gone from cluster {}, {steps} in {took:.1} s. To update the output files: {apply}\n",
            names.join(", "),
            if names.len() == 1 { "is" } else { "are" },
            plan.cluster,
        ),
    };
    for Removed { node: name, remains: Remains { found, unseen } } in left {
        let (found, unseen) = (found.join(", "), unseen.join(", "));
        text.push_str(&match (found.is_empty(), unseen.is_empty()) {
            (true, _) => format!("Whether {name} is gone is not known. Not seen: {unseen}\n"),
            (false, true) => format!("{name} is not gone. Left: {found}\n"),
            (false, false) => format!("{name} is not gone. Left: {found}. Not seen: {unseen}\n"),
        });
    }
    text
}

/// Names that are nowhere are most likely misspelt: the ones that exist help.
fn no_such_node(unknown: &[&str], session: &Session, world: &World) -> Failure {
    let (cluster, names) = (&session.cluster, unknown.join(", "));
    let message = match unknown {
        [_] => format!("there is no node called {names} in cluster {}", cluster.name),
        _ => format!("there are no nodes called {names} in cluster {}", cluster.name),
    };
    let left: Vec<&str> = world.undeclared(cluster).into_iter().collect();
    let declared: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    let failure = Failure::new(Exit::NoInput, message);
    match &left[..] {
        [] => failure.hint("Every node that is there is declared: nothing is left to remove."),
        left => failure.hint(format!("No longer declared, and still there: {}", left.join(", "))),
    }
    .hint(format!("Declared: {}", declared.join(", ")))
}
