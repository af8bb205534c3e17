//! Progress as plain lines, for logs and CI.

use std::collections::BTreeMap;
use std::time::Duration;

use daedal_engine::Event;
use daedal_planner::StepId;
use jiff::Zoned;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::advice;
use crate::silence::{AGAIN, Silence};
use crate::words::count;

/// A change of what a step waits for is worth a line once the step has been silent for so long.
const QUIET: Duration = Duration::from_secs(5);

/// A step that still runs is named again after so long: a log that stands still looks dead.
const REMIND: Duration = Duration::from_secs(20);

/// So many reminders at once are read by people; of more, a number is enough.
const MOST_REMINDERS: usize = 10;

/// Writes lines until the channel closes.
pub async fn show(mut events: UnboundedReceiver<Event>, silence: &Silence) {
    let began = Instant::now();
    let mut log = Log::default();
    let mut silent_said: Option<Instant> = None;
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        let lines = tokio::select! {
            event = events.recv() => match event {
                Some(event) => log.take(&event, began.elapsed()).into_iter().collect(),
                None => return,
            },
            _ = tick.tick() => {
                let mut lines = log.reminders(began.elapsed());
                // A peer that is silent is what all the others wait for.
                match silence.says() {
                    None => silent_said = None,
                    Some(line) if silent_said.is_none_or(|said| said.elapsed() >= AGAIN) => {
                        silent_said = Some(Instant::now());
                        lines.insert(0, line);
                    }
                    Some(_) => {}
                }
                lines
            }
        };
        for line in lines {
            crate::console::progress(&crate::console::wrapped(&format!("{} {line}", clock()), 9));
        }
    }
}

/// The time of day.
fn clock() -> String {
    Zoned::now().strftime("%H:%M:%S").to_string()
}

/// What runs, since when, and when it was last spoken of. Times count from the run's beginning.
#[derive(Debug, Default)]
struct Log {
    running: BTreeMap<StepId, Running>,
}

#[derive(Debug)]
struct Running {
    who: String,
    stage: &'static str,
    waits_for: Option<String>,
    since: Duration,
    said: Duration,
}

impl Running {
    fn still(&mut self, now: Duration) -> String {
        self.said = now;
        let what = self.waits_for.as_ref().map(|what| format!(": waiting for {what}")).unwrap_or_default();
        let since = now.saturating_sub(self.since).as_secs();
        format!("{}still {}{what} ({since} s)", self.who, self.stage)
    }

    fn silent_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.said)
    }
}

impl Log {
    /// An event as a line; none for what a log need not say.
    fn take(&mut self, event: &Event, now: Duration) -> Option<String> {
        Some(match event {
            Event::RunStarted { cluster, steps, .. } => format!("{cluster}: {}", count(*steps, "step")),
            Event::StepStarted { of } => {
                let who = of.of_whom().map(|whom| format!("{whom}: ")).unwrap_or_default();
                let running = Running { who, stage: of.stage, waits_for: None, since: now, said: now };
                self.running.insert(of.id, running);
                of.subject()
            }
            Event::StepWaiting { of, what, .. } => {
                let running = self.running.get_mut(&of.id)?;
                running.waits_for = Some(what.clone());
                // The start is said already; a wait is worth a line once it lasts.
                if running.silent_for(now) < QUIET {
                    return None;
                }
                running.still(now)
            }
            Event::StepDone { of, already, took } => {
                self.running.remove(&of.id);
                let how = if *already {
                    "was done already".to_owned()
                } else {
                    format!("done in {:.1} s", took.as_secs_f64())
                };
                format!("{}: {how}", of.subject())
            }
            Event::StepGaveUp { of, error, .. } => {
                self.running.remove(&of.id);
                format!("{}: gave up: {error}; tried again if it answers while the run goes on", of.subject())
            }
            Event::StepFailed { of, error, fix, .. } => {
                self.running.remove(&of.id);
                let fix =
                    fix.as_ref().map(|fix| format!(" (help: {})", advice::told(fix))).unwrap_or_default();
                format!("{}: FAILED: {error}{fix}", of.subject())
            }
            Event::StepSkipped { of, because } => {
                self.running.remove(&of.id);
                format!("{}: skipped, {because}", of.subject())
            }
            Event::RunFinished { done, failed, left, took } => {
                format!("{done} done, {failed} failed, {left} left in {:.1} s", took.as_secs_f64())
            }
        })
    }

    /// What has been silent for too long and still runs, longest first.
    fn reminders(&mut self, now: Duration) -> Vec<String> {
        let mut due: Vec<&mut Running> =
            self.running.values_mut().filter(|running| running.silent_for(now) >= REMIND).collect();
        due.sort_by_key(|running| running.since);
        let more = due.len().saturating_sub(MOST_REMINDERS);
        let mut lines: Vec<String> = due.iter_mut().map(|running| running.still(now)).collect();
        if more > 0 {
            lines.truncate(MOST_REMINDERS);
            lines.push(match more {
                1 => "and 1 more step still runs".to_owned(),
                _ => format!("and {more} more steps still run"),
            });
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use daedal_engine::StepRef;

    use super::*;

    fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn started(step: StepId) -> Event {
        Event::StepStarted { of: booting(step) }
    }

    fn booting(id: StepId) -> StepRef {
        StepRef {
            id,
            node: Some(format!("cp-{id}")),
            addon: None,
            action: "awaitApi",
            stage: "booting Talos",
        }
    }

    /// A wait as the engine tells it: of a task, always with no time passed.
    fn wait(what: &str) -> Event {
        Event::StepWaiting { of: booting(1), what: what.into(), since: Duration::ZERO }
    }

    #[test]
    fn a_wait_that_never_changes_is_told_again_and_again() {
        let mut log = Log::default();
        assert_eq!(log.take(&started(1), second(0)).unwrap(), "cp-1: booting Talos");
        assert_eq!(log.take(&wait("Talos to answer on 10.0.0.11"), second(1)), None, "said just now");
        let mut said = Vec::new();
        for now in 1..=600 {
            said.extend(log.reminders(second(now)));
        }
        assert_eq!(said.len(), 30, "ten minutes, every twenty seconds: {said:?}");
        assert_eq!(said[0], "cp-1: still booting Talos: waiting for Talos to answer on 10.0.0.11 (20 s)");
        assert!(said[29].ends_with("(600 s)"), "{}", said[29]);
        let done = Event::StepDone { of: booting(1), already: false, took: second(601) };
        assert_eq!(log.take(&done, second(601)).unwrap(), "cp-1: booting Talos: done in 601.0 s");
        assert_eq!(log.reminders(second(700)), Vec::<String>::new());
    }

    #[test]
    fn a_change_is_told_at_once_unless_the_step_spoke_just_now() {
        let mut log = Log::default();
        log.take(&started(1), second(0));
        assert_eq!(
            log.take(&wait("a reboot"), second(12)).unwrap(),
            "cp-1: still booting Talos: waiting for a reboot (12 s)"
        );
        assert_eq!(log.take(&wait("etcd"), second(14)), None);
        assert_eq!(log.reminders(second(31)), Vec::<String>::new());
        assert_eq!(log.reminders(second(32)), ["cp-1: still booting Talos: waiting for etcd (32 s)"]);
    }

    #[test]
    fn hundreds_of_waits_do_not_flood_the_log() {
        let mut log = Log::default();
        for step in 0..500 {
            log.take(&started(step), Duration::ZERO);
        }
        let said = log.reminders(second(20));
        assert_eq!((said.len(), said[10].as_str()), (11, "and 490 more steps still run"));
        assert_eq!(log.reminders(second(21)), Vec::<String>::new());
    }
}
