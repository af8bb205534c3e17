//! Building the graph of steps: every step gets the next number and may only need earlier ones.

use crate::plan::{Action, Impact, Step, StepId};

/// Steps in the making.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) steps: Vec<Step>,
}

/// What a step is about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subject<'a> {
    pub(crate) node: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
}

impl Graph {
    /// Adds a step without impact.
    pub(crate) fn add(
        &mut self,
        subject: Subject<'_>,
        action: Action,
        reason: impl Into<String>,
        needs: impl IntoIterator<Item = Option<StepId>>,
    ) -> StepId {
        self.add_with(subject, action, reason, needs, Impact::None)
    }

    /// Adds a step.
    pub(crate) fn add_with(
        &mut self,
        subject: Subject<'_>,
        action: Action,
        reason: impl Into<String>,
        needs: impl IntoIterator<Item = Option<StepId>>,
        impact: Impact,
    ) -> StepId {
        let id = StepId::try_from(self.steps.len()).unwrap_or(StepId::MAX);
        let mut needs: Vec<StepId> = needs.into_iter().flatten().collect();
        needs.sort_unstable();
        needs.dedup();
        self.steps.push(Step {
            id,
            needs,
            node: subject.node.map(str::to_owned),
            host: subject.host.map(str::to_owned),
            action,
            reason: reason.into(),
            impact,
        });
        id
    }
}
