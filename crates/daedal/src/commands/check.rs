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
            doubts.iter().for_each(|doubt| console::progress(&documents::mind(doubt)));
            if let Some(path) = &missing {
                console::progress(&format!(
                    "warning: the CA certificate {} is not there yet",
                    path.display()
                ));
            }
            console::result(&format!(
                "{} is good: cluster {} with {} and {}, Talos v{}, Kubernetes v{}.\n\
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
            CheckVerdict::Warning => ("look ", "\x1b[33m"),
            CheckVerdict::Bad => ("BAD  ", "\x1b[31m"),
            CheckVerdict::Unknown => ("?    ", "\x1b[33m"),
        };
        let (paint, off) = if color { (paint, "\x1b[0m") } else { ("", "") };
        text.push_str(&format!("{paint}{sign}{off} {}: {}\n", check.what, check.found));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("      fix: {fix}\n"));
        }
    }
    text.push_str(&format!("\n{}\n", conclusion(report)));
    text
}

/// No more than was seen: what could not be checked may be wrong, too.
fn conclusion(report: &LiveReport) -> String {
    let (bad, unknown) = (report.count(CheckVerdict::Bad), report.count(CheckVerdict::Unknown));
    let mend = match bad {
        0 => None,
        1 => Some("One thing must be mended before an apply can succeed.".to_owned()),
        n => Some(format!("{n} things must be mended before an apply can succeed.")),
    };
    let unseen = match unknown {
        0 => None,
        1 => Some("One thing could not be checked (marked ?).".to_owned()),
        n => Some(format!("{n} things could not be checked (marked ?).")),
    };
    match (mend, unseen) {
        (None, None) => "Everything an apply needs is there.".to_owned(),
        (None, Some(unseen)) => format!("Nothing bad was found, but not everything was seen. {unseen}"),
        (Some(mend), None) => mend,
        (Some(mend), Some(unseen)) => format!("{mend} {unseen}"),
    }
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
        };
        LiveReport { checks: verdicts.iter().map(check).collect(), blocked: None }
    }

    #[test]
    fn what_could_not_be_checked_is_neither_good_nor_forgotten() {
        use CheckVerdict::{Bad, Good, Unknown, Warning};
        let everything = "Everything an apply needs is there.";
        for (verdicts, passed, words) in [
            (&[Good, Warning][..], true, everything),
            (&[Good, Unknown], false, "One thing could not be checked"),
            (&[Unknown, Unknown], false, "2 things could not be checked"),
            (&[Bad, Unknown], false, "One thing must be mended"),
        ] {
            let report = report(verdicts);
            let said = render(&report, false);
            assert_eq!(report.passed(), passed, "{verdicts:?}");
            assert!(said.contains(words), "{said}");
            assert_eq!(said.contains(everything), passed, "{said}");
            assert_eq!(said.contains("could not be checked"), verdicts.contains(&Unknown), "{said}");
        }
    }
}
