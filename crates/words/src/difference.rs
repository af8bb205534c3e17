//! What is not as declared and stays so, in words.

use daedal_planner::{Command, Difference, Fix, Remedy, Stays, destroying};

use crate::why::why_stays;

/// One line for a list of nodes, the node's name apart.
pub fn difference(difference: &Difference) -> String {
    let Difference { what, declared, found, stays, .. } = difference;
    match (declared.is_empty(), stays) {
        (_, Stays::UntilRemoval) => format!("{found} is there and not declared"),
        (true, Stays::Held { why }) => format!("{what} differs: {}", why_stays(why)),
        (true, Stays::UntilStart) => format!("{what} differs until its next start"),
        (true, Stays::UntilUpgrade) => format!("{what} differs until it is upgraded"),
        (false, Stays::Held { why }) => {
            format!("{what} {declared} declared, {found} found: {}", why_stays(why))
        }
        (false, Stays::UntilStart) => format!("{what} {declared} declared, {found} until its next start"),
        (false, Stays::UntilUpgrade) => format!("{what} {declared} declared, {found} until it is upgraded"),
    }
}

/// The same as a sentence of a note.
pub(crate) fn sentence(what: &str, declared: &str, found: &str, stays: &Stays) -> String {
    match (declared.is_empty(), stays) {
        (_, Stays::UntilRemoval) => {
            format!("{found} belongs to this cluster and is not declared. apply removes no nodes.")
        }
        (true, Stays::Held { why }) => {
            format!("{what} differs from the declared one and stays: {}.", why_stays(why))
        }
        (true, Stays::UntilStart) => format!("{what} differs from the declared one until its next start."),
        (true, Stays::UntilUpgrade) => {
            format!("{what} differs from the declared one. It takes an upgrade, which apply does not do.")
        }
        (false, Stays::Held { why }) => {
            format!("{what} is {found}, declared is {declared}: {}.", why_stays(why))
        }
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

/// What helps against a difference, as a command or an edit.
pub fn remedy_of(remedy: &Remedy) -> Fix {
    let at = |address: &Option<String>| address.as_ref().map(|at| format!(" -n {at}")).unwrap_or_default();
    match remedy {
        Remedy::UpgradeTalos { address, image } => {
            let image = image.as_deref().unwrap_or("IMAGE");
            format!("one node after the other: talosctl upgrade{} --image {image}", at(address)).into()
        }
        Remedy::UpgradeKubernetes { address, version } => {
            format!("talosctl upgrade-k8s{} --to {version}", at(address)).into()
        }
        Remedy::RemoveNode { node } => Fix::from("to remove it: ").run(Command::NodeRemove(node.clone())),
        Remedy::DeclareDisk { size } => format!("declare `disk: {size}` for it").into(),
        Remedy::ReplaceNode { host, vmid } => {
            format!("replace the node: on {host}: qm stop {vmid} && {}, then apply again", destroying(*vmid))
                .into()
        }
        Remedy::Restart { host, vmid } => format!(
            "`restarts: allowed` in the inventory, or on {host}: qm shutdown {vmid} && qm start {vmid}"
        )
        .into(),
        Remedy::RestoreQuorum { dead, by_hand } => {
            let back = match dead {
                true => {
                    "bring the other members back, or take those that are gone out of etcd: their ids are in `talosctl \
                     etcd members`, and `talosctl etcd remove-member ID` removes one"
                }
                false => "bring all control planes back into etcd",
            };
            format!("{back}{}", if *by_hand { ", or change the card by hand" } else { "" }).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use daedal_planner::WhyStays;

    use super::*;

    #[test]
    fn a_difference_is_told_in_a_line_and_in_a_sentence() {
        let of = |what: &str, stays: Stays| Difference {
            node: "cp-1".to_owned(),
            what: what.to_owned(),
            declared: "12 GiB".to_owned(),
            found: "8 GiB".to_owned(),
            stays,
            remedy: None,
        };
        for (one, line, whole) in [
            (
                of("Talos version", Stays::UntilUpgrade),
                "Talos version 12 GiB declared, 8 GiB until it is upgraded",
                "Talos version is 8 GiB, declared is 12 GiB. It takes an upgrade, which apply does not do.",
            ),
            (
                of("memory", Stays::UntilStart),
                "memory 12 GiB declared, 8 GiB until its next start",
                "memory is 8 GiB until its next start, declared is 12 GiB.",
            ),
            (
                of("disk", Stays::Held { why: WhyStays::DisksOnlyGrow }),
                "disk 12 GiB declared, 8 GiB found: disks only grow",
                "disk is 8 GiB, declared is 12 GiB: disks only grow.",
            ),
        ] {
            assert_eq!(difference(&one), line);
            assert_eq!(sentence(&one.what, &one.declared, &one.found, &one.stays), whole);
        }
    }
}
