//! What templates may ask of a cluster: `lookup`, answered by the caller.

use serde_json::Value;

/// Answers `lookup`.
pub trait Lookup {
    /// The object of this name, or with an empty name the list of all objects of the kind, in one namespace or, if that is
    /// empty too, in all. None if there is no such object; templates then see an empty map, as in `helm template`.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value>;
}

/// A cluster in which there is nothing, which is what `helm template` assumes.
pub(crate) struct Nothing;

impl Lookup for Nothing {
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
        None
    }
}
