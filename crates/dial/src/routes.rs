//! One dialer for each kind of peer.

use crate::Dialer;

/// How each kind of peer is reached. Cheap to clone.
#[derive(Clone)]
pub struct Routes {
    /// The Proxmox API.
    pub proxmox: Dialer,
    /// The Image Factory.
    pub factory: Dialer,
    /// The Talos API of the nodes.
    pub nodes: Dialer,
    /// The Kubernetes API.
    pub kubernetes: Dialer,
}

impl Routes {
    /// Every peer is reached in the same way.
    pub fn same(dialer: Dialer) -> Self {
        Self { proxmox: dialer.clone(), factory: dialer.clone(), nodes: dialer.clone(), kubernetes: dialer }
    }
}
