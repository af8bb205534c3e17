//! What a cluster's controller manager, scheduler and kubelets do with its objects. One task per cluster, which wakes when an
//! object changes or a time has come, and looks only at what that is about.

mod common;
mod daemon_set;
mod definition;
mod deployment;
mod event;
mod job;
mod namespace;
mod pod;
mod replica_set;
mod schedule;
mod serving;
mod stateful_set;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::store::{Change, Key, Store, Verb};
use crate::Pace;

/// What is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Namespace(Key),
    Definition(Key),
    Deployment(Key),
    StatefulSet(Key),
    DaemonSet(Key),
    Job(Key),
    ReplicaSet(Key),
    Pod(Key),
    Node(Key),
    ApiService(Key),
    Webhook(Key),
}

/// The definitions of custom kinds.
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// What is about Services that must have Ready pods.
const SERVED: [&str; 3] = [
    "apiregistration.k8s.io/apiservices",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
];

/// The task for an object, if there is something to do about its kind.
fn task(key: &Key) -> Option<Task> {
    let make = match key.resource.as_str() {
        "apps/deployments" => Task::Deployment,
        "apps/statefulsets" => Task::StatefulSet,
        "apps/daemonsets" => Task::DaemonSet,
        "apps/replicasets" => Task::ReplicaSet,
        "batch/jobs" => Task::Job,
        "pods" => Task::Pod,
        "namespaces" => Task::Namespace,
        DEFINITIONS => Task::Definition,
        "apiregistration.k8s.io/apiservices" => Task::ApiService,
        other if SERVED.contains(&other) => Task::Webhook,
        _ => return None,
    };
    Some(make(key.clone()))
}

/// The task for the controller that owns an object.
fn owner(object: &Value, namespace: &str) -> Option<Task> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let resource = match owner["kind"].as_str()? {
        "Deployment" => "apps/deployments",
        "StatefulSet" => "apps/statefulsets",
        "DaemonSet" => "apps/daemonsets",
        "ReplicaSet" => "apps/replicasets",
        "Job" => "batch/jobs",
        _ => return None,
    };
    task(&Key::new(resource, namespace, owner["name"].as_str()?))
}

/// What is kept between two looks.
#[derive(Default)]
struct Memory {
    queue: BTreeSet<Task>,
    timers: BinaryHeap<Reverse<(Instant, Task)>>,
    /// Pods that wait for a node, a Secret or the like.
    stuck: BTreeSet<Key>,
    /// Workloads whose pods were refused.
    refused: BTreeSet<Task>,
    /// Namespaces that are being deleted.
    ending: BTreeSet<String>,
    /// When a pod has been long enough in the state that it is in.
    due: BTreeMap<Key, (String, Instant)>,
}

/// One look at the cluster.
struct Work<'a> {
    store: &'a Store,
    pace: Pace,
    now: i64,
    memory: &'a mut Memory,
}

impl Work<'_> {
    /// Looks at something again after a simulated duration.
    fn later(&mut self, task: Task, after: Duration) -> Instant {
        let at = Instant::now() + after.div_f64(self.pace.speed());
        self.memory.timers.push(Reverse((at, task)));
        at
    }

    fn perform(&mut self, task: &Task) {
        match task {
            Task::Deployment(key) => deployment::reconcile(self, key),
            Task::StatefulSet(key) => stateful_set::reconcile(self, key),
            Task::DaemonSet(key) => daemon_set::reconcile(self, key),
            Task::Job(key) => job::reconcile(self, key),
            Task::ReplicaSet(key) => replica_set::reconcile(self, key),
            Task::Pod(key) => pod::reconcile(self, key),
            Task::Node(key) => pod::of_node(self, key),
            Task::Namespace(key) => namespace::reconcile(self, key),
            Task::Definition(key) => definition::reconcile(self, key),
            Task::ApiService(key) => serving::api_service(self, key),
            Task::Webhook(key) => serving::webhook(self, key),
        }
    }

    /// What a change is about.
    fn note(&mut self, change: &Change) {
        let Change { key, object, .. } = change;
        let gone = change.verb == Verb::Deleted;
        self.memory.queue.extend(task(key).filter(|_| !gone));
        if gone {
            self.went(key);
        }
        if matches!(key.resource.as_str(), "pods" | "services") && serves(change) {
            for resource in SERVED {
                let all = self.store.list(resource, None).0;
                self.memory
                    .queue
                    .extend(all.iter().filter_map(|object| task(&common::key(resource, object))));
            }
        }
        match key.resource.as_str() {
            "pods" | "apps/replicasets" => {
                self.memory.queue.extend(owner(object, &key.namespace));
                if gone {
                    self.memory.stuck.remove(key);
                    self.memory.due.remove(key);
                }
            }
            "nodes" if matters(change) => {
                let ready = |node: &Value| common::condition(node, "Ready").map(|c| c["status"].clone());
                if change.previous.as_deref().map(ready) != Some(ready(object)) {
                    self.memory.queue.insert(Task::Node(key.clone()));
                }
                self.node_changed(&key.name, gone);
            }
            "namespaces" | "serviceaccounts" | "scheduling.k8s.io/priorityclasses" => {
                let refused = std::mem::take(&mut self.memory.refused);
                self.memory.queue.extend(refused);
            }
            "secrets" | "configmaps" | "persistentvolumeclaims" => {
                let here = self.memory.stuck.iter().filter(|pod| pod.namespace == key.namespace);
                self.memory.queue.extend(here.cloned().map(Task::Pod));
            }
            "storage.k8s.io/storageclasses" => {
                self.memory.queue.extend(self.memory.stuck.iter().cloned().map(Task::Pod));
            }
            _ => {}
        }
    }

    fn node_changed(&mut self, name: &str, gone: bool) {
        let (sets, _) = self.store.list("apps/daemonsets", None);
        self.memory.queue.extend(sets.iter().map(|set| Task::DaemonSet(common::key("apps/daemonsets", set))));
        self.memory.queue.extend(self.memory.stuck.iter().cloned().map(Task::Pod));
        if gone {
            self.store.disconnect(name);
        }
    }

    /// Something is no more: what waited for that can end.
    fn went(&mut self, key: &Key) {
        if self.memory.ending.contains(&key.namespace) {
            self.memory.queue.insert(Task::Namespace(Key::new("namespaces", "", &key.namespace)));
        }
        if let Some((group, plural)) = key.resource.split_once('/') {
            let definition = Key::new(DEFINITIONS, "", &format!("{plural}.{group}"));
            self.memory.queue.extend(self.store.get(&definition).map(|_| Task::Definition(definition)));
        }
    }

    /// Looks at everything.
    fn resync(&mut self) {
        let keys = self.store.keys(|key, _| task(key).is_some());
        self.memory.queue.extend(keys.iter().filter_map(task));
        for pod in self.store.list("pods", None).0.iter().filter(|pod| common::is_ready(pod)) {
            super::network::started(self.store, pod, pod["spec"]["nodeName"].as_str().unwrap_or_default());
        }
    }
}

/// Whether a node's change is of interest to those who look for one.
fn matters(change: &Change) -> bool {
    let face = |node: &Value| {
        let ready = common::condition(node, "Ready").map(|c| c["status"].clone());
        (node["spec"].clone(), node["metadata"]["labels"].clone(), ready)
    };
    change.verb != Verb::Modified || change.previous.as_deref().map(face) != Some(face(&change.object))
}

/// Whether a Service has others behind it by a change.
fn serves(change: &Change) -> bool {
    let face = |object: &Value| {
        (common::is_ready(object), object["metadata"]["labels"].clone(), object["spec"]["selector"].clone())
    };
    change.verb != Verb::Modified || change.previous.as_deref().map(face) != Some(face(&change.object))
}

/// Runs the controllers of a cluster until it is no more.
pub(crate) fn start(store: &Arc<Store>, pace: Pace, runtime: &tokio::runtime::Handle) {
    let (weak, changed) = (Arc::downgrade(store), store.watch());
    runtime.spawn(run(weak, changed, pace));
}

async fn run(store: Weak<Store>, mut changed: tokio::sync::watch::Receiver<u64>, pace: Pace) {
    let mut memory = Memory::default();
    let mut seen = None;
    loop {
        let Some(store) = store.upgrade() else { return };
        changed.mark_unchanged();
        let quiet = step(&store, pace, &mut memory, &mut seen);
        drop(store);
        if !quiet {
            tokio::task::yield_now().await;
            continue;
        }
        let next = memory.timers.peek().map(|Reverse((at, _))| *at);
        let timer = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            news = changed.changed() => if news.is_err() { return },
            () = timer => {}
        }
    }
}

/// Takes notice of what changed and does what there is to do. True when nothing was.
fn step(store: &Store, pace: Pace, memory: &mut Memory, seen: &mut Option<u64>) -> bool {
    let mut work = Work { store, pace, now: pace.now(), memory };
    match seen.map(|revision| store.changes(revision, |_| true)) {
        Some(Ok((changes, newest))) => {
            *seen = Some(newest);
            changes.iter().for_each(|change| work.note(change));
        }
        None | Some(Err(_)) => {
            *seen = Some(store.revision());
            work.resync();
        }
    }
    let now = Instant::now();
    while work.memory.timers.peek().is_some_and(|Reverse((at, _))| *at <= now) {
        let due = work.memory.timers.pop();
        work.memory.queue.extend(due.map(|Reverse((_, task))| task));
    }
    let quiet = work.memory.queue.is_empty();
    while let Some(task) = work.memory.queue.pop_first() {
        work.perform(&task);
    }
    quiet
}
