//! Every call of the client against simulated machines, in virtual time: what they answer is what real nodes answered.

use crate::ground;

use std::time::Duration;

use daedal_lab::faults::{Fault, When};
use daedal_lab::{Disk, Format, Guests as _};
use daedal_talos_client::{
    ApplyMode, Bootstrap, Client, Error, FailureKind, ImageNamespace, ResourceEvent, Snapshot, Tail, Upgrade,
};
use daedal_talos_config::{Role, Secret};
use futures::StreamExt as _;
use ground::{Cluster, Lab, address, hardware, until_ready};

#[track_caller]
fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> FailureKind {
    result.unwrap_err().kind().unwrap()
}

/// Control planes that are one cluster.
async fn planes(lab: &Lab, cluster: &Cluster, count: u8) -> Vec<Client> {
    for last in 11..11 + count {
        lab.boot(cluster, Role::ControlPlane, &format!("cp-{}", last - 10), last);
    }
    let first = lab.client(cluster, 11).await;
    lab.bootstrap(&first).await;
    let mut clients = Vec::new();
    for last in 11..11 + count {
        let client = lab.client(cluster, last).await;
        until_ready(&client).await;
        lab.machines.media_changed(300 + u32::from(last), vec![]);
        clients.push(client);
    }
    clients
}

#[tokio::test(start_paused = true)]
async fn etcd_is_looked_after_as_on_a_real_node() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let clients = planes(&lab, &cluster, 3).await;
    let first = &clients[0];
    assert_eq!(first.etcd_alarms().await.unwrap(), []);
    assert_eq!(first.etcd_disarm().await.unwrap(), []);
    first.etcd_defragment().await.unwrap();
    let before = first.etcd_status().await.unwrap();
    for client in &clients {
        let status = client.etcd_status().await.unwrap();
        if status.leader == status.member_id {
            client.etcd_forfeit_leadership().await.unwrap();
            break;
        }
    }
    let after = first.etcd_status().await.unwrap();
    assert_ne!(before.leader, after.leader);
    assert_eq!(kind(first.etcd_remove_member(1).await), FailureKind::NotFound);

    // One leaves and stays out; two remain and keep their quorum; the last one cannot go.
    clients[2].etcd_leave_cluster().await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let members = first.etcd_members().await.unwrap();
    assert_eq!(members.len(), 2, "{members:?}");
    let etcd = clients[2].service_list().await.unwrap().into_iter().find(|s| s.id == "etcd").unwrap();
    assert_eq!((etcd.state.as_str(), etcd.healthy), ("Finished", Some(false)));
    assert_eq!(kind(clients[2].etcd_members().await), FailureKind::Timeout);
    // After a reboot it joins again, as Talos does.
    clients[2].reboot(false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(first.etcd_members().await.unwrap().len(), 3);

    // With one of three down, a healthy one may not be removed, the one that is down may.
    let member = |members: &[daedal_talos_client::EtcdMember], name: &str| {
        members.iter().find(|m| m.hostname == name).unwrap().id
    };
    let members = first.etcd_members().await.unwrap();
    lab.machines.power_off(313);
    assert_eq!(kind(first.etcd_remove_member(member(&members, "cp-2")).await), FailureKind::Other);
    first.etcd_remove_member(member(&members, "cp-3")).await.unwrap();
    first.etcd_remove_member(member(&members, "cp-2")).await.unwrap();
    assert_eq!(kind(first.etcd_leave_cluster().await), FailureKind::Other);
    assert_eq!(kind(first.etcd_forfeit_leadership().await), FailureKind::Other);
    assert_eq!(first.etcd_members().await.unwrap().len(), 1);
}

/// Found on real nodes: whoever asks a node for members while its etcd does not run gets no answer at all.
#[tokio::test(start_paused = true)]
async fn etcd_that_does_not_run_does_not_answer() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let state = |services: Vec<daedal_talos_client::Service>| {
        let etcd = services.into_iter().find(|service| service.id == "etcd").unwrap();
        (etcd.state, etcd.healthy)
    };
    lab.boot(&cluster, Role::ControlPlane, "cp-1", 11);
    let client = lab.client(&cluster, 11).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(kind(client.etcd_members().await), FailureKind::Timeout);
    assert_eq!(kind(client.etcd_status().await), FailureKind::Timeout);
    assert_eq!(state(client.service_list().await.unwrap()), ("Preparing".to_owned(), None));
    let machine = client.machine_status().await.unwrap().unwrap();
    assert_eq!((machine.stage.as_str(), machine.ready), ("booting", false), "{machine:?}");
    let unmet =
        [("services", "etcd not running"), ("nodeReady", "node \"cp-1\" status is not available yet")];
    assert_eq!(machine.unmet, unmet.map(|(name, why)| (name.to_owned(), why.to_owned())));
    // Who keeps asking is answered once it runs.
    let (members, bootstrapped) = tokio::join!(client.etcd_members(), client.bootstrap());
    bootstrapped.unwrap();
    assert_eq!(members.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_verified_and_restored_into_a_fresh_cluster() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let clients = planes(&lab, &cluster, 1).await;
    let mut parts = Box::pin(clients[0].etcd_snapshot().await.unwrap());
    let mut file = Vec::new();
    while let Some(part) = parts.next().await {
        file.extend_from_slice(&part.unwrap());
    }
    let info = Snapshot::read(&file).unwrap().info();
    assert!(info.keys > 5 && info.revision > 5 && info.size + 32 == file.len() as u64, "{info:?}");
    for at in (0..file.len()).step_by(997) {
        let mut wrong = file.clone();
        wrong[at] ^= 0x10;
        assert!(Snapshot::read(&wrong).is_err(), "a wrong byte at {at}");
        assert!(Snapshot::read(&file[..at]).is_err(), "cut off at {at}");
    }

    let fresh = Lab::new();
    fresh.boot(&cluster, Role::ControlPlane, "cp-1", 11);
    let client = fresh.client(&cluster, 11).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut wrong = file.clone();
    wrong[5_000] ^= 1;
    client.etcd_recover(futures::stream::iter([wrong])).await.unwrap();
    assert_eq!(kind(client.bootstrap_recovered(false).await), FailureKind::Other);
    let pieces: Vec<Vec<u8>> = file.chunks(64 * 1024).map(<[u8]>::to_vec).collect();
    client.etcd_recover(futures::stream::iter(pieces)).await.unwrap();
    assert_eq!(client.bootstrap_recovered(false).await.unwrap(), Bootstrap::Started);
    assert_eq!(client.bootstrap_recovered(false).await.unwrap(), Bootstrap::AlreadyDone);
    until_ready(&client).await;
    let mut parts = Box::pin(client.etcd_snapshot().await.unwrap());
    let mut again = Vec::new();
    while let Some(part) = parts.next().await {
        again.extend_from_slice(&part.unwrap());
    }
    let restored = Snapshot::read(&again).unwrap().info();
    assert!(restored.revision >= info.revision && restored.keys >= info.keys, "{restored:?}");
}

#[tokio::test(start_paused = true)]
async fn configurations_take_effect_as_their_mode_says() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let clients = planes(&lab, &cluster, 1).await;
    let client = &clients[0];
    let plain = cluster.config(Role::ControlPlane, "cp-1", 11).to_yaml().expose().to_owned();
    let with = |key: &str, value: &str| {
        let text = plain.replacen("\nmachine:", &format!("\nmachine:\n  {key}: {value}"), 1);
        assert_ne!(text, plain);
        Secret::new(text)
    };
    let (live, rebooting) = (with("sysctls", "{net.a: \"1\"}"), with("env", "{A: b}"));
    let active = async |client: &Client| {
        let config = client.get("config", "MachineConfigs.config.talos.dev", "v1alpha1").await.unwrap();
        config.unwrap().spec().as_str().unwrap().to_owned()
    };
    let persistent = async |client: &Client| {
        let config = client.get("config", "MachineConfigs.config.talos.dev", "persistent").await.unwrap();
        config.unwrap().spec().as_str().unwrap().to_owned()
    };

    // A dry run says what would happen, and nothing does.
    let dry = client.apply_configuration(&rebooting, ApplyMode::Auto, true).await.unwrap();
    assert_eq!(dry.mode, ApplyMode::Reboot);
    assert!(
        dry.details.contains("with a reboot (skipped in dry-run)") && dry.details.contains("+"),
        "{dry:?}"
    );
    assert!(!active(client).await.contains("A: b"));
    for mode in [ApplyMode::NoReboot, ApplyMode::Try(Duration::from_secs(60))] {
        assert_eq!(kind(client.apply_configuration(&rebooting, mode, false).await), FailureKind::Invalid);
    }

    // A trial takes effect, is kept nowhere, and is taken back after its time.
    let tried =
        client.apply_configuration(&live, ApplyMode::Try(Duration::from_secs(60)), false).await.unwrap();
    assert!(tried.details.ends_with("will be automatically reverted back in 1m0s"), "{tried:?}");
    assert!(active(client).await.contains("net.a") && !persistent(client).await.contains("net.a"));
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(active(client).await.contains("net.a"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!active(client).await.contains("net.a"));
    // Anything else that is applied meanwhile, even a dry run, makes it stay.
    client.apply_configuration(&live, ApplyMode::Try(Duration::from_secs(60)), false).await.unwrap();
    client.apply_configuration(&live, ApplyMode::Auto, true).await.unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(active(client).await.contains("net.a"));

    // Without a reboot: both at once.
    let done = client.apply_configuration(&live, ApplyMode::Auto, false).await.unwrap();
    assert_eq!(
        (done.mode, done.details.as_str()),
        (ApplyMode::NoReboot, "Applied configuration without a reboot")
    );
    assert!(persistent(client).await.contains("net.a"));

    // Staged: kept now, in effect after the next boot, also if that is a cold one.
    let boot = client.boot_id().await.unwrap();
    let staged = client.apply_configuration(&rebooting, ApplyMode::Staged, false).await.unwrap();
    assert_eq!(staged.mode, ApplyMode::Staged);
    assert!(!active(client).await.contains("A: b") && persistent(client).await.contains("A: b"));
    lab.machines.power_off(311);
    lab.machines.power_on(hardware(11, vec![]));
    let client = lab.client(&cluster, 11).await;
    assert!(active(&client).await.contains("A: b"));
    assert_ne!(client.boot_id().await.unwrap(), boot);

    // What needs a reboot gets one, and says why.
    until_ready(&client).await;
    let boot = client.boot_id().await.unwrap();
    let done = client.apply_configuration(&Secret::new(plain.clone()), ApplyMode::Auto, false).await.unwrap();
    assert_eq!(done.mode, ApplyMode::Reboot);
    assert!(done.details.contains("can't be applied in immediate mode"), "{done:?}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let client = lab.client(&cluster, 11).await;
    assert_ne!(client.boot_id().await.unwrap(), boot);
    assert!(!active(&client).await.contains("A: b"));
}

#[tokio::test(start_paused = true)]
async fn streams_survive_a_reboot_or_end_with_it() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let clients = planes(&lab, &cluster, 3).await;
    // Asked directly, and through another node.
    for client in [lab.client(&cluster, 12).await, clients[0].for_node(address(12))] {
        let mut events = Box::pin(client.events_through_reboots());
        let mut watch =
            client.watch_through_reboots("runtime", "MachineStatuses.runtime.talos.dev", Some("machine"));
        let mut kernel = client.dmesg(true, true).await.unwrap();
        let mut log = client.logs("etcd", true, Some(1)).await.unwrap();
        assert!(log.next().await.unwrap().is_ok());
        let mut told = client.events(Tail::New, None).await.map(Box::pin).unwrap();
        assert_eq!(watch.next().await.unwrap().unwrap().event, ResourceEvent::Created);
        // The first look at the events is not made before they are asked for.
        let following = tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(event) = events.next().await {
                let event = event.unwrap();
                let ready = event.kind == "MachineStatusEvent" && seen.iter().any(|(_, k)| k == "TaskEvent");
                seen.push((event.id, event.kind));
                if ready && seen.iter().filter(|(_, k)| k == "SequenceEvent").count() >= 2 {
                    break;
                }
            }
            seen
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        clients[1].reboot(false).await.unwrap();
        // Followed logs and kernel messages end without an error.
        while let Some(line) = kernel.next().await {
            line.unwrap();
        }
        while let Some(line) = log.next().await {
            line.unwrap();
        }
        // Plain events tell that the node is gone.
        let end = loop {
            match told.next().await {
                Some(Ok(_)) => {}
                other => break other,
            }
        };
        assert!(end.is_none_or(|e| e.unwrap_err().kind().unwrap().may_pass()));
        let seen = tokio::time::timeout(Duration::from_secs(120), following).await.unwrap().unwrap();
        assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "each once, in order: {seen:?}");
        // The watch goes on with the node that is back.
        let back = tokio::time::timeout(Duration::from_secs(120), async {
            let mut was_away = false;
            loop {
                let event = watch.next().await.unwrap().unwrap();
                assert_eq!(event.event, ResourceEvent::Updated, "it was told before the reboot");
                let stage = event.resource.map(|r| r.spec());
                let running =
                    stage.is_some_and(|s| s.get("stage").is_some_and(|s| s.as_str() == Some("running")));
                if was_away && running {
                    return;
                }
                was_away |= !running;
            }
        });
        back.await.unwrap();
        tokio::time::sleep(Duration::from_secs(90)).await;
    }
}

/// Found on real nodes: whoever follows what is quiet is not even answered before something happens.
#[tokio::test(start_paused = true)]
async fn what_is_followed_may_be_quiet_for_longer_than_a_call_may_take() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let clients = planes(&lab, &cluster, 3).await;
    for client in [lab.client(&cluster, 12).await, clients[0].for_node(address(12))] {
        let begin = tokio::time::Instant::now();
        let mut kernel = client.dmesg(true, true).await.unwrap();
        let mut machined = client.logs("machined", true, Some(0)).await.unwrap();
        let mut etcd = client.logs("etcd", true, Some(0)).await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(1), "nothing is waited for: {:?}", begin.elapsed());
        let quiet = Duration::from_secs(300);
        let (a, b, c) = tokio::join!(
            tokio::time::timeout(quiet, kernel.next()),
            tokio::time::timeout(quiet, machined.next()),
            tokio::time::timeout(quiet, etcd.next()),
        );
        assert!(a.is_err() && b.is_err() && c.is_err(), "{a:?} {b:?} {c:?}");
        // What is not followed ends, also if there is nothing in it.
        assert_eq!(client.logs("etcd", false, Some(0)).await.unwrap().count().await, 0);
        // A refusal is told, if not at once then by the first item.
        let unknown = match client.logs("nosuch", true, Some(0)).await {
            Ok(mut log) => log.next().await.unwrap().map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(kind(unknown), FailureKind::Other);

        // The first line is told when it comes. The quiet log ends with the node like every other.
        clients[1].reboot(false).await.unwrap();
        let said = String::from_utf8(machined.next().await.unwrap().unwrap()).unwrap();
        assert!(said.contains("reboot via API received"), "{said}");
        assert!(kernel.next().await.unwrap().is_ok());
        assert!(etcd.next().await.is_none());
        tokio::time::sleep(Duration::from_secs(90)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_before_it_has_said_anything_is_noticed() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let clients = planes(&lab, &cluster, 1).await;
    let mut log = clients[0].logs("machined", true, Some(0)).await.unwrap();
    let mut kernel = clients[0].dmesg(true, true).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(300), log.next()).await.is_err());

    // It falls silent: no answer and no end of the connection.
    lab.faults.inject(When::any(), Fault::HangBefore);
    let begin = tokio::time::Instant::now();
    assert_eq!(kind(log.next().await.unwrap()), FailureKind::Timeout);
    assert!(log.next().await.is_none());
    assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
    let refused = clients[0].logs("machined", true, Some(0)).await.map(drop);
    assert_eq!(kind(refused), FailureKind::Timeout);

    // It is gone: what was followed ends, and nothing more can be.
    lab.faults.clear();
    lab.machines.power_off(311);
    assert!(kernel.next().await.is_none());
    assert_eq!(kind(clients[0].dmesg(true, true).await.map(drop)), FailureKind::Unreachable);
}

/// Images and installers take their time before there is anything to tell.
#[tokio::test(start_paused = true)]
async fn pulling_and_installing_may_begin_late() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let mut machine = hardware(11, vec![cluster.iso(Role::ControlPlane, "cp-1", 11)]);
    let disk = ground::image("v1.13.0").encode(Format::Qcow2);
    machine.disk = Some(Disk { image: disk, ..machine.disk.unwrap() });
    lab.machines.power_on(machine);
    let client = lab.client(&cluster, 11).await;
    lab.bootstrap(&client).await;
    until_ready(&client).await;
    for call in [("Pull", "/machine.ImageService/Pull"), ("Upgrade", "/machine.LifecycleService/Upgrade")] {
        lab.faults.inject(When::call(call.0, call.1), Fault::Slow(Duration::from_secs(300)));
    }
    let begin = tokio::time::Instant::now();
    let image = format!("factory.talos.dev/nocloud-installer/{}:v1.13.1", "c".repeat(64));
    client.image_pull(ImageNamespace::System, &image).await.unwrap();
    client.install_upgrade(&image, |_| {}).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(600), "{:?}", begin.elapsed());
}

/// What real nodes of the two versions were seen to say differently.
#[tokio::test(start_paused = true)]
async fn versions_differ_in_what_they_say() {
    for (version, refusal, name) in [
        ("v1.12.0", FailureKind::FailedPrecondition, None),
        ("v1.13.0", FailureKind::NotImplemented, Some("Talos")),
    ] {
        let (lab, cluster) = (Lab::new(), Cluster::new(1));
        for (octet, role, name) in [(11, Role::ControlPlane, "cp-1"), (21, Role::Worker, "worker-1")] {
            let mut machine = hardware(octet, vec![cluster.iso(role, name, octet)]);
            let image = ground::image(version).encode(Format::Qcow2);
            machine.disk = Some(Disk { image, ..machine.disk.unwrap() });
            lab.machines.power_on(machine);
        }
        let client = lab.client(&cluster, 11).await;
        lab.bootstrap(&client).await;
        until_ready(&client).await;
        assert_eq!(kind(lab.client(&cluster, 21).await.bootstrap().await), refusal, "{version}");
        let told = client.get("runtime", "Versions.runtime.talos.dev", "version").await.unwrap().unwrap();
        assert_eq!(
            told.spec().get("name").and_then(|name| name.as_str().map(str::to_owned)).as_deref(),
            name
        );
        let id = "versions.runtime.talos.dev";
        let kind = client.get("meta", "ResourceDefinitions.meta.cosi.dev", id).await.unwrap().unwrap();
        assert_eq!(kind.yaml.contains("{.name}"), name.is_some(), "{}", kind.yaml);
    }
}

#[tokio::test(start_paused = true)]
async fn upgrades_in_both_forms_rollback_meta_and_images() {
    for (version, next) in [("v1.12.0", "v1.12.1"), ("v1.13.0", "v1.13.1")] {
        let (lab, cluster) = (Lab::new(), Cluster::new(1));
        let mut machine = hardware(11, vec![cluster.iso(Role::ControlPlane, "cp-1", 11)]);
        machine.disk =
            Some(Disk { image: ground::image(version).encode(Format::Qcow2), ..machine.disk.unwrap() });
        lab.machines.power_on(machine);
        let client = lab.client(&cluster, 11).await;
        lab.bootstrap(&client).await;
        until_ready(&client).await;
        lab.machines.media_changed(311, vec![]);
        let image = format!("factory.talos.dev/nocloud-installer/{}:{next}", "c".repeat(64));
        let mut said = Vec::new();
        let early = client.install_upgrade(&image, |line| said.push(line.to_owned())).await;
        if version == "v1.12.0" {
            assert_eq!(kind(early), FailureKind::NotImplemented);
            let upgrade = Upgrade { image: image.clone(), ..Upgrade::default() };
            assert!(!client.upgrade(&upgrade).await.unwrap().is_empty());
        } else {
            assert_eq!(kind(early), FailureKind::Other, "the image is not there yet");
            client.image_pull(ImageNamespace::System, &image).await.unwrap();
            client.install_upgrade(&image, |line| said.push(line.to_owned())).await.unwrap();
            assert!(!said.is_empty());
            // Nothing has rebooted by itself.
            assert_eq!(client.version().await.unwrap().tag, version);
            client.reboot(false).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let client = lab.client(&cluster, 11).await;
        assert_eq!(client.version().await.unwrap().tag, next);
        client.rollback().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let client = lab.client(&cluster, 11).await;
        assert_eq!(client.version().await.unwrap().tag, version);

        client.meta_write(0x0a, b"{}").await.unwrap();
        let key = client.get("runtime", "MetaKeys.runtime.talos.dev", "0x0a").await.unwrap();
        assert!(key.is_some());
        client.meta_delete(0x0a).await.unwrap();
        client.meta_delete(0x0a).await.unwrap();
        client.image_pull(ImageNamespace::Cri, "registry.k8s.io/pause:3.10").await.unwrap();
        let images = client.image_list(ImageNamespace::Cri).await.unwrap();
        assert!(
            images.iter().any(|i| i.name == "registry.k8s.io/pause:3.10" && i.digest.starts_with("sha256:"))
        );
        let removed = client.image_remove(ImageNamespace::Cri, "registry.k8s.io/pause:3.10").await;
        assert_eq!(removed.is_ok(), version == "v1.13.0");
    }
}
