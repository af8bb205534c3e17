//! Planning alone, without any network: inventory, plan, check and text of large clusters.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::{Cluster, Node};
use daedal_planner::{
    EtcdView, GuestView, HostView, ImageRef, NodeView, Ownership, StorageView, TalosView, VmConfig, World,
    check, names, node_digest, plan_apply,
};
use daedal_words::{RenderOptions, render};
use serde::{Deserialize, Serialize};

use crate::machine::{peak_memory, processor_time_of};
use crate::{Failure, inventory};

const GIB: u64 = 1 << 30;
/// Nodes to a host.
const CROWD: u32 = 50;

/// What planning at one size took. Times are processor time in seconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Planning {
    pub nodes: u32,
    pub resolve: f64,
    /// A plan that makes every node.
    pub plan_all: f64,
    /// A plan that finds nothing to do.
    pub plan_none: f64,
    pub check: f64,
    pub render: f64,
    pub steps: usize,
    pub memory: Option<u64>,
}

/// Measures one size.
pub fn measure(nodes: u32) -> Result<Planning, Failure> {
    let hosts = inventory::hosts(nodes.div_ceil(CROWD));
    let text = inventory::text(nodes, &hosts, "{}")?;
    let cluster = inventory::resolve(&text)?;
    let image = image(&cluster);
    let images = daedal_planner::Images::from(image.clone());
    let empty = world(&cluster, &hosts);
    let full = made(&cluster, &hosts, &image);
    let plan = plan_apply(&cluster, &images, &empty)?;
    let findings = check(&cluster, &empty, &plan);
    if let Some(finding) = findings.first() {
        return Err(format!("the checker refuses the plan: {finding}").into());
    }
    let nothing = plan_apply(&cluster, &images, &full)?;
    if let Some(step) = nothing.steps.first() {
        return Err(format!("the finished cluster still has something to do: {step:?}").into());
    }
    let runs = (50_000 / nodes).clamp(3, 50);
    let seconds = |time: std::time::Duration| time.as_secs_f64();
    Ok(Planning {
        nodes,
        resolve: seconds(processor_time_of(runs, || inventory::resolve(&text).is_ok())),
        plan_all: seconds(processor_time_of(runs, || plan_apply(&cluster, &images, &empty))),
        plan_none: seconds(processor_time_of(runs, || plan_apply(&cluster, &images, &full))),
        check: seconds(processor_time_of(runs, || check(&cluster, &empty, &plan))),
        render: seconds(processor_time_of(runs, || render(&plan, RenderOptions::default()))),
        steps: plan.steps.len(),
        memory: peak_memory(),
    })
}

fn image(cluster: &Cluster) -> ImageRef {
    let schematic_id = "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245".to_owned();
    ImageRef {
        content: daedal_planner::Content::Import,
        file: names::image_file(cluster, &schematic_id),
        url: format!("https://factory.talos.dev/image/{schematic_id}/v1.12.0/nocloud-amd64.qcow2"),
        schematic_id,
    }
}

/// Hosts with room and nothing on them.
fn world(cluster: &Cluster, hosts: &[String]) -> World {
    let storage = |kind: &str, content: &[&str], size: u64| StorageView {
        kind: kind.into(),
        content: content.iter().map(|one| (*one).to_owned()).collect(),
        active: true,
        shared: false,
        total: size,
        available: size,
        ..StorageView::default()
    };
    let host = HostView {
        arch: None,
        online: true,
        cpus: 256,
        memory: 512 * GIB,
        bridges: BTreeSet::from([cluster.proxmox.bridge.clone()]),
        bridges_seen: true,
        storages: BTreeMap::from([
            ("local".to_owned(), storage("dir", &["iso", "import"], 200 * GIB)),
            ("local-lvm".to_owned(), storage("lvmthin", &["images"], 4000 * GIB)),
        ]),
    };
    World {
        proxmox_version: "9.2.11".into(),
        hosts: hosts.iter().map(|name| (name.clone(), host.clone())).collect(),
        ..World::default()
    }
}

/// The same hosts with the whole cluster running on them.
fn made(cluster: &Cluster, hosts: &[String], image: &ImageRef) -> World {
    let mut world = world(cluster, hosts);
    for (node, host) in cluster.nodes.iter().zip(hosts.iter().cycle()) {
        world.guests.insert(node.vmid, guest(cluster, node, host));
        let view = NodeView {
            talos: TalosView::Configured {
                version: cluster.talos.version.to_string(),
                stage: "running".into(),
            },
            etcd: EtcdView::Member,
            ready: Some(true),
            config: daedal_planner::ConfigView::AsDeclared,
            ..NodeView::default()
        };
        world.nodes.insert(node.name.clone(), view);
    }
    let sha256 = "0".repeat(64);
    world.image_pins.push(daedal_planner::ImagePin {
        file: image.file.clone(),
        size: GIB,
        sha256,
        disk_size: None,
    });
    world.secrets_stored = true;
    world.endpoint_answers = true;
    world.outputs_current = true;
    world
}

fn guest(cluster: &Cluster, node: &Node, host: &str) -> GuestView {
    let tags = names::tags(cluster, node);
    GuestView {
        vmid: node.vmid,
        host: host.to_owned(),
        name: node.name.clone(),
        template: false,
        running: true,
        cores: node.cores,
        memory: node.memory,
        disk: node.disk,
        lock: None,
        unseen: false,
        tags,
        smbios: None,
        ownership: Ownership::Ours { node: node.name.clone(), digest: node_digest(cluster, node) },
        config: Some(VmConfig {
            options: daedal_machine::vm::declared(cluster, node, &daedal_planner::Seats::default()),
            disk: node.disk,
            media: None,
            iso: None,
            base: None,
            waiting: false,
            unsigned: false,
            protected_by_us: false,
            runs: None,
            seats: daedal_planner::Seats::default(),
            ..VmConfig::default()
        }),
    }
}
