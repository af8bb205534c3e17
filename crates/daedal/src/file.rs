//! Files that an inventory names: where they may be, and how much of them is read. Whoever wrote the inventory need not be who runs it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The most that is read of a file which an inventory names.
pub const LARGEST: u64 = 1 << 20;

/// The real path of what an inventory names, links followed. It must lie inside the inventory's folder, unless the operator allows
/// otherwise.
pub fn locate(folder: &Path, named: &Path, allow_outside: bool) -> io::Result<PathBuf> {
    let base = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let real = base.join(named).canonicalize()?;
    if allow_outside || real.starts_with(base.canonicalize()?) {
        return Ok(real);
    }
    let why = "it lies outside the inventory's folder; `allowOutside: true` in your own settings (docs/security.md) allows that";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
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
        for good in ["patches/a.yaml", "inside.yaml", "up/inventory/patches/a.yaml"] {
            assert!(locate(&folder, Path::new(good), false).is_ok(), "{good}");
        }
        let outside = top.path().join("secret");
        for bad in ["link.yaml", "up/secret", "../secret", "/proc/self/environ", outside.to_str().unwrap()] {
            let error = locate(&folder, Path::new(bad), false).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad}: {error}");
            assert!(locate(&folder, Path::new(bad), true).is_ok(), "{bad}");
        }
        assert_eq!(locate(&folder, Path::new("no"), false).unwrap_err().kind(), io::ErrorKind::NotFound);
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
