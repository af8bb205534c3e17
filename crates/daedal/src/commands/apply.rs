//! `daedal apply`: show the plan, ask, execute, sum up.

use std::path::{Path, PathBuf};
use std::time::Duration;

use daedal_engine::Report;
use daedal_inventory::{Cluster, Cni};
use daedal_planner::{Action, Level, Ownership, Plan, Purpose, Step, World};

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
        true => Some(follow_up(&session, &target, options, format, color).await?),
        false => None,
    };
    // What is true at the end is what was found last.
    let last = follow_up.as_ref().map_or(&plan, |after| &after.plan);
    match format {
        Format::Json => {
            let mut json = execute::as_json(last, &report);
            if let Some(FollowUp { plan, report: Some(report), .. }) = &follow_up {
                json["followUp"] = execute::as_json(plan, report);
            }
            console::json(&json);
        }
        Format::Text => {
            let found = follow_up.as_ref().map_or(&world, |after| &after.world);
            let more = follow_up.as_ref().and_then(|after| Some((&after.plan, after.report.as_ref()?)));
            let runs: Vec<(&Plan, &Report)> = [Some((&plan, &report)), more].into_iter().flatten().collect();
            console::answer(&summary(&session, &target, &Ended { found, last, runs: &runs }).await);
        }
    }
    drawn?;
    Ok(plan::verdict(last))
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

/// What was found once nodes had been started, and what was done about it.
struct FollowUp {
    world: World,
    plan: Plan,
    /// None where there was nothing to do.
    report: Option<Report>,
}

/// What can be seen only now that nodes were started: the same as another apply, in the same run.
async fn follow_up(
    session: &Session,
    target: &Target,
    options: &Options,
    format: Format,
    color: bool,
) -> Outcome<FollowUp> {
    let world = session.observe().await?;
    let plan = plan::for_apply(session, &world)?;
    if plan.finds_all_as_declared() && !plan::has_problems(&plan) {
        return Ok(FollowUp { world, plan, report: None });
    }
    console::say("\nThe nodes that were started differ from the inventory:");
    if format == Format::Text {
        plan::show(&plan, options.full, format, color);
    }
    if plan.is_empty() {
        return Ok(FollowUp { world, plan, report: None });
    }
    let again = command(target, "apply");
    if !options.yes {
        agreed(&question(&plan), "the rest was not done", &format!("For the rest: {again} --yes"))?;
    }
    let report = execute::execute(session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, &again)?;
    Ok(FollowUp { world, plan, report: Some(report) })
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
    agreed(&question(plan), "nothing was done", otherwise)
}

fn question(plan: &Plan) -> String {
    format!("{}\nDo this to cluster {}?", in_short(plan), plan.cluster)
}

/// Asks whether to go on; where there is no terminal to ask on, says how to do without.
pub fn consent(session: &Session, otherwise: &str) -> Outcome<()> {
    agreed(&format!("Do this to cluster {}?", session.cluster.name), "nothing was done", otherwise)
}

fn agreed(question: &str, undone: &str, otherwise: &str) -> Outcome<()> {
    match console::agrees(question) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::new(Exit::Failed, format!("{undone}: the answer was not yes"))),
        None => {
            let message = format!("{undone}: there is no terminal to ask on");
            Err(Failure::new(Exit::Usage, message).hint(otherwise))
        }
    }
}

/// What an apply found and did.
pub struct Ended<'a> {
    /// What the last look found.
    pub found: &'a World,
    /// The plan that was made of it.
    pub last: &'a Plan,
    /// Every plan that was executed, and how it went.
    pub runs: &'a [(&'a Plan, &'a Report)],
}

impl Ended<'_> {
    /// What is known of the whole cluster.
    fn state(&self, cluster: &Cluster) -> String {
        if plan::has_problems(self.last) {
            return "is incomplete: see Problems above".to_owned();
        }
        let nodes = count(cluster.nodes.len(), "node");
        if cluster.kubernetes.cni == Cni::None {
            return format!("is up: {nodes}, Ready once a CNI is installed");
        }
        let unready: Vec<&str> = (cluster.nodes.iter().map(|node| node.name.as_str()))
            .filter(|node| !self.saw_ready(node))
            .collect();
        match &unready[..] {
            [] => format!("is up: {nodes} Ready"),
            names => {
                let ready = cluster.nodes.len() - names.len();
                format!("is up: {ready} of {nodes} Ready, not awaited: {}", names.join(", "))
            }
        }
    }

    /// Whether a node was Ready at the last look, or was awaited after it.
    fn saw_ready(&self, node: &str) -> bool {
        let awaits = |step: &Step| step.action == Action::AwaitReady && step.node.as_deref() == Some(node);
        self.found.nodes.get(node).is_some_and(|view| view.ready == Some(true))
            || self.last.steps.iter().any(awaits)
    }
}

/// How it went, and what to try next.
pub async fn summary(session: &Session, target: &Target, ended: &Ended<'_>) -> String {
    let cluster = &session.cluster;
    let found = session.engine.found_addresses().await.unwrap_or_default();
    let url = cluster.located(&found).kubernetes.endpoint_url();
    let steps = || ended.runs.iter().flat_map(|(plan, _)| &plan.steps);
    let created = steps().filter(|step| matches!(step.action, Action::CreateVm { .. })).count();
    let made = if created > 0 { format!(", {} created", count(created, "VM")) } else { String::new() };
    let state = ended.state(cluster);
    let stays = daedal_planner::differing(ended.last).map(|stays| format!("; {stays}")).unwrap_or_default();
    let took: Duration = ended.runs.iter().map(|(_, report)| report.took).sum();
    let critical: Duration = ended.runs.iter().map(|(_, report)| report.critical_time()).sum();
    let kubectl = match cluster.outputs.are_plain() {
        true => format!("eval \"$({})\" && kubectl get nodes -o wide", command(target, "env")),
        false => command(target, outputs::MINT),
    };
    format!(
        "\nCluster {} {state}{stays}{made}, {} in {:.1} s (critical path {:.1} s).\n\
         API server: {}\n\n\
         Next:\n  {}\n  {}\n  {}\n",
        cluster.name,
        count(steps().count(), "step"),
        took.as_secs_f64(),
        critical.as_secs_f64(),
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
