//! A plan in a file: saved by `plan --save`, executed by `apply FILE` as exactly that.

use std::path::{Path, PathBuf};

use daedal_planner::Plan;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// What the file holds. No secrets: a plan has none.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedPlan {
    /// Which program wrote it.
    pub daedal: String,
    /// The inventory it was made from, for `apply` without `-f` from whichever folder.
    pub inventory: PathBuf,
    /// The plan.
    pub plan: Plan,
}

/// Writes a plan.
pub fn write(path: &Path, inventory: &Path, plan: &Plan) -> Outcome<()> {
    let saved = SavedPlan {
        daedal: env!("CARGO_PKG_VERSION").to_owned(),
        inventory: std::path::absolute(inventory).unwrap_or_else(|_| inventory.to_owned()),
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
