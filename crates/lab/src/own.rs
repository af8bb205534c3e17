//! The files of a lab's folder: private to their owner from birth, never reached through a link, and read only if they are the
//! user's own. A folder may have come from somebody else: cloned, unpacked or shared.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Makes a lab's folder with its parents, all of them private. One that is a link is refused: whatever a lab writes would land where
/// the link leads.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if folder.symlink_metadata()?.is_symlink() {
        return Err(io::Error::other("it is a symbolic link; name the folder itself with --lab-dir"));
    }
    Ok(())
}

/// Opens a file for reading and writing, made if it is not there; never through a link.
pub(crate) fn open_or_make(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    options.custom_flags(no_follow()).open(path)
}

/// Opens a file for reading; never through a link.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(no_follow() | non_blocking()).open(path)
}

/// Reads a regular file of the user's own, of at most so many bytes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_with(path, limit, 0)
}

/// The same, of a file that nobody else can read or write, as a lab makes it. What a version control system or an archive put there
/// is mostly readable by others.
pub(crate) fn read_private(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_with(path, limit, 0o077)
}

fn read_with(path: &Path, limit: u64, forbidden: u32) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if metadata.mode() & forbidden != 0 {
        return Err(io::Error::other("other users can read or write it, so no lab of yours wrote it"));
    }
    read_regular(&file, limit)
}

/// Reads an open file, if it is a regular one of at most so many bytes. A device or a pipe may never end.
pub fn read_regular(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let refused = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if !file.metadata()?.is_file() {
        return Err(refused("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= limit {
        return Ok(bytes);
    }
    let most = match limit >> 20 {
        0 => format!("{limit} bytes"),
        mib => format!("{mib} MiB"),
    };
    Err(refused(format!("it is larger than {most}")))
}

/// An empty file that only its owner may read, in place of whatever has that name.
pub fn create_private(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes a file that only its owner may read, all of it or nothing.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = create_private(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

fn no_follow() -> i32 {
    flag(OFlags::NOFOLLOW)
}

/// A pipe that nobody writes to must not hold anybody up.
fn non_blocking() -> i32 {
    flag(OFlags::NONBLOCK)
}

fn flag(flag: OFlags) -> i32 {
    i32::try_from(flag.bits()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_link_is_neither_read_nor_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("world.json"));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        symlink(&victim, folder.path().join("world.new")).unwrap();
        assert!(open_or_make(&link).is_err());
        assert!(read(&link, 100).is_err());
        write_private(&link, b"a world").unwrap();
        assert_eq!(std::fs::read(&link).unwrap(), b"a world");
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        let lab = folder.path().join("lab");
        symlink(folder.path(), &lab).unwrap();
        assert!(make_folder(&lab).unwrap_err().to_string().contains("--lab-dir"));
    }

    #[test]
    fn only_private_files_of_a_sane_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.json");
        write_private(&path, b"0123456789").unwrap();
        assert_eq!(read_private(&path, 10).unwrap(), b"0123456789");
        assert!(read_private(&path, 9).unwrap_err().to_string().contains("larger"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&path, 10).is_ok());
        assert!(read_private(&path, 10).unwrap_err().to_string().contains("other users"));
        assert!(read(folder.path(), 10).unwrap_err().to_string().contains("regular"));
    }

    #[test]
    fn a_folder_is_private_from_birth() {
        let folder = tempfile::tempdir().unwrap();
        let lab = folder.path().join(".daedal/lab");
        make_folder(&lab).unwrap();
        for made in [lab.as_path(), lab.parent().unwrap()] {
            assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o700, "{}", made.display());
        }
    }
}
