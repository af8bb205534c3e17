//! What differs between a VM of ours and what the inventory says, as far as it can be seen on the VM.

use daedal_inventory::{Cluster, Node};
use daedal_machine::vm::{self, Change, Differences, FIRST_NIC, Held};

use crate::survey::Present;

/// Changes to a VM, in two kinds.
#[derive(Debug, Default)]
pub(crate) struct Drift {
    /// Harmless while it runs; some take effect at its next start.
    pub(crate) quiet: Vec<Change>,
    /// The network card: takes effect at once and may cut a running node off.
    pub(crate) network: Option<Change>,
    /// What differs and is left as it is, each with the reason.
    pub(crate) held: Vec<Held>,
    /// What is set as declared, and the running VM gets at its next start.
    pub(crate) waiting: Vec<Change>,
    /// The declared MAC differs, but the node's own config still names the old one: the card is left as it is.
    pub(crate) mac_held_back: bool,
}

/// Compares. The system disk is left out: it only grows, by a step of its own.
pub(crate) fn drift(cluster: &Cluster, node: &Node, present: &Present<'_>, config_is_current: bool) -> Drift {
    let (config, running) = (present.config, present.guest.running);
    let declared = vm::declared(cluster, node, &config.seats);
    let runs = config.runs.as_deref().map(|runs| &runs.options);
    let Differences { changes, held, waiting } = vm::differences(&declared, &config.options, runs, running);
    // A flag that somebody else set stays.
    let theirs = !cluster.protect && !config.protected_by_us;
    let (network, quiet): (Vec<Change>, Vec<Change>) = changes
        .into_iter()
        .filter(|change| !(theirs && change.option == "protection"))
        .partition(|change| change.option == FIRST_NIC);
    // The config inside the node finds its network card by MAC. If that config is not the declared one, a new MAC on
    // the card would cut the node off for good.
    let mac_held_back = config.mac() != node.mac && !config_is_current;
    let network = network.into_iter().next().filter(|_| !mac_held_back);
    Drift { quiet, network, held, waiting, mac_held_back }
}
