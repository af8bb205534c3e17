//! Draws which step ran when as an SVG, one row per step, with the critical path marked.

use std::fmt::Write as _;
use std::time::Duration;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The node or thing it is about.
    pub subject: String,
    /// What was done.
    pub label: String,
    /// When it began, from the start of the run.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
    /// On the critical path.
    pub critical: bool,
    /// Failed.
    pub failed: bool,
}

const ROW: f64 = 18.0;
const LEFT: f64 = 150.0;
const WIDTH: f64 = 1180.0;
const TOP: f64 = 64.0;
/// Between two lanes.
const GAP: f64 = 6.0;

/// One node's bars. Those that overlap are in different rows of it.
struct Lane<'b> {
    subject: &'b str,
    rows: Vec<Vec<&'b Bar>>,
}

/// A lane per subject, in the order in which they begin.
fn lanes(bars: &[Bar]) -> Vec<Lane<'_>> {
    let mut sorted: Vec<&Bar> = bars.iter().collect();
    sorted.sort_by(|a, b| (a.start, a.end, &a.subject).cmp(&(b.start, b.end, &b.subject)));
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for bar in sorted {
        let at = lanes.iter().position(|lane| lane.subject == bar.subject).unwrap_or_else(|| {
            lanes.push(Lane { subject: &bar.subject, rows: Vec::new() });
            lanes.len() - 1
        });
        let rows = &mut lanes[at].rows;
        match rows.iter_mut().find(|row| row.last().is_none_or(|last| last.end <= bar.start)) {
            Some(row) => row.push(bar),
            None => rows.push(vec![bar]),
        }
    }
    lanes
}

/// The picture.
pub fn svg(title: &str, bars: &[Bar]) -> String {
    let lanes = lanes(bars);
    let total = bars.iter().map(|b| b.end).max().unwrap_or_default().as_secs_f64().max(0.001);
    let critical: f64 =
        bars.iter().filter(|b| b.critical).map(|b| b.end.saturating_sub(b.start).as_secs_f64()).sum();
    let rows: usize = lanes.iter().map(|lane| lane.rows.len()).sum();
    let height = TOP + ROW * rows as f64 + GAP * lanes.len() as f64 + 30.0;
    let x = |t: f64| LEFT + (WIDTH - LEFT - 20.0) * t / total;
    let mut out = String::new();
    let _ = writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="26" font-size="16" font-weight="600" fill="#1f2933">{}</text>
<text x="16" y="46" fill="#52606d">{total:.1} s in all · critical path {critical:.1} s (orange) · {} steps</text>"##,
        escape(title),
        bars.len()
    );
    let tick = nice_tick(total);
    let mut t = 0.0;
    while t <= total {
        let at = x(t);
        let _ = writeln!(
            out,
            r##"<line x1="{at:.1}" y1="{:.1}" x2="{at:.1}" y2="{:.1}" stroke="#e4e7eb"/><text x="{at:.1}" y="{:.1}" fill="#7b8794" text-anchor="middle">{}</text>"##,
            TOP - 6.0,
            height - 22.0,
            height - 8.0,
            seconds(t)
        );
        t += tick;
    }
    let mut y = TOP;
    for lane in &lanes {
        let tall = ROW * lane.rows.len() as f64;
        let _ = writeln!(
            out,
            r##"<g class="lane"><text x="{:.1}" y="{:.1}" text-anchor="end" font-weight="600" fill="#323f4b">{}</text><line x1="16" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="#cbd2d9"/>"##,
            LEFT - 8.0,
            y + 12.0,
            escape(&clip(lane.subject, 22)),
            y + tall + GAP / 2.0 - 1.0,
            WIDTH - 16.0,
            y + tall + GAP / 2.0 - 1.0,
        );
        for row in &lane.rows {
            for bar in row {
                draw(&mut out, bar, y, &x);
            }
            y += ROW;
        }
        out.push_str("</g>\n");
        y += GAP;
    }
    out.push_str("</svg>\n");
    out
}

/// One bar, with its label inside where there is room; pointing at it tells it in any case.
fn draw(out: &mut String, bar: &Bar, y: f64, x: &impl Fn(f64) -> f64) {
    let (from, to) = (bar.start.as_secs_f64(), bar.end.as_secs_f64());
    let wide = (x(to) - x(from)).max(1.5);
    let fill = match (bar.failed, bar.critical) {
        (true, _) => "#d64545",
        (_, true) => "#de911d",
        _ => "#4098d7",
    };
    let _ = write!(
        out,
        r##"<rect x="{:.1}" y="{:.1}" width="{wide:.1}" height="{:.1}" rx="2" fill="{fill}" stroke="#ffffff" stroke-width="0.5"><title>{} · {} — {:.2} s</title></rect>"##,
        x(from),
        y + 2.0,
        ROW - 5.0,
        escape(&bar.subject),
        escape(&bar.label),
        to - from,
    );
    // A letter is about six units wide.
    let room = ((wide - 8.0) / 6.0).floor();
    let label = format!("{} {:.1} s", bar.label, to - from);
    if room >= 4.0 {
        let _ = write!(
            out,
            r##"<text x="{:.1}" y="{:.1}" fill="#ffffff" font-size="10">{}</text>"##,
            x(from) + 4.0,
            y + 11.5,
            escape(&clip(&label, room as usize)),
        );
    }
    out.push('\n');
}

fn nice_tick(total: f64) -> f64 {
    let rough = total / 8.0;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|t| *t >= rough).unwrap_or(power * 10.0)
}

fn seconds(t: f64) -> String {
    if t >= 10.0 || t.fract().abs() < 1e-9 { format!("{t:.0} s") } else { format!("{t:.1} s") }
}

fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most - 1).chain(['…']).collect()
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_a_lane_per_node_and_marks_the_critical_path() {
        let bar = |subject: &str, start, end, critical| Bar {
            subject: subject.into(),
            label: "create <VM>".into(),
            start: Duration::from_millis(start),
            end: Duration::from_millis(end),
            critical,
            failed: false,
        };
        let bars = [
            bar("cp-1", 0, 1500, true),
            bar("cp-2", 100, 900, false),
            bar("cp-2", 900, 1000, false),
            bar("cp-2", 950, 1400, false),
        ];
        let picture = svg("home", &bars);
        assert_eq!(picture.matches("<title>").count(), 4);
        assert_eq!(picture.matches("class=\"lane\"").count(), 2);
        let rows: Vec<usize> = lanes(&bars).iter().map(|lane| lane.rows.len()).collect();
        assert_eq!(rows, [1, 2], "what overlaps is in another row of the same lane");
        assert_eq!(picture.matches("#de911d").count(), 1);
        assert!(picture.contains("create &lt;VM&gt;") && picture.contains("critical path 1.5 s"));
    }

    #[test]
    fn an_empty_run_is_still_a_picture() {
        assert!(svg("home", &[]).starts_with("<svg"));
    }
}
