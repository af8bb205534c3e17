//! The `daedal` command: commands, progress, diagnostics, exit codes. The only crate that prints or reads the environment.

mod advice;
mod approver;
mod arguments;
mod cli;
mod clusters;
mod commands;
mod console;
mod contact;
mod documents;
mod escape;
mod exit;
mod failure;
mod file;
mod findings;
mod keys;
mod lab;
mod operator;
mod part;
mod program;
mod progress;
mod schema;
mod secrets;
mod session;
mod silence;
mod sops;
mod ssh;
mod stores;
mod table;
mod timeline;
mod untrusted;
mod vaults;
mod words;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Format};
use crate::exit::Exit;

/// Rendering a chart is mostly small allocations, which this makes and forgets in half the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(arguments::in_order(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            // Asking for help or the version is no mistake; everything else is a wrong command line.
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            if let Some(tip) = arguments::tip(&error) {
                console::say(&tip);
            }
            return code.into();
        }
    };
    keep_memory_private(&cli.command);
    if cli.global.untrusted {
        operator::distrust();
    }
    start_logging(cli.global.verbose);
    let color = console::wants_color(cli.global.color);
    let format = cli.global.output;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            console::progress(&format!("error: cannot start: {error}"));
            return Exit::Failed.into();
        }
    };
    let outcome = runtime.block_on(commands::run(cli, color));
    // A read that hangs in a blocking thread (a prompt, a lock) must not keep the process alive.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            match format {
                Format::Text => console::progress(&failure.render(color)),
                Format::Json => console::json(&failure.json()),
            }
            failure.exit.into()
        }
    }
}

/// Secrets are in our memory: no core dump may put them on a disk, and nobody but root may look at them. A lab has none, and what
/// it runs may be debugged.
fn keep_memory_private(command: &cli::Command) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
    #[cfg(target_os = "linux")]
    if !matches!(command, cli::Command::Lab(_)) {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Logs go to standard error: errors by default, more with -v; `DAEDAL_LOG` takes a full filter.
fn start_logging(verbose: u8) {
    let filter = match std::env::var("DAEDAL_LOG") {
        Ok(filter) if !filter.is_empty() => filter,
        _ => match verbose {
            0 => "error".to_owned(),
            1 => "warn,daedal=info".to_owned(),
            2 => "info,daedal=debug".to_owned(),
            _ => "debug,daedal=trace".to_owned(),
        },
    };
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        // Fields may be anybody's words.
        .with_writer(|| escape::Log)
        .with_ansi(false)
        .with_target(true)
        .try_init();
}
