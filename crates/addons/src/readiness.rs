//! Whether an object is ready, by the rules of kstatus with the exceptions that facts about add-ons need.
//!
//! Exceptions: a volume claim is not waited for, because it may be bound only when it is used; a pod that failed has failed; an
//! API service must be available, because it breaks discovery for everybody otherwise.

mod workloads;

#[cfg(test)]
mod tests;

use serde_json::Value;

/// How far an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does what it is for.
    Ready,
    /// It is getting there.
    Waiting {
        /// What it lacks.
        reason: String,
    },
    /// It does not get there by itself.
    Failed {
        /// Why.
        reason: String,
    },
    /// It is not there, or is being deleted.
    Gone,
}

impl Readiness {
    pub(crate) fn waiting(reason: impl Into<String>) -> Self {
        Self::Waiting { reason: reason.into() }
    }

    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into() }
    }
}

/// How far an object is, as the API server has it; null if it is not there.
pub fn of(object: &Value) -> Readiness {
    if object.is_null() || !object["metadata"]["deletionTimestamp"].is_null() {
        return Readiness::Gone;
    }
    let status = &object["status"];
    let generation = object["metadata"]["generation"].as_i64();
    if let (Some(generation), Some(observed)) = (generation, status["observedGeneration"].as_i64())
        && generation != observed
    {
        return Readiness::waiting("the last change has not been seen yet");
    }
    if let Some(found) = condition(object, "Reconciling").filter(|c| c.is("True")) {
        return Readiness::waiting(found.said("it is being reconciled"));
    }
    if let Some(found) = condition(object, "Stalled").filter(|c| c.is("True")) {
        return Readiness::failed(found.said("it is stalled"));
    }
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("apps", "Deployment") => workloads::deployment(object),
        ("apps", "StatefulSet") => workloads::stateful_set(object),
        ("apps", "DaemonSet") => workloads::daemon_set(object),
        ("apps", "ReplicaSet") => workloads::replica_set(object),
        ("", "Pod") => workloads::pod(object),
        ("batch", "Job") => workloads::job(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("apiregistration.k8s.io", "APIService") => api_service(object),
        ("", "Secret" | "ConfigMap") | ("batch", "CronJob") | ("policy", "PodDisruptionBudget") => {
            Readiness::Ready
        }
        _ => by_condition(object),
    }
}

/// How far a hook is: what runs must end.
pub fn finished(object: &Value) -> Readiness {
    match (of(object), object["kind"].as_str()) {
        (Readiness::Ready, Some("Job")) => match condition(object, "Complete") {
            Some(found) if found.is("True") => Readiness::Ready,
            _ => Readiness::waiting("it is running"),
        },
        (Readiness::Ready, Some("Pod")) if object["status"]["phase"] != "Succeeded" => {
            Readiness::waiting("it is running")
        }
        (other, _) => other,
    }
}

/// Whether a service of type `LoadBalancer` has an address, in clusters where something gives it one.
pub fn has_address(service: &Value) -> Readiness {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
    match of(service) {
        Readiness::Ready
            if service["spec"]["type"] == "LoadBalancer" && ingress.is_none_or(Vec::is_empty) =>
        {
            Readiness::waiting("it has no address of a load balancer")
        }
        other => other,
    }
}

/// A condition in an object's status.
#[derive(Clone, Copy)]
pub(crate) struct Condition<'a>(&'a Value);

impl<'a> Condition<'a> {
    pub(crate) fn is(self, status: &str) -> bool {
        self.0["status"] == status
    }

    pub(crate) fn reason(self) -> &'a str {
        self.0["reason"].as_str().unwrap_or_default()
    }

    /// What it says for people, else its reason, else this.
    pub(crate) fn said(self, otherwise: &str) -> String {
        let message = self.0["message"].as_str().unwrap_or_default();
        let first = [message, self.reason()].into_iter().find(|text| !text.is_empty());
        first.unwrap_or(otherwise).to_owned()
    }
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<Condition<'a>> {
    let mut all = object["status"]["conditions"].as_array()?.iter();
    all.find(|condition| condition["type"] == kind).map(Condition)
}

fn by_condition(object: &Value) -> Readiness {
    match condition(object, "Ready") {
        Some(found) if !found.is("True") => Readiness::waiting(found.said("it is not ready")),
        _ => Readiness::Ready,
    }
}

fn claim(object: &Value) -> Readiness {
    match object["status"]["phase"].as_str() {
        Some("Lost") => Readiness::failed("its volume is lost"),
        _ => Readiness::Ready,
    }
}

fn service(object: &Value) -> Readiness {
    let address = object["spec"]["clusterIP"].as_str().unwrap_or_default();
    if object["spec"]["type"] == "LoadBalancer" && address.is_empty() {
        return Readiness::waiting("it has no cluster address");
    }
    Readiness::Ready
}

fn definition(object: &Value) -> Readiness {
    if let Some(found) = condition(object, "NamesAccepted").filter(|c| c.is("False")) {
        return Readiness::failed(found.said("its names are taken"));
    }
    match condition(object, "Established") {
        Some(found) if found.is("True") => Readiness::Ready,
        Some(found) if found.is("False") && found.reason() != "Installing" => {
            Readiness::failed(found.said("it is not established"))
        }
        _ => Readiness::waiting("it is not established yet"),
    }
}

fn api_service(object: &Value) -> Readiness {
    match condition(object, "Available") {
        Some(found) if found.is("True") => Readiness::Ready,
        Some(found) => Readiness::waiting(found.said("it is not available")),
        None => Readiness::waiting("it is not available yet"),
    }
}
