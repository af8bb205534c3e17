//! What Kubernetes' answers to an apply mean for a run.

use daedal_addons::refusal::{self, Conflict, Refusal};
use daedal_planner::FieldConflict;

/// Why an object was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Others own fields of it, and want them otherwise.
    Conflict(Vec<FieldConflict>),
    /// Somebody changed fields of it by hand: that is no owner, and is mended.
    Drift,
    /// It is refused as it is.
    Refused {
        /// Why.
        why: String,
        /// Whether a field that cannot be changed is the reason.
        immutable: bool,
    },
    /// It may be taken a moment later: what it needs is not up yet, or somebody else was quicker.
    NotYet(String),
}

/// What an error means; none if it is none of Kubernetes' own.
pub(crate) fn answer(error: &kube::Error) -> Option<Answer> {
    let kube::Error::Api(status) = error else { return None };
    let why = status.message.clone();
    let found = refusal::of(&serde_json::to_value(status).unwrap_or_default());
    Some(match found {
        Refusal::Conflict(conflicts) if conflicts.iter().all(is_by_hand) => Answer::Drift,
        Refusal::Conflict(conflicts) => Answer::Conflict(conflicts.into_iter().map(conflict).collect()),
        Refusal::Immutable(_) => Answer::Refused { why, immutable: true },
        found if found.may_pass() => Answer::NotYet(why),
        _ => Answer::Refused { why, immutable: false },
    })
}

fn conflict(conflict: Conflict) -> FieldConflict {
    FieldConflict { manager: conflict.manager, field: conflict.path }
}

/// Whether a field was changed by a person with kubectl, and not by what applies objects as a whole.
fn is_by_hand(conflict: &Conflict) -> bool {
    conflict.manager.starts_with("kubectl") && !conflict.applies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(messages: &[&str]) -> Option<Answer> {
        let causes: Vec<_> = messages
            .iter()
            .map(|message| serde_json::json!({"reason": "FieldManagerConflict", "message": message, "field": ".data.a"}))
            .collect();
        let status = serde_json::json!({
            "status": "Failure", "code": 409, "reason": "Conflict", "message": "",
            "details": {"name": "", "group": "", "kind": "", "causes": causes},
        });
        answer(&kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())))
    }

    #[test]
    fn what_was_changed_by_hand_is_drift_and_no_conflict() {
        let by_hand = "conflict with \"kubectl-edit\" using v1 at 2026-01-01T00:00:00Z";
        let applied = "conflict with \"kubectl\"";
        assert_eq!(of(&[by_hand]), Some(Answer::Drift));
        for messages in [&[applied][..], &[by_hand, "conflict with \"flux\""]] {
            let Some(Answer::Conflict(conflicts)) = of(messages) else { panic!("{messages:?}") };
            assert_eq!(conflicts[0].field, "data.a");
        }
    }
}
