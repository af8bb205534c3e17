//! The boot path: which ways to boot and to bring the config go together, and why others do not.

use super::node::Draft;
use super::{Context, Refusal};
use crate::cluster::{Boot, BootConfig, BootFrom, Role, Templates};
use crate::document::{self, CloneKind, TemplateMade};
use crate::path::Path;

pub(crate) fn boot(spec: &document::Spec, at: &Path<'_>, cx: &mut Context<'_>) -> Option<Boot> {
    let said = spec.boot.as_ref();
    let from: BootFrom = said.and_then(|b| b.from).map(Into::into).unwrap_or_default();
    let config: BootConfig = said.and_then(|b| b.config).map(Into::into).unwrap_or_default();
    let network_at = at.key("network");
    let proxmox_at = at.key("proxmox");
    let storage_at = proxmox_at.key("storage");
    let at = at.key("boot");
    if let Err((key, message, help)) = pair(from, config) {
        cx.error("boot", &at.key(key), message, help);
        return None;
    }
    let (iso, image) = on_storage(spec, from, config, &at, cx)?;
    conflicts(spec, config, &network_at, &at, cx)?;
    let template = templates(spec, from, &at, cx)?;
    storages(spec, config, template, &storage_at, cx)?;
    let format = said.and_then(|b| b.format);
    let first_contact = said.and_then(|b| b.first_contact).map(Into::into);
    let format_of = format.map(Into::into).unwrap_or_default();
    let boot = Boot { from, config, iso, image, format: format_of, template, first_contact };
    if boot.first_contact.is_some() && !boot.through_maintenance() {
        let message = "On this boot path there is no first contact: the config comes through Proxmox.";
        cx.error("boot", &at.key("firstContact"), message, "Remove `firstContact`.");
        return None;
    }
    let wrong = match format {
        Some(_) if boot.image.is_some() => {
            Some(("A disk image that is named has the format that its name ends with.", "Remove `format`."))
        }
        Some(_) if !boot.imports() => {
            Some(("A format of disk images is declared, but none is imported.", "Remove `format`."))
        }
        _ => None,
    };
    if let Some((message, help)) = wrong {
        cx.error("boot", &at.key("format"), message, help);
        return None;
    }
    Some(boot)
}

/// What the declared way to bring the config does not go together with. None: there is something.
fn conflicts(
    spec: &document::Spec,
    config: BootConfig,
    network_at: &Path<'_>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<()> {
    let told = matches!(config, BootConfig::Meta | BootConfig::CloudInitDrive);
    if told && spec.network.asks() {
        let message =
            "On this boot path nodes are told their addresses, but `network.dhcp` says that they ask.";
        cx.error("boot", &at.key("config"), message, "Remove `network.dhcp`, or use `config: cidata`.");
        return None;
    }
    let by_ssh = matches!(&spec.reach, Some(document::Reach::Through(through)) if through.ssh.is_some());
    if config == BootConfig::Snippet && !by_ssh {
        let message =
            "A snippet can only be put on a host over SSH: the Proxmox API has no way to upload one.";
        let help = "Declare a Proxmox host with `reach: {ssh: {host: …, user: root}}`; or use `config: cidata`, which needs no SSH.";
        cx.error("boot", &at.key("config"), message, help);
        return None;
    }
    let own_network = ["0xa", "0x0a", "0x0A", "0xA", "10"];
    if config == BootConfig::Meta
        && spec.talos.meta.iter().flatten().any(|(key, _)| own_network.contains(&key.as_str()))
    {
        let message = "META 0x0a is each node's own network on this boot path.";
        cx.error("boot", &at.key("config"), message, "Remove it from `talos.meta`.");
        return None;
    }
    if config == BootConfig::Meta && spec.talos.image_sha256.is_some() {
        let message =
            "`imageSha256` is the digest of one image, but with the config by `meta` every node has its own.";
        cx.error("boot", &at.key("config"), message, "Remove `talos.imageSha256`.");
        return None;
    }
    let agent = spec.talos.extensions.iter().flatten().any(|name| name.ends_with("qemu-guest-agent"));
    if config == BootConfig::Maintenance && !agent {
        cx.warn(
            "boot",
            &at.key("config"),
            "Without the extension qemu-guest-agent Proxmox cannot tell which address a new node got.",
            "Add `qemu-guest-agent` to `talos.extensions`, or reserve the addresses: `daedal outputs dnsmasq`.",
        );
    }
    if spec.network.discovers() && (config != BootConfig::Maintenance || !agent) {
        let message =
            "Addresses are discovered, so nodes wait for their configs, and their guest agents say where.";
        let help =
            "Use `boot: {config: maintenance}` and the extension `qemu-guest-agent`; or declare addresses.";
        cx.error("boot", &network_at.key("dhcp"), message, help);
        return None;
    }
    Some(())
}

/// The templates that nodes are cloned from, if any. None: they are declared wrongly.
fn templates(
    spec: &document::Spec,
    from: BootFrom,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<Option<Templates>> {
    let said = spec.boot.as_ref();
    let template = match (said.and_then(|b| b.template.as_ref()), from) {
        (said, BootFrom::Template) => Some(Templates {
            control_plane: said.and_then(|t| t.controlplane).unwrap_or(998),
            worker: said.and_then(|t| t.worker).unwrap_or(999),
            full: said.and_then(|t| t.clone) == Some(CloneKind::Full),
            by_iso: said.and_then(|t| t.made) == Some(TemplateMade::Iso),
        }),
        (None, _) => None,
        (Some(_), _) => {
            let message = "Templates are described, but the nodes are not cloned from any.";
            cx.error("boot", &at.key("template"), message, "Add `from: template`, or remove `template`.");
            return None;
        }
    };
    if spec.network.discovers() && template.is_some_and(|template| template.by_iso) {
        let message = "A template that an ISO installs is reached at a node's declared address, and none is.";
        let help = "Remove `made: iso`, or declare addresses.";
        cx.error("boot", &at.key("template").key("made"), message, help);
        return None;
    }
    Some(template)
}

/// The ISO or the disk image that is on a storage already, if one is declared. None: it is declared wrongly.
fn on_storage(
    spec: &document::Spec,
    from: BootFrom,
    config: BootConfig,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<(Option<String>, Option<String>)> {
    let said = spec.boot.as_ref();
    let (iso, image) = (said.and_then(|b| b.iso.as_ref()), said.and_then(|b| b.image.as_ref()));
    let wrong = match (iso, image) {
        (Some(_), _) if from != BootFrom::Iso => Some((
            "iso",
            "An ISO is named, but the nodes do not boot from one.",
            "Add `from: iso`, or remove `iso`.",
        )),
        (_, Some(_)) if from != BootFrom::DiskImage => Some((
            "image",
            "A disk image is named, but the nodes are not made from one.",
            "Add `from: disk-image`, or remove `image`.",
        )),
        (Some(_), _) if config == BootConfig::Meta => Some((
            "iso",
            "With the config by `meta` every node has an ISO of its own, made for it.",
            "Remove `iso`.",
        )),
        (_, Some(_)) if config == BootConfig::Meta => Some((
            "image",
            "With the config by `meta` every node has an image of its own, made for it.",
            "Remove `image`.",
        )),
        (Some(_), _) if spec.talos.image_sha256.is_some() => Some((
            "iso",
            "`imageSha256` is compared with what is downloaded, but this ISO lies on the storage already.",
            "Remove `talos.imageSha256`, or `iso`.",
        )),
        (None, Some(_)) if spec.talos.image_sha256.is_some() => Some((
            "image",
            "`imageSha256` is compared with what is downloaded, but this image lies on the storage already.",
            "Remove `talos.imageSha256`, or `image`.",
        )),
        _ => None,
    };
    if let Some((key, message, help)) = wrong {
        cx.error("boot", &at.key(key), message, help);
        return None;
    }
    let iso = match iso {
        Some(text) => Some(cx.take("volume", &at.key("iso"), iso_volume(text))?),
        None => None,
    };
    let image = match image {
        Some(text) => Some(cx.take("volume", &at.key("image"), image_volume(text))?),
        None => None,
    };
    Some((iso, image))
}

/// Whether what has a storage of its own is there, and can be there.
fn storages(
    spec: &document::Spec,
    config: BootConfig,
    template: Option<Templates>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<()> {
    let storage = &spec.proxmox.storage;
    if let Some(other) = storage.templates.as_ref().filter(|other| **other != storage.disks) {
        let wrong = match template {
            None => Some((
                "A storage for templates is named, but the nodes are not cloned from any.".to_owned(),
                "Add `boot: {from: template}`, or remove `templates`.",
            )),
            Some(Templates { full: false, .. }) => Some((
                format!("Linked clones are where their template is, on {other}, not on {}.", storage.disks),
                "Add `template: {clone: full}` to `boot`, or remove `templates`.",
            )),
            Some(_) => None,
        };
        if let Some((message, help)) = wrong {
            cx.error("boot", &at.key("templates"), message, help);
            return None;
        }
    }
    if storage.cloud_init.is_some() && !matches!(config, BootConfig::CloudInitDrive | BootConfig::Snippet) {
        let message = "A storage for cloud-init drives is named, but the nodes have none.";
        let help = "Add `config: cloud-init-drive` to `boot`, or remove `cloudInit`.";
        cx.error("boot", &at.key("cloudInit"), message, help);
        return None;
    }
    Some(())
}

/// Says so where a template's VMID is another's, or a node's.
pub(crate) fn clashes(boot: &Boot, hosts: usize, nodes: &[Draft<'_>], at: &Path<'_>, cx: &mut Context<'_>) {
    let Some(templates) = boot.template else { return };
    let at = at.key("boot");
    let of = |role| (0..hosts).map(move |host| (templates.vmid(role, host), host));
    let all: Vec<(u32, usize)> = of(Role::ControlPlane).chain(of(Role::Worker)).collect();
    for (i, (vmid, host)) in all.iter().enumerate() {
        let twice = all[..i].iter().any(|(other, _)| other == vmid);
        let node = nodes.iter().find(|node| node.vmid == Some(*vmid));
        let message = match node {
            _ if *vmid < 100 => format!("The templates of {hosts} hosts would go below VMID 100."),
            Some(node) => {
                format!("VMID {vmid} is the template of host {} and of node {}.", host + 1, node.name)
            }
            None if twice => format!("Two templates would have VMID {vmid}."),
            None => continue,
        };
        let help = "On every further host the VMIDs are two less: choose two neighbours with room below, such as \
                    `template: {controlplane: 9998, worker: 9999}`.";
        return cx.error("vmid", &at.key("template"), message, help);
    }
}

/// Whether the two go together; else the key to blame, why, and what to do instead.
fn pair(from: BootFrom, config: BootConfig) -> Result<(), (&'static str, String, &'static str)> {
    match (from, config) {
        (BootFrom::Template, BootConfig::Meta) => {
            let message = "A template is the same for all its clones, but `meta` puts each node's own network into its \
                           image.";
            Err(("config", message.to_owned(), "Use `from: disk-image`, or `config: cidata`."))
        }
        _ => Ok(()),
    }
}

/// `storage:iso/file.iso`.
fn iso_volume(text: &str) -> Result<String, Refusal> {
    if is_volume(text, ":iso/", &[".iso", ".img"]) {
        return Ok(text.to_owned());
    }
    let help = "Write it as Proxmox does, for example `local:iso/talos-1.12.0.iso`.";
    Err((format!("`{text}` is not the volume of an ISO."), help.to_owned()))
}

/// `storage:import/file.raw`.
fn image_volume(text: &str) -> Result<String, Refusal> {
    let is_image = |text: &str| is_volume(text, ":import/", &[".qcow2", ".raw"]);
    if is_image(text) {
        return Ok(text.to_owned());
    }
    let small = text.to_ascii_lowercase();
    let has = |endings: &[&str]| endings.iter().find(|ending| small.ends_with(**ending)).map(|e| e.len());
    if let Some(ending) = has(&[".xz", ".zst", ".gz", ".bz2", ".lz4", ".zip", ".tgz"]) {
        let message = format!("`{text}` is compressed, and Proxmox unpacks nothing that it imports.");
        let plain = Some(&text[..text.len() - ending]).filter(|plain| is_image(plain));
        let example = plain.unwrap_or("local:import/talos-1.12.0.raw");
        let such_as = if plain.is_some() { "as" } else { "for example as" };
        return Err((message, format!("Put the unpacked image there, {such_as} `{example}`.")));
    }
    if has(&[".vmdk", ".ova", ".vdi", ".vhdx", ".img"]).is_some() {
        let message = format!("`{text}` is no qcow2 or raw image, and no other kind is taken.");
        let help = "Turn it into one (`qemu-img convert -O qcow2`), and name it so that it ends with `.qcow2` or `.raw`.";
        return Err((message, help.to_owned()));
    }
    let help = "Write it as Proxmox does, for example `local:import/talos-1.12.0.qcow2` or `local:import/talos-1.12.0.raw`; a name \
                has letters, digits and `-`, `_`, `.`, `+`.";
    Err((format!("`{text}` is not the volume of a disk image."), help.to_owned()))
}

fn is_volume(text: &str, content: &str, endings: &[&str]) -> bool {
    text.split_once(content).is_some_and(|(storage, file)| {
        super::name::proxmox_id("storage", storage).is_ok()
            && endings.iter().any(|ending| file.len() > ending.len() && file.ends_with(ending))
            && file.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_as_proxmox_writes_them() {
        assert!(iso_volume("local:iso/talos-1.9.0.iso").is_ok());
        for wrong in [
            "talos.iso",
            "local:talos.iso",
            "local:iso/",
            "local:iso/.iso",
            "local:iso/a/b.iso",
            "local:import/x.qcow2",
        ] {
            assert!(iso_volume(wrong).is_err(), "{wrong}");
        }
        for right in ["local:import/talos-1.12.0.raw", "nas:import/talos.qcow2"] {
            assert!(image_volume(right).is_ok(), "{right}");
        }
        for wrong in [
            "talos.raw",
            "local:import/.raw",
            "local:iso/talos.raw",
            "local:import/a.vmdk",
            "local:import/a.img",
        ] {
            assert!(image_volume(wrong).is_err(), "{wrong}");
        }
        // Whatever is advised would be taken.
        for (packed, advised) in [
            ("local:import/nocloud-amd64.raw.xz", "as `local:import/nocloud-amd64.raw`."),
            ("local:import/nocloud-amd64.raw.XZ", "as `local:import/nocloud-amd64.raw`."),
            ("local:import/talos.raw.tar.gz", "for example as `local:import/talos-1.12.0.raw`."),
            ("local:iso/talos.raw.xz", "for example as `local:import/talos-1.12.0.raw`."),
        ] {
            let (message, help) = image_volume(packed).unwrap_err();
            assert!(message.contains("Proxmox unpacks nothing") && help.ends_with(advised), "{help}");
            assert!(image_volume(help.split('`').nth(1).unwrap()).is_ok(), "{help}");
        }
        for other in ["local:import/a.vmdk", "local:import/a.OVA"] {
            assert!(image_volume(other).unwrap_err().0.contains("no qcow2 or raw image"), "{other}");
        }
        assert!(
            image_volume("local:import/a=b.raw").unwrap_err().1.contains("a name has letters, digits and")
        );
    }
}
