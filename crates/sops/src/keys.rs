//! age identities, and the data key as it is encrypted for recipients.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::str::FromStr as _;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::x25519::{Identity, Recipient};
use age::{DecryptError, Decryptor, Encryptor};
use zeroize::Zeroizing;

use crate::error::Error;

/// How identities begin that this library can use.
const IDENTITY: &str = "AGE-SECRET-KEY-1";

/// age identities: the keys that open files. `Debug` shows their public halves only.
#[derive(Clone, Default)]
pub struct Identities(Vec<Identity>);

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.recipients()).finish()
    }
}

impl Identities {
    /// Identities in a text, one a line, between comments and empty lines. Those of plugins and post-quantum ones are passed
    /// over: they may stand beside others, but cannot be used here.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut identities = Vec::new();
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if text.is_empty() || text.starts_with('#') || is_other(text) {
                continue;
            }
            if !text.starts_with(IDENTITY) {
                return Err(Error::Identity { line, why: "is not an age identity (AGE-SECRET-KEY-1…)" });
            }
            let why = "is not a valid age identity";
            identities.push(Identity::from_str(text).map_err(|_| Error::Identity { line, why })?);
        }
        Ok(Self(identities))
    }

    /// Adds those of others.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their public halves.
    pub fn recipients(&self) -> Vec<String> {
        self.0.iter().map(|identity| identity.to_public().to_string()).collect()
    }

    /// Decrypts what is encrypted for one recipient; none if no identity is for it.
    pub(crate) fn open(&self, recipient: &str, armored: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let damaged = |source: Box<dyn std::error::Error + Send + Sync>| Error::DataKey {
            recipient: recipient.to_owned(),
            source,
        };
        let opened = Decryptor::new(ArmoredReader::new(armored.as_bytes()))
            .and_then(|file| file.decrypt(self.0.iter().map(|identity| identity as &dyn age::Identity)));
        let mut reader = match opened {
            Ok(reader) => reader,
            Err(DecryptError::NoMatchingKeys) => return Ok(None),
            Err(error) => return Err(damaged(Box::new(error))),
        };
        let mut plain = Zeroizing::new(Vec::with_capacity(64));
        reader.read_to_end(&mut plain).map_err(|error| damaged(Box::new(error)))?;
        Ok(Some(plain))
    }
}

fn is_other(text: &str) -> bool {
    text.starts_with("AGE-PLUGIN-") || text.starts_with("AGE-SECRET-KEY-PQ-1")
}

/// Encrypts for one recipient, as an armored age file.
pub(crate) fn encrypt_for(recipient: &str, plain: &[u8]) -> Result<String, Error> {
    let failed = |source: std::io::Error| Error::Encrypt { source: Box::new(source) };
    let recipient = parse_recipient(recipient)?;
    let encryptor = Encryptor::with_recipients(std::iter::once(&recipient as &dyn age::Recipient))
        .map_err(|source| Error::Encrypt { source: Box::new(source) })?;
    let mut sealed = Vec::new();
    let armor = ArmoredWriter::wrap_output(&mut sealed, Format::AsciiArmor).map_err(failed)?;
    let mut writer = encryptor.wrap_output(armor).map_err(failed)?;
    writer.write_all(plain).map_err(failed)?;
    writer.finish().and_then(ArmoredWriter::finish).map_err(failed)?;
    String::from_utf8(sealed).map_err(|source| Error::Encrypt { source: Box::new(source) })
}

/// The recipient of a text, or why there can be none.
pub(crate) fn parse_recipient(text: &str) -> Result<Recipient, Error> {
    let refused =
        |why: &str| Error::Recipient { recipient: text.escape_debug().to_string(), why: why.to_owned() };
    if text.starts_with("ssh-") {
        return Err(refused("SSH keys are not supported; use an age key (age1…)"));
    }
    if text.starts_with("age1pq1") {
        return Err(refused("post-quantum keys are not supported; use an X25519 key (age1…)"));
    }
    if text.starts_with("age1") && text.matches('1').count() > 1 {
        return Err(refused("keys of age plugins are not supported; use an X25519 key (age1…)"));
    }
    Recipient::from_str(text).map_err(&refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_told_by_their_lines_and_never_shown() {
        use age::secrecy::ExposeSecret as _;
        let key = Identity::generate();
        let text = format!("# created\n\n{}\nAGE-PLUGIN-YUBIKEY-1QQ\n", key.to_string().expose_secret());
        let identities = Identities::parse(&text).unwrap();
        assert_eq!(identities.recipients(), [key.to_public().to_string()]);
        assert!(!format!("{identities:?}").contains(IDENTITY));
        for bad in ["\nhunter2", "\nAGE-SECRET-KEY-1HUNTER2"] {
            let said = Identities::parse(bad).unwrap_err().to_string();
            assert!(
                said.starts_with("line 2 of the age identities is not") && !said.contains("unter"),
                "{said}"
            );
        }
        assert!(Identities::parse("# nothing\n").unwrap().is_empty());
    }

    #[test]
    fn who_cannot_be_encrypted_for_is_told_why() {
        for (recipient, why) in [
            ("ssh-ed25519 AAAA", "SSH keys are not supported"),
            ("age1pq1xyz", "post-quantum"),
            ("age1yubikey1qxyz", "plugins"),
            ("bob", "invalid"),
        ] {
            let said = encrypt_for(recipient, b"x").unwrap_err().to_string();
            assert!(
                said.starts_with(&format!("cannot encrypt for `{recipient}`")) && said.contains(why),
                "{said}"
            );
        }
    }
}
