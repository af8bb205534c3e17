//! What other people do to the same datacenter by hand: told, and never mistaken for our own doing.

use daedal_engine::{CheckSubject, CheckVerdict, Run};
use daedal_lab::faults::{Fault, TaskFault, When};
use daedal_lab::proxmox::{TokenSpec, VmSpec};
use daedal_machine::vm::Value;
use daedal_planner::{Action, Impact, Level, Ownership, VmConfig, plan_apply, plan_destroy};
use daedal_proxmox::{Client, CreateVm, TaskWatcher, Token, Trust, UpdateVm};
use daedal_words::Told as _;

use crate::support::{Bench, CANARY, TOKEN, assert_done, cluster, cluster_booting, errors};

const ROOT: &str = "root@pam!shell";

fn client(bench: &Bench, token: &str) -> Client {
    Client::builder(&bench.cluster.proxmox.endpoint, Token::new(token, CANARY).unwrap())
        .dialer(bench.lab.dialer())
        .trust(Trust::Insecure)
        .build()
        .unwrap()
}

fn with_root(control_planes: usize, workers: usize) -> Bench {
    Bench::with(control_planes, workers, |spec| spec.tokens.push(TokenSpec::administrator(ROOT, CANARY)))
}

/// Root makes a VM of this number and it comes to nothing: what is left shows `lock: create` only.
async fn half_made_by_root(bench: &Bench, vmid: u32, host: &str, fault: TaskFault) {
    let when = When::call("POST", &format!("/nodes/{host}/qemu")).nth(1);
    bench.lab.faults().inject(when, Fault::Task(fault));
    let root = client(bench, ROOT);
    let theirs =
        CreateVm { vmid, name: "mailserver".into(), cores: 1, memory_mib: 512, ..CreateVm::default() };
    if let Ok(upid) = root.create_vm(host, &theirs).await {
        assert!(TaskWatcher::new(&root).finish(&upid, "create").await.is_err());
    }
    bench.lab.faults().clear();
    assert!(bench.lab.datacenter().vms().iter().any(|(id, ..)| *id == vmid));
}

#[tokio::test(start_paused = true)]
async fn a_strangers_create_on_our_number_is_not_called_our_stuck_one() {
    let bench = with_root(1, 1);
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    // Between the plan and its execution.
    half_made_by_root(&bench, 1000, "boreas", TaskFault::Dies).await;
    let report = engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    let told = errors(&report).join("\n");
    assert!(told.contains("not ours to touch") && !told.contains("stuck"), "{told}");
    assert!(!told.contains("qm destroy"), "{told}");
    let (world, _) = bench.look().await;
    assert_eq!(world.guests[&1000].ownership, Ownership::Foreign);
}

#[tokio::test(start_paused = true)]
async fn a_create_of_ours_that_ended_long_ago_proves_nothing_about_a_bare_vm() {
    let bench = with_root(1, 1);
    assert_done(&bench.apply().await, "apply");
    let host = bench.look().await.0.guests[&1000].host.clone();
    assert_done(&bench.destroy().await, "destroy");
    // No task of theirs ever shows up; ours, long ended, is the newest.
    half_made_by_root(&bench, 1000, &host, TaskFault::NoWorker).await;
    let (world, plan) = bench.look().await;
    assert_eq!(world.guests[&1000].ownership, Ownership::Foreign);
    let notes = format!("{:#?}", plan.unwrap().notes);
    assert!(!notes.contains("qm destroy"), "{notes}");
}

#[tokio::test(start_paused = true)]
async fn a_protected_vm_is_told_before_anything_of_it_is_stopped() {
    let bench = with_root(1, 1);
    assert_done(&bench.apply().await, "apply");
    let host = bench.look().await.0.guests[&1000].host.clone();
    let root = client(&bench, ROOT);
    root.update_vm(&host, 1000, &UpdateVm::new().set("protection", 1)).await.unwrap();
    let (world, _) = bench.look().await;
    let plan = plan_destroy(&bench.cluster, &world).unwrap();
    let note = plan.notes.iter().find(|note| note.level == Level::Problem).unwrap();
    assert!(note.text().contains("protected against removal"), "{note:?}");
    assert_eq!(note.fix(), Some(format!("on {host}: qm set 1000 --protection 0").into()));
    bench.destroy().await;
    let left = bench.lab.datacenter().vms();
    assert_eq!(left.iter().map(|vm| (vm.0, vm.3)).collect::<Vec<_>>(), [(1000, true)], "it was stopped");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_set_on_a_network_card_outlives_its_correction() {
    let bench = with_root(1, 1);
    assert_done(&bench.apply().await, "apply");
    let host = bench.look().await.0.guests[&1000].host.clone();
    let root = client(&bench, ROOT);
    let mut nic = root.vm_config(&host, 1000).await.unwrap().nics["net0"].clone();
    nic.vlan = Some(7);
    nic.others = [("queues".to_owned(), "4".to_owned()), ("rate".to_owned(), "10".to_owned())].into();
    root.update_vm(&host, 1000, &UpdateVm::new().set("net0", nic.property_string())).await.unwrap();
    assert_done(&bench.apply().await, "apply");
    let corrected = root.vm_config(&host, 1000).await.unwrap().nics["net0"].clone();
    assert_eq!((corrected.vlan, corrected.others), (None, nic.others));
}

/// The inventory gives one node other vCPUs.
fn with_cores(mut bench: Bench, name: &str, cores: u32) -> Bench {
    for node in bench.cluster.nodes.iter_mut().filter(|node| node.name == name) {
        node.cores = cores;
    }
    bench
}

fn runs(world: &daedal_planner::World, vmid: u32) -> Option<u32> {
    match world.guests[&vmid].config.as_ref()?.runs.as_ref()?.options["cores"] {
        Value::Count(cores) => Some(cores),
        ref other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn hardware_that_waits_for_the_next_start_is_a_difference_until_a_restart_takes_it_in() {
    let bench = with_root(1, 1);
    assert_done(&bench.apply().await, "apply");
    let before = bench.cluster.nodes.iter().find(|node| node.name == "worker-1").unwrap().cores;
    let mut bench = with_cores(bench, "worker-1", 6);
    bench.cluster.restarts = daedal_inventory::Restarts::Never;
    assert_done(&bench.apply().await, "apply");
    let (world, plan) = bench.look().await;
    assert_eq!(runs(&world, 1000), Some(before));
    let plan = plan.unwrap();
    assert!(plan.is_empty() && !plan.finds_no_difference(), "{:#?}", plan.steps);
    assert_eq!(
        daedal_words::difference(&plan.differences[0]),
        format!("vCPUs 6 declared, {before} until its next start")
    );

    bench.cluster.restarts = daedal_inventory::Restarts::Allowed;
    let plan = bench.look().await.1.unwrap();
    let restarts = |step: &&daedal_planner::Step| matches!(step.action, Action::RestartVm { vmid: 1000 });
    assert_eq!(plan.steps.iter().find(restarts).unwrap().impact, Impact::Restart, "{:#?}", plan.steps);
    assert_done(&bench.apply().await, "restart");
    let (world, plan) = bench.look().await;
    assert_eq!((runs(&world, 1000), world.guests[&1000].cores), (None, 6));
    assert!(plan.unwrap().finds_no_difference());
}

#[tokio::test(start_paused = true)]
async fn control_planes_are_restarted_one_at_a_time_for_their_hardware() {
    let mut bench = Bench::created_large().await;
    for node in &mut bench.cluster.nodes {
        node.cores += 1;
    }
    let plan = bench.look().await.1.unwrap();
    assert_eq!((plan.quorum.before, plan.quorum.lowest), (3, 2));
    let report = bench.apply().await;
    assert_done(&report, "restart");
    let mut spans: Vec<_> = report
        .steps
        .iter()
        .filter(|step| step.stage == "restarting the VM")
        .map(|step| (step.start.unwrap(), step.end.unwrap()))
        .collect();
    spans.sort();
    assert_eq!(spans.len(), 5);
    assert!(spans.windows(2).all(|pair| pair[1].0 >= pair[0].1), "one node at a time: {spans:?}");
    bench.assert_converged("restart").await;
}

#[tokio::test(start_paused = true)]
async fn a_hot_plug_that_fails_is_told_and_never_called_as_declared() {
    let mut bench = Bench::with(1, 1, |spec| {
        for host in &mut spec.hosts {
            host.portless = vec!["vmbr0".to_owned()];
        }
    });
    assert_done(&bench.apply().await, "apply");
    bench.cluster.proxmox.vlan = Some(7);
    for _ in 0..2 {
        let report = bench.apply().await;
        let told = errors(&report).join("\n");
        assert!(told.contains("no physical interface on bridge 'vmbr0'"), "{told}");
        assert!(told.contains("Proxmox keeps it for its next start"), "{told}");
        let (world, plan) = bench.look().await;
        let config = world.guests[&1000].config.as_ref().unwrap();
        let vlan = |config: &VmConfig| match &config.options["net0"] {
            Value::Card(card) => card.vlan,
            other => panic!("{other:?}"),
        };
        assert_eq!((vlan(config), vlan(config.runs.as_ref().unwrap())), (Some(7), None));
        // Another try, and no restart into a card that cannot be plugged in.
        let plan = plan.unwrap();
        assert!(plan.steps.iter().any(|step| matches!(step.action, Action::UpdateVm { vmid: 1000, .. })));
        assert!(!plan.steps.iter().any(|step| matches!(step.action, Action::RestartVm { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_that_fails_while_its_destruction_waits_leaves_nothing() {
    let bench = Bench::new(1, 1);
    let when = When::call("POST", "/nodes/*/qemu").nth(1);
    bench.lab.faults().inject(when, Fault::Task(TaskFault::Slower(20)));
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    let run = Run::silent();
    let looked = async {
        // The run dies while the slow create is under way.
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            let world = bench.engine().observe(&bench.cluster).await.unwrap();
            let half = world.guests.values().find_map(|guest| match &guest.ownership {
                Ownership::HalfMade { task_running: true, upid, .. } => {
                    Some((guest.host.clone(), upid.clone()))
                }
                _ => None,
            });
            if let Some(half) = half {
                return (world, half);
            }
        }
    };
    let (world, (host, upid)) = tokio::select! {
        found = looked => found,
        _ = engine.execute(&bench.cluster, &world, &plan, &run) => unreachable!("the create is slow"),
    };
    let plan = plan_destroy(&bench.cluster, &world).unwrap();
    client(&bench, TOKEN).abort_task(&upid.parse().unwrap()).await.unwrap();
    let report = bench.engine().execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    assert_done(&report, &format!("destroy after an aborted create on {host}"));
    assert_done(&bench.destroy().await, "destroy once more");
    bench.assert_destroyed("destroy");
}

#[tokio::test(start_paused = true)]
async fn the_files_of_a_node_that_left_are_removed() {
    let bench = Bench::new(1, 1);
    assert_done(&bench.apply().await, "apply");
    let file = bench.outputs().join("nodes/worker-1.yaml");
    let own = bench.outputs().join("nodes/notes.txt");
    std::fs::write(&own, "mine").unwrap();
    assert!(file.exists());
    let bench = Bench { cluster: cluster(1, 0), ..bench };
    bench.apply().await;
    assert!(!file.exists(), "it is full of keys");
    assert!(own.exists(), "it was somebody else's");
}

#[tokio::test(start_paused = true)]
async fn a_live_check_names_the_hosts_that_exist_and_what_the_plan_would_stumble_over() {
    let mut bench = with_root(1, 1);
    half_made_by_root(&bench, 1000, "boreas", TaskFault::Dies).await;
    let report = bench.engine().live_checks(&bench.cluster).await;
    let worker: Vec<_> = report.checks.iter().filter(|check| check.what.to_string() == "worker-1").collect();
    assert_eq!(worker.len(), 1, "{report:#?}");
    assert_eq!(worker[0].verdict, CheckVerdict::Bad);
    assert!(!report.checks.iter().any(|check| matches!(check.what, CheckSubject::Vmid(_))), "{report:#?}");

    bench.cluster.proxmox.hosts[1].name = "boreass".into();
    let report = bench.engine().live_checks(&bench.cluster).await;
    let host = report.checks.iter().find(|check| check.what.to_string() == "host boreass").unwrap();
    assert_eq!(host.fix, Some("hosts that exist: atlas, boreas".into()));
}

/// A storage plug-in of Kubernetes attaches volumes of its own to our VMs: they are neither compared nor counted nor grown, nor
/// does anything advise against them, and our own disks go where there is room.
#[tokio::test(start_paused = true)]
async fn a_volume_of_another_owner_is_left_alone() {
    let claim = |vmid, host: &str| VmSpec {
        vmid,
        host: host.into(),
        config: [("name".to_owned(), "claims".to_owned())].into(),
        disk: Some(("local-lvm".into(), 8 << 30)),
        running: false,
        pool: None,
    };
    let mut bench = Bench::with(1, 1, |spec| {
        spec.tokens.push(TokenSpec::administrator(ROOT, CANARY));
        spec.vms.extend([claim(9998, "atlas"), claim(9999, "boreas")]);
    });
    assert_done(&bench.apply().await, "apply");
    let before = bench.look().await.0;
    let host = before.guests[&1000].host.clone();
    let owner = if host == "atlas" { 9998 } else { 9999 };
    let (root, theirs) = (client(&bench, ROOT), format!("local-lvm:vm-{owner}-disk-0"));
    root.update_vm(&host, 1000, &UpdateVm::new().set("scsi1", &theirs)).await.unwrap();

    let (world, plan) = bench.look().await;
    let plan = plan.unwrap();
    let advised = plan.notes.iter().any(|note| note.about() == "worker-1");
    assert!(plan.is_empty() && !advised, "{:#?}\n{:#?}", plan.steps, plan.notes);
    let storage = "local-lvm";
    assert_eq!(world.guests[&1000].disk_in_all(storage), before.guests[&1000].disk_in_all(storage));

    // A disk of our own takes the next slot, and is found there by its serial.
    bench.cluster = cluster_booting("{}\n  hardware: {disks: [{size: 10GiB}]}", 1, 1);
    assert_done(&bench.apply().await, "a disk of our own");
    let config = root.vm_config(&host, 1000).await.unwrap();
    assert_eq!(
        (config.disks["scsi1"].volid.as_str(), config.disks["scsi1"].size),
        (theirs.as_str(), Some(8 << 30))
    );
    assert_eq!(config.disks["scsi2"].options["serial"], "daedal-disk-1");
    assert!(bench.look().await.1.unwrap().is_empty());
    for node in &mut bench.cluster.nodes {
        node.disks[0].size = 20 << 30;
    }
    assert_done(&bench.apply().await, "it grows");
    let config = root.vm_config(&host, 1000).await.unwrap();
    assert_eq!((config.disks["scsi1"].size, config.disks["scsi2"].size), (Some(8 << 30), Some(20 << 30)));
    assert!(bench.look().await.1.unwrap().is_empty());

    // The volume outlives the VM it was attached to.
    assert_done(&bench.destroy().await, "destroy");
    assert!(
        bench.lab.datacenter().volumes().iter().any(|volume| volume.ends_with(&theirs)),
        "{theirs} is gone"
    );
}
