//! Who is interrupted is judged by what control planes say of themselves, and by everything that etcd counts.

use super::simulator::Sim;
use super::told::*;
use crate::*;

/// Three control planes and two workers, all of whose configs are to change.
fn changing(reboot: bool) -> Sim {
    let mut sim = Sim::made(&crate::fixture::home(), &crate::fixture::home_world());
    for view in sim.world.nodes.values_mut() {
        view.config = crate::fixture::differs(["a", "b"], reboot, &[]);
    }
    sim.world.members = ["cp-1", "cp-2", "cp-3"].map(|name| member(name, name, true)).to_vec();
    sim
}

fn member(id: &str, name: &str, serves: bool) -> MemberView {
    MemberView { id: id.into(), name: name.into(), serves, ..MemberView::default() }
}

/// The control planes that the plan interrupts, which the simulator has held against the rules.
fn interrupted(plan: &Plan) -> Vec<&str> {
    let changes = plan.steps.iter().filter(|step| matches!(step.action, Action::ApplyConfig { .. }));
    changes.filter_map(|step| step.node.as_deref()).filter(|node| node.starts_with("cp")).collect()
}

fn breaks_etcd(sim: &Sim, plan: &Plan) -> bool {
    check(&sim.cluster, &sim.world, plan).iter().any(|finding| finding.rule == Rule::Etcd)
}

/// A control plane was made anew and waits, and etcd still counts what it was before. It does not vote, so none of the others may
/// go; and it is not taken for one that has no part in etcd either, which would be stopped whatever the others do.
#[test]
fn a_dead_former_self_does_not_vote_for_a_control_plane() {
    let mut sim = changing(true);
    let bold = sim.plan();
    assert_eq!(interrupted(&bold), ["cp-1", "cp-2", "cp-3"]);
    sim.world.members[2].serves = false;
    sim.world.nodes.get_mut("cp-3").unwrap().etcd = EtcdView::Unknown;
    assert!(breaks_etcd(&sim, &bold), "the bold plan is refused now");
    let plan = sim.plan();
    assert_eq!(interrupted(&plan), ["cp-3"], "{}", render(&plan, RenderOptions::default()));
    assert_eq!(plan.quorum, Quorum { before: 2, lowest: 2, after: 3 });
    let note = plan.notes.iter().find(|note| note.about().starts_with("cp-1")).unwrap();
    assert!(note.text().contains("2 of 3 control planes are known to vote"), "{}", note.text());
    let waits = |step: &&Step| step.action == Action::AwaitEtcd && step.node.as_deref() == Some("cp-3");
    assert_eq!(plan.steps.iter().find(waits).unwrap().reason, "it does not say that it votes");
    // With another one out, it may be the vote that is missing.
    sim.world.members[1].serves = false;
    sim.world.nodes.get_mut("cp-2").unwrap().etcd = EtcdView::Unknown;
    assert_eq!(interrupted(&sim.plan()), [""; 0]);
    assert!(breaks_etcd(&sim, &plan));
}

/// All control planes vote, but etcd counts one more that is gone: three of four are the quorum.
#[test]
fn a_dead_member_beside_all_that_vote_leaves_no_spare_one() {
    for name in ["cp-3", "cp-9", ""] {
        let mut sim = changing(true);
        let bold = sim.plan();
        sim.world.members.push(member("dead", name, false));
        let plan = sim.plan();
        assert_eq!(interrupted(&plan), [""; 0], "{name}");
        let note = plan.notes.iter().find(|note| note.about().starts_with("cp-1")).unwrap();
        assert!(note.text().contains("only 3 of the 4 members that etcd counts serve"), "{}", note.text());
        assert!(note.fix().unwrap().contains("remove-member"), "{note:?}");
        assert!(breaks_etcd(&sim, &bold), "{name}");
        assert_ne!(bold.basis, plan.basis, "a plan that was saved before is of no use");
        // Two more that serve bear it, whoever they are.
        sim.world.members.extend(["x", "y"].map(|id| member(id, id, true)));
        assert_eq!(interrupted(&sim.plan()).len(), 3, "{name}");
    }
}

/// Nobody's learner is a learner.
#[test]
fn nothing_reboots_while_anybody_learns() {
    let mut sim = changing(true);
    let bold = sim.plan();
    sim.world.members.push(MemberView { learner: true, ..member("new", "", false) });
    assert_eq!(interrupted(&sim.plan()), [""; 0]);
    assert!(breaks_etcd(&sim, &bold));
}

/// A change without a reboot may restart etcd all the same: also one that may vote is awaited before the next.
#[test]
fn who_may_vote_is_awaited_after_its_change() {
    for etcd in [EtcdView::Unknown, EtcdView::Learner] {
        let mut sim = changing(false);
        sim.world.nodes.get_mut("cp-1").unwrap().etcd = etcd;
        assert_eq!(interrupted(&sim.plan()), ["cp-1", "cp-2", "cp-3"]);
    }
}

/// Where members are listed, an etcd lives, whatever its control planes say of themselves.
#[test]
fn nothing_is_bootstrapped_beside_members_that_are_listed() {
    let mut sim = changing(false);
    sim.world.endpoint_answers = false;
    for view in sim.world.nodes.values_mut() {
        (view.ready, view.etcd) = (None, EtcdView::Unknown);
    }
    sim.world.nodes.retain(|name, _| name == "cp-1");
    sim.cluster.nodes.retain(|node| node.name == "cp-1");
    sim.world.guests.retain(|vmid, _| *vmid == 300);
    let plan = sim.plan();
    assert!(!plan.steps.iter().any(|step| matches!(step.action, Action::Bootstrap { .. })), "{plan:#?}");
}
