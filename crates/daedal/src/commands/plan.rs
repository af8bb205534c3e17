//! `daedal plan`: what apply would do, and why.

use std::path::{Path, PathBuf};
use std::time::Duration;

use daedal_engine::{NotInFactory, chain};
use daedal_planner::{Action, Level, Plan, PlanError, Recovery, Removal, World};

use crate::cli::{Format, Target};
use crate::commands::saved;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::Session;
use crate::silence::while_asking;
use crate::{advice, console, documents};

/// What the command was told besides the target.
pub struct Options {
    /// Exit with 2 if there are changes.
    pub detailed_exitcode: bool,
    /// Where to write the plan.
    pub save: Option<PathBuf>,
    /// Tell every node in full.
    pub full: bool,
}

/// Runs the command.
pub async fn run(target: &Target, options: &Options, format: Format, color: bool) -> Outcome {
    let session = Session::open(target, color).await?;
    vet(&session, color)?;
    let world = session.observe().await?;
    let plan = for_apply(&session, &world)?;
    buildable(&session, &plan).await?;
    show(&plan, options.full, format, color);
    if let Some(path) = &options.save {
        saved::write(path, &session.inventory, target, &plan)?;
        if format == Format::Text {
            let id = daedal_planner::plan_id(&plan);
            let file = path.display();
            console::say(&format!(
                "Saved as plan {id}. Execute exactly this: daedal apply {file} --expect {id}"
            ));
        }
    }
    Ok(match has_problems(&plan) {
        // What apply would leave out is no success.
        true if plan.is_empty() || !options.detailed_exitcode => Exit::Failed,
        _ if options.detailed_exitcode && !plan.finds_all_as_declared() => Exit::Changes,
        _ => Exit::Done,
    })
}

/// Shows a plan that was saved, without asking anybody.
pub fn show_saved(path: &Path, full: bool, format: Format, color: bool) -> Outcome {
    let saved = saved::read(path)?;
    match format {
        Format::Json => console::json(&as_json(&saved.plan)),
        Format::Text => {
            console::result(&daedal_planner::render(&saved.plan, rendering(color, full)));
            let (id, inventory) = (saved.id(), saved.inventory.display());
            console::say(&format!(
                "Plan {id}, made by daedal {} from {inventory}. Execute exactly this: daedal apply {} --expect {id}",
                saved.daedal,
                path.display()
            ));
        }
    }
    Ok(Exit::Done)
}

/// A plan for programs, with what names it and what it comes to.
fn as_json(plan: &Plan) -> serde_json::Value {
    let mut json = serde_json::json!(advice::complete_plan(plan));
    json["counts"] = serde_json::json!(daedal_planner::counts(plan));
    json["id"] = daedal_planner::plan_id(plan).into();
    json
}

/// Judges what the inventory makes of the nodes before anything else is looked at, and says what deserves a second look.
pub fn vet(session: &Session, color: bool) -> Outcome<()> {
    let doubts = documents::vet(&session.cluster, &session.inventory)?;
    say_warnings(session, color);
    doubts.iter().for_each(|doubt| console::say(&documents::mind(doubt)));
    Ok(())
}

/// How long the Image Factory is asked before its answer is left to the run.
const FACTORY_PATIENCE: Duration = Duration::from_secs(20);

/// Refuses a plan for an image that the Image Factory cannot build, before anything else is done in vain.
pub async fn buildable(session: &Session, plan: &Plan) -> Outcome<()> {
    if !plan.steps.iter().any(|step| matches!(step.action, Action::RegisterSchematic { .. })) {
        return Ok(());
    }
    let factory = &session.cluster.talos.factory;
    let asked = session.engine.not_in_factory(&session.cluster);
    // The run asks again, and ends with the reason if it is still so.
    let asked = tokio::time::timeout(FACTORY_PATIENCE, asked);
    let missing = match while_asking(&format!("the Image Factory at {factory}"), asked).await {
        Ok(answer) => answer.map_err(|error| chain(&error)),
        Err(_) => Err("no answer came".to_owned()),
    };
    let missing = missing.unwrap_or_else(|why| {
        let text = format!("warning: the Image Factory at {factory} could not be asked what it has: {why}");
        console::say(&text);
        Vec::new()
    });
    let missing: Vec<NotInFactory> = missing.into_iter().filter(|missing| !missing.harmless).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message =
        format!("{}: the Image Factory at {factory} cannot build the image", session.inventory.display());
    let mut failure = Failure::new(Exit::BadDocument, message);
    for NotInFactory { found, fix, .. } in missing {
        let fix = fix.map(|fix| format!("; {fix}")).unwrap_or_default();
        failure.causes.push(format!("{found}{fix}"));
    }
    Err(failure.hint("Nothing was done. Change `talos` in the inventory."))
}

/// What the inventory's reader wanted to say.
pub fn say_warnings(session: &Session, color: bool) {
    for warning in &session.warnings {
        console::progress(&documents::render(warning, color));
    }
}

/// A plan as the planner made it, judged by the checker.
pub fn made(session: &Session, world: &World, plan: Result<Plan, PlanError>) -> Outcome<Plan> {
    judged(session, world, plan.map_err(|error| refused(&error))?)
}

/// A plan to make the world what the inventory says, judged by the checker.
pub fn for_apply(session: &Session, world: &World) -> Outcome<Plan> {
    made(session, world, daedal_planner::plan_apply(&session.cluster, &session.image, world))
}

/// A plan to remove the cluster, judged by the checker.
pub fn for_destroy(session: &Session, world: &World) -> Outcome<Plan> {
    made(session, world, daedal_planner::plan_destroy(&session.cluster, world))
}

/// A plan to remove the cluster although no secrets prove whose it is, judged by the checker.
pub fn for_destroy_without_secrets(session: &Session, world: &World) -> Outcome<Plan> {
    made(session, world, daedal_planner::plan_destroy_without_secrets(&session.cluster, world))
}

/// A plan to take nodes out that are no longer declared, judged by the checker.
pub fn for_removal(session: &Session, world: &World, removal: &Removal<'_>) -> Outcome<Plan> {
    made(session, world, daedal_planner::plan_remove(&session.cluster, world, removal))
}

/// A plan to make the world what the inventory says, beginning with a snapshot, judged by the checker.
pub fn for_restore(session: &Session, world: &World, snapshot: &Recovery) -> Outcome<Plan> {
    made(session, world, daedal_planner::plan_restore(&session.cluster, &session.image, world, snapshot))
}

fn refused(error: &PlanError) -> Failure {
    Failure::from_error(Exit::Failed, error).advise(error.fix().as_ref())
}

/// Lets a plan through only if the checker finds nothing wrong with it.
pub fn judged(session: &Session, world: &World, plan: Plan) -> Outcome<Plan> {
    let findings = daedal_planner::check(&session.cluster, world, &plan);
    if findings.is_empty() {
        return Ok(plan);
    }
    let mut failure = Failure::new(Exit::Failed, "the plan breaks a safety rule and will not be executed");
    failure.causes = findings.iter().map(ToString::to_string).collect();
    Err(failure)
}

/// Prints a plan; the commands that it advises are those for the same target.
pub fn show(plan: &Plan, full: bool, format: Format, color: bool) {
    match format {
        Format::Json => console::json(&as_json(plan)),
        Format::Text => {
            console::result(&daedal_planner::render(&advice::complete_plan(plan), rendering(color, full)));
        }
    }
}

fn rendering(color: bool, full: bool) -> daedal_planner::RenderOptions {
    daedal_planner::RenderOptions { color, width: console::width(), full }
}

/// Whether part of the intent cannot be reached by this plan.
pub fn has_problems(plan: &Plan) -> bool {
    plan.notes.iter().any(|note| note.level == Level::Problem)
}

/// How a command ends that did all that its plan could.
pub fn verdict(plan: &Plan) -> Exit {
    if has_problems(plan) { Exit::Failed } else { Exit::Done }
}

/// Tells programs that there was nothing to do; people have seen the plan.
pub fn tell_unchanged(plan: &Plan, format: Format) {
    if format == Format::Json {
        console::json(&unchanged(plan));
    }
}

/// A run in which there was nothing to do, for programs.
pub fn unchanged(plan: &Plan) -> serde_json::Value {
    let Plan { notes, differences, .. } = advice::complete_plan(plan);
    serde_json::json!({"changed": false, "notes": notes, "differences": differences})
}
