//! `.helmignore`: patterns of files that are not part of a chart.

use crate::error::Error;

struct Rule {
    negate: bool,
    only_folders: bool,
    /// Matched against the whole path when it contains a slash, against the file's name otherwise.
    whole_path: bool,
    pattern: Pattern,
}

/// The two forms nearly all patterns have, and the general one.
enum Pattern {
    Name(String),
    Ending(String),
    Pieces(Vec<Piece>),
}

impl Pattern {
    fn new(text: &str) -> Option<Pattern> {
        let literal = |text: &str| !text.contains(['*', '?', '[', '\\', '/']);
        Some(match text.strip_prefix('*') {
            _ if literal(text) => Pattern::Name(text.to_owned()),
            Some(ending) if literal(ending) => Pattern::Ending(ending.to_owned()),
            _ => Pattern::Pieces(compile(text)?),
        })
    }

    fn matches(&self, subject: &str) -> bool {
        match self {
            Pattern::Name(name) => subject == name,
            Pattern::Ending(ending) => {
                subject.strip_suffix(ending.as_str()).is_some_and(|s| !s.contains('/'))
            }
            Pattern::Pieces(pieces) => matches(pieces, subject),
        }
    }
}

/// The rules of one chart.
pub(super) struct Ignore(Vec<Rule>);

impl Ignore {
    /// Reads a `.helmignore`; hidden files under `templates/` are always ignored.
    pub(super) fn parse(text: &str) -> Result<Ignore, Error> {
        let mut rules = Ignore(Vec::new());
        for line in text.trim_start_matches('\u{feff}').lines() {
            rules.add(line)?;
        }
        rules.add("templates/.?*")?;
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), Error> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.contains("**") {
            return Err(Error::Chart("double-star (**) syntax is not supported".into()));
        }
        let (negate, line) = line.strip_prefix('!').map_or((false, line), |l| (true, l));
        let (only_folders, line) = line.strip_suffix('/').map_or((false, line), |l| (true, l));
        let whole_path = line.contains('/');
        let pattern = Pattern::new(line.strip_prefix('/').unwrap_or(line))
            .ok_or_else(|| Error::Chart(format!("syntax error in pattern {line:?} of .helmignore")))?;
        self.0.push(Rule { negate, only_folders, whole_path, pattern });
        Ok(())
    }

    /// Whether a file or folder is ignored.
    pub(super) fn ignores(&self, path: &str, folder: bool) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        for rule in &self.0 {
            let subject = if rule.whole_path { path } else { name };
            if rule.negate {
                if rule.only_folders && !folder || !rule.pattern.matches(subject) {
                    return true;
                }
                continue;
            }
            if rule.only_folders && !folder {
                continue;
            }
            if rule.pattern.matches(subject) {
                return true;
            }
        }
        false
    }
}

#[derive(Debug)]
enum Piece {
    Char(char),
    Any,
    Star,
    Class(bool, Vec<(char, char)>),
}

/// Go's `filepath.Match` syntax; `None` when malformed.
fn compile(pattern: &str) -> Option<Vec<Piece>> {
    let mut out = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(match c {
            '*' => Piece::Star,
            '?' => Piece::Any,
            '\\' => Piece::Char(chars.next()?),
            '[' => {
                let negate = chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    if !ranges.is_empty() && chars.next_if_eq(&']').is_some() {
                        break;
                    }
                    let low = match chars.next()? {
                        '\\' => chars.next()?,
                        '-' | ']' => return None,
                        c => c,
                    };
                    let high = match chars.next_if_eq(&'-') {
                        Some(_) => match chars.next()? {
                            '\\' => chars.next()?,
                            c => c,
                        },
                        None => low,
                    };
                    ranges.push((low, high));
                }
                Piece::Class(negate, ranges)
            }
            other => Piece::Char(other),
        });
    }
    Some(out)
}

impl Piece {
    /// Whether the piece stands for one character; only a slash in the pattern stands for a slash.
    fn fits(&self, c: char) -> bool {
        match self {
            Piece::Char(wanted) => *wanted == c,
            Piece::Any => c != '/',
            Piece::Class(negate, ranges) => {
                c != '/' && ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negate
            }
            Piece::Star => false,
        }
    }
}

fn matches(pattern: &[Piece], text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on when the characters after the last star do not fit: earlier stars need not be tried again.
    let mut last_star: Option<(&[Piece], &str)> = None;
    loop {
        match (pattern.split_first(), text.chars().next()) {
            (None, None) => return true,
            (Some((Piece::Star, rest)), _) => {
                last_star = Some((rest, text));
                pattern = rest;
                continue;
            }
            (Some((piece, rest)), Some(c)) if piece.fits(c) => {
                pattern = rest;
                text = &text[c.len_utf8()..];
                continue;
            }
            _ => {}
        }
        let Some((after_star, from)) = last_star else { return false };
        match from.chars().next() {
            Some(c) if c != '/' => {
                pattern = after_star;
                text = &from[c.len_utf8()..];
                last_star = Some((after_star, text));
            }
            _ => return false,
        }
    }
}

/// `filepath.Match` for `--show-only`.
pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    Pattern::new(pattern).is_some_and(|pattern| pattern.matches(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_match_names_paths_and_folders() {
        let rules = Ignore::parse("# c\n*.bak\n/top.txt\nci/\ndocs/*.md\n").unwrap();
        assert!(rules.ignores("a/b.bak", false));
        assert!(rules.ignores("top.txt", false));
        assert!(!rules.ignores("a/top.txt", false));
        assert!(rules.ignores("ci", true));
        assert!(!rules.ignores("ci", false));
        assert!(rules.ignores("docs/x.md", false));
        assert!(rules.ignores("templates/.x", false));
        assert!(!rules.ignores("templates/x", false));
        assert!(Ignore::parse("a/**/b").is_err());
    }

    #[test]
    fn stars_stay_within_a_folder_and_take_as_much_as_is_needed() {
        for (pattern, path) in [
            ("*", ""),
            ("*.yaml", "a.b.yaml"),
            ("a*b*c", "axbxbc"),
            ("*a/*b", "xa/yb"),
            ("[a-c]?[^x]", "bxy"),
            ("templates/*", "templates/é.yaml"),
            ("a\\*", "a*"),
        ] {
            assert!(path_matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("*", "a/b"),
            ("*b", "a/b"),
            ("a?b", "a/b"),
            ("a*b*c", "axbx"),
            ("[a", "a"),
            ("", "a"),
            ("[^a]", "/"),
        ] {
            assert!(!path_matches(pattern, path), "{pattern} {path}");
        }
    }
}
