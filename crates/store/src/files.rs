//! Careful file work: private files, atomic replacement, everything synced before it counts.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::Error;

pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

/// Makes a private folder with its parents, each synced in its own parent: a file in it outlives a power cut only if
/// the way to it does.
pub fn make_private_folder(path: &Path) -> Result<(), Error> {
    let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.is_dir();
    let missing: Vec<&Path> = path.ancestors().take_while(is_new).collect();
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => {}
            // Somebody else just made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(source) => {
                return Err(Error::Io { what: "create the folder", path: folder.to_owned(), source });
            }
        }
        sync_parent(folder)?;
    }
    Ok(())
}

/// Reads a file; none if it is not there.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { what: "read", path: path.to_owned(), source }),
    }
}

/// Replaces a file atomically with mode 0600: written beside it, synced, renamed over it, folder synced.
///
/// Also for files outside the store that hold keys, such as a kubeconfig.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let beside = beside(path);
    write_synced(&beside, bytes)?;
    if let Err(error) = fs::rename(&beside, path) {
        // It holds keys, and nobody would look for it there.
        let _ = fs::remove_file(&beside);
        return Err(io("replace", path)(error));
    }
    sync_parent(path)
}

/// Writes a file that must not exist yet: synced and read back under its temporary name before it gets its own. A lock
/// must keep others away.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if exists(path)? {
        return Err(Error::Changed { path: path.to_owned() });
    }
    let beside = &beside(path);
    write_synced(beside, bytes)?;
    if read(beside)?.as_deref() != Some(bytes) {
        return Err(Error::ReadBack { path: beside.to_owned() });
    }
    name_new(beside, path)
}

/// Gives a file that was made beside it a name that must not be taken yet. A lock must keep others away.
pub(crate) fn name_new(beside: &Path, path: &Path) -> Result<(), Error> {
    let there = || Error::Changed { path: path.to_owned() };
    // A link, unlike a rename, never replaces what is there.
    match fs::hard_link(beside, path) {
        Ok(()) => fs::remove_file(beside).map_err(io("remove", beside))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(there()),
        // File systems without links: the lock keeps others away.
        Err(_) if exists(path)? => return Err(there()),
        Err(_) => fs::rename(beside, path).map_err(io("name", path))?,
    }
    sync_parent(path)
}

/// Copies a file, however large, in place of what may be left of an earlier try.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = File::open(from).map_err(io("read", from))?;
    let mut copy = create(to)?;
    io::copy(&mut source, &mut copy).map_err(io("write", to)).map(drop)
}

/// Makes sure that a file's content outlives a power cut.
pub(crate) fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(io("sync", path))
}

/// The names of the files in a folder that are no leftovers, sorted; none if it is not there.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io("list", folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io("list", folder))?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !is_folder {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Removes a private file for good, if it is there, and what a killed run may have left beside it in the making.
pub fn remove_private(path: &Path) -> Result<(), Error> {
    let mut removed = false;
    for file in [&beside(path), path] {
        match fs::remove_file(file) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io("remove", file)(error)),
        }
    }
    if removed { sync_parent(path) } else { Ok(()) }
}

/// Whether something is there.
pub(crate) fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(io("look for", path))
}

/// `.name.new` beside `path`. One fixed name, so that a crash leaves at most one, overwritten next time.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}

/// Writes and syncs a private file in place of what may be left of an earlier try.
fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = create(path)?;
    file.write_all(bytes).map_err(io("write", path))?;
    file.sync_all().map_err(io("sync", path))
}

/// Makes a private file in place of what may be left of an earlier try.
fn create(path: &Path) -> Result<File, Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io("remove", path)(error)),
        _ => {}
    }
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    open.map_err(io("create", path))
}

fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(io("sync the folder", parent))
}

/// Adds to the end of a private file by one write, so that the lines of two processes never mix.
pub(crate) fn append(path: &Path, lines: &[u8]) -> Result<(), Error> {
    let mut file = open_own(OpenOptions::new().append(true).create(true), path)?;
    file.write_all(lines).map_err(io("append to", path))
}

/// Opens (and makes) a private file without cutting it.
pub(crate) fn open_or_make(path: &Path) -> Result<File, Error> {
    open_own(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
}

/// Opens a private file that is nowhere else: what a link or a second name leads to would be overwritten.
fn open_own(options: &mut OpenOptions, path: &Path) -> Result<File, Error> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let opened = options.mode(0o600).custom_flags(flags).open(path).and_then(|file| {
        let metadata = file.metadata()?;
        match metadata.is_file() && metadata.nlink() == 1 {
            true => Ok(file),
            false => Err(io::Error::other("it is not a file of its own, with one name")),
        }
    });
    opened.map_err(|error| {
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let error = if is_link { io::Error::other("it is a symbolic link") } else { error };
        Error::Io { what: "open", path: path.to_owned(), source: error }
    })
}

/// Whether nobody but the owner can read the file.
#[cfg(test)]
pub(crate) fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(is_private(&path));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn folders_are_made_private_all_the_way_and_a_second_time_is_fine() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("one/two/three");
        make_private_folder(&deep).unwrap();
        make_private_folder(&deep).unwrap();
        assert!(is_private(&folder.path().join("one")) && is_private(&deep));
        let file = folder.path().join("one/file");
        fs::write(&file, b"").unwrap();
        let error = make_private_folder(&file.join("four")).unwrap_err();
        assert!(matches!(error, Error::Io { what: "create the folder", .. }), "{error:?}");
    }

    #[test]
    fn a_new_file_never_replaces_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.yaml");
        write_new(&path, b"one").unwrap();
        assert!(matches!(write_new(&path, b"two"), Err(Error::Changed { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn neither_lock_nor_journal_is_opened_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, b"precious").unwrap();
        let (link, second) = (folder.path().join("lock"), folder.path().join("journal"));
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        fs::hard_link(&precious, &second).unwrap();
        for path in [&link, &second] {
            for opened in [append(path, b"x"), open_or_make(path).map(drop)] {
                assert!(matches!(opened, Err(Error::Io { what: "open", .. })), "{}", path.display());
            }
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        fs::remove_file(&second).unwrap();
        append(&second, b"one\n").unwrap();
        append(&second, b"two\n").unwrap();
        assert_eq!(fs::read(&second).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn a_half_written_leftover_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".secrets.yaml.new"), b"half").unwrap();
        let path = folder.path().join("secrets.yaml");
        write_new(&path, b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
