//! Whose an object is, by the marks of those who keep objects, and by who wrote it.

use serde_json::Value;

use crate::MANAGER;
use crate::marks::{HELM_NAMESPACE, HELM_RELEASE, MANAGED_BY, digest_of};

/// Who keeps an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// We do.
    Daedal,
    /// A release of Helm.
    Helm {
        /// Its name.
        release: String,
        /// The namespace that Helm keeps it in.
        namespace: String,
    },
    /// An object of Flux.
    Flux {
        /// `HelmRelease` or `Kustomization`.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// An application of Argo CD.
    ArgoCd {
        /// Its name.
        application: String,
    },
    /// Whoever wrote most of it.
    Other {
        /// The name it writes under.
        manager: String,
    },
    /// Nobody that is known: the cluster itself made it, or there is no object.
    Nobody,
}

const FLUX: [(&str, &str); 2] =
    [("HelmRelease", "helm.toolkit.fluxcd.io"), ("Kustomization", "kustomize.toolkit.fluxcd.io")];
const ARGO_TRACKING: &str = "argocd.argoproj.io/tracking-id";
const ARGO_INSTANCE: &str = "argocd.argoproj.io/instance";
const ARGO_MANAGER: &str = "argocd-controller";
/// Field managers of the parts of Kubernetes, which own nothing by writing to it.
const CLUSTER: &[&str] = &[
    "cloud-controller-manager",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "Go-http-client",
];

/// Whose a live object is.
///
/// GitOps comes first, because it takes back whatever somebody else does. Helm keeps what it wrote after us.
pub fn of(object: &Value) -> Owner {
    let metadata = &object["metadata"];
    let label =
        |key: &str| metadata["labels"][key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let annotation =
        |key: &str| metadata["annotations"][key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    for (kind, prefix) in FLUX {
        if let Some(name) = label(&format!("{prefix}/name")) {
            let namespace = label(&format!("{prefix}/namespace")).unwrap_or_default();
            return Owner::Flux { kind, namespace, name };
        }
    }
    if let Some(tracking) = annotation(ARGO_TRACKING) {
        let application = tracking.split(':').next().unwrap_or_default().to_owned();
        return Owner::ArgoCd { application };
    }
    let writers = writers(object);
    let by_argo = writers.iter().any(|writer| writer.manager == ARGO_MANAGER);
    let instance = label(ARGO_INSTANCE).or_else(|| label("app.kubernetes.io/instance").filter(|_| by_argo));
    if let Some(application) = instance {
        return Owner::ArgoCd { application };
    }
    let ours = writers.iter().filter(|writer| writer.manager == MANAGER).map(|writer| writer.time).max();
    if let Some(release) = annotation(HELM_RELEASE).filter(|_| label(MANAGED_BY).as_deref() == Some("Helm")) {
        let wrote = writers.iter().filter(|writer| writer.manager == "helm").map(|writer| writer.time).max();
        // An object that Helm marked is Helm's, unless those marks are ours and Helm has written nothing since.
        if ours.is_none() || wrote > ours {
            return Owner::Helm { release, namespace: annotation(HELM_NAMESPACE).unwrap_or_default() };
        }
    }
    if ours.is_some() || digest_of(object).is_some() {
        return Owner::Daedal;
    }
    let most = writers.iter().max_by_key(|writer| writer.fields);
    most.map_or(Owner::Nobody, |writer| Owner::Other { manager: writer.manager.to_owned() })
}

/// Somebody who wrote fields of an object besides its status.
struct Writer<'a> {
    manager: &'a str,
    /// When, in the form of RFC 3339, always in UTC: later times are greater texts.
    time: &'a str,
    fields: usize,
}

fn writers(object: &Value) -> Vec<Writer<'_>> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .filter(|entry| entry["subresource"].as_str().unwrap_or_default().is_empty())
        .map(|entry| Writer {
            manager: entry["manager"].as_str().unwrap_or_default(),
            time: entry["time"].as_str().unwrap_or_default(),
            fields: leaves(&entry["fieldsV1"]),
        })
        .filter(|writer| !CLUSTER.contains(&writer.manager))
        .collect()
}

fn leaves(fields: &Value) -> usize {
    match fields.as_object() {
        Some(entries) if !entries.is_empty() => entries.values().map(leaves).sum(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(labels: &Value, annotations: &Value, writers: &[(&str, &str)]) -> Owner {
        let entries = writers.iter().map(|(manager, time)| {
            json!({"manager": manager, "operation": "Apply", "time": time, "fieldsV1": {"f:data": {"f:a": {}}}})
        });
        let entries: Vec<Value> = entries.collect();
        of(&json!({"metadata": {"labels": labels, "annotations": annotations, "managedFields": entries}}))
    }

    fn helm() -> (Value, Value) {
        (json!({MANAGED_BY: "Helm"}), json!({HELM_RELEASE: "web", HELM_NAMESPACE: "shop"}))
    }

    #[test]
    fn gitops_is_told_by_its_marks_whoever_else_wrote() {
        let daedal = [("daedal", "2026-01-01T00:00:00Z")];
        let labels = json!({"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
        let flux =
            Owner::Flux { kind: "Kustomization", namespace: "flux-system".into(), name: "apps".into() };
        assert_eq!(object(&labels, &json!({}), &daedal), flux);
        let labels =
            json!({"helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "shop"});
        let (_, annotations) = helm();
        let flux = Owner::Flux { kind: "HelmRelease", namespace: "shop".into(), name: "web".into() };
        assert_eq!(object(&labels, &annotations, &daedal), flux);
        let annotations = json!({"argocd.argoproj.io/tracking-id": "web:apps/Deployment:shop/web"});
        let argo = Owner::ArgoCd { application: "web".into() };
        assert_eq!(object(&json!({}), &annotations, &daedal), argo);
        let labels = json!({"app.kubernetes.io/instance": "web"});
        assert_eq!(object(&labels, &json!({}), &[("argocd-controller", "")]), argo);
        assert_eq!(object(&labels, &json!({}), &daedal), Owner::Daedal);
    }

    #[test]
    fn helm_keeps_what_it_wrote_after_us() {
        let (labels, annotations) = helm();
        let helm = Owner::Helm { release: "web".into(), namespace: "shop".into() };
        let of = |writers: &[(&str, &str)]| object(&labels, &annotations, writers);
        assert_eq!(of(&[("helm", "2026-01-01T00:00:00Z")]), helm);
        assert_eq!(of(&[("kubectl", "2026-01-01T00:00:00Z")]), helm);
        assert_eq!(of(&[("daedal", "2026-01-01T00:00:00Z")]), Owner::Daedal);
        assert_eq!(of(&[("daedal", "2026-01-01T00:00:00Z"), ("helm", "2026-01-02T00:00:00Z")]), helm);
        assert_eq!(
            of(&[("daedal", "2026-01-02T00:00:00Z"), ("helm", "2026-01-01T00:00:00Z")]),
            Owner::Daedal
        );
    }

    #[test]
    fn others_are_told_by_who_wrote_most_and_kubernetes_is_nobody() {
        assert_eq!(of(&Value::Null), Owner::Nobody);
        assert_eq!(object(&json!({}), &json!({}), &[("kube-controller-manager", "")]), Owner::Nobody);
        let written = json!({"metadata": {"managedFields": [
            {"manager": "small", "fieldsV1": {"f:a": {}}},
            {"manager": "kubectl-client-side-apply", "fieldsV1": {"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}},
            {"manager": "status-writer", "subresource": "status", "fieldsV1": {"f:a": {}, "f:b": {}, "f:c": {}, "f:d": {}}},
        ]}});
        assert_eq!(of(&written), Owner::Other { manager: "kubectl-client-side-apply".into() });
    }

    #[test]
    fn an_object_with_our_digest_is_ours_even_without_managers() {
        let annotated = json!({"metadata": {"annotations": {crate::DIGEST: "ab"}}});
        assert_eq!(of(&annotated), Owner::Daedal);
    }
}
