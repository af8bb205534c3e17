//! Storages under a living cluster: what is left on them, how full they are, what was promised of them.

use std::time::Duration;

use daedal_engine::{CheckSubject, CheckVerdict, StatusReport};
use daedal_lab::faults::{Fault, TaskFault, When};
use daedal_planner::{Action, Level, Note, Pruning, plan_prune_volumes};
use daedal_proxmox::{CreateVm, NewDisk, TaskWatcher};
use daedal_words::Told as _;
use daedal_words::sentence;

use crate::boot::client;
use crate::support::{Bench, assert_done};

/// The warnings of a plan about something whose name begins like this.
async fn warnings(bench: &Bench, about: &str) -> Vec<Note> {
    let notes = bench.look().await.1.unwrap().notes;
    notes.into_iter().filter(|note| note.level == Level::Warning && note.about().starts_with(about)).collect()
}

/// A create that failed left its EFI disk. It is named, and goes once its VM is gone and somebody asks for it.
#[tokio::test(start_paused = true)]
async fn what_proxmox_left_is_named_and_goes_when_asked_for() {
    let bench = Bench::new(1, 0);
    let create = When::call("POST", "/nodes/*/qemu");
    bench.lab.faults().inject(create.nth(1), Fault::Task(TaskFault::StorageTimeout));
    assert_done(&bench.apply().await, "apply");
    let vmid = bench.cluster.nodes[0].vmid;
    let volid = format!("local-lvm:vm-{vmid}-disk-0");
    let said = warnings(&bench, "volumes on").await;
    assert!(said.len() == 1 && said[0].text().contains(&volid), "{said:#?}");
    let engine = bench.engine();
    let found = engine.leftovers(&bench.cluster).await.unwrap().volumes;
    assert!(found.len() == 1 && found[0].beside_vm && found[0].volid == volid, "{found:#?}");
    let prunable = async || {
        let world = bench.look().await.0;
        let plan = plan_prune_volumes(&bench.cluster, &world, Pruning::default()).unwrap();
        (world, plan)
    };
    let (_, plan) = prunable().await;
    assert!(plan.is_empty() && plan.notes[0].text().contains("once that VM is gone"), "{:#?}", plan.notes);

    assert_done(&bench.destroy().await, "destroy");
    let report = engine.live_checks(&bench.cluster).await;
    let told = report.checks.iter().find(|check| check.what == CheckSubject::Volumes).unwrap();
    assert!(told.verdict == CheckVerdict::Warning && told.found.contains(&volid), "{told:?}");
    let (world, plan) = prunable().await;
    let volume = Action::DeleteVolume { volid: volid.clone(), vmid };
    assert_eq!(plan.steps.iter().map(|step| &step.action).collect::<Vec<_>>(), [&volume]);
    assert_done(&bench.execute(&world, &plan).await, "prune");
    assert_eq!(engine.leftovers(&bench.cluster).await.unwrap().volumes, []);
    assert!(bench.lab.datacenter().volumes().iter().all(|volume| !volume.ends_with(&volid)));
}

/// A pool that runs full or vanishes under nodes that live is told by check, plan and status.
#[tokio::test(start_paused = true)]
async fn a_pool_that_ails_under_a_living_cluster_is_told() {
    let bench = Bench::new(1, 0);
    assert_done(&bench.apply().await, "apply");
    assert_eq!(warnings(&bench, "storage").await, []);
    let host = bench.look().await.0.guests[&bench.cluster.nodes[0].vmid].host.clone();
    let (store, about) = (format!("{host}/local-lvm"), format!("storage local-lvm on {host}"));
    let dc = bench.lab.datacenter();
    let all_say = async |part: &str, verdict: CheckVerdict| {
        let said = warnings(&bench, &about).await;
        assert!(said.len() == 1 && said[0].text().contains(part), "{part}: {said:#?}");
        let world = bench.look().await.0;
        let status = StatusReport::of(&bench.cluster, &world).storages;
        assert!(status.len() == 1 && sentence(&status[0]).contains(part), "{part}: {status:#?}");
        let report = bench.engine().live_checks(&bench.cluster).await;
        let checks: Vec<_> = report
            .checks
            .iter()
            .filter(|check| check.what.to_string() == about && check.verdict == verdict)
            .collect();
        assert!(checks.len() == 1, "{part}: {:#?}", report.checks);
        checks[0].fix.as_ref().unwrap().to_string()
    };
    assert!(dc.fill(&store, 8 << 30));
    all_say("It is nearly full: 8 GiB of 800 GiB are free", CheckVerdict::Warning).await;
    assert!(dc.lose(&store, true));
    // For a while it keeps its last figures.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let fix = all_say("is not active there", CheckVerdict::Bad).await;
    assert!(fix.contains("vgs") && !fix.contains("--disable"), "{fix}");
    assert!(dc.lose(&store, false) && dc.fill(&store, 400 << 30) && dc.disable("local-lvm", true));
    let fix = all_say("is disabled", CheckVerdict::Bad).await;
    assert!(fix.contains("pvesm set local-lvm --disable 0"), "{fix}");
    assert!(dc.disable("local-lvm", false));
    assert_eq!(warnings(&bench, "storage").await, []);
}

/// What others were promised on a thin pool and have not written is theirs all the same.
#[tokio::test(start_paused = true)]
async fn what_others_were_promised_counts() {
    let mut bench = Bench::new(1, 0);
    let client = client(&bench);
    for (vmid, host) in [(777, "atlas"), (778, "boreas")] {
        let vm = CreateVm {
            vmid,
            name: format!("thin-{vmid}"),
            cores: 1,
            memory_mib: 512,
            disks: [("scsi0".to_owned(), NewDisk::blank("local-lvm", 790))].into(),
            ..CreateVm::default()
        };
        let upid = client.create_vm(host, &vm).await.unwrap();
        TaskWatcher::new(&client).finish(&upid, "make a VM").await.unwrap();
    }
    let refused = bench.look().await.1.unwrap_err().to_string();
    assert!(refused.contains("disk"), "{refused}");
    bench.cluster.proxmox.disk_overcommit = 2.0;
    assert_done(&bench.apply().await, "apply");
}

/// A storage that holds disks and images is listed once by each host.
#[tokio::test(start_paused = true)]
async fn each_storage_is_listed_once_whatever_is_wanted_of_it() {
    let mut bench = Bench::with(1, 1, |spec| {
        for host in &mut spec.hosts {
            for storage in host.storages.iter_mut().filter(|storage| storage.name == "local") {
                storage.content.push("images".to_owned());
            }
        }
    });
    bench.cluster.proxmox.disks_storage = "local".into();
    assert_done(&bench.apply().await, "apply");
    let listed = || bench.counts().by_shape.get("GET /nodes/*/storage/*/content").copied().unwrap_or(0);
    let before = listed();
    let world = bench.look().await.0;
    assert_eq!(listed() - before, world.hosts.len() as u64, "{:#?}", bench.counts().by_shape);
    let disks: usize = world.disks.iter().map(|list| list.disks.len()).sum();
    assert!(disks >= 4 && world.volumes.iter().any(|volume| volume.content == "import"), "{world:#?}");
}
