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
    /// What is set as declared, and the running VM gets at its next start.
    pub(crate) waiting: Vec<Change>,
    /// The declared MAC differs, but the node's own config still names the old one: the card is left as it is.
    pub(crate) mac_held_back: bool,
}

/// Compares. Disks are left out: they only grow, by a step of their own.
pub(crate) fn drift(cluster: &Cluster, node: &Node, present: &Present<'_>, config_is_current: bool) -> Drift {
    let (config, running) = (present.config, present.guest.running);
    let mut drift = Drift::default();
    let runs = config.runs.as_deref().filter(|_| running).unwrap_or(config);
    let mut sized = |option: &str, [is, has, wanted]: [u64; 3], show: fn(u64) -> String| {
        let (from, to) = (show(has), show(wanted));
        let change = Change { option: option.to_owned(), from, to, needs_restart: running && has != wanted };
        match (is == wanted, has == wanted) {
            (true, true) => {}
            (true, false) => drift.waiting.push(change),
            (false, _) => drift.quiet.push(change),
        }
    };
    sized("cores", [config.cores, runs.cores, node.cores].map(u64::from), |cores| cores.to_string());
    sized("memory", [config.memory, runs.memory, node.memory], size::show);
    let mut quiet = |option: &str, from: String, to: String, needs_restart: bool| {
        drift.quiet.push(Change { option: option.to_owned(), from, to, needs_restart });
    };
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
    // A flag that somebody else set stays.
    if cluster.protect && !config.protected {
        quiet("protection", "no".to_owned(), "yes".to_owned(), false);
    } else if !cluster.protect && config.protected && config.protected_by_us {
        quiet("protection", "yes".to_owned(), "no".to_owned(), false);
    }
    let declared = declared_hardware(cluster, node, &config.seats);
    let found = differences(&declared, &config.hardware, Some(&runs.hardware), running);
    drift.quiet.extend(found.changes);
    drift.waiting.extend(found.waiting);
    drift.held = found.held;
    // The config inside the node finds its network card by MAC. If that config is not the declared one, a new MAC on
    // the card would cut the node off for good.
    drift.mac_held_back = config.mac != node.mac && !config_is_current;
    let (bridge, vlan) = (&cluster.proxmox.bridge, cluster.proxmox.vlan);
    // Where a card could not be hot-plugged, it is tried again.
    let differs =
        [config, runs].iter().any(|card| (&card.mac, &card.bridge, card.vlan) != (&node.mac, bridge, vlan));
    if differs && !drift.mac_held_back {
        drift.network = Some(Change {
            option: "net0".to_owned(),
            from: card_words(&runs.mac, &runs.bridge, runs.vlan),
            to: card_words(&node.mac, bridge, vlan),
            needs_restart: false,
        });
    }
    drift
}
