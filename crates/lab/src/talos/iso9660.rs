//! Reads the files in the root folder of an ISO 9660 volume by their long names, as the kernel mounts it.

use std::collections::BTreeMap;

const SECTOR: usize = 2048;

/// A volume's label and the files in its root folder.
pub(crate) struct Volume {
    pub(crate) label: String,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// Reads a volume; none when it is damaged or is no ISO 9660.
pub(crate) fn read(bytes: &[u8]) -> Option<Volume> {
    let mut primary = None;
    let mut joliet = None;
    for index in 16..64 {
        let sector = bytes.get(index * SECTOR..(index + 1) * SECTOR)?;
        if &sector[1..6] != b"CD001" {
            return None;
        }
        match sector[0] {
            1 => primary = Some(sector),
            2 if matches!(&sector[88..91], b"%/@" | b"%/C" | b"%/E") => joliet = Some(sector),
            255 => break,
            _ => {}
        }
    }
    let primary = primary?;
    let label = String::from_utf8_lossy(&primary[40..72]).trim_end().to_owned();
    let rock = folder(bytes, &primary[156..190], rock_ridge_name)?;
    // Rock Ridge wins over Joliet, as when the kernel mounts it; short names are all that is left without either.
    let long = rock.iter().any(|(_, long, _)| *long);
    let entries = match joliet {
        Some(sector) if !long => folder(bytes, &sector[156..190], joliet_name)?,
        _ => rock,
    };
    Some(Volume { label, files: entries.into_iter().map(|(name, _, content)| (name, content)).collect() })
}

type Entry = (String, bool, Vec<u8>);

fn folder(bytes: &[u8], root: &[u8], name: fn(&[u8], &[u8]) -> (String, bool)) -> Option<Vec<Entry>> {
    let extent = extent(bytes, root)?;
    let mut entries = Vec::new();
    let mut at = 0;
    while at < extent.len() {
        let length = extent[at] as usize;
        if length == 0 {
            at = (at / SECTOR + 1) * SECTOR;
            continue;
        }
        let record = extent.get(at..at + length)?;
        at += length;
        let name_length = *record.get(32)? as usize;
        let identifier = record.get(33..33 + name_length)?;
        if record[25] & 2 != 0 || matches!(identifier, [0] | [1]) {
            continue;
        }
        let system_use =
            record.get(33 + name_length + usize::from(name_length.is_multiple_of(2))..).unwrap_or(&[]);
        let (name, long) = name(identifier, system_use);
        entries.push((name, long, self::extent(bytes, record)?.to_vec()));
    }
    Some(entries)
}

fn extent<'a>(bytes: &'a [u8], record: &[u8]) -> Option<&'a [u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(record.get(at..at + 4)?.try_into().ok()?) as usize);
    let start = number(2)?.checked_mul(SECTOR)?;
    bytes.get(start..start.checked_add(number(10)?)?)
}

fn rock_ridge_name(identifier: &[u8], mut system_use: &[u8]) -> (String, bool) {
    let mut name = Vec::new();
    while let [a, b, length, _, rest @ ..] = system_use {
        let length = *length as usize;
        if length < 4 || length > system_use.len() {
            break;
        }
        if [*a, *b] == *b"NM" && length > 5 {
            name.extend_from_slice(&rest[1..length - 4]);
        }
        system_use = &system_use[length..];
    }
    if name.is_empty() {
        let plain = String::from_utf8_lossy(identifier);
        (plain.split(';').next().unwrap_or_default().trim_end_matches('.').to_owned(), false)
    } else {
        (String::from_utf8_lossy(&name).into_owned(), true)
    }
}

fn joliet_name(identifier: &[u8], _: &[u8]) -> (String, bool) {
    let units: Vec<u16> = identifier.chunks_exact(2).map(|c| u16::from_be_bytes([c[0], c[1]])).collect();
    let name = String::from_utf16_lossy(&units);
    (name.split(';').next().unwrap_or_default().to_owned(), true)
}
