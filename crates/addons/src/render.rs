//! From an add-on to its release.

use daedal_inventory::{Addon, AddonSource, ManifestSource};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::chart;
use crate::digest;
use crate::error::Error;
use crate::inputs::{Inputs, Rendered, ServedKind};
use crate::kinds;
use crate::manifests::{self, Document};
use crate::marks::{self, Marks};
use crate::namespace;
use crate::object::{Object, ObjectId};
use crate::order;
use crate::release::{Hook, Release};

/// Where a document comes from, which decides what it gets besides its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A chart's `crds/`, which Helm installs but does not own.
    Definitions,
    /// A chart's templates.
    Templates,
    /// The add-on's own manifests.
    Manifests,
}

/// Renders an add-on with its lookups as they are.
pub(crate) fn once(inputs: &Inputs<'_>) -> Result<Rendered, Error> {
    let addon = inputs.addon;
    let mut documents = Vec::new();
    let mut hooks = Vec::new();
    let mut rendered = Rendered {
        release: Release {
            name: addon.name.clone(),
            namespace: addon.namespace.clone(),
            chart: None,
            inputs: String::new(),
            objects: Vec::new(),
            hooks: Vec::new(),
        },
        asked: Vec::new(),
        found: Vec::new(),
        notes: String::new(),
        warnings: Vec::new(),
    };
    match &addon.source {
        AddonSource::Manifests(sources) => {
            for source in sources {
                let (origin, text) = text_of(source, inputs)?;
                tag(&mut documents, Origin::Manifests, manifests::read(origin, text)?);
            }
        }
        AddonSource::Chart { .. } | AddonSource::Local { .. } => {
            let of_chart = chart::render(inputs)?;
            rendered.release.chart = Some(of_chart.info);
            rendered.asked = of_chart.asked;
            rendered.notes = of_chart.notes;
            rendered.warnings = of_chart.warnings;
            tag(&mut documents, Origin::Definitions, of_chart.definitions);
            tag(&mut documents, Origin::Templates, of_chart.objects);
            hooks = of_chart.hooks;
        }
    }
    for extra in &addon.extra {
        tag(&mut documents, Origin::Manifests, manifests::read(&extra.origin, &extra.text)?);
    }
    let defined: Vec<ServedKind> =
        documents.iter().flat_map(|(_, document)| kinds::defined_by(&document.body)).collect();
    rendered.release.inputs =
        inputs_digest(inputs, rendered.release.chart.as_ref().map(|c| c.digest.as_str()));
    rendered.release.objects = objects(inputs, documents, &defined)?;
    for chart::Hook { document, events, weight, delete_policies } in hooks {
        let (id, body) = complete(document, addon, &defined, inputs)?;
        rendered.release.hooks.push(Hook { id, events, weight, delete_policies, body });
    }
    Ok(rendered)
}

fn tag(into: &mut Vec<(Origin, Document)>, origin: Origin, documents: Vec<Document>) {
    into.extend(documents.into_iter().map(|document| (origin, document)));
}

fn text_of<'a>(source: &'a ManifestSource, inputs: &'a Inputs<'_>) -> Result<(&'a str, &'a str), Error> {
    match source {
        ManifestSource::Text(text) => Ok((&text.origin, &text.text)),
        ManifestSource::Url { url, sha256 } => {
            let fetched = inputs
                .manifests
                .iter()
                .find(|fetched| fetched.origin == *url)
                .ok_or_else(|| Error::NotFetched { url: url.clone() })?;
            let found = hex::encode(Sha256::digest(&fetched.text));
            if !found.eq_ignore_ascii_case(sha256) {
                return Err(Error::Digest { url: url.clone(), wanted: sha256.clone(), found });
            }
            Ok((url, &fetched.text))
        }
    }
}

/// The objects of a release in their order, each once, marked.
fn objects(
    inputs: &Inputs<'_>,
    documents: Vec<(Origin, Document)>,
    defined: &[ServedKind],
) -> Result<Vec<Object>, Error> {
    let addon = inputs.addon;
    let mut found: Vec<(Origin, String, ObjectId, Value)> = Vec::new();
    for (origin, document) in documents {
        let place = format!("{} (document {})", document.origin, document.number);
        let (id, body) = complete(document, addon, defined, inputs)?;
        let Some(other) = found.iter_mut().find(|(_, _, other, _)| other.is(&id)) else {
            found.push((origin, place, id, body));
            continue;
        };
        if other.0 == Origin::Definitions && origin == Origin::Templates {
            // A template of the same definition is the later one, and knows the values.
            *other = (origin, place, id, body);
        } else if other.3 != body {
            return Err(Error::Twice { object: id.to_string(), first: other.1.clone(), second: place });
        }
    }
    let mut objects = Vec::with_capacity(found.len() + 1);
    let mut has_namespace = false;
    for (origin, _, id, mut body) in found {
        if id.kind == "Namespace" && id.group().is_empty() && id.name == addon.namespace {
            has_namespace = true;
            namespace::secure(&mut body, addon.pod_security);
        }
        let helm = (origin == Origin::Templates).then_some((addon.name.as_str(), addon.namespace.as_str()));
        objects.push(finish(id, body, &Marks { member_of: Some(&addon.name), helm }, inputs));
    }
    if let Some(body) = namespace::of(addon).filter(|_| !has_namespace) {
        let id = ObjectId {
            api_version: "v1".into(),
            kind: "Namespace".into(),
            namespace: None,
            name: addon.namespace.clone(),
        };
        // Other add-ons may live in it, too.
        objects.push(finish(id, body, &Marks { member_of: None, helm: None }, inputs));
    }
    order::sort(&mut objects);
    Ok(objects)
}

fn finish(id: ObjectId, mut body: Value, marks: &Marks<'_>, inputs: &Inputs<'_>) -> Object {
    let digest = marks::add(&mut body, marks, inputs.seed);
    Object { stage: order::stage(&id), id, body, digest }
}

/// Gives an object what it needs to be sent: a namespace, or none, and nothing that only a cluster says.
fn complete(
    document: Document,
    addon: &Addon,
    defined: &[ServedKind],
    inputs: &Inputs<'_>,
) -> Result<(ObjectId, Value), Error> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let api_version =
        text(&document.body["apiVersion"]).ok_or_else(|| document.wrong("has no apiVersion"))?;
    let kind = text(&document.body["kind"]).ok_or_else(|| document.wrong("has no kind"))?;
    let name = text(&document.body["metadata"]["name"])
        .ok_or_else(|| document.wrong(format!("({kind}) has no name")))?;
    let written = text(&document.body["metadata"]["namespace"]);
    for group in ["labels", "annotations"] {
        let entries = &document.body["metadata"][group];
        if !entries.is_null() && !entries.is_object() {
            return Err(document.wrong(format!("({kind} {name}) has {group} that are not a map")));
        }
    }
    let mut body = document.body;
    let mut id = ObjectId { api_version, kind, namespace: None, name };
    let own = kinds::is_own_group(id.group());
    if let Some(entries) = body.as_object_mut().filter(|_| own) {
        entries.shift_remove("status");
    }
    let Some(metadata) = body["metadata"].as_object_mut() else { return Ok((id, body)) };
    metadata.retain(|_, value| !value.is_null());
    metadata.shift_remove("namespace");
    if kinds::is_namespaced(id.group(), &id.kind, defined, inputs.capabilities) {
        let namespace = written.unwrap_or_else(|| addon.namespace.clone());
        metadata.insert("namespace".into(), Value::String(namespace.clone()));
        id.namespace = Some(namespace);
    }
    if id.group().is_empty() && id.kind == "Secret" {
        merge_string_data(&mut body);
    }
    Ok((id, body))
}

/// Writes what a Secret says as text as the API server keeps it, so that nothing is there twice.
fn merge_string_data(secret: &mut Value) {
    use base64::Engine as _;
    let Some(entries) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = entries.shift_remove("stringData") else { return };
    let data = entries.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    let Some(data) = data.as_object_mut() else { return };
    for (key, text) in texts {
        let text = match text {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        };
        data.insert(key, Value::String(base64::engine::general_purpose::STANDARD.encode(text)));
    }
}

/// The digest of everything that decides what a release is.
fn inputs_digest(inputs: &Inputs<'_>, chart: Option<&str>) -> String {
    let mut hash = inputs.seed.hash("inputs");
    let addon = serde_json::to_value(inputs.addon).unwrap_or_default();
    digest::update(&mut hash, &addon);
    digest::text(&mut hash, chart.unwrap_or_default());
    digest::text(&mut hash, &inputs.capabilities.kube_version);
    for fetched in inputs.manifests {
        digest::text(&mut hash, &fetched.origin);
        digest::text(&mut hash, &fetched.text);
    }
    for (path, value) in inputs.secrets {
        digest::text(&mut hash, path);
        digest::text(&mut hash, value);
    }
    hex::encode(hash.finalize())
}
