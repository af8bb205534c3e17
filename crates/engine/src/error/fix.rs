//! What to do about an error, where that is known.

use daedal_planner::{Command, Fix, other_secrets};

use super::Error;

impl Error {
    /// A command or edit that helps, where one is known.
    pub fn fix(&self) -> Option<Fix> {
        use daedal_proxmox::Kind;
        match self {
            Self::StuckCreate { vmid, host, lock, unseen: true } => {
                Some(daedal_planner::freeing_unseen(host, *vmid, lock).into())
            }
            Self::StuckCreate { vmid, host, .. } => Some(daedal_planner::freeing(host, *vmid).into()),
            Self::NotOurs { other_secrets: true, .. } => {
                let text = "another store created this cluster, and the secrets in this store are unused: ";
                Some(Fix::from(text).then(other_secrets()))
            }
            Self::NotPlugged { vmid, host, options, .. } => {
                let options = options.join(",");
                let text = format!(
                    "mend what Proxmox complains about and run again; or take it back on {host}: qm set {vmid} --revert {options}"
                );
                Some(text.into())
            }
            Self::Image { fix, .. } => fix.clone().map(Fix::from),
            Self::Changed { .. } => Some("run again to see what it is now".into()),
            Self::Proxmox(error) => match error.kind() {
                // An entry for one VM would replace all that comes from its pool or from /vms.
                Kind::Permission { path: Some(path), privilege: Some(privilege), .. } => {
                    let place = if path.starts_with("/vms/") { "the path of its VMs" } else { path };
                    let need = format!("the API token and its user need {privilege} on {place}: `");
                    Some(Fix::from(need).run(Command::CheckLive).words("` prints the command"))
                }
                Kind::Permission { .. } => {
                    let says = "` says which privilege is missing, and how to grant it";
                    Some(Fix::from("`").run(Command::CheckLive).words(says))
                }
                Kind::Auth { .. } => Some("check the token id and its secret".into()),
                _ => None,
            },
            Self::TokenExists { id } => {
                let text = format!(
                    "give the file that has it, or rotate it, which cuts off whoever uses {id} with the old one"
                );
                Some(text.into())
            }
            Self::EtcdExists { .. } => Some(daedal_planner::no_second_etcd()),
            Self::OtherAuthority { .. } => {
                let changed = "if Kubernetes' authority was changed (`talosctl rotate-ca`), let the kept secrets follow: `";
                Some(Fix::from(changed).run(Command::SecretsImportReplace).words(
                    "`, where FILE is the machine config that a control plane runs on; else another machine has the address",
                ))
            }
            Self::OtherCluster { node, .. } => Some(daedal_planner::strangers_address(node)),
            Self::StillMember { .. } => Some("run again: it will leave etcd first".into()),
            Self::Machine(daedal_machine::Error::SharedAddress { patch: Some(_), .. }) => Some(
                "give each node its own by a patch under the node, or make it of `${node.address}`".into(),
            ),
            Self::AddonConflict { addon, .. } => Some(
                format!("let the other manager give them up, or take them: `force: true` at add-on {addon}")
                    .into(),
            ),
            Self::AddonRefused { immutable: true, object, .. } => {
                Some(format!("delete {object}, and run again: it is made anew").into())
            }
            Self::Maintenance { .. } => Some("run again: the config media will be attached again".into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry on one VM's path replaces what is inherited, so none is advised; where Proxmox names nothing, the check does.
    #[test]
    fn a_refusal_leads_to_the_check_and_to_no_entry_for_one_vm() {
        let fix = |path: Option<&str>, privilege: Option<&str>| {
            let kind = daedal_proxmox::Kind::Permission {
                path: path.map(str::to_owned),
                privilege: privilege.map(str::to_owned),
                text: String::new(),
            };
            Error::Proxmox(daedal_proxmox::Error::new("start VM 300", kind)).fix().unwrap().to_string()
        };
        let of_vm = fix(Some("/vms/300"), Some("VM.PowerMgmt"));
        assert!(of_vm.contains("VM.PowerMgmt") && !of_vm.contains("/vms/300"), "{of_vm}");
        assert!(fix(Some("/storage/local"), Some("Datastore.Audit")).contains("on /storage/local"));
        assert!([of_vm, fix(None, None)].iter().all(|fix| fix.contains("`daedal check --live`")));
    }

    #[test]
    fn an_address_that_a_patch_gives_to_two_nodes_can_be_made_of_the_nodes_own() {
        let shared = daedal_machine::Error::SharedAddress {
            address: [10, 0, 0, 1].into(),
            first: "cp-1".into(),
            second: "cp-2".into(),
            patch: Some("patches[0]".into()),
        };
        assert!(Error::from(shared).fix().unwrap().to_string().contains("${node.address}"));
    }
}
