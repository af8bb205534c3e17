//! Pods: they are given a node, their images are pulled, they run, and those of Jobs end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::common;
use super::schedule;
use super::{Task, Work, event};
use crate::kubernetes::network;
use crate::kubernetes::store::{Key, timestamp};

/// How long an image is pulled and its container started.
const PULL: Duration = Duration::from_secs(2);
/// How long the container of a Job works.
const WORK: Duration = Duration::from_secs(2);

/// What becomes of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Runs,
    /// Its image cannot be pulled.
    Broken,
    /// It ends as soon as it has started.
    Crashes,
}

/// The fate that an image's name says: `…/broken:…` and `…/crashing:…`.
fn fate(container: &Value) -> Fate {
    let image = container["image"].as_str().unwrap_or_default();
    let path = image.split('@').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    match last.split(':').next() {
        Some("broken") => Fate::Broken,
        Some("crashing") => Fate::Crashes,
        _ => Fate::Runs,
    }
}

pub(super) fn reconcile(work: &mut Work<'_>, key: &Key) {
    work.memory.stuck.remove(key);
    let Some(pod) = work.store.get(key) else { return };
    if common::is_dying(&pod) || common::has_ended(&pod) || is_mirror(&pod) {
        return;
    }
    if !pod["spec"]["nodeName"].is_string() {
        place(work, key, &pod);
        return;
    }
    match pod["status"]["phase"].as_str() {
        Some("Running") => ran(work, key, &pod),
        _ if has_failed(&pod) => {}
        _ => begin(work, key, &pod),
    }
}

/// Whether the images that it still has cannot be pulled, or end at once.
fn has_failed(pod: &Value) -> bool {
    let status = |field: &str| pod["status"][field].as_array().into_iter().flatten();
    status("initContainerStatuses").chain(status("containerStatuses")).any(|one| {
        let reason = one["state"]["waiting"]["reason"].as_str();
        let same = all_containers(pod).any(|c| c["name"] == one["name"] && c["image"] == one["image"]);
        matches!(reason, Some("ImagePullBackOff" | "CrashLoopBackOff")) && same
    })
}

/// Whether a Job owns it.
fn works(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["kind"] == "Job")
}

/// Whether a pod is one of the kubelet's own files.
fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string()
}

fn containers<'a>(pod: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][field].as_array().into_iter().flatten()
}

fn all_containers(pod: &Value) -> impl Iterator<Item = &Value> {
    containers(pod, "initContainers").chain(containers(pod, "containers"))
}

/// Gives a pod the node that has least to do among those that take it.
fn place(work: &mut Work<'_>, key: &Key, pod: &Value) {
    let (nodes, _) = work.store.list("nodes", None);
    let (pods, _) = work.store.list("pods", None);
    let alive = || pods.iter().filter(|other| !common::is_dying(other) && !common::has_ended(other));
    let mut objections: Vec<(String, usize)> = Vec::new();
    let mut best: Option<(usize, String)> = None;
    for node in &nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let there: Vec<_> = alive().filter(|other| other["spec"]["nodeName"] == name).collect();
        let objection = schedule::objection(node, &pod["spec"]).or_else(|| {
            let quarrel = there.iter().any(|other| schedule::quarrels(pod, other));
            quarrel.then(|| "node(s) didn't match pod anti-affinity rules".to_owned())
        });
        match objection {
            None if best.as_ref().is_none_or(|(least, _)| there.len() < *least) => {
                best = Some((there.len(), name.to_owned()));
            }
            None => {}
            Some(why) => match objections.iter_mut().find(|(known, _)| *known == why) {
                Some((_, count)) => *count += 1,
                None => objections.push((why, 1)),
            },
        }
    }
    let unbound = unbound_claim(work, key, pod);
    if let Some((_, node)) = best.filter(|_| unbound.is_none()) {
        common::change(work, key, pod, |pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["status"]["phase"] = json!("Pending");
            pod["status"]["conditions"] =
                json!([common::stated(pod, "PodScheduled", "True", ("", ""), work.now)]);
        });
        return;
    }
    let reasons: Vec<String> = objections.iter().map(|(why, count)| format!("{count} {why}")).collect();
    let message = unbound.unwrap_or_else(|| match nodes.len() {
        0 => "no nodes available to schedule pods".to_owned(),
        all => format!("0/{all} nodes are available: {}.", reasons.join(", ")),
    });
    work.memory.stuck.insert(key.clone());
    if common::condition(pod, "PodScheduled").is_some_and(|c| c["message"] == message) {
        return;
    }
    common::change(work, key, pod, |pod| {
        let stated = common::stated(pod, "PodScheduled", "False", ("Unschedulable", &message), work.now);
        pod["status"]["phase"] = json!("Pending");
        pod["status"]["conditions"] = json!([stated]);
    });
    event::warn(work, ("v1", "Pod", pod), "FailedScheduling", &message, "default-scheduler");
}

/// Why a pod cannot have its volumes; a claim whose storage class is there is bound.
fn unbound_claim(work: &Work<'_>, key: &Key, pod: &Value) -> Option<String> {
    for volume in containers(pod, "volumes") {
        let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() else { continue };
        let claim_key = Key::new("persistentvolumeclaims", &key.namespace, name);
        let Some(claim) = work.store.get(&claim_key) else {
            return Some(format!("persistentvolumeclaim \"{name}\" not found"));
        };
        if claim["status"]["phase"] == "Bound" {
            continue;
        }
        let Some(class) = class_of(work, &claim) else {
            return Some("pod has unbound immediate PersistentVolumeClaims.".to_owned());
        };
        let uid = claim["metadata"]["uid"].as_str().unwrap_or_default();
        let volume = format!("pvc-{uid}");
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"accessModes": claim["spec"]["accessModes"], "capacity": claim["spec"]["resources"]["requests"],
                     "claimRef": {"namespace": key.namespace, "name": name, "uid": uid}, "storageClassName": class},
            "status": {"phase": "Bound"},
        });
        work.store.put(&Key::new("persistentvolumes", "", &volume), object, work.now);
        common::change(work, &claim_key, &claim, |claim| {
            claim["spec"]["volumeName"] = json!(volume);
            claim["spec"]["storageClassName"] = json!(class);
            claim["status"] = json!({"phase": "Bound", "accessModes": claim["spec"]["accessModes"],
                                     "capacity": claim["spec"]["resources"]["requests"]});
        });
    }
    None
}

/// The storage class of a claim, if there is such a class.
fn class_of(work: &Work<'_>, claim: &Value) -> Option<String> {
    let (classes, _) = work.store.list("storage.k8s.io/storageclasses", None);
    let default = |class: &Value| {
        class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    };
    let named = claim["spec"]["storageClassName"].as_str();
    let found = classes.iter().find(|class| match named {
        Some(name) => class["metadata"]["name"] == name,
        None => default(class),
    })?;
    Some(found["metadata"]["name"].as_str()?.to_owned())
}

/// Whether the node's kubelet reports, and whether its pods have a network.
fn kubelet(work: &Work<'_>, name: &str) -> (bool, bool) {
    let Some(node) = work.store.get(&Key::new("nodes", "", name)) else { return (false, false) };
    match common::condition(&node, "Ready") {
        Some(ready) if ready["status"] == "True" => (true, true),
        Some(ready) => (ready["status"] == "False", false),
        None => (false, false),
    }
}

/// Starts a pod on its node.
fn begin(work: &mut Work<'_>, key: &Key, pod: &Value) {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    let (reports, network) = kubelet(work, &node);
    if !reports || !network && pod["spec"]["hostNetwork"] != true {
        work.memory.stuck.insert(key.clone());
        if reports {
            let message = "network is not ready: container runtime network not ready: NetworkReady=false \
                           reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";
            event::warn(work, ("v1", "Pod", pod), "NetworkNotReady", message, "kubelet");
        }
        return;
    }
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let due = work.memory.due.get(key).filter(|(known, _)| known == uid).map(|(_, at)| *at);
    let Some(due) = due else {
        let at = work.later(Task::Pod(key.clone()), PULL);
        work.memory.due.insert(key.clone(), (uid.to_owned(), at));
        if pod["status"]["containerStatuses"].is_null() {
            show(work, key, pod, &[]);
        }
        return;
    };
    if due > Instant::now() {
        return;
    }
    if let Some((reason, message)) = missing(work, key, pod) {
        work.memory.stuck.insert(key.clone());
        event::warn(work, ("v1", "Pod", pod), reason, &message, "kubelet");
        return;
    }
    work.memory.due.remove(key);
    let fates: Vec<Fate> = all_containers(pod).map(fate).collect();
    all_containers(pod).for_each(|container| complain(work, pod, container));
    show(work, key, pod, &fates);
    if fates.iter().all(|fate| *fate == Fate::Runs) {
        network::started(work.store, pod, &node);
    }
}

fn complain(work: &Work<'_>, pod: &Value, container: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let image = text(&container["image"]);
    match fate(container) {
        Fate::Runs => {}
        Fate::Broken => {
            let message = format!("Failed to pull image \"{image}\": {}", unpulled(&image));
            event::warn(work, ("v1", "Pod", pod), "Failed", &message, "kubelet");
        }
        Fate::Crashes => {
            let message = format!(
                "Back-off restarting failed container {} in pod {}_{}({})",
                text(&container["name"]),
                text(&pod["metadata"]["name"]),
                text(&pod["metadata"]["namespace"]),
                text(&pod["metadata"]["uid"])
            );
            event::warn(work, ("v1", "Pod", pod), "BackOff", &message, "kubelet");
        }
    }
}

fn unpulled(image: &str) -> String {
    format!(
        "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": {image}: not found"
    )
}

/// What a pod needs and is not there.
fn missing(work: &Work<'_>, key: &Key, pod: &Value) -> Option<(&'static str, String)> {
    let there =
        |resource: &str, name: &str| work.store.get(&Key::new(resource, &key.namespace, name)).is_some();
    for volume in containers(pod, "volumes") {
        let secret = (&volume["secret"], "secretName", "secrets", "secret");
        let map = (&volume["configMap"], "name", "configmaps", "configmap");
        for (source, field, resource, word) in [secret, map] {
            let Some(name) = source[field].as_str().filter(|_| source["optional"] != true) else { continue };
            if !there(resource, name) {
                let volume = volume["name"].as_str().unwrap_or_default();
                let message =
                    format!("MountVolume.SetUp failed for volume \"{volume}\" : {word} \"{name}\" not found");
                return Some(("FailedMount", message));
            }
        }
    }
    for container in all_containers(pod) {
        let env = container["env"].as_array().into_iter().flatten().map(|env| &env["valueFrom"]);
        let from = container["envFrom"].as_array().into_iter().flatten();
        for source in env.chain(from) {
            let kinds = [
                ("secretKeyRef", "secrets", "secret"),
                ("secretRef", "secrets", "secret"),
                ("configMapKeyRef", "configmaps", "configmap"),
                ("configMapRef", "configmaps", "configmap"),
            ];
            for (field, resource, word) in kinds {
                let Some(name) = source[field]["name"].as_str().filter(|_| source[field]["optional"] != true)
                else {
                    continue;
                };
                if !there(resource, name) {
                    return Some(("Failed", format!("Error: {word} \"{name}\" not found")));
                }
            }
        }
    }
    None
}

/// Writes how the containers are; without fates they are being made.
fn show(work: &mut Work<'_>, key: &Key, pod: &Value, fates: &[Fate]) {
    let at = timestamp(work.now);
    let inits = containers(pod, "initContainers").count();
    let made = !fates.is_empty();
    let initialized = made && fates[..inits].iter().all(|fate| *fate == Fate::Runs);
    let ready = made && fates.iter().all(|fate| *fate == Fate::Runs);
    let once = pod["spec"]["restartPolicy"] == "Never" || works(pod);
    let ended = once && fates.contains(&Fate::Crashes) && !fates.contains(&Fate::Broken);
    let state = |container: &Value, index: usize, init: bool| {
        let image = container["image"].as_str().unwrap_or_default();
        let waiting =
            |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        let terminated = |code: u8| {
            let reason = if code == 0 { "Completed" } else { "Error" };
            json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": at, "finishedAt": at}})
        };
        let fate = fates.get(index);
        let runs = matches!(fate, Some(Fate::Runs)) && (init || initialized);
        let mut one = json!({
            "name": container["name"], "image": image, "imageID": if runs { image } else { "" }, "ready": runs,
            "started": runs && !init, "restartCount": 0,
            "state": {"waiting": {"reason": if initialized || init { "ContainerCreating" } else { "PodInitializing" }}},
        });
        match fate {
            Some(Fate::Runs) if init => one["state"] = terminated(0),
            Some(Fate::Runs) if runs => one["state"] = json!({"running": {"startedAt": at}}),
            Some(Fate::Broken) if init || initialized => {
                let why = format!("Back-off pulling image \"{image}\": ErrImagePull: {}", unpulled(image));
                one["state"] = waiting("ImagePullBackOff", &why);
            }
            Some(Fate::Crashes) if init || initialized => {
                one["lastState"] = terminated(1);
                one["restartCount"] = json!(if once { 0 } else { 3 });
                one["state"] = if once {
                    terminated(1)
                } else {
                    waiting("CrashLoopBackOff", "back-off 40s restarting failed container")
                };
            }
            _ => {}
        }
        one
    };
    let init: Vec<Value> =
        containers(pod, "initContainers").enumerate().map(|(at, c)| state(c, at, true)).collect();
    let main: Vec<Value> =
        containers(pod, "containers").enumerate().map(|(at, c)| state(c, inits + at, false)).collect();
    let phase = if ended {
        "Failed"
    } else if initialized && !fates.contains(&Fate::Broken) {
        "Running"
    } else {
        "Pending"
    };
    let mut status = json!({
        "phase": phase, "startTime": pod["status"]["startTime"].as_str().unwrap_or(&at), "containerStatuses": main,
        "conditions": conditions(pod, initialized, ready, work.now),
    });
    if inits > 0 {
        status["initContainerStatuses"] = json!(init);
    }
    address(work, pod, &mut status, made);
    common::set_status(work, key, pod, &status);
}

fn conditions(pod: &Value, initialized: bool, ready: bool, now: i64) -> Value {
    let stated = |kind: &str, holds: bool| {
        let why = if holds { ("", "") } else { ("ContainersNotReady", "containers with unready status") };
        common::stated(pod, kind, if holds { "True" } else { "False" }, why, now)
    };
    json!([
        stated("PodReadyToStartContainers", true),
        stated("Initialized", initialized),
        stated("Ready", ready),
        stated("ContainersReady", ready),
        stated("PodScheduled", true),
    ])
}

fn address(work: &Work<'_>, pod: &Value, status: &mut Value, made: bool) {
    let node = Key::new("nodes", "", pod["spec"]["nodeName"].as_str().unwrap_or_default());
    let node = work.store.get(&node);
    let host = node.as_ref().and_then(|node| {
        let addresses = node["status"]["addresses"].as_array()?;
        addresses.iter().find(|a| a["type"] == "InternalIP")?["address"].as_str().map(str::to_owned)
    });
    let Some(host) = host else { return };
    status["hostIP"] = json!(host);
    status["hostIPs"] = json!([{"ip": host}]);
    let ip = if pod["spec"]["hostNetwork"] == true {
        host
    } else if made {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let byte = |at: usize| u8::from_str_radix(uid.get(at..at + 2).unwrap_or("1"), 16).unwrap_or(1);
        format!("10.244.{}.{}", byte(0), byte(2).clamp(2, 254))
    } else {
        return;
    };
    status["podIP"] = json!(ip);
    status["podIPs"] = json!([{"ip": ip}]);
}

/// Pods of a node that has gone silent are not Ready, until it is back.
pub(super) fn of_node(work: &Work<'_>, key: &Key) {
    let Some(node) = work.store.get(key) else { return };
    let silent = match common::condition(&node, "Ready").and_then(|c| c["status"].as_str()) {
        Some("Unknown") => true,
        Some("True") => false,
        _ => return,
    };
    let why = ("NodeNotReady", "Node is not ready");
    for pod in work.store.list("pods", None).0 {
        let Some(ready) = common::condition(&pod, "Ready") else { continue };
        let affected = if silent { ready["status"] == "True" } else { ready["reason"] == why.0 };
        if pod["spec"]["nodeName"] != *key.name || !affected {
            continue;
        }
        let stated = match silent {
            true => common::stated(&pod, "Ready", "False", why, work.now),
            false => common::stated(&pod, "Ready", "True", ("", ""), work.now),
        };
        common::change(work, &common::key("pods", &pod), &pod, |pod| {
            for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
                if condition["type"] == "Ready" {
                    *condition = stated.clone();
                }
            }
        });
    }
}

/// Ends the pod of a Job when it has worked for long enough.
fn ran(work: &mut Work<'_>, key: &Key, pod: &Value) {
    if !works(pod) || !common::is_ready(pod) {
        return;
    }
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    match work.memory.due.get(key).filter(|(known, _)| known == uid).map(|(_, at)| *at) {
        None => {
            let at = work.later(Task::Pod(key.clone()), WORK);
            work.memory.due.insert(key.clone(), (uid.to_owned(), at));
        }
        Some(at) if at > Instant::now() => {}
        Some(_) => {
            work.memory.due.remove(key);
            let at = timestamp(work.now);
            let mut status = pod["status"].clone();
            status["phase"] = json!("Succeeded");
            status["conditions"] = conditions(pod, true, false, work.now);
            for container in status["containerStatuses"].as_array_mut().into_iter().flatten() {
                container["ready"] = json!(false);
                container["started"] = json!(false);
                container["state"] = json!({"terminated": {
                    "exitCode": 0, "reason": "Completed", "startedAt": pod["status"]["startTime"], "finishedAt": at}});
            }
            common::set_status(work, key, pod, &status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_images_name_says_what_becomes_of_it() {
        let of = |image: &str| fate(&json!({"image": image}));
        assert!(of("registry.lan/team/broken:1.0") == Fate::Broken);
        assert!(of("broken@sha256:00") == Fate::Broken);
        assert!(of("registry.lan:5000/crashing") == Fate::Crashes);
        assert!(of("quay.io/cilium/cilium:v1.16.5") == Fate::Runs);
        assert!(of("registry.lan/broken/fine:1") == Fate::Runs);
    }
}
