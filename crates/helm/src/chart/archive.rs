//! Unpacks chart archives in memory: nothing outside the chart's folder, no links, no bombs.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

use super::File;
use super::load::{MAX_CHART, MAX_FILE};
use crate::error::Error;

/// Most files in a chart and the archives within it.
const MAX_FILES: usize = 20_000;

/// What may still be unpacked of a chart, all archives within it together.
pub(super) struct Room {
    /// Bytes of streams. Headers and padding count too, so that a stream of nothing but them ends as well.
    bytes: u64,
    files: usize,
}

impl Room {
    pub(super) fn new() -> Self {
        Room { bytes: MAX_CHART + (MAX_FILES as u64) * 1024, files: MAX_FILES }
    }

    fn exceeded() -> Error {
        Error::Archive(format!(
            "decompressed chart is larger than the maximum file size {MAX_CHART}, the archives within it included"
        ))
    }
}

/// The files of a `.tgz`, by their paths below its top folder.
pub(super) fn unpack(data: &[u8], room: &mut Room) -> Result<Vec<File>, Error> {
    // One byte more, to tell a stream that fills the room from one that is longer.
    let mut archive = tar::Archive::new(MultiGzDecoder::new(data).take(room.bytes + 1));
    let unpacked = files(&mut archive, room);
    room.bytes = archive.into_inner().limit().checked_sub(1).ok_or_else(Room::exceeded)?;
    unpacked
}

fn files(archive: &mut tar::Archive<impl std::io::Read>, room: &mut Room) -> Result<Vec<File>, Error> {
    let broken = |e: std::io::Error| Error::Archive(e.to_string());
    let mut files = Vec::new();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        let path = crate::strconv::lossy(&entry.path_bytes()).into_owned();
        if kind.is_symlink() || kind.is_hard_link() {
            return Err(Error::Archive(format!("chart illegally contains a link: {path:?}")));
        }
        if !kind.is_file() {
            return Err(Error::Archive(format!("chart illegally contains a special file: {path:?}")));
        }
        let name = inner_path(&path)?;
        let size = entry.size();
        if size > MAX_FILE {
            return Err(Error::Archive(format!(
                "decompressed chart file {path:?} is larger than the maximum file size {MAX_FILE}"
            )));
        }
        room.files = room.files.checked_sub(1).ok_or_else(Room::exceeded)?;
        let mut data = Vec::new();
        (&mut entry).take(MAX_FILE).read_to_end(&mut data).map_err(broken)?;
        if data.starts_with(b"\xEF\xBB\xBF") {
            data.drain(..3);
        }
        files.push(File { name, data });
    }
    if files.is_empty() {
        return Err(Error::Archive("no files in chart archive".into()));
    }
    Ok(files)
}

/// The path below the archive's top folder, refused when it leads anywhere else.
fn inner_path(path: &str) -> Result<String, Error> {
    let normal = path.replace('\\', "/");
    let (top, rest) = normal.split_once('/').unwrap_or((&normal, ""));
    if top == "Chart.yaml" {
        return Err(Error::Archive("chart yaml not in base directory".into()));
    }
    if rest.starts_with('/') {
        return Err(Error::Archive("chart illegally contains absolute paths".into()));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Err(Error::Archive("chart illegally references parent directory".into()));
                }
            }
            other => parts.push(other),
        }
    }
    if parts.is_empty() {
        return Err(Error::Archive(format!(
            "chart illegally contains content outside the base directory: {path:?}"
        )));
    }
    let name = parts.join("/");
    let bytes = name.as_bytes();
    if bytes.len() >= 3 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && bytes[2] == b'/' {
        return Err(Error::Archive("chart contains illegally named files".into()));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        assert_eq!(inner_path("c/templates/../values.yaml").unwrap(), "values.yaml");
        assert_eq!(inner_path("c\\templates\\a.yaml").unwrap(), "templates/a.yaml");
        for bad in ["c/../../etc/passwd", "c//etc/passwd", "c", "Chart.yaml", "c/C:/x", "../x/.."] {
            assert!(inner_path(bad).is_err(), "{bad}");
        }
    }
}
