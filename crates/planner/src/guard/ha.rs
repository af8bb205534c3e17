//! `plan_ha`: the control planes under Proxmox's high availability, kept on different hosts, or taken out of it.

use daedal_inventory::{Cluster, Node, Role};

use super::{Guarded, Objecting, Put, Wanted, former, named, options};
use crate::advice::Advice;
use crate::error::PlanError;
use crate::guards;
use crate::plan::{Plan, Purpose, StepId};
use crate::survey::Notes;
use crate::world::{AvailabilityView, GuestView, ObjectKind, World, object_has};

/// Plans high availability for the control planes that are proven ours, or its end.
pub fn plan_ha(cluster: &Cluster, world: &World, on: bool) -> Result<Plan, PlanError> {
    let view = world.availability.as_ref().ok_or(PlanError::NotLooked { what: "high availability" })?;
    let mut notes = Notes::default();
    let comment = guards::ha_comment(cluster);
    // One that was a control plane once may still be managed.
    let managed = |node: &Node| {
        let resource = view.resources.get(&guards::ha_resource(node.vmid));
        resource.is_some_and(|there| object_has(there, "comment", &comment))
    };
    let nodes = cluster.nodes.iter();
    let nodes = nodes.filter(|node| node.role == Role::ControlPlane || (!on && managed(node)));
    let guarded = Guarded::of(cluster, world, nodes, &mut notes)?;
    if on {
        guarded.tell_absent(cluster, &mut notes);
    }
    let objects = Objecting::new(cluster, world, comment.clone(), notes);
    let mut plan = Availability { view, guarded, objects };
    match on {
        true => plan.turn_on(),
        false => plan.turn_off(),
    }
    Ok(plan.objects.plan(Purpose::Ha))
}

struct Availability<'a> {
    view: &'a AvailabilityView,
    guarded: Guarded<'a>,
    objects: Objecting<'a>,
}

impl<'a> Availability<'a> {
    fn turn_on(&mut self) {
        let mut managed: Vec<u32> = Vec::new();
        let mut steps: Vec<Option<StepId>> = Vec::new();
        for (node, guest) in self.guarded.proven.clone() {
            // What keeps them apart: a rule, or before there were rules a preferred host for each.
            let group = match self.view.rules {
                true => Put::Right,
                false => self.group(node, guest),
            };
            let put = match group {
                Put::Never => Put::Never,
                group => self.resource(node, guest, group.step()),
            };
            if !matches!(put, Put::Never) {
                managed.push(node.vmid);
                steps.push(put.step());
            }
        }
        if self.view.rules && managed.len() > 1 {
            self.rule(managed, steps);
        }
    }

    fn group(&mut self, node: &Node, guest: &GuestView) -> Put {
        let cluster = self.objects.cluster;
        let hosts = cluster.proxmox.hosts.iter().map(|host| host.name.as_str());
        let others = hosts.filter(|host| *host != guest.host).map(|host| format!("{host}:1"));
        let mut nodes: Vec<String> = others.chain([format!("{}:2", guest.host)]).collect();
        nodes.sort_unstable();
        let wanted = Wanted {
            kind: ObjectKind::HaGroup,
            id: guards::ha_group(cluster, node),
            vms: Vec::new(),
            options: options([("nodes", nodes.join(",")), ("comment", guards::ha_comment(cluster))]),
            node: Some(&node.name),
            reason: format!("{} prefers host {}", node.name, guest.host),
        };
        self.objects.put(&self.view.apart, wanted, [])
    }

    fn resource(&mut self, node: &Node, guest: &GuestView, group: Option<StepId>) -> Put {
        let cluster = self.objects.cluster;
        let mut options =
            options([("state", "started".to_owned()), ("comment", guards::ha_comment(cluster))]);
        if !self.view.rules {
            options.insert("group".to_owned(), guards::ha_group(cluster, node));
        }
        let stopped = if guest.running { "" } else { "; its VM is stopped, and Proxmox starts it" };
        let wanted = Wanted {
            kind: ObjectKind::HaResource,
            id: guards::ha_resource(node.vmid),
            vms: vec![node.vmid],
            options,
            node: Some(&node.name),
            reason: format!("Proxmox restarts {} on another host if its own fails{stopped}", node.name),
        };
        self.objects.put(&self.view.resources, wanted, [group])
    }

    fn rule(&mut self, managed: Vec<u32>, steps: Vec<Option<StepId>>) {
        let cluster = self.objects.cluster;
        let (kind, id) = (ObjectKind::HaRule, guards::ha_rule(cluster));
        // Proxmox refuses a rule that names more VMs than it has hosts.
        if managed.len() > self.view.hosts {
            let (control_planes, hosts) = (managed.len(), self.view.hosts);
            return self.objects.notes.warning(Advice::TooFewHosts { id, control_planes, hosts });
        }
        let apart = self.view.apart.get(&id).map(named).unwrap_or_default();
        let lost = self.guarded.unproven.iter().filter(|node| apart.contains(&node.vmid));
        let lost: Vec<String> = lost.map(|node| node.name.clone()).collect();
        if !lost.is_empty() {
            return self.objects.notes.problem(Advice::ObjectKept { kind, id, nodes: lost });
        }
        let resources: Vec<String> = managed.iter().map(|vmid| guards::ha_resource(*vmid)).collect();
        let options = options([
            ("type", "resource-affinity".to_owned()),
            ("affinity", "negative".to_owned()),
            ("resources", resources.join(",")),
            ("comment", guards::ha_comment(cluster)),
        ]);
        let reason = "the control planes run on different hosts".to_owned();
        let wanted = Wanted { kind, id, vms: managed, options, node: None, reason };
        self.objects.put(&self.view.apart, wanted, steps);
    }

    fn turn_off(&mut self) {
        let (cluster, world, view) = (self.objects.cluster, self.objects.world, self.view);
        let rule = match view.rules {
            true => {
                let id = guards::ha_rule(cluster);
                self.objects.remove(&view.apart, (ObjectKind::HaRule, &id), (None, None), [])
            }
            false => None,
        };
        let proven = self.guarded.proven.iter().map(|(node, guest)| (node.name.as_str(), *guest));
        let going: Vec<(&str, &GuestView)> = proven.chain(former(cluster, world)).collect();
        let mut removed = Vec::new();
        for (node, guest) in going {
            let id = guards::ha_resource(guest.vmid);
            let of = (Some(guest.vmid), Some(node));
            let step = self.objects.remove(&view.resources, (ObjectKind::HaResource, &id), of, [rule]);
            removed.extend(step.map(|step| (id, step)));
        }
        for id in self.orphans() {
            let of = (None, None);
            let step = self.objects.remove(&view.resources, (ObjectKind::HaResource, &id), of, [rule]);
            removed.extend(step.map(|step| (id, step)));
        }
        if !view.rules {
            self.drop_groups(&removed);
        }
    }

    /// Our resources whose VMs are gone, as far as all guests could be listed: somebody destroyed them without their resources.
    fn orphans(&self) -> Vec<String> {
        let world = self.objects.world;
        if !world.unlisted_hosts.is_empty() {
            return Vec::new();
        }
        let gone = |id: &str| guards::ha_managed(id).is_some_and(|vmid| !world.guests.contains_key(&vmid));
        let resources = self.view.resources.iter();
        let ours = resources.filter(|(id, there)| gone(id) && self.objects.is_ours(there));
        ours.map(|(id, _)| id.clone()).collect()
    }

    /// The groups carry our name and comment, and outlive their VMs. One that a resource still uses stays.
    fn drop_groups(&mut self, removed: &[(String, StepId)]) {
        let view = self.view;
        let prefix = format!("daedal-{}-", self.objects.cluster.name);
        let ours: Vec<&String> = view
            .apart
            .iter()
            .filter(|(id, there)| id.starts_with(&prefix) && self.objects.is_ours(there))
            .map(|(id, _)| id)
            .collect();
        for id in ours {
            let users = view.resources.iter().filter(|(_, resource)| resource.get("group") == Some(id));
            let users: Vec<&String> = users.map(|(sid, _)| sid).collect();
            let gone = |sid: &&String| removed.iter().find(|(one, _)| one == *sid).map(|(_, step)| *step);
            if let Some(user) = users.iter().find(|sid| gone(sid).is_none()) {
                let (id, user) = (id.clone(), (**user).clone());
                self.objects.notes.info(Advice::GroupInUse { id, user });
                continue;
            }
            let needs: Vec<Option<StepId>> = users.iter().map(gone).collect();
            self.objects.remove(&view.apart, (ObjectKind::HaGroup, id), (None, None), needs);
        }
    }
}
