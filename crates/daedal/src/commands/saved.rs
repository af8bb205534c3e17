//! A plan in a file: saved by `plan --save`, executed by `apply FILE` as exactly that.

use std::path::{Path, PathBuf};

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
    /// The inventory it was made from, for `apply` without `-f` from whichever folder.
    pub inventory: PathBuf,
    /// The folder of the lab it was made for; none for a real Proxmox.
    #[serde(default)]
    pub lab: Option<PathBuf>,
    /// Where the cluster's secrets are kept, if not in the usual place.
    #[serde(default)]
    pub state: Option<PathBuf>,
    /// The key that was named.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// The plan.
    pub plan: Plan,
}

impl SavedPlan {
    /// Aims `apply` at what the plan was made for, unless the command line says it itself. A plan for a real Proxmox is
    /// not for a lab.
    pub fn aim(&self, target: &mut Target) -> Outcome<()> {
        if target.lab && self.lab.is_none() {
            return Err(Failure::new(Exit::BadDocument, "the saved plan was not made for a lab")
                .hint("Leave out --lab, or make one for the lab with `daedal plan --lab --save FILE`."));
        }
        if target.file.is_none() {
            target.file = Some(self.inventory.clone());
        }
        if target.state.is_none() {
            target.state.clone_from(&self.state);
        }
        if target.keys.key.is_none() && !keys::in_environment() {
            target.keys.key.clone_from(&self.key);
        }
        if let (false, Some(folder)) = (target.lab, &self.lab) {
            target.lab = true;
            target.lab_options.lab_dir.clone_from(folder);
        }
        Ok(())
    }
}

/// Writes a plan.
pub fn write(path: &Path, inventory: &Path, target: &Target, plan: &Plan) -> Outcome<()> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let saved = SavedPlan {
        daedal: env!("CARGO_PKG_VERSION").to_owned(),
        inventory: absolute(inventory),
        lab: target.lab.then(|| absolute(&target.lab_options.lab_dir)),
        state: target.state.as_deref().map(absolute),
        key: target.keys.key.as_deref().map(absolute),
        plan: plan.clone(),
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
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(Exit::BadDocument, format!("{} is not a saved plan", path.display()))
            .because(&error)
            .hint("Make one with `daedal plan --save FILE`.")
    })
}
