//! How late each wait of a run was: from the moment in the lab to the end of the step that waited for it.

use std::time::Duration;

use daedal_engine::Report;
use daedal_inventory::Cluster;
use daedal_lab::{Moment, Occasion};
use tokio::time::Instant;

/// One wait.
#[derive(Debug)]
pub struct Wait {
    /// Which of the report's steps it was.
    pub step: usize,
    pub late: Duration,
}

/// The waits of a run that began at `origin`, the latest last; not those for starts, whose end nobody needs: the machine
/// boots meanwhile. Who came when all was done already is late by what it took him to see it.
pub fn waits(cluster: &Cluster, report: &Report, origin: Instant, moments: &[Moment]) -> Vec<Wait> {
    let mut waits = Vec::new();
    for (at, step) in report.steps.iter().enumerate() {
        let name = step.node.clone().unwrap_or_default();
        let host = step.host.clone().unwrap_or_default();
        let vmid = cluster.nodes.iter().find(|node| node.name == name).map_or(0, |node| node.vmid);
        let task = |kind: &str| (Occasion::TaskEnded, format!("{kind} {vmid} on {host}"));
        let (occasion, subject) = match step.stage {
            "creating the VM" => task("qmcreate"),
            "growing the disk" => task("resize"),
            "stopping the VM" => task("qmstop"),
            "deleting the VM" => task("qmdestroy"),
            "booting Talos" => (Occasion::ApiUp, name),
            "bootstrapping etcd" => (Occasion::Bootstrappable, name),
            "joining etcd" => (Occasion::EtcdVotes, name),
            "reaching the API server" => {
                (Occasion::EndpointUp, cluster.kubernetes.endpoint_host.clone().unwrap_or_default())
            }
            "becoming Ready" => (Occasion::Ready, name),
            _ => continue,
        };
        let (Some(start), Some(end)) = (step.start, step.end) else { continue };
        let (start, end) = (origin + start, origin + end);
        let mut fitting =
            moments.iter().filter(|moment| moment.occasion == occasion && moment.subject == subject);
        let Some(moment) = fitting.rfind(|moment| moment.at <= end) else { continue };
        waits.push(Wait { step: at, late: end - moment.at.max(start) });
    }
    waits.sort_by_key(|wait| wait.late);
    waits
}

/// The lateness that 19 of 20 waits keep within.
pub fn p95(waits: &[Wait]) -> Duration {
    waits.get((waits.len() * 95).div_ceil(100).saturating_sub(1)).map_or(Duration::ZERO, |wait| wait.late)
}
