//! A snapshot of etcd, read without etcd: whether it is whole, and what it holds.
//!
//! The file is a database of pages (a B+tree of buckets), followed by its SHA-256.

use std::collections::BTreeSet;

use prost::Message as _;
use sha2::{Digest, Sha256};

use crate::{Error, Result};

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
/// Marks a value that is itself a bucket.
const BUCKET: u32 = 0x01;
/// Header of a page, and of an element in a leaf or branch.
const HEADER: usize = 16;
/// No tree of this kind is deeper; a damaged file may go in circles.
const DEPTH: usize = 32;
/// Whole files are multiples of this, and the checksum comes on top.
const BLOCK: usize = 512;
const CHECKSUM: usize = 32;
/// A revision is two numbers with a line between them; one more byte is a mark.
const MARKED: usize = 18;

/// What a snapshot holds, as `etcdutl snapshot status` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Over all buckets, keys and values: two snapshots of the same data have the same.
    pub hash: u32,
    /// The newest revision of the keys.
    pub revision: i64,
    /// Keys that are there, however often each was changed.
    pub keys: u64,
    /// Bytes of the database, without the checksum behind it.
    pub size: u64,
}

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// A snapshot of etcd in memory.
#[derive(Debug)]
pub struct Snapshot<'a> {
    buckets: Vec<(&'a [u8], Vec<Entry<'a>>)>,
    size: u64,
}

impl<'a> Snapshot<'a> {
    /// Reads a snapshot as a node streams it, and refuses one that is cut off, altered or no snapshot.
    pub fn read(file: &'a [u8]) -> Result<Self> {
        if file.len() % BLOCK != CHECKSUM {
            return Err(broken("its length is not that of a whole one: it was cut off, or has no checksum"));
        }
        let (database, checksum) = file.split_at(file.len() - CHECKSUM);
        if Sha256::digest(database)[..] != *checksum {
            return Err(broken("its checksum does not fit its content"));
        }
        Self::read_unchecked(database)
    }

    /// Reads a database without the checksum behind it, such as one copied out of a data folder.
    pub fn read_unchecked(database: &'a [u8]) -> Result<Self> {
        let meta = Meta::newest(database)?;
        let left = std::cell::Cell::new(database.len() / meta.page_size);
        let pages = Pages { bytes: database, page_size: meta.page_size, left };
        let mut buckets = Vec::new();
        let mut roots = Vec::new();
        pages.walk(meta.root, DEPTH, &mut |flags, key, value| {
            if flags & BUCKET != 0 {
                roots.push((key, value));
            }
        })?;
        for (name, value) in roots {
            let mut entries = Vec::new();
            let mut take = |_, key, value| entries.push((key, value));
            match number(value, 0)? {
                // A small bucket lies inside the page of its parent.
                0 => {
                    let page = value.get(HEADER..).ok_or_else(cut)?;
                    pages.elements(page, 0, &mut take)?;
                }
                root => pages.walk(root, DEPTH, &mut take)?,
            }
            buckets.push((name, entries));
        }
        Ok(Self { buckets, size: database.len() as u64 })
    }

    /// The entries of a bucket, such as `key`, in order.
    pub fn bucket(&self, name: &[u8]) -> Option<&[Entry<'a>]> {
        self.buckets.iter().find(|(bucket, _)| *bucket == name).map(|(_, entries)| entries.as_slice())
    }

    /// The newest value of a key; none if it is not there or was deleted.
    pub fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        let revisions = self.bucket(b"key").unwrap_or_default();
        let of_key = |(revision, value): &Entry<'a>| {
            let pair = Revision::decode(*value).ok().filter(|pair| pair.key == key)?;
            let deleted = revision.len() == MARKED && revision.ends_with(b"t");
            Some((!deleted).then_some(pair.value))
        };
        revisions.iter().rev().find_map(of_key).flatten()
    }

    /// What the snapshot holds.
    pub fn info(&self) -> SnapshotInfo {
        let mut hash = Crc32c::new();
        for (name, entries) in &self.buckets {
            hash.update(name);
            for (key, value) in entries {
                hash.update(key);
                hash.update(value);
            }
        }
        let revisions = self.bucket(b"key").unwrap_or_default();
        let mut keys = BTreeSet::new();
        for (revision, value) in revisions {
            let Some(key) = key_of(value) else { continue };
            // A deletion is a revision of its own, marked at its end.
            if revision.len() == MARKED && revision.ends_with(b"t") {
                keys.remove(&key);
            } else {
                keys.insert(key);
            }
        }
        let newest = revisions.last();
        let revision =
            newest.and_then(|(key, _)| key.first_chunk::<8>()).map_or(0, |b| i64::from_be_bytes(*b));
        SnapshotInfo { hash: hash.value(), revision, keys: keys.len() as u64, size: self.size }
    }
}

/// What is read of a revision: the key that it is of, and its value.
#[derive(Clone, PartialEq, prost::Message)]
struct Revision {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

fn key_of(value: &[u8]) -> Option<Vec<u8>> {
    Some(Revision::decode(value).ok()?.key)
}

fn broken(reason: &'static str) -> Error {
    Error::Snapshot { reason }
}

fn cut() -> Error {
    broken("a page of it is cut off")
}

fn number(bytes: &[u8], at: usize) -> Result<u64> {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(cut)?;
    Ok(u64::from_le_bytes(*field))
}

fn short(bytes: &[u8], at: usize) -> Result<u32> {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or_else(cut)?;
    Ok(u32::from_le_bytes(*field))
}

/// Says where the tree begins. There are two of them, written in turns.
struct Meta {
    page_size: usize,
    root: u64,
    transaction: u64,
}

impl Meta {
    fn newest(database: &[u8]) -> Result<Self> {
        let first = Self::at(database, 0);
        let size = first.as_ref().map_or(4096, |meta| meta.page_size);
        let second = Self::at(database, size);
        match (first, second) {
            (Some(first), Some(second)) if second.transaction > first.transaction => Ok(second),
            (Some(first), _) => Ok(first),
            (None, Some(second)) => Ok(second),
            (None, None) => Err(broken("it is no database of etcd")),
        }
    }

    fn at(database: &[u8], offset: usize) -> Option<Self> {
        let meta = database.get(offset + HEADER..offset + HEADER + 64)?;
        let (content, checksum) = meta.split_at(56);
        let fits = number(checksum, 0).ok()? == fnv1a(content);
        let page_size = short(meta, 8).ok()? as usize;
        let known = short(meta, 0).ok()? == MAGIC && short(meta, 4).ok()? == VERSION;
        (fits && known && page_size >= BLOCK).then_some(Self {
            page_size,
            root: number(meta, 16).ok()?,
            transaction: number(meta, 48).ok()?,
        })
    }
}

struct Pages<'a> {
    bytes: &'a [u8],
    page_size: usize,
    /// How many pages may still be visited: a damaged file may lead round in circles.
    left: std::cell::Cell<usize>,
}

type Take<'t, 'a> = &'t mut dyn FnMut(u32, &'a [u8], &'a [u8]);

impl<'a> Pages<'a> {
    fn page(&self, id: u64) -> Result<&'a [u8]> {
        let start = usize::try_from(id).ok().and_then(|id| id.checked_mul(self.page_size)).ok_or_else(cut)?;
        let rest = self.bytes.get(start..).ok_or_else(cut)?;
        let length = (short(rest, 12)? as usize + 1).checked_mul(self.page_size).ok_or_else(cut)?;
        rest.get(..length).ok_or_else(cut)
    }

    fn walk(&self, id: u64, depth: usize, take: Take<'_, 'a>) -> Result<()> {
        let page = self.page(id)?;
        let left = self.left.get().checked_sub(1).ok_or_else(|| broken("its pages go round in circles"))?;
        self.left.set(left);
        // Pages know their number: a file with pages in wrong places is damaged.
        if number(page, 0)? != id {
            return Err(broken("its pages are not in order"));
        }
        self.elements(page, depth, take)
    }

    fn elements(&self, page: &'a [u8], depth: usize, take: Take<'_, 'a>) -> Result<()> {
        let kinds = short(page, 8)?;
        let (flags, count) = (kinds as u16, (kinds >> 16) as usize);
        for index in 0..count {
            let element = page.get(HEADER * (index + 1)..).ok_or_else(cut)?;
            let part = |from: usize, length: usize| {
                from.checked_add(length).and_then(|to| element.get(from..to)).ok_or_else(cut)
            };
            match flags {
                LEAF => {
                    let (at, key) = (short(element, 4)? as usize, short(element, 8)? as usize);
                    let value = short(element, 12)? as usize;
                    let after = at.checked_add(key).ok_or_else(cut)?;
                    take(short(element, 0)?, part(at, key)?, part(after, value)?);
                }
                BRANCH if depth > 0 => self.walk(number(element, 8)?, depth - 1, take)?,
                _ => return Err(broken("a page of it is of no known kind")),
            }
        }
        Ok(())
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// CRC-32 with Castagnoli's polynomial.
struct Crc32c {
    table: [u32; 256],
    state: u32,
}

impl Crc32c {
    fn new() -> Self {
        let table = std::array::from_fn(|byte| {
            (0..8).fold(byte as u32, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
        });
        Self { table, state: u32::MAX }
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let index = (self.state as u8 ^ byte) as usize;
            self.state = self.table[index] ^ (self.state >> 8);
        }
    }

    fn value(&self) -> u32 {
        !self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_are_the_known_ones() {
        let mut crc = Crc32c::new();
        crc.update(b"123456789");
        assert_eq!(crc.value(), 0xe306_9283);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for (file, reason) in [
            (vec![], "length"),
            (vec![0; 4096], "length"),
            (vec![0; 4096 + 32], "checksum"),
            ([vec![0; 8192], Sha256::digest(vec![0; 8192]).to_vec()].concat(), "no database"),
        ] {
            let error = Snapshot::read(&file).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
