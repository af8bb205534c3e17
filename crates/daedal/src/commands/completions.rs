//! `daedal completions`: a completion script for a shell.

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::console;
use crate::exit::Exit;
use crate::failure::Outcome;

/// Prints the script.
pub fn run(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "daedal", &mut script);
    console::result(&String::from_utf8_lossy(&script));
    Ok(Exit::Done)
}
