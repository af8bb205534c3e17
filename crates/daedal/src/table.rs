//! Plain aligned tables.

use crate::console;

/// What continues a row begins this far in.
const INDENT: usize = 4;

/// Lays rows out under a header, columns as wide as their widest cell, two blanks between, nothing trailing. On a terminal that is
/// too narrow, a row goes on in the next line.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    render_at(header, rows, console::columns().unwrap_or(usize::MAX))
}

fn render_at(header: &[&str], rows: &[Vec<String>], columns: usize) -> String {
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let breaks = breaks(&widths, columns);
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let (mut text, mut line) = (String::new(), String::new());
        for (at, (cell, width)) in cells.zip(&widths).enumerate() {
            if breaks.contains(&at) {
                text.push_str(line.trim_end());
                text.push('\n');
                line = " ".repeat(INDENT);
            }
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count()) + 2));
        }
        format!("{text}{}\n", line.trim_end())
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// Before which columns a row must go on in the next line.
fn breaks(widths: &[usize], columns: usize) -> Vec<usize> {
    let mut breaks = Vec::new();
    let mut taken = 0;
    for (at, width) in widths.iter().enumerate() {
        if at > 0 && taken + width > columns {
            breaks.push(at);
            taken = INDENT;
        }
        taken += width + 2;
    }
    breaks
}

/// A cell, which may be empty.
pub fn or_nothing(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.to_owned())
}

/// Stands in a cell that has nothing to say.
pub const NOTHING: &str = "–";

#[cfg(test)]
mod tests {
    #[test]
    fn aligns_by_characters_and_trims() {
        let rows = vec![vec!["a".into(), "b".into()], vec!["größer".into(), "x".into()]];
        assert_eq!(super::render_at(&["N", "WHAT"], &rows, 80), "N       WHAT\na       b\ngrößer  x\n");
    }

    #[test]
    fn a_row_that_is_too_long_goes_on_in_the_next_line() {
        let rows = vec![vec!["cp-1".into(), "control plane".into(), "running".into()]];
        let text = super::render_at(&["NODE", "ROLE", "VM"], &rows, 22);
        assert_eq!(text, "NODE  ROLE\n    VM\ncp-1  control plane\n    running\n");
        assert!(text.lines().all(|line| line.chars().count() <= 22));
    }
}
