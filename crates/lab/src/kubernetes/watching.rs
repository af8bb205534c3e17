//! Watches: a stream of changes, from a revision or from the present state on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::{Value, json};

use super::api::{Call, partial, versioned};
use super::selector::Selector;
use super::status::Refusal;
use super::store::{Change, Verb};
use super::table;
use crate::http::Body;

/// How often a watcher that wants them gets a bookmark, in the caller's time.
const BOOKMARK: Duration = Duration::from_secs(60);

struct Watching {
    call: Call,
    selector: Selector,
    revision: u64,
    waiting: VecDeque<Value>,
    changes: tokio::sync::watch::Receiver<u64>,
    bookmarks: bool,
    deadline: Option<tokio::time::Instant>,
    ended: bool,
}

/// Answers with a stream of changes.
pub(crate) fn watch(call: Call) -> Result<Response<Body>, Refusal> {
    let mut selector = call.selector();
    if !call.name.is_empty() {
        selector = Selector::parse("", &format!("metadata.name={}", call.name));
    }
    let changes = call.store.watch();
    let asked = call.query.get("resourceVersion").map(String::as_str).unwrap_or_default();
    let initial = call.query.get("sendInitialEvents").map(|v| v == "true");
    let mut waiting = VecDeque::new();
    let resource = call.resource.stored();
    let revision = match (asked, initial) {
        ("" | "0", None | Some(true)) | (_, Some(true)) => {
            let (objects, revision) = call.store.list(&resource, call.scope());
            for object in objects.iter().filter(|o| selector.fits(o)) {
                waiting.push_back(event(&call, "ADDED", object));
            }
            if initial == Some(true) {
                waiting.push_back(bookmark(&call, revision, true));
            }
            revision
        }
        ("" | "0", Some(false)) => call.store.revision(),
        (text, _) => {
            let revision: u64 = text
                .parse()
                .map_err(|_| Refusal::bad_request(format!("invalid resource version {text:?}")))?;
            let newest = call.store.revision();
            call.store
                .since(&resource, call.scope(), revision)
                .map_err(|_| Refusal::gone(revision, newest))?;
            revision
        }
    };
    let bookmarks = call.flag("allowWatchBookmarks");
    let deadline = call
        .query
        .get("timeoutSeconds")
        .and_then(|t| t.parse().ok())
        .map(|seconds| tokio::time::Instant::now() + Duration::from_secs(seconds));
    let state = Watching { call, selector, revision, waiting, changes, bookmarks, deadline, ended: false };
    let frames = stream::unfold(state, |mut state| async move {
        let value = state.next().await?;
        let mut line = value.to_string();
        line.push('\n');
        Some((Ok::<_, std::io::Error>(Frame::data(Bytes::from(line))), state))
    });
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    *response.status_mut() = StatusCode::OK;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(response)
}

impl Watching {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(value) = self.waiting.pop_front() {
                return Some(value);
            }
            if self.ended {
                return None;
            }
            self.changes.mark_unchanged();
            let resource = self.call.resource.stored();
            match self.call.store.since(&resource, self.call.scope(), self.revision) {
                Ok((changes, newest)) => {
                    // What was of no interest is never looked at again.
                    self.revision = newest;
                    for change in changes {
                        self.waiting.extend(seen(&self.call, &self.selector, &change));
                    }
                }
                Err(_) => {
                    self.ended = true;
                    let refusal = Refusal::gone(self.revision, self.call.store.revision());
                    return Some(json!({"type": "ERROR", "object": refusal.object()}));
                }
            }
            if !self.waiting.is_empty() {
                continue;
            }
            let patience = tokio::time::Instant::now() + BOOKMARK;
            let until = self.deadline.map_or(patience, |d| d.min(patience));
            tokio::select! {
                changed = self.changes.changed() => if changed.is_err() { return None },
                () = tokio::time::sleep_until(until) => {
                    if self.deadline.is_some_and(|d| d <= until) {
                        self.ended = true;
                    }
                    if self.bookmarks {
                        let newest = self.revision;
                        self.waiting.push_back(bookmark(&self.call, newest, false));
                    }
                }
            }
        }
    }
}

/// What a watcher sees of a change: an object that stops fitting is as good as deleted.
fn seen(call: &Call, selector: &Selector, change: &Change) -> Option<Value> {
    let now = selector.fits(&change.object);
    let before = change.previous.as_ref().is_some_and(|p| selector.fits(p));
    let kind = match (change.verb, before, now) {
        (Verb::Deleted, true, _) => "DELETED",
        (Verb::Added, _, true) => "ADDED",
        (Verb::Modified, true, true) => "MODIFIED",
        (Verb::Modified, false, true) => "ADDED",
        (Verb::Modified, true, false) => "DELETED",
        _ => return None,
    };
    Some(event(call, kind, &change.object))
}

fn event(call: &Call, kind: &str, object: &Arc<Value>) -> Value {
    let object = if call.accept.contains("as=Table") {
        let revision = object["metadata"]["resourceVersion"].as_str();
        table::table(&call.resource, std::slice::from_ref(object), call.pace.now(), revision)
    } else if call.accept.contains("as=PartialObjectMetadata") {
        partial(object)
    } else {
        versioned(&call.resource, object)
    };
    json!({"type": kind, "object": object})
}

fn bookmark(call: &Call, revision: u64, initial_end: bool) -> Value {
    let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
    if initial_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let mut object = json!({
        "apiVersion": call.resource.api_version(), "kind": call.resource.kind, "metadata": metadata,
    });
    if call.resource.kind == "Node" || call.resource.kind == "Pod" {
        // Typed clients want the required parts of an object even here.
        object["spec"] = json!({});
        object["status"] = json!({});
    }
    json!({"type": "BOOKMARK", "object": object})
}
