//! Progress as plain lines, for logs and CI.

use daedal_engine::Event;
use jiff::Zoned;

/// The time of day.
pub fn clock() -> String {
    Zoned::now().strftime("%H:%M:%S").to_string()
}

/// An event as a line; none for what a log need not say.
pub fn line(event: &Event) -> Option<String> {
    let who = |node: &Option<String>| node.as_ref().map(|n| format!("{n}: ")).unwrap_or_default();
    Some(match event {
        Event::RunStarted { cluster, steps, .. } => format!("{cluster}: {steps} steps"),
        Event::StepStarted { node, stage, .. } => format!("{}{stage}", who(node)),
        Event::StepWaiting { node, stage, what, since, .. } => {
            // The start is said already; a wait is worth a line once it lasts.
            if since.as_secs() < 5 {
                return None;
            }
            format!("{}still {stage}: waiting for {what} ({} s)", who(node), since.as_secs())
        }
        Event::StepDone { node, stage, already, took, .. } => {
            let how = if *already {
                "was done already".to_owned()
            } else {
                format!("done in {:.1} s", took.as_secs_f64())
            };
            format!("{}{stage}: {how}", who(node))
        }
        Event::StepFailed { node, stage, error, fix, .. } => {
            let fix = fix.as_ref().map(|fix| format!(" (help: {fix})")).unwrap_or_default();
            format!("{}{stage}: FAILED: {error}{fix}", who(node))
        }
        Event::StepSkipped { node, stage, because, .. } => {
            format!("{}{stage}: skipped, {because}", who(node))
        }
        Event::RunFinished { done, failed, left, took } => {
            format!("{done} done, {failed} failed, {left} left in {:.1} s", took.as_secs_f64())
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn short_waits_say_nothing_long_ones_say_for_what_and_how_long() {
        let wait = |secs| Event::StepWaiting {
            step: 1,
            node: Some("cp-1".into()),
            stage: "booting Talos",
            what: "an answer on 10.0.0.11:50000".into(),
            since: Duration::from_secs(secs),
        };
        assert_eq!(line(&wait(1)), None);
        assert_eq!(
            line(&wait(12)).unwrap(),
            "cp-1: still booting Talos: waiting for an answer on 10.0.0.11:50000 (12 s)"
        );
    }
}
