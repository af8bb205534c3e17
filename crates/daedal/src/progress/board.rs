//! What the terminal shows, as data: one row per node and one for shared work, each with what it does and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use daedal_engine::Event;
use daedal_planner::{Plan, StepId};

/// The name of the row for work that is not about one node.
pub const SHARED: &str = "cluster";

/// How a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing begun.
    Waiting,
    /// Something runs.
    Busy,
    /// All its steps are done.
    Done,
    /// A step failed, or was skipped because another failed.
    Failed,
}

/// One row.
#[derive(Debug)]
pub struct Row {
    /// Node name, or [`SHARED`].
    pub name: String,
    /// Steps in all.
    pub steps: usize,
    /// Steps done.
    pub done: usize,
    /// Steps failed or skipped.
    failed: Option<String>,
    active: BTreeMap<StepId, Active>,
    finished_at: Option<Duration>,
    last_stage: &'static str,
}

#[derive(Debug)]
struct Active {
    stage: &'static str,
    since: Duration,
    waiting: Option<String>,
}

/// All rows, in the plan's order.
#[derive(Debug)]
pub struct Board {
    /// The rows.
    pub rows: Vec<Row>,
}

impl Board {
    /// A board on which nothing has begun.
    pub fn new(plan: &Plan) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for step in &plan.steps {
            let name = step.node.as_deref().unwrap_or(SHARED);
            match rows.iter_mut().find(|row| row.name == name) {
                Some(row) => row.steps += 1,
                None => rows.push(Row {
                    name: name.to_owned(),
                    steps: 1,
                    done: 0,
                    failed: None,
                    active: BTreeMap::new(),
                    finished_at: None,
                    last_stage: "",
                }),
            }
        }
        // Shared work first: everything else waits for it.
        rows.sort_by_key(|row| row.name != SHARED);
        Self { rows }
    }

    fn row(&mut self, node: Option<&String>) -> Option<&mut Row> {
        let name = node.map_or(SHARED, String::as_str);
        self.rows.iter_mut().find(|row| row.name == name)
    }

    /// Takes in an event; `now` counts from the run's beginning.
    pub fn take(&mut self, event: &Event, now: Duration) {
        match event {
            Event::RunStarted { .. } | Event::RunFinished { .. } => {}
            Event::StepStarted { step, node, stage } => {
                if let Some(row) = self.row(node.as_ref()) {
                    row.active.insert(*step, Active { stage, since: now, waiting: None });
                }
            }
            Event::StepWaiting { step, node, what, .. } => {
                if let Some(active) = self.row(node.as_ref()).and_then(|row| row.active.get_mut(step)) {
                    active.waiting = Some(what.clone());
                }
            }
            Event::StepDone { step, node, stage, .. } => {
                if let Some(row) = self.row(node.as_ref()) {
                    row.active.remove(step);
                    row.done += 1;
                    row.last_stage = stage;
                    if row.done == row.steps {
                        row.finished_at = Some(now);
                    }
                }
            }
            Event::StepFailed { step, node, stage, error, .. } => {
                if let Some(row) = self.row(node.as_ref()) {
                    row.active.remove(step);
                    row.failed.get_or_insert_with(|| format!("{stage}: {error}"));
                }
            }
            Event::StepSkipped { step, node, because, .. } => {
                if let Some(row) = self.row(node.as_ref()) {
                    row.active.remove(step);
                    row.failed.get_or_insert_with(|| format!("skipped: {because}"));
                }
            }
        }
    }
}

impl Row {
    /// How it stands.
    pub fn standing(&self) -> Standing {
        if !self.active.is_empty() {
            Standing::Busy
        } else if self.failed.is_some() {
            Standing::Failed
        } else if self.done == self.steps {
            Standing::Done
        } else if self.done == 0 {
            Standing::Waiting
        } else {
            Standing::Busy
        }
    }

    /// What it does, what for, and since when.
    pub fn text(&self, now: Duration) -> String {
        let progress = format!("{:>2}/{:<2}", self.done, self.steps);
        // The step that runs longest is the one to watch; quick ones beside it would only flicker.
        if let Some(active) = self.active.values().min_by_key(|a| a.since) {
            let seconds = now.saturating_sub(active.since).as_secs();
            let waiting = active.waiting.as_ref().map(|w| format!(", waiting for {w}")).unwrap_or_default();
            let since = if seconds > 0 { format!(" ({seconds} s)") } else { String::new() };
            return format!("{progress}  {}{waiting}{since}", active.stage);
        }
        match (&self.failed, self.finished_at) {
            (Some(failed), _) => format!("{progress}  {failed}"),
            (None, Some(at)) => format!("{progress}  done after {:.1} s", at.as_secs_f64()),
            (None, None) if self.done == 0 => format!("{progress}  waiting for its turn"),
            (None, None) => format!("{progress}  after {}, waiting for others", self.last_stage),
        }
    }
}

#[cfg(test)]
mod tests {
    use daedal_planner::{Action, Impact, Purpose, Step};

    use super::*;

    fn plan() -> Plan {
        let step = |id, node: Option<&str>, action| Step {
            id,
            needs: vec![],
            node: node.map(str::to_owned),
            host: None,
            action,
            reason: String::new(),
            impact: Impact::None,
        };
        Plan {
            format: 1,
            purpose: Purpose::Apply,
            cluster: "home".into(),
            uuid: uuid::Uuid::nil(),
            intent: String::new(),
            basis: String::new(),
            steps: vec![
                step(0, Some("cp-1"), Action::StartVm { vmid: 300 }),
                step(1, Some("cp-1"), Action::AwaitApi),
                step(2, None, Action::WriteOutputs),
            ],
            hosts: vec![],
            quorum: daedal_planner::Quorum::default(),
            notes: vec![],
            differences: vec![],
            unseen: false,
            nodes: Default::default(),
            versions: Default::default(),
        }
    }

    #[test]
    fn a_row_tells_stage_wait_and_time_and_ends_done() {
        let mut board = Board::new(&plan());
        assert_eq!(board.rows[0].name, SHARED);
        let node = Some("cp-1".to_owned());
        let second = Duration::from_secs;
        assert_eq!(board.rows[1].text(second(0)), " 0/2   waiting for its turn");
        board.take(&Event::StepStarted { step: 0, node: node.clone(), stage: "starting the VM" }, second(1));
        assert_eq!(board.rows[1].text(second(4)), " 0/2   starting the VM (3 s)");
        let took = second(3);
        let done = |step, stage| Event::StepDone { step, node: node.clone(), stage, already: false, took };
        board.take(&done(0, "starting the VM"), second(4));
        assert_eq!(board.rows[1].text(second(4)), " 1/2   after starting the VM, waiting for others");
        board.take(&done(1, "booting Talos"), second(5));
        assert_eq!(board.rows[1].standing(), Standing::Done);
        assert_eq!(board.rows[1].text(second(9)), " 2/2   done after 5.0 s");
    }

    #[test]
    fn a_failure_stays_in_sight() {
        let mut board = Board::new(&plan());
        let failed = Event::StepFailed {
            step: 0,
            node: Some("cp-1".into()),
            stage: "starting the VM",
            error: "no memory".into(),
            fix: None,
            took: Duration::ZERO,
        };
        board.take(&failed, Duration::ZERO);
        assert_eq!(board.rows[1].standing(), Standing::Failed);
        assert!(board.rows[1].text(Duration::ZERO).ends_with("starting the VM: no memory"));
    }
}
