//! What the terminal shows, as data: one row per node and one for shared work, each with what it does and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use daedal_engine::{Event, StepRef};
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
    /// Steps that gave up on a peer, and why; they go on when it is back.
    gave_up: BTreeMap<StepId, String>,
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
            let addon = step.action.addon().map(|(addon, _)| addon);
            let name = step.node.as_deref().or(addon).unwrap_or(SHARED);
            match rows.iter_mut().find(|row| row.name == name) {
                Some(row) => row.steps += 1,
                None => rows.push(Row {
                    name: name.to_owned(),
                    steps: 1,
                    done: 0,
                    failed: None,
                    gave_up: BTreeMap::new(),
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

    fn row(&mut self, of: &StepRef) -> Option<&mut Row> {
        let name = of.of_whom().unwrap_or(SHARED);
        self.rows.iter_mut().find(|row| row.name == name)
    }

    /// Takes in an event; `now` counts from the run's beginning.
    pub fn take(&mut self, event: &Event, now: Duration) {
        match event {
            Event::RunStarted { .. } | Event::RunFinished { .. } => {}
            Event::StepStarted { of } => {
                if let Some(row) = self.row(of) {
                    row.gave_up.remove(&of.id);
                    row.active.insert(of.id, Active { stage: of.stage, since: now, waiting: None });
                }
            }
            Event::StepGaveUp { of, error, .. } => {
                if let Some(row) = self.row(of) {
                    row.active.remove(&of.id);
                    row.gave_up.insert(of.id, format!("{}: gave up for now: {error}", of.stage));
                }
            }
            Event::StepWaiting { of, what, .. } => {
                if let Some(active) = self.row(of).and_then(|row| row.active.get_mut(&of.id)) {
                    active.waiting = Some(what.clone());
                }
            }
            Event::StepDone { of, .. } => {
                if let Some(row) = self.row(of) {
                    row.active.remove(&of.id);
                    row.done += 1;
                    row.last_stage = of.stage;
                    if row.done == row.steps {
                        row.finished_at = Some(now);
                    }
                }
            }
            Event::StepFailed { of, error, .. } => {
                if let Some(row) = self.row(of) {
                    row.active.remove(&of.id);
                    row.gave_up.remove(&of.id);
                    row.failed.get_or_insert_with(|| format!("{}: {error}", of.stage));
                }
            }
            Event::StepSkipped { of, because } => {
                if let Some(row) = self.row(of) {
                    row.active.remove(&of.id);
                    row.failed.get_or_insert_with(|| format!("skipped: {because}"));
                }
            }
        }
    }
}

impl Board {
    /// What all rows together have come to.
    pub fn total(&self, now: Duration) -> String {
        let nodes: Vec<&Row> = self.rows.iter().filter(|row| row.name != SHARED).collect();
        let with = |standing| nodes.iter().filter(|row| row.standing() == standing).count();
        let (done, steps): (usize, usize) =
            (self.rows.iter().map(|row| row.done).sum(), self.rows.iter().map(|row| row.steps).sum());
        let mut parts = Vec::new();
        if nodes.len() > 1 {
            parts.push(format!("{} of {} nodes done", with(Standing::Done), nodes.len()));
        }
        parts.push(format!("{done} of {}", crate::words::count(steps, "step")));
        if let failed @ 1.. = with(Standing::Failed) {
            parts.push(format!("{} failed", crate::words::count(failed, "node")));
        }
        parts.push(format!("{} s", now.as_secs()));
        parts.join(", ")
    }

    /// At most so many rows, in their order: those that failed, then those that run longest, then those that wait. What is left
    /// out is summed up.
    pub fn shown(&self, most: usize) -> (Vec<&Row>, Option<String>) {
        if self.rows.len() <= most {
            return (self.rows.iter().collect(), None);
        }
        let mut ranked: Vec<(usize, &Row)> = self.rows.iter().enumerate().collect();
        ranked.sort_by_key(|(at, row)| (row.rank(), *at));
        let rest = ranked.split_off(most.saturating_sub(1).max(1));
        ranked.sort_by_key(|(at, _)| *at);
        let of = |standing| rest.iter().filter(|(_, row)| row.standing() == standing).count();
        let words = [
            (Standing::Done, "done"),
            (Standing::Busy, "busy"),
            (Standing::Waiting, "waiting"),
            (Standing::Failed, "failed"),
        ];
        let parts: Vec<String> = words
            .into_iter()
            .map(|(standing, word)| (of(standing), word))
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let summed = format!("… and {} more: {}", rest.len(), parts.join(", "));
        (ranked.into_iter().map(|(_, row)| row).collect(), Some(summed))
    }
}

impl Row {
    /// What matters most comes first.
    fn rank(&self) -> (u8, Duration) {
        let longest = self.active.values().map(|active| active.since).min();
        match (self.standing(), longest) {
            (Standing::Failed, _) => (0, Duration::ZERO),
            (_, Some(since)) => (1, since),
            _ if !self.gave_up.is_empty() => (0, Duration::MAX),
            (Standing::Busy, None) => (2, Duration::ZERO),
            (Standing::Waiting, None) => (3, Duration::ZERO),
            (Standing::Done, None) => (4, Duration::ZERO),
        }
    }

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
        if let Some(why) = self.gave_up.values().next() {
            return format!("{progress}  {why}");
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
    use daedal_engine::ErrorKind;
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
            phase: None,
            behind: None,
            without_secrets: false,
            despite_protection: false,
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
            not_seen: Vec::new(),
            nodes: Default::default(),
            versions: Default::default(),
        }
    }

    fn starting(id: StepId, node: &str) -> StepRef {
        StepRef { id, node: Some(node.to_owned()), addon: None, action: "startVm", stage: "starting the VM" }
    }

    #[test]
    fn a_row_tells_stage_wait_and_time_and_ends_done() {
        let mut board = Board::new(&plan());
        assert_eq!(board.rows[0].name, SHARED);
        let second = Duration::from_secs;
        assert_eq!(board.rows[1].text(second(0)), " 0/2   waiting for its turn");
        board.take(&Event::StepStarted { of: starting(0, "cp-1") }, second(1));
        assert_eq!(board.rows[1].text(second(4)), " 0/2   starting the VM (3 s)");
        let took = second(3);
        let done = |of| Event::StepDone { of, already: false, took };
        board.take(&done(starting(0, "cp-1")), second(4));
        assert_eq!(board.rows[1].text(second(4)), " 1/2   after starting the VM, waiting for others");
        board.take(&done(starting(1, "cp-1")), second(5));
        assert_eq!(board.rows[1].standing(), Standing::Done);
        assert_eq!(board.rows[1].text(second(9)), " 2/2   done after 5.0 s");
    }

    #[test]
    fn a_failure_stays_in_sight() {
        let mut board = Board::new(&plan());
        let failed = Event::StepFailed {
            of: starting(0, "cp-1"),
            kind: ErrorKind::Failed,
            error: "no memory".into(),
            fix: None,
            took: Duration::ZERO,
        };
        board.take(&failed, Duration::ZERO);
        assert_eq!(board.rows[1].standing(), Standing::Failed);
        assert!(board.rows[1].text(Duration::ZERO).ends_with("starting the VM: no memory"));
    }

    /// Sixty nodes on a small screen: those that failed or run longest are in sight, and nothing is forgotten.
    #[test]
    fn of_many_nodes_those_that_matter_are_shown_and_the_rest_is_counted() {
        let mut many = plan();
        many.steps = (0..60)
            .map(|id| Step { id, node: Some(format!("worker-{id}")), ..many.steps[0].clone() })
            .collect();
        let mut board = Board::new(&many);
        let second = Duration::from_secs;
        for step in 0..50 {
            let of = starting(step, &format!("worker-{step}"));
            board.take(&Event::StepStarted { of: of.clone() }, second(u64::from(step)));
            if step < 30 {
                board.take(&Event::StepDone { of, already: false, took: second(1) }, second(60));
            }
        }
        let failed = Event::StepFailed {
            of: starting(45, "worker-45"),
            kind: ErrorKind::Failed,
            error: "no memory".into(),
            fix: None,
            took: Duration::ZERO,
        };
        board.take(&failed, second(61));
        let (shown, rest) = board.shown(5);
        let names: Vec<&str> = shown.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["worker-30", "worker-31", "worker-32", "worker-45"]);
        assert_eq!(rest.unwrap(), "… and 56 more: 30 done, 16 busy, 10 waiting");
        assert_eq!(board.total(second(70)), "30 of 60 nodes done, 30 of 60 steps, 1 node failed, 70 s");
    }

    #[test]
    fn a_step_that_gave_up_says_so_and_goes_on() {
        let mut board = Board::new(&plan());
        let of = starting(0, "cp-1");
        let started = Event::StepStarted { of: of.clone() };
        board.take(&started, Duration::ZERO);
        let error = "Proxmox cannot be reached".to_owned();
        let (kind, took) = (ErrorKind::Unreachable, Duration::ZERO);
        board.take(&Event::StepGaveUp { of, kind, error, took }, Duration::ZERO);
        assert!(board.rows[1].text(Duration::ZERO).ends_with("gave up for now: Proxmox cannot be reached"));
        board.take(&started, Duration::ZERO);
        assert_eq!(board.rows[1].text(Duration::ZERO), " 0/2   starting the VM");
    }
}
