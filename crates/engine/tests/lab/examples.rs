//! The examples, each on a datacenter that fits it: what one team's way to a cluster survives. Pools are as small as the way
//! allows, because one node of a kind dies like another.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daedal_inventory::options::HostnameFrom;
use daedal_inventory::{BootConfig, Cluster, Files, Source, load};
use daedal_lab::proxmox::{DatacenterSpec, HostSpec, ImageSpec, StorageSpec, TokenSpec};
use daedal_lab::{Dhcp, Lab, LabSpec, SystemImage};
use daedal_proxmox::CallCounter;

use crate::crash::{sweep_destruction_of, sweep_of};
use crate::faults::faults_of;
use crate::support::{Bench, CANARY, EPOCH, assert_done};

/// What stands beside an example.
struct Beside(PathBuf);

impl Files for Beside {
    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(self.0.join(path))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.0.join(folder))?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn variable(&self, name: &str) -> Option<String> {
        Some(format!("value-of-{name}"))
    }
}

/// An example with some of its text replaced.
fn example(name: &str, edits: &[(&str, &str)]) -> Cluster {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let mut text = std::fs::read_to_string(&file).unwrap();
    for (from, to) in edits {
        assert!(text.contains(from), "{name} still says: {from}");
        text = text.replace(from, to);
    }
    let source = Source { name: name.to_owned(), text };
    load(&[source], &Beside(file.parent().unwrap().to_owned()))
        .unwrap_or_else(|e| panic!("{name}: {e:?}"))
        .cluster
}

/// A datacenter for a cluster: its hosts, storages, bridge and token, its DHCP server, and the image that it names.
fn bench(cluster: Cluster) -> Bench {
    let proxmox = &cluster.proxmox;
    let mut storages = vec![StorageSpec::local(), StorageSpec::local_lvm()];
    for name in proxmox.storages_of_disks() {
        if !storages.iter().any(|storage| storage.name == *name) {
            storages.push(StorageSpec::new(name, "zfspool", &["images"], 800 << 30));
        }
    }
    let host = |name: &String| HostSpec {
        storages: storages.clone(),
        bridges: vec![proxmox.bridge.clone()],
        ..HostSpec::new(name, 64, 256 << 30)
    };
    let system = |installer| SystemImage {
        version: format!("v{}", cluster.talos.version),
        schematic: "ab".repeat(32),
        platform: "nocloud".to_owned(),
        arch: "amd64".to_owned(),
        extensions: cluster.talos.extensions.clone(),
        kernel_args: Vec::new(),
        installer,
        secure_boot: false,
        meta: BTreeMap::new(),
    };
    let image = |volume: &String| ImageSpec { volume: volume.clone(), system: system(true) };
    let token = match &proxmox.pool {
        Some(pool) => TokenSpec::in_pool(&proxmox.token_id, CANARY, pool),
        None => TokenSpec::minimal(&proxmox.token_id, CANARY),
    };
    let endpoint = proxmox.endpoint.trim_start_matches("https://").trim_end_matches(":8006");
    let datacenter = DatacenterSpec {
        hosts: proxmox.hosts.iter().map(|one| host(&one.name)).collect(),
        endpoints: vec![endpoint.to_owned()],
        images: cluster.boot.iso.iter().map(image).collect(),
        tokens: vec![token],
        pools: proxmox.pool.iter().cloned().collect(),
        ..DatacenterSpec::default()
    };
    let asks = cluster.boot.config == BootConfig::Maintenance || cluster.network.dhcp;
    let dhcp = asks.then(|| {
        let declared = cluster.nodes.iter().filter_map(|node| Some((node.mac.clone(), node.address?)));
        let named = cluster.nodes.iter().filter(|node| node.machine.hostname == Some(HostnameFrom::Dhcp));
        let names = named.map(|node| (node.mac.clone(), node.name.clone())).collect();
        let any = cluster.network.cidr.hosts().nth(100).unwrap();
        let first = format!("{any}/{}", cluster.network.cidr.prefix_len()).parse().unwrap();
        let mut dhcp = Dhcp::reserved(declared);
        (dhcp.names, dhcp.first) = (names, Some(first));
        dhcp
    });
    let lab = Lab::new(LabSpec { datacenter, epoch: EPOCH, dhcp, ..LabSpec::default() }).unwrap();
    Bench { lab, cluster, folder: tempfile::tempdir().unwrap(), counter: Arc::new(CallCounter::new()) }
}

fn enterprise() -> Bench {
    let small = [
        ("  ha: true ", "  ha: false "),
        ("count: 3", "count: 1"),
        ("count: 6", "count: 1"),
        ("      cp-2: pve-b\n      cp-3: pve-c\n", ""),
    ];
    let mut cluster = example("enterprise/cluster.yaml", &small);
    // Its sweeps end with its destruction, too.
    cluster.protect = false;
    bench(cluster)
}

fn modules() -> Bench {
    bench(example("modules/cluster.yaml", &[("count: 3 ", "count: 1 "), ("count: 4 ", "count: 1 ")]))
}

fn home() -> Bench {
    bench(example("home/static.yaml", &[("count: 3", "count: 1"), ("count: 2", "count: 1")]))
}

fn em_infra() -> Bench {
    bench(example("em-infra/cluster.yaml", &[]))
}

fn fluodata() -> Bench {
    let one = "        - {name: worker-1, vmid: 121, address: 10.10.0.21}\n";
    bench(example("fluodata/cluster.yaml", &[(one, "")]))
}

macro_rules! examples {
    ($($name:ident $deaths:ident $faults:ident)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $deaths() {
                sweep_of($name).await;
                sweep_destruction_of($name).await;
            }

            #[tokio::test(start_paused = true)]
            async fn $faults() {
                faults_of($name, stringify!($name)).await;
            }
        )*
    };
}

examples! {
    enterprise every_death_on_the_enterprise_example_is_survived every_fault_on_the_enterprise_example_is_survived
    modules every_death_on_the_modules_example_is_survived every_fault_on_the_modules_example_is_survived
    home every_death_on_the_home_example_is_survived every_fault_on_the_home_example_is_survived
    em_infra every_death_on_the_em_infra_example_is_survived every_fault_on_the_em_infra_example_is_survived
    fluodata every_death_on_the_fluodata_example_is_survived every_fault_on_the_fluodata_example_is_survived
}

/// Each example comes up, is as declared, and goes again.
#[tokio::test(start_paused = true)]
async fn every_example_comes_up_and_goes() {
    for (name, make) in [
        ("enterprise", enterprise as fn() -> Bench),
        ("modules", modules),
        ("home", home),
        ("em-infra", em_infra),
        ("fluodata", fluodata),
    ] {
        let bench = make();
        assert_done(&bench.apply().await, name);
        bench.assert_converged(name).await;
        assert_done(&bench.destroy().await, name);
        bench.assert_destroyed(name);
    }
}
