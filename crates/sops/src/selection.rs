//! Which values of a file are encrypted.

use regex::bytes::Regex;

use crate::error::Error;
use crate::path::Path;

/// The suffix of keys that are left as they are where nothing else is said.
const USUAL: &str = "_unencrypted";

/// The rule of a file that says which of its values are encrypted. Keys are tested from the root down: what matches a mapping
/// holds for everything in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All but the values of keys that end so.
    UnencryptedSuffix(String),
    /// Only the values of keys that end so.
    EncryptedSuffix(String),
    /// All but the values of keys that match.
    UnencryptedRegex(String),
    /// Only the values of keys that match.
    EncryptedRegex(String),
    /// All but values with a comment before them that matches.
    UnencryptedCommentRegex(String),
    /// Only values with a comment before them that matches.
    EncryptedCommentRegex(String),
}

impl Default for Selection {
    fn default() -> Self {
        Self::UnencryptedSuffix(USUAL.to_owned())
    }
}

impl Selection {
    /// The names of the rules in metadata and in `.sops.yaml`.
    pub(crate) const NAMES: [&str; 6] = [
        "unencrypted_suffix",
        "encrypted_suffix",
        "unencrypted_regex",
        "encrypted_regex",
        "unencrypted_comment_regex",
        "encrypted_comment_regex",
    ];

    /// The rule of a name.
    pub(crate) fn named(name: &str, text: &str) -> Option<Self> {
        let text = text.to_owned();
        Some(match name {
            "unencrypted_suffix" => Self::UnencryptedSuffix(text),
            "encrypted_suffix" => Self::EncryptedSuffix(text),
            "unencrypted_regex" => Self::UnencryptedRegex(text),
            "encrypted_regex" => Self::EncryptedRegex(text),
            "unencrypted_comment_regex" => Self::UnencryptedCommentRegex(text),
            "encrypted_comment_regex" => Self::EncryptedCommentRegex(text),
            _ => return None,
        })
    }

    /// Its name and its text.
    pub(crate) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::UnencryptedSuffix(text) => ("unencrypted_suffix", text),
            Self::EncryptedSuffix(text) => ("encrypted_suffix", text),
            Self::UnencryptedRegex(text) => ("unencrypted_regex", text),
            Self::EncryptedRegex(text) => ("encrypted_regex", text),
            Self::UnencryptedCommentRegex(text) => ("unencrypted_comment_regex", text),
            Self::EncryptedCommentRegex(text) => ("encrypted_comment_regex", text),
        }
    }

    /// The rule, ready to be asked.
    pub(crate) fn compile(&self) -> Result<Selector, Error> {
        let (name, text) = self.parts();
        let regex = match self {
            Self::UnencryptedSuffix(_) | Self::EncryptedSuffix(_) => None,
            _ => Some(
                compile(text)
                    .map_err(|()| Error::Rule { why: format!("`{name}` is not a regular expression") })?,
            ),
        };
        Ok(Selector { rule: self.clone(), regex })
    }
}

/// A regular expression of Go, in which `\d`, `\w`, `\s` and `\b` are about ASCII only.
pub(crate) fn compile(pattern: &str) -> Result<Regex, ()> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('d') => out.push_str("[0-9]"),
            Some('D') => out.push_str("[^0-9]"),
            Some('w') => out.push_str("[0-9A-Za-z_]"),
            Some('W') => out.push_str("[^0-9A-Za-z_]"),
            Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
            Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
            Some('b') => out.push_str("(?-u:\\b)"),
            Some('B') => out.push_str("(?-u:\\B)"),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    Regex::new(&out).map_err(drop)
}

/// A rule that can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    rule: Selection,
    regex: Option<Regex>,
}

impl Selector {
    /// Whether the rule is about comments: what is encrypted is then told by the values themselves.
    pub(crate) fn by_comments(&self) -> bool {
        matches!(self.rule, Selection::UnencryptedCommentRegex(_) | Selection::EncryptedCommentRegex(_))
    }

    fn matches(&self, text: &str) -> bool {
        self.regex.as_ref().is_some_and(|regex| regex.is_match(text.as_bytes()))
    }

    /// Whether the value at a path is encrypted. `comments` are those in force, outermost first; of a comment, its own text is
    /// the last of them.
    pub(crate) fn encrypts(&self, path: &Path, comments: &[Vec<&str>], comment: bool) -> bool {
        let mut keys = path.keys();
        match &self.rule {
            Selection::UnencryptedSuffix(suffix) => !keys.any(|key| key.ends_with(suffix)),
            Selection::EncryptedSuffix(suffix) => keys.any(|key| key.ends_with(suffix)),
            Selection::UnencryptedRegex(_) => !keys.any(|key| self.matches(key)),
            Selection::EncryptedRegex(_) => keys.any(|key| self.matches(key)),
            Selection::UnencryptedCommentRegex(_) => {
                !comments.iter().flatten().any(|text| self.matches(text))
            }
            Selection::EncryptedCommentRegex(_) => {
                let all: usize = comments.iter().map(Vec::len).sum();
                // The comment that asks for encryption is not encrypted itself.
                let others = if comment { all.saturating_sub(1) } else { all };
                comments.iter().flatten().take(others).any(|text| self.matches(text))
            }
        }
    }

    /// Whether a comment, as it is encrypted, would be taken for one that asks for something.
    pub(crate) fn mistakes(&self, encrypted: &str) -> bool {
        matches!(self.rule, Selection::UnencryptedCommentRegex(_)) && self.matches(encrypted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_hold_for_everything_below() {
        let path = |text: &str| text.parse::<Path>().unwrap();
        for (name, text, encrypted, plain) in [
            ("unencrypted_suffix", "_plain", "a.b", "a_plain.b[0]"),
            ("encrypted_suffix", "_secret", "a_secret.b", "a.b"),
            ("unencrypted_regex", "^meta", "data.x", "metadata.name"),
            ("encrypted_regex", "^(data|stringData)$", "data.password", "kind"),
            ("encrypted_regex", "\\d$", "a1", "a\u{661}"),
        ] {
            let rule = Selection::named(name, text).unwrap();
            assert_eq!(rule.parts(), (name, text));
            let selector = rule.compile().unwrap();
            assert!(selector.encrypts(&path(encrypted), &[], false), "{name}");
            let odd = Path(vec![crate::path::Step::Key(plain.to_owned())]);
            let plain = plain.parse().unwrap_or(odd);
            assert!(!selector.encrypts(&plain, &[], false), "{name}");
        }
        assert!(Selection::EncryptedRegex("(".to_owned()).compile().is_err());
    }

    #[test]
    fn rules_about_comments_hold_for_what_follows() {
        let path = Path::default();
        let only = Selection::EncryptedCommentRegex("sops:enc".to_owned()).compile().unwrap();
        let stack = |texts: &[&'static str]| vec![vec![], texts.to_vec()];
        assert!(only.encrypts(&path, &stack(&[" sops:enc"]), false));
        assert!(!only.encrypts(&path, &stack(&[" sops:enc"]), true));
        assert!(only.encrypts(&path, &stack(&[" sops:enc", " more"]), true));
        assert!(!only.encrypts(&path, &stack(&[" other"]), false));
        let but = Selection::UnencryptedCommentRegex("plain".to_owned()).compile().unwrap();
        assert!(!but.encrypts(&path, &[vec!["plain"], vec![]], false));
        assert!(but.encrypts(&path, &stack(&[]), false) && but.mistakes("plain") && !but.mistakes("ENC[x]"));
    }
}
