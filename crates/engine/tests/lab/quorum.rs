//! Who votes in etcd, by the control planes' own word.

use daedal_inventory::Patch;
use daedal_planner::{Action, EtcdView, Plan, TalosView};
use daedal_talos_client::{Reset, WipedPartition};

use crate::config::{REBOOT, changed};
use crate::strangers::proxmox;
use crate::support::{Bench, assert_done, errors};

/// No machine has an address there: etcd waits for one before it joins.
const NOWHERE: &str = "cluster: {etcd: {advertisedSubnets: [172.31.0.0/24]}}";

/// The control planes that the plan restarts.
fn restarted(plan: &Plan) -> Vec<&str> {
    let steps =
        plan.steps.iter().filter(|step| matches!(step.action, Action::ApplyConfig { reboot: true, .. }));
    steps.filter_map(|step| step.node.as_deref()).filter(|node| node.starts_with("cp")).collect()
}

/// What is asked of all nodes, with the third control plane's etcd kept out or not.
fn wanted(kept_out: bool) -> daedal_inventory::Cluster {
    let mut cluster = changed(3, 2, REBOOT);
    if kept_out {
        let third = cluster.nodes.iter_mut().find(|node| node.name == "cp-3").unwrap();
        third.patches.push(Patch::new("nowhere", NOWHERE));
    }
    cluster
}

/// A control plane's VM is lost and made anew, but it cannot join, and etcd still lists what it was before: it does not vote under
/// its former self's name.
#[tokio::test(start_paused = true)]
async fn a_control_plane_made_anew_does_not_vote_as_what_it_was() {
    let mut bench = Bench::created_large().await;
    let host = bench.look().await.0.guests[&302].host.clone();
    let proxmox = proxmox(&bench);
    let done = daedal_proxmox::TaskWatcher::new(&proxmox);
    let stopped = proxmox.stop_vm(&host, 302).await.unwrap();
    done.finish(&stopped, "stop").await.unwrap();
    // It is gone, with its disks and its data.
    let destroyed = proxmox.destroy_vm(&host, 302, true).await.unwrap();
    done.finish(&destroyed, "destroy").await.unwrap();
    let before = std::mem::replace(&mut bench.cluster, wanted(true));
    bench.cluster.nodes[..2].clone_from_slice(&before.nodes[..2]);
    let report = bench.apply().await;
    assert!(errors(&report).iter().any(|said| said.contains("etcd to take cp-3")), "{:?}", errors(&report));

    bench.cluster = wanted(true);
    let (world, plan) = bench.look().await;
    let plan = plan.unwrap();
    let listed: Vec<_> =
        world.members.iter().filter(|one| one.name == "cp-3").map(|one| one.serves).collect();
    assert_eq!(listed, [false], "{:#?}", world.members);
    let third = &world.nodes["cp-3"];
    assert!(
        matches!(third.talos, TalosView::Configured { .. }) && third.etcd == EtcdView::Unknown,
        "{third:#?}"
    );
    assert_eq!(restarted(&plan), [""; 0], "{}", daedal_words::render(&plan, Default::default()));
    assert_eq!(plan.quorum.before, 2);

    // Let in, it takes the place of what it was, and then they may restart, one by one.
    bench.cluster = wanted(false);
    let (_, plan) = bench.look().await;
    assert_eq!(restarted(&plan.unwrap()), [""; 0]);
    assert_done(&bench.apply().await, "let it in");
    let (_, plan) = bench.look().await;
    assert_eq!(restarted(&plan.unwrap()), ["cp-1", "cp-2"]);
    assert_done(&bench.apply().await, "restart the others");
    bench.assert_converged("all vote").await;
}

/// The same where only its data is lost, and its own config has to change: it may restart, and nobody else.
#[tokio::test(start_paused = true)]
async fn only_who_does_not_vote_restarts_while_one_is_missing() {
    let mut bench = Bench::created_large().await;
    let third = bench.cluster.nodes.iter_mut().find(|node| node.name == "cp-3").unwrap();
    third.patches.push(Patch::new("nowhere", NOWHERE));
    assert_done(&bench.apply().await, "nowhere");
    let mut reset = Reset::partitions(WipedPartition::Ephemeral, []);
    reset.reboot = true;
    bench.talos("cp-3").await.reset(&reset).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;

    bench.cluster = wanted(true);
    let (world, plan) = bench.look().await;
    assert_eq!(world.nodes["cp-3"].etcd, EtcdView::Unknown, "{:#?}", world.members);
    assert_eq!(restarted(&plan.unwrap()), ["cp-3"]);
    bench.cluster = wanted(false);
    assert_done(&bench.apply().await, "let it in");
    assert_done(&bench.apply().await, "restart the others");
    bench.assert_converged("all vote").await;
}
