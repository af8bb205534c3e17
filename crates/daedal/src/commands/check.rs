//! `daedal check`: is the inventory right, and, with --live, can Proxmox do what it asks.

use daedal_engine::{CheckVerdict, LiveReport};

use crate::cli::{Format, Target};
use crate::commands::plan;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::Session;
use crate::{console, documents};

/// Runs the command.
pub async fn run(target: &Target, live: bool, format: Format, color: bool) -> Outcome {
    if !live {
        return offline(target, format, color);
    }
    let session = Session::open(target, color).await?;
    plan::say_warnings(&session, color);
    let report = session.engine.live_checks(&session.cluster).await;
    match format {
        Format::Json => console::json(&report),
        Format::Text => console::result(&render(&report, color)),
    }
    Ok(if report.passed() { Exit::Done } else { Exit::Failed })
}

/// The inventory alone: no token, no network.
fn offline(target: &Target, format: Format, color: bool) -> Outcome {
    let file = target.inventory();
    let inventory = documents::read(&file, color)?;
    let cluster = &inventory.loaded.cluster;
    match format {
        Format::Json => console::json(&serde_json::json!({
            "cluster": cluster.name,
            "nodes": cluster.nodes.len(),
            "warnings": inventory.loaded.warnings,
        })),
        Format::Text => {
            for warning in &inventory.loaded.warnings {
                console::progress(&documents::render(warning, color));
            }
            console::result(&format!(
                "{} is good: cluster {} with {} control planes and {} workers, Talos v{}, Kubernetes v{}.\n\
                 `daedal check --live` also asks Proxmox.",
                inventory.path.display(),
                cluster.name,
                cluster.control_planes().count(),
                cluster.workers().count(),
                cluster.talos.version,
                cluster.kubernetes.version,
            ));
        }
    }
    Ok(Exit::Done)
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
        LiveReport { checks: verdicts.iter().map(check).collect() }
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
