//! Digests of JSON that do not depend on the order of keys.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::inputs::Seed;

/// The digest of an object; that of a Secret tells nobody what is in it.
pub(crate) fn of_object(body: &Value, seed: &Seed) -> String {
    let mut hash = if body["kind"] == "Secret" { seed.hash("object") } else { Sha256::new() };
    update(&mut hash, body);
    hex::encode(hash.finalize())
}

/// Feeds a value into a hash, keys in their order.
pub(crate) fn update(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(entries) => {
            let mut keys: Vec<&String> = entries.keys().collect();
            keys.sort_unstable();
            hash.update(b"{");
            for key in keys {
                text(hash, key);
                hash.update(b":");
                if let Some(value) = entries.get(key) {
                    update(hash, value);
                }
                hash.update(b",");
            }
            hash.update(b"}");
        }
        Value::Array(items) => {
            hash.update(b"[");
            for item in items {
                update(hash, item);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        Value::String(string) => text(hash, string),
        other => hash.update(other.to_string().as_bytes()),
    }
}

/// Feeds a text into a hash so that it cannot be mistaken for another.
pub(crate) fn text(hash: &mut Sha256, text: &str) {
    hash.update(b"\"");
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn digest(body: &Value) -> String {
        of_object(body, &Seed::new([1; 32]))
    }

    #[test]
    fn the_order_of_keys_makes_no_difference_and_everything_else_does() {
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": [1, 2], "d": null}}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": {"d": null, "c": [1, 2]}, "a": 1}"#).unwrap();
        assert_eq!(digest(&one), digest(&other));
        for different in [
            json!({"a": 1, "b": {"c": [2, 1], "d": null}}),
            json!({"a": "1", "b": {"c": [1, 2], "d": null}}),
            json!({"a": 1, "b": {"c": [1, 2]}}),
            json!({"a": 1, "b": {"c": [[1], 2], "d": null}}),
        ] {
            assert_ne!(digest(&one), digest(&different), "{different}");
        }
    }

    #[test]
    fn the_digest_of_a_secret_cannot_be_guessed_without_the_seed() {
        let secret = json!({"kind": "Secret", "data": {"password": "MTIzNA=="}});
        assert_eq!(digest(&secret), digest(&secret));
        assert_ne!(digest(&secret), of_object(&secret, &Seed::new([2; 32])));
        let plain = json!({"kind": "ConfigMap", "data": {"a": "b"}});
        assert_eq!(digest(&plain), of_object(&plain, &Seed::new([2; 32])));
    }
}
