//! What nodes say of themselves, and what etcd and Kubernetes say of them.

use std::fmt;

use daedal_inventory::Role;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::plan::{DocumentChange, RunningVersions};

/// What one node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeView {
    /// The Talos API.
    pub talos: TalosView,
    /// Its etcd member (control planes).
    pub etcd: EtcdView,
    /// Its Kubernetes node object's Ready condition; none if there is no object or no API server.
    pub ready: Option<bool>,
    /// Where Kubernetes knows it, if that is another address than the declared one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
    /// Kubelet version as Kubernetes reports it.
    pub kubelet: Option<String>,
    /// The machine config it runs on, beside the declared one.
    pub config: ConfigView,
    /// The versions it runs, where they are not the declared ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<RunningVersions>,
    /// Schematic of the system it runs, where an Image Factory built that and the node says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schematic: Option<String>,
}

/// A member of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberView {
    /// Its id, as etcd writes it: hexadecimal.
    pub id: String,
    /// Its node's name, as the inventory or the VM's mark has it; its own where it is nobody's of ours; empty until it has
    /// started.
    pub name: String,
    /// Where it says it is.
    pub address: Option<String>,
    /// It follows, but does not vote yet.
    pub learner: bool,
    /// Whether it answered itself: it runs, and sees a quorum.
    pub serves: bool,
    /// Whose it is was told by nothing but an address or a name that others may have had.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}

/// What is known of a node that the inventory does not name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormerView {
    /// Where it is, as etcd or Kubernetes tell.
    pub address: Option<String>,
    /// The name that Kubernetes knows it by, where that is another than ours: it may be DHCP's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// What it calls itself, and etcd knows it by, where that is another than ours. Kubernetes may write it otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// Its role, as etcd or Kubernetes tell.
    pub role: Option<Role>,
    /// The Talos API at that address.
    pub talos: TalosView,
    /// Its Kubernetes node object's Ready condition; none if there is no object or no API server.
    pub ready: Option<bool>,
}

impl FormerView {
    /// This, and where it says nothing, what was known besides.
    pub fn beside(self, known: Option<Self>) -> Self {
        let Some(known) = known else { return self };
        Self {
            address: self.address.or(known.address),
            known_as: self.known_as.or(known.known_as),
            called: self.called.or(known.called),
            role: self.role.or(known.role),
            talos: self.talos,
            ready: self.ready.or(known.ready),
        }
    }
}

/// A node's machine config beside the one that is declared for the versions it runs. Digests are of what the configs say, not of their texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum ConfigView {
    /// Not seen.
    #[default]
    Unknown,
    /// They say the same.
    AsDeclared,
    /// They differ.
    Differs(Box<ConfigDifference>),
    /// None can be made for the versions it runs.
    NotMade {
        /// The version of Talos it runs.
        talos: String,
        /// What stands against it.
        why: String,
    },
}

/// Two machine configs that differ, and what the node says to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigDifference {
    /// What it runs on.
    pub running: ConfigFacts,
    /// What is declared.
    pub declared: ConfigFacts,
    /// What differs, secrets as marks.
    pub changes: Vec<DocumentChange>,
    /// What the node would do with the declared one.
    pub answer: DryRun,
}

/// What of a machine config decides whether another may take its place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigFacts {
    /// Digest of what it says.
    pub digest: String,
    /// The image that its next upgrade takes.
    pub installer: Option<String>,
    /// The static addresses that it gives the machine.
    pub addresses: Vec<IpNet>,
    /// The MACs that it names, in lower case.
    pub macs: Vec<String>,
    /// Whether it asks somebody on the network for an address.
    pub asks_dhcp: bool,
}

/// What a node would do with the declared config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum DryRun {
    /// Not asked: it must not get that config, whatever it would say.
    #[default]
    NotAsked,
    /// It takes it.
    Accepted {
        /// Whether it has to reboot for it.
        reboot: bool,
    },
    /// It refuses it.
    Refused {
        /// Its own words, secrets as marks.
        text: String,
    },
}

/// A node's Talos API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum TalosView {
    /// Did not answer.
    #[default]
    Unreachable,
    /// Answers without a client certificate: waits for a config.
    Maintenance,
    /// Answers over mTLS with our keys.
    Configured {
        /// Talos version, `v1.12.0`.
        version: String,
        /// Machine stage (`booting`, `running` …).
        stage: String,
    },
    /// Refuses our certificate, or shows one that our CA did not sign.
    OtherCluster,
}

impl fmt::Display for TalosView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("unreachable"),
            Self::Maintenance => f.write_str("maintenance"),
            Self::Configured { version, stage } => write!(f, "{version} {stage}"),
            Self::OtherCluster => f.write_str("other cluster"),
        }
    }
}

/// A node's Ready condition, as Kubernetes' own tools write it.
pub fn readiness(ready: bool) -> &'static str {
    if ready { "Ready" } else { "NotReady" }
}

/// A node's etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum EtcdView {
    /// Not asked, or did not answer.
    #[default]
    Unknown,
    /// etcd waits for bootstrap or has not joined.
    NotJoined,
    /// A learner.
    Learner,
    /// A voting member.
    Member,
}
