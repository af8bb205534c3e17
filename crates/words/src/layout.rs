//! Wrapping and colour.

/// Text styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Green,
    Yellow,
    Red,
}

/// Colours, or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(super) fn styled(self, text: &str, style: Style) -> String {
        match style {
            Style::Plain => text.to_owned(),
            Style::Green => self.with("32", text),
            Style::Yellow => self.with("33", text),
            Style::Red => self.with("31", text),
        }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// What begins a command that somebody may paste into a shell.
const PROGRAMS: &[&str] = &[
    "age-keygen",
    "chmod",
    "chronyc",
    "daedal",
    "eval",
    "export",
    "kubectl",
    "openssl",
    "pvecm",
    "pvenode",
    "pvesh",
    "pvesm",
    "pveum",
    "qm",
    "talosctl",
];

/// The pieces of a line between which it may be broken: words, commands to paste, and what stands in backticks.
pub fn pieces(line: &str) -> Vec<&str> {
    let mut pieces: Vec<&str> = Vec::new();
    // Where a piece of several words began, and whether backticks hold it together.
    let mut open: Option<(usize, bool)> = None;
    let mut before = ":";
    let mut at = 0;
    for word in line.split(' ') {
        let (begin, end) = (at, at + word.len());
        at = end + 1;
        let odd = word.matches('`').count() % 2 == 1;
        match open {
            None if odd => open = Some((begin, true)),
            None if before.ends_with(':') && is_program(word) && !ends_command(word) => {
                open = Some((begin, false));
            }
            None => pieces.push(word),
            Some((from, ticks)) if (ticks && odd) || (!ticks && ends_command(word)) => {
                pieces.push(&line[from..end]);
                open = None;
            }
            Some(_) => {}
        }
        if !word.is_empty() {
            before = word;
        }
    }
    match open {
        Some((from, false)) => pieces.push(&line[from..]),
        // A backtick that nothing closes holds nothing together.
        Some((from, true)) => pieces.extend(line[from..].split(' ')),
        None => {}
    }
    pieces
}

fn is_program(word: &str) -> bool {
    let name = word.trim_start_matches('(').rsplit('/').next().unwrap_or_default();
    PROGRAMS.contains(&name)
}

/// Whether a sentence goes on after this word of a command.
fn ends_command(word: &str) -> bool {
    word.ends_with([',', ';']) || (word.ends_with('.') && word.len() > 2)
}

/// Breaks text between its pieces so that no line is longer than `width`, unless a single piece is.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in pieces(&text) {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += word_length;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_at_spaces_only() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("antidisestablishmentarianism", 5), ["antidisestablishmentarianism"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn commands_and_what_stands_in_backticks_stay_whole() {
        let fix = "as root on atlas, if `qm config 303` shows `lock: create`: qm unlock 303 && qm destroy 303; then run again";
        assert_eq!(
            pieces(fix),
            [
                "as",
                "root",
                "on",
                "atlas,",
                "if",
                "`qm config 303`",
                "shows",
                "`lock: create`:",
                "qm unlock 303 && qm destroy 303;",
                "then",
                "run",
                "again"
            ]
        );
        let two = "to see them: daedal volumes list; to delete them: ./bin/daedal volumes prune";
        assert_eq!(
            pieces(two),
            [
                "to",
                "see",
                "them:",
                "daedal volumes list;",
                "to",
                "delete",
                "them:",
                "./bin/daedal volumes prune"
            ]
        );
        assert_eq!(pieces("daedal node remove cp-9, then run"), ["daedal node remove cp-9,", "then", "run"]);
        // Prose that only names a program, and a backtick that nothing closes.
        assert_eq!(pieces("a qm of ours"), ["a", "qm", "of", "ours"]);
        assert_eq!(pieces("it`s so"), ["it`s", "so"]);
        assert_eq!(wrap("run it: daedal apply --yes", 12), ["run it:", "daedal apply --yes"]);
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        assert_eq!(Paint(false).styled("x", Style::Red), "x");
        assert_eq!(Paint(true).styled("x", Style::Red), "\u{1b}[31mx\u{1b}[0m");
    }
}
