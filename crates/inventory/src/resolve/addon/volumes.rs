//! What add-ons need of images and disks: system extensions, and volumes for data.

use serde_json::json;

use super::Draft;
use crate::boot::Boot;
use crate::catalogue::{DataValues, Need};
use crate::cluster::{Role, Talos};
use crate::document;
use crate::options::{ExtraMount, UserVolume};
use crate::path::Path;
use crate::resolve::{Context, node};

/// The label of nodes on which Longhorn makes a disk by itself.
const LONGHORN_DISK: &str = "node.longhorn.io/create-default-disk";

/// Gives images the extensions that add-ons need.
pub(crate) fn extensions(
    addons: &[Draft],
    (spec, boot): (&document::Spec, Option<&Boot>),
    talos: &mut Option<Talos>,
    cx: &mut Context<'_>,
) {
    let Some(talos) = talos else { return };
    let root = Path::Root;
    let at = root.key("spec");
    let talos_at = at.key("talos");
    for draft in addons {
        let needs = draft.entry.map_or(&[][..], |entry| entry.needs).iter();
        let lacking: Vec<&str> = needs
            .filter_map(|need| match need {
                Need::Extension(name) => Some(*name),
                _ => None,
            })
            .filter(|name| !talos.extensions.iter().any(|there| there.ends_with(&format!("/{name}"))))
            .collect();
        if lacking.is_empty() {
            continue;
        }
        let names = lacking.join(", ");
        if spec.talos.image_sha256.is_some() {
            let message = format!(
                "`{}` needs system extensions that the pinned image lacks: {names}.",
                draft.addon.name
            );
            let help = "Add them to `talos.extensions`, and pin the SHA-256 of the image that has them.";
            cx.error("addon", &talos_at.key("imageSha256"), message, help);
        } else if let Some(volume) = boot.and_then(Boot::volume) {
            let message = format!(
                "`{}` needs system extensions, and {volume} is used as it is: {names}.",
                draft.addon.name
            );
            let help = "Make sure that the image has them, and add them to `talos.extensions`.";
            cx.warn("addon-incomplete", &talos_at, message, help);
        }
        talos.extensions.extend(lacking.iter().map(|name| format!("siderolabs/{name}")));
    }
}

/// Gives nodes the volumes for data that add-ons need, where they have a disk for it.
pub(crate) fn volumes(
    addons: &mut [Draft],
    spec: &document::Spec,
    talos: Option<&Talos>,
    nodes: &mut [node::Draft<'_>],
    cx: &mut Context<'_>,
) {
    let has_volumes = talos.is_some_and(|talos| talos.version.minor >= 10);
    let has_workers = nodes.iter().any(|node| node.role == Role::Worker);
    let on_all = spec.kubernetes.as_ref().and_then(|kubernetes| kubernetes.schedule_on_control_planes);
    let runs = |node: &node::Draft<'_>| node.role == Role::Worker || on_all.unwrap_or(!has_workers);
    for draft in addons {
        let needs = draft.entry.map_or(&[][..], |entry| entry.needs).iter();
        let Some((name, values)) = needs.copied().find_map(|need| match need {
            Need::DataVolume(name, values) => Some((name, values)),
            _ => None,
        }) else {
            continue;
        };
        // Whoever chooses the path sees to it.
        if values == DataValues::Longhorn && draft.said(&["defaultSettings", "defaultDataPath"]).is_some() {
            continue;
        }
        let (mut with, mut without) = (0, Vec::new());
        for node in nodes.iter_mut().filter(|node| runs(node)) {
            let has = node.machine.user_volumes.iter().any(|volume| volume.name == name);
            if !has && has_volumes && !node.disks.is_empty() {
                node.machine.user_volumes.push(volume(name));
            } else if !has {
                without.push(node.name.clone());
                continue;
            }
            with += 1;
            if values == DataValues::Longhorn {
                node.labels.insert(LONGHORN_DISK.to_owned(), "true".to_owned());
            }
        }
        let on_system_disk = with == 0;
        let folder = if on_system_disk { format!("/var/lib/{name}") } else { format!("/var/mnt/{name}") };
        if on_system_disk {
            for node in nodes.iter_mut().filter(|node| runs(node)) {
                if !node.machine.extra_mounts.iter().any(|mount| mount.destination == folder) {
                    let mount = ExtraMount { destination: folder.clone(), source: None, options: None };
                    node.machine.extra_mounts.push(mount);
                }
            }
        }
        draft.compute(&match values {
            DataValues::Longhorn => json!({"defaultSettings": {
                "defaultDataPath": folder,
                "createDefaultDiskLabeledNodes": !on_system_disk && !without.is_empty(),
            }}),
            DataValues::LocalPath => json!({"nodePathMap": [
                {"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [folder]},
            ]}),
        });
        if on_system_disk && !without.is_empty() {
            let root = Path::Root;
            let at = root.key("spec");
            let message = format!("`{}` keeps its data on the system disk of the nodes.", draft.addon.name);
            let help = "Give the pool a disk for it, for example `hardware: {disks: [{size: 100GiB}]}`.";
            cx.warn("addon-incomplete", &at.key("addons").index(draft.index), message, help);
        }
    }
}

/// A volume on whatever disk is not Talos's own.
fn volume(name: &str) -> UserVolume {
    UserVolume {
        name: name.to_owned(),
        disk: None,
        min_size: Some("1GiB".to_owned()),
        max_size: None,
        grow: Some(true),
        filesystem: None,
        encryption: None,
    }
}
