//! What of a text a terminal may see. A peer or a file may hold characters that move the cursor, change the title, ring, or turn
//! what is read around.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character does something to a terminal, or to how the ones around it are read, instead of being seen. Line breaks and
/// tabs do not count.
pub fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // ESC, BEL and the like; DEL; the second set of them, which needs no ESC.
        c if c.is_control() => true,
        // Directions and their ends, line separators, and what has no width at all.
        '\u{061c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

/// A text in which such characters are written out, as `\u{1b}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_invisible(c) => shown.push(c),
            '\r' => shown.push_str("\\r"),
            c => drop(write!(shown, "\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(shown)
}

/// The same without a change of length, so that places in the text stay what they are.
pub(crate) fn visible_in_place(text: String) -> String {
    if !text.contains(is_invisible) {
        return text;
    }
    let stand_in = |c: char| match (is_invisible(c), c.len_utf8()) {
        (false, _) => c,
        (true, 1) => '?',
        (true, 2) => '¿',
        (true, 3) => '\u{fffd}',
        (true, _) => '\u{1f7e6}',
    };
    text.chars().map(stand_in).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_invisible_is_left() {
        let evil = "a\x1b[2Jb\x07\u{9b}31m\u{202e}c\u{2066}\u{200f}\r\x7f\u{feff}";
        let shown = visible(evil);
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{7}\\u{9b}31m\\u{202e}c\\u{2066}\\u{200f}\\r\\u{7f}\\u{feff}");
        assert!(!shown.contains(is_invisible));
        let kept = visible_in_place(evil.to_owned());
        assert_eq!(kept.len(), evil.len());
        assert!(!kept.contains(is_invisible));
        for plain in ["", "line\n\tline", "Zürich – 東京 🚀 שלום"] {
            assert!(matches!(visible(plain), Cow::Borrowed(_)), "{plain}");
        }
    }
}
