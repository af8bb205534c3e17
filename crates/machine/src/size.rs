//! Byte sizes as people read them.

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A size in the largest unit that keeps it at one or more, with at most one decimal. Whole terabytes are rare, so
/// everything below 10 TiB is shown in GiB or less.
pub fn show(bytes: u64) -> String {
    for (unit, scale) in UNITS {
        let enough = if unit == "TiB" { 10 * scale } else { scale };
        if bytes >= enough {
            return format!("{} {unit}", tenths(bytes, scale));
        }
    }
    format!("{bytes} B")
}

/// Two sizes as [`show`] writes them, or in smaller units where that would write both alike.
pub fn show_apart(one: u64, other: u64) -> (String, String) {
    let plain = (show(one), show(other));
    if one == other || plain.0 != plain.1 {
        return plain;
    }
    let in_unit = |(unit, scale): (&str, u64)| {
        let exact = [one, other].iter().all(|bytes| bytes.is_multiple_of(scale));
        exact.then(|| (format!("{} {unit}", one / scale), format!("{} {unit}", other / scale)))
    };
    UNITS.into_iter().find_map(in_unit).unwrap_or_else(|| (format!("{one} B"), format!("{other} B")))
}

/// What storages round sizes up by, at most: a few extents of LVM, of 4 MiB each by default.
const ROUNDED_UP: u64 = 64 << 20;

/// The size that was asked for where a disk has this one. Disks are declared in whole GiB, and storages round up to the
/// units they allocate in.
pub fn asked_size(bytes: u64) -> u64 {
    let over = bytes % (1 << 30);
    if over < bytes && over < ROUNDED_UP { bytes - over } else { bytes }
}

/// A size in GiB without the unit, for tables.
pub fn gib(bytes: u64) -> String {
    tenths(bytes, 1 << 30)
}

fn tenths(bytes: u64, scale: u64) -> String {
    let tenths = (u128::from(bytes) * 10 + u128::from(scale) / 2) / u128::from(scale);
    if tenths % 10 == 0 { format!("{}", tenths / 10) } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_storage_rounded_up_was_not_asked_for() {
        let mib = 1 << 20;
        for (has, asked) in [
            (10240, 10240),
            (10244, 10240),
            (10272, 10240),
            (10304, 10304),
            (10239, 10239),
            (40, 40),
            (1288, 1288),
            (0, 0),
        ] {
            assert_eq!(asked_size(has * mib), asked * mib, "{has} MiB");
        }
    }

    #[test]
    fn sizes_read_well() {
        let shown: Vec<_> = [9, 1536, 40 << 30, 1500 << 30, 20 << 40, (8 << 30) + (512 << 20)]
            .map(show)
            .into_iter()
            .collect();
        assert_eq!(shown, ["9 B", "1.5 KiB", "40 GiB", "1500 GiB", "20 TiB", "8.5 GiB"]);
        assert_eq!(gib(0), "0");
        let apart = |one, other| show_apart(one, other);
        assert_eq!(apart(40 << 30, 20 << 30), ("40 GiB".to_owned(), "20 GiB".to_owned()));
        assert_eq!(apart(10244 << 20, 10 << 30), ("10244 MiB".to_owned(), "10240 MiB".to_owned()));
        assert_eq!(apart((10 << 30) + 1, 10 << 30), ("10737418241 B".to_owned(), "10737418240 B".to_owned()));
    }
}
