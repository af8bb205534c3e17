//! How late the watcher is and how many calls it makes, against a pretend datacenter in virtual time.

use crate::support;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use daedal_proxmox::{CallCounter, Client, Kind, TaskOutcome, TaskWatcher, Upid, WatchOptions};
use support::{Act, Server, Wire, answer, data};
use tokio::time::Instant;

/// A task of the pretend datacenter.
#[derive(Clone)]
struct Task {
    begins: Instant,
    ends: Instant,
    exit: String,
}

/// Knows its tasks and lists them as Proxmox does.
#[derive(Clone)]
struct World {
    epoch: Instant,
    tasks: Arc<Mutex<BTreeMap<Upid, Task>>>,
    /// Whether the token has Sys.Audit on `/`: without it the cluster's list is empty for tokens.
    sees_cluster_list: bool,
    /// Lists forget tasks that start with this kind.
    unlisted_kind: Option<&'static str>,
    /// Nodes' lists fail in this time.
    outage: Option<(Duration, Duration)>,
}

impl World {
    fn new() -> Self {
        Self {
            epoch: Instant::now(),
            tasks: Arc::default(),
            sees_cluster_list: true,
            unlisted_kind: None,
            outage: None,
        }
    }

    fn serve(&self, latency: Duration) -> (Server, Client, Arc<CallCounter>) {
        let world = self.clone();
        let mut server = Server::new(move |wire| world.handle(wire));
        server.latency = latency;
        let counter = Arc::new(CallCounter::new());
        let client = server.builder().observer(counter.clone()).build().unwrap();
        (server, client, counter)
    }

    fn start(&self, node: &str, kind: &str, id: usize, lasts: Duration, exit: &str) -> Upid {
        let begins = Instant::now();
        let clock = 0x6AF9_0000 + begins.duration_since(self.epoch).as_secs();
        let mut tasks = self.tasks.lock().unwrap();
        let serial = tasks.len();
        let text = format!("UPID:{node}:{serial:08X}:00000001:{clock:08X}:{kind}:{id}:robot@pve!cli:");
        let upid: Upid = text.parse().unwrap();
        tasks.insert(upid.clone(), Task { begins, ends: begins + lasts, exit: exit.to_owned() });
        upid
    }

    fn ended(&self, upid: &Upid) -> Instant {
        self.tasks.lock().unwrap()[upid].ends
    }

    fn handle(&self, wire: &Wire) -> Act {
        let now = Instant::now();
        if let Some((from, to)) = self.outage
            && (self.epoch + from..self.epoch + to).contains(&now)
        {
            return answer(596, "Connection timed out", "");
        }
        let tasks = self.tasks.lock().unwrap();
        if wire.path() == "/cluster/tasks" {
            let rows = if self.sees_cluster_list {
                self.rows(&tasks, now, |_, task| task.ends + Duration::from_secs(10) > now)
            } else {
                "[]".into()
            };
            return data(&rows);
        }
        let mut parts = wire.path().split('/').skip(2);
        let (node, tail) = (parts.next().unwrap(), parts.nth(1));
        if let Some(upid) = tail {
            let Some(task) = tasks.get(&upid.parse::<Upid>().unwrap()) else {
                let body = r#"{"data":null,"errors":{"upid":"no such task"}}"#;
                return answer(400, "Parameter verification failed.", body);
            };
            return data(&if task.ends > now {
                r#"{"status":"running"}"#.to_owned()
            } else {
                format!(r#"{{"status":"stopped","exitstatus":"{}"}}"#, task.exit)
            });
        }
        let since: u32 =
            wire.query().split('&').find_map(|pair| pair.strip_prefix("since=")?.parse().ok()).unwrap();
        assert!(wire.query().contains("source=all") && wire.query().contains("userfilter=robot%40pve"));
        data(&self.rows(&tasks, now, |upid, _| upid.node() == node && upid.start_time() >= since))
    }

    fn rows(
        &self,
        tasks: &BTreeMap<Upid, Task>,
        now: Instant,
        shows: impl Fn(&Upid, &Task) -> bool,
    ) -> String {
        let mut out = String::from("[");
        for (upid, task) in tasks.iter().filter(|(upid, task)| shows(upid, task) && task.begins <= now) {
            if self.unlisted_kind.is_some_and(|kind| upid.kind() == kind) {
                continue;
            }
            let comma = if out.len() == 1 { "" } else { "," };
            let _ = if task.ends > now {
                write!(out, r#"{comma}{{"upid":"{upid}","status":"RUNNING","user":"robot@pve!cli"}}"#)
            } else {
                let end = 0x6AF9_0000 + task.ends.duration_since(self.epoch).as_secs();
                write!(
                    out,
                    r#"{comma}{{"upid":"{upid}","status":"{}","endtime":{end},"user":"robot@pve","tokenid":"cli"}}"#,
                    task.exit
                )
            };
        }
        out + "]"
    }
}

/// What bringing up many VMs cost.
struct Measured {
    calls_per_vm: f64,
    late_p95: Duration,
}

/// Brings up `vms` VMs on `hosts` hosts, three at a time on each: upload while creating, then grow, then start (whose
/// end is not urgent). Durations vary by `spread` around their mean, from a seed.
async fn bring_up(hosts: usize, vms: usize, latency: Duration, spread: f64, audit: bool) -> Measured {
    let world = World { sees_cluster_list: audit, ..World::new() };
    let (_server, client, counter) = world.serve(latency / 2);
    let watcher = TaskWatcher::new(&client);
    let late = Arc::new(Mutex::new(Vec::new()));
    let mut all = Vec::new();
    for host in 0..hosts {
        let limit = Arc::new(tokio::sync::Semaphore::new(3));
        for vm in (host..vms).step_by(hosts) {
            let (world, watcher, late, limit) = (world.clone(), watcher.clone(), late.clone(), limit.clone());
            all.push(tokio::spawn(async move {
                let node = format!("host{host}");
                let lasts = |mean: f64, salt: usize| {
                    let chance = (vm * 7919 + salt * 104_729 + 17) % 1000;
                    Duration::from_secs_f64(mean * (1.0 + spread * (chance as f64 / 500.0 - 1.0)))
                };
                let run = async |kind: &str, mean: f64, salt: usize| {
                    // The task starts when the request arrives, and its name is known when the answer does.
                    tokio::time::sleep(latency / 2).await;
                    let upid = world.start(&node, kind, 300 + vm, lasts(mean, salt), "OK");
                    tokio::time::sleep(latency / 2).await;
                    assert!(watcher.wait(&upid).await.unwrap().is_success());
                    late.lock().unwrap().push(Instant::now().duration_since(world.ended(&upid)));
                };
                {
                    let _turn = limit.acquire().await;
                    futures_join(run("imgcopy", 0.4, 1), run("qmcreate", 5.0, 2)).await;
                }
                run("resize", 0.7, 3).await;
                let upid = world.start(&node, "qmstart", 300 + vm, lasts(1.5, 4), "OK");
                assert!(watcher.wait_relaxed(&upid).await.unwrap().is_success());
            }));
        }
    }
    for task in all {
        task.await.unwrap();
    }
    let mut late = late.lock().unwrap().clone();
    late.sort();
    let counts = counter.counts();
    assert_eq!(counts.mutating, 0);
    Measured { calls_per_vm: counts.total as f64 / vms as f64, late_p95: late[late.len() * 95 / 100] }
}

async fn futures_join(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    tokio::join!(a, b);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_vms_cost_few_calls_and_little_time() {
    println!("hosts  latency  spread  audit  calls per VM  lateness p95");
    for (hosts, latency, spread, audit, most_calls) in [
        (10, 1, 0.3, true, 1.0),
        (10, 100, 0.3, true, 1.3),
        (4, 20, 0.3, true, 2.2),
        (1, 20, 0.0, true, 2.2),
        // One host takes nearly three minutes for a hundred; looking all the time would be six calls each.
        (1, 20, 0.1, true, 4.0),
        (4, 20, 0.0, false, 3.0),
    ] {
        let measured = bring_up(hosts, 100, Duration::from_millis(latency), spread, audit).await;
        println!(
            "{hosts:5} {latency:5} ms {spread:7.1}  {audit:5} {:13.2} {:>13.0?}",
            measured.calls_per_vm, measured.late_p95
        );
        assert!(measured.calls_per_vm <= most_calls, "{hosts} hosts: {} calls", measured.calls_per_vm);
        assert!(measured.late_p95 <= Duration::from_millis(300), "{hosts} hosts: {:?}", measured.late_p95);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_task_is_told_with_its_kind() {
    let world = World::new();
    let (_server, client, _) = world.serve(Duration::ZERO);
    let watcher = TaskWatcher::new(&client);
    let upid = world.start("atlas", "qmstart", 300, Duration::from_secs(1), "VM 300 already running");
    let error = watcher.finish(&upid, "start VM 300").await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Running { .. }));
    assert_eq!(error.to_string(), "could not start VM 300");
    let upid = world.start("atlas", "qmcreate", 300, Duration::from_secs(1), "WARNINGS: 2");
    assert!(matches!(watcher.wait(&upid).await.unwrap(), TaskOutcome::Warnings(2)));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_see_the_clusters_list_uses_the_nodes() {
    let world = World { sees_cluster_list: false, ..World::new() };
    let (server, client, _) = world.serve(Duration::ZERO);
    let watcher = TaskWatcher::new(&client);
    let one = world.start("atlas", "qmstart", 300, Duration::from_secs(3), "OK");
    let two = world.start("kronos", "qmstart", 301, Duration::from_secs(4), "OK");
    let (first, second) = tokio::join!(watcher.wait(&one), watcher.wait(&two));
    assert!(first.unwrap().is_success() && second.unwrap().is_success());
    let asked = server.requests().iter().filter(|request| *request == "GET /cluster/tasks").count();
    assert!(asked <= 2, "{asked} vain calls");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_no_list_shows_is_asked_for_by_name() {
    let world = World { unlisted_kind: Some("qmstart"), ..World::new() };
    let (server, client, _) = world.serve(Duration::ZERO);
    let watcher = TaskWatcher::new(&client);
    let upid = world.start("atlas", "qmstart", 300, Duration::from_secs(2), "OK");
    assert!(watcher.wait(&upid).await.unwrap().is_success());
    assert!(server.requests().iter().any(|request| request.ends_with("/status")));
    // One that nobody knows at all is an error, not an endless wait.
    let ghost: Upid = "UPID:atlas:00000001:00000001:6AF9FA0A:qmstart:1:robot@pve!cli:".parse().unwrap();
    assert!(watcher.join(&ghost).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_sat_out_within_patience() {
    let outage = Some((Duration::from_secs(1), Duration::from_secs(50)));
    let world = World { outage, ..World::new() };
    let (_server, client, _) = world.serve(Duration::ZERO);
    let watcher = TaskWatcher::new(&client);
    let upid = world.start("atlas", "qmcreate", 300, Duration::from_secs(5), "OK");
    assert!(watcher.wait(&upid).await.unwrap().is_success());

    let impatient = WatchOptions { patience: Duration::from_secs(20), ..WatchOptions::default() };
    let world = World { outage: Some((Duration::ZERO, Duration::from_secs(1000))), ..World::new() };
    let (_server, client, _) = world.serve(Duration::ZERO);
    let watcher = TaskWatcher::with_options(&client, impatient);
    let upid = world.start("atlas", "qmcreate", 300, Duration::from_secs(5), "OK");
    let began = Instant::now();
    let error = watcher.wait(&upid).await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Unreachable { .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn nobody_waiting_means_no_calls() {
    let world = World::new();
    let (server, client, _) = world.serve(Duration::ZERO);
    let watcher = TaskWatcher::new(&client);
    let upid = world.start("atlas", "qmcreate", 300, Duration::from_secs(1000), "OK");
    let gave_up = tokio::time::timeout(Duration::from_secs(10), watcher.wait(&upid)).await;
    assert!(gave_up.is_err());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = server.seen().len();
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(server.seen().len(), before);
}

#[tokio::test(start_paused = true)]
async fn two_waits_for_one_task_both_end() {
    let world = World::new();
    let (_server, client, _) = world.serve(Duration::ZERO);
    let watcher = TaskWatcher::new(&client);
    let upid = world.start("atlas", "qmcreate", 300, Duration::from_secs(2), "OK");
    let (one, two) = tokio::join!(watcher.wait(&upid), watcher.wait_relaxed(&upid));
    assert!(one.unwrap().is_success() && two.unwrap().is_success());
}

#[tokio::test(start_paused = true)]
async fn an_old_task_is_recognised_by_its_nodes_clock() {
    let world = World::new();
    let (_server, client, _) = world.serve(Duration::ZERO);
    let watcher = TaskWatcher::new(&client);
    for _ in 0..5 {
        let upid = world.start("atlas", "qmcreate", 300, Duration::from_secs(20), "OK");
        assert!(watcher.wait(&upid).await.unwrap().is_success());
    }
    // Twelve seconds old when the wait begins: looked for at once, not only after the twenty that such tasks take.
    let old = world.start("atlas", "qmcreate", 301, Duration::from_secs(20), "OK");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let young = world.start("atlas", "qmstart", 302, Duration::from_secs(1), "OK");
    watcher.wait(&young).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(watcher.wait(&old).await.unwrap().is_success());
    let late = Instant::now().duration_since(world.ended(&old));
    assert!(late <= Duration::from_millis(500), "{late:?} late");
}
