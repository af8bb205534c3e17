//! The commands that guard VMs and keep accounts: death before and after each of their calls, and each of their calls
//! failing, then the same command again: everything is as if nothing had happened.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use daedal_engine::{Accounts, Effects, Engine, Error, Run, Scope};
use daedal_inventory::{Cluster, Node};
use daedal_lab::proxmox::{Grant, TokenSpec};
use daedal_planner::{
    Account, BackupWish, FirewallWish, FoundMark, Mark, Plan, PlanError, Purpose, Secret, World,
    plan_account, plan_backup_job, plan_firewall, plan_ha, plan_mark,
};
use daedal_proxmox::{
    Call, Client, ClusterObject, Fault, Observer, Seen, Token, Trust, UpdateVm, Verdict, VmConfig,
};
use tokio::sync::Notify;

use crate::lock::owner;
use crate::strangers::proxmox;
use crate::support::{AccountTrouble, Bench, CANARY, Killer, Point, TOKEN, assert_done, ensure, errors};

/// What befalls the n-th change.
#[derive(Clone, Debug)]
enum Fate {
    /// The program dies there.
    Death(Point),
    /// The call fails like this, before or after its effect.
    Failure(Point, Fault),
}

/// Watches the calls of a client, and lets something befall the n-th change (from 1).
struct Watcher {
    nth: usize,
    fate: Option<Fate>,
    seen: AtomicUsize,
    dead: Notify,
}

impl Watcher {
    fn new(nth: usize, fate: Option<Fate>) -> Arc<Self> {
        Arc::new(Self { nth, fate, seen: AtomicUsize::new(0), dead: Notify::new() })
    }

    fn pass<'a>(&'a self, call: &Call, point: Point) -> Verdict<'a> {
        let count = match point {
            Point::Before if call.mutating => self.seen.fetch_add(1, Ordering::Relaxed) + 1,
            _ => self.seen.load(Ordering::Relaxed),
        };
        let here = call.mutating && count == self.nth;
        Box::pin(async move {
            match self.fate.as_ref().filter(|_| here) {
                Some(Fate::Death(at)) if *at == point => {
                    self.dead.notify_one();
                    std::future::pending().await
                }
                Some(Fate::Failure(at, fault)) if *at == point => Some(fault.clone()),
                _ => None,
            }
        })
    }
}

impl Observer for Watcher {
    fn before<'a>(&'a self, call: &'a Call) -> Verdict<'a> {
        self.pass(call, Point::Before)
    }

    fn after<'a>(&'a self, call: &'a Call, _: &'a Seen) -> Verdict<'a> {
        self.pass(call, Point::After)
    }
}

/// What befalls the n-th change: both deaths, and the failures in turns.
fn fates(nth: usize) -> Vec<Fate> {
    let reply =
        |status: u16, reason: &str| Fault::Reply { status, reason: reason.to_owned(), body: String::new() };
    let lock = "can't lock file '/var/lock/pve-manager/x' - got timeout";
    let failures = [
        Fate::Failure(Point::After, Fault::Lost),
        Fate::Failure(Point::Before, reply(500, lock)),
        Fate::Failure(Point::Before, reply(403, "Permission check failed")),
        Fate::Failure(Point::After, reply(596, "Connection timed out")),
        Fate::Failure(Point::Before, Fault::Refused),
    ];
    let failure = failures[nth % failures.len()].clone();
    vec![Fate::Death(Point::Before), Fate::Death(Point::After), failure]
}

/// A cluster whose token may keep jobs and resources, as it was saved.
async fn saved(control_planes: usize) -> Bench {
    let bench = Bench::with(control_planes, 0, |datacenter| {
        let mut token = TokenSpec::minimal(TOKEN, CANARY);
        token.grants.push(Grant::new("/", &["Sys.Audit", "Sys.Console", "Sys.Modify"]));
        datacenter.tokens = vec![token, TokenSpec::administrator("root@pam!admin", CANARY)];
    });
    assert_done(&bench.apply().await, "apply");
    bench.lab.save(bench.folder.path()).unwrap();
    bench
}

/// Everything that the commands change, as text.
async fn state(bench: &Bench) -> String {
    let client = proxmox(bench);
    let mut text = String::new();
    for (vmid, host, ..) in bench.lab.datacenter().vms() {
        let rules = client.firewall_rules(&host, vmid).await.unwrap();
        let options = client.firewall_options(&host, vmid).await.unwrap();
        let sets = client.ipsets(&host, vmid).await.unwrap();
        let mut members = Vec::new();
        for set in &sets {
            members.push(client.ipset(&host, vmid, set).await.unwrap());
        }
        let config = client.vm_config(&host, vmid).await.unwrap();
        let (card, notes) = (&config.nics["net0"], &config.description);
        text += &format!("{vmid}: {rules:?} {options:?} {sets:?} {members:?} {card:?} {notes:?}\n");
    }
    for kind in [ClusterObject::HaResource, ClusterObject::HaRule, ClusterObject::BackupJob] {
        text += &format!("{:?}\n", client.kept(kind).await.unwrap());
    }
    text
}

/// Every changing call passed the point where it can be counted, failed or killed, each by a name of its own.
fn passed_the_gate(gate: &Killer, changes: usize, name: &str) {
    let seen: Vec<String> = gate.seen().iter().map(ToString::to_string).collect();
    assert_eq!(seen.len(), changes, "{name}: {seen:#?}");
    let different: std::collections::BTreeSet<&String> = seen.iter().collect();
    assert_eq!(different.len(), changes, "{name}: {seen:#?}");
}

/// What a plan changed: a line of each step that had something to do. An error if one was not done.
async fn carried_out(
    engine: Engine,
    cluster: &Cluster,
    purpose: Purpose,
    plan: impl Fn(&World) -> Plan,
) -> Result<Vec<String>, String> {
    let world = engine.observe_for(cluster, purpose).await.map_err(|error| daedal_engine::chain(&error))?;
    executed(engine, cluster, &world, &plan(&world)).await
}

async fn executed(
    engine: Engine,
    cluster: &Cluster,
    world: &World,
    plan: &Plan,
) -> Result<Vec<String>, String> {
    let report = engine.execute(cluster, world, plan, &Run::silent()).await;
    let report = report.map_err(|error| daedal_engine::chain(&error))?;
    match &errors(&report)[..] {
        [] => Ok(report.steps.iter().map(|step| step.stage.to_owned()).collect()),
        failed => Err(failed.join("\n")),
    }
}

/// Runs a command on copies of a bench, and lets everything befall every change that it makes.
async fn sweep<F>(from: &Bench, name: &str, command: impl Fn(Engine) -> F)
where
    F: Future<Output = Result<Vec<String>, String>>,
{
    let through = |bench: &Bench, watcher: &Arc<Watcher>, effects: Effects| {
        command(bench.engine_watched(bench.lab.dialer(), effects, watcher.clone()))
    };
    let run = |bench: &Bench, watcher: &Arc<Watcher>| through(bench, watcher, Effects::default());
    let (bench, watcher, gate) = (from.copy(), Watcher::new(0, None), Killer::never());
    let done = through(&bench, &watcher, Effects::through(gate.clone())).await.unwrap();
    assert!(!done.is_empty(), "{name}");
    let (wanted, changes) = (state(&bench).await, watcher.seen.load(Ordering::Relaxed));
    assert!(changes > 0, "{name}");
    passed_the_gate(&gate, changes, name);
    for nth in 1..=changes {
        for fate in fates(nth) {
            let (bench, watcher) = (from.copy(), Watcher::new(nth, Some(fate.clone())));
            tokio::select! {
                // One that fails says so; one that may be repeated goes on.
                _ = run(&bench, &watcher) => {}
                () = watcher.dead.notified() => {}
            }
            let after = format!("{name}: {fate:?} at change {nth} of {changes}");
            let calm = Watcher::new(0, None);
            run(&bench, &calm).await.unwrap_or_else(|error| panic!("{after}: {error}"));
            assert_eq!(state(&bench).await, wanted, "{after}");
            let again = run(&bench, &calm).await.unwrap();
            assert!(again.is_empty(), "{after}: {again:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_befalls_the_firewall_command_is_survived() {
    let bench = saved(1).await;
    let cluster = &bench.cluster;
    let firewall = |ports: Option<&'static [u16]>| {
        move |engine: Engine| {
            let wish = ports.map(|ports| FirewallWish { ports: ports.iter().copied().collect() });
            carried_out(engine, cluster, Purpose::Firewall, move |world| {
                plan_firewall(cluster, world, wish.as_ref()).unwrap()
            })
        }
    };
    sweep(&bench, "firewall", firewall(Some(&[]))).await;
    firewall(Some(&[]))(bench.engine()).await.unwrap();
    bench.lab.save(bench.folder.path()).unwrap();
    sweep(&bench, "firewall with a port", firewall(Some(&[443]))).await;
    sweep(&bench, "firewall --off", firewall(None)).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_befalls_the_availability_command_is_survived() {
    let bench = saved(3).await;
    let cluster = &bench.cluster;
    let ha = |on: bool| {
        move |engine: Engine| {
            carried_out(engine, cluster, Purpose::Ha, move |world| plan_ha(cluster, world, on).unwrap())
        }
    };
    sweep(&bench, "ha", ha(true)).await;
    ha(true)(bench.engine()).await.unwrap();
    bench.lab.save(bench.folder.path()).unwrap();
    sweep(&bench, "ha --off", ha(false)).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_befalls_the_backup_command_is_survived() {
    let bench = saved(1).await;
    let cluster = &bench.cluster;
    let job = |keep: Option<u32>| {
        let wish = keep.map(|keep| BackupWish { storage: "local".into(), schedule: "02:30".into(), keep });
        move |engine: Engine| {
            let wish = wish.clone();
            carried_out(engine, cluster, Purpose::BackupJob, move |world| {
                plan_backup_job(cluster, world, wish.as_ref()).unwrap()
            })
        }
    };
    sweep(&bench, "backup-job", job(Some(7))).await;
    job(Some(7))(bench.engine()).await.unwrap();
    bench.lab.save(bench.folder.path()).unwrap();
    sweep(&bench, "backup-job, changed", job(Some(8))).await;
    sweep(&bench, "backup-job --off", job(None)).await;
}

/// The config of a node's VM.
async fn config_of(bench: &Bench, node: &Node) -> (String, VmConfig) {
    let host = bench.lab.datacenter().vms().into_iter().find(|vm| vm.0 == node.vmid).unwrap().1;
    let config = proxmox(bench).vm_config(&host, node.vmid).await.unwrap();
    (host, config)
}

/// A cluster whose first node's notes somebody overwrote.
async fn unmarked() -> Bench {
    let bench = saved(1).await;
    let node = &bench.cluster.nodes[0];
    let (host, config) = config_of(&bench, node).await;
    let update = UpdateVm::new().set("description", "rack 4, ask Ann").digest(&config.digest);
    proxmox(&bench).update_vm(&host, node.vmid, &update).await.unwrap();
    bench.lab.save(bench.folder.path()).unwrap();
    bench
}

async fn mark(engine: Engine, cluster: &Cluster, node: &Node) -> Result<Vec<String>, String> {
    let world = engine.observe_mark(cluster, node).await.map_err(|error| daedal_engine::chain(&error))?;
    executed(engine, cluster, &world, &plan_mark(cluster, &world, node).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn whatever_befalls_the_mark_command_is_survived() {
    let bench = unmarked().await;
    let (cluster, node) = (&bench.cluster, &bench.cluster.nodes[0]);
    sweep(&bench, "node mark", |engine| mark(engine, cluster, node)).await;
    // A call whose answer is lost is looked at, not made again.
    let lost = Watcher::new(1, Some(Fate::Failure(Point::After, Fault::Lost)));
    let engine = bench.engine_watched(bench.lab.dialer(), Effects::default(), lost.clone());
    assert_eq!(mark(engine, cluster, node).await.unwrap(), ["restoring the mark"]);
    assert_eq!(lost.seen.load(Ordering::Relaxed), 1);
    let notes = config_of(&bench, node).await.1.description.unwrap();
    assert!(notes.starts_with("rack 4, ask Ann\n"), "{notes}");
    assert!(matches!(Mark::find(&notes), FoundMark::One(mark) if mark.node == node.name), "{notes}");
    // What the VM was made from is found out by the next apply.
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("a mark that was restored").await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_changed_after_it_was_judged_is_not_marked() {
    let bench = unmarked().await;
    let (cluster, node) = (&bench.cluster, &bench.cluster.nodes[0]);
    let world = bench.engine().observe_mark(cluster, node).await.unwrap();
    let plan = plan_mark(cluster, &world, node).unwrap();
    let (host, config) = config_of(&bench, node).await;
    let update = UpdateVm::new().set("description", "rack 5, ask Bob").digest(&config.digest);
    proxmox(&bench).update_vm(&host, node.vmid, &update).await.unwrap();
    let failed = executed(bench.engine(), cluster, &world, &plan).await.unwrap_err();
    assert!(failed.contains("changed after the plan was made"), "{failed}");
    assert_eq!(config_of(&bench, node).await.1.description.as_deref(), Some("rack 5, ask Bob"));
}

#[tokio::test(start_paused = true)]
async fn whatever_befalls_the_account_command_is_survived() {
    let bench = saved(1).await;
    let account = Account {
        user: "other@pve".into(),
        token: "cli".into(),
        comment: "tests".into(),
        pool: Some("talos".into()),
        grants: Scope { pool: Some("talos".into()), ..Scope::of(&bench.cluster) }.grants(9),
    };
    let admin = |bench: &Bench, watcher: Arc<Watcher>| {
        Client::builder("https://atlas.lan:8006", Token::new("root@pam!admin", CANARY).unwrap())
            .dialer(bench.lab.dialer())
            .trust(Trust::Ca(bench.lab.pki().ca_pem().to_owned()))
            .observer(watcher)
            .build()
            .unwrap()
    };
    let acl = |bench: &Bench| {
        let client = admin(bench, Watcher::new(0, None));
        async move {
            let mut all = client.acl().await.unwrap();
            all.sort_by_key(|entry| format!("{entry:?}"));
            let mut roles = client.roles().await.unwrap();
            roles.retain(|role| role.roleid.starts_with("Daedal"));
            (all, roles, client.tokens_of("other@pve").await.unwrap().len())
        }
    };
    let (whole, watcher, gate) = (bench.copy(), Watcher::new(0, None), Killer::never());
    let (counted, open) = (Effects::through(gate.clone()), &Effects::default());
    ensure(&account, &admin(&whole, watcher.clone()), &counted, Secret::Unknown, async |_| Ok(()))
        .await
        .unwrap();
    let (wanted, changes) = (acl(&whole).await, watcher.seen.load(Ordering::Relaxed));
    passed_the_gate(&gate, changes, "account");
    for nth in 1..=changes {
        for fate in fates(nth) {
            let (bench, watcher) = (bench.copy(), Watcher::new(nth, Some(fate.clone())));
            let kept = std::sync::Mutex::new(false);
            let keep = async |_: &_| {
                *kept.lock().unwrap() = true;
                Ok(())
            };
            let dying = admin(&bench, watcher.clone());
            tokio::select! {
                _ = ensure(&account, &dying, open, Secret::Unknown, keep) => {}
                () = watcher.dead.notified() => {}
            }
            let after = format!("{fate:?} at change {nth} of {changes}");
            let admin = admin(&bench, Watcher::new(0, None));
            // Without its secret a token is of no use: only then, and only when told to, it is made anew.
            let had = *kept.lock().unwrap();
            let first =
                ensure(&account, &admin, open, if had { Secret::Known } else { Secret::Unknown }, keep).await;
            match first {
                Ok(_) => {}
                Err(AccountTrouble::Plan(PlanError::TokenExists { .. })) if !had => {
                    ensure(&account, &admin, open, Secret::Rotate, keep).await.unwrap();
                }
                Err(error) => panic!("{after}: {error:?}"),
            }
            assert!(*kept.lock().unwrap(), "{after}: nobody has the secret");
            assert_eq!(acl(&bench).await, wanted, "{after}");
            let again = ensure(&account, &admin, open, Secret::Known, async |_| panic!("again")).await;
            assert_eq!(again.unwrap(), [], "{after}");
        }
    }
}

/// What somebody else changes between the look and the change is not overwritten.
#[tokio::test(start_paused = true)]
async fn an_account_that_changed_after_the_look_is_left_alone() {
    let bench = saved(1).await;
    let token = Token::new("root@pam!admin", CANARY).unwrap();
    let admin = Client::builder("https://atlas.lan:8006", token)
        .dialer(bench.lab.dialer())
        .trust(Trust::Ca(bench.lab.pki().ca_pem().to_owned()))
        .build()
        .unwrap();
    let (user, token, pool) = ("other@pve".to_owned(), "cli".to_owned(), None);
    let grants = Scope::of(&bench.cluster).grants(9);
    let account = Account { user, token, comment: "tests".into(), pool, grants };
    let effects = Effects::default();
    let store = bench.store();
    let _lock = store.lock(&owner("ann")).await.unwrap();
    let clock = Arc::new(daedal_engine::SystemClock);
    let accounts = Accounts { admin: &admin, effects: &effects, store: Some(&store), clock };
    let view = accounts.look(&account).await.unwrap();
    let plan = plan_account(&account, &view, Secret::Unknown).unwrap();
    let theirs = std::collections::BTreeSet::from(["VM.Audit".to_owned()]);
    admin.create_role("DaedalVM", &theirs).await.unwrap();
    let asked = (&account, &view, Secret::Unknown);
    let report = accounts.execute(asked, &plan, async |_| panic!("no token yet")).await.unwrap();
    let failure = report.failure.unwrap();
    assert!(matches!(&failure, Error::Changed { what } if what == "role DaedalVM"), "{failure:?}");
    let role = admin.roles().await.unwrap().into_iter().find(|role| role.roleid == "DaedalVM").unwrap();
    assert_eq!(role.privileges, ["VM.Audit"]);
    assert!(!admin.users().await.unwrap().iter().any(|user| user.userid == "other@pve"));
    // The journal tells it.
    let journal = std::fs::read_to_string(store.place().join("journal.jsonl")).unwrap();
    assert!(
        journal.contains("account other@pve!cli") && journal.contains("role DaedalVM changed"),
        "{journal}"
    );
    // Nor does a plan pass that somebody altered.
    let mut altered = plan.clone();
    altered.token = "root@pam!cli".into();
    let refused = accounts.execute(asked, &altered, async |_| panic!("refused")).await.unwrap_err();
    assert!(matches!(refused, Error::Plan { .. }), "{refused:?}");
}
