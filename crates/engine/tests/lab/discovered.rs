//! Addresses that nobody declares: DHCP gives any, and the guest agents say which.

use daedal_inventory::Cluster;
use daedal_lab::Dhcp;
use daedal_planner::Action;
use daedal_proxmox::TaskWatcher;

use crate::boot::{IMAGE_ANYWHERE, ISO_ANYWHERE, TEMPLATE_FULL, client};
use crate::support::{Bench, Giving, Way, assert_done};

/// The cluster with all addresses taken out.
fn undeclared(cluster: &mut Cluster, vip: bool) {
    cluster.network.dhcp = true;
    cluster.network.discovered = true;
    for node in &mut cluster.nodes {
        node.address = None;
    }
    if !vip {
        cluster.network.vip = None;
        cluster.kubernetes.endpoint_host = None;
    }
}

fn bench(way: Way, control_planes: usize, workers: usize, vip: bool) -> Bench {
    let mut bench = Bench::booting(Way { dhcp: Giving::Any, ..way }, control_planes, workers);
    undeclared(&mut bench.cluster, vip);
    bench
}

fn output(bench: &Bench, name: &str) -> String {
    std::fs::read_to_string(bench.outputs().join(name)).unwrap()
}

/// Mission: E7
#[tokio::test(start_paused = true)]
async fn the_first_control_planes_address_is_found_and_is_the_endpoint() {
    for way in [IMAGE_ANYWHERE, ISO_ANYWHERE, TEMPLATE_FULL] {
        let bench = bench(way, 3, 1, false);
        assert_done(&bench.apply().await, way.boot);
        bench.assert_converged(way.boot).await;
        let (world, _) = bench.look().await;
        assert_eq!(world.addresses.len(), 4, "{:?}", world.addresses);
        let first = world.addresses["cp-1"].to_string();
        assert!(first.starts_with("10.0.9."), "{first}");
        assert!(output(&bench, "kubeconfig").contains(&format!("server: https://{first}:6443")));
        for address in world.addresses.values().take(3) {
            assert!(output(&bench, "talosconfig").contains(&address.to_string()), "{address}");
        }
        // They are in the store, too: another machine needs no outputs for them.
        assert_eq!(bench.store().addresses().await.unwrap(), Some(world.addresses.clone()));
        let config = output(&bench, "nodes/worker-1.yaml");
        assert!(config.contains(&format!("endpoint: https://{first}:6443")), "{config}");
        let status = bench.engine().status(&bench.cluster).await.unwrap();
        assert_eq!(status.healthy, Some(true), "{status:#?}");
        assert_eq!(status.endpoint, format!("https://{first}:6443"));
        assert_done(&bench.destroy().await, way.boot);
        bench.assert_destroyed(way.boot);
    }
}

#[tokio::test(start_paused = true)]
async fn a_virtual_address_is_the_endpoint_of_discovered_nodes() {
    let bench = bench(IMAGE_ANYWHERE, 3, 1, true);
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    assert!(output(&bench, "kubeconfig").contains("server: https://10.0.0.20:6443"));
    // The address that they share is nobody's own.
    let found = bench.look().await.0.addresses;
    assert!(found.values().all(|address| address.to_string() != "10.0.0.20"), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_to_discovered_addresses_is_survived() {
    crate::crash::sweep_of(|| bench(IMAGE_ANYWHERE, 1, 1, false)).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_moved_is_told_to_all_nodes() {
    let bench = bench(IMAGE_ANYWHERE, 1, 1, false);
    assert_done(&bench.apply().await, "apply");
    let (world, _) = bench.look().await;
    let (cp, worker) = (&bench.cluster.nodes[0], world.addresses["worker-1"]);
    let proxmox = client(&bench);
    let upid = proxmox.stop_vm(&world.guests[&cp.vmid].host, cp.vmid).await.unwrap();
    TaskWatcher::new(&proxmox).wait(&upid).await.unwrap();
    bench.lab.fabric().serve_dhcp(Dhcp::from("10.0.8.1/16".parse().unwrap()));
    // While nobody knows where it is, nobody's config is held against it.
    let (_, plan) = bench.look().await;
    let plan = plan.unwrap();
    assert!(plan.steps.iter().any(|step| matches!(step.action, Action::StartVm { .. })), "{:#?}", plan.steps);
    assert!(
        !plan.steps.iter().any(|step| matches!(step.action, Action::ApplyConfig { .. })),
        "{:#?}",
        plan.steps
    );
    assert_done(&bench.apply().await, "start");
    let (world, plan) = bench.look().await;
    assert_eq!(world.addresses["cp-1"].to_string(), "10.0.8.1");
    assert_eq!(world.addresses["worker-1"], worker);
    let told = plan.unwrap();
    let told = told.steps.iter().filter(|step| matches!(step.action, Action::ApplyConfig { .. })).count();
    assert_eq!(told, 2);
    assert_done(&bench.apply().await, "tell");
    bench.assert_converged("tell").await;
    assert!(output(&bench, "kubeconfig").contains("server: https://10.0.8.1:6443"));
}

/// Where nodes are is known to whoever has the store; what is lost or damaged of it is recorded again.
#[tokio::test(start_paused = true)]
async fn found_addresses_are_kept_in_the_store_and_found_again() {
    let bench = bench(IMAGE_ANYWHERE, 1, 0, false);
    assert_done(&bench.apply().await, "apply");
    let found = bench.store().addresses().await.unwrap().unwrap();
    std::fs::remove_dir_all(bench.outputs()).unwrap();
    assert_eq!(bench.engine().found_addresses().await.unwrap(), found);
    bench.engine().kubernetes(&bench.cluster).await.unwrap();
    assert_done(&bench.apply().await, "the outputs are written again");
    let path = bench.store().place().join("addresses.json");
    for damage in ["", "# daedal-store/v1 cluster=x", "{}"] {
        std::fs::write(&path, damage).unwrap();
        // What older versions kept is good enough until then.
        assert_eq!(bench.engine().found_addresses().await.unwrap(), found, "{damage}");
        assert_done(&bench.apply().await, "they are recorded again");
        assert_eq!(bench.store().addresses().await.unwrap(), Some(found.clone()), "{damage}");
        bench.assert_converged("they are recorded again").await;
    }
}
