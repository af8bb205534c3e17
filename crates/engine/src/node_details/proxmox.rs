//! Proxmox's side of a node: its VM, or what is known of its VMID.

use std::collections::BTreeMap;

use daedal_inventory::{Cluster, Node};
use daedal_planner::{Aspect, GuestView, Judge, Likeness, Ownership};
use daedal_proxmox::Nic;
use daedal_talos_config::SecretsBundle;
use daedal_words::{died_half_way, free};
use futures::future::join_all;
use serde::Serialize;

use super::NotSeen;
use crate::engine::{Engine, secrets_id};
use crate::observe::UnobservedList;
use crate::observe::guests::whose;
use crate::observe::unseen::{self, Owner};

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
    /// Whether the secrets that its mark names were compared with the stored ones.
    pub secrets_compared: bool,
    /// vCPUs.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Options that change at its next start, and to what; nothing for one that goes.
    pub pending: BTreeMap<String, Option<String>>,
    /// Disks by slot.
    pub disks: BTreeMap<String, VolumeDetails>,
    /// Network cards by slot.
    pub nics: BTreeMap<String, NicDetails>,
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

/// A disk of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeDetails {
    /// Its volume id.
    pub volume: String,
    /// Bytes, where Proxmox says.
    pub size: Option<u64>,
}

/// A network card of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NicDetails {
    /// Such as `virtio`.
    pub model: String,
    /// MAC.
    pub mac: Option<String>,
    /// Bridge.
    pub bridge: String,
    /// VLAN tag.
    pub vlan: Option<u16>,
    /// MTU; 1 means the bridge's.
    pub mtu: Option<u32>,
    /// Whether the Proxmox firewall filters it.
    pub firewall: bool,
    /// Whatever else is set on it, in Proxmox's words.
    pub others: BTreeMap<String, String>,
}

impl From<&Nic> for NicDetails {
    fn from(nic: &Nic) -> Self {
        let Nic { model, mac, bridge, vlan, mtu, firewall, others } = nic.clone();
        Self { model, mac, bridge, vlan, mtu, firewall, others }
    }
}

impl Engine {
    pub(super) async fn proxmox_page(
        &self,
        cluster: &Cluster,
        node: &Node,
        secrets: Option<&SecretsBundle>,
    ) -> Result<ProxmoxDetails, NotSeen> {
        let proxmox = &self.parts.proxmox;
        let vmid = node.vmid;
        let rows = proxmox.resources_of("vm").await?;
        let host = match rows.into_iter().find(|row| row.vmid == Some(vmid)) {
            Some(row) if row.kind == "lxc" => {
                let text = format!("VMID {vmid} is a container on {} and no VM.", row.node);
                return Err(NotSeen::Absent(text));
            }
            Some(row) => row.node,
            None => self.unlisted(cluster, node).await?,
        };
        let (config, status) =
            tokio::try_join!(proxmox.vm_config_pending(&host, vmid), proxmox.vm_status(&host, vmid))?;
        let judge = Judge::knowing(cluster, secrets.map(secrets_id));
        let (ownership, config) = whose(proxmox, &judge, cluster, &host, vmid, config).await?;
        let (ownership, mark) = told(ownership, &host, node);
        let pending: BTreeMap<String, Option<String>> =
            config.pending().map(|option| (option.to_owned(), config.raw.get(option).cloned())).collect();
        // What runs; what waits for the next start is told apart.
        let runs = config.runs.as_deref().unwrap_or(&config);
        let disk = |(slot, disk): (&String, &daedal_proxmox::DiskConfig)| {
            (slot.clone(), VolumeDetails { volume: disk.volid.clone(), size: disk.size })
        };
        Ok(ProxmoxDetails {
            host,
            vmid,
            name: config.name.clone().unwrap_or_default(),
            power: status.status,
            ownership,
            secrets_compared: secrets.is_some(),
            cores: runs.vcpus(),
            memory: runs.memory_mib << 20,
            pending,
            disks: runs.disks.iter().map(disk).collect(),
            nics: runs.nics.iter().map(|(slot, nic)| (slot.clone(), nic.into())).collect(),
            media: runs.cdroms.values().flatten().cloned().collect(),
            tags: config.tags.clone(),
            on_boot: config.on_boot,
            lock: config.lock.clone(),
            mark,
            digest: config.digest.clone(),
        })
    }

    /// The host of a VM that the list of everything does not show. There is none only if its VMID is free; one that is taken may be
    /// new, or not in the pool that the token's rights come through.
    async fn unlisted(&self, cluster: &Cluster, node: &Node) -> Result<String, NotSeen> {
        let (proxmox, vmid) = (&self.parts.proxmox, node.vmid);
        if !proxmox.vmid_taken(vmid).await? {
            return Err(NotSeen::Absent(format!("There is no VM {vmid}.")));
        }
        let hosts: Vec<&str> = cluster.proxmox.hosts.iter().map(|host| host.name.as_str()).collect();
        let unobserved = UnobservedList::default();
        let lists = join_all(hosts.iter().map(|host| proxmox.vms(host))).await;
        for (host, list) in hosts.iter().zip(lists) {
            match list {
                Ok(rows) if rows.iter().any(|row| row.vmid == vmid) => return Ok((*host).to_owned()),
                Ok(_) => {}
                Err(error) => unobserved.add(Aspect::Guests((*host).to_owned()), &error),
            }
        }
        let own = std::iter::once((vmid, Owner::Node(node)));
        let found = unseen::look(proxmox, cluster, &hosts, own, &unobserved).await;
        Err(NotSeen::Unseen(match found.first() {
            Some(GuestView {
                ownership: Ownership::HalfMade { task_running: true, .. }, vmid, host, ..
            }) => {
                format!("VM {vmid} is being created on {host}, and the token may not see it yet")
            }
            Some(guest) => {
                let died = guest.died();
                format!("{}. To free it: {}", died_half_way(&died), free(&died))
            }
            None => {
                let unlisted = unobserved.take().into_iter();
                let unlisted = unlisted.map(|one| format!("; {} could not be listed: {}", one.what, one.why));
                let unlisted: String = unlisted.collect();
                format!("VMID {vmid} is taken, but the token may not see the guest that has it{unlisted}")
            }
        }))
    }
}

/// Whose a VM is in words, and what its mark says that it was made from.
fn told(ownership: Ownership, host: &str, node: &Node) -> (String, Option<String>) {
    match ownership {
        Ownership::Ours { node: name, digest } if name == node.name => ("ours".to_owned(), Some(digest)),
        Ownership::Ours { node, digest } => (format!("our node {node}"), Some(digest)),
        Ownership::Foreign => ("somebody else's".to_owned(), None),
        Ownership::LookAlike { why, likeness: Likeness::LostMark } => {
            (format!("may be ours, but {why}"), None)
        }
        Ownership::LookAlike { why, .. } => (format!("looks like ours, but {why}"), None),
        Ownership::HalfMade { task_running: true, .. } => ("ours, being created".to_owned(), None),
        Ownership::HalfMade { .. } => {
            let fix = daedal_planner::freeing(host, node.vmid);
            (format!("ours, but the task that made it died: {fix}"), None)
        }
        Ownership::Template { .. } => ("a template of ours".to_owned(), None),
        Ownership::Unreadable { why } => (why, None),
    }
}
