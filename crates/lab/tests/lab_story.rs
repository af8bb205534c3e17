//! The lab as one piece: a factory that images come from, and a world that outlives its process.

use daedal_dial::Target;
use daedal_image_factory::Factory;
use daedal_lab::proxmox::{DatacenterSpec, HostSpec};
use daedal_lab::{Lab, LabSpec, ServeOptions, SystemImage, Wanted, serve, virtual_size};
use daedal_talos_image::{Image, Schematic};

fn spec() -> LabSpec {
    let hosts = vec![HostSpec::new("atlas", 16, 64 << 30)];
    LabSpec {
        epoch: 1_794_768_000,
        datacenter: DatacenterSpec { hosts, ..DatacenterSpec::default() },
        ..LabSpec::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_exists_once_its_schematic_was_posted_and_is_always_the_same() {
    let lab = Lab::new(spec()).unwrap();
    let trust = daedal_dial::Trust::Ca(lab.pki().ca_pem().into());
    let client = Factory::new("https://factory.talos.dev", lab.dialer(), &trust).unwrap();
    let schematic = Schematic::with_extensions(["qemu-guest-agent"]);
    let image = Image::nocloud(schematic.id(), "v1.12.0", Default::default());
    assert!(client.head(&image).await.is_err(), "nobody has posted it yet");
    client.register(&schematic).await.unwrap();
    assert!(client.head(&image).await.is_ok());
    let system = SystemImage {
        version: "v1.12.0".into(),
        schematic: schematic.id(),
        platform: "nocloud".into(),
        arch: "amd64".into(),
        extensions: vec!["siderolabs/qemu-guest-agent".into()],
        kernel_args: vec![],
        installer: false,
        secure_boot: false,
        meta: Default::default(),
    };
    let bytes = system.encode(daedal_lab::Format::Qcow2);
    assert_eq!(virtual_size(&bytes), Some(1246 << 20));
}

#[tokio::test(start_paused = true)]
async fn a_saved_lab_goes_on_with_the_same_authority_and_never_back_in_time() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Lab::load(folder.path(), 1.0, 0, None).unwrap().is_none());
    let lab = Lab::new(spec()).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(100)).await;
    lab.save(folder.path()).unwrap();
    let (ca, now) = (lab.pki().ca_pem().to_owned(), lab.pace().now());
    drop(lab);
    let lab = Lab::load(folder.path(), 10.0, 0, None).unwrap().unwrap();
    assert_eq!(lab.pki().ca_pem(), ca);
    assert!(lab.pace().now() >= now);
    assert!(lab.fabric().targets().contains(&Target::new("factory.talos.dev", 443)));
    assert!(lab.fabric().targets().contains(&Target::new("atlas", 8006)));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join("world.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_factory_answers_wherever_an_inventory_expects_one() {
    let lab = Lab::new(spec()).unwrap();
    let trust = daedal_dial::Trust::Ca(lab.pki().ca_pem().into());
    let own = ["https://factory.example.org:8443", "http://10.9.8.7:8080"];
    let wanted = Wanted { factories: own.map(str::to_owned).to_vec(), ..Wanted::default() };
    lab.ensure(&wanted).unwrap();
    let folder = tempfile::tempdir().unwrap();
    lab.save(folder.path()).unwrap();
    for lab in [lab, Lab::load(folder.path(), 1.0, 0, None).unwrap().unwrap()] {
        for address in own {
            let client = Factory::new(address, lab.dialer(), &trust).unwrap();
            assert!(!client.versions().await.unwrap().is_empty(), "{address}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_served_lab_ends_once_it_was_idle_for_long_enough_and_no_sooner() {
    let folder = tempfile::tempdir().unwrap();
    let idle = std::time::Duration::from_secs(60);
    let options = ServeOptions { folder: folder.path().to_owned(), spec: spec(), idle: Some(idle) };
    let (tell, ready) = tokio::sync::oneshot::channel();
    let served = tokio::spawn(serve(options, Default::default(), move |announcement| {
        let _ = tell.send(announcement.proxy);
    }));
    // Somebody who is connected and says nothing keeps it alive.
    let connection = std::net::TcpStream::connect(ready.await.unwrap()).unwrap();
    tokio::time::sleep(idle * 3).await;
    assert!(!served.is_finished(), "it ended while somebody was connected");
    drop(connection);
    let alone = tokio::time::Instant::now();
    served.await.unwrap().unwrap();
    let lived = alone.elapsed();
    assert!(lived >= idle && lived < idle + std::time::Duration::from_secs(10), "{lived:?}");
    // Its world stays, its announcement goes.
    assert!(folder.path().join("world.json").exists() && !folder.path().join("lab.json").exists());
}

#[tokio::test]
async fn several_may_ask_for_the_world_to_be_written_at_once() {
    let lab = Lab::new(spec()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| lab.save(folder.path()).unwrap()));
        }
    });
}
