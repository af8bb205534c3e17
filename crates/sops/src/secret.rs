//! Bytes that cannot be printed.

use std::fmt;

use zeroize::Zeroizing;

/// Secret bytes: wiped when dropped, redacted in `Debug`, without `Display`. [`Secret::expose`] is the one way to read them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes ownership of secret bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// The bytes themselves. Whoever calls this answers for where they go.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text, if they are text.
    pub fn expose_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::hash::Hash for Secret {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.expose().hash(state);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_it() {
        let shown = format!("{:?} {:#?}", Secret::new("canary"), Some(Secret::new("canary")));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
