//! Steps in words.

use std::collections::BTreeSet;

use daedal_machine::digest::hex12;
use daedal_machine::guards::IP_SET;
use daedal_machine::size;
use daedal_planner::{Action, Content, Impact, PlannedNode, Step, object_has};

use crate::addons;
use crate::layout::Style;

/// A short phrase for what a step does, such as `create VM 300`.
pub fn action(action: &Action) -> String {
    match action {
        Action::CreateSecrets => "create the secrets bundle".to_owned(),
        Action::RegisterSchematic { id } => format!("register schematic {}", hex12(id)),
        Action::PinImage { file, .. } if file.ends_with(".iso") => "pin the boot ISO".to_owned(),
        Action::PinImage { .. } => "pin the disk image".to_owned(),
        Action::DownloadImage { storage, content: Content::Iso, .. } => {
            format!("download the boot ISO to {storage}")
        }
        Action::DownloadImage { storage, .. } => format!("download the disk image to {storage}"),
        Action::MakeTemplate { vmid, .. } => format!("make template {vmid}"),
        Action::DropTemplate { vmid, .. } => format!("destroy template {vmid}"),
        Action::DeleteVolume { volid, .. } => format!("delete volume {volid}"),
        Action::FillIpSet { before: None, .. } => format!("create the IP set {IP_SET}"),
        Action::FillIpSet { .. } => format!("change the IP set {IP_SET}"),
        Action::DropIpSet { .. } => format!("delete the IP set {IP_SET}"),
        Action::SetFirewallRules { rules, .. } if rules.is_empty() => "delete its firewall rules".to_owned(),
        Action::SetFirewallRules { before, .. } if before.is_empty() => {
            "create its firewall rules".to_owned()
        }
        Action::SetFirewallRules { .. } => "replace its firewall rules".to_owned(),
        Action::SetFirewallOptions { .. } => "set its firewall's options".to_owned(),
        Action::FilterCard { on: true, .. } => "turn its firewall on".to_owned(),
        Action::FilterCard { .. } => "turn its firewall off".to_owned(),
        Action::PutClusterObject { kind, id, before: None, .. } => format!("create {} {id}", kind.noun()),
        Action::PutClusterObject { kind, id, .. } => format!("change {} {id}", kind.noun()),
        Action::RemoveClusterObject { kind, id, .. } => format!("remove {} {id}", kind.noun()),
        Action::CreateVm { vmid, template: Some(template), .. } => {
            format!("clone VM {vmid} from template {}", template.vmid)
        }
        Action::DeleteImage { .. } => "delete the wrong disk image".to_owned(),
        Action::UploadMedia { storage, .. } => format!("upload its config medium to {storage}"),
        Action::CreateVm { vmid, .. } => format!("create VM {vmid}"),
        Action::AwaitCreate { vmid, .. } => format!("wait until VM {vmid} is made"),
        Action::GrowDisk { size, .. } => format!("grow the disk to {}", size::show(*size)),
        Action::UpdateVm { vmid, .. } => format!("change VM {vmid}"),
        Action::AttachMedia { .. } => "put its config medium into the drive".to_owned(),
        Action::StartVm { vmid } => format!("start VM {vmid}"),
        Action::RestartVm { vmid } => format!("restart VM {vmid}"),
        Action::GiveConfig { console: true, .. } => {
            "give it its config in maintenance mode, its key checked on its console".to_owned()
        }
        Action::GiveConfig { .. } => "give it its config in maintenance mode".to_owned(),
        Action::ApplyConfig { .. } => "change its machine config".to_owned(),
        Action::AwaitApi => "wait until its Talos API answers".to_owned(),
        Action::Bootstrap { recover: None } => "bootstrap etcd".to_owned(),
        Action::Bootstrap { recover: Some(snapshot) } => {
            format!("bootstrap etcd from the snapshot {}", snapshot.file)
        }
        Action::AwaitEtcd => "wait until it votes in etcd".to_owned(),
        Action::AwaitEndpoint => "wait for the API server".to_owned(),
        Action::AwaitReady => "wait until it is Ready".to_owned(),
        Action::EjectMedia { .. } => "eject its media".to_owned(),
        Action::MarkConfigured { .. } => "note on its VM that it has its config".to_owned(),
        Action::RestoreMark { vmid, .. } => format!("restore the mark of VM {vmid}"),
        Action::DeleteMedia { .. } => "delete the config medium".to_owned(),
        Action::WriteOutputs => "write the output files".to_owned(),
        Action::ApplyAddon { .. } | Action::AwaitAddon { .. } | Action::PruneAddon { .. } => {
            addons::phrase(action).unwrap_or_default()
        }
        Action::Cordon => "let no new pods come to it".to_owned(),
        Action::Drain => "evict its pods".to_owned(),
        Action::LeaveEtcd { .. } => "let it leave etcd".to_owned(),
        Action::RemoveMember { member } => format!("take its member {member} out of etcd"),
        Action::ForgetNode => "delete it from Kubernetes".to_owned(),
        Action::StopVm { vmid } => format!("stop VM {vmid}"),
        Action::DestroyVm { vmid } => format!("destroy VM {vmid}"),
    }
}

/// The phrase of a step in a plan: with its host where its node does not tell.
pub(super) fn phrase(step: &Step, node: Option<&PlannedNode>) -> String {
    let mut phrase = action(&step.action);
    if let (Action::DeleteMedia { volid }, None) = (&step.action, node) {
        phrase = format!("delete {}", daedal_machine::names::volid_file(volid));
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
        Action::RestoreMark { uuid, mac, mark, .. } => vec![
            format!("SMBIOS uuid: {uuid}"),
            format!("MAC: {mac}"),
            format!("its notes stay, and get this line: {mark}"),
        ],
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
        | Action::RestoreMark { .. }
        | Action::ApplyConfig { .. } => ("~", Style::Yellow),
        Action::AwaitCreate { .. }
        | Action::AwaitApi
        | Action::AwaitEtcd
        | Action::AwaitEndpoint
        | Action::AwaitReady
        | Action::AwaitAddon { .. } => ("·", Style::Plain),
        Action::EjectMedia { .. } | Action::DeleteMedia { .. } | Action::PruneAddon { .. } => {
            ("-", Style::Plain)
        }
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
        | Action::ApplyAddon { .. }
        | Action::WriteOutputs => ("+", Style::Green),
    }
}
