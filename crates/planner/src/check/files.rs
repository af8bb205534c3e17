//! Steps that touch files on the images storage: images and config media.

use std::collections::HashMap;

use daedal_inventory::Cluster;

use super::{Checker, Rule};
use crate::names::{self, Content};
use crate::plan::{Action, Plan, Step, StepId};
use crate::world::{Ownership, World};

/// (Host, or nothing on shared storage; volume id).
type Place = (String, String);

/// What is where, and who has it in a drive.
pub(super) struct Files<'a> {
    shared: bool,
    sizes: HashMap<Place, u64>,
    /// VMs that have a medium in their drive, before or during the plan, by place.
    users: HashMap<Place, Vec<u32>>,
    /// Upload and delete steps by place.
    uploads: HashMap<Place, Vec<StepId>>,
    deletes: HashMap<Place, Vec<StepId>>,
    /// Nodes whose VM is still being made and will then have a medium in its drive.
    creating: HashMap<&'a str, u32>,
}

impl<'a> Files<'a> {
    pub(super) fn new(cluster: &Cluster, world: &'a World, plan: &Plan) -> Self {
        let storage = &cluster.proxmox.images_storage;
        let shared =
            world.hosts.values().any(|host| host.storages.get(storage).is_some_and(|seen| seen.shared));
        let mut files = Self {
            shared,
            sizes: HashMap::new(),
            users: HashMap::new(),
            uploads: HashMap::new(),
            deletes: HashMap::new(),
            creating: HashMap::new(),
        };
        for volume in world.volumes.iter().filter(|volume| volume.storage == *storage) {
            files.sizes.insert(files.place(&volume.host, &volume.volid), volume.size);
        }
        for guest in world.guests.values() {
            if let Some(volid) = guest.config.as_ref().and_then(|config| config.media.as_deref()) {
                files.users.entry(files.place(&guest.host, volid)).or_default().push(guest.vmid);
            }
            if let Ownership::HalfMade { node, task_running: true, .. } = &guest.ownership {
                files.creating.insert(node, guest.vmid);
            }
        }
        for step in &plan.steps {
            let host = step.host.as_deref().unwrap_or_default();
            match &step.action {
                Action::CreateVm { vmid, media: Some(media), .. } | Action::AttachMedia { vmid, media } => {
                    files.users.entry(files.place(host, media)).or_default().push(*vmid);
                }
                Action::UploadMedia { storage, file } => {
                    let place = files.place(host, &names::media_volid(storage, file));
                    files.uploads.entry(place).or_default().push(step.id);
                }
                Action::DeleteMedia { volid } => {
                    files.deletes.entry(files.place(host, volid)).or_default().push(step.id);
                }
                _ => {}
            }
        }
        files
    }

    fn place(&self, host: &str, volid: &str) -> Place {
        (if self.shared { String::new() } else { host.to_owned() }, volid.to_owned())
    }

    pub(super) fn exists(&self, host: &str, volid: &str) -> bool {
        self.sizes.contains_key(&self.place(host, volid))
    }
}

impl Checker<'_> {
    pub(super) fn uploaded_before(&self, step: &Step, host: &str, volid: &str) -> bool {
        let place = self.files.place(host, volid);
        let uploads = self.files.uploads.get(&place).map_or(&[][..], Vec::as_slice);
        uploads.iter().any(|id| step.needs.contains(id) || self.after(step, |s| s.id == *id))
    }

    pub(super) fn image_ready_before(&self, step: &Step, host: &str, content: Content, volid: &str) -> bool {
        let file = names::volid_file(volid);
        if content.volid(&self.cluster.proxmox.images_storage, file) != volid {
            return false;
        }
        // Also a file that has the right size already: only the download compares what is in it.
        self.after(step, |s| {
            let same_place = self.files.shared || s.host.as_deref() == Some(host);
            same_place
                && matches!(&s.action, Action::DownloadImage { content: of, file: got, .. }
                    if got == file && *of == content)
        })
    }

    pub(super) fn download(&mut self, step: &Step, content: Content, file: &str) {
        let volid = content.volid(&self.cluster.proxmox.images_storage, file);
        let host = step.host.as_deref().unwrap_or_default();
        let there = self.files.sizes.get(&self.files.place(host, &volid));
        let pin = self.world.image_pin(file);
        let compared_only = matches!((there, pin), (Some(size), Some(pin)) if *size == pin.size);
        let registered = self.after(step, |s| matches!(s.action, Action::RegisterSchematic { .. }));
        self.demand(
            registered || compared_only,
            Rule::Order,
            step,
            "The factory was not told of the schematic before",
        );
        let pinned = pin.is_some()
            || self.after(
                step,
                |s| matches!(&s.action, Action::PinImage { file: pinned, .. } if pinned == file),
            );
        self.demand(pinned, Rule::Order, step, "The image is downloaded before its SHA-256 is known");
    }

    pub(super) fn delete_image(&mut self, step: &Step, volid: &str) {
        let file = names::volid_file(volid);
        let host = step.host.as_deref().unwrap_or_default();
        let size = self.files.sizes.get(&self.files.place(host, volid)).copied();
        let pin = self.world.image_pin(file);
        let wrong = matches!((size, pin), (Some(size), Some(pin)) if size < pin.size && size != 0);
        let storage = &self.cluster.proxmox.images_storage;
        let named =
            [Content::Import, Content::Iso].iter().any(|content| content.volid(storage, file) == volid)
                && names::media_node(self.cluster, file).is_none();
        self.demand(
            wrong && named,
            Rule::Destruction,
            step,
            "An image is deleted that is not known to be wrong",
        );
        let registered = self.after(step, |s| matches!(s.action, Action::RegisterSchematic { .. }));
        self.demand(registered, Rule::Order, step, "An image is deleted before the factory can give another");
        let later = &self.plan.steps[step.id as usize + 1..];
        let again = later.iter().any(|s| {
            s.host == step.host
                && s.needs.contains(&step.id)
                && matches!(&s.action, Action::DownloadImage { file: got, .. } if got == file)
        });
        self.demand(again, Rule::Destruction, step, "An image is deleted and not downloaded again");
    }

    pub(super) fn upload(&mut self, step: &Step, storage: &str, file: &str) {
        self.secrets_before(step);
        let Some(node) = self.declared(step) else { return };
        let right = file == self.media_file(node) && storage == self.cluster.proxmox.images_storage;
        self.demand(right, Rule::Ownership, step, "The file is not this node's medium");
        let host = step.host.as_deref().unwrap_or_default();
        let place = self.files.place(host, &names::media_volid(storage, file));
        let once = self.files.uploads.get(&place).map_or(0, Vec::len) == 1;
        self.demand(once, Rule::Creation, step, "The medium is uploaded twice");
    }

    pub(super) fn delete_media(&mut self, step: &Step, volid: &str) {
        let file = names::volid_file(volid);
        let owner = names::media_node(self.cluster, file);
        let storage = names::media_volid(&self.cluster.proxmox.images_storage, file) == volid;
        self.demand(
            owner.is_some() && storage,
            Rule::Ownership,
            step,
            "The file is no medium of this cluster",
        );
        let same = step.node.is_none() || step.node.as_deref() == owner;
        self.demand(same, Rule::Ownership, step, "The medium is another node's");
        let host = step.host.as_deref().unwrap_or_default();
        let place = self.files.place(host, volid);
        let once = self.files.deletes.get(&place).map_or(0, Vec::len) == 1;
        self.demand(once, Rule::Order, step, "The medium is deleted twice");
        let mut users = self.files.users.get(&place).cloned().unwrap_or_default();
        users.extend(owner.and_then(|node| self.files.creating.get(node)));
        for user in users {
            let out = self.after(step, |s| match s.action {
                Action::EjectMedia { vmid } | Action::DestroyVm { vmid } => vmid == user,
                // Another medium is put into the drive instead.
                Action::AttachMedia { vmid, ref media } => vmid == user && media != volid,
                _ => false,
            });
            self.demand(out, Rule::Order, step, "The medium is deleted while a VM has it in its drive");
        }
        let uploads = self.files.uploads.get(&place).cloned().unwrap_or_default();
        let after = self.after_all(step, &uploads);
        self.demand(after, Rule::Order, step, "The medium is deleted and uploaded at once");
    }
}
