//! Go's `time`: instants, layouts and durations as Sprig's date functions use them.

mod layout;

pub(crate) use layout::parse;

use std::fmt;
use std::rc::Rc;

/// An instant in a zone.
#[derive(Clone, Debug)]
pub(crate) struct GoTime {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    /// Seconds east of UTC.
    pub(crate) offset: i32,
    pub(crate) zone: Rc<str>,
}

impl PartialEq for GoTime {
    fn eq(&self, other: &Self) -> bool {
        self.seconds == other.seconds && self.nanos == other.nanos && self.offset == other.offset
    }
}

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(crate) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A date and time of day as a calendar shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    pub(crate) weekday: usize,
    pub(crate) year_day: u32,
}

/// Days since 1970-01-01 of a proleptic Gregorian date.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month = i64::from(month);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

impl GoTime {
    pub(crate) fn utc(seconds: i64, nanos: u32) -> GoTime {
        GoTime { seconds, nanos, offset: 0, zone: "UTC".into() }
    }

    /// Go's zero time, what a failed parse yields: year 1.
    pub(crate) fn zero() -> GoTime {
        GoTime::utc(-62_135_596_800, 0)
    }

    pub(crate) fn civil(&self) -> Civil {
        let local = self.seconds.saturating_add(i64::from(self.offset));
        let days = local.div_euclid(86_400);
        let second_of_day = u32::try_from(local.rem_euclid(86_400)).unwrap_or(0);
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
            year_day: u32::try_from(days - days_from_civil(year, 1, 1) + 1).unwrap_or(1),
        }
    }

    /// The same instant in a zone; an unknown zone is UTC, and `Local` is UTC because a library has no locality.
    pub(crate) fn in_zone(&self, name: &str) -> GoTime {
        if !matches!(name, "" | "UTC" | "Local")
            && let Ok(zone) = jiff::tz::TimeZone::get(name)
            && let Ok(instant) = jiff::Timestamp::from_second(self.seconds)
        {
            let info = zone.to_offset_info(instant);
            return GoTime {
                offset: info.offset().seconds(),
                zone: info.abbreviation().into(),
                ..self.clone()
            };
        }
        GoTime { offset: 0, zone: "UTC".into(), ..self.clone() }
    }

    /// This instant moved by nanoseconds.
    pub(crate) fn add(&self, nanos: i64) -> GoTime {
        let total = i64::from(self.nanos) + nanos.rem_euclid(1_000_000_000);
        GoTime {
            seconds: self
                .seconds
                .saturating_add(nanos.div_euclid(1_000_000_000))
                .saturating_add(total / 1_000_000_000),
            nanos: u32::try_from(total % 1_000_000_000).unwrap_or(0),
            ..self.clone()
        }
    }

    /// Nanoseconds from `earlier` to this instant, saturating as Go's do.
    pub(crate) fn since(&self, earlier: &GoTime) -> i64 {
        let nanos = (i128::from(self.seconds) - i128::from(earlier.seconds)) * 1_000_000_000
            + i128::from(self.nanos)
            - i128::from(earlier.nanos);
        i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
    }

    /// What `%#v` prints.
    pub(crate) fn go_string(&self) -> String {
        let civil = self.civil();
        let place = match (&*self.zone, self.offset) {
            ("UTC", 0) => "time.UTC".to_owned(),
            (name, _) => format!("time.Location({})", quote(name.as_bytes())),
        };
        format!(
            "time.Date({}, time.{}, {}, {}, {}, {}, {}, {place})",
            civil.year,
            MONTHS[(civil.month as usize + 11) % 12],
            civil.day,
            civil.hour,
            civil.minute,
            civil.second,
            self.nanos
        )
    }

    /// The time in a layout of Go's.
    pub(crate) fn format(&self, layout: &str) -> String {
        layout::format(self, layout)
    }
}

impl fmt::Display for GoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.format("2006-01-02 15:04:05.999999999 -0700 MST"))
    }
}

/// `time.Duration.String`.
pub(crate) fn format_duration(nanos: i64) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let total = nanos.unsigned_abs();
    let fraction = |value: u64, unit: u64| {
        let rest = value % unit;
        if rest == 0 {
            return String::new();
        }
        let width = unit.ilog10() as usize;
        format!(".{rest:0width$}").trim_end_matches('0').to_owned()
    };
    if total < 1_000 {
        return format!("{sign}{total}ns");
    }
    if total < 1_000_000 {
        return format!("{sign}{}{}µs", total / 1_000, fraction(total, 1_000));
    }
    if total < 1_000_000_000 {
        return format!("{sign}{}{}ms", total / 1_000_000, fraction(total, 1_000_000));
    }
    let seconds = total / 1_000_000_000;
    let mut out = sign.to_owned();
    if seconds >= 3600 {
        out.push_str(&format!("{}h", seconds / 3600));
    }
    if seconds >= 60 {
        out.push_str(&format!("{}m", seconds / 60 % 60));
    }
    out.push_str(&format!("{}{}s", seconds % 60, fraction(total, 1_000_000_000)));
    out
}

/// `time.ParseDuration`.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text.as_bytes()));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut exact: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let number = &rest[..digits];
        if number.is_empty() || number == "." || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        rest = &rest[digits..];
        let unit_len = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..unit_len] {
            "ns" => 1i128,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => {
                return Err(format!("time: missing unit in duration {}", quote(text.as_bytes())));
            }
            other => {
                return Err(format!(
                    "time: unknown unit {} in duration {}",
                    quote(other.as_bytes()),
                    quote(text.as_bytes())
                ));
            }
        };
        rest = &rest[unit_len..];
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if !whole.is_empty() {
            exact += whole.parse::<i128>().map_err(|_| invalid())? * unit;
        }
        if !fraction.is_empty() {
            let part = format!("0.{fraction}").parse::<f64>().map_err(|_| invalid())? * unit as f64;
            exact += part as i128;
        }
        if exact > i128::from(i64::MAX) {
            return Err(invalid());
        }
    }
    let value = i64::try_from(exact).map_err(|_| invalid())?;
    Ok(if negative { -value } else { value })
}

/// How Go's `time` package quotes in its errors: bytes that are not printable ASCII in hexadecimal.
fn quote(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            b' '..=0x7f => out.push(char::from(*byte)),
            other => out.push_str(&format!("\\x{other:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendars_agree_with_known_days() {
        let t = GoTime::utc(1_700_000_000, 0);
        assert_eq!(t.to_string(), "2023-11-14 22:13:20 +0000 UTC");
        assert_eq!(t.civil().weekday, 2);
        assert_eq!(GoTime::zero().to_string(), "0001-01-01 00:00:00 +0000 UTC");
    }

    #[test]
    fn durations_print_and_read() {
        assert_eq!(format_duration(5_400_000_000_000), "1h30m0s");
        assert_eq!(format_duration(1_500_000), "1.5ms");
        assert_eq!(parse_duration("-1h15m30.5s"), Ok(-4_530_500_000_000));
        assert!(parse_duration("3 days").is_err());
    }
}
