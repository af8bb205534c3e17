//! Create, look again, destroy, create again.

use std::time::Duration;

use daedal_engine::{CheckSubject, StatusReport};
use daedal_planner::{Action, EtcdView, Plan};

use crate::support::{Bench, assert_done, errors};

#[tokio::test(start_paused = true)]
async fn a_cluster_comes_and_goes_and_comes_again_the_same() {
    let bench = Bench::new(3, 2);
    let report = bench.apply().await;
    assert_done(&report, "apply");
    bench.assert_converged("apply").await;

    let status = bench.engine().status(&bench.cluster).await.unwrap();
    assert_eq!(status.healthy, Some(true), "{status:#?}");
    let first: Vec<_> = bench.lab.datacenter().vms();

    let report = bench.destroy().await;
    assert_done(&report, "destroy");
    bench.assert_destroyed("destroy");

    let report = bench.apply().await;
    assert_done(&report, "second apply");
    assert_eq!(bench.lab.datacenter().vms(), first);
    let (world, plan) = bench.look().await;
    assert!(plan.unwrap().is_empty());
    assert_eq!(StatusReport::of(&bench.cluster, &world).healthy, Some(true));
}

/// Mission: E9
#[tokio::test(start_paused = true)]
async fn the_outputs_are_there_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new(1, 1);
    assert_done(&bench.apply().await, "apply");
    let names = [
        "talosconfig",
        "kubeconfig",
        "secrets.yaml",
        "controlplane.yaml",
        "worker.yaml",
        "machines.json",
        "nodes/cp-1.yaml",
        "nodes/worker-1.yaml",
    ];
    for name in names {
        let path = bench.outputs().join(name);
        let mode =
            std::fs::metadata(&path).unwrap_or_else(|error| panic!("{name}: {error}")).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let machines: serde_json::Value =
        serde_json::from_slice(&std::fs::read(bench.outputs().join("machines.json")).unwrap()).unwrap();
    assert_eq!(machines[0]["name"], "cp-1");
    assert_eq!(machines[0]["vmid"], 300);
    assert_eq!(machines[0]["address"], "10.0.1.1");
    assert!(machines[0]["host"].is_string());

    // A file that was changed or lost is written anew, and that is all.
    std::fs::write(bench.outputs().join("kubeconfig"), "x").unwrap();
    let (_, plan) = bench.look().await;
    assert_eq!(plan.unwrap().steps.len(), 1);
    assert_done(&bench.apply().await, "second apply");
    bench.assert_converged("second apply").await;
}

#[tokio::test(start_paused = true)]
async fn few_calls_are_made() {
    let bench = Bench::new(3, 5);
    let report = bench.apply().await;
    assert_done(&report, "apply");
    let made = bench.counts();
    let nodes = bench.cluster.nodes.len() as u64;
    // Six mutating calls a node (upload, create, grow, start, eject, delete), and one download per host.
    assert_eq!(made.mutating, 6 * nodes + 2, "{made:#?}");
    assert_eq!(made.failed, 0, "{made:#?}");
    let before = bench.counts().total;
    bench.assert_converged("apply").await;
    let looked = bench.counts().total - before;
    // Version, everything, and per host its VMs, its files and its disks; then each VM's config.
    assert!(looked <= nodes + 2 + 3 * 2, "{looked} calls: {:#?}", bench.counts());
}

#[tokio::test(start_paused = true)]
async fn waits_are_not_much_longer_than_the_critical_path() {
    let bench = Bench::new(3, 3);
    let report = bench.apply().await;
    assert_done(&report, "apply");
    let (took, critical) = (report.took, report.critical_time());
    assert!(took.as_secs_f64() / critical.as_secs_f64() < 1.10, "{took:?} over {critical:?}");
    assert!(took < Duration::from_secs(15 * 60), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn stopping_leaves_the_rest_and_a_later_run_goes_on() {
    let bench = Bench::new(1, 1);
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = daedal_planner::plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    let run = daedal_engine::Run::silent();
    let stop = run.stop.clone();
    let (report, ()) = tokio::join!(engine.execute(&bench.cluster, &world, &plan, &run), async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        stop.cancel();
    });
    let report = report.unwrap();
    assert!(report.cancelled);
    assert!(report.left().count() > 0);
    assert_eq!(errors(&report), Vec::<String>::new());
    assert!(report.took < Duration::from_secs(120), "{:?}", report.took);
    assert_done(&bench.apply().await, "second apply");
    bench.assert_converged("second apply").await;
}

/// Mission: H14
#[tokio::test(start_paused = true)]
async fn live_checks_pass_on_a_good_lab_and_name_the_fix_on_a_bad_one() {
    let mut bench = Bench::new(1, 1);
    let report = bench.engine().live_checks(&bench.cluster).await;
    let taken = |report: &daedal_engine::LiveReport| {
        report.checks.iter().filter(|check| matches!(check.what, CheckSubject::Addresses(Some(_)))).count()
    };
    // The lab refuses what it does not have. On a real network only a host that is there does so.
    assert_eq!(taken(&report), 3, "{report:#?}");
    bench.cluster.reach = daedal_inventory::Reach::Proxy("http://127.0.0.1:1".into());
    let report = bench.engine().live_checks(&bench.cluster).await;
    assert!(report.passed(), "{report:#?}");

    let bench = Bench::with(1, 1, |spec| {
        for host in &mut spec.hosts {
            for storage in host.storages.iter_mut().filter(|storage| storage.name == "local") {
                storage.content = vec!["backup".into(), "iso".into()];
            }
        }
    });
    let report = bench.engine().live_checks(&bench.cluster).await;
    assert!(!report.passed());
    let fixes: Vec<_> =
        report.checks.iter().filter_map(|check| check.fix.as_ref()).map(ToString::to_string).collect();
    assert!(fixes.iter().any(|fix| fix == "pvesm set local --content backup,import,iso"), "{fixes:#?}");
}

/// Callers may move a look or a run between threads.
const _: fn(
    &daedal_engine::Engine,
    &daedal_inventory::Cluster,
    &daedal_planner::World,
    &daedal_planner::Plan,
    &daedal_engine::Run,
) = |engine, cluster, world, plan, run| {
    fn send<T: Send>(_: T) {}
    send(engine.observe(cluster));
    send(engine.status(cluster));
    send(engine.live_checks(cluster));
    send(engine.execute(cluster, world, plan, run));
};

#[tokio::test(start_paused = true)]
async fn a_cluster_that_boots_is_never_taken_for_one_without_etcd() {
    let saved = Bench::new(3, 0);
    assert_done(&saved.apply().await, "apply");
    saved.lab.save(saved.folder.path()).unwrap();
    let mut not_there_yet = 0;
    // Its etcd is said to be preparing for a second, some nine seconds after the start.
    for tenths in (70..110).step_by(6) {
        let bench = saved.copy();
        let proxmox = crate::strangers::proxmox(&bench);
        let tasks = daedal_proxmox::TaskWatcher::new(&proxmox);
        let vms = bench.lab.datacenter().vms();
        for (vmid, host, ..) in &vms {
            tasks.finish(&proxmox.stop_vm(host, *vmid).await.unwrap(), "stop").await.unwrap();
        }
        for (vmid, host, ..) in &vms {
            proxmox.start_vm(host, *vmid).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(tenths * 100)).await;
        let (world, plan) = bench.look().await;
        not_there_yet += usize::from(world.nodes.values().all(|node| node.etcd != EtcdView::Member));
        let bootstraps =
            |plan: Plan| plan.steps.iter().any(|step| matches!(step.action, Action::Bootstrap { .. }));
        assert!(!plan.is_ok_and(bootstraps), "{tenths} tenths after the start: {:#?}", world.nodes);
    }
    assert!(not_there_yet > 0);
}
