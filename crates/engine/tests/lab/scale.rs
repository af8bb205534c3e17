//! Many nodes at once: no call may fail for want of patience, and few may be made.

use std::time::Duration;

use daedal_lab::proxmox::HostSpec;

use crate::support::{Bench, assert_done};

/// A bench of five large hosts.
fn large(control_planes: usize, workers: usize) -> Bench {
    let mut bench = Bench::with(control_planes, workers, |spec| {
        spec.hosts = ["atlas", "boreas", "ceres", "dione", "eos"]
            .iter()
            .map(|name| HostSpec::new(*name, 256, 1 << 40))
            .collect();
    });
    let host = bench.cluster.proxmox.hosts[0].clone();
    bench.cluster.proxmox.hosts = ["atlas", "boreas", "ceres", "dione", "eos"]
        .iter()
        .map(|name| daedal_inventory::Host { name: (*name).to_owned(), ..host.clone() })
        .collect();
    bench
}

#[tokio::test(start_paused = true)]
async fn a_hundred_nodes_come_up_without_a_failed_call() {
    let bench = large(3, 97);
    let report = bench.apply().await;
    assert_done(&report, "apply");
    let nodes = bench.cluster.nodes.len() as u64;
    let made = bench.counts();
    assert_eq!(made.failed, 0, "{made:#?}");
    // Six changes a node, one download a host; and of all that is read, the polling is shared.
    assert_eq!(made.mutating, 6 * nodes + 5, "{made:#?}");
    assert!(made.total <= 10 * nodes, "{made:#?}");
    let (took, critical) = (report.took, report.critical_time());
    assert!(took.as_secs_f64() <= 1.10 * critical.as_secs_f64(), "{took:?} over {critical:?}");
    assert!(took < Duration::from_secs(120), "{took:?}");
}
