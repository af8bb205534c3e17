//! `plan_apply`: what must happen so that the world becomes what the inventory says.

pub(crate) mod addons;
mod config;
mod existing;
mod life;
mod machine;
mod media;
mod notes;
mod restart;
mod template;

use std::collections::{HashMap, HashSet};

use daedal_inventory::{BootConfig, BootFrom, Cluster, Host, Node, Role};
use daedal_machine::vm::Change;

use self::addons::AddonSteps;
use self::config::NewConfig;
use crate::advice::Advice;
use crate::bootstrap::{self, Voters};
use crate::capacity::{Rooms, by_host};
use crate::config::config_fate;
use crate::difference::{self, Difference, Remedy, Stays};
use crate::digest::NodeDigests;
use crate::error::{PlanError, WhyNoRestore, without_import};
use crate::graph::{Graph, Subject};
use crate::image::ImageSteps;
use crate::names::{Content, Images};
use crate::placement::place;
use crate::plan::{Action, Fate, Note, Plan, PlannedNode, Purpose, Recovery, Step, StepId};
use crate::survey::{NodeSurvey, Notes, State, Survey, full_name};
use crate::volumes::{Place, Volumes};
use crate::world::World;

/// Plans how to make the world what the inventory says. Nodes that something stands in the way of are left alone and
/// named in a note; the rest goes on as far as it can.
pub fn plan_apply(cluster: &Cluster, images: &Images, world: &World) -> Result<Plan, PlanError> {
    plan(cluster, images, world, None)
}

/// Plans the same for a cluster that has no etcd, which then begins with a snapshot. Refused where it may have one, and
/// where the secrets with which the snapshot can be read are not in the store.
pub fn plan_restore(
    cluster: &Cluster,
    images: &Images,
    world: &World,
    snapshot: &Recovery,
) -> Result<Plan, PlanError> {
    let refused = |why: WhyNoRestore| PlanError::NoRestore { cluster: cluster.name.clone(), why };
    if !world.secrets_stored {
        return Err(refused(WhyNoRestore::NoSecrets));
    }
    if bootstrap::exists(cluster, world) {
        return Err(refused(WhyNoRestore::EtcdLives));
    }
    let plan = plan(cluster, images, world, Some(snapshot))?;
    if plan.steps.iter().any(|step| matches!(step.action, Action::Bootstrap { .. })) {
        return Ok(plan);
    }
    let in_doubt = |note: &&Note| matches!(note.advice, Advice::EtcdInDoubt { .. });
    let etcd = plan.notes.iter().find(in_doubt).or(plan.notes.first());
    Err(refused(match etcd {
        Some(note) => WhyNoRestore::Blocked(Box::new(note.advice.clone())),
        None => WhyNoRestore::NoControlPlane,
    }))
}

fn plan(
    cluster: &Cluster,
    images: &Images,
    world: &World,
    recover: Option<&Recovery>,
) -> Result<Plan, PlanError> {
    supported(cluster, world)?;
    let survey = Survey::new(cluster, world);
    secrets_at_hand(cluster, world)?;
    let control_planes_possible = survey.nodes.iter().any(|surveyed| {
        surveyed.node.role == Role::ControlPlane && !matches!(surveyed.state, State::Blocked { .. })
    });
    let creatable = |node: &Node| node.role == Role::ControlPlane || control_planes_possible;
    // Before any place is looked for: what hosts lack for an import is not what is wrong.
    let to_make =
        |surveyed: &NodeSurvey<'_>| matches!(surveyed.state, State::Absent) && creatable(surveyed.node);
    if cluster.boot.from == BootFrom::DiskImage && survey.nodes.iter().any(to_make) {
        can_import(cluster, world)?;
    }
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
        differences: Vec::new(),
        not_seen: world.unobserved.iter().map(|unobserved| unobserved.what.to_string()).collect(),
        voters: Voters::count(world, &survey),
        control_planes_possible,
        secrets: None,
        volumes: Volumes::new(cluster, world),
        image: ImageSteps::default(),
        tracks: Vec::with_capacity(survey.nodes.len()),
        known_media: HashSet::new(),
        first_contacts: Vec::new(),
        unprovable: Vec::new(),
        templates: HashMap::new(),
        recover,
        addons: AddonSteps::default(),
    };
    planner.general_notes(&survey);
    planner.upgrades(images, &survey);
    planner.room_notes(&rooms, &hosts);
    planner.prepare(images, &survey, &hosts);
    for surveyed in &survey.nodes {
        let host = hosts.get(surveyed.node.name.as_str()).map(String::as_str);
        let track = planner.machine(surveyed, host, images);
        planner.tracks.push(track);
    }
    let created = planner.tracks.iter().any(|track| track.created);
    if created && !cluster.network.discovered {
        planner.outputs_of_new();
    }
    planner.single_points(&survey);
    let quorum = planner.cluster_life(&survey);
    if cluster.network.discovered {
        // The addresses in them are known once the nodes answer.
        planner.outputs(planner.tracks.iter().map(|track| track.api).collect());
    }
    planner.orphan_media(&survey);
    planner.first_contact_note()?;
    planner.secure_boot_note();

    let nodes = planner.planned_nodes(&survey);
    let hosts = rooms.budgets(&before, &by_host(&nodes));
    let (steps, differences, mut not_seen) = (planner.graph.steps, planner.differences, planner.not_seen);
    not_seen.sort();
    not_seen.dedup();
    planner.notes.0.extend(difference::notes(&differences));
    let notes = planner.notes.sorted();
    // A template that is there already can be cloned without one.
    if steps.iter().any(imports) {
        can_import(cluster, world)?;
    }
    let plan = Plan::empty(Purpose::Apply, cluster, world);
    let unseen = !not_seen.is_empty();
    Ok(Plan { nodes, steps, hosts, quorum, notes, differences, unseen, not_seen, ..plan })
}

/// Refuses where nodes of this cluster could not be created, before those that there are are destroyed.
pub fn can_create(cluster: &Cluster, world: &World) -> Result<(), PlanError> {
    supported(cluster, world)?;
    let imports = match cluster.boot.from {
        BootFrom::DiskImage => true,
        // A template that is there already can be cloned without one.
        BootFrom::Iso | BootFrom::Template => false,
    };
    if imports { can_import(cluster, world) } else { Ok(()) }
}

/// Refuses where this Proxmox is too old to import disk images.
fn can_import(cluster: &Cluster, world: &World) -> Result<(), PlanError> {
    if !world.cannot_import {
        return Ok(());
    }
    Err(PlanError::NoImport { version: world.proxmox_version.clone(), instead: without_import(cluster) })
}

/// Refuses where VMs may have been made with secrets that are not in the store.
fn secrets_at_hand(cluster: &Cluster, world: &World) -> Result<(), PlanError> {
    let vms = Survey::vms_with_secrets(world);
    if let (false, [first, ..]) = (world.secrets_stored, &vms[..]) {
        return Err(PlanError::SecretsLost {
            cluster: cluster.name.clone(),
            vms: vms.len(),
            example: full_name(first),
        });
    }
    if let (false, Some((guest, why))) = (world.secrets_stored, Survey::doubtful_vm(cluster, world)) {
        return Err(PlanError::SecretsInDoubt {
            cluster: cluster.name.clone(),
            guest: full_name(guest),
            why: why.to_owned(),
        });
    }
    Ok(())
}

fn supported(cluster: &Cluster, world: &World) -> Result<(), PlanError> {
    let wanted = cluster.talos.arch;
    let is = |host: &Host| world.hosts.get(&host.name)?.arch;
    let mut known = cluster.proxmox.hosts.iter().filter_map(|host| Some((host.name.clone(), is(host)?)));
    if let Some((host, is)) = known.find(|(_, is)| *is != wanted) {
        return Err(PlanError::Arch { host, is, wanted });
    }
    let built = match (cluster.boot.from, cluster.boot.config) {
        (BootFrom::Template, BootConfig::Meta) => false,
        (BootFrom::Template, _) => cluster.boot.template.is_some(),
        (BootFrom::DiskImage | BootFrom::Iso, _) => true,
    };
    if built {
        return one_way_for_snippets(cluster, world);
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

/// Refuses snippets where one SSH server does not see the storage of every host.
fn one_way_for_snippets(cluster: &Cluster, world: &World) -> Result<(), PlanError> {
    let storage = &cluster.proxmox.images_storage;
    let shared = |host: &Host| {
        world.hosts.get(&host.name).and_then(|seen| seen.storages.get(storage)).is_none_or(|seen| seen.shared)
    };
    let several = cluster.proxmox.hosts.len() > 1 && !cluster.proxmox.hosts.iter().all(shared);
    match cluster.boot.by_snippet() && several {
        true => Err(PlanError::SnippetsApart { storage: storage.clone() }),
        false => Ok(()),
    }
}

fn imports(step: &Step) -> bool {
    match &step.action {
        Action::DownloadImage { content, .. } => *content == Content::Import,
        Action::CreateVm { image, .. } => image.is_some(),
        Action::MakeTemplate { through, .. } => through.is_none(),
        _ => false,
    }
}

/// A node on its way: the steps later ones depend on.
#[derive(Debug, Default)]
struct Track {
    /// Host its VM is or will be on.
    host: Option<String>,
    /// What its VM waits for before it can answer; nothing if it runs already and stays as it is.
    running: Vec<StepId>,
    /// Whether the node can be expected to answer at all.
    reachable: bool,
    /// [`Action::AwaitApi`].
    api: Option<StepId>,
    /// Whether it is given its config in maintenance mode before it can answer.
    waits: bool,
    /// Whether its mark still says that it waits for its config.
    unsettled: bool,
    /// Whether a boot ISO is in its drive.
    iso: bool,
    /// The medium to eject and delete once it answers.
    medium: Option<String>,
    /// A change of the network card of a voting member, to be done one by one.
    network: Option<Change>,
    /// Whether its network is interrupted although it may vote, because all others surely do.
    interrupted: bool,
    /// Hardware that the VM gets when it starts again.
    waiting: Vec<Change>,
    /// The config that the running node is to get.
    config: Option<NewConfig>,
    /// The step after which it runs on that.
    configured: Option<StepId>,
    created: bool,
}

impl Track {
    fn running(&self) -> impl Iterator<Item = Option<StepId>> + '_ {
        self.running.iter().copied().map(Some)
    }
}

struct Planner<'w> {
    cluster: &'w Cluster,
    world: &'w World,
    digests: NodeDigests<'w>,
    graph: Graph,
    notes: Notes,
    /// What is not as declared and stays so.
    differences: Vec<Difference>,
    /// What could not be seen or compared.
    not_seen: Vec<String>,
    voters: Voters,
    /// Whether any control plane can ever come up.
    control_planes_possible: bool,
    secrets: Option<StepId>,
    volumes: Volumes<'w>,
    image: ImageSteps,
    /// In declared order, as [`Survey::nodes`].
    tracks: Vec<Track>,
    /// Media this plan uploads, leaves in a drive, or deletes together with their node's other steps.
    known_media: HashSet<Place>,
    /// Nodes that get their config from us without having proved who they are.
    first_contacts: Vec<String>,
    /// Nodes that must prove who they are and cannot.
    unprovable: Vec<String>,
    /// Templates by role and host, as far as they were asked for.
    templates: HashMap<(Role, String), Option<template::Ready>>,
    /// What a new etcd begins with.
    recover: Option<&'w Recovery>,
    addons: AddonSteps,
}

impl<'w> Planner<'w> {
    /// Counts something that stays other than declared: as it is declared, and as it is.
    fn differ(
        &mut self,
        node: &Node,
        what: &str,
        [declared, found]: [&str; 2],
        stays: Stays,
        remedy: Option<Remedy>,
    ) {
        self.differences.push(Difference {
            node: node.name.clone(),
            what: what.to_owned(),
            declared: declared.to_owned(),
            found: found.to_owned(),
            stays,
            remedy,
        });
    }

    /// Secrets, outputs and images.
    fn prepare(&mut self, images: &Images, survey: &Survey<'w>, hosts: &HashMap<&str, String>) {
        let nothing = Subject::default();
        // With hosts we cannot look at, VMs with other secrets may exist: no new secrets then.
        if !self.world.secrets_stored && self.world.unlisted_hosts.is_empty() {
            let reason = "this cluster has none yet";
            self.secrets = Some(self.graph.add(nothing, Action::CreateSecrets, reason, []));
        }
        if !self.cluster.network.discovered {
            self.outputs(Vec::new());
        }
        // In declared order of nodes, so that the same input gives the same bytes.
        for surveyed in &survey.nodes {
            if config_fate(self.cluster, surveyed.node, &surveyed.view.config).brings_installer() {
                images.schematics(&surveyed.node.name).for_each(|schematic| {
                    self.image.register(schematic, &mut self.graph);
                });
            }
            let host = match hosts.get(surveyed.node.name.as_str()) {
                Some(host) => host,
                None => match self.lost_iso(surveyed) {
                    Some(host) => host,
                    None => continue,
                },
            };
            // A template's image goes where the template is made.
            if let Some(image) = images.of(&surveyed.node.name).filter(|_| !self.cluster.boot.clones()) {
                self.image.bring(self.cluster, image, self.world, &self.volumes, host, &mut self.graph);
            }
            if let Some(schematic) = &images.installer {
                self.image.register(schematic, &mut self.graph);
            }
        }
    }

    /// The files for the cluster's users, after whatever they tell of is known.
    fn outputs(&mut self, mut after: Vec<Option<StepId>>) {
        if self.world.outputs_current || !(self.world.secrets_stored || self.secrets.is_some()) {
            return;
        }
        let reason = match &self.world.credentials_end {
            Some(day) => format!("their client certificates end on {day}"),
            None => "they are missing or older than the inventory".to_owned(),
        };
        after.push(self.secrets);
        self.graph.add(Subject::default(), Action::WriteOutputs, reason, after);
    }

    /// The same where they are current but for the hosts of VMs that this plan creates.
    fn outputs_of_new(&mut self) {
        let planned = self.graph.steps.iter().any(|step| step.action == Action::WriteOutputs);
        if !planned && self.world.secrets_stored {
            let reason = "they name the hosts of the nodes";
            self.graph.add(Subject::default(), Action::WriteOutputs, reason, []);
        }
    }

    /// The host of a VM that never ran from its disk and whose boot ISO may not be there any more.
    fn lost_iso(&self, surveyed: &NodeSurvey<'w>) -> Option<&'w str> {
        let present = match surveyed.state {
            _ if !self.can_come_up(surveyed) => return None,
            State::Present(present) => present,
            State::Creating { guest, .. } if self.cluster.boot.installs() => return Some(&guest.host),
            _ => return None,
        };
        let iso =
            present.boot_iso(self.cluster).filter(|iso| self.cluster.boot.iso.as_deref() != Some(iso))?;
        let lost = !surveyed.up() && self.volumes.find(&present.guest.host, iso).is_none();
        lost.then_some(present.guest.host.as_str())
    }

    fn planned_nodes(&self, survey: &Survey<'w>) -> Vec<PlannedNode> {
        let touched: HashSet<&str> =
            self.graph.steps.iter().filter_map(|step| step.node.as_deref()).collect();
        let planned = survey.nodes.iter().zip(&self.tracks).map(|(surveyed, track)| {
            let node = surveyed.node;
            let fate = match surveyed.state {
                State::Absent if track.created => Fate::Create,
                State::Absent | State::Blocked { .. } => Fate::Blocked,
                State::Creating { .. } if track.reachable => Fate::Create,
                State::Creating { .. } => Fate::Blocked,
                State::Present(_) if touched.contains(node.name.as_str()) => Fate::Change,
                State::Present(present) if present.locked() && !present.guest.running => Fate::Blocked,
                State::Present(_) if !self.can_come_up(surveyed) => Fate::Blocked,
                State::Present(_) => Fate::Keep,
            };
            PlannedNode {
                name: node.name.clone(),
                role: Some(node.role),
                vmid: node.vmid,
                host: track.host.clone().or_else(|| surveyed.host().map(str::to_owned)),
                address: self.world.address(node).map(|address| address.to_string()).unwrap_or_default(),
                cores: node.cores,
                memory: node.memory,
                disk: node.disk,
                fate,
            }
        });
        planned.collect()
    }
}
