//! Path patterns of `.Files.Glob`: `*`, `**`, `?`, `[a-z]`, `[!a]`, `{a,b}`, with `/` as the separator.

use regex::Regex;

/// A compiled path pattern.
#[derive(Debug)]
pub(crate) struct Glob(Regex);

impl Glob {
    /// Reads a pattern; `None` when it is malformed.
    pub(crate) fn new(pattern: &str) -> Option<Glob> {
        let mut expression = String::from("(?s)^");
        let mut chars = pattern.chars().peekable();
        let mut alternatives = 0usize;
        while let Some(c) = chars.next() {
            match c {
                '*' if chars.peek() == Some(&'*') => {
                    chars.next();
                    expression.push_str(".*");
                }
                '*' => expression.push_str("[^/]*"),
                '?' => expression.push_str("[^/]"),
                '{' => {
                    alternatives += 1;
                    expression.push_str("(?:");
                }
                '}' if alternatives > 0 => {
                    alternatives -= 1;
                    expression.push(')');
                }
                ',' if alternatives > 0 => expression.push('|'),
                '[' => character_class(&mut chars, &mut expression)?,
                '\\' => expression.push_str(&regex::escape(&chars.next()?.to_string())),
                other => expression.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
            }
        }
        if alternatives > 0 {
            return None;
        }
        expression.push('$');
        Regex::new(&expression).ok().map(Glob)
    }

    /// Whether the whole path matches.
    pub(crate) fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

fn character_class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Option<()> {
    out.push('[');
    if chars.peek() == Some(&'!') {
        chars.next();
        out.push('^');
    }
    let first = chars.next()?;
    let escape = |c: char| regex::escape(c.encode_utf8(&mut [0; 4]));
    if chars.peek() == Some(&'-') {
        chars.next();
        let last = chars.next()?;
        out.push_str(&format!("{}-{}", escape(first), escape(last)));
        if chars.next()? != ']' {
            return None;
        }
    } else {
        let mut c = first;
        let mut any = false;
        while c != ']' {
            any = true;
            let literal = if c == '\\' { chars.next()? } else { c };
            out.push_str(&if literal == '-' { "\\-".to_owned() } else { escape(literal) });
            c = chars.next()?;
        }
        if !any {
            return None;
        }
    }
    out.push(']');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::Glob;

    fn matches(pattern: &str, path: &str) -> bool {
        Glob::new(pattern).is_some_and(|g| g.matches(path))
    }

    #[test]
    fn separators_stop_a_single_star_only() {
        assert!(matches("files/*.txt", "files/a.txt"));
        assert!(!matches("files/*.txt", "files/deep/a.txt"));
        assert!(matches("files/**.txt", "files/deep/a.txt"));
        assert!(matches("{a,b}/?", "b/x"));
        assert!(matches("[a-c]x", "bx"));
        assert!(!matches("[!a-c]x", "bx"));
    }

    #[test]
    fn malformed_patterns_are_refused() {
        assert!(Glob::new("[").is_none());
        assert!(Glob::new("{a").is_none());
    }
}
