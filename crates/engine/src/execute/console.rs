//! What a node prints of its key on its serial console, which only Proxmox and the node itself can write to.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use daedal_planner::Step;
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

/// The keys that a console has printed, and what stands in the way of seeing them.
#[derive(Default)]
pub(super) struct Printed(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    keys: BTreeSet<String>,
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

impl Printed {
    fn with<R>(&self, work: impl FnOnce(&mut Seen) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a key that is shown was printed.
    pub(super) fn proof(&self, shown: &str) -> Proof {
        self.with(|seen| {
            if seen.keys.contains(shown) {
                return Proof::Printed;
            }
            let since = *seen.doubted.get_or_insert_with(Instant::now);
            let doubt = match (&seen.trouble, seen.keys.is_empty()) {
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
                if key.is_some_and(|key| printed.with(|seen| seen.keys.insert(key))) {
                    news.told();
                }
            }
        }
        Ok(())
    }
}

/// The fingerprint in a line of a Talos console: `server certificate issued {… "fingerprint": "…"}`, or the advice to
/// use `--cert-fingerprint '…'`.
fn printed_key(line: &str) -> Option<String> {
    let after = |mark: &str, end: char| {
        let (_, rest) = line.split_once(mark)?;
        Some(rest.split_once(end)?.0)
    };
    let issued = || after("\"fingerprint\": \"", '"').filter(|_| line.contains("server certificate issued"));
    let key = issued().or_else(|| after("--cert-fingerprint '", '\''))?;
    // Base64 of a SHA-256.
    let whole =
        key.len() == 44 && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    whole.then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_found_in_what_talos_prints() {
        let key = "rMWhs9V9Y30sbs9W5KNCgVRReKGrfvV0FwMtqEX4OW8=";
        let by = "{\"component\": \"controller-runtime\", \"controller\": \"runtime.MaintenanceServiceController\"";
        for line in [
            format!("[    9.858] [talos] server certificate issued {by}, \"fingerprint\": \"{key}\"}}\r"),
            format!(
                "[talos]  talosctl apply-config --insecure --nodes 10.0.0.5 --cert-fingerprint '{key}' --file x"
            ),
        ] {
            assert_eq!(printed_key(&line).as_deref(), Some(key), "{line}");
        }
        for line in [
            "[talos] server certificate issued",
            "[talos] other {\"fingerprint\": \"rMWhs9V9Y30sbs9W5KNCgVRReKGrfvV0FwMtqEX4OW8=\"}",
            "--cert-fingerprint 'short'",
        ] {
            assert_eq!(printed_key(line), None, "{line}");
        }
    }
}
