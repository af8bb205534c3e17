//! What is not ours, or not whole: never harmed, clearly told.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daedal_engine::StepState;
use daedal_lab::faults::{Fault, TaskFault, When};
use daedal_lab::proxmox::VmSpec;
use daedal_planner::{Level, Ownership, PlanError, TalosView};
use daedal_store::SecretBytes;
use daedal_talos_config::SecretsBundle;
use daedal_words::Told as _;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::boot::{CLOUD_INIT, IMAGE_MAINTENANCE, ISO_MAINTENANCE, TEMPLATE_BY_ISO};
use crate::support::{Bench, TOKEN, Way, assert_done, cluster_from, errors, secrets};

fn vm(vmid: u32, host: &str, config: &[(&str, &str)]) -> VmSpec {
    VmSpec {
        vmid,
        host: host.into(),
        config: config
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        disk: Some(("local-lvm".into(), 8 << 30)),
        running: true,
        pool: None,
    }
}

/// The VM with this number, as the lab has it.
fn as_saved(bench: &Bench, vmid: u32) -> serde_json::Value {
    let saved = serde_json::to_value(bench.lab.datacenter().save()).unwrap();
    saved["vms"][vmid.to_string()].clone()
}

#[tokio::test(start_paused = true)]
async fn a_foreign_vm_on_our_number_is_told_and_never_touched() {
    let bench = Bench::with(1, 2, |spec| spec.vms.push(vm(1000, "boreas", &[("name", "mailserver")])));
    let before = as_saved(&bench, 1000);
    let (world, plan) = bench.look().await;
    assert_eq!(world.guests[&1000].ownership, Ownership::Foreign);
    let plan = plan.unwrap();
    assert!(
        plan.notes.iter().any(|note| note.level == Level::Problem && note.text().contains("mailserver")),
        "{:#?}",
        plan.notes
    );
    // Everything else goes on.
    assert_done(&bench.apply().await, "apply");
    assert_eq!(as_saved(&bench, 1000), before);
    assert_done(&bench.destroy().await, "destroy");
    assert_eq!(as_saved(&bench, 1000), before);
    assert_eq!(bench.lab.datacenter().vms().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_look_alike_is_never_touched() {
    let bench = Bench::new(1, 1);
    let node = &bench.cluster.nodes[1];
    let description = daedal_planner::description(&bench.cluster, node, &daedal_planner::Stamp::default());
    let config = [
        ("name", "worker-1"),
        ("tags", "daedal;daedal-home;lab"),
        ("description", description.as_str()),
        ("smbios1", "uuid=11111111-2222-3333-4444-555555555555"),
    ];
    let bench = Bench::with(1, 1, |spec| spec.vms.push(vm(1000, "atlas", &config)));
    let before = as_saved(&bench, 1000);
    let (world, plan) = bench.look().await;
    assert!(
        matches!(world.guests[&1000].ownership, Ownership::LookAlike { .. }),
        "{:?}",
        world.guests[&1000]
    );
    // It may be the real worker after all, so no new secrets are made beside it; with the old ones the rest goes on.
    assert!(matches!(plan, Err(PlanError::SecretsInDoubt { .. })), "{plan:?}");
    let bundle = SecretBytes::new(secrets().to_yaml().expose().as_bytes().to_vec());
    bench.store().write_new_secrets(&bundle).await.unwrap();
    assert_done(&bench.apply().await, "apply");
    assert_done(&bench.destroy().await, "destroy");
    assert_eq!(as_saved(&bench, 1000), before);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_was_swapped_after_the_plan_was_made_is_not_destroyed() {
    let bench = Bench::new(1, 1);
    assert_done(&bench.apply().await, "apply");
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = daedal_planner::plan_destroy(&bench.cluster, &world).unwrap();
    // Somebody destroys our worker and puts something of his own on its number.
    let proxmox = proxmox(&bench);
    let tasks = daedal_proxmox::TaskWatcher::new(&proxmox);
    let host = world.guests[&1000].host.clone();
    let upid = proxmox.stop_vm(&host, 1000).await.unwrap();
    tasks.finish(&upid, "stop").await.unwrap();
    let upid = proxmox.destroy_vm(&host, 1000, true).await.unwrap();
    tasks.finish(&upid, "destroy").await.unwrap();
    let theirs = daedal_proxmox::CreateVm {
        vmid: 1000,
        name: "mailserver".into(),
        cores: 1,
        memory_mib: 512,
        ..Default::default()
    };
    let upid = proxmox.create_vm(&host, &theirs).await.unwrap();
    tasks.finish(&upid, "create").await.unwrap();

    let report = engine.execute(&bench.cluster, &world, &plan, &daedal_engine::Run::silent()).await.unwrap();
    let told = errors(&report);
    assert!(told.iter().any(|error| error.contains("not ours to touch")), "{told:#?}");
    let left = bench.lab.datacenter().vms();
    assert_eq!(left.iter().map(|vm| (vm.0, vm.2.as_str())).collect::<Vec<_>>(), [(1000, "mailserver")]);
}

#[tokio::test(start_paused = true)]
async fn a_migrated_vm_is_found_where_it_is() {
    let bench = Bench::new(1, 1);
    assert_done(&bench.apply().await, "apply");
    let (world, _) = bench.look().await;
    let from = world.guests[&1000].host.clone();
    let to = if from == "atlas" { "boreas" } else { "atlas" };
    assert!(bench.lab.datacenter().migrate(1000, to));
    let (world, plan) = bench.look().await;
    assert_eq!(world.guests[&1000].host, to);
    assert!(matches!(world.guests[&1000].ownership, Ownership::Ours { .. }));
    // Only machines.json names the host.
    assert_eq!(plan.unwrap().steps.len(), 1);
    assert_done(&bench.apply().await, "apply");

    // It moves again between look and act: the act finds it.
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = daedal_planner::plan_destroy(&bench.cluster, &world).unwrap();
    assert!(bench.lab.datacenter().migrate(1000, &from));
    let report = engine.execute(&bench.cluster, &world, &plan, &daedal_engine::Run::silent()).await.unwrap();
    assert_done(&report, "destroy");
    bench.assert_destroyed("destroy");
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_worker_died_is_told_with_its_cure_and_the_rest_goes_on() {
    let bench = Bench::new(1, 2);
    // The control plane is on the first host; on the second there is only a worker.
    let when = When::call("POST", "/nodes/boreas/qemu");
    bench.lab.faults().inject(when, Fault::Task(TaskFault::Dies));
    let report = bench.apply().await;
    let stuck: Vec<_> = report.failures().collect();
    assert_eq!(stuck.len(), 1, "{:#?}", errors(&report));
    let StepState::Failed { error, fix, .. } = &stuck[0].state else { unreachable!() };
    assert!(error.contains("stuck in `lock: create`"), "{error}");
    let node = stuck[0].node.clone().unwrap();
    let vmid = bench.cluster.node(&node).unwrap().vmid;
    assert!(fix.as_ref().unwrap().to_string().contains(&format!("qm unlock {vmid}")), "{fix:?}");
    // The others are up.
    let status = bench.engine().status(&bench.cluster).await.unwrap();
    assert_eq!(status.nodes.iter().filter(|node| node.healthy == Some(true)).count(), 2, "{status:#?}");
    assert_eq!(status.nodes.iter().find(|row| row.node == node).unwrap().vm, "stuck in lock: create");
    // The next plan knows it as ours, says so, and does not make another.
    let (world, plan) = bench.look().await;
    assert!(matches!(&world.guests[&vmid].ownership, Ownership::HalfMade { task_running: false, .. }));
    let plan = plan.unwrap();
    assert!(
        plan.notes.iter().any(|note| note.fix().is_some_and(|fix| fix.to_string().contains("qm unlock"))),
        "{:#?}",
        plan.notes
    );
    assert!(plan.steps.iter().all(|step| !matches!(step.action, daedal_planner::Action::CreateVm { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_runs_alone_is_looked_at_in_peace() {
    let bench = Bench::new(1, 2);
    // The control plane's create fails for good, the workers' on the other host do not.
    let when = When::call("POST", "/nodes/atlas/qemu");
    bench.lab.faults().inject(when, Fault::Status(403));
    let report = bench.apply().await;
    assert!(!report.succeeded());
    let (world, plan) = bench.look().await;
    assert_eq!(world.guests.values().filter(|guest| guest.running).count(), 1, "{:#?}", world.guests);
    assert!(!plan.unwrap().is_empty());
    bench.lab.faults().clear();
    assert_done(&bench.apply().await, "second apply");
    bench.assert_converged("second apply").await;
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_worker_never_came_is_not_tried_again_on_that_number() {
    let bench = Bench::new(1, 2);
    let when = When::call("POST", "/nodes/boreas/qemu").nth(1);
    bench.lab.faults().inject(when, Fault::Task(TaskFault::NoWorker));
    let report = bench.apply().await;
    let told = errors(&report);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("stuck in `lock: create`"), "{told:#?}");
    let creates = bench.counts().by_shape["POST /nodes/*/qemu"];
    assert_eq!(creates, 3, "it was tried again");
    // Root frees and removes it, as told; the next run makes it.
    let stuck = report.failures().next().unwrap().node.clone().unwrap();
    let vmid = bench.cluster.node(&stuck).unwrap().vmid;
    assert!(bench.lab.datacenter().unlock(vmid));
    let proxmox = proxmox(&bench);
    let upid = proxmox.destroy_vm("boreas", vmid, true).await.unwrap();
    daedal_proxmox::TaskWatcher::new(&proxmox).finish(&upid, "destroy").await.unwrap();
    assert_done(&bench.apply().await, "second apply");
    bench.assert_converged("second apply").await;
}

#[tokio::test(start_paused = true)]
async fn a_create_that_ends_between_two_looks_is_not_called_stuck() {
    let bench = Bench::new(1, 0);
    let vmid = bench.cluster.nodes[0].vmid;
    // Read while the VM is being made, answered when it is whole.
    let when = When::call("GET", &format!("/nodes/*/qemu/{vmid}/pending")).nth(1);
    bench.lab.faults().inject(when, Fault::Slow(Duration::from_secs(25)));
    let (report, (world, _)) = tokio::join!(bench.apply(), async {
        while bench.lab.datacenter().vms().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bench.look().await
    });
    assert_done(&report, "apply");
    let guest = &world.guests[&vmid];
    assert!(matches!(guest.ownership, Ownership::Ours { .. }), "{:?}", guest.ownership);
    assert_eq!(guest.lock, None, "the config that was judged is the one that is shown");
}

#[tokio::test(start_paused = true)]
async fn a_shared_storage_is_looked_at_through_a_host_that_has_it() {
    let bench = Bench::with(1, 1, |spec| {
        spec.hosts[0].storages.retain(|storage| storage.name != "local");
        for storage in spec.hosts[1].storages.iter_mut().filter(|storage| storage.name == "local") {
            storage.shared = true;
        }
    });
    let proxmox = proxmox(&bench);
    let upload = daedal_proxmox::Upload::iso("seed.iso", vec![0; 64 << 10]);
    let upid = proxmox.upload("boreas", "local", &upload).await.unwrap();
    daedal_proxmox::TaskWatcher::new(&proxmox).finish(&upid, "upload").await.unwrap();
    let (world, _) = bench.look().await;
    let seen: Vec<(&str, &str)> =
        world.volumes.iter().map(|volume| (volume.host.as_str(), volume.volid.as_str())).collect();
    assert_eq!(seen, [("boreas", "local:iso/seed.iso")], "{:#?}", world.unobserved);
    assert_eq!(world.unobserved, [], "{:#?}", world.unobserved);

    bench.lab.datacenter().set_host_online("boreas", false);
    let (world, _) = bench.look().await;
    assert_eq!(world.volumes, []);
    assert!(
        world.unobserved.iter().any(|unobserved| unobserved.what.to_string() == "storage local"),
        "{:#?}",
        world.unobserved
    );
}

/// A cluster of somebody else's in the same datacenter, with keys of its own, whose only node has this address.
async fn somebody_elses(bench: &Bench, address: IpAddr) -> Bench {
    let text = format!(
        "apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {{name: away}}
spec:
  environment: lab
  talos: {{version: v1.12.0}}
  kubernetes: {{version: v1.35.0}}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {{id: \"{TOKEN}\", secret: {{env: X}}}}
    tls: {{insecure: true}}
    hosts: [atlas]
    storage: {{disks: local-lvm, images: local}}
    bridge: vmbr0
  network: {{cidr: 10.0.0.0/16, gateway: 10.0.0.1, dns: [1.1.1.1]}}
  pools:
    - {{name: far, role: controlplane, count: 1, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 700, address: {address}}}
"
    );
    let away = Bench {
        lab: bench.lab.clone(),
        cluster: cluster_from(text),
        folder: tempfile::tempdir().unwrap(),
        counter: Arc::default(),
    };
    let (rng, from) = (&mut StdRng::seed_from_u64(2), Timestamp::from_second(1_789_000_000).unwrap());
    let bundle = SecretsBundle::generate_with_key_size(rng, from, 1024).unwrap();
    let bundle = SecretBytes::new(bundle.to_yaml().expose().as_bytes().to_vec());
    away.store().write_new_secrets(&bundle).await.unwrap();
    assert_done(&away.apply().await, "the other cluster");
    away
}

/// What is on every machine's disk.
fn disks(bench: &Bench) -> serde_json::Map<String, serde_json::Value> {
    let saved = serde_json::to_value(bench.lab.machines().save()).unwrap();
    saved["disks"].as_object().unwrap().clone()
}

/// Changing calls that nodes took so far.
fn sent(bench: &Bench) -> Vec<String> {
    let log = bench.lab.faults().log();
    log.into_iter().filter(|call| call.service == "talos" && call.mutating).map(|call| call.path).collect()
}

/// Mission: H9
#[tokio::test(start_paused = true)]
async fn a_node_of_another_cluster_is_told_and_sent_nothing() {
    for (way, at) in [
        (Way::USUAL, "worker-1"),
        (Way::USUAL, "cp-1"),
        (IMAGE_MAINTENANCE, "worker-1"),
        (CLOUD_INIT, "cp-1"),
        (ISO_MAINTENANCE, "worker-1"),
    ] {
        let bench = Bench::booting(way, 1, 1);
        let node = bench.cluster.node(at).unwrap();
        let address = node.ip().unwrap();
        let away = somebody_elses(&bench, address).await;
        let (before, taken) = ((as_saved(&bench, 700), disks(&bench)), sent(&bench).len());
        assert_eq!(before.1.len(), 1, "only the other cluster's");

        // What the look before the first run cannot know, its waits find out at once.
        let began = tokio::time::Instant::now();
        let report = bench.apply().await;
        assert!(began.elapsed() < Duration::from_secs(300), "{way:?} {at}: {:?}", began.elapsed());
        let failed: Vec<_> = report.failures().collect();
        let StepState::Failed { error, fix, .. } = &failed[0].state else { unreachable!() };
        let told =
            format!("what answers on {address}, where node {at} should be, belongs to another cluster");
        assert_eq!((failed.len(), error.as_str()), (1, told.as_str()), "{way:?} {at}");
        let said = fix.as_ref().unwrap().to_string();
        assert!(said.contains(&format!("give {at} another")) && said.contains("secrets import"), "{said}");

        // From then on the plan says it, and leaves the node alone.
        let (world, plan) = bench.look().await;
        assert_eq!(world.nodes[at].talos, TalosView::OtherCluster, "{way:?} {at}");
        let plan = plan.unwrap();
        let note = plan.notes.iter().find(|note| note.about() == at && note.level == Level::Problem).unwrap();
        assert!(
            note.text().contains(&format!("What answers on {address} belongs to another cluster")),
            "{note:?}"
        );
        assert_eq!(note.fix(), *fix);
        assert!(plan.steps.iter().all(|step| step.node.as_deref() != Some(at)), "{:#?}", plan.steps);
        bench.apply().await;

        // Only the other node was given a config, and only where configs are given; and bootstrapped, if it is the one to be.
        let ours: Vec<String> = sent(&bench).split_off(taken);
        let calls = |what: &str| ours.iter().filter(|path| path.ends_with(what)).count();
        let given = usize::from(way.boot != Way::USUAL.boot);
        assert_eq!(calls("/ApplyConfiguration"), given, "{way:?} {at}: {ours:?}");
        assert_eq!(calls("/Bootstrap") == 0, at == "cp-1", "{way:?} {at}: {ours:?}");
        assert_eq!(calls("/Bootstrap") + given, ours.len(), "{way:?} {at}: {ours:?}");
        assert_eq!(as_saved(&bench, 700), before.0, "{way:?} {at}");
        let now = disks(&bench);
        assert!(before.1.iter().all(|(disk, content)| now.get(disk) == Some(content)), "{way:?} {at}");
        assert_eq!(bench.bootstraps(), if at == "cp-1" { 1 } else { 2 }, "{way:?} {at}");

        // Once the address is free, the node comes up as if nothing had been.
        assert_done(&away.destroy().await, "the other cluster");
        assert_done(&bench.apply().await, &format!("{way:?} {at}: once more"));
        let status = bench.engine().status(&bench.cluster).await.unwrap();
        assert!(status.nodes.iter().all(|node| node.healthy == Some(true)), "{way:?} {at}: {status:#?}");
    }
}

/// A template that an ISO installs has the address of its first clone meanwhile, and keys that nobody else can have.
#[tokio::test(start_paused = true)]
async fn a_node_of_another_cluster_where_a_template_is_installed_is_told_and_sent_nothing() {
    let bench = Bench::booting(TEMPLATE_BY_ISO, 1, 1);
    let address = bench.cluster.node("worker-1").unwrap().ip().unwrap();
    let away = somebody_elses(&bench, address).await;
    let (before, disk, taken) = (as_saved(&bench, 700), disks(&bench), sent(&bench).len());
    let began = tokio::time::Instant::now();
    let report = bench.apply().await;
    assert!(began.elapsed() < Duration::from_secs(600), "{:?}", began.elapsed());
    let failed: Vec<_> = report.failures().collect();
    let StepState::Failed { error, fix, .. } = &failed[0].state else { unreachable!() };
    let told =
        format!("what answers on {address}, where node worker-1 should be, belongs to another cluster");
    assert_eq!((failed.len(), error.as_str()), (1, told.as_str()));
    assert!(fix.as_ref().is_some_and(|fix| fix.to_string().contains("give worker-1 another")), "{fix:?}");
    // Only the template of control planes was wiped, and the cluster bootstrapped.
    let ours: Vec<String> = sent(&bench).split_off(taken);
    assert!(ours.iter().all(|path| path.ends_with("/Reset") || path.ends_with("/Bootstrap")), "{ours:?}");
    assert_eq!(ours.iter().filter(|path| path.ends_with("/Reset")).count(), 1, "{ours:?}");
    assert_eq!(as_saved(&bench, 700), before);
    let now = disks(&bench);
    assert!(disk.iter().all(|(disk, content)| now.get(disk) == Some(content)));
    assert_done(&away.destroy().await, "the other cluster");
    assert_done(&bench.apply().await, "once the address is free");
    let status = bench.engine().status(&bench.cluster).await.unwrap();
    assert!(status.nodes.iter().all(|node| node.healthy == Some(true)), "{status:#?}");
}

/// Somebody with the same token.
pub fn proxmox(bench: &Bench) -> daedal_proxmox::Client {
    let token = daedal_proxmox::Token::new(crate::support::TOKEN, crate::support::CANARY).unwrap();
    daedal_proxmox::Client::builder(&bench.cluster.proxmox.endpoint, token)
        .dialer(bench.lab.dialer())
        .trust(daedal_proxmox::Trust::Insecure)
        .build()
        .unwrap()
}
