//! Nodes of arm64, on hosts that are.

use daedal_engine::CheckVerdict;
use daedal_inventory::Arch;
use daedal_planner::PlanError;

use crate::boot::{CLOUD_INIT, ISO_CIDATA, TEMPLATE, client};
use crate::support::{Bench, Way, assert_done};

/// A bench whose hosts are of one architecture and whose nodes are declared to be of another.
fn bench(way: Way, machine: &str, arch: Arch) -> Bench {
    let mut bench = Bench::on(way, 1, 1, |datacenter| {
        for host in &mut datacenter.hosts {
            machine.clone_into(&mut host.machine);
        }
    });
    bench.cluster.talos.arch = arch;
    bench
}

/// Mission: M23
#[tokio::test(start_paused = true)]
async fn arm64_where_the_hosts_are() {
    for way in [Way::USUAL, ISO_CIDATA, CLOUD_INIT, TEMPLATE] {
        let bench = bench(way, "aarch64", Arch::Arm64);
        assert_done(&bench.apply().await, way.boot);
        bench.assert_converged(way.boot).await;
        let (world, _) = bench.look().await;
        for node in &bench.cluster.nodes {
            let guest = &world.guests[&node.vmid];
            let config = client(&bench).vm_config(&guest.host, node.vmid).await.unwrap();
            let raw = |option: &str| config.raw.get(option).map(String::as_str).unwrap_or_default();
            assert_eq!((raw("machine"), raw("cpu"), raw("bios")), ("virt", "host", "ovmf"), "{way:?}");
            assert!(!config.raw.keys().any(|option| option.starts_with("ide")), "{way:?}");
            // Only root may set it, and a host's own is the right one.
            assert_eq!(raw("arch"), "", "{way:?}");
        }
        assert_done(&bench.destroy().await, way.boot);
        bench.assert_destroyed(way.boot);
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_of_another_architecture_are_told_before_anything_is_made() {
    let other = bench(Way::USUAL, "x86_64", Arch::Arm64);
    let refused = other.look().await.1.unwrap_err();
    assert!(matches!(refused, PlanError::Arch { is: Arch::Amd64, wanted: Arch::Arm64, .. }), "{refused}");
    let usual = bench(Way::USUAL, "aarch64", Arch::Amd64);
    let report = usual.engine().live_checks(&usual.cluster).await;
    let told = report.checks.iter().find(|check| check.found.contains("`talos.arch: amd64`"));
    let told = told.unwrap_or_else(|| panic!("{:#?}", report.checks));
    assert_eq!(told.verdict, CheckVerdict::Bad);
    assert!(told.found.contains("is arm64"), "{}", told.found);
}
