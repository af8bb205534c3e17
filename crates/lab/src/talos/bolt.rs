//! Writes etcd's kind of database, so that real tools can read the lab's snapshots.

/// Pages are of this size.
const PAGE: usize = 4096;
/// Header of a page, and of an element in it.
const HEADER: usize = 16;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const META: u16 = 0x04;
/// Marks a value that is itself a bucket.
const BUCKET: u32 = 0x01;
/// There is no list of free pages: every page is in use.
const NO_FREE_LIST: u64 = u64::MAX;
/// Where a page of entries is full.
const FULL: usize = 64 * 1024;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A database of buckets, each with its entries; both in the order of their names.
pub(super) fn database(mut buckets: Vec<(&str, Entries)>) -> Vec<u8> {
    buckets.sort_by_key(|(name, _)| *name);
    // The two pages that say where the tree begins come first, once it is known.
    let mut file = vec![0; 2 * PAGE];
    let roots: Entries = buckets
        .into_iter()
        .map(|(name, mut entries)| {
            entries.sort();
            let root = tree(&mut file, &entries);
            let mut bucket = root.to_le_bytes().to_vec();
            bucket.extend_from_slice(&0_u64.to_le_bytes());
            (name.as_bytes().to_vec(), bucket)
        })
        .collect();
    let root = leaf(&mut file, &roots, BUCKET);
    let pages = (file.len() / PAGE) as u64;
    for turn in 0..2_u64 {
        let mut meta = Vec::with_capacity(64);
        for word in [0xED0C_DAED_u32, 2, PAGE as u32, 0] {
            meta.extend_from_slice(&word.to_le_bytes());
        }
        for word in [root, 0, NO_FREE_LIST, pages, turn] {
            meta.extend_from_slice(&word.to_le_bytes());
        }
        let checksum = meta.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        meta.extend_from_slice(&checksum.to_le_bytes());
        let start = turn as usize * PAGE;
        let page = [header(turn, META, 0, 0).to_vec(), meta].concat();
        file[start..start + page.len()].copy_from_slice(&page);
    }
    file
}

fn header(id: u64, flags: u16, count: usize, overflow: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&id.to_le_bytes());
    header[8..10].copy_from_slice(&flags.to_le_bytes());
    header[10..12].copy_from_slice(&(count as u16).to_le_bytes());
    header[12..].copy_from_slice(&(overflow as u32).to_le_bytes());
    header
}

/// Writes the entries as a tree and returns the number of its topmost page.
fn tree(file: &mut Vec<u8>, entries: &[(Vec<u8>, Vec<u8>)]) -> u64 {
    let mut pages = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() || pages.is_empty() {
        let mut size = 0;
        let fitting = rest.iter().take_while(|(key, value)| {
            size += HEADER + key.len() + value.len();
            size <= FULL
        });
        // A single entry may be larger than what is called full.
        let count = fitting.count().max(1).min(rest.len());
        let (now, later) = rest.split_at(count);
        let first = now.first().map(|(key, _)| key.clone()).unwrap_or_default();
        pages.push((first, leaf(file, now, 0)));
        rest = later;
    }
    while pages.len() > 1 {
        pages = pages.chunks(128).map(|below| (below[0].0.clone(), branch(file, below))).collect();
    }
    pages.first().map_or(0, |(_, id)| *id)
}

fn leaf(file: &mut Vec<u8>, entries: &[(Vec<u8>, Vec<u8>)], flags: u32) -> u64 {
    let (mut elements, mut data) = (Vec::new(), Vec::new());
    for (index, (key, value)) in entries.iter().enumerate() {
        // Positions count from the element itself.
        let position = (entries.len() - index) * HEADER + data.len();
        for word in [flags, position as u32, key.len() as u32, value.len() as u32] {
            elements.extend_from_slice(&word.to_le_bytes());
        }
        data.extend_from_slice(key);
        data.extend_from_slice(value);
    }
    page(file, LEAF, entries.len(), &[elements, data].concat())
}

fn branch(file: &mut Vec<u8>, below: &[(Vec<u8>, u64)]) -> u64 {
    let (mut elements, mut data) = (Vec::new(), Vec::new());
    for (index, (key, id)) in below.iter().enumerate() {
        let position = (below.len() - index) * HEADER + data.len();
        for word in [position as u32, key.len() as u32] {
            elements.extend_from_slice(&word.to_le_bytes());
        }
        elements.extend_from_slice(&id.to_le_bytes());
        data.extend_from_slice(key);
    }
    page(file, BRANCH, below.len(), &[elements, data].concat())
}

fn page(file: &mut Vec<u8>, flags: u16, count: usize, content: &[u8]) -> u64 {
    let id = (file.len() / PAGE) as u64;
    let overflow = (HEADER + content.len()).div_ceil(PAGE) - 1;
    file.extend_from_slice(&header(id, flags, count, overflow));
    file.extend_from_slice(content);
    file.resize(file.len().next_multiple_of(PAGE), 0);
    id
}

#[cfg(test)]
mod tests {
    use daedal_talos_client::Snapshot;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let many: Entries = (0..5_000_u64).map(|n| (n.to_be_bytes().to_vec(), vec![7; 100])).collect();
        let large: Entries = vec![(b"large".to_vec(), vec![1; 300_000]), (b"small".to_vec(), vec![])];
        let file = database(vec![("many", many.clone()), ("large", large.clone()), ("empty", vec![])]);
        let snapshot = Snapshot::read_unchecked(&file).unwrap();
        for (name, entries) in [("many", many), ("large", large), ("empty", vec![])] {
            let read = snapshot.bucket(name.as_bytes()).unwrap();
            let read: Entries = read.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            assert!(read == entries, "{name}");
        }
        assert_eq!(snapshot.info().size, file.len() as u64);
    }
}
