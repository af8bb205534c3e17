//! Why secrets are not imported, in words.

use std::path::Path;

use daedal_app::Misfit;

use super::import::{How, UNCHECKED};
use crate::exit::Exit;
use crate::failure::Failure;

const RIGHT_ONES: &str = "The right ones are in a control plane's machine config: `talosctl get machineconfig v1alpha1 -o \
                          jsonpath={.spec}`.";

/// What is refused, beside what was found.
pub(super) struct Refused<'a> {
    /// The cluster's name.
    pub(super) cluster: &'a str,
    /// The file that the secrets are in.
    pub(super) source: &'a Path,
    pub(super) how: How,
    /// Whether others are kept.
    pub(super) replaces: bool,
}

impl Refused<'_> {
    /// The failure that says why, and what to do.
    pub(super) fn failure(&self, misfit: &Misfit) -> Failure {
        let failure = Failure::new(Exit::Failed, format!("nothing was imported: {}", self.why(misfit)));
        let failure = match self.how {
            How::New if misfit.is_doubt() => failure.hint(UNCHECKED),
            _ => failure,
        };
        failure.hint(self.hint(misfit))
    }

    fn why(&self, misfit: &Misfit) -> String {
        let source = self.source.display();
        match misfit {
            Misfit::UnlistedHosts(hosts) => format!(
                "{} did not list its VMs, so a node that runs on other secrets may be there",
                hosts.join(", ")
            ),
            Misfit::MaybeNode { vmid, host, why, .. } => {
                format!("VM {vmid} on {host} may be a node that runs on other secrets: {why}")
            }
            Misfit::NothingRuns => {
                format!("no node of cluster {} is there to ask what it runs on", self.cluster)
            }
            Misfit::OtherCluster(nodes) => {
                format!("{} runs on other secrets than {source}", nodes.join(", "))
            }
            Misfit::Silent(nodes) => {
                let may = match self.replaces {
                    true => "may still need the kept secrets",
                    false => "may run on other secrets",
                };
                format!("{} {may}: nothing answers to those of {source} there", nodes.join(", "))
            }
            Misfit::NoneAnswers(nodes) => {
                let nodes = nodes.join(", ");
                format!("the cluster has VMs ({nodes}), and none of them answers to these secrets")
            }
            Misfit::OtherSecrets(nodes) => {
                let others = nodes.iter().map(|(node, fields)| format!("{node} ({})", fields.join(", ")));
                let others: Vec<String> = others.collect();
                format!("these nodes run on other secrets than {source}: {}", others.join("; "))
            }
            Misfit::Unread { node, why } => {
                let why = why.as_deref().unwrap_or("its address is not known");
                format!("what {node} runs on could not be read: {why}")
            }
        }
    }

    fn hint(&self, misfit: &Misfit) -> String {
        match misfit {
            Misfit::UnlistedHosts(hosts) => format!(
                "Bring {} back, or let the token see its VMs (VM.Audit on /vms), and run it again.",
                hosts.join(", ")
            ),
            Misfit::MaybeNode { read: false, .. } => {
                "Bring its host back, or let the token read it (VM.Audit on its path), and run it again."
                    .to_owned()
            }
            Misfit::MaybeNode { read: true, .. } => {
                "Look at its config in Proxmox, and run it again when it is known whose it is.".to_owned()
            }
            Misfit::NothingRuns if self.replaces => {
                "If the cluster is gone for good, move secrets.yaml.age away and import without --replace."
                    .to_owned()
            }
            Misfit::NothingRuns => {
                "No secrets are kept that could be replaced: import without --replace.".to_owned()
            }
            Misfit::OtherCluster(_) | Misfit::OtherSecrets(_) => RIGHT_ONES.to_owned(),
            Misfit::Silent(_) => {
                "Start them, or take them out of the cluster, and change their authority first.".to_owned()
            }
            Misfit::NoneAnswers(_) => format!("Start them first; {UNCHECKED}"),
            Misfit::Unread { .. } => "When the node answers, run it again.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(misfit: &Misfit, how: How) -> String {
        let source = Path::new("new.yaml");
        Refused { cluster: "home", source, how, replaces: true }.failure(misfit).render(false)
    }

    #[test]
    fn a_doubt_may_be_set_aside_only_where_nothing_is_overwritten() {
        let unread = Misfit::Unread { node: "cp-1".into(), why: Some("no answer in time".into()) };
        let unlisted = Misfit::UnlistedHosts(vec!["boreas".into()]);
        for (misfit, words) in [
            (&unread, "what cp-1 runs on could not be read: no answer in time"),
            (&unlisted, "boreas did not list its VMs"),
        ] {
            let replacing = said(misfit, How::Replacing);
            assert!(replacing.contains(words) && replacing.contains("run it again"), "{replacing}");
            assert!(!replacing.contains("--unchecked"), "{replacing}");
            assert!(said(misfit, How::New).contains("--unchecked"));
        }
        let other = said(&Misfit::OtherCluster(vec!["cp-1".into()]), How::New);
        assert!(!other.contains("--unchecked"), "{other}");
    }

    #[test]
    fn the_nodes_and_what_differs_are_named() {
        let fields = vec!["certs.etcd.crt", "certs.etcd.key"];
        let text = said(&Misfit::OtherSecrets(vec![("cp-9".into(), fields)]), How::Replacing);
        assert!(text.contains("new.yaml: cp-9 (certs.etcd.crt, certs.etcd.key)"), "{text}");
        let text = said(&Misfit::Silent(vec!["cp-9".into()]), How::Replacing);
        assert!(text.contains("cp-9 may still need the kept secrets"), "{text}");
    }
}
