//! How a plan's text ends: what is lost, what is left out, and everything counted.

use std::collections::HashSet;

use daedal_inventory::Role;
use daedal_planner::{
    Advice, Counts, Fate, Impact, Level, ObjectKind, Phase, Plan, Purpose, Templates, counts, deleted_images,
    deleted_volumes, objects, restarted, some_of, touched,
};

use crate::Page;
use crate::layout::{Style, wrap};

impl Page<'_> {
    /// What restarts or dies, and what remains of etcd.
    pub(super) fn consequences(&mut self) {
        match self.plan.purpose {
            Purpose::Apply if self.plan.phase == Some(Phase::Generate) => {
                self.line("Proxmox and the nodes are not asked.");
            }
            Purpose::Apply => self.interruptions(),
            Purpose::Destroy | Purpose::Remove => self.losses(),
            _ => self.consequences_of_steps(),
        }
        self.line("");
    }

    fn losses(&mut self) {
        let dying = self.plan.nodes.iter().filter(|node| node.fate == Fate::Destroy && node.vmid > 0);
        let dying: Vec<String> = dying.map(|node| format!("{} (VM {})", node.name, node.vmid)).collect();
        if !dying.is_empty() {
            let text =
                format!("These VMs are destroyed with everything on their disks: {}.", dying.join(", "));
            for line in wrap(&text, self.width) {
                let line = self.paint.styled(&line, Style::Red);
                self.line(line);
            }
        }
        let quorum = self.plan.quorum;
        match (quorum.before, quorum.after) {
            (0, _) => {}
            (before, after @ 1..) if self.plan.purpose == Purpose::Remove => {
                let majority = after / 2 + 1;
                let before = voting(before);
                self.line(format!(
                    "etcd: {before} now, {after} after, of which {majority} must live (its quorum)."
                ));
            }
            (before, after) => self.line(format!("etcd: {} now, {after} after.", voting(before))),
        }
    }

    fn interruptions(&mut self) {
        let mut said = self.touched();
        said.push(match self.plan.quorum {
            q if q.lowest < q.before => format!(
                "etcd: {} now, {} at the lowest (quorum is {}), {} after.",
                voting(q.before),
                q.lowest,
                q.before / 2 + 1,
                q.after
            ),
            q => format!("etcd: {} now, {} after.", voting(q.before), q.after),
        });
        self.wrapped(&said.join(" "));
    }

    fn consequences_of_steps(&mut self) {
        let said = self.touched();
        self.wrapped(&said.join(" "));
    }

    fn wrapped(&mut self, text: &str) {
        for line in wrap(text, self.width) {
            self.line(line);
        }
    }

    /// What restarts, is interrupted, replaced or destroyed.
    fn touched(&self) -> Vec<String> {
        let plan = self.plan;
        let (restarts, interrupts) = (restarted(plan), touched(plan, Impact::Interrupt));
        let templates = Templates::of(plan);
        let numbers = |vmids: &[u32]| some_of(&vmids.iter().map(ToString::to_string).collect::<Vec<_>>());
        let named = |verb: &str, noun: &str, names: usize, which: String| {
            (names > 0).then(|| format!("{verb} {noun}{} {which}.", if names == 1 { "" } else { "s" }))
        };
        let (images, volumes) = (deleted_images(plan), deleted_volumes(plan));
        let said = [
            (!restarts.is_empty()).then(|| format!("Restarts {}.", some_of(&restarts))),
            (!interrupts.is_empty()).then(|| format!("Interrupts the network of {}.", some_of(&interrupts))),
            named("Replaces", "template", templates.replaced.len(), numbers(&templates.replaced)),
            named("Destroys", "template", templates.destroyed.len(), numbers(&templates.destroyed)),
            named("Deletes the wrong", "image file", images.len(), some_of(&images)),
            named("Deletes", "volume", volumes.len(), some_of(&volumes)),
        ];
        let mut said: Vec<String> = said.into_iter().flatten().collect();
        if said.is_empty() {
            said.push("Nothing is restarted or destroyed.".to_owned());
        }
        said
    }

    /// What apply leaves out.
    pub(super) fn left_out(&mut self) {
        let Some(text) = left_out(self.plan) else { return };
        for line in wrap(&text, self.width) {
            let line = self.paint.styled(&line, Style::Red);
            self.line(line);
        }
        self.line("");
    }

    pub(super) fn summary(&mut self) {
        let not_seen = not_seen(self.plan).map(|which| format!(" {which}")).unwrap_or_default();
        for line in wrap(&format!("{}.{not_seen}", summary(self.plan)), self.width) {
            let line = self.paint.bold(&line);
            self.line(line);
        }
    }

    pub(super) fn nothing_to_do(&mut self) {
        let Plan { cluster, nodes, quorum, purpose, .. } = self.plan;
        let problems = self.plan.notes.iter().any(|note| note.level == Level::Problem);
        let not_seen = not_seen(self.plan).map(|which| format!(" {which}")).unwrap_or_default();
        let line = match (purpose, problems) {
            (Purpose::Apply, false) if let Some(phase) = self.plan.phase => {
                format!("{}{not_seen}", phase_done(self.plan, phase))
            }
            (Purpose::Apply, false) => {
                let all = format!(
                    "({} node{}, {} voting etcd member{})",
                    nodes.len(),
                    if nodes.len() == 1 { "" } else { "s" },
                    quorum.after,
                    if quorum.after == 1 { "" } else { "s" },
                );
                match (differing(self.plan), self.plan.unseen) {
                    (Some(differences), _) => format!(
                        "No changes, but cluster {cluster} is not as declared: {differences} (see Warnings).{not_seen}"
                    ),
                    (None, true) => format!(
                        "No changes: what could be seen of cluster {cluster} is as declared {all}.{not_seen}"
                    ),
                    (None, false) => format!("No changes: cluster {cluster} is as declared {all}."),
                }
            }
            (Purpose::Destroy, false) => {
                format!("No changes: nothing of cluster {cluster} is left to destroy.{not_seen}")
            }
            (Purpose::Remove, false) => {
                format!("No changes: nothing of this is left in cluster {cluster}.")
            }
            (Purpose::PruneTemplates, false) => {
                format!("No changes: no template of cluster {cluster} is to be destroyed.{not_seen}")
            }
            (Purpose::PruneVolumes, false) => {
                format!("No changes: no volume of cluster {cluster} is to be deleted.{not_seen}")
            }
            (Purpose::Firewall, false) => {
                format!("No changes: the firewall of cluster {cluster} is as asked for.")
            }
            (Purpose::Ha, false) => {
                format!("No changes: high availability of cluster {cluster} is as asked for.")
            }
            (Purpose::BackupJob, false) => {
                format!("No changes: the backup job of cluster {cluster} is as asked for.")
            }
            (Purpose::Mark, false) => {
                let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
                format!("No changes: the VM of {} has its mark.", some_of(&names))
            }
            (_, true) => format!(
                "No changes: nothing can be done for cluster {cluster} until the problems above are solved."
            ),
        };
        self.wrapped(&line);
    }
}

/// That nothing of a phase is left to do, and what is true then.
fn phase_done(plan: &Plan, phase: Phase) -> String {
    let (cluster, count) = (&plan.cluster, plan.nodes.len());
    let nodes = format!("{count} node{}", if count == 1 { "" } else { "s" });
    match (phase, differing(plan)) {
        (Phase::Generate, _) if plan.notes.iter().any(|note| note.advice == Advice::OutputsLater {}) => {
            format!(
                "No changes: the secrets of cluster {cluster} are stored. Proxmox and the nodes were not asked."
            )
        }
        (Phase::Generate, _) => format!(
            "No changes: the secrets of cluster {cluster} are stored, and its outputs are current. Proxmox and the nodes were \
             not asked."
        ),
        (Phase::Provision, None) => {
            format!("No changes: cluster {cluster} is provisioned ({nodes} answer over mutual TLS).")
        }
        (Phase::Provision, Some(differences)) => format!(
            "No changes: cluster {cluster} is provisioned ({nodes} answer over mutual TLS), but not as declared: {differences} \
             (see Warnings)."
        ),
        (Phase::Addons, _) => match plan.unseen {
            true => {
                format!("No changes: what could be seen of the add-ons of cluster {cluster} is as declared.")
            }
            false => format!("No changes: the add-ons of cluster {cluster} are as declared."),
        },
        (Phase::Bootstrap, _) => {
            let members = voting(plan.quorum.after);
            let ready = match plan.notes.iter().any(|note| note.advice == Advice::NoCni {}) {
                true => "Ready once a CNI is installed",
                false => "Ready",
            };
            format!("No changes: cluster {cluster} is bootstrapped (etcd has {members}, {nodes} {ready}).")
        }
    }
}

/// So many members of etcd.
fn voting(members: u32) -> String {
    format!("{members} voting member{}", if members == 1 { "" } else { "s" })
}

/// What could not be seen or compared, as a sentence; none if all was.
pub fn not_seen(plan: &Plan) -> Option<String> {
    (!plan.not_seen.is_empty()).then(|| format!("Not seen: {}.", some_of(&plan.not_seen)))
}

/// Whether this phase has something to do after a plan that is limited to an earlier one.
pub fn left_for(plan: &Plan, later: Phase) -> bool {
    plan.notes.iter().any(|note| matches!(note.advice, Advice::PhaseLeft { phase, .. } if phase == later))
}

/// How many differences stay, and on how many nodes; none if none does.
pub fn differing(plan: &Plan) -> Option<String> {
    let nodes: HashSet<&str> = plan.differences.iter().map(|one| one.node.as_str()).collect();
    let nodes = format!("{} node{}", nodes.len(), if nodes.len() == 1 { "" } else { "s" });
    match plan.differences.len() {
        0 => None,
        1 => Some(format!("1 difference on {nodes} stays")),
        all => Some(format!("{all} differences on {nodes} stay")),
    }
}

/// Which nodes apply leaves out because of a problem, and what the cluster gets without them; none if it gets them all.
pub fn left_out(plan: &Plan) -> Option<String> {
    let blocked = |fate: Fate| fate == Fate::Blocked;
    let names: Vec<String> =
        plan.nodes.iter().filter(|node| blocked(node.fate)).map(|node| node.name.clone()).collect();
    if plan.purpose != Purpose::Apply || names.is_empty() {
        return None;
    }
    let gets = |role: Role, noun: &str| {
        let fates: Vec<Fate> =
            plan.nodes.iter().filter(|node| node.role == Some(role)).map(|node| node.fate).collect();
        let out = fates.iter().filter(|fate| blocked(**fate)).count();
        let plural = if fates.len() == 1 { "" } else { "s" };
        (out > 0).then(|| format!("{} of {} {noun}{plural}", fates.len() - out, fates.len()))
    };
    let gets = [gets(Role::ControlPlane, "control plane"), gets(Role::Worker, "worker")];
    let gets: Vec<String> = gets.into_iter().flatten().collect();
    let (names, gets) = (some_of(&names), gets.join(" and "));
    let what = plan.phase.map_or_else(|| "apply".to_owned(), |phase| phase.to_string());
    Some(format!("{what} leaves out {names} (see Problems). The cluster gets {gets}."))
}

/// The closing line: everything that the plan does, counted, and how many nodes are blocked if any are.
pub fn summary(plan: &Plan) -> String {
    let Counts { vms, .. } = counts(plan);
    let mut parts = Vec::new();
    let nodes = |count: usize| format!("{count} node{}", if count == 1 { "" } else { "s" });
    match plan.phase {
        Some(Phase::Generate) => parts.push("secrets and outputs to write".to_owned()),
        Some(Phase::Bootstrap) => parts.push(format!("{} to wait for", nodes(vms.change))),
        _ => {}
    }
    if plan.purpose.concerns_nodes()
        && !matches!(plan.phase, Some(Phase::Generate | Phase::Bootstrap | Phase::Addons))
    {
        parts.push(format!("{} to create, {} to change, {} to destroy", vms.create, vms.change, vms.destroy));
    }
    parts.extend(counted(plan).map(|(things, verb, _)| format!("{things} to {verb}")));
    if parts.is_empty() {
        parts.push("add-ons to wait for".to_owned());
    }
    if vms.blocked > 0 {
        parts.push(format!("{} blocked", vms.blocked));
    }
    let mut line = parts.join(", ");
    if let Some(differences) = differing(plan) {
        line.push_str(&format!("; {differences} (see Warnings)"));
    }
    line
}

/// What a plan has done once all of it is done, such as `2 templates destroyed`.
pub fn outcome(plan: &Plan) -> String {
    counted(plan).map(|(things, _, done)| format!("{things} {done}")).collect::<Vec<_>>().join(", ")
}

/// What a plan does besides VMs being made, changed and destroyed: how many of what, what is done to them, and has been.
fn counted(plan: &Plan) -> impl Iterator<Item = (String, &'static str, &'static str)> {
    let Counts { vms, templates, files, volumes, firewalls, marks, addons, .. } = counts(plan);
    let mut all = vec![
        (vms.restart, "VM", "restart", "restarted"),
        (templates.create, "template", "create", "created"),
        (templates.replace, "template", "replace", "replaced"),
        (templates.destroy, "template", "destroy", "destroyed"),
        (files.delete, "file", "delete", "deleted"),
        (volumes, "volume", "delete", "deleted"),
        (marks, "mark", "restore", "restored"),
    ];
    all.extend([
        (firewalls.turn_on, "firewall", "turn on", "turned on"),
        (firewalls.change, "firewall", "change", "changed"),
        (firewalls.turn_off, "firewall", "turn off", "turned off"),
        (firewalls.rules.create, "rule", "create", "created"),
        (firewalls.rules.delete, "rule", "delete", "deleted"),
        (firewalls.sets.create, "IP set", "create", "created"),
        (firewalls.sets.change, "IP set", "change", "changed"),
        (firewalls.sets.delete, "IP set", "delete", "deleted"),
    ]);
    all.extend([
        (addons.create, "object", "create", "created"),
        (addons.change, "object", "change", "changed"),
        (addons.remove, "object", "remove", "removed"),
    ]);
    for kind in [ObjectKind::HaResource, ObjectKind::HaRule, ObjectKind::HaGroup, ObjectKind::BackupJob] {
        let of_kind = objects(plan, |one| one == kind);
        all.extend([
            (of_kind.create, kind.noun(), "create", "created"),
            (of_kind.change, kind.noun(), "change", "changed"),
            (of_kind.remove, kind.noun(), "remove", "removed"),
        ]);
    }
    all.into_iter().filter(|(number, ..)| *number > 0).map(|(number, noun, verb, done)| {
        (format!("{number} {noun}{}", if number == 1 { "" } else { "s" }), verb, done)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_member_is_not_many() {
        assert_eq!([1, 3].map(super::voting), ["1 voting member", "3 voting members"]);
    }
}
