//! Patterns of ssh_config and known_hosts: `*`, `?`, and `!` before what must not match.

/// Whether a text fits a pattern of `*` and `?`. Letters must be in the same case.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                // The last star takes one more.
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether one of the patterns fits and none that is negated does.
pub(crate) fn any_fits<'a>(patterns: impl IntoIterator<Item = &'a str>, text: &str) -> bool {
    let mut found = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(pattern) if fits(pattern, text) => return false,
            Some(_) => {}
            None => found |= fits(pattern, text),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_ssh() {
        for (pattern, text) in
            [("*", ""), ("*", "a.b"), ("*.home", "nas.home"), ("10.0.?.*", "10.0.1.12"), ("a*b*c", "aXbYbZc")]
        {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("*.home", "home"), ("10.0.?.1", "10.0.12.1"), ("a*b", "abc"), ("", "a"), ("A", "a")]
        {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
        assert!(any_fits(["*.lan", "!nas.lan"], "atlas.lan"));
        assert!(!any_fits(["*.lan", "!nas.lan"], "nas.lan"));
        assert!(!any_fits(["!nas.lan"], "atlas.lan"));
    }
}
