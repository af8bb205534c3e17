//! One test per rule.

use super::*;
use serde_json::json;

fn state(api_version: &str, kind: &str, rest: &Value) -> String {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "generation": 2}});
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    shown(&of(&object))
}

fn shown(readiness: &Readiness) -> String {
    match readiness {
        Readiness::Ready => "ready".into(),
        Readiness::Waiting { reason } => format!("waiting: {reason}"),
        Readiness::Failed { reason } => format!("failed: {reason}"),
        Readiness::Gone => "gone".into(),
    }
}

fn conditions(all: &[(&str, &str, &str)]) -> Value {
    let made =
        all.iter().map(|(kind, status, reason)| json!({"type": kind, "status": status, "reason": reason}));
    Value::Array(made.collect())
}

#[test]
fn what_is_not_there_or_goes_is_gone() {
    assert_eq!(of(&Value::Null), Readiness::Gone);
    let deleted = json!({"kind": "ConfigMap", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(of(&deleted), Readiness::Gone);
}

#[test]
fn a_change_must_have_been_seen() {
    let status =
        json!({"status": {"observedGeneration": 1, "conditions": conditions(&[("Ready", "True", "")])}});
    assert_eq!(state("example.org/v1", "Thing", &status), "waiting: the last change has not been seen yet");
}

#[test]
fn reconciling_waits_stalled_fails_and_ready_decides() {
    let thing = |all: &[(&str, &str, &str)]| {
        state("example.org/v1", "Thing", &json!({"status": {"conditions": conditions(all)}}))
    };
    assert_eq!(thing(&[("Reconciling", "True", "Busy"), ("Ready", "True", "")]), "waiting: Busy");
    assert_eq!(thing(&[("Stalled", "True", "BadSpec")]), "failed: BadSpec");
    assert_eq!(thing(&[("Ready", "False", "NoCertificate")]), "waiting: NoCertificate");
    assert_eq!(thing(&[("Ready", "Unknown", "")]), "waiting: it is not ready");
    assert_eq!(thing(&[("Ready", "True", "")]), "ready");
    assert_eq!(state("example.org/v1", "Thing", &json!({})), "ready");
}

fn deployment(replicas: [i64; 4], deadline: bool, all: &[(&str, &str, &str)]) -> String {
    let [total, updated, ready, available] = replicas;
    let mut spec = json!({"replicas": 2});
    if deadline {
        spec["progressDeadlineSeconds"] = json!(600);
    }
    let status = json!({"observedGeneration": 2, "replicas": total, "updatedReplicas": updated,
        "readyReplicas": ready, "availableReplicas": available, "conditions": conditions(all)});
    state("apps/v1", "Deployment", &json!({"spec": spec, "status": status}))
}

#[test]
fn a_deployment_needs_all_its_new_pods_and_no_old_ones() {
    let good = [
        ("Progressing", "True", "NewReplicaSetAvailable"),
        ("Available", "True", "MinimumReplicasAvailable"),
    ];
    assert_eq!(deployment([2, 2, 2, 2], true, &good), "ready");
    assert_eq!(deployment([1, 1, 1, 1], true, &good), "waiting: 1 of 2 created");
    assert_eq!(deployment([3, 1, 3, 3], true, &good), "waiting: 1 of 2 updated");
    assert_eq!(deployment([3, 2, 3, 3], true, &good), "waiting: 1 old pod is still there");
    assert_eq!(deployment([2, 2, 1, 1], true, &good), "waiting: 1 of 2 ready");
    assert_eq!(deployment([2, 2, 2, 1], true, &good), "waiting: 1 of 2 available");
}

#[test]
fn a_deployment_says_how_it_progresses() {
    let available = ("Available", "True", "");
    let late = [("Progressing", "False", "ProgressDeadlineExceeded"), available];
    assert_eq!(deployment([2, 2, 2, 2], true, &late), "failed: ProgressDeadlineExceeded");
    let updating = [("Progressing", "True", "ReplicaSetUpdated"), available];
    assert_eq!(deployment([2, 2, 2, 2], true, &updating), "waiting: its new pods are not available yet");
    assert_eq!(deployment([2, 2, 2, 2], false, &[available]), "ready");
    let less = [("Available", "False", "MinimumReplicasUnavailable")];
    assert_eq!(deployment([2, 2, 2, 2], false, &less), "waiting: MinimumReplicasUnavailable");
}

#[test]
fn a_stateful_set_is_of_one_revision() {
    let set = |spec: Value, status: Value| {
        state("apps/v1", "StatefulSet", &json!({"spec": spec, "status": status}))
    };
    let full = |revision: &str, updated: i64| {
        json!({"replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": updated,
            "currentRevision": "a", "updateRevision": revision})
    };
    assert_eq!(set(json!({"replicas": 3}), full("a", 3)), "ready");
    assert_eq!(set(json!({"replicas": 3}), full("b", 1)), "waiting: 1 of 3 updated");
    assert_eq!(set(json!({"replicas": 4}), full("a", 3)), "waiting: 3 of 4 created");
    let by_hand = json!({"replicas": 4, "updateStrategy": {"type": "OnDelete"}});
    assert_eq!(set(by_hand, full("b", 0)), "ready");
    let partly = |partition: i64| json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}});
    assert_eq!(set(partly(2), full("b", 1)), "ready");
    assert_eq!(set(partly(1), full("b", 1)), "waiting: 1 of 2 updated");
}

#[test]
fn a_daemon_set_runs_on_every_node_it_should() {
    let set = |status: Value| state("apps/v1", "DaemonSet", &json!({"status": status}));
    let full = json!({"observedGeneration": 2, "desiredNumberScheduled": 5, "currentNumberScheduled": 5,
        "updatedNumberScheduled": 5, "numberReady": 5, "numberAvailable": 5});
    assert_eq!(set(full.clone()), "ready");
    for (key, shown) in [
        ("currentNumberScheduled", "waiting: 3 of 5 scheduled"),
        ("updatedNumberScheduled", "waiting: 3 of 5 updated"),
        ("numberReady", "waiting: 3 of 5 ready"),
        ("numberAvailable", "waiting: 3 of 5 available"),
    ] {
        let mut status = full.clone();
        status[key] = json!(3);
        assert_eq!(set(status), shown);
    }
    assert_eq!(set(json!({})), "waiting: its controller has not seen it yet");
    assert_eq!(
        set(json!({"observedGeneration": 2})),
        "waiting: it is not known on how many nodes it is to run"
    );
}

#[test]
fn a_replica_set_needs_its_pods() {
    let set = |ready: i64| {
        let status = json!({"fullyLabeledReplicas": 2, "readyReplicas": ready, "availableReplicas": ready, "replicas": 2});
        state("apps/v1", "ReplicaSet", &json!({"spec": {"replicas": 2}, "status": status}))
    };
    assert_eq!((set(2).as_str(), set(1).as_str()), ("ready", "waiting: 1 of 2 ready"));
    let refused =
        json!({"status": {"conditions": conditions(&[("ReplicaFailure", "True", "FailedCreate")])}});
    assert_eq!(state("apps/v1", "ReplicaSet", &refused), "waiting: FailedCreate");
}

#[test]
fn a_pod_runs_or_has_ended_well() {
    let pod = |status: Value| state("v1", "Pod", &json!({"status": status}));
    assert_eq!(pod(json!({"phase": "Succeeded"})), "ready");
    assert_eq!(pod(json!({"phase": "Failed", "message": "evicted"})), "failed: evicted");
    let ready = conditions(&[("Ready", "True", "")]);
    assert_eq!(pod(json!({"phase": "Running", "conditions": ready})), "ready");
    assert_eq!(pod(json!({"phase": "Running"})), "waiting: it is not ready");
    let crashing = json!([{"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    assert_eq!(
        pod(json!({"phase": "Running", "containerStatuses": crashing})),
        "failed: container app keeps ending (CrashLoopBackOff)"
    );
    let unscheduled = conditions(&[("PodScheduled", "False", "Unschedulable")]);
    assert_eq!(pod(json!({"phase": "Pending", "conditions": unscheduled})), "waiting: Unschedulable");
}

#[test]
fn a_job_is_ready_once_it_runs_and_finished_once_it_is_complete() {
    let job = |status: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "status": status});
    let running = job(json!({"startTime": "2026-01-01T00:00:00Z"}));
    assert_eq!(of(&running), Readiness::Ready);
    assert_eq!(shown(&finished(&running)), "waiting: it is running");
    assert_eq!(shown(&of(&job(json!({})))), "waiting: it has not started yet");
    let complete = job(json!({"startTime": "x", "conditions": conditions(&[("Complete", "True", "")])}));
    assert_eq!(finished(&complete), Readiness::Ready);
    let failed = job(
        json!({"startTime": "x", "conditions": conditions(&[("Failed", "True", "BackoffLimitExceeded")])}),
    );
    assert_eq!(shown(&finished(&failed)), "failed: BackoffLimitExceeded");
    let pod = |phase: &str| {
        let ready = conditions(&[("Ready", "True", "")]);
        json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase, "conditions": ready}})
    };
    assert_eq!(shown(&finished(&pod("Running"))), "waiting: it is running");
    assert_eq!(finished(&pod("Succeeded")), Readiness::Ready);
    assert_eq!(finished(&json!({"apiVersion": "v1", "kind": "ConfigMap"})), Readiness::Ready);
}

#[test]
fn a_claim_is_not_waited_for() {
    let claim = |phase: &str| state("v1", "PersistentVolumeClaim", &json!({"status": {"phase": phase}}));
    assert_eq!((claim("Pending").as_str(), claim("Bound").as_str()), ("ready", "ready"));
    assert_eq!(claim("Lost"), "failed: its volume is lost");
}

#[test]
fn a_service_needs_an_address_only_where_somebody_gives_it() {
    let service = |spec: Value, status: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": spec, "status": status});
    let balanced = json!({"type": "LoadBalancer", "clusterIP": "10.96.0.5"});
    let waiting = service(balanced.clone(), json!({"loadBalancer": {}}));
    assert_eq!(of(&waiting), Readiness::Ready);
    assert_eq!(shown(&has_address(&waiting)), "waiting: it has no address of a load balancer");
    let given = service(balanced, json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}));
    assert_eq!(has_address(&given), Readiness::Ready);
    let unborn = service(json!({"type": "LoadBalancer"}), json!({}));
    assert_eq!(shown(&of(&unborn)), "waiting: it has no cluster address");
    assert_eq!(has_address(&service(json!({"type": "ClusterIP"}), json!({}))), Readiness::Ready);
}

#[test]
fn a_definition_must_be_established() {
    let definition = |all: &[(&str, &str, &str)]| {
        let status = json!({"status": {"conditions": conditions(all)}});
        state("apiextensions.k8s.io/v1", "CustomResourceDefinition", &status)
    };
    assert_eq!(definition(&[("NamesAccepted", "True", ""), ("Established", "True", "")]), "ready");
    assert_eq!(definition(&[("NamesAccepted", "False", "NameConflict")]), "failed: NameConflict");
    assert_eq!(definition(&[("Established", "False", "Installing")]), "waiting: it is not established yet");
    assert_eq!(definition(&[("Established", "False", "NotAccepted")]), "failed: NotAccepted");
    assert_eq!(definition(&[]), "waiting: it is not established yet");
}

#[test]
fn an_api_service_must_be_available() {
    let service = |all: &[(&str, &str, &str)]| {
        state("apiregistration.k8s.io/v1", "APIService", &json!({"status": {"conditions": conditions(all)}}))
    };
    assert_eq!(service(&[("Available", "True", "Passed")]), "ready");
    assert_eq!(service(&[("Available", "False", "MissingEndpoints")]), "waiting: MissingEndpoints");
    assert_eq!(service(&[]), "waiting: it is not available yet");
}

#[test]
fn some_kinds_are_always_ready_and_a_name_alone_makes_no_kind() {
    for (version, kind) in
        [("v1", "Secret"), ("v1", "ConfigMap"), ("batch/v1", "CronJob"), ("policy/v1", "PodDisruptionBudget")]
    {
        let odd = json!({"status": {"conditions": conditions(&[("Ready", "False", "")])}});
        assert_eq!(state(version, kind, &odd), "ready", "{kind}");
    }
    assert_eq!(state("example.org/v1", "DaemonSet", &json!({})), "ready");
}
