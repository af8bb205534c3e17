//! What is not as declared and stays so: the differences that a plan tells of and does not carry out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::plan::{Level, Note};
use crate::why::WhyStays;

/// Something that is not as declared, and that the plan does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The node it is about.
    pub node: String,
    /// What differs, such as `memory` or `Talos version`.
    pub what: String,
    /// As it is declared; empty where there is no short word for it.
    pub declared: String,
    /// As it is; empty where there is no short word for it.
    pub found: String,
    /// Why it stays.
    pub stays: Stays,
    /// What helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

/// What helps against a difference that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum Remedy {
    /// An upgrade of Talos.
    UpgradeTalos {
        /// Address of the node, where it is known.
        address: Option<String>,
        /// The installer, where it is known.
        image: Option<String>,
    },
    /// An upgrade of Kubernetes.
    UpgradeKubernetes {
        /// Address of the node, where it is known.
        address: Option<String>,
        /// The declared version, without `v`.
        version: String,
    },
    /// Its removal.
    RemoveNode {
        /// The node.
        node: String,
    },
    /// To declare the disk as it is.
    DeclareDisk {
        /// How large it is, as the inventory has it.
        size: String,
    },
    /// To destroy the VM and let apply make another.
    ReplaceNode {
        /// Host of the VM.
        host: String,
        /// VMID.
        vmid: u32,
    },
    /// A restart.
    Restart {
        /// Host of the VM.
        host: String,
        /// VMID.
        vmid: u32,
    },
    /// All members of etcd, so that one may be interrupted.
    RestoreQuorum {
        /// Whether members are in the way that are gone for good.
        dead: bool,
        /// Whether it can be done by hand meanwhile.
        by_hand: bool,
    },
}

/// Why a difference stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Stays {
    /// Proxmox has taken the declared value, and the VM gets it when it starts.
    #[default]
    UntilStart,
    /// It takes an upgrade.
    UntilUpgrade,
    /// It is there although it is not declared, and only a removal takes it away.
    UntilRemoval,
    /// This stands against it.
    Held {
        /// Why.
        #[serde(rename = "reason")]
        why: WhyStays,
    },
}

/// The differences as notes, each once for all the nodes that have it.
pub(crate) fn notes(differences: &[Difference]) -> Vec<Note> {
    let mut told: Vec<(&Difference, Vec<String>)> = Vec::new();
    for difference in differences {
        let alike = |(other, _): &&mut (&Difference, _)| {
            (&difference.what, &difference.declared, &difference.found, &difference.stays)
                == (&other.what, &other.declared, &other.found, &other.stays)
                && (difference.remedy == other.remedy || difference.stays == Stays::UntilUpgrade)
        };
        match told.iter_mut().find(alike) {
            Some((_, nodes)) => nodes.push(difference.node.clone()),
            None => told.push((difference, vec![difference.node.clone()])),
        }
    }
    let note = |(difference, nodes): (&Difference, Vec<String>)| {
        let Difference { what, declared, found, stays, remedy, .. } = difference.clone();
        let advice = Advice::NotAsDeclared { nodes, what, declared, found, stays, remedy };
        Note { level: Level::Warning, advice }
    };
    told.into_iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(node: &str, what: &str, stays: Stays, remedy: Option<Remedy>) -> Difference {
        Difference {
            node: node.to_owned(),
            what: what.to_owned(),
            declared: "12 GiB".to_owned(),
            found: "8 GiB".to_owned(),
            stays,
            remedy,
        }
    }

    #[test]
    fn nodes_with_the_same_difference_are_told_together() {
        let upgrade =
            |address: &str| Some(Remedy::UpgradeTalos { address: Some(address.into()), image: None });
        let all = [
            difference("cp-1", "Talos version", Stays::UntilUpgrade, upgrade("10.0.0.1")),
            difference("cp-2", "Talos version", Stays::UntilUpgrade, upgrade("10.0.0.2")),
            difference("cp-2", "memory", Stays::UntilStart, None),
            difference("cp-3", "disk", Stays::Held { why: WhyStays::DisksOnlyGrow }, None),
        ];
        let notes = notes(&all);
        let told = |note: &Note| match &note.advice {
            Advice::NotAsDeclared { nodes, what, .. } => (nodes.join(", "), what.clone()),
            other => panic!("{other:?}"),
        };
        let wanted = [("cp-1, cp-2", "Talos version"), ("cp-2", "memory"), ("cp-3", "disk")];
        let wanted = wanted.map(|(nodes, what)| (nodes.to_owned(), what.to_owned()));
        assert_eq!(notes.iter().map(told).collect::<Vec<_>>(), wanted);
    }
}
