//! The key that encrypts what is kept: an age identity in a file of its own, away from what it protects.
//!
//! What is encrypted is an armored age file (<https://age-encryption.org/v1>), so that `age -d -i key.txt` opens it
//! without this program.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::secrecy::ExposeSecret as _;
use age::x25519::{Identity, Recipient};
use age::{DecryptError, Decryptor, Encryptor};

use crate::Error;
use crate::folder;
use crate::secret::SecretBytes;

/// How age files begin: armored, as ours are, and binary.
const BEGINNINGS: [&[u8]; 2] = [b"-----BEGIN AGE ENCRYPTED FILE-----", b"age-encryption.org/v1"];

/// How an identity begins, in a key file and in a variable.
const IDENTITY: &str = "AGE-SECRET-KEY-1";

/// Where keys are looked for. Reads nothing until a key is needed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keyring(Source);

#[derive(Clone)]
enum Source {
    /// A file, which is made when something is encrypted for the first time.
    File(PathBuf),
    /// Keys that somebody handed over, and what they are called in messages.
    Given { keys: Vec<Identity>, name: String },
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Given { name, .. } => f.write_str(name),
        }
    }
}

impl Keyring {
    /// The keys in a file: the first one encrypts, each of them decrypts.
    pub fn in_file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    /// Keys in a text, such as a variable called `name`.
    pub fn given(text: &str, name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        match identities(text) {
            Ok(keys) => Ok(Self(Source::Given { keys, name })),
            Err(why) => Err(Error::BadKey { place: name, why }),
        }
    }

    /// Where the key that encrypts is, for messages.
    pub fn place(&self) -> String {
        self.0.to_string()
    }

    /// Makes a key where there is none. Whether it did.
    pub fn make(&self) -> Result<bool, Error> {
        let Source::File(path) = &self.0 else { return Ok(false) };
        if folder::read(path)?.is_some() {
            return Ok(false);
        }
        if let Some(parent) = path.parent() {
            folder::make_private_folder(parent)?;
        }
        let key = Identity::generate();
        let text = SecretBytes::new(
            format!("# public key: {}\n{}\n", key.to_public(), key.to_string().expose_secret()).into_bytes(),
        );
        match folder::write_new_among_others(path, text.expose()) {
            Ok(()) => Ok(true),
            // Somebody else just made one.
            Err(Error::SecretsExist { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether these bytes are an age file, by how they begin.
    pub fn is_encrypted(bytes: &[u8]) -> bool {
        BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning))
    }

    /// The public half of the key that encrypts.
    pub fn public(&self) -> Result<String, Error> {
        Ok(self.recipient()?.to_string())
    }

    fn recipient(&self) -> Result<Recipient, Error> {
        self.keys()?.first().map(Identity::to_public).ok_or_else(|| self.missing())
    }

    /// Encrypts for the first key.
    pub fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = |source: std::io::Error| Error::Encrypt { source: Box::new(source) };
        let recipient = self.recipient()?;
        let encryptor = Encryptor::with_recipients(std::iter::once(&recipient as &dyn age::Recipient))
            .map_err(|source| Error::Encrypt { source: Box::new(source) })?;
        let mut sealed = Vec::new();
        let armor = ArmoredWriter::wrap_output(&mut sealed, Format::AsciiArmor).map_err(failed)?;
        let mut writer = encryptor.wrap_output(armor).map_err(failed)?;
        writer.write_all(plain).map_err(failed)?;
        writer.finish().and_then(ArmoredWriter::finish).map_err(failed)?;
        Ok(sealed)
    }

    /// Decrypts what was in the file `path`.
    pub fn decrypt(&self, path: &Path, sealed: &[u8]) -> Result<SecretBytes, Error> {
        let keys = self.keys()?;
        let damaged = |why: String| Error::Damaged { path: path.to_owned(), why };
        let opened = Decryptor::new(ArmoredReader::new(sealed))
            .and_then(|file| file.decrypt(keys.iter().map(|key| key as &dyn age::Identity)));
        let mut reader = match opened {
            Ok(reader) => reader,
            Err(DecryptError::NoMatchingKeys) => {
                let keys = keys.iter().map(|key| key.to_public().to_string()).collect();
                return Err(Error::OtherKey { path: path.to_owned(), place: self.place(), keys });
            }
            Err(error) => return Err(damaged(error.to_string())),
        };
        let mut plain = Vec::new();
        let read = reader.read_to_end(&mut plain);
        let plain = SecretBytes::new(plain);
        match read {
            Ok(_) => Ok(plain),
            Err(error) => Err(damaged(error.to_string())),
        }
    }

    fn keys(&self) -> Result<Vec<Identity>, Error> {
        match &self.0 {
            Source::Given { keys, .. } => Ok(keys.clone()),
            Source::File(path) => read(path)?.ok_or_else(|| self.missing()),
        }
    }

    fn missing(&self) -> Error {
        Error::NoKey { place: self.place() }
    }
}

/// The keys in a file; none if it is not there.
fn read(path: &Path) -> Result<Option<Vec<Identity>>, Error> {
    let Some(bytes) = folder::read(path)?.map(SecretBytes::new) else { return Ok(None) };
    let bad = |why: String| Error::BadKey { place: path.display().to_string(), why };
    let text = std::str::from_utf8(bytes.expose()).map_err(|_| bad("it is not text".to_owned()))?;
    identities(text).map(Some).map_err(bad)
}

/// The keys in a text, one a line between comments and empty lines. What is wrong with it is said without showing it.
fn identities(text: &str) -> Result<Vec<Identity>, String> {
    let mut keys = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with(IDENTITY) {
            return Err(format!("line {number} is no age identity: one begins with {IDENTITY}"));
        }
        keys.push(
            Identity::from_str(line).map_err(|why| format!("line {number} is no age identity: {why}"))?,
        );
    }
    match keys.is_empty() {
        true => Err("there is no age identity in it".to_owned()),
        false => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(folder: &Path, name: &str) -> Keyring {
        let ring = Keyring::in_file(folder.join(name));
        ring.make().unwrap();
        ring
    }

    #[test]
    fn a_key_is_made_once_private_and_opens_what_it_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/key.txt");
        let ring = Keyring::in_file(&path);
        assert!(matches!(ring.encrypt(b"x"), Err(Error::NoKey { .. })));
        assert!(ring.make().unwrap());
        let first = std::fs::read(&path).unwrap();
        assert!(!ring.make().unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), first);
        assert!(folder::is_private(&path));
        let sealed = ring.encrypt(b"token: s3cret\n").unwrap();
        assert!(Keyring::is_encrypted(&sealed));
        assert!(!sealed.windows(6).any(|window| window == b"s3cret"));
        assert_eq!(ring.decrypt(&path, &sealed).unwrap().expose(), b"token: s3cret\n");
        // The same in a variable.
        let given = Keyring::given(std::str::from_utf8(&first).unwrap(), "KEY").unwrap();
        assert!(!given.make().unwrap());
        assert_eq!(given.decrypt(&path, &sealed).unwrap().expose(), b"token: s3cret\n");
        assert!(!format!("{ring:?} {given:?}").contains(IDENTITY));
    }

    #[test]
    fn another_key_is_told_by_its_public_half() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, other) = (ring(folder.path(), "mine"), ring(folder.path(), "other"));
        let sealed = mine.encrypt(b"x").unwrap();
        let error = other.decrypt(Path::new("secrets.yaml.age"), &sealed).unwrap_err();
        let Error::OtherKey { keys, .. } = &error else { panic!("{error:?}") };
        assert!(keys[0].starts_with("age1") && error.to_string().contains(&keys[0]), "{error}");
        // With both in one file, either opens, and the first one closes.
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join("both"), text("other") + "\n" + &text("mine")).unwrap();
        let both = Keyring::in_file(folder.path().join("both"));
        assert_eq!(both.decrypt(Path::new("x"), &sealed).unwrap().expose(), b"x");
        let sealed = both.encrypt(b"y").unwrap();
        assert_eq!(other.decrypt(Path::new("y"), &sealed).unwrap().expose(), b"y");
    }

    #[test]
    fn a_bad_key_is_told_by_its_line_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.txt");
        let cases = [
            ("", "there is no age identity in it"),
            ("# only words\n", "there is no age identity in it"),
            ("\nhunter2\n", "line 2 is no age identity: one begins with AGE-SECRET-KEY-1"),
            ("AGE-SECRET-KEY-1HUNTER2\n", "line 1 is no age identity: "),
        ];
        for (text, why) in cases {
            std::fs::write(&path, text).unwrap();
            let error = Keyring::in_file(&path).encrypt(b"x").unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, Error::BadKey { .. }) && said.contains(why), "{said}");
            assert!(!said.to_lowercase().contains("hunter2"), "{said}");
        }
    }
}
