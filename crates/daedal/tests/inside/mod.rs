//! The parts of the real nodes' suite that use our own client: run inside the nodes' network by the suite itself.

use std::path::PathBuf;
use std::time::Duration;

use daedal_dial::{Dialer, Target};
use daedal_talos_client::{
    ApplyMode, Bootstrap, Client, ConnectOptions, FailureKind, ImageNamespace, Probe, Snapshot, Tail, probe,
};
use daedal_talos_config::{ClientCredentials, Secret, Talosconfig};
use futures::StreamExt as _;

/// Names the suite's folder to the parts.
pub const FOLDER: &str = "DAEDAL_REAL_NODES_FOLDER";

/// Names the nodes' version of Talos to the parts.
pub const TALOS: &str = "DAEDAL_REAL_NODES_TALOS";

const CP: &str = "10.77.0.11";
const NEW: &str = "10.77.0.22";

fn folder() -> PathBuf {
    std::env::var_os(FOLDER).map(PathBuf::from).unwrap()
}

fn talos() -> String {
    std::env::var(TALOS).unwrap()
}

fn credentials() -> ClientCredentials {
    let text = std::fs::read_to_string(folder().join("talosconfig")).unwrap();
    Talosconfig::from_yaml(&text).unwrap().credentials
}

fn target(address: &str) -> Target {
    Target::new(address, 50000)
}

async fn client(address: &str) -> Client {
    let begin = tokio::time::Instant::now();
    loop {
        match Client::connect(dialer(), target(address), &credentials(), &ConnectOptions::default()).await {
            Ok(client) => return client,
            Err(error) if begin.elapsed() < Duration::from_secs(60) => {
                println!("{error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn dialer() -> Dialer {
    std::sync::Arc::new(daedal_dial::Direct)
}

fn run(part: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(part);
}

/// What a snapshot holds, in the words of talosctl.
pub fn described(file: &[u8]) -> String {
    let info = Snapshot::read(file).unwrap().info();
    format!(
        "hash {:08x}, revision {}, total keys {}, total size {}",
        info.hash, info.revision, info.keys, info.size
    )
}

/// The MAC by which a config selects its network card.
pub fn mac_of(config: &str) -> String {
    let line = config.lines().find(|line| line.contains("mac(link.permanent_addr)")).unwrap();
    line.split('"').find(|part| part.matches(':').count() == 5).unwrap().to_owned()
}

#[test]
#[ignore = "run by the suite of real nodes, in their network"]
fn every_harmless_call_is_answered() {
    run(async {
        let client = client(CP).await;
        assert_eq!(client.version().await.unwrap().tag, talos());
        assert_eq!(client.hostname().await.unwrap(), "cp-1");
        assert_eq!(client.etcd_members().await.unwrap().len(), 3);
        let status = client.etcd_status().await.unwrap();
        assert!(status.leader != 0 && status.errors.is_empty(), "{status:?}");
        assert_eq!(client.etcd_alarms().await.unwrap(), []);
        assert_eq!(client.etcd_disarm().await.unwrap(), []);
        client.etcd_defragment().await.unwrap();
        client.etcd_forfeit_leadership().await.unwrap();
        assert_eq!(client.bootstrap().await.unwrap(), Bootstrap::AlreadyDone);
        let services = client.service_list().await.unwrap();
        assert!(services.iter().any(|s| s.id == "etcd" && s.healthy == Some(true)), "{services:?}");
        assert!(client.kubeconfig().await.unwrap().expose().contains("client-certificate-data"));
        assert!(!client.boot_id().await.unwrap().is_empty());
        let images = client.image_list(ImageNamespace::Cri).await.unwrap();
        assert!(images.iter().any(|i| i.name.contains("kube-apiserver")), "{images:?}");
        let through = client.for_node("10.77.0.21");
        assert_eq!(through.hostname().await.unwrap(), "worker-1");
        let refused = through.etcd_members().await.unwrap_err();
        assert_eq!(refused.kind(), Some(FailureKind::NotImplemented), "{refused:?}");
        // What a container cannot do is refused, not hung.
        for refused in [
            client.rollback().await.unwrap_err(),
            client.meta_write(0x0b, b"x").await.unwrap_err(),
            client.reboot(false).await.map(drop).unwrap_err(),
        ] {
            assert_eq!(refused.kind(), Some(FailureKind::FailedPrecondition), "{refused:?}");
        }
        // Streams: events from the beginning, a log's end, the kernel's messages.
        let events = client.events(Tail::All, None).await.unwrap();
        let first = Box::pin(events).next().await.unwrap().unwrap();
        assert_eq!(first.kind, "SequenceEvent", "{first:?}");
        let log = client.logs("etcd", false, Some(2)).await.unwrap().collect::<Vec<_>>().await;
        assert!(log.iter().all(Result::is_ok) && !log.is_empty());
        let log = client.dmesg(false, false).await.unwrap().take(3).collect::<Vec<_>>().await;
        assert!(log.iter().all(Result::is_ok) && log.len() == 3);
        let unknown = client.logs("nosuch", false, None).await;
        let unknown = match unknown {
            Err(error) => Err(error),
            Ok(mut stream) => stream.next().await.unwrap().map(drop),
        };
        assert_eq!(unknown.unwrap_err().kind(), Some(FailureKind::Other));
    });
}

/// Nodes answer who follows a log with its first line only: until then there is not even a beginning.
#[test]
#[ignore = "run by the suite of real nodes, in their network"]
fn quiet_logs_are_followed() {
    run(async {
        let options = ConnectOptions { call_timeout: Duration::from_secs(2), ..ConnectOptions::default() };
        let client = Client::connect(dialer(), target(CP), &credentials(), &options).await.unwrap();
        for client in [client.for_node(CP), client] {
            let mut spoken = client.logs("machined", true, Some(1)).await.unwrap();
            assert!(!spoken.next().await.unwrap().unwrap().is_empty());
            let mut quiet = client.logs("apid", true, Some(0)).await.unwrap();
            let mut kernel = client.dmesg(true, true).await.unwrap();
            // For longer than a call may take, and than a stream may say nothing without a sign of life.
            let end = tokio::time::Instant::now() + Duration::from_secs(20);
            let mut lines = 0;
            loop {
                let next = futures::future::select(quiet.next(), kernel.next());
                let Ok(next) = tokio::time::timeout_at(end, next).await else { break };
                next.factor_first().0.unwrap().unwrap();
                lines += 1;
            }
            println!("{lines} lines");
            let unknown = match client.logs("nosuch", true, Some(0)).await {
                Ok(mut stream) => stream.next().await.unwrap().map(drop),
                Err(error) => Err(error),
            };
            assert_eq!(unknown.unwrap_err().kind(), Some(FailureKind::Other));
        }
    });
}

#[test]
#[ignore = "run by the suite of real nodes, in their network"]
fn maintenance_is_found_pinned_and_configured() {
    run(async {
        let credentials = credentials();
        let options = ConnectOptions::default();
        let begin = tokio::time::Instant::now();
        let fingerprint = loop {
            match probe(dialer(), target(NEW), &credentials, &options).await.unwrap() {
                Probe::Maintenance { fingerprint } => break fingerprint,
                other => assert!(begin.elapsed() < Duration::from_secs(30), "{other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        };
        let wrong = Client::connect_maintenance(dialer(), target(NEW), Some("AAAA"), &options).await;
        assert_eq!(wrong.unwrap_err().kind(), Some(FailureKind::OtherCluster));
        let (client, seen) =
            Client::connect_maintenance(dialer(), target(NEW), Some(&fingerprint), &options).await.unwrap();
        assert_eq!(seen, fingerprint);
        // From v1.13 on the usual API answers in maintenance mode, to whoever may only read.
        let before_1_13 = talos().starts_with("v1.12.");
        match client.version().await {
            Err(refused) if before_1_13 => assert_eq!(refused.kind(), Some(FailureKind::NotImplemented)),
            told => assert_eq!(told.unwrap().tag, talos()),
        }
        assert_eq!(client.machine_status().await.unwrap().unwrap().stage, "maintenance");

        let worker =
            std::fs::read_to_string(folder().join("lab/clusters/real/outputs/nodes/worker-1.yaml")).unwrap();
        let mac = client
            .get("network", "LinkStatuses.net.talos.dev", "eth0")
            .await
            .unwrap()
            .and_then(|link| Some(link.spec().get("hardwareAddr")?.as_str()?.to_owned()))
            .unwrap();
        let config =
            worker.replace("worker-1", "worker-2").replace("10.77.0.21", NEW).replace(&mac_of(&worker), &mac);
        if before_1_13 {
            let staged =
                client.apply_configuration(&Secret::new(config.clone()), ApplyMode::Staged, false).await;
            assert_eq!(staged.unwrap_err().kind(), Some(FailureKind::NotImplemented));
        }
        let broken = Secret::new(config.replace("kubelet:", "kubelets:"));
        assert!(client.apply_configuration(&broken, ApplyMode::Auto, false).await.is_err());
        client.apply_configuration(&Secret::new(config.clone()), ApplyMode::Auto, true).await.unwrap();
        client.apply_configuration(&Secret::new(config), ApplyMode::Auto, false).await.unwrap();
        let begin = tokio::time::Instant::now();
        while !matches!(
            probe(dialer(), target(NEW), &credentials, &options).await.unwrap(),
            Probe::Configured
        ) {
            assert!(begin.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
}
