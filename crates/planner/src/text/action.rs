//! Steps in words.

use std::collections::BTreeSet;
use std::fmt;

use crate::digest::hex12;
use crate::guards::IP_SET;
use crate::names::Content;
use crate::plan::{Action, Impact, PlannedNode, Step};
use crate::size;
use crate::world::object_has;

use super::layout::Style;

/// A short phrase for progress and logs, such as `create VM 300`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateSecrets => f.write_str("create the secrets bundle"),
            Self::RegisterSchematic { id } => write!(f, "register schematic {}", hex12(id)),
            Self::PinImage { file, .. } if file.ends_with(".iso") => f.write_str("pin the boot ISO"),
            Self::PinImage { .. } => f.write_str("pin the disk image"),
            Self::DownloadImage { storage, content: Content::Iso, .. } => {
                write!(f, "download the boot ISO to {storage}")
            }
            Self::DownloadImage { storage, .. } => write!(f, "download the disk image to {storage}"),
            Self::MakeTemplate { vmid, .. } => write!(f, "make template {vmid}"),
            Self::DropTemplate { vmid, .. } => write!(f, "destroy template {vmid}"),
            Self::DeleteVolume { volid, .. } => write!(f, "delete volume {volid}"),
            Self::FillIpSet { before: None, .. } => write!(f, "create the IP set {IP_SET}"),
            Self::FillIpSet { .. } => write!(f, "change the IP set {IP_SET}"),
            Self::DropIpSet { .. } => write!(f, "delete the IP set {IP_SET}"),
            Self::SetFirewallRules { rules, .. } if rules.is_empty() => {
                f.write_str("delete its firewall rules")
            }
            Self::SetFirewallRules { before, .. } if before.is_empty() => {
                f.write_str("create its firewall rules")
            }
            Self::SetFirewallRules { .. } => f.write_str("replace its firewall rules"),
            Self::SetFirewallOptions { .. } => f.write_str("set its firewall's options"),
            Self::FilterCard { on: true, .. } => f.write_str("turn its firewall on"),
            Self::FilterCard { .. } => f.write_str("turn its firewall off"),
            Self::PutClusterObject { kind, id, before: None, .. } => write!(f, "create {} {id}", kind.noun()),
            Self::PutClusterObject { kind, id, .. } => write!(f, "change {} {id}", kind.noun()),
            Self::RemoveClusterObject { kind, id, .. } => write!(f, "remove {} {id}", kind.noun()),
            Self::CreateVm { vmid, template: Some(template), .. } => {
                write!(f, "clone VM {vmid} from template {}", template.vmid)
            }
            Self::DeleteImage { .. } => f.write_str("delete the wrong disk image"),
            Self::UploadMedia { storage, .. } => write!(f, "upload its config medium to {storage}"),
            Self::CreateVm { vmid, .. } => write!(f, "create VM {vmid}"),
            Self::AwaitCreate { vmid, .. } => write!(f, "wait until VM {vmid} is made"),
            Self::GrowDisk { size, .. } => write!(f, "grow the disk to {}", size::show(*size)),
            Self::UpdateVm { vmid, .. } => write!(f, "change VM {vmid}"),
            Self::AttachMedia { .. } => f.write_str("put its config medium into the drive"),
            Self::StartVm { vmid } => write!(f, "start VM {vmid}"),
            Self::RestartVm { vmid } => write!(f, "restart VM {vmid}"),
            Self::GiveConfig { console: true, .. } => {
                f.write_str("give it its config in maintenance mode, its key checked on its console")
            }
            Self::GiveConfig { .. } => f.write_str("give it its config in maintenance mode"),
            Self::ApplyConfig { .. } => f.write_str("change its machine config"),
            Self::AwaitApi => f.write_str("wait until its Talos API answers"),
            Self::Bootstrap { recover: None } => f.write_str("bootstrap etcd"),
            Self::Bootstrap { recover: Some(snapshot) } => {
                write!(f, "bootstrap etcd from the snapshot {}", snapshot.file)
            }
            Self::AwaitEtcd => f.write_str("wait until it votes in etcd"),
            Self::AwaitEndpoint => f.write_str("wait for the API server"),
            Self::AwaitReady => f.write_str("wait until it is Ready"),
            Self::EjectMedia { .. } => f.write_str("eject its media"),
            Self::MarkConfigured { .. } => f.write_str("note on its VM that it has its config"),
            Self::DeleteMedia { .. } => f.write_str("delete the config medium"),
            Self::WriteOutputs => f.write_str("write the output files"),
            Self::Cordon => f.write_str("let no new pods come to it"),
            Self::Drain => f.write_str("evict its pods"),
            Self::LeaveEtcd { .. } => f.write_str("let it leave etcd"),
            Self::RemoveMember { member } => write!(f, "take its member {member} out of etcd"),
            Self::ForgetNode => f.write_str("delete it from Kubernetes"),
            Self::StopVm { vmid } => write!(f, "stop VM {vmid}"),
            Self::DestroyVm { vmid } => write!(f, "destroy VM {vmid}"),
        }
    }
}

/// The phrase of a step in a plan: with its host where its node does not tell.
pub(super) fn phrase(step: &Step, node: Option<&PlannedNode>) -> String {
    let mut phrase = step.action.to_string();
    if let (Action::DeleteMedia { volid }, None) = (&step.action, node) {
        phrase = format!("delete {}", crate::names::volid_file(volid));
    }
    let told = node.and_then(|node| node.host.as_deref());
    if let Some(host) = step.host.as_deref().filter(|host| told != Some(host)) {
        phrase.push_str(&format!(" on {host}"));
    }
    phrase
}

/// What changes from what to what, each in a line.
pub(super) fn changes(action: &Action) -> Vec<String> {
    match action {
        Action::UpdateVm { changes, .. } => changes
            .iter()
            .map(|change| {
                let when = if change.needs_restart { " (takes effect at its next start)" } else { "" };
                let (from, to) = change.words();
                format!("{}: {from} → {to}{when}", change.option)
            })
            .collect(),
        Action::PutClusterObject { options, before: Some(before), .. }
        | Action::SetFirewallOptions { options, before, .. } => options
            .iter()
            .filter(|(option, to)| !object_has(before, option, to))
            .map(|(option, to)| {
                let from = before.get(option).map_or("not set", String::as_str);
                format!("{option}: {from} → {to}")
            })
            .collect(),
        Action::FillIpSet { members, before: Some(before), .. } => {
            let list = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                one.difference(other).cloned().collect::<Vec<_>>().join(", ")
            };
            let told = [("adds", list(members, before)), ("removes", list(before, members))];
            let told = told.into_iter().filter(|(_, which)| !which.is_empty());
            told.map(|(verb, which)| format!("{verb} {which}")).collect()
        }
        _ => Vec::new(),
    }
}

/// What kind of step it is, as one sign.
pub(super) fn mark(step: &Step) -> (&'static str, Style) {
    match &step.action {
        Action::DestroyVm { .. }
        | Action::DeleteImage { .. }
        | Action::DropTemplate { .. }
        | Action::DeleteVolume { .. }
        | Action::LeaveEtcd { .. }
        | Action::RemoveMember { .. }
        | Action::ForgetNode => ("-", Style::Red),
        Action::FillIpSet { before: None, .. } => ("+", Style::Green),
        Action::SetFirewallRules { rules, .. } if rules.is_empty() => ("-", Style::Plain),
        Action::SetFirewallRules { before, .. } if before.is_empty() => ("+", Style::Green),
        Action::FillIpSet { .. }
        | Action::SetFirewallRules { .. }
        | Action::SetFirewallOptions { .. }
        | Action::FilterCard { .. } => ("~", Style::Yellow),
        Action::DropIpSet { .. } => ("-", Style::Plain),
        Action::PutClusterObject { before: None, .. } => ("+", Style::Green),
        Action::PutClusterObject { .. } => ("~", Style::Yellow),
        Action::RemoveClusterObject { .. } => ("-", Style::Plain),
        Action::Cordon | Action::Drain => ("~", Style::Yellow),
        Action::StopVm { .. } => ("-", if step.impact == Impact::None { Style::Plain } else { Style::Red }),
        Action::UpdateVm { .. }
        | Action::RestartVm { .. }
        | Action::GrowDisk { .. }
        | Action::AttachMedia { .. }
        | Action::MarkConfigured { .. }
        | Action::ApplyConfig { .. } => ("~", Style::Yellow),
        Action::AwaitCreate { .. }
        | Action::AwaitApi
        | Action::AwaitEtcd
        | Action::AwaitEndpoint
        | Action::AwaitReady => ("·", Style::Plain),
        Action::EjectMedia { .. } | Action::DeleteMedia { .. } => ("-", Style::Plain),
        Action::CreateSecrets
        | Action::RegisterSchematic { .. }
        | Action::PinImage { .. }
        | Action::DownloadImage { .. }
        | Action::UploadMedia { .. }
        | Action::MakeTemplate { .. }
        | Action::CreateVm { .. }
        | Action::StartVm { .. }
        | Action::GiveConfig { .. }
        | Action::Bootstrap { .. }
        | Action::WriteOutputs => ("+", Style::Green),
    }
}
