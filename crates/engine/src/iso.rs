//! Writes a small ISO 9660 volume with Rock Ridge names: one folder, a few files, the same bytes every time.

const SECTOR: usize = 2048;
const PATH_TABLE_L: u32 = 18;
const PATH_TABLE_M: u32 = 19;
const ROOT: u32 = 20;
/// Where the root's extension reference continues.
const CONTINUATION: u32 = 21;
const FIRST_FILE: u32 = 22;
/// 2000-01-01 00:00:00 UTC; a real time would make the same content differ.
const DATE: [u8; 7] = [100, 1, 1, 0, 0, 0, 0];
const LONG_DATE: &[u8; 17] = b"2000010100000000\0";

/// One file: its real name, a short upper-case name for readers without Rock Ridge, its content.
pub(crate) struct IsoFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) short: &'a str,
    pub(crate) content: &'a [u8],
}

/// Builds the volume. Files must be given in the order of their short names.
pub(crate) fn build(label: &str, files: &[IsoFile<'_>]) -> Vec<u8> {
    let mut at = FIRST_FILE;
    let mut places = Vec::with_capacity(files.len());
    for file in files {
        places.push(at);
        at += u32::try_from(file.content.len().div_ceil(SECTOR)).unwrap_or(u32::MAX);
    }
    let sectors = at;

    let mut iso = vec![0; SECTOR * FIRST_FILE as usize];
    put(&mut iso, 16, &primary_descriptor(label, sectors));
    put(&mut iso, 17, b"\xffCD001\x01");
    put(&mut iso, PATH_TABLE_L, &path_table(ROOT.to_le_bytes(), 1u16.to_le_bytes()));
    put(&mut iso, PATH_TABLE_M, &path_table(ROOT.to_be_bytes(), 1u16.to_be_bytes()));
    let mut root = Vec::with_capacity(SECTOR);
    let continuation = extension_reference();
    let mut own = b"SP\x07\x01\xbe\xef\x00".to_vec();
    own.extend(posix(0o40_755, 2));
    own.extend(continues(continuation.len()));
    root.extend(record(b"\0", ROOT, SECTOR, true, &own));
    root.extend(record(b"\x01", ROOT, SECTOR, true, &posix(0o40_755, 2)));
    for (file, place) in files.iter().zip(&places) {
        let mut extra = posix(0o100_600, 1);
        extra.extend(name(file.name));
        let short = format!("{}.;1", file.short);
        root.extend(record(short.as_bytes(), *place, file.content.len(), false, &extra));
    }
    put(&mut iso, ROOT, &root);
    put(&mut iso, CONTINUATION, &continuation);
    for file in files {
        iso.extend_from_slice(file.content);
        iso.resize(iso.len().next_multiple_of(SECTOR), 0);
    }
    iso
}

fn put(iso: &mut [u8], sector: u32, bytes: &[u8]) {
    let from = sector as usize * SECTOR;
    iso[from..from + bytes.len()].copy_from_slice(bytes);
}

/// A number in both byte orders, as the format wants most of them.
fn both32(value: u32) -> [u8; 8] {
    let (a, b) = (value.to_le_bytes(), value.to_be_bytes());
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

fn both16(value: u16) -> [u8; 4] {
    let (a, b) = (value.to_le_bytes(), value.to_be_bytes());
    [a[0], a[1], b[0], b[1]]
}

fn padded(text: &str, length: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(length, b' ');
    bytes
}

fn primary_descriptor(label: &str, sectors: u32) -> Vec<u8> {
    let mut d = b"\x01CD001\x01\x00".to_vec();
    d.extend(padded("LINUX", 32));
    d.extend(padded(label, 32));
    d.extend([0; 8]);
    d.extend(both32(sectors));
    d.extend([0; 32]);
    d.extend(both16(1));
    d.extend(both16(1));
    d.extend(both16(SECTOR as u16));
    d.extend(both32(10));
    d.extend(PATH_TABLE_L.to_le_bytes());
    d.extend([0; 4]);
    d.extend(PATH_TABLE_M.to_be_bytes());
    d.extend([0; 4]);
    d.extend(record(b"\0", ROOT, SECTOR, true, &[]));
    for length in [128, 128, 128, 128, 37, 37, 37] {
        d.extend(padded("", length));
    }
    for _ in 0..2 {
        d.extend_from_slice(LONG_DATE);
    }
    for _ in 0..2 {
        d.extend_from_slice(b"0000000000000000\0");
    }
    d.push(1);
    d
}

fn path_table(extent: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    let mut table = vec![1, 0];
    table.extend(extent);
    table.extend(parent);
    table.extend([0, 0]);
    table
}

fn record(identifier: &[u8], extent: u32, length: usize, folder: bool, extra: &[u8]) -> Vec<u8> {
    let mut r = vec![0, 0];
    r.extend(both32(extent));
    r.extend(both32(u32::try_from(length).unwrap_or(u32::MAX)));
    r.extend(DATE);
    r.extend([if folder { 2 } else { 0 }, 0, 0]);
    r.extend(both16(1));
    r.push(identifier.len() as u8);
    r.extend_from_slice(identifier);
    if r.len() % 2 == 1 {
        r.push(0);
    }
    r.extend_from_slice(extra);
    if r.len() % 2 == 1 {
        r.push(0);
    }
    r[0] = r.len() as u8;
    r
}

/// `PX`: mode, links, owner.
fn posix(mode: u32, links: u32) -> Vec<u8> {
    let mut entry = b"PX\x24\x01".to_vec();
    for value in [mode, links, 0, 0] {
        entry.extend(both32(value));
    }
    entry
}

/// `NM`: the real name.
fn name(text: &str) -> Vec<u8> {
    let mut entry = b"NM\x00\x01\x00".to_vec();
    entry.extend_from_slice(text.as_bytes());
    entry[2] = entry.len() as u8;
    entry
}

/// `CE`: more entries are elsewhere.
fn continues(length: usize) -> Vec<u8> {
    let mut entry = b"CE\x1c\x01".to_vec();
    for value in [CONTINUATION, 0, length as u32] {
        entry.extend(both32(value));
    }
    entry
}

/// `ER`: says that the names above are Rock Ridge's.
fn extension_reference() -> Vec<u8> {
    let (id, text) = ("RRIP_1991A", "ROCK RIDGE INTERCHANGE PROTOCOL");
    let mut entry = b"ER\x00\x01".to_vec();
    entry.extend([id.len() as u8, text.len() as u8, 0, 1]);
    entry.extend_from_slice(id.as_bytes());
    entry.extend_from_slice(text.as_bytes());
    entry[2] = entry.len() as u8;
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_has_its_label_and_its_files() {
        let content = vec![7; 5000];
        let files = [
            IsoFile { name: "meta-data", short: "METADATA", content: b"instance-id: x\n" },
            IsoFile { name: "user-data", short: "USERDATA", content: &content },
        ];
        let iso = build("cidata", &files);
        assert_eq!(iso.len() % SECTOR, 0);
        let descriptor = &iso[16 * SECTOR..17 * SECTOR];
        assert_eq!(&descriptor[1..6], b"CD001");
        assert_eq!(&descriptor[40..48], b"cidata  ");
        let sectors = u32::from_le_bytes(descriptor[80..84].try_into().unwrap());
        assert_eq!(sectors as usize * SECTOR, iso.len());
        // Walk the root folder as a reader does.
        let root = &iso[ROOT as usize * SECTOR..][..SECTOR];
        let mut found = Vec::new();
        let mut at = 0;
        while root[at] != 0 {
            let record = &root[at..at + root[at] as usize];
            let extent = u32::from_le_bytes(record[2..6].try_into().unwrap()) as usize;
            let length = u32::from_le_bytes(record[10..14].try_into().unwrap()) as usize;
            if let Some(name) = record.windows(2).position(|two| two == b"NM") {
                let name = &record[name..name + record[name + 2] as usize];
                found.push((
                    String::from_utf8(name[5..].to_vec()).unwrap(),
                    iso[extent * SECTOR..][..length].to_vec(),
                ));
            }
            at += record.len();
        }
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], ("meta-data".to_owned(), b"instance-id: x\n".to_vec()));
        assert_eq!(found[1], ("user-data".to_owned(), content.clone()));
        assert_eq!(build("cidata", &files), iso);
    }
}
