//! From Talos 1.14 on most of the configuration lies in documents of its own: this reads them into the places they came from.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The main document, completed by what the others say. Documents of older versions add nothing here.
pub(super) fn whole(documents: &[Value]) -> Value {
    let mut whole = documents.first().cloned().unwrap_or_default();
    let split = documents.iter().any(|document| document["kind"] == "KubeClusterConfig");
    for document in documents.iter().skip(1) {
        for (pointer, value) in places(document) {
            put(&mut whole, pointer, value);
        }
    }
    if split {
        // What is not there is off, where the older fields had it on.
        let has = |kind: &str| documents.iter().any(|document| document["kind"] == kind);
        if !has("KubeFlannelCNIConfig") {
            put(&mut whole, "/cluster/network/cni/name", json!("none"));
        }
        if !has("DiscoveryServiceConfig") {
            put(&mut whole, "/cluster/discovery/enabled", json!(false));
        }
    }
    whole
}

/// Where a document's values belong in the main one.
fn places(document: &Value) -> Vec<(&'static str, Value)> {
    let at = |pointer: &str| document.pointer(pointer).cloned();
    let moved = |pairs: &[(&str, &'static str)]| {
        pairs.iter().filter_map(|(from, to)| Some((*to, at(from)?))).collect::<Vec<_>>()
    };
    match document["kind"].as_str().unwrap_or_default() {
        "DiscoveryIdentityConfig" => {
            moved(&[("/clusterID", "/cluster/id"), ("/clusterSecret", "/cluster/secret")])
        }
        "DiscoveryServiceConfig" => vec![("/cluster/discovery/enabled", json!(true))],
        "KubeClusterConfig" => moved(&[
            ("/clusterName", "/cluster/clusterName"),
            ("/endpoint", "/cluster/controlPlane/endpoint"),
        ]),
        "KubeNodeConfig" => moved(&[
            ("/labels", "/machine/nodeLabels"),
            ("/annotations", "/machine/nodeAnnotations"),
            ("/taints", "/machine/nodeTaints"),
        ]),
        "KubeletConfig" => moved(&[("/image", "/machine/kubelet/image")]),
        "KubeNetworkConfig" => moved(&[
            ("/podSubnets", "/cluster/network/podSubnets"),
            ("/serviceSubnets", "/cluster/network/serviceSubnets"),
            ("/dnsDomain", "/cluster/network/dnsDomain"),
        ]),
        "KubeAPIServerConfig" => moved(&[
            ("/image", "/cluster/apiServer/image"),
            ("/certExtraSANs", "/cluster/apiServer/certSANs"),
        ]),
        "KubeProxyConfig" => {
            vec![("/cluster/proxy/disabled", json!(document.get("enabled") == Some(&json!(false))))]
        }
        "KubeAPIServerCAConfig" => api_authority(document),
        "KubeAggregatorCAConfig" => vec![("/cluster/aggregatorCA", pair(document))],
        "KubeServiceAccountConfig" => {
            vec![("/cluster/serviceAccount/key", encoded(document.pointer("/issuer/privateKey")))]
        }
        _ => Vec::new(),
    }
}

/// A control plane has the authority's key; a worker only knows whom to accept.
fn api_authority(document: &Value) -> Vec<(&'static str, Value)> {
    let mut accepted: Vec<Value> = document["acceptedCAs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|ca| json!({"crt": encoded(Some(ca))}))
        .collect();
    let own = match document.get("issuingCA") {
        Some(_) => pair(document),
        None if accepted.is_empty() => return Vec::new(),
        None => accepted.remove(0),
    };
    let mut places = vec![("/cluster/ca", own)];
    if !accepted.is_empty() {
        places.push(("/cluster/acceptedCAs", accepted.into()));
    }
    places
}

fn pair(document: &Value) -> Value {
    let part = |name: &str| encoded(document.pointer(&format!("/issuingCA/{name}")));
    json!({"crt": part("cert"), "key": part("key")})
}

/// PEM as the main document keeps it: in base64, with one end of line.
fn encoded(pem: Option<&Value>) -> Value {
    match pem.and_then(Value::as_str) {
        Some(pem) => json!(STANDARD.encode(format!("{}\n", pem.trim()))),
        None => Value::Null,
    }
}

fn put(whole: &mut Value, pointer: &str, value: Value) {
    let mut place = whole;
    for key in pointer.trim_start_matches('/').split('/') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key];
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_1_14_are_found_where_older_versions_have_them() {
        let documents = [
            json!({"machine": {"type": "worker"}, "cluster": {"token": "t"}}),
            json!({"kind": "KubeClusterConfig", "clusterName": "c", "endpoint": "https://a:6443"}),
            json!({"kind": "KubeAPIServerCAConfig", "acceptedCAs": ["PEM A\n", "PEM B"]}),
            json!({"kind": "KubeProxyConfig", "enabled": false}),
            json!({"kind": "KubeNodeConfig", "labels": {"a": "b"}}),
            json!({"kind": "DiscoveryIdentityConfig", "clusterID": "id", "clusterSecret": "s"}),
        ];
        let whole = whole(&documents);
        for (pointer, expected) in [
            ("/cluster/clusterName", json!("c")),
            ("/cluster/token", json!("t")),
            ("/cluster/id", json!("id")),
            ("/cluster/controlPlane/endpoint", json!("https://a:6443")),
            ("/cluster/ca/crt", json!(STANDARD.encode("PEM A\n"))),
            ("/cluster/acceptedCAs/0/crt", json!(STANDARD.encode("PEM B\n"))),
            ("/cluster/proxy/disabled", json!(true)),
            ("/cluster/network/cni/name", json!("none")),
            ("/cluster/discovery/enabled", json!(false)),
            ("/machine/nodeLabels/a", json!("b")),
        ] {
            assert_eq!(whole.pointer(pointer), Some(&expected), "{pointer}");
        }
    }
}
