//! Waits for tasks, and tries again where looking and trying again can help.

use std::future::Future;
use std::time::Duration;

use daedal_planner::Step;
use daedal_proxmox::{Kind, TaskOutcome, Upid};
use tokio::time::Instant;

use crate::error::{Error, chain};
use crate::execute::{Executor, Outcome};

impl Executor<'_> {
    /// Waits for a task and returns how it ended.
    pub(super) async fn finish(&self, step: &Step, upid: &Upid, what: &str) -> Result<(), Error> {
        self.in_time(step, upid, what, self.tasks.wait(upid)).await
    }

    /// The same where nobody waits for it: looks that are made for other tasks mostly suffice.
    pub(super) async fn finish_some_time(&self, step: &Step, upid: &Upid, what: &str) -> Result<(), Error> {
        self.in_time(step, upid, what, self.tasks.wait_relaxed(upid)).await
    }

    async fn in_time(
        &self,
        step: &Step,
        upid: &Upid,
        what: &str,
        end: impl Future<Output = Result<TaskOutcome, daedal_proxmox::Error>>,
    ) -> Result<(), Error> {
        self.waiting(step, format!("task {} on {}", upid.kind(), upid.node()), Duration::ZERO);
        let patience = self.engine.parts.limits.task;
        match tokio::time::timeout(patience, end).await {
            Ok(ended) => Ok(ended?.into_result(what)?),
            Err(_) => {
                Err(Error::Deadline { what: format!("task {upid} to {what}"), after: patience, last: None })
            }
        }
    }

    /// Tries until it is done, fails for good, or has failed too often. A try that is not the first must look before
    /// it acts: the one before may have had its effect.
    pub(super) async fn persist<F, T>(&self, step: &Step, mut one_try: F) -> Result<Outcome, Error>
    where
        F: FnMut(bool) -> T,
        T: Future<Output = Result<Outcome, Error>>,
    {
        let mut pause = Duration::from_millis(250);
        let (mut attempt, began) = (1, Instant::now());
        let before = self.is_begun_again(step);
        loop {
            match one_try(before || attempt > 1).await {
                Err(error)
                    if worth_another(&error)
                        && (attempt < self.engine.parts.limits.attempts
                            || began.elapsed() < self.patience(&error)) =>
                {
                    if waited_in_vain(&error)
                        && let Some(limiter) = self.host_limits.of(step)
                    {
                        limiter.lost_patience();
                    }
                    tracing::debug!(step = step.id, attempt, error = %chain(&error), "trying again");
                    self.waiting(step, format!("another try after: {}", chain(&error)), Duration::ZERO);
                    self.sleep(pause).await?;
                    pause = (pause * 2).min(Duration::from_secs(5));
                    attempt += 1;
                }
                ended => return ended,
            }
        }
    }

    /// How long it is worth waiting for what others do to pass.
    fn patience(&self, error: &Error) -> Duration {
        let limits = &self.engine.parts.limits;
        match error {
            Error::Proxmox(proxmox) => match proxmox.kind() {
                // What creates it is waited for by its task, and a dead one never lets go.
                Kind::Locked { lock, .. } if lock != "create" => limits.lock,
                Kind::NoQuorum { .. } | Kind::Unreachable { .. } => limits.outage,
                _ if waited_in_vain(error) => limits.outage,
                _ => Duration::ZERO,
            },
            _ => Duration::ZERO,
        }
    }

    /// Sleeps unless the run is being stopped.
    pub(super) async fn sleep(&self, pause: Duration) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = self.run.stop.cancelled() => Err(Error::Stopped),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}

/// Whether Proxmox gave up waiting: for a lock, or for a command of a storage.
fn waited_in_vain(error: &Error) -> bool {
    let kind = match error {
        Error::Proxmox(error) => error.kind(),
        _ => return false,
    };
    matches!(kind, Kind::LockTimeout { .. } | Kind::StorageTimeout { .. })
}

/// Whether looking and trying again can help.
fn worth_another(error: &Error) -> bool {
    match error {
        Error::Proxmox(error) => {
            error.is_passing() || error.may_have_happened() || matches!(error.kind(), Kind::Stale { .. })
        }
        // A refused login is not tried again: servers lock out who knocks too often.
        Error::HostFile { source, .. } => matches!(
            source.kind(),
            std::io::ErrorKind::ConnectionReset
                | std::io::ErrorKind::TimedOut
                | std::io::ErrorKind::UnexpectedEof
                | std::io::ErrorKind::BrokenPipe
                | std::io::ErrorKind::ResourceBusy
        ),
        _ => false,
    }
}
