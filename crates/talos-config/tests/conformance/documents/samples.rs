//! Documents that Talos takes, of every kind.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize as _;
use serde_json::{Value as Json, json};

use super::shapes::Shapes;
use crate::peer::bundle;

/// The samples by their kind; parts of the main document have the empty kind.
pub fn read() -> BTreeMap<String, Vec<Json>> {
    let (certificate, key) = authority();
    let words = [
        ("<CERT>", certificate),
        ("<KEY>", key),
        ("<SECRET>", BASE64.encode([7; 32])),
        ("<WIREGUARD>", BASE64.encode([9; 32])),
    ];
    let mut samples: BTreeMap<String, Vec<Json>> = BTreeMap::new();
    for text in [
        include_str!("network.yaml"),
        include_str!("volumes.yaml"),
        include_str!("system.yaml"),
        include_str!("kubernetes.yaml"),
        include_str!("main.yaml"),
    ] {
        for document in yaml_serde::Deserializer::from_str(text) {
            let value = yaml_serde::Value::deserialize(document).unwrap();
            let mut sample = serde_json::to_value(value).unwrap();
            fill(&mut sample, &words);
            let kind = sample["kind"].as_str().unwrap_or_default().to_owned();
            if !kind.is_empty() {
                sample["apiVersion"] = json!("v1alpha1");
            }
            samples.entry(kind).or_default().push(sample);
        }
    }
    samples
}

/// Takes out what Talos 1.`minor` does not know yet.
pub fn before(shapes: &Shapes, kind: &str, minor: u32, value: &mut Json, path: &mut Vec<String>) {
    match value {
        Json::Object(fields) => {
            for key in fields.keys().cloned().collect::<Vec<_>>() {
                path.push(key.clone());
                if shapes.at(kind, path).is_some_and(|field| field.since > minor) {
                    fields.remove(&key);
                } else {
                    before(shapes, kind, minor, &mut fields[&key], path);
                }
                path.pop();
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(index.to_string());
                before(shapes, kind, minor, item, path);
                path.pop();
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Json, words: &[(&str, String)]) {
    match value {
        Json::String(text) => {
            if let Some((_, meant)) = words.iter().find(|(word, _)| word == text) {
                text.clone_from(meant);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| fill(item, words)),
        Json::Object(fields) => fields.values_mut().for_each(|field| fill(field, words)),
        _ => {}
    }
}

/// The certificate and key of an authority, in PEM.
fn authority() -> (String, String) {
    let text = bundle().to_yaml();
    let secrets: Json =
        serde_json::to_value(yaml_serde::from_str::<yaml_serde::Value>(text.expose()).unwrap()).unwrap();
    let pem = |part: &str| {
        let encoded = secrets["certs"]["k8s"][part].as_str().unwrap();
        String::from_utf8(BASE64.decode(encoded).unwrap()).unwrap()
    };
    (pem("crt"), pem("key"))
}
