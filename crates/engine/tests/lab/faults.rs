//! Every call fails in every way, once; then another run: the same invariants.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use daedal_lab::faults::{CallRecord, Fault, TaskFault, When};

use crate::breadth;
use crate::support::{Bench, Way, assert_done};

/// What may go wrong with a call.
fn kinds() -> Vec<Fault> {
    vec![
        Fault::HangBefore,
        Fault::HangAfter,
        Fault::TimedOutBefore,
        Fault::TimedOutAfter,
        Fault::Status(401),
        Fault::Status(403),
        Fault::Status(404),
        Fault::Status(409),
        Fault::Status(500),
        Fault::Status(501),
        Fault::Status(595),
        Fault::Status(596),
        Fault::LockTimeout,
        Fault::TruncatedBody,
        Fault::MalformedBody,
        Fault::Slow(Duration::from_secs(20)),
        Fault::DropBefore,
        Fault::DropAfter,
    ]
}

/// A call with the names left out: service, method and path.
type Shape = (String, String, String);

/// The calls of a kind, and how many there are of it.
type Calls = BTreeMap<Shape, u64>;

/// The wanted calls of one whole creation.
async fn calls(wanted: impl Fn(&str, &str) -> bool) -> Calls {
    calls_on(Way::USUAL, wanted).await
}

async fn calls_on(way: Way, wanted: impl Fn(&str, &str) -> bool) -> Calls {
    let bench = Bench::booting(way, 1, 1);
    assert_done(&bench.apply().await, "apply");
    of_log(&bench, wanted)
}

fn of_log(bench: &Bench, wanted: impl Fn(&str, &str) -> bool) -> Calls {
    let mut calls = Calls::new();
    for call in bench.lab.faults().log().iter().filter(|call| wanted(&call.service, &call.method)) {
        *calls.entry(shape(call)).or_default() += 1;
    }
    calls
}

/// One fault of one call.
#[derive(Clone, Debug)]
struct Case {
    call: Shape,
    nth: u64,
    fault: Fault,
}

impl Case {
    fn inject(&self, bench: &Bench) {
        let (service, method, path) = &self.call;
        let call = When::call(method, path).nth(self.nth);
        bench.lab.faults().inject(When { service: Some(service.clone()), ..call }, self.fault.clone());
    }

    /// Whether the run came to the call at all: how often one looks may differ from run to run.
    fn came(&self, bench: &Bench) -> bool {
        of_log(bench, |_, _| true).get(&self.call).is_some_and(|times| *times >= self.nth)
    }
}

/// Every kind of call with every fault, and every single call with at least one: the faults go round the calls.
fn around(calls: &Calls) -> Vec<Case> {
    let kinds = kinds();
    let mut cases = Vec::new();
    for (call, times) in calls {
        for (at, fault) in kinds.iter().cycle().take(kinds.len().max(*times as usize)).enumerate() {
            let nth = at as u64 % times + 1;
            cases.push(Case { call: call.clone(), nth, fault: fault.clone() });
        }
    }
    cases
}

/// Every single call with every fault.
fn all(calls: &Calls) -> Vec<Case> {
    let mut cases = Vec::new();
    for (call, times) in calls {
        for nth in 1..=*times {
            cases.extend(kinds().into_iter().map(|fault| Case { call: call.clone(), nth, fault }));
        }
    }
    cases
}

fn shape(call: &CallRecord) -> Shape {
    let mut parts = Vec::new();
    for segment in call.path.split('/').filter(|segment| !segment.is_empty()) {
        let name = segment.contains(':')
            || segment.contains('.') && call.service == "proxmox"
            || segment.chars().all(|c| c.is_ascii_digit())
            || matches!(segment, "atlas" | "boreas")
            || segment.len() > 40;
        parts.push(if name { "*" } else { segment });
    }
    (call.service.clone(), call.method.clone(), format!("/{}", parts.join("/")))
}

/// Each call with a few faults, so that all of them have their turn.
fn some(calls: &Calls) -> Vec<Case> {
    let kinds = kinds();
    let mut turn = kinds.iter().cycle();
    let each = calls.iter().flat_map(|(call, times)| (1..=4).map(move |nth| (call, (nth - 1) % times + 1)));
    each.filter_map(|(call, nth)| Some(Case { call: call.clone(), nth, fault: turn.next()?.clone() }))
        .collect()
}

/// Whether it came to the call; a run that is not survived ends in a panic.
async fn survives_creating(case: Case) -> bool {
    survives_creating_on(Way::USUAL, case).await
}

async fn survives_creating_on(way: Way, case: Case) -> bool {
    survives_creating_in(Bench::booting(way, 1, 1), way.boot, case).await
}

async fn survives_creating_in(bench: Bench, what: &str, case: Case) -> bool {
    case.inject(&bench);
    let after = format!("{what}: {case:?}");
    // The run may succeed or fail, but not do harm.
    if let Ok(report) = bench.apply_through(Default::default()).await {
        assert!(report.took < Duration::from_secs(3600), "{after}: {:?}", report.took);
    }
    let came = case.came(&bench);
    bench.lab.faults().clear();
    let report = bench.apply().await;
    assert_done(&report, &after);
    bench.assert_converged(&after).await;
    came
}

async fn survives_destroying(case: Case) -> bool {
    let bench = Bench::created().await;
    let secrets = bench.stored_secrets();
    case.inject(&bench);
    let after = format!("{case:?} while destroying");
    let _ = bench.destroy_through(Default::default()).await;
    let came = case.came(&bench);
    bench.lab.faults().clear();
    assert_done(&bench.destroy().await, &after);
    bench.assert_destroyed(&after);
    assert_eq!(bench.stored_secrets(), secrets, "{after}: the secrets changed");
    came
}

/// The declared machine configs change under running nodes.
async fn survives_changing(case: Case) -> bool {
    let mut bench = Bench::created().await;
    bench.cluster = crate::config::changed(1, 1, crate::config::REBOOT);
    case.inject(&bench);
    let after = format!("{case:?} while changing configs");
    if let Ok(report) = bench.apply_through(Default::default()).await {
        assert!(report.took < Duration::from_secs(3600), "{after}: {:?}", report.took);
    }
    let came = case.came(&bench);
    bench.lab.faults().clear();
    // What a node could not be asked is left for another run.
    assert_done(&bench.apply().await, &after);
    assert_done(&bench.apply().await, &after);
    bench.assert_converged(&after).await;
    came
}

/// Sweeps cases; every failure is told, not only the first.
async fn sweep<F>(cases: Vec<Case>, survives: impl Fn(Case) -> F)
where
    F: Future<Output = bool> + Send + 'static,
{
    let (mut failures, mut missed) = (Vec::new(), Vec::new());
    let cases = breadth::cases(cases);
    let total = cases.len();
    for case in cases {
        match tokio::spawn(survives(case.clone())).await {
            Ok(true) => {}
            Ok(false) => missed.push(case),
            Err(_) => failures.push(case),
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(missed.len() * 20 <= total, "of {total} cases it never came to {missed:#?}");
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_every_read_of_proxmox_is_survived() {
    let calls = calls(|service, method| service == "proxmox" && method == "GET").await;
    assert!(calls.len() >= 6, "{calls:#?}");
    let firsts: Calls = calls.into_keys().map(|call| (call, 1)).collect();
    sweep(around(&firsts), survives_creating).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_every_change_in_proxmox_is_survived() {
    let calls = calls(|service, method| service == "proxmox" && method != "GET").await;
    assert!(calls.len() >= 6, "{calls:#?}");
    let firsts: Calls = calls.into_keys().map(|call| (call, 1)).collect();
    sweep(around(&firsts), survives_creating).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_every_call_to_nodes_is_survived() {
    let calls = calls(|service, _| service == "talos").await;
    assert!(calls.len() >= 4, "{calls:#?}");
    sweep(around(&calls), survives_creating).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_every_call_to_kubernetes_and_the_factory_is_survived() {
    let calls = calls(|service, _| !matches!(service, "proxmox" | "talos")).await;
    assert!(calls.len() >= 4, "{calls:#?}");
    sweep(around(&calls), survives_creating).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_while_destroying_is_survived() {
    let bench = Bench::created().await;
    assert_done(&bench.destroy().await, "destroy");
    let calls = of_log(&bench, |_, _| true);
    assert!(calls.len() >= 8, "{calls:#?}");
    sweep(around(&calls), survives_destroying).await;
}

/// The same on another boot path: every kind of call, with the faults in turn.
pub async fn faults_on(way: Way) {
    let changes = |service: &str, method: &str| service == "talos" || service == "proxmox" && method != "GET";
    let calls = calls_on(way, changes).await;
    assert!(calls.len() >= 8, "{calls:#?}");
    sweep(some(&calls), move |case| survives_creating_on(way, case)).await;
}

/// The same on any bench.
pub async fn faults_of(make: impl Fn() -> Bench + Copy + Send + 'static, what: &'static str) {
    let bench = make();
    assert_done(&bench.apply().await, what);
    let changes = |service: &str, method: &str| service == "talos" || service == "proxmox" && method != "GET";
    let calls = of_log(&bench, changes);
    assert!(calls.len() >= 8, "{calls:#?}");
    sweep(some(&calls), move |case| survives_creating_in(make(), what, case)).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_while_changing_configs_is_survived() {
    let mut bench = Bench::created().await;
    bench.cluster = crate::config::changed(1, 1, crate::config::REBOOT);
    assert_done(&bench.apply().await, "change");
    let mut calls = of_log(&bench, |service, _| service == "talos");
    // Reading the config, asking what it would mean, and giving it; the other calls are those of every run.
    calls.retain(|(_, _, path), _| path.ends_with("/Get") || path.ends_with("/ApplyConfiguration"));
    assert_eq!(calls.len(), 2, "{calls:#?}");
    // While it reboots it is asked again and again, which is always the same.
    calls.values_mut().for_each(|times| *times = (*times).min(40));
    sweep(around(&calls), survives_changing).await;
}

/// Not only in turn: the whole product. Run it with `-- --ignored`.
#[tokio::test(start_paused = true)]
#[ignore = "takes many minutes"]
async fn every_fault_of_every_single_call_is_survived() {
    let bench = Bench::created().await;
    assert_done(&bench.destroy().await, "destroy");
    sweep(all(&of_log(&bench, |_, _| true)), survives_destroying).await;
    sweep(all(&calls(|_, _| true).await), survives_creating).await;
}

/// Mission: H11
#[tokio::test(start_paused = true)]
async fn every_fault_of_every_task_is_survived() {
    for (call, times) in calls(|service, method| service == "proxmox" && method != "GET").await {
        for (at, fault) in [
            TaskFault::NoWorker,
            TaskFault::Fails("got a surprise".to_owned()),
            TaskFault::Warnings(2),
            TaskFault::Dies,
            TaskFault::Slower(20),
            TaskFault::ShortDownload,
        ]
        .into_iter()
        .enumerate()
        {
            // A create that dies leaves what no token can clear; that story is told elsewhere.
            let create = call.1 == "POST" && call.2.ends_with("/qemu");
            if create && matches!(fault, TaskFault::NoWorker | TaskFault::Dies) {
                continue;
            }
            let nth = at as u64 % times + 1;
            survives_creating(Case { call: call.clone(), nth, fault: Fault::Task(fault) }).await;
        }
    }
}
