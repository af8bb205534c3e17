//! Nodes that are no longer declared: how they go, when they must stay, and that no schedule loses the quorum.

use daedal_inventory::{Cluster, Role};
use proptest::prelude::*;

use super::simulator::Sim;
use super::told::*;
use crate::fixture;
use crate::*;

/// The finished home cluster, of which the inventory no longer names some nodes.
fn without(names: &[&str]) -> Sim {
    undeclared(&fixture::home(), &fixture::home_world(), names)
}

fn undeclared(cluster: &Cluster, world: &World, names: &[&str]) -> Sim {
    let mut sim = Sim::made(cluster, world);
    sim.world.kubernetes_told = true;
    for (at, node) in cluster.control_planes().enumerate() {
        sim.world.members.push(MemberView {
            id: format!("{:x}", 0xa000 + at),
            name: node.name.clone(),
            address: Some(node.ip().unwrap().to_string()),
            serves: true,
            ..MemberView::default()
        });
    }
    for name in names {
        let node = cluster.node(name).unwrap();
        let view = sim.world.nodes.remove(*name).unwrap();
        let former = FormerView {
            address: Some(node.ip().unwrap().to_string()),
            role: Some(node.role),
            talos: view.talos,
            ready: view.ready,
            ..FormerView::default()
        };
        sim.world.former.insert((*name).to_owned(), former);
    }
    sim.cluster.nodes.retain(|node| !names.contains(&node.name.as_str()));
    sim
}

fn removal<'a>(names: &'a [String]) -> Removal<'a> {
    Removal { nodes: names, drain: true }
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

fn plan(sim: &Sim, all: &[&str]) -> Plan {
    let plan = plan_remove(&sim.cluster, &sim.world, &removal(&names(all))).unwrap();
    assert_eq!(check(&sim.cluster, &sim.world, &plan), [], "{}", render(&plan, RenderOptions::default()));
    plan
}

fn text(sim: &Sim, all: &[&str]) -> String {
    render(&plan(sim, all), RenderOptions::default())
}

fn problem(sim: &Sim, name: &str) -> String {
    let plan = plan(sim, &[name]);
    assert!(plan.is_empty(), "{}", render(&plan, RenderOptions::default()));
    let problems: Vec<&Note> = plan.notes.iter().filter(|note| note.level == Level::Problem).collect();
    let [note] = problems[..] else { panic!("{:?}", plan.notes) };
    note.text()
}

#[test]
fn remove_a_control_plane_and_a_worker() {
    insta::assert_snapshot!(text(&without(&["cp-3", "worker-2"]), &["cp-3", "worker-2"]));
}

#[test]
fn remove_a_dead_control_plane() {
    let mut sim = without(&["cp-3"]);
    sim.world.guests.get_mut(&302).unwrap().running = false;
    sim.world.members[2].serves = false;
    let former = sim.world.former.get_mut("cp-3").unwrap();
    (former.talos, former.ready) = (TalosView::Unreachable, Some(false));
    insta::assert_snapshot!(text(&sim, &["cp-3"]));
}

#[test]
fn what_is_left_of_a_lost_vm_is_removed_and_then_nothing_is_left() {
    let mut sim = without(&["cp-3"]);
    sim.world.guests.remove(&302);
    sim.world.members[2].serves = false;
    sim.world.former.get_mut("cp-3").unwrap().talos = TalosView::Unreachable;
    let first = plan(&sim, &["cp-3"]);
    let actions: Vec<&Action> = first.steps.iter().map(|step| &step.action).collect();
    assert_eq!(
        actions,
        [
            &Action::Cordon,
            &Action::RemoveMember { member: "a002".into() },
            &Action::ForgetNode,
            &Action::AwaitEndpoint
        ]
    );
    assert_eq!(sim.run(&first, |_| true), 4);
    let again = text(&sim, &["cp-3"]);
    assert!(again.contains("There is no such node") && again.contains("No changes"), "{again}");
}

#[test]
fn a_name_that_only_kubernetes_knows_is_told() {
    let mut sim = without(&["worker-2"]);
    sim.world.former.get_mut("worker-2").unwrap().known_as = Some("talos-abc".into());
    let text = text(&sim, &["worker-2"]);
    assert!(text.contains("Kubernetes knows it as talos-abc."), "{text}");
}

#[test]
fn a_declared_node_and_a_protected_cluster_stay() {
    let mut sim = without(&["cp-3"]);
    let declared = plan_remove(&sim.cluster, &sim.world, &removal(&names(&["cp-2"]))).unwrap_err();
    assert!(declared.to_string().contains("lower its pool's count"), "{declared}");
    sim.cluster.protect = true;
    let protected = plan_remove(&sim.cluster, &sim.world, &removal(&names(&["cp-3"]))).unwrap_err();
    assert!(matches!(protected, PlanError::Protected { .. }));
}

#[test]
fn a_member_stays_while_the_others_are_not_whole() {
    let sim = without(&["cp-3"]);
    let mut learning = sim.clone();
    learning.world.members[1].learner = true;
    assert!(problem(&learning, "cp-3").contains("cp-2 still learns"));
    let mut silent = sim.clone();
    silent.world.members[1].serves = false;
    assert!(problem(&silent, "cp-3").contains("cp-2 does not serve etcd"));
    let mut unstarted = sim.clone();
    unstarted.world.members.push(MemberView { id: "b00".into(), ..MemberView::default() });
    assert!(problem(&unstarted, "cp-3").contains("the unnamed member b00"));
    let mut unknown = sim.clone();
    unknown.world.members.clear();
    unknown.world.former.get_mut("cp-3").unwrap().role = None;
    assert!(problem(&unknown, "cp-3").contains("which members etcd has"));
    let mut mute = sim.clone();
    mute.world.kubernetes_told = false;
    assert!(problem(&mute, "cp-3").contains("No API server answers"));
    // A member under a name of DHCP's, which nobody can ask whose it is.
    let mut nameless = sim.clone();
    nameless.world.former.insert("cp-3".into(), FormerView::default());
    let member = &mut nameless.world.members[2];
    (member.name, member.serves) = ("talos-abc".into(), false);
    assert!(problem(&nameless, "cp-3").contains("whose member of etcd talos-abc is"));
    // One that has not started, and one that only an address gives to a declared node, may be its as well.
    let mut starting = nameless.clone();
    starting.world.members[2].name.clear();
    assert!(problem(&starting, "cp-3").contains("whose member of etcd the unnamed member a002 is"));
    let mut guessed = nameless.clone();
    (guessed.world.members[2].name, guessed.world.members[2].guessed) = ("cp-2".into(), true);
    assert!(problem(&guessed, "cp-3").contains("whose member of etcd cp-2 is"));
    // Nor does it help that Kubernetes knows it for a control plane, or that the member serves; a worker has none.
    for (role, serves, stays) in
        [(Role::ControlPlane, false, true), (Role::ControlPlane, true, true), (Role::Worker, false, false)]
    {
        let mut nameless = nameless.clone();
        nameless.world.former.insert("cp-3".into(), FormerView { role: Some(role), ..FormerView::default() });
        nameless.world.members[2].serves = serves;
        let told = text(&nameless, &["cp-3"]);
        assert_eq!(told.contains("whose member of etcd talos-abc is"), stays, "{role:?} {serves}: {told}");
    }
    let mut bare = plan(&without(&["cp-3"]), &["cp-3"]);
    bare.steps.clear();
    let stop = Action::StopVm { vmid: 302 };
    bare.steps.push(Step { action: stop, ..plan(&sim, &["cp-3"]).steps[0].clone() });
    let found = check(&nameless.cluster, &nameless.world, &bare);
    assert!(found.iter().any(|finding| finding.to_string().contains("which is not known")), "{found:?}");
    // A learner that is to go itself harms nobody, and one that cannot leave is taken out by others.
    let mut learner = sim;
    learner.world.members[2].learner = true;
    learner.world.members[2].serves = false;
    let plan = plan(&learner, &["cp-3"]);
    assert!(plan.steps.iter().any(|s| matches!(s.action, Action::RemoveMember { .. })));
    assert_eq!(plan.quorum, Quorum { before: 2, lowest: 2, after: 2 });
}

#[test]
fn the_last_control_plane_and_the_endpoint_stay() {
    let mut sim = without(&["cp-3"]);
    sim.world.members.retain(|member| member.name == "cp-3");
    assert!(problem(&sim, "cp-3").contains("No declared control plane would be left"));
    let mut sim = without(&["cp-3"]);
    sim.cluster.kubernetes.endpoint_host = Some("10.0.0.13".into());
    assert!(problem(&sim, "cp-3").contains("endpoint"));
}

#[test]
fn a_vm_that_is_not_surely_ours_or_cannot_be_seen_is_not_touched() {
    let mut sim = without(&["worker-2"]);
    let vmid = 304;
    let mut locked = sim.clone();
    locked.world.guests.get_mut(&vmid).unwrap().lock = Some("backup".into());
    assert!(problem(&locked, "worker-2").contains("locked (backup)"));
    let mut twice = sim.clone();
    let copy = GuestView { vmid: 900, ..twice.world.guests[&vmid].clone() };
    twice.world.guests.insert(900, copy);
    assert!(problem(&twice, "worker-2").contains("both claim"));
    sim.world.guests.remove(&vmid);
    sim.world.unlisted_hosts.insert("boreas".into());
    assert!(problem(&sim, "worker-2").contains("may run there"));
}

/// A VM that lost its mark, that another store made, or that cannot be read may be the node: it stays a member of the cluster, and
/// is not called gone.
#[test]
fn a_node_whose_vm_may_run_unmarked_is_neither_removed_nor_gone() {
    let like = |likeness| Ownership::LookAlike { why: "it is another".into(), likeness };
    let unread = || Ownership::Unreadable { why: "its host does not answer".into() };
    for ownership in [like(Likeness::LostMark), like(Likeness::OtherSecrets), like(Likeness::Copy), unread()]
    {
        let mut sim = without(&["cp-3"]);
        let lost = sim.world.guests.remove(&302).unwrap();
        let old = plan(&sim, &["cp-3"]);
        assert!(old.steps.iter().any(|step| step.action == Action::ForgetNode));
        sim.world.guests.insert(302, GuestView { ownership, ..lost });
        let said = text(&sim, &["cp-3"]);
        assert!(said.contains("VM 302 \"cp-3\" on atlas") && said.contains("fix: "), "{said}");
        assert!(problem(&sim, "cp-3").contains("VM 302"), "{said}");
        let left = remains(&sim.cluster, &sim.world, "cp-3", Some(Role::ControlPlane));
        assert!(left.found[0].starts_with("VM 302 \"cp-3\" on atlas"), "{left:?}");
        // A plan that was made before is refused.
        let found = check(&sim.cluster, &sim.world, &old);
        assert!(found.iter().any(|finding| finding.rule == Rule::Ownership), "{found:?}");
    }
    // A renamed one is known by its SMBIOS uuid, one that cannot be read by the tag.
    let tags = vec!["daedal-home".to_owned()];
    for (ownership, uuid, tags, blocks) in [
        (like(Likeness::LostMark), true, vec![], true),
        (like(Likeness::LostMark), false, tags.clone(), false),
        (unread(), false, tags, true),
        (unread(), false, vec![], false),
    ] {
        let mut sim = without(&["cp-3"]);
        let smbios = uuid.then(|| Judge::new(&sim.cluster).smbios_uuid("cp-3"));
        let lost = sim.world.guests.remove(&302).unwrap();
        let name = "old".to_owned();
        sim.world.guests.insert(302, GuestView { name, smbios, tags, ownership: ownership.clone(), ..lost });
        assert_eq!(plan(&sim, &["cp-3"]).is_empty(), blocks, "{ownership:?}");
    }
    // Somebody else's VM of that name is not it.
    let mut sim = without(&["cp-3"]);
    let guest = sim.world.guests.get_mut(&302).unwrap();
    guest.ownership = like(Likeness::OtherMark);
    assert!(!plan(&sim, &["cp-3"]).is_empty());
}

/// A place where guests may be that nobody saw leaves it open whether a node is gone.
#[test]
fn a_node_is_gone_only_where_all_guests_were_seen() {
    let mut sim = without(&["cp-3"]);
    let plan = plan(&sim, &["cp-3"]);
    assert_eq!(sim.run(&plan, |_| true), plan.steps.len());
    let unseen = [Aspect::Vm { vmid: 310, host: None }, Aspect::Tasks("atlas".into())];
    sim.world.unobserved = unseen.map(|what| Unobserved::new(what, "it did not answer within 5 s")).into();
    let left = remains(&sim.cluster, &sim.world, "cp-3", Some(Role::ControlPlane));
    assert_eq!((left.found, left.unseen), (vec![], names(&["VM 310", "tasks of host atlas"])));
}

#[test]
fn apply_names_the_command_for_what_is_no_longer_declared() {
    let sim = without(&["worker-2"]);
    let plan = sim.plan();
    let note = plan.notes.iter().find(|note| note.text().contains("is not declared")).unwrap();
    assert_eq!(note.fix().as_deref(), Some("to remove it: daedal node remove worker-2"));
}

/// Gone is what a look everywhere finds nothing of.
#[test]
fn what_is_left_of_a_removed_node_is_found_and_what_was_not_seen_is_named() {
    let mut sim = without(&["cp-3"]);
    let look = |sim: &Sim| remains(&sim.cluster, &sim.world, "cp-3", Some(Role::ControlPlane));
    let all = look(&sim);
    assert!(all.found[0].starts_with("VM 302"), "{all:?}");
    assert_eq!(
        (&all.found[1..], &all.unseen[..]),
        (&names(&["its member of etcd", "its node in Kubernetes"])[..], &[][..])
    );
    let plan = plan(&sim, &["cp-3"]);
    assert_eq!(sim.run(&plan, |_| true), plan.steps.len());
    assert!(look(&sim).is_gone(), "{:?}", look(&sim));
    // A medium with its keys in somebody's drive, and peers that cannot be asked.
    let file = names::media_file_of(&sim.cluster, "cp-3", &"ab".repeat(6), None);
    let (host, storage) = ("atlas".to_owned(), sim.cluster.proxmox.images_storage.clone());
    let volid = names::media_volid(&storage, &file);
    sim.world.volumes.push(VolumeView { host, storage, volid, content: "iso".into(), size: 1 });
    sim.world.unlisted_hosts.insert("boreas".into());
    (sim.world.kubernetes_told, sim.world.members) = (false, Vec::new());
    let all = look(&sim);
    assert!(all.found.len() == 1 && all.found[0].contains(&file), "{all:?}");
    assert_eq!(all.unseen, names(&["virtual machines of host boreas", "etcd", "Kubernetes"]));
    // A worker never was a member.
    assert!(
        !remains(&sim.cluster, &sim.world, "worker-9", Some(Role::Worker))
            .unseen
            .contains(&"etcd".to_owned())
    );
}

/// Whoever is no longer declared votes until it is removed, and so it is counted.
#[test]
fn former_members_are_counted_as_long_as_they_vote() {
    let mut sim = without(&["cp-2", "cp-3"]);
    let apply = |sim: &Sim| sim.plan().quorum;
    assert_eq!(apply(&sim), Quorum { before: 3, lowest: 3, after: 3 });
    assert_eq!(plan_destroy(&sim.cluster, &sim.world).unwrap().quorum.before, 3);
    sim.world.members.iter_mut().find(|member| member.name == "cp-3").unwrap().serves = false;
    assert_eq!(apply(&sim), Quorum { before: 2, lowest: 2, after: 2 });
}

/// Changes of a good plan that the checker must find.
#[test]
fn the_checker_finds_what_a_removal_must_not_do() {
    let sim = without(&["cp-3", "worker-2"]);
    let good = plan(&sim, &["cp-3", "worker-2"]);
    let found = |world: &World, plan: &Plan| !check(&sim.cluster, world, plan).is_empty();
    assert!(!found(&sim.world, &good));
    for at in 0..good.steps.len() {
        // No step may lose what it waits for. The first member to leave waits for nobody but its pods.
        let matters = !matches!(
            good.steps[at].action,
            Action::Cordon | Action::LeaveEtcd { .. } | Action::AwaitEndpoint
        );
        let mut loose = good.clone();
        loose.steps[at].needs.clear();
        assert!(!matters || found(&sim.world, &loose), "{:?}", good.steps[at]);
        // None may be about a node that is declared.
        let mut other = good.clone();
        other.steps[at].node = Some("cp-1".into());
        let about = good.steps[at].node.is_some();
        assert!(!about || found(&sim.world, &other), "{:?}", good.steps[at]);
    }
    let mut world = sim.world.clone();
    world.members[0].learner = true;
    assert!(found(&world, &good));
    let mut world = sim.world.clone();
    world.members[1].serves = false;
    assert!(found(&world, &good));
    let mut wrong = good.clone();
    wrong.quorum.after = 3;
    assert!(found(&sim.world, &wrong));
    let mut apply = good;
    apply.purpose = Purpose::Apply;
    assert!(found(&sim.world, &apply));
}

#[derive(Clone, Debug)]
struct Trouble {
    serves: bool,
    learner: bool,
    runs: bool,
    vm: bool,
    answers: bool,
    ready: Option<bool>,
}

fn troubles() -> impl Strategy<Value = Trouble> {
    let mostly = || prop::bool::weighted(0.85);
    let rarely = || prop::bool::weighted(0.1);
    (mostly(), rarely(), mostly(), mostly(), mostly(), prop::option::weighted(0.9, mostly())).prop_map(
        |(serves, learner, runs, vm, answers, ready)| Trouble { serves, learner, runs, vm, answers, ready },
    )
}

proptest! {
    #![proptest_config(super::config())]

    /// Whatever is asked for in whatever state, cut off anywhere and asked for again: the model of etcd never loses its
    /// quorum, no member is stopped, no declared node is touched, and in the end nothing is left to do or it is said why.
    #[test]
    fn no_schedule_of_removals_loses_the_quorum(
        control_planes in prop_oneof![Just(1u32), Just(3), Just(5)],
        workers in 0u32..4,
        former in prop::collection::vec(any::<bool>(), 9),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
        troubles in prop::collection::vec(troubles(), 9),
        cuts in prop::collection::vec(any::<u64>(), 3),
    ) {
        let cluster = fixture::cluster("home", &["atlas"], control_planes, workers);
        let world = fixture::empty_world(&[("atlas", 64, 256, 4000)]);
        let going: Vec<&str> = (cluster.nodes.iter().skip(1).zip(&former))
            .filter(|(_, former)| **former).map(|(node, _)| node.name.as_str()).collect();
        let mut sim = undeclared(&cluster, &world, &going);
        for (node, trouble) in cluster.nodes.iter().zip(&troubles) {
            if let Some(member) = sim.world.members.iter_mut().find(|member| member.name == node.name) {
                member.serves = trouble.serves && trouble.runs && trouble.vm;
                member.learner = trouble.learner;
            }
            let Some(view) = sim.world.former.get_mut(&node.name) else { continue };
            view.ready = trouble.ready;
            if !trouble.answers || !trouble.runs { view.talos = TalosView::Unreachable }
            sim.world.guests.get_mut(&node.vmid).unwrap().running = trouble.runs;
            if !trouble.vm { sim.world.guests.remove(&node.vmid); }
        }
        let alive = |sim: &Sim| {
            let voters = sim.world.members.iter().filter(|m| !m.learner).count();
            2 * sim.world.members.iter().filter(|m| !m.learner && m.serves).count() > voters
        };
        // Without a quorum, no API server answers.
        sim.world.kubernetes_told = alive(&sim);
        // What nobody knows anything of, although all were asked, is not seen at all.
        for (node, trouble) in cluster.nodes.iter().zip(&troubles).filter(|(node, _)| node.role == Role::Worker) {
            if !trouble.vm && trouble.ready.is_none() && sim.world.kubernetes_told {
                sim.world.former.remove(&node.name);
            }
        }
        let asked: Vec<String> = asked.iter().filter(|_| !going.is_empty())
            .map(|at| going[at.index(going.len())].to_owned()).collect();
        let declared = sim.world.nodes.clone();
        let run = |sim: &mut Sim, seed: Option<u64>| {
            let plan = plan_remove(&sim.cluster, &sim.world, &removal(&asked)).unwrap();
            assert_eq!(check(&sim.cluster, &sim.world, &plan), [], "{}", render(&plan, RenderOptions::default()));
            sim.run(&plan, |at| seed.is_none_or(|seed| !(seed >> (at % 60)).is_multiple_of(4)));
            plan
        };
        for seed in cuts {
            run(&mut sim, Some(seed));
        }
        // A dead member that goes lets the next one go, which was in its way before.
        for _ in &asked {
            run(&mut sim, None);
        }
        let last = run(&mut sim, None);
        prop_assert!(last.is_empty(), "{}", render(&last, RenderOptions::default()));
        let blocked: Vec<&str> = last.nodes.iter().map(|node| node.name.as_str()).collect();
        for name in &asked {
            let gone = !sim.world.former.contains_key(name);
            prop_assert!(gone != blocked.contains(&name.as_str()), "{name}: {:?}", last.notes);
        }
        prop_assert_eq!(&sim.world.nodes, &declared);
        prop_assert!(!sim.world.kubernetes_told || alive(&sim));
        prop_assert!(sim.cluster.nodes.iter().any(|node| node.role == Role::ControlPlane));
    }
}
