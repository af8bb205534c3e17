//! Which images the nodes of a cluster boot from, computed offline.

use std::net::IpAddr;

use daedal_image_factory::{Arch, Format, Image, MetaValue, Schematic};
use daedal_inventory::{Cluster, Node};
use daedal_planner::names::image_file;
use daedal_planner::{Content, ImageRef, Images};

/// An image at the factory, and what it is made of.
pub(crate) struct Source {
    pub(crate) image: Image,
    pub(crate) schematic: Schematic,
}

impl Source {
    fn new(cluster: &Cluster, schematic: Schematic) -> Self {
        let arch = match cluster.talos.arch {
            daedal_inventory::Arch::Amd64 => Arch::Amd64,
            daedal_inventory::Arch::Arm64 => Arch::Arm64,
        };
        let image = Image {
            platform: if cluster.boot.own_images() { "metal" } else { "nocloud" }.to_owned(),
            secure_boot: cluster.talos.secure_boot,
            format: if cluster.boot.installs() { Format::Iso } else { Format::Qcow2 },
            ..Image::nocloud(schematic.id(), &cluster.talos.version.to_string(), arch)
        };
        Self { image, schematic }
    }

    /// The image as plans name it: its schematic, its file name on the storage, where it comes from.
    fn reference(&self, cluster: &Cluster) -> ImageRef {
        ImageRef {
            content: if cluster.boot.installs() { Content::Iso } else { Content::Import },
            file: image_file(cluster, &self.image.schematic),
            url: self.image.url(&cluster.talos.factory),
            schematic_id: self.image.schematic.clone(),
        }
    }
}

/// What all nodes have in common.
fn shared(cluster: &Cluster) -> Source {
    let mut kernel_args = cluster.talos.kernel_args.clone();
    // META names network cards, and only counted names are known before the machine boots.
    if cluster.boot.own_images() && !kernel_args.iter().any(|arg| arg == COUNTED_NAMES) {
        kernel_args.push(COUNTED_NAMES.to_owned());
    }
    let schematic =
        Schematic { extensions: cluster.talos.extensions.clone(), kernel_args, ..Schematic::default() };
    Source::new(cluster, schematic)
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
    line(0, "addresses:");
    line(2, &format!("- address: {}", node.address));
    line(4, "linkName: eth0");
    line(4, &format!("family: {}", family(node.address.addr())));
    for words in ["scope: global", "flags: permanent", "layer: platform"] {
        line(4, words);
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
pub(crate) fn references(cluster: &Cluster) -> Images {
    let shared = shared(cluster);
    let installer = cluster.boot.installs().then(|| shared.schematic.id());
    if cluster.boot.own_images() {
        let of_node = |node: &Node| (node.name.clone(), own(cluster, node).reference(cluster));
        return Images { shared: None, own: cluster.nodes.iter().map(of_node).collect(), installer };
    }
    let downloaded = cluster.boot.iso.is_none().then(|| shared.reference(cluster));
    Images { shared: downloaded, installer, ..Images::default() }
}

/// Everything that can be built for this cluster.
fn sources(cluster: &Cluster) -> impl Iterator<Item = Source> {
    let nodes = cluster.nodes.iter().filter(|_| cluster.boot.own_images());
    std::iter::once_with(|| shared(cluster)).chain(nodes.map(|node| own(cluster, node)))
}

/// The image of this file name.
pub(crate) fn by_file(cluster: &Cluster, file: &str) -> Option<Source> {
    sources(cluster).find(|source| source.reference(cluster).file == file)
}

/// The schematic of this id.
pub(crate) fn by_schematic(cluster: &Cluster, id: &str) -> Option<Schematic> {
    sources(cluster).map(|source| source.schematic).find(|schematic| schematic.id() == id)
}

/// The installer that a node takes when it installs or upgrades itself, of the same platform and schematic.
pub(crate) fn installer(cluster: &Cluster) -> String {
    shared(cluster).image.installer(&cluster.talos.factory)
}
