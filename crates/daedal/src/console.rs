//! The only place that writes to the terminal: results to standard output, everything else to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module is the console")]

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::Color;
use crate::part::{self, Part};
use crate::{advice, escape};

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
    match part::current() {
        Some(part) => part.keep(text),
        None => print_now(text),
    }
}

/// Prints what a cluster's part has said so far.
pub fn flush(part: &Part) {
    if let Some(said) = part.take() {
        print_now(&said);
    }
}

fn print_now(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

/// Prints a value as JSON.
pub fn json<T: serde::Serialize>(value: &T) {
    if let (Some(part), Ok(value)) = (part::current(), serde_json::to_value(value)) {
        return part.keep_value(value);
    }
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&escape::json(&text)),
        Err(error) => progress(&format!("error: cannot write JSON: {error}")),
    }
}

/// Prints sentences as a result, fitted to the terminal's width.
pub fn answer(text: &str) {
    result(&fitted(text));
}

/// Says what goes on, or what deserves attention, fitted to the terminal's width.
pub fn say(text: &str) {
    progress(&fitted(text));
}

/// Prints a line about what goes on.
pub fn progress(line: &str) {
    let text = shown(line.trim_end_matches('\n'));
    let mut err = std::io::stderr().lock();
    match part::current() {
        Some(part) => text.lines().for_each(|line| drop(writeln!(err, "{}: {line}", part.name))),
        None => drop(writeln!(err, "{text}")),
    }
}

/// Prints an event of a run for programs, with the cluster that it is about where they are several.
pub fn event(mut event: serde_json::Value) {
    if let Some(part) = part::current() {
        event["cluster"] = part.name.clone().into();
    }
    let _ = writeln!(std::io::stderr().lock(), "{}", shown(&escape::json(&event.to_string())));
}

/// How wide the terminal is that results go to. Elsewhere it is what `COLUMNS` says; none if nothing does.
pub fn columns() -> Option<usize> {
    let terminal = ::console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    terminal.or_else(declared_columns)
}

/// What `watch` and others tell a program whose output they show.
fn declared_columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
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
    Some(columns.or_else(declared_columns)?.clamp(NARROWEST, WIDEST))
}

/// More columns are not easier to read.
const WIDEST: usize = 110;
/// With fewer nothing can be laid out.
const NARROWEST: usize = 40;

/// On a terminal, breaks lines at blanks so that they fit; what follows a break is indented. Elsewhere a line stays one. Commands to
/// paste are never broken.
pub fn wrapped(text: &str, indent: usize) -> String {
    let Some(width) = terminal_width() else { return text.to_owned() };
    let lines: Vec<String> = text.split('\n').map(|line| wrapped_at(line, indent, width)).collect();
    lines.join("\n")
}

/// The same for a text of several lines: each goes on below its own beginning, and a bit further in if that is a label or is
/// indented itself.
pub fn fitted(text: &str) -> String {
    let Some(width) = terminal_width() else { return text.to_owned() };
    let fit = |line: &str| {
        let lead = line.len() - line.trim_start_matches(' ').len();
        let label = line.split(' ').next().is_some_and(|word| word.ends_with(':'));
        wrapped_at(line, if lead > 0 || label { lead + 2 } else { 0 }, width)
    };
    text.split('\n').map(fit).collect::<Vec<_>>().join("\n")
}

fn wrapped_at(line: &str, indent: usize, width: usize) -> String {
    let words = line.trim_start_matches(' ');
    let mut text = " ".repeat(line.len() - words.len());
    let mut column = text.len();
    for (at, word) in daedal_words::pieces(words).into_iter().enumerate() {
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

/// What could not be seen, a line each.
pub fn unseen(all: &[daedal_planner::Unobserved]) -> String {
    let line = |one: &daedal_planner::Unobserved| {
        let fix = one.fix.as_ref().map(|fix| wrapped(&format!("\n    fix: {}", advice::told(fix)), 9));
        format!("{}{}\n", wrapped(&format!("  {}: {}", one.what, one.why), 4), fix.unwrap_or_default())
    };
    all.iter().map(line).collect()
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
    if let Some(part) = part::current() {
        flush(&part);
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
        let help = "  help: To go on from here: daedal apply --lab --lab-dir /tmp/lab -f cluster.yaml";
        let wrapped = wrapped_at(help, 4, 40);
        assert_eq!(
            wrapped,
            "  help: To go on from here:\n    daedal apply --lab --lab-dir /tmp/lab -f cluster.yaml"
        );
    }
}
