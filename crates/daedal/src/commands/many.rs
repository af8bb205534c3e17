//! A command for several clusters at once: in parallel on the sites that they share, one report, one exit code.

use std::future::Future;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;

use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::part::{Part, Together};
use crate::words::count;
use crate::{clusters, console};

/// Runs a command for the cluster that it is about, or with `--all` for every one that is declared.
pub async fn run<F>(
    target: Target,
    all: bool,
    format: Format,
    color: bool,
    command: impl Fn(Target) -> F,
) -> Outcome
where
    F: Future<Output = Outcome>,
{
    if !all {
        return command(target).await;
    }
    let targets = clusters::all(&target)?;
    let together = Together::about(targets.iter().map(|(_, target)| target.clone()).collect());
    let parts: Vec<Arc<Part>> =
        targets.iter().map(|(name, _)| Part::new(name.clone(), together.clone())).collect();
    let each = parts.iter().zip(targets).enumerate().map(|(at, (part, (_, target)))| {
        let work = command(target);
        async move {
            let ended = part.work(async { told(work.await, format, color) });
            (at, ended.await)
        }
    });
    let mut working: FuturesUnordered<_> = each.collect();
    let mut ended: Vec<Option<Exit>> = vec![None; parts.len()];
    let mut untold = parts.iter().enumerate().peekable();
    while let Some((at, exit)) = working.next().await {
        ended[at] = Some(exit);
        // In the order in which they are declared, whoever ends first.
        while let Some((_, part)) = untold.next_if(|(at, _)| ended[*at].is_some()) {
            console::flush(part);
        }
    }
    let exits: Vec<Exit> = ended.into_iter().flatten().collect();
    let worst = Exit::worst(exits.iter().copied());
    match format {
        Format::Json => {
            let each = parts.iter().zip(&exits).map(|(part, exit)| {
                json!({"cluster": part.name, "exitCode": *exit as u8, "result": part.take_value()})
            });
            console::json(&json!({"clusters": each.collect::<Vec<_>>(), "exitCode": worst as u8}));
        }
        Format::Text => console::answer(&format!("\n{}", summary(&parts, &exits))),
    }
    Ok(worst)
}

/// How one ended; a failure is said.
fn told(outcome: Outcome, format: Format, color: bool) -> Exit {
    let failure = match outcome {
        Ok(exit) => return exit,
        Err(failure) => failure,
    };
    match format {
        Format::Json => console::json(&failure.json()),
        Format::Text => console::progress(&failure.render(color)),
    }
    failure.exit
}

/// How all ended, those first that need somebody.
fn summary(parts: &[Arc<Part>], exits: &[Exit]) -> String {
    let of = |wanted: fn(Exit) -> bool| -> Vec<&str> {
        let those = parts.iter().zip(exits).filter(|(_, exit)| wanted(**exit));
        those.map(|(part, _)| part.name.as_str()).collect()
    };
    let groups = [
        ("failed", of(|exit| !matches!(exit, Exit::Done | Exit::Changes))),
        ("not as declared", of(|exit| exit == Exit::Changes)),
        ("done", of(|exit| exit == Exit::Done)),
    ];
    let told = groups.iter().filter(|(_, names)| !names.is_empty());
    let told: Vec<String> = told.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect();
    format!("{}. {}.", count(parts.len(), "cluster"), told.join("; "))
}
