//! What is said of a config, such as a node's reason to refuse it, without the secrets that it quotes.

use yaml_serde::Value;

use super::{Marks, Redaction, scalar, words};
use crate::config::{MachineConfig, document::DocumentId};

/// Shorter ones are words that stand everywhere.
const SHORTEST: usize = 4;
/// The same of parts.
const SHORTEST_PART: usize = 6;

impl MachineConfig {
    /// A text about this config as it may be shown: with marks for what of the config may not be.
    pub fn quoted(&self, text: &str, marks: &Marks<'_>) -> String {
        let kinds: Vec<(String, &Value)> =
            self.documents.iter().map(|document| (DocumentId::of(document).kind, document)).collect();
        let redaction =
            Redaction::new(marks, kinds.iter().map(|(kind, document)| (kind.as_str(), *document)));
        let mut secrets: Vec<String> = marks.given.iter().map(|given| given.expose().to_owned()).collect();
        for (kind, document) in &kinds {
            hidden(document, &redaction.document(kind, document), &mut secrets);
        }
        secrets.retain(|secret| secret.len() >= SHORTEST);
        let otherwise: Vec<String> =
            secrets.iter().flat_map(|secret| [escaped(secret), cut(secret)]).flatten().collect();
        secrets.extend(otherwise);
        // One may be part of another.
        secrets.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        secrets.dedup();
        let shown =
            secrets.iter().fold(text.to_owned(), |shown, secret| match shown.contains(secret.as_str()) {
                true => shown.replace(secret.as_str(), &marks.secret(secret)),
                false => shown,
            });
        words::masked(&shown, &|secret| marks.secret(secret))
    }
}

/// A text as it stands between quotes, if it is another there.
fn escaped(text: &str) -> Option<String> {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            c if c.is_control() => escaped.extend(c.escape_default()),
            c => escaped.push(c),
        }
    }
    (escaped != text).then_some(escaped)
}

/// The beginning of a long text, by which a node's reader of YAML tells what it cannot read.
fn cut(text: &str) -> Option<String> {
    (text.len() > 10).then(|| format!("{}...", text.chars().take(7).collect::<String>()))
}

/// The texts of a document that are not shown as they are, in the forms in which they may be quoted.
fn hidden(value: &Value, shown: &Value, found: &mut Vec<String>) {
    match (value, shown) {
        (Value::Mapping(fields), Value::Mapping(shown)) => {
            for (field, shown) in fields.values().zip(shown.values()) {
                hidden(field, shown, found);
            }
        }
        (Value::Sequence(items), Value::Sequence(shown)) => {
            for (item, shown) in items.iter().zip(shown) {
                hidden(item, shown, found);
            }
        }
        (Value::Tagged(tagged), shown) => hidden(&tagged.value, shown, found),
        (value, shown) if value != shown => {
            let (text, shown) = (scalar(value), scalar(shown));
            // Certificates are marked for brevity.
            if shown.starts_with("[certificate ") {
                return;
            }
            // Parts of `NAME=value` and of URLs may be quoted alone.
            let parts = text.split(['=', '@', '?', '&', '#', ':', '/', '\n']).map(str::trim);
            let parts = parts.filter(|part| part.len() >= SHORTEST_PART && !shown.contains(part));
            found.extend(parts.map(str::to_owned));
            found.extend(text.lines().map(str::trim).map(str::to_owned));
            found.push(text.trim().to_owned());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn what_is_said_of_a_config_quotes_no_secret_of_it() {
        let config = "machine:\n  token: abcdef.0123456789\n  env: {PROXY: 'http://me:hunter2@proxy:3128'}\n  \
                      files: [{path: /var/x, content: \"first of all\\nsecond of all\"}]\n  sysctls: {a.b: '1742'}\n";
        let config = MachineConfig::from_yaml(config).unwrap();
        let key = Secret::new("key");
        let marks = Marks::new(&key).hiding(["given away", "pa\"ss\tword"]);
        let said = "1 error: token abcdef.0123456789 of /var/x: \"second of all\", given away as hunter2@, \
                    https://u:pw@host, a.b 1742";
        let said = format!("{said} `first o...`, \"pa\\\"ss\\tword\"");
        let shown = config.quoted(&said, &marks);
        for secret in ["0123456789", "second", "given away", "hunter2", "u:pw", "first o", "ss\\t"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        for plain in ["1 error: token [secret ", " of /var/x: ", "@host", "a.b 1742"] {
            assert!(shown.contains(plain), "{plain}: {shown}");
        }
    }
}
