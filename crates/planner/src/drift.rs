//! What differs between a VM of ours and what the inventory says, as far as it can be seen on the VM.

use daedal_inventory::{Cluster, Node};

use crate::hardware::{Held, card_words, declared_hardware, differences};
use crate::names;
use crate::plan::Change;
use crate::size;
use crate::survey::Present;

/// Changes to a VM, in two kinds.
#[derive(Debug, Default)]
pub(crate) struct Drift {
    /// Harmless while it runs; some take effect at its next start.
    pub(crate) quiet: Vec<Change>,
    /// The network card: takes effect at once and may cut a running node off.
    pub(crate) network: Option<Change>,
    /// Hardware that differs and is left as it is, each with the reason.
    pub(crate) held: Vec<Held>,
    /// The declared MAC differs, but the node's own config still names the old one: the card is left as it is.
    pub(crate) mac_held_back: bool,
}

/// Compares. Disks are left out: they only grow, by a step of their own.
pub(crate) fn drift(cluster: &Cluster, node: &Node, present: &Present<'_>, config_is_current: bool) -> Drift {
    let (config, running) = (present.config, present.guest.running);
    let mut drift = Drift::default();
    let mut quiet = |option: &str, from: String, to: String, needs_restart: bool| {
        drift.quiet.push(Change { option: option.to_owned(), from, to, needs_restart });
    };
    if config.cores != node.cores {
        quiet("cores", config.cores.to_string(), node.cores.to_string(), running);
    }
    if config.memory != node.memory {
        quiet("memory", size::show(config.memory), size::show(node.memory), running);
    }
    let tags = names::tags(cluster, node);
    if config.tags != tags {
        quiet("tags", config.tags.join(";"), tags.join(";"), false);
    }
    if present.guest.name != node.name {
        quiet("name", present.guest.name.clone(), node.name.clone(), false);
    }
    if !config.on_boot {
        quiet("onboot", "no".to_owned(), "yes".to_owned(), false);
    }
    let declared = declared_hardware(cluster, node, &config.seats);
    let (hardware, held) = differences(&declared, &config.hardware, present.guest.running);
    drift.quiet.extend(hardware);
    drift.held = held;
    // The config inside the node finds its network card by MAC. If that config is not the declared one, a new MAC on
    // the card would cut the node off for good.
    drift.mac_held_back = config.mac != node.mac && !config_is_current;
    let (bridge, vlan) = (&cluster.proxmox.bridge, cluster.proxmox.vlan);
    let differs = (&config.mac, &config.bridge, config.vlan) != (&node.mac, bridge, vlan);
    if differs && !drift.mac_held_back {
        drift.network = Some(Change {
            option: "net0".to_owned(),
            from: card_words(&config.mac, &config.bridge, config.vlan),
            to: card_words(&node.mac, bridge, vlan),
            needs_restart: false,
        });
    }
    drift
}
