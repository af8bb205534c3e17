//! `daedal completions`: a completion script for a shell.

use clap::CommandFactory as _;

use crate::cli::{Cli, Format};
use crate::console;
use crate::exit::Exit;
use crate::failure::Outcome;

/// Prints the script.
pub fn run(shell: clap_complete::Shell, format: Format) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "daedal", &mut script);
    let script = String::from_utf8_lossy(&script);
    match format {
        Format::Json => console::json(&serde_json::json!({"shell": shell.to_string(), "script": script})),
        Format::Text => console::result(&script),
    }
    Ok(Exit::Done)
}
