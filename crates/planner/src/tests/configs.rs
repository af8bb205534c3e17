//! Whether a running node gets the declared machine config.

use super::simulator::Sim;
use crate::fixture::{differs, home, home_world};
use crate::*;

fn change(document: &str, path: &str) -> DocumentChange {
    let field = FieldChange { path: path.into(), from: Some("a".into()), to: None };
    DocumentChange { document: document.into(), fields: vec![field] }
}

/// A cluster whose first worker runs on another config, and what its plan says of it.
fn planned(config: ConfigView) -> (Sim, Plan) {
    let mut sim = Sim::made(&home(), &home_world());
    sim.world.nodes.get_mut("worker-1").unwrap().config = config;
    let plan = sim.plan();
    (sim, plan)
}

fn why(config: ConfigView) -> Option<WhyConfigStays> {
    let (_, plan) = planned(config);
    let applied = plan.steps.iter().any(|step| matches!(step.action, Action::ApplyConfig { .. }));
    let why = plan.differences.into_iter().find_map(|difference| match difference.stays {
        Stays::Held { why: WhyStays::Config(why) } => Some(why),
        _ => None,
    });
    assert_eq!(applied, why.is_none());
    why
}

#[test]
fn fields_that_must_not_change_are_known_by_document_and_path() {
    let (from, to) = (Some("a".to_owned()), None);
    let disk = WhyConfigStays::InstallDisk { from: from.clone(), to: to.clone() };
    let name = WhyConfigStays::Name { from: from.clone(), to: to.clone() };
    let identity = |document: &str, path: &str| WhyConfigStays::Identity {
        document: document.into(),
        path: path.into(),
    };
    let image = |path: &str| WhyConfigStays::KubernetesVersion {
        path: path.into(),
        from: from.clone(),
        to: to.clone(),
    };
    for (document, path, expected) in [
        ("v1alpha1", "machine.ca.crt", Some(identity("v1alpha1", "machine.ca.crt"))),
        ("v1alpha1", "machine.type", Some(identity("v1alpha1", "machine.type"))),
        ("v1alpha1", "machine.typed", None),
        ("v1alpha1", "machine.acceptedCAs[0].crt", None),
        ("KubeAPIServerCAConfig", "issuingCA.crt", Some(identity("KubeAPIServerCAConfig", "issuingCA.crt"))),
        ("KubeAPIServerCAConfig", "acceptedCAs[0]", None),
        ("v1alpha1", "machine.install.disk", Some(disk.clone())),
        ("v1alpha1", "machine.install.diskSelector.model", Some(disk.clone())),
        ("v1alpha1", "machine.install.image", None),
        ("UnattendedInstallConfig", "diskSelector.match", Some(disk)),
        ("UnattendedInstallConfig", "installer.image", None),
        ("HostnameConfig", "hostname", Some(name.clone())),
        ("HostnameConfig", "auto", None),
        ("v1alpha1", "machine.network.hostname", Some(name)),
        ("v1alpha1", "machine.kubelet.image", Some(image("machine.kubelet.image"))),
        ("KubeControllerManagerConfig", "image", Some(image("image"))),
        ("v1alpha1", "machine.sysctls.a", None),
    ] {
        assert_eq!(why(differs(["a", "b"], false, &[change(document, path)])), expected, "{document} {path}");
    }
}

#[test]
fn addresses_and_cards_are_compared_with_those_of_the_node() {
    let cluster = home();
    let worker = cluster.node("worker-1").unwrap();
    let (address, mac) = (worker.address.unwrap(), worker.mac.to_ascii_lowercase());
    let view = |edit: &dyn Fn(&mut ConfigDifference)| {
        let ConfigView::Differs(mut difference) = differs(["a", "b"], false, &[]) else { unreachable!() };
        difference.declared.addresses = vec![address];
        difference.declared.macs = vec![mac.clone()];
        difference.running = ConfigFacts { digest: "a".into(), ..difference.declared.clone() };
        edit(&mut difference);
        ConfigView::Differs(difference)
    };
    assert_eq!(why(view(&|_| {})), None);
    let moved = view(&|it| it.running.addresses.clear());
    assert_eq!(why(moved), Some(WhyConfigStays::Address { to: address }));
    let asked = view(&|it| {
        it.running.addresses.clear();
        it.running.asks_dhcp = true;
    });
    assert_eq!(why(asked), None);
    let other_card = view(&|it| it.running.macs = vec!["02:00:00:00:00:01".into()]);
    assert_eq!(why(other_card), Some(WhyConfigStays::Mac { mac: mac.clone() }));
    let no_card = view(&|it| it.declared.macs.clear());
    assert_eq!(why(no_card), None);
}

#[test]
fn the_node_has_the_last_word() {
    let answered = |answer: DryRun| {
        let ConfigView::Differs(mut difference) = differs(["a", "b"], false, &[]) else { unreachable!() };
        difference.answer = answer;
        ConfigView::Differs(difference)
    };
    let text = "no such extension".to_owned();
    let (sim, accepted) = planned(answered(DryRun::Accepted { reboot: true }));
    assert!(
        accepted.steps.iter().any(|step| matches!(step.action, Action::ApplyConfig { reboot: true, .. }))
    );
    let refused = answered(DryRun::Refused { text: text.clone() });
    assert_eq!(why(refused.clone()), Some(WhyConfigStays::Refused { text }));
    let (_, unasked) = planned(answered(DryRun::NotAsked));
    assert!(unasked.steps.is_empty(), "{:#?}", unasked.steps);
    let version = ConfigView::NotMade { talos: "v1.9.0".into(), why: "too old".into() };
    let expected = WhyConfigStays::NoConfigForVersion {
        runs: "v1.9.0".into(),
        declared: format!("v{}", home().talos.version),
        why: "too old".into(),
    };
    assert_eq!(why(version), Some(expected));
    // A plan that was saved before the node refused is of no use, and the checker says so.
    let mut now = sim.world.clone();
    now.nodes.get_mut("worker-1").unwrap().config = refused;
    assert_ne!(plan_apply(&sim.cluster, &sim.images, &now).unwrap().basis, accepted.basis);
    let rules: Vec<Rule> = check(&sim.cluster, &now, &accepted).into_iter().map(|found| found.rule).collect();
    assert_eq!(rules, [Rule::Destruction]);
}

/// The checker does not rely on the planner to tell what makes a node another's.
#[test]
fn a_config_of_another_cluster_breaks_a_rule() {
    let (mut sim, plan) = planned(differs(["a", "b"], false, &[change("v1alpha1", "machine.cabinet.a")]));
    assert_eq!(check(&sim.cluster, &sim.world, &plan), []);
    let other = differs(["a", "b"], false, &[change("v1alpha1", "machine.ca.crt")]);
    sim.world.nodes.get_mut("worker-1").unwrap().config = other;
    let rules: Vec<Rule> =
        check(&sim.cluster, &sim.world, &plan).into_iter().map(|found| found.rule).collect();
    assert_eq!(rules, [Rule::Destruction]);
}

#[test]
fn another_installer_is_registered_before_it_is_named() {
    let registers = |installer: &str| {
        let ConfigView::Differs(mut difference) = differs(["a", "b"], false, &[]) else { unreachable!() };
        difference.running.installer = Some("factory/installer/a:v1".into());
        difference.declared.installer = Some(installer.into());
        let (_, plan) = planned(ConfigView::Differs(difference));
        plan.steps.iter().any(|step| matches!(step.action, Action::RegisterSchematic { .. }))
    };
    assert!(registers("factory/installer/b:v1") && !registers("factory/installer/a:v1"));
}
