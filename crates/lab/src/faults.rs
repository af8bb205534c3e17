//! What goes wrong on purpose: faults by matched call, points where a call is held, and the log of all calls.
//!
//! Every service of the lab that takes calls asks [`Faults::arrive`] before it does anything and says
//! [`Faults::finish`] when it has answered. Nothing here is random: the n-th matching call is the n-th in order of
//! arrival, so under paused time a run repeats exactly.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::moments::{Moment, Moments, Occasion};

/// Which calls a rule is about. All given parts must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// Service name; none: every service.
    pub service: Option<String>,
    /// HTTP method (or RPC name); none: every method.
    pub method: Option<String>,
    /// Path pattern: `*` stands for one segment, `**` at the end for any rest. None: every path.
    pub path: Option<String>,
    /// Only calls that change something.
    pub mutating: bool,
    /// Only the n-th such call (from 1); none: every one.
    pub nth: Option<u64>,
}

impl When {
    /// Every call.
    pub fn any() -> Self {
        Self::default()
    }

    /// Calls of this method on paths of this pattern.
    pub fn call(method: &str, path: &str) -> Self {
        Self { method: Some(method.into()), path: Some(path.into()), ..Self::default() }
    }

    /// Every call that changes something.
    pub fn mutating() -> Self {
        Self { mutating: true, ..Self::default() }
    }

    /// Only the n-th (from 1) of those.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.nth = Some(n);
        self
    }

    fn fits(&self, call: &Call<'_>) -> bool {
        self.service.as_deref().is_none_or(|name| name == call.service)
            && self.method.as_deref().is_none_or(|name| name == call.method)
            && (!self.mutating || call.mutating)
            && self.path.as_deref().is_none_or(|pattern| path_fits(pattern, call.path))
    }
}

fn path_fits(pattern: &str, path: &str) -> bool {
    let mut wanted = pattern.trim_matches('/').split('/');
    let mut given = path.trim_matches('/').split('/');
    loop {
        match (wanted.next(), given.next()) {
            (None, None) | (Some("**"), _) => return true,
            (Some("*"), Some(_)) => {}
            (Some(want), Some(have)) if want == have => {}
            _ => return false,
        }
    }
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// No effect and never an answer.
    HangBefore,
    /// The effect, and never an answer.
    HangAfter,
    /// No effect; after 30 s the proxy answers 596.
    TimedOutBefore,
    /// The effect; after 30 s the proxy answers 596.
    TimedOutAfter,
    /// No effect; this status at once (401, 403, 404, 409, 500, 501, 595, 596, …).
    Status(u16),
    /// No effect; the text of a lock that could not be had.
    LockTimeout,
    /// The effect; half of the answer's body, then the end of the connection.
    TruncatedBody,
    /// The effect; an answer whose body is not JSON.
    MalformedBody,
    /// The effect, and the answer after this simulated time.
    Slow(Duration),
    /// No effect; the connection ends.
    DropBefore,
    /// The effect; the connection ends without an answer.
    DropAfter,
    /// Something happens to the task that the call starts.
    Task(TaskFault),
}

/// What happens to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskFault {
    /// The daemon does not hear of its worker: `got no worker upid`, nothing runs.
    NoWorker,
    /// It ends with this error before any effect.
    Fails(String),
    /// It does its work and ends with that many warnings.
    Warnings(u32),
    /// A command of the storage times out once the disks are made. The VM goes, its first volume stays.
    StorageTimeout,
    /// Its worker is killed after the disks were made and before the work is complete.
    Dies,
    /// Every step takes that many times as long.
    Slower(u32),
    /// A download ends after nine bytes, as a broken proxy makes it.
    ShortDownload,
}

/// Where a held call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldPoint {
    /// It has arrived and has had no effect.
    BeforeEffect,
    /// It has had its effect and was not answered.
    AfterEffect,
}

/// One call as the service sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Which service.
    pub service: &'a str,
    /// HTTP method or RPC name.
    pub method: &'a str,
    /// Path without query.
    pub path: &'a str,
    /// Whether it changes something.
    pub mutating: bool,
    /// Simulated Unix time.
    pub at: i64,
}

/// One call in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallRecord {
    /// Which service.
    pub service: String,
    /// HTTP method or RPC name.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Simulated Unix time of arrival.
    pub at: i64,
    /// Whether it changes something.
    pub mutating: bool,
    /// Status of the answer; none while (or because) there was none.
    pub status: Option<u16>,
}

/// What a service must do with a call.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Place in the log, for [`Faults::finish`].
    pub index: usize,
    /// What goes wrong, if anything.
    pub fault: Option<Fault>,
    before: Option<watch::Sender<bool>>,
    after: Option<watch::Sender<bool>>,
}

impl Verdict {
    /// To be awaited before any effect: does not return if the call is held there.
    pub async fn before_effect(&self) {
        hold(self.before.as_ref()).await;
    }

    /// To be awaited between effect and answer: does not return if the call is held there.
    pub async fn after_effect(&self) {
        hold(self.after.as_ref()).await;
    }
}

async fn hold(at: Option<&watch::Sender<bool>>) {
    if let Some(reached) = at {
        reached.send_replace(true);
        std::future::pending::<()>().await;
    }
}

/// Tells when a held call got to its point.
#[derive(Clone, Debug)]
pub struct Held {
    reached: watch::Receiver<bool>,
}

impl Held {
    /// Waits until the call stands at its point. Never returns if the point was given up before.
    pub async fn reached(&mut self) {
        if self.reached.wait_for(|reached| *reached).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the call stands at its point.
    pub fn is_reached(&self) -> bool {
        *self.reached.borrow()
    }
}

/// The lab's faults and its log of calls. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Faults {
    inner: Arc<Mutex<Inner>>,
    moments: Moments,
}

#[derive(Default)]
struct Inner {
    rules: Vec<Rule>,
    holds: Vec<(u64, HoldPoint, watch::Sender<bool>)>,
    mutations: u64,
    log: Vec<CallRecord>,
}

struct Rule {
    when: When,
    fault: Fault,
    seen: u64,
}

impl Faults {
    /// Makes matching calls go wrong from now on; the counting starts now.
    pub fn inject(&self, when: When, fault: Fault) {
        self.lock().rules.push(Rule { when, fault, seen: 0 });
    }

    /// Holds the n-th (from 1) call from now on that changes something.
    pub fn hold_mutation(&self, n: u64, point: HoldPoint) -> Held {
        let (sender, reached) = watch::channel(false);
        let mut inner = self.lock();
        let number = inner.mutations + n;
        inner.holds.push((number, point, sender));
        Held { reached }
    }

    /// Takes all rules and holds away. Calls that already hang go on hanging.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.rules.clear();
        inner.holds.clear();
    }

    /// How many calls that change something have arrived.
    pub fn mutations(&self) -> u64 {
        self.lock().mutations
    }

    /// All calls so far, in order of arrival.
    pub fn log(&self) -> Vec<CallRecord> {
        self.lock().log.clone()
    }

    /// Forgets the calls so far. Counters of rules and holds stay.
    pub fn clear_log(&self) {
        self.lock().log.clear();
    }

    /// Takes note of a call and says what shall happen to it.
    pub fn arrive(&self, call: Call<'_>) -> Verdict {
        let mut inner = self.lock();
        let mut verdict = Verdict { index: inner.log.len(), ..Verdict::default() };
        inner.log.push(CallRecord {
            service: call.service.into(),
            method: call.method.into(),
            path: call.path.into(),
            at: call.at,
            mutating: call.mutating,
            status: None,
        });
        if call.mutating {
            inner.mutations += 1;
            let number = inner.mutations;
            for (_, point, sender) in inner.holds.iter().filter(|hold| hold.0 == number) {
                match point {
                    HoldPoint::BeforeEffect => verdict.before = Some(sender.clone()),
                    HoldPoint::AfterEffect => verdict.after = Some(sender.clone()),
                }
            }
        }
        for rule in &mut inner.rules {
            if !rule.when.fits(&call) {
                continue;
            }
            rule.seen += 1;
            if verdict.fault.is_none() && rule.when.nth.is_none_or(|nth| nth == rule.seen) {
                verdict.fault = Some(rule.fault.clone());
            }
        }
        verdict
    }

    /// Takes note that something came about.
    pub(crate) fn happened(&self, occasion: Occasion, subject: impl Into<String>) {
        self.moments.note(occasion, subject);
    }

    /// What came about so far that somebody may have waited for, in order.
    pub fn moments(&self) -> Vec<Moment> {
        self.moments.all()
    }

    /// Takes note of the answer's status.
    pub fn finish(&self, verdict: &Verdict, status: u16) {
        if let Some(record) = self.lock().log.get_mut(verdict.index) {
            record.status = Some(status);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(method: &'a str, path: &'a str) -> Call<'a> {
        Call { service: "proxmox", method, path, mutating: method != "GET", at: 0 }
    }

    #[test]
    fn only_the_nth_matching_call_fails() {
        let faults = Faults::default();
        faults.inject(When::call("POST", "/nodes/*/qemu").nth(2), Fault::Status(500));
        let fates: Vec<bool> = [
            ("POST", "/nodes/a/qemu"),
            ("GET", "/nodes/a/qemu"),
            ("POST", "/nodes/a/qemu/100/clone"),
            ("POST", "/nodes/b/qemu"),
            ("POST", "/nodes/b/qemu"),
        ]
        .into_iter()
        .map(|(method, path)| faults.arrive(call(method, path)).fault.is_some())
        .collect();
        assert_eq!(fates, [false, false, false, true, false]);
        assert_eq!(faults.mutations(), 4);
        assert_eq!(faults.log().len(), 5);
    }

    #[test]
    fn a_double_star_takes_any_rest() {
        assert!(path_fits("/nodes/**", "/nodes/a/qemu/100"));
        assert!(!path_fits("/nodes/*", "/nodes/a/qemu"));
        assert!(path_fits("**", "/version"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_call_stands_still_at_its_point() {
        let faults = Faults::default();
        let mut held = faults.hold_mutation(1, HoldPoint::AfterEffect);
        let verdict = faults.arrive(call("PUT", "/x"));
        verdict.before_effect().await;
        assert!(!held.is_reached());
        let stuck = tokio::spawn(async move { verdict.after_effect().await });
        held.reached().await;
        assert!(!stuck.is_finished());
        stuck.abort();
    }
}
