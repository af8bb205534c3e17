//! The order in which the objects of a release are applied.

use crate::kinds;
use crate::object::{Object, ObjectId, Stage};

/// Kinds in the order of their turn within a stage, as Flux has it; all others come between these and the webhooks.
const KINDS: &[&str] = &[
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "ConfigMap",
    "Secret",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
    "DaemonSet",
    "Deployment",
    "StatefulSet",
    "Job",
    "CronJob",
    "PodDisruptionBudget",
];

/// When the turn of an object comes.
pub(crate) fn stage(id: &ObjectId) -> Stage {
    let own = kinds::is_own_group(id.group());
    match id.kind.as_str() {
        "CustomResourceDefinition" | "Namespace" | "ClusterRole" if own => Stage::Definitions,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" if own => Stage::Customs,
        kind if kind.ends_with("Class") => Stage::Classes,
        _ if own => Stage::Objects,
        _ => Stage::Customs,
    }
}

fn rank(id: &ObjectId) -> usize {
    if id.kind.ends_with("WebhookConfiguration") || id.kind == "APIService" {
        return KINDS.len() + 1;
    }
    if !kinds::is_own_group(id.group()) {
        return KINDS.len();
    }
    KINDS.iter().position(|kind| *kind == id.kind).unwrap_or(KINDS.len())
}

/// Puts objects into the order in which they are applied. It depends on nothing but what they are called.
pub(crate) fn sort(objects: &mut [Object]) {
    fn key(object: &Object) -> (Stage, usize, &str, Option<&str>, &str) {
        let id = &object.id;
        (object.stage, rank(id), &id.kind, id.namespace.as_deref(), &id.name)
    }
    objects.sort_by(|a, b| key(a).cmp(&key(b)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn object(api_version: &str, kind: &str, name: &str) -> Object {
        let id = ObjectId {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: None,
            name: name.into(),
        };
        Object { stage: stage(&id), id, body: Value::Null, digest: String::new() }
    }

    #[test]
    fn what_others_need_comes_first_and_webhooks_last() {
        let mut objects = vec![
            object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "a"),
            object("cert-manager.io/v1", "ClusterIssuer", "ca"),
            object("apps/v1", "Deployment", "b"),
            object("apps/v1", "Deployment", "a"),
            object("apiregistration.k8s.io/v1", "APIService", "v1beta1.metrics.k8s.io"),
            object("v1", "Service", "z"),
            object("v1", "Secret", "z"),
            object("v1", "ConfigMap", "z"),
            object("v1", "ServiceAccount", "z"),
            object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "z"),
            object("gateway.networking.k8s.io/v1", "GatewayClass", "cilium"),
            object("storage.k8s.io/v1", "StorageClass", "fast"),
            object("rbac.authorization.k8s.io/v1", "ClusterRole", "z"),
            object("v1", "Namespace", "z"),
            object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "z"),
        ];
        sort(&mut objects);
        let order: Vec<String> = objects.iter().map(|o| format!("{:?} {}", o.stage, o.id)).collect();
        assert_eq!(
            order,
            [
                "Definitions CustomResourceDefinition z",
                "Definitions Namespace z",
                "Definitions ClusterRole z",
                "Classes GatewayClass cilium",
                "Classes StorageClass fast",
                "Objects ClusterRoleBinding z",
                "Objects ServiceAccount z",
                "Objects ConfigMap z",
                "Objects Secret z",
                "Objects Service z",
                "Objects Deployment a",
                "Objects Deployment b",
                "Objects APIService v1beta1.metrics.k8s.io",
                "Customs ClusterIssuer ca",
                "Customs ValidatingWebhookConfiguration a",
            ]
        );
    }

    #[test]
    fn a_custom_kind_of_a_known_name_is_custom() {
        assert_eq!(object("serving.knative.dev/v1", "Service", "a").stage, Stage::Customs);
        assert_eq!(object("example.org/v1", "Namespace", "a").stage, Stage::Customs);
    }
}
