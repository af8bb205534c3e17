//! Locks: who waits how long, and what is seen meanwhile.

use std::time::Duration;

use crate::story::CREATE;
use crate::support::Lab;

async fn template() -> Lab {
    let lab = Lab::new().with_image().await;
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", CREATE).await, "OK");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/template", &[]).await, "OK");
    lab
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_template_run_side_by_side() {
    let lab = template().await;
    assert_eq!(
        lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await,
        "you can't start a vm if it's a template"
    );
    let mut running = Vec::new();
    for newid in ["901", "902", "903", "904"] {
        running
            .push(lab.call("POST", "/nodes/pve1/qemu/900/clone", &[("newid", newid), ("name", "cp")]).await);
    }
    let half = lab.call("GET", "/nodes/pve1/qemu/904/config", &[]).await;
    assert_eq!(half.data()["lock"], "clone");
    assert_eq!(half.data()["description"], " qmclone temporary file");
    for clone in &running {
        assert_eq!(lab.wait(clone).await, "OK");
    }
    let source = lab.call("GET", "/nodes/pve1/qemu/900/config", &[]).await;
    let config = lab.call("GET", "/nodes/pve1/qemu/901/config", &[]).await;
    assert_eq!(
        config.data()["scsi0"],
        "local:900/base-900-disk-1.qcow2/901/vm-901-disk-1.qcow2,discard=on,iothread=1,size=64M,ssd=1"
    );
    assert_eq!(config.data()["tags"], "cp;talos");
    assert_ne!(config.data()["smbios1"], source.data()["smbios1"]);
    assert_ne!(config.data()["net0"], source.data()["net0"]);
    assert!(config.data().get("template").is_none());

    let held = lab.task("DELETE", "/nodes/pve1/qemu/900", &[]).await;
    assert_eq!(held, "base volume 'local:900/base-900-disk-1.qcow2' is still in use by linked cloned");
    for (params, reason) in [
        (vec![("newid", "905"), ("storage", "data")], "parameter 'storage' not allowed for linked clones"),
        (vec![("newid", "901")], "unable to create VM 901: config file already exists"),
        (vec![("newid", "905"), ("full", "1"), ("target", "ghost")], "no such cluster node 'ghost'"),
    ] {
        assert_eq!(lab.call("POST", "/nodes/pve1/qemu/900/clone", &params).await.reason, reason);
    }
    let full = [("newid", "905"), ("full", "1"), ("storage", "data")];
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/clone", &full).await, "OK");
    assert!(lab.dc.volumes().contains(&"pve1/data:905/vm-905-disk-0.raw".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_second_clone_of_a_running_vm_loses_patience() {
    let lab = Lab::new().with_image().await;
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", CREATE).await, "OK");
    assert_eq!(
        lab.task("PUT", "/nodes/pve1/qemu/900/resize", &[("disk", "scsi0"), ("size", "100G")]).await,
        "OK"
    );
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await, "OK");
    let first = lab.call("POST", "/nodes/pve1/qemu/900/clone", &[("newid", "901")]).await;
    let second = lab.call("POST", "/nodes/pve1/qemu/900/clone", &[("newid", "902")]).await;
    assert_eq!(
        (second.status, second.reason.as_str()),
        (500, "can't lock file '/var/lock/qemu-server/lock-900.conf' - got timeout")
    );
    assert!(second.took >= Duration::from_secs(1) && second.took < Duration::from_secs(2));
    // Everybody else is more patient.
    let config = lab.call("PUT", "/nodes/pve1/qemu/900/config", &[("name", "x")]).await;
    assert_eq!(config.reason, "can't lock file '/var/lock/qemu-server/lock-900.conf' - got timeout");
    assert!(config.took >= Duration::from_secs(10));
    assert_eq!(lab.wait(&first).await, "OK");
}

#[tokio::test(start_paused = true)]
async fn four_creates_of_one_vmid_have_one_winner() {
    let lab = Lab::new().with_image().await;
    let calls = (0..4).map(|_| lab.call("POST", "/nodes/pve1/qemu", CREATE));
    let replies = futures::future::join_all(calls).await;
    let (won, lost): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 200);
    assert_eq!((won.len(), lost.len()), (1, 3));
    assert!(
        lost.iter().all(|r| r.reason == "unable to create VM 900 - VM 900 already exists on node 'pve1'")
    );
    assert_eq!(lab.wait(&won[0]).await, "OK");
    let starts = (0..3).map(|_| lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]));
    let mut ends = futures::future::join_all(starts).await;
    ends.sort();
    assert_eq!(ends, ["OK", "VM 900 already running", "VM 900 already running"]);
}

#[tokio::test(start_paused = true)]
async fn an_aborted_create_cleans_up() {
    let lab = Lab::new().with_image().await;
    let made = lab.call("POST", "/nodes/pve1/qemu", CREATE).await;
    let upid = made.data().as_str().unwrap();
    assert_eq!(lab.call("DELETE", &format!("/nodes/pve1/tasks/{upid}"), &[]).await.status, 200);
    assert_eq!(lab.wait(&made).await, "unable to create VM 900 - interrupted by signal");
    assert!(lab.dc.vms().is_empty());
    assert_eq!(lab.dc.volumes(), ["pve1/local:import/talos.qcow2"]);
}

#[tokio::test(start_paused = true)]
async fn a_running_vm_takes_some_changes_later() {
    let lab = Lab::new().with_image().await;
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", CREATE).await, "OK");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await, "OK");
    lab.call("PUT", "/nodes/pve1/qemu/900/config", &[("memory", "768"), ("tags", "b;A")]).await;
    let config = "/nodes/pve1/qemu/900/config";
    assert_eq!(lab.call("GET", config, &[]).await.data()["memory"], "768");
    let live = lab.call("GET", config, &[("current", "1")]).await;
    assert_eq!((live.data()["memory"].as_str(), live.data()["tags"].as_str()), (Some("512"), Some("a;b")));
    let end = lab.task("POST", "/nodes/pve1/qemu/900/status/shutdown", &[("timeout", "2")]).await;
    assert_eq!(end, "VM quit/powerdown failed - got timeout");
    *lab.guests.obedient.lock().unwrap() = true;
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/reboot", &[]).await, "OK");
    let live = lab.call("GET", config, &[("current", "1")]).await;
    assert_eq!(live.data()["memory"], "768");
    let stale = [("digest", "0000000000000000000000000000000000000000"), ("name", "x")];
    let refused = lab.call("PUT", config, &stale).await;
    assert_eq!(refused.reason, "checksum mismatch (file change by other user?)");
    let unknown = lab.call("PUT", config, &[("delete", "nosuch")]).await;
    assert_eq!(unknown.body["errors"]["delete"], "unknown option 'nosuch'");
    assert_eq!(lab.call("PUT", config, &[]).await.reason, "no options specified");
    let agent = "/nodes/pve1/qemu/900/agent/network-get-interfaces";
    let silent = lab.call("GET", agent, &[]).await;
    assert_eq!(silent.reason, "QEMU guest agent is not running");
    assert!(silent.took >= Duration::from_secs(3));
}
