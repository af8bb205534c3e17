//! Byte sizes as people read them.

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A size in the largest unit that keeps it at one or more, with at most one decimal. Whole terabytes are rare, so
/// everything below 10 TiB is shown in GiB or less.
pub(crate) fn show(bytes: u64) -> String {
    for (unit, scale) in UNITS {
        let enough = if unit == "TiB" { 10 * scale } else { scale };
        if bytes >= enough {
            return format!("{} {unit}", tenths(bytes, scale));
        }
    }
    format!("{bytes} B")
}

/// A size as [`show`] writes it, in bytes.
pub(crate) fn read(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let scale = UNITS.iter().find(|(name, _)| *name == unit).map_or(1, |(_, scale)| *scale);
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    Some(whole.parse::<u64>().ok()? * scale + tenths.parse::<u64>().ok()? * scale / 10)
}

/// A size in GiB without the unit, for tables.
pub(crate) fn gib(bytes: u64) -> String {
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
    fn sizes_read_well() {
        let shown: Vec<_> = [9, 1536, 40 << 30, 1500 << 30, 20 << 40, (8 << 30) + (512 << 20)]
            .map(show)
            .into_iter()
            .collect();
        assert_eq!(shown, ["9 B", "1.5 KiB", "40 GiB", "1500 GiB", "20 TiB", "8.5 GiB"]);
        assert_eq!(gib(0), "0");
        for bytes in [9, 1536, 40 << 30, 20 << 40] {
            assert_eq!(read(&show(bytes)), Some(bytes));
        }
    }
}
