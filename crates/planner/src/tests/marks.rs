//! Lost marks: where one is restored, and everything that must not pass for the node.

use daedal_inventory::Node;
use uuid::Uuid;

use super::simulator::Sim;
use super::told::*;
use crate::*;

/// A finished cluster whose worker-2 lost its mark, as it was looked at.
fn lost() -> (Sim, Node) {
    let cluster = fixture::home();
    let mut sim = Sim::made(&cluster, &fixture::home_world());
    let node = cluster.node("worker-2").unwrap().clone();
    sim.world.secrets_id = Some(SecretsId::derive(b"mine"));
    let guest = sim.world.guests.get_mut(&node.vmid).unwrap();
    guest.ownership = Ownership::LookAlike { why: "its mark is gone".into(), likeness: Likeness::LostMark };
    sim.world.lost_mark = Some(Box::new(LostMarkView {
        vmid: node.vmid,
        smbios: Some(node.uuid),
        mac: Some(node.mac.to_lowercase()),
        notes: "rack 4, ask Ann\n".into(),
        config: "c0ffee".into(),
        talos: Some(TalosView::Configured { version: "v1.12.0".into(), stage: "running".into() }),
    }));
    (sim, node)
}

fn view(world: &mut World) -> &mut LostMarkView {
    world.lost_mark.as_mut().unwrap()
}

#[test]
fn a_lost_mark_is_restored_once() {
    let (mut sim, node) = lost();
    let plan = plan_mark(&sim.cluster, &sim.world, &node).unwrap();
    assert_eq!(check(&sim.cluster, &sim.world, &plan), []);
    insta::assert_snapshot!(render(&plan, RenderOptions::default()));
    let [Step { action: Action::RestoreMark { notes, mark, .. }, .. }] = &plan.steps[..] else {
        panic!("{plan:#?}")
    };
    assert_eq!(*notes, format!("rack 4, ask Ann\n\n{mark}"));
    assert!(mark.ends_with(&format!("digest=unknown secrets={}", SecretsId::derive(b"mine"))), "{mark}");
    sim.run(&plan, |_| true);
    let again = plan_mark(&sim.cluster, &sim.world, &node).unwrap();
    assert!(again.is_empty(), "{again:#?}");
    assert_eq!(render(&again, RenderOptions::default()), "No changes: the VM of worker-2 has its mark.\n");
}

/// What must agree, and what is said where it does not. Neither planner nor checker lets it pass.
#[test]
fn only_a_proven_vm_is_marked() {
    let like = |likeness| Ownership::LookAlike { why: "because".into(), likeness };
    type Spoil = Box<dyn Fn(&mut World, &Node)>;
    let cases: Vec<(&str, Spoil)> = vec![
        ("the SMBIOS uuid of VM", Box::new(|world, _| view(world).smbios = Some(Uuid::from_u128(7)))),
        ("the SMBIOS uuid of VM", Box::new(|world, _| view(world).smbios = None)),
        ("the MAC of the first", Box::new(|world, _| view(world).mac = Some("02:00:00:00:00:99".into()))),
        ("the MAC of the first", Box::new(|world, _| view(world).mac = None)),
        ("does not accept the keys", Box::new(|world, _| view(world).talos = Some(TalosView::OtherCluster))),
        ("are not in the store", Box::new(|world, _| world.secrets_stored = false)),
        ("are not in the store", Box::new(|world, _| world.secrets_id = None)),
        ("was not looked at", Box::new(|world, _| world.lost_mark = None)),
        ("was not looked at", Box::new(|world, _| view(world).vmid = 300)),
        ("no VM", Box::new(|world, node| drop(world.guests.remove(&node.vmid)))),
        (
            "is marked as worker-2 already",
            Box::new(|world, node| {
                let ownership = Ownership::Ours { node: node.name.clone(), digest: "x".into() };
                let twin = GuestView { vmid: 900, host: "atlas".into(), ownership, ..GuestView::default() };
                world.guests.insert(900, twin);
            }),
        ),
        (
            "turned into a template",
            Box::new(|world, node| world.guests.get_mut(&node.vmid).unwrap().template = true),
        ),
    ];
    let owners = [
        ("nothing on it", Ownership::Foreign),
        ("it is our node cp-9", Ownership::Ours { node: "cp-9".into(), digest: "x".into() }),
        ("because", like(Likeness::Copy)),
        ("because", like(Likeness::OtherMark)),
        ("because", like(Likeness::OtherSecrets)),
        ("could not be read", Ownership::Unreadable { why: "no".into() }),
    ];
    let owners = owners.map(|(said, ownership)| -> (&str, Spoil) {
        (
            said,
            Box::new(move |world, node| {
                world.guests.get_mut(&node.vmid).unwrap().ownership = ownership.clone();
            }),
        )
    });
    for (said, spoil) in cases.into_iter().chain(owners) {
        let (mut sim, node) = lost();
        let good = plan_mark(&sim.cluster, &sim.world, &node).unwrap();
        spoil(&mut sim.world, &node);
        let error = plan_mark(&sim.cluster, &sim.world, &node).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error}: {source}").contains(said), "{said}: {error}: {source}");
        assert_ne!(check(&sim.cluster, &sim.world, &good), [], "{said}");
    }
}

#[test]
fn damage_to_a_plan_that_marks_is_seen() {
    type Damage = fn(&mut Plan);
    let cases: [(&str, Damage); 12] = [
        ("another purpose", |plan| plan.purpose = Purpose::Apply),
        ("another node", |plan| plan.steps[0].node = Some("cp-1".into())),
        ("no node", |plan| plan.steps[0].node = None),
        ("another host", |plan| plan.steps[0].host = Some("elsewhere".into())),
        ("another VMID", |plan| {
            let Action::RestoreMark { vmid, .. } = &mut plan.steps[0].action else { panic!() };
            *vmid = 300;
        }),
        ("another uuid", |plan| {
            let Action::RestoreMark { uuid, .. } = &mut plan.steps[0].action else { panic!() };
            *uuid = Uuid::from_u128(7);
        }),
        ("another MAC", |plan| {
            let Action::RestoreMark { mac, .. } = &mut plan.steps[0].action else { panic!() };
            *mac = "02:00:00:00:00:99".into();
        }),
        ("another mark", |plan| {
            let Action::RestoreMark { mark, .. } = &mut plan.steps[0].action else { panic!() };
            *mark = mark.replace("unknown", "known");
        }),
        ("two marks", |plan| {
            let Action::RestoreMark { mark, notes, .. } = &mut plan.steps[0].action else { panic!() };
            notes.push_str(&format!("\n{mark}"));
        }),
        ("lost notes", |plan| {
            let Action::RestoreMark { mark, notes, .. } = &mut plan.steps[0].action else { panic!() };
            notes.clone_from(mark);
        }),
        ("unguarded", |plan| {
            let Action::RestoreMark { config, .. } = &mut plan.steps[0].action else { panic!() };
            config.clear();
        }),
        ("twice", |plan| {
            let twin = Step { id: 1, ..plan.steps[0].clone() };
            plan.steps.push(twin);
        }),
    ];
    for (what, damage) in cases {
        let (sim, node) = lost();
        let mut plan = plan_mark(&sim.cluster, &sim.world, &node).unwrap();
        damage(&mut plan);
        assert_ne!(check(&sim.cluster, &sim.world, &plan), [], "{what}");
    }
}
