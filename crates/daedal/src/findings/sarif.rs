//! SARIF 2.1.0: the OASIS format for what analysis tools find.

use daedal_inventory::{Rule, Severity, rules};
use serde_json::{Value, json};

use super::{Finding, about, fingerprints};

/// A log with one run. `finished`: whether everything could be looked at.
pub(super) fn log(findings: &[Finding], finished: bool) -> Value {
    let results: Vec<Value> =
        findings.iter().zip(fingerprints(findings)).map(|(finding, print)| result(finding, &print)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "daedal",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules().map(descriptor).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The root of the repository."}}},
            "invocations": [{"executionSuccessful": finished}],
            "results": results,
        }],
    })
}

fn descriptor(rule: &Rule) -> Value {
    let mut json = json!({
        "id": rule.id,
        "shortDescription": {"text": rule.about},
        "defaultConfiguration": {"level": level(rule.severity)},
    });
    if !rule.help.is_empty() {
        json["help"] = json!({"text": rule.help});
    }
    json
}

fn result(finding: &Finding, fingerprint: &str) -> Value {
    let help = finding.help.as_ref().map(|help| format!(" {help}")).unwrap_or_default();
    let location = match finding.file.starts_with('/') {
        true => json!({"uri": format!("file://{}", uri(&finding.file))}),
        false => json!({"uri": uri(&finding.file), "uriBaseId": "SRCROOT"}),
    };
    let mut json = json!({
        "ruleId": finding.code,
        "level": level(finding.severity),
        "message": {"text": format!("{}{help}", finding.message)},
        "locations": [{"physicalLocation": {
            "artifactLocation": location,
            "region": {"startLine": finding.line, "startColumn": finding.column},
        }}],
        "partialFingerprints": {"daedal/v1": fingerprint},
    });
    if let Some(index) = rules().position(|rule| rule.id == finding.code) {
        json["ruleIndex"] = index.into();
    }
    if finding.message.is_empty() {
        json["message"] = json!({"text": about(finding.code)});
    }
    json
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// A path as part of a URI.
fn uri(path: &str) -> String {
    let kept = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(byte);
    path.bytes()
        .map(|byte| if kept(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
