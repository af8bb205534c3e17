//! Why something that is not as declared stays, as data.

use daedal_machine::vm::WhyHeld;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::Voters;

/// Why a difference stays although the inventory says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WhyStays {
    /// The node must not, or does not, take the declared machine config.
    Config(WhyConfigStays),
    /// The VM cannot have the option.
    Vm(WhyHeld),
    /// The system disk is larger than declared.
    DisksOnlyGrow,
    /// The node's own machine config names the MAC that the card has.
    ConfigNamesMac,
    /// The node would have to restart, and does not answer.
    NoAnswer,
    /// The worker would have to restart, and no control plane could give it a certificate then.
    NoControlPlane {
        /// Whether it would restart for its machine config.
        config: bool,
    },
    /// etcd could lose its quorum meanwhile.
    Quorum {
        /// What would interrupt the member.
        by: InterruptedBy,
        /// Who votes.
        voters: Voters,
    },
}

/// What would interrupt a member of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InterruptedBy {
    /// A reboot for its machine config.
    Config,
    /// Another network card.
    Card,
    /// A restart for its hardware.
    Restart,
}

/// Why a running node keeps its machine config. Secrets in it are marks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum WhyConfigStays {
    /// The field says which cluster or which machine it is.
    Identity {
        /// Which document, as differences name it.
        document: String,
        /// The field.
        path: String,
    },
    /// The system would be installed to another disk.
    InstallDisk {
        /// What it is; none if it is not there.
        from: Option<String>,
        /// What it would be; none if it would go.
        to: Option<String>,
    },
    /// The node would have another name.
    Name {
        /// What it is; none if it is not there.
        from: Option<String>,
        /// What it would be; none if it would go.
        to: Option<String>,
    },
    /// It would run another version of Kubernetes.
    KubernetesVersion {
        /// The field that names the image.
        path: String,
        /// What it is; none if it is not there.
        from: Option<String>,
        /// What it would be; none if it would go.
        to: Option<String>,
    },
    /// The node would move.
    Address {
        /// Where to.
        #[schemars(with = "String")]
        to: IpNet,
    },
    /// It would look for a card that it does not have.
    Mac {
        /// Of which MAC, in lower case.
        mac: String,
    },
    /// The node refuses it.
    Refused {
        /// Its own words.
        text: String,
    },
    /// None can be made for the version that it runs.
    NoConfigForVersion {
        /// The version of Talos that it runs.
        runs: String,
        /// The declared one.
        declared: String,
        /// What stands against it.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::Stays;

    #[test]
    fn a_saved_plan_keeps_reasons() {
        let disk = WhyConfigStays::InstallDisk { from: None, to: Some("/dev/vda".into()) };
        for why in [WhyStays::Config(disk), WhyStays::Vm(WhyHeld::Fixed), WhyStays::DisksOnlyGrow] {
            let stays = Stays::Held { why };
            let json = serde_json::to_value(&stays).unwrap();
            assert_eq!(json["is"], "held");
            assert_eq!(serde_json::from_value::<Stays>(json).unwrap(), stays);
        }
    }
}
