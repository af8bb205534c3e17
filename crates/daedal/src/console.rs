//! The only place that writes to the terminal: results to standard output, everything else to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module is the console")]

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::Color;
use crate::escape;

/// Whether our own colours may reach the terminal.
static COLORED: AtomicBool = AtomicBool::new(false);

/// What may reach the terminal of a text that has somebody else's words in it.
fn shown(text: &str) -> std::borrow::Cow<'_, str> {
    escape::for_terminal(text, COLORED.load(Ordering::Relaxed))
}

/// Prints a result. A reader that has gone away (`| head`) is no error.
pub fn result(text: &str) {
    print(&shown(text));
}

/// Prints a document: byte by byte as it is, unless a terminal reads it.
pub fn document(text: &str) {
    match std::io::stdout().is_terminal() {
        true => result(text),
        false => print(text),
    }
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

/// Prints a value as JSON.
pub fn json<T: serde::Serialize>(value: &T) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&escape::json(&text)),
        Err(error) => progress(&format!("error: cannot write JSON: {error}")),
    }
}

/// Prints a line about what goes on.
pub fn progress(line: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{}", shown(line.trim_end_matches('\n')));
}

/// How wide the terminal is that results go to; none if they go elsewhere.
pub fn columns() -> Option<usize> {
    ::console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
}

/// How wide text may be: as the terminal, if that is narrower than is good to read.
pub fn width() -> usize {
    terminal_width().unwrap_or(WIDEST)
}

/// The same, if there is a terminal.
fn terminal_width() -> Option<usize> {
    let columns = [::console::Term::stdout(), ::console::Term::stderr()]
        .iter()
        .find_map(|terminal| Some(usize::from(terminal.size_checked()?.1)));
    Some(columns?.clamp(NARROWEST, WIDEST))
}

/// More columns are not easier to read.
const WIDEST: usize = 110;
/// With fewer nothing can be laid out.
const NARROWEST: usize = 40;

/// On a terminal, breaks a line at blanks so that it fits; what follows the first break is indented. Elsewhere a line stays one.
pub fn wrapped(line: &str, indent: usize) -> String {
    match terminal_width() {
        Some(width) => wrapped_at(line, indent, width),
        None => line.to_owned(),
    }
}

fn wrapped_at(line: &str, indent: usize, width: usize) -> String {
    let words = line.trim_start_matches(' ');
    let mut text = " ".repeat(line.len() - words.len());
    let mut column = text.len();
    for (at, word) in words.split(' ').enumerate() {
        let length = ::console::measure_text_width(word);
        if at > 0 && column > indent && column + 1 + length > width {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            column = indent;
        } else if at > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text
}

/// Whether colours are wanted on standard error and output.
pub fn wants_color(color: Color) -> bool {
    let wanted = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                && std::env::var("TERM").map_or(true, |t| t != "dumb")
                && std::io::stdout().is_terminal()
                && std::io::stderr().is_terminal()
        }
    };
    COLORED.store(wanted, Ordering::Relaxed);
    wanted
}

/// Asks a question; none where nobody can answer.
pub fn ask(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    {
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{} ", shown(question));
        let _ = err.flush();
    }
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).ok()?;
    Some(answer.trim().to_owned())
}

/// Asks a question that only a yes agrees to, in whatever case; none where nobody can answer.
pub fn agrees(question: &str) -> Option<bool> {
    ask(&format!("{question} [y/N]")).map(|answer| is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

/// Asks for something that nobody should see; none where nobody can answer.
pub fn ask_secret(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    let terminal = ::console::Term::stderr();
    terminal.write_str(&format!("{} ", shown(question))).ok()?;
    terminal.read_secure_line().ok().map(|answer| answer.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{is_yes, wrapped_at};

    #[test]
    fn only_a_yes_agrees() {
        assert!(["y", "Y", "yes", "YES", " Yes \n"].into_iter().all(is_yes));
        assert!(!["", "n", "no", "yess", "ye", "y es", "ja"].into_iter().any(is_yes));
    }

    #[test]
    fn lines_are_broken_at_blanks_and_indented() {
        let line = "error: the certificate of https://atlas.lan:8006 is not trusted by anybody";
        let wrapped = wrapped_at(line, 2, 40);
        assert!(wrapped.lines().all(|line| line.chars().count() <= 40), "{wrapped}");
        assert_eq!(wrapped.replace("\n ", ""), line);
        assert_eq!(wrapped_at("  because: short", 4, 40), "  because: short");
    }
}
