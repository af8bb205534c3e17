//! `daedal check`: is the inventory right, and, with --live, can Proxmox do what it asks.

use std::path::{Path, PathBuf};

use daedal_engine::{CheckVerdict, LiveReport};
use daedal_inventory::{Cluster, TlsTrust};

use crate::cli::{Format, Target};
use crate::commands::plan;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{Session, engine_failure};
use crate::words::count;
use crate::{advice, console, documents, secrets};

/// Runs the command.
pub async fn run(target: &Target, live: bool, format: Format, color: bool) -> Outcome {
    if !live {
        return offline(target, format, color);
    }
    let session = Session::open(target, color).await?;
    plan::vet(&session, color)?;
    let mut report = session.engine.live_checks(&session.cluster).await;
    report.checks.iter_mut().for_each(|check| advice::complete(&mut check.fix));
    match format {
        Format::Json => console::json(&report),
        Format::Text => console::result(&render(&report, color)),
    }
    Ok(match &report.blocked {
        // Nothing could be looked at: the code says whether it is the way there or the rights.
        Some(error) => engine_failure(error).exit,
        None if report.passed() => Exit::Done,
        None => Exit::Failed,
    })
}

/// The inventory alone: no token, no network.
fn offline(target: &Target, format: Format, color: bool) -> Outcome {
    let inventory = documents::of(target, color)?;
    let cluster = &inventory.loaded.cluster;
    let doubts = documents::vet(cluster, &inventory.path)?;
    let missing = missing_ca(cluster, &inventory.folder);
    match format {
        Format::Json => console::json(&serde_json::json!({
            "cluster": cluster.name,
            "nodes": cluster.nodes.len(),
            "warnings": inventory.loaded.warnings,
            "doubts": doubts,
            "missing": missing,
        })),
        Format::Text => {
            for warning in &inventory.loaded.warnings {
                console::progress(&documents::render(warning, color));
            }
            doubts.iter().for_each(|doubt| console::say(&documents::mind(doubt)));
            if let Some(path) = &missing {
                console::say(&format!("warning: the CA certificate {} does not exist yet", path.display()));
            }
            console::answer(&format!(
                "{} is valid: cluster {} with {} and {}, Talos v{}, Kubernetes v{}.\n\
                 `daedal check --live` also asks Proxmox and the Image Factory.",
                inventory.path.display(),
                cluster.name,
                count(cluster.control_planes().count(), "control plane"),
                count(cluster.workers().count(), "worker"),
                cluster.talos.version,
                cluster.kubernetes.version,
            ));
        }
    }
    Ok(Exit::Done)
}

/// A CA certificate, if the inventory names one that is not there: whatever asks Proxmox or the Image Factory needs it.
fn missing_ca(cluster: &Cluster, folder: &Path) -> Option<PathBuf> {
    [&cluster.proxmox.tls, &cluster.talos.factory_tls].into_iter().find_map(|tls| match tls {
        TlsTrust::Ca(path) => Some(secrets::resolve(path, folder)).filter(|path| !path.is_file()),
        _ => None,
    })
}

fn render(report: &LiveReport, color: bool) -> String {
    let mut text = String::new();
    for check in &report.checks {
        let (sign, paint) = match check.verdict {
            CheckVerdict::Good => ("ok   ", "\x1b[32m"),
            CheckVerdict::Warning => ("warn ", "\x1b[33m"),
            CheckVerdict::Bad => ("BAD  ", "\x1b[31m"),
            CheckVerdict::Unknown => ("?    ", "\x1b[33m"),
        };
        let (paint, off) = if color { (paint, "\x1b[0m") } else { ("", "") };
        let line = format!("{paint}{sign}{off} {}: {}", check.what, check.found);
        text.push_str(&format!("{}\n", console::wrapped(&line, 6)));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("{}\n", console::wrapped(&format!("      fix: {fix}"), 11)));
        }
    }
    text.push_str(&format!("\n{}\n", console::fitted(&conclusion(report))));
    text
}

/// Every check counted, and what follows; no more than was seen.
fn conclusion(report: &LiveReport) -> String {
    use CheckVerdict::{Bad, Good, Unknown, Warning};
    let (good, warnings) = (report.count(Good), report.count(Warning));
    let (bad, unknown) = (report.count(Bad), report.count(Unknown));
    let all = report.checks.len();
    if good == all {
        return format!("All {} passed. Everything an apply needs is there.", count(all, "check"));
    }
    let parts = [
        (warnings > 0).then(|| count(warnings, "warning")),
        (bad > 0).then(|| format!("{bad} failed")),
        (unknown > 0).then(|| format!("{unknown} could not be made (marked ?)")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let so = match (bad, report.passed()) {
        (0, true) => "Nothing was found that stops an apply.",
        (0, false) => "Whether an apply can succeed is not known.",
        _ => "An apply fails until that is corrected.",
    };
    format!("{good} of {} passed, {}. {so}", count(all, "check"), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use daedal_engine::Check;

    use super::*;

    fn report(verdicts: &[CheckVerdict]) -> LiveReport {
        let check = |verdict: &CheckVerdict| Check {
            what: "privileges".into(),
            verdict: *verdict,
            found: "as it is".into(),
            fix: None,
            optional: false,
        };
        LiveReport { checks: verdicts.iter().map(check).collect(), blocked: None }
    }

    #[test]
    fn every_check_is_counted_and_no_more_is_claimed() {
        use CheckVerdict::{Bad, Good, Unknown, Warning};
        for (verdicts, passed, words) in [
            (&[Good, Good][..], true, "All 2 checks passed. Everything an apply needs is there."),
            (
                &[Good, Warning],
                true,
                "1 of 2 checks passed, 1 warning. Nothing was found that stops an apply.",
            ),
            (
                &[Good, Unknown],
                false,
                "1 of 2 checks passed, 1 could not be made (marked ?). Whether an apply can succeed is not known.",
            ),
            (
                &[Bad, Unknown],
                false,
                "0 of 2 checks passed, 1 failed, 1 could not be made (marked ?). An apply fails",
            ),
        ] {
            let report = report(verdicts);
            let said = conclusion(&report);
            assert_eq!(report.passed(), passed, "{verdicts:?}");
            assert!(said.starts_with(words), "{said}");
        }
        let mut optional = report(&[Good, Unknown]);
        optional.checks[1].optional = true;
        assert!(optional.passed());
        let said = conclusion(&optional);
        assert!(said.contains("could not be made") && said.ends_with("stops an apply."), "{said}");
    }
}
