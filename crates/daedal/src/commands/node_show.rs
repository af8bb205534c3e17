//! `daedal node show`: one node from all three sides, and why a side could not be asked.

use std::fmt::Write as _;

use daedal_engine::{
    EtcdDetails, KubernetesDetails, NicDetails, NodeDetails, ProxmoxDetails, ServiceDetails, Side,
    TalosDetails, VolumeDetails,
};
use daedal_inventory::Role;

use crate::cli::{Format, Target};
use crate::commands::{node, status};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, engine_failure};
use crate::{console, documents};

/// Runs the command.
pub async fn run(name: &str, target: &Target, format: Format, color: bool) -> Outcome {
    let inventory = documents::of_lacking(target, color)?;
    let node = node::declared(&inventory.loaded.cluster, name)?.clone();
    let session = Session::with(inventory, target).await?;
    let details = session.engine.node_page(&session.cluster, &node).await;
    match format {
        Format::Json => console::json(&details),
        Format::Text => console::result(&render(&details)),
    }
    let Some(failure) = blocked(&details, &session, target).await else { return Ok(Exit::Done) };
    if format == Format::Text {
        console::progress(&failure.render(color));
    }
    Ok(failure.exit)
}

/// What kept a side from being asked, with the exit code that says the same: Proxmox does not answer, or the secrets are missing
/// for a VM that runs. A node that does not answer is a finding.
async fn blocked(details: &NodeDetails, session: &Session, target: &Target) -> Option<Failure> {
    if let Some(error) = &details.blocked {
        return Some(engine_failure(error));
    }
    let Side::Seen(ProxmoxDetails { power, .. }) = &details.proxmox else { return None };
    let mut lack = status::lack(session, target).await.filter(|_| power == "running")?;
    lack.message = format!("Talos and Kubernetes could not be asked: {}", lack.message);
    Some(lack)
}

fn render(details: &NodeDetails) -> String {
    let role = match details.role {
        Role::ControlPlane => "control plane",
        Role::Worker => "worker",
    };
    let mut text = format!(
        "{}: {role} of {}, pool {}, {}\n",
        details.node, details.cluster, details.pool, details.address
    );
    side(&mut text, "Proxmox", &details.proxmox, proxmox);
    side(&mut text, "Talos", &details.talos, talos);
    side(&mut text, "Kubernetes", &details.kubernetes, kubernetes);
    text
}

/// What stands beside a label begins here.
const VALUES: usize = 15;

/// Lines of a side: a label, and what stands beside it.
type Lines = Vec<(&'static str, Vec<String>)>;

fn side<T>(text: &mut String, name: &str, side: &Side<T>, lines: fn(&T) -> Lines) {
    let _ = writeln!(text, "\n{name}");
    let sentence = match side {
        Side::Absent(what) => what.clone(),
        Side::Unseen(why) => format!("could not be asked: {why}"),
        Side::Seen(details) => {
            for (label, values) in lines(details) {
                for (at, value) in values.iter().enumerate() {
                    let label = if at == 0 { label } else { "" };
                    let _ = writeln!(text, "{}", console::wrapped(&format!("  {label:<12} {value}"), VALUES));
                }
            }
            return;
        }
    };
    let _ = writeln!(text, "{}", console::wrapped(&format!("  {sentence}"), 4));
}

fn proxmox(details: &ProxmoxDetails) -> Lines {
    let disk = |(slot, VolumeDetails { volume, size }): (&String, &VolumeDetails)| match size {
        Some(size) => format!("{slot}: {volume}, {}", bytes(*size)),
        None => format!("{slot}: {volume}"),
    };
    let pending = |(option, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{option}: {value} from its next start on"),
        None => format!("{option}: none from its next start on"),
    };
    let on_boot = if details.on_boot { ", starts with its host" } else { "" };
    let owner = match details.secrets_compared {
        true => details.ownership.clone(),
        false => format!("{} (its mark was not compared with the secrets)", details.ownership),
    };
    let made = details.mark.as_ref().map(|mark| format!(", made from {mark}")).unwrap_or_default();
    vec![
        (
            "VM",
            vec![format!(
                "{} ({}) on {}, {}{on_boot}",
                details.vmid, details.name, details.host, details.power
            )],
        ),
        ("owner", vec![owner]),
        ("lock", details.lock.iter().cloned().collect()),
        ("size", vec![format!("{} vCPU, {} of memory", details.cores, bytes(details.memory))]),
        ("pending", details.pending.iter().map(pending).collect()),
        ("disks", details.disks.iter().map(disk).collect()),
        ("network", details.nics.iter().map(|(slot, nic)| format!("{slot}: {}", card(nic))).collect()),
        ("media", details.media.clone()),
        ("tags", Some(details.tags.join(", ")).filter(|tags| !tags.is_empty()).into_iter().collect()),
        ("config", vec![format!("digest {}{made}", details.digest)]),
    ]
}

/// A network card in a few words.
fn card(nic: &NicDetails) -> String {
    let mut text = match &nic.mac {
        Some(mac) => format!("{} {mac}, bridge {}", nic.model, nic.bridge),
        None => format!("{}, bridge {}", nic.model, nic.bridge),
    };
    let vlan = nic.vlan.map(|vlan| format!(", VLAN {vlan}"));
    let mtu = nic.mtu.map(|mtu| format!(", MTU {mtu}"));
    let firewall = nic.firewall.then(|| ", firewall on".to_owned());
    let others = nic.others.iter().map(|(key, value)| format!(", {key} {value}"));
    text.extend(vlan.into_iter().chain(mtu).chain(firewall).chain(others));
    text
}

fn talos(details: &TalosDetails) -> Lines {
    let stage = details.stage.as_deref().unwrap_or("not known");
    let ready = match details.ready {
        Some(true) => ", ready",
        Some(false) => ", not ready",
        None => "",
    };
    let service = |ServiceDetails { name, state, healthy }: &ServiceDetails| match healthy {
        Some(true) => format!("{name} {state}, healthy"),
        Some(false) => format!("{name} {state}, NOT healthy"),
        None => format!("{name} {state}"),
    };
    let disk = |disk: &daedal_engine::DiskDetails| {
        let size = disk.size.map(|size| format!(" {}", bytes(size))).unwrap_or_default();
        format!("{}{size} {}", disk.device, disk.model)
    };
    let extension = |one: &daedal_engine::ExtensionDetails| format!("{} {}", one.name, one.version);
    let ends = details.certificate_ends;
    vec![
        ("version", vec![format!("{} on {}", details.version, details.platform)]),
        ("stage", vec![format!("{stage}{ready}")]),
        ("waits for", details.waits_for.iter().map(|one| format!("{}: {}", one.name, one.reason)).collect()),
        ("services", details.services.iter().map(service).collect()),
        (
            "addresses",
            details.addresses.iter().map(|one| format!("{} on {}", one.address, one.link)).collect(),
        ),
        (
            "links",
            details.links.iter().map(|one| format!("{} {} {}", one.name, one.mac, one.state)).collect(),
        ),
        ("disks", details.disks.iter().map(disk).collect()),
        ("extensions", details.extensions.iter().map(extension).collect()),
        ("etcd", details.etcd.as_ref().map(etcd).unwrap_or_default()),
        (
            "certificate",
            ends.iter().map(|at| format!("valid until {}", at.strftime("%Y-%m-%d %H:%M UTC"))).collect(),
        ),
        ("not seen", details.unread.iter().map(|one| format!("{}: {}", one.what, one.why)).collect()),
    ]
}

fn etcd(side: &Side<EtcdDetails>) -> Vec<String> {
    match side {
        Side::Absent(what) => vec![what.clone()],
        Side::Unseen(why) => vec![format!("could not be asked: {why}")],
        Side::Seen(etcd) => {
            let part = match (etcd.leader, etcd.learner) {
                (true, _) => "leads",
                (false, true) => "is a learner",
                (false, false) => "votes",
            };
            let size = bytes(etcd.db_size);
            let first = format!("member {} {part}, one of {}, database {size}", etcd.id, etcd.members);
            std::iter::once(first).chain(etcd.errors.iter().cloned()).collect()
        }
    }
}

fn kubernetes(details: &KubernetesDetails) -> Lines {
    let pods = if details.schedulable { "takes new pods" } else { "takes no new pods" };
    let versions = format!(
        "kubelet {}, {}, kernel {}, {}",
        details.kubelet, details.runtime, details.kernel, details.os
    );
    let taint =
        |taint: &daedal_engine::TaintDetails| format!("{}={}:{}", taint.key, taint.value, taint.effect);
    vec![
        ("name", vec![details.name.clone()]),
        ("versions", vec![versions]),
        (
            "conditions",
            details
                .conditions
                .iter()
                .map(|one| format!("{}: {} ({})", one.kind, one.status, one.reason))
                .collect(),
        ),
        ("addresses", details.addresses.iter().map(|one| format!("{}: {}", one.kind, one.address)).collect()),
        ("labels", details.labels.iter().map(|(key, value)| format!("{key}={value}")).collect()),
        ("taints", details.taints.iter().map(taint).collect()),
        ("scheduling", vec![pods.to_owned()]),
    ]
}

fn bytes(number: u64) -> String {
    match number {
        0..0x10_0000 => format!("{} KiB", number >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", number >> 20),
        _ if number.is_multiple_of(1 << 30) => format!("{} GiB", number >> 30),
        _ => format!("{:.1} GiB", number as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_has_nothing_is_not_one_that_could_not_be_asked() {
        let details = NodeDetails {
            node: "cp-1".into(),
            cluster: "home".into(),
            pool: "cp".into(),
            role: Role::ControlPlane,
            address: "10.0.0.11".into(),
            proxmox: Side::Absent("There is no VM 300.".into()),
            talos: Side::Unseen("no answer in time".into()),
            kubernetes: Side::Unseen("no answer in time".into()),
            blocked: None,
        };
        assert_eq!(
            render(&details),
            "cp-1: control plane of home, pool cp, 10.0.0.11\n\nProxmox\n  There is no VM 300.\n\n\
             Talos\n  could not be asked: no answer in time\n\nKubernetes\n  could not be asked: no answer in time\n"
        );
        assert_eq!(
            [bytes(20 << 10), bytes(5 << 20), bytes(8 << 30), bytes(3 << 29)],
            ["20 KiB", "5 MiB", "8 GiB", "1.5 GiB"]
        );
    }
}
