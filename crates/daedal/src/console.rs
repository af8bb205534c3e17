//! The only place that writes to the terminal: results to standard output, everything else to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module is the console")]

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use crate::cli::Color;

/// Prints a result. A reader that has gone away (`| head`) is no error.
pub fn result(text: &str) {
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
        Ok(text) => result(&text),
        Err(error) => progress(&format!("error: cannot write JSON: {error}")),
    }
}

/// Prints a line about what goes on.
pub fn progress(line: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{}", line.trim_end_matches('\n'));
}

/// Whether colours are wanted on standard error and output.
pub fn wants_color(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                && std::env::var("TERM").map_or(true, |t| t != "dumb")
                && std::io::stdout().is_terminal()
                && std::io::stderr().is_terminal()
        }
    }
}

/// Asks a question; none where nobody can answer.
pub fn ask(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    {
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{question} ");
        let _ = err.flush();
    }
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).ok()?;
    Some(answer.trim().to_owned())
}

/// Asks for something that nobody should see; none where nobody can answer.
pub fn ask_secret(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    let terminal = ::console::Term::stderr();
    terminal.write_str(&format!("{question} ")).ok()?;
    terminal.read_secure_line().ok().map(|answer| answer.trim().to_owned())
}
