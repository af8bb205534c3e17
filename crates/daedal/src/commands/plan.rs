//! `daedal plan`: what apply would do, and why.

use std::path::Path;

use daedal_app::{Intent, has_problems};
use daedal_planner::{Plan, World};

use crate::cli::{Format, Target};
use crate::commands::plan_report::{self, PlanFiles};
use crate::commands::saved;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, failure};
use crate::silence::while_asking;
use crate::{advice, console, documents};

/// What the command was told besides the target.
pub struct Options {
    /// Exit with 2 if there are changes.
    pub detailed_exitcode: bool,
    /// Where to write the plan.
    pub files: PlanFiles,
    /// Tell every node in full.
    pub full: bool,
}

/// Runs the command.
pub async fn run(target: &Target, options: &Options, format: Format, color: bool) -> Outcome {
    let session = Session::open(target, color).await?;
    vet(&session, color).await?;
    let (_, plan) = made(&session, &Intent::Apply).await?;
    buildable(&session, &plan).await?;
    show(&plan, options.full, format, color);
    if let Some(path) = &options.files.markdown {
        plan_report::write_markdown(path, &plan)?;
    }
    if let Some(path) = &options.files.gitlab_report {
        plan_report::write_gitlab(path, &plan)?;
    }
    if let Some(path) = &options.files.save {
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
            console::result(&daedal_words::render(&saved.plan, rendering(color, full)));
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

/// Prints what names a plan that was saved.
pub fn show_id(path: &Path, format: Format) -> Outcome {
    let id = saved::read(path)?.id();
    match format {
        Format::Json => console::json(&serde_json::json!({"id": id})),
        Format::Text => console::result(&id),
    }
    Ok(Exit::Done)
}

/// A plan for programs, with what names it and what it comes to.
fn as_json(plan: &Plan) -> serde_json::Value {
    let mut json = serde_json::json!(plan);
    json["notes"] = advice::notes(plan);
    json["differences"] = advice::differences(plan);
    json["counts"] = serde_json::json!(daedal_planner::counts(plan));
    json["id"] = daedal_planner::plan_id(plan).into();
    json
}

/// Judges what the inventory makes of the nodes before anything else is looked at, and says what deserves a second look.
pub async fn vet(session: &Session, color: bool) -> Outcome<()> {
    let doubts = documents::vetted(session.engine.vet(&session.cluster).await, &session.inventory)?;
    say_warnings(session, color);
    doubts.iter().for_each(|doubt| console::say(&documents::mind(doubt)));
    Ok(())
}

/// Refuses an inventory for which the Image Factory cannot build the images, before what there is is destroyed.
pub async fn factory_has_all(session: &Session) -> Outcome<()> {
    let factory = &session.cluster.talos.factory;
    let asked = while_asking(&format!("the Image Factory at {factory}"), session.factory_has_all()).await;
    factory_said(session, asked)
}

/// Refuses a plan for an image that the Image Factory cannot build, before anything else is done in vain.
pub async fn buildable(session: &Session, plan: &Plan) -> Outcome<()> {
    let factory = &session.cluster.talos.factory;
    let asked = while_asking(&format!("the Image Factory at {factory}"), session.buildable(plan)).await;
    factory_said(session, asked)
}

fn factory_said(session: &Session, asked: Result<Option<String>, daedal_app::Error>) -> Outcome<()> {
    let factory = &session.cluster.talos.factory;
    match asked {
        Ok(None) => Ok(()),
        Ok(Some(why)) => {
            let text =
                format!("warning: the Image Factory at {factory} could not be asked what it has: {why}");
            console::say(&text);
            Ok(())
        }
        Err(error) => {
            let failure = failure(&error);
            let message = format!("{}: {}", session.inventory.display(), failure.message);
            Err(Failure { message, ..failure })
        }
    }
}

/// What the inventory's reader wanted to say.
pub fn say_warnings(session: &Session, color: bool) {
    for warning in &session.warnings {
        console::progress(&documents::render(warning, color));
    }
}

/// What a look shows, and the plan for an intent that the checker let pass.
pub async fn made(session: &Session, intent: &Intent<'_>) -> Outcome<(World, Plan)> {
    session.log_in().await?;
    let world = session.look(intent).await.map_err(|error| failure(&error))?;
    let plan = session.plan(intent, &world).map_err(|error| failure(&error))?;
    Ok((world, plan))
}

/// Prints a plan; the commands that it advises are those for the same target.
pub fn show(plan: &Plan, full: bool, format: Format, color: bool) {
    match format {
        Format::Json => console::json(&as_json(plan)),
        Format::Text => {
            let options = rendering(color, full);
            console::result(&daedal_words::render_calling(plan, options, &advice::called));
        }
    }
}

fn rendering(color: bool, full: bool) -> daedal_words::RenderOptions {
    daedal_words::RenderOptions { color, width: console::width(), full }
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

/// To which phase of an apply what is said about a plan is limited.
pub fn add_phase(json: &mut serde_json::Value, plan: &Plan) {
    if let Some(phase) = plan.phase {
        json["phase"] = serde_json::json!(phase);
    }
}

/// A run in which there was nothing to do, for programs.
pub fn unchanged(plan: &Plan) -> serde_json::Value {
    let (notes, differences) = (advice::notes(plan), advice::differences(plan));
    let mut json = serde_json::json!({"changed": false, "notes": notes, "differences": differences});
    add_phase(&mut json, plan);
    json
}
