//! Events: why something does not get on.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Work;
use crate::kubernetes::store::{Key, timestamp};

/// Notes a warning about an object, given with its `apiVersion` and kind. One that was said before is counted.
pub(super) fn warn(
    work: &Work<'_>,
    (api_version, kind, object): (&str, &str, &Value),
    reason: &str,
    message: &str,
    source: &str,
) {
    let metadata = &object["metadata"];
    let (name, uid) = (metadata["name"].as_str().unwrap_or_default(), &metadata["uid"]);
    let namespace = metadata["namespace"].as_str().unwrap_or("default");
    // Names that a controller makes up differ from try to try; the event is the same one.
    let digest = Sha256::digest(format!("{uid}/{reason}/{}", without_names(message)));
    let key = Key::new("events", namespace, &format!("{name}.{}", hex::encode(&digest[..8])));
    let at = timestamp(work.now);
    let _ = work.store.change(&key, work.now, |before| {
        let mut event = before.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": key.name, "namespace": namespace},
                "involvedObject": {"apiVersion": api_version, "kind": kind, "name": name, "namespace": namespace, "uid": uid},
                "type": "Warning", "reason": reason, "source": {"component": source}, "firstTimestamp": at,
                "count": 0, "reportingComponent": source, "reportingInstance": "",
            })
        });
        event["message"] = json!(message);
        event["count"] = json!(event["count"].as_u64().unwrap_or(0) + 1);
        event["lastTimestamp"] = json!(at);
        Ok::<_, std::convert::Infallible>(Some(event))
    });
}

fn without_names(message: &str) -> String {
    let mut quoted = false;
    let kept = message.split('"').filter(|_| {
        quoted = !quoted;
        quoted
    });
    kept.collect()
}
