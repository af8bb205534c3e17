//! What a caller gives to one run: where events go, and how it is stopped.

use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::event::Event;

/// One run's connection to whoever started it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Run {
    /// Where events go. A closed channel is no problem.
    pub events: mpsc::UnboundedSender<Event>,
    /// Cancelled: nothing new begins, waits end, mutating calls in flight are seen through.
    pub stop: CancellationToken,
    /// Cancelled: what is in flight is dropped as well.
    pub abandon: CancellationToken,
    /// The snapshot file that a new etcd begins with, where the plan says so.
    pub snapshot: Option<PathBuf>,
    /// Who approved the plan, for the journal.
    pub approved_by: Option<String>,
}

impl Run {
    /// A run and the receiving end of its events.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, receiver) = mpsc::unbounded_channel();
        (
            Self {
                events,
                stop: CancellationToken::new(),
                abandon: CancellationToken::new(),
                snapshot: None,
                approved_by: None,
            },
            receiver,
        )
    }

    /// A run nobody listens to.
    pub fn silent() -> Self {
        Self::new().0
    }

    /// The same run with a snapshot to restore.
    pub fn restoring(self, snapshot: impl Into<PathBuf>) -> Self {
        Self { snapshot: Some(snapshot.into()), ..self }
    }

    /// The same run of a plan that somebody approved.
    pub fn approved_by(self, who: impl Into<String>) -> Self {
        Self { approved_by: Some(who.into()), ..self }
    }

    pub(crate) fn tell(&self, event: Event) {
        // Whoever listened may be gone; the run goes on.
        let _ = self.events.send(event);
    }
}
