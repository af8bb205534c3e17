//! `daedal destroy`: name what dies, ask for the cluster's name, stop hard, delete, and name what stays.

use daedal_app::{Answers, Destroyed, Error, Intent};
use daedal_engine::Report;
use daedal_planner::{Level, Plan, World};

use crate::cli::{Format, Target};
use crate::commands::approval::{self, Otherwise};
use crate::commands::{apply, execute, plan};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{Session, failure};
use crate::words::count;
use crate::{advice, console};

/// What the command was told besides the target.
pub struct Options {
    /// Names of clusters that may be destroyed.
    pub confirm: Vec<String>,
    /// The generation to go on from.
    pub onto: Option<u32>,
    /// Whether VMs go of which no secrets prove whose they are, and how many they are.
    pub without_secrets: Option<Option<usize>>,
    /// Tell every node in full.
    pub full: bool,
}

/// Runs the command.
pub async fn run(target: &Target, options: &Options, format: Format, color: bool) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    let _lock = session.lock("destroy").await?;
    let intent = Intent::Destroy { without_secrets: options.without_secrets.is_some() };
    let (world, plan) = made(&session, &intent, target).await?;
    if format == Format::Text {
        plan::show(&plan, options.full, format, color);
    }
    let failed = |error: Error| failure(&error);
    if plan.is_empty() {
        let end = session.destroyed(&world, &plan).await.map_err(failed)?;
        match format {
            Format::Json => console::json(&in_json(&end, plan::unchanged(&plan))),
            Format::Text => text(&end, &plan, &plan).lines().for_each(console::answer),
        }
        return Ok(exit(&end));
    }
    let again = apply::command(target, "destroy");
    let answers = Answers {
        onto: options.onto,
        name: confirmed(&options.confirm, &plan.cluster),
        number: options.without_secrets.flatten(),
        ..Answers::default()
    };
    let otherwise = Otherwise { again: &again, yes: "" };
    approval::approve(&session, &intent, &world, &plan, &answers, &otherwise).await?;
    let report = execute::execute(&session, &world, &plan, format, color).await?;
    execute::conclude(&plan, &report, &again)?;
    // Only a look afterwards tells what is gone.
    let (world, after) = made(&session, &intent, target).await?;
    let end = session.destroyed(&world, &after).await.map_err(failed)?;
    match format {
        Format::Json => console::json(&in_json(&end, execute::as_json(&plan, &report))),
        Format::Text => {
            let summary = summary(&plan, &report, &end);
            console::answer(format!("{summary}{}", text(&end, &after, &plan)).trim_end());
        }
    }
    Ok(exit(&end))
}

/// The name that was given for this cluster: its own if it is among them.
pub(super) fn confirmed(names: &[String], cluster: &str) -> Option<String> {
    names.iter().find(|name| *name == cluster).or(names.first()).cloned()
}

/// What a look shows and the plan to destroy it. Where the secrets are missing, what helps is said.
async fn made(session: &Session, intent: &Intent<'_>, target: &Target) -> Outcome<(World, Plan)> {
    let world = session.look(intent).await.map_err(|error| failure(&error))?;
    let plan =
        session.plan(intent, &world).map_err(|error| match intent.is_proven() && !world.secrets_stored {
            false => failure(&error),
            true => failure(&error).hint(format!(
                "If the secrets are lost and every VM listed is yours: {}",
                apply::command(target, "destroy --without-secrets")
            )),
        })?;
    Ok((world, plan))
}

fn exit(end: &Destroyed) -> Exit {
    if end.left.is_empty() { Exit::Done } else { Exit::Failed }
}

fn in_json(end: &Destroyed, mut json: serde_json::Value) -> serde_json::Value {
    json["left"] = serde_json::json!(end.left);
    json["stays"] = serde_json::json!(end.stays);
    json
}

/// What stays, and in the last line what is left. Problems that no plan has shown yet are told before.
fn text(end: &Destroyed, plan: &Plan, shown: &Plan) -> String {
    let mut text = String::new();
    let lines = daedal_words::staying_lines(&end.stays);
    if !lines.is_empty() {
        text.push_str("What stays:\n");
    }
    for line in &lines {
        text.push_str(&format!("  {}\n", advice::told(line)));
    }
    if !end.left.is_empty() {
        text.push_str(&not_gone(plan, shown, &end.left));
    }
    text
}

/// The last line where something is left, after the problems of which nothing was said yet.
fn not_gone(plan: &Plan, shown: &Plan, left: &[String]) -> String {
    let problems = || plan.notes.iter().filter(|note| note.level == Level::Problem);
    let mut text = String::new();
    for note in problems().filter(|note| !shown.notes.contains(note)) {
        if text.is_empty() {
            text.push_str("Problems that a look afterwards found:\n");
        }
        let (about, why) = (daedal_words::about(&note.advice), daedal_words::sentence(&note.advice));
        text.push_str(&format!("{}\n", console::wrapped(&format!("  {about}: {why}"), 4)));
        if let Some(fix) = advice::fix_of(&note.advice) {
            text.push_str(&format!("{}\n", console::wrapped(&format!("    fix: {fix}"), 9)));
        }
    }
    let see = if problems().next().is_some() { ", see the problems above" } else { "" };
    text + &format!("Cluster {} is not gone. Left{see}: {}", plan.cluster, left.join(", "))
}

/// How it went.
fn summary(plan: &Plan, report: &Report, end: &Destroyed) -> String {
    let state = if end.left.is_empty() { "is gone" } else { "was destroyed in part" };
    let outputs = if end.forgotten { " Its outputs, which led to it, are deleted." } else { "" };
    format!(
        "\nCluster {} {state}, {} in {:.1} s.{outputs} The next apply gives the same VMIDs, MACs and addresses.\n",
        plan.cluster,
        count(report.steps.len(), "step"),
        report.took.as_secs_f64(),
    )
}

#[cfg(test)]
mod tests {
    use daedal_inventory::{Source, load};
    use daedal_planner::{Advice, Note, plan_destroy};

    use super::*;

    fn plan(nodes: &[&str]) -> Plan {
        let problem = |node: &&str| Note {
            level: Level::Problem,
            advice: Advice::NoVmYet { nodes: vec![(*node).to_owned()] },
        };
        let text = include_str!("../../../../examples/home/cluster.yaml").to_owned();
        let none = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let cluster = load(&[Source { name: "cluster.yaml".into(), text }], &none).unwrap().cluster;
        let plan = plan_destroy(&cluster, &World::default()).unwrap();
        Plan { notes: nodes.iter().map(problem).collect(), ..plan }
    }

    #[test]
    fn the_last_line_speaks_of_no_problem_that_was_not_shown() {
        let left = ["worker-1".to_owned()];
        let told = not_gone(&plan(&["worker-1"]), &plan(&[]), &left);
        assert!(told.contains("Problems that a look afterwards found:\n  worker-1: "), "{told}");
        assert!(
            told.ends_with("\nCluster home is not gone. Left, see the problems above: worker-1"),
            "{told}"
        );
        let told = not_gone(&plan(&["worker-1"]), &plan(&["worker-1"]), &left);
        assert_eq!(told, "Cluster home is not gone. Left, see the problems above: worker-1");
        let told = not_gone(&plan(&[]), &plan(&["worker-1"]), &left);
        assert_eq!(told, "Cluster home is not gone. Left: worker-1");
    }
}
