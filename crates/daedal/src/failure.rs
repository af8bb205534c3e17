//! The one error the commands return: what failed, why, what to do next, and the exit code.

use std::error::Error;
use std::fmt::Write as _;

use daedal_inventory::{Diagnostics, visible};
use daedal_planner::Fix;

use crate::console::wrapped;
use crate::exit::Exit;
use crate::{advice, escape};

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// The operation that failed, as a sentence.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// What to do next.
    pub hints: Vec<String>,
    /// A ready-made text that replaces all of the above on a terminal (inventory diagnostics).
    pub rendered: Option<String>,
    /// What a run did before it failed, for programs.
    pub report: Option<Box<serde_json::Value>>,
    /// What is wrong with a document, each finding with its place, for programs.
    pub findings: Option<Box<Diagnostics>>,
}

/// What commands return.
pub type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    /// A failure with a message only.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            rendered: None,
            report: None,
            findings: None,
        }
    }

    /// A failure from an error: its Display is the operation, its sources are the causes.
    pub fn from_error(exit: Exit, error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(exit, error.to_string());
        failure.add_causes(error.source());
        failure
    }

    /// Adds an error as the cause.
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        self.add_causes(Some(error));
        self
    }

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds what another crate advises, if anything, and once.
    pub fn advise(mut self, fix: Option<&Fix>) -> Self {
        let hint = fix.map(advice::told).filter(|hint| !self.hints.contains(hint));
        self.hints.extend(hint);
        self
    }

    fn add_causes(&mut self, mut next: Option<&(dyn Error + 'static)>) {
        while let Some(error) = next {
            // Mostly somebody else's words.
            let text = escape::quote(&error.to_string());
            // Wrappers that pass their source's words on would say everything twice.
            if self.causes.last().unwrap_or(&self.message) != &text {
                self.causes.push(text);
            }
            next = error.source();
        }
    }

    /// The text for people.
    pub fn render(&self, color: bool) -> String {
        if let Some(rendered) = &self.rendered {
            return rendered.clone();
        }
        let (red, cyan, off) = if color { ("\x1b[1;31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        let mut text = wrapped(&format!("{red}error:{off} {}", visible(&self.message)), 2) + "\n";
        for cause in &self.causes {
            let _ = writeln!(text, "{}", wrapped(&format!("  because: {}", visible(cause)), 4));
        }
        for hint in &self.hints {
            let _ = writeln!(text, "{}", wrapped(&format!("  {cyan}help:{off} {}", visible(hint)), 4));
        }
        text
    }

    /// The same for programs.
    pub fn json(&self) -> serde_json::Value {
        let mut json = serde_json::json!({
            "error": self.message,
            "causes": self.causes,
            "hints": self.hints,
            "exitCode": self.exit as u8,
        });
        if let Some(report) = &self.report {
            json["report"] = (**report).clone();
        }
        if let Some(findings) = &self.findings {
            json["findings"] = serde_json::json!(findings);
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the thing")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn says_operation_then_causes_then_help() {
        let error = Outer(std::io::Error::other("disk on fire"));
        let failure = Failure::from_error(Exit::Failed, &error).hint("Pour water on it.");
        assert_eq!(
            failure.render(false),
            "error: cannot read the thing\n  because: disk on fire\n  help: Pour water on it.\n"
        );
        assert_eq!(failure.json()["exitCode"], 1);
    }
}
