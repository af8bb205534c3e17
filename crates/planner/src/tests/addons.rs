//! Add-ons: what is planned for them comes out right however often it is cut short, and the checker notices what is not.

use daedal_addons::{ObjectId, Stage};
use daedal_inventory::{Addon, AddonSource, Cluster, Cni};

use super::simulator::Sim;
use crate::fixture;
use crate::*;

fn id(api_version: &str, kind: &str, name: &str) -> ObjectId {
    ObjectId { api_version: api_version.into(), kind: kind.into(), namespace: None, name: name.into() }
}

fn object(stage: Stage, kind: &str, name: &str, state: ObjectState) -> AddonObject {
    let api_version = if stage == Stage::Definitions { "apiextensions.k8s.io/v1" } else { "v1" };
    AddonObject {
        id: id(api_version, kind, name),
        stage,
        digest: format!("digest of {name}"),
        state,
        readiness: Readiness::Ready,
    }
}

fn addon(name: &str, network: bool, after: &[&str]) -> Addon {
    Addon {
        name: name.into(),
        entry: None,
        namespace: name.into(),
        source: AddonSource::Manifests(Vec::new()),
        values: Vec::new(),
        secret_values: Default::default(),
        kept_values: Default::default(),
        extra: Vec::new(),
        pod_security: None,
        policies: None,
        network,
        after: after.iter().map(|name| (*name).to_owned()).collect(),
        wait: true,
        timeout: 300,
        force: false,
    }
}

fn view(name: &str, state: &ObjectState) -> AddonView {
    let objects = vec![
        object(Stage::Definitions, "CustomResourceDefinition", &format!("{name}.example.org"), state.clone()),
        object(Stage::Objects, "ConfigMap", name, state.clone()),
        object(Stage::Customs, "Gate", name, state.clone()),
    ];
    AddonView { objects, ..AddonView::default() }
}

/// Three add-ons, one of which brings the network and one of which waits for another.
fn cluster() -> Cluster {
    let mut cluster = fixture::cluster("home", &["atlas"], 1, 1);
    cluster.kubernetes.cni = Cni::None;
    cluster.addons =
        vec![addon("shop", false, &["gates"]), addon("net", true, &[]), addon("gates", false, &[])];
    cluster
}

fn world(told: bool, state: &ObjectState) -> World {
    let declared = ["shop", "net", "gates"].map(|name| (name.to_owned(), view(name, state)));
    let addons = AddonsView { told, declared: declared.into(), ..AddonsView::default() };
    World { addons: Some(addons), ..fixture::empty_world(&[("atlas", 64, 256, 4000)]) }
}

fn applied<'p>(plan: &'p Plan, name: &'p str) -> impl Iterator<Item = &'p Step> {
    plan.steps
        .iter()
        .filter(move |step| matches!(&step.action, Action::ApplyAddon { addon, .. } if addon == name))
}

#[test]
fn a_new_cluster_gets_its_add_ons_in_their_order_wherever_the_run_is_cut() {
    let (cluster, world) = (cluster(), world(false, &ObjectState::NotSeen));
    let whole = Sim::new(&cluster, &world).plan();
    let ready: Vec<StepId> =
        whole.steps.iter().filter(|step| step.action == Action::AwaitReady).map(|step| step.id).collect();
    assert_eq!(ready.len(), 2);
    assert!(applied(&whole, "net").all(|step| step.id < ready[0]));
    assert!(applied(&whole, "gates").all(|step| step.id > ready[1]));
    let last = applied(&whole, "gates").last().unwrap().id;
    assert!(applied(&whole, "shop").all(|step| step.id > last));
    for cut in 0..=whole.steps.len() {
        let mut sim = Sim::new(&cluster, &world);
        sim.run(&whole, |at| at < cut);
        // Whoever looks at an API server that answers sees what is there.
        if sim.world.endpoint_answers && !sim.world.addons.as_ref().unwrap().told {
            sim.world.addons = self::world(true, &ObjectState::Absent).addons;
        }
        let rest = sim.plan();
        assert_eq!(sim.run(&rest, |_| true), rest.steps.len(), "after {cut} steps");
        let again = sim.plan();
        assert!(again.is_empty() && again.not_seen.is_empty(), "after {cut} steps: {:#?}", again.steps);
    }
}

/// A cluster that is up and has everything, but for what is asked of it.
fn made(change: impl FnOnce(&mut AddonsView)) -> Sim {
    let mut sim = Sim::made(&cluster(), &world(false, &ObjectState::NotSeen));
    change(sim.world.addons.as_mut().unwrap());
    sim
}

#[test]
fn hooks_that_are_not_run_are_told_whenever_objects_are_applied() {
    let hook = object(Stage::Objects, "Job", "shop-init", ObjectState::NotSeen).id;
    let told = |plan: &Plan| {
        plan.notes
            .iter()
            .any(|note| matches!(&note.advice, Advice::AddonHooksNotRun { addon, .. } if addon == "shop"))
    };
    let mut world = world(false, &ObjectState::NotSeen);
    for view in world.addons.iter_mut().flat_map(|addons| addons.declared.get_mut("shop")) {
        view.hooks.push(hook.clone());
    }
    assert!(told(&Sim::new(&cluster(), &world).plan()));
    assert!(!told(&Sim::made(&cluster(), &world).plan()), "there is nothing to apply");
}

#[test]
fn what_nobody_could_see_is_neither_changed_nor_called_as_declared() {
    let sim = made(|addons| addons.told = false);
    let plan = sim.plan();
    assert!(plan.is_empty());
    assert_eq!((plan.unseen, &plan.not_seen[..]), (true, &["add-ons".to_owned()][..]));
}

#[test]
fn conflicts_and_owners_stop_their_object_or_add_on_and_nothing_else() {
    let conflict = FieldConflict { manager: "operator".into(), field: ".data.a".into() };
    let differs = ObjectState::Differs { changes: Vec::new(), conflicts: vec![conflict.clone()] };
    let mut sim = made(|addons| {
        addons.declared.get_mut("shop").unwrap().objects[1].state = differs;
        let gates = addons.declared.get_mut("gates").unwrap();
        gates.objects[1].state = ObjectState::Absent;
        gates.owner = Some((AddonOwner::ArgoCd { application: "gates".into() }, gates.objects[0].id.clone()));
    });
    let plan = sim.plan();
    assert!(plan.is_empty(), "{:#?}", plan.steps);
    let codes: Vec<&str> = plan.notes.iter().map(|note| note.advice.code()).collect();
    assert!(codes.contains(&"addon-conflict") && codes.contains(&"addon-owned"), "{codes:?}");
    sim.cluster.addons[0].force = true;
    let plan = sim.plan();
    let Action::ApplyAddon { objects, force: true, .. } = &plan.steps[0].action else {
        panic!("{:#?}", plan.steps)
    };
    assert_eq!(objects[0].change, ObjectChange::Change { fields: Vec::new(), taken: vec![conflict] });
}

#[test]
fn what_is_no_longer_asked_for_goes_but_definitions_and_what_another_has_stay() {
    let (old, taken) = (id("v1", "Service", "old"), id("v1", "ConfigMap", "shop"));
    let definition = id("apiextensions.k8s.io/v1", "CustomResourceDefinition", "olds.example.org");
    let sim = made(|addons| {
        addons.declared.get_mut("gates").unwrap().extra = vec![old.clone(), definition.clone()];
        let objects = vec![id("v1", "Service", "former"), taken.clone()];
        addons.former.insert("gone".into(), FormerAddonView { objects });
    });
    let plan = sim.plan();
    let pruned = plan.steps.iter().filter_map(|step| match &step.action {
        Action::PruneAddon { addon, objects, gone, .. } => Some((addon.as_str(), objects.clone(), *gone)),
        _ => None,
    });
    let pruned: Vec<_> = pruned.collect();
    assert_eq!(pruned, [("gates", vec![old], false), ("gone", vec![id("v1", "Service", "former")], true)]);
    assert!(plan.notes.iter().any(|note| note.advice.code() == "addon-objects-stay"));
}

/// Every damage to a plan for add-ons is found.
#[test]
fn the_checker_notices_what_is_wrong_with_steps_of_add_ons() {
    let (cluster, world) = (cluster(), world(false, &ObjectState::NotSeen));
    let plan = Sim::new(&cluster, &world).plan();
    let find = |such: fn(&Action) -> bool| plan.steps.iter().position(|step| such(&step.action)).unwrap();
    let apply = find(|action| matches!(action, Action::ApplyAddon { network: false, .. }));
    let network = find(|action| matches!(action, Action::ApplyAddon { network: true, .. }));
    let wait = find(|action| matches!(action, Action::AwaitAddon { .. }));
    let ready = find(|action| *action == Action::AwaitReady);
    type Damage = (&'static str, usize, fn(&mut Step));
    let damages: [Damage; 7] = [
        ("before the nodes", apply, |step| step.needs.clear()),
        ("before the API server", network, |step| step.needs.clear()),
        ("awaited before it is applied", wait, |step| step.needs.clear()),
        ("nodes before their network", ready, |step| step.needs.retain(|_| false)),
        ("another digest", apply, |step| {
            let Action::ApplyAddon { objects, .. } = &mut step.action else { return };
            objects[0].digest = "other".into();
        }),
        ("forced", apply, |step| {
            let Action::ApplyAddon { force, .. } = &mut step.action else { return };
            *force = true;
        }),
        ("somebody else's object pruned", apply, |step| {
            let objects = vec![id("v1", "Service", "theirs")];
            step.action = Action::PruneAddon { addon: "shop".into(), objects, gone: false, network: false };
            step.impact = Impact::Destroy;
        }),
    ];
    for (what, at, damage) in damages {
        let mut bad = plan.clone();
        damage(&mut bad.steps[at]);
        assert_ne!(check(&cluster, &world, &bad), [], "{what}");
    }
}
