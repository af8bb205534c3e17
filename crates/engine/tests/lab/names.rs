//! Names that are left to DHCP: a node is who it is by its machine and its address, whatever etcd and Kubernetes call it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use daedal_engine::{EffectKind, Effects, KubernetesAddress, NodeDetails, Side};
use daedal_inventory::options::HostnameFrom;
use daedal_inventory::{Cluster, Patch, Role};
use daedal_lab::Dhcp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};

use crate::removal::{kubernetes, node_names, planned, pod_on, remove, remove_through};
use crate::support::{Bench, Giving, Killer, Way, assert_done, cluster};

/// The inventory with all names left to DHCP, and with the addresses if that has them reserved.
fn unnamed(mut cluster: Cluster, dhcp: bool) -> Cluster {
    cluster.network.dhcp = dhcp;
    for node in &mut cluster.nodes {
        node.machine.hostname = Some(HostnameFrom::Dhcp);
    }
    cluster
}

async fn page(bench: &Bench, node: &str) -> NodeDetails {
    let node = bench.cluster.node(node).unwrap();
    bench.engine().node_page(&bench.cluster, node).await
}

/// What DHCP calls the nodes of [`crossed`]: each by the name of another.
const GIVEN: [(&str, &str); 5] = [
    ("cp-1", "cp-2"),
    ("cp-2", "cp-3"),
    ("cp-3", "cp-1"),
    ("worker-1", "worker-2"),
    ("worker-2", "worker-1"),
];

/// A cluster whose nodes are given each other's names.
fn crossed() -> Bench {
    let mut bench = Bench::booting(Way { dhcp: Giving::Reserved, ..Way::USUAL }, 3, 2);
    bench.cluster = unnamed(bench.cluster, true);
    let given: BTreeMap<&str, &str> = GIVEN.into();
    let nodes = bench.cluster.nodes.iter();
    let mut dhcp = Dhcp::reserved(nodes.clone().filter_map(|node| Some((node.mac.clone(), node.address?))));
    dhcp.names = nodes.map(|node| (node.mac.clone(), given[node.name.as_str()].to_owned())).collect();
    bench.lab.fabric().serve_dhcp(dhcp);
    bench
}

/// DHCP gives every node the name of another, and nobody is taken for who he is not.
/// Mission: F4
#[tokio::test(start_paused = true)]
async fn nodes_with_each_others_names_are_told_apart() {
    let mut bench = crossed();
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    assert_done(&bench.apply().await, "a second apply");
    let status = bench.engine().status(&bench.cluster).await.unwrap();
    assert_eq!(status.healthy, Some(true), "{status:#?}");
    let (world, _) = bench.look().await;
    assert!(world.former.is_empty(), "{:#?}", world.former);
    assert!(world.members.iter().all(|member| member.serves), "{:#?}", world.members);
    for (name, given) in GIVEN {
        let page = page(&bench, name).await;
        let Side::Seen(seen) = &page.kubernetes else { panic!("{page:#?}") };
        let own = page.address.split('/').next().unwrap().to_owned();
        let address = KubernetesAddress { kind: "InternalIP".to_owned(), address: own };
        assert!(seen.name == given && seen.addresses.contains(&address), "{page:#?}");
    }

    // Who is named goes, with its pods, and nobody whose name DHCP gave to it.
    pod_on(&bench, "going", "worker-1").await;
    pod_on(&bench, "staying", "worker-2").await;
    bench.cluster = unnamed(cluster(1, 1), true);
    let going = ["cp-3", "worker-2", "cp-2"];
    assert_done(&remove(&bench, &going).await, "remove");
    assert_eq!(node_names(&bench).await, ["cp-2", "worker-2"]);
    let pods = kubernetes::<Pod>(&bench).await.list(&ListParams::default()).await.unwrap();
    let pods: Vec<String> = pods.items.into_iter().filter_map(|pod| pod.metadata.name).collect();
    assert!(pods.contains(&"staying".to_owned()) && !pods.contains(&"going".to_owned()), "{pods:?}");
    assert_done(&bench.apply().await, "apply what is left");
    bench.assert_converged("what is left").await;
    let (world, plan) = planned(&bench, &bench.cluster, &going).await;
    assert!(plan.is_empty() && world.members.len() == 1, "{:#?}\n{:#?}", plan.steps, world.members);

    assert_done(&bench.destroy().await, "destroy");
    bench.assert_destroyed("destroy");
}

/// A control plane that goes has the name of one that stays, and Kubernetes no longer knows it: it is not stopped as if it had no
/// part in etcd.
#[tokio::test(start_paused = true)]
async fn the_name_of_another_hides_no_member() {
    let mut bench = crossed();
    assert_done(&bench.apply().await, "apply");
    bench.cluster = unnamed(cluster(1, 1), true);
    // That is cp-3.
    kubernetes::<Node>(&bench).await.delete("cp-1", &DeleteParams::default()).await.unwrap();
    let (world, plan) = planned(&bench, &bench.cluster, &["cp-3"]).await;
    let members = world.members.iter().map(|member| (member.name.as_str(), member.serves, member.guessed));
    let members: BTreeSet<_> = members.collect();
    assert!(members.into_iter().eq(["cp-1", "cp-2", "cp-3"].map(|name| (name, true, false))), "{world:#?}");
    assert_eq!((plan.quorum.before, plan.quorum.after), (3, 2), "{:#?}", plan.steps);
    let watcher = Killer::never();
    let report = remove_through(&bench, &["cp-3"], Effects::through(watcher.clone())).await.unwrap();
    assert_done(&report, "remove");
    assert!(watcher.seen().iter().any(|effect| effect.kind == EffectKind::LeaveEtcd));
    assert_eq!(bench.look().await.0.members.len(), 2);

    // One that is silent can be anybody: nothing of ours is stopped that may be it.
    kubernetes::<Node>(&bench).await.delete("cp-3", &DeleteParams::default()).await.unwrap();
    let host = bench.look().await.0.guests[&301].host.clone();
    crate::strangers::proxmox(&bench).stop_vm(&host, 301).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, plan) = planned(&bench, &bench.cluster, &["cp-2"]).await;
    assert!(plan.steps.is_empty(), "{:#?}", plan.steps);
}

/// Names that machines make up themselves, and control planes that go without Kubernetes saying whose they are.
#[tokio::test(start_paused = true)]
async fn a_member_is_known_by_its_machine_where_nothing_else_tells() {
    let mut bench = Bench::new(3, 1);
    bench.cluster = unnamed(bench.cluster, false);
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    let names = node_names(&bench).await;
    assert!(names.iter().all(|name| name.starts_with("talos-")), "{names:?}");

    let Side::Seen(third) = page(&bench, "cp-3").await.kubernetes else { panic!("cp-3 is not seen") };
    let Side::Seen(second) = page(&bench, "cp-2").await.kubernetes else { panic!("cp-2 is not seen") };
    let host = bench.look().await.0.guests[&302].host.clone();
    crate::strangers::proxmox(&bench).stop_vm(&host, 302).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    bench.cluster = unnamed(cluster(1, 1), false);
    let watcher = Killer::never();
    let report = remove_through(&bench, &["cp-3"], Effects::through(watcher.clone())).await.unwrap();
    assert_done(&report, "a dead one");
    assert!(watcher.seen().iter().any(|effect| effect.kind == EffectKind::RemoveMember));
    assert!(!node_names(&bench).await.contains(&third.name));

    // Its object is gone from Kubernetes, so that only the machine itself can say who it is.
    let nodes = kubernetes::<Node>(&bench).await;
    nodes.delete(&second.name, &DeleteParams::default()).await.unwrap();
    let (world, plan) = planned(&bench, &bench.cluster, &["cp-2"]).await;
    assert!(world.former.keys().eq(["cp-2"]), "{:#?}", world.former);
    assert_eq!(world.former["cp-2"].called.as_ref(), Some(&second.name));
    assert_eq!(world.former["cp-2"].known_as, None, "Kubernetes does not know it");
    assert_eq!((plan.quorum.before, plan.quorum.after), (2, 1));
    let watcher = Killer::never();
    let report = remove_through(&bench, &["cp-2"], Effects::through(watcher.clone())).await.unwrap();
    assert_done(&report, "one that Kubernetes does not know");
    assert!(watcher.seen().iter().any(|effect| effect.kind == EffectKind::LeaveEtcd));
    assert_done(&bench.apply().await, "apply what is left");
    bench.assert_converged("what is left").await;
    assert!(bench.look().await.0.former.is_empty());
}

/// Names are left to DHCP and etcd is on a network that nobody declared: which member a node is, only the node itself can say.
#[tokio::test(start_paused = true)]
async fn a_member_is_known_by_its_own_word_wherever_etcd_is() {
    let mut bench = Bench::new(3, 1);
    bench.cluster = unnamed(bench.cluster, false);
    for (last, node) in (11..).zip(&mut bench.cluster.nodes) {
        let subnets = match node.role {
            Role::ControlPlane => "cluster: {etcd: {advertisedSubnets: [172.16.0.0/24]}}\n---\n",
            Role::Worker => "",
        };
        let link = format!(
            "apiVersion: v1alpha1\nkind: LinkConfig\nname: net0\naddresses: [{{address: 172.16.0.{last}/24}}]\n"
        );
        node.patches.push(Patch::new("another network", format!("{subnets}{link}")));
    }
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    let (world, _) = bench.look().await;
    let members = &world.members;
    let elsewhere = |address: &Option<String>| address.as_ref().is_some_and(|at| at.starts_with("172.16.0."));
    assert!(members.iter().all(|member| member.serves && elsewhere(&member.address)), "{members:#?}");
    let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    assert!(names.into_iter().eq(["cp-1", "cp-2", "cp-3"]), "{members:#?}");
    assert!(world.former.is_empty(), "{:#?}", world.former);
}
