//! etcd: one bootstrap, never beside a living one; a quorum at all times.

use daedal_inventory::Role;

use super::{Checker, Rule, is_up};
use crate::names;
use crate::plan::{Action, Purpose, Recovery, Step};
use crate::world::{EtcdView, MemberView, Ownership, TalosView};

impl Checker<'_> {
    pub(super) fn bootstrap_step(&mut self, step: &Step, recover: Option<&Recovery>) {
        let Some(target) = self.declared(step) else { return };
        // What a snapshot holds can be read with the secrets that it was written with.
        let readable = recover.is_none() || self.world.secrets_stored;
        self.demand(readable, Rule::Secrets, step, "A snapshot is restored under secrets that are new");
        let unlisted = recover.is_none() || self.world.members.is_empty();
        self.demand(unlisted, Rule::Etcd, step, "A snapshot is restored beside members that are listed");
        let control_plane = target.role == Role::ControlPlane;
        self.demand(control_plane, Rule::Etcd, step, "etcd is bootstrapped on a worker");
        self.demand(self.bootstrap == Some(step.id), Rule::Etcd, step, "etcd is bootstrapped twice");
        let lives = self.world.endpoint_answers
            || !self.world.members.is_empty()
            || self.world.nodes.values().any(|view| {
                view.ready.is_some() || matches!(view.etcd, EtcdView::Member | EtcdView::Learner)
            });
        self.demand(!lives, Rule::Etcd, step, "An etcd of this cluster lives already");
        let asked = self.answers_before(step, &target.name);
        self.demand(asked, Rule::Etcd, step, "etcd is bootstrapped before the node answers");
        let strangers = self.world.guests.values().any(|guest| {
            matches!(&guest.ownership, Ownership::Ours { node, .. } if !self.nodes.contains_key(node.as_str()))
        });
        self.demand(!strangers, Rule::Etcd, step, "A VM of ours that is not declared may hold an etcd");
        let others: Vec<_> = self.cluster.control_planes().filter(|node| node.name != target.name).collect();
        for other in others {
            let innocent = self.cannot_hold_etcd(step, &other.name, other.vmid);
            self.demand(
                innocent,
                Rule::Etcd,
                step,
                &format!("{} may hold an etcd and is not asked", other.name),
            );
        }
    }

    /// Whether a control plane has no etcd for sure, or is asked before this step.
    fn cannot_hold_etcd(&self, step: &Step, name: &str, vmid: u32) -> bool {
        let claimants = self.claims.get(name).map_or(&[][..], Vec::as_slice);
        let guest = match claimants {
            [] => {
                let on_vmid = self.world.guests.get(&vmid).map(|guest| &guest.ownership);
                let hidden =
                    matches!(on_vmid, Some(Ownership::LookAlike { .. } | Ownership::Unreadable { .. }));
                return !hidden && self.world.unlisted_hosts.is_empty();
            }
            [guest] if guest.vmid == vmid => guest,
            _ => return false,
        };
        if let Ownership::HalfMade { task_running, .. } = guest.ownership {
            return !task_running || self.answers_before(step, name);
        }
        let view = self.world.nodes.get(name);
        match view.map(|view| (&view.talos, &view.etcd)) {
            Some((TalosView::Maintenance, _)) => true,
            Some((TalosView::Configured { .. }, etcd)) => *etcd == EtcdView::NotJoined,
            Some((TalosView::OtherCluster, _)) => {
                guest.config.as_ref().is_some_and(|config| config.disk == 0)
            }
            Some((TalosView::Unreachable, _)) | None => {
                let config = guest.config.as_ref();
                let medium = config.and_then(|config| config.media.as_deref()).map(names::volid_file);
                let never_ejected =
                    medium.and_then(|file| names::media_node(self.cluster, file)) == Some(name);
                let waiting = config.is_some_and(|config| config.waiting);
                let no_disk = config.is_some_and(|config| config.disk == 0);
                no_disk || ((never_ejected || waiting) && self.answers_before(step, name))
            }
        }
    }

    pub(super) fn await_etcd(&mut self, step: &Step) {
        let Some(node) = self.declared(step) else { return };
        let control_plane = node.role == Role::ControlPlane;
        self.demand(control_plane, Rule::Etcd, step, "A worker is awaited in etcd");
        let answers = self.answers_before(step, &node.name);
        self.demand(answers, Rule::Order, step, "A member is awaited before its node answers");
        self.after_bootstrap(step);
    }

    /// What waits for etcd or Kubernetes comes after the bootstrap, if there is one.
    pub(super) fn after_bootstrap(&mut self, step: &Step) {
        let after = self.bootstrap.is_none_or(|id| self.after_all(step, &[id]));
        self.demand(
            after,
            Rule::Order,
            step,
            "The step waits for an etcd that is bootstrapped later or beside it",
        );
    }

    /// The numbers the plan tells, and what they must not fall below.
    pub(super) fn quorum(&mut self) {
        let is_member =
            |name: &str| self.world.nodes.get(name).is_some_and(|view| view.etcd == EtcdView::Member);
        let members = self.cluster.control_planes().filter(|node| is_member(&node.name)).count();
        let former = |member: &&MemberView| {
            member.serves
                && !member.learner
                && !member.name.is_empty()
                && self.cluster.node(&member.name).is_none()
        };
        let members = members + self.world.members.iter().filter(former).count();
        let quorum = self.plan.quorum;
        match self.plan.purpose {
            purpose if purpose == Purpose::Destroy || !purpose.concerns_nodes() => return,
            Purpose::Remove => return self.quorum_of_removal(),
            _ => {}
        }
        if usize::try_from(quorum.before) != Ok(members) {
            let text = format!("The plan counts {} voting members, but {members} were seen.", quorum.before);
            self.find(Rule::Etcd, None, text);
        }
        if quorum.before > 0 && quorum.lowest < quorum.before / 2 + 1 {
            let text = format!("Only {} of {} voting members would be left.", quorum.lowest, quorum.before);
            self.find(Rule::Etcd, None, text);
        }
        let stopped: Vec<&Step> = self
            .plan
            .steps
            .iter()
            .filter(|step| matches!(step.action, Action::StopVm { .. } | Action::DestroyVm { .. }))
            .filter(|step| {
                step.node.as_deref().is_some_and(|node| is_member(node) || is_up(self.world, node))
            })
            .collect();
        for step in stopped {
            self.demand(false, Rule::Etcd, step, "A living node is stopped");
        }
    }
}
