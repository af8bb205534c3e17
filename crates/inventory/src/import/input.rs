//! What somebody's file says, read so that nothing is overlooked: each value is taken, or told of as not carried over.

use std::collections::BTreeSet;

use crate::check::looks_secret;
use crate::diagnostic::{Finding, Severity};
use crate::yaml::{Node, Span, Value};

/// Variables, and which of them were taken. Paths have slashes, as names may have dots.
pub(super) struct Input {
    root: Node,
    taken: BTreeSet<String>,
    /// What is not carried over, and why.
    pub(super) lost: Vec<Finding>,
}

impl Input {
    pub(super) fn new(root: Node) -> Self {
        Self { root, taken: BTreeSet::new(), lost: Vec::new() }
    }

    /// Whether there is something at a path.
    pub(super) fn has(&self, path: &str) -> bool {
        self.find(path).is_some_and(|(node, _)| !node.is_null())
    }

    fn find(&self, path: &str) -> Option<(&Node, Span)> {
        path.split('/').try_fold((&self.root, self.root.span), |(node, _), key| match &node.value {
            Value::Map(_) => node.get(key).map(|entry| (&entry.value, entry.key_span)),
            Value::Seq(items) => items.get(key.parse::<usize>().ok()?).map(|item| (item, item.span)),
            Value::Scalar { .. } => None,
        })
    }

    /// A single value as text.
    pub(super) fn text(&mut self, path: &str) -> Option<String> {
        let (node, _) = self.find(path)?;
        let text = match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => text.clone(),
            Value::Scalar { .. } => return None,
            _ => {
                self.lose(path, "a single value is expected there");
                return None;
            }
        };
        if text.contains("{{") {
            self.lose(path, "it is computed by Ansible; write the value itself");
            return None;
        }
        self.taken.insert(path.to_owned());
        Some(text).filter(|text| !text.is_empty())
    }

    /// A whole number.
    pub(super) fn number(&mut self, path: &str) -> Option<u64> {
        let text = self.text(path)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.taken.remove(path);
            self.lose(path, "a whole number is expected there");
        }
        number
    }

    /// Whether it is said to be so.
    pub(super) fn truth(&mut self, path: &str) -> Option<bool> {
        let text = self.text(path)?;
        match text.as_str() {
            "true" | "yes" => Some(true),
            "false" | "no" => Some(false),
            _ => {
                self.taken.remove(path);
                self.lose(path, "true or false is expected there");
                None
            }
        }
    }

    /// A list of single values; one alone is a list, too.
    pub(super) fn list(&mut self, path: &str) -> Vec<String> {
        match self.find(path) {
            Some((Node { value: Value::Seq(items), .. }, _)) => {
                let all = 0..items.len();
                all.filter_map(|at| self.text(&format!("{path}/{at}"))).collect()
            }
            _ => self.text(path).into_iter().collect(),
        }
    }

    /// The names in a mapping, or the numbers of a list.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        match self.find(path) {
            Some((Node { value: Value::Map(entries), .. }, _)) => {
                entries.iter().map(|entry| entry.key.clone()).collect()
            }
            Some((Node { value: Value::Seq(items), .. }, _)) => {
                (0..items.len()).map(|at| at.to_string()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Tells of what is at a path that it is not carried over; nothing if it is not there.
    pub(super) fn lose(&mut self, path: &str, why: &str) {
        let Some((node, span)) = self.find(path) else { return };
        if !node.is_null() && !self.taken.contains(path) {
            self.lost.push(lost(path, span, why));
        }
        self.taken.insert(path.to_owned());
    }

    /// Takes it back that a value was taken.
    pub(super) fn again(&mut self, path: &str) {
        self.taken.remove(path);
    }

    /// Tells of a value that was looked at that it is not carried over.
    pub(super) fn refuse(&mut self, path: &str, why: &str) {
        self.again(path);
        self.lose(path, why);
    }

    /// Tells of a secret, never what it is; gives whether there is one.
    pub(super) fn secret(&mut self, path: &str, instead: &str) -> bool {
        let there = self.has(path);
        self.lose(path, &format!("a secret does not stand in an inventory; {instead}"));
        there
    }

    /// Tells of everything that nobody took.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        let mut left = Vec::new();
        leaves(&self.root, "", self.root.span, &self.taken, &mut left);
        for (path, span) in left {
            let name = path.rsplit('/').next().unwrap_or(&path);
            let why = match looks_secret(name) {
                true => "a secret does not stand in an inventory; it is named there by a reference",
                false => "an inventory has no key for it",
            };
            self.lost.push(lost(&path, span, why));
        }
        self.lost
    }
}

fn lost(path: &str, span: Span, why: &str) -> Finding {
    let finding =
        Finding::error("not-carried", span, format!("`{}` is not carried over: {why}.", shown(path)));
    Finding { severity: Severity::Warning, ..finding }
}

/// A path as people write it.
pub(super) fn shown(path: &str) -> String {
    path.split('/').fold(String::new(), |shown, part| match part.parse::<usize>() {
        Ok(at) => format!("{shown}[{at}]"),
        Err(_) if shown.is_empty() => part.to_owned(),
        Err(_) => format!("{shown}.{part}"),
    })
}

fn leaves(node: &Node, path: &str, span: Span, taken: &BTreeSet<String>, left: &mut Vec<(String, Span)>) {
    if taken.contains(path) || node.is_null() {
        return;
    }
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}/{key}") };
    match &node.value {
        Value::Scalar { .. } => left.push((path.to_owned(), span)),
        Value::Map(entries) => {
            entries.iter().for_each(|e| leaves(&e.value, &below(&e.key), e.key_span, taken, left));
        }
        Value::Seq(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(at, i)| leaves(i, &below(&at.to_string()), i.span, taken, left));
        }
    }
}
