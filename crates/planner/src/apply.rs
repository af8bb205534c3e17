//! `plan_apply`: what must happen so that the world becomes what the inventory says.

use std::collections::{HashMap, HashSet};

use daedal_inventory::{BootConfig, BootFrom, Cluster, Cni, Node, Role, TlsTrust};

use crate::basis;
use crate::bootstrap::{self, Verdict};
use crate::capacity::Rooms;
use crate::digest::{self, NodeDigests};
use crate::drift::drift;
use crate::error::PlanError;
use crate::graph::{Graph, Subject};
use crate::image::ImageSteps;
use crate::names::{self, ImageRef};
use crate::placement::place;
use crate::plan::{
    Action, Change, Fate, Impact, Level, Plan, PlannedNode, Purpose, Quorum, StepId, Versions,
};
use crate::size;
use crate::survey::{Notes, Present, Sight, State, Survey, full_name};
use crate::volumes::{Place, Volumes};
use crate::world::{EtcdView, TalosView, World};

/// Version of the plan format.
pub(crate) const FORMAT: u32 = 1;

/// Plans how to make the world what the inventory says. Nodes that something stands in the way of are left alone and
/// named in a note; the rest goes on as far as it can.
pub fn plan_apply(cluster: &Cluster, image: &ImageRef, world: &World) -> Result<Plan, PlanError> {
    supported(cluster)?;
    let survey = Survey::new(cluster, world);
    let vms = Survey::vms_with_secrets(world);
    if let (false, [first, ..]) = (world.secrets_stored, &vms[..]) {
        return Err(PlanError::SecretsLost {
            cluster: cluster.name.clone(),
            vms: vms.len(),
            example: full_name(first),
        });
    }
    // A worker gets its certificate from a control plane. Where none can ever come up, its config medium would only lie
    // on the storage with its keys, so it is not made.
    let control_planes_possible = survey
        .nodes
        .iter()
        .any(|sight| sight.node.role == Role::ControlPlane && !matches!(sight.state, State::Blocked { .. }));
    let creatable = |node: &Node| node.role == Role::ControlPlane || control_planes_possible;

    let before = Rooms::count(cluster, world, &survey);
    let mut rooms = before.clone();
    let places = place(cluster, &survey, &mut rooms, creatable)?;
    let hosts: HashMap<&str, String> =
        places.iter().map(|(node, at)| (*node, rooms.rooms[*at].host.clone())).collect();

    let mut planner = Planner {
        cluster,
        world,
        digests: NodeDigests::new(cluster),
        graph: Graph::default(),
        notes: Notes(survey.notes.clone()),
        secrets: None,
        volumes: Volumes::new(cluster, world),
        image: ImageSteps::default(),
        tracks: Vec::with_capacity(survey.nodes.len()),
        known_media: HashSet::new(),
    };
    planner.general_notes(&survey, control_planes_possible);
    planner.room_notes(&rooms, &hosts);
    planner.prepare(image, &survey, &hosts);
    for sight in &survey.nodes {
        let host = hosts.get(sight.node.name.as_str()).map(String::as_str);
        let track = planner.machine(sight, host, image);
        planner.tracks.push(track);
    }
    let quorum = planner.cluster_life(&survey);
    planner.orphan_media(&survey);

    let nodes = planner.planned_nodes(&survey);
    let mut on_host: HashMap<&str, Vec<String>> = HashMap::new();
    for node in &nodes {
        if let Some(host) = &node.host {
            on_host.entry(host).or_default().push(node.name.clone());
        }
    }
    let hosts = rooms.budgets(&before, &on_host);
    Ok(Plan {
        format: FORMAT,
        purpose: Purpose::Apply,
        cluster: cluster.name.clone(),
        uuid: cluster.uuid,
        intent: digest::intent(cluster),
        basis: basis::basis(cluster, world),
        versions: versions(cluster, world),
        nodes,
        steps: planner.graph.steps,
        hosts,
        quorum,
        notes: planner.notes.sorted(),
    })
}

pub(crate) fn versions(cluster: &Cluster, world: &World) -> Versions {
    Versions {
        talos: format!("v{}", cluster.talos.version),
        kubernetes: format!("v{}", cluster.kubernetes.version),
        proxmox: world.proxmox_version.clone(),
    }
}

fn supported(cluster: &Cluster) -> Result<(), PlanError> {
    if (cluster.boot.from, cluster.boot.config) == (BootFrom::DiskImage, BootConfig::Cidata) {
        return Ok(());
    }
    let word = |value: serde_json::Result<serde_json::Value>| match value {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    };
    Err(PlanError::Boot {
        from: word(serde_json::to_value(cluster.boot.from)),
        config: word(serde_json::to_value(cluster.boot.config)),
    })
}

/// A node on its way: the steps later ones depend on.
#[derive(Debug, Default)]
struct Track<'w> {
    /// Host its VM is or will be on.
    host: Option<String>,
    /// What its VM waits for before it can answer; none if it runs already.
    running: Option<StepId>,
    /// Whether the node can be expected to answer at all.
    reachable: bool,
    /// [`Action::AwaitApi`].
    api: Option<StepId>,
    /// The medium to eject and delete once it answers.
    medium: Option<String>,
    /// A change of the network card of a running control plane, to be done one by one.
    network: Option<(Change, Present<'w>)>,
    created: bool,
}

struct Planner<'w> {
    cluster: &'w Cluster,
    world: &'w World,
    digests: NodeDigests<'w>,
    graph: Graph,
    notes: Notes,
    secrets: Option<StepId>,
    volumes: Volumes<'w>,
    image: ImageSteps,
    /// In declared order, as [`Survey::nodes`].
    tracks: Vec<Track<'w>>,
    /// Media this plan uploads, leaves in a drive, or deletes together with their node's other steps.
    known_media: HashSet<Place>,
}

impl<'w> Planner<'w> {
    /// What concerns the whole plan.
    fn general_notes(&mut self, survey: &Survey<'w>, control_planes_possible: bool) {
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
                Some("set `tls: {fingerprint: …}` or `tls: {ca: …}`".to_owned()),
            );
        }
        for blind in &self.world.blind {
            self.notes.warning(blind.what.clone(), format!("Could not be seen: {}", blind.why));
        }
        for guest in &survey.undeclared {
            self.notes.info(
                full_name(guest),
                "Belongs to this cluster, but the inventory no longer names its node. It is left as it is.",
            );
        }
        let waiting: Vec<String> = survey
            .nodes
            .iter()
            .filter(|sight| matches!(sight.state, State::Absent) && sight.node.role == Role::Worker)
            .map(|sight| sight.node.name.clone())
            .collect();
        if !control_planes_possible && !waiting.is_empty() {
            self.notes.problem(
                crate::error::some_of(&waiting),
                "Not created: no control plane can come up, and a worker gets its certificate from one.",
                None,
            );
        }
    }

    /// What concerns the hosts' room.
    fn room_notes(&mut self, rooms: &Rooms, hosts: &HashMap<&str, String>) {
        let used: HashSet<&str> = hosts.values().map(String::as_str).collect();
        for (at, room) in rooms.rooms.iter().enumerate() {
            if let Some(unusable) = room.unusable.as_ref().filter(|_| room.declared) {
                let text = format!("No new nodes go there: {}.", unusable.why);
                self.notes.add(Level::Warning, format!("host {}", room.host), text, unusable.fix.clone());
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
        let control_planes: Vec<&Node> = self.cluster.control_planes().collect();
        for host in &self.cluster.proxmox.hosts {
            let there = control_planes
                .iter()
                .filter(|node| hosts.get(node.name.as_str()) == Some(&host.name))
                .count();
            if there > 1 && there > control_planes.len() / 2 {
                let text = format!(
                    "Holds {there} of {} control planes: etcd cannot outlive it.",
                    control_planes.len()
                );
                self.notes.info(format!("host {}", host.name), text);
            }
        }
    }

    /// Secrets, outputs and images.
    fn prepare(&mut self, image: &ImageRef, survey: &Survey<'w>, hosts: &HashMap<&str, String>) {
        let nothing = Subject::default();
        // With hosts we cannot look at, VMs with other secrets may exist: no new secrets then.
        if !self.world.secrets_stored && self.world.unlisted_hosts.is_empty() {
            let reason = "this cluster has none yet";
            self.secrets = Some(self.graph.add(nothing, Action::CreateSecrets, reason, []));
        }
        if !self.world.outputs_current && (self.world.secrets_stored || self.secrets.is_some()) {
            let reason = "they are missing or older than the inventory";
            self.graph.add(nothing, Action::WriteOutputs, reason, [self.secrets]);
        }
        // In declared order of nodes, so that the same input gives the same bytes.
        let wanted =
            survey.nodes.iter().filter_map(|sight| hosts.get(sight.node.name.as_str())).map(String::as_str);
        self.image =
            ImageSteps::plan(self.cluster, image, self.world, &self.volumes, wanted, &mut self.graph);
    }

    /// Everything up to the point where the VM runs with its config in reach.
    fn machine(&mut self, sight: &Sight<'w>, place: Option<&str>, image: &ImageRef) -> Track<'w> {
        match sight.state {
            State::Absent => match place {
                Some(host) => self.create(sight.node, host, image),
                None => Track::default(),
            },
            State::Creating { guest, upid } => {
                let subject = Subject { node: Some(&sight.node.name), host: Some(&guest.host) };
                let vmid = sight.node.vmid;
                let action = Action::AwaitCreate { vmid, upid: upid.to_owned() };
                let made =
                    self.graph.add(subject, action, "an earlier run began to create it", [self.secrets]);
                let (volid, file) = self.medium_of(sight.node);
                let uploaded = match self.volume_exists(&guest.host, &volid) {
                    true => None,
                    false => Some(self.upload(sight.node, &guest.host, &file, "its config medium is gone")),
                };
                self.known_media.insert(self.volumes.place(&guest.host, &volid));
                self.grow_and_start(sight.node, &guest.host, volid, [Some(made), uploaded])
            }
            State::Present(present) => self.existing(sight, present),
            State::Blocked { .. } => Track::default(),
        }
    }

    fn create(&mut self, node: &Node, host: &str, image: &ImageRef) -> Track<'w> {
        let subject = Subject { node: Some(&node.name), host: Some(host) };
        let (volid, file) = self.medium_of(node);
        let uploaded = self.upload(node, host, &file, "its machine config, for the first boot");
        let action = Action::CreateVm {
            vmid: node.vmid,
            image: names::image_volid(&self.cluster.proxmox.images_storage, &image.file),
            media: volid.clone(),
            digest: self.digests.of(node).to_owned(),
        };
        let needs = [Some(uploaded), self.image.ready_on(&self.volumes, host, image)];
        let made = self.graph.add(subject, action, "declared, and not there", needs);
        let mut track = self.grow_and_start(node, host, volid, [Some(made), None]);
        track.created = true;
        track
    }

    /// The way of a VM that was just made.
    fn grow_and_start(
        &mut self,
        node: &Node,
        host: &str,
        volid: String,
        made: [Option<StepId>; 2],
    ) -> Track<'w> {
        let subject = Subject { node: Some(&node.name), host: Some(host) };
        let (vmid, size) = (node.vmid, node.disk);
        let reason = "the imported image is smaller";
        let grown = self.graph.add(subject, Action::GrowDisk { vmid, size }, reason, made);
        let reason = "first boot, straight into its config";
        let started = self.graph.add(subject, Action::StartVm { vmid }, reason, [Some(grown)]);
        Track {
            host: Some(host.to_owned()),
            running: Some(started),
            reachable: true,
            medium: Some(volid),
            ..Track::default()
        }
    }

    /// A VM that is there: what it lacks.
    fn existing(&mut self, sight: &Sight<'w>, present: Present<'w>) -> Track<'w> {
        let Present { guest, config, digest } = present;
        let node = sight.node;
        let subject = Subject { node: Some(&node.name), host: Some(&guest.host) };
        let wanted_digest = self.digests.of(node).to_owned();
        let (current, up, vmid) = (wanted_digest == digest, sight.up(), node.vmid);
        let mut track =
            Track { host: Some(guest.host.clone()), reachable: guest.running, ..Track::default() };
        let attached = config.media.as_deref().filter(|volid| self.is_medium_of(node, volid));
        if let Some(volid) = attached {
            self.known_media.insert(self.volumes.place(&guest.host, volid));
            track.medium = Some(volid.to_owned());
        }
        let maintenance = guest.running && matches!(sight.view.talos, TalosView::Maintenance);
        if !current && !maintenance {
            self.notes.warning(
                node.name.clone(),
                "Its declared machine config changed after it was made. A running node's config is not changed by \
                 this plan.",
            );
        }
        if let Some(lock) = &guest.lock {
            track.medium = None;
            let text = format!(
                "Its VM {vmid} is locked ({lock}). It is left as it is{}; run again when the lock is gone.",
                if guest.running { "" } else { ", stopped" }
            );
            let level = if guest.running { Level::Warning } else { Level::Problem };
            self.notes.add(level, node.name.clone(), text, None);
            return track;
        }
        if config.pending {
            self.notes.info(node.name.clone(), "Has changes that take effect at its next start.");
        }
        let drift = drift(self.cluster, node, &present, current);
        if drift.mac_held_back {
            self.notes.warning(
                node.name.clone(),
                format!(
                    "Its network card has the MAC {}, not the declared {}; its own config names the old one, so the \
                     card is left as it is.",
                    config.mac, node.mac
                ),
            );
        }
        let mut changes = drift.quiet;
        if maintenance && !current {
            // It gets the declared config now, so its mark may say so.
            changes.push(Change {
                option: "description".to_owned(),
                from: digest.to_owned(),
                to: wanted_digest,
                needs_restart: false,
            });
        }
        let mut impact = Impact::None;
        if let Some(change) = drift.network {
            if node.role == Role::ControlPlane && guest.running && !maintenance {
                track.network = Some((change, present));
            } else {
                impact = if guest.running { Impact::Interrupt } else { Impact::None };
                changes.push(change);
            }
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
            let (has, declared) = (size::show(config.disk), size::show(node.disk));
            self.notes.info(
                node.name.clone(),
                format!("Its disk has {has}, declared are {declared}: disks only grow."),
            );
        }
        if !up {
            done.extend(self.media_for(sight, &present, attached, maintenance, &mut track));
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
        if start {
            let reason = if maintenance { "boots into its config" } else { "it is stopped" };
            track.running = Some(self.graph.add(subject, Action::StartVm { vmid }, reason, done));
            track.reachable = true;
        } else {
            track.running = done.into_iter().flatten().last();
        }
        track
    }

    /// Sees to it that a node which does not answer yet has its config medium, if it still needs one.
    fn media_for(
        &mut self,
        sight: &Sight<'w>,
        present: &Present<'w>,
        attached: Option<&str>,
        maintenance: bool,
        track: &mut Track<'w>,
    ) -> Vec<Option<StepId>> {
        let (node, guest) = (sight.node, present.guest);
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

    /// etcd, the endpoint, readiness; and the media go as soon as they are not needed.
    fn cluster_life(&mut self, survey: &Survey<'w>) -> Quorum {
        let count = survey.nodes.len();
        let is_control_plane = |at: usize| survey.nodes[at].node.role == Role::ControlPlane;
        let control_planes: Vec<usize> = (0..count).filter(|at| is_control_plane(*at)).collect();
        let workers: Vec<usize> = (0..count).filter(|at| !is_control_plane(*at)).collect();

        for at in &control_planes {
            self.await_api(&survey.nodes[*at], *at, &[]);
        }
        let verdict = bootstrap::judge(self.cluster, self.world, survey, |at| self.tracks[at].reachable);
        let bootstrap = self.bootstrap(&verdict, survey, &control_planes);
        let some_up = control_planes.iter().any(|at| survey.nodes[*at].up());
        let apis: Vec<Option<StepId>> = control_planes.iter().map(|at| self.tracks[*at].api).collect();

        let mut joined: Vec<Option<StepId>> = vec![None; count];
        let mut quorum = Quorum::default();
        for at in &control_planes {
            let (sight, track) = (&survey.nodes[*at], &self.tracks[*at]);
            let member = sight.view.etcd == EtcdView::Member;
            quorum.before += u32::from(member);
            if member || !(track.reachable || sight.up()) {
                quorum.after += u32::from(member);
                continue;
            }
            let reason = match (track.created, &verdict) {
                (_, Verdict::Here(target)) if target == at => "the others join it",
                (true, _) => "it joins etcd by itself",
                (false, _) => "it is not a voting member",
            };
            let subject = Subject { node: Some(&sight.node.name), host: None };
            joined[*at] = Some(self.graph.add(subject, Action::AwaitEtcd, reason, [track.api, bootstrap]));
            quorum.after += 1;
        }
        quorum.lowest = quorum.before.min(quorum.after);
        let interrupted = self.networks_one_by_one(survey, &control_planes, &mut joined);
        // A single member keeps its quorum of one whatever happens to its network.
        quorum.lowest -= u32::from(interrupted && quorum.before > 1);

        let mut endpoint = None;
        let expected = control_planes.iter().any(|at| self.tracks[*at].reachable || survey.nodes[*at].up());
        if !self.world.endpoint_answers && expected {
            let needs: Vec<Option<StepId>> = match bootstrap {
                Some(step) => vec![Some(step)],
                None if some_up => vec![],
                None => apis.clone(),
            };
            let reason = format!(
                "https://{}:{} does not answer yet",
                self.cluster.kubernetes.endpoint_host, self.cluster.kubernetes.endpoint_port
            );
            endpoint = Some(self.graph.add(Subject::default(), Action::AwaitEndpoint, reason, needs));
        }
        // A worker's API needs a certificate from some control plane's trustd: if one is up, nothing to wait for.
        let trust = if some_up { vec![] } else { apis };
        if expected {
            for at in workers {
                self.await_api(&survey.nodes[at], at, &trust);
            }
            self.await_ready(survey, &joined, endpoint);
        }
        quorum
    }

    fn await_api(&mut self, sight: &Sight<'w>, at: usize, trust: &[Option<StepId>]) {
        let track = &self.tracks[at];
        let (running, reachable, host) = (track.running, track.reachable, track.host.clone());
        let subject = Subject { node: Some(&sight.node.name), host: None };
        if !sight.up() && reachable {
            let reason = match running {
                Some(_) => "its config must be in force",
                None => "it does not answer",
            };
            let needs = trust.iter().copied().chain([running]);
            self.tracks[at].api = Some(self.graph.add(subject, Action::AwaitApi, reason, needs));
        }
        // As soon as the node answers over mTLS it has its config and keeps it on its own disk: the medium with its
        // keys need not wait for etcd or Kubernetes, and the shorter it lies on the storage the better. Should the node
        // lose the config all the same, it comes up in maintenance mode, and the next run gives it a new medium.
        let answers = sight.up() || self.tracks[at].api.is_some();
        let (Some(host), Some(volid), true) = (host, self.tracks[at].medium.take(), answers) else { return };
        let subject = Subject { node: Some(&sight.node.name), host: Some(&host) };
        let action = Action::EjectMedia { vmid: sight.node.vmid };
        let ejected = self.graph.add(subject, action, "the node has its config", [self.tracks[at].api]);
        self.graph.add(subject, Action::DeleteMedia { volid }, "it holds keys", [Some(ejected)]);
    }

    fn await_ready(&mut self, survey: &Survey<'w>, joined: &[Option<StepId>], endpoint: Option<StepId>) {
        let mut unready = false;
        for (at, sight) in survey.nodes.iter().enumerate() {
            let track = &self.tracks[at];
            if sight.view.ready == Some(true) || !(track.reachable || sight.up()) {
                continue;
            }
            unready = true;
            if self.cluster.kubernetes.cni == Cni::None {
                continue;
            }
            let reason = match sight.view.ready {
                Some(_) => "Kubernetes calls it NotReady",
                None if track.created => "the last thing a new node needs",
                None => "Kubernetes does not know it yet",
            };
            let subject = Subject { node: Some(&sight.node.name), host: None };
            let needs = [track.api, joined[at], endpoint];
            self.graph.add(subject, Action::AwaitReady, reason, needs);
        }
        if unready && self.cluster.kubernetes.cni == Cni::None {
            let text = "Nodes stay NotReady until an add-on brings a network (`cni: none`), so this plan does not wait \
                        for them.";
            self.notes.info("kubernetes.cni", text);
        }
    }

    fn bootstrap(
        &mut self,
        verdict: &Verdict,
        survey: &Survey<'w>,
        control_planes: &[usize],
    ) -> Option<StepId> {
        match verdict {
            Verdict::Here(target) => {
                // New ones cannot have an etcd; every other one is asked before.
                let asked = control_planes
                    .iter()
                    .filter(|at| *at == target || !matches!(survey.nodes[**at].state, State::Absent))
                    .map(|at| self.tracks[*at].api);
                let asked: Vec<_> = asked.collect();
                let name = &survey.nodes[*target].node.name;
                let subject = Subject { node: Some(name), host: None };
                let first = control_planes.first() == Some(target);
                let reason = match first {
                    true => "no control plane has an etcd yet; once, on the first",
                    false => "no control plane has an etcd yet; the first is in trouble, so here",
                };
                Some(self.graph.add(subject, Action::Bootstrap, reason, asked))
            }
            Verdict::Exists | Verdict::Nowhere => None,
            Verdict::Unsure(suspects) => {
                self.notes.add(
                    Level::Warning,
                    "etcd",
                    format!(
                        "Not bootstrapped: {} may hold this cluster's etcd and cannot be asked. New control planes \
                         wait to join it.",
                        crate::error::some_of(suspects)
                    ),
                    Some("bring it back, or remove it for good, and run again".to_owned()),
                );
                None
            }
        }
    }

    /// Changes network cards of running control planes one at a time, each only after the one before is a voting
    /// member again. Says whether a voting member is interrupted.
    fn networks_one_by_one(
        &mut self,
        survey: &Survey<'w>,
        control_planes: &[usize],
        joined: &mut [Option<StepId>],
    ) -> bool {
        let members =
            control_planes.iter().filter(|at| survey.nodes[**at].view.etcd == EtcdView::Member).count();
        let settled = control_planes.iter().all(|at| {
            let sight = &survey.nodes[*at];
            sight.view.etcd == EtcdView::Member
        });
        let spare = settled && (members == 1 || members >= 3);
        let (mut previous, mut interrupted) = (None, false);
        for at in control_planes {
            let Some((change, present)) = self.tracks[*at].network.take() else { continue };
            let sight = &survey.nodes[*at];
            let member = sight.view.etcd == EtcdView::Member;
            if member && !spare {
                let text = format!(
                    "Its network card should become {}, but etcd could lose its quorum now ({members} of {} are \
                     voting members). Not done.",
                    change.to,
                    control_planes.len()
                );
                self.notes.warning(sight.node.name.clone(), text);
                continue;
            }
            interrupted |= member;
            let subject = Subject { node: Some(&sight.node.name), host: Some(&present.guest.host) };
            let action = Action::UpdateVm { vmid: sight.node.vmid, changes: vec![change] };
            let reason = "it differs from the inventory; one control plane at a time";
            // If it does not answer now, the wrong card may be why: change first, then wait as planned.
            let needs = [previous, self.tracks[*at].running, if member { joined[*at] } else { None }];
            let changed = self.graph.add_with(subject, action, reason, needs, Impact::Interrupt);
            let subject = Subject { node: Some(&sight.node.name), host: None };
            let api = self.graph.add(
                subject,
                Action::AwaitApi,
                "it must answer on the changed network",
                [Some(changed)],
            );
            let reason = "etcd must be whole before the next one";
            let back = self.graph.add(subject, Action::AwaitEtcd, reason, [Some(api)]);
            joined[*at] = Some(back);
            previous = Some(back);
        }
        interrupted
    }

    /// Config media nobody needs any more: they hold keys.
    fn orphan_media(&mut self, survey: &Survey<'w>) {
        let keep: HashSet<&str> = survey
            .nodes
            .iter()
            .filter(|sight| matches!(sight.state, State::Blocked { keep_media: true, .. }))
            .map(|sight| sight.node.name.as_str())
            .collect();
        let mut users: HashMap<&str, Vec<&crate::world::GuestView>> = HashMap::new();
        for guest in self.world.guests.values() {
            if let Some(volid) = guest.config.as_ref().and_then(|config| config.media.as_deref()) {
                users.entry(volid).or_default().push(guest);
            }
        }
        let declared: HashSet<&str> = survey.nodes.iter().map(|sight| sight.node.name.as_str()).collect();
        for volume in self.volumes.all() {
            let Some(node) = names::media_node(self.cluster, names::volid_file(&volume.volid)) else {
                continue;
            };
            let known = self.known_media.contains(&self.volumes.place(&volume.host, &volume.volid));
            if volume.content != "iso" || keep.contains(node) || known {
                continue;
            }
            let user = users
                .get(volume.volid.as_str())
                .and_then(|guests| guests.iter().find(|guest| self.volumes.same(&guest.host, &volume.host)));
            if let Some(guest) = user {
                let text = format!(
                    "The config medium {} is in the drive of {}; it holds keys, but is not deleted while it is used.",
                    volume.volid,
                    full_name(guest)
                );
                self.notes.warning(node, text);
                continue;
            }
            let subject = Subject { node: declared.contains(node).then_some(node), host: Some(&volume.host) };
            let action = Action::DeleteMedia { volid: volume.volid.clone() };
            self.graph.add(subject, action, "left over, and it holds keys", []);
        }
    }

    fn planned_nodes(&self, survey: &Survey<'w>) -> Vec<PlannedNode> {
        let touched: HashSet<&str> =
            self.graph.steps.iter().filter_map(|step| step.node.as_deref()).collect();
        let planned = survey.nodes.iter().zip(&self.tracks).map(|(sight, track)| {
            let node = sight.node;
            let fate = match sight.state {
                State::Absent if track.created => Fate::Create,
                State::Absent | State::Blocked { .. } => Fate::Blocked,
                State::Creating { .. } => Fate::Create,
                State::Present(_) if touched.contains(node.name.as_str()) => Fate::Change,
                State::Present(present) if present.locked() && !present.guest.running => Fate::Blocked,
                State::Present(_) => Fate::Keep,
            };
            PlannedNode {
                name: node.name.clone(),
                role: Some(node.role),
                vmid: node.vmid,
                host: track.host.clone().or_else(|| sight.host().map(str::to_owned)),
                address: node.address.addr().to_string(),
                cores: node.cores,
                memory: node.memory,
                disk: node.disk,
                fate,
            }
        });
        planned.collect()
    }

    fn upload(&mut self, node: &Node, host: &str, file: &str, reason: &str) -> StepId {
        let subject = Subject { node: Some(&node.name), host: Some(host) };
        let storage = self.cluster.proxmox.images_storage.clone();
        self.known_media.insert(self.volumes.place(host, &names::media_volid(&storage, file)));
        let action = Action::UploadMedia { storage, file: file.to_owned() };
        self.graph.add(subject, action, reason, [self.secrets])
    }

    /// Volume id and file name of the medium a node gets now.
    fn medium_of(&self, node: &Node) -> (String, String) {
        let file = names::media_file_of(self.cluster, &node.name, self.digests.of(node));
        (names::media_volid(&self.cluster.proxmox.images_storage, &file), file)
    }

    /// Whether a volume is a config medium of this node, of whatever age.
    fn is_medium_of(&self, node: &Node, volid: &str) -> bool {
        names::media_node(self.cluster, names::volid_file(volid)) == Some(node.name.as_str())
    }

    fn volume_exists(&self, host: &str, volid: &str) -> bool {
        self.volumes.find(host, volid).is_some()
    }
}
