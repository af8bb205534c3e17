//! What the system says of this process: memory and processor time.

use std::time::Duration;

/// The most memory this process ever held, in bytes; none where the system does not say.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Time this thread has spent on a processor; none where the system does not say.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Mean processor time of one of several runs, so that a busy machine does not spoil the figure. Where the system does
/// not tell processor time, time on the wall.
pub fn processor_time_of<T>(runs: u32, mut work: impl FnMut() -> T) -> Duration {
    // The first run warms caches and the allocator.
    std::hint::black_box(work());
    let (wall, before) = (std::time::Instant::now(), processor_time());
    for _ in 0..runs {
        std::hint::black_box(work());
    }
    match (before, processor_time()) {
        (Some(before), Some(after)) => after.saturating_sub(before) / runs,
        _ => wall.elapsed() / runs,
    }
}
