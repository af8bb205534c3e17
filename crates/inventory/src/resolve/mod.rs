//! A document that fits its types → a cluster with nothing left to decide, or everything that stands in the way.

mod addon;
mod address;
mod boot;
mod clash;
mod context;
mod fits;
mod hardware;
mod link;
mod mac;
mod machine;
mod misfit;
mod name;
mod network;
mod node;
mod options;
mod outputs;
mod patch;
mod placement;
mod pool;
mod proxmox;
mod reach;
mod reference;
mod secret;
pub(crate) mod size;
mod store;
mod trust;
mod vault;

use uuid::Uuid;

pub(crate) use context::Context;
pub(crate) use misfit::judge_patches;
pub(crate) use size::Refusal;

use crate::cluster::{Cluster, Role};
use crate::document::{self, Document};
use crate::path::Path;

/// Resolves a document. Nothing comes out if an error was found, now or before.
pub(crate) fn resolve(document: &Document, cx: &mut Context<'_>) -> Option<Cluster> {
    let (root, spec) = (Path::Root, &document.spec);
    let at = root.key("spec");
    let (name, uuid) = identity(&document.metadata, cx);
    cx.has_vault = spec.vault.is_some();
    cx.vault = vault::vault(spec.vault.as_ref(), &at, cx);
    let tags = tags(spec, cx);
    let mut talos = machine::talos(&spec.talos, &at, cx);
    let proxmox = proxmox::proxmox(&spec.proxmox, &at, cx);
    let reach = reach::reach(spec.reach.as_ref(), &at, cx);
    let store = store::store(spec.store.as_ref(), &at, cx);
    let key = spec.key.as_ref().map(|key| reference::secret(key, &at.key("key"), cx));
    let secrets = reference::bundle(spec.secrets.as_ref(), &at, cx);
    let network = network::network(&spec.network, &at, cx);
    let boot = boot::boot(spec, &at, cx);
    options::cluster(spec, &at, cx);
    let mut addons = addon::addons(spec, &at, cx);
    addon::extensions(&addons, (spec, boot.as_ref()), &mut talos, cx);
    let mut machine = spec.machine.clone().unwrap_or_default();
    secret::find_in(&mut machine, cx);
    let mut nodes = node::nodes(spec, (uuid, &machine), &network, cx);
    if let Some(boot) = &boot {
        boot::clashes(boot, spec.proxmox.hosts.len(), &nodes, &at, cx);
    }
    addon::volumes(&mut addons, spec, talos.as_ref(), &mut nodes, cx);
    fits::check(spec, boot.as_ref(), &nodes, cx);
    let pin = placement::pins(spec, &nodes, cx);
    let names = nodes.iter().map(|node| node.name.as_str());
    let outputs = outputs::outputs(spec.outputs.as_ref(), names, &at, cx);
    let mut kubernetes = machine::kubernetes(spec, &network, &nodes, cx);
    let registries = secret::registries(spec, cx);
    let mut patches = patch::patches(spec.patches.as_deref(), &at, cx);
    let around = addon::Around {
        spec,
        name: &document.metadata.name,
        talos: talos.as_ref(),
        proxmox: proxmox.as_ref(),
        nodes: &nodes,
        kubernetes: kubernetes.as_mut(),
        patches: &mut patches,
    };
    addon::follow(&mut addons, around, cx);
    let control_planes = nodes.iter().filter(|n| n.role == Role::ControlPlane).count();
    let ha = quorum(spec, control_planes, cx);
    if cx.failed() {
        return None;
    }
    let mut nodes: Vec<_> = nodes.into_iter().map(|n| n.finish(&network)).collect::<Option<_>>()?;
    nodes.sort_by_key(|n| n.role);
    Some(Cluster {
        name: name?,
        uuid,
        environment: spec.environment.clone(),
        ha,
        protect: spec.protect.unwrap_or(false),
        restarts: spec.restarts.unwrap_or_default(),
        outputs: outputs?,
        tags,
        talos: talos?,
        kubernetes: kubernetes?,
        proxmox: proxmox?,
        reach: reach?,
        store: store?,
        key: key.flatten(),
        secrets: secrets?,
        network: network.finish()?,
        boot: boot?,
        placement: crate::cluster::Placement { pin },
        registry_mirrors: spec.registry_mirrors.clone().unwrap_or_default(),
        registries,
        patches,
        machine,
        addons: addons.into_iter().map(|draft| draft.addon).collect(),
        nodes,
        lacks: cx.lacks.clone(),
    })
}

/// The cluster's uuid as derived from its name.
pub(crate) fn cluster_uuid(name: &str) -> Uuid {
    let ours = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"daedal.dev");
    Uuid::new_v5(&ours, name.as_bytes())
}

fn identity(metadata: &document::Metadata, cx: &mut Context<'_>) -> (Option<String>, Uuid) {
    let root = Path::Root;
    let at = root.key("metadata");
    let name = &metadata.name;
    let checked = cx.take("name", &at.key("name"), name::dns_label(name)).map(|()| name.clone());
    let uuid = metadata.uid.as_deref().and_then(|uid| {
        let read = Uuid::try_parse(uid).ok().filter(|u| !u.is_nil());
        let read = read.ok_or_else(|| {
            let help = format!("Leave it out, or write for example `{}`.", cluster_uuid(name));
            (format!("`{uid}` is not a UUID."), help)
        });
        cx.take("uid", &at.key("uid"), read)
    });
    (checked, uuid.unwrap_or_else(|| cluster_uuid(name)))
}

fn tags(spec: &document::Spec, cx: &mut Context<'_>) -> Vec<String> {
    let root = Path::Root;
    let at = root.key("spec");
    let mut tags = tag_list(spec.tags.as_deref(), &at, cx);
    if let Some(environment) = &spec.environment {
        tags.extend(cx.take("tag", &at.key("environment"), name::tag(environment)));
    }
    tags.sort();
    tags.dedup();
    tags
}

/// Tags as Proxmox keeps them: lower-case, sorted, each once.
fn tag_list(tags: Option<&[String]>, at: &Path<'_>, cx: &mut Context<'_>) -> Vec<String> {
    let at = at.key("tags");
    let tags = tags.unwrap_or_default().iter().enumerate();
    let mut tags: Vec<String> =
        tags.filter_map(|(i, t)| cx.take("tag", &at.index(i), name::tag(t))).collect();
    tags.sort();
    tags.dedup();
    tags
}

/// Says so if the number of control planes cannot keep a quorum; returns whether the cluster is highly available.
fn quorum(spec: &document::Spec, count: usize, cx: &mut Context<'_>) -> bool {
    let root = Path::Root;
    let spec_at = root.key("spec");
    let pools_at = spec_at.key("pools");
    let known = (0..spec.pools.len()).all(|i| {
        let pool = pools_at.index(i);
        ["role", "count", "nodes"].iter().all(|key| cx.given(&pool.key(key)))
    });
    if !known || !cx.given(&pools_at) {
        return false;
    }
    let ha = spec.ha.unwrap_or(count >= 3);
    let first = spec.pools.iter().position(|p| p.role == document::Role::ControlPlane);
    let pool = pools_at.index(first.unwrap_or(0));
    let count_at =
        pool.key(if first.is_some_and(|i| spec.pools[i].nodes.is_some()) { "nodes" } else { "count" });
    let at = if first.is_some() { &count_at } else { &pools_at };
    if count == 0 {
        let help = "Add a pool with `role: controlplane` and `count: 1`, or 3 for high availability.";
        cx.error("control-planes", at, "The cluster has no control plane.", help);
    } else if count.is_multiple_of(2) {
        let message = format!("The cluster has {count} control planes, but needs an odd number.");
        let lost = if count == 2 { "none".to_owned() } else { (count / 2 - 1).to_string() };
        let (less, more) = (count - 1, count + 1);
        let help =
            format!("{count} survive the loss of {lost}, which {less} can do as well. Use {less} or {more}.");
        cx.error("control-planes", at, message, help);
    } else if count > 7 {
        let message = format!("{count} control planes are too many: every write waits for most of them.");
        cx.error("control-planes", at, message, "Use 3, 5 or 7.");
    } else if ha && count < 3 {
        let message = "High availability (`ha: true`) needs at least 3 control planes, and there is 1.";
        cx.error("control-planes", &spec_at.key("ha"), message, "Set the count to 3, or remove `ha: true`.");
    }
    ha
}
