//! Storage types as they are: rounding, names, linked clones, lists.

use daedal_lab::proxmox::StorageSpec;
use serde_json::Value;

use crate::support::{Lab, spec};

/// Where a VM's disks are, and what is expected of them there.
struct Ways {
    kind: &'static str,
    efi: &'static str,
    imported: &'static str,
    template: &'static str,
    clone: Result<&'static str, &'static str>,
    destroyed: &'static str,
}

const ALL: &[Ways] = &[
    Ways {
        kind: "lvmthin",
        efi: "s:vm-998-disk-0,efitype=4m,size=4M",
        imported: "s:vm-998-disk-1,size=10244M",
        template: "s:base-998-disk-1,size=10244M",
        clone: Ok("s:vm-500-disk-1,size=10244M"),
        destroyed: "OK",
    },
    Ways {
        kind: "zfspool",
        efi: "s:vm-998-disk-0,efitype=4m,size=1M",
        imported: "s:vm-998-disk-1,size=10241M",
        template: "s:base-998-disk-1,size=10241M",
        clone: Ok("s:base-998-disk-1/vm-500-disk-1,size=10241M"),
        destroyed: "base volume 's:base-998-disk-1' is still in use by linked cloned",
    },
    Ways {
        kind: "dir",
        efi: "s:998/vm-998-disk-0.raw,efitype=4m,size=528K",
        imported: "s:998/vm-998-disk-1.raw,size=10241M",
        template: "s:998/base-998-disk-1.raw,size=10241M",
        clone: Ok("s:998/base-998-disk-1.raw/500/vm-500-disk-1.qcow2,size=10241M"),
        destroyed: "base volume 's:998/base-998-disk-1.raw' is still in use by linked cloned",
    },
    Ways {
        kind: "lvm",
        efi: "s:vm-998-disk-0,efitype=4m,size=4M",
        imported: "s:vm-998-disk-1,size=10244M",
        template: "s:vm-998-disk-1,size=10244M",
        clone: Err("Linked clone feature is not supported for 's:vm-998-disk-0' (efidisk0)"),
        destroyed: "OK",
    },
];

fn lab(kind: &str) -> Lab {
    let mut spec = spec();
    spec.hosts[0].storages.push(StorageSpec::new("s", kind, &["images"], 100 << 30));
    let lab = Lab::of(&spec);
    let size = (10 << 30) + (1 << 20);
    assert!(lab.dc.put_image("pve1", "local:import/talos.raw", b"a disk".to_vec(), Some(size)));
    lab
}

async fn option(lab: &Lab, vmid: u32, name: &str) -> Value {
    lab.call("GET", &format!("/nodes/pve1/qemu/{vmid}/config"), &[]).await.data()[name].clone()
}

#[tokio::test(start_paused = true)]
async fn every_type_has_its_own_ways() {
    for ways in ALL {
        let lab = lab(ways.kind);
        let create = [
            ("vmid", "998"),
            ("efidisk0", "s:1,efitype=4m"),
            ("scsi0", "s:0,import-from=local:import/talos.raw"),
        ];
        assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &create).await, "OK");
        assert_eq!(option(&lab, 998, "efidisk0").await, ways.efi);
        assert_eq!(option(&lab, 998, "scsi0").await, ways.imported);
        assert_eq!(lab.task("POST", "/nodes/pve1/qemu/998/template", &[]).await, "OK");
        assert_eq!(option(&lab, 998, "scsi0").await, ways.template);
        let clone = lab.call("POST", "/nodes/pve1/qemu/998/clone", &[("newid", "500")]).await;
        match ways.clone {
            Ok(volume) => {
                assert_eq!(lab.wait(&clone).await, "OK", "{}", ways.kind);
                assert_eq!(option(&lab, 500, "scsi0").await, volume);
            }
            Err(why) => assert_eq!((clone.status, clone.reason.as_str()), (500, why)),
        }
        let ended = lab.task("DELETE", "/nodes/pve1/qemu/998", &[]).await;
        assert_eq!(ended, ways.destroyed, "{}", ways.kind);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_lvm_tell_less() {
    for (kind, size) in [("lvmthin", "4M"), ("dir", "4M"), ("zfspool", "4M")] {
        let lab = lab(kind);
        let create = [("vmid", "500"), ("scsi0", "s:1"), ("ide2", "s:cloudinit")];
        assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &create).await, "OK");
        let rows = lab.call("GET", "/nodes/pve1/storage/s/content", &[]).await;
        let row = rows.data().as_array().unwrap().iter().find(|row| row["size"] == 1 << 30).unwrap().clone();
        let files = kind == "dir";
        assert_eq!(row["ctime"].is_string(), kind == "lvmthin", "{row}");
        assert_eq!(row["ctime"].is_number(), files, "{row}");
        assert_eq!((row.get("used").is_some(), row.get("parent").is_some()), (files, files), "{row}");
        let drive = option(&lab, 500, "ide2").await;
        assert_eq!(drive.as_str().unwrap().contains(&format!("size={size}")), files, "{drive}");
    }
}

/// What a dead create left takes names: the next VM of that number gets others.
#[tokio::test(start_paused = true)]
async fn leftover_volumes_take_their_names() {
    let lab = lab("lvmthin");
    let create = [("vmid", "500"), ("scsi0", "s:1")];
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &create).await, "OK");
    assert_eq!(
        lab.task("PUT", "/nodes/pve1/qemu/500/resize", &[("disk", "scsi0"), ("size", "1025M")]).await,
        "OK"
    );
    assert_eq!(option(&lab, 500, "scsi0").await, "s:vm-500-disk-0,size=1028M", "whole extents");
    let detach = lab.call("PUT", "/nodes/pve1/qemu/500/config", &[("scsi1", "s:1")]).await;
    assert_eq!(detach.status, 200);
    assert_eq!(option(&lab, 500, "scsi1").await, "s:vm-500-disk-1,size=1G");
}

/// A thick volume takes its space at once, a thin one when it is written.
#[tokio::test(start_paused = true)]
async fn thick_volumes_take_their_space_at_once() {
    for (kind, fits) in [("lvmthin", true), ("lvm", false)] {
        let lab = lab(kind);
        let create = [("vmid", "500"), ("scsi0", "s:90"), ("scsi1", "s:90")];
        let ended = lab.task("POST", "/nodes/pve1/qemu", &create).await;
        assert_eq!(ended == "OK", fits, "{kind}: {ended}");
    }
}

/// Administrators add, change and remove storages; what is switched off or lost is told as such.
#[tokio::test(start_paused = true)]
async fn storages_come_and_go() {
    let lab = lab("lvmthin");
    let add = [("storage", "tank"), ("type", "zfspool"), ("pool", "tank"), ("content", "images,iso")];
    let made = lab.call("POST", "/storage", &add).await;
    assert_eq!((made.status, &made.data()["type"]), (200, &"zfspool".into()));
    let row = lab.call("GET", "/storage/tank", &[]).await;
    assert_eq!(row.data()["content"], "images", "a pool holds no files");
    let again = lab.call("POST", "/storage", &add).await;
    assert_eq!(again.reason, "create storage failed: storage ID 'tank' already defined");
    let changed = lab.call_as(crate::support::MINIMAL, "PUT", "/storage/tank", &[("disable", "1")]).await;
    assert_eq!(changed.status, 200, "the token may allocate on every storage");

    let rows = lab.call("GET", "/nodes/pve1/storage", &[("storage", "tank")]).await;
    assert_eq!((&rows.data()[0]["enabled"], &rows.data()[0]["active"]), (&0.into(), &0.into()));
    let all = lab.call("GET", "/cluster/resources", &[("type", "storage")]).await;
    assert!(!all.body.to_string().contains("tank"), "what is disabled is not listed");
    let refused = lab.call("POST", "/nodes/pve1/qemu", &[("vmid", "500"), ("scsi0", "tank:1")]).await;
    assert_eq!(refused.reason, "storage 'tank' is disabled");
    assert_eq!(lab.call("PUT", "/storage/tank", &[("disable", "0")]).await.status, 200);
    assert_eq!(lab.call("PUT", "/storage/nowhere", &[("disable", "0")]).await.status, 500);

    let volume = [("vmid", "500"), ("filename", "vm-500-disk-7"), ("size", "1G")];
    let made = lab.call("POST", "/nodes/pve1/storage/s/content", &volume).await;
    assert_eq!(made.data(), "s:vm-500-disk-7");
    let foreign = [("vmid", "500"), ("filename", "vm-501-disk-7"), ("size", "1G")];
    let refused = lab.call("POST", "/nodes/pve1/storage/s/content", &foreign).await;
    assert_eq!(refused.reason, "illegal name 'vm-501-disk-7' - should be 'vm-500-*'");
    // Nobody deletes a volume from under a VM of that number, used or not.
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &[("vmid", "500")]).await, "OK");
    let refused = lab.call("DELETE", "/nodes/pve1/storage/s/content/vm-500-disk-7", &[]).await;
    assert!(
        refused.reason.starts_with("Cannot remove image, a guest with VMID '500' exists!"),
        "{}",
        refused.reason
    );

    assert!(lab.dc.lose("pve1/s", true));
    let rows = lab.call("GET", "/nodes/pve1/storage", &[("storage", "s")]).await;
    assert_eq!((&rows.data()[0]["enabled"], &rows.data()[0]["active"]), (&1.into(), &0.into()));
    let told = async || {
        let all = lab.call("GET", "/cluster/resources", &[("type", "storage")]).await;
        let rows = all.data().as_array().unwrap().clone();
        rows.into_iter().find(|row| row["storage"] == "s").unwrap()
    };
    assert_eq!(told().await["status"], "available", "it keeps its last figures for a while");
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    let row = told().await;
    assert_eq!((row["status"].as_str(), row.get("maxdisk")), (Some("unknown"), None), "{row}");
    assert_eq!(lab.call("DELETE", "/storage/tank", &[]).await.status, 200);
    assert_eq!(lab.call("DELETE", "/storage/tank", &[]).await.status, 500);
}
