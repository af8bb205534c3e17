//! Takes a request apart and sends it where it is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::resources::{self, Resource};
use super::selector::Selector;
use super::status::Refusal;
use super::store::{Key, Store};
use super::{deletion, discovery, table, watching, write};
use crate::Pace;
use crate::http::{Body, Handler};
use crate::talos::keys::Caller;

/// A request to one resource.
pub(crate) struct Call {
    pub(crate) store: Arc<Store>,
    pub(crate) now: i64,
    pub(crate) pace: Pace,
    pub(crate) method: Method,
    pub(crate) resource: Resource,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) agent: String,
    pub(crate) body: bytes::Bytes,
}

impl Call {
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.resource.stored(), &self.namespace, &self.name)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.query.get(name).is_some_and(|v| v == "true" || v == "1" || v.is_empty())
    }

    pub(crate) fn dry_run(&self) -> bool {
        self.query.get("dryRun").is_some_and(|v| v == "All")
    }

    pub(crate) fn selector(&self) -> Selector {
        let text = |name: &str| self.query.get(name).map(String::as_str).unwrap_or_default();
        Selector::parse(text("labelSelector"), text("fieldSelector"))
    }

    /// The namespace to list: none means all.
    pub(crate) fn scope(&self) -> Option<&str> {
        if self.namespace.is_empty() { None } else { Some(&self.namespace) }
    }

    /// Who writes, for the managed fields.
    pub(crate) fn manager(&self) -> String {
        let named = self.query.get("fieldManager").filter(|m| !m.is_empty()).cloned();
        named.unwrap_or_else(|| self.agent.split('/').next().unwrap_or("unknown").to_owned())
    }

    /// The body as an object, from JSON or YAML.
    pub(crate) fn object(&self) -> Result<Value, Refusal> {
        let yaml = self.content_type.contains("yaml");
        if self.content_type.contains("protobuf") {
            let object = super::protobuf::decode(&self.body);
            return object.ok_or_else(|| Refusal::unsupported_media(&self.content_type));
        }
        if self.content_type.contains("cbor") {
            return Err(Refusal::unsupported_media(&self.content_type));
        }
        let parsed = if yaml {
            let text = String::from_utf8_lossy(&self.body);
            yaml_serde::from_str(&text).map_err(|e| e.to_string())
        } else {
            serde_json::from_slice(&self.body).map_err(|e| e.to_string())
        };
        parsed.map_err(|e| Refusal::bad_request(format!("the object provided is unrecognized: {e}")))
    }
}

/// Answers the requests of one cluster.
pub(crate) fn handler(store: Arc<Store>, pace: Pace) -> Handler {
    Arc::new(move |request| {
        let store = store.clone();
        Box::pin(async move {
            match answer(store, pace, request).await {
                Ok(response) => response,
                Err(refusal) => refusal.response(),
            }
        })
    })
}

async fn answer(store: Arc<Store>, pace: Pace, request: Request<Body>) -> Result<Response<Body>, Refusal> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().trim_end_matches('/').to_owned();
    match path.as_str() {
        "/version" => return Ok(crate::http::json(StatusCode::OK, &discovery::version(&store))),
        "/healthz" | "/livez" | "/readyz" => {
            return Ok(crate::http::full(StatusCode::OK, "text/plain; charset=utf-8", "ok"));
        }
        _ => {}
    }
    let caller = parts.extensions.get::<Caller>().cloned().unwrap_or_default();
    if !caller.known {
        return Err(Refusal::unauthorized());
    }
    if !caller.any_of(&["system:masters"]) {
        return Err(Refusal::forbidden(&caller.name, parts.method.as_str(), &path));
    }
    let header = |name| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let accept = header(header::ACCEPT);
    if let Some(response) = discovery::answer(&store, &path, &accept) {
        return Ok(response);
    }
    let query = parts.uri.query().unwrap_or_default();
    let query: BTreeMap<String, String> =
        url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let place = Place::parse(&path).ok_or_else(Refusal::no_such_page)?;
    let body = body.collect().await.map_err(|e| Refusal::bad_request(e.to_string()))?.to_bytes();
    if let Some(response) = write::review(&place.group, &place.plural, &parts.method, &body, &caller) {
        return Ok(response);
    }
    let resource = resources::find(&store, &place.group, &place.version, &place.plural)
        .ok_or_else(Refusal::no_such_page)?;
    let call = Call {
        now: pace.now(),
        pace,
        method: parts.method.clone(),
        resource,
        namespace: place.namespace,
        name: place.name,
        subresource: place.subresource,
        query,
        accept,
        content_type: header(header::CONTENT_TYPE),
        agent: header(header::USER_AGENT),
        body,
        store,
    };
    dispatch(call)
}

fn dispatch(call: Call) -> Result<Response<Body>, Refusal> {
    let named = !call.name.is_empty();
    match (call.method.as_str(), named) {
        ("GET", false) if call.flag("watch") => watching::watch(call),
        ("GET", false) => list(&call),
        ("GET", true) if call.flag("watch") => watching::watch(call),
        ("GET", true) => {
            let key = call.key();
            let object = call.store.get(&key).ok_or_else(|| Refusal::not_found(&key.resource, &key.name))?;
            if call.subresource == "scale" {
                return Ok(crate::http::json(StatusCode::OK, &write::scale(&object)));
            }
            shown(&call, StatusCode::OK, &object)
        }
        ("POST", false) => write::create(&call),
        ("POST", true) => write::act(&call),
        ("PUT", true) => write::replace(&call),
        ("PATCH", true) => write::patch(&call),
        ("DELETE", true) => deletion::delete(&call),
        ("DELETE", false) => deletion::delete_collection(&call),
        _ => Err(Refusal::method_not_allowed()),
    }
}

/// One object as the caller wants to see it.
pub(crate) fn shown(call: &Call, status: StatusCode, object: &Value) -> Result<Response<Body>, Refusal> {
    let value = if call.accept.contains("as=Table") {
        table::table(
            &call.resource,
            std::slice::from_ref(object),
            call.now,
            object["metadata"]["resourceVersion"].as_str(),
        )
    } else if call.accept.contains("as=PartialObjectMetadata") {
        partial(object)
    } else {
        versioned(&call.resource, object)
    };
    Ok(crate::http::json(status, &value))
}

/// The object under the version that was asked for.
pub(crate) fn versioned(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    object
}

/// Only the metadata.
pub(crate) fn partial(object: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
}

/// What is asked for of a list that is read in pieces: the objects, and where the next piece begins and how many are left.
#[allow(clippy::type_complexity, reason = "a list and what comes after it")]
fn page<'a>(
    call: &Call,
    mut all: Vec<&'a Arc<Value>>,
    revision: u64,
) -> Result<(Vec<&'a Arc<Value>>, Option<(String, usize)>), Refusal> {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let place = |object: &Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    if let Some(token) = call.query.get("continue").filter(|token| !token.is_empty()) {
        let read = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let last = read.as_deref().and_then(|text| text.split_once(' ')).map(|(_, last)| last.to_owned());
        let last = last.ok_or_else(|| Refusal::bad_request("continue key is not valid"))?;
        let key = |place: &str| place.split_once('/').map(|(a, b)| (a.to_owned(), b.to_owned()));
        all.retain(|object| key(&place(object)) > key(&last));
    }
    let limit: usize = call.query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(0);
    if limit == 0 || all.len() <= limit {
        return Ok((all, None));
    }
    let left = all.len() - limit;
    all.truncate(limit);
    let last = all.last().map(|object| place(object)).unwrap_or_default();
    Ok((all, Some((URL_SAFE_NO_PAD.encode(format!("{revision} {last}")), left))))
}

fn list(call: &Call) -> Result<Response<Body>, Refusal> {
    let (objects, revision) = call.store.list(&call.resource.stored(), call.scope());
    let selector = call.selector();
    let all: Vec<&Arc<Value>> = objects.iter().filter(|o| selector.fits(o)).collect();
    let (all, page) = page(call, all, revision)?;
    let items: Vec<Value> = all.into_iter().map(|o| Value::clone(o)).collect();
    let revision = revision.to_string();
    let mut value = if call.accept.contains("as=Table") {
        table::table(&call.resource, &items, call.now, Some(&revision))
    } else if call.accept.contains("as=PartialObjectMetadataList") {
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
            "metadata": {"resourceVersion": revision}, "items": items.iter().map(partial).collect::<Vec<_>>(),
        })
    } else {
        json!({
            "apiVersion": call.resource.api_version(), "kind": format!("{}List", call.resource.kind),
            "metadata": {"resourceVersion": revision},
            "items": items.iter().map(|o| versioned(&call.resource, o)).collect::<Vec<_>>(),
        })
    };
    if let Some((token, left)) = page {
        value["metadata"]["continue"] = json!(token);
        value["metadata"]["remainingItemCount"] = json!(left);
    }
    Ok(crate::http::json(StatusCode::OK, &value))
}

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    group: String,
    version: String,
    namespace: String,
    plural: String,
    name: String,
    subresource: String,
}

impl Place {
    fn parse(path: &str) -> Option<Self> {
        let decoded: Vec<String> = path
            .trim_start_matches('/')
            .split('/')
            .map(|p| percent_encoding::percent_decode_str(p).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, plural, name, subresource) = match rest {
            ["namespaces", name, sub @ ("status" | "finalize")] => ("", "namespaces", *name, *sub),
            ["namespaces", namespace, plural] => (*namespace, *plural, "", ""),
            ["namespaces", namespace, plural, name] => (*namespace, *plural, *name, ""),
            ["namespaces", namespace, plural, name, sub, ..] => (*namespace, *plural, *name, *sub),
            [plural] => ("", *plural, "", ""),
            [plural, name] => ("", *plural, *name, ""),
            [plural, name, sub, ..] => ("", *plural, *name, *sub),
            [] => return None,
        };
        Some(Self {
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            plural: plural.into(),
            name: name.into(),
            subresource: subresource.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_places() {
        let place = Place::parse("/apis/apps/v1/namespaces/kube-system/deployments/dns/scale").unwrap();
        assert_eq!((place.group.as_str(), place.namespace.as_str()), ("apps", "kube-system"));
        assert_eq!((place.name.as_str(), place.subresource.as_str()), ("dns", "scale"));
        let place = Place::parse("/api/v1/namespaces/default").unwrap();
        assert_eq!(
            (place.plural.as_str(), place.name.as_str(), place.namespace.as_str()),
            ("namespaces", "default", "")
        );
        let place = Place::parse("/api/v1/nodes/cp-1/status").unwrap();
        assert_eq!((place.plural.as_str(), place.subresource.as_str()), ("nodes", "status"));
        assert_eq!(Place::parse("/metrics"), None);
    }
}
