//! GitLab's Code Quality report.

use daedal_inventory::Severity;
use serde_json::{Value, json};

use super::{Finding, fingerprints};

/// The report: a list.
pub(super) fn report(findings: &[Finding]) -> Value {
    findings
        .iter()
        .zip(fingerprints(findings))
        .map(|(finding, fingerprint)| entry(finding, &fingerprint))
        .collect()
}

fn entry(finding: &Finding, fingerprint: &str) -> Value {
    let severity = match finding.severity {
        Severity::Error => "critical",
        Severity::Warning => "major",
        Severity::Note => "info",
    };
    let help = finding.help.as_ref().map(|help| format!(" {help}")).unwrap_or_default();
    json!({
        "description": format!("{}{help}", finding.message),
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {
            "path": finding.file,
            "lines": {"begin": finding.line},
            "positions": {"begin": {"line": finding.line, "column": finding.column}},
        },
    })
}
