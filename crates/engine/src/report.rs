//! What a run did: every step with its times, the critical path, and what is left.

use std::time::Duration;

use daedal_planner::{Fix, Plan, Purpose, StepId};
use daedal_words::stage;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ErrorKind;
use crate::event::{seconds, subject};

/// The outcome of a run, enough to summarise it and to draw it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What it is for.
    pub purpose: Purpose,
    /// Cluster name.
    pub cluster: String,
    /// When it began.
    #[schemars(with = "String")]
    pub began: Timestamp,
    /// How long it took.
    #[serde(serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub took: Duration,
    /// Every step of the plan, in the plan's order.
    pub steps: Vec<StepReport>,
    /// The chain of steps that made the run as long as it was, first to last.
    pub critical_path: Vec<StepId>,
    /// Whether the user stopped it.
    pub cancelled: bool,
}

/// One step's part in a run. Times count from the run's beginning.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    /// The step's position in the plan.
    pub id: StepId,
    /// Node it is about.
    pub node: Option<String>,
    /// Add-on it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addon: Option<String>,
    /// Host it loads.
    pub host: Option<String>,
    /// What it does, as the plan's `do` names it.
    pub action: &'static str,
    /// The same in words, such as `creating the VM`.
    pub stage: &'static str,
    /// Steps it needed.
    pub needs: Vec<StepId>,
    /// When the last of what it needs was done.
    #[serde(serialize_with = "maybe_seconds")]
    #[schemars(with = "Option<f64>")]
    pub ready: Option<Duration>,
    /// When its turn came (limits may make a ready step queue).
    #[serde(serialize_with = "maybe_seconds")]
    #[schemars(with = "Option<f64>")]
    pub start: Option<Duration>,
    /// When it ended.
    #[serde(serialize_with = "maybe_seconds")]
    #[schemars(with = "Option<f64>")]
    pub end: Option<Duration>,
    /// How it ended.
    pub state: StepState,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum StepState {
    /// Done in this run.
    Done,
    /// Found done.
    AlreadyDone,
    /// Failed.
    Failed {
        /// What sort of failure it is.
        kind: ErrorKind,
        /// The whole error chain in one line.
        error: String,
        /// A command or edit that helps.
        fix: Option<Fix>,
    },
    /// Not begun, because a step it needs failed or was not done.
    Skipped {
        /// Why.
        because: String,
    },
    /// Begun and abandoned when the user insisted on stopping; it may or may not have happened.
    Abandoned,
    /// Not begun when the user stopped the run.
    Left,
}

impl StepState {
    /// Whether what the step is for is reached.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done | Self::AlreadyDone)
    }
}

fn maybe_seconds<S: serde::Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => seconds(duration, to),
        None => to.serialize_none(),
    }
}

impl StepReport {
    /// The node or the add-on that it is about.
    pub fn of_whom(&self) -> Option<&str> {
        self.node.as_deref().or(self.addon.as_deref())
    }

    /// Whose stage it is, as people read it: `cp-1: creating the VM`.
    pub fn subject(&self) -> String {
        subject(self.of_whom(), self.stage)
    }
}

impl Report {
    /// A report in which nothing has begun yet.
    pub(crate) fn blank(plan: &Plan, began: Timestamp) -> Self {
        let steps = plan
            .steps
            .iter()
            .map(|step| StepReport {
                id: step.id,
                node: step.node.clone(),
                addon: step.action.addon().map(|(addon, _)| addon.to_owned()),
                host: step.host.clone(),
                action: step.action.code(),
                stage: stage(&step.action),
                needs: step.needs.clone(),
                ready: None,
                start: None,
                end: None,
                state: StepState::Left,
            })
            .collect();
        Self {
            purpose: plan.purpose,
            cluster: plan.cluster.clone(),
            began,
            took: Duration::ZERO,
            steps,
            critical_path: Vec::new(),
            cancelled: false,
        }
    }

    /// Whether every step is done.
    pub fn succeeded(&self) -> bool {
        self.steps.iter().all(|step| step.state.is_done())
    }

    /// The steps that failed.
    pub fn failures(&self) -> impl Iterator<Item = &StepReport> {
        self.steps.iter().filter(|step| matches!(step.state, StepState::Failed { .. }))
    }

    /// The steps that are neither done nor failed: what a next run would do.
    pub fn left(&self) -> impl Iterator<Item = &StepReport> {
        self.steps
            .iter()
            .filter(|step| !step.state.is_done() && !matches!(step.state, StepState::Failed { .. }))
    }

    /// Seconds on the critical path in which a step really ran (no queueing).
    pub fn critical_time(&self) -> Duration {
        self.critical_path
            .iter()
            .filter_map(|id| self.steps.get(*id as usize))
            .filter_map(|step| Some(step.end?.saturating_sub(step.start?)))
            .sum()
    }

    /// Computes the critical path: from the step that ended last, back along whichever need ended last.
    pub(crate) fn find_critical_path(&mut self) {
        let mut path = Vec::new();
        let mut at =
            self.steps.iter().filter(|step| step.end.is_some()).max_by_key(|step| (step.end, step.id));
        while let Some(step) = at {
            path.push(step.id);
            at = step
                .needs
                .iter()
                .filter_map(|id| self.steps.get(*id as usize))
                .filter(|need| need.end.is_some())
                .max_by_key(|need| (need.end, need.id));
        }
        path.reverse();
        self.critical_path = path;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: StepId, needs: &[StepId], start: u64, end: u64) -> StepReport {
        StepReport {
            id,
            node: None,
            addon: None,
            host: None,
            action: "x",
            stage: "x",
            needs: needs.to_vec(),
            ready: Some(Duration::from_secs(start)),
            start: Some(Duration::from_secs(start)),
            end: Some(Duration::from_secs(end)),
            state: StepState::Done,
        }
    }

    #[test]
    fn the_critical_path_follows_the_need_that_ended_last() {
        let mut report = Report {
            purpose: Purpose::Apply,
            cluster: "home".into(),
            began: Timestamp::UNIX_EPOCH,
            took: Duration::from_secs(9),
            steps: vec![step(0, &[], 0, 2), step(1, &[], 0, 5), step(2, &[0, 1], 5, 9), step(3, &[0], 2, 3)],
            critical_path: Vec::new(),
            cancelled: false,
        };
        report.find_critical_path();
        assert_eq!(report.critical_path, [1, 2]);
        assert_eq!(report.critical_time(), Duration::from_secs(9));
    }
}
