//! Progress on a terminal: one line per node, changed in place.

use std::time::Duration;

use daedal_engine::Event;
use daedal_planner::Plan;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::board::{Board, Standing};

/// Rows beyond this many are summed up in the last one: a terminal is not forty lines high for everyone.
const MOST_ROWS: usize = 30;

/// Draws until the channel closes, and leaves the last picture on the screen.
pub async fn show(plan: &Plan, color: bool, mut events: UnboundedReceiver<Event>) {
    let began = Instant::now();
    let mut board = Board::new(plan);
    let screen = MultiProgress::new();
    let width = board.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    let bars: Vec<ProgressBar> = (0..board.rows.len().min(MOST_ROWS + 1))
        .map(|_| screen.add(ProgressBar::new(1).with_style(style.clone())))
        .collect();
    let mut tick = tokio::time::interval(Duration::from_millis(125));
    let mut frame = 0usize;
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => board.take(&event, began.elapsed()),
                None => break,
            },
            _ = tick.tick() => frame += 1,
        }
        draw(&board, &bars, width, color, began.elapsed(), frame);
    }
    draw(&board, &bars, width, color, began.elapsed(), frame);
    for bar in &bars {
        bar.abandon();
    }
}

fn draw(board: &Board, bars: &[ProgressBar], width: usize, color: bool, now: Duration, frame: usize) {
    for (row, bar) in board.rows.iter().zip(bars.iter().take(MOST_ROWS)) {
        let (sign, paint) = match row.standing() {
            Standing::Waiting => ('·', "\x1b[2m"),
            Standing::Busy => (['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧'][frame % 8], "\x1b[36m"),
            Standing::Done => ('✔', "\x1b[32m"),
            Standing::Failed => ('✘', "\x1b[31m"),
        };
        let (paint, off) = if color { (paint, "\x1b[0m") } else { ("", "") };
        bar.set_message(format!("{paint}{sign}{off} {:<width$}  {}", row.name, row.text(now)));
    }
    if let (Some(bar), true) = (bars.get(MOST_ROWS), board.rows.len() > MOST_ROWS) {
        let rest = &board.rows[MOST_ROWS..];
        let done = rest.iter().filter(|row| row.standing() == Standing::Done).count();
        bar.set_message(format!("… and {} more, {done} of them done", rest.len()));
    }
}
