//! Encrypted files: read, opened, made and edited.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use jiff::Timestamp;
use rand::{CryptoRng, RngCore};
use sha2::{Digest as _, Sha256, Sha512};

use crate::cipher::{self, DataKey};
use crate::error::Error;
use crate::keys::Identities;
use crate::metadata::Metadata;
use crate::path::Path;
use crate::render;
use crate::secret::Secret;
use crate::selection::Selector;
use crate::tree::{Edits, Item, Leaf, Node, Tree, Visit, walk};
use crate::value::{Kind, Value};
use crate::{dotenv, json, layout, seal, yaml};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML, also of several documents.
    Yaml,
    /// JSON.
    Json,
    /// Lines of `KEY=VALUE`.
    Dotenv,
    /// Anything else, as one value in JSON.
    Binary,
}

impl Format {
    /// The format of a file by its name, as sops decides it.
    pub fn of(name: &str) -> Self {
        match name.rsplit('.').next() {
            Some("yaml" | "yml") => Self::Yaml,
            Some("json") => Self::Json,
            Some("env") => Self::Dotenv,
            _ => Self::Binary,
        }
    }

    pub(crate) fn parse(self, text: &str) -> Result<Tree, Error> {
        match self {
            Self::Yaml => yaml::parse(text),
            Self::Json | Self::Binary => json::parse(text),
            Self::Dotenv => dotenv::parse(text),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yaml => "YAML",
            Self::Json => "JSON",
            Self::Dotenv => "dotenv",
            Self::Binary => "JSON",
        })
    }
}

/// A file that is encrypted. What it says of itself can be read without a key.
#[derive(Debug)]
pub struct Encrypted {
    format: Format,
    text: String,
    tree: Tree,
    metadata: Metadata,
}

impl Encrypted {
    /// Reads a file.
    pub fn parse(format: Format, text: &str) -> Result<Self, Error> {
        let text = match format {
            Format::Yaml => seal::expanded(text)?.into_owned(),
            _ => text.to_owned(),
        };
        let tree = format.parse(&text)?;
        let metadata = layout::read(format, &tree)?.ok_or(Error::NotEncrypted)?;
        Ok(Self { format, text, tree, metadata })
    }

    /// For whom it is encrypted: age recipients, and keys of other kinds with their kind.
    pub fn recipients(&self) -> Vec<String> {
        self.metadata.names()
    }

    /// Opens it. Its authentication code is always checked.
    pub fn open(self, identities: &Identities) -> Result<Opened, Error> {
        let key = self.metadata.data_key(identities)?;
        self.open_with(key)
    }

    pub(crate) fn open_with(self, key: DataKey) -> Result<Opened, Error> {
        let mut opening = Opening {
            file: &self,
            key: &key,
            selector: self.metadata.selection.compile()?,
            macs: [Mac::new(&self.metadata), Mac::new(&self.metadata)],
            values: Vec::new(),
            stash: Stash::new(),
            edits: Edits::default(),
        };
        for (number, document) in self.tree.documents.iter().enumerate() {
            walk(&self.tree, document, &mut |visit| opening.visit(number, visit))?;
            layout::remove(self.format, &self.text, document, &mut opening.edits);
        }
        let Opening { macs, values, stash, edits, .. } = opening;
        self.check(&key, macs)?;
        let plain = match self.format {
            Format::Binary => {
                let data = values.iter().find(|found| found.path.to_string() == "data");
                data.map(|found| found.value.plain.clone()).ok_or(Error::Metadata {
                    key: "data".to_owned(),
                    why: "is missing: this is not a binary file".to_owned(),
                })?
            }
            _ => Secret::new(edits.apply(&self.text)),
        };
        Ok(Opened { format: self.format, metadata: self.metadata, key, plain, values, stash })
    }

    fn check(&self, key: &DataKey, macs: [Mac; 2]) -> Result<(), Error> {
        let sealed = self.metadata.text("mac")?;
        let wanted = key
            .decrypt(sealed, &self.metadata.last_modified()?)
            .map_err(|_| Error::Mac { why: "is damaged, or `lastmodified` was changed" })?;
        match macs.into_iter().any(|mac| mac.hex().as_bytes() == wanted.plain.expose()) {
            true => Ok(()),
            false => Err(Error::Mac { why: "does not match its values" }),
        }
    }
}

/// A value and where it is.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) document: usize,
    pub(crate) path: Path,
    pub(crate) value: Value,
}

/// Encrypted texts by what they are of: of the same value in the same place the text is kept.
pub(crate) type Stash = HashMap<(String, Value), VecDeque<String>>;

/// What is under way while a file is opened.
struct Opening<'a> {
    file: &'a Encrypted,
    key: &'a DataKey,
    selector: Selector,
    /// With the numbers of JSON as older and as newer versions of sops read them.
    macs: [Mac; 2],
    values: Vec<Found>,
    stash: Stash,
    edits: Edits,
}

impl Opening<'_> {
    fn visit(&mut self, document: usize, visit: Visit<'_>) -> Result<(), Error> {
        match visit {
            Visit::Comment { comment, .. } => {
                let mut places = comment.places.iter().map(Path::bound);
                let found =
                    places.find_map(|bound| Some((self.key.decrypt(&comment.text, &bound).ok()?, bound)));
                if let Some((value, bound)) = found {
                    self.edits.replace(comment.span.clone(), String::from_utf8_lossy(value.plain.expose()));
                    self.keep(bound, Value { kind: Kind::Comment, ..value }, &comment.text);
                }
                Ok(())
            }
            Visit::Value { path, comments, node, leaf, item } => {
                let text = leaf.value.plain.expose_text().unwrap_or_default();
                let sealed = match self.selector.by_comments() {
                    true => cipher::is_encrypted(text),
                    false => self.selector.encrypts(path, comments, false),
                };
                let mut value = leaf.value.clone();
                if sealed && !value.is_void() {
                    let failed = |why| Error::Value { path: path.clone(), why };
                    if value.kind != Kind::Str {
                        return Err(failed("it must be encrypted, and is not"));
                    }
                    value = self.key.decrypt(text, &path.bound()).map_err(failed)?;
                    self.keep(path.bound(), value.clone(), text);
                    self.write(node, leaf, item, &value);
                }
                if value.kind == Kind::Comment {
                    return Ok(());
                }
                if sealed || !self.file.metadata.mac_only_encrypted {
                    self.macs[0].add(&value);
                    self.macs[1].add(if sealed { &value } else { leaf.whole.as_ref().unwrap_or(&value) });
                }
                self.values.push(Found { document, path: path.clone(), value });
                Ok(())
            }
        }
    }

    fn keep(&mut self, bound: String, value: Value, text: &str) {
        self.stash.entry((bound, value)).or_default().push_back(text.to_owned());
    }

    /// Puts a decrypted value in its place.
    fn write(&mut self, node: &Node, leaf: &Leaf, item: &Item, value: &Value) {
        let (format, text) = (self.file.format, &self.file.text);
        if value.kind == Kind::Comment {
            let comment = format!("#{}", String::from_utf8_lossy(value.plain.expose()));
            return self.edits.replace(item.start..node.span.end, comment);
        }
        let rest = text.get(node.span.end..).unwrap_or_default();
        let alone = rest.split('\n').next().unwrap_or_default().trim().is_empty();
        self.edits.replace(node.span.clone(), render::value(format, value, leaf, alone));
    }
}

/// The code that authenticates all values in their order.
#[derive(Clone)]
pub(crate) struct Mac(Sha512);

impl Mac {
    pub(crate) fn new(metadata: &Metadata) -> Self {
        let mut hash = Sha512::new();
        if metadata.mac_only_encrypted {
            hash.update(Sha256::digest("sops"));
        }
        Self(hash)
    }

    pub(crate) fn add(&mut self, value: &Value) {
        self.0.update(value.plain.expose());
    }

    pub(crate) fn hex(self) -> String {
        hex::encode_upper(self.0.finalize())
    }
}

/// A file that was opened, and can be edited.
pub struct Opened {
    format: Format,
    metadata: Metadata,
    key: DataKey,
    plain: Secret,
    pub(crate) values: Vec<Found>,
    stash: Stash,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("format", &self.format)
            .field("keys", &self.keys())
            .finish_non_exhaustive()
    }
}

impl Opened {
    /// The file without encryption and metadata: order, layout and comments are those of the encrypted one.
    pub fn plain(&self) -> &Secret {
        &self.plain
    }

    /// The paths of all values of the first document.
    pub fn keys(&self) -> Vec<String> {
        self.values.iter().filter(|found| found.document == 0).map(|found| found.path.to_string()).collect()
    }

    /// A value of the first document. One that is not there is an error that lists those that are.
    pub fn get(&self, path: &Path) -> Result<&Value, Error> {
        let first = || self.values.iter().filter(|found| found.document == 0);
        if let Some(found) = first().find(|found| found.path == *path) {
            return Ok(&found.value);
        }
        let below: Vec<String> = first()
            .filter(|found| found.path.0.starts_with(&path.0))
            .map(|found| found.path.to_string())
            .collect();
        match below.is_empty() {
            true => Err(Error::Missing { path: path.clone(), known: self.keys() }),
            false => Err(Error::NotAValue { path: path.clone(), known: below }),
        }
    }

    /// For whom it is encrypted.
    pub fn recipients(&self) -> Vec<String> {
        self.metadata.names()
    }

    /// The encrypted file with another content, for the same recipients and by the same rule. Values that did not change keep
    /// their encrypted text.
    pub fn edit(
        &self,
        plain: &[u8],
        now: Timestamp,
        rng: &mut (impl CryptoRng + RngCore),
    ) -> Result<String, Error> {
        seal::seal(self.format, plain, self.metadata.clone(), &self.key, self.stash.clone(), now, rng)
    }

    /// The encrypted file with one text changed or added.
    pub fn set(
        &self,
        path: &Path,
        text: &str,
        now: Timestamp,
        rng: &mut (impl CryptoRng + RngCore),
    ) -> Result<String, Error> {
        let plain = self.plain.expose_text().unwrap_or_default();
        let tree = self.format.parse(plain)?;
        let changed = Secret::new(crate::edit::set(self.format, plain, &tree, path, &Value::text(text))?);
        self.edit(changed.expose(), now, rng)
    }
}
