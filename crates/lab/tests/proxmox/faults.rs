//! Faults on purpose: each does what it says, to the answer and to the world.

use std::time::Duration;

use daedal_lab::faults::{Fault, HoldPoint, TaskFault, When};

use crate::story::CREATE;
use crate::support::{ADMIN, Lab};

const QEMU: &str = "/nodes/pve1/qemu";

async fn create_under(fault: Fault) -> (Lab, Option<crate::support::Reply>) {
    let lab = Lab::new().with_image().await;
    lab.faults.inject(When::call("POST", QEMU).nth(1), fault);
    let reply =
        tokio::time::timeout(Duration::from_secs(120), lab.try_call(ADMIN, "POST", QEMU, CREATE)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    (lab, reply.ok().flatten())
}

#[tokio::test(start_paused = true)]
async fn every_fault_has_the_effect_it_names() {
    let slow = Fault::Slow(Duration::from_secs(20));
    let cases = [
        (Fault::HangBefore, None, false),
        (Fault::HangAfter, None, true),
        (Fault::TimedOutBefore, Some(596), false),
        (Fault::TimedOutAfter, Some(596), true),
        (Fault::Status(401), Some(401), false),
        (Fault::Status(500), Some(500), false),
        (Fault::Status(595), Some(595), false),
        (Fault::LockTimeout, Some(500), false),
        (Fault::TruncatedBody, None, true),
        (Fault::MalformedBody, Some(200), true),
        (slow, Some(200), true),
        (Fault::DropBefore, None, false),
        (Fault::DropAfter, None, true),
        (Fault::Task(TaskFault::Fails("no space left".into())), Some(200), false),
        (Fault::Task(TaskFault::NoWorker), Some(500), true),
    ];
    for (fault, status, effect) in cases {
        let (lab, reply) = create_under(fault.clone()).await;
        assert_eq!(reply.as_ref().map(|reply| reply.status), status, "{fault:?}");
        assert_eq!(!lab.dc.vms().is_empty(), effect, "{fault:?}");
        if let Some(reply) = &reply
            && matches!(reply.status, 401 | 595 | 596)
        {
            assert_eq!(reply.text, "");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_create_worker_leaves_what_no_token_can_clear() {
    let (lab, reply) = create_under(Fault::Task(TaskFault::Dies)).await;
    assert_eq!(lab.wait(&reply.unwrap()).await, "unexpected status");
    let config = lab.call("GET", "/nodes/pve1/qemu/900/config", &[]).await;
    assert_eq!(config.data()["lock"], "create");
    assert_eq!(lab.dc.volumes().len(), 3, "disks remain");
    assert_eq!(lab.task("DELETE", "/nodes/pve1/qemu/900", &[]).await, "VM is locked (create)");
    let unlock = lab.call("PUT", "/nodes/pve1/qemu/900/config", &[("delete", "lock")]).await;
    assert_eq!(unlock.reason, "only root can set 'lock' config");
    let skip = lab.call("DELETE", "/nodes/pve1/qemu/900", &[("skiplock", "1")]).await;
    assert_eq!(skip.body["errors"]["skiplock"], "Only root may use this option.");
    let tasks = lab.call("GET", "/nodes/pve1/tasks", &[("vmid", "900"), ("source", "all")]).await;
    let found: Vec<_> = tasks.data().as_array().unwrap().iter().map(|task| task["type"].clone()).collect();
    assert!(found.contains(&"qmcreate".into()));
    assert!(lab.dc.unlock(900));
    let purge = [("purge", "1"), ("destroy-unreferenced-disks", "1")];
    assert_eq!(lab.task("DELETE", "/nodes/pve1/qemu/900", &purge).await, "OK");
    assert_eq!(lab.dc.volumes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn warnings_and_short_downloads() {
    let lab = Lab::new();
    lab.serve_file("/talos.qcow2", crate::support::image());
    let path = "/nodes/pve1/storage/local/download-url";
    let params = [("content", "import"), ("filename", "t.qcow2"), ("url", "http://files.lan/talos.qcow2")];
    lab.faults.inject(When::call("POST", path).nth(1), Fault::Task(TaskFault::ShortDownload));
    lab.faults.inject(When::call("POST", path).nth(2), Fault::Task(TaskFault::Warnings(2)));
    assert!(lab.task("POST", path, &params).await.contains("Image is not in qcow2 format"));
    assert_eq!(lab.task("POST", path, &params).await, "WARNINGS: 2");
}

#[tokio::test(start_paused = true)]
async fn held_calls_stand_before_or_after_their_effect() {
    for (point, there) in [(HoldPoint::BeforeEffect, false), (HoldPoint::AfterEffect, true)] {
        let lab = Lab::new();
        let mut held = lab.faults.hold_mutation(1, point);
        let call = lab.try_call(ADMIN, "POST", "/pools", &[("poolid", "mine")]);
        tokio::select! {
            _ = call => panic!("a held call must not answer"),
            () = held.reached() => {}
        }
        let pools = lab.call("GET", "/pools", &[]).await;
        assert_eq!(pools.text.contains("mine"), there, "{point:?}");
        // The next one is free again.
        assert_eq!(lab.call("POST", "/pools", &[("poolid", "other")]).await.status, 200);
        let log = lab.faults.log();
        assert_eq!(log.iter().filter(|call| call.mutating).count(), 2);
        assert_eq!(log[0].status, None);
        assert_eq!(log[2].status, Some(200));
    }
}
