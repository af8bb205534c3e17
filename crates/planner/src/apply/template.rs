//! Templates that new VMs are cloned from: one for each role, on every host where disks are local.

use daedal_inventory::{Node, Role};

use super::Planner;
use crate::advice::{Advice, TemplateObstacle};
use crate::digest::template_digest;
use crate::graph::Subject;
use crate::names::Images;
use crate::plan::{Action, CloneOf, Impact, StepId};
use crate::survey::full_name;
use crate::world::Ownership;

/// A template to clone, and the step after which it is there.
pub(super) type Ready = (CloneOf, Option<StepId>);

impl<'w> Planner<'w> {
    /// The template a new node on this host is cloned from; none if something stands in the way, which a note says.
    pub(super) fn template_for(&mut self, node: &Node, host: &str, images: &Images) -> Option<Ready> {
        let role = node.role;
        let host = self.template_host(role, host, images);
        let key = (role, host.clone());
        if let Some(known) = self.templates.get(&key) {
            return known.clone();
        }
        let ready = self.template(node, &host, images);
        self.templates.insert(key, ready.clone());
        ready
    }

    /// Where disks are shared, one host's template serves all: the one that has it, or else the first.
    fn template_host(&self, role: Role, host: &str, images: &Images) -> String {
        let disks = self.cluster.proxmox.templates_storage();
        let view = self.world.hosts.get(host);
        if !view.and_then(|view| view.storages.get(disks)).is_some_and(|storage| storage.shared) {
            return host.to_owned();
        }
        let online = |host: &str| self.world.hosts.get(host).is_some_and(|view| view.online);
        let digest = images.shared.as_ref().map(|image| template_digest(self.cluster, role, &image.file));
        let has = |vmid: u32| {
            let guest = self.world.guests.get(&vmid).filter(|guest| guest.template);
            guest.is_some_and(|guest| {
                matches!(&guest.ownership, Ownership::Template { digest: of, .. } if Some(of) == digest.as_ref())
            })
        };
        let usable = || self.cluster.templates().filter(|(_, of, at)| *of == role && online(&at.name));
        let there = usable().find(|(vmid, ..)| has(*vmid)).or_else(|| usable().next());
        there.map_or_else(|| host.to_owned(), |(.., at)| at.name.clone())
    }

    fn template(&mut self, node: &Node, host: &str, images: &Images) -> Option<Ready> {
        let role = node.role;
        let (cluster, image) = (self.cluster, images.shared.as_ref()?);
        let (vmid, ..) = cluster.templates().find(|(_, of, at)| *of == role && at.name == host)?;
        let full = cluster.boot.template.is_some_and(|templates| templates.full);
        let clone = CloneOf { vmid, host: host.to_owned(), full };
        let digest = template_digest(cluster, role, &image.file);
        let mut dropped = None;
        let subject = Subject { node: None, host: Some(host) };
        if let Some(guest) = self.world.guests.get(&vmid) {
            if guest.is_dead_template() {
                self.notes.problem(Advice::TemplateDied { died: guest.died(), cloning: true });
                return None;
            }
            let obstacle = match &guest.ownership {
                _ if guest.host != host => Some(TemplateObstacle::OtherHost { host: host.to_owned() }),
                Ownership::Template { role: of, digest: made, .. } if *of == role && *made == digest => {
                    match (&guest.lock, guest.template) {
                        (None, true) => return Some((clone, None)),
                        // The task that makes it may still run, which the step finds out.
                        (None, false) => None,
                        (Some(lock), false) if lock == "create" => None,
                        (Some(lock), _) => Some(TemplateObstacle::Locked { lock: lock.clone() }),
                    }
                }
                Ownership::Template { .. } if guest.lock.as_deref() == Some("create") => None,
                Ownership::Template { .. } if cluster.protect => {
                    self.notes.problem(Advice::TemplateProtected { vmid, guest: guest.into() });
                    return None;
                }
                Ownership::Template { digest: made, .. } => {
                    let linked = self.world.guests.values().filter(|other| {
                        other.config.as_ref().is_some_and(|config| config.base == Some(vmid))
                    });
                    let linked: Vec<String> = linked.map(full_name).collect();
                    match linked.is_empty() {
                        true => {
                            let reason = "it is made of something else than is declared now";
                            let action = Action::DropTemplate { vmid, digest: made.clone() };
                            dropped = Some(self.graph.add_with(subject, action, reason, [], Impact::Destroy));
                            None
                        }
                        false => Some(TemplateObstacle::Linked { linked }),
                    }
                }
                _ => Some(TemplateObstacle::Taken),
            };
            if let Some(because) = obstacle {
                self.notes.problem(Advice::TemplateBlocked { vmid, guest: guest.into(), because });
                return None;
            }
        }
        self.image.bring(cluster, image, self.world, &self.volumes, host, &mut self.graph);
        let ready = self.image.ready_on(&self.volumes, host, image);
        let volid = image.volid(&cluster.proxmox.images_storage);
        let through = cluster.boot.installs_templates().then(|| node.name.clone());
        let action = Action::MakeTemplate { vmid, role, image: volid, digest, through };
        let reason = "clones are made from it; it holds no config and no identity";
        let made = self.graph.add(subject, action, reason, [ready, dropped, self.secrets]);
        Some((clone, Some(made)))
    }
}
