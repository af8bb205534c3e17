//! The key that encrypts what is kept: an age identity in a file of its own, away from what it protects.
//!
//! What is encrypted is an armored age file (<https://age-encryption.org/v1>), so that `age -d -i key.txt` opens it
//! without this program.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, OnceLock};

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::secrecy::ExposeSecret as _;
use age::x25519::{Identity, Recipient};
use age::{DecryptError, Decryptor, Encryptor};
use zeroize::Zeroizing;

use crate::Error;
use crate::files;
use crate::secret::SecretBytes;

/// What the names of encrypted files end with.
pub const ENCRYPTED: &str = ".age";

/// How age files begin: armored, as ours are, and binary.
const BEGINNINGS: [&[u8]; 2] = [b"-----BEGIN AGE ENCRYPTED FILE-----", b"age-encryption.org/v1"];

/// How an identity begins, in a key file and in a variable.
const IDENTITY: &str = "AGE-SECRET-KEY-1";

/// Asks for a text with keys.
type Ask = Arc<dyn Fn() -> Result<Zeroizing<String>, String> + Send + Sync>;
/// What came of asking.
type Answer = Arc<OnceLock<Result<Vec<Identity>, String>>>;

/// Where keys are looked for. Reads nothing until a key is needed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keyring(Source);

#[derive(Clone)]
enum Source {
    /// A file, which is made when something is encrypted for the first time.
    File(PathBuf),
    /// Keys that are asked for when one is first needed, and what their place is called in messages.
    Asked { ask: Ask, answer: Answer, name: String },
    /// Keys that somebody handed over, or what is wrong with them, and what they are called in messages.
    Given { keys: Result<Vec<Identity>, String>, name: String },
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
            Self::Given { name, .. } | Self::Asked { name, .. } => f.write_str(name),
        }
    }
}

impl Keyring {
    /// The keys in a file: the first one encrypts, each of them decrypts.
    pub fn in_file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    /// Keys in a text, such as a variable called `name`. One without any is an error for who needs a key.
    pub fn given(text: &str, name: impl Into<String>) -> Self {
        Self(Source::Given { keys: identities(text), name: name.into() })
    }

    /// Keys in a text that is asked for when one is first needed, and once; or a sentence about why there is none.
    pub fn asked(
        ask: impl Fn() -> Result<Zeroizing<String>, String> + Send + Sync + 'static,
        name: impl Into<String>,
    ) -> Self {
        Self(Source::Asked { ask: Arc::new(ask), answer: Answer::default(), name: name.into() })
    }

    /// Where the key that encrypts is, for messages.
    pub fn place(&self) -> String {
        self.0.to_string()
    }

    /// Makes a key where there is none. Whether it did.
    pub fn make(&self) -> Result<bool, Error> {
        let Source::File(path) = &self.0 else { return Ok(false) };
        if files::exists(path)? {
            return Ok(false);
        }
        if let Some(parent) = path.parent() {
            files::make_private_folder(parent)?;
        }
        // Two clusters may be made at the same time, and the key of neither may be lost.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let turn = path.with_file_name(format!(".{name}.lock"));
        let _turn = {
            let file = files::open_or_make(&turn)?;
            file.lock().map_err(files::io("lock", &turn))?;
            file
        };
        if files::exists(path)? {
            return Ok(false);
        }
        let key = Identity::generate();
        let text = SecretBytes::new(
            format!("# public key: {}\n{}\n", key.to_public(), key.to_string().expose_secret()).into_bytes(),
        );
        files::write_new(path, text.expose())?;
        Ok(true)
    }

    /// The same keys for SOPS files; none where there is no key yet.
    pub fn identities(&self) -> Result<daedal_sops::Identities, Error> {
        let keys = match self.keys() {
            Err(Error::NoKey { .. }) => return Ok(daedal_sops::Identities::default()),
            keys => keys?,
        };
        let mut all = daedal_sops::Identities::default();
        for key in keys {
            let read = daedal_sops::Identities::parse(key.to_string().expose_secret());
            all.extend(read.map_err(|why| Error::BadKey { place: self.place(), why: why.to_string() })?);
        }
        Ok(all)
    }

    /// The key's file, where others than its owner can read it.
    pub fn exposed(&self) -> Option<&Path> {
        use std::os::unix::fs::PermissionsExt as _;
        let Source::File(path) = &self.0 else { return None };
        let mode = std::fs::metadata(path).ok()?.permissions().mode();
        (mode & 0o077 != 0).then_some(path)
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
        self.keys()?.first().map(Identity::to_public).ok_or_else(|| self.missing(None))
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

    /// Replaces a file outside of any store by the same, encrypted for the first key.
    pub fn replace(&self, path: &Path, plain: &SecretBytes) -> Result<(), Error> {
        files::write_private(path, &self.encrypt_for_first(path, plain)?)
    }

    /// Encrypts what was in the file `path` for the first key, and makes sure that this key alone opens it.
    pub(crate) fn encrypt_for_first(&self, path: &Path, plain: &SecretBytes) -> Result<Vec<u8>, Error> {
        let sealed = self.encrypt(plain.expose())?;
        let first =
            Self(Source::Given { keys: Ok(self.keys()?.into_iter().take(1).collect()), name: self.place() });
        match first.decrypt(path, &sealed)? == *plain {
            true => Ok(sealed),
            false => Err(Error::ReadBack { path: path.to_owned() }),
        }
    }

    /// What was in the file `path`: decrypted if it is encrypted, else as it is.
    pub fn open(&self, path: &Path, bytes: Vec<u8>) -> Result<SecretBytes, Error> {
        match Self::is_encrypted(&bytes) {
            true => self.decrypt(path, &bytes),
            false => Ok(SecretBytes::new(bytes)),
        }
    }

    /// Decrypts what was in the file `path`.
    pub fn decrypt(&self, path: &Path, sealed: &[u8]) -> Result<SecretBytes, Error> {
        let keys = self.keys().map_err(|error| match error {
            Error::NoKey { .. } => self.missing(Some(path)),
            error => error,
        })?;
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
        // Large enough from the start: a vector that grows leaves copies behind.
        let mut plain = Vec::with_capacity(sealed.len());
        let read = reader.read_to_end(&mut plain);
        let plain = SecretBytes::new(plain);
        match read {
            Ok(_) => Ok(plain),
            Err(error) => Err(damaged(error.to_string())),
        }
    }

    fn keys(&self) -> Result<Vec<Identity>, Error> {
        match &self.0 {
            Source::Given { keys: Ok(keys), .. } => Ok(keys.clone()),
            Source::Given { keys: Err(why), name } => {
                Err(Error::BadKey { place: name.clone(), why: why.clone() })
            }
            Source::Asked { ask, answer, name } => {
                let keys = answer.get_or_init(|| ask().and_then(|text| identities(&text)));
                keys.clone().map_err(|why| Error::BadKey { place: name.clone(), why })
            }
            Source::File(path) => read(path)?.ok_or_else(|| self.missing(None)),
        }
    }

    fn missing(&self, file: Option<&Path>) -> Error {
        Error::NoKey { place: self.place(), file: file.map(Path::to_owned) }
    }
}

/// The keys in a file; none if it is not there.
fn read(path: &Path) -> Result<Option<Vec<Identity>>, Error> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => SecretBytes::new(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::ReadKey { path: path.to_owned(), source }),
    };
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
        assert!(files::is_private(&path));
        let sealed = ring.encrypt(b"token: s3cret\n").unwrap();
        assert!(Keyring::is_encrypted(&sealed));
        assert!(!sealed.windows(6).any(|window| window == b"s3cret"));
        assert_eq!(ring.decrypt(&path, &sealed).unwrap().expose(), b"token: s3cret\n");
        // The same in a variable.
        let given = Keyring::given(std::str::from_utf8(&first).unwrap(), "KEY");
        assert!(!given.make().unwrap());
        assert_eq!(given.decrypt(&path, &sealed).unwrap().expose(), b"token: s3cret\n");
        assert!(!format!("{ring:?} {given:?}").contains(IDENTITY));
        assert_eq!(ring.exposed(), None);
        let opened_up = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(&path, opened_up).unwrap();
        assert_eq!(ring.exposed(), Some(path.as_path()));
    }

    #[test]
    fn a_key_that_is_asked_for_is_asked_for_once_and_only_if_it_is_needed() {
        let text = Identity::generate().to_string().expose_secret().to_owned();
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = asked.clone();
        let ask = move || {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok(Zeroizing::new(text.clone()))
        };
        let ring = Keyring::asked(ask, "PLACE");
        assert_eq!((ring.place().as_str(), ring.exposed(), ring.make().unwrap()), ("PLACE", None, false));
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 0);
        let sealed = ring.encrypt(b"x").unwrap();
        for ring in [ring.clone(), ring] {
            assert_eq!(ring.decrypt(Path::new("x"), &sealed).unwrap().expose(), b"x");
        }
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
        let none = Keyring::asked(|| Err("it is not there".to_owned()), "PLACE");
        let said = none.encrypt(b"x").unwrap_err().to_string();
        assert_eq!(said, "PLACE holds no key: it is not there");
    }

    #[test]
    fn of_many_who_make_a_key_at_once_one_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/key.txt");
        let makers: Vec<_> = (0..8)
            .map(|_| {
                let ring = Keyring::in_file(&path);
                std::thread::spawn(move || (ring.make().unwrap(), ring.public().unwrap()))
            })
            .collect();
        let made: Vec<_> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
        assert_eq!(made.iter().filter(|(made, _)| *made).count(), 1);
        assert!(made.iter().all(|(_, public)| *public == made[0].1), "{made:?}");
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
        assert!(matches!(Keyring::given("hunter2", "KEY").encrypt(b"x"), Err(Error::BadKey { .. })));
        assert!(matches!(Keyring::in_file(folder.path()).encrypt(b"x"), Err(Error::ReadKey { .. })));
        for (text, why) in cases {
            std::fs::write(&path, text).unwrap();
            let error = Keyring::in_file(&path).encrypt(b"x").unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, Error::BadKey { .. }) && said.contains(why), "{said}");
            assert!(!said.to_lowercase().contains("hunter2"), "{said}");
        }
    }
}
