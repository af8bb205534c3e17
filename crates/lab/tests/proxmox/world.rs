//! The world outlives its process; what is told late is told late; strangers are there too.

use std::collections::BTreeMap;
use std::time::Duration;

use daedal_lab::proxmox::{Datacenter, HostSpec, SavedDatacenter, StorageSpec, VmSpec};

use crate::story::CREATE;
use crate::support::{Lab, spec, surroundings};

#[tokio::test(start_paused = true)]
async fn a_saved_world_goes_on() {
    let lab = Lab::new().with_image().await;
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", CREATE).await, "OK");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await, "OK");
    let running = lab.call("POST", "/nodes/pve1/qemu", &[("vmid", "901"), ("scsi0", "local:4")]).await;
    let saved = serde_json::to_string(&lab.dc.save()).unwrap();
    lab.dc.halt();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(lab.try_call(crate::support::ADMIN, "GET", "/version", &[]).await.is_none());

    let saved: SavedDatacenter = serde_json::from_str(&saved).unwrap();
    let (mut around, guests) = surroundings();
    around.pki = lab.pki.clone();
    around.pace = daedal_lab::Pace::new(1.0, saved.now());
    let fabric = around.fabric.clone();
    let dc = Datacenter::resume(saved, around).unwrap();
    let lab = Lab { dc, fabric, guests, ..lab };
    assert_eq!(lab.guests.events(), ["on 900"], "a running VM is powered on again");
    assert_eq!(lab.wait(&running).await, "unexpected status", "its worker is lost");
    let config = lab.call("GET", "/nodes/pve1/qemu/901/config", &[]).await;
    assert_eq!(config.data()["lock"], "create");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/stop", &[]).await, "OK");
    assert_eq!(lab.task("DELETE", "/nodes/pve1/qemu/900", &[("purge", "1")]).await, "OK");
    let next = lab.call("GET", "/cluster/nextid", &[]).await;
    assert_eq!(next.data(), "100");
}

#[tokio::test(start_paused = true)]
async fn the_resource_list_is_stale() {
    let lab = Lab::new();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(
        lab.task("POST", "/nodes/pve1/qemu", &[("vmid", "900"), ("name", "old"), ("tags", "x")]).await,
        "OK"
    );
    let rows = lab.call("GET", "/cluster/resources", &[("type", "vm")]).await;
    assert_eq!((rows.data()[0]["status"].as_str(), rows.data()[0].get("name")), (Some("unknown"), None));
    assert_eq!(rows.data()[0]["tags"], "x");
    tokio::time::sleep(Duration::from_secs(12)).await;
    let rows = lab.call("GET", "/cluster/resources", &[("type", "vm")]).await;
    assert_eq!(
        (rows.data()[0]["status"].as_str(), rows.data()[0]["name"].as_str()),
        (Some("stopped"), Some("old"))
    );
    assert_eq!(lab.task("DELETE", "/nodes/pve1/qemu/900", &[]).await, "OK");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &[("vmid", "900"), ("name", "new")]).await, "OK");
    let rows = lab.call("GET", "/cluster/resources", &[("type", "vm")]).await;
    assert_eq!(rows.data()[0]["name"], "old", "the old name is still told");
    let list = lab.call("GET", "/nodes/pve1/qemu", &[]).await;
    assert_eq!(list.data()[0]["name"], "new");
}

#[tokio::test(start_paused = true)]
async fn hosts_and_strangers_can_be_added_later() {
    let lab = Lab::new();
    let mut wanted = spec();
    let mut second = HostSpec::new("pve2", 8, 32 << 30);
    second.endpoints = vec!["10.0.0.3".into()];
    let mut shared = StorageSpec::new("ceph", "rbd", &["images"], 1 << 40);
    shared.shared = true;
    wanted.hosts[0].storages.push(shared.clone());
    second.storages.push(shared);
    wanted.hosts.push(second);
    let config = BTreeMap::from([
        ("name".to_owned(), "stranger".to_owned()),
        ("memory".to_owned(), "4096".to_owned()),
    ]);
    wanted.vms.push(VmSpec {
        vmid: 200,
        host: "pve2".into(),
        config,
        disk: Some(("ceph".into(), 32 << 30)),
        running: true,
        pool: None,
    });
    lab.dc.ensure(&wanted).unwrap();
    lab.dc.ensure(&wanted).unwrap();
    let nodes = lab.call("GET", "/nodes", &[]).await;
    assert_eq!(nodes.data().as_array().unwrap().len(), 2);
    let status = lab.call("GET", "/nodes/pve2/qemu/200/status/current", &[]).await;
    assert_eq!(
        (status.data()["status"].as_str(), status.data()["maxdisk"].as_u64()),
        (Some("running"), Some(32 << 30))
    );
    assert!(lab.fabric.targets().iter().any(|target| target.host == "10.0.0.3"));
    let end = lab.task("POST", "/nodes/pve1/qemu", &[("vmid", "300"), ("scsi0", "ceph:8")]).await;
    assert_eq!(end, "OK");
    assert!(lab.dc.volumes().contains(&"ceph:vm-300-disk-0".to_owned()));
    let own = lab.call("POST", "/nodes/pve1/qemu/300/migrate", &[("target", "pve1")]).await;
    assert_eq!(own.body["errors"]["target"], "target is local node.");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/300/migrate", &[("target", "pve2")]).await, "OK");
    let moved = lab.call("GET", "/nodes/pve1/qemu/300/config", &[]).await;
    assert_eq!(moved.status, 500);
    assert_eq!(lab.call("GET", "/nodes/pve2/qemu/300/config", &[]).await.status, 200);
    lab.dc.set_host_online("pve2", false);
    let away = lab.call("GET", "/nodes/pve2/qemu", &[]).await;
    assert_eq!((away.status, away.reason.as_str(), away.text.as_str()), (595, "No route to host", ""));
}

#[tokio::test(start_paused = true)]
async fn a_huge_qcow2_cannot_be_grown_in_time() {
    let lab = Lab::new().with_image().await;
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", CREATE).await, "OK");
    let resize = "/nodes/pve1/qemu/900/resize";
    assert_eq!(lab.task("PUT", resize, &[("disk", "scsi0"), ("size", "500G")]).await, "OK");
    let end = lab.task("PUT", resize, &[("disk", "scsi0"), ("size", "4T")]).await;
    assert!(end.ends_with("failed: got timeout"), "{end}");
    let config = lab.call("GET", "/nodes/pve1/qemu/900/config", &[]).await;
    assert!(config.data()["scsi0"].as_str().unwrap().contains("size=500G"));
}

#[tokio::test(start_paused = true)]
async fn releases_before_8_4_import_no_disk_images() {
    let path = "/nodes/pve1/storage/local/download-url";
    let asked =
        |name: &'static str| [("content", "import"), ("filename", name), ("url", "http://files.lan/talos")];
    for (version, parameter, said) in [
        ("8.3.5", "filename", "invalid filename or wrong extension"),
        ("8.2.2", "content", "value 'import' does not have a value in the enumeration 'iso, vztmpl'"),
    ] {
        let mut old = spec();
        old.version = version.into();
        let lab = Lab::of(&old);
        lab.serve_file("/talos", vec![0; 512]);
        for name in ["talos.qcow2", "talos.raw"] {
            let refused = lab.call("POST", path, &asked(name)).await;
            assert_eq!(
                (refused.status, &refused.body["errors"][parameter]),
                (400, &said.into()),
                "{version}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn release_8_4_has_its_own_agent_privilege() {
    let mut old = spec();
    old.version = "8.4.14".into();
    let lab = Lab::of(&old);
    let made = [("vmid", "900"), ("agent", "1")];
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &made).await, "OK");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await, "OK");
    let agent = "/nodes/pve1/qemu/900/agent/network-get-interfaces";
    let reply = lab.call_as(crate::support::MINIMAL, "GET", agent, &[]).await;
    assert_eq!(reply.reason, "QEMU guest agent is not running");
    let role = [("roleid", "X"), ("privs", "VM.GuestAgent.Audit")];
    let refused = lab.call("POST", "/access/roles", &role).await;
    assert_eq!(refused.body["errors"]["privs"], "invalid format - invalid privilege 'VM.GuestAgent.Audit'\n");
}
