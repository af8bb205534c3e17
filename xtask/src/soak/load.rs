//! Keeps every core busy while the tests run, and tells how busy it was.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread works or rests before it looks at the machine again.
const SLICE: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    samples: AtomicU64,
    /// Sum of the tasks that wanted a core, over all samples.
    wanting: AtomicU64,
}

/// Threads that keep every core busy until this is dropped. They rest while others want more than twice the cores there are.
pub struct Load {
    shared: Arc<Shared>,
    cores: u64,
}

impl Load {
    /// Starts one thread per core.
    pub fn start() -> Self {
        let cores = thread::available_parallelism().map_or(2, usize::from) as u64;
        let shared = Arc::new(Shared::default());
        for _ in 0..cores {
            let shared = shared.clone();
            thread::spawn(move || keep_busy(&shared, cores));
        }
        Self { shared, cores }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let samples = self.shared.samples.load(Ordering::Relaxed).max(1);
        let mean = self.shared.wanting.load(Ordering::Relaxed) as f64 / samples as f64;
        write!(f, "Load: on average {mean:.1} tasks wanted one of {} cores.", self.cores)
    }
}

fn keep_busy(shared: &Shared, cores: u64) {
    while !shared.over.load(Ordering::Relaxed) {
        let wanting = wanting(&fs::read_to_string("/proc/loadavg").unwrap_or_default()).unwrap_or(0);
        shared.samples.fetch_add(1, Ordering::Relaxed);
        shared.wanting.fetch_add(wanting, Ordering::Relaxed);
        if wanting > 2 * cores {
            thread::sleep(SLICE);
            continue;
        }
        let begin = Instant::now();
        while begin.elapsed() < SLICE {
            (0..1_000).for_each(|_| std::hint::spin_loop());
        }
    }
}

/// How many tasks want a core now, from the text of `/proc/loadavg`.
fn wanting(text: &str) -> Option<u64> {
    text.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_who_wants_a_core() {
        assert_eq!(wanting("0.20 0.18 0.12 3/345 11206\n"), Some(3));
        assert_eq!(wanting(""), None);
    }
}
