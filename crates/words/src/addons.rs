//! Add-ons in words: what becomes of their objects, and whose they are.

use std::collections::BTreeMap;

use daedal_addons::ObjectId;
use daedal_planner::{Action, AddonOwner, FieldConflict, ObjectChange, PlannedObject, Step};

use crate::Page;
use crate::layout::{Style, wrap};

/// So many objects are told one by one; more of one add-on are counted by their kinds, unless all is to be told.
const NAMED: usize = 12;

/// Who looks after an add-on.
pub fn owner(owner: &AddonOwner) -> String {
    match owner {
        AddonOwner::Daedal => "Daedal".to_owned(),
        AddonOwner::Helm { release, namespace } => format!("the Helm release {namespace}/{release}"),
        AddonOwner::Flux { kind, namespace, name } => format!("Flux ({kind} {namespace}/{name})"),
        AddonOwner::ArgoCd { application } => format!("Argo CD (Application {application})"),
    }
}

/// Fields that others own, such as `.spec.replicas (kubectl-edit)`.
pub(crate) fn conflicts(conflicts: &[FieldConflict]) -> String {
    let one = |conflict: &FieldConflict| format!("{} ({})", conflict.field, conflict.manager);
    conflicts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A short phrase for what is done to objects, such as `create 3 objects of policies`.
pub(crate) fn phrase(action: &Action) -> Option<String> {
    Some(match action {
        Action::ApplyAddon { addon, objects, .. } => {
            let made = objects.iter().filter(|object| object.change == ObjectChange::Create).count();
            let unseen = objects.iter().filter(|object| object.change == ObjectChange::Ensure).count();
            let parts = [(made, "create"), (objects.len() - made - unseen, "change"), (unseen, "apply")];
            let parts: Vec<String> = parts
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, verb)| format!("{verb} {}", count(*n)))
                .collect();
            format!("{} of add-on {addon}", parts.join(" and "))
        }
        Action::AwaitAddon { addon, .. } => format!("wait until add-on {addon} is ready"),
        Action::PruneAddon { addon, objects, .. } if objects.is_empty() => {
            format!("record what is in add-on {addon}")
        }
        Action::PruneAddon { addon, objects, .. } => {
            format!("remove {} of add-on {addon}", count(objects.len()))
        }
        _ => return None,
    })
}

fn count(objects: usize) -> String {
    format!("{objects} object{}", if objects == 1 { "" } else { "s" })
}

/// One line of what becomes of something.
struct Line {
    sign: (&'static str, Style),
    text: String,
}

impl<'p> Page<'p> {
    /// What becomes of every add-on, object by object.
    pub(super) fn addons(&mut self) {
        let mut names: Vec<&'p str> = Vec::new();
        let mut all: BTreeMap<&'p str, Vec<&'p Step>> = BTreeMap::new();
        for step in &self.plan.steps {
            if let Some((addon, _)) = step.action.addon() {
                if !names.contains(&addon) {
                    names.push(addon);
                }
                all.entry(addon).or_default().push(step);
            }
        }
        if names.is_empty() {
            return;
        }
        let title = self.paint.bold("Add-ons");
        self.line(title);
        for name in names {
            let steps = all.remove(name).unwrap_or_default();
            self.addon(name, &steps);
        }
        self.line("");
    }

    fn addon(&mut self, name: &str, steps: &[&'p Step]) {
        let objects: Vec<&PlannedObject> = steps.iter().flat_map(|step| applied(&step.action)).collect();
        let removed: Vec<&ObjectId> = steps.iter().flat_map(|step| pruned(&step.action)).collect();
        let of = |change: fn(&ObjectChange) -> bool| objects.iter().filter(|one| change(&one.change)).count();
        let made = of(|change| *change == ObjectChange::Create);
        let changed = of(|change| matches!(change, ObjectChange::Change { .. }));
        let unseen = of(|change| *change == ObjectChange::Ensure);
        let gone = steps.iter().any(|step| matches!(step.action, Action::PruneAddon { gone: true, .. }));
        let counted =
            [(made, "to create"), (changed, "to change"), (unseen, "to apply"), (removed.len(), "to remove")];
        let counted = counted.iter().filter(|(n, _)| *n > 0);
        let counted: Vec<String> = counted.map(|(n, what)| format!("{} {what}", count(*n))).collect();
        let (sign, style) = match (made, changed + unseen, removed.len(), gone) {
            (.., true) => ("-", Style::Red),
            (1.., 0, 0, _) => ("+", Style::Green),
            (0, 0, 0, _) => ("·", Style::Plain),
            _ => ("~", Style::Yellow),
        };
        let sign = self.paint.styled(sign, style);
        let told = match counted.is_empty() {
            true => String::new(),
            false => format!("  {}", counted.join(", ")),
        };
        let reason =
            steps.first().map(|step| self.paint.dim(&format!("  {}", step.reason))).unwrap_or_default();
        let name = self.paint.bold(name);
        self.line(format!("{sign} {name}{told}{reason}"));
        for line in self.object_lines(&objects, &removed) {
            let sign = self.paint.styled(line.sign.0, line.sign.1);
            for (at, text) in wrap(&line.text, self.width - 8).into_iter().enumerate() {
                match at {
                    0 => self.line(format!("    {sign} {text}")),
                    _ => self.line(format!("        {text}")),
                }
            }
        }
        if let Some(wait) = steps.iter().find(|step| step.action.waits()) {
            let reason = self.paint.dim(&wait.reason);
            self.line(format!("    · wait until it is ready  {reason}"));
        }
    }

    fn object_lines(&self, objects: &[&PlannedObject], removed: &[&ObjectId]) -> Vec<Line> {
        let mut lines = Vec::new();
        let few = objects.len() + removed.len() <= NAMED || self.full;
        let mut counted: BTreeMap<(&str, &'static str), usize> = BTreeMap::new();
        for object in objects {
            match &object.change {
                ObjectChange::Create if few => {
                    lines.push(Line { sign: ("+", Style::Green), text: object.id.to_string() });
                }
                ObjectChange::Ensure if few => {
                    let text = format!("{} (create, or change)", object.id);
                    lines.push(Line { sign: ("~", Style::Yellow), text });
                }
                ObjectChange::Create => *counted.entry((&object.id.kind, "+")).or_default() += 1,
                ObjectChange::Ensure => *counted.entry((&object.id.kind, "~")).or_default() += 1,
                ObjectChange::Change { fields, taken } => {
                    let text = match fields.is_empty() {
                        true => format!("{} (mark it as part of the add-on)", object.id),
                        false => object.id.to_string(),
                    };
                    lines.push(Line { sign: ("~", Style::Yellow), text });
                    for field in fields {
                        let or_not =
                            |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
                        let text =
                            format!("  {}: {} → {}", field.path, or_not(&field.from), or_not(&field.to));
                        lines.push(Line { sign: (" ", Style::Plain), text });
                    }
                    if !taken.is_empty() {
                        let text = format!("  taken from others: {}", conflicts(taken));
                        lines.push(Line { sign: (" ", Style::Plain), text });
                    }
                }
            }
        }
        for sign in ["+", "~"] {
            let kinds = counted.iter().filter(|((_, its), _)| *its == sign);
            let kinds: Vec<String> = kinds.map(|((kind, _), count)| format!("{count} {kind}")).collect();
            if !kinds.is_empty() {
                let style = if sign == "+" { Style::Green } else { Style::Yellow };
                lines.push(Line { sign: (sign, style), text: kinds.join(", ") });
            }
        }
        for id in removed {
            lines.push(Line { sign: ("-", Style::Red), text: id.to_string() });
        }
        lines
    }
}

fn applied(action: &Action) -> &[PlannedObject] {
    match action {
        Action::ApplyAddon { objects, .. } => objects,
        _ => &[],
    }
}

fn pruned(action: &Action) -> &[ObjectId] {
    match action {
        Action::PruneAddon { objects, .. } => objects,
        _ => &[],
    }
}
