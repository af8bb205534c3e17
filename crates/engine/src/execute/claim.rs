//! Two stores that begin the same cluster at once: one VM decides whose it is, before anything else is made.
//!
//! Proxmox gives a VMID to one caller only. The create of the VM with the lowest one goes first; every other medium and VM
//! waits until Proxmox took that call. Who finds somebody else's mark there has made nothing but a medium, and deletes it.

use std::sync::{Mutex, PoisonError};

use daedal_planner::{Action, Ownership, Plan, Purpose, Step, StepId, World};
use tokio::sync::Notify;

/// How far the deciding create is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nobody knows yet.
    Open,
    /// Proxmox took our call, or there is nothing to decide.
    Ours,
    /// It is somebody else's, and what to say of it.
    Theirs(String),
}

/// Whose the cluster is that a run begins.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The deciding create; none if the cluster is there already.
    decides: Option<StepId>,
    node: Option<String>,
    state: Mutex<State>,
    news: Notify,
}

impl Claim {
    /// What is to be decided by a plan: nothing where a VM of ours is there already.
    pub(crate) fn of(plan: &Plan, world: &World) -> Self {
        let ours =
            |ownership: &Ownership| matches!(ownership, Ownership::Ours { .. } | Ownership::HalfMade { .. });
        let begun = world.guests.values().any(|guest| ours(&guest.ownership));
        let creates = plan.steps.iter().filter_map(|step| match step.action {
            Action::CreateVm { vmid, .. } => Some((vmid, step)),
            _ => None,
        });
        let first = creates.min_by_key(|(vmid, _)| *vmid).map(|(_, step)| step);
        let first = first.filter(|_| plan.purpose == Purpose::Apply && !begun);
        Self {
            decides: first.map(|step| step.id),
            node: first.and_then(|step| step.node.clone()),
            state: Mutex::new(if first.is_some() { State::Open } else { State::Ours }),
            news: Notify::new(),
        }
    }

    /// Whether a step makes something that must not be made in somebody else's cluster.
    fn concerns(&self, step: &Step) -> bool {
        let makes = matches!(step.action, Action::UploadMedia { .. } | Action::CreateVm { .. });
        makes && step.node != self.node
    }

    /// Waits until it is known whose the cluster is, where the step depends on it. What to say if it is somebody else's.
    pub(crate) async fn settled(&self, step: &Step) -> Option<String> {
        if !self.concerns(step) {
            return None;
        }
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
                State::Ours => return None,
                State::Theirs(why) => return Some(why.clone()),
                State::Open => {}
            }
            news.await;
        }
    }

    /// Proxmox took a create.
    pub(crate) fn taken(&self, step: &Step) {
        self.decide(step.id, State::Ours);
    }

    /// A create found somebody else's VM.
    pub(crate) fn lost(&self, step: &Step, why: &str) {
        self.decide(step.id, State::Theirs(why.to_owned()));
    }

    /// A step failed, and the deciding one may never come: if nothing is decided yet, the others go on.
    pub(crate) fn open(&self) {
        if let Some(step) = self.decides {
            self.decide(step, State::Ours);
        }
    }

    fn decide(&self, step: StepId, new: State) {
        if self.decides != Some(step) {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Open {
            *state = new;
            self.news.notify_waiters();
        }
    }
}
