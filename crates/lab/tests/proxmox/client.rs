//! The project's own typed client against the pretend API, with the minimal token: many VMs at once.

use std::sync::Arc;

use daedal_proxmox::{
    Client, CreateVm, Download, Kind, NewDisk, Nic, TaskWatcher, Token, Trust, UpdateVm, Upload, cdrom,
};

use crate::support::{Lab, image, spec};

fn client(lab: &Lab, host: &str) -> Client {
    let token = Token::new("daedal@pve!cli", "minimal-secret").unwrap();
    Client::builder(format!("https://{host}.lan:8006"), token)
        .dialer(Arc::new(lab.fabric.clone()))
        .trust(Trust::Ca(lab.pki.ca_pem().to_owned()))
        .build()
        .unwrap()
}

async fn one_life(client: &Client, tasks: &TaskWatcher, vmid: u32) {
    let volid = format!("local:iso/seed-{vmid}.iso");
    let seed = Upload::iso(format!("seed-{vmid}.iso"), format!("cidata of {vmid}").into_bytes());
    let upid = client.upload("pve1", "local", &seed).await.unwrap();
    tasks.finish(&upid, "upload").await.unwrap();
    let vm = CreateVm {
        vmid,
        name: format!("node-{vmid}"),
        cores: 2,
        memory_mib: 2048,
        agent: true,
        bios: Some("ovmf".into()),
        machine: Some("q35".into()),
        scsihw: Some("virtio-scsi-single".into()),
        serial_console: true,
        tags: vec!["daedal".into()],
        description: Some("daedal: mark".into()),
        smbios_uuid: Some("6f1f7f2e-0000-4000-8000-000000000001".into()),
        efi_storage: Some("local".into()),
        disks: [("scsi0".into(), NewDisk::import("local", "local:import/talos.qcow2"))].into(),
        cdroms: [("ide2".into(), Some(volid.clone()))].into(),
        nics: vec![Nic::virtio("BC:24:11:00:00:01", "vmbr0")],
        boot_order: vec!["scsi0".into()],
        ..CreateVm::default()
    };
    let upid = client.create_vm("pve1", &vm).await.unwrap();
    tasks.finish(&upid, "create").await.unwrap();
    if let Some(upid) = client.resize_disk("pve1", vmid, "scsi0", 10 << 30).await.unwrap() {
        tasks.finish(&upid, "resize").await.unwrap();
    }
    let upid = client.start_vm("pve1", vmid).await.unwrap();
    tasks.finish(&upid, "start").await.unwrap();
    let eject = UpdateVm::new().set("ide2", cdrom(None));
    client.update_vm("pve1", vmid, &eject).await.unwrap();
    if let Some(upid) = client.delete_volume("pve1", &volid).await.unwrap() {
        tasks.finish(&upid, "delete").await.unwrap();
    }
    let config = client.vm_config("pve1", vmid).await.unwrap();
    assert_eq!(config.description.as_deref(), Some("daedal: mark"));
}

#[tokio::test(start_paused = true)]
async fn the_typed_client_brings_up_and_takes_down_many() {
    let lab = Lab::of(&spec());
    lab.serve_file("/talos.qcow2", image());
    let client = client(&lab, "pve1");
    let tasks = TaskWatcher::new(&client);
    assert_eq!(client.version().await.unwrap().version, "9.2.11");
    assert_eq!(client.storages("pve1").await.unwrap().len(), 2);
    assert_eq!(client.bridges("pve1").await.unwrap().len(), 1);
    assert!(client.permissions().await.is_ok());
    let download = Download {
        content: "import".into(),
        filename: "talos.qcow2".into(),
        url: "http://files.lan/talos.qcow2".into(),
        sha256: Some(hex::encode(<sha2::Sha256 as sha2::Digest>::digest(image()))),
        verify_certificates: true,
    };
    let upid = client.download("pve1", "local", &download).await.unwrap();
    tasks.finish(&upid, "download").await.unwrap();

    let began = tokio::time::Instant::now();
    let lives = (300..324).map(|vmid| one_life(&client, &tasks, vmid));
    futures::future::join_all(lives).await;
    println!("24 VMs up in {:?} of simulated time, {} calls", began.elapsed(), lab.faults.log().len());
    assert_eq!(lab.guests.hardware.lock().unwrap().len(), 24);
    assert_eq!(client.vms("pve1").await.unwrap().len(), 24);

    let down = (300..324).map(|vmid| {
        let (client, tasks) = (&client, &tasks);
        async move {
            let upid = client.stop_vm("pve1", vmid).await.unwrap();
            tasks.finish(&upid, "stop").await.unwrap();
            let upid = client.destroy_vm("pve1", vmid, true).await.unwrap();
            tasks.finish(&upid, "destroy").await.unwrap();
        }
    });
    futures::future::join_all(down).await;
    assert_eq!(lab.dc.volumes(), ["pve1/local:import/talos.qcow2"]);
    let gone = client.vm_config("pve1", 300).await.unwrap_err();
    assert!(matches!(gone.kind(), Kind::NotFound { .. }), "{gone:?}");
}
