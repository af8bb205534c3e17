//! Jobs: pods until enough of them have ended well.

use std::time::Duration;

use serde_json::{Value, json};

use super::common::{self, Maker};
use super::{Task, Work};
use crate::kubernetes::deletion;
use crate::kubernetes::store::{Key, timestamp};

pub(super) fn reconcile(work: &mut Work<'_>, key: &Key) {
    let Some(job) = work.store.get(key).filter(|object| !common::is_dying(object)) else { return };
    if common::holds(&job, "Complete") || common::holds(&job, "Failed") {
        expire(work, key, &job);
        return;
    }
    let number = |field: &str, fallback: u64| job["spec"][field].as_u64().unwrap_or(fallback);
    let parallel = number("parallelism", 1);
    let wanted = number("completions", parallel);
    let pods = common::pods_of(work.store, &job);
    let in_phase =
        |phase: &str| pods.iter().filter(|(_, pod)| pod["status"]["phase"] == phase).count() as u64;
    let (succeeded, failed) = (in_phase("Succeeded"), in_phase("Failed"));
    let mut active = pods.len() as u64 - succeeded - failed;
    let ready = pods.iter().filter(|(_, pod)| common::is_ready(pod)).count();

    let started = common::moment(&job["status"]["startTime"]).unwrap_or(work.now);
    let patience = job["spec"]["activeDeadlineSeconds"].as_i64();
    let late = patience.is_some_and(|patience| work.now - started >= patience);
    let end = if succeeded >= wanted {
        Some(("Complete", "CompletionsReached", "Reached expected number of succeeded pods"))
    } else if failed > number("backoffLimit", 6) {
        Some(("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"))
    } else if late {
        Some(("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"))
    } else {
        None
    };
    let suspended = job["spec"]["suspend"] == true;
    if end.is_some() || suspended {
        for (pod, object) in &pods {
            if !common::has_ended(object) {
                deletion::remove(work.store, pod, false, work.now);
            }
        }
        active = 0;
    } else {
        active += create(work, key, &job, parallel.min(wanted - succeeded).saturating_sub(active));
        if let Some(patience) = patience {
            let left = (started + patience - work.now).max(1);
            work.later(Task::Job(key.clone()), Duration::from_secs(left as u64));
        }
    }
    let mut status = json!({
        "active": active, "ready": if end.is_some() { 0 } else { ready }, "succeeded": succeeded, "failed": failed,
        "uncountedTerminatedPods": {}, "terminating": 0,
    });
    common::without_zeros(&mut status, &["active", "succeeded", "failed"]);
    if !suspended {
        status["startTime"] = json!(timestamp(started));
    }
    conclude(work, &job, &mut status, end, suspended);
    common::set_status(work, key, &job, &status);
}

fn conclude(
    work: &Work<'_>,
    job: &Value,
    status: &mut Value,
    end: Option<(&str, &str, &str)>,
    suspended: bool,
) {
    let at = json!(timestamp(work.now));
    let state = |kind: &str, reason: &str, message: &str| {
        let mut one = common::stated(job, kind, "True", (reason, message), work.now);
        one["lastProbeTime"] = one["lastTransitionTime"].clone();
        one
    };
    let mut conditions = Vec::new();
    if let Some((kind, reason, message)) = end {
        let before = if kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
        conditions.push(state(before, reason, message));
        conditions.push(state(kind, reason, message));
        if kind == "Complete" {
            status["completionTime"] = at;
        }
    } else if suspended {
        conditions.push(state("Suspended", "JobSuspended", "Job suspended"));
    }
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
}

fn create(work: &mut Work<'_>, key: &Key, job: &Value, count: u64) -> u64 {
    let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
    let labels = vec![
        ("batch.kubernetes.io/controller-uid", uid.to_owned()),
        ("batch.kubernetes.io/job-name", key.name.clone()),
        ("controller-uid", uid.to_owned()),
        ("job-name", key.name.clone()),
    ];
    let maker = Maker { api_version: "batch/v1", kind: "Job", owner: job, labels };
    for made in 0..count {
        let name = common::fresh_name(work.store, &format!("{}-", key.name));
        let pod = maker.pod(&name);
        if maker.create(work, pod, Task::Job(key.clone())).is_err() {
            return made;
        }
    }
    count
}

/// Deletes a job that has ended when its time is over.
fn expire(work: &mut Work<'_>, key: &Key, job: &Value) {
    let Some(kept) = job["spec"]["ttlSecondsAfterFinished"].as_i64() else { return };
    let ended = ["Complete", "Failed"].iter().find_map(|kind| common::condition(job, kind));
    let ended = ended.and_then(|c| common::moment(&c["lastTransitionTime"])).unwrap_or(work.now);
    let left = ended + kept - work.now;
    if left > 0 {
        work.later(Task::Job(key.clone()), Duration::from_secs(left as u64));
    } else {
        deletion::remove(work.store, key, false, work.now);
    }
}
