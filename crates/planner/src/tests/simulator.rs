//! A pure model of what plan steps do to the world, to state laws about plans. It panics when a step would do harm in
//! reality, and answers `false` when a wait would not end.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::{Cluster, Node, Role};
use daedal_machine::vm::{self, Value};

use super::told::*;
use crate::names::{self, Images};
use crate::*;

/// Bytes of the disk image, and of the imported disk before it grows.
pub(crate) const IMAGE_SIZE: u64 = 120 << 20;
const IMPORTED: u64 = 2 << 30;
/// A disk in an image of one's own: as large as those of control planes, and smaller than those of workers.
pub(crate) const OWN_DISK: u64 = 40 << 30;

/// What is on a node's disk, which nobody can see from outside while it does not answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) configured: bool,
    pub(crate) member: bool,
    pub(crate) ready: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Sim {
    pub(crate) cluster: Cluster,
    pub(crate) images: Images,
    pub(crate) world: World,
    pub(crate) disks: BTreeMap<String, Disk>,
    /// Control planes whose disk is empty although the others still list them as members of etcd.
    pub(crate) stale: BTreeSet<String>,
    pub(crate) bootstraps: u32,
}

impl Sim {
    pub(crate) fn new(cluster: &Cluster, world: &World) -> Self {
        Self {
            cluster: cluster.clone(),
            images: crate::fixture::images(cluster),
            world: world.clone(),
            disks: BTreeMap::new(),
            stale: BTreeSet::new(),
            bootstraps: 0,
        }
    }

    /// A running node's disk is wiped, so that it waits for a config.
    pub(crate) fn wipe(&mut self, name: &str) {
        let disk = self.disks.insert(name.to_owned(), Disk::default());
        if disk.is_some_and(|disk| disk.member) {
            self.stale.insert(name.to_owned());
        }
        self.show_maintenance(name);
    }

    fn show_maintenance(&mut self, name: &str) {
        let etcd = if self.stale.contains(name) { EtcdView::Member } else { EtcdView::Unknown };
        let view = NodeView { talos: TalosView::Maintenance, etcd, ..NodeView::default() };
        self.world.nodes.insert(name.to_owned(), view);
    }

    pub(crate) fn plan(&self) -> Plan {
        let plan = plan_apply(&self.cluster, &self.images, &self.world).unwrap();
        assert_eq!(
            check(&self.cluster, &self.world, &plan),
            [],
            "{}",
            render(&plan, RenderOptions::default())
        );
        plan
    }

    pub(crate) fn plan_destroy(&self) -> Plan {
        let plan = plan_destroy(&self.cluster, &self.world).unwrap();
        assert_eq!(check(&self.cluster, &self.world, &plan), []);
        plan
    }

    /// Runs the steps that `chosen` lets through and whose needs are done; returns how many were done.
    pub(crate) fn run(&mut self, plan: &Plan, chosen: impl Fn(usize) -> bool) -> usize {
        let mut done = vec![false; plan.steps.len()];
        for (at, step) in plan.steps.iter().enumerate() {
            done[at] =
                chosen(at) && step.needs.iter().all(|need| done[*need as usize]) && self.step(plan, step);
        }
        done.into_iter().filter(|done| *done).count()
    }

    /// The finished cluster.
    pub(crate) fn made(cluster: &Cluster, world: &World) -> Self {
        let mut sim = Self::new(cluster, world);
        let plan = sim.plan();
        assert_eq!(sim.run(&plan, |_| true), plan.steps.len());
        sim
    }

    pub(crate) fn is_medium(&self, volume: &VolumeView) -> bool {
        names::media_node(&self.cluster, names::volid_file(&volume.volid)).is_some()
    }

    /// How many config media are on the storages.
    pub(crate) fn media(&self) -> usize {
        self.world.volumes.iter().filter(|volume| self.is_medium(volume)).count()
    }

    fn node(&self, step: &Step) -> Node {
        self.cluster.node(step.node.as_deref().unwrap()).unwrap().clone()
    }

    fn disk(&mut self, node: &str) -> &mut Disk {
        self.disks.entry(node.to_owned()).or_default()
    }

    pub(crate) fn ours(&mut self, vmid: u32, step: &Step) -> &mut GuestView {
        let guest = self.world.guests.get_mut(&vmid).unwrap_or_else(|| panic!("no VM {vmid}"));
        assert!(
            matches!(&guest.ownership, Ownership::Ours { node, .. } if Some(node) == step.node.as_ref()),
            "touched {:?}",
            guest.ownership
        );
        assert_eq!(Some(&guest.host), step.host.as_ref());
        assert_eq!(guest.lock, None);
        guest
    }

    fn shared(&self) -> bool {
        let storage = &self.cluster.proxmox.images_storage;
        self.world.hosts.values().any(|host| host.storages[storage].shared)
    }

    fn volume(&self, host: &str, volid: &str) -> Option<&VolumeView> {
        self.world.volumes.iter().find(|v| v.volid == volid && v.host == host)
    }

    /// What a disk is made from is there: whatever somebody put there, or else our download, whole.
    fn assert_image(&self, host: &str, volid: &str) {
        let size = self.volume(host, volid).map(|volume| volume.size);
        let whole = self.cluster.boot.volume() == Some(volid) || size == Some(IMAGE_SIZE);
        assert!(size.is_some() && whole, "wrong image {volid} on {host}: {size:?}");
    }

    pub(super) fn put_volume(&mut self, host: &str, volid: &str, content: &str, size: u64) {
        let hosts: Vec<String> =
            if self.shared() { self.world.hosts.keys().cloned().collect() } else { vec![host.to_owned()] };
        self.drop_volume(host, volid);
        let storage = self.cluster.proxmox.images_storage.clone();
        self.world.volumes.extend(hosts.into_iter().map(|host| VolumeView {
            host,
            storage: storage.clone(),
            volid: volid.to_owned(),
            content: content.into(),
            size,
        }));
    }

    fn drop_volume(&mut self, host: &str, volid: &str) {
        let shared = self.shared();
        self.world.volumes.retain(|v| v.volid != volid || !(shared || v.host == host));
    }

    /// Shows what a node that answers says of itself.
    pub(crate) fn show(&mut self, name: &str) {
        let disk = *self.disk(name);
        let control_plane = self.cluster.node(name).unwrap().role == Role::ControlPlane;
        let view = self.world.nodes.entry(name.to_owned()).or_default();
        view.talos = TalosView::Configured { version: "v1.12.0".into(), stage: "running".into() };
        view.etcd = match (control_plane, disk.member) {
            (true, true) => EtcdView::Member,
            (true, false) => EtcdView::NotJoined,
            (false, _) => EtcdView::Unknown,
        };
        view.ready = disk.ready.then_some(true);
    }

    fn has_etcd(&self) -> bool {
        self.disks.values().any(|disk| disk.member)
    }

    pub(crate) fn made_vm(cluster: &Cluster, node: &Node, host: &str) -> GuestView {
        let (path, storage) = (&cluster.boot, &cluster.proxmox.images_storage);
        let iso = crate::fixture::images(cluster).of(&node.name).map(|image| image.volid(storage));
        let medium = names::media_volid(storage, &names::media_file(cluster, node, None));
        let config = VmConfig {
            options: vm::declared(cluster, node, &Default::default()),
            disk: if path.grows() { IMPORTED } else { node.disk },
            media: path.by_medium().then_some(medium),
            iso: path.iso.clone().or(iso).filter(|_| path.installs()),
            base: None,
            waiting: path.through_maintenance(),
            unsigned: false,
            protected_by_us: cluster.protect,
            seats: Default::default(),
            runs: None,
            ..VmConfig::default()
        };
        GuestView {
            vmid: node.vmid,
            host: host.to_owned(),
            name: node.name.clone(),
            cores: node.cores,
            memory: node.memory,
            disk: IMPORTED,
            tags: names::tags(cluster, node),
            ownership: Ownership::Ours { node: node.name.clone(), digest: node_digest(cluster, node) },
            config: Some(config),
            ..GuestView::default()
        }
    }

    fn step(&mut self, plan: &Plan, step: &Step) -> bool {
        let host = step.host.clone().unwrap_or_default();
        match &step.action {
            Action::CreateSecrets => {
                assert!(!self.world.secrets_stored, "secrets made twice");
                self.world.secrets_stored = true;
            }
            Action::WriteOutputs => {
                assert!(self.world.secrets_stored);
                self.world.outputs_current = true;
            }
            Action::RegisterSchematic { .. } => {}
            Action::PinImage { file, .. } => {
                let pin = ImagePin {
                    file: file.clone(),
                    size: IMAGE_SIZE,
                    sha256: "ab".repeat(32),
                    disk_size: None,
                };
                self.world.image_pins.push(pin);
            }
            Action::DownloadImage { content, file, storage, .. } => {
                let volid = content.volid(storage, file);
                if let Some(volume) = self.volume(&host, &volid) {
                    assert!(
                        volume.size == IMAGE_SIZE || volume.size == 0,
                        "refusing to override existing file"
                    );
                }
                assert!(self.world.image_pin(file).is_some(), "no checksum");
                self.put_volume(&host, &volid, content.as_str(), IMAGE_SIZE);
            }
            Action::DeleteImage { volid } => self.drop_volume(&host, volid),
            Action::UploadMedia { storage, file } => {
                assert!(self.world.secrets_stored, "media made of secrets that are not stored");
                assert_eq!(*file, names::media_file(&self.cluster, &self.node(step), None));
                let content = if self.cluster.boot.by_snippet() { "snippets" } else { "iso" };
                self.put_volume(&host, &names::media_volid(storage, file), content, 400 << 10);
            }
            Action::CreateVm { vmid, image, iso, template, media, digest } => {
                let node = self.node(step);
                assert!(!self.world.guests.contains_key(vmid), "VM {vmid} already exists");
                match (image.as_ref().or(iso.as_ref()), template) {
                    (Some(source), None) => self.assert_image(&host, source),
                    (None, Some(template)) => {
                        let guest = &self.world.guests[&template.vmid];
                        assert!(guest.template && guest.host == template.host, "{guest:?}");
                        assert!(guest.host == host, "a clone of local disks stays on its host");
                    }
                    other => panic!("{other:?}"),
                }
                if let Some(media) = media {
                    assert!(self.volume(&host, media).is_some(), "no medium {media}");
                }
                assert_eq!(*digest, node_digest(&self.cluster, &node));
                let mut made = Self::made_vm(&self.cluster, &node, &host);
                if let (Some(config), Some(_), Some(disk)) = (&mut made.config, image, self.world.own_disk) {
                    (config.disk, made.disk) = (disk, disk);
                }
                self.world.guests.insert(*vmid, made);
                self.world.nodes.insert(node.name.clone(), NodeView::default());
                self.disks.insert(node.name, Disk::default());
            }
            Action::MakeTemplate { vmid, role, image, digest, .. } => {
                self.assert_image(&host, image);
                assert!(!self.world.guests.contains_key(vmid), "VM {vmid} already exists");
                let ownership = Ownership::Template { role: *role, digest: digest.clone(), dead: false };
                let (vmid, template) = (*vmid, true);
                let guest =
                    GuestView { vmid, host: host.clone(), template, ownership, ..GuestView::default() };
                self.world.guests.insert(vmid, guest);
            }
            Action::DropTemplate { vmid, digest } => {
                let guest = &self.world.guests[vmid];
                assert!(
                    matches!(&guest.ownership, Ownership::Template { digest: made, .. } if made == digest)
                );
                let linked = |guest: &GuestView| guest.config.as_ref().is_some_and(|c| c.base == Some(*vmid));
                assert!(!self.world.guests.values().any(linked), "base volume is still in use");
                self.world.guests.remove(vmid);
            }
            Action::DeleteVolume { volid, vmid } => {
                assert!(!self.world.guests.contains_key(vmid), "VM {vmid} may use {volid}");
                for list in &mut self.world.disks {
                    list.disks.retain(|disk| disk.volid != *volid);
                }
            }
            Action::PutClusterObject { kind, id, vms, options, before } => {
                self.put_object(*kind, id, vms, options, before.is_none());
            }
            Action::RemoveClusterObject { kind, id, .. } => self.remove_object(*kind, id),
            Action::FillIpSet { .. }
            | Action::DropIpSet { .. }
            | Action::SetFirewallRules { .. }
            | Action::SetFirewallOptions { .. }
            | Action::FilterCard { .. } => self.set_firewall(step),
            Action::RestoreMark { vmid, .. } => {
                let lost = self.world.lost_mark.take().unwrap();
                assert_eq!(lost.vmid, *vmid);
                let ownership = Ownership::Ours { node: self.node(step).name, digest: "unknown".into() };
                self.world.guests.get_mut(vmid).unwrap().ownership = ownership;
            }
            Action::AwaitCreate { vmid, .. } => {
                let node = self.node(step);
                let guest = self.world.guests.get(vmid).unwrap();
                assert!(matches!(guest.ownership, Ownership::HalfMade { task_running: true, .. }));
                self.world.guests.insert(*vmid, Self::made_vm(&self.cluster, &node, &host));
                self.world.nodes.insert(node.name.clone(), NodeView::default());
                self.disks.insert(node.name, Disk::default());
            }
            Action::GrowDisk { vmid, size } => {
                let guest = self.ours(*vmid, step);
                let config = guest.config.as_mut().unwrap();
                assert!(config.disk < *size);
                config.disk = *size;
                guest.disk = *size;
            }
            Action::UpdateVm { vmid, changes } => self.update(*vmid, step, changes),
            Action::AttachMedia { vmid, media } => {
                assert!(self.volume(&host, media).is_some());
                self.ours(*vmid, step).config.as_mut().unwrap().media = Some(media.clone());
            }
            Action::StartVm { vmid } => {
                let media = self.ours(*vmid, step).config.as_ref().unwrap().media.clone();
                // Other people's ISOs are not modelled.
                let ours =
                    |volid: &String| names::media_node(&self.cluster, names::volid_file(volid)).is_some();
                if let Some(media) = media.filter(ours) {
                    assert!(self.volume(&host, &media).is_some(), "volume '{media}' does not exist");
                }
                let iso = self.ours(*vmid, step).config.as_ref().unwrap().iso.clone();
                if let Some(iso) = iso.filter(|iso| self.cluster.boot.iso.as_ref() != Some(iso)) {
                    assert!(self.volume(&host, &iso).is_some(), "volume '{iso}' does not exist");
                }
                let guest = self.ours(*vmid, step);
                assert!(!guest.running, "VM {vmid} already running");
                guest.running = true;
                guest.config.as_mut().unwrap().runs = None;
            }
            Action::RestartVm { vmid } => {
                let guest = self.ours(*vmid, step);
                assert!(guest.running, "VM {vmid} not running");
                guest.config.as_mut().unwrap().runs = None;
            }
            Action::Cordon | Action::Drain => {
                assert!(self.world.kubernetes_told, "nobody to ask");
            }
            Action::LeaveEtcd { member, .. } | Action::RemoveMember { member } => {
                let alive = |members: &[MemberView]| {
                    let voters = members.iter().filter(|m| !m.learner).count();
                    let serving = members.iter().filter(|m| !m.learner && m.serves).count();
                    serving * 2 > voters
                };
                assert!(alive(&self.world.members), "etcd refuses without a quorum");
                self.world.members.retain(|m| m.id != *member);
                assert!(alive(&self.world.members), "the quorum is lost: {:?}", self.world.members);
                self.forget_former();
            }
            Action::ForgetNode => {
                self.world.former.get_mut(step.node.as_deref().unwrap()).unwrap().ready = None;
                self.forget_former();
            }
            Action::StopVm { vmid } => {
                self.ours(*vmid, step).running = false;
                let name = step.node.clone().unwrap();
                if self.cluster.node(&name).is_some() {
                    self.world.nodes.insert(name, NodeView::default());
                } else if plan.purpose == Purpose::Remove {
                    assert!(self.world.members.iter().all(|m| m.name != name), "a member is stopped");
                    self.world.former.entry(name).or_default().talos = TalosView::Unreachable;
                }
            }
            Action::DestroyVm { vmid } if plan.purpose == Purpose::Remove => {
                assert!(!self.ours(*vmid, step).running, "VM {vmid} is running - destroy failed");
                self.world.guests.remove(vmid);
                self.forget_former();
            }
            Action::DestroyVm { vmid } => {
                assert!(!self.ours(*vmid, step).running, "VM {vmid} is running - destroy failed");
                self.world.guests.remove(vmid);
                let node = step.node.clone().unwrap();
                self.world.nodes.remove(&node);
                self.disks.remove(&node);
                if !self.has_etcd() {
                    self.world.endpoint_answers = false;
                    self.bootstraps = 0;
                }
            }
            Action::EjectMedia { vmid } | Action::MarkConfigured { vmid } => {
                assert!(self.disks[step.node.as_ref().unwrap()].configured, "nothing proves its config");
                let cluster = self.cluster.clone();
                let config = self.ours(*vmid, step).config.as_mut().unwrap();
                let medium = |volid: &String| names::media_node(&cluster, names::volid_file(volid)).is_some();
                config.media = config.media.take().filter(|volid| !medium(volid));
                config.iso = config.iso.take().filter(|volid| !names::is_boot_iso(&cluster, volid));
                config.waiting = false;
            }
            Action::GiveConfig { vmid, .. } => {
                let guest = self.ours(*vmid, step);
                assert!(guest.running, "nobody is there to take it");
                assert!(guest.config.as_ref().unwrap().waiting, "it had one before");
                self.disk(step.node.as_ref().unwrap()).configured = true;
            }
            Action::DeleteMedia { volid } => {
                let shared = self.shared();
                let used = self.world.guests.values().find(|guest| {
                    (shared || guest.host == host)
                        && guest.config.as_ref().is_some_and(|config| config.media.as_ref() == Some(volid))
                });
                assert!(used.is_none(), "{volid} deleted while in a drive of {used:?}");
                assert!(names::media_node(&self.cluster, names::volid_file(volid)).is_some());
                self.drop_volume(&host, volid);
            }
            Action::ApplyConfig { running, .. } => {
                let view = self.world.nodes.get_mut(step.node.as_deref().unwrap()).unwrap();
                assert!(matches!(view.talos, TalosView::Configured { .. }), "it does not answer");
                assert!(matches!(&view.config, ConfigView::Differs(is) if is.running.digest == *running));
                view.config = ConfigView::AsDeclared;
            }
            Action::AwaitApi
            | Action::Bootstrap { .. }
            | Action::AwaitEtcd
            | Action::AwaitEndpoint
            | Action::AwaitReady => {
                return self.life(plan, step);
            }
            Action::ApplyAddon { .. } | Action::AwaitAddon { .. } | Action::PruneAddon { .. } => {
                return self.addon(step);
            }
        }
        true
    }

    /// What is done about an add-on, by an API server that answers.
    fn addon(&mut self, step: &Step) -> bool {
        if !self.world.endpoint_answers {
            return false;
        }
        let seen = self.world.addons.as_mut().expect("add-ons that were looked at");
        if !seen.told {
            seen.told = true;
            let all = seen.declared.values_mut().flat_map(|view| &mut view.objects);
            all.for_each(|object| object.state = ObjectState::Absent);
        }
        match &step.action {
            Action::ApplyAddon { addon, stage, objects, .. } => {
                let view = seen.declared.get_mut(addon).unwrap();
                let earlier = |object: &&AddonObject| object.stage < *stage;
                assert!(
                    view.objects.iter().filter(earlier).all(|object| object.state != ObjectState::Absent)
                );
                for planned in objects {
                    let object = view.objects.iter_mut().find(|object| object.id == planned.id).unwrap();
                    object.state = ObjectState::AsDeclared;
                }
                view.recorded = true;
            }
            Action::AwaitAddon { addon, .. } => {
                let view = seen.declared.get_mut(addon).unwrap();
                view.objects.iter_mut().for_each(|object| object.readiness = Readiness::Ready);
            }
            Action::PruneAddon { addon, gone: true, .. } => {
                seen.former.remove(addon);
            }
            Action::PruneAddon { addon, objects, .. } => {
                let view = seen.declared.get_mut(addon).unwrap();
                view.extra.retain(|id| !objects.contains(id));
                (view.recorded, view.surplus) = (true, false);
            }
            _ => unreachable!(),
        }
        true
    }

    /// Of a former node, nothing is known once nothing of it is left.
    fn forget_former(&mut self) {
        let World { former, members, guests, .. } = &mut self.world;
        former.retain(|name, view| {
            let vm = guests
                .values()
                .any(|guest| matches!(&guest.ownership, Ownership::Ours { node, .. } if node == name));
            vm || view.ready.is_some() || members.iter().any(|member| member.name == *name)
        });
    }

    fn update(&mut self, vmid: u32, step: &Step, changes: &[Change]) {
        let (node, cluster) = (self.node(step), self.cluster.clone());
        let guest = self.ours(vmid, step);
        let config = guest.config.as_mut().unwrap();
        if changes.iter().any(|change| change.needs_restart) && config.runs.is_none() {
            config.runs = Some(Box::new(config.clone()));
        }
        let runs = config.runs.take();
        for change in changes {
            if let Some(Value::Mark { digest, .. }) = &change.to {
                guest.ownership = Ownership::Ours { node: node.name.clone(), digest: digest.clone() };
                continue;
            }
            if change.option == "protection" {
                config.protected_by_us = cluster.protect;
            }
            match change.to.clone() {
                Some(value) => config.options.insert(change.option.clone(), value),
                None => config.options.remove(&change.option),
            };
        }
        config.runs = runs.map(|runs| {
            let options = config.options.clone();
            let waits = |option: &str| changes.iter().any(|one| one.option == option && one.needs_restart);
            let old =
                runs.options.iter().filter(|(option, _)| waits(option) || !options.contains_key(*option));
            let new = options.iter().filter(|(option, _)| !waits(option));
            let options = old.chain(new).map(|(option, value)| (option.clone(), value.clone())).collect();
            Box::new(VmConfig { options, runs: None, ..*runs })
        });
    }

    /// What happens inside the nodes.
    fn life(&mut self, plan: &Plan, step: &Step) -> bool {
        if step.action == Action::AwaitEndpoint {
            self.world.endpoint_answers |= self.has_etcd();
            return self.world.endpoint_answers;
        }
        let node = self.node(step);
        match step.action {
            Action::AwaitApi => {
                let Some(guest) = self.world.guests.get(&node.vmid).filter(|guest| guest.running) else {
                    panic!("{} is awaited but does not run", node.name)
                };
                let medium = guest.config.as_ref().and_then(|config| config.media.clone());
                let trust = node.role == Role::ControlPlane
                    || self
                        .cluster
                        .control_planes()
                        .any(|cp| self.disks.get(&cp.name).is_some_and(|d| d.configured));
                let readable = medium.is_some_and(|volid| self.volume(&guest.host, &volid).is_some());
                let disk = self.disk(&node.name);
                disk.configured |= readable;
                if !disk.configured {
                    // It boots without a config; the next look shows it waiting for one.
                    self.show_maintenance(&node.name);
                    return false;
                }
                if !trust {
                    return false;
                }
                self.show(&node.name);
            }
            Action::Bootstrap { .. } => {
                // Whoever may hold an etcd must have been asked before.
                for (other, disk) in &self.disks {
                    let asked = |id: &StepId| {
                        let need = &plan.steps[*id as usize];
                        need.action == Action::AwaitApi && need.node.as_ref() == Some(other)
                    };
                    let seen = matches!(self.world.nodes[other].talos, TalosView::Configured { .. });
                    assert!(!disk.member || *other == node.name || seen || step.needs.iter().any(asked));
                }
                if !self.has_etcd() {
                    self.bootstraps += 1;
                    assert_eq!(self.bootstraps, 1, "bootstrapped twice");
                    self.disk(&node.name).member = true;
                    self.show(&node.name);
                }
            }
            Action::AwaitEtcd => {
                if !self.has_etcd() {
                    return false;
                }
                assert!(!self.stale.contains(&node.name), "{} cannot join beside its former self", node.name);
                self.disk(&node.name).member = true;
                self.show(&node.name);
            }
            Action::AwaitReady => {
                if !self.world.endpoint_answers {
                    return false;
                }
                self.disk(&node.name).ready = true;
                self.show(&node.name);
            }
            _ => unreachable!(),
        }
        true
    }
}
