//! Steps that touch VMs: only ours, only where they are, only as declared.

use daedal_inventory::{FirstContact, Node, Role};
use daedal_machine::vm::{self, Change, Value};

use super::{Checker, Rule, is_ours, is_up};
use crate::names::{self, Content};
use crate::plan::{Action, CloneOf, Impact, Purpose, RunningVersions, Step};
use crate::world::{ConfigView, DryRun, EtcdView, Ownership, TalosView};

/// The VMID a step acts on.
pub(super) fn vmid(action: &Action) -> Option<u32> {
    match action {
        Action::CreateVm { vmid, .. }
        | Action::AwaitCreate { vmid, .. }
        | Action::GrowDisk { vmid, .. }
        | Action::UpdateVm { vmid, .. }
        | Action::AttachMedia { vmid, .. }
        | Action::StartVm { vmid }
        | Action::EjectMedia { vmid }
        | Action::MarkConfigured { vmid }
        | Action::RestoreMark { vmid, .. }
        | Action::GiveConfig { vmid, .. }
        | Action::RestartVm { vmid }
        | Action::StopVm { vmid }
        | Action::DestroyVm { vmid } => Some(*vmid),
        _ => None,
    }
}

impl Checker<'_> {
    /// Whether the VM is ours and here, or made by this plan before this step.
    fn owned(&mut self, step: &Step, vmid: u32) {
        let Some(name) = step.node.as_deref() else {
            return self.find(Rule::Ownership, Some(step), "A VM is touched for no node.");
        };
        if let Some(node) = self.nodes.get(name) {
            let declared = node.vmid == vmid;
            self.demand(declared, Rule::Ownership, step, "The inventory gives the node another VMID");
        }
        let claimants = self.claims.get(name).map_or(0, Vec::len);
        self.demand(claimants <= 1, Rule::Ownership, step, "Several guests claim to be this node");
        let Some(guest) = self.world.guests.get(&vmid) else {
            let made = self.after(step, |s| {
                matches!(s.action, Action::CreateVm { vmid: made, .. } if made == vmid)
                    && s.node == step.node
                    && s.host == step.host
            });
            return self.demand(made, Rule::Ownership, step, "The VM is touched but was never made");
        };
        let here = step.host.as_deref() == Some(guest.host.as_str());
        self.demand(here, Rule::Ownership, step, "The VM is on another host");
        match &guest.ownership {
            Ownership::Ours { node, .. } => {
                self.demand(node == name, Rule::Ownership, step, "The VM is another node of ours");
                let free = guest.lock.is_none() && !guest.template;
                self.demand(free, Rule::Ownership, step, "The VM is locked or a template");
            }
            Ownership::HalfMade { node, task_running: true, .. } => {
                self.demand(node == name, Rule::Ownership, step, "The VM is another node of ours");
                let awaited = self.after(
                    step,
                    |s| matches!(s.action, Action::AwaitCreate { vmid: awaited, .. } if awaited == vmid),
                );
                self.demand(awaited, Rule::Order, step, "The VM is touched while it is still being made");
            }
            _ => self.demand(false, Rule::Ownership, step, "The VM is not ours"),
        }
    }

    pub(super) fn create_vm(&mut self, step: &Step, vmid: u32, digest: &str) {
        let Some(node) = self.declared(step) else { return };
        self.demand(node.vmid == vmid, Rule::Creation, step, "The inventory gives the node another VMID");
        let free = !self.world.guests.contains_key(&vmid);
        self.demand(free, Rule::Creation, step, "The VMID is taken");
        self.secrets_before(step);
        let unclaimed = !self.claims.contains_key(node.name.as_str());
        self.demand(unclaimed, Rule::Creation, step, "A VM of this node exists");
        let seen = self.world.unlisted_hosts.is_empty();
        self.demand(
            seen,
            Rule::Creation,
            step,
            "The VMID may be taken on a host whose guests could not be listed",
        );
        let creates =
            |steps: &Vec<&Step>| steps.iter().filter(|s| matches!(s.action, Action::CreateVm { .. })).count();
        let once = self.by_vmid.get(&vmid).map_or(0, creates) == 1;
        self.demand(once, Rule::Creation, step, "The VM is made twice");
        self.demand(
            digest == self.digests.of(node),
            Rule::Creation,
            step,
            "The mark would not say what was asked",
        );
        let host = step.host.as_deref().unwrap_or_default();
        let declared = self.cluster.proxmox.hosts.iter().any(|declared| declared.name == host);
        let online = self.world.hosts.get(host).is_some_and(|view| view.online);
        self.demand(declared && online, Rule::Creation, step, "The host is not declared or not online");
        let pin = self.cluster.placement.pin.get(&node.name);
        self.demand(
            pin.is_none_or(|pin| pin == host),
            Rule::Creation,
            step,
            "The node is pinned to another host",
        );
    }

    /// What a new VM boots from, and where its config comes from: as its boot path says, and there.
    pub(super) fn sources(
        &mut self,
        step: &Step,
        image: Option<&str>,
        iso: Option<&str>,
        template: Option<&CloneOf>,
        media: Option<&str>,
    ) {
        let Some(node) = self.declared(step) else { return };
        let (host, path) = (step.host.as_deref().unwrap_or_default(), &self.cluster.boot);
        let of_path =
            (image.is_some() || template.is_some(), template.is_some(), iso.is_some(), media.is_some())
                == (path.grows(), path.clones(), path.installs(), path.by_medium());
        self.demand(of_path, Rule::Creation, step, "The VM is not made as its boot path says");
        if let Some(media) = media {
            let storage = &self.cluster.proxmox.images_storage;
            let file = self.media_file(node);
            let right = media == names::media_volid(storage, &file);
            self.demand(right, Rule::Creation, step, "The medium is not this node's");
            let uploaded = self.uploaded_before(step, host, media);
            self.demand(uploaded, Rule::Order, step, "The medium is not uploaded before");
        }
        let ready = match (image, iso) {
            // What is declared to be there is the user's own affair.
            (Some(volume), _) | (None, Some(volume)) if path.volume() == Some(volume) => true,
            (Some(image), _) => self.image_ready_before(step, host, Content::Import, image),
            (None, Some(iso)) => self.image_ready_before(step, host, Content::Iso, iso),
            (None, None) => {
                template.is_some_and(|template| self.template_ready_before(step, node.role, template))
            }
        };
        self.demand(ready, Rule::Order, step, "The image is not there, or not the right one");
    }

    /// Whether a node gets its config in maintenance mode, by this plan or never.
    pub(super) fn waits_for_config(&self, node: &Node) -> bool {
        let guest = self.world.guests.get(&node.vmid).filter(|guest| is_ours(guest, node));
        let config = guest.and_then(|guest| guest.config.as_ref());
        let waiting = config.map_or(guest.is_none(), |config| config.waiting);
        self.cluster.boot.through_maintenance() && waiting && !is_up(self.world, &node.name)
    }

    pub(super) fn give_config(&mut self, step: &Step, vmid: u32, console: bool) {
        self.owned(step, vmid);
        self.secrets_before(step);
        let Some(node) = self.declared(step) else { return };
        let first = self.waits_for_config(node);
        self.demand(first, Rule::Secrets, step, "A config with keys is given to a node that had one");
        let running = self.world.guests.get(&vmid).is_some_and(|guest| guest.running);
        let started = self.after(step, |s| s.action == Action::StartVm { vmid });
        self.demand(running || started, Rule::Order, step, "The node is awaited but its VM is not started");
        let demanded = self.cluster.boot.first_contact == Some(FirstContact::Verified);
        let proves = "A config with keys is given to a node that need not prove who it is, although it must";
        self.demand(console || !demanded, Rule::Secrets, step, proves);
        // What was printed before somebody listened is gone. One that was not seen waiting may still be booting.
        let waits = |node: &Node| {
            let view = self.world.nodes.get(&node.name);
            view.is_some_and(|view| matches!(view.talos, TalosView::Maintenance))
        };
        let heard = !console || (self.world.consoles && (started || !waits(node)));
        self.demand(
            heard,
            Rule::Order,
            step,
            "The console is read of a VM that does not boot under our eyes",
        );
    }

    pub(super) fn mark_configured(&mut self, step: &Step, vmid: u32) {
        self.owned(step, vmid);
        let Some(node) = self.declared(step) else { return };
        let answers = self.answers_before(step, &node.name);
        self.demand(answers, Rule::Order, step, "The VM would say of a config what nobody knows yet");
    }

    pub(super) fn await_create(&mut self, step: &Step, vmid: u32, upid: &str) {
        let running = self.world.guests.get(&vmid).is_some_and(|guest| {
            matches!(&guest.ownership, Ownership::HalfMade { node, task_running: true, upid: task }
                if Some(node.as_str()) == step.node.as_deref() && task == upid)
                && step.host.as_deref() == Some(guest.host.as_str())
        });
        self.demand(running, Rule::Ownership, step, "No such create task of ours runs");
    }

    pub(super) fn grow(&mut self, step: &Step, vmid: u32, size: u64) {
        self.owned(step, vmid);
        let Some(node) = self.declared(step) else { return };
        let config = self.world.guests.get(&vmid).and_then(|guest| guest.config.as_ref());
        let grows = config.is_none_or(|config| config.disk < size) && size == node.disk;
        self.demand(grows, Rule::Destruction, step, "The disk would not grow to what is declared");
    }

    pub(super) fn update(&mut self, step: &Step, vmid: u32, changes: &[Change]) {
        self.owned(step, vmid);
        let Some(node) = self.declared(step) else { return };
        let known = !changes.is_empty()
            && changes.iter().all(|change| change.option == "description" || vm::updatable(&change.option));
        self.demand(known, Rule::Destruction, step, "The update changes what no update may");
        let declared = self.sets_what_is_declared(node, vmid, changes);
        self.demand(declared, Rule::Destruction, step, "The update sets what is not declared");
        if self.interrupts(vmid, changes) {
            let said = step.impact >= Impact::Interrupt;
            self.demand(said, Rule::Destruction, step, "The step does more harm than it says");
            let waits =
                self.world.nodes.get(&node.name).is_some_and(|view| view.talos == TalosView::Maintenance);
            if node.role == Role::ControlPlane && !waits {
                self.interrupts_member(step, &node.name);
            }
        }
    }

    /// Whether every value that is sent is the declared one, and whatever else was set on a card by hand stays.
    fn sets_what_is_declared(&self, node: &Node, vmid: u32, changes: &[Change]) -> bool {
        let Some(config) = self.world.guests.get(&vmid).and_then(|guest| guest.config.as_ref()) else {
            return false;
        };
        let declared = vm::declared(self.cluster, node, &config.seats);
        changes.iter().all(|change| match &change.to {
            Some(Value::Mark { digest, .. }) => digest == self.digests.of(node),
            to => {
                let seen = config.options.get(&change.option);
                *to == declared.get(&change.option).map(|wanted| wanted.over(seen))
            }
        })
    }

    pub(super) fn attach(&mut self, step: &Step, vmid: u32, media: &str) {
        self.owned(step, vmid);
        let Some(node) = self.declared(step) else { return };
        let file = self.media_file(node);
        let right = media == names::media_volid(&self.cluster.proxmox.images_storage, &file);
        self.demand(right, Rule::Creation, step, "The medium is not this node's");
        let up = is_up(self.world, &node.name);
        self.demand(!up, Rule::Creation, step, "The node has its config already");
        let host = step.host.as_deref().unwrap_or_default();
        let there = self.files.exists(host, media) || self.uploaded_before(step, host, media);
        self.demand(there, Rule::Order, step, "The medium is not there");
    }

    pub(super) fn start(&mut self, step: &Step, vmid: u32) {
        self.owned(step, vmid);
        let Some(node) = self.declared(step) else { return };
        let guest = self.world.guests.get(&vmid);
        if guest.is_some_and(|guest| guest.running) {
            let stopped = self.after(step, |s| s.action == Action::StopVm { vmid });
            self.demand(stopped, Rule::Order, step, "The VM runs already");
        }
        // One that is still being made shows nothing of what it will be.
        let config = guest.filter(|guest| is_ours(guest, node)).and_then(|guest| guest.config.as_ref());
        // An empty disk is made as large as it should be, and one in an image may be as large.
        let small = || {
            let large = |image: &str| self.world.holds(&self.cluster.boot, image, node.disk);
            let made = |s: &Step| matches!(&s.action, Action::CreateVm { vmid: at, image: Some(image), .. } if *at == vmid && large(image));
            self.cluster.boot.grows() && !self.after(step, made)
        };
        if config.map_or_else(small, |config| config.disk < node.disk) {
            let grown = self
                .after(step, |s| matches!(s.action, Action::GrowDisk { vmid: grown, .. } if grown == vmid));
            self.demand(grown, Rule::Order, step, "The VM would start with a disk that is too small");
        }
        if let Some(media) = config.and_then(|config| config.media.as_deref()) {
            let host = step.host.as_deref().unwrap_or_default();
            let attached =
                self.after(step, |s| matches!(s.action, Action::AttachMedia { vmid: at, .. } if at == vmid));
            let ours = names::media_node(self.cluster, names::volid_file(media)).is_some();
            let there = !ours
                || attached
                || self.files.exists(host, media)
                || self.uploaded_before(step, host, media);
            self.demand(there, Rule::Order, step, "The medium in the drive is gone, so the VM cannot start");
        }
    }

    pub(super) fn stop(&mut self, step: &Step, vmid: u32) {
        self.owned(step, vmid);
        match self.plan.purpose {
            Purpose::Destroy => return,
            Purpose::Remove => return self.takes_vm(step),
            _ => {}
        }
        let Some(node) = self.declared(step) else { return };
        let waits = self.world.nodes.get(&node.name).is_some_and(|view| view.talos == TalosView::Maintenance);
        let ours = self.world.guests.get(&vmid).is_some_and(|guest| is_ours(guest, node));
        self.demand(
            waits && ours,
            Rule::Destruction,
            step,
            "Only a node that waits for its config may be restarted",
        );
        let later = self.by_vmid.get(&vmid).into_iter().flatten();
        let again = later
            .filter(|s| s.action == Action::StartVm { vmid })
            .any(|s| self.after(s, |s| s.id == step.id));
        self.demand(again, Rule::Destruction, step, "The VM is stopped and not started again");
    }

    pub(super) fn destroy(&mut self, step: &Step, vmid: u32) {
        self.owned(step, vmid);
        let meant = self.plan.purpose.takes_vms() && !self.cluster.protect;
        if self.plan.purpose == Purpose::Remove {
            self.takes_vm(step);
        }
        self.demand(meant, Rule::Destruction, step, "A VM is destroyed, which nobody asked for");
        if self.world.guests.get(&vmid).is_some_and(|guest| guest.running) {
            let stopped = self.after(step, |s| s.action == Action::StopVm { vmid });
            self.demand(stopped, Rule::Order, step, "The VM is destroyed while it runs");
        }
    }

    pub(super) fn eject(&mut self, step: &Step, vmid: u32) {
        self.owned(step, vmid);
        let Some(node) = self.declared(step) else { return };
        let answers = self.answers_before(step, &node.name);
        self.demand(answers, Rule::Order, step, "The medium is ejected before the node has its config");
        // Of what is in the drives, only what is ours is taken out; something must be.
        let guest = self.world.guests.get(&vmid).filter(|guest| is_ours(guest, node));
        let config = guest.and_then(|guest| guest.config.as_ref());
        let medium = config.and_then(|config| config.media.as_deref());
        let iso = config.and_then(|config| config.iso.as_deref());
        let ours = config.is_none()
            || iso.is_some_and(|volid| names::is_boot_iso(self.cluster, volid))
            || medium.is_some_and(|volid| {
                names::media_node(self.cluster, names::volid_file(volid)) == Some(node.name.as_str())
            });
        let put =
            self.after(step, |s| matches!(s.action, Action::AttachMedia { vmid: at, .. } if at == vmid));
        self.demand(ours || put, Rule::Ownership, step, "The medium in the drive is someone else's");
    }

    /// Whether a change cuts a running VM's network.
    fn interrupts(&self, vmid: u32, changes: &[Change]) -> bool {
        let running = self.world.guests.get(&vmid).is_some_and(|guest| guest.running);
        running && changes.iter().any(|change| change.option == "net0")
    }

    /// A running node of ours gets the declared config if it runs on the one that was seen.
    pub(super) fn apply_config(
        &mut self,
        step: &Step,
        [running, declared]: [&str; 2],
        reboot: bool,
        versions: Option<&RunningVersions>,
    ) {
        let Some(node) = self.declared(step) else { return };
        let ours =
            self.world.guests.get(&node.vmid).is_some_and(|guest| guest.running && is_ours(guest, node));
        self.demand(ours, Rule::Ownership, step, "The node's VM is not ours or does not run");
        self.demand(is_up(self.world, &node.name), Rule::Order, step, "The node does not answer");
        let seen = self.world.nodes.get(&node.name).is_some_and(|view| {
            matches!(&view.config, ConfigView::Differs(difference)
                if difference.running.digest == running
                    && difference.declared.digest == declared
                    && difference.answer == DryRun::Accepted { reboot }
                    && view.versions.as_ref() == versions)
        });
        self.demand(seen, Rule::Destruction, step, "The config is not the one that was compared");
        let another = self.world.nodes.get(&node.name).is_some_and(|view| makes_another(&view.config));
        self.demand(!another, Rule::Destruction, step, "The config makes it a node of another cluster");
        if node.role == Role::ControlPlane {
            match reboot {
                true => self.interrupts_member(step, &node.name),
                false => self.one_by_one(step, &node.name),
            }
        }
    }

    /// A running VM of ours is restarted where that is allowed, its node answers, and etcd can do without it.
    pub(super) fn restart(&mut self, step: &Step, vmid: u32) {
        self.owned(step, vmid);
        let Some(node) = self.declared(step) else { return };
        let allowed = self.cluster.restarts.are_allowed();
        self.demand(allowed, Rule::Destruction, step, "The inventory allows no restarts");
        let running = self.world.guests.get(&vmid).is_some_and(|guest| guest.running);
        self.demand(running, Rule::Order, step, "A VM is restarted that does not run");
        self.demand(is_up(self.world, &node.name), Rule::Order, step, "The node does not answer");
        if node.role == Role::ControlPlane {
            self.interrupts_member(step, &node.name);
        }
    }

    /// A running control plane may lose its network for a moment only if etcd does not need it.
    fn interrupts_member(&mut self, step: &Step, name: &str) {
        let etcd = |name: &str| self.world.nodes.get(name).map_or(&EtcdView::Unknown, |view| &view.etcd);
        let others = || self.cluster.control_planes().filter(|node| node.name != name);
        let none_learns = self.cluster.control_planes().all(|node| *etcd(&node.name) != EtcdView::Learner)
            && self.world.members.iter().all(|member| !member.learner);
        // Whatever does not say that it has not joined may vote.
        let may_vote = *etcd(name) != EtcdView::NotJoined;
        let votes = |name: &str| *etcd(name) == EtcdView::Member && is_up(self.world, name);
        // Whoever it is that is listed counts, and who does not serve counts as lost.
        let voters = || self.world.members.iter().filter(|member| !member.learner);
        let listed = voters().count();
        let serve = voters().filter(|member| member.serves && member.name != name).count();
        let borne = listed <= 1 || serve * 2 > listed;
        let spare = others().all(|node| votes(&node.name)) && others().count() != 1 && borne;
        self.demand(none_learns && (!may_vote || spare), Rule::Etcd, step, "etcd could lose its quorum");
        self.one_by_one(step, name);
    }

    /// Whether a step may keep a running control plane from voting for a moment.
    fn disturbs(&self, step: &Step) -> bool {
        match &step.action {
            Action::UpdateVm { vmid, changes } => self.interrupts(*vmid, changes),
            Action::ApplyConfig { .. } | Action::RestartVm { .. } => true,
            _ => false,
        }
    }

    /// Control planes that may vote are disturbed one at a time, each only after the one before votes again.
    fn one_by_one(&mut self, step: &Step, name: &str) {
        let etcd = |name: &str| self.world.nodes.get(name).map_or(&EtcdView::Unknown, |view| &view.etcd);
        let may_vote = *etcd(name) != EtcdView::NotJoined;
        let previous = self.plan.steps[..step.id as usize].iter().rev().find(|s| {
            let node = s.node.as_deref().and_then(|node| self.nodes.get(node));
            s.node != step.node
                && self.disturbs(s)
                && node.is_some_and(|n| n.role == Role::ControlPlane && *etcd(&n.name) != EtcdView::NotJoined)
        });
        let one_by_one = previous.is_none_or(|previous| {
            self.after(step, |s| {
                s.action == Action::AwaitEtcd
                    && s.node == previous.node
                    && self.after(s, |s| s.id == previous.id)
            })
        });
        self.demand(one_by_one || !may_vote, Rule::Etcd, step, "Two control planes are interrupted at once");
    }
}

/// Fields by which a cluster and its nodes know each other.
const KNOWN_BY: [&str; 6] =
    ["machine.token", "machine.ca", "cluster.id", "cluster.secret", "cluster.token", "cluster.ca"];

/// Whether the declared config would make a node one of another cluster.
fn makes_another(config: &ConfigView) -> bool {
    let ConfigView::Differs(difference) = config else { return false };
    let mut fields = difference.changes.iter().flat_map(|document| &document.fields);
    fields.any(|field| {
        let known_by = field.path.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        KNOWN_BY.contains(&known_by.as_str())
    })
}
