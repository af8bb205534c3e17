//! The figures as a table, each beside its goal.

use std::fmt;

use crate::creating::Creating;
use crate::planning::Planning;

/// Upload, create, grow, start, eject, delete.
const MUTATING_FLOOR: f64 = 6.0;

#[derive(Default)]
pub struct Table {
    rows: Vec<[String; 5]>,
}

impl Table {
    fn row(&mut self, quantity: &str, case: &str, measured: String, goal: &str, met: Option<bool>) {
        let verdict = match met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        };
        self.rows.push([quantity.into(), case.into(), measured, goal.into(), verdict.into()]);
    }

    fn each(
        &mut self,
        quantity: &str,
        all: &[Creating],
        figure: impl Fn(&Creating) -> (String, String, Option<bool>),
    ) {
        for one in all {
            let case = format!("{} nodes, {} ms", one.nodes, one.latency_ms);
            let (measured, goal, met) = figure(one);
            self.row(quantity, &case, measured, &goal, met);
        }
    }

    pub fn clusters(&mut self, all: &[Creating]) {
        let per_node = |count: u64, one: &Creating| count as f64 / f64::from(one.nodes);
        self.each("mutating Proxmox calls per node", all, |one| {
            // One download per host besides.
            let calls = per_node(one.mutating - u64::from(one.hosts).min(one.mutating), one);
            let text = format!("{calls:.2} (+ {} downloads)", one.hosts);
            (text, format!("{MUTATING_FLOOR}"), Some(calls <= MUTATING_FLOOR))
        });
        self.each("all Proxmox calls per node", all, |one| {
            let calls = per_node(one.total, one);
            let goal = if one.nodes >= 100 { Some(MUTATING_FLOOR + 3.0) } else { None };
            let text = goal.map_or_else(|| "— (9 at 100 nodes)".to_owned(), |goal| format!("≤ {goal}"));
            (format!("{calls:.2}"), text, goal.map(|goal| calls <= goal))
        });
        self.each("failed Proxmox calls", all, |one| {
            (one.failed.to_string(), "0".to_owned(), Some(one.failed == 0))
        });
        self.each("simulated time ÷ critical path", all, |one| {
            let ratio = one.wall / one.critical;
            let text = format!(
                "{ratio:.3} ({:.1} s ÷ {:.1} s; {:.1} s queueing)",
                one.wall, one.critical, one.queued
            );
            (text, "≤ 1.10".to_owned(), Some(ratio <= 1.10))
        });
        for one in all {
            for (kind, late) in &one.lateness {
                let case = format!("{} nodes, {} ms: {kind}", one.nodes, one.latency_ms);
                let text = format!(
                    "p50 {:.0} ms, p95 {:.0} ms, most {:.0} ms of {}",
                    late.median * 1e3,
                    late.p95 * 1e3,
                    late.most * 1e3,
                    late.waits
                );
                self.row("lateness of waits", &case, text, "p95 ≤ 300 ms", Some(late.p95 <= 0.3));
            }
        }
        self.each("calls of a look that finds nothing to do", all, |one| {
            let goal = u64::from(one.nodes + one.hosts + 2);
            (one.no_op.to_string(), format!("≤ {goal} (deep)"), Some(one.no_op <= goal))
        });
        self.each("calls of a destruction per node", all, |one| {
            (format!("{:.2}", per_node(one.destroy, one)), "—".to_owned(), None)
        });
        self.each("peak memory, engine and lab together", all, |one| {
            (memory(one.memory), "—".to_owned(), None)
        });
        self.each("real time, lab included", all, |one| (format!("{:.1} s", one.real), "—".to_owned(), None));
    }

    pub fn plans(&mut self, all: &[Planning]) {
        for one in all {
            let case = format!("{} nodes", one.nodes);
            let large = one.nodes > 1_000;
            let (limit, goal) = if large { (0.150, "≤ 150 ms") } else { (0.010, "≤ 10 ms") };
            let mut time = |quantity: &str, seconds: f64, goal: &str, met: Option<bool>| {
                self.row(quantity, &case, format!("{:.1} ms", seconds * 1e3), goal, met);
            };
            let what = format!("plan that makes everything ({} steps), processor time", one.steps);
            time(&what, one.plan_all, goal, Some(one.plan_all <= limit));
            time(
                "plan that finds nothing to do, processor time",
                one.plan_none,
                goal,
                Some(one.plan_none <= limit),
            );
            time("check of the plan, processor time", one.check, "—", None);
            time("text of the plan, processor time", one.render, "—", None);
            time("inventory read and resolved, processor time", one.resolve, "—", None);
            let (limit, goal) = if large { (150, "≤ 150 MB") } else { (60, "≤ 60 MB") };
            let met = one.memory.map(|bytes| bytes <= limit * 1_000_000);
            self.row("peak memory, inventory to plan text", &case, memory(one.memory), goal, met);
        }
    }

    pub fn start_up(&mut self, seconds: f64) {
        let text = format!("{:.1} ms", seconds * 1e3);
        self.row("start-up", "`daedal --version`, best of 100", text, "≤ 10 ms", Some(seconds <= 0.010));
    }
}

fn memory(bytes: Option<u64>) -> String {
    bytes
        .map_or_else(|| "not told by this system".to_owned(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["quantity", "case", "measured", "goal", "verdict"].map(str::to_owned);
        let rule = ["---"; 5].map(str::to_owned);
        for row in [&head, &rule].into_iter().chain(&self.rows) {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }
}
