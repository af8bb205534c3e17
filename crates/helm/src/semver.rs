//! Versions and constraints as charts write them: forgiving versions (`v1`, `1.2`) and ranges (`>=1.2 <2 || ~3`).

use std::cmp::Ordering;
use std::fmt;
use std::sync::OnceLock;

use regex::Regex;

/// A version, possibly written without minor or patch.
#[derive(Clone, Debug, Eq)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) pre: String,
    pub(crate) metadata: String,
    pub(crate) original: String,
    /// Go has it as a value and not behind a pointer, which templates can tell.
    pub(crate) by_value: bool,
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Equal
            && self.original == other.original
            && self.by_value == other.by_value
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn identifiers(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
}

impl Version {
    /// Go's zero value.
    pub(crate) fn empty(by_value: bool) -> Version {
        Version {
            major: 0,
            minor: 0,
            patch: 0,
            pre: String::new(),
            metadata: String::new(),
            original: String::new(),
            by_value,
        }
    }

    /// Reads a version, filling in what is missing with zeros.
    pub(crate) fn parse(text: &str) -> Result<Version, String> {
        let invalid = || "invalid semantic version".to_owned();
        let body = text.strip_prefix('v').unwrap_or(text);
        let end = body.find(['-', '+']).unwrap_or(body.len());
        let (numbers, suffix) = body.split_at(end);
        let (suffix, metadata) = match suffix.split_once('+') {
            Some((before, metadata)) if identifiers(metadata) => (before, metadata),
            Some(_) => return Err(invalid()),
            None => (suffix, ""),
        };
        let pre = match suffix.strip_prefix('-') {
            Some(pre) if identifiers(pre) => pre,
            Some(_) => return Err(invalid()),
            None => "",
        };
        let mut parts = [0u64; 3];
        let segments: Vec<&str> = numbers.split('.').collect();
        if segments.len() > 3 {
            return Err(invalid());
        }
        for (slot, segment) in parts.iter_mut().zip(&segments) {
            if segment.is_empty() || !segment.bytes().all(|b| b.is_ascii_digit()) {
                return Err(invalid());
            }
            *slot = segment.parse().map_err(|_| {
                format!(
                    "error parsing version segment: strconv.ParseUint: parsing {}: value out of range",
                    crate::strconv::quote(segment.as_bytes())
                )
            })?;
        }
        for part in pre.split('.') {
            if part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()) {
                return Err("version segment starts with 0".to_owned());
            }
        }
        Ok(Version {
            major: parts[0],
            minor: parts[1],
            patch: parts[2],
            pre: pre.to_owned(),
            metadata: metadata.to_owned(),
            original: text.to_owned(),
            by_value: false,
        })
    }

    /// Precedence; build metadata does not count.
    pub(crate) fn compare(&self, other: &Version) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_pre(&self.pre, &other.pre))
    }
}

fn compare_pre(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        let ordering = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(x), Some(y)) => match (x.parse::<u64>(), y.parse::<u64>()) {
                (Ok(x), Ok(y)) => x.cmp(&y),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => x.cmp(y),
            },
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
}

#[derive(Debug)]
struct Comparator {
    operator: String,
    version: Version,
    /// Parts left out or written as `x`.
    minor_open: bool,
    patch_open: bool,
    open: bool,
}

/// Alternatives of comparators that must all hold.
#[derive(Debug)]
pub(crate) struct Constraint(Vec<Vec<Comparator>>);

const VERSION: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

struct Patterns {
    one: Regex,
    find: Regex,
    valid: Regex,
    range: Regex,
}

fn patterns() -> Option<&'static Patterns> {
    static PATTERNS: OnceLock<Option<Patterns>> = OnceLock::new();
    PATTERNS
        .get_or_init(|| {
            Some(Patterns {
                one: Regex::new(&format!(r"^[\t\n\f\r ]*({OPERATORS})[\t\n\f\r ]*({VERSION})[\t\n\f\r ]*$")).ok()?,
                find: Regex::new(&format!(r"({OPERATORS})[\t\n\f\r ]*({VERSION})")).ok()?,
                valid: Regex::new(&format!(
                    r"^([\t\n\f\r ]*({OPERATORS})[\t\n\f\r ]*({VERSION})[\t\n\f\r ]*)((?:[\t\n\f\r ]+|,[\t\n\f\r ]*)({OPERATORS})[\t\n\f\r ]*({VERSION})[\t\n\f\r ]*)*$"
                ))
                .ok()?,
                range: Regex::new(&format!(r"[\t\n\f\r ]*({VERSION})[\t\n\f\r ]+-[\t\n\f\r ]+({VERSION})[\t\n\f\r ]*"))
                    .ok()?,
            })
        })
        .as_ref()
}

impl Constraint {
    /// Reads alternatives joined by `||`, each a list of comparators.
    pub(crate) fn parse(text: &str) -> Result<Constraint, String> {
        if let Some(comparator) = simple(text) {
            return Ok(Constraint(vec![vec![comparator]]));
        }
        let patterns = patterns().ok_or("version patterns do not compile")?;
        let mut rewritten = text.to_owned();
        for range in patterns.range.captures_iter(text) {
            let (from, to) =
                (range.get(1).map_or("", |m| m.as_str()), range.get(11).map_or("", |m| m.as_str()));
            rewritten = rewritten.replacen(&range[0], &format!(">= {from}, <= {to} "), 1);
        }
        let mut alternatives = Vec::new();
        for group in rewritten.split("||") {
            if !patterns.valid.is_match(group) {
                return Err(format!("improper constraint: {group}"));
            }
            let comparators = patterns
                .find
                .find_iter(group)
                .map(|m| comparator(patterns, m.as_str()))
                .collect::<Result<Vec<_>, String>>()?;
            alternatives.push(comparators);
        }
        Ok(Constraint(alternatives))
    }

    /// Whether a version satisfies any alternative.
    pub(crate) fn matches(&self, version: &Version) -> bool {
        self.0.iter().any(|group| {
            let pre = group.iter().any(|c| !c.version.pre.is_empty());
            (version.pre.is_empty() || pre) && group.iter().all(|c| c.matches(version))
        })
    }
}

/// One operator and one version of plain numbers, which is how nearly all constraints are written.
fn simple(text: &str) -> Option<Comparator> {
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\x0c']);
    let number = text.find(|c: char| c.is_ascii_digit())?;
    let (operator, version) = text.split_at(number);
    let operator = operator.trim_end_matches([' ', '\t', '\n', '\r', '\x0c']);
    let (numbers, pre) = version.split_once('-').map_or((version, None), |(v, p)| (v, Some(p)));
    let count = numbers.split('.').count();
    let plain = count <= 3
        && numbers.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        && pre.is_none_or(identifiers);
    let known = ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"].contains(&operator);
    if !plain || !known {
        return None;
    }
    let dash = if pre.is_some() { "-" } else { "" };
    let missing = [".0.0", ".0", ""].get(count - 1)?;
    let version = Version::parse(&format!("{numbers}{missing}{dash}{}", pre.unwrap_or_default())).ok()?;
    let operator = operator.to_owned();
    Some(Comparator { operator, version, minor_open: count == 1, patch_open: count == 2, open: count < 3 })
}

fn comparator(patterns: &Patterns, text: &str) -> Result<Comparator, String> {
    let m = patterns.one.captures(text).ok_or_else(|| format!("improper constraint: {text}"))?;
    let group = |i: usize| m.get(i).map_or("", |m| m.as_str());
    let any = |text: &str| matches!(text.trim_start_matches('.'), "x" | "X" | "*" | "");
    let (mut minor_open, mut patch_open, mut open) = (false, false, false);
    let version = if any(group(3)) {
        open = true;
        format!("0.0.0{}", group(6))
    } else if any(group(4)) {
        minor_open = true;
        open = true;
        format!("{}.0.0{}", group(3), group(6))
    } else if any(group(5)) {
        patch_open = true;
        open = true;
        format!("{}{}.0{}", group(3), group(4), group(6))
    } else {
        group(2).to_owned()
    };
    let version = Version::parse(&version).map_err(|_| "constraint parser error".to_owned())?;
    Ok(Comparator { operator: group(1).to_owned(), version, minor_open, patch_open, open })
}

impl Comparator {
    fn matches(&self, v: &Version) -> bool {
        let c = &self.version;
        let order = v.compare(c);
        match self.operator.as_str() {
            "" | "=" if self.open => self.tilde(v),
            "" | "=" => order == Ordering::Equal,
            "!=" => self.differs(v),
            ">" if !self.open => order == Ordering::Greater,
            ">" => {
                if v.major != c.major {
                    v.major > c.major
                } else if self.minor_open {
                    false
                } else if self.patch_open {
                    v.minor > c.minor
                } else {
                    order == Ordering::Greater
                }
            }
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" if !self.open => order != Ordering::Greater,
            "<=" | "=<" => {
                !(v.major > c.major || (v.major == c.major && v.minor > c.minor && !self.minor_open))
            }
            "~" | "~>" => self.tilde(v),
            _ => self.caret(v),
        }
    }

    fn differs(&self, v: &Version) -> bool {
        let c = &self.version;
        if self.open {
            if c.major != v.major {
                return true;
            }
            if c.minor != v.minor && !self.minor_open {
                return true;
            } else if self.minor_open {
                return false;
            } else if c.patch != v.patch && !self.patch_open {
                return true;
            } else if self.patch_open {
                return (!v.pre.is_empty() || !c.pre.is_empty())
                    && compare_pre(&v.pre, &c.pre) != Ordering::Equal;
            }
        }
        v.compare(c) != Ordering::Equal
    }

    fn tilde(&self, v: &Version) -> bool {
        let c = &self.version;
        if v.compare(c) == Ordering::Less {
            return false;
        }
        if (c.major, c.minor, c.patch) == (0, 0, 0) && !self.minor_open && !self.patch_open {
            return true;
        }
        v.major == c.major && (v.minor == c.minor || self.minor_open)
    }

    fn caret(&self, v: &Version) -> bool {
        let c = &self.version;
        if v.compare(c) == Ordering::Less {
            return false;
        }
        if c.major > 0 || self.minor_open {
            return v.major == c.major;
        }
        if v.major > 0 {
            return false;
        }
        if c.minor > 0 || self.patch_open {
            return v.minor == c.minor;
        }
        v.minor == 0 && c.patch == v.patch
    }
}

/// Whether a version lies in a range; unreadable ones do not.
pub(crate) fn compatible(constraint: &str, version: &str) -> bool {
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.matches(&version),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_match_as_masterminds_does() {
        for (constraint, version, expected) in [
            (">=1.21-0", "v1.29.0", true),
            (">=1.21", "1.29.0-eks", false),
            ("^1.2", "1.9", true),
            ("^0.2.3", "0.3.0", false),
            ("~1.2.3", "1.2.9", true),
            ("1.2.x", "1.2.7", true),
            ("1.x", "2.0.0", false),
            ("!=1.2.3", "1.2.3", false),
            ("1.2 - 2.0", "1.5", true),
            ("<1 || >=2.0, <3", "2.1", true),
            ("*", "0.0.1", true),
            (">11", "11.1.0", false),
            ("", "1.0.0", false),
        ] {
            assert_eq!(compatible(constraint, version), expected, "{constraint} {version}");
        }
        assert!(Constraint::parse("nope").is_err());
        assert!(Version::parse("1.2.3.4").is_err());
    }

    #[test]
    fn precedence() {
        let v = |s: &str| Version::parse(s).unwrap();
        assert_eq!(v("1.0.0-rc.2").compare(&v("1.0.0-rc.10")), Ordering::Less);
        assert_eq!(v("1.0.0-rc").compare(&v("1.0.0")), Ordering::Less);
        assert_eq!(v("v1.2").to_string(), "1.2.0");
    }
}
