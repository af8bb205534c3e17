//! What is not as declared and stays so: the differences that a plan tells of and does not carry out.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::some_of;
use crate::fix::{self, Fix};
use crate::plan::{Level, Note};

/// Something that is not as declared, and that the plan does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A command or edit that helps.
    #[serde(flatten, with = "fix::saved", skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// Why a difference stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Stays {
    /// Proxmox has taken the declared value, and the VM gets it when it starts.
    UntilStart,
    /// It takes an upgrade.
    UntilUpgrade,
    /// It is there although it is not declared, and only a removal takes it away.
    UntilRemoval,
    /// This stands against it.
    Held {
        /// Why, as one clause or more, without a full stop.
        why: String,
    },
}

impl Stays {
    /// It is held for this reason.
    pub(crate) fn held(why: impl Into<String>) -> Self {
        let mut why = why.into();
        why.truncate(why.trim_end_matches('.').len());
        Self::Held { why }
    }
}

/// One line for a list of nodes, the node's name apart.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, declared, found, stays, .. } = self;
        match (declared.is_empty(), stays) {
            (_, Stays::UntilRemoval) => write!(f, "{found} is there and not declared"),
            (true, Stays::Held { why }) => write!(f, "{what} differs: {why}"),
            (true, Stays::UntilStart) => write!(f, "{what} differs until its next start"),
            (true, Stays::UntilUpgrade) => write!(f, "{what} differs until it is upgraded"),
            (false, Stays::Held { why }) => write!(f, "{what} {declared} declared, {found} found: {why}"),
            (false, Stays::UntilStart) => {
                write!(f, "{what} {declared} declared, {found} until its next start")
            }
            (false, Stays::UntilUpgrade) => {
                write!(f, "{what} {declared} declared, {found} until it is upgraded")
            }
        }
    }
}

/// The differences as notes, each once for all the nodes that have it.
pub(crate) fn notes(differences: &[Difference]) -> Vec<Note> {
    let mut told: Vec<(&Difference, Vec<String>)> = Vec::new();
    for difference in differences {
        let alike = |(other, _): &&mut (&Difference, _)| {
            (&difference.what, &difference.declared, &difference.found, &difference.stays)
                == (&other.what, &other.declared, &other.found, &other.stays)
                && (difference.fix == other.fix || difference.stays == Stays::UntilUpgrade)
        };
        match told.iter_mut().find(alike) {
            Some((_, nodes)) => nodes.push(difference.node.clone()),
            None => told.push((difference, vec![difference.node.clone()])),
        }
    }
    let note = |(difference, nodes): (&Difference, Vec<String>)| Note {
        level: Level::Warning,
        about: some_of(&nodes).into(),
        text: sentence(difference),
        fix: difference.fix.clone(),
    };
    told.into_iter().map(note).collect()
}

fn sentence(difference: &Difference) -> String {
    let Difference { what, declared, found, stays, .. } = difference;
    match (declared.is_empty(), stays) {
        (_, Stays::UntilRemoval) => {
            format!("{found} belongs to this cluster and is not declared. apply removes no nodes.")
        }
        (true, Stays::Held { why }) => format!("{what} differs from the declared one and stays: {why}."),
        (true, Stays::UntilStart) => format!("{what} differs from the declared one until its next start."),
        (true, Stays::UntilUpgrade) => {
            format!("{what} differs from the declared one. It takes an upgrade, which apply does not do.")
        }
        (false, Stays::Held { why }) => format!("{what} is {found}, declared is {declared}: {why}."),
        (false, Stays::UntilStart) => {
            format!("{what} is {found} until its next start, declared is {declared}.")
        }
        (false, Stays::UntilUpgrade) => {
            format!(
                "{what} is {found}, declared is {declared}. It takes an upgrade, which apply does not do."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(node: &str, what: &str, stays: Stays, fix: Option<&str>) -> Difference {
        Difference {
            node: node.to_owned(),
            what: what.to_owned(),
            declared: "12 GiB".to_owned(),
            found: "8 GiB".to_owned(),
            stays,
            fix: fix.map(Fix::from),
        }
    }

    #[test]
    fn nodes_with_the_same_difference_are_told_together() {
        let all = [
            difference("cp-1", "Talos version", Stays::UntilUpgrade, Some("upgrade cp-1")),
            difference("cp-2", "Talos version", Stays::UntilUpgrade, Some("upgrade cp-2")),
            difference("cp-2", "memory", Stays::UntilStart, None),
            difference("cp-3", "disk", Stays::held("disks only grow."), None),
        ];
        let notes = notes(&all);
        let told: Vec<(&str, &str)> = notes.iter().map(|n| (n.about.as_str(), n.text.as_str())).collect();
        assert_eq!(
            told,
            [
                (
                    "cp-1, cp-2",
                    "Talos version is 8 GiB, declared is 12 GiB. It takes an upgrade, which apply does not do."
                ),
                ("cp-2", "memory is 8 GiB until its next start, declared is 12 GiB."),
                ("cp-3", "disk is 8 GiB, declared is 12 GiB: disks only grow."),
            ]
        );
        assert_eq!(all[2].to_string(), "memory 12 GiB declared, 8 GiB until its next start");
        assert_eq!(all[3].to_string(), "disk 12 GiB declared, 8 GiB found: disks only grow");
    }
}
