//! What the user should know about the whole plan and its hosts.

use std::collections::{BTreeMap, HashMap, HashSet};

use daedal_inventory::{Role, TlsTrust};

use super::Planner;
use crate::advice::{Advice, VolumeName};
use crate::capacity::Rooms;
use crate::difference::{Difference, Remedy, Stays};
use crate::digest::hex12;
use crate::error::{PlanError, UnusableHost, some_of};
use crate::names::Images;
use crate::plan::Level;
use crate::storages::{leftovers, storage_warnings};
use crate::survey::{NodeSurvey, State, Survey, full_name};
use crate::world::{Ownership, TalosView};

impl<'w> Planner<'w> {
    /// What concerns the whole plan.
    pub(super) fn general_notes(&mut self, survey: &Survey<'w>) {
        let cluster = self.cluster;
        if cluster.proxmox.tls == TlsTrust::Insecure {
            self.notes.warning(Advice::TlsNotVerified { endpoint: cluster.proxmox.endpoint.clone() });
        }
        for unobserved in &self.world.unobserved {
            self.notes.unobserved(unobserved);
        }
        for advice in storage_warnings(cluster, self.world) {
            self.notes.warning(advice);
        }
        self.leftover_notes();
        for guest in &survey.undeclared {
            let (node, remedy) = match &guest.ownership {
                Ownership::Ours { node, .. } => (node, Some(Remedy::RemoveNode { node: node.clone() })),
                Ownership::HalfMade { node, .. } => (node, None),
                _ => continue,
            };
            self.differences.push(Difference {
                node: node.clone(),
                what: "VM".to_owned(),
                declared: String::new(),
                found: full_name(guest),
                stays: Stays::UntilRemoval,
                remedy,
            });
        }
        let waits = |surveyed: &&NodeSurvey<'w>| {
            !self.can_come_up(surveyed) && !matches!(surveyed.state, State::Blocked { .. })
        };
        let waiting: Vec<String> =
            survey.nodes.iter().filter(waits).map(|surveyed| surveyed.node.name.clone()).collect();
        if !waiting.is_empty() {
            self.notes.problem(Advice::NoControlPlane { nodes: waiting });
        }
    }

    /// Names the volumes that Proxmox left behind.
    fn leftover_notes(&mut self) {
        let mut by_host: BTreeMap<(String, bool), Vec<VolumeName>> = BTreeMap::new();
        for one in leftovers(self.cluster, self.world) {
            by_host.entry((one.host.clone(), one.beside_vm)).or_default().push(one.shown());
        }
        for ((host, beside_vm), volumes) in by_host {
            self.notes.warning(Advice::LeftOverVolumes { host, volumes, beside_vm });
        }
    }

    /// Counts what nodes run another version or image of than is declared: it is not their config that brings it.
    pub(super) fn upgrades(&mut self, images: &Images, survey: &Survey<'w>) {
        let talos = format!("v{}", self.cluster.talos.version);
        let kubernetes = format!("v{}", self.cluster.kubernetes.version);
        for surveyed in &survey.nodes {
            let (node, view) = (surveyed.node, surveyed.view);
            let address = self.world.address(node).map(|address| address.to_string());
            let upgrade = Remedy::UpgradeTalos { address: address.clone(), image: images.upgrade.clone() };
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
                let version = self.cluster.kubernetes.version.to_string();
                let remedy = Remedy::UpgradeKubernetes { address, version };
                let values = [kubernetes.as_str(), running.kubernetes.as_str()];
                self.differ(node, "Kubernetes version", values, Stays::UntilUpgrade, Some(remedy));
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
        self.notes.warning(Advice::SignaturesNotChecked {});
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
        self.notes.warning(Advice::FirstContactUnverified { nodes: self.first_contacts.clone() });
        Ok(())
    }

    /// What concerns the hosts' room.
    pub(super) fn room_notes(&mut self, rooms: &Rooms, hosts: &HashMap<&str, String>) {
        let used: HashSet<&str> = hosts.values().map(String::as_str).collect();
        for (at, room) in rooms.rooms.iter().enumerate() {
            if let Some(unusable) = room.unusable.as_ref().filter(|_| room.declared && !used.is_empty()) {
                let UnusableHost { host, why, fix } = unusable.clone();
                self.notes.warning(Advice::HostUnusable { host, why, fix });
            }
            if room.sleepers == 0 || !used.contains(room.host.as_str()) {
                continue;
            }
            let free = rooms.free(at);
            let fits = room.asleep.cores <= free.cores && room.asleep.memory <= free.memory;
            let level = if fits { Level::Info } else { Level::Warning };
            let (host, guests) = (room.host.clone(), room.sleepers);
            let (cores, memory) = (room.asleep.cores, room.asleep.memory);
            self.notes.add(level, Advice::StoppedGuests { host, guests, cores, memory, fits });
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
        if let Some((host, there)) = most {
            self.notes.info(Advice::ControlPlanesOnOneHost { host, there, all });
        }
    }
}
