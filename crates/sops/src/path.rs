//! Where a value stands in a document: `proxmox.token`, `users[0].name`, `["a key"]["with.dots"]`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// An element of a list.
    Index(usize),
}

/// A path from the root of a document. Written with dots, or as `sops --extract` has it: `["a"]["b"][0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// This path and one key more.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    /// This path and one position more.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    /// The names of the keys; positions in lists have no part in them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
    }

    /// What a value's place is bound to: the names of the keys, each followed by a colon.
    pub(crate) fn bound(&self) -> String {
        let names: Vec<&str> = self.keys().collect();
        names.join(":") + ":"
    }
}

/// Whether a key can stand between dots.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '@'))
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if is_bare(key) => {
                    write!(f, "{}{key}", if number > 0 { "." } else { "" })?;
                }
                Step::Key(key) => {
                    // Control characters of a file must not reach a terminal.
                    let quoted: String = key.chars().flat_map(escaped).collect();
                    write!(f, "[\"{quoted}\"]")?;
                }
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

fn escaped(c: char) -> Vec<char> {
    match c {
        '"' | '\\' => vec!['\\', c],
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)).chars().collect(),
        c => vec![c],
    }
}

impl FromStr for Path {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::Path { text: text.to_owned() };
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (step, after) = bracketed(inner).ok_or_else(bad)?;
                steps.push(step);
                rest = after;
                continue;
            }
            let name = match (steps.is_empty(), rest.strip_prefix('.')) {
                (true, None) => rest,
                (false, Some(name)) => name,
                _ => return Err(bad()),
            };
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return Err(bad());
            }
            steps.push(Step::Key(name[..end].to_owned()));
            rest = &name[end..];
        }
        if steps.is_empty() {
            return Err(bad());
        }
        Ok(Self(steps))
    }
}

/// What stands in brackets, and what follows them.
fn bracketed(inner: &str) -> Option<(Step, &str)> {
    if !inner.starts_with('"') {
        let (index, after) = inner.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), after));
    }
    let mut end = 1;
    let bytes = inner.as_bytes();
    while *bytes.get(end)? != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    let key = serde_json::from_str(inner.get(..=end)?).ok()?;
    Some((Step::Key(key), inner.get(end + 1..)?.strip_prefix(']')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_are_written() {
        let key = |key: &str| Step::Key(key.to_owned());
        for (text, steps) in [
            ("token", vec![key("token")]),
            ("proxmox.token", vec![key("proxmox"), key("token")]),
            ("users[0].name", vec![key("users"), Step::Index(0), key("name")]),
            ("[\"a.b\"][\"c\\\"d\"].e", vec![key("a.b"), key("c\"d"), key("e")]),
            ("[\"\\u001b[31m\"]", vec![key("\u{1b}[31m")]),
        ] {
            let path: Path = text.parse().unwrap();
            assert_eq!(path.0, steps);
            assert_eq!(path.to_string().parse::<Path>().unwrap(), path);
            assert!(!path.to_string().contains('\u{1b}'));
        }
        assert_eq!("[\"a\"][\"b\"]".parse::<Path>().unwrap().to_string(), "a.b");
        for bad in ["", ".", "a.", ".a", "a..b", "a[", "a[x]", "[\"a]", "a[0", "[\"a\"]b"] {
            assert!(bad.parse::<Path>().is_err(), "{bad}");
        }
    }

    #[test]
    fn positions_have_no_part_in_what_a_value_is_bound_to() {
        assert_eq!("a.b[3].c".parse::<Path>().unwrap().bound(), "a:b:c:");
        assert_eq!(Path::default().bound(), ":");
    }
}
