//! What every part of the resolver shares: where things stand, what is known of them, and what was found.

use std::collections::{HashMap, HashSet};

use super::Refusal;
use crate::diagnostic::{Finding, MISSING_SECRET, Severity};
use crate::path::Path;
use crate::vault::VaultServer;
use crate::yaml::{Node, Span};
use crate::{Files, Source};

/// The shared state of one resolution.
pub(crate) struct Context<'a> {
    pub(crate) root: &'a Node,
    pub(crate) files: &'a dyn Files,
    /// All texts that diagnostics may point into; grows by the patch files.
    pub(crate) sources: Vec<Source>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) masked: Vec<Span>,
    /// Paths whose values are not what the user wrote.
    pub(crate) guessed: HashSet<String>,
    /// Patch files that were read, by path; nothing for those that could not be.
    pub(crate) read: HashMap<String, Option<String>>,
    /// Where patches are that stand in the inventory itself and what they say, by path.
    pub(crate) inline: HashMap<String, (Span, String)>,
    /// Whether a secret that is not where it should be is worth no more than a warning.
    pub(crate) lenient: bool,
    /// Those that were not.
    pub(crate) lacks: Vec<String>,
    /// The Vault that keeps secrets; none also if something is wrong with it.
    pub(crate) vault: Option<VaultServer>,
    /// Whether one is declared.
    pub(crate) has_vault: bool,
}

impl Context<'_> {
    /// Whether the value at a path is what the user wrote or left out on purpose, and not a stand-in for a mistake.
    pub(crate) fn given(&self, path: &Path<'_>) -> bool {
        self.guessed.is_empty() || !path.any_step(&|p| self.guessed.contains(&p.to_string()))
    }

    /// Whether a later check already knows that nothing usable can come out.
    pub(crate) fn failed(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Error)
    }

    pub(crate) fn error(
        &mut self,
        code: &'static str,
        path: &Path<'_>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.lenient && code == MISSING_SECRET {
            let message = message.into();
            self.lacks.push(message.trim_end_matches('.').to_owned());
            return self.warn(code, path, message, help);
        }
        if self.given(path) {
            self.findings.push(Finding::error(code, path.point(self.root), message).help(help));
        }
    }

    pub(crate) fn warn(
        &mut self,
        code: &'static str,
        path: &Path<'_>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.given(path) {
            let finding = Finding::error(code, path.point(self.root), message).help(help);
            self.findings.push(Finding { severity: Severity::Warning, ..finding });
        }
    }

    /// The value of a check, or nothing once its refusal is recorded; nothing also where the user's value is not known.
    pub(crate) fn take<T>(
        &mut self,
        code: &'static str,
        path: &Path<'_>,
        checked: Result<T, Refusal>,
    ) -> Option<T> {
        match checked {
            Ok(value) => self.given(path).then_some(value),
            Err((message, help)) => {
                self.error(code, path, message, help);
                None
            }
        }
    }

    /// As [`Self::take`], where it is the key that is checked.
    pub(crate) fn take_key(
        &mut self,
        code: &'static str,
        path: &Path<'_>,
        checked: Result<(), Refusal>,
    ) -> Option<()> {
        if let Err((message, help)) = checked {
            self.findings.push(Finding::error(code, path.point_key(self.root), message).help(help));
            return None;
        }
        Some(())
    }

    /// Do not show what stands at a path.
    pub(crate) fn hide(&mut self, path: &Path<'_>) {
        if let Some(node) = path.find(self.root) {
            self.masked.push(node.span);
        }
    }
}
