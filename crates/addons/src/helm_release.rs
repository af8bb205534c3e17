//! Releases as Helm keeps them, so that `helm list` shows what Daedal installed and `helm upgrade` goes on from there.
//!
//! Helm keeps each revision of a release in a Secret of the release's namespace: JSON, compressed, as base64. What it does not find in
//! the manifest of the last revision it does not own: neither the namespace, nor `crds/`, nor the extra manifests of an add-on.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daedal_helm::{Chart, File, HookEvent, Metadata};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::chart;
use crate::error::Error;
use crate::inputs::{Inputs, Rendered};
use crate::marks::{HELM_RELEASE, unmarked};
use crate::release::Hook;
use crate::yaml;

/// The type of such a Secret.
pub const TYPE: &str = "helm.sh/release.v1";
/// Most bytes that a Secret holds.
const MAX_SECRET: usize = 1 << 20;
/// Most bytes of a release, once it is unpacked.
const MAX_RELEASE: u64 = 64 << 20;

/// The name of the Secret of a revision.
pub fn secret_name(release: &str, revision: u32) -> String {
    format!("sh.helm.release.v1.{release}.v{revision}")
}

/// What Helm keeps of a release besides its inputs. Times are seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Which one it is, from one.
    pub number: u32,
    /// When the first one was deployed.
    pub first_deployed: i64,
    /// When this one was deployed.
    pub deployed: i64,
}

/// The Secret of a revision that is deployed. The inputs must be those that the release was rendered from.
pub fn secret(inputs: &Inputs<'_>, rendered: &Rendered, revision: Revision) -> Result<Value, Error> {
    let release = &rendered.release;
    let name = secret_name(&release.name, revision.number);
    let wrong = |message: String| Error::HelmRelease { operation: "write", name: name.clone(), message };
    let chart = inputs.chart.ok_or_else(|| Error::NoChart { addon: release.name.clone() })?;
    let time =
        |seconds| Timestamp::from_second(seconds).map(|t| t.to_string()).map_err(|e| wrong(e.to_string()));
    let document = json!({
        "name": release.name,
        "info": {
            "first_deployed": time(revision.first_deployed)?,
            "last_deployed": time(revision.deployed)?,
            "deleted": "",
            "description": if revision.number == 1 { "Install complete" } else { "Upgrade complete" },
            "status": "deployed",
            "notes": rendered.notes,
        },
        "chart": chart_of(chart),
        "config": chart::values(inputs)?.as_json(),
        "manifest": manifest(rendered),
        "hooks": release.hooks.iter().map(hook).collect::<Vec<_>>(),
        "version": revision.number,
        "namespace": release.namespace,
        "apply_method": "ssa",
    });
    let packed = pack(&document).map_err(|e| wrong(e.to_string()))?;
    if packed.len() > MAX_SECRET {
        return Err(wrong(format!("it has {} bytes, and a Secret holds {MAX_SECRET}", packed.len())));
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": release.namespace,
            "labels": {
                "name": release.name,
                "owner": "helm",
                "status": "deployed",
                "version": revision.number.to_string(),
                "createdAt": revision.deployed.to_string(),
            },
        },
        "type": TYPE,
        "data": {"release": STANDARD.encode(packed)},
    }))
}

/// The Secret of a revision after which another one was deployed.
pub fn superseded(secret: &Value, now: i64) -> Result<Value, Error> {
    let (name, mut document) = unpacked(secret)?;
    document["info"]["status"] = json!("superseded");
    let packed = pack(&document).map_err(|e| Error::HelmRelease {
        operation: "write",
        name,
        message: e.to_string(),
    })?;
    let metadata = &secret["metadata"];
    let mut labels = metadata["labels"].clone();
    labels["status"] = json!("superseded");
    labels["modifiedAt"] = json!(now.to_string());
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels},
        "type": TYPE,
        "data": {"release": STANDARD.encode(packed)},
    }))
}

/// A revision that Helm keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The release.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Which revision it is.
    pub revision: u32,
    /// `deployed`, `superseded`, `failed`, `uninstalled`, or `pending-…` while somebody works on it.
    pub status: String,
    /// The name of its chart.
    pub chart: String,
    /// The version of its chart.
    pub chart_version: String,
    /// The version of what it installs.
    pub app_version: String,
    /// When the first revision was deployed, in seconds since 1970.
    pub first_deployed: Option<i64>,
    /// Whether it was applied by the server.
    pub server_side: bool,
    /// The values that the user gave.
    pub config: Map<String, Value>,
    /// Its objects.
    pub manifest: String,
}

/// What a Secret of Helm says; none if it is another kind of Secret.
pub fn read(secret: &Value) -> Result<Option<Stored>, Error> {
    if secret["type"] != TYPE {
        return Ok(None);
    }
    let (_, document) = unpacked(secret)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &document["chart"]["metadata"];
    let first: Option<Timestamp> =
        document["info"]["first_deployed"].as_str().and_then(|text| text.parse().ok());
    Ok(Some(Stored {
        name: text(&document["name"]),
        namespace: text(&document["namespace"]),
        revision: document["version"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
        status: text(&document["info"]["status"]),
        chart: text(&metadata["name"]),
        chart_version: text(&metadata["version"]),
        app_version: text(&metadata["appVersion"]),
        first_deployed: first.map(Timestamp::as_second),
        server_side: document["apply_method"] == "ssa",
        config: document["config"].as_object().cloned().unwrap_or_default(),
        manifest: text(&document["manifest"]),
    }))
}

fn pack(document: &Value) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(document.to_string().as_bytes())?;
    Ok(STANDARD.encode(encoder.finish()?).into_bytes())
}

/// The name of a Secret, and the release in it.
fn unpacked(secret: &Value) -> Result<(String, Value), Error> {
    let name = secret["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let wrong = |message: String| Error::HelmRelease { operation: "read", name: name.clone(), message };
    let outer = secret["data"]["release"].as_str().ok_or_else(|| wrong("it has no release".to_owned()))?;
    let inner = STANDARD.decode(outer).map_err(|e| wrong(e.to_string()))?;
    let packed = STANDARD.decode(inner).map_err(|e| wrong(e.to_string()))?;
    let mut text = Vec::new();
    // Releases of early versions are not compressed.
    match packed.starts_with(&[0x1f, 0x8b, 0x08]) {
        true => {
            let mut decoder = GzDecoder::new(packed.as_slice()).take(MAX_RELEASE);
            decoder.read_to_end(&mut text).map_err(|e| wrong(e.to_string()))?;
        }
        false => text = packed,
    }
    let document = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    Ok((name, document))
}

/// The objects of the templates, as they were before we marked them.
fn manifest(rendered: &Rendered) -> String {
    let mut text = String::new();
    for object in &rendered.release.objects {
        let metadata = &object.body["metadata"];
        if metadata["annotations"][HELM_RELEASE].is_null() {
            continue;
        }
        text.push_str("---\n");
        text.push_str(&yaml::of(&unmarked(&object.body)));
    }
    text
}

fn hook(hook: &Hook) -> Value {
    let events: Vec<&str> = hook.events.iter().copied().map(event).collect();
    json!({
        "name": hook.id.name,
        "kind": hook.id.kind,
        "manifest": yaml::of(&hook.body),
        "events": events,
        "last_run": {"started_at": "", "completed_at": "", "phase": ""},
        "weight": hook.weight,
        "delete_policies": hook.delete_policies,
    })
}

fn event(event: HookEvent) -> &'static str {
    match event {
        HookEvent::PreInstall => "pre-install",
        HookEvent::PostInstall => "post-install",
        HookEvent::PreDelete => "pre-delete",
        HookEvent::PostDelete => "post-delete",
        HookEvent::PreUpgrade => "pre-upgrade",
        HookEvent::PostUpgrade => "post-upgrade",
        HookEvent::PreRollback => "pre-rollback",
        HookEvent::PostRollback => "post-rollback",
        HookEvent::Test => "test",
    }
}

/// A chart as Helm writes it: charts within it are left out.
fn chart_of(chart: &Chart) -> Value {
    let files = |files: &[File]| -> Vec<Value> {
        files.iter().map(|file| json!({"name": file.name, "data": STANDARD.encode(&file.data)})).collect()
    };
    json!({
        "metadata": metadata(&chart.metadata),
        "lock": null,
        "templates": files(&chart.templates),
        "values": chart.values.as_json(),
        "schema": chart.schema.as_deref().map(|schema| STANDARD.encode(schema)),
        "files": files(&chart.files),
    })
}

/// `Chart.yaml` as Helm writes it: fields that say nothing are left out.
pub(crate) fn metadata(metadata: &Metadata) -> Value {
    let mut entries = Map::new();
    let mut put = |key: &str, value: Value| {
        let says = match &value {
            Value::Null => false,
            Value::Bool(b) => *b,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            Value::Number(_) => true,
        };
        if says {
            entries.insert(key.to_owned(), value);
        }
    };
    put("name", json!(metadata.name));
    put("home", json!(metadata.home));
    put("sources", json!(metadata.sources));
    put("version", json!(metadata.version));
    put("description", json!(metadata.description));
    put("keywords", json!(metadata.keywords));
    let maintainers =
        metadata.maintainers.iter().map(|m| json!({"name": m.name, "email": m.email, "url": m.url}));
    put("maintainers", Value::Array(maintainers.collect()));
    put("icon", json!(metadata.icon));
    put("apiVersion", json!(metadata.api_version));
    put("condition", json!(metadata.condition));
    put("tags", json!(metadata.tags));
    put("appVersion", json!(metadata.app_version));
    put("deprecated", json!(metadata.deprecated));
    put("annotations", json!(metadata.annotations));
    put("kubeVersion", json!(metadata.kube_version));
    let dependencies = metadata.dependencies.iter().flatten().map(|d| {
        json!({"name": d.name, "version": d.version, "repository": d.repository, "condition": d.condition,
            "tags": d.tags, "import-values": d.import_values, "alias": d.alias})
    });
    put("dependencies", Value::Array(dependencies.collect()));
    put("type", json!(metadata.chart_type));
    Value::Object(entries)
}

/// The newest revision of each release among these.
pub fn newest(stored: impl IntoIterator<Item = Stored>) -> BTreeMap<(String, String), Stored> {
    let mut newest: BTreeMap<(String, String), Stored> = BTreeMap::new();
    for one in stored {
        let key = (one.namespace.clone(), one.name.clone());
        if newest.get(&key).is_none_or(|other| other.revision < one.revision) {
            newest.insert(key, one);
        }
    }
    newest
}
