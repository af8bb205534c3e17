//! Everything that Daedal says about plans, from one catalogue: advice, steps, differences and whole plans as text. Pure.
//!
//! [`render`] tells a whole plan; [`sentence`], [`about`] and [`remedy`] an [`Advice`](daedal_planner::Advice); [`action`] and
//! [`stage`] a step; [`difference`] what stays other than declared. Types carry codes and values, and only here are they words.

mod action;
mod addons;
mod advice;
mod config;
mod difference;
mod ending;
mod fit;
mod fold;
mod generation;
mod hosts;
mod layout;
mod stage;
mod stays;
mod why;

use std::collections::{HashMap, HashSet};

use daedal_inventory::Role;
use daedal_machine::size;
use daedal_planner::{
    Action, Command, DocumentChange, Fate, Impact, Level, Phase, Plan, PlannedNode, Purpose, Step,
};
use layout::{Paint, Style, wrap};

pub use action::action;
pub use addons::owner;
pub use advice::{Told, about, died_half_way, free, remedy, sentence};
pub use difference::{difference, remedy_of};
pub use ending::{differing, left_for, left_out, not_seen, outcome, summary};
pub use fit::unfit;
pub use generation::unseen;
pub use layout::pieces;
pub use stage::stage;
pub use stays::staying_lines;
pub use why::why_stays;

/// How the text should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether to colour it with ANSI sequences.
    pub color: bool,
    /// Columns to wrap at.
    pub width: usize,
    /// Whether every node is told in full, also those that are like the one before.
    pub full: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { color: false, width: 110, full: false }
    }
}

/// Stands for a blank at which no line is broken.
const UNBROKEN: &str = "\u{1f}";

/// The plan as text, ending in a line break. Commands that it advises have no flags.
pub fn render(plan: &Plan, options: RenderOptions) -> String {
    render_calling(plan, options, &|command| format!("daedal {command}"))
}

/// The plan as text, ending in a line break, with each command that it advises as it has to be called here.
pub fn render_calling(plan: &Plan, options: RenderOptions, call: &dyn Fn(&Command) -> String) -> String {
    let mut page = Page {
        plan,
        call,
        paint: Paint(options.color),
        width: options.width.max(60),
        text: String::new(),
        configs: Vec::new(),
        full: options.full,
    };
    if plan.steps.is_empty() {
        page.notes();
        page.left_out();
        page.nothing_to_do();
        return page.text;
    }
    page.behind();
    page.header();
    page.notes();
    page.hosts();
    page.steps();
    page.addons();
    page.consequences();
    page.left_out();
    page.summary();
    page.text
}

struct Page<'p> {
    plan: &'p Plan,
    call: &'p dyn Fn(&Command) -> String,
    paint: Paint,
    width: usize,
    text: String,
    /// Changes of machine configs told so far, and of which node.
    configs: Vec<(&'p [DocumentChange], &'p str)>,
    full: bool,
}

impl<'p> Page<'p> {
    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref().trim_end());
        self.text.push('\n');
    }

    /// On top of everything: somebody else was here, and this plan may undo what they did.
    fn behind(&mut self) {
        let behind = self.plan.behind.as_ref().filter(|_| self.plan.touches_cluster());
        let Some(unseen) = behind else { return };
        let text =
            format!("Cluster {}: {}. This plan may undo it.", self.plan.cluster, generation::unseen(unseen));
        for line in wrap(&text, self.width) {
            let line = self.paint.styled(&line, Style::Yellow);
            self.line(line);
        }
        self.line("");
    }

    fn header(&mut self) {
        let Plan { cluster, versions, purpose, phase, .. } = self.plan;
        let verb = match purpose {
            Purpose::Apply if *phase == Some(Phase::Generate) => "generate secrets and outputs of",
            Purpose::Apply if *phase == Some(Phase::Provision) => "provision",
            Purpose::Apply if *phase == Some(Phase::Bootstrap) => "bootstrap",
            Purpose::Apply if *phase == Some(Phase::Addons) => "apply the add-ons of",
            Purpose::Apply => "apply",
            Purpose::Destroy => "destroy",
            Purpose::Remove => "remove nodes from",
            Purpose::PruneTemplates => "prune templates of",
            Purpose::PruneVolumes => "prune volumes of",
            Purpose::Firewall => "set the firewall of",
            Purpose::Ha => "set high availability of",
            Purpose::BackupJob => "set the backup job of",
            Purpose::Mark => "restore a mark of",
        };
        let title = self.paint.bold(&format!("Plan to {verb} cluster {cluster}"));
        self.line(title);
        let on = match versions.proxmox.as_str() {
            "" => String::new(),
            version => format!(" on Proxmox VE {version}"),
        };
        self.line(format!("Talos {}, Kubernetes {}{on}", versions.talos, versions.kubernetes));
        self.line("");
    }

    fn notes(&mut self) {
        for (level, title, style) in [
            (Level::Problem, "Problems", Style::Red),
            (Level::Warning, "Warnings", Style::Yellow),
            (Level::Info, "Notes", Style::Plain),
        ] {
            let notes: Vec<_> = self.plan.notes.iter().filter(|note| note.level == level).collect();
            if notes.is_empty() {
                continue;
            }
            let title = self.paint.styled(title, style);
            self.line(title);
            for note in notes {
                let about = format!("{}:", advice::about(&note.advice));
                for (at, line) in wrap(&format!("{about} {}", advice::sentence(&note.advice)), self.width - 4)
                    .into_iter()
                    .enumerate()
                {
                    let line = match line.strip_prefix(about.as_str()) {
                        Some(rest) if at == 0 => format!("{}{rest}", self.paint.bold(&about)),
                        _ => line,
                    };
                    self.line(format!("{}{line}", if at == 0 { "  " } else { "    " }));
                }
                let width = self.width - 9;
                let fix = advice::remedy(&note.advice)
                    .map(|fix| wrap(&fix.told(self.call), width))
                    .unwrap_or_default();
                for (at, line) in fix.into_iter().enumerate() {
                    let lead = if at == 0 { "    fix: " } else { "         " };
                    self.line(format!("{lead}{line}"));
                }
            }
            self.line("");
        }
    }

    fn hosts(&mut self) {
        if self.plan.hosts.is_empty() {
            return;
        }
        for line in hosts::table(self.plan, self.paint, self.width) {
            self.line(line);
        }
        self.line("");
    }

    fn steps(&mut self) {
        let listed: HashSet<&str> = self.plan.nodes.iter().map(|node| node.name.as_str()).collect();
        let mut by_node: HashMap<&str, Vec<&'p Step>> = HashMap::new();
        let mut general: Vec<&'p Step> = Vec::new();
        for step in &self.plan.steps {
            match step.node.as_deref().filter(|name| listed.contains(name)) {
                Some(node) => by_node.entry(node).or_default().push(step),
                None if step.action.addon().is_some() => {}
                None => general.push(step),
            }
        }
        if !general.is_empty() {
            let title = self.paint.bold("For the whole cluster");
            self.line(title);
            self.step_lines(&general, None);
            self.line("");
        }
        let nodes = self.plan.nodes.iter();
        let nodes: Vec<(&PlannedNode, &[&Step])> =
            nodes.filter_map(|node| Some((node, by_node.get(node.name.as_str())?.as_slice()))).collect();
        for alike in fold::groups(&nodes, self.full) {
            let [(first, steps), rest @ ..] = alike else { continue };
            self.node_line(first);
            self.step_lines(steps, Some(first));
            if !rest.is_empty() {
                self.line("");
                let nodes: Vec<&PlannedNode> = rest.iter().map(|(node, _)| *node).collect();
                let (mark, style) = fate_mark(first);
                let mark = self.paint.styled(mark, style);
                for (at, line) in wrap(&fold::the_same(&nodes), self.width - 4).into_iter().enumerate() {
                    let lead = if at == 0 { format!("{mark} ") } else { "    ".to_owned() };
                    self.line(format!("{lead}{line}"));
                }
            }
            self.line("");
        }
    }

    fn node_line(&mut self, node: &PlannedNode) {
        let (mark, style) = fate_mark(node);
        let role = match node.role {
            Some(Role::ControlPlane) => "control plane",
            Some(Role::Worker) => "worker",
            None => "no longer declared",
        };
        let host = node.host.as_deref().map_or_else(String::new, |host| format!(" on {host}"));
        let address = if node.address.is_empty() { String::new() } else { format!(", {}", node.address) };
        let name = self.paint.bold(&node.name);
        let mark = self.paint.styled(mark, style);
        let told = match node.vmid {
            0 => format!("{role}, no VM{address}"),
            vmid => format!(
                "{role}, VM {vmid}{host}{address}: {} vCPU, {}, disk {}",
                node.cores,
                size::show(node.memory),
                size::show(node.disk)
            ),
        };
        let lead = node.name.chars().count() + 4;
        for (at, line) in wrap(&told, self.width.saturating_sub(lead).max(24)).into_iter().enumerate() {
            match at {
                0 => self.line(format!("{mark} {name}  {line}")),
                _ => self.line(format!("      {line}")),
            }
        }
    }

    fn step_lines(&mut self, steps: &[&'p Step], node: Option<&'p PlannedNode>) {
        let phrases: Vec<String> = steps.iter().map(|step| action::phrase(step, node)).collect();
        let column = phrases.iter().map(|phrase| phrase.chars().count()).max().unwrap_or(0).min(46);
        for (step, phrase) in steps.iter().zip(&phrases) {
            let (mark, style) = action::mark(step);
            let mark = self.paint.styled(mark, style);
            let indent = 4 + 2 + column + 2;
            let impact = match step.impact {
                Impact::Interrupt => "[interrupts its network]",
                Impact::Restart if self.plan.purpose == Purpose::Apply => "[restarts it]",
                Impact::None | Impact::Restart | Impact::Destroy => "",
            };
            // What it does to the node is not broken in two.
            let told = format!("{} {}", step.reason, impact.replace(' ', UNBROKEN));
            let told = told.trim();
            let taken = phrase.chars().count();
            // A phrase that is longer than its column is followed by its reason, or has it below.
            if taken > column && 4 + 2 + taken + 2 + told.chars().count() <= self.width {
                let told = self.reason(told);
                self.line(format!("    {mark} {phrase}  {told}"));
            } else if taken > column {
                for (at, line) in wrap(phrase, self.width - 8).into_iter().enumerate() {
                    let lead = if at == 0 { format!("    {mark} ") } else { "        ".to_owned() };
                    self.line(format!("{lead}{line}"));
                }
                for line in wrap(told, self.width - 8) {
                    let line = self.reason(&line);
                    self.line(format!("        {line}"));
                }
            } else {
                let lines = wrap(told, self.width.saturating_sub(indent).max(24));
                for (at, line) in lines.iter().enumerate() {
                    let line = self.reason(line);
                    let lead = match at {
                        0 => format!("    {mark} {phrase}{}  ", " ".repeat(column - taken)),
                        _ => " ".repeat(indent),
                    };
                    self.line(format!("{lead}{line}"));
                }
            }
            if let (Action::ApplyConfig { changes, .. }, Some(node)) = (&step.action, node) {
                self.config_lines(changes, &node.name);
            }
            for told in action::changes(&step.action) {
                for (at, line) in wrap(&told, self.width - 10).into_iter().enumerate() {
                    self.line(format!("{}{line}", " ".repeat(if at == 0 { 8 } else { 10 })));
                }
            }
        }
    }

    /// A reason's line, with what it does to the node standing out.
    fn reason(&self, line: &str) -> String {
        match line.split_once('[').filter(|(_, rest)| rest.contains(UNBROKEN)) {
            Some((reason, impact)) => {
                let impact = format!("[{}", impact.replace(UNBROKEN, " "));
                format!("{}{}", self.paint.dim(reason), self.paint.styled(&impact, Style::Yellow))
            }
            None => self.paint.dim(line),
        }
    }
}

/// What becomes of a node, as one sign.
fn fate_mark(node: &PlannedNode) -> (&'static str, Style) {
    match node.fate {
        Fate::Create => ("+", Style::Green),
        Fate::Change => ("~", Style::Yellow),
        Fate::Destroy => ("-", Style::Red),
        Fate::Keep | Fate::Blocked => (" ", Style::Plain),
    }
}
