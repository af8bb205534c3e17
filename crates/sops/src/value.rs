//! Values as the format has them: a type, and the plain bytes that are encrypted and authenticated.

use crate::secret::Secret;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing; never encrypted.
    Null,
    /// A text.
    Str,
    /// A whole number.
    Int,
    /// A number with a fraction, or any number of JSON.
    Float,
    /// A truth value.
    Bool,
    /// A time.
    Time,
    /// Bytes; only found in old files.
    Bytes,
    /// A comment that stands in a list like a value.
    Comment,
}

impl Kind {
    /// Its name in an encrypted value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Str => "str",
            Self::Int => "int",
            Self::Float => "float",
            Self::Bool => "bool",
            Self::Time => "time",
            Self::Bytes => "bytes",
            Self::Comment => "comment",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        let kinds = [Self::Str, Self::Int, Self::Float, Self::Bool, Self::Time, Self::Bytes, Self::Comment];
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}

/// A value: its type, and its text in the form that is encrypted: `True`, `1.5`, `2026-11-17T00:00:00Z`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The type.
    pub kind: Kind,
    /// The text, or the bytes of a binary file.
    pub plain: Secret,
}

impl Value {
    /// A value of a type with its text.
    pub(crate) fn new(kind: Kind, plain: impl Into<Vec<u8>>) -> Self {
        Self { kind, plain: Secret::new(plain) }
    }

    /// A text.
    pub fn text(text: &str) -> Self {
        Self::new(Kind::Str, text)
    }

    /// Whether it is left as it is in every place: nothing, and the empty text.
    pub(crate) fn is_void(&self) -> bool {
        self.kind == Kind::Null || self.plain.is_empty()
    }

    /// The same as a person would write it: truth values in lower case, everything else as it is.
    pub fn as_written(&self) -> Secret {
        match (self.kind, self.plain.expose()) {
            (Kind::Bool, b"True") => Secret::new("true"),
            (Kind::Bool, _) => Secret::new("false"),
            _ => self.plain.clone(),
        }
    }
}
