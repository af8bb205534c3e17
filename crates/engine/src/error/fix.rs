//! What to do about an error, where that is known.

use super::Error;

impl Error {
    /// A command or edit that helps, where one is known.
    pub fn fix(&self) -> Option<String> {
        use daedal_proxmox::Kind;
        match self {
            Self::StuckCreate { vmid, host, lock, unseen: true } => {
                Some(daedal_planner::freeing_unseen(host, *vmid, lock))
            }
            Self::StuckCreate { vmid, host, .. } => Some(daedal_planner::freeing(host, *vmid)),
            Self::NotOurs { other_secrets: true, .. } => Some(format!(
                "another store created this cluster, and the secrets in this store are unused: {}",
                daedal_planner::other_secrets()
            )),
            Self::NotPlugged { vmid, host, options, .. } => Some(format!(
                "mend what Proxmox complains about and run again; or take it back on {host}: qm set {vmid} --revert {}",
                options.join(",")
            )),
            Self::Image { fix, .. } | Self::NoBackups { fix, .. } => fix.clone(),
            Self::Changed { .. } => Some("run again to see what it is now".to_owned()),
            Self::Proxmox(error) => match error.kind() {
                // An entry for one VM would replace all that comes from its pool or from /vms.
                Kind::Permission { path: Some(path), privilege: Some(privilege), .. } => {
                    let place = if path.starts_with("/vms/") { "the path of its VMs" } else { path };
                    Some(format!(
                        "the API token and its user need {privilege} on {place}: `daedal check --live` prints the command"
                    ))
                }
                Kind::Permission { .. } => {
                    Some("`daedal check --live` says which privilege is missing, and how to grant it".to_owned())
                }
                Kind::Auth { .. } => Some("check the token id and its secret".to_owned()),
                _ => None,
            },
            Self::TokenExists { id } => Some(format!(
                "give the file that has it, or rotate it, which cuts off whoever uses {id} with the old one"
            )),
            Self::EtcdExists { .. } => Some(
                "if a restore that was interrupted began it, `daedal apply` brings up the rest; else destroy the \
                 cluster first"
                    .to_owned(),
            ),
            Self::OtherAuthority { .. } => Some(
                "if Kubernetes' authority was changed (`talosctl rotate-ca`), let the kept secrets follow: `daedal secrets \
                 import --replace FILE`, where FILE is the machine config that a control plane runs on; else another machine \
                 has the address"
                    .to_owned(),
            ),
            Self::OtherCluster { node, .. } => Some(daedal_planner::strangers_address(node)),
            Self::StillMember { .. } => Some("run again: it will leave etcd first".to_owned()),
            Self::SharedAddress { patch: Some(_), .. } => {
                Some("give each node its own by a patch under the node, or make it of `${node.address}`".to_owned())
            }
            Self::Maintenance { .. } => Some("run again: the config media will be attached again".to_owned()),
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
            Error::Proxmox(daedal_proxmox::Error::new("start VM 300", kind)).fix().unwrap()
        };
        let of_vm = fix(Some("/vms/300"), Some("VM.PowerMgmt"));
        assert!(of_vm.contains("VM.PowerMgmt") && !of_vm.contains("/vms/300"), "{of_vm}");
        assert!(fix(Some("/storage/local"), Some("Datastore.Audit")).contains("on /storage/local"));
        assert!([of_vm, fix(None, None)].iter().all(|fix| fix.contains("`daedal check --live`")));
    }
}
