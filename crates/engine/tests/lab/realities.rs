//! What befalls a datacenter while a run is under way: patience or clear words, never damage.

use std::time::Duration;

use daedal_engine::{CheckSubject, CheckVerdict, Event, Run, chain};
use daedal_lab::faults::{Fault, TaskFault, When};
use daedal_lab::proxmox::{HostSpec, Realities};
use daedal_planner::{StepId, plan_apply};
use daedal_proxmox::{TaskWatcher, UpdateVm};

use crate::strangers::proxmox;
use crate::support::{Bench, assert_done, errors};

/// An apply during which something happens, and later something else.
async fn apply_while(
    bench: &Bench,
    after: Duration,
    happens: impl FnOnce(),
    later: Duration,
    ends: impl FnOnce(),
) -> daedal_engine::Report {
    apply_and_listen(bench, after, happens, later, ends).await.0
}

/// The same, with the steps that gave up on a peer meanwhile.
async fn apply_and_listen(
    bench: &Bench,
    after: Duration,
    happens: impl FnOnce(),
    later: Duration,
    ends: impl FnOnce(),
) -> (daedal_engine::Report, Vec<StepId>) {
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    let (run, mut events) = Run::new();
    let meanwhile = async {
        tokio::time::sleep(after).await;
        happens();
        tokio::time::sleep(later).await;
        ends();
    };
    let (report, ()) = tokio::join!(engine.execute(&bench.cluster, &world, &plan, &run), meanwhile);
    drop(run);
    let mut gave_up = Vec::new();
    while let Some(event) = events.recv().await {
        if let Event::StepGaveUp { of, .. } = event {
            gave_up.push(of.id);
        }
    }
    (report.unwrap(), gave_up)
}

fn three_hosts() -> Bench {
    Bench::with(1, 1, |datacenter| datacenter.hosts.push(HostSpec::new("cyclops", 64, 256 << 30)))
}

#[tokio::test(start_paused = true)]
async fn a_short_loss_of_quorum_is_waited_out() {
    let bench = three_hosts();
    let dc = bench.lab.datacenter().clone();
    let lost = || {
        dc.set_host_online("cyclops", false);
        dc.set_host_online("boreas", false);
    };
    let back = || {
        dc.set_host_online("cyclops", true);
        dc.set_host_online("boreas", true);
    };
    let report = apply_while(&bench, Duration::from_secs(2), lost, Duration::from_secs(45), back).await;
    // Whatever was not waited for, the next run does; nothing but the outage was in the way.
    let outage =
        |said: &String| said.contains("no quorum") || said.contains("no answer") || said.contains("route");
    assert!(errors(&report).iter().all(outage), "{:?}", errors(&report));
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("quorum is back").await;
}

#[tokio::test(start_paused = true)]
async fn a_lasting_loss_of_quorum_is_told_and_nothing_is_half_done() {
    let bench = three_hosts();
    let dc = bench.lab.datacenter().clone();
    dc.set_host_online("cyclops", false);
    // Two of three are a quorum; then a second one goes that carries nothing of ours.
    let mut bench = bench;
    bench.cluster.proxmox.hosts.retain(|host| host.name == "atlas");
    let lost = || dc.set_host_online("boreas", false);
    let report = apply_while(&bench, Duration::from_secs(1), lost, Duration::from_secs(3600), || {}).await;
    let said = errors(&report).join("\n");
    assert!(said.contains("no quorum"), "{said}");
    assert_eq!(bench.bootstraps(), 0);
    let live = bench.engine().live_checks(&bench.cluster).await;
    assert!(
        live.checks.iter().any(|check| check.what == CheckSubject::Quorum && check.found.contains("boreas")),
        "{live:?}"
    );
    dc.set_host_online("boreas", true);
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("quorum is back").await;
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_fills_up_is_told_and_leaves_no_orphans() {
    for (store, after) in [("atlas/local-lvm", 1000), ("atlas/local", 50)] {
        let bench = Bench::new(1, 1);
        let dc = bench.lab.datacenter().clone();
        let full = || assert!(dc.fill(store, 1000));
        let report =
            apply_while(&bench, Duration::from_millis(after), full, Duration::from_secs(1), || {}).await;
        let said = errors(&report).join("\n");
        assert!(!report.succeeded(), "{store}");
        assert!(
            said.contains("insufficient free space")
                || said.contains("No space left")
                || said.contains("exit code 3"),
            "{store}: {said}"
        );
        assert!(dc.fill(store, 400 << 30));
        assert_done(&bench.apply().await, "apply");
        bench.assert_converged(store).await;
    }
}

/// What a file system keeps for itself is neither used nor free.
#[tokio::test(start_paused = true)]
async fn only_what_a_storage_calls_available_is_free() {
    let bench = Bench::new(1, 1);
    let dc = bench.lab.datacenter();
    assert!(["atlas/local-lvm", "boreas/local-lvm"].iter().all(|store| dc.reserve(store, 799 << 30)));
    let (world, plan) = bench.look().await;
    assert_eq!(world.hosts["atlas"].storages["local-lvm"].available, 1 << 30);
    let error = plan.unwrap_err().to_string();
    assert!(error.contains("disk: wanted") && error.contains("free 1 GiB"), "{error}");
}

/// Whatever is overcommitted, Proxmox starts no VM with more vCPUs than its host has CPUs.
#[tokio::test(start_paused = true)]
async fn a_vm_with_more_vcpus_than_its_host_has_cpus_is_refused_before_it_is_made() {
    let mut bench =
        Bench::with(1, 1, |datacenter| datacenter.hosts.iter_mut().for_each(|host| host.cpus = 2));
    bench.cluster.proxmox.cpu_overcommit = 16.0;
    for node in &mut bench.cluster.nodes {
        node.cores = 4;
    }
    let error = bench.look().await.1.unwrap_err().to_string();
    assert!(error.contains("vCPU of one VM: wanted 4, at most the host's 2"), "{error}");
    let report = bench.engine().live_checks(&bench.cluster).await;
    let capacity = report.checks.iter().find(|check| check.what == CheckSubject::Capacity).unwrap();
    assert_eq!(capacity.verdict, CheckVerdict::Bad, "{capacity:?}");
    // What happens to whoever does it all the same.
    for node in &mut bench.cluster.nodes {
        node.cores = 2;
    }
    assert_done(&bench.apply().await, "apply");
    let (vmid, host, ..) = bench.vms().remove(1);
    let client = proxmox(&bench);
    let tasks = TaskWatcher::new(&client);
    tasks.finish(&client.stop_vm(&host, vmid).await.unwrap(), "stop").await.unwrap();
    client.update_vm(&host, vmid, &UpdateVm::new().set("cores", 3)).await.unwrap();
    let started = tasks.finish(&client.start_vm(&host, vmid).await.unwrap(), "start").await;
    let said = chain(&started.unwrap_err());
    assert!(said.contains("MAX 2 vcpus allowed per VM on this node"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_holds_a_vm_is_waited_for() {
    let mut bench = Bench::created().await;
    let dc = bench.lab.datacenter().clone();
    for node in &mut bench.cluster.nodes {
        node.cores += 1;
    }
    let vmids: Vec<u32> = bench.cluster.nodes.iter().map(|node| node.vmid).collect();
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    // The backup begins after the plan was made.
    assert!(vmids.iter().all(|vmid| dc.hold(*vmid, "backup")));
    let run = Run::silent();
    let began = tokio::time::Instant::now();
    let free = async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(vmids.iter().all(|vmid| dc.unlock(*vmid)));
    };
    let (report, ()) = tokio::join!(engine.execute(&bench.cluster, &world, &plan, &run), free);
    assert_done(&report.unwrap(), "apply");
    assert!(began.elapsed() >= Duration::from_secs(600), "{:?}", began.elapsed());
    bench.assert_converged("the backup is over").await;
}

/// A host is away for longer than a step waits for it. The run goes on with what is elsewhere, and when the host is back, what gave
/// up is begun again: all is done in this run.
#[tokio::test(start_paused = true)]
async fn a_host_that_goes_and_comes_back_costs_time_only() {
    let mut bench = three_hosts();
    bench
        .cluster
        .placement
        .pin
        .extend([("cp-1".into(), "atlas".into()), ("worker-1".into(), "boreas".into())]);
    // The control plane keeps the run busy.
    let slow = When::call("POST", "/nodes/atlas/qemu").nth(1);
    bench.lab.faults().inject(slow, Fault::Task(TaskFault::Slower(300)));
    let dc = bench.lab.datacenter().clone();
    let gone = || dc.set_host_online("boreas", false);
    let back = || dc.set_host_online("boreas", true);
    let (at, away) = (Duration::from_millis(500), Duration::from_secs(200));
    let (report, gave_up) = apply_and_listen(&bench, at, gone, away, back).await;
    assert!(!gave_up.is_empty(), "nothing waited for the host in vain: {:?}", report.took);
    assert_done(&report, "the run in which the host came back");
    bench.assert_converged("the host is back").await;
}

#[tokio::test(start_paused = true)]
async fn creates_that_all_answer_with_a_596_are_made_once() {
    let bench = Bench::new(3, 2);
    bench.lab.faults().inject(When::call("POST", "/nodes/*/qemu"), Fault::TimedOutAfter);
    assert_done(&bench.apply().await, "apply");
    bench.lab.faults().clear();
    bench.assert_converged("596s").await;
}

#[tokio::test(start_paused = true)]
async fn every_reality_can_be_switched_off_without_being_missed() {
    let kinds: [fn(&mut Realities); 5] = [
        |realities| realities.worker_limit = false,
        |realities| realities.lock_timeouts = false,
        |realities| realities.stale_lists = false,
        |realities| realities.proxy_timeout = false,
        |realities| realities.quorum = false,
    ];
    for (index, kind) in kinds.into_iter().enumerate() {
        let bench = Bench::with(1, 1, |datacenter| kind(&mut datacenter.realities));
        assert_done(&bench.apply().await, "apply");
        bench.assert_converged(&format!("reality {index}")).await;
    }
}

/// A command of the storage took too long for Proxmox: the VM is made at the next try.
#[tokio::test(start_paused = true)]
async fn a_storage_command_that_timed_out_is_tried_again() {
    let bench = Bench::with(1, 1, |_| {});
    let create = When::call("POST", "/nodes/*/qemu");
    bench.lab.faults().inject(create.nth(1), Fault::Task(TaskFault::StorageTimeout));
    assert_done(&bench.apply().await, "apply");
    assert!(bench.look().await.1.unwrap().is_empty());
}

/// Making a disk takes so long that whoever queues behind three others loses patience. Fewer are made at once, none fails,
/// and long tasks are not asked for all the time.
#[tokio::test(start_paused = true)]
async fn creates_on_a_slow_storage_are_paced() {
    let bench = Bench::with(3, 9, |_| {});
    for host in ["atlas", "boreas"] {
        assert!(bench.lab.datacenter().slow_down(&format!("{host}/local-lvm"), Duration::from_secs(8)));
    }
    assert_done(&bench.apply().await, "apply");
    let log = bench.lab.faults().log();
    let creates = log.iter().filter(|call| call.method == "POST" && call.path.ends_with("/qemu")).count();
    assert!(creates <= 12 + 2, "{creates} creates for 12 VMs");
    let looks = log.iter().filter(|call| call.path.ends_with("/tasks")).count();
    assert!(looks <= 250, "{looks} looks at tasks");
    bench.assert_converged("apply").await;
}
