//! Why differences stay, in words: clauses without a full stop.

use daedal_machine::vm::WhyHeld;

use daedal_planner::{InterruptedBy, Voters, WhyConfigStays, WhyStays};

/// Why a difference stays.
pub fn why_stays(why: &WhyStays) -> String {
    match why {
        WhyStays::Config(why) => config(why),
        WhyStays::Vm(why) => option(*why).to_owned(),
        WhyStays::DisksOnlyGrow => "disks only grow".to_owned(),
        WhyStays::ConfigNamesMac => "its own machine config names the MAC that it has".to_owned(),
        WhyStays::NoAnswer => "it takes a restart, and the node does not answer".to_owned(),
        WhyStays::NoControlPlane { config } => {
            let lead =
                if *config { "the node has to reboot for the declared one" } else { "it takes a restart" };
            format!("{lead}, and comes back only if a control plane answers; none does")
        }
        WhyStays::Quorum { by, voters: of } => {
            let lead = match by {
                InterruptedBy::Config => "the node has to reboot for the declared one, and ",
                InterruptedBy::Card => "",
                InterruptedBy::Restart => "it takes a restart, and ",
            };
            format!("{lead}etcd could lose its quorum ({})", voters(of))
        }
    }
}

fn voters(voters: &Voters) -> String {
    let known = format!("{} of {} control planes are known to vote", voters.members, voters.all);
    match voters.has_dead() {
        true => {
            format!(
                "{known}, but only {} of the {} members that etcd counts serve",
                voters.serving, voters.listed
            )
        }
        false => known,
    }
}

/// Why a running node keeps its machine config.
fn config(why: &WhyConfigStays) -> String {
    match why {
        WhyConfigStays::Identity { document, path } => format!(
            "{document} {path} would change, which says what cluster or machine it is. See docs/talos.md, \"Changing an \
             authority\""
        ),
        WhyConfigStays::InstallDisk { from, to } => format!(
            "its install disk would change from {} to {}. Re-create the node for that",
            value(from),
            value(to)
        ),
        WhyConfigStays::Name { from, to } => {
            format!("its name would change from {} to {}", value(from), value(to))
        }
        WhyConfigStays::KubernetesVersion { path, from, to } => format!(
            "{path} would change from {} to {}. Another version of Kubernetes is an upgrade, which apply does not do",
            value(from),
            value(to)
        ),
        WhyConfigStays::Address { to } => {
            format!("its address would become {to}. Re-create the node for that")
        }
        WhyConfigStays::Mac { mac } => {
            format!("it would look for a network card with the MAC {mac}, which it does not have")
        }
        WhyConfigStays::Refused { text } => format!("the node refuses it ({text})"),
        WhyConfigStays::NoConfigForVersion { runs, declared, why } => {
            format!(
                "it runs Talos {runs}, declared is {declared}, and for that no config can be made ({why})"
            )
        }
    }
}

fn value(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("nothing")
}

/// Why an option of a VM stays.
fn option(why: WhyHeld) -> &'static str {
    match why {
        WhyHeld::DevicesWouldMove => "its devices would move to other places",
        WhyHeld::OtherFirmware => "its system was installed for the other one",
        WhyHeld::SealedInTpm => "what is sealed in a TPM is lost with it",
        WhyHeld::DiskHoldsData => "a disk with data is never taken away",
        WhyHeld::DiskOnlyGrows => "disks only grow, and stay where they are",
        WhyHeld::Fixed => "no update may change it",
    }
}
