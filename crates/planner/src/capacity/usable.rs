//! Whether a host can take new nodes at all: what it must have besides room, and what helps where it lacks something.

use daedal_inventory::Cluster;

use crate::names;
use crate::size;
use crate::world::{Aspect, HostView, ImagePin, World};

/// The storages that a host needs to make nodes, each once with the kinds of content it must take. Nothing is asked for the sake of
/// an import where Proxmox can do none.
pub fn storages_needed<'c>(cluster: &'c Cluster, world: &World) -> Vec<(&'c str, Vec<&'static str>)> {
    let (proxmox, boot) = (&cluster.proxmox, &cluster.boot);
    let disks = proxmox.storages_of_disks().map(|storage| (storage.as_str(), "images"));
    let files = boot.files().iter().map(|content| (proxmox.images_storage.as_str(), *content));
    let lies = if boot.installs() { "iso" } else { "import" };
    let own = boot.volume_storage().map(|storage| (storage, lies));
    let mut needed: Vec<(&str, Vec<&str>)> = Vec::new();
    for (storage, content) in disks.chain(files).chain(own) {
        let at = needed.iter().position(|(known, _)| *known == storage).unwrap_or_else(|| {
            needed.push((storage, Vec::new()));
            needed.len() - 1
        });
        let wanted = &mut needed[at].1;
        let idle = world.cannot_import && content == "import";
        if !idle && !wanted.contains(&content) {
            wanted.push(content);
        }
    }
    needed
}

/// What to do where a storage has no linked clones.
pub const CLONE_FULL: &str = "use `clone: full`: `boot: {template: {clone: full}}`";

/// Why nodes cannot be cloned on a storage of this type, if they are to be linked to a template there.
pub fn lacks_linked_clones(cluster: &Cluster, storage: &str, kind: &str) -> Option<String> {
    let linked = cluster.boot.template.is_some_and(|templates| !templates.full);
    let thick = matches!(kind, "lvm" | "iscsi" | "iscsidirect");
    (linked && thick && storage == cluster.proxmox.templates_storage())
        .then(|| format!("storage {storage} has the type {kind}, which has no linked clones"))
}

/// Why a host cannot take new nodes, and what would help.
pub(super) fn judge_host(cluster: &Cluster, world: &World, name: &str) -> Option<(String, Option<String>)> {
    let Some(view) = world.hosts.get(name) else {
        return Some(("Proxmox has no such host".to_owned(), Some("correct `proxmox.hosts`".to_owned())));
    };
    if !view.online {
        return Some(("it is offline".to_owned(), None));
    }
    if view.cpus == 0 || view.memory == 0 {
        let fix = format!("give the token Sys.Audit on /nodes/{name}");
        return Some(("its CPU and memory could not be read".to_owned(), Some(fix)));
    }
    let proxmox = &cluster.proxmox;
    for (storage, wanted) in storages_needed(cluster, world) {
        let Some(seen) = view.storages.get(storage) else {
            let fix =
                format!("check `proxmox.storage`, or give the token Datastore.Audit on /storage/{storage}");
            return Some((format!("storage {storage} cannot be seen there"), Some(fix)));
        };
        if let Some(fault) = seen.fault() {
            let fix = fault.fix(&seen.kind, storage, name);
            return Some((format!("storage {storage} {fault}"), Some(fix)));
        }
        if let Some(why) = lacks_linked_clones(cluster, storage, &seen.kind) {
            return Some((why, Some(CLONE_FULL.to_owned())));
        }
        let missing: Vec<&str> =
            wanted.iter().copied().filter(|content| !seen.content.contains(*content)).collect();
        if !missing.is_empty() {
            let mut all: Vec<&str> =
                seen.content.iter().map(String::as_str).chain(missing.iter().copied()).collect();
            all.sort_unstable();
            let why = format!("storage {storage} does not take the content type {}", missing.join(" and "));
            return Some((why, Some(format!("on {name}: pvesm set {storage} --content {}", all.join(",")))));
        }
    }
    if view.bridges_seen && !view.bridges.contains(&proxmox.bridge) {
        let others: Vec<&str> = view.bridges.iter().map(String::as_str).collect();
        let fix = format!("set `proxmox.bridge` to one it has: {}", others.join(", "));
        return Some((format!("it has no bridge {}", proxmox.bridge), Some(fix)));
    }
    None
}

/// An ISO or a disk image that is declared must be where a node is made.
pub(super) fn lacks_volume(cluster: &Cluster, world: &World, name: &str) -> Option<(String, Option<String>)> {
    let wanted = cluster.boot.volume()?;
    if world.volumes.iter().any(|volume| volume.volid == wanted && volume.host == name) {
        return None;
    }
    let storage = cluster.boot.volume_storage().unwrap_or_default();
    if world.unobserved.iter().any(|unobserved| unobserved.what == Aspect::storage_on(storage, name)) {
        let why =
            format!("storage {storage} could not be listed there, so whether it has {wanted} is not known");
        return Some((why, Some(format!("on {name}: pvesm list {storage}"))));
    }
    let (key, kind) = match cluster.boot.installs() {
        true => ("boot.iso", "boot ISO"),
        false => ("boot.image", "disk image"),
    };
    let file = names::volid_file(wanted);
    let fix = format!(
        "copy the file to storage {storage} of {name} (`pvesm path {wanted}` prints where), or leave out `{key}`, and \
         {name} downloads one"
    );
    Some((format!("the {kind} {file} is missing on storage {storage} (`{key}: {wanted}`)"), Some(fix)))
}

/// Why the disk image cannot be brought to a host that lacks it; its size is known once it was measured.
pub(super) fn room_for_image(
    cluster: &Cluster,
    world: &World,
    name: &str,
    view: &HostView,
) -> Option<(String, Option<String>)> {
    if world.cannot_import && cluster.boot.imports() {
        return None;
    }
    let storage = &cluster.proxmox.images_storage;
    let seen = view.storages.get(storage).filter(|seen| seen.total > 0)?;
    let there = |pin: &ImagePin| {
        world.volumes.iter().any(|volume| {
            volume.storage == *storage
                && (seen.shared || volume.host == name)
                && names::volid_file(&volume.volid) == pin.file
                && volume.size == pin.size
        })
    };
    // Which of several will be needed here is decided later; each must fit.
    let pin = world.image_pins.iter().filter(|pin| !there(pin)).max_by_key(|pin| pin.size)?;
    (seen.available < pin.size).then(|| {
        let (free, wanted) = (size::show(seen.available), size::show(pin.size));
        let why = format!("storage {storage} has {free} free there, and the disk image takes {wanted}");
        (why, Some(format!("free some of {storage} on {name}")))
    })
}
