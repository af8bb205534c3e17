//! `-f FILE` before the command, which means the same as after it.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ErrorKind};

use crate::cli::Cli;

/// Commands whose own `-f` is something else.
const OTHERS: [&str; 1] = ["helm"];

/// The arguments with what stands before the command about inventories put behind it, where every command reads it.
pub fn in_order(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let given: Vec<OsString> = arguments.collect();
    let (mut before, mut moved) = (Vec::new(), Vec::new());
    let mut rest = given.iter().cloned();
    before.extend(rest.next());
    let mut command = None;
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy().into_owned();
        match text.as_str() {
            "-f" | "--file" => {
                moved.push(argument);
                moved.extend(rest.next());
            }
            text if text.starts_with("--file=") || (text.starts_with("-f") && !text.starts_with("--")) => {
                moved.push(argument);
            }
            text if text.starts_with('-') && text != "--" => {
                before.push(argument);
                if takes_value(text) {
                    before.extend(rest.next());
                }
            }
            _ => {
                command = Some(argument);
                break;
            }
        }
    }
    let mut after: Vec<OsString> = rest.collect();
    match command {
        Some(command) if !moved.is_empty() && !OTHERS.iter().any(|other| command == *other) => {
            // What follows `--` is another program's.
            let end = after.iter().position(|argument| argument == "--").unwrap_or(after.len());
            after.splice(end..end, moved);
            before.into_iter().chain([command]).chain(after).collect()
        }
        _ => given,
    }
}

/// What to do instead where `--all` is not understood: what a command asks, mints or runs for one cluster cannot be done for
/// several.
pub fn tip(error: &clap::Error) -> Option<String> {
    let unknown = error.kind() == ErrorKind::UnknownArgument;
    let is_all =
        || error.get(ContextKind::InvalidArg).is_some_and(|argument| argument.to_string() == "--all");
    (unknown && is_all()).then(|| {
        "This command works on one cluster at a time: choose it with --cluster NAME (daedal help COMMAND).".to_owned()
    })
}

/// Whether an option before the command takes the argument after it.
fn takes_value(option: &str) -> bool {
    Cli::command().get_arguments().filter(|known| known.get_action().takes_values()).any(|known| {
        known.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long))
            || known.get_short().is_some_and(|short| option.strip_prefix('-') == Some(&short.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_before_the_command_is_one_after_it() {
        for (given, meant) in [
            ("daedal -f a apply --yes", "daedal apply --yes -f a"),
            ("daedal --file=a -o json -v status", "daedal -o json -v status --file=a"),
            ("daedal --color never -fa --file b plan -f c", "daedal --color never plan -f c -fa --file b"),
            ("daedal -f a kubectl -- get -f x", "daedal kubectl -f a -- get -f x"),
            ("daedal -f a node list", "daedal node list -f a"),
            ("daedal -f a helm template x", "daedal -f a helm template x"),
            ("daedal apply -f a", "daedal apply -f a"),
            ("daedal --help", "daedal --help"),
            ("daedal -f", "daedal -f"),
        ] {
            let ordered = in_order(given.split(' ').map(OsString::from));
            let ordered: Vec<String> =
                ordered.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(ordered.join(" "), meant);
        }
    }
}
