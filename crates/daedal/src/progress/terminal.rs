//! Progress on a terminal: a line for the whole run and one per node, changed in place, no more than fit on the screen.

use std::time::Duration;

use daedal_engine::Event;
use daedal_planner::Plan;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::board::{Board, Standing};
use crate::silence::Silence;

/// More rows than this are not read, however high the screen is.
const MOST_ROWS: usize = 30;
/// Lines besides the rows: the total, a silent peer, the cursor's.
const OTHER_LINES: usize = 3;

/// Draws until the channel closes, and leaves the last picture on the screen.
pub async fn show(plan: &Plan, color: bool, mut events: UnboundedReceiver<Event>, silence: &Silence) {
    let began = Instant::now();
    let mut board = Board::new(plan);
    let screen = MultiProgress::new();
    let (height, _) = ::console::Term::stderr().size();
    let rows = board.rows.len().min(most_rows(usize::from(height)));
    let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    let bars: Vec<ProgressBar> =
        (0..rows + 2).map(|_| screen.add(ProgressBar::new(1).with_style(style.clone()))).collect();
    let mut tick = tokio::time::interval(Duration::from_millis(125));
    let mut frame = 0usize;
    let draw = |board: &Board, frame: usize| {
        let lines = lines(board, rows, color, began.elapsed(), frame, silence.says());
        for (bar, line) in bars.iter().zip(lines.into_iter().chain(std::iter::repeat(String::new()))) {
            bar.set_message(line);
        }
    };
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => board.take(&event, began.elapsed()),
                None => break,
            },
            _ = tick.tick() => frame += 1,
        }
        draw(&board, frame);
    }
    draw(&board, frame);
    for bar in &bars {
        bar.abandon();
    }
}

/// How many rows a screen of so many lines has room for.
fn most_rows(height: usize) -> usize {
    height.saturating_sub(OTHER_LINES).clamp(3, MOST_ROWS)
}

/// The picture: the rows, what is left out of them, the total, and who is silent.
fn lines(
    board: &Board,
    rows: usize,
    color: bool,
    now: Duration,
    frame: usize,
    silent: Option<String>,
) -> Vec<String> {
    let (shown, rest) = board.shown(rows);
    let width = shown.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let painted = |paint: &str, text: &str| match color {
        true => format!("{paint}{text}\x1b[0m"),
        false => text.to_owned(),
    };
    let mut lines: Vec<String> = Vec::new();
    for row in shown {
        let (sign, paint) = match row.standing() {
            Standing::Waiting => ('·', "\x1b[2m"),
            Standing::Busy => (['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧'][frame % 8], "\x1b[36m"),
            Standing::Done => ('✔', "\x1b[32m"),
            Standing::Failed => ('✘', "\x1b[31m"),
        };
        let sign = painted(paint, &sign.to_string());
        lines.push(format!("{sign} {:<width$}  {}", row.name, row.text(now)));
    }
    lines.extend(rest);
    lines.push(painted("\x1b[1m", &board.total(now)));
    lines.extend(silent.map(|silent| painted("\x1b[33m", &silent)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_fits_the_screen() {
        assert_eq!([5, 24, 200].map(most_rows), [3, 21, 30]);
    }
}
