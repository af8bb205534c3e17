//! Text that must never be shown: redacted in `Debug`, wiped from memory when dropped.

use std::fmt;

use zeroize::Zeroizing;

/// A secret text. It has no `Display` and its `Debug` shows nothing; [`Secret::expose`] is the one way to read it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes ownership of a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
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
