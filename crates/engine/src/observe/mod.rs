//! Looks at the world: in few calls, in parallel, saying what it could not see.

pub(crate) mod clones;
mod config;
mod etcd;
pub(crate) mod guards;
pub(crate) mod guests;
mod identity;
mod lost_mark;
mod nodes;
mod space;
mod storages;
pub(crate) mod unseen;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use daedal_inventory::{Arch, Cluster, Node};
use daedal_machine::access::Credential;
use daedal_planner::{
    Aspect, Generation, GuestView, HostView, ImagePin, Judge, Ownership, SecretsId, StorageView, Unobserved,
    VolumeView, World,
};
use daedal_proxmox::{Client, Resource, imports_disk_images, permitted, release};
use daedal_talos_config::SecretsBundle;
use futures::future::join_all;
use futures::stream::{self, StreamExt};

use crate::addons;
use crate::addresses;
use crate::engine::{Engine, secrets_id};
use crate::error::{Error, chain};
use crate::privileges;
use daedal_machine::views::Hosts;

pub use self::identity::RunsOn;

/// Collects what could not be seen.
#[derive(Default)]
pub(crate) struct UnobservedList(std::sync::Mutex<Vec<Unobserved>>);

impl UnobservedList {
    pub(crate) fn add(&self, what: Aspect, why: &(dyn std::error::Error + 'static)) {
        self.say(what, chain(why));
    }

    pub(crate) fn say(&self, what: Aspect, why: impl Into<String>) {
        self.push(Unobserved::new(what, why));
    }

    pub(crate) fn push(&self, unobserved: Unobserved) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(unobserved);
    }

    pub(crate) fn take(self) -> Vec<Unobserved> {
        let mut all = self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Replies arrive in any order; the world does not depend on it.
        all.sort_by_cached_key(|one| (one.what.to_string(), one.why.clone()));
        all
    }
}

impl Engine {
    /// Looks at everything the plan depends on. Only Proxmox itself being out of reach, or a damaged store, is an
    /// error; whatever else cannot be seen is named in [`World::unobserved`].
    pub async fn observe(&self, cluster: &Cluster) -> Result<World, Error> {
        let secrets = self.stored_secrets().await?;
        let id = secrets.as_ref().map(secrets_id);
        let world = self.look(cluster, secrets.clone(), id).await?;
        Ok(self.look_at_addons(cluster, world, secrets.as_ref()).await)
    }

    /// The same but for add-ons, which are neither fetched nor asked for.
    pub async fn observe_machines(&self, cluster: &Cluster) -> Result<World, Error> {
        let secrets = self.stored_secrets().await?;
        let id = secrets.as_ref().map(secrets_id);
        self.look(cluster, secrets, id).await
    }

    /// The same where the store need not answer: what it could not be asked for is named, too.
    pub async fn observe_lacking(&self, cluster: &Cluster) -> Result<World, Error> {
        let (mut world, unread) = self.look_lacking(cluster).await?;
        if let Some(error) = unread.filter(|error| !self.store_is_gone(error)) {
            let why = format!("marks were not compared with them: {}", chain(&error));
            world.unobserved.push(Unobserved::new(Aspect::Secrets, why));
        }
        Ok(world)
    }

    /// The same, and why the secrets could not be read.
    pub(crate) async fn look_lacking(&self, cluster: &Cluster) -> Result<(World, Option<Error>), Error> {
        let unobserved = UnobservedList::default();
        let (secrets, unread) = match self.stored_secrets().await {
            Ok(secrets) => (secrets, None),
            Err(error) => (None, Some(error)),
        };
        let kept = match &unread {
            // A server that is gone is not waited for again.
            Some(error) if self.store_is_gone(error) => {
                unobserved.add(Aspect::Store, error);
                Kept::default()
            }
            _ => self.kept(cluster).await.unwrap_or_else(|error| {
                unobserved.add(Aspect::Store, &error);
                Kept::default()
            }),
        };
        let id = secrets.as_ref().map(secrets_id);
        Ok((self.look_knowing(cluster, secrets, id, kept, unobserved).await?, unread))
    }

    pub(crate) async fn look_at_addons(
        &self,
        cluster: &Cluster,
        mut world: World,
        secrets: Option<&SecretsBundle>,
    ) -> World {
        let unobserved = UnobservedList::default();
        let located = &*cluster.located(&world.addresses);
        world.addons = Box::pin(addons::look(self, located, &world, secrets, &unobserved)).await;
        world.unobserved.extend(unobserved.take());
        world
    }

    /// Looks at what is kept here alone, the store and the outputs: neither Proxmox nor a node is asked.
    pub async fn observe_kept(&self, cluster: &Cluster) -> Result<World, Error> {
        let secrets = self.stored_secrets().await?;
        let mut world = World {
            secrets_stored: secrets.is_some(),
            secrets_id: secrets.as_ref().map(secrets_id),
            known: self.parts.store.generation().await?,
            addresses: self.found_addresses().await?,
            ..World::default()
        };
        if let Some(secrets) = secrets {
            let cluster = &*cluster.located(&world.addresses);
            let hosts = self.outputs.hosts().await;
            let current = self.outputs.are_current(&self.configs(cluster, &secrets), &hosts).await;
            self.judge_outputs(&mut world, current, &self.outputs.credentials(self.parts.clock.now()).await);
        }
        Ok(world)
    }

    /// Outputs are current as long as the certificates in them do not end soon.
    fn judge_outputs(&self, world: &mut World, current: bool, credentials: &[Credential]) {
        let due = credentials.iter().filter(|credential| credential.due).map(|credential| credential.ends);
        world.credentials_end = due.min().map(|ends| ends.strftime("%Y-%m-%d").to_string());
        world.outputs_current = current && world.credentials_end.is_none();
    }

    /// Looks with other secrets than the stored ones, or with none: what answers to them is what runs on them. Which secrets
    /// a mark names does not matter then.
    pub async fn observe_with(
        &self,
        cluster: &Cluster,
        secrets: Option<SecretsBundle>,
    ) -> Result<World, Error> {
        self.look(cluster, secrets, None).await
    }

    /// Looks at Proxmox alone: hosts, guests and storages. Nodes are not asked.
    pub async fn observe_proxmox(&self, cluster: &Cluster) -> Result<World, Error> {
        self.look_at_proxmox_alone(cluster, self.secrets_id().await?).await
    }

    /// The same where the secrets may be unreadable: which ones a mark names does not matter then, which is said.
    pub(crate) async fn list_proxmox(&self, cluster: &Cluster) -> Result<World, Error> {
        match self.secrets_id().await {
            Ok(id) => self.look_at_proxmox_alone(cluster, id).await,
            Err(error) => {
                let mut world = self.look_at_proxmox_alone(cluster, None).await?;
                let why = format!("marks were not compared with them: {}", chain(&error));
                world.unobserved.push(Unobserved::new(Aspect::Secrets, why));
                Ok(world)
            }
        }
    }

    async fn look_at_proxmox_alone(&self, cluster: &Cluster, id: Option<SecretsId>) -> Result<World, Error> {
        let unobserved = UnobservedList::default();
        let world = self.look_at_proxmox(cluster, id, &unobserved).await?;
        let known = self.parts.store.generation().await?;
        Ok(World { unobserved: unobserved.take(), known, ..world })
    }

    async fn look_at_proxmox(
        &self,
        cluster: &Cluster,
        id: Option<SecretsId>,
        unobserved: &UnobservedList,
    ) -> Result<World, Error> {
        let proxmox = &self.parts.proxmox;
        let (version, resources) = tokio::try_join!(proxmox.version(), proxmox.resources())?;
        let cannot_import = !imports_disk_images(&version.version);
        let mut world = World { proxmox_version: version.version, cannot_import, ..World::default() };
        let declared: BTreeSet<&str> = cluster.proxmox.hosts.iter().map(|host| host.name.as_str()).collect();
        world.hosts = hosts(&resources, &declared);
        storages::find_disabled(proxmox, cluster, &mut world.hosts).await;

        let judge = Judge::knowing(cluster, id.clone());
        let (guests::Found { guests, unlisted, applied }, contents) = tokio::join!(
            guests::look(proxmox, &judge, cluster, &resources, &self.parts.limits, unobserved),
            storages::look(proxmox, cluster, &world.hosts, unobserved),
        );
        world.disks = contents.disks;
        world.guests = guests;
        world.applied = applied;
        // A VM of ours may have been moved to a host that is not declared.
        let holding = world
            .guests
            .values()
            .filter(|guest| matches!(guest.ownership, Ownership::Ours { .. } | Ownership::HalfMade { .. }));
        let seen: BTreeSet<&str> =
            holding.map(|guest| guest.host.as_str()).filter(|host| !declared.contains(host)).collect();
        world.hosts.extend(hosts(&resources, &seen));
        world.unlisted_hosts = unlisted;
        world.volumes = contents.volumes;
        world.secrets_stored = id.is_some();
        world.secrets_id = id;
        Ok(world)
    }

    pub(crate) async fn look(
        &self,
        cluster: &Cluster,
        secrets: Option<SecretsBundle>,
        id: Option<SecretsId>,
    ) -> Result<World, Error> {
        let kept = self.kept(cluster).await?;
        self.look_knowing(cluster, secrets, id, kept, UnobservedList::default()).await
    }

    /// Whether what kept the secrets from being read is that the store as a whole cannot be asked.
    fn store_is_gone(&self, error: &Error) -> bool {
        let whole = matches!(error, Error::Store(error) if error.of_the_whole());
        whole && !self.parts.store.keeps_bundle_apart()
    }

    /// What the store says besides the secrets.
    async fn kept(&self, cluster: &Cluster) -> Result<Kept, Error> {
        let store = &self.parts.store;
        let mut image_pins = Vec::new();
        for image in self.images(cluster).all() {
            let pin = store.pin(&image.file).await?;
            image_pins.extend(pin.map(|pin| ImagePin {
                file: pin.file,
                size: pin.size,
                sha256: pin.sha256,
                disk_size: pin.disk_size,
            }));
        }
        Ok(Kept { image_pins, known: store.generation().await? })
    }

    async fn look_knowing(
        &self,
        cluster: &Cluster,
        secrets: Option<SecretsBundle>,
        id: Option<SecretsId>,
        kept: Kept,
        unobserved: UnobservedList,
    ) -> Result<World, Error> {
        let mut world = self.look_at_proxmox(cluster, id, &unobserved).await?;
        let incomplete = cluster.nodes.iter().any(|node| {
            let guest = world.guests.get(&node.vmid);
            !guest.is_some_and(
                |guest| matches!(&guest.ownership, Ownership::Ours { node: name, .. } if *name == node.name),
            )
        });
        self.look_at_room(cluster, &mut world, incomplete, &unobserved).await;
        world.image_pins = kept.image_pins;
        world.secrets_stored = secrets.is_some();
        world.known = kept.known;
        world.addresses = self.find(cluster, &world).await;
        let cluster = &*cluster.located(&world.addresses);
        if let Some(secrets) = &secrets {
            self.look_inside(cluster, &mut world, secrets, &unobserved).await;
        }
        world.unobserved = unobserved.take();
        Ok(world)
    }

    /// Whether the outputs fit, and the store has the addresses that they were made with.
    async fn outputs_are_current(
        &self,
        cluster: &Cluster,
        world: &World,
        secrets: &SecretsBundle,
        hosts: &Hosts,
    ) -> bool {
        let recorded = match cluster.network.discovered {
            // What cannot be read is recorded again.
            true => matches!(self.parts.store.addresses().await, Ok(Some(found)) if found == world.addresses),
            false => true,
        };
        recorded && self.outputs.are_current(&self.configs(cluster, secrets), hosts).await
    }

    /// What matters only where a VM is still to be made, or to be given its config.
    async fn look_at_room(
        &self,
        cluster: &Cluster,
        world: &mut World,
        incomplete: bool,
        unobserved: &UnobservedList,
    ) {
        let proxmox = &self.parts.proxmox;
        if incomplete || space::needed(cluster, world) {
            space::look(proxmox, cluster, world, unobserved).await;
        }
        if incomplete {
            let declared = cluster.proxmox.hosts.iter().map(|host| host.name.as_str()).collect();
            bridges(proxmox, &mut world.hosts, &declared, unobserved).await;
            world.own_disk = own_disk(proxmox, cluster, world).await;
            // Whoever declares the usual one is spared the question; a live check asks either way.
            if cluster.talos.arch != Arch::default() {
                architectures(proxmox, cluster, &mut world.hosts, unobserved).await;
            }
        }
        if incomplete || world.guests.values().any(waits) {
            match self.consoles(cluster, &world.proxmox_version).await {
                Ok(consoles) => world.consoles = consoles,
                Err(error) => {
                    world.consoles_unclear = Some(chain(&error));
                    unobserved.add(Aspect::Permissions, &error);
                }
            }
        }
    }

    /// What the nodes and Kubernetes say to whoever has the secrets, and whether the outputs still fit.
    async fn look_inside(
        &self,
        cluster: &Cluster,
        world: &mut World,
        secrets: &SecretsBundle,
        unobserved: &UnobservedList,
    ) {
        let hosts = placed(cluster, world);
        let (current, credentials, seen) = tokio::join!(
            self.outputs_are_current(cluster, world, secrets, &hosts),
            self.outputs.credentials(self.parts.clock.now()),
            nodes::look(self, cluster, world, secrets, unobserved)
        );
        self.judge_outputs(world, current, &credentials);
        world.nodes = seen.nodes;
        world.members = seen.members;
        world.kubernetes_told = seen.kubernetes_told;
        world.former = seen.former;
        world.endpoint_answers = seen.endpoint_answers;
        world.endpoint_unreached = seen.endpoint_unreached;
        world.unreached = seen.unreached;
    }
}

/// What the store says besides the secrets.
#[derive(Default)]
struct Kept {
    image_pins: Vec<ImagePin>,
    known: Option<Generation>,
}

/// Whether a VM of ours was never given its config.
fn waits(guest: &GuestView) -> bool {
    guest.config.as_ref().is_some_and(|config| config.waiting)
}

impl Engine {
    /// Where the nodes are whose addresses nobody declared, as far as their guest agents say.
    async fn find(&self, cluster: &Cluster, world: &World) -> BTreeMap<String, IpAddr> {
        let running = |node: &Node| {
            let guest = world.guests.get(&node.vmid).filter(|guest| guest.running)?;
            let ours = matches!(&guest.ownership, Ownership::Ours { node: name, .. } if *name == node.name);
            ours.then(|| guest.host.clone())
        };
        let unknown = cluster.nodes.iter().filter(|node| node.address.is_none());
        let asked = unknown.filter_map(|node| Some((node, running(node)?))).map(|(node, host)| async move {
            let told = self.parts.proxmox.agent_interfaces(&host, node.vmid).await.ok()?;
            Some((node.name.clone(), addresses::own(cluster, addresses::told(&told, node))?))
        });
        let asked: Vec<_> = asked.collect();
        stream::iter(asked)
            .buffer_unordered(self.parts.limits.probes)
            .filter_map(std::future::ready)
            .collect()
            .await
    }

    /// Whether serial consoles can be read, on a boot path on which that matters.
    async fn consoles(&self, cluster: &Cluster, version: &str) -> Result<bool, daedal_proxmox::Error> {
        // Before 9.1 the console takes the tickets of users only, not of their tokens.
        if !cluster.boot.through_maintenance() || release(version).unwrap_or_default() < (9, 1) {
            return Ok(false);
        }
        let path = privileges::vms(cluster.proxmox.pool.as_deref());
        let permissions = self.parts.proxmox.permissions().await?;
        Ok(permitted(&permissions, &path, "VM.Console"))
    }
}

/// Which host each of our nodes is on.
pub(crate) fn placed(cluster: &Cluster, world: &World) -> Hosts {
    let mut hosts = Hosts::new();
    for node in &cluster.nodes {
        if let Some(guest) = world.guests.get(&node.vmid)
            && matches!(&guest.ownership, Ownership::Ours { node: name, .. } if *name == node.name)
        {
            hosts.insert(node.name.clone(), guest.host.clone());
        }
    }
    hosts
}

/// Hosts and their storages, from the one list of everything.
fn hosts(resources: &[Resource], declared: &BTreeSet<&str>) -> BTreeMap<String, HostView> {
    let mut hosts: BTreeMap<String, HostView> = BTreeMap::new();
    for row in resources.iter().filter(|row| row.kind == "node" && declared.contains(row.node.as_str())) {
        let host = hosts.entry(row.node.clone()).or_default();
        host.online = row.status == "online";
        host.cpus = row.maxcpu;
        host.memory = row.maxmem;
    }
    for row in resources.iter().filter(|row| row.kind == "storage") {
        let Some(host) = hosts.get_mut(&row.node) else { continue };
        host.storages.insert(
            row.storage.clone(),
            StorageView {
                kind: row.plugintype.clone(),
                content: row.content.iter().cloned().collect(),
                active: row.status == "available",
                disabled: false,
                shared: row.shared,
                total: row.maxdisk,
                available: row.maxdisk.saturating_sub(row.disk),
            },
        );
    }
    hosts
}

async fn bridges(
    proxmox: &Client,
    hosts: &mut BTreeMap<String, HostView>,
    declared: &BTreeSet<&str>,
    unobserved: &UnobservedList,
) {
    let asked = hosts.iter_mut().filter(|(name, host)| host.online && declared.contains(name.as_str()));
    join_all(asked.map(|(name, host)| async move {
        match proxmox.bridges(name).await {
            Ok(bridges) => {
                host.bridges = bridges.into_iter().map(|bridge| bridge.iface).collect();
                host.bridges_seen = true;
            }
            Err(error) => unobserved.add(Aspect::Bridges(name.clone()), &error),
        }
    }))
    .await;
}

/// What the processors of the declared hosts are, where that is not known yet.
pub(crate) async fn architectures(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &mut BTreeMap<String, HostView>,
    unobserved: &UnobservedList,
) {
    let declared = |name: &String| cluster.proxmox.hosts.iter().any(|host| host.name == *name);
    let asked = hosts.iter_mut().filter(|(name, host)| host.online && host.arch.is_none() && declared(name));
    join_all(asked.map(|(name, host)| async move {
        match proxmox.node_status(name).await {
            Ok(status) => host.arch = architecture(&status.kernel.machine),
            Err(error) => unobserved.add(Aspect::Processors(name.clone()), &error),
        }
    }))
    .await;
}

/// An architecture in the words of a kernel.
fn architecture(machine: &str) -> Option<Arch> {
    match machine {
        "x86_64" => Some(Arch::Amd64),
        "aarch64" => Some(Arch::Arm64),
        _ => None,
    }
}

/// How large the disk in the declared image is, wherever it lies. The listing tells the size of a file, which of a raw image
/// is that of the disk.
async fn own_disk(proxmox: &Client, cluster: &Cluster, world: &World) -> Option<u64> {
    let image = cluster.boot.image.as_deref()?;
    let mut here: Vec<&VolumeView> = world.volumes.iter().filter(|volume| volume.volid == image).collect();
    if image.ends_with(".raw") {
        return here.iter().map(|volume| volume.size).min();
    }
    let shared = |volume: &VolumeView| {
        let storages = world.hosts.get(&volume.host).map(|host| &host.storages);
        storages.and_then(|storages| storages.get(&volume.storage)).is_some_and(|storage| storage.shared)
    };
    if here.iter().any(|volume| shared(volume)) {
        here.truncate(1);
    }
    let sizes = join_all(here.iter().map(|volume| proxmox.volume(&volume.host, image))).await;
    // Where one does not tell, the disk is asked to grow, which does no harm.
    let sizes: Option<Vec<u64>> =
        sizes.into_iter().map(|told| told.ok().and_then(|told| told.size)).collect();
    sizes?.into_iter().min()
}
