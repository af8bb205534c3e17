//! One node's VM: everything up to the point where it runs with its config in reach.

use daedal_inventory::{FirstContact, Node, Role};

use super::{Planner, Track};
use crate::graph::Subject;
use crate::names::{self, Images};
use crate::plan::{Action, StepId};
use crate::survey::{NodeSurvey, Present, State};

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
            running: vec![started],
            reachable: true,
            waits: path.through_maintenance(),
            unsettled: path.through_maintenance(),
            iso: path.installs(),
            medium,
            ..Track::default()
        }
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
