//! Changes of a VM that is there: hardware, further disks, media and the mark.

use daedal_inventory::Node;
use daedal_machine::vm::Value;
use daedal_planner::names::{is_boot_iso, media_node, volid_file};
use daedal_planner::{Change, FoundMark, Mark, Step, disk_slots, remark};
use daedal_proxmox::{Kind, UpdateVm, VmConfig, cdrom};

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::vm::Mine;
use crate::execute::{Executor, Outcome};
use crate::machine;

impl Executor<'_> {
    pub(super) async fn update_vm(
        &self,
        step: &Step,
        vmid: u32,
        changes: &[Change],
    ) -> Result<Outcome, Error> {
        let node = self.node(step)?;
        self.persist(step, |_| async move {
            let mut mine = self.mine_or_gone(step, vmid).await?;
            // A disk that grows changes the digest of the config.
            let grows = |change: &&Change| mine.config.disks.contains_key(&change.option);
            let (grown, others): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(grows);
            for change in &grown {
                self.grow_further(step, vmid, &mine, change).await?;
            }
            if !grown.is_empty() && !others.is_empty() {
                mine = self.mine_or_gone(step, vmid).await?;
            }
            let mut update = UpdateVm::new().digest(&mine.config.digest);
            // The mark is written below: whatever changes, it says who did it last.
            for change in others.into_iter().filter(|change| change.option != "description") {
                update = match &change.to {
                    Some(value) => update.set(&change.option, machine::sent(value)),
                    None => update.delete(&change.option),
                };
            }
            if update.set.is_empty() && update.delete.is_empty() && !changes_option(changes, "description") {
                return Ok(Outcome::Done);
            }
            update = update.set("description", self.marked(node, &mine.config, changes));
            if changes_option(changes, "cores") && mine.config.sockets > 1 {
                update = update.set("sockets", 1);
            }
            self.put_config(vmid, &mine.host, EffectKind::UpdateVm, &update).await
        })
        .await
    }

    /// The notes of a VM with the mark that it has from now on: it says who changed it last, and with a new description also
    /// what it is made from. What people wrote stays.
    fn marked(&self, node: &Node, config: &VmConfig, changes: &[Change]) -> String {
        let (notes, stamp) = (config.description.as_deref().unwrap_or_default(), self.stamp());
        let now = Mark::of(self.cluster, node, &stamp);
        let FoundMark::One(old) = Mark::find(notes) else {
            return daedal_planner::description(self.cluster, node, &stamp);
        };
        let digest = if changes_option(changes, "description") { now.digest } else { old.digest.clone() };
        let protected =
            if changes_option(changes, "protection") { self.cluster.protect } else { old.protected };
        remark(notes, &Mark { digest, protected, ..old.again(&stamp) })
    }

    /// Grows a disk that is not the system's. What is in its slot by now may be somebody else's.
    async fn grow_further(&self, step: &Step, vmid: u32, mine: &Mine, change: &Change) -> Result<(), Error> {
        let (node, host, slot) = (self.node(step)?, &mine.host, &change.option);
        let slots = disk_slots(&machine::seats(vmid, &mine.config), node.disks.len());
        let Some(Value::Disk(disk)) = change.to.as_ref().filter(|_| slots.contains(slot)) else {
            return Err(Error::Plan { why: format!("disk `{slot}` of VM {vmid} is not a declared one") });
        };
        let call = async { Ok(self.engine.parts.proxmox.resize_disk(host, vmid, slot, disk.size).await?) };
        match self.perform(EffectKind::GrowDisk, vmid, host, call).await? {
            Some(upid) => self.finish(step, &upid, &format!("grow disk {slot} of VM {vmid}")).await,
            None => Ok(()),
        }
    }

    pub(super) async fn attach_media(&self, step: &Step, vmid: u32, media: &str) -> Result<Outcome, Error> {
        let drives = machine::drives(self.cluster);
        self.persist(step, |_| async move {
            let mine = self.mine_or_gone(step, vmid).await?;
            let inside = mine.config.cdroms.get(drives.media).cloned().flatten();
            let there = machine::snippet(&mine.config).or(inside.as_deref());
            if there == Some(media) {
                return Ok(Outcome::AlreadyDone);
            }
            let mut update = UpdateVm::new().digest(&mine.config.digest);
            if self.cluster.boot.by_snippet() {
                let has_drive = inside.is_some_and(|volid| volid.contains("-cloudinit"));
                for (option, value) in machine::with_snippet(self.cluster, media) {
                    // Proxmox makes no second drive.
                    if option != drives.media || !has_drive {
                        update = update.set(option, value);
                    }
                }
            } else {
                update = update.set(drives.media, cdrom(Some(media)));
            }
            self.put_config(vmid, &mine.host, EffectKind::AttachMedia, &update).await
        })
        .await
    }

    /// A node has its config on its own disk: its media are taken out, and its mark says so from now on.
    pub(super) async fn settle(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        let drives = machine::drives(self.cluster);
        let node = self.node(step)?;
        self.persist(step, |_| async move {
            let mine = self.mine_or_gone(step, vmid).await?;
            let config = &mine.config;
            let mut update = UpdateVm::new();
            let inside = |drive: &str| config.cdroms.get(drive).and_then(Option::as_deref);
            // An empty drive is live at once; taking the drive away would wait for the next start.
            let mine_is = |volid: &&str| media_node(self.cluster, volid_file(volid)) == Some(&node.name);
            let snippet = machine::snippet(config).filter(mine_is);
            if snippet.is_some() {
                update = update.delete(machine::CUSTOM);
            }
            // Proxmox's own drive holds what the snippet says, and is deleted as it is taken out.
            if snippet.is_some() || inside(drives.media).is_some_and(|volid| mine_is(&volid)) {
                update = update.set(drives.media, cdrom(None));
            }
            if inside(drives.boot).is_some_and(|volid| is_boot_iso(self.cluster, volid)) {
                update = update.set(drives.boot, cdrom(None));
            }
            let description = config.description.as_deref().unwrap_or_default();
            if let FoundMark::One(mark) = Mark::find(description)
                && mark.waiting
            {
                // Which config it has is known for sure only if it was given just now.
                let given = if self.was_given(vmid) {
                    Mark::of(self.cluster, node, &self.stamp()).digest
                } else {
                    mark.digest.clone()
                };
                let mark = Mark { waiting: false, digest: given, ..mark };
                update = update.set("description", remark(description, &mark));
            }
            if update.set.is_empty() && update.delete.is_empty() {
                return Ok(Outcome::AlreadyDone);
            }
            let update = update.digest(&config.digest);
            self.put_config(vmid, &mine.host, EffectKind::EjectMedia, &update).await
        })
        .await
    }

    async fn put_config(
        &self,
        vmid: u32,
        host: &str,
        kind: EffectKind,
        update: &UpdateVm,
    ) -> Result<Outcome, Error> {
        let call = async { Ok(self.engine.parts.proxmox.update_vm(host, vmid, update).await?) };
        match self.perform(kind, vmid, host, call).await {
            Ok(()) => Ok(Outcome::Done),
            Err(Error::Proxmox(error)) => {
                Err(not_plugged(&error, vmid, host).unwrap_or(Error::Proxmox(error)))
            }
            Err(error) => Err(error),
        }
    }
}

/// The failed hot-plugs that Proxmox tells of, if those are what it tells: the values are kept all the same.
fn not_plugged(error: &daedal_proxmox::Error, vmid: u32, host: &str) -> Option<Error> {
    let Kind::Parameter { errors, .. } = error.kind() else { return None };
    let failed: Vec<(String, String)> = errors
        .iter()
        .filter_map(|(option, why)| Some((option.clone(), why.trim().strip_prefix("hotplug problem - ")?)))
        .map(|(option, why)| (option.clone(), format!("{option}: {why}")))
        .collect();
    let (options, why): (Vec<String>, Vec<String>) = failed.into_iter().unzip();
    (!options.is_empty()).then(|| Error::NotPlugged {
        vmid,
        host: host.to_owned(),
        why: why.join("; "),
        options,
    })
}

fn changes_option(changes: &[Change], option: &str) -> bool {
    changes.iter().any(|change| change.option == option)
}
