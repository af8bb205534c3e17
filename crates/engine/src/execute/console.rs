//! What a node prints of its key on its serial console, which only Proxmox and the node itself can write to.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use daedal_planner::Step;
use serde::Deserialize;
use tokio::time::Instant;

use crate::effects::EffectKind;
use crate::error::{Doubt, Error, chain};
use crate::execute::Executor;
use crate::execute::waiting::News;

/// How long a node may show a key before it has printed it. Talos prints it when it makes it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries to open a console.
const AGAIN: Duration = Duration::from_secs(1);
/// A line that is longer is none of Talos'.
const LONGEST_LINE: usize = 16 << 10;

/// The key that a console has printed last, and what stands in the way of seeing them.
#[derive(Default)]
pub(super) struct Printed(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// The key that was printed last. Talos makes a new one whenever an address, its name or the time changes.
    newest: Option<String>,
    trouble: Option<String>,
    /// When a key was first shown that had not been printed.
    doubted: Option<Instant>,
}

/// What the console says of a key that is shown.
pub(super) enum Proof {
    /// It was printed.
    Printed,
    /// It may still be; what speaks against it so far.
    NotYet(Doubt),
    /// It is not believed any more.
    Failed(Doubt),
}

impl Seen {
    /// Takes a key that was printed; whether it is another one.
    fn print(&mut self, key: String) -> bool {
        let is_new = self.newest.as_ref() != Some(&key);
        self.newest = Some(key);
        is_new
    }
}

impl Printed {
    fn with<R>(&self, work: impl FnOnce(&mut Seen) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a key that is shown was printed.
    pub(super) fn proof(&self, shown: &str) -> Proof {
        self.with(|seen| {
            if seen.newest.as_deref() == Some(shown) {
                return Proof::Printed;
            }
            let since = *seen.doubted.get_or_insert_with(Instant::now);
            let doubt = match (&seen.trouble, seen.newest.is_none()) {
                (_, false) => Doubt::OtherKey { shown: shown.to_owned() },
                (Some(why), true) => Doubt::NoConsole { why: why.clone() },
                (None, true) => Doubt::Silent,
            };
            if since.elapsed() > PATIENCE { Proof::Failed(doubt) } else { Proof::NotYet(doubt) }
        })
    }
}

impl Executor<'_> {
    /// Listens to a VM's console for as long as it is asked to.
    pub(super) async fn listen(&self, step: &Step, vmid: u32, printed: &Printed, news: &News) -> Infallible {
        let host = step.host.as_deref().unwrap_or_default();
        loop {
            let ended = self.listen_once(host, vmid, printed, news).await;
            let why = ended.map_or_else(|error| chain(&error), |()| "the console was closed".to_owned());
            tracing::debug!(vmid, why, "the console ended");
            printed.with(|seen| seen.trouble = Some(why));
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn listen_once(&self, host: &str, vmid: u32, printed: &Printed, news: &News) -> Result<(), Error> {
        let call = async { Ok(self.engine.parts.proxmox.console(host, vmid).await?) };
        let mut console = self.perform(EffectKind::OpenConsole, vmid, host, call).await?;
        printed.with(|seen| seen.trouble = None);
        let mut line = Vec::new();
        while let Some(bytes) = console.read().await? {
            for byte in bytes {
                if byte != b'\n' && line.len() < LONGEST_LINE {
                    line.push(byte);
                    continue;
                }
                let key = printed_key(&String::from_utf8_lossy(&line));
                line.clear();
                if key.is_some_and(|key| printed.with(|seen| seen.print(key))) {
                    news.told();
                }
            }
        }
        Ok(())
    }
}

/// The controllers of Talos that issue the certificate of maintenance mode: up to 1.12, and later.
const ISSUERS: [&str; 2] =
    ["runtime.MaintenanceServiceController", "runtime.MaintenanceServiceInformController"];

/// What Talos says of a certificate that it issued, and nothing besides.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Issued {
    component: String,
    controller: String,
    fingerprint: String,
}

/// The fingerprint in a line of a Talos console, `[talos] server certificate issued {…}` after the kernel's time. Any other line, and
/// any other text in it, may be made of what the network told the node, such as its name.
fn printed_key(line: &str) -> Option<String> {
    let line = line.trim_matches([' ', '\t', '\r']);
    let said = line.strip_prefix("[talos] ").or_else(|| {
        let (time, said) = line.strip_prefix('[')?.split_once("] [talos] ")?;
        time.bytes().all(|byte| byte.is_ascii_digit() || b" .".contains(&byte)).then_some(said)
    })?;
    let issued: Issued = serde_json::from_str(said.strip_prefix("server certificate issued ")?).ok()?;
    let named = issued.component == "controller-runtime" && ISSUERS.contains(&issued.controller.as_str());
    let key = issued.fingerprint;
    // Base64 of a SHA-256.
    let whole =
        key.len() == 44 && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    (named && whole).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "rMWhs9V9Y30sbs9W5KNCgVRReKGrfvV0FwMtqEX4OW8=";

    #[test]
    fn the_key_is_found_in_what_talos_prints() {
        for controller in ISSUERS {
            let by = format!("{{\"component\": \"controller-runtime\", \"controller\": \"{controller}\"");
            for before in ["", "[    9.858123] ", "\r[9.8] "] {
                let line =
                    format!("{before}[talos] server certificate issued {by}, \"fingerprint\": \"{KEY}\"}}\r");
                assert_eq!(printed_key(&line).as_deref(), Some(KEY), "{line}");
            }
        }
    }

    /// What a DHCP server says can be printed by the node, in lines of other kinds.
    #[test]
    fn no_other_line_is_believed() {
        let by = "{\"component\": \"controller-runtime\", \"controller\": \"runtime.MaintenanceServiceController\"";
        let issued = format!("server certificate issued {by}, \"fingerprint\": \"{KEY}\"}}");
        for line in [
            format!(
                "[talos]  talosctl apply-config --insecure --nodes 10.0.0.5 --cert-fingerprint '{KEY}' --file x"
            ),
            format!("[talos] setting hostname {{\"hostname\": \"x --cert-fingerprint '{KEY}'\"}}"),
            format!("[talos] setting hostname {{\"hostname\": \"{issued}\"}}"),
            format!("[talos] hello {issued}"),
            format!("login: [talos] {issued}"),
            format!("[evil] [talos] {issued}"),
            issued.clone(),
            format!("[talos] {issued} more"),
            format!("[talos] {}", issued.replace("}", ", \"fingerprint\": \"x\"}")),
            format!("[talos] {}", issued.replace("}", ", \"more\": \"x\"}")),
            format!("[talos] {}", issued.replace("runtime.MaintenanceServiceController", "network.Other")),
            format!("[talos] {}", issued.replace("controller-runtime", "other")),
            format!("[talos] {}", issued.replace(KEY, "short")),
            "[talos] server certificate issued".to_owned(),
            format!("[talos] other {{\"fingerprint\": \"{KEY}\"}}"),
        ] {
            assert_eq!(printed_key(&line), None, "{line}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_newest_key_counts_and_an_older_one_is_refused() {
        let printed = Printed::default();
        assert!(matches!(printed.proof("one"), Proof::NotYet(Doubt::Silent)));
        printed.with(|seen| seen.print("one".to_owned()));
        assert!(matches!(printed.proof("one"), Proof::Printed));
        // Another address or the right time: Talos makes a new key, and shows none but that one.
        printed.with(|seen| seen.print("two".to_owned()));
        assert!(matches!(printed.proof("two"), Proof::Printed));
        assert!(matches!(printed.proof("one"), Proof::NotYet(Doubt::OtherKey { .. })));
        tokio::time::sleep(PATIENCE + Duration::from_secs(1)).await;
        assert!(matches!(printed.proof("one"), Proof::Failed(Doubt::OtherKey { .. })));
    }
}
