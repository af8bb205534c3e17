//! A VM that is there: what it lacks, and the steps that give it to it.

use daedal_inventory::{Node, Role};
use daedal_machine::vm::{Change, Held, Value};

use super::config::NewConfig;
use super::{Planner, Track};
use crate::advice::Advice;
use crate::bootstrap::Interruption;
use crate::config::{ConfigFate, config_fate};
use crate::difference::{Remedy, Stays};
use crate::drift::{Drift, drift};
use crate::graph::Subject;
use crate::names::Images;
use crate::plan::{Action, Impact, Level, StepId};
use crate::size;
use crate::survey::{NodeSurvey, Present};
use crate::why::{InterruptedBy, WhyStays};
use crate::world::{Aspect, EtcdView, GuestView, TalosView, VmConfig};

/// A node whose VM is there, and what is known of it.
struct Existing<'w, 's> {
    surveyed: &'s NodeSurvey<'w>,
    present: Present<'w>,
    node: &'w Node,
    guest: &'w GuestView,
    config: &'w VmConfig,
    /// What becomes of the config that it runs on.
    fate: ConfigFate<'s>,
    /// Whether its mark names what is declared.
    current: bool,
    /// It runs in maintenance mode although it had its config by a medium.
    maintenance: bool,
}

impl<'s> Existing<'_, 's> {
    fn subject(&self) -> Subject<'s>
    where
        Self: 's,
    {
        Subject { node: Some(&self.node.name), host: Some(&self.guest.host) }
    }
}

impl<'w> Planner<'w> {
    /// A VM that is there: what it lacks.
    pub(super) fn existing(
        &mut self,
        surveyed: &NodeSurvey<'w>,
        present: Present<'w>,
        images: &Images,
    ) -> Track {
        let Present { guest, config, digest } = present;
        let (node, up) = (surveyed.node, surveyed.up());
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
        let one = Existing {
            surveyed,
            present,
            node,
            guest,
            config,
            fate: match up {
                true => config_fate(self.cluster, node, &surveyed.view.config),
                false => ConfigFate::Unseen,
            },
            current: self.digests.of(node) == digest,
            maintenance,
        };
        self.tell_of_its_config(&one, track.waits);
        if let Some(lock) = &guest.lock {
            (track.medium, track.iso, track.unsettled, track.waits) = (None, false, false, false);
            self.tell_of_its_lock(&one, lock);
            return track;
        }
        if !self.can_come_up(surveyed) {
            return Track { host: track.host, ..Track::default() };
        }
        let mut done = self.bring_to_declared(&one, &mut track);
        if !up && !track.waits {
            done.extend(self.media_for(surveyed, &one.present, attached, maintenance, &mut track));
        }
        if !up
            && track.iso
            && let Some(image) = images.of(&node.name)
        {
            done.push(self.image.ready_on(&self.volumes, &guest.host, image));
        }
        self.bring_up(&one, done, &mut track);
        track
    }

    /// A config that differs and stays, or that could not be seen.
    fn tell_of_its_config(&mut self, one: &Existing<'w, '_>, waits: bool) {
        let node = one.node;
        match &one.fate {
            ConfigFate::Unseen if !one.current && !one.maintenance && !waits => {
                self.not_seen.push(Aspect::MachineConfig(node.name.clone()).to_string());
                let running = one.guest.running;
                let level = if running { Level::Warning } else { Level::Info };
                self.notes.add(level, Advice::ConfigNotSeen { node: node.name.clone(), running });
            }
            ConfigFate::Stays(why) => {
                let why = WhyStays::Config(why.clone());
                self.differ(node, "machine config", ["", ""], Stays::Held { why }, None);
            }
            _ => {}
        }
    }

    fn tell_of_its_lock(&mut self, one: &Existing<'w, '_>, lock: &str) {
        let (node, vmid, running) = (one.node.name.clone(), one.node.vmid, one.guest.running);
        let level = if running { Level::Warning } else { Level::Problem };
        self.notes.add(level, Advice::VmLocked { node, vmid, lock: lock.to_owned(), running });
        let locked = Aspect::Vm { vmid, host: Some(one.guest.host.clone()) };
        self.not_seen.push(locked.to_string());
    }

    /// The steps that change its options and grow its disk.
    fn bring_to_declared(&mut self, one: &Existing<'w, '_>, track: &mut Track) -> Vec<Option<StepId>> {
        let (node, config, vmid) = (one.node, one.config, one.node.vmid);
        // Where a node takes the declared config, the one it runs on names the declared network card already.
        let names_the_card = match one.fate {
            ConfigFate::AsDeclared | ConfigFate::Replaced { .. } => true,
            ConfigFate::Stays(_) => false,
            ConfigFate::Unseen => one.current,
        };
        let drift = drift(self.cluster, node, &one.present, names_the_card);
        self.tell_what_stays(one, &drift);
        let Drift { quiet: mut changes, network, waiting, .. } = drift;
        changes.extend(self.new_config(one, track));
        let mut impact = Impact::None;
        if let Some(change) = network
            && let Some(change) = self.network_change(one, change, track)
        {
            impact = if one.guest.running { Impact::Interrupt } else { Impact::None };
            changes.push(change);
        }
        if one.guest.running && !one.maintenance {
            let waiting = changes.iter().filter(|change| change.needs_restart).chain(&waiting);
            track.waiting = waiting.cloned().collect();
        }
        let mut done: Vec<Option<StepId>> = Vec::new();
        if !changes.is_empty() {
            let action = Action::UpdateVm { vmid, changes };
            let reason = "it differs from the inventory";
            done.push(Some(self.graph.add_with(one.subject(), action, reason, [], impact)));
        }
        if config.disk < node.disk {
            let reason = format!("it has {}", size::show(config.disk));
            let action = Action::GrowDisk { vmid, size: node.disk };
            done.push(Some(self.graph.add(one.subject(), action, reason, done.clone())));
        } else if config.disk > node.disk {
            let (has, declared) = size::show_apart(config.disk, node.disk);
            let remedy = Remedy::DeclareDisk { size: has.replace(' ', "") };
            let stays = Stays::Held { why: WhyStays::DisksOnlyGrow };
            self.differ(node, "disk", [&declared, &has], stays, Some(remedy));
        }
        done
    }

    /// Options that differ and are not changed.
    fn tell_what_stays(&mut self, one: &Existing<'w, '_>, drift: &Drift) {
        let (node, vmid, host) = (one.node, one.node.vmid, &one.guest.host);
        if drift.mac_held_back {
            let values = [node.mac.as_str(), one.config.mac()];
            let stays = Stays::Held { why: WhyStays::ConfigNamesMac };
            self.differ(node, "network card's MAC", values, stays, None);
        }
        for Held { change, why } in &drift.held {
            let remedy = Remedy::ReplaceNode { host: host.clone(), vmid };
            let (from, to) = change.words();
            let stays = Stays::Held { why: WhyStays::Vm(*why) };
            self.differ(node, &change.option, [&to, &from], stays, Some(remedy));
        }
    }

    /// Takes down the config that it is given, and what its mark says of it; returns a mark that is written at once.
    fn new_config(&self, one: &Existing<'w, '_>, track: &mut Track) -> Option<Change> {
        let (config, view) = (one.config, &one.surveyed.view);
        let has_id = self.world.secrets_id.is_some();
        // A mark of an older version gets the id of the secrets, once the node itself proved that it has them.
        let unsigned = config.unsigned && one.surveyed.up() && one.current && has_id;
        // A mark speaks of the whole config, versions and all.
        let outdated = !one.current && view.versions.is_none();
        let digest = |digest: &str, signed: bool| Some(Value::Mark { digest: digest.to_owned(), signed });
        let mark = (outdated || unsigned).then(|| Change {
            option: "description".to_owned(),
            from: digest(one.present.digest, !config.unsigned),
            to: digest(self.digests.of(one.node), has_id),
            needs_restart: false,
        });
        if let ConfigFate::Replaced { difference, reboot } = one.fate {
            let action = Action::ApplyConfig {
                running: difference.running.digest.clone(),
                declared: difference.declared.digest.clone(),
                reboot,
                changes: difference.changes.clone(),
                versions: view.versions.clone(),
            };
            track.config = Some(NewConfig { action, reboot, mark });
            return None;
        }
        // It has the declared config, or gets it now, so its mark may say so.
        mark.filter(|_| one.maintenance || matches!(one.fate, ConfigFate::AsDeclared))
    }

    /// A change of the network card that is made together with the others; none if it has to wait or stays undone.
    fn network_change(
        &mut self,
        one: &Existing<'w, '_>,
        change: Change,
        track: &mut Track,
    ) -> Option<Change> {
        let voter = one.node.role == Role::ControlPlane && one.guest.running && !one.maintenance;
        match (voter, self.voters.interruption(one.surveyed)) {
            (false, _) | (true, Interruption::Harmless) => {
                track.interrupted = voter && one.surveyed.view.etcd != EtcdView::NotJoined;
                return Some(change);
            }
            (true, Interruption::OneByOne) => track.network = Some(change),
            (true, Interruption::Risky) => {
                let why = WhyStays::Quorum { by: InterruptedBy::Card, voters: self.voters };
                let remedy = self.voters.remedy(true);
                let (from, to) = change.words();
                self.differ(one.node, "network card", [&to, &from], Stays::Held { why }, Some(remedy));
            }
        }
        None
    }

    /// Starts it if it does not run, and boots it again where only that brings its config.
    fn bring_up(&mut self, one: &Existing<'w, '_>, mut done: Vec<Option<StepId>>, track: &mut Track) {
        let (vmid, subject) = (one.node.vmid, one.subject());
        let unheard = track.waits && one.guest.running && self.reads_console(one.node);
        let mut stop = |reason: &str, done: &mut Vec<Option<StepId>>| {
            let action = Action::StopVm { vmid };
            done.push(Some(self.graph.add_with(subject, action, reason, done.clone(), Impact::Restart)));
        };
        let mut start = !one.guest.running;
        if one.maintenance {
            stop("it waits for a config, which it reads only when it boots", &mut done);
            start = true;
        }
        if unheard && matches!(one.surveyed.view.talos, TalosView::Maintenance) {
            stop("it prints its key only when it boots, and its console was not read then", &mut done);
            start = true;
        }
        if !start {
            track.running = done.into_iter().flatten().collect();
            return;
        }
        let reason = match (one.maintenance, unheard) {
            (true, _) => "boots into its config",
            (_, true) => "boots to wait for its config",
            _ => "it is stopped",
        };
        track.running = vec![self.graph.add(subject, Action::StartVm { vmid }, reason, done)];
        track.reachable = true;
    }
}
