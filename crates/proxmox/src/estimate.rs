//! How long tasks of a kind take, learnt from when they were last seen running and first seen ended.

use std::{collections::HashMap, time::Duration};

/// Durations by node and kind of task.
#[derive(Default)]
pub(crate) struct Estimates {
    by_node: HashMap<(String, String), Estimate>,
    by_kind: HashMap<String, Estimate>,
}

/// A duration in seconds: the running mean and the running mean deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
    /// How many ends in a row were there at the first look already.
    streak: u32,
}

/// What one task showed: it ran longer than `low` and at most `high`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bracket {
    pub(crate) low: Duration,
    pub(crate) high: Duration,
}

impl Estimates {
    /// What is known for a kind on a node, or else anywhere.
    pub(crate) fn get(&self, node: &str, kind: &str) -> Option<Estimate> {
        self.by_node.get(&(node.to_owned(), kind.to_owned())).or_else(|| self.by_kind.get(kind)).copied()
    }

    /// Learns from a task that succeeded. `step` is the time between polls.
    pub(crate) fn learn(&mut self, node: &str, kind: &str, bracket: Bracket, step: Duration) {
        let known = self.get(node, kind);
        let new = match known {
            Some(known) => known.after(bracket, step),
            None => Estimate::first(bracket, step),
        };
        self.by_node.insert((node.to_owned(), kind.to_owned()), new);
        self.by_kind.insert(kind.to_owned(), new);
    }
}

impl Estimate {
    fn first(bracket: Bracket, step: Duration) -> Self {
        let (low, high) = (bracket.low.as_secs_f64(), bracket.high.as_secs_f64());
        let low = low.max(high - 2.0 * step.as_secs_f64());
        let mean = f64::midpoint(low, high);
        // One task says little about how much the next one differs.
        Self { mean, deviation: ((high - low) / 4.0).max((mean * 0.15).min(0.5)), streak: 0 }
    }

    fn after(self, bracket: Bracket, step: Duration) -> Self {
        let (low, high, step) = (bracket.low.as_secs_f64(), bracket.high.as_secs_f64(), step.as_secs_f64());
        let Self { mean, deviation, streak } = self;
        if high - low <= 1.5 * step {
            let error = f64::midpoint(low, high) - mean;
            let deviation = deviation + (error.abs() - deviation) / 4.0;
            return Self { mean: mean + error / 3.0, deviation, streak: 0 };
        }
        if (low..=high).contains(&mean) {
            // Ended before the first look, as expected. Look a little earlier next time, and ever more so: only a look
            // that still finds the task running tells that it does not take shorter than believed.
            let earlier = (step / 8.0 * 1.3_f64.powi(streak.min(20).cast_signed())).min(mean / 4.0);
            return Self { mean: (mean - earlier).max(low), deviation: deviation * 0.97, streak: streak + 1 };
        }
        let nearest = mean.clamp(low, high);
        let error = nearest - mean;
        Self { mean: nearest, deviation: deviation + (error.abs() - deviation) / 4.0, streak }
    }

    /// When to look first: as late as leaves 19 of 20 such tasks found within one `step` of their end, but not
    /// needlessly late where the duration is well known.
    pub(crate) fn first_look(self, step: Duration) -> Duration {
        // The mean deviation of a normal distribution is 0.8 of its standard deviation.
        let spread = self.deviation * 1.25;
        let wait = self.mean + (step.as_secs_f64() - 1.8 * spread).min(2.0 * spread + 0.03);
        Duration::from_secs_f64(wait.max(0.04))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(260);

    /// Runs `count` tasks one after the other; returns the lateness of each end's discovery, and the looks needed.
    fn run(estimates: &mut Estimates, count: usize, duration: impl Fn(usize) -> f64) -> (Vec<f64>, usize) {
        let (mut late, mut looks) = (Vec::new(), 0);
        for task in 0..count {
            let truth = Duration::from_secs_f64(duration(task));
            let mut at = estimates.get("n", "k").map_or(STEP, |estimate| estimate.first_look(STEP));
            let mut low = Duration::ZERO;
            looks += 1;
            while at < truth {
                low = at;
                at += STEP;
                looks += 1;
            }
            late.push((at - truth).as_secs_f64());
            estimates.learn("n", "k", Bracket { low, high: at }, STEP);
        }
        late.sort_by(f64::total_cmp);
        (late, looks)
    }

    #[test]
    fn steady_durations_need_hardly_more_than_one_look() {
        for duration in [0.1, 0.7, 5.0, 42.0] {
            let mut estimates = Estimates::default();
            run(&mut estimates, 10, |_| duration);
            let (late, looks) = run(&mut estimates, 100, |_| duration);
            assert!(looks <= 160, "{duration}: {looks} looks");
            assert!(late[94] <= 0.28, "{duration}: {} late", late[94]);
        }
    }

    #[test]
    fn a_change_of_pace_is_followed() {
        for (before, after) in [(5.0, 2.0), (2.0, 5.0)] {
            let mut estimates = Estimates::default();
            run(&mut estimates, 20, |_| before);
            run(&mut estimates, 60, |_| after);
            let (late, _) = run(&mut estimates, 50, |_| after);
            assert!(late[47] <= 0.3, "{before} to {after}: {} late", late[47]);
        }
    }

    #[test]
    fn spread_durations_are_found_in_time() {
        let mut estimates = Estimates::default();
        let spread = |task: usize| 4.0 + 2.0 * ((task * 37 % 100) as f64 / 100.0);
        run(&mut estimates, 50, spread);
        let (late, _) = run(&mut estimates, 200, spread);
        assert!(late[189] <= 0.4, "{} late", late[189]);
    }
}
