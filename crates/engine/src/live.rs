//! `check --live`: what can be proven against the real Proxmox before anything is created.

use serde::Serialize;

/// Everything that was checked, in order.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveReport {
    /// One entry per check.
    pub checks: Vec<Check>,
}

/// One check and how it went.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What was checked, such as `storage local on atlas`.
    pub what: String,
    /// How it went.
    pub verdict: CheckVerdict,
    /// What was found, in a sentence.
    pub found: String,
    /// The exact command or edit that mends it.
    pub fix: Option<String>,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CheckVerdict {
    /// As it should be.
    Good,
    /// Works, but deserves a look.
    Warning,
    /// An apply would fail on it.
    Bad,
    /// Could not be checked.
    Unknown,
}

impl LiveReport {
    /// Whether an apply may be tried.
    pub fn passed(&self) -> bool {
        !self.checks.iter().any(|check| check.verdict == CheckVerdict::Bad)
    }

    pub(crate) fn add(
        &mut self,
        verdict: CheckVerdict,
        what: impl Into<String>,
        found: impl Into<String>,
        fix: Option<String>,
    ) {
        self.checks.push(Check { what: what.into(), verdict, found: found.into(), fix });
    }
}
