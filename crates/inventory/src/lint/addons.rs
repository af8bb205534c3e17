//! What add-ons say that deserves a second look.

use serde_json::Value;

use super::Lint;
use crate::addon::AddonSource;
use crate::catalogue;
use crate::cluster::Cluster;
use crate::document;
use crate::path::Path;

/// How keys end whose values are secrets more often than not.
const SECRET_ENDS: [&str; 7] =
    ["password", "passwd", "clientsecret", "secretkey", "accesskey", "apikey", "authtoken"];

/// Looks through all add-ons.
pub(super) fn addons(spec: &document::Spec, cluster: &Cluster, at: &Path<'_>, lint: &mut Lint<'_>) {
    let addons_at = at.key("addons");
    for (i, written) in spec.addons.iter().flatten().enumerate() {
        let at = addons_at.index(i);
        let Some(addon) = cluster.addons.iter().find(|addon| addon.name == written.name()) else { continue };
        let entry = addon.entry.as_deref().and_then(catalogue::entry);
        if let Some(why) = entry.and_then(|entry| entry.retired) {
            lint.found("retired-addon", &at, format!("`{}` is retired: {why}", addon.name));
        }
        let Some(settings) = written.settings() else { continue };
        if addon.force {
            let message = format!("`{}` takes fields over from whoever owns them.", addon.name);
            lint.found("forced-addon", &at.key("force"), message);
        }
        if let AddonSource::Chart { repo, .. } = &addon.source
            && repo.starts_with("http://")
        {
            lint.found(
                "plain-http",
                &at.key("repo"),
                format!("The chart of `{}` comes over plain HTTP.", addon.name),
            );
        }
        let values_at = at.key("values");
        if let Some(path) = settings.values.as_ref().and_then(|values| literal(values.0.iter())) {
            let message = format!("The value `{path}` of `{}` looks like a secret.", addon.name);
            lint.found("secret-in-values", &values_at, message);
        }
    }
}

/// The path of the first value that looks like a secret. The value itself is not quoted.
fn literal<'v>(mut entries: impl Iterator<Item = (&'v String, &'v Value)>) -> Option<String> {
    entries.find_map(|(key, value)| {
        let plain: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
        let suspicious = SECRET_ENDS.iter().any(|end| plain.to_ascii_lowercase().ends_with(end));
        match value {
            Value::String(text) if suspicious && !text.is_empty() => Some(key.clone()),
            Value::Object(map) => literal(map.iter()).map(|path| format!("{key}.{path}")),
            Value::Array(items) => items.iter().enumerate().find_map(|(i, item)| {
                let path = literal(item.as_object()?.iter())?;
                Some(format!("{key}[{i}].{path}"))
            }),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_look_like_secrets_are_found() {
        let found = |text: &str| {
            let value: Value = serde_json::from_str(text).unwrap();
            literal(value.as_object().unwrap().iter())
        };
        assert_eq!(
            found(r#"{"a": {"users": [{"n": 1}, {"adminPassword": "x"}]}}"#).as_deref(),
            Some("a.users[1].adminPassword")
        );
        assert_eq!(found(r#"{"oauth": {"client_secret": "x"}}"#).as_deref(), Some("oauth.client_secret"));
        for harmless in [
            r#"{"existingSecret": "x"}"#,
            r#"{"password": ""}"#,
            r#"{"passwordFile": "x"}"#,
            r#"{"password": true}"#,
        ] {
            assert_eq!(found(harmless), None, "{harmless}");
        }
    }
}
