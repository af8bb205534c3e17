//! The details of one node, from all three sides: what Proxmox, Talos and Kubernetes say of it.

use std::collections::BTreeMap;

use daedal_inventory::{Cluster, Node, Role};
use daedal_planner::{GuestView, Judge, Likeness, Ownership, World};
use daedal_talos_client::Client;
use futures::future::select_ok;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::addresses::{self, Addresses};
use crate::engine::Engine;
use crate::error::{Error, chain};
use crate::kubernetes::{API_SERVER_PORT, Kubernetes};
use crate::node_identities::NodeIdentities;
use crate::nodes::Nodes;
use crate::observe::guests::whose;
use crate::observe::UnobservedList;
use crate::observe::unseen::{self, Owner};

/// One node from all three sides.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDetails {
    /// Its name.
    pub node: String,
    /// Its cluster.
    pub cluster: String,
    /// Its pool.
    pub pool: String,
    /// Its role.
    pub role: Role,
    /// Its declared address.
    pub address: String,
    /// What Proxmox says.
    pub proxmox: Side<ProxmoxDetails>,
    /// What Talos says.
    pub talos: Side<TalosDetails>,
    /// What Kubernetes says.
    pub kubernetes: Side<KubernetesDetails>,
}

/// What one side says, or why it could not be asked.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Side<T> {
    /// It was asked.
    Seen(T),
    /// It could not be asked, and why.
    Unseen(String),
}

/// A node's VM.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxmoxDetails {
    /// Host it is on.
    pub host: String,
    /// VMID.
    pub vmid: u32,
    /// Name of the VM.
    pub name: String,
    /// `running` or `stopped`.
    pub power: String,
    /// Whose it is: `ours`, or what does not agree.
    pub ownership: String,
    /// vCPUs.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Options that change at its next start, and to what; nothing for one that goes.
    pub pending: BTreeMap<String, Option<String>>,
    /// Disks by slot: volume and size in bytes.
    pub disks: BTreeMap<String, (String, Option<u64>)>,
    /// Network cards by slot, as Proxmox writes them.
    pub nics: BTreeMap<String, String>,
    /// What is in its CD drives.
    pub media: Vec<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Starts with the host.
    pub on_boot: bool,
    /// Guest lock, if there is one.
    pub lock: Option<String>,
    /// Digest of the machine config in its mark.
    pub mark: Option<String>,
    /// Proxmox's digest of the VM's config.
    pub digest: String,
}

/// A node's own words.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosDetails {
    /// Talos version.
    pub version: String,
    /// Platform and architecture, `nocloud/amd64`.
    pub platform: String,
    /// Stage of its life.
    pub stage: String,
    /// Whether all is as it should be in this stage.
    pub ready: bool,
    /// What it waits for.
    pub waits_for: Vec<String>,
    /// Services: name, state, and health where it is known.
    pub services: Vec<(String, String, Option<bool>)>,
    /// Addresses with the link they are on.
    pub addresses: Vec<String>,
    /// Links: name, MAC, state.
    pub links: Vec<(String, String, String)>,
    /// Disks: device, size, model.
    pub disks: Vec<(String, String, String)>,
    /// System extensions with versions.
    pub extensions: Vec<String>,
    /// Its etcd member; none on workers.
    pub etcd: Option<Side<EtcdDetails>>,
    /// When the certificate of its API ends.
    pub certificate_ends: Option<Timestamp>,
}

/// A control plane's etcd member.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdDetails {
    /// Its id in hex, as etcd writes it.
    pub id: String,
    /// It follows, but does not vote yet.
    pub learner: bool,
    /// It leads.
    pub leader: bool,
    /// Bytes of its database.
    pub db_size: i64,
    /// How many members there are.
    pub members: usize,
    /// What it complains about.
    pub errors: Vec<String>,
}

/// A node's object in Kubernetes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesDetails {
    /// The name that Kubernetes knows it by.
    pub name: String,
    /// Conditions: type, status, reason.
    pub conditions: Vec<(String, String, String)>,
    /// Kubelet version.
    pub kubelet: String,
    /// Container runtime.
    pub runtime: String,
    /// Kernel.
    pub kernel: String,
    /// Operating system.
    pub os: String,
    /// Addresses by type.
    pub addresses: Vec<(String, String)>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints, as `key=value:Effect`.
    pub taints: Vec<String>,
    /// Whether new pods may come.
    pub schedulable: bool,
}

impl Engine {
    /// Everything about one declared node, from all three sides; a side that cannot be asked says why.
    pub async fn node_page(&self, cluster: &Cluster, node: &Node) -> Result<NodeDetails, Error> {
        let found = match cluster.network.discovered {
            true => self.observe(cluster).await?.addresses,
            false => BTreeMap::new(),
        };
        let cluster = &*cluster.located(&found);
        let node = cluster.node(&node.name).unwrap_or(node);
        let secrets = self.stored_secrets().await?;
        let parts = &self.parts;
        let unknown = "this cluster has no secrets yet, so its nodes cannot be asked".to_owned();
        let (talos, kubernetes) = match &secrets {
            None => (Err(unknown.clone()), Err(unknown)),
            Some(secrets) => (
                Nodes::new(parts, secrets).map_err(|error| chain(&error)),
                Kubernetes::new(parts, secrets).map_err(|error| chain(&error)),
            ),
        };
        let (proxmox, talos, kubernetes) = tokio::join!(
            self.proxmox_page(cluster, node),
            async { Box::pin(self.talos_page(&talos?, node)).await },
            async { self.kubernetes_page(&kubernetes?, cluster, node).await },
        );
        Ok(NodeDetails {
            node: node.name.clone(),
            cluster: cluster.name.clone(),
            pool: node.pool.clone(),
            role: node.role,
            address: node.shown_address(),
            proxmox: proxmox.into(),
            talos: talos.into(),
            kubernetes: kubernetes.into(),
        })
    }

    async fn proxmox_page(&self, cluster: &Cluster, node: &Node) -> Result<ProxmoxDetails, String> {
        let proxmox = &self.parts.proxmox;
        let told = |error: daedal_proxmox::Error| chain(&error);
        let rows = proxmox.resources_of("vm").await.map_err(told)?;
        let row = rows.iter().find(|row| row.vmid == Some(node.vmid));
        let Some(host) = row.map(|row| row.node.clone()) else {
            return Err(self.absence(cluster, node).await);
        };
        let (config, status) = tokio::try_join!(
            proxmox.vm_config_pending(&host, node.vmid),
            proxmox.vm_status(&host, node.vmid)
        )
        .map_err(told)?;
        let judge = Judge::knowing(cluster, self.secrets_id().await.unwrap_or_default());
        let (ownership, config) =
            whose(proxmox, &judge, cluster, &host, node.vmid, config).await.map_err(told)?;
        let (ownership, mark) = match ownership {
            Ownership::Ours { node: name, digest } if name == node.name => ("ours".to_owned(), Some(digest)),
            Ownership::Ours { node, digest } => (format!("our node {node}"), Some(digest)),
            Ownership::Foreign => ("somebody else's".to_owned(), None),
            Ownership::LookAlike { why, likeness: Likeness::LostMark } => {
                (format!("may be ours, but {why}"), None)
            }
            Ownership::LookAlike { why, .. } => (format!("looks like ours, but {why}"), None),
            Ownership::HalfMade { task_running: true, .. } => ("ours, being created".to_owned(), None),
            Ownership::HalfMade { .. } => {
                let fix = daedal_planner::freeing(&host, node.vmid);
                (format!("ours, but the task that made it died: {fix}"), None)
            }
            Ownership::Template { .. } => ("a template of ours".to_owned(), None),
            Ownership::Unreadable { why } => (why, None),
        };
        let pending: BTreeMap<String, Option<String>> =
            config.pending().map(|option| (option.to_owned(), config.raw.get(option).cloned())).collect();
        // What runs; what waits for the next start is told apart.
        let runs = config.runs.as_deref().unwrap_or(&config);
        Ok(ProxmoxDetails {
            host,
            vmid: node.vmid,
            name: config.name.clone().unwrap_or_default(),
            power: status.status,
            ownership,
            cores: runs.vcpus(),
            memory: runs.memory_mib << 20,
            pending,
            disks: runs
                .disks
                .iter()
                .map(|(slot, disk)| (slot.clone(), (disk.volid.clone(), disk.size)))
                .collect(),
            nics: runs.nics.iter().map(|(slot, nic)| (slot.clone(), nic.property_string())).collect(),
            media: runs.cdroms.values().flatten().cloned().collect(),
            tags: config.tags.clone(),
            on_boot: config.on_boot,
            lock: config.lock.clone(),
            mark,
            digest: config.digest.clone(),
        })
    }

    /// Why no list shows a node's VM: there is none, or one that is not in its pool yet.
    async fn absence(&self, cluster: &Cluster, node: &Node) -> String {
        let hosts: Vec<&str> = cluster.proxmox.hosts.iter().map(|host| host.name.as_str()).collect();
        let (proxmox, unobserved) = (&self.parts.proxmox, UnobservedList::default());
        let own = std::iter::once((node.vmid, Owner::Node(node)));
        let found = unseen::look(proxmox, cluster, &hosts, own, &unobserved).await;
        match found.first() {
            None => format!("there is no VM {}", node.vmid),
            Some(GuestView {
                ownership: Ownership::HalfMade { task_running: true, .. }, vmid, host, ..
            }) => {
                format!("VM {vmid} is being created on {host}, and the token may not see it yet")
            }
            Some(guest) => {
                let (text, fix) = guest.died_half_way();
                format!("{text}. To free it: {fix}")
            }
        }
    }

    async fn talos_page(&self, nodes: &Nodes, node: &Node) -> Result<TalosDetails, String> {
        let patience = self.parts.limits.call_timeout;
        let told = |error: daedal_talos_client::Error| chain(&error);
        let asked = async {
            let client = nodes.client(node, patience).await.map_err(told)?;
            let version = client.version().await.map_err(told)?;
            let status = client.machine_status().await.map_err(told)?;
            let (services, addresses, links, disks, extensions, etcd, ends) = tokio::join!(
                client.service_list(),
                listed(&client, "network", "AddressStatuses.net.talos.dev"),
                listed(&client, "network", "LinkStatuses.net.talos.dev"),
                listed(&client, "runtime", "Disks.block.talos.dev"),
                client.extensions(),
                etcd_page(&client, node),
                nodes.certificate_end(node, patience),
            );
            let text = |spec: &Value, key: &str| spec[key].as_str().unwrap_or_default().to_owned();
            Ok(TalosDetails {
                version: version.tag,
                platform: format!("{}/{}", version.platform, version.arch),
                stage: status.as_ref().map(|status| status.stage.clone()).unwrap_or_default(),
                ready: status.as_ref().is_some_and(|status| status.ready),
                waits_for: status
                    .into_iter()
                    .flat_map(|status| status.unmet)
                    .map(|(name, reason)| format!("{name}: {reason}"))
                    .collect(),
                services: services
                    .map_err(told)?
                    .into_iter()
                    .map(|service| (service.id, service.state, service.healthy))
                    .collect(),
                addresses: addresses
                    .iter()
                    .map(|(_, spec)| format!("{} on {}", text(spec, "address"), text(spec, "linkName")))
                    .collect(),
                links: links
                    .iter()
                    .filter(|(_, spec)| !text(spec, "hardwareAddr").is_empty())
                    .map(|(id, spec)| {
                        (id.clone(), text(spec, "hardwareAddr"), text(spec, "operationalState"))
                    })
                    .collect(),
                disks: disks
                    .iter()
                    .map(|(_, spec)| (text(spec, "dev_path"), text(spec, "pretty_size"), text(spec, "model")))
                    .collect(),
                extensions: extensions
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(name, version)| format!("{name} {version}"))
                    .collect(),
                etcd,
                certificate_ends: ends.ok(),
            })
        };
        match Box::pin(tokio::time::timeout(patience * 2, asked)).await {
            Ok(details) => details,
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn kubernetes_page(
        &self,
        kubernetes: &Kubernetes,
        cluster: &Cluster,
        node: &Node,
    ) -> Result<KubernetesDetails, String> {
        let patience = self.parts.limits.call_timeout;
        let identities = &NodeIdentities::new(cluster, &World::default(), Addresses::default());
        let asked = cluster.control_planes().map(|plane| {
            let target = addresses::target(plane, API_SERVER_PORT);
            Box::pin(async move { kubernetes.node(&target, &node.name, identities, patience).await })
        });
        let found = match select_ok(asked.collect::<Vec<_>>()).await {
            Ok((found, _)) => found.ok_or_else(|| "Kubernetes does not know the node".to_owned())?,
            Err(error) => return Err(chain(&error)),
        };
        let (spec, status) = (found.spec.unwrap_or_default(), found.status.unwrap_or_default());
        let info = status.node_info.unwrap_or_default();
        Ok(KubernetesDetails {
            name: found.metadata.name.unwrap_or_default(),
            conditions: status
                .conditions
                .unwrap_or_default()
                .into_iter()
                .map(|condition| (condition.type_, condition.status, condition.reason.unwrap_or_default()))
                .collect(),
            kubelet: info.kubelet_version,
            runtime: info.container_runtime_version,
            kernel: info.kernel_version,
            os: info.os_image,
            addresses: status
                .addresses
                .unwrap_or_default()
                .into_iter()
                .map(|address| (address.type_, address.address))
                .collect(),
            labels: found.metadata.labels.unwrap_or_default(),
            taints: spec
                .taints
                .unwrap_or_default()
                .into_iter()
                .map(|taint| format!("{}={}:{}", taint.key, taint.value.unwrap_or_default(), taint.effect))
                .collect(),
            schedulable: !spec.unschedulable.unwrap_or(false),
        })
    }
}

impl<T> From<Result<T, String>> for Side<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(seen) => Self::Seen(seen),
            Err(why) => Self::Unseen(why),
        }
    }
}

/// Resources of a kind, by id; those that cannot be listed are left out of the details.
async fn listed(client: &Client, namespace: &str, kind: &str) -> Vec<(String, Value)> {
    let found = client.list(namespace, kind).await.unwrap_or_default();
    found
        .into_iter()
        .map(|resource| (resource.id.clone(), serde_json::to_value(resource.spec()).unwrap_or_default()))
        .collect()
}

async fn etcd_page(client: &Client, node: &Node) -> Option<Side<EtcdDetails>> {
    if node.role != Role::ControlPlane {
        return None;
    }
    let asked = tokio::try_join!(client.etcd_members(), client.etcd_status());
    let details = asked.map_err(|error| chain(&error)).map(|(members, status)| EtcdDetails {
        id: format!("{:x}", status.member_id),
        learner: status.is_learner,
        leader: status.leader == status.member_id,
        db_size: status.db_size,
        members: members.len(),
        errors: status.errors,
    });
    Some(details.into())
}
