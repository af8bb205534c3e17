//! Progress of a run: one line per node on a terminal, timestamped lines elsewhere, JSON lines for programs.

mod board;
mod plain;
mod terminal;

use std::io::IsTerminal as _;

use daedal_engine::Event;
use daedal_planner::Plan;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::cli::Format;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Lines that change in place.
    Terminal {
        /// With colours.
        color: bool,
    },
    /// One line per event.
    Plain,
    /// One JSON object per event.
    Json,
}

impl Style {
    /// What fits where standard error goes.
    pub fn choose(format: Format, color: bool) -> Self {
        match format {
            Format::Json => Self::Json,
            Format::Text if std::io::stderr().is_terminal() => Self::Terminal { color },
            Format::Text => Self::Plain,
        }
    }
}

/// Shows events until the run is over (the channel closes). Everything goes to standard error.
pub async fn show(style: Style, plan: &Plan, mut events: UnboundedReceiver<Event>) {
    match style {
        Style::Terminal { color } => terminal::show(plan, color, events).await,
        Style::Plain => plain::show(events).await,
        Style::Json => {
            while let Some(event) = events.recv().await {
                if let Ok(line) = serde_json::to_string(&event) {
                    crate::console::progress(&line);
                }
            }
        }
    }
}
