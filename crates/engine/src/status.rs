//! The state of a cluster as a table: node × host × VMID × address × VM × Talos × etcd × Ready.

use daedal_inventory::{Cluster, Role};
use daedal_planner::{Blind, EtcdView, Ownership, TalosView, World, readiness};
use serde::Serialize;

use crate::access::Credential;

/// The state of a whole cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// Cluster name.
    pub cluster: String,
    /// One row per declared node, in the inventory's order.
    pub nodes: Vec<NodeStatus>,
    /// Names of nodes that are there although they are not declared: VMs of ours, members of etcd, nodes of Kubernetes.
    pub undeclared: Vec<String>,
    /// The API endpoint, `https://10.0.0.20:6443`.
    pub endpoint: String,
    /// Whether it answers.
    pub endpoint_answers: bool,
    /// Whether every node is running, configured, a member if it should be, and Ready.
    pub healthy: bool,
    /// What could not be seen.
    pub blind: Vec<Blind>,
    /// The client certificates in the output files.
    pub credentials: Vec<Credential>,
}

/// One node's row.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Node name.
    pub node: String,
    /// Role.
    pub role: Role,
    /// Host it is on.
    pub host: Option<String>,
    /// VMID.
    pub vmid: u32,
    /// Address without prefix length.
    pub address: String,
    /// `running`, `stopped`, `absent`, `foreign`, `creating`, `stuck in lock: create` …
    pub vm: String,
    /// `v1.12.0 running`, `maintenance`, `unreachable` or `other cluster`; nothing where no node was looked for.
    pub talos: Option<String>,
    /// `member`, `learner`, `not joined` or `unknown`; nothing for workers.
    pub etcd: Option<String>,
    /// `Ready` or `NotReady`; nothing for what Kubernetes does not know.
    pub ready: Option<String>,
    /// Whether all of it is as it should be.
    pub healthy: bool,
}

impl StatusReport {
    /// Puts what was observed beside what was declared.
    pub fn of(cluster: &Cluster, world: &World) -> Self {
        let cluster = &*cluster.located(&world.addresses);
        let nodes: Vec<_> = cluster
            .nodes
            .iter()
            .map(|node| {
                // A migrated VM keeps its VMID, so the VMID finds it wherever it is.
                let guest = world.guests.get(&node.vmid);
                let view = world.nodes.get(&node.name);
                let (vm, mine) = match guest {
                    None => ("absent".to_owned(), false),
                    Some(guest) => match &guest.ownership {
                        Ownership::Ours { node: owner, .. } if *owner == node.name => {
                            let power = if guest.running { "running" } else { "stopped" };
                            let vm = match &guest.lock {
                                Some(lock) => format!("{power} (lock: {lock})"),
                                None => power.to_owned(),
                            };
                            (vm, true)
                        }
                        Ownership::Ours { node: owner, .. } => (format!("is our node {owner}"), false),
                        Ownership::Foreign => ("foreign".to_owned(), false),
                        Ownership::Template { .. } => ("template".to_owned(), false),
                        Ownership::LookAlike { .. } => ("look-alike".to_owned(), false),
                        Ownership::HalfMade { task_running: true, .. } => ("creating".to_owned(), false),
                        Ownership::HalfMade { .. } => ("stuck in lock: create".to_owned(), false),
                        Ownership::Unreadable { .. } => ("unreadable".to_owned(), false),
                    },
                };
                let running = mine && guest.is_some_and(|guest| guest.running);
                let talos = view.map(|view| view.talos.to_string());
                let is_control_plane = node.role == Role::ControlPlane;
                let etcd = match view.map(|view| &view.etcd) {
                    _ if !is_control_plane => None,
                    None => None,
                    Some(EtcdView::Unknown) => Some("unknown"),
                    Some(EtcdView::NotJoined) => Some("not joined"),
                    Some(EtcdView::Learner) => Some("learner"),
                    Some(EtcdView::Member) => Some("member"),
                };
                let ready = view.and_then(|view| view.ready);
                let healthy = running
                    && matches!(view.map(|view| &view.talos), Some(TalosView::Configured { .. }))
                    && (!is_control_plane || etcd == Some("member"))
                    && ready == Some(true);
                NodeStatus {
                    node: node.name.clone(),
                    role: node.role,
                    host: guest.map(|guest| guest.host.clone()),
                    vmid: node.vmid,
                    address: node.shown_address(),
                    vm,
                    talos,
                    etcd: etcd.map(str::to_owned),
                    ready: ready.map(|ready| readiness(ready).to_owned()),
                    healthy,
                }
            })
            .collect();
        let healthy = world.endpoint_answers && nodes.iter().all(|node| node.healthy);
        Self {
            cluster: cluster.name.clone(),
            nodes,
            undeclared: world.undeclared(cluster).into_iter().map(str::to_owned).collect(),
            endpoint: cluster.kubernetes.endpoint_url().unwrap_or_default(),
            endpoint_answers: world.endpoint_answers,
            healthy,
            blind: world.blind.clone(),
            credentials: Vec::new(),
        }
    }
}
