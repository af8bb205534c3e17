//! Which images the nodes of a cluster boot from, computed offline.

use std::net::IpAddr;

use daedal_inventory::{Cluster, DiskFormat, Node};
use daedal_talos_image::{Format, Image, MetaValue, Overlay, OverlayOption, Schematic};

use crate::names::{Content, ImageRef, Images, image_file};

/// An image at the factory, and what it is made of.
#[derive(Debug)]
pub struct Source {
    /// The image.
    pub image: Image,
    /// What it is made of.
    pub schematic: Schematic,
}

impl Source {
    fn new(cluster: &Cluster, schematic: Schematic) -> Self {
        let image = Image {
            platform: if cluster.boot.own_images() { "metal" } else { "nocloud" }.to_owned(),
            secure_boot: cluster.talos.secure_boot,
            format: if cluster.boot.takes_iso() { Format::Iso } else { disk_format(cluster.boot.format) },
            ..Image::nocloud(schematic.id(), &cluster.talos.version.to_string(), cluster.talos.arch)
        };
        Self { image, schematic }
    }

    /// The image as plans name it: its schematic, its file name on the storage, where it comes from.
    fn reference(&self, cluster: &Cluster) -> ImageRef {
        ImageRef {
            content: if cluster.boot.takes_iso() { Content::Iso } else { Content::Import },
            file: image_file(cluster, &self.image.schematic),
            url: self.image.url(&cluster.talos.factory),
            schematic_id: self.image.schematic.clone(),
        }
    }
}

fn disk_format(format: DiskFormat) -> Format {
    match format {
        DiskFormat::Qcow2 => Format::Qcow2,
        DiskFormat::Raw => Format::Raw,
    }
}

/// What all nodes have in common.
fn shared(cluster: &Cluster) -> Source {
    let mut kernel_args = cluster.talos.kernel_args.clone();
    // META names network cards, and only counted names are known before the machine boots.
    if cluster.boot.own_images() && !kernel_args.iter().any(|arg| arg == COUNTED_NAMES) {
        kernel_args.push(COUNTED_NAMES.to_owned());
    }
    let talos = &cluster.talos;
    let schematic = Schematic {
        extensions: talos.extensions.clone(),
        kernel_args,
        meta: talos.meta.iter().map(|(key, value)| MetaValue { key: *key, value: value.clone() }).collect(),
        overlay: talos.overlay.as_ref().map(overlay),
        bootloader: talos.bootloader.map(|loader| loader.as_str().to_owned()),
        ..Schematic::default()
    };
    Source::new(cluster, schematic)
}

fn overlay(overlay: &daedal_inventory::Overlay) -> Overlay {
    let option = |option: &daedal_inventory::OverlayOption| match option {
        daedal_inventory::OverlayOption::Flag(flag) => OverlayOption::Flag(*flag),
        daedal_inventory::OverlayOption::Integer(number) => OverlayOption::Integer(i64::from(*number)),
        daedal_inventory::OverlayOption::Text(text) => OverlayOption::Text(text.clone()),
    };
    Overlay {
        image: overlay.image.clone(),
        name: overlay.name.clone(),
        options: overlay.options.iter().map(|(key, value)| (key.clone(), option(value))).collect(),
    }
}

/// Network cards are called `eth0`, `eth1`, in the order of the VM's `net0`, `net1`.
const COUNTED_NAMES: &str = "net.ifnames=0";
/// The META key that holds the network configuration of a machine on the metal platform.
const META_NETWORK: u8 = 0x0a;

/// A node's own image: its network is in its META.
fn own(cluster: &Cluster, node: &Node) -> Source {
    let Source { mut schematic, .. } = shared(cluster);
    schematic.meta.push(MetaValue { key: META_NETWORK, value: meta_network(cluster, node) });
    Source::new(cluster, schematic)
}

/// A node's network as META wants it: the form of Talos's network resources.
fn meta_network(cluster: &Cluster, node: &Node) -> String {
    let family = |address: IpAddr| if address.is_ipv4() { "inet4" } else { "inet6" };
    let network = &cluster.network;
    let mut text = String::new();
    let mut line = |indent: usize, words: &str| {
        text.push_str(&" ".repeat(indent));
        text.push_str(words);
        text.push('\n');
    };
    if let Some(address) = node.address {
        line(0, "addresses:");
        line(2, &format!("- address: {address}"));
        line(4, "linkName: eth0");
        line(4, &format!("family: {}", family(address.addr())));
        for words in ["scope: global", "flags: permanent", "layer: platform"] {
            line(4, words);
        }
    }
    line(0, "links:");
    line(2, "- name: eth0");
    for words in ["up: true", "type: ether", "layer: platform"] {
        line(4, words);
    }
    if let Some(mtu) = network.mtu {
        line(4, &format!("mtu: {mtu}"));
    }
    line(0, "routes:");
    line(2, &format!("- family: {}", family(network.gateway)));
    line(4, &format!("gateway: {}", network.gateway));
    for words in [
        "outLinkName: eth0",
        "table: main",
        "priority: 1024",
        "scope: global",
        "type: unicast",
        "protocol: static",
        "layer: platform",
    ] {
        line(4, words);
    }
    line(0, "hostnames:");
    line(2, &format!("- hostname: {}", node.name));
    line(4, "layer: platform");
    if !network.dns.is_empty() {
        line(0, "resolvers:");
        line(2, "- dnsServers:");
        network.dns.iter().for_each(|server| line(6, &format!("- {server}")));
        line(4, "layer: platform");
    }
    text
}

/// Every image that nodes of this cluster boot from.
pub fn references(cluster: &Cluster) -> Images {
    let shared = shared(cluster);
    let installer = cluster.boot.takes_iso().then(|| shared.schematic.id());
    let upgrade = Some(shared.image.installer(&cluster.talos.factory));
    if cluster.boot.own_images() {
        let of_node = |node: &Node| (node.name.clone(), own(cluster, node).reference(cluster));
        return Images { shared: None, own: cluster.nodes.iter().map(of_node).collect(), installer, upgrade };
    }
    let downloaded = cluster.boot.volume().is_none().then(|| shared.reference(cluster));
    Images { shared: downloaded, installer, upgrade, ..Images::default() }
}

/// Everything that can be built for this cluster.
fn sources(cluster: &Cluster) -> impl Iterator<Item = Source> {
    let nodes = cluster.nodes.iter().filter(|_| cluster.boot.own_images());
    std::iter::once_with(|| shared(cluster)).chain(nodes.map(|node| own(cluster, node)))
}

/// The image of this file name.
pub fn by_file(cluster: &Cluster, file: &str) -> Option<Source> {
    sources(cluster).find(|source| source.reference(cluster).file == file)
}

/// The schematic of this id.
pub fn by_schematic(cluster: &Cluster, id: &str) -> Option<Schematic> {
    sources(cluster).map(|source| source.schematic).find(|schematic| schematic.id() == id)
}

/// The installer that a node takes when it installs or upgrades itself, of the same platform and schematic.
pub fn installer(cluster: &Cluster) -> String {
    shared(cluster).image.installer(&cluster.talos.factory)
}

#[cfg(test)]
mod tests {
    use daedal_inventory::{BootConfig, BootFrom, load};

    use super::*;

    fn cluster(talos: &str) -> Cluster {
        let text = include_str!("../../../examples/home/cluster.yaml").replace("version: v1.12.0", talos);
        let source = daedal_inventory::Source { name: "cluster.yaml".into(), text };
        let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        load(&[source], &no_files).unwrap().cluster
    }

    /// On ARM the image, its file and its URL are ARM's; the installer's reference is for both.
    /// Mission: M23
    #[test]
    fn images_and_installers_follow_architecture_platform_and_secure_boot() {
        let mut cluster = cluster("version: v1.12.0\n    arch: arm64");
        let id = shared(&cluster).schematic.id();
        let image = references(&cluster).shared.unwrap();
        assert_eq!(image.file, format!("talos-v1.12.0-{}-nocloud-arm64.qcow2", &id[..12]));
        assert_eq!(image.url, format!("https://factory.talos.dev/image/{id}/v1.12.0/nocloud-arm64.qcow2"));
        assert_eq!(installer(&cluster), format!("factory.talos.dev/nocloud-installer/{id}:v1.12.0"));

        cluster.talos.secure_boot = true;
        cluster.boot.from = BootFrom::Iso;
        let image = references(&cluster).shared.unwrap();
        assert!(image.url.ends_with("/v1.12.0/nocloud-arm64-secureboot.iso"), "{}", image.url);
        assert_eq!(
            installer(&cluster),
            format!("factory.talos.dev/nocloud-installer-secureboot/{id}:v1.12.0")
        );

        cluster.boot.config = BootConfig::Meta;
        assert!(installer(&cluster).starts_with("factory.talos.dev/metal-installer-secureboot/"));
    }

    /// META, overlay, boot loader and kernel arguments are part of the schematic. The ids of all but the boot loader are compared with
    /// the factory's library elsewhere; the pinned one does not know that field.
    /// Mission: H19
    #[test]
    fn schematics_hold_all_that_is_declared() {
        let cluster = cluster(
            "version: v1.12.0\n    kernelArgs: [console=ttyS0]\n    bootloader: sd-boot\n    meta: {0x0c: one}\n    \
             overlay: {image: siderolabs/sbc-raspberrypi, name: rpi_generic, options: {force: true}}",
        );
        let text = shared(&cluster).schematic.canonical_yaml();
        for line in [
            "    image: siderolabs/sbc-raspberrypi",
            "        force: true",
            "        - console=ttyS0",
            "        - key: 12",
            "          value: one",
            "    bootloader: sd-boot",
            "            - siderolabs/tailscale",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
