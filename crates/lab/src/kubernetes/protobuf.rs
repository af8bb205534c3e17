//! Objects in Kubernetes' binary form, for the few kinds that command-line tools create that way.

use std::collections::HashMap;

use prost::Message as _;
use serde_json::{Value, json};

/// Opens every binary object.
const MAGIC: &[u8; 4] = b"k8s\0";

#[derive(Clone, PartialEq, prost::Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    generate_name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(map = "string, string", tag = "11")]
    labels: HashMap<String, String>,
    #[prost(map = "string, string", tag = "12")]
    annotations: HashMap<String, String>,
}

/// Metadata, and the data of a ConfigMap or Secret: both have it in field 2.
#[derive(Clone, PartialEq, prost::Message)]
struct Plain {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(map = "string, bytes", tag = "2")]
    data: HashMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    kind: String,
}

/// Only the metadata: other fields are of other kinds.
#[derive(Clone, PartialEq, prost::Message)]
struct Bare {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
}

/// Reads an object; none when it is of a kind that is not known here.
pub(super) fn decode(bytes: &[u8]) -> Option<Value> {
    use base64::Engine as _;
    let unknown = Unknown::decode(bytes.strip_prefix(MAGIC)?).ok()?;
    let types = unknown.type_meta?;
    let raw = unknown.raw.as_slice();
    let mut object = json!({"apiVersion": types.api_version, "kind": types.kind});
    let metadata = match types.kind.as_str() {
        "Namespace" | "ServiceAccount" => Bare::decode(raw).ok()?.metadata,
        "ConfigMap" => {
            // A ConfigMap's third field is binary data, which is left out here.
            let plain = Plain::decode(raw).ok()?;
            let text = |v: Vec<u8>| String::from_utf8(v).ok().map(Value::from);
            object["data"] = plain.data.into_iter().filter_map(|(k, v)| Some((k, text(v)?))).collect();
            plain.metadata
        }
        "Secret" => {
            let plain = Plain::decode(raw).ok()?;
            let text = |v: Vec<u8>| Value::from(base64::engine::general_purpose::STANDARD.encode(v));
            object["data"] = plain.data.into_iter().map(|(k, v)| (k, text(v))).collect();
            object["type"] = json!(plain.kind);
            plain.metadata
        }
        _ => return None,
    };
    let metadata = metadata.unwrap_or_default();
    let mut shown = json!({"name": metadata.name});
    for (key, text) in [("generateName", metadata.generate_name), ("namespace", metadata.namespace)] {
        if !text.is_empty() {
            shown[key] = json!(text);
        }
    }
    for (key, map) in [("labels", metadata.labels), ("annotations", metadata.annotations)] {
        if !map.is_empty() {
            shown[key] = json!(map.into_iter().collect::<std::collections::BTreeMap<_, _>>());
        }
    }
    object["metadata"] = shown;
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_read_and_a_strange_kind_is_not() {
        let metadata = ObjectMeta { name: "t".into(), ..ObjectMeta::default() };
        let raw = Bare { metadata: Some(metadata) }.encode_to_vec();
        let pack = |kind: &str| {
            let type_meta = Some(TypeMeta { api_version: "v1".into(), kind: kind.into() });
            [MAGIC.to_vec(), Unknown { type_meta, raw: raw.clone() }.encode_to_vec()].concat()
        };
        let object = decode(&pack("Namespace")).unwrap();
        assert_eq!(object, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}}));
        assert_eq!(decode(&pack("Pod")), None);
        assert_eq!(decode(b"{}"), None);
    }
}
