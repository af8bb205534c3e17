//! Without a quorum of its hosts a Proxmox cluster writes nothing.

use daedal_proxmox::Client;

use super::{CheckSubject, CheckVerdict, LiveReport};
use crate::error::chain;

/// Whether the Proxmox cluster has a quorum. Only a token with Sys.Audit on `/` may ask; a host that stands alone needs none.
pub(super) async fn look(report: &mut LiveReport, proxmox: &Client) {
    let members = match proxmox.cluster_status().await {
        Ok(members) => members,
        Err(error) => {
            let alone = proxmox.resources_of("node").await.is_ok_and(|hosts| hosts.len() == 1);
            if !alone {
                let found = format!("it could not be asked: {}", chain(&error));
                report.unasked(CheckSubject::Quorum, found, Some("on a host: pvecm status".into()));
            }
            return;
        }
    };
    let Some(cluster) = members.iter().find(|member| member.kind == "cluster") else { return };
    if cluster.quorate {
        return report.good(CheckSubject::Quorum, "the Proxmox cluster has one");
    }
    let off: Vec<&str> = members
        .iter()
        .filter(|member| member.kind == "node" && !member.online)
        .map(|member| member.name.as_str())
        .collect();
    let found =
        format!("the Proxmox cluster has none, so that nothing can be changed; offline: {}", off.join(", "));
    report.add(CheckVerdict::Bad, CheckSubject::Quorum, found, Some("bring the hosts back; pvecm status"));
}
