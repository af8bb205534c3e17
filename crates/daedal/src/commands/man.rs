//! `daedal man`: manual pages, made of what `--help` says.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};

use crate::cli::{Cli, Format};
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Prints one page, or writes all.
pub fn run(words: &[String], to: Option<&Path>, format: Format) -> Outcome {
    let mut root = Cli::command();
    root.build();
    if let Some(folder) = to {
        return write_all(&root, folder, format);
    }
    let mut command = &root;
    for word in words {
        command = command.find_subcommand(word).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("there is no command {}", words.join(" ")))
                .hint("`daedal --help` lists them.")
        })?;
    }
    let (name, text) = page(command, &parents(words));
    match format {
        Format::Json => console::json(&serde_json::json!({"name": name, "page": text})),
        Format::Text => console::result(&text),
    }
    Ok(Exit::Done)
}

fn parents(words: &[String]) -> Vec<String> {
    let mut parents = vec!["daedal".to_owned()];
    parents.extend(words.iter().take(words.len().saturating_sub(1)).cloned());
    if words.is_empty() { Vec::new() } else { parents }
}

fn write_all(root: &Command, folder: &Path, format: Format) -> Outcome {
    let cannot = |path: &Path, error: &std::io::Error| {
        Failure::new(Exit::CannotWrite, format!("cannot write {}", path.display())).because(error)
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
    let mut files = Vec::new();
    let mut open: Vec<(Vec<String>, &Command)> = vec![(Vec::new(), root)];
    while let Some((parents, command)) = open.pop() {
        let (name, text) = page(command, &parents);
        let path = folder.join(format!("{name}.1"));
        std::fs::write(&path, text).map_err(|error| cannot(&path, &error))?;
        files.push(path);
        let mut of_its_children = parents.clone();
        of_its_children.push(command.get_name().to_owned());
        open.extend(shown(command).map(|child| (of_its_children.clone(), child)));
    }
    files.sort();
    match format {
        Format::Json => console::json(&files),
        Format::Text => {
            console::answer(&format!("{} manual pages are in {}.", files.len(), folder.display()));
        }
    }
    Ok(Exit::Done)
}

/// The commands that people see.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help")
}

/// A page and its name.
fn page(command: &Command, parents: &[String]) -> (String, String) {
    let words: Vec<&str> = parents.iter().map(String::as_str).chain([command.get_name()]).collect();
    let name = words.join("-");
    let mut out = String::new();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ =
        writeln!(out, ".TH {} 1 \"\" \"daedal {}\"", roff(&name.to_uppercase()), env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, ".SH NAME\n{} \\- {}", roff(&name), roff(about.trim_end_matches('.')));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = writeln!(out, ".SH SYNOPSIS\n.nf\n{}\n.fi", roff(usage));
    let long = command.get_long_about().map(ToString::to_string).unwrap_or(about);
    let _ = writeln!(out, ".SH DESCRIPTION\n{}", paragraphs(&long));
    let arguments: Vec<&Arg> = command.get_positionals().filter(|arg| !arg.is_hide_set()).collect();
    let options: Vec<&Arg> =
        command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set()).collect();
    for (title, args) in [("ARGUMENTS", arguments), ("OPTIONS", options)] {
        if !args.is_empty() {
            let _ = writeln!(out, ".SH {title}");
            args.iter().for_each(|arg| entry(&mut out, arg));
        }
    }
    if shown(command).next().is_some() {
        out.push_str(".SH COMMANDS\n");
        for child in shown(command) {
            let about = child.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(
                out,
                ".TP\n\\fB{}\\fR\n{}",
                roff(&format!("{} {}", words.join(" "), child.get_name())),
                roff(&about)
            );
        }
    }
    if let Some(after) = command.get_after_help().filter(|_| parents.is_empty()) {
        let after = after.to_string();
        let text = after.trim_start_matches("Exit codes:").trim_start_matches('\n');
        let _ = writeln!(out, ".SH EXIT STATUS\n.nf\n{}\n.fi", roff(text));
    }
    if !parents.is_empty() {
        let _ = writeln!(out, ".SH SEE ALSO\n\\fB{}\\fR(1)", roff(&parents.join("-")));
    }
    (name, out)
}

/// An argument or option with what it means.
fn entry(out: &mut String, arg: &Arg) {
    let mut names: Vec<String> = Vec::new();
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    let values: Vec<&str> =
        arg.get_value_names().unwrap_or_default().iter().map(clap::builder::Str::as_str).collect();
    let takes = arg.get_action().takes_values();
    let head = match (names.is_empty(), takes) {
        (true, _) => values.join(" "),
        (false, true) => format!("{} {}", names.join(", "), values.join(" ")),
        (false, false) => names.join(", "),
    };
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(out, ".TP\n\\fB{}\\fR\n{}", roff(head.trim()), paragraphs(&help));
    let possible: Vec<String> =
        arg.get_possible_values().iter().filter(|_| takes).map(|value| value.get_name().to_owned()).collect();
    if !possible.is_empty() {
        let _ = writeln!(out, ".br\nOne of {}.", roff(&possible.join(", ")));
    }
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .filter(|_| takes)
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if !defaults.is_empty() {
        let _ = writeln!(out, ".br\nDefault: {}.", roff(&defaults.join(" ")));
    }
}

fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|part| roff(part.trim())).collect::<Vec<_>>().join("\n.PP\n")
}

/// Text that roff prints as it is.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let guarded = text.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    guarded.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_nothing_in_it_is_taken_for_a_request() {
        let folder = tempfile::tempdir().unwrap();
        run(&[], Some(folder.path()), Format::Json).unwrap();
        for name in ["daedal", "daedal-plan-show", "daedal-node-remove", "daedal-secrets-talosconfig"] {
            let text = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
            assert!(text.starts_with(".TH ") && text.contains(".SH SYNOPSIS"), "{name}: {text}");
            let requests = [".TH", ".SH", ".TP", ".PP", ".nf", ".fi", ".br"];
            let taken =
                |line: &&str| line.starts_with('.') && !requests.iter().any(|known| line.starts_with(known));
            assert_eq!(text.lines().find(taken), None, "{name}");
        }
        let main = std::fs::read_to_string(folder.path().join("daedal.1")).unwrap();
        assert!(main.contains(".SH EXIT STATUS") && main.contains("143"), "{main}");
        assert!(!folder.path().join("daedal-complete.1").exists());
    }
}
