//! `daedal node remove`: nodes that are no longer declared leave the cluster, and their VMs go.

use daedal_planner::{Fate, Removal, World};

use crate::cli::{Format, Target};
use crate::commands::{apply, execute, generation, plan};
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, engine_failure};
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
    let world = session.observe().await?;
    let plan = plan::for_removal(&session, &world, &Removal { nodes: names, drain: options.drain })?;
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
    generation::go_on(&world, options.onto, &again)?;
    session.engine.acknowledge(&world).await.map_err(|error| engine_failure(&error))?;
    if !options.yes {
        apply::consent_to(&plan, "Give --yes.")?;
    }
    let report = execute::execute(&session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, &again)?;
    let gone: Vec<&str> = (plan.nodes.iter().filter(|node| node.fate == Fate::Destroy))
        .map(|node| node.name.as_str())
        .collect();
    match format {
        Format::Json => console::json(&execute::as_json(&plan, &report)),
        Format::Text => console::result(&format!(
            "\n{} {} gone from cluster {}, {} in {:.1} s. The output files still name what was: {}\n",
            gone.join(", "),
            if gone.len() == 1 { "is" } else { "are" },
            plan.cluster,
            count(report.steps.len(), "step"),
            report.took.as_secs_f64(),
            apply::command(target, "apply"),
        )),
    }
    Ok(verdict)
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
