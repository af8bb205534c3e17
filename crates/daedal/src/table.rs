//! Plain aligned tables.

/// Lays rows out under a header, columns as wide as their widest cell, two blanks between, nothing trailing.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, width) in cells.zip(&widths) {
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count()) + 2));
        }
        format!("{}\n", text.trim_end())
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
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
        assert_eq!(super::render(&["N", "WHAT"], &rows), "N       WHAT\na       b\ngrößer  x\n");
    }
}
