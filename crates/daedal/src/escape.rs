//! What reaches the terminal: nothing from a peer or a file that does something there, and of escape sequences only our own colours.

use std::borrow::Cow;
use std::io::{self, Write};

use daedal_inventory::{is_invisible, visible};

/// The most that is quoted of what somebody else said, in characters.
const LONGEST_QUOTE: usize = 500;

/// A text as a terminal may get it. Colours that we use may stay in it where colours are wanted.
pub fn for_terminal(text: &str, color: bool) -> Cow<'_, str> {
    if !color || !text.contains('\x1b') {
        return visible(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        shown.push_str(&visible(&rest[..at]));
        let length = colour(&rest[at..]);
        match length {
            Some(length) => shown.push_str(&rest[at..at + length]),
            None => shown.push_str(&visible("\x1b")),
        }
        rest = &rest[at + length.unwrap_or(1)..];
    }
    shown.push_str(&visible(rest));
    Cow::Owned(shown)
}

/// How long the colour is that a text begins with: `ESC [ numbers m`, of a foreground, bold, dim, italic, underlined or none.
fn colour(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?.split_once('m')?.0;
    if numbers.len() > 24 || !numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') {
        return None;
    }
    let ours = |number: &str| {
        matches!(number, "" | "0" | "1" | "2" | "3" | "4" | "22" | "23" | "24" | "39")
            || number.parse().is_ok_and(|n: u8| (30..=37).contains(&n) || (90..=97).contains(&n))
    };
    let is_ours = match numbers.split_once(';') {
        // A colour by its number, or by its parts.
        Some(("38", rest)) => rest.starts_with("5;") || rest.starts_with("2;"),
        _ => numbers.split(';').all(ours),
    };
    is_ours.then_some("\x1b[m".len() + numbers.len())
}

/// JSON as a terminal may get it. Its own escapes leave out what is above ASCII, where there is more of that kind.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut units = [0; 2];
    for c in text.chars() {
        match is_invisible(c) {
            true => {
                c.encode_utf16(&mut units).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
            }
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// What somebody else said, cut where it becomes too long to read.
pub fn quote(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Standard error for logs, whose fields may be anybody's words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A line is written as a whole.
        io::stderr().lock().write_all(visible(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_colours_stay_and_only_where_they_are_wanted() {
        let ours = "\x1b[1;31merror:\x1b[0m x \x1b[38;2;1;2;3my\x1b[0m\n";
        assert_eq!(for_terminal(ours, true), ours);
        assert!(!for_terminal(ours, false).contains('\x1b'));
        for evil in [
            "\x1b[2J",
            "\x1b]0;title\x07",
            "\x1b[8mhidden",
            "\x1b[1;8mhidden",
            "\x1b[7m",
            "\x1b[41m",
            "\x1b",
            "\x1b[",
            "\x1b[999999999999999999999999999m",
            "\x1bc",
            "\u{9b}2J",
            "a\rb",
            "\u{202e}",
        ] {
            let shown = for_terminal(evil, true);
            assert!(!shown.contains(is_invisible), "{evil:?}: {shown:?}");
        }
    }

    #[test]
    fn json_stays_what_it_says() {
        let evil = "\u{202e}\u{9b}\x7fa\u{e0001}";
        let text = serde_json::to_string(evil).unwrap();
        let shown = json(&text);
        assert!(!shown.contains(is_invisible), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), evil);
    }

    #[test]
    fn a_long_quote_is_cut_between_letters() {
        assert_eq!(quote("short"), "short");
        let long = "ü".repeat(2 * LONGEST_QUOTE);
        assert_eq!(quote(&long).chars().count(), LONGEST_QUOTE + 1);
    }
}
