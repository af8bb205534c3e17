//! Everything that changes objects: create, replace, patch, apply, delete, evict.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::admission;
use super::api::{Call, shown};
use super::apply::{Writer, apply, note_update};
use super::defaults;
use super::deletion;
use super::merge::{json_merge, json_patch, strategic};
use super::schema::{self, Shape};
use super::status::Refusal;
use super::store::Key;
use super::validate;
use super::webhooks;
use crate::http::Body;
use crate::talos::keys::Caller;

impl Call {
    fn writer<'a>(&'a self, manager: &'a str, api_version: &'a str, shape: &'a Shape) -> Writer<'a> {
        Writer {
            manager,
            subresource: &self.subresource,
            api_version,
            shape,
            force: self.flag("force"),
            now: self.now,
        }
    }
}

fn check_shape(call: &Call, object: &Value) -> Result<(), Refusal> {
    let kind = object["kind"].as_str().unwrap_or(&call.resource.kind);
    if !object.is_object() || kind != call.resource.kind {
        return Err(Refusal::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}",
            object["apiVersion"].as_str().unwrap_or_default(),
            call.resource.kind
        )));
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(&call.namespace);
    if call.resource.namespaced && namespace != call.namespace {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Kinds whose objects count no generations.
const WITHOUT_GENERATION: [&str; 13] = [
    "CertificateSigningRequest",
    "CSINode",
    "Event",
    "IPAddress",
    "Lease",
    "LimitRange",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ResourceQuota",
    "Service",
    "VolumeAttachment",
];

fn counts_generations(call: &Call, object: &Value) -> bool {
    let has_content = object.get("spec").is_some() || object.get("webhooks").is_some();
    has_content && (call.resource.custom || !WITHOUT_GENERATION.contains(&call.resource.kind.as_str()))
}

/// Admits a new object, or refuses it. Returns what there is to warn of.
fn admit(call: &Call, object: &mut Value) -> Result<Vec<String>, Refusal> {
    let (kind, name) = (call.resource.kind.as_str(), object["metadata"]["name"].as_str().unwrap_or_default());
    if call.resource.namespaced {
        admission::open_namespace(&call.store, &call.namespace, &call.resource.stored(), name)?;
    }
    if call.resource.custom {
        heard(call, "CREATE", object)?;
        return Ok(Vec::new());
    }
    validate::object(&call.resource.group, kind, object)?;
    let warnings = match kind {
        "Pod" => admission::pod(&call.store, &call.namespace, object)?,
        _ => admission::workload(&call.store, &call.namespace, kind, object),
    };
    heard(call, "CREATE", object)?;
    Ok(warnings)
}

/// Lets the webhooks hear of what is to be done.
pub(crate) fn heard(call: &Call, operation: &str, object: &Value) -> Result<(), Refusal> {
    if !call.subresource.is_empty() {
        return Ok(());
    }
    let resource = &call.resource;
    let request = webhooks::Request {
        group: &resource.group,
        version: &resource.version,
        plural: &resource.plural,
        namespace: &call.namespace,
        operation,
        object,
    };
    webhooks::call(&call.store, &request)
}

/// An answer that carries warnings.
fn warned(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = format!("299 - \"{text}\"").parse() {
            response.headers_mut().append(http::header::WARNING, value);
        }
    }
    response
}

/// Fills in what the server adds to a new object.
fn complete(call: &Call, object: &mut Value, name: &str) {
    object["apiVersion"] = json!(call.resource.api_version());
    object["kind"] = json!(call.resource.kind);
    object["metadata"]["name"] = json!(name);
    if call.resource.namespaced {
        object["metadata"]["namespace"] = json!(call.namespace);
    }
    if counts_generations(call, object) {
        object["metadata"]["generation"] = json!(1);
    }
    if !call.resource.custom {
        defaults::fill(&call.store, &call.resource.kind, object);
    }
    match call.resource.kind.as_str() {
        "Namespace" => {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
            object["status"] = json!({"phase": "Active"});
            object["spec"] = json!({"finalizers": ["kubernetes"]});
        }
        "CustomResourceDefinition" => {
            object["metadata"]["finalizers"] = json!([deletion::CLEANUP]);
            let none = json!({"plural": "", "kind": ""});
            object["status"] = json!({"conditions": [], "acceptedNames": none, "storedVersions": []});
        }
        "Pod" => object["status"] = json!({"phase": "Pending"}),
        "Job" => own_selector(call, object),
        "PersistentVolumeClaim" => object["status"] = json!({"phase": "Pending"}),
        _ => {}
    }
}

/// A job selects its own pods by its uid.
fn own_selector(call: &Call, object: &mut Value) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    let uid = call.store.next_uid(&call.key());
    let (uid, name) = (json!(uid), object["metadata"]["name"].clone());
    object["metadata"]["uid"] = uid.clone();
    object["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid.clone();
    let labels = &mut object["spec"]["template"]["metadata"]["labels"];
    for (label, value) in [("controller-uid", uid), ("job-name", name)] {
        labels[label] = value.clone();
        labels[format!("batch.kubernetes.io/{label}")] = value;
    }
}

fn stored(
    call: &Call,
    key: &Key,
    status: StatusCode,
    result: Option<Arc<Value>>,
) -> Result<Response<Body>, Refusal> {
    let object = result.ok_or_else(|| Refusal::not_found(&key.resource, &key.name))?;
    shown(call, status, &object)
}

/// Takes an object as its kind is described. What is in no description is refused, warned of or ignored, as was asked.
fn decode(call: &Call, shape: &Shape, object: &mut Value) -> Result<Vec<String>, Refusal> {
    let kind = &call.resource.kind;
    let refuse = |why: String| {
        let version = call.resource.api_version();
        Refusal::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    if let Some((at, is, wanted)) = shape.misfit(object, "").filter(|_| !call.resource.custom) {
        return Err(refuse(format!(
            "json: cannot unmarshal {is} into Go struct field {kind}.{at} of type {wanted}"
        )));
    }
    let unknown: Vec<String> =
        shape.unknown(object).into_iter().map(|field| format!("unknown field \"{field}\"")).collect();
    let validation = call.query.get("fieldValidation").map_or("Warn", String::as_str);
    if validation == "Strict" && !unknown.is_empty() {
        return Err(refuse(format!("strict decoding error: {}", unknown.join(", "))));
    }
    shape.prune(object);
    Ok(if validation == "Ignore" { Vec::new() } else { unknown })
}

/// Refuses to apply what is in no description.
fn typed(call: &Call, shape: &Shape, wanted: &Value) -> Result<(), Refusal> {
    let problem = match (shape.unknown(wanted).first(), shape.misfit(wanted, "")) {
        (Some(field), _) => format!(".{field}: field not declared in schema"),
        (None, Some((field, is, should))) => format!(".{field}: expected {should}, got {is}"),
        (None, None) => return Ok(()),
    };
    let place = if call.namespace.is_empty() {
        call.name.clone()
    } else {
        format!("{}/{}", call.namespace, call.name)
    };
    let (version, kind) = (call.resource.api_version(), &call.resource.kind);
    Err(Refusal::untyped(format!(
        "failed to create typed patch object ({place}; {version}, Kind={kind}): {problem}"
    )))
}

/// POST to a collection.
pub(crate) fn create(call: &Call) -> Result<Response<Body>, Refusal> {
    let mut object = call.object()?;
    check_shape(call, &object)?;
    let shape = schema::of(&call.store, &call.resource);
    let mut warnings = decode(call, &shape, &mut object)?;
    let name = match (object["metadata"]["name"].as_str(), object["metadata"]["generateName"].as_str()) {
        (Some(name), _) if !name.is_empty() => name.to_owned(),
        (_, Some(prefix)) => format!("{prefix}{:05x}", call.store.revision() + 0x1_0000),
        _ => {
            return Err(Refusal::invalid(format!(
                "{} \"\" is invalid: metadata.name: Required value: name or generateName is required",
                call.resource.kind
            )));
        }
    };
    let key = Key::new(&call.resource.stored(), &call.namespace, &name);
    if call.resource.status
        && call.resource.kind != "Node"
        && let Some(object) = object.as_object_mut()
    {
        object.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.shift_remove("uid");
    }
    complete(call, &mut object, &name);
    warnings.extend(admit(call, &mut object)?);
    let (manager, version) = (call.manager(), call.resource.api_version());
    note_update(None, &mut object, &call.writer(&manager, &version, &shape));
    if call.store.get(&key).is_some() {
        return Err(Refusal::exists(&key.resource, &name));
    }
    if call.dry_run() {
        return Ok(warned(shown(call, StatusCode::CREATED, &object)?, &warnings));
    }
    let result = call.store.change(&key, call.now, |existing| match existing {
        Some(_) => Err(Refusal::exists(&key.resource, &name)),
        None => Ok(Some(object)),
    })?;
    Ok(warned(stored(call, &key, StatusCode::CREATED, result)?, &warnings))
}

/// Changes an object by what is made of its newest state, without keeping others waiting meanwhile.
fn commit(
    call: &Call,
    key: &Key,
    mut make: impl FnMut(Option<&Value>) -> Result<Option<Value>, Refusal>,
) -> Result<Option<Arc<Value>>, Refusal> {
    loop {
        let live = call.store.get(key);
        let wanted = make(live.as_deref())?;
        let revision = |object: Option<&Value>| object.map(|o| o["metadata"]["resourceVersion"].clone());
        let before = revision(live.as_deref());
        let result = call.store.change(key, call.now, |now| match revision(now) == before {
            true => Ok(wanted),
            false => Err(()),
        });
        if let Ok(result) = result {
            return Ok(result);
        }
    }
}

/// Somebody else was quicker.
fn modified(call: &Call) -> Refusal {
    let stored = call.resource.stored();
    let (group, plural) = stored.rsplit_once('/').unwrap_or(("", &stored));
    let shown = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let mut refusal = Refusal::conflict(format!(
        "Operation cannot be fulfilled on {shown} \"{}\": the object has been modified; please apply your changes to the latest \
         version and try again",
        call.name
    ));
    refusal.details = Some(json!({"name": call.name, "group": group, "kind": plural}));
    refusal
}

/// PUT.
pub(crate) fn replace(call: &Call) -> Result<Response<Body>, Refusal> {
    let wanted = call.object()?;
    if call.subresource == "finalize" {
        return finalize(call, &wanted);
    }
    if call.subresource == "scale" {
        return edit(call, |live| {
            let mut object = live.clone();
            object["spec"]["replicas"] = wanted["spec"]["replicas"].clone();
            Ok(object)
        });
    }
    check_shape(call, &wanted)?;
    let key = call.key();
    if call.store.get(&key).is_none() && call.subresource.is_empty() {
        // Only server-side apply creates by name; an update of nothing is refused.
        return Err(Refusal::not_found(&key.resource, &key.name));
    }
    edit(call, |live| {
        let asked = wanted["metadata"]["resourceVersion"].as_str().filter(|v| !v.is_empty());
        if asked.is_some_and(|v| live["metadata"]["resourceVersion"] != v) {
            return Err(modified(call));
        }
        Ok(wanted.clone())
    })
}

/// PATCH, of any kind.
pub(crate) fn patch(call: &Call) -> Result<Response<Body>, Refusal> {
    let kind = call.content_type.split(';').next().unwrap_or_default().trim().to_owned();
    let patch = call.object()?;
    if kind.starts_with("application/apply-patch") {
        return server_side_apply(call, &patch);
    }
    edit(call, |live| {
        let mut object = live.clone();
        match kind.as_str() {
            "application/merge-patch+json" => json_merge(&mut object, &patch),
            "application/strategic-merge-patch+json" => strategic(&mut object, &patch, "", ""),
            "application/json-patch+json" => json_patch(&mut object, &patch).map_err(|problem| {
                Refusal::invalid(format!(
                    "the server rejected our request due to an error in our request: {problem}"
                ))
            })?,
            other => return Err(Refusal::unsupported_media(other)),
        }
        let asked = patch["metadata"]["resourceVersion"].as_str();
        if asked.is_some_and(|v| live["metadata"]["resourceVersion"] != v) {
            return Err(modified(call));
        }
        Ok(object)
    })
}

fn server_side_apply(call: &Call, wanted: &Value) -> Result<Response<Body>, Refusal> {
    check_shape(call, wanted)?;
    if wanted["metadata"]["name"].as_str().is_some_and(|n| n != call.name) {
        return Err(Refusal::bad_request("the name of the object does not match the name on the URL"));
    }
    let manager = call.query.get("fieldManager").filter(|m| !m.is_empty()).cloned();
    let manager = manager.ok_or_else(|| {
        Refusal::invalid("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch")
    })?;
    let key = call.key();
    let version = wanted["apiVersion"].as_str().unwrap_or_default().to_owned();
    let created = call.store.get(&key).is_none();
    let shape = schema::of(&call.store, &call.resource);
    typed(call, &shape, wanted)?;
    let mut warnings = Vec::new();
    let asked = wanted["metadata"]["resourceVersion"].as_str().filter(|v| !v.is_empty());
    let mut make = |existing: Option<&Value>| -> Result<Value, Refusal> {
        let revision = existing.map_or(&Value::Null, |live| &live["metadata"]["resourceVersion"]);
        if asked.is_some_and(|asked| revision != asked) {
            return Err(modified(call));
        }
        let mut object = apply(existing, wanted, &call.writer(&manager, &version, &shape))?;
        match existing {
            None => {
                complete(call, &mut object, &call.name);
                warnings = admit(call, &mut object)?;
            }
            Some(live) => warnings = finish_edit(call, live, &mut object)?,
        }
        Ok(object)
    };
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let response = if call.dry_run() {
        shown(call, status, &make(call.store.get(&key).as_deref())?)?
    } else {
        let result = commit(call, &key, |existing| make(existing).map(surviving))?;
        stored(call, &key, status, result)?
    };
    Ok(warned(response, &warnings))
}

/// What an update of a service leaves out stays as it was allotted.
fn keep_allotted(call: &Call, live: &Value, object: &mut Value) {
    if call.resource.kind != "Service" || object["spec"]["type"] == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let unset = object["spec"][field].is_null() || object["spec"][field] == "";
        if unset && !live["spec"][field].is_null() {
            object["spec"][field] = live["spec"][field].clone();
        }
    }
}

/// Keeps apart what an object and its status may change, fills in what is left open, refuses what cannot be changed, and counts
/// generations. Returns what there is to warn of.
fn finish_edit(call: &Call, live: &Value, object: &mut Value) -> Result<Vec<String>, Refusal> {
    if call.subresource == "status" {
        let status = object["status"].take();
        let fields = object["metadata"]["managedFields"].take();
        *object = live.clone();
        object["status"] = status;
        object["metadata"]["managedFields"] = fields;
    } else if call.resource.status {
        match live.get("status") {
            Some(status) => object["status"] = status.clone(),
            None => {
                if let Some(object) = object.as_object_mut() {
                    object.remove("status");
                }
            }
        }
    }
    for field in ["name", "namespace", "deletionTimestamp", "generation"] {
        match live["metadata"].get(field) {
            Some(value) => object["metadata"][field] = value.clone(),
            None => {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove(field);
                }
            }
        }
    }
    let mut warnings = Vec::new();
    if call.subresource.is_empty() && !call.resource.custom {
        let (group, kind) = (call.resource.group.as_str(), call.resource.kind.as_str());
        keep_allotted(call, live, object);
        defaults::fill(&call.store, kind, object);
        validate::change(group, kind, live, object)?;
        validate::object(group, kind, object)?;
        if object["spec"] != live["spec"] {
            warnings = admission::workload(&call.store, &call.namespace, kind, object);
        }
    }
    heard(call, "UPDATE", object)?;
    let changed = object.get("spec") != live.get("spec") || object.get("webhooks") != live.get("webhooks");
    if changed && counts_generations(call, object) {
        let generation = live["metadata"]["generation"].as_u64().unwrap_or(1);
        object["metadata"]["generation"] = json!(generation + 1);
    }
    Ok(warnings)
}

fn edit(call: &Call, make: impl Fn(&Value) -> Result<Value, Refusal>) -> Result<Response<Body>, Refusal> {
    let key = call.key();
    let (manager, version) = (call.manager(), call.resource.api_version());
    let shape = schema::of(&call.store, &call.resource);
    let mut warnings = Vec::new();
    let mut change = |existing: Option<&Value>| -> Result<Option<Value>, Refusal> {
        let live = existing.ok_or_else(|| Refusal::not_found(&key.resource, &key.name))?;
        let mut object = make(live)?;
        warnings = decode(call, &shape, &mut object)?;
        warnings.extend(finish_edit(call, live, &mut object)?);
        note_update(Some(live), &mut object, &call.writer(&manager, &version, &shape));
        Ok(surviving(object))
    };
    if call.dry_run() {
        let live = call.store.get(&key);
        let object = change(live.as_deref())?.unwrap_or_default();
        return Ok(warned(shown(call, StatusCode::OK, &object)?, &warnings));
    }
    let result = commit(call, &key, change)?;
    match result {
        Some(object) if call.subresource == "scale" => Ok(crate::http::json(StatusCode::OK, &scale(&object))),
        Some(object) => Ok(warned(shown(call, StatusCode::OK, &object)?, &warnings)),
        None => Err(Refusal::not_found(&key.resource, &key.name)),
    }
}

/// The removal of the last finalizer is what deletes a dying object; a namespace ends when it is empty.
fn surviving(object: Value) -> Option<Value> {
    let metadata = &object["metadata"];
    let held = metadata["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    let emptied = object["kind"] == "Namespace";
    (held || emptied || !metadata["deletionTimestamp"].is_string()).then_some(object)
}

fn finalize(call: &Call, wanted: &Value) -> Result<Response<Body>, Refusal> {
    let key = call.key();
    let result = call.store.change(&key, call.now, |live| {
        let live = live.ok_or_else(|| Refusal::not_found(&key.resource, &key.name))?;
        let mut object = live.clone();
        object["spec"]["finalizers"] = wanted["spec"]["finalizers"].clone();
        let left = object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let dying = live["metadata"]["deletionTimestamp"].is_string();
        Ok::<_, Refusal>(if dying && !left { None } else { Some(object) })
    })?;
    stored(call, &key, StatusCode::OK, result)
}

/// POST to a subresource.
pub(crate) fn act(call: &Call) -> Result<Response<Body>, Refusal> {
    let success =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    match (call.resource.plural.as_str(), call.subresource.as_str()) {
        ("pods", "eviction") => {
            let key = call.key();
            let pod = call.store.get(&key).ok_or_else(|| Refusal::not_found(&key.resource, &key.name))?;
            if !may_go(call, &pod) {
                return Err(Refusal::too_many_requests(
                    "Cannot evict pod as it would violate the pod's disruption budget.",
                ));
            }
            deletion::remove(&call.store, &key, false, call.now);
            Ok(crate::http::json(StatusCode::CREATED, &success))
        }
        ("pods", "binding") => {
            let node = call.object()?["target"]["name"].clone();
            edit(call, |live| {
                let mut pod = live.clone();
                pod["spec"]["nodeName"] = node.clone();
                Ok(pod)
            })?;
            Ok(crate::http::json(StatusCode::CREATED, &success))
        }
        _ => Err(Refusal::no_such_page()),
    }
}

/// Whether every disruption budget that is about a pod allows that it goes: what its `minAvailable` (a number) leaves
/// over, counted among the running pods it selects.
fn may_go(call: &Call, pod: &Value) -> bool {
    let (budgets, _) = call.store.list("policy/poddisruptionbudgets", Some(&call.namespace));
    let (pods, _) = call.store.list("pods", Some(&call.namespace));
    budgets.iter().all(|budget| {
        let wanted = budget["spec"]["selector"]["matchLabels"].as_object();
        let fits = |pod: &Value| {
            wanted.is_some_and(|all| all.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value))
        };
        let least = budget["spec"]["minAvailable"].as_u64().unwrap_or(0);
        let alive = |pod: &Value| {
            pod["spec"]["nodeName"].is_string()
                && !pod["metadata"]["deletionTimestamp"].is_string()
                && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
        };
        let healthy = pods.iter().filter(|pod| fits(pod) && alive(pod)).count();
        !fits(pod) || healthy as u64 > least
    })
}

/// The scale of an object with replicas.
pub(crate) fn scale(object: &Value) -> Value {
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
                     "uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"]},
        "spec": {"replicas": object["spec"]["replicas"].as_u64().unwrap_or(0)},
        "status": {"replicas": object["status"]["replicas"].as_u64().unwrap_or(0)},
    })
}

/// Questions about the caller: who am I, may I.
pub(crate) fn review(
    group: &str,
    plural: &str,
    method: &Method,
    body: &[u8],
    caller: &Caller,
) -> Option<Response<Body>> {
    if method != Method::POST {
        return None;
    }
    let mut object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["status"] = match (group, plural) {
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews",
        ) => {
            json!({"allowed": true, "reason": "system:masters"})
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews") => {
            json!({"incomplete": false, "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                   "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]})
        }
        ("authentication.k8s.io", "selfsubjectreviews") => {
            json!({"userInfo": {"username": caller.name, "groups": caller.groups}})
        }
        _ => return None,
    };
    Some(crate::http::json(StatusCode::CREATED, &object))
}
