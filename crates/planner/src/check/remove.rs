//! Nodes that are taken out: never a declared one, never below quorum, one member at a time.

use daedal_inventory::Role;
use uuid::Uuid;

use super::{Checker, Rule};
use crate::plan::{Action, Step};
use crate::survey::nobodys_member;
use crate::world::{Likeness, MemberView, Ownership, TalosView};

/// The member a step takes out of etcd.
fn leaver(action: &Action) -> Option<&str> {
    match action {
        Action::LeaveEtcd { member, .. } | Action::RemoveMember { member } => Some(member),
        _ => None,
    }
}

impl Checker<'_> {
    /// What holds for every step that takes a node out.
    pub(super) fn removes(&mut self, step: &Step) {
        let former = step.node.as_deref().is_some_and(|name| !self.nodes.contains_key(name));
        self.demand(former, Rule::Destruction, step, "The node is declared, or none is named");
        // A VM that nobody could see may run on, and would come back as a stranger.
        let vm = step.node.as_deref().is_some_and(|name| self.claims.contains_key(name));
        let seen = vm || self.world.unlisted_hosts.is_empty();
        self.demand(seen, Rule::Ownership, step, "Its VM may be on a host whose guests could not be listed");
        let alike = step.node.as_deref().is_some_and(|name| self.has_look_alike(name));
        self.demand(vm || !alike, Rule::Ownership, step, "A VM that is not proven ours may be the node's");
    }

    /// Whether a guest that is not proven ours, or could not be read, has a node's name or SMBIOS uuid.
    fn has_look_alike(&self, node: &str) -> bool {
        let uuid = Uuid::new_v5(&self.cluster.uuid, node.as_bytes());
        self.world.guests.values().any(|guest| {
            let unproven = match &guest.ownership {
                Ownership::LookAlike { likeness, .. } => *likeness != Likeness::OtherMark,
                Ownership::Unreadable { .. } => true,
                _ => false,
            };
            unproven && (guest.name == node || guest.smbios == Some(uuid))
        })
    }

    pub(super) fn of_kubernetes(&mut self, step: &Step) {
        self.removes(step);
        let told = self.world.kubernetes_told;
        self.demand(told, Rule::Order, step, "No API server answers");
        if step.action == Action::Drain {
            let cordons = self.plan.steps.iter().filter(|s| s.action == Action::Cordon);
            let all = cordons.map(|s| s.id).collect::<Vec<_>>();
            let cordoned = self.after_all(step, &all);
            self.demand(cordoned, Rule::Order, step, "Pods are evicted that may come to a node that goes");
        }
        if step.action == Action::ForgetNode {
            // A kubelet that runs may register again.
            let guest = step.node.as_deref().and_then(|name| self.claims.get(name)).into_iter().flatten();
            let stopped = guest
                .filter(|guest| guest.running)
                .all(|guest| self.after(step, |s| s.action == Action::StopVm { vmid: guest.vmid }));
            self.demand(stopped, Rule::Order, step, "The node is forgotten while its kubelet runs");
        }
    }

    /// A member leaves only where all others vote and serve, some declared one among them, and after every leave before.
    pub(super) fn leaves(&mut self, step: &Step) {
        self.removes(step);
        let Some(id) = leaver(&step.action) else { return };
        let earlier: Vec<&Step> =
            self.plan.steps[..step.id as usize].iter().filter(|s| leaver(&s.action).is_some()).collect();
        let in_turn = earlier.iter().all(|s| self.after(step, |before| before.id == s.id));
        self.demand(in_turn, Rule::Etcd, step, "Two members leave at once");
        let once = earlier.iter().all(|s| leaver(&s.action) != Some(id));
        self.demand(once, Rule::Etcd, step, "The member leaves twice");
        let gone =
            |member: &MemberView| earlier.iter().any(|s| leaver(&s.action) == Some(member.id.as_str()));
        let members = &self.world.members;
        let own = members.iter().find(|member| member.id == id);
        let named = own.is_some_and(|own| Some(own.name.as_str()) == step.node.as_deref());
        let rest: Vec<&MemberView> = members.iter().filter(|m| m.id != id && !gone(m)).collect();
        let whole = rest.iter().all(|member| member.serves && !member.learner);
        let declared = rest.iter().any(|member| {
            self.nodes.get(member.name.as_str()).is_some_and(|node| node.role == Role::ControlPlane)
        });
        if let (Action::LeaveEtcd { address, .. }, Some(name)) = (&step.action, step.node.as_deref()) {
            let former = self.world.former.get(name);
            let answers = former.is_some_and(|former| {
                former.address.as_ref() == Some(address)
                    && matches!(former.talos, TalosView::Configured { .. })
            });
            self.demand(answers, Rule::Order, step, "The node is asked to leave where it does not answer");
        }
        self.demand(named, Rule::Ownership, step, "The member is not this node's");
        self.demand(whole, Rule::Etcd, step, "Another member learns or does not serve");
        self.demand(declared, Rule::Etcd, step, "No declared control plane would be left in etcd");
    }

    /// A node's VM goes only after its member has left etcd and Kubernetes has forgotten it.
    pub(super) fn takes_vm(&mut self, step: &Step) {
        self.removes(step);
        let Some(name) = step.node.as_deref() else { return };
        let told = self.world.kubernetes_told;
        self.demand(
            told,
            Rule::Etcd,
            step,
            "No API server answers, so that it may hold what is left of etcd",
        );
        let member = self.world.members.iter().find(|member| member.name == name);
        let left =
            member.is_none_or(|member| self.after(step, |s| leaver(&s.action) == Some(member.id.as_str())));
        self.demand(left, Rule::Etcd, step, "A member of etcd is stopped before it has left");
        let drains = self.plan.steps.iter().filter(|s| s.action == Action::Drain && s.node == step.node);
        let drained = drains.map(|s| s.id).all(|id| self.after(step, |s| s.id == id));
        self.demand(drained, Rule::Order, step, "The node is stopped before its pods are evicted");
        let former = self.world.former.get(name);
        let worker = former.is_some_and(|former| former.role == Some(Role::Worker));
        let known = worker || !self.world.members.is_empty();
        self.demand(known, Rule::Etcd, step, "It may be a member of etcd");
        let told = worker || member.is_some() || nobodys_member(self.cluster, self.world).is_none();
        self.demand(told, Rule::Etcd, step, "A member of etcd may be its, which is not known");
        let object = former.is_some_and(|former| former.ready.is_some());
        if matches!(step.action, Action::DestroyVm { .. }) && object {
            let forgotten = self.after(step, |s| s.action == Action::ForgetNode && s.node == step.node);
            self.demand(forgotten, Rule::Order, step, "Kubernetes would still know the node");
        }
    }

    /// The numbers that a plan to remove tells.
    pub(super) fn quorum_of_removal(&mut self) {
        let voters: Vec<&str> =
            self.world.members.iter().filter(|m| !m.learner).map(|m| m.id.as_str()).collect();
        let steps = self.plan.steps.iter().filter_map(|step| leaver(&step.action));
        let leave = steps.filter(|id| voters.contains(id)).count();
        let (before, after) = (voters.len(), voters.len() - leave.min(voters.len()));
        let quorum = self.plan.quorum;
        let told = (usize::try_from(quorum.before), usize::try_from(quorum.after));
        if told != (Ok(before), Ok(after)) || quorum.lowest > quorum.after {
            let text =
                format!("The plan tells of other voting members than {before} before and {after} after.");
            self.find(Rule::Etcd, None, text);
        }
    }
}
