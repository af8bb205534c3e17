//! Whether anybody uses the lab, so that an idle one can end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Counts open connections and remembers when the last one was busy. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    open: usize,
    last: Instant,
    total: u64,
}

/// One connection; its end is noted when this is dropped.
#[derive(Debug)]
pub struct Busy(Activity);

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { open: 0, last: Instant::now(), total: 0 })))
    }
}

impl Activity {
    /// A connection begins.
    pub fn begin(&self) -> Busy {
        self.with(|state| {
            state.open += 1;
            state.total += 1;
            state.last = Instant::now();
        });
        Busy(self.clone())
    }

    /// For how long nobody was connected; none while somebody is.
    pub fn idle_for(&self) -> Option<Duration> {
        self.with(|state| (state.open == 0).then(|| state.last.elapsed()))
    }

    /// Connections so far.
    pub fn total(&self) -> u64 {
        self.with(|state| state.total)
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.open -= 1;
            state.last = Instant::now();
        });
    }
}
