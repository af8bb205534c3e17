//! The secrets bundle in a SOPS file, which may hold other values beside it.
//!
//! The entry type is [`SopsFile`]. A file is read back before it gets its name, and what is written opens with the keys at hand.
//! What is not of the bundle stays as it is.

use std::fmt;
use std::path::{Path, PathBuf};

use daedal_sops::{CONFIG, Config, Encrypted, Format, Identities, Opened, Rule, Step};
use serde_json::{Map, Value as Json};

use crate::Error;
use crate::files;
use crate::keyring::Keyring;
use crate::remote::Now;
use crate::secret::SecretBytes;

/// The keys at the top of a bundle, as talosctl writes it.
const PARTS: [&str; 4] = ["cluster", "secrets", "trustdinfo", "certs"];
/// What the comment begins with that says whose bundle it is.
const OWNER: &str = "# daedal: secrets bundle of cluster ";
/// Keys of a bundle whose values are no secrets: certificates, and the cluster's id.
const PUBLIC: [&str; 2] = ["crt", "id"];
/// Shorter texts may be anywhere by chance.
const SHORTEST: usize = 8;
/// A bundle in which nothing is secret, to try rules with.
const PROBE: &str = "\
cluster: {id: probe, secret: probe of cluster}
secrets: {bootstraptoken: probe of bootstrap, secretboxencryptionsecret: probe of secretbox}
trustdinfo: {token: probe of trustd}
certs: {os: {crt: probe, key: probe of os}, k8sserviceaccount: {key: probe of account}}
";
/// How far up `.sops.yaml` is looked for, as sops does.
const FOLDERS: usize = 100;

/// Where a bundle is kept in a SOPS file, and the age keys that open it.
#[derive(Clone)]
pub struct SopsFile {
    path: PathBuf,
    identities: Identities,
    now: Now,
}

impl fmt::Debug for SopsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SopsFile").field(&self.path).finish()
    }
}

/// A file that was opened.
struct Found {
    bytes: Vec<u8>,
    opened: Opened,
}

impl Found {
    fn plain(&self) -> &str {
        self.opened.plain().expose_text().unwrap_or_default()
    }
}

impl SopsFile {
    /// The file at a path, opened with these keys.
    pub fn new(path: impl Into<PathBuf>, identities: Identities, now: Now) -> Self {
        Self { path: path.into(), identities, now }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bundle of a cluster; none if there is no file, or nothing of a bundle in it.
    pub(crate) fn read(&self, cluster: &str) -> Result<Option<SecretBytes>, Error> {
        let Some(found) = self.find()? else { return Ok(None) };
        let parts = parts(&found.opened);
        if parts.is_empty() {
            return Ok(None);
        }
        let mut owners = found.plain().lines().filter_map(|line| line.trim_end().strip_prefix(OWNER));
        if let Some(owner) = owners.find(|owner| *owner != cluster) {
            let found: String = owner.chars().filter(char::is_ascii_graphic).take(64).collect();
            return Err(Error::OtherCluster { path: self.path.clone(), found, wanted: cluster.to_owned() });
        }
        // JSON is YAML, whatever stands in it.
        Ok(Some(SecretBytes::new(Json::Object(parts).to_string().into_bytes())))
    }

    /// Makes sure that a bundle can be written: that there is a rule, and a key at hand opens what it encrypts.
    pub(crate) fn check_writable(&self, own: &Keyring) -> Result<(), Error> {
        let found = self.find()?;
        self.closed(found.as_ref(), "", &SecretBytes::new(PROBE.as_bytes().to_vec()), own).map(drop)
    }

    /// Writes a bundle where there is none, and reads it back.
    pub(crate) fn write_new(&self, cluster: &str, bundle: &SecretBytes, own: &Keyring) -> Result<(), Error> {
        let found = self.find()?;
        if found.as_ref().is_some_and(|found| !parts(&found.opened).is_empty()) {
            return Err(Error::SecretsExist { path: self.path.clone() });
        }
        let closed = self.closed(found.as_ref(), cluster, bundle, own)?;
        self.write(found.as_ref(), &closed)
    }

    /// Exchanges the bundle. The file as it was is kept beside it, under `old_name`; where that is.
    pub(crate) fn replace(
        &self,
        cluster: &str,
        bundle: &SecretBytes,
        old_name: &str,
        own: &Keyring,
    ) -> Result<PathBuf, Error> {
        let found = self.find()?;
        let closed = self.closed(found.as_ref(), cluster, bundle, own)?;
        let stem = old_name.strip_suffix(".yaml").unwrap_or(old_name);
        let old = self.real().with_file_name(format!("{stem}.sops.yaml"));
        if let Some(found) = &found {
            files::write_new(&old, &found.bytes)?;
        }
        self.write(found.as_ref(), &closed)?;
        Ok(old)
    }

    /// Encrypts the whole file anew, with a new data key, for whom the rules name now. Whether there is a file.
    pub(crate) fn rekey(&self, own: &Keyring) -> Result<bool, Error> {
        let Some(found) = self.find()? else { return Ok(false) };
        let closed = self.encrypt(found.opened.plain().expose(), &self.rule(own)?)?;
        let opened = self.open(closed.as_bytes(), "encrypt")?;
        if values(&opened, &|_| true) != values(&found.opened, &|_| true) {
            return Err(Error::ReadBack { path: self.path.clone() });
        }
        self.check_hidden(&closed, &opened)?;
        self.write(Some(&found), &closed)?;
        Ok(true)
    }

    fn find(&self) -> Result<Option<Found>, Error> {
        let Some(bytes) = files::read(&self.path)? else { return Ok(None) };
        let opened = self.open(&bytes, "read")?;
        Ok(Some(Found { bytes, opened }))
    }

    fn open(&self, bytes: &[u8], what: &'static str) -> Result<Opened, Error> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(Error::Damaged { path: self.path.clone(), why: "it is not text".to_owned() });
        };
        Encrypted::parse(Format::Yaml, text)
            .and_then(|file| file.open(&self.identities))
            .map_err(self.failed(what))
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(daedal_sops::Error) -> Error {
        move |source| Error::Sops { what, path: self.path.clone(), source: Box::new(source) }
    }

    fn encrypt(&self, plain: &[u8], rule: &Rule) -> Result<String, Error> {
        daedal_sops::encrypt(Format::Yaml, plain, rule, (self.now)(), &mut rand::thread_rng())
            .map_err(self.failed("encrypt"))
    }

    /// The encrypted file with a bundle in place of what there may be of one. It was opened, and holds the bundle and everything
    /// else that was there; none of the bundle's secrets is in it in plain.
    fn closed(
        &self,
        found: Option<&Found>,
        cluster: &str,
        bundle: &SecretBytes,
        own: &Keyring,
    ) -> Result<String, Error> {
        let text = std::str::from_utf8(bundle.expose()).unwrap_or_default();
        let before = found.map_or("", Found::plain);
        let plain = SecretBytes::new(with_bundle(before, cluster, text).into_bytes());
        let closed = match found {
            Some(found) => found
                .opened
                .edit(plain.expose(), (self.now)(), &mut rand::thread_rng())
                .map_err(self.failed("write"))?,
            None => self.encrypt(plain.expose(), &self.rule(own)?)?,
        };
        let opened = self.open(closed.as_bytes(), "open again what was encrypted for")?;
        let others = |part: &str| !PARTS.contains(&part);
        let same = found.is_none_or(|found| values(&opened, &others) == values(&found.opened, &others));
        if !same || parts(&opened) != self.parts_of(bundle)? {
            return Err(Error::ReadBack { path: self.path.clone() });
        }
        self.check_hidden(&closed, &opened)?;
        Ok(closed)
    }

    /// A bundle's values, read as those of a file are.
    fn parts_of(&self, bundle: &SecretBytes) -> Result<Map<String, Json>, Error> {
        let somebody = age::x25519::Identity::generate();
        let rule = Rule::for_recipients([somebody.to_public().to_string()]);
        let closed = self.encrypt(bundle.expose(), &rule)?;
        let mut identities = Identities::default();
        let key = age::secrecy::ExposeSecret::expose_secret(&somebody.to_string()).to_owned();
        let key = zeroize::Zeroizing::new(key);
        identities.extend(Identities::parse(&key).map_err(self.failed("read"))?);
        let opened = Encrypted::parse(Format::Yaml, &closed)
            .and_then(|file| file.open(&identities))
            .map_err(self.failed("read"))?;
        Ok(parts(&opened))
    }

    /// Refuses a rule that leaves secrets of the bundle in plain.
    fn check_hidden(&self, closed: &str, opened: &Opened) -> Result<(), Error> {
        for (steps, plain) in values(opened, &|part| PARTS.contains(&part)) {
            let public = steps.last().is_some_and(|key| PUBLIC.contains(&key.as_str()));
            let shown = plain.lines().any(|line| line.len() >= SHORTEST && closed.contains(line));
            if shown && !public {
                return Err(Error::LeftPlain { path: self.path.clone(), key: steps.join(".") });
            }
        }
        Ok(())
    }

    /// For whom a new file is encrypted: what `.sops.yaml` says; for our own key where there is none.
    fn rule(&self, own: &Keyring) -> Result<Rule, Error> {
        let path = std::path::absolute(&self.path).map_err(files::io("locate", &self.path))?;
        for folder in path.ancestors().skip(1).take(FOLDERS) {
            let file = folder.join(CONFIG);
            let Some(bytes) = files::read(&file)? else { continue };
            let failed = |source| Error::SopsRules { file: file.clone(), source: Box::new(source) };
            let Some(config) = Config::parse(&String::from_utf8_lossy(&bytes)).map_err(failed)? else {
                break;
            };
            let relative = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy();
            return config.rule_for(&relative).map_err(failed);
        }
        match own.public() {
            Ok(recipient) => Ok(Rule::for_recipients([recipient])),
            Err(Error::NoKey { place, .. }) => Err(Error::NoSopsRules { path: self.path.clone(), place }),
            Err(error) => Err(error),
        }
    }

    /// Writes a closed file, new or in place of what was found, and reads it back.
    fn write(&self, found: Option<&Found>, closed: &str) -> Result<(), Error> {
        let path = self.real();
        match found {
            None => {
                if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                    files::make_private_folder(folder)?;
                }
                files::write_new(&path, closed.as_bytes())?;
            }
            // Somebody's editor knows nothing of our lock.
            Some(found) if files::read(&path)?.as_ref() != Some(&found.bytes) => {
                return Err(Error::Changed { path });
            }
            Some(_) => files::write_private(&path, closed.as_bytes())?,
        }
        match files::read(&path)?.as_deref() == Some(closed.as_bytes()) {
            true => Ok(()),
            false => Err(Error::ReadBack { path }),
        }
    }

    /// The file itself, where its name is a link.
    fn real(&self) -> PathBuf {
        self.path.canonicalize().unwrap_or_else(|_| self.path.clone())
    }
}

/// The values below the keys at the top that are wanted, with their paths. Those in lists are left out: a bundle has none.
fn values(opened: &Opened, wanted: &dyn Fn(&str) -> bool) -> Vec<(Vec<String>, String)> {
    let mut all = Vec::new();
    for path in opened.keys().iter().filter_map(|key| key.parse::<daedal_sops::Path>().ok()) {
        let steps = path.0.iter().map(|step| match step {
            Step::Key(key) => key.clone(),
            Step::Index(index) => format!("[{index}]"),
        });
        let steps: Vec<String> = steps.collect();
        if let (Some(top), Ok(value)) = (steps.first(), opened.get(&path))
            && wanted(top)
        {
            all.push((steps, String::from_utf8_lossy(value.as_written().expose()).into_owned()));
        }
    }
    all
}

/// The bundle in a file, as a tree of texts.
fn parts(opened: &Opened) -> Map<String, Json> {
    let mut root = Map::new();
    for (steps, plain) in values(opened, &|part| PARTS.contains(&part)) {
        insert(&mut root, &steps, plain);
    }
    root
}

fn insert(map: &mut Map<String, Json>, steps: &[String], plain: String) {
    match steps {
        [] => {}
        [last] => drop(map.insert(last.clone(), Json::String(plain))),
        [key, below @ ..] => {
            let node = map.entry(key.clone()).or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(map) = node {
                insert(map, below, plain);
            }
        }
    }
}

/// A text with a bundle at its end, in place of what there is of one.
fn with_bundle(before: &str, cluster: &str, bundle: &str) -> String {
    let mut text = String::with_capacity(before.len() + bundle.len() + 128);
    let mut inside = false;
    for line in before.split_inclusive('\n') {
        let goes_on = line.trim().is_empty() || line.starts_with([' ', '\t', '#', '-']);
        if !goes_on {
            let key = line.split(':').next().unwrap_or_default().trim_matches(['"', '\'']);
            inside = PARTS.contains(&key);
        }
        // A comment at the margin may be about what follows.
        let kept = !inside || line.starts_with('#');
        if kept && !line.starts_with(OWNER) {
            text.push_str(line);
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("{OWNER}{cluster}\n{bundle}"));
    text
}
