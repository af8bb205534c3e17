//! The table of hosts: room before and after.

use daedal_machine::size;
use daedal_planner::{Budget, Plan, Purpose, some_of};

use crate::layout::{Paint, wrap};

/// How room is counted, said once under the table.
const RULE: &str = "Running guests count in full; stopped guests and templates only by their disks. New disks count in \
                    full, also on thin storage.";

/// Fewer columns are not enough for names.
const NAMES: usize = 24;

/// The table's lines.
pub(super) fn table(plan: &Plan, paint: Paint, width: usize) -> Vec<String> {
    let mut rows = vec![[
        "Host".to_owned(),
        "vCPU".to_owned(),
        "memory, GiB".to_owned(),
        "disk, GiB".to_owned(),
        "our nodes there after".to_owned(),
    ]];
    for host in &plan.hosts {
        rows.push([
            host.host.clone(),
            room(host.cores, |amount| amount.to_string()),
            room(host.memory, size::gib),
            room(host.disk, size::gib),
            if host.nodes.is_empty() { "-".to_owned() } else { some_of(&host.nodes) },
        ]);
    }
    let mut widths = [0; 4];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let lead: usize = widths.iter().map(|width| width + 3).sum();
    let mut lines = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:<width$}   "));
        }
        // Where the numbers leave no room, the names have lines of their own.
        let lead = if width.saturating_sub(lead) < NAMES { 4 } else { lead };
        let mut names = wrap(&row[4], width - lead).into_iter();
        if lead > 4 {
            line.push_str(&names.next().unwrap_or_default());
        }
        lines.push(if at == 0 { paint.bold(line.trim_end()) } else { line });
        lines.extend(names.map(|rest| format!("{}{rest}", " ".repeat(lead))));
    }
    if plan.purpose == Purpose::Apply {
        lines.extend(wrap(RULE, width).iter().map(|line| paint.dim(line)));
    }
    lines
}

fn room(budget: Budget, show: impl Fn(u64) -> String) -> String {
    let Budget { total, before, after } = budget;
    match before == after {
        true => format!("{} of {}", show(after), show(total)),
        false => format!("{} → {} of {}", show(before), show(after), show(total)),
    }
}
