//! Files that an inventory names: where they may be, and how much of them is read. Whoever wrote the inventory need not be who runs it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The most that is read of a file which an inventory names.
pub const LARGEST: u64 = 1 << 20;

/// The real path of what an inventory names, links followed. It must lie inside one of the folders, of which the first is that of
/// the inventory, unless the operator allows otherwise.
pub fn locate(folders: &[PathBuf], named: &Path, allow_outside: bool) -> io::Result<PathBuf> {
    let first = folders.first().map_or(Path::new(""), PathBuf::as_path);
    let real = here(first).join(named).canonicalize()?;
    let mut roots = folders.iter().filter_map(|folder| here(folder).canonicalize().ok());
    if allow_outside || roots.any(|root| real.starts_with(root)) {
        return Ok(real);
    }
    let why = "it lies outside the inventory's folder; `allowOutside: true` in your own settings (docs/security.md) allows that";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// The real path of an inventory that another one is based on. Both must lie in one repository, or the base in the other's
/// folder, unless the operator allows otherwise.
pub fn locate_base(folder: &Path, named: &Path, allow_outside: bool) -> io::Result<PathBuf> {
    let real = here(folder).join(named).canonicalize()?;
    if allow_outside || real.starts_with(repository(here(folder).canonicalize()?)) {
        return Ok(real);
    }
    let why = "it lies outside the git repository that the inventory is in (without one: outside the inventory's folder); \
               `allowOutside: true` in your own settings (docs/security.md) allows that";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// The root of the git repository that a folder is in; the folder itself if it is in none.
fn repository(folder: PathBuf) -> PathBuf {
    folder.ancestors().find(|above| above.join(".git").exists()).map(Path::to_owned).unwrap_or(folder)
}

fn here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// Reads a regular file of at most [`LARGEST`] bytes. A device or a pipe may never end.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    daedal_lab::read_regular(&open(path)?, LARGEST)
}

/// Without waiting for somebody to write to a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_the_folder_is_reached() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("inventory");
        std::fs::create_dir_all(folder.join("patches")).unwrap();
        std::fs::write(folder.join("patches/a.yaml"), "a: b").unwrap();
        std::fs::write(top.path().join("secret"), "canary").unwrap();
        symlink("../secret", folder.join("link.yaml")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        symlink("patches/a.yaml", folder.join("inside.yaml")).unwrap();
        let locate = |named: &Path, allowed| locate(std::slice::from_ref(&folder), named, allowed);
        for good in ["patches/a.yaml", "inside.yaml", "up/inventory/patches/a.yaml"] {
            assert!(locate(Path::new(good), false).is_ok(), "{good}");
        }
        let outside = top.path().join("secret");
        for bad in ["link.yaml", "up/secret", "../secret", "/proc/self/environ", outside.to_str().unwrap()] {
            let error = locate(Path::new(bad), false).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad}: {error}");
            assert!(locate(Path::new(bad), true).is_ok(), "{bad}");
        }
        assert_eq!(locate(Path::new("no"), false).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_base_is_in_the_same_repository() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("project/envs/prod");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(top.path().join("base.yaml"), "").unwrap();
        std::fs::write(top.path().join("project/base.yaml"), "").unwrap();
        std::fs::write(folder.join("base.yaml"), "").unwrap();
        symlink("../../../base.yaml", folder.join("link.yaml")).unwrap();
        let found = |named: &str, allowed| locate_base(&folder, Path::new(named), allowed).is_ok();
        assert!(found("base.yaml", false) && !found("../../base.yaml", false) && !found("link.yaml", false));
        std::fs::create_dir(top.path().join("project/.git")).unwrap();
        assert!(found("../../base.yaml", false) && !found("../../../base.yaml", false));
        assert!(!found("link.yaml", false) && found("link.yaml", true) && found("../../../base.yaml", true));
    }

    #[test]
    fn only_regular_files_of_a_sane_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        std::fs::write(&large, vec![b'a'; (1 << 20) + 1]).unwrap();
        assert!(read(&large).unwrap_err().to_string().contains("1 MiB"));
        std::fs::write(&large, vec![b'a'; 1 << 20]).unwrap();
        assert_eq!(read(&large).unwrap().len(), 1 << 20);
        for special in ["/dev/zero", "/dev/null", folder.path().to_str().unwrap()] {
            assert!(read(Path::new(special)).unwrap_err().to_string().contains("regular"), "{special}");
        }
    }
}
