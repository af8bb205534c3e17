//! Plain texts → encrypted files.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use rand::{CryptoRng, RngCore};

use crate::cipher::DataKey;
use crate::config::Rule;
use crate::error::Error;
use crate::file::{Encrypted, Format, Found, Mac, Stash};
use crate::metadata::Metadata;
use crate::path::Path;
use crate::selection::Selector;
use crate::tree::{Edits, Node, Visit, walk};
use crate::value::{Kind, Value};
use crate::{json, layout, render, yaml};

/// Encrypts a file by a rule.
pub fn encrypt(
    format: Format,
    plain: &[u8],
    rule: &Rule,
    now: Timestamp,
    rng: &mut (impl CryptoRng + RngCore),
) -> Result<String, Error> {
    let (metadata, key) = Metadata::create(rule, format == Format::Binary, rng)?;
    seal(format, plain, metadata, &key, Stash::new(), now, rng)
}

/// A text of YAML with all aliases written out, as sops writes it.
pub(crate) fn expanded(text: &str) -> Result<Cow<'_, str>, Error> {
    fn aliases(node: &Node, edits: &mut Edits, count: &mut usize) {
        for item in node.content.branch().map_or(&[][..], |branch| &branch.items) {
            match &item.alias {
                Some(span) => {
                    *count += 1;
                    edits.replace(span.clone(), render::flow(&item.node).expose_text().unwrap_or_default());
                }
                None => aliases(&item.node, edits, count),
            }
        }
    }
    let tree = yaml::parse(text)?;
    let (mut edits, mut count) = (Edits::default(), 0);
    tree.documents.iter().for_each(|document| aliases(&document.root, &mut edits, &mut count));
    Ok(if count == 0 { Cow::Borrowed(text) } else { Cow::Owned(edits.apply(text)) })
}

/// What is under way while a file is encrypted.
struct Sealing<'a, R> {
    format: Format,
    text: &'a str,
    mac_only_encrypted: bool,
    key: &'a DataKey,
    selector: Selector,
    stash: Stash,
    mac: Mac,
    values: Vec<Found>,
    edits: Edits,
    /// Encrypted comments by where they stand.
    asides: HashMap<usize, String>,
    rng: &'a mut R,
}

pub(crate) fn seal(
    format: Format,
    plain: &[u8],
    mut metadata: Metadata,
    key: &DataKey,
    stash: Stash,
    now: Timestamp,
    rng: &mut (impl CryptoRng + RngCore),
) -> Result<String, Error> {
    if format == Format::Binary {
        return seal_binary(plain, metadata, key, stash, now, rng);
    }
    let shape = |why| Error::Shape { path: Path::default(), why };
    let text = std::str::from_utf8(plain).map_err(|_| shape("the file is not UTF-8 text"))?;
    let text = if format == Format::Yaml { expanded(text)? } else { Cow::Borrowed(text) };
    let tree = format.parse(&text)?;
    if tree.documents.is_empty() {
        return Err(shape("the file is empty"));
    }
    for item in
        tree.documents.iter().filter_map(|document| document.root.content.branch()).flat_map(|b| &b.items)
    {
        if item.key.as_deref().is_some_and(|key| tree.is_metadata(key)) {
            return Err(Error::AlreadyEncrypted);
        }
    }
    let mut sealing = Sealing {
        format,
        text: &text,
        mac_only_encrypted: metadata.mac_only_encrypted,
        key,
        selector: metadata.selection.compile()?,
        stash,
        mac: Mac::new(&metadata),
        values: Vec::new(),
        edits: Edits::default(),
        asides: HashMap::new(),
        rng,
    };
    for (number, document) in tree.documents.iter().enumerate() {
        walk(&tree, document, &mut |visit| sealing.visit(number, visit))?;
    }
    let Sealing { mac, values, mut edits, rng, .. } = sealing;
    stamp(&mut metadata, key, mac, now, rng)?;
    for document in &tree.documents {
        layout::insert(format, &text, document, &metadata.raw, &mut edits);
    }
    let sealed = edits.apply(&text);
    read_back(format, &sealed, key, &values)?;
    Ok(sealed)
}

/// A file of any bytes is one value; the rules have no part in it.
fn seal_binary(
    plain: &[u8],
    mut metadata: Metadata,
    key: &DataKey,
    mut stash: Stash,
    now: Timestamp,
    rng: &mut (impl CryptoRng + RngCore),
) -> Result<String, Error> {
    let path = Path::default().key("data");
    let value = Value::new(Kind::Str, plain);
    let mut mac = Mac::new(&metadata);
    mac.add(&value);
    let kept = stash.get_mut(&(path.bound(), value.clone())).and_then(VecDeque::pop_front);
    let sealed = match kept {
        Some(text) => text,
        None if value.is_void() => String::new(),
        None => key.encrypt(&value, &path.bound(), rng).ok_or_else(failed)?,
    };
    stamp(&mut metadata, key, mac, now, rng)?;
    let text = format!("{{\n\t\"data\": \"{sealed}\"\n}}\n");
    let tree = json::parse(&text)?;
    let mut edits = Edits::default();
    for document in &tree.documents {
        layout::insert(Format::Binary, &text, document, &metadata.raw, &mut edits);
    }
    let sealed = edits.apply(&text);
    read_back(Format::Binary, &sealed, key, &[Found { document: 0, path, value }])?;
    Ok(sealed)
}

fn failed() -> Error {
    Error::Encrypt { source: "the cipher refuses the value".into() }
}

/// Writes time and authentication code into the metadata.
fn stamp(
    metadata: &mut Metadata,
    key: &DataKey,
    mac: Mac,
    now: Timestamp,
    rng: &mut (impl CryptoRng + RngCore),
) -> Result<(), Error> {
    let modified = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let sealed = key.encrypt(&Value::text(&mac.hex()), &modified, rng).ok_or_else(failed)?;
    metadata.raw.insert("lastmodified".to_owned(), modified.into());
    metadata.raw.insert("mac".to_owned(), sealed.into());
    Ok(())
}

/// Makes sure that a file that is to be handed out opens, and holds what it should.
fn read_back(format: Format, sealed: &str, key: &DataKey, values: &[Found]) -> Result<(), Error> {
    let opened = Encrypted::parse(format, sealed)?.open_with(key.clone())?;
    let differs = |(one, other): &(&Found, &Found)| one.path != other.path || one.value != other.value;
    let mut pairs = values.iter().zip(&opened.values);
    match pairs.find(differs) {
        Some((wanted, _)) => Err(Error::ReadBack { path: wanted.path.clone() }),
        None if values.len() != opened.values.len() => Err(Error::ReadBack { path: Path::default() }),
        None => Ok(()),
    }
}

impl<R: CryptoRng + RngCore> Sealing<'_, R> {
    fn visit(&mut self, document: usize, visit: Visit<'_>) -> Result<(), Error> {
        match visit {
            Visit::Comment { path, comments, comment } => {
                let value = Value::new(Kind::Comment, comment.text.as_str());
                if !value.is_void() && self.selector.encrypts(path, comments, true) {
                    let text = self.text_for(path, value)?;
                    if self.selector.mistakes(&text) {
                        let why = "`unencrypted_comment_regex` matches encrypted comments".to_owned();
                        return Err(Error::Rule { why });
                    }
                    self.asides.insert(comment.span.start, text.clone());
                    self.edits.replace(comment.span.clone(), text);
                }
                Ok(())
            }
            Visit::Value { path, comments, node, leaf, .. } => {
                let value = &leaf.value;
                let sealed = self.selector.encrypts(path, comments, false);
                if sealed || !self.mac_only_encrypted {
                    self.mac.add(value);
                }
                if leaf.whole.as_ref().is_some_and(|whole| whole.plain != value.plain) {
                    let why = "a whole number is too large: versions of sops disagree about it";
                    return Err(Error::Shape { path: path.clone(), why });
                }
                if sealed && !value.is_void() {
                    let text = self.text_for(path, value.clone())?;
                    let mut written = render::encrypted(self.format, &text, leaf);
                    if let Some(aside) = &leaf.aside {
                        let plain = self.text.get(aside.clone()).unwrap_or_default();
                        written +=
                            &format!(" #{}", self.asides.get(&aside.start).map_or(plain, String::as_str));
                    }
                    self.edits.replace(node.span.clone(), written);
                } else if leaf.block && node.span.end >= self.text.len() {
                    // Its last line has no end yet, and gets one.
                    self.edits.replace(node.span.clone(), render::value(self.format, value, leaf, true));
                }
                self.values.push(Found { document, path: path.clone(), value: value.clone() });
                Ok(())
            }
        }
    }

    /// The encrypted text of a value: the one that it had, if it did not change.
    fn text_for(&mut self, path: &Path, value: Value) -> Result<String, Error> {
        let place = (path.bound(), value);
        if let Some(kept) = self.stash.get_mut(&place).and_then(VecDeque::pop_front) {
            return Ok(kept);
        }
        let (bound, value) = place;
        self.key.encrypt(&value, &bound, self.rng).ok_or_else(failed)
    }
}
