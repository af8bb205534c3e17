//! One VM's life through the pretend Proxmox API: image, create, resize, seed ISO, start, eject, stop, destroy.

use daedal_lab::proxmox::DatacenterSpec;

use crate::support::{self, Lab, image};

pub(crate) const CREATE: &[(&str, &str)] = &[
    ("vmid", "900"),
    ("name", "cp-1"),
    ("cores", "2"),
    ("memory", "512"),
    ("agent", "enabled=1"),
    ("bios", "ovmf"),
    ("machine", "q35"),
    ("ostype", "l26"),
    ("scsihw", "virtio-scsi-single"),
    ("serial0", "socket"),
    ("efidisk0", "local:1,efitype=4m,pre-enrolled-keys=0"),
    ("scsi0", "local:0,import-from=local:import/talos.qcow2,iothread=1,discard=on,ssd=1"),
    ("net0", "virtio=BC:24:11:00:09:00,bridge=vmbr0"),
    ("boot", "order=scsi0"),
    ("tags", "talos;CP"),
    ("description", "daedal: a line\n\n"),
];

#[tokio::test(start_paused = true)]
async fn a_vm_lives_and_dies() {
    let lab = Lab::new().with_image().await;
    let created = lab.call("POST", "/nodes/pve1/qemu", CREATE).await;
    assert_eq!((created.status, created.reason.as_str()), (200, "OK"));
    assert_eq!(created.headers["connection"], "close, Keep-Alive");

    let half = lab.call("GET", "/nodes/pve1/qemu/900/config", &[]).await;
    assert_eq!(half.data()["lock"], "create");
    assert!(half.data().get("name").is_none());
    let taken = lab.call("POST", "/nodes/pve1/qemu", CREATE).await;
    assert_eq!(taken.reason, "unable to create VM 900 - VM 900 already exists on node 'pve1'");

    assert_eq!(lab.wait(&created).await, "OK");
    let config = lab.call("GET", "/nodes/pve1/qemu/900/config", &[]).await;
    let config = config.data();
    assert_eq!(config["efidisk0"], "local:900/vm-900-disk-0.raw,efitype=4m,pre-enrolled-keys=0,size=528K");
    assert_eq!(config["scsi0"], "local:900/vm-900-disk-1.qcow2,discard=on,iothread=1,size=64M,ssd=1");
    assert_eq!(config["tags"], "cp;talos");
    assert_eq!(config["memory"], "512");
    assert_eq!(config["cores"], 2);
    assert_eq!(config["description"], "daedal: a line");
    for key in ["digest", "meta", "smbios1", "vmgenid"] {
        assert!(config[key].is_string(), "{key}");
    }
    assert!(config.get("lock").is_none());

    let resized = lab.task("PUT", "/nodes/pve1/qemu/900/resize", &[("disk", "scsi0"), ("size", "10G")]).await;
    assert_eq!(resized, "OK");
    let shrunk = lab.task("PUT", "/nodes/pve1/qemu/900/resize", &[("disk", "scsi0"), ("size", "1G")]).await;
    assert_eq!(shrunk, "shrinking disks is not supported");

    let seed = lab.upload(support::ADMIN, "local", "iso", "seed 900.iso", b"cidata!").await;
    assert_eq!(lab.wait(&seed).await, "OK");
    let attach = [("ide2", "local:iso/seed_900.iso,media=cdrom")];
    assert_eq!(lab.call("PUT", "/nodes/pve1/qemu/900/config", &attach).await.status, 200);
    let config = lab.call("GET", "/nodes/pve1/qemu/900/config", &[]).await;
    assert_eq!(config.data()["ide2"], "local:iso/seed_900.iso,media=cdrom,size=7");
    assert_eq!(config.data()["boot"], "order=scsi0;ide2");

    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await, "OK");
    let seen = lab.guests.hardware.lock().unwrap().get(&900).unwrap().clone();
    assert_eq!((seen.name.as_str(), seen.cores, seen.memory), ("cp-1", 2, 512 << 20));
    assert_eq!(seen.macs, ["BC:24:11:00:09:00"]);
    assert_eq!(seen.cdroms, [b"cidata!".to_vec()]);
    let disk = seen.disk.unwrap();
    assert_eq!((disk.size, disk.image), (10 << 30, image()));
    assert!(seen.agent);
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await, "VM 900 already running");
    let refused = lab.call("DELETE", "/nodes/pve1/qemu/900", &[]).await;
    assert_eq!(refused.reason, "VM 900 is running - destroy failed");

    let eject = lab.call("PUT", "/nodes/pve1/qemu/900/config", &[("ide2", "none,media=cdrom")]).await;
    assert_eq!(eject.status, 200);
    let pending = lab.call("GET", "/nodes/pve1/qemu/900/pending", &[]).await;
    assert!(pending.data().as_array().unwrap().iter().all(|row| row.get("pending").is_none()));
    assert_eq!(lab.task("DELETE", "/nodes/pve1/storage/local/content/iso/seed_900.iso", &[]).await, "OK");

    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/stop", &[]).await, "OK");
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/stop", &[]).await, "OK");
    let purge = [("purge", "1"), ("destroy-unreferenced-disks", "1")];
    assert_eq!(lab.task("DELETE", "/nodes/pve1/qemu/900", &purge).await, "OK");
    let gone = lab.call("DELETE", "/nodes/pve1/qemu/900", &[]).await;
    assert_eq!(gone.reason, "Configuration file 'nodes/pve1/qemu-server/900.conf' does not exist");
    assert_eq!(lab.dc.volumes(), ["pve1/local:import/talos.qcow2"]);
    let events = lab.guests.events();
    assert_eq!(events, ["on 900", "media 900 0", "off 900", "forgot a disk", "forgot a disk"]);
}

#[tokio::test(start_paused = true)]
async fn the_minimal_token_can_live_the_same_life() {
    let lab = Lab::new().with_image().await;
    let who = support::MINIMAL;
    let made = lab.call_as(who, "POST", "/nodes/pve1/qemu", CREATE).await;
    assert_eq!((made.status, made.reason.as_str()), (200, "OK"));
    assert_eq!(lab.wait(&made).await, "OK");
    let seed = lab.upload(who, "local", "iso", "seed.iso", b"cidata").await;
    assert_eq!(lab.wait(&seed).await, "OK");
    let attach = [("ide2", "local:iso/seed.iso,media=cdrom")];
    assert_eq!(lab.call_as(who, "PUT", "/nodes/pve1/qemu/900/config", &attach).await.reason, "OK");
    for path in ["status/start", "status/stop"] {
        let reply = lab.call_as(who, "POST", &format!("/nodes/pve1/qemu/900/{path}"), &[]).await;
        assert_eq!(lab.wait(&reply).await, "OK");
    }
    let gone = lab.call_as(who, "DELETE", "/nodes/pve1/qemu/900", &[("purge", "1")]).await;
    assert_eq!(lab.wait(&gone).await, "OK");
    let tasks = lab.call_as(who, "GET", "/cluster/tasks", &[]).await;
    let kinds: Vec<&str> =
        tasks.data().as_array().unwrap().iter().filter_map(|row| row["type"].as_str()).collect();
    assert!(kinds.contains(&"qmcreate") && kinds.contains(&"qmdestroy"), "{kinds:?}");
    let pools = lab.call_as(who, "POST", "/pools", &[("poolid", "mine")]).await;
    assert_eq!(
        (pools.status, pools.reason.as_str()),
        (403, "Permission check failed (/pool/mine, Pool.Allocate)")
    );
}

/// Two VMs made at the same time, with everything that Proxmox makes up: every answer, and the log of all calls.
async fn life(seed: u64) -> Vec<String> {
    let lab = Lab::of(&DatacenterSpec { seed, ..support::spec() }).with_image().await;
    let mut seen = Vec::new();
    let others: Vec<_> = CREATE.iter().copied().filter(|(key, _)| !["vmid", "net0"].contains(key)).collect();
    let one = [&others[..], &[("vmid", "900"), ("net0", "virtio,bridge=vmbr0")]].concat();
    let other = [&others[..], &[("vmid", "901"), ("net0", "virtio,bridge=vmbr0")]].concat();
    let ends = tokio::join!(
        lab.task("POST", "/nodes/pve1/qemu", &one),
        lab.task("POST", "/nodes/pve1/qemu", &other)
    );
    assert_eq!(ends, ("OK".into(), "OK".into()));
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await, "OK");
    for path in ["/nodes/pve1/qemu/900/config", "/nodes/pve1/qemu/901/config", "/nodes/pve1/tasks"] {
        seen.push(lab.call("GET", path, &[]).await.data().to_string());
    }
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu/900/status/stop", &[]).await, "OK");
    assert_eq!(lab.task("DELETE", "/nodes/pve1/qemu/900", &[]).await, "OK");
    seen.push(lab.call("GET", "/cluster/resources", &[]).await.data().to_string());
    seen.extend(lab.faults.log().iter().map(|call| format!("{call:?}")));
    seen
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_world_and_another_seed_another() {
    let first = life(7).await;
    assert!(first.len() > 20, "{first:#?}");
    assert_eq!(first, life(7).await);
    let other = life(8).await;
    for (at, what) in [(0, "MAC, uuids"), (2, "UPIDs")] {
        assert_ne!(first[at], other[at], "{what} are made up from the seed");
    }
}

#[tokio::test(start_paused = true)]
async fn what_other_clients_ask_besides() {
    let lab = Lab::new().with_image().await;
    // What a URL leads to, before it is downloaded.
    let url = ("url", "http://files.lan/talos.qcow2");
    let seen = lab.call("GET", "/nodes/pve1/query-url-metadata", &[url]).await;
    assert_eq!(seen.data()["filename"], "talos.qcow2");
    assert_eq!(seen.data()["size"], support::image().len());
    let gone = ("url", "http://files.lan/gone.qcow2");
    assert_eq!(lab.call("GET", "/nodes/pve1/query-url-metadata", &[gone]).await.status, 400);
    // Some say what stands in the path once more; who says something else there is told.
    let again = [("node", "pve1"), ("vmid", "900"), ("name", "again")];
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &again).await, "OK");
    let path = "/nodes/pve1/qemu/900/config";
    assert_eq!(lab.call("PUT", path, &[("node", "pve1"), ("vmid", "900"), ("cores", "2")]).await.status, 200);
    let other = lab.call("PUT", path, &[("vmid", "901"), ("cores", "2")]).await;
    assert_eq!(other.status, 400, "{other:?}");
    assert!(other.body["errors"]["vmid"].to_string().contains("conflicting values"), "{other:?}");
    // One pool is listed with all that is in it.
    assert_eq!(lab.call("POST", "/pools", &[("poolid", "mine"), ("comment", "ours")]).await.status, 200);
    assert_eq!(lab.call("PUT", "/pools/mine", &[("vms", "900")]).await.status, 200);
    let pools = lab.call("GET", "/pools", &[("poolid", "mine"), ("type", "qemu")]).await;
    let pool = &pools.data()[0];
    assert_eq!((&pool["poolid"], &pool["comment"]), (&"mine".into(), &"ours".into()));
    assert_eq!(pool["members"][0]["vmid"], 900);
    assert_eq!(lab.call("GET", "/pools", &[]).await.data()[0].get("members"), None);
}
