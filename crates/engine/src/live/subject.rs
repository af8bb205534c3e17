//! What a live check is about. Checks are compared by it; words are made of it where they are shown.

use std::fmt;

use daedal_planner::{Advice, Aspect};
use daedal_words::about;
use serde::{Serialize, Serializer};

/// What was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckSubject {
    /// The Proxmox API at this endpoint.
    Proxmox(String),
    /// How the certificate of Proxmox is verified.
    Tls,
    /// The Image Factory of this name.
    Factory(String),
    /// Privileges: all of them, or those on a path.
    Privileges(Option<String>),
    /// A pool of Proxmox.
    Pool(String),
    /// A host.
    Host(String),
    /// A storage as one host sees it; without a host, one that all hosts share.
    Storage {
        /// The storage.
        storage: String,
        /// The host.
        host: Option<String>,
    },
    /// A bridge of a host.
    Bridge {
        /// The bridge.
        bridge: String,
        /// The host.
        host: String,
    },
    /// Volumes that nothing uses.
    Volumes,
    /// Whether the hosts have room.
    Capacity,
    /// Whether a plan can be made.
    Plan,
    /// Nodes that are still to be made, on any host or on this one.
    NewNodes(Option<String>),
    /// A VMID.
    Vmid(u32),
    /// An address, or all those that new nodes will use.
    Addresses(Option<String>),
    /// The clock of a host, or those of all.
    Clocks(Option<String>),
    /// The quorum of the Proxmox cluster.
    Quorum,
    /// What a plan says of this.
    Noted(Box<Advice>),
    /// What could not be looked at.
    Unobserved(Aspect),
}

impl CheckSubject {
    /// A storage as a host sees it.
    pub(super) fn storage(storage: &str, host: &str) -> Self {
        Self::Storage { storage: storage.to_owned(), host: Some(host.to_owned()) }
    }

    /// The host that it is about; none if it is about none, or about more than one.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Host(host) | Self::Bridge { host, .. } => Some(host),
            Self::Storage { host, .. } | Self::NewNodes(host) | Self::Clocks(host) => host.as_deref(),
            _ => None,
        }
    }

    /// Whether it is about this storage; a storage that hosts share is the same on each.
    pub(super) fn is_storage(&self, name: &str, on: Option<&str>) -> bool {
        match self {
            Self::Storage { storage, host } => {
                storage == name && (on.is_none() || host.is_none() || host.as_deref() == on)
            }
            _ => false,
        }
    }
}

impl fmt::Display for CheckSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proxmox(endpoint) => write!(f, "Proxmox at {endpoint}"),
            Self::Tls => f.write_str("TLS"),
            Self::Factory(name) => write!(f, "Image Factory at {name}"),
            Self::Privileges(None) => f.write_str("privileges"),
            Self::Privileges(Some(path)) => write!(f, "privileges on {path}"),
            Self::Pool(pool) => write!(f, "pool {pool}"),
            Self::Host(host) => write!(f, "host {host}"),
            Self::Storage { storage, host: None } => write!(f, "storage {storage}"),
            Self::Storage { storage, host: Some(host) } => write!(f, "storage {storage} on {host}"),
            Self::Bridge { bridge, host } => write!(f, "bridge {bridge} on {host}"),
            Self::Volumes => f.write_str("volumes"),
            Self::Capacity => f.write_str("capacity"),
            Self::Plan => f.write_str("plan"),
            Self::NewNodes(None) => f.write_str("new nodes"),
            Self::NewNodes(Some(host)) => write!(f, "new nodes on {host}"),
            Self::Vmid(vmid) => write!(f, "VMID {vmid}"),
            Self::Addresses(None) => f.write_str("addresses"),
            Self::Addresses(Some(address)) => write!(f, "address {address}"),
            Self::Clocks(None) => f.write_str("clocks"),
            Self::Clocks(Some(host)) => write!(f, "clock of {host}"),
            Self::Quorum => f.write_str("quorum"),
            Self::Noted(advice) => f.write_str(&about(advice)),
            Self::Unobserved(aspect) => aspect.fmt(f),
        }
    }
}

impl Serialize for CheckSubject {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_are_told_apart_by_their_whole_names() {
        let nas = CheckSubject::storage("nas", "atlas");
        assert!(nas.is_storage("nas", Some("atlas")) && nas.is_storage("nas", None));
        assert!(!nas.is_storage("nas", Some("boreas")));
        assert!(!CheckSubject::storage("nas2", "atlas").is_storage("nas", None));
        assert!(!CheckSubject::Host("nas".into()).is_storage("nas", None));
        // A host's name may end like another's.
        assert_eq!(CheckSubject::storage("nas", "pve on atlas").host(), Some("pve on atlas"));
    }
}
