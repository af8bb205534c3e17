//! `daedal apply`: show the plan, ask, execute, sum up.

use std::path::{Path, PathBuf};

use daedal_engine::Report;
use daedal_inventory::Cni;
use daedal_planner::{Action, Level, Ownership, Plan, Purpose, World};

use crate::cli::{Format, Target};
use crate::commands::execute::{self, Canvas};
use crate::commands::{generation, outputs, plan, saved};
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgs;
use crate::session::{Session, engine_failure};
use crate::words::count;

/// What the command was told besides the target.
pub struct Options {
    /// A saved plan.
    pub saved: Option<PathBuf>,
    /// What names the one saved plan that may be executed.
    pub expect: Option<String>,
    /// Do not ask.
    pub yes: bool,
    /// The generation to go on from.
    pub onto: Option<u32>,
    /// Where to draw the run.
    pub timeline: Option<PathBuf>,
    /// Tell every node in full.
    pub full: bool,
}

/// Runs the command.
pub async fn run(mut target: Target, options: &Options, format: Format, color: bool) -> Outcome {
    let saved = options.saved.as_deref().map(saved::read).transpose()?;
    if let Some(saved) = &saved {
        if let Some(id) = &options.expect {
            saved.expect(id)?;
        }
        saved.aim(&mut target)?;
    }
    let session = Session::open(&target, color).await?;
    plan::vet(&session, color)?;
    let _lock = session.lock("apply").await?;
    let world = session.observe().await?;
    let plan = match saved {
        Some(saved) => still_fits(&session, &world, saved.plan)?,
        None => plan::for_apply(&session, &world)?,
    };
    plan::buildable(&session, &plan).await?;
    if format == Format::Text {
        plan::show(&plan, options.full, format, color);
    }
    if plan.is_empty() {
        plan::tell_unchanged(&plan, format);
        agree(&session, &world, &plan).await?;
        if let Some(path) = options.timeline.as_deref() {
            Canvas::open(path)?.draw_nothing(&plan.cluster)?;
        }
        return Ok(plan::verdict(&plan));
    }
    match plan.touches_cluster() {
        true => generation::go_on(&world, options.onto, &command(&target, "apply"))?,
        false => agree(&session, &world, &plan).await?,
    }
    if !options.yes && options.saved.is_none() {
        consent_to(
            &plan,
            "Give --yes, or approve a plan with `daedal plan --save FILE` and `daedal apply FILE`.",
        )?;
    }
    let canvas = options.timeline.as_deref().map(Canvas::open).transpose()?;
    let report = execute::execute(&session, &world, &plan, format, color).await?;
    // How the run went comes first; that it could not be drawn is a small thing beside it.
    let drawn = canvas.map_or(Ok(()), |canvas| canvas.draw(&report));
    execute::conclude(&plan, &report, &command(&target, "apply")).map_err(|failure| match &drawn {
        Err(undrawn) => {
            failure.hint(format!("Besides, daedal {}: {}", undrawn.message, undrawn.causes.join(": ")))
        }
        Ok(()) => failure,
    })?;
    let follow_up = match options.saved.is_none() && starts_changed(&session, &world, &plan) {
        true => follow_up(&session, &target, options, format, color).await?,
        false => None,
    };
    match format {
        Format::Json => {
            let mut json = execute::as_json(&plan, &report);
            if let Some((plan, report)) = &follow_up {
                json["followUp"] = execute::as_json(plan, report);
            }
            console::json(&json);
        }
        Format::Text => console::result(&summary(&session, &target, &plan, &report).await),
    }
    drawn?;
    Ok(plan::verdict(follow_up.as_ref().map_or(&plan, |(plan, _)| plan)))
}

/// Whether a plan starts a node whose declared config changed while it was off: what it runs on is seen only now.
fn starts_changed(session: &Session, world: &World, plan: &Plan) -> bool {
    let started = plan.steps.iter().filter(|step| matches!(step.action, Action::StartVm { .. }));
    let nodes = started.filter_map(|step| session.cluster.node(step.node.as_deref()?));
    nodes.into_iter().any(|node| match world.guests.get(&node.vmid).map(|guest| &guest.ownership) {
        Some(Ownership::Ours { digest, .. }) => {
            *digest != daedal_planner::node_digest(&session.cluster, node)
        }
        _ => false,
    })
}

/// What can be seen only now that nodes were started: the same as another apply, in the same run.
async fn follow_up(
    session: &Session,
    target: &Target,
    options: &Options,
    format: Format,
    color: bool,
) -> Outcome<Option<(Plan, Report)>> {
    let world = session.observe().await?;
    let plan = plan::for_apply(session, &world)?;
    if plan.is_empty() {
        return Ok(None);
    }
    console::progress("\nThe nodes that were started differ from the inventory:");
    if format == Format::Text {
        plan::show(&plan, options.full, format, color);
    }
    if !options.yes {
        consent_to(&plan, "Run `daedal apply --yes` for the rest.")?;
    }
    let report = execute::execute(session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, &command(target, "apply"))?;
    Ok(Some((plan, report)))
}

/// Where the plan changes nothing, this inventory says the same as whatever somebody else applied: the store knows it from now on.
async fn agree(session: &Session, world: &World, plan: &Plan) -> Outcome<()> {
    if plan::has_problems(plan) {
        return Ok(());
    }
    session.engine.acknowledge(world).await.map_err(|error| engine_failure(&error))
}

/// A saved plan is executed as exactly that, or not at all.
fn still_fits(session: &Session, world: &World, plan: Plan) -> Outcome<Plan> {
    if plan.purpose != Purpose::Apply {
        return Err(Failure::new(
            Exit::BadDocument,
            "the saved plan destroys; `apply` executes plans that build",
        )
        .hint("To remove a cluster: daedal destroy; to remove nodes: daedal node remove"));
    }
    daedal_planner::fits(&plan, &session.cluster, &session.image, world).map_err(|why| {
        Failure::new(Exit::Failed, "the saved plan no longer fits and was not executed")
            .because(&why)
            .hint("Make a new one with `daedal plan --save FILE`.")
    })?;
    plan::judged(session, world, plan)
}

/// What a plan comes to, for beside the question: a long plan has left the screen by then.
pub fn in_short(plan: &Plan) -> String {
    let noted = |level, word: &str| {
        let noted = plan.notes.iter().filter(|note| note.level == level).count();
        (noted > 0).then(|| format!("{} above", count(noted, word)))
    };
    let parts = [
        Some(daedal_planner::summary(plan)),
        noted(Level::Problem, "problem"),
        noted(Level::Warning, "warning"),
    ];
    let comes_to = format!("{}.", parts.into_iter().flatten().collect::<Vec<_>>().join("; "));
    let text: Vec<String> = daedal_planner::left_out(plan).into_iter().chain([comes_to]).collect();
    console::wrapped(&text.join(" "), 0)
}

/// Asks whether to execute a plan, with what it comes to beside the question.
pub fn consent_to(plan: &Plan, otherwise: &str) -> Outcome<()> {
    agreed(&format!("{}\nDo this to cluster {}?", in_short(plan), plan.cluster), otherwise)
}

/// Asks whether to go on; where there is no terminal to ask on, says how to do without.
pub fn consent(session: &Session, otherwise: &str) -> Outcome<()> {
    agreed(&format!("Do this to cluster {}?", session.cluster.name), otherwise)
}

fn agreed(question: &str, otherwise: &str) -> Outcome<()> {
    match console::agrees(question) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::new(Exit::Failed, "nothing was done: the answer was not yes")),
        None => {
            Err(Failure::new(Exit::Usage, "nothing was done: there is no terminal to ask on").hint(otherwise))
        }
    }
}

/// How it went, and what to try next.
pub async fn summary(session: &Session, target: &Target, plan: &Plan, report: &Report) -> String {
    let cluster = &session.cluster;
    let url = cluster.located(&session.engine.outputs().addresses().await).kubernetes.endpoint_url();
    let created = plan.steps.iter().filter(|step| matches!(step.action, Action::CreateVm { .. })).count();
    let made = if created > 0 { format!(", {} created", count(created, "VM")) } else { String::new() };
    let nodes = count(cluster.nodes.len(), "node");
    let state = if plan::has_problems(plan) {
        "is incomplete: see Problems above".to_owned()
    } else if cluster.kubernetes.cni == Cni::None {
        format!("is up: {nodes}, Ready once a CNI is installed")
    } else {
        format!("is up: {nodes} Ready")
    };
    let stays = daedal_planner::differing(plan).map(|stays| format!("; {stays}")).unwrap_or_default();
    let kubectl = match cluster.outputs.are_plain() {
        true => format!("eval \"$({})\" && kubectl get nodes -o wide", command(target, "env")),
        false => command(target, outputs::MINT),
    };
    format!(
        "\nCluster {} {state}{stays}{made}, {} in {:.1} s (critical path {:.1} s).\n\
         API server: {}\n\n\
         Next:\n  {}\n  {}\n  {}\n",
        cluster.name,
        count(report.steps.len(), "step"),
        report.took.as_secs_f64(),
        report.critical_time().as_secs_f64(),
        url.unwrap_or_default(),
        command(target, "status"),
        kubectl,
        command(target, "destroy"),
    )
}

/// This program as it was called, if that was by a path: `daedal` alone may lead nowhere, or to another.
fn program() -> String {
    let called = std::env::args_os().next().map(|called| called.to_string_lossy().into_owned());
    match called {
        Some(path) if path.contains('/') && !path.contains(char::is_whitespace) => path,
        _ => "daedal".to_owned(),
    }
}

/// The command line for another command on the same target.
pub fn command(target: &Target, name: &str) -> String {
    let mut text = format!("{} {name}", program());
    if target.lab {
        text.push_str(" --lab");
        if target.lab_options.lab_dir.as_os_str() != ".daedal/lab" {
            text.push_str(&format!(" --lab-dir {}", target.lab_options.lab_dir.display()));
        }
    }
    if let Some(file) = &target.file {
        text.push_str(&format!(" -f {}", file.display()));
    }
    text + &kept_in(target.state.as_deref(), &target.keys)
}

/// The flags that lead to what is kept for a cluster, where it is not in the usual place.
pub fn kept_in(state: Option<&Path>, keys: &KeyArgs) -> String {
    let flags = [("--state", state), ("--key", keys.key.as_deref())];
    flags.into_iter().filter_map(|(flag, path)| Some(format!(" {flag} {}", path?.display()))).collect()
}
