//! Objects that guard VMs: only VMs that are proven ours, only objects that carry this cluster's name and comment.

use std::collections::BTreeSet;

use daedal_inventory::Role;

use super::{Checker, Rule};
use crate::guards;
use crate::plan::{Action, Purpose, Step};
use crate::world::{ObjectKind, ObjectOptions, Objects, Ownership};

/// The purpose that such a step is for, if it guards something.
pub(super) fn purpose(action: &Action) -> Option<Purpose> {
    match action {
        Action::PutClusterObject { kind, .. } | Action::RemoveClusterObject { kind, .. } => {
            Some(match kind {
                ObjectKind::BackupJob => Purpose::BackupJob,
                ObjectKind::HaResource | ObjectKind::HaRule | ObjectKind::HaGroup => Purpose::Ha,
            })
        }
        action if super::firewall::vmid(action).is_some() => Some(Purpose::Firewall),
        _ => None,
    }
}

impl Checker<'_> {
    pub(super) fn put_object(
        &mut self,
        step: &Step,
        kind: ObjectKind,
        id: &str,
        vms: &[u32],
        options: &ObjectOptions,
    ) {
        let proven = vms.iter().all(|vmid| self.is_proven(*vmid));
        self.demand(proven, Rule::Ownership, step, "A VM is guarded that is not proven ours");
        let different: BTreeSet<u32> = vms.iter().copied().collect();
        self.demand(different.len() == vms.len(), Rule::Creation, step, "A VM is named twice");
        self.named_ours(step, kind, id, vms);
        let comment = self.comment(kind);
        let signed = options.get("comment") == Some(&comment);
        self.demand(signed, Rule::Ownership, step, "The object would not be known as this cluster's");
        if self.known(kind).is_some_and(|known| known.contains_key(id)) {
            self.existing_ours(step, kind, id);
        }
        let list = |name: fn(u32) -> String| vms.iter().map(|vmid| name(*vmid)).collect::<Vec<_>>().join(",");
        let says = |option: &str, value: &str| options.get(option).is_some_and(|said| said == value);
        let fits = match kind {
            ObjectKind::HaResource => {
                let group = match options.get("group") {
                    Some(group) => self.group_there(step, group),
                    None => true,
                };
                says("state", "started") && group && has_only(options, &["state", "comment", "group"])
            }
            ObjectKind::HaRule => {
                says("type", "resource-affinity")
                    && says("affinity", "negative")
                    && says("resources", &list(guards::ha_resource))
                    && has_only(options, &["type", "affinity", "resources", "comment"])
            }
            ObjectKind::HaGroup => has_only(options, &["nodes", "comment"]) && self.hosts_known(options),
            ObjectKind::BackupJob => {
                let keeps = options.get("prune-backups").and_then(|kept| kept.strip_prefix("keep-last="));
                let all = ["vmid", "storage", "schedule", "prune-backups", "mode", "enabled", "comment"];
                says("vmid", &list(|vmid| vmid.to_string()))
                    && says("mode", "snapshot")
                    && keeps.and_then(|kept| kept.parse().ok()).is_some_and(|kept: u32| kept > 0)
                    && has_only(options, &all)
            }
        };
        self.demand(fits, Rule::Creation, step, "The object is not what it should be");
        match kind {
            ObjectKind::HaRule => self.apart(step, vms),
            ObjectKind::BackupJob => {
                let storage = options.get("storage").map_or("", String::as_str);
                let seen = self.world.backups.as_ref().and_then(|view| view.storages.get(storage));
                let takes = seen.is_some_and(|seen| seen.content.contains("backup"));
                self.demand(takes, Rule::Room, step, "The storage is not there, or takes no backups");
            }
            ObjectKind::HaResource | ObjectKind::HaGroup => {}
        }
        self.object_once(step, kind, id);
    }

    pub(super) fn remove_object(&mut self, step: &Step, kind: ObjectKind, id: &str, vm: Option<u32>) {
        let there = self.known(kind).is_some_and(|known| known.contains_key(id));
        self.demand(there, Rule::Ownership, step, "The object was not seen");
        self.existing_ours(step, kind, id);
        match kind {
            ObjectKind::HaResource => {
                let proven = match vm {
                    Some(vmid) => self.is_proven(vmid) && id == guards::ha_resource(vmid),
                    None => self.is_gone(id),
                };
                self.demand(proven, Rule::Ownership, step, "The VM is not proven ours, and not gone");
                let rule = |s: &Step| {
                    matches!(s.action, Action::RemoveClusterObject { kind: ObjectKind::HaRule, .. })
                };
                let first = !self.plan.steps.iter().any(rule) || self.after(step, rule);
                self.demand(first, Rule::Order, step, "The rule would lose its VMs one by one");
            }
            ObjectKind::HaGroup => {
                let named = id.starts_with(&format!("daedal-{}-", self.cluster.name));
                self.demand(named && vm.is_none(), Rule::Ownership, step, "The group is not named as ours");
                let users = self.world.availability.iter().flat_map(|view| &view.resources);
                let users =
                    users.filter(|(_, resource)| resource.get("group").is_some_and(|used| used == id));
                let free = users.clone().all(|(user, _)| {
                    self.after(
                        step,
                        |s| matches!(&s.action, Action::RemoveClusterObject { id, .. } if id == user),
                    )
                });
                self.demand(free, Rule::Order, step, "A resource uses the group");
            }
            ObjectKind::HaRule | ObjectKind::BackupJob => self.named_ours(step, kind, id, &[]),
        }
        self.object_once(step, kind, id);
    }

    /// Whether mark, VMID, SMBIOS uuid and the stored secrets prove that a VM is ours, and nothing else claims to be its node.
    pub(super) fn is_proven(&self, vmid: u32) -> bool {
        let Some(guest) = self.world.guests.get(&vmid) else { return false };
        let Ownership::Ours { node, .. } = &guest.ownership else { return false };
        let sole = self.claims.get(node.as_str()).map_or(0, Vec::len) == 1;
        let declared = self.nodes.get(node.as_str()).is_none_or(|node| node.vmid == vmid);
        let signed = guest.config.as_ref().is_some_and(|config| !config.unsigned);
        self.world.secrets_stored && sole && declared && signed && !guest.template
    }

    /// Whether a resource is a VM that exists nowhere, where nothing was hidden.
    fn is_gone(&self, resource: &str) -> bool {
        let vmid = resource.strip_prefix("vm:").and_then(|vmid| vmid.parse::<u32>().ok());
        let absent = vmid.is_some_and(|vmid| !self.world.guests.contains_key(&vmid));
        absent && self.world.unlisted_hosts.is_empty()
    }

    /// Objects of a kind that were seen; none if nobody looked.
    fn known(&self, kind: ObjectKind) -> Option<&Objects> {
        let availability = self.world.availability.as_ref();
        match kind {
            ObjectKind::HaResource => availability.map(|view| &view.resources),
            ObjectKind::HaRule => availability.filter(|view| view.rules).map(|view| &view.apart),
            ObjectKind::HaGroup => availability.filter(|view| !view.rules).map(|view| &view.apart),
            ObjectKind::BackupJob => self.world.backups.as_ref().map(|view| &view.jobs),
        }
    }

    fn comment(&self, kind: ObjectKind) -> String {
        match kind {
            ObjectKind::BackupJob => guards::backup_comment(self.cluster),
            _ => guards::ha_comment(self.cluster),
        }
    }

    /// The id is one that this cluster gives, and the release knows such objects.
    fn named_ours(&mut self, step: &Step, kind: ObjectKind, id: &str, vms: &[u32]) {
        let role = |vmid: &u32| {
            let node = self.nodes.values().find(|node| node.vmid == *vmid);
            node.is_some_and(|node| {
                node.role == Role::ControlPlane && step.node.as_deref() == Some(&node.name)
            })
        };
        let named = match kind {
            ObjectKind::HaResource => {
                vms.len() == 1 && vms.iter().all(|vmid| id == guards::ha_resource(*vmid) && role(vmid))
            }
            ObjectKind::HaRule => id == guards::ha_rule(self.cluster),
            ObjectKind::HaGroup => {
                vms.is_empty()
                    && self.cluster.control_planes().any(|node| id == guards::ha_group(self.cluster, node))
            }
            ObjectKind::BackupJob => id == guards::backup_job(self.cluster),
        };
        let looked = self.known(kind).is_some();
        self.demand(named && looked, Rule::Ownership, step, "The object has no id of this cluster");
    }

    /// What is there under the id carries our comment, and names no guest of anybody else.
    fn existing_ours(&mut self, step: &Step, kind: ObjectKind, id: &str) {
        let (comment, there) = (self.comment(kind), self.known(kind).and_then(|known| known.get(id)));
        let commented =
            there.and_then(|there| there.get("comment")).is_some_and(|said| said.trim_end() == comment);
        let listed =
            there.into_iter().flat_map(|there| ["vmid", "resources"].map(|option| there.get(option)));
        let vmids = listed.flatten().flat_map(|list| list.split(','));
        let vmids = vmids.filter_map(|id| id.trim().trim_start_matches("vm:").parse::<u32>().ok());
        let strangers =
            vmids.filter(|vmid| !self.nodes.values().any(|node| node.vmid == *vmid)).any(|vmid| {
                let guest = self.world.guests.get(&vmid);
                guest.is_some_and(|guest| !matches!(guest.ownership, Ownership::Ours { .. }))
            });
        self.demand(commented && !strangers, Rule::Ownership, step, "The object is somebody else's");
    }

    /// Proxmox refuses a rule that keeps more VMs apart than it has hosts, and one of VMs that it does not manage.
    fn apart(&mut self, step: &Step, vms: &[u32]) {
        let hosts = self.world.availability.as_ref().map_or(0, |view| view.hosts);
        let room = vms.len() > 1 && vms.len() <= hosts;
        self.demand(room, Rule::Room, step, "So many VMs cannot be kept on different hosts");
        let managed = vms.iter().all(|vmid| {
            let sid = guards::ha_resource(*vmid);
            let put = |s: &Step| {
                matches!(&s.action, Action::PutClusterObject { kind: ObjectKind::HaResource, id, .. } if *id == sid)
            };
            let planned = self.plan.steps.iter().any(put);
            let there = self.world.availability.as_ref().is_some_and(|view| view.resources.contains_key(&sid));
            self.after(step, put) || (there && !planned)
        });
        self.demand(managed, Rule::Order, step, "The rule names a VM before it is managed");
    }

    /// Whether a group is there before the step that names it.
    fn group_there(&self, step: &Step, group: &str) -> bool {
        let put = |s: &Step| matches!(&s.action, Action::PutClusterObject { kind: ObjectKind::HaGroup, id, .. } if id == group);
        let planned = self.plan.steps.iter().any(put);
        let there = self.known(ObjectKind::HaGroup).is_some_and(|known| known.contains_key(group));
        let of_node = step.node.as_deref().and_then(|name| self.nodes.get(name));
        let own = of_node.is_some_and(|node| group == guards::ha_group(self.cluster, node));
        own && (self.after(step, put) || (there && !planned))
    }

    fn hosts_known(&self, options: &ObjectOptions) -> bool {
        let hosts = options.get("nodes").map_or("", String::as_str).split(',');
        hosts.into_iter().all(|host| {
            let name = host.split(':').next().unwrap_or_default();
            let declared = self.cluster.proxmox.hosts.iter().any(|one| one.name == name);
            declared || self.world.guests.values().any(|guest| guest.host == name)
        })
    }

    fn object_once(&mut self, step: &Step, kind: ObjectKind, id: &str) {
        self.once(step, |action| {
            matches!(action, Action::PutClusterObject { kind: of, id: other, .. }
                | Action::RemoveClusterObject { kind: of, id: other, .. } if *of == kind && other == id)
        });
    }
}

/// Whether there are no other options than these.
fn has_only(options: &ObjectOptions, known: &[&str]) -> bool {
    options.keys().all(|option| known.contains(&option.as_str()))
}
