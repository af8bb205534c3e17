//! Add-ons as the objects of a GitOps agent, which then adopts what is installed without installing it again.
//!
//! A Helm release goes on under its own name in its own namespace; plain manifests are what they are. Values that are secrets are not
//! written: they are referred to, and whoever keeps the repository says how they get there.

use daedal_helm::ValuesBuilder;
use daedal_inventory::{Addon, AddonSource};
use serde_json::{Map, Value, json};

use crate::applyset;
use crate::error::Error;
use crate::inputs::Rendered;
use crate::manifests;
use crate::marks::{HELM_RELEASE, unmarked};
use crate::object::Object;

/// What is written for an add-on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    /// The objects.
    pub objects: Vec<Value>,
    /// The Secret that has to be made besides, if there is one.
    pub secret: Option<SecretToMake>,
}

/// A Secret that the objects refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretToMake {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its keys, each with the dotted path of the value that is in it.
    pub keys: Vec<(String, String)>,
}

/// The agent's word for keeping an object that is no longer written.
const NO_PRUNE: (&str, &str) = ("kustomize.toolkit.fluxcd.io/prune", "disabled");

/// An add-on for Flux: a repository and a release of Helm, or the manifests themselves.
pub fn flux(addon: &Addon, rendered: &Rendered) -> Result<Exported, Error> {
    let AddonSource::Chart { chart, repo, version } = &addon.source else { return plain(addon, rendered) };
    let metadata = json!({"name": addon.name, "namespace": addon.namespace});
    let mut repository = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmRepository",
        "metadata": metadata,
        "spec": {"interval": "1h", "url": repo},
    });
    if repo.starts_with("oci://") {
        repository["spec"]["type"] = json!("oci");
    }
    let mut release = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": metadata,
        "spec": {
            "interval": "1h",
            "releaseName": addon.name,
            "timeout": format!("{}s", addon.timeout),
            "chart": {"spec": {
                "chart": chart,
                "version": version,
                "sourceRef": {"kind": "HelmRepository", "name": addon.name},
            }},
            "install": {"crds": "CreateReplace"},
            "upgrade": {"crds": "CreateReplace"},
            "values": values(addon)?,
        },
    });
    let secret = secret(addon);
    if let Some(secret) = &secret {
        let from = |(key, path): &(String, String)| json!({"kind": "Secret", "name": secret.name, "valuesKey": key, "targetPath": path});
        release["spec"]["valuesFrom"] = secret.keys.iter().map(from).collect();
    }
    let mut objects = beside(addon, rendered, &NO_PRUNE)?;
    objects.extend([repository, release]);
    Ok(Exported { objects, secret })
}

/// An add-on for Argo CD: an application, or the manifests themselves.
pub fn argo_cd(addon: &Addon, rendered: &Rendered) -> Result<Exported, Error> {
    let AddonSource::Chart { chart, repo, version } = &addon.source else { return plain(addon, rendered) };
    if !addon.secret_values.is_empty() {
        return Err(Error::Export {
            addon: addon.name.clone(),
            message: "Argo CD cannot read values from a Secret".to_owned(),
        });
    }
    let mut application = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": addon.name, "namespace": "argocd"},
        "spec": {
            "project": "default",
            "source": {
                "repoURL": repo.trim_start_matches("oci://"),
                "chart": chart,
                "targetRevision": version,
                "helm": {"releaseName": addon.name, "valuesObject": values(addon)?},
            },
            "destination": {"server": "https://kubernetes.default.svc", "namespace": addon.namespace},
            "syncPolicy": {"syncOptions": ["ServerSideApply=true", "RespectIgnoreDifferences=true"]},
        },
    });
    let looked_up =
        rendered.found.iter().chain(&rendered.asked).filter(|id| id.kind == "Secret" && !id.name.is_empty());
    let ignored: Vec<Value> = looked_up
        .map(|id| json!({"kind": "Secret", "name": id.name, "namespace": id.namespace, "jsonPointers": ["/data"]}))
        .collect();
    if !ignored.is_empty() {
        // Argo CD renders without a cluster: every password that is looked up would be a new one.
        application["spec"]["ignoreDifferences"] = Value::Array(ignored);
    }
    let mut objects = beside(addon, rendered, &("argocd.argoproj.io/sync-options", "Prune=false"))?;
    objects.push(application);
    Ok(Exported { objects, secret: None })
}

/// What Daedal makes beside the chart: the namespace and the add-on's own manifests.
fn beside(addon: &Addon, rendered: &Rendered, keep: &(&str, &str)) -> Result<Vec<Value>, Error> {
    let mut own = Vec::new();
    for extra in &addon.extra {
        let documents = manifests::read(&extra.origin, &extra.text)?;
        own.extend(documents.into_iter().map(|document| document.body["metadata"]["name"].clone()));
    }
    let is_beside = |object: &&Object| {
        let of_chart = !object.body["metadata"]["annotations"][HELM_RELEASE].is_null();
        // The agent applies what is in `crds/` of a chart.
        let in_folder = object.id.kind == "CustomResourceDefinition"
            && matches!(addon.source, AddonSource::Chart { .. })
            && !own.iter().any(|name| *name == *object.id.name);
        !of_chart && !in_folder
    };
    let bare = |object: &Object| {
        let mut body = unmarked(&object.body);
        if applyset::stays(&body) == Some(applyset::Stay::Holds) {
            body["metadata"]["annotations"][keep.0] = json!(keep.1);
        }
        body
    };
    Ok(rendered.release.objects.iter().filter(is_beside).map(bare).collect())
}

/// All objects as they are, for add-ons that are no chart of a repository.
fn plain(addon: &Addon, rendered: &Rendered) -> Result<Exported, Error> {
    if matches!(addon.source, AddonSource::Local { .. }) {
        return Err(Error::Export {
            addon: addon.name.clone(),
            message: "its chart is in no repository".to_owned(),
        });
    }
    if let Some(secret) = rendered.release.objects.iter().find(|object| object.id.kind == "Secret") {
        return Err(Error::Export {
            addon: addon.name.clone(),
            message: format!("{} would be written in plain text", secret.id),
        });
    }
    Ok(Exported { objects: beside(addon, rendered, &NO_PRUNE)?, secret: None })
}

fn secret(addon: &Addon) -> Option<SecretToMake> {
    let keys: Vec<(String, String)> =
        addon.secret_values.keys().map(|path| (key_of(path), path.clone())).collect();
    (!keys.is_empty()).then(|| SecretToMake {
        namespace: addon.namespace.clone(),
        name: format!("{}-values", addon.name),
        keys,
    })
}

/// A path as a key of a Secret, which has fewer characters.
fn key_of(path: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    path.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// The values of an add-on without its secrets.
fn values(addon: &Addon) -> Result<Value, Error> {
    let mut builder = ValuesBuilder::new();
    for text in &addon.values {
        builder = builder
            .file(text.text.as_bytes())
            .map_err(|source| Error::Values { origin: text.origin.clone(), source: Box::new(source) })?;
    }
    Ok(whole(&Value::Object(builder.build().as_json().clone())))
}

/// Numbers that are whole as whole numbers: values are read with a point, as Helm does.
fn whole(value: &Value) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Object(entries) => Value::Object(
            entries.iter().map(|(key, value)| (key.clone(), whole(value))).collect::<Map<_, _>>(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(whole).collect()),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => {
                json!(float as i64)
            }
            _ => value.clone(),
        },
        other => other.clone(),
    }
}
