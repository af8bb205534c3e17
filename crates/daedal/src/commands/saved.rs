//! A plan in a file: saved by `plan --save`, executed by `apply FILE` as exactly that.

use std::path::{Component, Path, PathBuf};

use daedal_inventory::tidy;
use daedal_planner::Plan;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cli::Target;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{advice, keys};

/// What the file holds. No secrets: a plan has none.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedPlan {
    /// Which program wrote it.
    pub daedal: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Timestamp>,
    /// The inventory it was made from, relative to this file's folder.
    pub inventory: PathBuf,
    /// The folder of the lab it was made for, relative to the inventory's; none for a real Proxmox.
    #[serde(default)]
    pub lab: Option<PathBuf>,
    /// Where the cluster's secrets are kept, relative to the inventory's folder, if not in the usual place.
    #[serde(default)]
    pub state: Option<PathBuf>,
    /// The key that was named, relative to the inventory's folder.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// The plan.
    pub plan: Plan,
    /// The folder that it was read from.
    #[serde(skip)]
    folder: PathBuf,
}

/// What can be read of a saved plan of any format.
#[derive(Deserialize)]
struct Format {
    plan: FormatOnly,
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

impl SavedPlan {
    /// Aims `apply` at what the plan was made for, unless the command line says it itself. A plan for a real Proxmox is
    /// not for a lab.
    pub fn aim(&self, target: &mut Target) -> Outcome<()> {
        if target.lab && self.lab.is_none() {
            return Err(Failure::new(Exit::BadDocument, "the saved plan was not made for a lab")
                .hint("Leave out --lab, or make one for the lab with `daedal plan --lab --save FILE`."));
        }
        // A path that is absolute stays what it is.
        if target.files.is_empty() {
            target.files.push(tidy(&self.folder.join(&self.inventory)));
        }
        let file = target.inventory();
        let beside = |path: &PathBuf| tidy(&file.parent().unwrap_or(Path::new("")).join(path));
        if target.state.is_none() {
            target.state = self.state.as_ref().map(beside);
        }
        if target.keys.key.is_none() && !keys::in_environment() {
            target.keys.key = self.key.as_ref().map(beside);
        }
        if let (false, Some(folder)) = (target.lab, &self.lab) {
            target.lab = true;
            target.lab_options.lab_dir = beside(folder);
        }
        Ok(())
    }

    /// What names the plan.
    pub fn id(&self) -> String {
        daedal_planner::plan_id(&self.plan)
    }

    /// Refuses any other plan than the one that was approved.
    pub fn expect(&self, id: &str) -> Outcome<()> {
        let is = self.id();
        if is.eq_ignore_ascii_case(id.trim()) {
            return Ok(());
        }
        let message = format!("the saved plan is {is}, and {id} was expected; nothing was done");
        Err(Failure::new(Exit::BadDocument, message).hint("Look at it with `daedal plan show FILE`."))
    }

    /// Refuses a plan that was made too long ago, as the file says.
    pub fn expect_younger(&self, age: SignedDuration, now: Timestamp) -> Outcome<()> {
        let refused = |why: String| {
            let message = format!("the saved plan {} {why}; nothing was done", self.id());
            Err(Failure::new(Exit::BadDocument, message)
                .hint("Make a new one with `daedal plan --save FILE`, and have it approved."))
        };
        let Some(made) = self.made else { return refused("does not say when it was made".to_owned()) };
        let is = now.duration_since(made);
        if is < -SKEW {
            return refused(format!("was made in the future, at {made}"));
        }
        match is > age {
            true => {
                refused(format!("was made at {made}, {} ago, and may be {} old", minutes(is), minutes(age)))
            }
            false => Ok(()),
        }
    }
}

/// By how much two machines' clocks may differ.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Writes a plan. Its paths are relative, so that a folder with inventory and plan can be moved.
pub fn write(path: &Path, inventory: &Path, target: &Target, plan: &Plan) -> Outcome<()> {
    let folder_of = |file: &Path| absolute(file).parent().map(Path::to_owned).unwrap_or_default();
    let (plan_folder, inventory_folder) = (folder_of(path), folder_of(inventory));
    let beside = |path: &Path| relative(&absolute(path), &inventory_folder);
    let saved = SavedPlan {
        daedal: env!("CARGO_PKG_VERSION").to_owned(),
        made: Some(Timestamp::now()),
        inventory: relative(&absolute(inventory), &plan_folder),
        lab: target.lab.then(|| beside(&target.lab_options.lab_dir)),
        state: target.state.as_deref().map(beside),
        key: target.keys.key.as_deref().map(beside),
        plan: plan.clone(),
        folder: plan_folder.clone(),
    };
    let cannot = || Failure::new(Exit::CannotWrite, format!("cannot write the plan to {}", path.display()));
    let mut json = serde_json::to_value(&saved).map_err(|e| cannot().because(&e))?;
    json["plan"] = advice::saved(plan);
    let text = serde_json::to_string_pretty(&json).map_err(|e| cannot().because(&e))?;
    std::fs::write(path, text + "\n").map_err(|e| cannot().because(&e))
}

/// Reads a plan.
pub fn read(path: &Path) -> Outcome<SavedPlan> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Exit::NoInput, format!("cannot read the plan {}", path.display())).because(&error)
    })?;
    let other = |failure: Failure| failure.hint("Make one with `daedal plan --save FILE`.");
    let not_one = |error: serde_json::Error| {
        let message = format!("{} is not a saved plan", path.display());
        other(Failure::new(Exit::BadDocument, message).because(&error))
    };
    // A plan of another format may have anything else in it.
    let file: Format = serde_json::from_str(&text).map_err(not_one)?;
    daedal_planner::known_format(file.plan.format)
        .map_err(|error| other(Failure::from_error(Exit::BadDocument, &error)))?;
    let saved: SavedPlan = serde_json::from_str(&text).map_err(not_one)?;
    Ok(SavedPlan { folder: path.parent().map(Path::to_owned).unwrap_or_default(), ..saved })
}

/// A time for people, in whole minutes.
fn minutes(time: SignedDuration) -> String {
    let minutes = time.as_mins();
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

fn absolute(path: &Path) -> PathBuf {
    tidy(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// The way from a folder to a path, both absolute; the path itself where they have nothing but the root in common.
fn relative(path: &Path, folder: &Path) -> PathBuf {
    let shared = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    if shared <= 1 {
        return path.to_owned();
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_one_folder_to_another() {
        for (path, folder, way) in [
            ("/home/me/c/cluster.yaml", "/home/me/c", "cluster.yaml"),
            ("/home/me/c/cluster.yaml", "/home/me/c/plans", "../cluster.yaml"),
            ("/home/me/key.txt", "/home/me/c", "../key.txt"),
            ("/etc/key.txt", "/home/me/c", "/etc/key.txt"),
        ] {
            assert_eq!(relative(Path::new(path), Path::new(folder)), Path::new(way));
            assert_eq!(tidy(&Path::new(folder).join(way)), Path::new(path));
        }
        assert_eq!(tidy(Path::new("plans/../cluster.yaml")), Path::new("cluster.yaml"));
        assert_eq!(tidy(Path::new("../cluster.yaml")), Path::new("../cluster.yaml"));
    }
}
