//! Progress of a run: one line per node on a terminal, timestamped lines elsewhere, JSON lines for programs.

mod board;
mod plain;
mod terminal;

use std::io::IsTerminal as _;
use std::sync::Arc;

use daedal_engine::Event;
use daedal_planner::{Fix, Plan};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::advice;
use crate::cli::Format;
use crate::part;
use crate::silence::Silence;

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
        let term = std::env::var("TERM").unwrap_or_default();
        // Several pictures have no room on one screen.
        let alone = part::current().is_none();
        Self::on(format, color, (alone && std::io::stderr().is_terminal()).then_some(&term))
    }

    /// What fits a terminal of a kind, or none. One that cannot move its cursor gets lines, as a log does.
    fn on(format: Format, color: bool, terminal: Option<&str>) -> Self {
        match (format, terminal) {
            (Format::Json, _) => Self::Json,
            (Format::Text, None | Some("" | "dumb")) => Self::Plain,
            (Format::Text, Some(_)) => Self::Terminal { color },
        }
    }
}

/// Shows events until the run is over (the channel closes). Everything goes to standard error.
pub async fn show(style: Style, plan: &Plan, mut events: UnboundedReceiver<Event>, silence: Arc<Silence>) {
    match style {
        Style::Terminal { color } => {
            let (send, cleaned) = tokio::sync::mpsc::unbounded_channel();
            let clean = async move {
                while let Some(event) = events.recv().await {
                    let _ = send.send(visible_event(complete(event)));
                }
            };
            tokio::join!(clean, terminal::show(plan, color, cleaned, &silence));
        }
        Style::Plain => plain::show(events, &silence).await,
        Style::Json => {
            while let Some(event) = events.recv().await {
                if let Ok(event) = serde_json::to_value(complete(event)) {
                    crate::console::event(event);
                }
            }
        }
    }
}

/// An event whose advice can be followed as it is.
fn complete(mut event: Event) -> Event {
    if let Event::StepFailed { fix, .. } = &mut event {
        advice::complete(fix);
    }
    event
}

/// An event with nothing in it that would do something to a terminal.
fn visible_event(mut event: Event) -> Event {
    let clean = |text: &mut String| {
        if let std::borrow::Cow::Owned(visible) = daedal_inventory::visible(text) {
            *text = visible;
        }
    };
    match &mut event {
        Event::StepWaiting { what, .. } => clean(what),
        Event::StepGaveUp { error, .. } => clean(error),
        Event::StepFailed { error, fix, .. } => {
            clean(error);
            // Nothing is left to add to it by now.
            *fix =
                fix.as_ref().map(|fix| Fix::from(daedal_inventory::visible(&fix.to_string()).into_owned()));
        }
        Event::StepSkipped { because, .. } => clean(because),
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_shown_on_every_kind_of_terminal() {
        let on = |terminal| Style::on(Format::Text, true, terminal);
        assert_eq!(on(Some("xterm-256color")), Style::Terminal { color: true });
        assert_eq!([on(Some("dumb")), on(Some("")), on(None)], [Style::Plain; 3]);
        assert_eq!(Style::on(Format::Json, true, Some("xterm")), Style::Json);
    }
}
