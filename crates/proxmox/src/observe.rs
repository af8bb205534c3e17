//! The point that every call passes, where it can be counted, failed or held.

use std::{
    collections::BTreeMap,
    future::{Future, ready},
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A call as an [`Observer`] sees it. Carries no parameter values, so that nothing secret can leak here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `GET`, `POST`, `PUT`, `DELETE`.
    pub method: &'static str,
    /// Path below `/api2/json`, without query.
    pub path: String,
    /// What it is for; reads on after "could not".
    pub operation: String,
    /// Whether it changes something.
    pub mutating: bool,
    /// 1 for the first try, and so on.
    pub attempt: u32,
}

/// How a call went on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// HTTP status, if an answer came.
    pub status: Option<u16>,
    /// How long it took.
    pub elapsed: Duration,
}

/// A failure to inject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// As if the connection had been refused: nothing was sent.
    Refused,
    /// As if the connection had broken after the request was sent.
    Lost,
    /// As if this had been the answer.
    Reply {
        /// HTTP status.
        status: u16,
        /// Reason phrase.
        reason: String,
        /// Body.
        body: String,
    },
}

/// What an observer's hook resolves to: nothing, or a failure to inject. A hook that never resolves holds the call.
pub type Verdict<'a> = Pin<Box<dyn Future<Output = Option<Fault>> + Send + 'a>>;

/// Watches every try of every call of a client.
pub trait Observer: Send + Sync + 'static {
    /// Before anything is sent. A fault given here replaces the call: nothing is sent at all.
    fn before<'a>(&'a self, call: &'a Call) -> Verdict<'a> {
        let _ = call;
        Box::pin(ready(None))
    }

    /// After the effect, before its answer reaches the caller. A fault given here replaces the answer.
    fn after<'a>(&'a self, call: &'a Call, seen: &'a Seen) -> Verdict<'a> {
        let _ = (call, seen);
        Box::pin(ready(None))
    }
}

/// Counts calls.
#[derive(Debug, Default)]
pub struct CallCounter {
    counts: Mutex<Counts>,
}

/// What a [`CallCounter`] counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All tries of all calls.
    pub total: u64,
    /// Of them, those that change something.
    pub mutating: u64,
    /// Of all, those answered with a status of 400 or more, or not at all.
    pub failed: u64,
    /// By method and shape of path, such as `GET /nodes/*/tasks`.
    pub by_shape: BTreeMap<String, u64>,
}

impl CallCounter {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for CallCounter {
    fn before<'a>(&'a self, call: &'a Call) -> Verdict<'a> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total += 1;
        counts.mutating += u64::from(call.mutating);
        *counts.by_shape.entry(shape(call)).or_default() += 1;
        Box::pin(ready(None))
    }

    fn after<'a>(&'a self, _: &'a Call, seen: &'a Seen) -> Verdict<'a> {
        if seen.status.is_none_or(|status| status >= 400) {
            self.counts.lock().unwrap_or_else(PoisonError::into_inner).failed += 1;
        }
        Box::pin(ready(None))
    }
}

/// Method and path with the names of things replaced by `*`.
fn shape(call: &Call) -> String {
    let mut parts = Vec::new();
    let mut segments = call.path.split('/').filter(|segment| !segment.is_empty()).peekable();
    while let Some(segment) = segments.next() {
        parts.push(segment);
        if matches!(segment, "nodes" | "qemu" | "storage" | "tasks" | "pools") && segments.next().is_some() {
            parts.push("*");
        }
        if segment == "content" {
            if segments.peek().is_some() {
                parts.push("*");
            }
            break;
        }
    }
    format!("{} /{}", call.method, parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_leave_names_out() {
        for (path, want) in [
            ("/nodes/atlas/qemu/300/status/start", "GET /nodes/*/qemu/*/status/start"),
            ("/nodes/atlas/storage/local/content/local:iso/x.iso", "GET /nodes/*/storage/*/content/*"),
            ("/nodes/atlas/storage/local/content", "GET /nodes/*/storage/*/content"),
            ("/nodes/atlas/tasks", "GET /nodes/*/tasks"),
            ("/nodes/atlas/tasks/UPID:x:/status", "GET /nodes/*/tasks/*/status"),
            ("/cluster/tasks", "GET /cluster/tasks"),
            ("/version", "GET /version"),
        ] {
            let call = Call {
                method: "GET",
                path: path.into(),
                operation: String::new(),
                mutating: false,
                attempt: 1,
            };
            assert_eq!(shape(&call), want);
        }
    }
}
