//! Values of charts: the catalogue's, those of files, those of the inventory, and where the secret ones are.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use super::source::inside;
use crate::Source;
use crate::addon::AddonText;
use crate::catalogue::Entry;
use crate::diagnostic::Finding;
use crate::document::{AddonSettings, ValuesFile};
use crate::path::{Path, first_word};
use crate::resolve::{Context, reference};
use crate::secret::SecretRef;
use crate::yaml::{self, Node, Span, Value};

/// Where the values of the catalogue come from, as messages say it.
pub(crate) const CATALOGUE: &str = "the catalogue";

/// The values of an add-on, in order; later ones win.
pub(super) fn values(
    written: &AddonSettings,
    entry: Option<&Entry>,
    is_chart: bool,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Vec<AddonText> {
    if !is_chart {
        for (key, given) in
            [("values", written.values.is_some()), ("valuesFrom", written.values_from.is_some())]
        {
            if given {
                let message = format!("`{key}` is about a chart, and this add-on is made of manifests.");
                cx.error("addon", &at.key(key), message, "Change the manifests instead.");
            }
        }
        return Vec::new();
    }
    let mut values: Vec<AddonText> = Vec::new();
    if let Some(entry) = entry.filter(|entry| !entry.values.is_empty()) {
        values.push(AddonText { origin: CATALOGUE.to_owned(), text: entry.values.to_owned() });
    }
    let from_at = at.key("valuesFrom");
    for (i, ValuesFile(file)) in written.values_from.iter().flatten().enumerate() {
        values.extend(read(file, &from_at.index(i), cx));
    }
    let values_at = at.key("values");
    if let Some(own) = written.values.as_ref().filter(|own| !own.0.is_empty() && cx.given(&values_at)) {
        // JSON is YAML in which no text can be taken for a number or a truth value.
        if let Ok(text) = serde_json::to_string_pretty(&own.0) {
            values.push(AddonText { origin: values_at.to_string(), text });
        }
    }
    values
}

fn read(file: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<AddonText> {
    if !cx.given(at) {
        return None;
    }
    inside(at, cx)?;
    let path = FilePath::new(file);
    let secret_help = "Keep values that are secrets out of it, and name each under `secrets`.";
    if cx.files.is_encrypted(path) == Some(true) {
        cx.error("addon", at, format!("The file of values `{file}` is encrypted."), secret_help);
        return None;
    }
    let text = match cx.files.read(path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("The file of values `{file}` cannot be read: {error}.");
            cx.error("addon", at, message, "The path is relative to the file that names it.");
            return None;
        }
    };
    let (documents, problems) = yaml::parse(&text, 0);
    let start = Span { source: 0, start: 0, end: 0 };
    let line = |span: Span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
    let wrong = match (problems.into_iter().next(), documents.as_slice()) {
        (Some(problem), _) => {
            let message = format!(
                "The file of values `{file}` cannot be read: line {} {}.",
                line(problem.span),
                problem.unquoted
            );
            Some((problem.span, message, problem.help.unwrap_or_default().to_owned()))
        }
        (None, []) => None,
        (None, [one]) if one.is_null() => None,
        (None, [one]) if matches!(one.value, Value::Map(_)) => one.get("sops").map(|entry| {
            (
                entry.key_span,
                format!("The file of values `{file}` is encrypted with SOPS."),
                secret_help.to_owned(),
            )
        }),
        (None, [one]) => Some((
            first_word(one),
            format!("The file of values `{file}` is not a mapping."),
            "Write the values as keys, as in the chart's values.yaml.".to_owned(),
        )),
        (None, [_, second, ..]) => Some((
            first_word(second),
            format!("The file of values `{file}` has a second document in line {}.", line(second.span)),
            "Helm reads only the first: remove the `---`.".to_owned(),
        )),
    };
    if let Some((span, message, help)) = wrong {
        let span = Span { source: cx.sources.len(), ..if span.end > text.len() { start } else { span } };
        cx.findings.push(Finding::error("addon", span, message).help(help).unquoted());
        cx.sources.push(Source { name: file.to_owned(), text });
        return None;
    }
    Some(AddonText { origin: file.to_owned(), text })
}

/// Where the secret values are, by their paths in the values.
pub(super) fn secrets(
    written: &AddonSettings,
    is_chart: bool,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> BTreeMap<String, SecretRef> {
    let at = at.key("secrets");
    let mut found = BTreeMap::new();
    for (path, secret) in written.secrets.iter().flatten() {
        let secret_at = at.key(path);
        if !is_chart {
            let help = "Remove it: `secrets` puts values into a chart.";
            cx.error("addon", &secret_at, "This add-on is made of manifests, which have no values.", help);
            continue;
        }
        if !is_path(path) {
            let help =
                "Write its path in the values, for example `adminPassword` or `auth.clients[0].secret`.";
            let wrong = Err((format!("`{path}` is not the path of a value."), help.to_owned()));
            cx.take_key("addon", &secret_at, wrong);
            continue;
        }
        if let Some(place) = reference::secret(secret, &secret_at, cx) {
            found.insert(path.clone(), place);
        }
    }
    found
}

/// Whether a text is a path in values: keys with dots between them, each with positions in lists.
fn is_path(text: &str) -> bool {
    let part = |part: &str| {
        let (key, mut positions) = part.split_at(part.find('[').unwrap_or(part.len()));
        while let Some((position, rest)) = positions.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            if position.is_empty() || position.len() > 4 || !position.bytes().all(|b| b.is_ascii_digit()) {
                return false;
            }
            positions = rest;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/');
        !key.is_empty() && key.chars().all(plain) && positions.is_empty()
    };
    text.split('.').all(part)
}

/// What the values say of a path; the last that says something wins.
pub(crate) fn said(values: &[AddonText], path: &[&str]) -> Option<String> {
    values.iter().rev().find_map(|text| {
        let (documents, _) = yaml::parse(&text.text, 0);
        let root = documents.first()?;
        let node = path.iter().try_fold(root, |node: &Node, key| node.get(key).map(|entry| &entry.value))?;
        match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => Some(text.clone()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_values() {
        for good in ["a", "a.b-c", "config.clusters[0].token_secret", "a[0][12].b"] {
            assert!(is_path(good), "{good}");
        }
        for bad in ["", "a.", ".a", "a[]", "a[x]", "[0]", "a[0", "a b", "a[0]b"] {
            assert!(!is_path(bad), "{bad}");
        }
    }

    #[test]
    fn the_last_values_win() {
        let text = |text: &str| AddonText { origin: String::new(), text: text.to_owned() };
        let values = [text("a: {b: one}\nc: yes"), text("{\"a\": {\"b\": \"two\"}}"), text("a: {d: 1}")];
        assert_eq!(said(&values, &["a", "b"]).as_deref(), Some("two"));
        assert_eq!(said(&values, &["c"]).as_deref(), Some("yes"));
        assert_eq!(said(&values, &["a"]), None);
    }
}
