//! A plan in a file: saved by `plan --save`, executed by `apply FILE` as exactly that.

use std::path::{Component, Path, PathBuf};

use daedal_planner::Plan;
use serde::{Deserialize, Serialize};

use crate::cli::Target;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys;

/// What the file holds. No secrets: a plan has none.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedPlan {
    /// Which program wrote it.
    pub daedal: String,
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

impl SavedPlan {
    /// Aims `apply` at what the plan was made for, unless the command line says it itself. A plan for a real Proxmox is
    /// not for a lab.
    pub fn aim(&self, target: &mut Target) -> Outcome<()> {
        if target.lab && self.lab.is_none() {
            return Err(Failure::new(Exit::BadDocument, "the saved plan was not made for a lab")
                .hint("Leave out --lab, or make one for the lab with `daedal plan --lab --save FILE`."));
        }
        // A path that is absolute stays what it is.
        let file = target.file.get_or_insert_with(|| tidy(&self.folder.join(&self.inventory))).clone();
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
}

/// Writes a plan. Its paths are relative, so that a folder with inventory and plan can be moved.
pub fn write(path: &Path, inventory: &Path, target: &Target, plan: &Plan) -> Outcome<()> {
    let folder_of = |file: &Path| absolute(file).parent().map(Path::to_owned).unwrap_or_default();
    let (plan_folder, inventory_folder) = (folder_of(path), folder_of(inventory));
    let beside = |path: &Path| relative(&absolute(path), &inventory_folder);
    let saved = SavedPlan {
        daedal: env!("CARGO_PKG_VERSION").to_owned(),
        inventory: relative(&absolute(inventory), &plan_folder),
        lab: target.lab.then(|| beside(&target.lab_options.lab_dir)),
        state: target.state.as_deref().map(beside),
        key: target.keys.key.as_deref().map(beside),
        plan: plan.clone(),
        folder: plan_folder.clone(),
    };
    let cannot = || Failure::new(Exit::CannotWrite, format!("cannot write the plan to {}", path.display()));
    let text = serde_json::to_string_pretty(&saved).map_err(|e| cannot().because(&e))?;
    std::fs::write(path, text + "\n").map_err(|e| cannot().because(&e))
}

/// Reads a plan.
pub fn read(path: &Path) -> Outcome<SavedPlan> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(Exit::NoInput, format!("cannot read the plan {}", path.display())).because(&error)
    })?;
    let saved: SavedPlan = serde_json::from_str(&text).map_err(|error| {
        Failure::new(Exit::BadDocument, format!("{} is not a saved plan", path.display()))
            .because(&error)
            .hint("Make one with `daedal plan --save FILE`.")
    })?;
    Ok(SavedPlan { folder: path.parent().map(Path::to_owned).unwrap_or_default(), ..saved })
}

fn absolute(path: &Path) -> PathBuf {
    tidy(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// A path without `.` and, where a name stands before it, without `..`.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match (part, tidy.components().next_back()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => drop(tidy.pop()),
            (Component::ParentDir, Some(Component::RootDir)) => {}
            _ => tidy.push(part),
        }
    }
    tidy
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
