//! Numbers and order of steps.

use super::{Checker, Rule};
use crate::plan::StepId;

impl Checker<'_> {
    /// Whether steps are numbered by position and need only earlier ones.
    pub(super) fn graph(&mut self) -> bool {
        let mut sound = true;
        for (at, step) in self.plan.steps.iter().enumerate() {
            if step.id as usize != at {
                self.find(Rule::Graph, Some(step), format!("The step stands at place {at}."));
                sound = false;
            }
            let earlier = |need: &StepId| (*need as usize) < at;
            if !step.needs.iter().all(earlier) {
                self.find(Rule::Graph, Some(step), "The step needs one that does not come before it.");
                sound = false;
            }
            if step.needs.windows(2).any(|pair| pair[0] >= pair[1]) {
                self.find(Rule::Graph, Some(step), "The step's needs are not in order, each once.");
                sound = false;
            }
        }
        sound
    }
}
