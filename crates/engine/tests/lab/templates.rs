//! Templates and their clones: made, shared, replaced, listed, pruned.

use daedal_engine::{Effects, Run};
use daedal_lab::proxmox::StorageSpec;
use daedal_planner::{Action, Plan, PlanError, Pruning, World, plan_prune_templates};
use daedal_words::Told as _;

use crate::boot::{
    TEMPLATE, TEMPLATE_BY_ISO, TEMPLATE_CLOUD_INIT, TEMPLATE_FULL, and_back, client, whole_life,
};
use crate::breadth::deaths;
use crate::crash::sweep;
use crate::faults::faults_on;
use crate::support::{Bench, Giving, Killer, Way, assert_done, cluster_booting, errors};

/// Mission: M2, M7, I6
#[tokio::test(start_paused = true)]
async fn clones_of_templates_linked_and_full() {
    for way in [TEMPLATE, TEMPLATE_FULL, TEMPLATE_CLOUD_INIT, TEMPLATE_BY_ISO] {
        let bench = whole_life(way).await;
        let world = bench.look().await.0;
        let templates: Vec<(u32, &str)> =
            world.guests.values().filter(|g| g.template).map(|g| (g.vmid, g.host.as_str())).collect();
        // One for each role, where there is a node of it: disks are local.
        assert!(templates.contains(&(998, "atlas")) && templates.contains(&(996, "boreas")), "{templates:?}");
        for (node, guest) in bench.cluster.nodes.iter().map(|node| (node, &world.guests[&node.vmid])) {
            let config = guest.config.as_ref().unwrap();
            // On a thin pool nothing tells a linked clone's base.
            assert_eq!((config.mac(), config.base), (node.mac.as_str(), None), "{}", node.name);
        }
        and_back(&bench, way).await;
    }
}

/// Disks on a storage that both hosts see: one template for each role, and clones on whichever host.
/// Mission: M7
#[tokio::test(start_paused = true)]
async fn clones_go_to_other_hosts_where_disks_are_shared() {
    let mut bench = Bench::on(TEMPLATE, 3, 1, |datacenter| {
        for host in &mut datacenter.hosts {
            let mut shared = daedal_lab::proxmox::StorageSpec::new("ceph", "rbd", &["images"], 800 << 30);
            shared.shared = true;
            host.storages.push(shared);
        }
    });
    bench.cluster.proxmox.disks_storage = "ceph".into();
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    let world = bench.look().await.0;
    let templates: Vec<u32> = world.guests.values().filter(|guest| guest.template).map(|g| g.vmid).collect();
    assert_eq!(templates, [998, 999], "one for each role serves both hosts");
    let at = |vmid: u32| world.guests[&vmid].host.as_str();
    let elsewhere = bench.cluster.nodes.iter().filter(|node| at(node.vmid) != at(998)).count();
    assert!(elsewhere > 0, "no clone went to the other host");
    and_back(&bench, TEMPLATE).await;
}

/// Nodes on a storage of this type.
fn on_storage(kind: &'static str, way: Way, control_planes: usize, workers: usize) -> Bench {
    let mut bench = Bench::on(way, control_planes, workers, |datacenter| {
        for host in &mut datacenter.hosts {
            host.storages.push(StorageSpec::new("tank", kind, &["images"], 800 << 30));
        }
    });
    bench.cluster.proxmox.disks_storage = "tank".into();
    bench
}

#[tokio::test(start_paused = true)]
async fn clones_on_every_type_of_storage() {
    for (kind, way, based) in
        [("zfspool", TEMPLATE, true), ("dir", TEMPLATE, true), ("lvm", TEMPLATE_FULL, false)]
    {
        let bench = on_storage(kind, way, 1, 1);
        assert_done(&bench.apply().await, kind);
        bench.assert_converged(kind).await;
        let world = bench.look().await.0;
        for node in &bench.cluster.nodes {
            let config = world.guests[&node.vmid].config.as_ref().unwrap();
            assert_eq!(config.base.is_some(), based, "{} on {kind}", node.name);
        }
        assert_done(&bench.destroy().await, kind);
    }
}

const ALL: Pruning = Pruning { all: true, protected: false, without_secrets: false };

/// What would be pruned.
async fn prunable(bench: &Bench, pruning: Pruning) -> (World, Result<Plan, PlanError>) {
    let world = bench.look().await.0;
    let plan = plan_prune_templates(&bench.cluster, &bench.engine().images(&bench.cluster), &world, pruning);
    (world, plan)
}

/// Prunes what a look shows. How many templates went, and what is said of those that stayed.
async fn prune(bench: &Bench, pruning: Pruning) -> (usize, Vec<String>) {
    let (world, plan) = prunable(bench, pruning).await;
    let plan = plan.unwrap();
    assert_done(&bench.execute(&world, &plan).await, "prune");
    (plan.steps.len(), plan.notes.into_iter().map(|note| note.text()).collect())
}

/// Thick logical volumes cannot be linked to: that is said before anything is made.
#[tokio::test(start_paused = true)]
async fn linked_clones_on_thick_lvm_are_refused_at_once() {
    let bench = on_storage("lvm", TEMPLATE, 1, 1);
    let refused = bench.look().await.1.unwrap_err().to_string();
    for part in ["storage tank has the type lvm, which has no linked clones", "use `clone: full`"] {
        assert!(refused.contains(part), "{refused}");
    }
    let report = bench.engine().live_checks(&bench.cluster).await;
    let bad: Vec<_> =
        report.checks.iter().filter(|c| c.what.to_string() == "storage tank on atlas").collect();
    assert!(bad.len() == 1 && bad[0].fix.as_ref().unwrap().to_string().contains("clone: full"), "{bad:#?}");
    let log = bench.lab.faults().log();
    assert!(log.iter().all(|call| !call.mutating), "something was made");
}

/// A thin pool's linked clones do not need their base, and Proxmox lets it go.
#[tokio::test(start_paused = true)]
async fn a_thin_pool_lets_a_template_go_before_its_clones() {
    let bench = Bench::booting(TEMPLATE, 1, 0);
    assert_done(&bench.apply().await, "apply");
    let (gone, kept) = prune(&bench, ALL).await;
    assert!(gone > 0 && kept.is_empty(), "{kept:#?}");
    bench.assert_converged("prune").await;
}

/// Mission: M15
#[tokio::test(start_paused = true)]
async fn templates_are_listed_and_pruned_but_never_under_a_clone() {
    let mut bench = on_storage("zfspool", TEMPLATE, 1, 1);
    assert_done(&bench.apply().await, "apply");
    let rows = bench.engine().templates(&bench.cluster).await.unwrap().templates;
    let told: Vec<(u32, bool, usize)> =
        rows.iter().map(|row| (row.vmid, row.current, row.linked.len())).collect();
    assert_eq!(told.iter().map(|row| row.2).sum::<usize>(), 2, "{rows:#?}");
    assert!(told.iter().all(|row| row.1), "{rows:#?}");
    assert_eq!(prune(&bench, Pruning::default()).await, (0, Vec::new()));
    // Not even when asked for all: the nodes' disks are linked to them.
    let (gone, kept) = prune(&bench, ALL).await;
    assert!(gone == 0 && kept.len() == rows.len(), "{kept:#?}");
    assert!(kept.iter().all(|why| why.contains("are linked to it")), "{kept:#?}");
    // A new version: what is there is old, stays under its clones, and goes with them.
    bench.cluster.talos.version = "1.12.1".parse().unwrap();
    let rows = bench.engine().templates(&bench.cluster).await.unwrap().templates;
    assert!(rows.iter().all(|row| !row.current), "{rows:#?}");
    assert_eq!(prune(&bench, Pruning::default()).await.0, 0);
    assert_done(&bench.destroy().await, "destroy");
    assert_eq!(prune(&bench, Pruning::default()).await, (rows.len(), Vec::new()));
    assert_eq!(bench.lab.datacenter().vms(), []);
}

/// Mission: M5, M15
#[tokio::test(start_paused = true)]
async fn a_template_of_something_else_is_replaced() {
    let mut bench = Bench::booting(TEMPLATE, 1, 0);
    assert_done(&bench.apply().await, "apply");
    assert_done(&bench.destroy().await, "destroy");
    bench.cluster.talos.version = "1.12.1".parse().unwrap();
    let plan = bench.look().await.1.unwrap();
    assert!(
        plan.steps.iter().any(|step| matches!(step.action, Action::DropTemplate { vmid: 998, .. })),
        "{:#?}",
        plan.steps
    );
    assert_done(&bench.apply().await, "apply");
    let (world, plan) = bench.look().await;
    assert!(plan.unwrap().is_empty());
    assert!(world.guests[&998].name.starts_with("talos-v1-12-1-"), "{}", world.guests[&998].name);
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_a_template_is_survived() {
    sweep(TEMPLATE, 1, 1, 0, 1).await;
}

/// A run that dies while an ISO installs a template leaves a VM that runs: it is listed, stopped and pruned, also where templates are
/// no longer declared.
#[tokio::test(start_paused = true)]
async fn an_incomplete_template_is_listed_stopped_and_pruned() {
    let mut bench = Bench::booting(TEMPLATE_BY_ISO, 1, 0);
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = daedal_planner::plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    let run = daedal_engine::Run::silent();
    let installing = async {
        while !bench.lab.datacenter().vms().iter().any(|(vmid, _, _, running)| *vmid == 998 && *running) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = installing => {}
        _ = engine.execute(&bench.cluster, &world, &plan, &run) => unreachable!("it is still being installed"),
    }
    let rows = bench.engine().templates(&bench.cluster).await.unwrap().templates;
    assert_eq!(
        rows.iter().map(|row| (row.vmid, row.current, row.complete)).collect::<Vec<_>>(),
        [(998, false, false)]
    );
    assert!(rows[0].running, "{rows:#?}");
    let world = bench.look().await.0;
    let notes = daedal_planner::plan_destroy(&bench.cluster, &world).unwrap().notes;
    assert!(notes.iter().any(|note| note.text().contains("incomplete template")), "{notes:#?}");

    bench.cluster = cluster_booting("{}", 1, 0);
    assert_eq!(prune(&bench, Pruning::default()).await, (1, Vec::new()));
    assert_eq!(bench.lab.datacenter().vms(), []);
}

/// A template that an ISO installed holds Talos and nothing else: no card, no media, no config.
/// Mission: I5
#[tokio::test(start_paused = true)]
async fn a_template_is_installed_by_an_iso_and_stripped() {
    let bench = Bench::booting(TEMPLATE_BY_ISO, 1, 0);
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    let host = bench.look().await.0.guests[&998].host.clone();
    let config = client(&bench).vm_config(&host, 998).await.unwrap();
    assert!(config.template && config.nics.is_empty() && config.cdroms.is_empty(), "{config:#?}");
    let volumes = bench.lab.datacenter().volumes();
    assert!(volumes.iter().any(|volume| volume.contains("-nocloud-amd64.iso")), "{volumes:?}");
    assert!(
        !volumes.iter().any(|volume| volume.ends_with(".qcow2") && volume.contains("/talos-v")),
        "{volumes:?}"
    );
    let saved = serde_json::to_value(bench.lab.machines().save()).unwrap();
    let with_config =
        saved["disks"].as_object().unwrap().values().filter(|disk| !disk["config"].is_null()).count();
    assert_eq!(with_config, 1, "only the node's disk has a config");
}

/// Mission: I5
#[tokio::test(start_paused = true)]
async fn every_death_while_an_iso_installs_a_template_is_survived() {
    crate::crash::sweep_of(|| Bench::booting(TEMPLATE_BY_ISO, 1, 0)).await;
}

/// Images, templates, disks and cloud-init drives each on a storage of their own (M11).
/// Mission: M11
#[tokio::test(start_paused = true)]
async fn templates_disks_and_drives_on_storages_of_their_own() {
    let boot = "{from: template, config: cloud-init-drive, template: {clone: full}}";
    let mut bench = Bench::on(Way::new(boot, Giving::Nothing), 1, 1, |datacenter| {
        for host in &mut datacenter.hosts {
            for name in ["bases", "drives"] {
                host.storages.push(StorageSpec::new(name, "zfspool", &["images"], 1 << 40));
            }
        }
    });
    // One that is not there is told before anything is made.
    bench.cluster.proxmox.template_disks = Some("nowhere".into());
    let refused = bench.look().await.1.unwrap_err().to_string();
    assert!(refused.contains("storage nowhere cannot be seen there"), "{refused}");

    bench.cluster.proxmox.template_disks = Some("bases".into());
    bench.cluster.proxmox.cloud_init_drives = Some("drives".into());
    assert_done(&bench.apply().await, boot);
    bench.assert_converged(boot).await;
    let world = bench.look().await.0;
    for guest in world.guests.values() {
        let config = client(&bench).vm_config(&guest.host, guest.vmid).await.unwrap();
        let storage = if guest.template { "bases" } else { "local-lvm" };
        let disks: Vec<&str> = config.disks.values().map(|disk| disk.storage()).collect();
        assert_eq!(disks, [storage; 2], "{}: {:?}", guest.name, config.raw);
        if !guest.template {
            assert!(config.raw["ide2"].starts_with("drives:vm-"), "{:?}", config.raw["ide2"]);
        }
    }
    let volumes = bench.lab.datacenter().volumes();
    assert!(volumes.iter().any(|volume| volume.contains("local:import/talos-v")), "{volumes:?}");
    and_back(&bench, Way::new(boot, Giving::Nothing)).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_on_the_way_from_a_template_is_survived() {
    faults_on(TEMPLATE).await;
}

/// What is agreed to is what was shown: a template that changed meanwhile stays, and so does one that came meanwhile.
#[tokio::test(start_paused = true)]
async fn what_changed_between_the_look_and_the_answer_stays() {
    let mut bench = Bench::booting(TEMPLATE, 1, 1);
    assert_done(&bench.apply().await, "apply");
    bench.cluster.talos.version = "1.12.1".parse().unwrap();
    let (world, plan) = prunable(&bench, ALL).await;
    let mut plan = plan.unwrap();
    // One was not there when the question was asked, the other was made again of another version.
    assert_eq!(plan.steps.len(), 2, "{:#?}", plan.steps);
    plan.steps.truncate(1);
    assert_done(&bench.destroy().await, "destroy");
    assert_done(&bench.apply().await, "apply again");
    let report = bench.execute(&world, &plan).await;
    let failed = errors(&report);
    assert!(failed.len() == 1 && failed[0].contains("changed after the plan was made"), "{failed:#?}");
    let rows = bench.engine().templates(&bench.cluster).await.unwrap().templates;
    assert_eq!(rows.iter().map(|row| row.vmid).collect::<Vec<_>>(), [998, 999]);
}

/// A protected cluster loses no template, and the checker sees to it by itself.
#[tokio::test(start_paused = true)]
async fn a_protected_cluster_keeps_its_templates() {
    let mut bench = Bench::booting(TEMPLATE, 1, 0);
    assert_done(&bench.apply().await, "apply");
    let (world, plan) = prunable(&bench, ALL).await;
    let plan = plan.unwrap();
    bench.cluster.protect = true;
    assert!(matches!(prunable(&bench, ALL).await.1, Err(PlanError::Protected { .. })));
    let findings = daedal_planner::check(&bench.cluster, &world, &plan);
    assert!(findings.iter().any(|one| one.text.contains("is protected")), "{findings:#?}");
    let asked = prunable(&bench, Pruning { protected: true, ..ALL }).await;
    assert_done(&bench.execute(&asked.0, &asked.1.unwrap()).await, "prune");
    assert_eq!(bench.engine().templates(&bench.cluster).await.unwrap().templates, []);
}

#[tokio::test(start_paused = true)]
async fn every_death_while_pruning_templates_is_survived() {
    let bench = Bench::booting(TEMPLATE, 1, 1);
    assert_done(&bench.apply().await, "apply");
    bench.lab.save(bench.folder.path()).unwrap();
    let run = async |bench: &Bench, effects: Effects| {
        let (world, plan) = prunable(bench, ALL).await;
        let engine = bench.engine_through(effects);
        engine.execute(&bench.cluster, &world, &plan.unwrap(), &Run::silent()).await.unwrap()
    };
    let (whole, copy) = (Killer::never(), bench.copy());
    assert_done(&run(&copy, Effects::through(whole.clone())).await, "the run nobody kills");
    assert_eq!(whole.seen().len(), 2);
    for (effect, point) in deaths(whole.seen()) {
        let (bench, after) = (bench.copy(), format!("death {point:?} {effect}"));
        let killer = Killer::at(&effect, point);
        assert!(
            killer.run(run(&bench, Effects::through(killer.clone()))).await.is_none(),
            "{after}: it went on"
        );
        assert_done(&run(&bench, Effects::default()).await, &after);
        assert_eq!(bench.engine().templates(&bench.cluster).await.unwrap().templates, [], "{after}");
        bench.assert_converged(&after).await;
    }
}
