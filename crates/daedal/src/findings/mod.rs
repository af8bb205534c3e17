//! What `check` finds, for those who read it in a merge request: one list of findings, in the forms that CI systems take.

mod github;
mod gitlab;
mod sarif;

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use clap::{Args, ValueEnum};
use daedal_engine::SecondLook;
use daedal_inventory::{Diagnostic, Severity, rule, tidy, visible};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::documents::Inventory;
use crate::operator;

/// A form of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// SARIF 2.1.0, as GitHub code scanning and many editors read it.
    Sarif,
    /// Workflow commands of GitHub Actions: annotations at the lines of a merge request.
    Github,
    /// GitLab Code Quality.
    Gitlab,
}

/// Findings of a check.
#[derive(Clone, Debug, Args)]
pub struct FindingsArgs {
    /// Print all findings for a CI system instead.
    #[arg(long, value_enum, conflicts_with = "live")]
    pub format: Option<Form>,
    /// Also show what could be safer.
    #[arg(long, conflicts_with = "live")]
    pub lint: bool,
    /// Exit with 1 if there are warnings, or warnings or notes.
    #[arg(long, value_enum, value_name = "LEVEL", conflicts_with = "live")]
    pub deny: Option<crate::commands::check::Deny>,
    /// Ids of warnings and notes to pass over, separated by commas; the inventory's `lint.ignore` is for all who use it.
    #[arg(long, value_name = "ID", value_delimiter = ',', conflicts_with = "live")]
    pub ignore: Vec<String>,
}

/// One finding at its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Its id, one of the inventory's rules.
    pub code: &'static str,
    /// A sentence.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The file, as it is named from the root of the repository where that is known.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Finding {
    /// A finding of the inventory's reader.
    pub fn of(diagnostic: &Diagnostic, inventory: &Path) -> Self {
        let place = diagnostic.place.as_ref();
        let file = place.map_or(inventory.to_owned(), |place| beside(&place.file, inventory));
        Self {
            severity: diagnostic.severity,
            code: diagnostic.code,
            message: diagnostic.message.clone(),
            help: diagnostic.help.clone(),
            file: from_root(&file),
            line: place.map_or(1, |place| place.line),
            column: place.map_or(1, |place| place.column),
        }
    }

    /// A finding about the inventory as a whole.
    pub fn about(inventory: &Path, severity: Severity, code: &'static str, message: &str) -> Self {
        // Some of it may be somebody else's words.
        let message = visible(message).into_owned();
        Self { severity, code, message, help: None, file: from_root(inventory), line: 1, column: 1 }
    }
}

/// Everything that was found in a usable inventory, the worst first; `ignored` are ids that are passed over.
pub fn all(
    inventory: &Inventory,
    doubts: &[SecondLook],
    missing: Option<&Path>,
    ignored: &[String],
) -> Vec<Finding> {
    let path = &inventory.path;
    let read = inventory.loaded.warnings.iter().chain(&inventory.loaded.lint);
    let mut all: Vec<Finding> = read.map(|diagnostic| Finding::of(diagnostic, path)).collect();
    all.extend(doubts.iter().map(|doubt| {
        let message = format!("{} (node {})", doubt.text, doubt.nodes.join(", "));
        Finding::about(path, Severity::Warning, "machine-config", &message)
    }));
    all.extend(missing.map(|missing| {
        let message = format!("The CA certificate {} does not exist yet.", missing.display());
        Finding::about(path, Severity::Warning, "missing-file", &message)
    }));
    // Where a kind is an error elsewhere, this one still is not.
    all.retain(|finding| !ignored.iter().any(|id| id == finding.code));
    all.sort_by_key(|finding| finding.severity);
    all
}

/// The findings in one of the forms.
pub fn render(findings: &[Finding], form: Form, finished: bool) -> Result<String, serde_json::Error> {
    match form {
        Form::Sarif => serde_json::to_string_pretty(&sarif::log(findings, finished)),
        Form::Github => Ok(github::commands(findings)),
        Form::Gitlab => serde_json::to_string_pretty(&gitlab::report(findings)),
    }
}

/// How many there are of each kind, for people.
pub fn counted(findings: &[Finding]) -> String {
    let of = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let parts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let parts = parts.into_iter().map(|(severity, word)| (of(severity), word)).filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, word)| crate::words::count(n, word)).collect();
    if parts.is_empty() { "no findings".to_owned() } else { parts.join(", ") }
}

/// What a finding is about in general.
fn about(code: &str) -> &'static str {
    rule(code).map_or("", |rule| rule.about)
}

/// What names each finding, whatever line it is at: kind, file and sentence, and its number among those alike.
fn fingerprints(findings: &[Finding]) -> Vec<String> {
    let mut seen: HashMap<(&str, &str, &str), usize> = HashMap::new();
    let named = findings.iter().map(|finding| {
        let alike = seen.entry((finding.code, &finding.file, &finding.message)).or_default();
        *alike += 1;
        let text = format!("{}\0{}\0{}\0{alike}", finding.code, finding.file, finding.message);
        Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    });
    named.collect()
}

/// The path of a file that a finding names: a patch is named as the inventory does, and whatever else it is made of from here.
fn beside(file: &str, inventory: &Path) -> PathBuf {
    let beside = inventory.parent().unwrap_or(Path::new("")).join(file);
    if Path::new(file) != inventory && beside.exists() { beside } else { PathBuf::from(file) }
}

/// A path from the root of the repository, where the runner says where that is; else from the current folder.
fn from_root(path: &Path) -> String {
    let named = ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"].into_iter().find_map(operator::variable);
    let root = named.map(PathBuf::from).or_else(|| std::env::current_dir().ok());
    let absolute = tidy(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let inside = root.and_then(|root| absolute.strip_prefix(root).map(plain).ok());
    inside.unwrap_or_else(|| absolute.display().to_string())
}

/// A path without `.`; and with forward slashes.
fn plain(path: &Path) -> String {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(line: usize, message: &str) -> Finding {
        Finding { line, ..Finding::about(Path::new("a.yaml"), Severity::Error, "unknown-key", message) }
    }

    #[test]
    fn a_fingerprint_outlives_a_move_and_is_never_shared() {
        let before = fingerprints(&[finding(3, "one"), finding(4, "two"), finding(9, "two")]);
        let after = fingerprints(&[finding(30, "one"), finding(31, "two"), finding(40, "two")]);
        assert_eq!(before, after);
        let unique: std::collections::BTreeSet<&String> = before.iter().collect();
        assert_eq!(unique.len(), 3);
    }

    #[test]
    fn workflow_commands_cannot_be_smuggled_in() {
        let evil = Finding {
            help: Some("50% of\nit".into()),
            file: "a,b:c.yaml".into(),
            ..finding(1, "x\n::set-output name=a::b")
        };
        let text = github::commands(&[evil]);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with("::error file=a%2Cb%3Ac.yaml,line=1,col=1,title=unknown-key::x%0A::set"),
            "{text}"
        );
        assert!(text.ends_with("50%25 of%0Ait\n"), "{text}");
    }

    #[test]
    fn findings_are_counted() {
        assert_eq!(counted(&[]), "no findings");
        assert_eq!(counted(&[finding(1, "a"), finding(2, "b")]), "2 errors");
    }
}
