//! The words of Talos itself. Everything else in a patch may be a secret in the wrong place, also where a key should be.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::{Field, kinds, misfits::distance};

/// Words of documents and of JSON patches that no kind lists as fields.
const FURTHER: [&str; 18] = [
    "$patch",
    "delete",
    "apiVersion",
    "kind",
    "v1alpha1",
    "crt",
    "key",
    "op",
    "path",
    "from",
    "value",
    "add",
    "remove",
    "replace",
    "move",
    "copy",
    "test",
    "-",
];

fn words() -> &'static HashSet<&'static str> {
    fn collect(field: &Field, words: &mut HashSet<&'static str>) {
        for (key, below) in field.children() {
            words.insert(key);
            collect(below, words);
        }
    }
    static WORDS: OnceLock<HashSet<&'static str>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let mut words = HashSet::from(FURTHER);
        for (kind, field) in kinds() {
            words.insert(kind);
            collect(field, &mut words);
        }
        words
    })
}

/// Whether Talos has a key or a kind of this name.
pub fn is_word(word: &str) -> bool {
    words().contains(word)
}

/// A word as it may be shown: one of Talos's, or one that differs by a slip of the pen.
pub(crate) fn shown(word: &str) -> &str {
    let near = |known: &&str| {
        let allowed = (word.len() / 3).min(2);
        known.len().abs_diff(word.len()) <= allowed && distance(word, known) <= allowed
    };
    let may_be_seen = (word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit()))
        || is_word(word)
        || (word.len() <= 40 && words().iter().any(near));
    if may_be_seen { word } else { "***" }
}

/// A dotted path as it may be shown.
pub(crate) fn shown_path(path: &str) -> String {
    let part = |part: &str| match part.split_once('[') {
        // Of an element of a list the number is shown.
        Some((name, rest)) if rest.ends_with(']') => {
            let mut shown = if name.is_empty() { String::new() } else { self::shown(name).to_owned() };
            for index in rest.trim_end_matches(']').split("][") {
                shown.push('[');
                shown.push_str(if index.is_empty() { "" } else { self::shown(index) });
                shown.push(']');
            }
            shown
        }
        _ => self::shown(part).to_owned(),
    };
    path.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_talos_are_shown() {
        for (path, seen) in [
            ("machine.network.interfaces[1].mtu", "machine.network.interfaces[1].mtu"),
            ("machine.kubelt", "machine.kubelt"),
            ("Password=hunter2;Host=db", "***"),
            ("machine.sysctls.net.core.canary", "machine.sysctls.***.***.***"),
            ("ghp_0123456789abcdef[0][canary]", "***[0][***]"),
            ("x[]", "***[]"),
        ] {
            assert_eq!(shown_path(path), seen);
        }
        assert!(is_word("UserVolumeConfig") && is_word("certSANs") && !is_word("hunter2"));
    }
}
