//! What the user should know about the whole plan and its hosts.

use std::collections::{BTreeMap, HashMap, HashSet};

use daedal_inventory::{Role, TlsTrust};

use super::Planner;
use crate::capacity::Rooms;
use crate::difference::{Difference, Stays};
use crate::digest::hex12;
use crate::error::{PlanError, some_of};
use crate::fix::{Command, Fix};
use crate::names::Images;
use crate::plan::Level;
use crate::size;
use crate::storages::{StorageWarning, leftovers, storage_warnings};
use crate::survey::{NodeSurvey, State, Survey, full_name};
use crate::world::{Ownership, TalosView};

impl<'w> Planner<'w> {
    /// What concerns the whole plan.
    pub(super) fn general_notes(&mut self, survey: &Survey<'w>) {
        let cluster = self.cluster;
        if cluster.proxmox.tls == TlsTrust::Insecure {
            self.notes.add(
                Level::Warning,
                "proxmox.tls",
                format!(
                    "The certificate of {} is not verified: whoever is on the way can read the token and the \
                     machine configs.",
                    cluster.proxmox.endpoint
                ),
                Some("set `tls: {fingerprint: …}` or `tls: {ca: …}`".into()),
            );
        }
        for unobserved in &self.world.unobserved {
            self.notes.unobserved(unobserved);
        }
        for StorageWarning { about, text, fix } in storage_warnings(cluster, self.world) {
            self.notes.add(Level::Warning, about, text, Some(fix.into()));
        }
        self.leftover_notes();
        for guest in &survey.undeclared {
            let (node, fix) = match &guest.ownership {
                Ownership::Ours { node, .. } => {
                    (node, Some(Fix::from("to remove it: ").run(Command::NodeRemove(node.clone()))))
                }
                Ownership::HalfMade { node, .. } => (node, None),
                _ => continue,
            };
            self.differences.push(Difference {
                node: node.clone(),
                what: "VM".to_owned(),
                declared: String::new(),
                found: full_name(guest),
                stays: Stays::UntilRemoval,
                fix,
            });
        }
        let waits = |surveyed: &&NodeSurvey<'w>| {
            !self.can_come_up(surveyed) && !matches!(surveyed.state, State::Blocked { .. })
        };
        let waiting: Vec<String> =
            survey.nodes.iter().filter(waits).map(|surveyed| surveyed.node.name.clone()).collect();
        if !waiting.is_empty() {
            self.notes.problem(
                some_of(&waiting),
                "Not brought up: no control plane can come up, and a worker gets its certificate from one.",
                None,
            );
        }
    }

    /// Names the volumes that Proxmox left behind.
    fn leftover_notes(&mut self) {
        let mut by_host: BTreeMap<(String, bool), Vec<String>> = BTreeMap::new();
        for one in leftovers(self.cluster, self.world) {
            by_host.entry((one.host.clone(), one.beside_vm)).or_default().push(one.shown());
        }
        for ((host, beside_vm), volumes) in by_host {
            let text = format!("Left over, used by no VM: {}.", some_of(&volumes));
            let fix = match beside_vm {
                false => Fix::from("to delete them: ").run(Command::VolumesPrune),
                true => Fix::from(format!(
                    "Proxmox deletes them only once their VM is gone; or on {host}: qm disk rescan --vmid VMID, then delete the unused disk"
                )),
            };
            self.notes.add(Level::Warning, format!("volumes on {host}"), text, Some(fix));
        }
    }

    /// Counts what nodes run another version or image of than is declared: it is not their config that brings it.
    pub(super) fn upgrades(&mut self, images: &Images, survey: &Survey<'w>) {
        let talos = format!("v{}", self.cluster.talos.version);
        let kubernetes = format!("v{}", self.cluster.kubernetes.version);
        for surveyed in &survey.nodes {
            let (node, view) = (surveyed.node, surveyed.view);
            let at = self.world.address(node).map(|address| format!(" -n {address}")).unwrap_or_default();
            let image = images.upgrade.as_deref().unwrap_or("IMAGE");
            let upgrade =
                Fix::from(format!("one node after the other: talosctl upgrade{at} --image {image}"));
            let declared: Vec<&str> = images.schematics(&node.name).collect();
            let running = view.schematic.as_deref().filter(|running| !declared.contains(running));
            if let (Some(running), Some(declared)) = (running, declared.last()) {
                let what = "schematic (extensions, kernel arguments)";
                let values = [hex12(declared), hex12(running)];
                self.differ(node, what, values, Stays::UntilUpgrade, Some(upgrade.clone()));
            }
            if let TalosView::Configured { version, .. } = &view.talos
                && *version != talos
            {
                let values = [talos.as_str(), version.as_str()];
                self.differ(node, "Talos version", values, Stays::UntilUpgrade, Some(upgrade));
            }
            if let Some(running) = view.versions.as_ref().filter(|runs| runs.kubernetes != kubernetes) {
                let fix = format!("talosctl upgrade-k8s{at} --to {}", self.cluster.kubernetes.version);
                let values = [kubernetes.as_str(), running.kubernetes.as_str()];
                self.differ(node, "Kubernetes version", values, Stays::UntilUpgrade, Some(fix.into()));
            }
        }
    }

    /// Says where signed images boot without anybody checking their signatures.
    pub(super) fn secure_boot_note(&mut self) {
        let talos = &self.cluster.talos;
        // Disk images bring their keys from Talos 1.14 on; installation media always did.
        let brings_keys =
            self.cluster.boot.takes_iso() || (talos.version.major, talos.version.minor) >= (1, 14);
        if !talos.secure_boot || brings_keys || !self.tracks.iter().any(|track| track.created) {
            return;
        }
        let text = "Secure boot is asked for, but the firmware of new VMs does not check signatures: disk images of Talos \
                    before v1.14 do not put their keys into it.";
        let fix = "`boot: {from: iso}`, `boot: {from: template, template: {made: iso}}`, or Talos v1.14";
        self.notes.add(Level::Warning, "talos.secureBoot", text, Some(fix.into()));
    }

    /// Says whom the plan trusts on first sight.
    pub(super) fn first_contact_note(&mut self) -> Result<(), PlanError> {
        if !self.unprovable.is_empty() {
            let why = match &self.world.consoles_unclear {
                Some(why) => format!("the token's permissions could not be read ({why})"),
                None if self.world.consoles => "they have no serial console".to_owned(),
                None => "the token cannot read serial consoles".to_owned(),
            };
            return Err(PlanError::Unverified { nodes: some_of(&self.unprovable), why });
        }
        if self.first_contacts.is_empty() {
            return Ok(());
        }
        let text = "First contact unverified: a config with keys in it is given to whoever answers in maintenance mode \
                    with the node's SMBIOS uuid; only from then on its key is held to.";
        let fix = "give the token VM.Console (9.1 or later), so that the key is checked against what the node prints on \
                   its serial console; or `boot: {config: cidata}`, which brings the config through Proxmox";
        self.notes.add(Level::Warning, some_of(&self.first_contacts), text, Some(fix.into()));
        Ok(())
    }

    /// What concerns the hosts' room.
    pub(super) fn room_notes(&mut self, rooms: &Rooms, hosts: &HashMap<&str, String>) {
        let used: HashSet<&str> = hosts.values().map(String::as_str).collect();
        for (at, room) in rooms.rooms.iter().enumerate() {
            if let Some(unusable) = room.unusable.as_ref().filter(|_| room.declared && !used.is_empty()) {
                let text = format!("No new nodes go there: {}.", unusable.why);
                self.notes.add(
                    Level::Warning,
                    format!("host {}", room.host),
                    text,
                    unusable.fix.clone().map(Fix::from),
                );
            }
            if room.sleepers == 0 || !used.contains(room.host.as_str()) {
                continue;
            }
            let free = rooms.free(at);
            let fits = room.asleep.cores <= free.cores && room.asleep.memory <= free.memory;
            let (level, verdict) = match fits {
                true => (Level::Info, "would still fit"),
                false => (Level::Warning, "would not fit any more"),
            };
            let text = format!(
                "{} stopped guest{} there ({} vCPU, {} of memory) {} not counted and {verdict} if started.",
                room.sleepers,
                if room.sleepers == 1 { "" } else { "s" },
                room.asleep.cores,
                size::show(room.asleep.memory),
                if room.sleepers == 1 { "is" } else { "are" },
            );
            self.notes.add(level, format!("host {}", room.host), text, None);
        }
    }

    /// Says which host etcd cannot lose, when this plan makes control planes.
    pub(super) fn single_points(&mut self, survey: &Survey<'w>) {
        let control_planes = || {
            survey
                .nodes
                .iter()
                .zip(&self.tracks)
                .filter(|(surveyed, _)| surveyed.node.role == Role::ControlPlane)
        };
        if !control_planes().any(|(_, track)| track.created) {
            return;
        }
        let all = control_planes().count();
        let mut on_host: BTreeMap<&str, usize> = BTreeMap::new();
        for host in control_planes().filter_map(|(_, track)| track.host.as_deref()) {
            *on_host.entry(host).or_default() += 1;
        }
        let most = on_host.into_iter().find(|(_, count)| *count > 1 && *count > all / 2);
        let most = most.map(|(host, count)| (host.to_owned(), count));
        if let Some((host, count)) = most {
            let text = format!("Holds {count} of {all} control planes: if this host fails, etcd is lost.");
            self.notes.info(format!("host {host}"), text);
        }
    }
}
