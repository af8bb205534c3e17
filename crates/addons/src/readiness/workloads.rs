//! When pods, and what makes pods, are ready.

use serde_json::Value;

use super::{Readiness, condition};

fn number(value: &Value, otherwise: i64) -> i64 {
    value.as_i64().unwrap_or(otherwise)
}

/// What is counted, and how many of it there must be.
fn reached(what: &str, have: i64, want: i64) -> Result<(), Readiness> {
    if have >= want { Ok(()) } else { Err(Readiness::waiting(format!("{have} of {want} {what}"))) }
}

fn none_too_many(have: i64, want: i64) -> Result<(), Readiness> {
    match have - want {
        ..=0 => Ok(()),
        1 => Err(Readiness::waiting("1 old pod is still there")),
        more => Err(Readiness::waiting(format!("{more} old pods are still there"))),
    }
}

fn judged(result: Result<(), Readiness>) -> Readiness {
    result.err().unwrap_or(Readiness::Ready)
}

pub(super) fn deployment(object: &Value) -> Readiness {
    let status = &object["status"];
    let count = |key: &str| number(&status[key], 0);
    let progressing = condition(object, "Progressing");
    if let Some(found) = progressing.filter(|c| c.reason() == "ProgressDeadlineExceeded") {
        return Readiness::failed(found.said("it makes no progress"));
    }
    judged((|| {
        let want = number(&object["spec"]["replicas"], 1);
        reached("created", count("replicas"), want)?;
        reached("updated", count("updatedReplicas"), want)?;
        none_too_many(count("replicas"), want)?;
        reached("ready", count("readyReplicas"), want)?;
        reached("available", count("availableReplicas"), count("updatedReplicas"))?;
        let has_deadline = !object["spec"]["progressDeadlineSeconds"].is_null();
        if has_deadline && progressing.is_none_or(|c| c.reason() != "NewReplicaSetAvailable" || !c.is("True"))
        {
            return Err(Readiness::waiting("its new pods are not available yet"));
        }
        match condition(object, "Available") {
            Some(found) if found.is("True") => Ok(()),
            Some(found) => Err(Readiness::waiting(found.said("it is not available"))),
            None => Err(Readiness::waiting("it is not available yet")),
        }
    })())
}

pub(super) fn stateful_set(object: &Value) -> Readiness {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |key: &str| number(&status[key], 0);
    let strategy = &spec["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return Readiness::Ready;
    }
    judged((|| {
        let want = number(&spec["replicas"], 1);
        reached("created", count("replicas"), want)?;
        reached("ready", count("readyReplicas"), want)?;
        none_too_many(count("replicas"), want)?;
        let partition = number(&strategy["rollingUpdate"]["partition"], 0);
        if partition > 0 {
            return reached("updated", count("updatedReplicas"), want - partition);
        }
        reached("of the current revision", count("currentReplicas"), want)?;
        if status["currentRevision"] != status["updateRevision"] {
            return Err(Readiness::waiting(format!("{} of {want} updated", count("updatedReplicas"))));
        }
        Ok(())
    })())
}

pub(super) fn daemon_set(object: &Value) -> Readiness {
    let status = &object["status"];
    if object["metadata"]["generation"].is_null() || status["observedGeneration"].is_null() {
        return Readiness::waiting("its controller has not seen it yet");
    }
    let Some(want) = status["desiredNumberScheduled"].as_i64() else {
        return Readiness::waiting("it is not known on how many nodes it is to run");
    };
    let counts = [
        ("scheduled", "currentNumberScheduled"),
        ("updated", "updatedNumberScheduled"),
        ("ready", "numberReady"),
        ("available", "numberAvailable"),
    ];
    judged(counts.iter().try_for_each(|(what, key)| reached(what, number(&status[*key], 0), want)))
}

pub(super) fn replica_set(object: &Value) -> Readiness {
    let want = number(&object["spec"]["replicas"], 1);
    if let Some(found) = condition(object, "ReplicaFailure").filter(|c| c.is("True")) {
        return Readiness::waiting(found.said("its pods cannot be created"));
    }
    let count = |key: &str| number(&object["status"][key], 0);
    judged((|| {
        reached("labelled", count("fullyLabeledReplicas"), want)?;
        reached("ready", count("readyReplicas"), want)?;
        reached("available", count("availableReplicas"), want)?;
        none_too_many(count("replicas"), want)
    })())
}

pub(super) fn pod(object: &Value) -> Readiness {
    let status = &object["status"];
    match status["phase"].as_str() {
        Some("Succeeded") => Readiness::Ready,
        Some("Failed") => {
            let said = [&status["message"], &status["reason"]].into_iter().find_map(Value::as_str);
            Readiness::failed(said.unwrap_or("it ended with an error"))
        }
        Some("Running") => match (condition(object, "Ready"), crashing(status)) {
            (Some(found), _) if found.is("True") => Readiness::Ready,
            (_, Some(reason)) => Readiness::failed(reason),
            (Some(found), _) => Readiness::waiting(found.said("it is not ready")),
            (None, _) => Readiness::waiting("it is not ready"),
        },
        _ => match (crashing(status), condition(object, "PodScheduled").filter(|c| c.is("False"))) {
            (Some(reason), _) => Readiness::failed(reason),
            (None, Some(found)) => Readiness::waiting(found.said("it is not scheduled")),
            (None, None) => Readiness::waiting("it has not started yet"),
        },
    }
}

/// What a container says that is started again and again.
fn crashing(status: &Value) -> Option<String> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let mut containers = lists.iter().filter_map(|key| status[*key].as_array()).flatten();
    containers.find(|c| c["state"]["waiting"]["reason"] == "CrashLoopBackOff").map(|container| {
        let name = container["name"].as_str().unwrap_or_default();
        let said = container["state"]["waiting"]["message"].as_str();
        match said {
            Some(said) if !said.is_empty() => format!("container {name}: {said}"),
            _ => format!("container {name} keeps ending (CrashLoopBackOff)"),
        }
    })
}

pub(super) fn job(object: &Value) -> Readiness {
    if let Some(found) = condition(object, "Failed").filter(|c| c.is("True")) {
        return Readiness::failed(found.said("it failed"));
    }
    if condition(object, "Complete").is_some_and(|c| c.is("True")) {
        return Readiness::Ready;
    }
    if condition(object, "Suspended").is_some_and(|c| c.is("True")) {
        return Readiness::Ready;
    }
    match object["status"]["startTime"].is_null() {
        true => Readiness::waiting("it has not started yet"),
        false => Readiness::Ready,
    }
}
