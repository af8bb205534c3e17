//! Go's reference-time layouts (`Mon Jan 2 15:04:05 MST 2006`), for formatting and parsing.

use super::{Civil, DAYS, GoTime, MONTHS, days_from_civil};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Literal(&'a str),
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekDay,
    WeekDay,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    /// `Z` for UTC, colons, minutes, seconds.
    Zone {
        z: bool,
        colon: bool,
        minutes: bool,
        seconds: bool,
    },
    /// Separator, digits, and whether trailing zeros are dropped.
    Fraction {
        separator: char,
        digits: usize,
        trim: bool,
    },
}

const WORDS: [(&str, Part<'static>); 34] = [
    ("January", Part::LongMonth),
    ("Jan", Part::Month),
    ("Monday", Part::LongWeekDay),
    ("Mon", Part::WeekDay),
    ("MST", Part::ZoneName),
    ("002", Part::ZeroYearDay),
    ("01", Part::ZeroMonth),
    ("02", Part::ZeroDay),
    ("03", Part::ZeroHour12),
    ("04", Part::ZeroMinute),
    ("05", Part::ZeroSecond),
    ("06", Part::Year),
    ("15", Part::Hour),
    ("1", Part::NumMonth),
    ("2006", Part::LongYear),
    ("2", Part::Day),
    ("__2", Part::UnderYearDay),
    ("_2006", Part::Literal("_")),
    ("_2", Part::UnderDay),
    ("3", Part::Hour12),
    ("4", Part::Minute),
    ("5", Part::Second),
    ("PM", Part::UpperPm),
    ("pm", Part::LowerPm),
    ("-07:00:00", Part::Zone { z: false, colon: true, minutes: true, seconds: true }),
    ("-070000", Part::Zone { z: false, colon: false, minutes: true, seconds: true }),
    ("-07:00", Part::Zone { z: false, colon: true, minutes: true, seconds: false }),
    ("-0700", Part::Zone { z: false, colon: false, minutes: true, seconds: false }),
    ("-07", Part::Zone { z: false, colon: false, minutes: false, seconds: false }),
    ("Z07:00:00", Part::Zone { z: true, colon: true, minutes: true, seconds: true }),
    ("Z070000", Part::Zone { z: true, colon: false, minutes: true, seconds: true }),
    ("Z07:00", Part::Zone { z: true, colon: true, minutes: true, seconds: false }),
    ("Z0700", Part::Zone { z: true, colon: false, minutes: true, seconds: false }),
    ("Z07", Part::Zone { z: true, colon: false, minutes: false, seconds: false }),
];

fn next_part(layout: &str, at: usize) -> Option<(Part<'static>, usize)> {
    let rest = &layout[at..];
    for (word, part) in WORDS {
        if let Some(after) = rest.strip_prefix(word) {
            // "Jan" and "Mon" inside a longer lower-case word are text.
            if matches!(part, Part::Month | Part::WeekDay)
                && after.chars().next().is_some_and(|c| c.is_ascii_lowercase())
            {
                return None;
            }
            return Some(if word == "_2006" { (part, 1) } else { (part, word.len()) });
        }
    }
    let separator = rest.chars().next().filter(|c| *c == '.' || *c == ',')?;
    let digit = rest.as_bytes().get(1).filter(|b| **b == b'0' || **b == b'9')?;
    let digits = rest.bytes().skip(1).take_while(|b| b == digit).count();
    let follows = rest.as_bytes().get(1 + digits).is_some_and(u8::is_ascii_digit);
    (!follows).then_some((Part::Fraction { separator, digits, trim: *digit == b'9' }, 1 + digits))
}

fn split(layout: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut literal = 0;
    let mut at = 0;
    while at < layout.len() {
        match layout.is_char_boundary(at).then(|| next_part(layout, at)).flatten() {
            Some((part, length)) => {
                if literal < at {
                    parts.push(Part::Literal(&layout[literal..at]));
                }
                parts.push(part);
                at += length;
                literal = at;
            }
            None => at += 1,
        }
    }
    if literal < layout.len() {
        parts.push(Part::Literal(&layout[literal..]));
    }
    parts
}

pub(super) fn format(time: &GoTime, layout: &str) -> String {
    let civil = time.civil();
    let mut out = String::new();
    for part in split(layout) {
        write_part(&mut out, part, time, &civil);
    }
    out
}

fn write_part(out: &mut String, part: Part<'_>, time: &GoTime, civil: &Civil) {
    let Civil { year, month, day, hour, minute, second, weekday, year_day } = *civil;
    let month_name = MONTHS[(month as usize + 11) % 12];
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    let text = match part {
        Part::Literal(text) => text.to_owned(),
        Part::LongMonth => month_name.to_owned(),
        Part::Month => month_name[..3].to_owned(),
        Part::NumMonth => month.to_string(),
        Part::ZeroMonth => format!("{month:02}"),
        Part::LongWeekDay => DAYS[weekday].to_owned(),
        Part::WeekDay => DAYS[weekday][..3].to_owned(),
        Part::Day => day.to_string(),
        Part::UnderDay => format!("{day:2}"),
        Part::ZeroDay => format!("{day:02}"),
        Part::UnderYearDay => format!("{year_day:3}"),
        Part::ZeroYearDay => format!("{year_day:03}"),
        Part::Hour => format!("{hour:02}"),
        Part::Hour12 => hour12.to_string(),
        Part::ZeroHour12 => format!("{hour12:02}"),
        Part::Minute => minute.to_string(),
        Part::ZeroMinute => format!("{minute:02}"),
        Part::Second => second.to_string(),
        Part::ZeroSecond => format!("{second:02}"),
        Part::LongYear if year < 0 => format!("-{:04}", -year),
        Part::LongYear => format!("{year:04}"),
        Part::Year => format!("{:02}", year.rem_euclid(100)),
        Part::UpperPm => if hour >= 12 { "PM" } else { "AM" }.to_owned(),
        Part::LowerPm => if hour >= 12 { "pm" } else { "am" }.to_owned(),
        Part::ZoneName if time.zone.is_empty() => zone_offset(time.offset, false, true, false),
        Part::ZoneName => time.zone.to_string(),
        Part::Zone { z: true, .. } if time.offset == 0 => "Z".to_owned(),
        Part::Zone { colon, minutes, seconds, .. } => zone_offset(time.offset, colon, minutes, seconds),
        Part::Fraction { separator, digits, trim } => {
            let all = format!("{:09}", time.nanos);
            let mut shown: String = all.chars().chain(std::iter::repeat('0')).take(digits).collect();
            if trim {
                shown.truncate(shown.trim_end_matches('0').len());
            }
            if trim && shown.is_empty() { String::new() } else { format!("{separator}{shown}") }
        }
    };
    out.push_str(&text);
}

fn zone_offset(offset: i32, colon: bool, minutes: bool, seconds: bool) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let absolute = offset.unsigned_abs();
    let separator = if colon { ":" } else { "" };
    let mut out = format!("{sign}{:02}", absolute / 3600);
    if minutes {
        out.push_str(&format!("{separator}{:02}", absolute / 60 % 60));
    }
    if seconds {
        out.push_str(&format!("{separator}{:02}", absolute % 60));
    }
    out
}

/// `time.ParseInLocation(layout, text, UTC)`.
pub(crate) fn parse(layout: &str, text: &str) -> Result<GoTime, String> {
    let mut reader = Reader { rest: text };
    let mut read = Read::default();
    let parts = split(layout);
    for (index, part) in parts.iter().enumerate() {
        let before = reader.rest;
        let fraction_follows = matches!(parts.get(index + 1), Some(Part::Fraction { .. }));
        if read.part(*part, fraction_follows, &mut reader).is_none() {
            return Err(format!(
                "parsing time {} as {}: cannot parse {} as {}",
                super::quote(text.as_bytes()),
                super::quote(layout.as_bytes()),
                super::quote(before.as_bytes()),
                super::quote(layout_word(*part).as_bytes())
            ));
        }
    }
    let parsing = || format!("parsing time {}", super::quote(text.as_bytes()));
    if !reader.rest.is_empty() {
        return Err(format!("{}: extra text: {}", parsing(), super::quote(reader.rest.as_bytes())));
    }
    read.time().map_err(|what| format!("{}: {what} out of range", parsing()))
}

/// What was read so far.
struct Read {
    year: i64,
    month: u32,
    day: u32,
    year_day: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    /// Whether it is after noon, where that is said.
    afternoon: Option<bool>,
    offset: i32,
    zone: Option<String>,
}

impl Default for Read {
    fn default() -> Self {
        Self {
            year: 0,
            month: 1,
            day: 1,
            year_day: None,
            hour: 0,
            minute: 0,
            second: 0,
            nanos: 0,
            afternoon: None,
            offset: 0,
            zone: None,
        }
    }
}

impl Read {
    /// Reads what a part of the layout stands for; none where the text has something else.
    fn part(&mut self, part: Part<'_>, fraction_follows: bool, reader: &mut Reader<'_>) -> Option<()> {
        match part {
            Part::Literal(literal) => reader.literal(literal)?,
            Part::LongMonth => self.month = reader.name(&MONTHS, 0)? + 1,
            Part::Month => self.month = reader.name(&MONTHS, 3)? + 1,
            Part::NumMonth => self.month = reader.number(1, 2)?,
            Part::ZeroMonth => self.month = reader.number(2, 2)?,
            Part::LongWeekDay => {
                reader.name(&DAYS, 0)?;
            }
            Part::WeekDay => {
                reader.name(&DAYS, 3)?;
            }
            Part::UnderDay => {
                reader.rest = reader.rest.strip_prefix(' ').unwrap_or(reader.rest);
                self.day = reader.number(1, 2)?;
            }
            Part::Day => self.day = reader.number(1, 2)?,
            Part::ZeroDay => self.day = reader.number(2, 2)?,
            Part::UnderYearDay | Part::ZeroYearDay => {
                reader.rest = reader.rest.trim_start_matches(' ');
                self.year_day = Some(reader.number(1, 3)?);
            }
            Part::Hour | Part::Hour12 => self.hour = reader.number(1, 2)?,
            Part::ZeroHour12 => self.hour = reader.number(2, 2)?,
            Part::Minute => self.minute = reader.number(1, 2)?,
            Part::ZeroMinute => self.minute = reader.number(2, 2)?,
            Part::Second | Part::ZeroSecond => {
                self.second = reader.number(if part == Part::Second { 1 } else { 2 }, 2)?;
                // A fraction may follow although the layout does not say so.
                if !fraction_follows && reader.at_fraction() {
                    reader.fraction(None, &mut self.nanos);
                }
            }
            Part::LongYear => self.year = i64::from(reader.number(4, 4)?),
            Part::Year => {
                let year = reader.number(2, 2)?;
                self.year = i64::from(if year >= 69 { 1900 + year } else { 2000 + year });
            }
            Part::UpperPm | Part::LowerPm => self.afternoon = Some(reader.half(part == Part::UpperPm)?),
            Part::ZoneName => self.zone = Some(reader.zone_name()?),
            Part::Zone { z, colon, minutes, seconds } => {
                self.offset = reader.offset(z, colon, minutes, seconds)?;
                self.zone = Some(if self.offset == 0 { "UTC".to_owned() } else { String::new() });
            }
            Part::Fraction { trim: true, .. } => {
                if reader.at_fraction() {
                    reader.fraction(None, &mut self.nanos);
                }
            }
            Part::Fraction { digits, .. } => {
                return reader.fraction(Some(digits), &mut self.nanos).then_some(());
            }
        }
        Some(())
    }

    /// The time that it comes to, or which part of it no clock shows.
    fn time(self) -> Result<GoTime, &'static str> {
        let hour = match self.afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let days = self.days()?;
        for (value, most, what) in
            [(hour, 23, "hour"), (self.minute, 59, "minute"), (self.second, 59, "second")]
        {
            if value > most {
                return Err(what);
            }
        }
        let clock = i64::from(hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        Ok(GoTime {
            seconds: days * 86_400 + clock - i64::from(self.offset),
            nanos: self.nanos,
            offset: self.offset,
            zone: self.zone.unwrap_or_else(|| "UTC".to_owned()).as_str().into(),
        })
    }

    /// Days since 1970.
    fn days(&self) -> Result<i64, &'static str> {
        let Self { year, month, day, .. } = *self;
        if month == 0 || month > 12 {
            return Err("month");
        }
        if let Some(day) = self.year_day {
            return Ok(days_from_civil(year, 1, 1) + i64::from(day) - 1);
        }
        let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        let length = days_from_civil(next_year, next_month, 1) - days_from_civil(year, month, 1);
        if day == 0 || i64::from(day) > length {
            return Err("day");
        }
        Ok(days_from_civil(year, month, day))
    }
}

fn layout_word(part: Part<'_>) -> String {
    match part {
        Part::Literal(text) => text.to_owned(),
        other => WORDS
            .iter()
            .find(|(_, p)| *p == other)
            .map_or_else(|| ".000".to_owned(), |(w, _)| (*w).to_owned()),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn literal(&mut self, literal: &str) -> Option<()> {
        // A space in the layout matches any run of spaces.
        for c in literal.chars() {
            if c == ' ' {
                if !self.rest.is_empty() && !self.rest.starts_with(' ') {
                    return None;
                }
                self.rest = self.rest.trim_start_matches(' ');
            } else {
                self.rest = self.rest.strip_prefix(c)?;
            }
        }
        Some(())
    }

    fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        let digits = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return None;
        }
        let value = self.rest[..digits].parse().ok()?;
        self.rest = &self.rest[digits..];
        Some(value)
    }

    fn name(&mut self, names: &[&str], length: usize) -> Option<u32> {
        for (index, name) in names.iter().enumerate() {
            let wanted = if length == 0 { name } else { &name[..length] };
            if self.rest.get(..wanted.len()).is_some_and(|head| head.eq_ignore_ascii_case(wanted)) {
                self.rest = &self.rest[wanted.len()..];
                return u32::try_from(index).ok();
            }
        }
        None
    }

    fn half(&mut self, upper: bool) -> Option<bool> {
        let head = self.rest.get(..2)?;
        let pm = match (head, upper) {
            ("PM", true) | ("pm", false) => true,
            ("AM", true) | ("am", false) => false,
            _ => return None,
        };
        self.rest = &self.rest[2..];
        Some(pm)
    }

    fn zone_name(&mut self) -> Option<String> {
        let letters = self.rest.bytes().take_while(u8::is_ascii_uppercase).count();
        if !(3..=5).contains(&letters) {
            return None;
        }
        let name = self.rest[..letters].to_owned();
        self.rest = &self.rest[letters..];
        Some(name)
    }

    fn offset(&mut self, z: bool, colon: bool, minutes: bool, seconds: bool) -> Option<i32> {
        if z && let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Some(0);
        }
        let sign = match self.rest.chars().next()? {
            '+' => 1,
            '-' => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        let mut total = i32::try_from(self.number(2, 2)?).ok()? * 3600;
        for (wanted, unit) in [(minutes, 60), (seconds, 1)] {
            if wanted {
                if colon {
                    self.rest = self.rest.strip_prefix(':')?;
                }
                total += i32::try_from(self.number(2, 2)?).ok()? * unit;
            }
        }
        Some(sign * total)
    }

    /// Whether a separator and a digit come next.
    fn at_fraction(&self) -> bool {
        self.rest.starts_with(['.', ',']) && self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
    }

    /// Reads a separator and digits into nanoseconds; with a count, exactly that many.
    fn fraction(&mut self, digits: Option<usize>, nanos: &mut u32) -> bool {
        if !self.rest.starts_with(['.', ',']) {
            return false;
        }
        let found = self.rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        if digits.is_some_and(|d| found < d) || found == 0 {
            return false;
        }
        let take = digits.unwrap_or(found);
        let text: String = self.rest[1..=take].chars().chain(std::iter::repeat('0')).take(9).collect();
        *nanos = text.parse().unwrap_or(0);
        self.rest = &self.rest[1 + take..];
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_format() {
        let t = GoTime::utc(1_700_000_000, 120_000_000);
        assert_eq!(t.format("Mon, 02 Jan 2006 15:04:05 -0700"), "Tue, 14 Nov 2023 22:13:20 +0000");
        assert_eq!(t.format("2006-01-02T15:04:05.000Z07:00"), "2023-11-14T22:13:20.120Z");
        assert_eq!(t.format("3:04PM 2/1/06 .99"), "10:13PM 14/11/23 .12");
    }

    #[test]
    fn layouts_parse() {
        let t = parse("2006-01-02 15:04", "2023-11-14 22:13").unwrap();
        assert_eq!(t.seconds, 1_699_999_980);
        assert_eq!(
            parse("2006-01-02T15:04:05Z07:00", "2023-11-14T22:13:20+02:00").unwrap().seconds,
            1_699_992_800
        );
        assert!(parse("2006-01-02", "2023-02-30").is_err());
        assert!(parse("2006-01-02", "nonsense").is_err());
    }
}
