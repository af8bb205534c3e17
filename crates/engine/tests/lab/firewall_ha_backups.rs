//! What is done for VMs on request: firewall, high availability, backups.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use daedal_engine::{Effect, Effects, Gate, Run, Verdict};
use daedal_lab::faults::{Fault, When};
use daedal_lab::proxmox::{Grant, HostSpec, TokenSpec};
use daedal_planner::{
    BackupWish, FirewallCounts, FirewallWish, Level, ObjectCounts, ObjectKind, Plan, Purpose, World, counts,
    plan_backup_job, plan_firewall, plan_ha, staying,
};
use daedal_proxmox::{Client, ClusterObject};
use daedal_words::Told as _;

use crate::strangers::proxmox;
use crate::support::{Bench, CANARY, TOKEN, assert_done, errors};

async fn bench(version: &str) -> Bench {
    bench_on(version, &["chronos"]).await
}

/// The same on these hosts besides the two that are declared.
async fn bench_on(version: &str, more: &[&str]) -> Bench {
    let bench = Bench::with(3, 1, |datacenter| {
        datacenter.version = version.to_owned();
        datacenter.hosts.extend(more.iter().map(|name| HostSpec::new(*name, 8, 16 << 30)));
        let mut token = TokenSpec::minimal(TOKEN, CANARY);
        token.grants.push(Grant::new("/", &["Sys.Audit", "Sys.Console", "Sys.Modify"]));
        datacenter.tokens = vec![token];
    });
    assert_done(&bench.apply().await, "apply");
    bench
}

/// High availability on or off, as a look plans it.
async fn plan_of_ha(bench: &Bench, on: bool) -> (World, Plan) {
    let world = bench.engine().observe_for(&bench.cluster, Purpose::Ha).await.unwrap();
    let plan = plan_ha(&bench.cluster, &world, on).unwrap();
    (world, plan)
}

/// Turns high availability on or off. Once done, nothing is left to do.
async fn ha(bench: &Bench, on: bool) -> Plan {
    let (world, plan) = plan_of_ha(bench, on).await;
    assert_done(&bench.execute(&world, &plan).await, "ha");
    let again = plan_of_ha(bench, on).await.1;
    assert!(again.is_empty(), "{:#?}", again.steps);
    plan
}

/// The firewall with these ports, or off, as a look plans it.
async fn plan_of_firewall(bench: &Bench, ports: Option<&[u16]>) -> (World, Plan) {
    let world = bench.engine().observe_for(&bench.cluster, Purpose::Firewall).await.unwrap();
    let wish = ports.map(|ports| FirewallWish { ports: ports.iter().copied().collect() });
    let plan = plan_firewall(&bench.cluster, &world, wish.as_ref()).unwrap();
    (world, plan)
}

/// Sets the firewall. Once done, nothing is left to do.
async fn firewall(bench: &Bench, ports: Option<&[u16]>) -> FirewallCounts {
    let (world, plan) = plan_of_firewall(bench, ports).await;
    assert_done(&bench.execute(&world, &plan).await, "firewall");
    let again = plan_of_firewall(bench, ports).await.1;
    assert!(again.is_empty(), "{:#?}", again.steps);
    counts(&plan).firewalls
}

/// Mission: E19
#[tokio::test(start_paused = true)]
async fn a_firewall_lets_in_the_cluster_and_the_apis() {
    let bench = bench("9.2.11").await;
    let client = proxmox(&bench);
    // Of each VM an IP set and its rules, one less on the worker.
    let done = firewall(&bench, Some(&[])).await;
    assert_eq!((done.turn_on, done.sets.create, done.rules.create), (4, 4, 4 * 3 + 3));
    let hosts: Vec<(u32, String)> = bench.lab.datacenter().vms().into_iter().map(|vm| (vm.0, vm.1)).collect();
    let worker = bench.cluster.nodes.iter().find(|node| node.name == "worker-1").unwrap().vmid;
    for (vmid, host) in &hosts {
        let rules = client.firewall_rules(host, *vmid).await.unwrap();
        let ports: Vec<&str> = rules.iter().filter_map(|rule| rule.dport.as_deref()).collect();
        assert_eq!(ports, if *vmid == worker { vec!["50000"] } else { vec!["50000", "6443"] });
        assert_eq!(rules[0].source.as_deref(), Some("+cluster"));
        assert_eq!(client.firewall_options(host, *vmid).await.unwrap()["policy_in"], "DROP");
        let set = client.ipset(host, *vmid, "cluster").await.unwrap();
        assert!(set.contains(&"10.0.1.1".to_owned()) && set.contains(&"10.0.0.20".to_owned()), "{set:?}");
        let config = client.vm_config(host, *vmid).await.unwrap();
        assert!(config.nics["net0"].firewall);
    }
    // Another port: ours are made anew, a rule of somebody else stays.
    let (vmid, host) = &hosts[0];
    let theirs = their_rule();
    client.add_firewall_rule(host, *vmid, &theirs).await.unwrap();
    let done = firewall(&bench, Some(&[443])).await;
    assert_eq!((done.change, done.rules.create, done.rules.delete), (4, 19, 15));
    let rules = client.firewall_rules(host, *vmid).await.unwrap();
    assert_eq!(rules.iter().filter(|rule| rule.comment == theirs.comment).count(), 1, "{rules:#?}");
    assert_eq!(rules.iter().filter(|rule| rule.dport.as_deref() == Some("50000")).count(), 1, "{rules:#?}");
    assert!(rules.iter().any(|rule| rule.dport.as_deref() == Some("443")));
    bench.assert_converged("the firewall is no drift").await;
    let done = firewall(&bench, None).await;
    assert_eq!((done.turn_off, done.rules.delete, done.sets.delete), (4, 19, 4));
    assert!(!client.vm_config(host, *vmid).await.unwrap().nics["net0"].firewall);
    // What was made for it is gone; what others made stays.
    let rules = client.firewall_rules(host, *vmid).await.unwrap();
    let comments: Vec<Option<String>> = rules.into_iter().map(|rule| rule.comment).collect();
    assert_eq!(comments, [theirs.comment]);
    assert!(client.ipsets(host, *vmid).await.unwrap().is_empty());
}

fn their_rule() -> daedal_proxmox::FirewallRule {
    daedal_proxmox::FirewallRule {
        direction: "in".into(),
        action: "ACCEPT".into(),
        comment: Some("backup agent".into()),
        ..Default::default()
    }
}

/// Rules are deleted by their place: one that somebody adds at that very moment is never taken for an old one of ours.
#[tokio::test(start_paused = true)]
async fn a_rule_that_somebody_adds_meanwhile_stays() {
    let bench = bench("9.2.11").await;
    let client = proxmox(&bench);
    firewall(&bench, Some(&[])).await;
    let (world, plan) = plan_of_firewall(&bench, None).await;
    let host = world.guests[&300].host.clone();
    // Somebody adds a rule right before the first of ours is deleted: all places move.
    let meddler =
        Arc::new(Meddler { client: client.clone(), host: host.clone(), done: AtomicBool::new(false) });
    let engine = bench.engine_through(Effects::through(meddler.clone()));
    let report = engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    assert_done(&report, "firewall --off");
    assert!(meddler.done.load(Ordering::Relaxed));
    let rules = client.firewall_rules(&host, 300).await.unwrap();
    let comments: Vec<Option<String>> = rules.into_iter().map(|rule| rule.comment).collect();
    assert_eq!(comments, [Some("backup agent".to_owned())]);
}

/// Somebody who adds a rule to VM 300 before its first rule is deleted.
struct Meddler {
    client: Client,
    host: String,
    done: AtomicBool,
}

impl Gate for Meddler {
    fn before<'a>(&'a self, effect: &'a Effect) -> Verdict<'a> {
        Box::pin(async move {
            let here = effect.subject.starts_with("old rule") && effect.subject.contains("VM 300");
            if here && !self.done.swap(true, Ordering::Relaxed) {
                self.client.add_firewall_rule(&self.host, 300, &their_rule()).await.unwrap();
            }
            Ok(())
        })
    }

    fn after<'a>(&'a self, _: &'a Effect) -> Verdict<'a> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn control_planes_are_kept_apart_as_the_release_does_it() {
    for (version, kind) in [("9.2.11", ClusterObject::HaRule), ("8.4.1", ClusterObject::HaGroup)] {
        let bench = bench(version).await;
        let client = proxmox(&bench);
        ha(&bench, true).await;
        let resources = client.kept(ClusterObject::HaResource).await.unwrap();
        assert_eq!(resources.len(), 3, "{resources:?}");
        let kept = client.kept(kind).await.unwrap();
        match kind {
            ClusterObject::HaRule => {
                let rule = &kept["daedal-home-apart"];
                assert_eq!(rule["affinity"], "negative");
                assert_eq!(rule["resources"].split(',').count(), 3);
            }
            _ => assert_eq!(kept.len(), 3, "{kept:?}"),
        }
        ha(&bench, false).await;
        assert!(client.kept(ClusterObject::HaResource).await.unwrap().is_empty());
        assert!(client.kept(kind).await.unwrap().is_empty());
        // With high availability on, a stop is only asked for; a destruction waits until it has happened.
        ha(&bench, true).await;
        assert_done(&bench.destroy().await, version);
        bench.assert_destroyed(version);
        assert!(client.kept(ClusterObject::HaResource).await.unwrap().is_empty());
        ha(&bench, false).await;
        assert!(client.kept(kind).await.unwrap().is_empty(), "{version}");
    }
}

/// Proxmox refuses a rule that keeps more VMs apart than it has hosts: the rest is done, and the rule's absence is told.
#[tokio::test(start_paused = true)]
async fn more_control_planes_than_hosts_are_managed_without_a_rule() {
    let bench = bench_on("9.2.11", &[]).await;
    let client = proxmox(&bench);
    let plan = ha(&bench, true).await;
    assert_eq!(counts(&plan).objects, ObjectCounts { create: 3, ..ObjectCounts::default() });
    let note = plan.notes.iter().find(|note| note.level == Level::Warning).unwrap();
    assert_eq!(note.text(), "Left out: 3 control planes cannot be on different hosts, Proxmox has 2 hosts.");
    assert_eq!(client.kept(ClusterObject::HaResource).await.unwrap().len(), 3);
    assert!(client.kept(ClusterObject::HaRule).await.unwrap().is_empty());
    ha(&bench, false).await;
    assert!(client.kept(ClusterObject::HaResource).await.unwrap().is_empty());
}

/// Under high availability a start is only asked for, too: the manager starts the VM in its own time, and the run waits for it.
#[tokio::test(start_paused = true)]
async fn a_start_under_high_availability_is_waited_for() {
    let bench = bench("9.2.11").await;
    let client = proxmox(&bench);
    ha(&bench, true).await;
    let (vmid, host, ..) = bench.lab.datacenter().vms().remove(0);
    client.stop_vm(&host, vmid).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(!client.vm_status(&host, vmid).await.unwrap().running());
    assert_eq!(
        client.kept(ClusterObject::HaResource).await.unwrap()[&format!("vm:{vmid}")]["state"],
        "stopped"
    );
    assert_done(&bench.apply().await, "start");
    bench.assert_converged("start").await;
    let log = bench.lab.faults().log();
    assert_eq!(log.iter().filter(|call| call.path.ends_with(&format!("/{vmid}/status/start"))).count(), 2);
    assert_eq!(
        client.kept(ClusterObject::HaResource).await.unwrap()[&format!("vm:{vmid}")]["state"],
        "started"
    );
    assert!(plan_of_ha(&bench, true).await.1.is_empty());
}

async fn backup(bench: &Bench, wish: Option<&BackupWish>) -> (World, Plan) {
    let world = bench.engine().observe_for(&bench.cluster, Purpose::BackupJob).await.unwrap();
    let plan = plan_backup_job(&bench.cluster, &world, wish).unwrap();
    (world, plan)
}

/// Mission: E22
#[tokio::test(start_paused = true)]
async fn a_backup_job_names_every_vm() {
    let bench = bench("9.2.11").await;
    let client = proxmox(&bench);
    let to = |storage: &str| BackupWish { storage: storage.into(), schedule: "02:30".into(), keep: 7 };
    // Proxmox would take both, and fail every night.
    let world = bench.engine().observe_for(&bench.cluster, Purpose::BackupJob).await.unwrap();
    for (storage, why) in [
        ("pbs", "it does not exist, or the token may not see it"),
        ("local-lvm", "its content types are images,rootdir"),
    ] {
        let error = plan_backup_job(&bench.cluster, &world, Some(&to(storage))).unwrap_err();
        assert_eq!(error.to_string(), format!("storage {storage} cannot take backups: {why}"));
    }
    let job = to("local");
    let (world, plan) = backup(&bench, Some(&job)).await;
    assert_done(&bench.execute(&world, &plan).await, "backup-job");
    let kept = client.kept(ClusterObject::BackupJob).await.unwrap();
    assert_eq!(kept["daedal-home"]["vmid"], "300,301,302,1000");
    assert_eq!(kept["daedal-home"]["prune-backups"], "keep-last=7");
    assert!(backup(&bench, Some(&job)).await.1.is_empty());
    let (world, plan) = backup(&bench, None).await;
    assert_done(&bench.execute(&world, &plan).await, "backup-job --off");
    assert!(client.kept(ClusterObject::BackupJob).await.unwrap().is_empty());
}

/// The look reads whose the guests are and what guards them, and nothing else.
#[tokio::test(start_paused = true)]
async fn the_look_for_a_guard_asks_no_node_and_no_storage() {
    let bench = bench("9.2.11").await;
    let calls =
        |bench: &Bench| bench.lab.faults().log().into_iter().map(|call| call.path).collect::<Vec<_>>();
    let before = calls(&bench).len();
    plan_of_ha(&bench, true).await;
    for path in &calls(&bench)[before..] {
        let needed = ["/cluster/", "/qemu", "/version"].iter().any(|part| path.contains(part));
        assert!(needed && !path.contains("/storage"), "{path}");
    }
}

/// A VM whose mark is lost when the step comes to it is not guarded, and neither is anything that names it.
#[tokio::test(start_paused = true)]
async fn what_is_no_longer_ours_is_not_guarded() {
    let bench = bench("9.2.11").await;
    let client = proxmox(&bench);
    let (world, plan) = plan_of_ha(&bench, true).await;
    let host = &world.guests[&301].host;
    let config = client.vm_config(host, 301).await.unwrap();
    let update = daedal_proxmox::UpdateVm::new().set("description", "mine").digest(&config.digest);
    client.update_vm(host, 301, &update).await.unwrap();
    let failed = errors(&bench.execute(&world, &plan).await);
    assert!(failed.len() == 1 && failed[0].contains("VM 301"), "{failed:#?}");
    let managed: Vec<String> = client.kept(ClusterObject::HaResource).await.unwrap().into_keys().collect();
    assert_eq!(managed, ["vm:300", "vm:302"]);
    assert!(client.kept(ClusterObject::HaRule).await.unwrap().is_empty());
    // The next plan says so.
    let plan = plan_of_ha(&bench, true).await.1;
    let problem = plan.notes.iter().find(|note| note.level == Level::Problem).unwrap();
    assert!(problem.about() == "cp-2" && problem.text().contains("may be this node"), "{problem:?}");
}

/// An object that somebody put under our name between the look and the step stays as it is.
#[tokio::test(start_paused = true)]
async fn an_object_that_became_somebody_elses_stays() {
    let bench = bench("9.2.11").await;
    let client = proxmox(&bench);
    let wish = BackupWish { storage: "local".into(), schedule: "02:30".into(), keep: 7 };
    let (world, plan) = backup(&bench, Some(&wish)).await;
    let theirs = [("vmid", "300"), ("storage", "local"), ("schedule", "05:00")];
    let theirs = theirs.map(|(option, value)| (option.to_owned(), value.to_owned())).into();
    client.create_kept(ClusterObject::BackupJob, "daedal-home", &theirs).await.unwrap();
    let failed = errors(&bench.execute(&world, &plan).await);
    assert!(failed.len() == 1 && failed[0].contains("changed after the plan was made"), "{failed:#?}");
    assert_eq!(client.kept(ClusterObject::BackupJob).await.unwrap()["daedal-home"]["schedule"], "05:00");
}

/// What guards VMs and outlives them is found by its name and comment. What could not be read is told, also where the
/// token may not read it.
#[tokio::test(start_paused = true)]
async fn guards_that_outlive_a_cluster_are_found_and_what_was_not_seen_is_told() {
    let bench = bench("8.4.1").await;
    ha(&bench, true).await;
    assert_done(&bench.destroy().await, "destroy");
    let engine = bench.engine();
    let images = engine.images(&bench.cluster);
    let look = async || {
        let mut world = engine.observe(&bench.cluster).await.unwrap();
        engine.look_at_guards(&mut world).await;
        staying(&bench.cluster, &images, &world)
    };
    let found = look().await;
    let ids: Vec<(ObjectKind, &str)> = found.guards.iter().map(|one| (one.kind, one.id.as_str())).collect();
    let group = |id| (ObjectKind::HaGroup, id);
    assert_eq!(ids, [group("daedal-home-cp-1"), group("daedal-home-cp-2"), group("daedal-home-cp-3")]);
    assert_eq!(found.unseen, Vec::<String>::new());
    for status in [500, 403] {
        for path in ["/cluster/ha/groups", "/cluster/backup"] {
            bench.lab.faults().inject(When::call("GET", path), Fault::Status(status));
        }
        let found = look().await;
        let unseen = ["high availability", "backup jobs"].map(str::to_owned);
        assert_eq!((found.guards, found.unseen), (Vec::new(), unseen.into()), "{status}");
        bench.lab.faults().clear();
    }
}
