//! Workflow commands of GitHub Actions: one line for each finding, which becomes an annotation.

use daedal_inventory::Severity;

use super::Finding;

/// One command a line.
pub(super) fn commands(findings: &[Finding]) -> String {
    findings.iter().map(command).collect()
}

fn command(finding: &Finding) -> String {
    let kind = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let help = finding.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
    format!(
        "::{kind} file={},line={},col={},title={}::{}\n",
        property(&finding.file),
        finding.line,
        finding.column,
        property(finding.code),
        data(&format!("{}{help}", finding.message)),
    )
}

/// What a command says. A line break would end it and begin another.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
