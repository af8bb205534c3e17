//! Which release of Proxmox VE it is, and what that means.

/// Major and minor number of a version such as `9.2.11`; none if it is no version.
pub fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

/// Whether this version can import disk images, which came with 8.4. An unreadable one is given the benefit of the doubt.
pub fn imports_disk_images(version: &str) -> bool {
    release(version).is_none_or(|release| release >= (8, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_every_shape_of_version() {
        for (version, numbers) in [
            ("9.2.11", Some((9, 2))),
            ("8.4-1", Some((8, 4))),
            ("9", Some((9, 0))),
            ("", None),
            ("new", None),
        ] {
            assert_eq!(release(version), numbers, "{version}");
        }
    }

    #[test]
    fn disk_images_are_imported_since_8_4() {
        for (version, imports) in [
            ("8.2.2", false),
            ("8.3.5", false),
            ("8.4.0", true),
            ("8.4-1", true),
            ("9.1", true),
            ("9.0.3", true),
        ] {
            assert_eq!(imports_disk_images(version), imports, "{version}");
        }
    }
}
