//! One node's VM: everything up to the point where it runs with its config in reach.

use daedal_inventory::{FirstContact, Node, Role};
use daedal_machine::vm::{Change, Held, Value, WhyHeld};

use super::config::NewConfig;
use super::{Planner, Track};
use crate::bootstrap::Interruption;
use crate::difference::Stays;
use crate::drift::drift;
use crate::graph::Subject;
use crate::names::{self, Images};
use crate::plan::{Action, Impact, Level, StepId};
use crate::size;
use crate::survey::{NodeSurvey, Present, State};
use crate::world::{ConfigView, EtcdView, TalosView};

impl<'w> Planner<'w> {
    /// Everything up to the point where the VM runs with its config in reach.
    pub(super) fn machine(
        &mut self,
        surveyed: &NodeSurvey<'w>,
        place: Option<&str>,
        images: &Images,
    ) -> Track {
        match surveyed.state {
            State::Absent => match place {
                Some(host) => self.create(surveyed.node, host, images),
                None => Track::default(),
            },
            State::Creating { guest, .. } if !self.can_come_up(surveyed) => {
                Track { host: Some(guest.host.clone()), ..Track::default() }
            }
            State::Creating { guest, upid } => {
                let subject = Subject { node: Some(&surveyed.node.name), host: Some(&guest.host) };
                let vmid = surveyed.node.vmid;
                let action = Action::AwaitCreate { vmid, upid: upid.to_owned() };
                let made =
                    self.graph.add(subject, action, "an earlier run began to create it", [self.secrets]);
                let (mut medium, mut uploaded) = (None, None);
                if self.cluster.boot.by_medium() {
                    let (volid, file) = self.medium_of(surveyed.node);
                    if !self.volume_exists(&guest.host, &volid) {
                        let reason = "its config medium is gone";
                        uploaded = Some(self.upload(surveyed.node, &guest.host, &file, reason));
                    }
                    self.known_media.insert(self.volumes.place(&guest.host, &volid));
                    medium = Some(volid);
                }
                let image = images.of(&surveyed.node.name).filter(|_| self.cluster.boot.installs());
                let ready = image.and_then(|image| self.image.ready_on(&self.volumes, &guest.host, image));
                let grows = self.cluster.boot.grows();
                self.grow_and_start(surveyed.node, &guest.host, medium, grows, &[Some(made), uploaded, ready])
            }
            State::Present(present) => self.existing(surveyed, present, images),
            State::Blocked { .. } => Track::default(),
        }
    }

    /// A worker gets its certificate from a control plane. Where none can ever come up, its config medium would only lie
    /// on the storage with its keys, so it is neither made nor started.
    pub(super) fn can_come_up(&self, surveyed: &NodeSurvey<'w>) -> bool {
        surveyed.node.role == Role::ControlPlane || surveyed.up() || self.control_planes_possible
    }

    pub(super) fn create(&mut self, node: &Node, host: &str, images: &Images) -> Track {
        let subject = Subject { node: Some(&node.name), host: Some(host) };
        let (cluster, path) = (self.cluster, &self.cluster.boot);
        let template = match path.clones() {
            true => match self.template_for(node, host, images) {
                Some(template) => Some(template),
                None => return Track { host: Some(host.to_owned()), ..Track::default() },
            },
            false => None,
        };
        let (template, made_before) = template.unzip();
        let (mut medium, mut uploaded) = (None, None);
        if path.by_medium() {
            let (volid, file) = self.medium_of(node);
            uploaded = Some(self.upload(node, host, &file, "its machine config, for the first boot"));
            medium = Some(volid);
        }
        let image = images.of(&node.name).filter(|_| !path.clones());
        let downloaded = image.map(|image| image.volid(&cluster.proxmox.images_storage));
        let made_of = path.volume().map(str::to_owned).or(downloaded);
        let action = Action::CreateVm {
            vmid: node.vmid,
            image: made_of.clone().filter(|_| path.imports() && !path.clones()),
            template,
            iso: made_of.clone().filter(|_| path.installs()),
            media: medium.clone(),
            digest: self.digests.of(node).to_owned(),
        };
        // A VM of ours without secrets in the store would look like one whose secrets are lost.
        let ready = image.and_then(|image| self.image.ready_on(&self.volumes, host, image));
        let needs = [uploaded, ready, made_before.flatten(), self.secrets.filter(|_| uploaded.is_none())];
        let made = self.graph.add(subject, action, "declared, and not there", needs);
        // Proxmox imports a disk as large as it is in the image.
        let enough = made_of.is_some_and(|image| self.world.holds(path, &image, node.disk));
        let grows = path.grows() && !enough;
        let mut track = self.grow_and_start(node, host, medium, grows, &[Some(made)]);
        track.created = true;
        track
    }

    /// The way of a VM that was just made.
    pub(super) fn grow_and_start(
        &mut self,
        node: &Node,
        host: &str,
        medium: Option<String>,
        grows: bool,
        made: &[Option<StepId>],
    ) -> Track {
        let subject = Subject { node: Some(&node.name), host: Some(host) };
        let (path, vmid, size) = (&self.cluster.boot, node.vmid, node.disk);
        let mut ready = made.to_vec();
        if grows {
            let reason =
                if path.clones() { "the template's is smaller" } else { "the imported image is smaller" };
            ready = vec![Some(self.graph.add(subject, Action::GrowDisk { vmid, size }, reason, ready))];
        }
        let reason = match (path.installs(), path.by_medium()) {
            (false, true) => "first boot, straight into its config",
            (true, true) => "it installs itself with its config",
            (_, false) => "first boot, to wait for its config",
        };
        let started = self.graph.add(subject, Action::StartVm { vmid }, reason, ready);
        Track {
            host: Some(host.to_owned()),
            running: Some(started),
            reachable: true,
            waits: path.through_maintenance(),
            unsettled: path.through_maintenance(),
            iso: path.installs(),
            medium,
            ..Track::default()
        }
    }

    /// A VM that is there: what it lacks.
    pub(super) fn existing(
        &mut self,
        surveyed: &NodeSurvey<'w>,
        present: Present<'w>,
        images: &Images,
    ) -> Track {
        let Present { guest, config, digest } = present;
        let node = surveyed.node;
        let subject = Subject { node: Some(&node.name), host: Some(&guest.host) };
        let wanted_digest = self.digests.of(node).to_owned();
        let (current, up, vmid) = (wanted_digest == digest, surveyed.up(), node.vmid);
        let seen = if up { &surveyed.view.config } else { &ConfigView::Unknown };
        let mut track =
            Track { host: Some(guest.host.clone()), reachable: guest.running, ..Track::default() };
        let attached = present.own_medium(self.cluster);
        if let Some(volid) = attached {
            self.known_media.insert(self.volumes.place(&guest.host, volid));
            track.medium = Some(volid.to_owned());
        }
        track.iso = present.boot_iso(self.cluster).is_some();
        track.unsettled = config.waiting;
        // Where it waits for its config, it is given the one that is declared now.
        track.waits = !up && config.waiting && self.cluster.boot.through_maintenance();
        let maintenance =
            guest.running && matches!(surveyed.view.talos, TalosView::Maintenance) && !track.waits;
        match seen {
            ConfigView::Unknown if !current && !maintenance && !track.waits => {
                self.unseen = true;
                let (level, what) = match guest.running {
                    true => (
                        Level::Warning,
                        "The one it runs on could not be seen, so this plan does not change it.",
                    ),
                    false => (
                        Level::Info,
                        "The one it runs on can be seen once the node is started: `apply` then looks again, and changes it \
                         in the same run.",
                    ),
                };
                let text = format!("Its declared machine config changed after it was made. {what}");
                self.notes.add(level, node.name.clone(), text, None);
            }
            ConfigView::Held { why } => self.differ(node, "machine config", ["", ""], Stays::held(why), None),
            _ => {}
        }
        if let Some(lock) = &guest.lock {
            (track.medium, track.iso, track.unsettled, track.waits) = (None, false, false, false);
            let text = format!(
                "Its VM {vmid} is locked ({lock}). It is left as it is{}; run again when the lock is gone.",
                if guest.running { "" } else { ", stopped" }
            );
            let level = if guest.running { Level::Warning } else { Level::Problem };
            self.notes.add(level, node.name.clone(), text, None);
            self.unseen = true;
            return track;
        }
        if !self.can_come_up(surveyed) {
            return Track { host: track.host, ..Track::default() };
        }
        // Where a node takes the declared config, the one it runs on names the declared network card already.
        let names_the_card = match seen {
            ConfigView::AsDeclared | ConfigView::Differs { .. } => true,
            ConfigView::Held { .. } => false,
            ConfigView::Unknown => current,
        };
        let drift = drift(self.cluster, node, &present, names_the_card);
        if drift.mac_held_back {
            let why = "its own machine config names the MAC that it has";
            self.differ(node, "network card's MAC", [&node.mac, config.mac()], Stays::held(why), None);
        }
        for Held { change, why } in &drift.held {
            let fix = format!(
                "replace the node: on {}: qm stop {vmid} && qm destroy {vmid} --purge, then apply again",
                guest.host
            );
            let (from, to) = change.words();
            self.differ(node, &change.option, [&to, &from], Stays::held(why_held(*why)), Some(fix));
        }
        let mut changes = drift.quiet;
        // A mark of an older version gets the id of the secrets, once the node itself proved that it has them.
        let unsigned = config.unsigned && up && current && self.world.secrets_id.is_some();
        // A mark speaks of the whole config, versions and all.
        let outdated = !current && surveyed.view.versions.is_none();
        let mark = (outdated || unsigned).then(|| Change {
            option: "description".to_owned(),
            from: Some(Value::Mark { digest: digest.to_owned(), signed: !config.unsigned }),
            to: Some(Value::Mark { digest: wanted_digest, signed: self.world.secrets_id.is_some() }),
            needs_restart: false,
        });
        if let ConfigView::Differs { running, declared, reboot, changes } = seen {
            track.config = Some(NewConfig {
                action: Action::ApplyConfig {
                    running: running.clone(),
                    declared: declared.clone(),
                    reboot: *reboot,
                    changes: changes.clone(),
                    versions: surveyed.view.versions.clone(),
                },
                reboot: *reboot,
                mark,
            });
        } else if maintenance || *seen == ConfigView::AsDeclared {
            // It has the declared config, or gets it now, so its mark may say so.
            changes.extend(mark);
        }
        let mut impact = Impact::None;
        if let Some(change) = drift.network {
            let voter = node.role == Role::ControlPlane && guest.running && !maintenance;
            let interrupts = if guest.running { Impact::Interrupt } else { Impact::None };
            match (voter, self.voters.interruption(surveyed)) {
                (false, _) | (true, Interruption::Harmless) => {
                    impact = interrupts;
                    track.interrupted = voter && surveyed.view.etcd != EtcdView::NotJoined;
                    changes.push(change);
                }
                (true, Interruption::OneByOne) => track.network = Some(change),
                (true, Interruption::Risky) => {
                    let why = format!("etcd could lose its quorum ({})", self.voters);
                    let fix = format!("{}, or change the card by hand", self.voters.remedy());
                    let (from, to) = change.words();
                    self.differ(node, "network card", [&to, &from], Stays::held(why), Some(fix));
                }
            }
        }
        if guest.running && !maintenance {
            let waiting = changes.iter().filter(|change| change.needs_restart).chain(&drift.waiting);
            track.waiting = waiting.cloned().collect();
        }
        let mut done: Vec<Option<StepId>> = Vec::new();
        if !changes.is_empty() {
            let action = Action::UpdateVm { vmid, changes };
            done.push(Some(self.graph.add_with(
                subject,
                action,
                "it differs from the inventory",
                [],
                impact,
            )));
        }
        if config.disk < node.disk {
            let reason = format!("it has {}", size::show(config.disk));
            let needs: Vec<_> = done.clone();
            done.push(Some(self.graph.add(
                subject,
                Action::GrowDisk { vmid, size: node.disk },
                reason,
                needs,
            )));
        } else if config.disk > node.disk {
            let (has, declared) = size::show_apart(config.disk, node.disk);
            let fix = format!("declare `disk: {}` for it", has.replace(' ', ""));
            self.differ(node, "disk", [&declared, &has], Stays::held("disks only grow"), Some(fix));
        }
        if !up && !track.waits {
            done.extend(self.media_for(surveyed, &present, attached, maintenance, &mut track));
        }
        if !up
            && track.iso
            && let Some(image) = images.of(&node.name)
        {
            done.push(self.image.ready_on(&self.volumes, &guest.host, image));
        }
        let mut start = !guest.running;
        if maintenance {
            let reason = "it waits for a config, which it reads only when it boots";
            let needs: Vec<_> = done.clone();
            done.push(Some(self.graph.add_with(
                subject,
                Action::StopVm { vmid },
                reason,
                needs,
                Impact::Restart,
            )));
            start = true;
        }
        let unheard = track.waits && guest.running && self.reads_console(node);
        if unheard && matches!(surveyed.view.talos, TalosView::Maintenance) {
            let reason = "it prints its key only when it boots, and nobody listened";
            let needs: Vec<_> = done.clone();
            let stop = Action::StopVm { vmid };
            done.push(Some(self.graph.add_with(subject, stop, reason, needs, Impact::Restart)));
            start = true;
        }
        if start {
            let reason = match (maintenance, unheard) {
                (true, _) => "boots into its config",
                (_, true) => "boots to wait for its config",
                _ => "it is stopped",
            };
            track.running = Some(self.graph.add(subject, Action::StartVm { vmid }, reason, done));
            track.reachable = true;
        } else {
            track.running = done.into_iter().flatten().last();
        }
        track
    }

    /// Whether a node's first contact can be checked against what it prints on its serial console.
    pub(super) fn reads_console(&self, node: &Node) -> bool {
        self.cluster.boot.first_contact != Some(FirstContact::Tofu)
            && self.world.consoles
            && node.hardware.serial_console.unwrap_or(true)
    }

    /// Whether a node must prove who it is before it gets its config. What nobody could find out does not count as "cannot".
    pub(super) fn demands_proof(&self, node: &Node) -> bool {
        match self.cluster.boot.first_contact {
            Some(FirstContact::Verified) => true,
            Some(FirstContact::Tofu) => false,
            None => {
                let unclear = self.world.consoles_unclear.is_some();
                self.reads_console(node) || (unclear && node.hardware.serial_console.unwrap_or(true))
            }
        }
    }

    /// Sees to it that a node which does not answer yet has its config medium, if it still needs one.
    pub(super) fn media_for(
        &mut self,
        surveyed: &NodeSurvey<'w>,
        present: &Present<'w>,
        attached: Option<&str>,
        maintenance: bool,
        track: &mut Track,
    ) -> Vec<Option<StepId>> {
        let (node, guest) = (surveyed.node, present.guest);
        let subject = Subject { node: Some(&node.name), host: Some(&guest.host) };
        let (volid, file) = self.medium_of(node);
        // An empty drive means that the node once answered (only then do we eject): its config is on its disk. A
        // medium in the drive is left there even if the inventory has changed since, because the node may have taken it.
        let there = attached.is_some_and(|volid| self.volume_exists(&guest.host, volid));
        if (attached.is_none() || there) && !maintenance {
            return Vec::new();
        }
        let mut done = Vec::new();
        if !(attached == Some(&volid) && there) {
            let reason = if attached.is_some() {
                "the medium in its drive is gone"
            } else {
                "it never got its config"
            };
            done.push(Some(self.upload(node, &guest.host, &file, reason)));
        }
        if attached != Some(&volid) {
            let action = Action::AttachMedia { vmid: node.vmid, media: volid.clone() };
            done.push(Some(self.graph.add(subject, action, "the node still needs its config", done.clone())));
        }
        self.known_media.insert(self.volumes.place(&guest.host, &volid));
        track.medium = Some(volid);
        done
    }

    pub(super) fn upload(&mut self, node: &Node, host: &str, file: &str, reason: &str) -> StepId {
        let subject = Subject { node: Some(&node.name), host: Some(host) };
        let storage = self.cluster.proxmox.images_storage.clone();
        self.known_media.insert(self.volumes.place(host, &names::media_volid(&storage, file)));
        let action = Action::UploadMedia { storage, file: file.to_owned() };
        self.graph.add(subject, action, reason, [self.secrets])
    }

    /// Volume id and file name of the medium a node gets now.
    pub(super) fn medium_of(&self, node: &Node) -> (String, String) {
        let file = names::media_file_of(
            self.cluster,
            &node.name,
            self.digests.of(node),
            self.world.secrets_id.as_ref(),
        );
        (names::media_volid(&self.cluster.proxmox.images_storage, &file), file)
    }

    pub(super) fn volume_exists(&self, host: &str, volid: &str) -> bool {
        self.volumes.find(host, volid).is_some()
    }
}

/// Why an option of a VM stays, in words.
fn why_held(why: WhyHeld) -> &'static str {
    match why {
        WhyHeld::DevicesWouldMove => "its devices would move to other places",
        WhyHeld::OtherFirmware => "its system was installed for the other one",
        WhyHeld::SealedInTpm => "what is sealed in a TPM does not outlive it",
        WhyHeld::DiskHoldsData => "a disk with data is never taken away",
        WhyHeld::DiskOnlyGrows => "disks only grow, and stay where they are",
        WhyHeld::Fixed => "no update may change it",
    }
}
