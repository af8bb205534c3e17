//! Writing a small ISO 9660 image: one directory, names by Rock Ridge and Joliet, nothing that varies.

use zeroize::Zeroizing;

use super::iso::{
    BLOCK, FIRST_DESCRIPTOR, JOLIET, MAGIC, PRIMARY, RECORD, ROOT_RECORD, SUPPLEMENTARY, TERMINATOR,
};
use crate::{Error, Result};

// Blocks, in order: descriptors, path tables (little- and big-endian, for both trees), directories, the continuation
// of the root's Rock Ridge fields, then the files.
const TABLE_LITTLE: u32 = 19;
const TABLE_BIG: u32 = 20;
const JOLIET_TABLE_LITTLE: u32 = 21;
const JOLIET_TABLE_BIG: u32 = 22;
const ROOT: u32 = 23;
const JOLIET_ROOT: u32 = 24;
const CONTINUATION: u32 = 25;
const FIRST_FILE: u32 = 26;
/// A path table with nothing but the root.
const TABLE_SIZE: u32 = 10;

/// 2000-01-01 00:00:00 UTC, so that the same content gives the same bytes.
const RECORD_DATE: [u8; 7] = [100, 1, 1, 0, 0, 0, 0];
const DESCRIPTOR_DATE: &[u8; 17] = b"2000010100000000\0";

struct File<'a> {
    name: &'a str,
    content: &'a [u8],
    block: u32,
}

/// An image with these files in its root directory.
pub(super) fn iso(label: &str, files: &[(&str, &[u8])]) -> Result<Zeroizing<Vec<u8>>> {
    if !label.is_ascii() || label.is_empty() || label.len() > 16 {
        return Err(Error::Iso { reason: "the label is not 1 to 16 ASCII characters" });
    }
    let mut block = FIRST_FILE;
    let mut laid_out = Vec::with_capacity(files.len());
    for (name, content) in files {
        if name.is_empty()
            || name.len() > 64
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            return Err(Error::Iso {
                reason: "a file's name is not 1 to 64 letters, digits, dots and dashes",
            });
        }
        laid_out.push(File { name, content, block });
        let blocks = u32::try_from(content.len().div_ceil(BLOCK)).ok().filter(|blocks| *blocks < 1 << 20);
        block += blocks.ok_or(Error::Iso { reason: "a file is larger than 2 GiB" })?;
    }
    let total = block;

    let mut image = Zeroizing::new(vec![0; total as usize * BLOCK]);
    put(&mut image, FIRST_DESCRIPTOR as u32, &descriptor(PRIMARY, label, total));
    put(&mut image, FIRST_DESCRIPTOR as u32 + 1, &descriptor(SUPPLEMENTARY, label, total));
    let mut end = vec![TERMINATOR];
    end.extend_from_slice(MAGIC);
    end.push(1);
    put(&mut image, FIRST_DESCRIPTOR as u32 + 2, &end);
    put(&mut image, TABLE_LITTLE, &path_table(ROOT.to_le_bytes(), 1_u16.to_le_bytes()));
    put(&mut image, TABLE_BIG, &path_table(ROOT.to_be_bytes(), 1_u16.to_be_bytes()));
    put(&mut image, JOLIET_TABLE_LITTLE, &path_table(JOLIET_ROOT.to_le_bytes(), 1_u16.to_le_bytes()));
    put(&mut image, JOLIET_TABLE_BIG, &path_table(JOLIET_ROOT.to_be_bytes(), 1_u16.to_be_bytes()));
    put(&mut image, ROOT, &plain_directory(&laid_out)?);
    put(&mut image, JOLIET_ROOT, &joliet_directory(&laid_out)?);
    put(&mut image, CONTINUATION, &rock_ridge_identity());
    for file in &laid_out {
        put(&mut image, file.block, file.content);
    }
    Ok(image)
}

fn put(image: &mut [u8], block: u32, content: &[u8]) {
    let start = block as usize * BLOCK;
    image[start..start + content.len()].copy_from_slice(content);
}

fn both_32(value: u32) -> [u8; 8] {
    let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
    [little[0], little[1], little[2], little[3], big[0], big[1], big[2], big[3]]
}

fn both_16(value: u16) -> [u8; 4] {
    let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
    [little[0], little[1], big[0], big[1]]
}

fn ucs2(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn descriptor(kind: u8, label: &str, total_blocks: u32) -> Vec<u8> {
    let joliet = kind == SUPPLEMENTARY;
    let mut block = vec![0; BLOCK];
    // Texts are padded with spaces; readers of the label do not take zeros for padding.
    let mut text = |at: usize, length: usize, content: &str| {
        let (mut bytes, space) =
            if joliet { (ucs2(content), ucs2(" ")) } else { (content.into(), vec![b' ']) };
        while bytes.len() + space.len() <= length {
            bytes.extend_from_slice(&space);
        }
        block[at..at + bytes.len()].copy_from_slice(&bytes);
    };
    text(8, 32, "");
    text(40, 32, label);
    for (at, length) in [(190, 128), (318, 128), (446, 128), (574, 128), (702, 37), (739, 37), (776, 37)] {
        text(at, length, "");
    }
    let (root, little, big) = if joliet {
        (JOLIET_ROOT, JOLIET_TABLE_LITTLE, JOLIET_TABLE_BIG)
    } else {
        (ROOT, TABLE_LITTLE, TABLE_BIG)
    };
    let root = record(&[0], root, BLOCK as u32, true, &[]);
    let fields: [(usize, &[u8]); 14] = [
        (0, &[kind]),
        (1, MAGIC),
        (6, &[1]),
        (80, &both_32(total_blocks)),
        (88, if joliet { JOLIET } else { &[] }),
        (120, &both_16(1)),
        (124, &both_16(1)),
        (128, &both_16(BLOCK as u16)),
        (132, &both_32(TABLE_SIZE)),
        (140, &little.to_le_bytes()),
        (148, &big.to_be_bytes()),
        (ROOT_RECORD, &root),
        (881, &[1]),
        (813, DESCRIPTOR_DATE),
    ];
    for (at, content) in fields {
        block[at..at + content.len()].copy_from_slice(content);
    }
    block[830..847].copy_from_slice(DESCRIPTOR_DATE);
    // No expiry, and effective always.
    block[847..863].fill(b'0');
    block[864..880].fill(b'0');
    block
}

fn path_table(root: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    let mut table = vec![1, 0];
    table.extend_from_slice(&root);
    table.extend_from_slice(&parent);
    table.extend_from_slice(&[0, 0]);
    table
}

fn record(name: &[u8], block: u32, size: u32, directory: bool, system_use: &[u8]) -> Vec<u8> {
    let mut record = vec![0, 0];
    record.extend_from_slice(&both_32(block));
    record.extend_from_slice(&both_32(size));
    record.extend_from_slice(&RECORD_DATE);
    record.extend_from_slice(&[if directory { 2 } else { 0 }, 0, 0]);
    record.extend_from_slice(&both_16(1));
    record.push(name.len() as u8);
    record.extend_from_slice(name);
    debug_assert_eq!(record.len(), RECORD + name.len());
    if record.len() % 2 == 1 {
        record.push(0);
    }
    record.extend_from_slice(system_use);
    if record.len() % 2 == 1 {
        record.push(0);
    }
    record[0] = record.len() as u8;
    record
}

fn directory(records: &[Vec<u8>]) -> Result<Vec<u8>> {
    let bytes = records.concat();
    if bytes.len() > BLOCK {
        return Err(Error::Iso { reason: "there are too many files for one directory block" });
    }
    Ok(bytes)
}

fn plain_directory(files: &[File<'_>]) -> Result<Vec<u8>> {
    let permissions = |directory: bool| {
        let mode: u32 = if directory { 0o040_555 } else { 0o100_444 };
        let mut field = b"PX\x24\x01".to_vec();
        for value in [mode, if directory { 2 } else { 1 }, 0, 0] {
            field.extend_from_slice(&both_32(value));
        }
        field
    };
    let mut start = b"SP\x07\x01\xbe\xef\x00".to_vec();
    start.extend(permissions(true));
    start.extend_from_slice(b"CE\x1c\x01");
    let identity_length = rock_ridge_identity().len() as u32;
    for value in [CONTINUATION, 0, identity_length] {
        start.extend_from_slice(&both_32(value));
    }
    let mut named: Vec<(String, &File<'_>)> = Vec::new();
    for file in files {
        let name = short_name(file.name, &named)?;
        named.push((name, file));
    }
    // Directories are sorted by the name that stands in them.
    named.sort_by(|a, b| a.0.cmp(&b.0));
    let mut records = vec![
        record(&[0], ROOT, BLOCK as u32, true, &start),
        record(&[1], ROOT, BLOCK as u32, true, &permissions(true)),
    ];
    for (name, file) in named {
        let mut fields = permissions(false);
        fields.extend_from_slice(b"NM");
        fields.extend_from_slice(&[5 + file.name.len() as u8, 1, 0]);
        fields.extend_from_slice(file.name.as_bytes());
        records.push(record(name.as_bytes(), file.block, file.content.len() as u32, false, &fields));
    }
    directory(&records)
}

/// An ISO 9660 name of eight characters that no other file has.
fn short_name(name: &str, taken: &[(String, &File<'_>)]) -> Result<String> {
    let base: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .take(8)
        .collect();
    let numbered = (0..10).map(|digit| format!("{}{digit}", &base[..base.len().min(7)]));
    std::iter::once(base.clone())
        .chain(numbered)
        .map(|candidate| format!("{candidate}.;1"))
        .find(|candidate| taken.iter().all(|(other, _)| other != candidate))
        .ok_or(Error::Iso { reason: "too many files have similar names" })
}

fn joliet_directory(files: &[File<'_>]) -> Result<Vec<u8>> {
    let mut records = vec![
        record(&[0], JOLIET_ROOT, BLOCK as u32, true, &[]),
        record(&[1], JOLIET_ROOT, BLOCK as u32, true, &[]),
    ];
    let mut named: Vec<(Vec<u8>, &File<'_>)> =
        files.iter().map(|file| (ucs2(&format!("{};1", file.name)), file)).collect();
    named.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, file) in named {
        records.push(record(&name, file.block, file.content.len() as u32, false, &[]));
    }
    directory(&records)
}

/// Says that the fields in directory records are Rock Ridge's.
fn rock_ridge_identity() -> Vec<u8> {
    let (id, description, source) = ("RRIP_1991A", "THE ROCK RIDGE INTERCHANGE PROTOCOL", "NONE");
    let mut field = b"ER".to_vec();
    field.push((8 + id.len() + description.len() + source.len()) as u8);
    field.extend_from_slice(&[1, id.len() as u8, description.len() as u8, source.len() as u8, 1]);
    for text in [id, description, source] {
        field.extend_from_slice(text.as_bytes());
    }
    field
}
