//! Texts that were given to be hidden, such as those of environment variables.

use serde::Deserialize;
use yaml_serde::Value;

use crate::secret::Secret;

/// A text in every form that it can take in a config: as it is, line by line, and as YAML reads it.
pub(super) fn forms(text: &str) -> Vec<Secret> {
    let mut forms = vec![text.trim().to_owned()];
    // Of several lines each may stand indented; the shortest ones are words that stand everywhere.
    forms.extend(text.lines().map(str::trim).filter(|line| line.len() >= 8).map(str::to_owned));
    for yaml in [text.to_owned(), format!("\"{text}\"")] {
        if let Some(Ok(value)) = yaml_serde::Deserializer::from_str(&yaml).next().map(Value::deserialize) {
            leaves(&value, &mut forms);
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms.into_iter().filter(|form| !form.is_empty()).map(Secret::new).collect()
}

fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Mapping(fields) => fields.values().for_each(|value| leaves(value, found)),
        Value::Sequence(items) => items.iter().for_each(|value| leaves(value, found)),
        Value::String(text) => found.push(text.trim().to_owned()),
        Value::Number(number) => found.push(number.to_string()),
        _ => {}
    }
}

/// Whether one of them stands in a text: anywhere, or as a word of its own if it is short.
pub(super) fn stands_in(given: &[Secret], text: &str) -> bool {
    given.iter().map(Secret::expose).any(|form| {
        let in_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        text.match_indices(form).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + form.len()..]);
            form.len() >= 4 || !(in_word(before.chars().next_back()) || in_word(after.chars().next()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_in_the_forms_that_it_takes() {
        let stands = |given: &str, text: &str| stands_in(&forms(given), text);
        assert!(stands("hunter2", "x-hunter2-y"));
        assert!(stands("7", "vlan 7") && stands("7", "7") && !stands("7", "1742"));
        assert!(stands("{user: me, password: hunter2}", "hunter2"));
        assert!(stands(r"one\nhunter two", "one\nhunter two"), "a quoted one");
        assert!(stands("first line\n  second line\n", "a: second line"));
        assert!(!stands("hunter2", "hunter"));
    }
}
