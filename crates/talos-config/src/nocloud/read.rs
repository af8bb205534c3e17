//! Reading ISO 9660 images: the root directory's files, whoever wrote the image.

use std::collections::BTreeMap;

use super::iso::{
    BLOCK, FIRST_DESCRIPTOR, Iso, JOLIET, MAGIC, PRIMARY, RECORD, ROOT_RECORD, SUPPLEMENTARY, TERMINATOR,
};
use crate::{Error, Result};

const BROKEN: Error = Error::Iso { reason: "it is cut off or broken" };

impl Iso {
    /// Reads an image.
    pub fn read(image: &[u8]) -> Result<Self> {
        let (mut primary, mut joliet) = (None, None);
        for index in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + 16 {
            let descriptor = slice(image, index * BLOCK, BLOCK)?;
            if &descriptor[1..6] != MAGIC {
                return Err(Error::Iso { reason: "it is not an ISO 9660 image" });
            }
            match descriptor[0] {
                PRIMARY => primary = primary.or(Some(descriptor)),
                // Three escape sequences stand for the three levels of Joliet.
                SUPPLEMENTARY if descriptor[88..90] == JOLIET[..2] => joliet = joliet.or(Some(descriptor)),
                TERMINATOR => break,
                _ => {}
            }
        }
        let primary = primary.ok_or(Error::Iso { reason: "it has no primary volume" })?;
        let plain = directory(image, primary)?;
        let label = String::from_utf8_lossy(&primary[40..72]).trim_end_matches([' ', '\0']).to_owned();
        let has_rock_ridge = plain.iter().any(|entry| entry.rock_ridge_name.is_some());
        let entries = match joliet {
            Some(joliet) if !has_rock_ridge => directory(image, joliet)?
                .into_iter()
                .map(|entry| (joliet_name(&entry.name), entry))
                .collect::<Vec<_>>(),
            _ => plain
                .into_iter()
                .map(|entry| {
                    (entry.rock_ridge_name.clone().unwrap_or_else(|| plain_name(&entry.name)), entry)
                })
                .collect(),
        };
        let mut files = BTreeMap::new();
        for (name, entry) in entries {
            files.insert(name, slice(image, entry.block.saturating_mul(BLOCK), entry.size)?.to_vec());
        }
        Ok(Self { label, files })
    }
}

fn slice(image: &[u8], start: usize, length: usize) -> Result<&[u8]> {
    start.checked_add(length).and_then(|end| image.get(start..end)).ok_or(BROKEN)
}

fn number(record: &[u8], at: usize) -> Result<usize> {
    let bytes: [u8; 4] = slice(record, at, 4)?.try_into().map_err(|_| BROKEN)?;
    Ok(u32::from_le_bytes(bytes) as usize)
}

struct Entry {
    name: Vec<u8>,
    rock_ridge_name: Option<String>,
    block: usize,
    size: usize,
}

/// The regular files of the root directory.
fn directory(image: &[u8], descriptor: &[u8]) -> Result<Vec<Entry>> {
    let root = slice(descriptor, ROOT_RECORD, RECORD + 1)?;
    let bytes = slice(image, number(root, 2)?.checked_mul(BLOCK).ok_or(BROKEN)?, number(root, 10)?)?;
    let mut entries = Vec::new();
    let mut at = 0;
    // A file may say of itself that it is large as often as it likes: together they cannot be larger than the image.
    let mut budget = image.len();
    while at < bytes.len() {
        let length = usize::from(bytes[at]);
        if length == 0 {
            // Records do not cross blocks; the rest of this one is empty.
            at = (at / BLOCK + 1) * BLOCK;
            continue;
        }
        let record = slice(bytes, at, length)?;
        at += length;
        let name_length = usize::from(*record.get(32).ok_or(BROKEN)?);
        let name = slice(record, RECORD, name_length)?;
        let is_directory = record[25] & 2 != 0;
        if is_directory {
            continue;
        }
        let size = number(record, 10)?;
        budget = budget.checked_sub(size).ok_or(BROKEN)?;
        let fields = RECORD + name_length + usize::from(name_length % 2 == 0);
        entries.push(Entry {
            name: name.to_vec(),
            rock_ridge_name: rock_ridge_name(record.get(fields..).unwrap_or_default()),
            block: number(record, 2)?,
            size,
        });
    }
    Ok(entries)
}

fn rock_ridge_name(mut fields: &[u8]) -> Option<String> {
    let mut name = Vec::new();
    while fields.len() >= 4 && usize::from(fields[2]) >= 4 {
        let (field, rest) = fields.split_at_checked(usize::from(fields[2]))?;
        if &field[..2] == b"NM" {
            name.extend_from_slice(field.get(5..)?);
        }
        fields = rest;
    }
    if name.is_empty() { None } else { String::from_utf8(name).ok() }
}

fn joliet_name(name: &[u8]) -> String {
    let units: Vec<u16> = name.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    without_version(&String::from_utf16_lossy(&units)).to_owned()
}

fn plain_name(name: &[u8]) -> String {
    without_version(&String::from_utf8_lossy(name)).trim_end_matches('.').to_ascii_lowercase()
}

fn without_version(name: &str) -> &str {
    name.rsplit_once(';').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::write, *};

    fn image(files: &[(&str, &[u8])]) -> Vec<u8> {
        write::iso("cidata", files).unwrap().to_vec()
    }

    #[test]
    fn names_come_from_rock_ridge_or_joliet() {
        let image = image(&[("user-data", b"u"), ("network-config", b"n"), ("empty", b"")]);
        let iso = Iso::read(&image).unwrap();
        assert_eq!(iso.label, "cidata");
        assert_eq!(iso.files.keys().collect::<Vec<_>>(), ["empty", "network-config", "user-data"]);
        assert_eq!(iso.files["user-data"], b"u");

        // The same image without its Rock Ridge names.
        let mut without = image;
        while let Some(at) = without.windows(2).position(|pair| pair == b"NM") {
            without[at..at + 2].copy_from_slice(b"XX");
        }
        assert_eq!(Iso::read(&without).unwrap(), iso);

        // And without Joliet as well: the names are those of 1988.
        without[17 * BLOCK + 88..17 * BLOCK + 91].fill(0);
        let names: Vec<_> = Iso::read(&without).unwrap().files.into_keys().collect();
        assert_eq!(names, ["empty", "network_", "user_dat"]);
    }

    #[test]
    fn similar_names_do_not_clash() {
        let names: Vec<String> = (0..9).map(|digit| format!("similar-name-{digit}")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
        let iso = Iso::read(&image(&files)).unwrap();
        assert_eq!(iso.files.len(), 9);
        for (name, content) in iso.files {
            assert_eq!(name.as_bytes(), content);
        }
    }

    #[test]
    fn refuses_what_cannot_be_written() {
        let large = vec![0; 10];
        assert!(write::iso("", &[]).is_err());
        assert!(write::iso("seventeen letters", &[]).is_err());
        assert!(write::iso("cidata", &[("a/b", &large)]).is_err());
        let names: Vec<String> = (0..100).map(|number| format!("{number}-name")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        assert!(write::iso("cidata", &files).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn contents_survive(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5000), 0..5)) {
            let names = ["meta-data", "user-data", "network-config", "vendor-data", "x"];
            let files: Vec<(&str, &[u8])> = names.into_iter().zip(contents.iter().map(Vec::as_slice)).collect();
            let iso = Iso::read(&image(&files)).unwrap();
            prop_assert_eq!(iso.files.len(), files.len());
            for (name, content) in files {
                prop_assert_eq!(&iso.files[name], content);
            }
        }

        #[test]
        fn broken_images_never_panic(at in 0..30 * BLOCK, value: u8, length in 0..30 * BLOCK) {
            let mut image = image(&[("user-data", b"content"), ("meta-data", b"")]);
            let at = at % image.len();
            image[at] = value;
            let _ = Iso::read(&image);
            image.truncate(length);
            let _ = Iso::read(&image);
        }

        #[test]
        fn directories_of_noise_never_panic(noise in prop::collection::vec(any::<u8>(), BLOCK)) {
            let mut image = image(&[("user-data", b"content")]);
            image[23 * BLOCK..24 * BLOCK].copy_from_slice(&noise);
            image[24 * BLOCK..25 * BLOCK].copy_from_slice(&noise);
            let _ = Iso::read(&image);
        }
    }
}
