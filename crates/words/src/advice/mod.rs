//! Advice in words: what it is about, the sentence, and what helps.

mod remedy;
mod sentence;

use daedal_planner::{Advice, Fix, Note, ObjectKind, some_of};

pub use remedy::free;
pub use sentence::died_half_way;
pub(crate) use sentence::some_templates;

/// What a note or any other advice is about, for people.
pub fn about(advice: &Advice) -> String {
    let object = |kind: ObjectKind, id: &str| format!("{} {id}", kind.noun());
    match advice {
        Advice::TlsNotVerified { .. } => "proxmox.tls".to_owned(),
        Advice::NotSeen { what, .. }
        | Advice::MediaMayBeLeft { what, .. }
        | Advice::VmsMayBeLeft { what, .. } => what.to_string(),
        Advice::PhaseMissing { cluster, nodes, .. } if nodes.is_empty() => format!("cluster {cluster}"),
        Advice::PhaseLeft { phase, .. } => phase.to_string(),
        Advice::OutputsLater {} => "outputs".to_owned(),
        Advice::NotAsDeclared { nodes, .. }
        | Advice::PhaseMissing { nodes, .. }
        | Advice::NoControlPlane { nodes }
        | Advice::FirstContactUnverified { nodes }
        | Advice::VmidsUnclear { nodes, .. }
        | Advice::VmsUnclear { nodes, .. }
        | Advice::NoVmYet { nodes } => some_of(nodes),
        Advice::SignaturesNotChecked {} => "talos.secureBoot".to_owned(),
        Advice::NoCni {} => "kubernetes.cni".to_owned(),
        Advice::AddonNotRendered { addon, .. }
        | Advice::AddonOwned { addon, .. }
        | Advice::AddonConflict { addon, .. }
        | Advice::AddonRefused { addon, .. }
        | Advice::AddonHooksNotRun { addon, .. }
        | Advice::AddonObjectsStay { addon, .. } => format!("add-on {addon}"),
        Advice::AddonsAssumed { .. } => "add-ons".to_owned(),
        Advice::EtcdInDoubt { .. } | Advice::EvenMembers { .. } => "etcd".to_owned(),
        Advice::SecretsUnused { .. } | Advice::SecretsMixed { .. } => "secrets".to_owned(),
        Advice::HostUnusable { host, .. }
        | Advice::StoppedGuests { host, .. }
        | Advice::ControlPlanesOnOneHost { host, .. }
        | Advice::HostUnlisted { host, .. } => format!("host {host}"),
        Advice::StorageUnseen { storage }
        | Advice::StorageFaulty { storage, .. }
        | Advice::StorageNearlyFull { storage, .. } => match storage.shared {
            true => format!("storage {}", storage.storage),
            false => format!("storage {} on {}", storage.storage, storage.host),
        },
        Advice::LeftOverVolumes { host, .. } => format!("volumes on {host}"),
        Advice::VolumeBesideVm { host, volid, .. } => format!("{volid} on {host}"),
        Advice::TemplateDied { died, cloning: true } => format!("template {}", died.vmid),
        Advice::TemplateDied { died, .. } => format!("template {} on {}", died.vmid, died.host),
        Advice::MediumInUse { node, .. }
        | Advice::SeveralClaim { node, .. }
        | Advice::VmidTaken { node, .. }
        | Advice::OtherStore { node, .. }
        | Advice::OtherVmid { node, .. }
        | Advice::HostOffline { node, .. }
        | Advice::DiedHalfWay { node, .. }
        | Advice::StillCreated { node, .. }
        | Advice::TurnedIntoTemplate { node, .. }
        | Advice::VmUnreadable { node, .. }
        | Advice::NoSystemDisk { node, .. }
        | Advice::OtherCluster { node, .. }
        | Advice::OtherAddress { node, .. }
        | Advice::FormerMember { node, .. }
        | Advice::ConfigLost { node, .. }
        | Advice::ConfigNotSeen { node, .. }
        | Advice::VmLocked { node, .. }
        | Advice::NoSuchNode { node, .. }
        | Advice::KnownAs { node, .. }
        | Advice::VmMayBeHidden { node, .. }
        | Advice::VmInDoubt { node, .. }
        | Advice::NoApiServer { node }
        | Advice::IsEndpoint { node }
        | Advice::MembersUnknown { node }
        | Advice::MemberUnclear { node, .. }
        | Advice::LastControlPlane { node }
        | Advice::StillLearning { node, .. }
        | Advice::MembersSilent { node, .. }
        | Advice::PodsNotEvicted { node, .. }
        | Advice::VmProtected { node, .. }
        | Advice::CannotDestroyLocked { node, .. }
        | Advice::MarkNotProven { node, .. }
        | Advice::MarkUnsigned { node, .. }
        | Advice::FirewallUnreadable { node, .. }
        | Advice::FirewallStays { node }
        | Advice::IpSetStays { node } => node.clone(),
        Advice::ForeignGuest { guest }
        | Advice::LookAlike { guest, .. }
        | Advice::LookAlikeStays { guest, .. }
        | Advice::IncompleteTemplate { guest, .. }
        | Advice::GuestUnreadable { guest, .. } => guest.to_string(),
        Advice::TemplatesStay { .. } => "templates".to_owned(),
        Advice::ImagesStay {} => "images".to_owned(),
        Advice::TemplateBlocked { vmid, .. } | Advice::TemplateProtected { vmid, .. } => {
            format!("template {vmid}")
        }
        Advice::TemplateLinked { vmid, host, .. } | Advice::TemplateLocked { vmid, host, .. } => {
            format!("template {vmid} on {host}")
        }
        Advice::NoVms { cluster } => format!("cluster {cluster}"),
        Advice::ObjectTaken { kind, id }
        | Advice::ObjectStays { kind, id }
        | Advice::ObjectKept { kind, id, .. } => object(*kind, id),
        Advice::TooFewHosts { id, .. } => object(ObjectKind::HaRule, id),
        Advice::GroupInUse { id, .. } => object(ObjectKind::HaGroup, id),
        Advice::DatacenterFirewall {} => "datacenter".to_owned(),
    }
}

/// What is to be known, as one or two sentences.
pub fn sentence(advice: &Advice) -> String {
    sentence::of(advice)
}

/// A command or edit that helps.
pub fn remedy(advice: &Advice) -> Option<Fix> {
    remedy::of(advice)
}

/// A note in words.
pub trait Told {
    /// What it is about.
    fn about(&self) -> String;
    /// One or two sentences.
    fn text(&self) -> String;
    /// A command or edit that helps.
    fn fix(&self) -> Option<Fix>;
}

impl Told for Note {
    fn about(&self) -> String {
        about(&self.advice)
    }

    fn text(&self) -> String {
        sentence(&self.advice)
    }

    fn fix(&self) -> Option<Fix> {
        remedy(&self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_words() {
        for advice in Advice::every_kind() {
            let (code, text) = (advice.code(), sentence(&advice));
            assert!(text.chars().count() > 15 && !text.ends_with(".."), "{code}: {text}");
            if let Some(fix) = remedy(&advice) {
                assert!(!fix.to_string().ends_with('.'), "{code}: {fix}");
            }
        }
    }
}
