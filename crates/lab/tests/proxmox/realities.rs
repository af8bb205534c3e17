//! Proxmox's awkward ways, each on and off.

use std::time::Duration;

use daedal_lab::faults::{Fault, When};
use daedal_lab::proxmox::{HostSpec, Realities};
use futures::future::join_all;
use tokio::time::Instant;

use crate::support::{Lab, spec};

fn without(change: impl FnOnce(&mut Realities)) -> Lab {
    let mut wanted = spec();
    change(&mut wanted.realities);
    Lab::of(&wanted)
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_processes_wait_their_turn() {
    let twelve = |lab: Lab| async move {
        let began = Instant::now();
        join_all((0..12).map(|_| lab.call("GET", "/version", &[]))).await;
        began.elapsed()
    };
    let limited = twelve(Lab::new()).await;
    let free = twelve(without(|realities| realities.worker_limit = false)).await;
    assert_eq!(limited, Duration::from_millis(40), "four rounds of three");
    assert_eq!(free, Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_lock_loses_patience() {
    let second_clone = |lab: Lab| async move {
        let lab = lab.with_image().await;
        let disk = "local:0,import-from=local:import/talos.qcow2";
        let create = lab.task("POST", "/nodes/pve1/qemu", &[("vmid", "100"), ("scsi0", disk)]).await;
        assert_eq!(create, "OK");
        assert_eq!(lab.task("POST", "/nodes/pve1/qemu/100/status/start", &[]).await, "OK");
        lab.faults.inject(
            When::call("POST", "/nodes/*/qemu/*/clone").nth(1),
            Fault::Task(daedal_lab::faults::TaskFault::Slower(50)),
        );
        let path = "/nodes/pve1/qemu/100/clone";
        let first = lab.call("POST", path, &[("newid", "101"), ("full", "1")]).await;
        assert_eq!(first.status, 200, "{first:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let second = lab.call("POST", path, &[("newid", "102"), ("full", "1")]).await;
        let end = if second.status == 200 { lab.wait(&second).await } else { second.reason.clone() };
        assert_eq!(lab.wait(&first).await, "OK");
        end
    };
    let end = second_clone(Lab::new()).await;
    assert!(end.contains("got timeout"), "{end}");
    assert_eq!(second_clone(without(|realities| realities.lock_timeouts = false)).await, "OK");
}

#[tokio::test(start_paused = true)]
async fn the_list_of_everything_lags() {
    let status = |lab: Lab| async move {
        let create = lab.task("POST", "/nodes/pve1/qemu", &[("vmid", "100"), ("name", "fresh")]).await;
        assert_eq!(create, "OK");
        let rows = lab.call("GET", "/cluster/resources", &[("type", "vm")]).await;
        rows.data()[0]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(Lab::new()).await, "unknown");
    assert_eq!(status(without(|realities| realities.stale_lists = false)).await, "stopped");
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_thirty_seconds_is_a_596_and_the_work_goes_on() {
    let mut wanted = spec();
    for (proxy_timeout, status) in [(true, 596), (false, 200)] {
        wanted.realities.proxy_timeout = proxy_timeout;
        let lab = Lab::of_which(&wanted, |around| around.durations.write = Duration::from_secs(40));
        let reply = lab.call("POST", "/pools", &[("poolid", "slow")]).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.took >= Duration::from_secs(40), status == 200, "{:?}", reply.took);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(lab.call("GET", "/pools/slow", &[]).await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn without_most_of_its_hosts_a_cluster_takes_no_changes() {
    let mut wanted = spec();
    for name in ["pve2", "pve3"] {
        wanted.hosts.push(HostSpec::new(name, 16, 64 << 30));
    }
    let lab = Lab::of(&wanted);
    let create = [("vmid", "100")];
    lab.dc.set_host_online("pve3", false);
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &create).await, "OK");
    lab.dc.set_host_online("pve2", false);
    let status = lab.call("GET", "/cluster/status", &[]).await;
    assert_eq!(status.data()[0]["quorate"], 0, "{status:?}");
    for (method, path, params, words) in [
        ("POST", "/nodes/pve1/qemu", &[("vmid", "101")][..], "cluster not ready - no quorum?"),
        ("POST", "/nodes/pve1/qemu/100/status/start", &[], "cluster not ready - no quorum?"),
        ("POST", "/access/users", &[("userid", "x@pve")], "cfs-lock 'file-user_cfg' error: no quorum!"),
        ("POST", "/pools", &[("poolid", "x")], "no quorum!"),
    ] {
        let reply = lab.call(method, path, params).await;
        assert_eq!((reply.status, reply.reason.as_str()), (500, words), "{method} {path}");
    }
    // What lies on a storage can still be read and written.
    assert_eq!(lab.call("GET", "/nodes/pve1/qemu/100/config", &[]).await.status, 200);
    let upload = lab.upload(crate::support::ADMIN, "local", "iso", "a.iso", b"bytes").await;
    assert_eq!(lab.wait(&upload).await, "OK");
    lab.dc.set_realities(Realities { quorum: false, ..Realities::default() });
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/100/status/start", &[]).await, "OK");
}

#[tokio::test(start_paused = true)]
async fn a_full_storage_takes_no_file_and_no_disk() {
    let lab = Lab::new().with_image().await;
    assert!(lab.dc.fill("pve1/local", 100));
    let upload = lab.upload(crate::support::ADMIN, "local", "iso", "a.iso", &[0; 4096]).await;
    assert_eq!(lab.wait(&upload).await, "import failed: exit code 1");
    let again = [("content", "import"), ("filename", "z.qcow2"), ("url", "http://files.lan/talos.qcow2")];
    let end = lab.task("POST", "/nodes/pve1/storage/local/download-url", &again).await;
    assert_eq!(end, "download failed: exit code 3");
    let disk = "local:0,import-from=local:import/talos.qcow2";
    let end = lab.task("POST", "/nodes/pve1/qemu", &[("vmid", "100"), ("scsi0", disk)]).await;
    assert!(end.contains("free space"), "{end}");
    assert_eq!(lab.dc.vms(), []);
    assert!(lab.dc.fill("pve1/local", 1 << 30));
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &[("vmid", "100"), ("scsi0", disk)]).await, "OK");
}

#[tokio::test(start_paused = true)]
async fn a_host_starts_only_what_its_processors_run() {
    let mut wanted = spec();
    for host in &mut wanted.hosts {
        host.machine = "aarch64".to_owned();
    }
    let (arm, usual) = (Lab::of(&wanted), Lab::new());
    let start = async |lab: &Lab, vmid: &str, options: &[(&str, &str)]| {
        let create = [&[("vmid", vmid)], options].concat();
        assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &create).await, "OK");
        lab.task("POST", &format!("/nodes/pve1/qemu/{vmid}/status/start"), &[]).await
    };
    assert_eq!(start(&arm, "100", &[("machine", "virt"), ("cpu", "host")]).await, "OK");
    assert_eq!(start(&arm, "101", &[]).await, "OK");
    let ide = start(&arm, "102", &[("ide2", "none,media=cdrom")]).await;
    assert_eq!(ide, "aarch64 cannot use IDE devices");
    for (vmid, option) in [("103", ("machine", "q35")), ("104", ("cpu", "x86-64-v2-AES"))] {
        let end = start(&arm, vmid, &[option]).await;
        assert!(end.contains(option.1), "{end}");
    }
    assert_eq!(start(&usual, "100", &[("machine", "q35"), ("cpu", "x86-64-v2-AES")]).await, "OK");
    assert!(start(&usual, "101", &[("machine", "virt")]).await.contains("'virt'"));
    let status = arm.call("GET", "/nodes/pve1/status", &[]).await;
    assert_eq!(status.data()["current-kernel"]["machine"], "aarch64");
}
