//! The image factory's client against the lab's factory: lists, schematics, images, the installer that follows the platform.

use std::sync::Arc;

use daedal_dial::Trust;
use daedal_image_factory::Factory;
use daedal_lab::{Fabric, Pace};
use daedal_talos_image::{Arch, Format, Image, MetaValue, Overlay, OverlayOption, Schematic, SecureBoot};

/// A factory of one's own, at an address of one's own.
fn factory() -> Factory {
    let fabric = Fabric::default();
    let pki = daedal_lab::pki::Pki::generate("factory").unwrap();
    let served = daedal_lab::Factory::default();
    let address = "http://factory.lan:8080";
    served.listen(address, &fabric, &pki, &Default::default(), Pace::new(1.0, 0)).unwrap();
    Factory::new(address, Arc::new(fabric), &Trust::System).unwrap()
}

#[tokio::test(start_paused = true)]
async fn lists_come_from_the_service() {
    let factory = factory();
    let versions = factory.versions().await.unwrap();
    assert!(versions.contains(&"v1.12.0".to_owned()) && !versions.iter().any(|v| v.contains("latest")));
    let extensions = factory.extensions("v1.12.0").await.unwrap();
    let agent = extensions.iter().find(|e| e.name == "siderolabs/qemu-guest-agent").unwrap();
    assert!(agent.reference.starts_with("ghcr.io/siderolabs/qemu-guest-agent:"), "{agent:?}");
    assert!(agent.digest.starts_with("sha256:"), "{agent:?}");
    let overlays = factory.overlays("1.12.0").await.unwrap();
    assert!(overlays.iter().any(|o| o.name == "rpi_generic" && o.image == "siderolabs/sbc-raspberrypi"));
    assert!(factory.extensions("v1.99.0").await.is_err() && factory.overlays("v1.99.0").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn schematics_of_every_kind_get_the_id_that_was_computed() {
    let factory = factory();
    let schematic = Schematic {
        overlay: Some(Overlay {
            image: "siderolabs/sbc-raspberrypi".into(),
            name: "rpi_generic".into(),
            options: [("configTxt".to_owned(), OverlayOption::Text("gpu_mem=16\n".into()))].into(),
        }),
        kernel_args: vec!["console=ttyAMA0".into(), "-quiet".into()],
        meta: vec![MetaValue { key: 0x0a, value: "addresses: []\n".into() }],
        secure_boot: SecureBoot { enroll_keys: Some("force".into()), well_known_certificates: true },
        bootloader: Some("sd-boot".into()),
        sector_size: Some(4096),
        ..Schematic::with_extensions(["qemu-guest-agent", "tailscale"])
    };
    let id = factory.register(&schematic).await.unwrap();
    assert_eq!(id, schematic.id());
    for (arch, secure_boot, file, installer) in [
        (Arch::Amd64, false, "nocloud-amd64.qcow2", "nocloud-installer"),
        (Arch::Arm64, false, "nocloud-arm64.qcow2", "nocloud-installer"),
        (Arch::Amd64, true, "nocloud-amd64-secureboot.qcow2", "nocloud-installer-secureboot"),
        (Arch::Arm64, true, "nocloud-arm64-secureboot.qcow2", "nocloud-installer-secureboot"),
    ] {
        let image = Image { secure_boot, ..Image::nocloud(id.clone(), "v1.12.0", arch) };
        assert_eq!(image.file_name(), file);
        assert_eq!(
            image.installer("http://factory.lan:8080"),
            format!("factory.lan:8080/{installer}/{id}:v1.12.0")
        );
        assert!(factory.head(&image).await.unwrap().unwrap() > 0);
        let metal = Image { platform: "metal".into(), format: Format::Iso, ..image };
        assert!(factory.head(&metal).await.unwrap().is_some());
    }
    let unknown = Image::nocloud("0".repeat(64), "v1.12.0", Arch::Amd64);
    assert!(factory.head(&unknown).await.is_err());
    // Whatever can be read is taken; what cannot be built is told when an image is asked for.
    let board = |image: &str, name: &str| {
        let overlay = Overlay { image: image.into(), name: name.into(), ..Overlay::default() };
        Schematic { overlay: Some(overlay), ..Schematic::default() }
    };
    for (schematic, builds) in [
        (Schematic::with_extensions(["no-such"]), false),
        (Schematic::with_extensions(["i915-ucode"]), true),
        (board("siderolabs/sbc-raspberrypi", "no-such"), false),
        (board("ghcr.io/siderolabs/sbc-raspberrypi", "rpi_generic"), true),
    ] {
        let id = factory.register(&schematic).await.unwrap();
        let there = factory.head(&Image::nocloud(id, "v1.12.0", Arch::Amd64)).await;
        assert_eq!(there.is_ok(), builds, "{schematic:?}");
    }
}
