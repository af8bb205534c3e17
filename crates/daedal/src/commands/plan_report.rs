//! A plan for a merge request: Markdown for people, and the numbers that GitLab shows beside it.

use std::path::{Path, PathBuf};

use clap::Args;
use daedal_app::has_problems;
use daedal_inventory::visible;
use daedal_planner::{Counts, Level, Plan, counts};
use serde_json::json;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Files to write a plan to.
#[derive(Clone, Debug, Args)]
pub struct PlanFiles {
    /// Save the plan to a file; `apply FILE` executes exactly this plan.
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub save: Option<PathBuf>,
    /// Write the plan as Markdown, for a merge request.
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub markdown: Option<PathBuf>,
    /// Write what the plan creates, updates and deletes, for GitLab's `reports: terraform`.
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub gitlab_report: Option<PathBuf>,
}

/// The most that GitHub takes as a comment. It counts characters, and bytes are never fewer.
const LONGEST: usize = 65_536;

/// Columns of the plan inside.
const WIDTH: usize = 110;

/// Writes the plan as Markdown.
pub fn write_markdown(path: &Path, plan: &Plan) -> Outcome<()> {
    write(path, &markdown(plan), "the plan as Markdown")
}

/// Writes the numbers that GitLab's terraform report takes.
pub fn write_gitlab(path: &Path, plan: &Plan) -> Outcome<()> {
    write(path, &format!("{}\n", gitlab(&counts(plan))), "the report for GitLab")
}

fn write(path: &Path, text: &str, what: &str) -> Outcome<()> {
    std::fs::write(path, text).map_err(|error| {
        Failure::new(Exit::CannotWrite, format!("cannot write {what} to {}", path.display())).because(&error)
    })
}

/// Everything that is created, updated or deleted.
fn gitlab(counts: &Counts) -> serde_json::Value {
    let Counts { vms, templates, files, volumes, marks, firewalls, objects, .. } = counts;
    json!({
        "create": vms.create + templates.create + firewalls.rules.create + firewalls.sets.create + objects.create,
        "update": vms.change + templates.replace + marks + firewalls.rules.change + firewalls.sets.change + objects.change,
        "delete": vms.destroy + templates.destroy + files.delete + volumes
            + firewalls.rules.delete + firewalls.sets.delete + objects.remove,
    })
}

/// The plan as a comment: a marker by which a later one replaces it, its id, what it comes to, and the rest folded.
fn markdown(plan: &Plan) -> String {
    let id = daedal_planner::plan_id(plan);
    let options = daedal_words::RenderOptions { color: false, width: WIDTH, full: false };
    let told = daedal_words::render(plan, options);
    let told = visible(&told);
    let mut head = format!(
        "<!-- daedal:{cluster} -->\n### Cluster {cluster}: {}\n\nPlan `{id}`\n\n{}",
        heading(plan),
        table(&counts(plan)),
        cluster = plan.cluster,
    );
    for (level, word) in [(Level::Problem, "Problems"), (Level::Warning, "Warnings")] {
        let count = plan.notes.iter().filter(|note| note.level == level).count();
        if count > 0 {
            head.push_str(&format!("\n**{word}: {count}.** They are at the beginning of the plan.\n"));
        }
    }
    let foot = match plan.is_empty() {
        true => String::new(),
        false => format!("\nExecute exactly this plan: `daedal apply FILE --expect {id}`\n"),
    };
    let fence = fence(&told);
    let open = format!("\n<details><summary>The plan</summary>\n\n{fence}text\n");
    let close = format!("{fence}\n\n</details>\n");
    let room = LONGEST.saturating_sub(head.len() + open.len() + close.len() + foot.len());
    format!("{head}{open}{}{close}{foot}", shortened(&told, room))
}

fn heading(plan: &Plan) -> String {
    match (plan.is_empty(), has_problems(plan), plan.finds_all_as_declared()) {
        (true, true, _) => "nothing can be done about its problems".to_owned(),
        (true, false, true) => "no changes".to_owned(),
        (true, false, false) => "no changes, but not all is as declared".to_owned(),
        (false, ..) => daedal_words::summary(plan),
    }
}

fn table(counts: &Counts) -> String {
    let Counts { vms, templates, .. } = counts;
    let rows = [
        ("VMs to create", vms.create),
        ("VMs to change", vms.change),
        ("of these to restart", vms.restart),
        ("VMs to destroy", vms.destroy),
        ("VMs left out because of a problem", vms.blocked),
        ("templates to create", templates.create),
        ("templates to replace", templates.replace),
        ("templates to destroy", templates.destroy),
        ("differences that stay", counts.differences),
    ];
    let rows: Vec<String> = (rows.iter())
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("| {what} | {count} |\n"))
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("| what | how many |\n|---|---:|\n{}", rows.concat()),
    }
}

/// A fence that nothing inside can close: one backtick more than the longest run of them, and at least three.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}

/// As many whole lines as there is room for, and how many are missing.
fn shortened(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let last = |left: usize| format!("… {left} more lines; `daedal plan show FILE` shows the whole plan\n");
    let all = text.lines().count();
    let room = room.saturating_sub(last(all).len());
    let mut kept = String::new();
    let mut lines = 0;
    for line in text.split_inclusive('\n') {
        if kept.len() + line.len() > room {
            break;
        }
        kept.push_str(line);
        lines += 1;
    }
    kept + &last(all - lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_what_is_inside() {
        assert_eq!(fence("plain"), "```");
        assert_eq!(fence("a ```` b"), "`````");
    }

    #[test]
    fn a_long_plan_is_cut_at_a_line_and_says_so() {
        let long = "a line of the plan\n".repeat(10_000);
        let short = shortened(&long, 5_000);
        assert!(short.len() <= 5_000, "{}", short.len());
        let kept = short.lines().count() - 1;
        assert!(short.ends_with(&format!(
            "… {} more lines; `daedal plan show FILE` shows the whole plan\n",
            10_000 - kept
        )));
        assert_eq!(shortened("short\n", 5_000), "short\n");
    }

    #[test]
    fn everything_is_created_updated_or_deleted() {
        let mut counts = Counts::default();
        counts.vms.create = 5;
        counts.vms.change = 2;
        counts.templates.replace = 1;
        counts.volumes = 3;
        assert_eq!(gitlab(&counts), json!({"create": 5, "update": 3, "delete": 3}));
    }
}
