//! The commands that guard VMs and keep accounts: death before and after each of their calls, and each of their calls
//! failing, then the same command again: everything is as if nothing had happened.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use daedal_engine::{Account, Effects, Engine, Error, Run, Scope, Secret};
use daedal_inventory::Cluster;
use daedal_lab::proxmox::{Grant, TokenSpec};
use daedal_planner::{
    BackupWish, FirewallWish, Plan, Purpose, World, plan_backup_job, plan_firewall, plan_ha,
};
use daedal_proxmox::{Call, Client, ClusterObject, Fault, Observer, Seen, Token, Trust, Verdict};
use tokio::sync::Notify;

use crate::strangers::proxmox;
use crate::support::{Bench, CANARY, Killer, Point, TOKEN, assert_done, errors};

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
        let card = &client.vm_config(&host, vmid).await.unwrap().nics["net0"];
        text += &format!("{vmid}: {rules:?} {options:?} {sets:?} {members:?} {card:?}\n");
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
    let told = |error: Error| daedal_engine::chain(&error);
    let world = engine.observe_for(cluster, purpose).await.map_err(told)?;
    let report = engine.execute(cluster, &world, &plan(&world), &Run::silent()).await.map_err(told)?;
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
    account
        .ensure(&admin(&whole, watcher.clone()), &counted, Secret::Unknown, async |_| Ok(()))
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
                _ = account.ensure(&dying, open, Secret::Unknown, keep) => {}
                () = watcher.dead.notified() => {}
            }
            let after = format!("{fate:?} at change {nth} of {changes}");
            let admin = admin(&bench, Watcher::new(0, None));
            // Without its secret a token is of no use: only then, and only when told to, it is made anew.
            let had = *kept.lock().unwrap();
            let first =
                account.ensure(&admin, open, if had { Secret::Known } else { Secret::Unknown }, keep).await;
            match first {
                Ok(_) => {}
                Err(Error::TokenExists { .. }) if !had => {
                    account.ensure(&admin, open, Secret::Rotate, keep).await.unwrap();
                }
                Err(error) => panic!("{after}: {}", daedal_engine::chain(&error)),
            }
            assert!(*kept.lock().unwrap(), "{after}: nobody has the secret");
            assert_eq!(acl(&bench).await, wanted, "{after}");
            let again = account.ensure(&admin, open, Secret::Known, async |_| panic!("again")).await.unwrap();
            assert!(again.iter().all(|one| one.done.is_none()), "{after}: {again:?}");
        }
    }
}
