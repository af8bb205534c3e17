//! `daedal destroy`: name what dies, ask for the cluster's name, stop hard, delete, and name what stays.

use daedal_engine::Report;
use daedal_planner::{Action, Fate, Level, Plan, Staying, World};

use crate::cli::{Format, Target};
use crate::commands::{apply, execute, generation, plan};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, engine_failure};
use crate::words::count;
use crate::{advice, console, keys};

/// What the command was told besides the target.
pub struct Options {
    /// The cluster's name.
    pub confirm: Option<String>,
    /// The generation to go on from.
    pub onto: Option<u32>,
    /// Whether VMs go of which no secrets prove whose they are, and how many they are.
    pub without_secrets: Option<Option<usize>>,
    /// Tell every node in full.
    pub full: bool,
}

/// Runs the command.
pub async fn run(target: &Target, options: Options, format: Format, color: bool) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    let _lock = session.lock("destroy").await?;
    let proven = options.without_secrets.is_none();
    let world = observe(&session, proven).await?;
    let plan = plan_for(&session, &world, proven, target)?;
    if format == Format::Text {
        plan::show(&plan, options.full, format, color);
    }
    if plan.is_empty() {
        let end = End::of(&session, &world, &plan);
        if end.left.is_empty() {
            forget_outputs(&session).await?;
        }
        match format {
            Format::Json => console::json(&end.in_json(plan::unchanged(&plan))),
            Format::Text => end.text(&plan).lines().for_each(console::answer),
        }
        return Ok(end.exit());
    }
    let again = apply::command(target, "destroy");
    // A store without anything cannot know what was applied; the number of VMs is asked for then.
    if proven || world.known.is_some() {
        generation::go_on(&world, options.onto, &again)?;
        session.engine.acknowledge(&world).await.map_err(|error| engine_failure(&error))?;
    }
    if let Some(number) = options.without_secrets {
        count_vms(&plan, number)?;
    }
    consent(&plan, options.confirm)?;
    let report = execute::execute(&session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, &again)?;
    // Only a look afterwards tells what is gone.
    let world = observe(&session, proven).await?;
    let after = plan_for(&session, &world, proven, target)?;
    let end = End::of(&session, &world, &after);
    let forgotten = end.left.is_empty() && forget_outputs(&session).await?;
    match format {
        Format::Json => console::json(&end.in_json(execute::as_json(&plan, &report))),
        Format::Text => {
            let summary = summary(&plan, &report, end.left.is_empty(), forgotten);
            console::answer(format!("{summary}{}", end.text(&after)).trim_end());
        }
    }
    Ok(end.exit())
}

/// What a look says at the end.
struct End {
    /// What is of this cluster or may be, by name, and should have been destroyed.
    left: Vec<String>,
    /// What no destroy takes away.
    stays: Staying,
}

impl End {
    /// As the world is, with the plan that destroys what is left in it.
    fn of(session: &Session, world: &World, plan: &Plan) -> Self {
        let stays = daedal_planner::staying(&session.cluster, &session.image, world);
        Self { left: left(plan), stays }
    }

    fn exit(&self) -> Exit {
        if self.left.is_empty() { Exit::Done } else { Exit::Failed }
    }

    fn in_json(&self, mut json: serde_json::Value) -> serde_json::Value {
        json["left"] = serde_json::json!(self.left);
        json["stays"] = serde_json::json!(self.stays);
        json
    }

    /// What stays, and in the last line what is left.
    fn text(&self, plan: &Plan) -> String {
        let mut text = String::new();
        let lines = self.stays.lines();
        if !lines.is_empty() {
            text.push_str("What stays:\n");
        }
        for line in &lines {
            text.push_str(&format!("  {}\n", advice::told(line)));
        }
        if !self.left.is_empty() {
            text.push_str(&not_gone(plan, &self.left));
        }
        text
    }
}

/// Looks at the world and at what may outlive the VMs, with the secrets in the store or without them.
async fn observe(session: &Session, proven: bool) -> Outcome<World> {
    let mut world = match proven {
        true => session.observe().await?,
        false => session.observe_unproven().await?,
    };
    session.engine.look_at_guards(&mut world).await;
    Ok(world)
}

fn plan_for(session: &Session, world: &World, proven: bool, target: &Target) -> Outcome<Plan> {
    if !proven {
        return plan::for_destroy_without_secrets(session, world);
    }
    let refused = |failure: Failure| match world.secrets_stored {
        true => failure,
        false => failure.hint(format!(
            "If the secrets are lost and every VM listed is yours: {}",
            apply::command(target, "destroy --without-secrets")
        )),
    };
    plan::for_destroy(session, world).map_err(refused)
}

/// Whoever has no secrets must have looked at what goes: the number of VMs is not told, but asked for.
fn count_vms(plan: &Plan, given: Option<usize>) -> Outcome<()> {
    let vms = plan.nodes.iter().filter(|node| node.fate == Fate::Destroy).count();
    let given = match given {
        Some(number) => number.to_string(),
        None => {
            let question = "No secrets prove that these VMs are yours. Type how many VMs the plan destroys:";
            console::ask(question).ok_or_else(|| {
                Failure::new(Exit::Usage, "nothing was destroyed: there is no terminal to ask on")
                    .hint("Give --without-secrets=NUMBER, the number of VMs that the plan destroys")
            })?
        }
    };
    if given == vms.to_string() {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, format!("nothing was destroyed: the plan does not destroy {given} VMs")))
}

/// What a plan to destroy cannot destroy, or what still has to be, by name.
fn left(plan: &Plan) -> Vec<String> {
    let problems = plan.notes.iter().filter(|note| note.level == Level::Problem);
    let mut left: Vec<String> = problems.map(|note| note.about.to_string()).collect();
    let dying = plan.nodes.iter().filter(|node| node.fate == Fate::Destroy).map(|node| node.name.clone());
    left.extend(dying);
    left.extend(plan.steps.iter().filter_map(|step| match &step.action {
        Action::DeleteMedia { volid } => Some(volid.clone()),
        _ => None,
    }));
    left
}

/// The last line where something is left.
fn not_gone(plan: &Plan, left: &[String]) -> String {
    format!("Cluster {} is not gone. Left, see the problems above: {}", plan.cluster, left.join(", "))
}

/// What leads to a cluster that is gone leads nowhere. The secrets themselves are kept elsewhere and stay. Returns whether there
/// was anything.
async fn forget_outputs(session: &Session) -> Outcome<bool> {
    let outputs = session.engine.outputs();
    let any = !outputs.names().is_empty();
    outputs.forget().await.map_err(|error| engine_failure(&error))?;
    session.store.forget_addresses().await.map_err(|error| keys::store_failure(&error, Exit::CannotWrite))?;
    Ok(any)
}

/// How it went.
fn summary(plan: &Plan, report: &Report, gone: bool, forgotten: bool) -> String {
    let state = if gone { "is gone" } else { "was destroyed in part" };
    let outputs = if forgotten { " Its outputs, which led to it, are deleted." } else { "" };
    format!(
        "\nCluster {} {state}, {} in {:.1} s.{outputs} The next apply gives the same VMIDs, MACs and addresses.\n",
        plan.cluster,
        count(report.steps.len(), "step"),
        report.took.as_secs_f64(),
    )
}

fn consent(plan: &Plan, confirm: Option<String>) -> Outcome<()> {
    let cluster = &plan.cluster;
    let given = match confirm {
        Some(name) => name,
        None => {
            let question =
                format!("{}\nType the cluster's name ({cluster}) to destroy it:", apply::in_short(plan));
            console::ask(&question).ok_or_else(|| {
                Failure::new(Exit::Usage, "nothing was destroyed: there is no terminal to ask on")
                    .hint(format!("Give --confirm {cluster}"))
            })?
        }
    };
    if given == *cluster {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Failed,
        format!("nothing was destroyed: the cluster is called {cluster}, not {given}"),
    ))
}
