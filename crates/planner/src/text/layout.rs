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

/// Breaks text at spaces so that no line is longer than `width`, unless a single word is.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
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
    fn colour_is_only_there_when_asked_for() {
        assert_eq!(Paint(false).styled("x", Style::Red), "x");
        assert_eq!(Paint(true).styled("x", Style::Red), "\u{1b}[31mx\u{1b}[0m");
    }
}
