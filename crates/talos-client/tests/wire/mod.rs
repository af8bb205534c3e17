//! What the client's calls are on the wire, byte by byte: field numbers are Talos' and nobody else's.

use std::time::Duration;

use daedal_talos_client::{
    Client, ContainerDriver, ContainerLog, DeviceWipe, FailureKind, HealthCheck, ImageNamespace,
    NodeDiskKind, RegistryLogin, Reset, WipeMethod, WipedPartition,
};
use daedal_talos_config::Secret;
use futures::{StreamExt, TryStreamExt};

use crate::{
    node::{Api, Node, admin, bundle, start},
    options, target,
};

async fn client() -> (Client, Node) {
    let ours = bundle(1);
    let (dialer, node) = start(&Api::Configured(&ours), "running");
    let client = Client::connect(dialer, target(), &admin(&ours), &options()).await.unwrap();
    (client, node)
}

/// A field that holds bytes, a text or a message.
fn field(number: u8, contents: impl AsRef<[u8]>) -> Vec<u8> {
    let contents = contents.as_ref();
    [&[number << 3 | 2, u8::try_from(contents.len()).unwrap()], contents].concat()
}

/// A field that holds a number, a flag or a choice.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

#[tokio::test(start_paused = true)]
async fn reboot_and_reset() {
    let (client, node) = client().await;
    assert_eq!(client.reboot(false).await.unwrap(), "reboot-1");
    client.reboot(true).await.unwrap();
    client.reboot_by_force().await.unwrap();
    assert_eq!(node.0.asked(), [("Reboot", vec![]), ("Reboot", number(1, 1)), ("Reboot", number(1, 2))]);

    assert_eq!(client.reset(&Reset::whole_system_disk()).await.unwrap(), "reset-1");
    assert_eq!(node.0.asked(), [("Reset", vec![])]);
    use WipedPartition::{Bios, Boot, Efi, Ephemeral, Meta, State};
    let disks = || ["/dev/sdb".to_owned(), "/dev/sdc".to_owned()];
    let mut reset = Reset::partitions(State, [Ephemeral, Meta, Efi, Bios, Boot]).and_user_disks(disks());
    (reset.graceful, reset.reboot) = (true, true);
    client.reset(&reset).await.unwrap();
    let mut expected = [number(1, 1), number(2, 1)].concat();
    for label in ["STATE", "EPHEMERAL", "META", "EFI", "BIOS", "BOOT"] {
        expected.extend(field(3, [field(1, label), number(2, 1)].concat()));
    }
    let disks_named = [field(4, "/dev/sdb"), field(4, "/dev/sdc")].concat();
    expected.extend(&disks_named);
    assert_eq!(node.0.asked(), [("Reset", expected)]);
    client.reset(&Reset::user_disks(disks())).await.unwrap();
    assert_eq!(node.0.asked(), [("Reset", [disks_named, number(5, 2)].concat())]);
}

#[tokio::test(start_paused = true)]
async fn logs_of_any_container() {
    let (client, node) = client().await;
    let text = |parts: Vec<Vec<u8>>| String::from_utf8(parts.concat()).unwrap();
    let log = client.logs("etcd", false, Some(2)).await.unwrap().try_collect().await.unwrap();
    assert_eq!(text(log), "one\ntwo\n");
    let id = "kube-system/kube-apiserver-cp-1:kube-apiserver:0123456789ab";
    let log = client.container_logs(&ContainerLog::of_pod(id), true, Some(5)).await.unwrap();
    assert_eq!(text(log.try_collect().await.unwrap()), "one\ntwo\n");
    let other =
        ContainerLog { namespace: "k8s.io".into(), id: "x".into(), driver: ContainerDriver::Containerd };
    drop(client.container_logs(&other, false, Some(1)).await.unwrap());
    assert_eq!(
        node.0.asked(),
        [
            ("Logs", [field(1, "system"), field(2, "etcd"), number(5, 2)].concat()),
            ("Logs", [field(1, "k8s.io"), field(2, id), number(3, 1), number(4, 1), number(5, 5)].concat()),
            ("Logs", [field(1, "k8s.io"), field(2, "x"), number(5, 1)].concat()),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn etcd_tells_its_versions_and_sizes() {
    let (client, node) = client().await;
    *node.0.stage.lock().unwrap() = "etcd runs".into();
    let status = client.etcd_status().await.unwrap();
    assert_eq!((status.db_size, status.db_size_in_use, status.leader, status.member_id), (50, 20, 7, 9));
    assert_eq!((status.protocol_version.as_str(), status.storage_version.as_deref()), ("3.6.5", Some("3.6")));
    assert!(status.is_learner);
}

#[tokio::test(start_paused = true)]
async fn etcd_goes_back_to_an_older_version() {
    let (client, node) = client().await;
    assert_eq!(client.etcd_downgrade_validate("3.5").await.unwrap(), "3.6.0");
    assert_eq!(client.etcd_downgrade_enable("3.5").await.unwrap(), "3.6.0");
    assert_eq!(client.etcd_downgrade_cancel().await.unwrap(), "3.6.0");
    let refused = client.etcd_downgrade_validate("3.4").await.unwrap_err();
    assert_eq!(refused.kind(), Some(FailureKind::Invalid));
    assert_eq!(
        node.0.asked(),
        [
            ("EtcdDowngradeValidate", field(1, "3.5")),
            ("EtcdDowngradeEnable", field(1, "3.5")),
            ("EtcdDowngradeCancel", vec![]),
            ("EtcdDowngradeValidate", field(1, "3.4")),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn health_is_told_as_it_is_found_out_and_within_a_deadline() {
    let (client, node) = client().await;
    let check = HealthCheck {
        control_planes: vec!["10.0.0.11".into(), "10.0.0.12".into()],
        workers: vec![],
        endpoint: Some("https://10.0.0.20:6443".into()),
        patience: Duration::from_secs(90),
    };
    let said: Vec<String> = client.health_check(&check).await.unwrap().try_collect().await.unwrap();
    assert_eq!(said, ["waiting for etcd to be healthy: ...", "etcd: OK"]);
    let info = [field(1, "10.0.0.11"), field(1, "10.0.0.12"), field(3, "https://10.0.0.20:6443")].concat();
    let expected = [field(1, number(1, 90)), field(2, info)].concat();
    assert_eq!(node.0.asked(), [("HealthCheck", expected)]);

    // Something is wrong.
    let one = HealthCheck { workers: vec!["10.0.0.21".into()], ..check.clone() };
    let mut said: Vec<_> = client.health_check(&one).await.unwrap().collect().await;
    let error = said.pop().unwrap().unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("a kubelet is not ready"));
    assert!(said.len() == 2 && said.iter().all(Result::is_ok));
    let expected = field(2, field(2, "10.0.0.21"));
    assert!(node.0.asked()[0].1.windows(expected.len() - 2).any(|bytes| *bytes == expected[2..]));

    // The node forgets the time.
    let two = HealthCheck { workers: vec!["10.0.0.21".into(), "10.0.0.22".into()], ..check };
    let begin = tokio::time::Instant::now();
    let mut said: Vec<_> = client.health_check(&two).await.unwrap().collect().await;
    assert_eq!(said.pop().unwrap().unwrap_err().kind(), Some(FailureKind::Timeout));
    assert_eq!(begin.elapsed().as_secs(), 110);

    // The node looks for the others for longer than a call usually takes, and says nothing before it has found them.
    let slow = HealthCheck { control_planes: Vec::new(), workers: Vec::new(), ..two.clone() };
    let said: Vec<String> = client.health_check(&slow).await.unwrap().try_collect().await.unwrap();
    assert_eq!(said.len(), 2);
    // A time that nobody can keep is refused, not forgotten.
    for patience in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
        let failed = client.health_check(&HealthCheck { patience, ..two.clone() }).await.err().unwrap();
        assert!(std::error::Error::source(&failed).unwrap().to_string().contains("longer than"), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn disks_are_seen_and_wiped() {
    let (client, node) = client().await;
    let disks = client.disks().await.unwrap();
    assert_eq!(disks.len(), 2);
    assert_eq!(
        (disks[0].device.as_str(), disks[0].size, disks[0].is_system),
        ("/dev/nvme0n1", 10 << 30, true)
    );
    assert_eq!((disks[0].kind, disks[1].kind), (Some(NodeDiskKind::Nvme), None));

    client.wipe_devices(&[DeviceWipe { device: "sdb".into(), ..DeviceWipe::default() }]).await.unwrap();
    assert_eq!(node.0.asked(), [("BlockDeviceWipe", field(1, field(1, "sdb")))]);
    let thorough = DeviceWipe {
        device: "sdb1".into(),
        method: WipeMethod::Zeroes,
        skip_volume_check: true,
        skip_secondary_check: true,
        drop_partition: true,
    };
    // Longer than a call usually may take.
    client.wipe_devices(&[thorough]).await.unwrap();
    let expected = [field(1, "sdb1"), number(2, 1), number(3, 1), number(4, 1), number(5, 1)].concat();
    assert_eq!(node.0.asked(), [("BlockDeviceWipe", field(1, expected))]);
}

#[tokio::test(start_paused = true)]
async fn installing_on_a_disk() {
    let (client, node) = client().await;
    let image = "ghcr.io/siderolabs/installer:v1.13.0";
    let mut said = Vec::new();
    client.install(image, "/dev/sda", |line| said.push(line.to_owned())).await.unwrap();
    client.install_upgrade(image, |line| said.push(line.to_owned())).await.unwrap();
    assert_eq!(said, ["copying files\n", "copying files\n"]);
    // Driver CRI, namespace of Talos itself.
    let system = field(1, [number(1, 1), number(2, 1)].concat());
    let source = field(2, field(1, image));
    assert_eq!(
        node.0.asked(),
        [
            ("Install", [system.clone(), source.clone(), field(3, field(1, "/dev/sda"))].concat()),
            ("Upgrade", [system, source].concat()),
        ]
    );
    let failed = client.install(image, "/dev/full", |_| {}).await.unwrap_err();
    assert_eq!(failed.kind(), Some(FailureKind::Other));
    let broken = client.install(image, "/dev/lost", |_| {}).await.unwrap_err();
    assert_eq!(broken.kind(), Some(FailureKind::Transient), "the end of the stream is not the installer's");
}

#[tokio::test(start_paused = true)]
async fn images_are_imported_and_verified() {
    let (client, node) = client().await;
    let archive = futures::stream::iter(["ghcr.io/", "a/b:", "v1"].map(|piece| piece.as_bytes().to_vec()));
    assert_eq!(client.image_import(ImageNamespace::Cri, archive).await.unwrap(), "ghcr.io/a/b:v1");
    let piece = |text: &str| ("Import", field(2, field(2, text)));
    let where_to = ("Import", field(1, [number(1, 1), number(2, 2)].concat()));
    assert_eq!(node.0.asked(), [where_to, piece("ghcr.io/"), piece("a/b:"), piece("v1")]);

    let login =
        RegistryLogin { host: "r.example.org".into(), username: "u".into(), password: Secret::new("canary") };
    assert!(!format!("{login:?}").contains("canary"));
    let found = client.image_verify("signed/x:v1", Some(&login)).await.unwrap();
    assert_eq!(
        (found.verified.as_deref(), found.message.as_str()),
        (Some("signed/x:v1@sha256:00"), "by rule 1")
    );
    assert_eq!(client.image_verify("other:v1", None).await.unwrap().verified, None);
    let forged = client.image_verify("forged:v1", None).await.unwrap_err();
    assert_eq!(forged.kind(), Some(FailureKind::PermissionDenied));
    let credentials = [field(1, "r.example.org"), field(2, "u"), field(3, "canary")].concat();
    assert_eq!(
        node.0.asked(),
        [
            ("Verify", [field(1, "signed/x:v1"), field(2, credentials)].concat()),
            ("Verify", field(1, "other:v1")),
            ("Verify", field(1, "forged:v1")),
        ]
    );
}
