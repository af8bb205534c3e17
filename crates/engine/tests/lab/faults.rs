//! Every call fails in every way, once; then another run: the same invariants.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use daedal_lab::faults::{CallRecord, Fault, TaskFault, When};

use crate::support::{Bench, assert_done};

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

/// The shapes of the wanted calls of one whole creation.
async fn shapes(wanted: impl Fn(&str, &str) -> bool) -> Vec<Shape> {
    let bench = Bench::new(1, 1);
    assert_done(&bench.apply().await, "apply");
    of_log(&bench, wanted)
}

fn of_log(bench: &Bench, wanted: impl Fn(&str, &str) -> bool) -> Vec<Shape> {
    let log = bench.lab.faults().log();
    let calls = log.iter().filter(|call| wanted(&call.service, &call.method));
    let shapes: BTreeSet<Shape> = calls.map(shape).collect();
    shapes.into_iter().collect()
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

async fn survives_creating((service, method, path): Shape, fault: Fault) {
    let bench = Bench::new(1, 1);
    let when = When { service: Some(service.clone()), nth: Some(1), ..When::call(&method, &path) };
    bench.lab.faults().inject(when, fault.clone());
    let after = format!("{fault:?} on {service} {method} {path}");
    // The run may succeed or fail, but not do harm.
    if let Ok(report) = bench.apply_through(Default::default()).await {
        assert!(report.took < Duration::from_secs(3600), "{after}: {:?}", report.took);
    }
    assert!(
        of_log(&bench, |_, _| true).contains(&(service, method, path)),
        "{after}: it never came to that call"
    );
    bench.lab.faults().clear();
    let report = bench.apply().await;
    assert_done(&report, &after);
    bench.assert_converged(&after).await;
}

async fn survives_destroying((service, method, path): Shape, fault: Fault) {
    let bench = Bench::created().await;
    let when = When { service: Some(service.clone()), nth: Some(1), ..When::call(&method, &path) };
    bench.lab.faults().inject(when, fault.clone());
    let after = format!("{fault:?} on {service} {method} {path} while destroying");
    let _ = bench.destroy_through(Default::default()).await;
    assert!(
        of_log(&bench, |_, _| true).contains(&(service, method, path)),
        "{after}: it never came to that call"
    );
    bench.lab.faults().clear();
    assert_done(&bench.destroy().await, &after);
    bench.assert_destroyed(&after);
}

/// Sweeps calls; every failure is told, not only the first.
async fn sweep<F>(shapes: Vec<Shape>, survives: impl Fn(Shape, Fault) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut failures = Vec::new();
    for shape in &shapes {
        for fault in kinds() {
            let what = format!("{fault:?} on {shape:?}");
            if tokio::spawn(survives(shape.clone(), fault)).await.is_err() {
                failures.push(what);
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_every_read_of_proxmox_is_survived() {
    let shapes = shapes(|service, method| service == "proxmox" && method == "GET").await;
    assert!(shapes.len() >= 6, "{shapes:#?}");
    sweep(shapes, survives_creating).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_every_change_in_proxmox_is_survived() {
    let shapes = shapes(|service, method| service == "proxmox" && method != "GET").await;
    assert!(shapes.len() >= 7, "{shapes:#?}");
    sweep(shapes, survives_creating).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_every_call_to_nodes_and_factory_is_survived() {
    let shapes = shapes(|service, _| service != "proxmox").await;
    assert!(shapes.len() >= 6, "{shapes:#?}");
    sweep(shapes, survives_creating).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_while_destroying_is_survived() {
    let bench = Bench::created().await;
    assert_done(&bench.destroy().await, "destroy");
    let shapes = of_log(&bench, |service, _| service == "proxmox");
    assert!(shapes.len() >= 8, "{shapes:#?}");
    sweep(shapes, survives_destroying).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_every_task_is_survived() {
    let all = shapes(|service, method| service == "proxmox" && method != "GET").await;
    for (service, method, path) in all {
        for fault in [
            TaskFault::NoWorker,
            TaskFault::Fails("got a surprise".to_owned()),
            TaskFault::Warnings(2),
            TaskFault::Dies,
            TaskFault::Slower(20),
            TaskFault::ShortDownload,
        ] {
            // A create that dies leaves what no token can clear; that story is told elsewhere.
            let create = method == "POST" && path.ends_with("/qemu");
            if create && matches!(fault, TaskFault::NoWorker | TaskFault::Dies) {
                continue;
            }
            let shape = (service.clone(), method.clone(), path.clone());
            survives_creating(shape, Fault::Task(fault)).await;
        }
    }
}
