//! `.helmignore`: patterns of files that are not part of a chart.

use crate::error::Error;

struct Rule {
    negate: bool,
    only_folders: bool,
    /// Matched against the whole path when it contains a slash, against the file's name otherwise.
    whole_path: bool,
    pattern: Vec<Piece>,
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
        let pattern = compile(line.strip_prefix('/').unwrap_or(line))
            .ok_or_else(|| Error::Chart(format!("syntax error in pattern {line:?} of .helmignore")))?;
        self.0.push(Rule { negate, only_folders, whole_path, pattern });
        Ok(())
    }

    /// Whether a file or folder is ignored.
    pub(super) fn ignores(&self, path: &str, folder: bool) -> bool {
        for rule in &self.0 {
            let subject = if rule.whole_path { path } else { path.rsplit('/').next().unwrap_or(path) };
            let subject: Vec<char> = subject.chars().collect();
            if rule.negate {
                if rule.only_folders && !folder || !matches(&rule.pattern, &subject) {
                    return true;
                }
                continue;
            }
            if rule.only_folders && !folder {
                continue;
            }
            if matches(&rule.pattern, &subject) {
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

fn matches(pattern: &[Piece], text: &[char]) -> bool {
    // Positions in the pattern that may be next; a star stays and lets the next one start.
    let mut active = vec![false; pattern.len() + 1];
    active[0] = true;
    spread(pattern, &mut active);
    for c in text {
        let mut next = vec![false; pattern.len() + 1];
        for (i, piece) in pattern.iter().enumerate() {
            if !active[i] {
                continue;
            }
            match piece {
                Piece::Star if *c != '/' => next[i] = true,
                Piece::Any if *c != '/' => next[i + 1] = true,
                Piece::Char(wanted) if wanted == c => next[i + 1] = true,
                Piece::Class(negate, ranges)
                    if *c != '/' && ranges.iter().any(|(low, high)| (low..=high).contains(&c)) != *negate =>
                {
                    next[i + 1] = true;
                }
                _ => {}
            }
        }
        spread(pattern, &mut next);
        active = next;
    }
    active[pattern.len()]
}

fn spread(pattern: &[Piece], active: &mut [bool]) {
    for (i, piece) in pattern.iter().enumerate() {
        if active[i] && matches!(piece, Piece::Star) {
            active[i + 1] = true;
        }
    }
}

/// `filepath.Match` for `--show-only`.
pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    let path: Vec<char> = path.chars().collect();
    compile(pattern).is_some_and(|pattern| matches(&pattern, &path))
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
}
