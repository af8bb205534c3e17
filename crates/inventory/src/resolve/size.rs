//! Amounts of memory and disk: `8GiB` → bytes, and back.

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// What an amount is of: Proxmox counts memory in MiB and grows disks in GiB.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Memory,
    Disk,
}

impl Of {
    fn step(self) -> (u64, &'static str) {
        match self {
            Self::Memory => (MIB, "MiB"),
            Self::Disk => (GIB, "GiB"),
        }
    }
}

/// Why an amount cannot be used, and what to write instead.
pub(crate) type Refusal = (String, String);

/// Bytes of an amount as written.
pub(crate) fn parse(text: &str, of: Of) -> Result<u64, Refusal> {
    let text = text.trim();
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let unit = unit.trim();
    let (step, step_name) = of.step();
    if unit.is_empty() && number_parts(number).is_some() {
        return Err((
            format!("`{text}` has no unit."),
            format!("Say which you mean, for example `{number}{step_name}`."),
        ));
    }
    let Some((digits, decimals)) = number_parts(number) else {
        return Err((
            format!("`{text}` is not an amount."),
            "Write a number and a unit, for example `8GiB` or `512MiB`.".to_owned(),
        ));
    };
    let Some(scale) = scale(unit) else {
        return Err((format!("`{unit}` is not a unit of size."), "Use MiB, GiB or TiB.".to_owned()));
    };
    let divisor = 10_u128.pow(decimals);
    let bytes = digits.checked_mul(scale).filter(|b| b / divisor <= u128::from(u64::MAX >> 1));
    let Some(scaled) = bytes else {
        return Err((format!("`{text}` is more than any machine has."), "Check the unit.".to_owned()));
    };
    let unit_step = divisor * u128::from(step);
    if scaled % unit_step == 0 {
        return u64::try_from(scaled / divisor)
            .map_err(|_| (format!("`{text}` is too large."), "Check the unit.".to_owned()));
    }
    let decimal = unit.len() == 2 && unit.ends_with(['B', 'b']) && !unit.starts_with(['B', 'b']);
    let help = if decimal {
        let binary = format!("{}i{}", &unit[..1].to_ascii_uppercase(), "B");
        format!("`{unit}` counts in thousands. You probably mean `{number}{binary}`.")
    } else {
        let up = u64::try_from(scaled.div_ceil(unit_step)).unwrap_or(u64::MAX).saturating_mul(step);
        format!("Write `{}`.", shown(up))
    };
    Err((format!("`{text}` is not a whole number of {step_name}."), help))
}

/// An amount as people write it: the largest unit that divides it.
pub(crate) fn shown(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", bytes / size),
        None => format!("{bytes}B"),
    }
}

/// `1.50` as (150, 2): exact, so that nothing is lost to floating point.
fn number_parts(number: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || number.ends_with('.') || whole.len() > 18 || fraction.len() > 9 {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, u32::try_from(fraction.len()).ok()?))
}

/// Bytes in a unit. A bare letter is binary, as in Proxmox and QEMU.
fn scale(unit: &str) -> Option<u128> {
    let unit = unit.to_ascii_lowercase();
    let power = match unit.chars().next()? {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        _ => return None,
    };
    match &unit[1..] {
        "" | "i" | "ib" => Some(1024_u128.pow(power)),
        "b" => Some(1000_u128.pow(power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_units() {
        assert_eq!(parse("8GiB", Of::Memory), Ok(8 * GIB));
        assert_eq!(parse("8 Gi", Of::Memory), Ok(8 * GIB));
        assert_eq!(parse("20G", Of::Disk), Ok(20 * GIB));
        assert_eq!(parse("1.5GiB", Of::Memory), Ok(1536 * MIB));
        assert_eq!(parse("4096M", Of::Memory), Ok(4 * GIB));
        assert_eq!(parse("1TiB", Of::Disk), Ok(1024 * GIB));
        assert_eq!(parse("0.5T", Of::Disk), Ok(512 * GIB));
        assert_eq!(parse("2048GB", Of::Memory), Ok(2_048_000_000_000));
    }

    #[test]
    fn refusals_say_what_to_write() {
        let help = |text: &str, of| parse(text, of).expect_err(text).1;
        assert_eq!(help("8GB", Of::Memory), "`GB` counts in thousands. You probably mean `8GiB`.");
        assert_eq!(help("8192", Of::Memory), "Say which you mean, for example `8192MiB`.");
        assert_eq!(help("40", Of::Disk), "Say which you mean, for example `40GiB`.");
        assert_eq!(help("1.5GiB", Of::Disk), "Write `2GiB`.");
        assert_eq!(help("0.0001GiB", Of::Memory), "Write `1MiB`.");
        assert_eq!(help("8 gigs", Of::Memory), "Use MiB, GiB or TiB.");
        assert_eq!(help("lots", Of::Memory), "Write a number and a unit, for example `8GiB` or `512MiB`.");
        assert_eq!(help("99999999999999TiB", Of::Memory), "Check the unit.");
        assert!(parse("", Of::Memory).is_err());
        assert!(parse(".", Of::Memory).is_err());
        assert!(parse("1.2.3GiB", Of::Memory).is_err());
        assert!(parse("éGiB", Of::Memory).is_err());
    }

    #[test]
    fn shown_amounts_read_back() {
        for bytes in [MIB, 8 * GIB, 1536 * MIB, 1 << 40] {
            assert_eq!(parse(&shown(bytes), Of::Memory), Ok(bytes));
        }
    }
}
