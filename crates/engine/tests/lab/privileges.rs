//! The shipped roles suffice, and not one privilege in them is too many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use daedal_engine::{CheckVerdict, Effects, ErrorKind, Run, Scope, StepState, vnet_zones};
use daedal_inventory::Cluster;
use daedal_lab::Format;
use daedal_lab::faults::{Fault, TaskFault, When};
use daedal_lab::proxmox::{StorageSpec, TokenSpec};
use daedal_planner::{
    Account, Action, Grant, GuestView, Level, Ownership, PlanError, Secret, plan_apply, plan_destroy,
};
use daedal_proxmox::{Client, TaskWatcher, Token, Trust};
use daedal_words::Told as _;

use crate::boot::{ISO_ANYWHERE, TEMPLATE, TEMPLATE_CLOUD_INIT, somebodys_build};
use crate::support::{AccountTrouble, Bench, CANARY, Giving, TOKEN, Way, ensure, errors};

/// An account whose user and token have just these grants, on a Proxmox of this version.
async fn prepared(version: &str, pool: Option<&str>, grants: impl FnOnce(&Cluster) -> Vec<Grant>) -> Bench {
    booting(Way::USUAL, version, pool, grants).await
}

/// The same with nodes that boot some other way.
async fn booting(
    way: Way,
    version: &str,
    pool: Option<&str>,
    grants: impl FnOnce(&Cluster) -> Vec<Grant>,
) -> Bench {
    let mut bench = Bench::on(way, 1, 1, |datacenter| {
        datacenter.version = version.to_owned();
        let token = TokenSpec { grants: Vec::new(), ..TokenSpec::minimal(TOKEN, CANARY) };
        datacenter.tokens = vec![token, TokenSpec::administrator("root@pam!admin", CANARY)];
        // Another host has nothing to do with it, and nothing on it may be needed.
        datacenter.hosts.iter_mut().for_each(|host| host.bridges.extend(["vmbr9".into(), "z1/vnet1".into()]));
        let nas = StorageSpec { shared: true, ..StorageSpec::new("nas", "nfs", &["import"], 1 << 40) };
        datacenter.hosts.iter_mut().for_each(|host| host.storages.push(nas.clone()));
    });
    if let Some(image) = &bench.cluster.boot.image {
        let bytes = somebodys_build().encode(Format::Raw);
        assert!(bench.lab.datacenter().put_image("atlas", image, bytes, None));
    }
    bench.lab.datacenter().map_pci("gpu");
    bench.cluster.proxmox.pool = pool.map(str::to_owned);
    // The lab refuses what it does not have; on a real network only a host that is there does so.
    bench.cluster.reach = daedal_inventory::Reach::Proxy("http://127.0.0.1:1".into());
    let (user, token) = TOKEN.split_once('!').unwrap();
    let account = Account {
        user: user.into(),
        token: token.into(),
        comment: "tests".into(),
        pool: pool.map(str::to_owned),
        grants: grants(&bench.cluster),
    };
    let admin = Client::builder("https://atlas.lan:8006", Token::new("root@pam!admin", CANARY).unwrap())
        .dialer(bench.lab.dialer())
        .trust(Trust::Ca(bench.lab.pki().ca_pem().to_owned()))
        .build()
        .unwrap();
    let there = async |_: &_| panic!("the token is there");
    let done = ensure(&account, &admin, &Effects::default(), Secret::Known, there).await.unwrap();
    assert!(!done.is_empty());
    assert_eq!(ensure(&account, &admin, &Effects::default(), Secret::Known, there).await.unwrap(), []);
    bench
}

/// What `check --live` finds wrong.
async fn found(bench: &Bench) -> Vec<String> {
    let report = bench.engine().live_checks(&bench.cluster).await;
    let wrong = |verdict| matches!(verdict, CheckVerdict::Bad | CheckVerdict::Unknown);
    let all = report.checks.iter().filter(|check| wrong(check.verdict));
    all.map(|check| format!("{}: {}; {}", check.what, check.found, check.fix.clone().unwrap_or_default()))
        .collect()
}

/// A cluster comes, is looked at, and goes. What stands in the way, if anything does.
async fn life(bench: &Bench) -> Result<(), String> {
    let engine = bench.engine();
    let run = Run::silent();
    let world = engine.observe(&bench.cluster).await.map_err(|error| daedal_engine::chain(&error))?;
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world)
        .map_err(|error| daedal_engine::chain(&error))?;
    if let Some(note) = plan.notes.iter().find(|note| note.level == Level::Problem) {
        return Err(format!("{}: {}", note.about(), note.text()));
    }
    let ended = |report: daedal_engine::Report| match report.succeeded() {
        true => Ok(()),
        false => Err(errors(&report).join("; ")),
    };
    let report = engine.execute(&bench.cluster, &world, &plan, &run).await.unwrap();
    ended(report)?;
    let world = engine.observe(&bench.cluster).await.map_err(|error| daedal_engine::chain(&error))?;
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    if !plan.is_empty() {
        return Err(format!("not done: {:?}", plan.steps));
    }
    let plan = plan_destroy(&bench.cluster, &world).unwrap();
    ended(engine.execute(&bench.cluster, &world, &plan, &run).await.unwrap())?;
    let ours = |vmid: u32| bench.cluster.nodes.iter().any(|node| node.vmid == vmid);
    match bench.lab.datacenter().vms().iter().any(|vm| ours(vm.0)) {
        false => Ok(()),
        true => Err("VMs are left".to_owned()),
    }
}

fn shipped(version: &str) -> impl Fn(&Cluster) -> Vec<Grant> {
    let release = if version.starts_with('8') { 8 } else { 9 };
    move |cluster| Scope::of(cluster).grants(release)
}

async fn suffices(version: &str, pool: Option<&str>) {
    let bench = prepared(version, pool, shipped(version)).await;
    assert_eq!(found(&bench).await, Vec::<String>::new());
    assert_eq!(life(&bench).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_shipped_roles_suffice_on_9() {
    suffices("9.2.11", None).await;
}

#[tokio::test(start_paused = true)]
async fn the_shipped_roles_suffice_on_8() {
    suffices("8.4.1", None).await;
}

#[tokio::test(start_paused = true)]
async fn the_shipped_roles_suffice_on_9_with_rights_on_a_pool_only() {
    suffices("9.2.11", Some("talos")).await;
}

#[tokio::test(start_paused = true)]
async fn the_shipped_roles_suffice_on_8_with_rights_on_a_pool_only() {
    suffices("8.4.1", Some("talos")).await;
}

/// A VM joins its pool only when its create ends: one whose worker died is invisible to a token with rights on the pool, and must
/// neither be made again and again nor be called gone.
#[tokio::test(start_paused = true)]
async fn a_dead_create_is_told_although_the_token_may_not_see_its_vm() {
    let mut bench = prepared("9.2.11", Some("talos"), shipped("9.2.11")).await;
    bench.cluster.placement.pin.insert("worker-1".into(), "boreas".into());
    let vmid = bench.cluster.nodes[1].vmid;
    let when = When::call("POST", "/nodes/boreas/qemu");
    bench.lab.faults().inject(when, Fault::Task(TaskFault::Dies));
    let report = bench.apply().await;
    bench.lab.faults().clear();
    let failed: Vec<_> = report.failures().collect();
    assert_eq!(failed.len(), 1, "{:#?}", errors(&report));
    let StepState::Failed { kind, error, fix: Some(fix) } = &failed[0].state else {
        panic!("{:#?}", failed[0])
    };
    assert_eq!(*kind, ErrorKind::Stuck);
    assert!(error.contains(&format!("VM {vmid} on boreas is stuck in `lock: create`")), "{error}");
    let command = format!("qm unlock {vmid} && qm destroy {vmid} --purge --destroy-unreferenced-disks 1");
    let fix = fix.to_string();
    assert!(fix.contains(&command) && fix.contains(&format!("qm config {vmid}")), "{fix}");

    // The next run knows: nothing is made in its place, and what is left is not called gone.
    let (world, plan) = bench.look().await;
    assert!(matches!(&world.guests[&vmid].ownership, Ownership::HalfMade { task_running: false, .. }));
    let plan = plan.unwrap();
    assert!(
        plan.steps.iter().all(|step| !matches!(step.action, Action::CreateVm { .. })),
        "{:#?}",
        plan.steps
    );
    for plan in [plan, plan_destroy(&bench.cluster, &world).unwrap()] {
        let note = plan.notes.iter().find(|note| note.level == Level::Problem).unwrap();
        assert!(note.text().contains("may not see the VM"), "{note:?}");
        assert!(note.fix().unwrap().to_string().contains(&command), "{note:?}");
    }
    let status = bench.engine().status(&bench.cluster).await.unwrap();
    let row = status.nodes.iter().find(|row| row.node == bench.cluster.nodes[1].name).unwrap();
    assert_eq!(row.vm, "stuck in lock: create");

    // Somebody frees it. Its task is remembered, and says nothing any more.
    let admin = Client::builder("https://atlas.lan:8006", Token::new("root@pam!admin", CANARY).unwrap());
    let admin = admin.dialer(bench.lab.dialer()).trust(Trust::Insecure).build().unwrap();
    assert!(bench.lab.datacenter().unlock(vmid));
    let upid = admin.destroy_vm("boreas", vmid, true).await.unwrap();
    TaskWatcher::new(&admin).finish(&upid, "destroy").await.unwrap();
    assert!(!bench.look().await.0.guests.contains_key(&vmid));
    let report = bench.apply().await;
    assert!(report.succeeded(), "{:#?}", errors(&report));
}

/// A refusal that only a step meets is told as one: it ends the command as a refusal in a look does.
#[tokio::test(start_paused = true)]
async fn a_step_that_is_refused_keeps_the_kind_of_its_error() {
    let without_power = |cluster: &Cluster| {
        let mut grants = shipped("9.2.11")(cluster);
        for grant in &mut grants {
            grant.privileges.remove("VM.PowerMgmt");
        }
        grants
    };
    let report = prepared("9.2.11", None, without_power).await.apply().await;
    let kinds: BTreeSet<(&str, ErrorKind)> = report
        .failures()
        .filter_map(|step| match &step.state {
            StepState::Failed { kind, .. } => Some((step.action, *kind)),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, BTreeSet::from([("startVm", ErrorKind::Denied)]), "{:#?}", errors(&report));
}

/// The same while the create still runs, of a run that was killed.
#[tokio::test(start_paused = true)]
async fn a_running_create_is_awaited_although_the_token_may_not_see_its_vm() {
    let bench = prepared("9.2.11", Some("talos"), shipped("9.2.11")).await;
    let when = When::call("POST", "/nodes/*/qemu").nth(1);
    bench.lab.faults().inject(when, Fault::Task(TaskFault::Slower(20)));
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    let creating = |guest: &GuestView| {
        guest.unseen && matches!(guest.ownership, Ownership::HalfMade { task_running: true, .. })
    };
    // The run dies while the slow create is under way.
    let looked = async {
        while !bench.look().await.0.guests.values().any(creating) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let run = Run::silent();
    tokio::select! {
        () = looked => {}
        _ = engine.execute(&bench.cluster, &world, &plan, &run) => unreachable!("the create is slow"),
    };
    let report = bench.apply().await;
    assert!(report.succeeded(), "{:#?}", errors(&report));
    bench.assert_converged("apply").await;
}

/// Takes each privilege away in turn: `check --live` names it with its path, and an apply stops on it.
async fn each_is_needed(way: Way, version: &str, pool: Option<&str>) {
    let all = booting(way, version, pool, shipped(version)).await;
    let grants = shipped(version)(&all.cluster);
    let single: BTreeSet<(&str, &str)> = grants
        .iter()
        .filter(|grant| grant.loss.is_none())
        .flat_map(|grant| grant.privileges.iter().map(|privilege| (grant.role, *privilege)))
        .collect();
    for (role, privilege) in single {
        let without = |cluster: &Cluster| {
            let mut grants = shipped(version)(cluster);
            for grant in grants.iter_mut().filter(|grant| grant.role == role) {
                grant.privileges.remove(privilege);
            }
            grants.retain(|grant| !grant.privileges.is_empty());
            grants
        };
        let bench = booting(way, version, pool, without).await;
        let path = &grants.iter().find(|grant| grant.role == role).unwrap().path;
        let said = found(&bench).await.join("\n");
        assert!(
            said.contains(&format!("privileges on {path}: the token {TOKEN} lacks {privilege}; ")),
            "without {privilege} of {role}, check --live says: {said}"
        );
        assert!(said.contains(&format!("pveum acl modify {path} ")), "{said}");
        let lived = life(&bench).await;
        match (privilege, lived) {
            // Only tells whether the pool is there before a VM goes into it.
            ("Pool.Audit", lived) => assert_eq!(lived, Ok(())),
            (_, Ok(())) => panic!("{privilege} of {role} on {path} is not needed"),
            (_, Err(_)) => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn not_one_privilege_is_too_many_on_9() {
    each_is_needed(Way::USUAL, "9.2.11", None).await;
}

#[tokio::test(start_paused = true)]
async fn not_one_privilege_is_too_many_on_8() {
    each_is_needed(Way::USUAL, "8.4.1", None).await;
}

#[tokio::test(start_paused = true)]
async fn not_one_privilege_is_too_many_with_rights_on_a_pool_only() {
    each_is_needed(Way::USUAL, "9.2.11", Some("talos")).await;
}

/// Where nothing is downloaded no host is let into the network, and where no file of ours goes to a storage, none is let in.
#[tokio::test(start_paused = true)]
async fn not_one_privilege_is_too_many_with_an_image_of_ones_own() {
    let without_media =
        Way::new("{image: \"nas:import/talos-v1.12-own.raw\", config: cloud-init-drive}", Giving::Nothing);
    for (way, files) in [(OWN_IMAGE, true), (without_media, false)] {
        let bench = booting(way, "9.2.11", None, shipped("9.2.11")).await;
        let grants = shipped("9.2.11")(&bench.cluster);
        let given = |role: &str| grants.iter().any(|grant| grant.role == role);
        assert_eq!((given("DaedalDownload"), given("DaedalImages")), (false, files), "{way:?}");
        assert_eq!(found(&bench).await, Vec::<String>::new(), "{way:?}");
        assert_eq!(life(&bench).await, Ok(()), "{way:?}");
    }
    each_is_needed(OWN_IMAGE, "9.2.11", None).await;
}

/// The right to use a VNet is under its own zone, and is asked for and given there.
#[tokio::test(start_paused = true)]
async fn a_vnet_is_used_by_the_right_on_its_own_zone() {
    let at = |zones: &[(&str, &str)]| {
        let zones: BTreeMap<String, String> =
            zones.iter().map(|(vnet, zone)| ((*vnet).to_owned(), (*zone).to_owned())).collect();
        move |cluster: &Cluster| {
            let bridges = BTreeSet::from(["vnet1".to_owned()]);
            Scope { bridges, zones, ..Scope::of(cluster) }.grants(9)
        }
    };
    let mut bench = prepared("9.2.11", None, at(&[("vnet1", "z1")])).await;
    bench.cluster.proxmox.bridge = "vnet1".into();
    assert_eq!(found(&bench).await, Vec::<String>::new());
    assert_eq!(life(&bench).await, Ok(()));
    // As a plain bridge it would be granted where it is not.
    let mut bench = prepared("9.2.11", None, at(&[])).await;
    bench.cluster.proxmox.bridge = "vnet1".into();
    assert!(life(&bench).await.is_err());
    let admin = Client::builder("https://atlas.lan:8006", Token::new("root@pam!admin", CANARY).unwrap());
    let admin = admin.dialer(bench.lab.dialer()).trust(Trust::Insecure).build().unwrap();
    assert_eq!(vnet_zones(&admin).await.get("vnet1").map(String::as_str), Some("z1"));
}

/// VMs that start in some order, have a PCI device, or a card in another network.
const ORDERED: Way = Way::new("{}\n  hardware: {startOrder: 2, startDelay: 10}", Giving::Nothing);
const MAPPED: Way = Way::new("{}\n  hardware: {pci: [gpu]}", Giving::Nothing);
const ELSEWHERE: Way = Way::new("{}\n  hardware: {nics: [{bridge: vmbr9, vlan: 7}]}", Giving::Nothing);
/// An image of one's own, on a storage that is for nothing else.
const OWN_IMAGE: Way = Way::new("{image: \"nas:import/talos-v1.12-own.raw\"}", Giving::Nothing);

/// A bridge, a storage or a device that only some VMs have is in the scope, too.
/// Mission: M11
#[test]
fn what_hardware_needs_is_in_the_scope() {
    let more = "{}\n  hardware: {disks: [{size: 1GiB, storage: fast}], nics: [{bridge: vmbr9}], pci: [gpu], startOrder: 1}";
    let cluster = crate::support::cluster_booting(more, 1, 1);
    let paths: Vec<String> = Scope::of(&cluster).grants(9).into_iter().map(|grant| grant.path).collect();
    for path in ["/storage/fast", "/sdn/zones/localnetwork/vmbr9", "/mapping/pci/gpu", "/"] {
        assert!(paths.iter().any(|known| known == path), "{path}: {paths:?}");
    }
}

/// What templates, the guest agent and special hardware take besides, named as each release names it.
#[tokio::test(start_paused = true)]
async fn what_other_boot_paths_add_suffices_and_is_needed() {
    for (way, version, role, privilege) in [
        (TEMPLATE, "9.2.11", "DaedalClone", "VM.Clone"),
        (ISO_ANYWHERE, "9.2.11", "DaedalAgent", "VM.GuestAgent.Audit"),
        (ISO_ANYWHERE, "8.4.1", "DaedalAgent", "VM.Monitor"),
        (TEMPLATE_CLOUD_INIT, "9.2.11", "DaedalCloudInit", "VM.Config.Cloudinit"),
        (ORDERED, "9.2.11", "DaedalStartOrder", "Sys.Modify"),
        (MAPPED, "9.2.11", "DaedalMapping", "Mapping.Use"),
        (ELSEWHERE, "9.2.11", "DaedalBridge", "SDN.Use"),
        (OWN_IMAGE, "9.2.11", "DaedalRead", "Datastore.Audit"),
    ] {
        let bench = booting(way, version, None, shipped(version)).await;
        assert_eq!(life(&bench).await, Ok(()), "{way:?} on {version}");
        let without = |cluster: &Cluster| {
            let mut grants = shipped(version)(cluster);
            // Of several bridges, the one that is named for the extra card.
            let bridge = |grant: &Grant| role != "DaedalBridge" || grant.path.ends_with("/vmbr9");
            let before = grants.len();
            grants.retain(|grant| grant.role != role || !bridge(grant));
            assert_eq!(grants.len() + 1, before, "{role} holds {privilege} alone");
            grants
        };
        let bench = booting(way, version, None, without).await;
        let said = found(&bench).await.join("\n");
        assert!(said.contains(&format!("lacks {privilege}; ")), "{version} without {privilege}: {said}");
        assert!(life(&bench).await.is_err(), "{privilege} is not needed on {version}");
    }
}

/// ACLs for the user alone, or for the token alone, give lists that are empty with a 200.
#[tokio::test(start_paused = true)]
async fn a_separated_token_without_rights_of_its_own_is_caught() {
    let bench = Bench::with(1, 1, |datacenter| {
        let user = daedal_lab::proxmox::UserSpec {
            id: "daedal@pve".into(),
            password: None,
            grants: TokenSpec::minimal(TOKEN, CANARY).grants,
        };
        datacenter.users = vec![user];
        datacenter.tokens = vec![TokenSpec { grants: Vec::new(), ..TokenSpec::minimal(TOKEN, CANARY) }];
    });
    let said = found(&bench).await.join("\n");
    for path in ["/vms", "/storage/local", "/storage/local-lvm", "/nodes/atlas", "/nodes/boreas"] {
        assert!(said.contains(&format!("privileges on {path}: the token {TOKEN} lacks ")), "{said}");
    }
    assert!(said.contains("--tokens 'daedal@pve!cli'"), "{said}");
}

/// Two at once, or a kill half-way: whoever comes later mends the rest.
#[tokio::test(start_paused = true)]
async fn a_token_whose_secret_cannot_be_kept_is_deleted_again() {
    let bench = Bench::with(1, 0, |datacenter| {
        datacenter.tokens = vec![TokenSpec::administrator("root@pam!admin", CANARY)];
    });
    let admin = Client::builder("https://atlas.lan:8006", Token::new("root@pam!admin", CANARY).unwrap())
        .dialer(bench.lab.dialer())
        .trust(Trust::Ca(bench.lab.pki().ca_pem().to_owned()))
        .build()
        .unwrap();
    let account = Account {
        user: "daedal@pve".into(),
        token: "cli".into(),
        comment: "tests".into(),
        pool: None,
        grants: Scope::of(&bench.cluster).grants(9),
    };
    let full = async |_: &_| Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
    let error = ensure(&account, &admin, &Effects::default(), Secret::Unknown, full).await.unwrap_err();
    assert!(matches!(error, AccountTrouble::Run(daedal_engine::Error::NotKept { .. })), "{error:?}");
    assert_eq!(admin.tokens_of("daedal@pve").await.unwrap(), []);

    let kept = Arc::new(std::sync::Mutex::new(String::new()));
    let keep = async |made: &daedal_proxmox::NewToken| {
        *kept.lock().unwrap() = made.expose().to_owned();
        Ok(())
    };
    ensure(&account, &admin, &Effects::default(), Secret::Unknown, keep).await.unwrap();
    let first = kept.lock().unwrap().clone();
    assert!(!first.is_empty());
    let error = ensure(&account, &admin, &Effects::default(), Secret::Unknown, async |_| Ok(())).await;
    assert!(matches!(error, Err(AccountTrouble::Plan(PlanError::TokenExists { .. }))), "{error:?}");
    ensure(&account, &admin, &Effects::default(), Secret::Rotate, keep).await.unwrap();
    assert_ne!(*kept.lock().unwrap(), first);
    // Its grants died with the old one, and were given anew.
    let acl = admin.acl().await.unwrap();
    assert!(acl.iter().any(|entry| entry.ugid == "daedal@pve!cli" && entry.roleid == "DaedalVM"), "{acl:?}");
}
