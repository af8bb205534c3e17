//! Views say what was seen, and name what was not: nothing is called absent that nobody could look for.

use std::time::Duration;

use daedal_engine::{Check, CheckVerdict, LiveReport, Side};
use daedal_lab::faults::{Fault, TaskFault, When};
use daedal_lab::proxmox::{TokenSpec, VmSpec};
use daedal_planner::{Level, Pruning, plan_prune_templates, plan_prune_volumes};
use daedal_words::Told as _;

use daedal_proxmox::{Client, TaskWatcher, Token, Trust};

use crate::boot::TEMPLATE;
use crate::support::{Bench, CANARY, TOKEN, Way, assert_done, errors};

/// A bench whose token has its rights on VMs through a pool.
fn pooled(way: Way) -> Bench {
    let mut bench = Bench::on(way, 1, 1, |datacenter| {
        datacenter.tokens = vec![
            TokenSpec::in_pool(TOKEN, CANARY, "talos"),
            TokenSpec::administrator("root@pam!admin", CANARY),
        ];
        datacenter.pools = vec!["talos".to_owned()];
        // Somebody else's, in no pool, on the VMID of the first worker.
        let config = [("name".to_owned(), "printer".to_owned())].into();
        let (host, disk, running, pool) = ("atlas".to_owned(), None, false, None);
        datacenter.vms.push(VmSpec { vmid: 1000, host, config, disk, running, pool });
    });
    bench.cluster.proxmox.pool = Some("talos".to_owned());
    bench
}

/// From now on this host does not list its VMs.
fn hide(bench: &Bench, host: &str) {
    bench.lab.faults().inject(When::call("GET", &format!("/nodes/{host}/qemu")), Fault::Status(500));
}

fn named<'r>(report: &'r LiveReport, what: &str) -> Option<&'r Check> {
    report.checks.iter().find(|check| check.what.to_string() == what)
}

#[tokio::test(start_paused = true)]
async fn a_vm_is_called_absent_only_where_its_vmid_is_free() {
    let bench = pooled(Way::USUAL);
    let engine = bench.engine();
    let page = async |name: &str| engine.node_page(&bench.cluster, bench.cluster.node(name).unwrap()).await;
    let details = page("cp-1").await;
    assert!(matches!(&details.proxmox, Side::Absent(what) if what == "There is no VM 300."), "{details:#?}");
    // Secrets that are not there are named with the place where they were looked for.
    let place = bench.store().place().display().to_string();
    assert!(matches!(&details.talos, Side::Unseen(why) if why.contains(&place)), "{details:#?}");
    assert!(matches!(&details.kubernetes, Side::Unseen(why) if why.contains(&place)), "{details:#?}");
    let details = page("worker-1").await;
    let Side::Unseen(why) = &details.proxmox else { panic!("{details:#?}") };
    assert_eq!(why, "VMID 1000 is taken, but the token may not see the guest that has it");
    // Nor where nobody could ask.
    bench.lab.faults().inject(When::call("GET", "/cluster/nextid"), Fault::Status(500));
    let details = page("cp-1").await;
    assert!(matches!(&details.proxmox, Side::Unseen(why) if why.contains("VMID 300")), "{details:#?}");
    assert!(details.blocked.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_details_of_a_node_name_what_could_not_be_read() {
    let bench = Bench::created().await;
    // The guests of a copy boot first.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let engine = bench.engine();
    let details = engine.node_page(&bench.cluster, &bench.cluster.nodes[0]).await;
    let Side::Seen(talos) = &details.talos else { panic!("{details:#?}") };
    assert_eq!(talos.unread, []);
    assert!(talos.disks.iter().any(|disk| disk.size == Some(20 << 30)), "{talos:#?}");
    let json = serde_json::to_value(&details).unwrap();
    assert_eq!(json["proxmox"]["seen"]["disks"]["scsi0"]["size"], 20_u64 << 30, "{json:#}");
    assert_eq!(json["proxmox"]["seen"]["nics"]["net0"]["bridge"], "vmbr0", "{json:#}");
    let ready = json["kubernetes"]["seen"]["conditions"].as_array().unwrap().iter();
    assert!(ready.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True"), "{json:#}");
}

/// A host that does not list its VMs may have any of them.
#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_list_its_vms_hides_them() {
    let bench = Bench::new(1, 1);
    hide(&bench, "boreas");
    let engine = bench.engine();
    let status = engine.status(&bench.cluster).await.unwrap();
    for node in &status.nodes {
        let seen = (node.vm.as_str(), node.running, node.healthy);
        assert_eq!(seen, ("unknown", None, None), "{node:#?}");
    }
    assert_eq!((status.healthy, status.as_declared, status.endpoint_answers), (None, None, None));

    let templates = engine.templates(&bench.cluster).await.unwrap();
    let leftovers = engine.leftovers(&bench.cluster).await.unwrap();
    assert!(templates.templates.is_empty() && leftovers.volumes.is_empty());
    for unobserved in [&templates.unobserved, &leftovers.unobserved] {
        let named =
            unobserved.iter().filter(|one| one.what.to_string() == "virtual machines of host boreas").count();
        assert_eq!((named, unobserved.len()), (1, 1), "{unobserved:#?}");
    }
    // What is pruned is told the same way.
    let world = engine.observe_proxmox(&bench.cluster).await.unwrap();
    let images = engine.images(&bench.cluster);
    let plans = [
        plan_prune_templates(&bench.cluster, &images, &world, Pruning::default()).unwrap(),
        plan_prune_volumes(&bench.cluster, &world, Pruning::default()).unwrap(),
    ];
    for plan in plans {
        let told =
            plan.notes.iter().any(|note| note.level == Level::Problem && note.about() == "host boreas");
        assert!(plan.is_empty() && told, "{:#?}", plan.notes);
    }
}

/// VMs that nobody could read are neither well nor ill.
#[tokio::test(start_paused = true)]
async fn a_vm_that_cannot_be_read_is_not_called_ill() {
    let bench = Bench::created().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    bench.lab.faults().inject(When::call("GET", "/nodes/*/qemu/1000/pending"), Fault::Status(500));
    let status = bench.engine().status(&bench.cluster).await.unwrap();
    let told: Vec<_> =
        status.nodes.iter().map(|node| (node.vm.as_str(), node.running, node.healthy)).collect();
    assert_eq!(told, [("running", Some(true), Some(true)), ("unreadable", None, None)], "{status:#?}");
    assert_eq!(status.healthy, None);
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_cannot_be_listed_is_named_with_the_volumes() {
    let bench = Bench::new(1, 1);
    let list = When::call("GET", "/nodes/boreas/storage/local-lvm/content");
    bench.lab.faults().inject(list, Fault::Status(500));
    let found = bench.engine().leftovers(&bench.cluster).await.unwrap();
    let named: Vec<String> = found.unobserved.iter().map(|one| one.what.to_string()).collect();
    assert_eq!(named, ["disks on storage local-lvm on host boreas"], "{found:#?}");
    // Templates are VMs, which were all listed.
    assert_eq!(bench.engine().templates(&bench.cluster).await.unwrap().unobserved, []);
}

/// Only Sys.Audit on `/` lets a token ask for the quorum: that it was not asked is said, and counted.
#[tokio::test(start_paused = true)]
async fn a_quorum_that_could_not_be_asked_is_told() {
    let bench = Bench::new(1, 1);
    let report = bench.engine().live_checks(&bench.cluster).await;
    assert_eq!(named(&report, "quorum").unwrap().verdict, CheckVerdict::Good, "{report:#?}");

    let mut bench = pooled(Way::USUAL);
    bench.cluster.nodes.retain(|node| node.vmid != 1000);
    let report = bench.engine().live_checks(&bench.cluster).await;
    let quorum = named(&report, "quorum").unwrap();
    assert_eq!((quorum.verdict, quorum.optional), (CheckVerdict::Unknown, true), "{quorum:#?}");
    assert!(quorum.found.contains("could not be asked") && quorum.fix.is_some(), "{quorum:#?}");
    assert_eq!(report.count(CheckVerdict::Unknown), 1, "{report:#?}");
    // An apply may succeed all the same.
    assert!(LiveReport { checks: vec![quorum.clone()], blocked: None }.passed());
}

/// A template joins its pool when its create ends. One whose worker died is invisible to the token, and told all the same.
#[tokio::test(start_paused = true)]
async fn a_dead_create_of_a_template_that_the_token_may_not_see_is_told() {
    let mut bench = pooled(TEMPLATE);
    bench.cluster.nodes.retain(|node| node.vmid != 1000);
    let create = When::call("POST", "/nodes/*/qemu");
    bench.lab.faults().inject(create.nth(1), Fault::Task(TaskFault::Dies));
    let report = bench.apply().await;
    let said = errors(&report).join("\n");
    assert!(!report.succeeded() && said.contains("template"), "{said}");

    let engine = bench.engine();
    let rows = engine.templates(&bench.cluster).await.unwrap().templates;
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let (vmid, fix) = (rows[0].vmid, daedal_words::free(rows[0].died.as_ref().unwrap()));
    let command = format!("qm unlock {vmid} && qm destroy {vmid} --purge --destroy-unreferenced-disks 1");
    assert!(fix.contains(&command) && !rows[0].complete, "{rows:#?}");
    // Neither apply nor prune runs into it.
    let plan = bench.look().await.1.unwrap();
    let told = |notes: &[daedal_planner::Note]| {
        notes.iter().any(|note| {
            note.level == Level::Problem && note.fix().map(|fix| fix.to_string()).as_ref() == Some(&fix)
        })
    };
    assert!(told(&plan.notes), "{:#?}", plan.notes);
    let world = engine.observe_proxmox(&bench.cluster).await.unwrap();
    let images = engine.images(&bench.cluster);
    let plan = plan_prune_templates(&bench.cluster, &images, &world, Pruning::default()).unwrap();
    assert!(plan.is_empty() && told(&plan.notes), "{:#?}", plan.notes);
    // Freed, as root does it, the next apply makes it.
    bench.lab.faults().clear();
    let admin = Client::builder("https://atlas.lan:8006", Token::new("root@pam!admin", CANARY).unwrap());
    let admin = admin.dialer(bench.lab.dialer()).trust(Trust::Insecure).build().unwrap();
    assert!(bench.lab.datacenter().unlock(vmid));
    let upid = admin.destroy_vm(&rows[0].host, vmid, true).await.unwrap();
    TaskWatcher::new(&admin).finish(&upid, "destroy").await.unwrap();
    assert_eq!(engine.templates(&bench.cluster).await.unwrap().templates, []);
    assert_done(&bench.apply().await, "apply");
    assert!(bench.look().await.1.unwrap().is_empty());
}
