//! Machines from their cidata medium to a cluster, in virtual time, through the real client.

use crate::ground;

use std::time::Duration;

use daedal_dial::Target;
use daedal_lab::{Guests as _, SavedMachines};
use daedal_talos_client::{ApplyMode, Bootstrap, Client, FailureKind, Probe, Reset, WipedPartition, probe};
use daedal_talos_config::Role;
use ground::{Cluster, Lab, address, hardware, options, until_ready};

#[tokio::test(start_paused = true)]
async fn a_control_plane_goes_from_its_medium_to_ready() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    lab.boot(&cluster, Role::ControlPlane, "cp-1", 11);
    assert!(!lab.answers(11, 50000));
    let boot = lab.wait(&address(11), 50000).await;
    assert!(boot > Duration::from_secs(5) && boot < Duration::from_secs(15), "{boot:?}");
    let client = lab.client(&cluster, 11).await;
    let version = client.version().await.unwrap();
    assert_eq!((version.tag.as_str(), version.platform.as_str()), ("v1.12.0", "nocloud"));
    assert_eq!(client.hostname().await.unwrap(), "cp-1");

    let early = client.bootstrap().await.unwrap_err();
    assert_eq!(early.kind(), Some(FailureKind::FailedPrecondition), "{early:?}");
    lab.bootstrap(&client).await;
    assert_eq!(client.bootstrap().await.unwrap(), Bootstrap::AlreadyDone);
    let api = lab.wait(&address(11), 6443).await;
    assert!(api > Duration::from_secs(20) && api < Duration::from_secs(40), "{api:?}");
    let vip = lab.wait("10.0.0.20", 6443).await;
    assert!(vip < Duration::from_secs(5), "{vip:?}");
    let ready = until_ready(&client).await;
    assert!(ready < Duration::from_secs(60), "{ready:?}");
    let members = client.etcd_members().await.unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].hostname, "cp-1");
    let agent = lab.machines.agent_interfaces(311).unwrap();
    assert!(agent.iter().any(|i| i.name == "eth0" && i.addresses[0].0.to_string() == "10.0.0.11"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_has_no_api_until_a_control_plane_signs_it() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    lab.boot(&cluster, Role::Worker, "worker-1", 21);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!lab.answers(21, 50000));
    // Another cluster's control plane does not help.
    lab.boot(&Cluster::new(2), Role::ControlPlane, "other", 99);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(lab.answers(99, 50000) && !lab.answers(21, 50000));
    lab.boot(&cluster, Role::ControlPlane, "cp-1", 11);
    lab.wait(&address(21), 50000).await;
    let worker = lab.client(&cluster, 21).await;
    assert_eq!(worker.hostname().await.unwrap(), "worker-1");
    // A worker forwards nothing; a control plane does.
    let refused = worker.for_node(address(11)).hostname().await.unwrap_err();
    assert_eq!(refused.kind(), Some(FailureKind::PermissionDenied), "{refused:?}");
    let client = lab.client(&cluster, 11).await;
    assert_eq!(client.for_node(address(21)).hostname().await.unwrap(), "worker-1");
    let foreign = client.for_node(address(99)).hostname().await.unwrap_err();
    assert_eq!(foreign.kind(), Some(FailureKind::Transient), "{foreign:?}");
    let not_control_plane = worker.bootstrap().await.unwrap_err();
    assert!(not_control_plane.kind().is_some());
}

#[tokio::test(start_paused = true)]
async fn three_control_planes_survive_one_and_not_two() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    for (name, last) in [("cp-1", 11), ("cp-2", 12), ("cp-3", 13)] {
        lab.boot(&cluster, Role::ControlPlane, name, last);
    }
    let first = lab.client(&cluster, 11).await;
    lab.bootstrap(&first).await;
    for last in [12, 13] {
        until_ready(&lab.client(&cluster, last).await).await;
    }
    let members = first.etcd_members().await.unwrap();
    assert_eq!(members.len(), 3);
    assert!(members.iter().all(|m| !m.is_learner));

    lab.machines.power_off(311);
    assert!(!lab.answers(11, 50000) && !lab.answers(11, 6443));
    assert!(
        !lab.fabric.targets().contains(&Target::new("10.0.0.20", 6443)),
        "the VIP is gone with its holder"
    );
    lab.wait("10.0.0.20", 6443).await;
    let second = lab.client(&cluster, 12).await;
    assert_eq!(second.etcd_members().await.unwrap().len(), 3);
    lab.machines.power_off(312);
    assert!(
        !lab.fabric.targets().iter().any(|t| t.port == 6443),
        "no quorum, no API: {:?}",
        lab.fabric.targets()
    );
    let third = lab.client(&cluster, 13).await;
    assert!(third.etcd_members().await.is_err());

    // They come back from their disks, without any medium.
    lab.machines.power_on(hardware(11, vec![]));
    lab.wait("10.0.0.20", 6443).await;
    assert_eq!(third.etcd_members().await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_broken_configuration_never_answers_and_says_why_on_the_console() {
    let cluster = Cluster::new(1);
    let good = cluster.config(Role::ControlPlane, "cp-1", 11).to_yaml().expose().to_owned();
    let cases = [
        ("unfinished: [", "decode error"),
        (&*good.replace("kind: LinkConfig", "kind: LinkConfigg"), "not registered"),
        (&*good.replace("\nmachine:", "\nmachine:\n  typo: 1"), "unknown keys"),
        (
            &*good.replace("\n  kubelet:\n", "\n  kubelet:\n    nonsense: true\n"),
            "machine:\\n    kubelet:\\n        nonsense",
        ),
        (&*format!("{good}---\napiVersion: v1alpha1\nkind: TimeSyncConfig\nbootTimeout: soon\n"), "(line "),
        (&*format!("{good}---\napiVersion: v1alpha2\nkind: TimeSyncConfig\n"), "not registered"),
    ];
    for (index, (text, expected)) in cases.into_iter().enumerate() {
        let lab = Lab::new();
        let iso = daedal_talos_config::nocloud::Cidata {
            user_data: daedal_talos_config::Secret::new(text.to_owned()),
            meta_data: "instance-id: x\n".into(),
            network_config: None,
        };
        lab.machines.power_on(hardware(11, vec![iso.to_iso().unwrap().to_vec()]));
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert!(lab.fabric.targets().is_empty(), "case {index}");
        let console = lab.machines.console(311).join("\n");
        assert!(console.contains(expected), "case {index}: {console}");
        // A corrected medium is taken at the next try.
        lab.machines.media_changed(311, vec![cluster.iso(Role::ControlPlane, "cp-1", 11)]);
        lab.wait(&address(11), 50000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_configuration_a_machine_waits_in_maintenance_mode() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let config = cluster.config(Role::ControlPlane, "cp-1", 11);
    let medium = daedal_talos_config::nocloud::Cidata {
        user_data: daedal_talos_config::Secret::new("#cloud-config\nhostname: x\n"),
        meta_data: "instance-id: x\n".into(),
        network_config: Some(
            "version: 1\nconfig:\n- type: physical\n  name: eth0\n  mac_address: bc:24:11:00:00:0b\n  subnets:\n  - {type: static, address: 10.0.0.11, netmask: 255.255.0.0, gateway: 10.0.0.1}\n".into(),
        ),
    };
    lab.machines.power_on(hardware(11, vec![medium.to_iso().unwrap().to_vec()]));
    lab.wait(&address(11), 50000).await;
    let target = Target::new(address(11), 50000);
    let credentials = cluster.credentials();
    let seen = probe(lab.dialer(), target.clone(), &credentials, &options()).await.unwrap();
    let Probe::Maintenance { fingerprint } = seen else { panic!("{seen:?}") };
    let (client, _) =
        Client::connect_maintenance(lab.dialer(), target.clone(), Some(&fingerprint), &options())
            .await
            .unwrap();
    let refused = client.version().await.unwrap_err();
    assert_eq!(refused.kind(), Some(FailureKind::NotImplemented), "{refused:?}");
    let wrong = daedal_talos_config::Secret::new("machine: {}\n");
    assert!(client.apply_configuration(&wrong, ApplyMode::Auto, false).await.is_err());
    client.apply_configuration(&config.to_yaml(), ApplyMode::Auto, false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let seen = probe(lab.dialer(), target, &credentials, &options()).await.unwrap();
    assert!(matches!(seen, Probe::Configured), "{seen:?}");
    let ours = lab.client(&cluster, 11).await;
    lab.bootstrap(&ours).await;
    until_ready(&ours).await;
    let other = Cluster::new(2).credentials();
    let seen = probe(lab.dialer(), Target::new(address(11), 50000), &other, &options()).await.unwrap();
    assert!(matches!(seen, Probe::OtherCluster { .. }), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn the_second_machine_with_an_address_does_not_get_it() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    lab.boot(&cluster, Role::ControlPlane, "cp-1", 11);
    lab.wait(&address(11), 50000).await;
    let mut twin = hardware(12, vec![cluster.iso(Role::ControlPlane, "twin", 11)]);
    twin.macs = vec![ground::mac(11)];
    lab.machines.power_on(twin);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lab.client(&cluster, 11).await.hostname().await.unwrap(), "cp-1");
    assert!(lab.machines.console(312).join("\n").contains("duplicate address"));
    lab.machines.power_off(311);
    lab.wait(&address(11), 50000).await;
    assert_eq!(lab.client(&cluster, 11).await.hostname().await.unwrap(), "twin");
}

#[tokio::test(start_paused = true)]
async fn machines_outlive_the_process_with_their_disks() {
    let cluster = Cluster::new(1);
    let saved = {
        let lab = Lab::new();
        lab.boot(&cluster, Role::ControlPlane, "cp-1", 11);
        let client = lab.client(&cluster, 11).await;
        lab.bootstrap(&client).await;
        until_ready(&client).await;
        let text = serde_json::to_string(&lab.machines.save()).unwrap();
        serde_json::from_str::<SavedMachines>(&text).unwrap()
    };
    let lab = Lab::with(1.0, saved);
    lab.machines.set_resuming(true);
    lab.machines.power_on(hardware(11, vec![]));
    lab.machines.set_resuming(false);
    let waited = lab.wait("10.0.0.20", 6443).await;
    assert!(waited < Duration::from_secs(3), "{waited:?}");
    let client = lab.client(&cluster, 11).await;
    assert_eq!(client.bootstrap().await.unwrap(), Bootstrap::AlreadyDone);
    assert!(until_ready(&client).await < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_machine_reboots_resets_and_switches_itself_off() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    lab.boot(&cluster, Role::ControlPlane, "cp-1", 11);
    let client = lab.client(&cluster, 11).await;
    lab.bootstrap(&client).await;
    until_ready(&client).await;
    let before = client.boot_id().await.unwrap();
    lab.machines.media_changed(311, vec![]);
    client.reboot(false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let client = lab.client(&cluster, 11).await;
    until_ready(&client).await;
    assert_ne!(client.boot_id().await.unwrap(), before);
    assert_eq!(client.etcd_members().await.unwrap().len(), 1);

    let mut reset = Reset::partitions(WipedPartition::State, [WipedPartition::Ephemeral]);
    reset.reboot = true;
    client.reset(&reset).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(lab.machines.console(311).join("\n").contains("maintenance"));
    assert!(lab.machines.shut_down(311).await);
    assert!(lab.machines.halted(311));
}

#[tokio::test(start_paused = true)]
async fn three_hundred_machines_make_one_cluster() {
    let (lab, cluster) = (Lab::new(), Cluster::new(1));
    let control_planes = [("cp-1", 11_u16), ("cp-2", 12), ("cp-3", 13)];
    for (name, number) in control_planes {
        lab.machines.power_on(ground::numbered(&cluster, Role::ControlPlane, name, number));
    }
    for number in 100..397 {
        let name = format!("worker-{number}");
        lab.machines.power_on(ground::numbered(&cluster, Role::Worker, &name, number));
    }
    let client = lab.client(&cluster, 11).await;
    lab.bootstrap(&client).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(client.etcd_members().await.unwrap().len(), 3);
    let members = client.list("cluster", "Members.cluster.talos.dev").await.unwrap();
    assert_eq!(members.len(), 300);
    let apis = lab.fabric.targets().iter().filter(|t| t.port == 50000).count();
    assert_eq!(apis, 300);
}
