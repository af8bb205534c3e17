//! `daedal check`: is the inventory right, and, with --live, can Proxmox do what it asks.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use daedal_engine::{CheckVerdict, LiveReport};
use daedal_inventory::{Cluster, Severity, TlsTrust, can_be_ignored};

use crate::cli::{Format, Target};
use crate::commands::{apply, plan};
use crate::documents::Inventory;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::findings::{self, Finding, FindingsArgs, Form};
use crate::session::{Session, engine_failure};
use crate::words::count;
use crate::{advice, clusters, console, documents, operator, secrets};

/// What the command was told besides the target.
pub struct Options {
    /// Ask Proxmox, too.
    pub live: bool,
    /// The form in which findings are printed.
    pub form: Option<Form>,
    /// Show the findings of the lint.
    pub lint: bool,
    /// What is no success.
    pub deny: Option<Deny>,
    /// Ids of findings that are passed over.
    pub ignore: Vec<String>,
}

/// Which findings are no success, besides errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Deny {
    /// Warnings.
    Warnings,
    /// Warnings and notes.
    Notes,
}

impl Deny {
    fn denies(self, finding: &Finding) -> bool {
        match self {
            Self::Warnings => finding.severity <= Severity::Warning,
            Self::Notes => true,
        }
    }
}

impl Options {
    /// What the command line says.
    pub fn of(findings: FindingsArgs, live: bool) -> Self {
        let FindingsArgs { format: form, lint, deny, ignore } = findings;
        Self { live, form, lint, deny, ignore }
    }

    /// Refuses ids that are no findings.
    pub fn verify(&self) -> Outcome<()> {
        self.ignore.iter().try_for_each(|id| {
            can_be_ignored(id).map_err(|(message, help)| {
                Failure::new(Exit::Usage, format!("--ignore: {message}")).hint(help)
            })
        })
    }

    /// The ids that are passed over: those of the command line, and of an inventory that is one's own.
    fn ignored(&self, inventory: &Inventory) -> Vec<String> {
        let accepted = inventory.loaded.ignored.iter().filter(|_| !operator::distrusts());
        self.ignore.iter().chain(accepted).cloned().collect()
    }
}

/// Runs the command.
pub async fn run(target: &Target, options: &Options, format: Format, color: bool) -> Outcome {
    if !options.live {
        return offline(target, options, format, color);
    }
    let session = Session::open(target, color).await?;
    plan::vet(&session, color).await?;
    session.log_in().await?;
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
fn offline(target: &Target, options: &Options, format: Format, color: bool) -> Outcome {
    let inventory = documents::of(target, color)?;
    let cluster = &inventory.loaded.cluster;
    let doubts = documents::vet(cluster, &inventory.path)?;
    let missing = missing_ca(cluster, &inventory.folder);
    let ignored = options.ignored(&inventory);
    let findings = findings::all(&inventory, &doubts, missing.as_deref(), &ignored);
    let denied = denied(&findings, options.deny);
    let kept = |code: &str| !ignored.iter().any(|id| id == code);
    let lint: Vec<_> = inventory.loaded.lint.iter().filter(|found| kept(found.code)).collect();
    match format {
        Format::Json => console::json(&serde_json::json!({
            "cluster": cluster.name,
            "nodes": cluster.nodes.len(),
            "warnings": inventory.loaded.warnings,
            "doubts": doubts,
            "missing": missing,
            "findings": findings,
            "denied": denied,
        })),
        Format::Text => {
            for warning in inventory.loaded.warnings.iter().filter(|found| kept(found.code)) {
                console::progress(&documents::render(warning, color));
            }
            if kept("machine-config") {
                doubts.iter().for_each(|doubt| console::say(&documents::mind(doubt)));
            }
            if let Some(path) = missing.as_ref().filter(|_| kept("missing-file")) {
                console::say(&format!("warning: the CA certificate {} does not exist yet", path.display()));
            }
            if options.lint || denied > 0 {
                lint.iter().for_each(|found| console::progress(&documents::render(found, color)));
            }
            let hidden = match lint.len() {
                0 => String::new(),
                _ if options.lint || denied > 0 => String::new(),
                n => format!(
                    "\n`{}` shows {} about what could be safer.",
                    apply::command(target, "check --lint"),
                    count(n, "finding")
                ),
            };
            console::answer(&format!(
                "{} is valid: cluster {} with {} and {}, Talos v{}, Kubernetes v{}.\n\
                 `{}` also asks Proxmox and the Image Factory.{hidden}",
                inventory.path.display(),
                cluster.name,
                count(cluster.control_planes().count(), "control plane"),
                count(cluster.workers().count(), "worker"),
                cluster.talos.version,
                cluster.kubernetes.version,
                apply::command(target, "check --live"),
            ));
            say_denied(denied, options.deny);
        }
    }
    Ok(if denied > 0 { Exit::Failed } else { Exit::Done })
}

/// How many findings are no success.
fn denied(findings: &[Finding], deny: Option<Deny>) -> usize {
    deny.map_or(0, |deny| findings.iter().filter(|finding| deny.denies(finding)).count())
}

fn say_denied(denied: usize, deny: Option<Deny>) {
    let Some(deny) = deny.filter(|_| denied > 0) else { return };
    let word = if deny == Deny::Notes { "notes" } else { "warnings" };
    let (are, them) = if denied == 1 { ("is", "it") } else { ("are", "each of them") };
    console::say(&format!(
        "{} {are} refused by `--deny {word}`. Correct the inventory, or accept {them} by its id: `--ignore ID`, or \
         `lint: {{ignore: [ID]}}` in the inventory.",
        count(denied, "finding")
    ));
}

/// The findings of one cluster or all, in a form for CI systems: one document, whatever was found.
pub fn report(target: &Target, all: bool, form: Form, options: &Options, color: bool) -> Outcome {
    let targets = if all { clusters::all(target)? } else { vec![(String::new(), target.clone())] };
    let (mut found, mut exits, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for (_, target) in &targets {
        let (findings, exit) = match examined(target, options) {
            Ok(examined) => examined,
            Err(failure) => {
                let told = (vec![unchecked(target, &failure)], failure.exit);
                unread.push(failure);
                told
            }
        };
        found.extend(findings);
        exits.push(exit);
    }
    let denied = denied(&found, options.deny);
    let text = findings::render(&found, form, unread.is_empty())
        .map_err(|error| Failure::new(Exit::CannotWrite, "cannot write the findings").because(&error))?;
    if !text.is_empty() {
        console::document(&text);
    }
    unread.iter().for_each(|failure| console::progress(&failure.render(color)));
    let inventories =
        if targets.len() == 1 { "1 inventory".to_owned() } else { format!("{} inventories", targets.len()) };
    console::say(&format!("{inventories}: {}.", findings::counted(&found)));
    // An inventory that cannot be used has said more than that.
    match Exit::worst(exits) {
        Exit::Done if denied > 0 => {
            say_denied(denied, options.deny);
            Ok(Exit::Failed)
        }
        worst => Ok(worst),
    }
}

/// The finding that an inventory could not be checked, and why.
fn unchecked(target: &Target, failure: &Failure) -> Finding {
    let message = std::iter::once(&failure.message).chain(&failure.causes).cloned().collect::<Vec<_>>();
    Finding::about(&target.inventory(), Severity::Error, "not-checked", &message.join(": "))
}

/// What one inventory says, and how a plain check of it would end. What cannot be read at all is a failure.
fn examined(target: &Target, options: &Options) -> Outcome<(Vec<Finding>, Exit)> {
    let inventory = match documents::of(target, false) {
        Ok(inventory) => inventory,
        Err(failure) => {
            let Some(found) = &failure.findings else { return Err(failure) };
            let path = clusters::one(target)?;
            let path = if path.is_dir() { path.join(daedal_app::USUAL) } else { path };
            let mut findings: Vec<Finding> = found.iter().map(|one| Finding::of(one, &path)).collect();
            findings.sort_by_key(|finding| finding.severity);
            return Ok((findings, failure.exit));
        }
    };
    let cluster = &inventory.loaded.cluster;
    let missing = missing_ca(cluster, &inventory.folder);
    let ignored = options.ignored(&inventory);
    match documents::vet(cluster, &inventory.path) {
        Ok(doubts) => Ok((findings::all(&inventory, &doubts, missing.as_deref(), &ignored), Exit::Done)),
        Err(failure) => {
            let mut findings = findings::all(&inventory, &[], missing.as_deref(), &ignored);
            let message = [vec![failure.message], failure.causes].concat().join(": ");
            findings.insert(0, Finding::about(&inventory.path, Severity::Error, "machine-config", &message));
            Ok((findings, failure.exit))
        }
    }
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
    use daedal_engine::{Check, CheckSubject};

    use super::*;

    fn report(verdicts: &[CheckVerdict]) -> LiveReport {
        let check = |verdict: &CheckVerdict| Check {
            what: CheckSubject::Privileges(None),
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
