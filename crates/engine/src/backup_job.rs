//! The Proxmox job that backs up a cluster's VMs: off until it is asked for. What is right already is left alone.

use std::collections::BTreeSet;

use daedal_inventory::Cluster;
use daedal_proxmox::{ClusterObject, Options};

use crate::account::Ensured;
use crate::cluster_objects::ClusterObjects;
use crate::engine::Engine;
use crate::error::Error;

/// A backup job as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupJob {
    /// Where the backups go: a Proxmox Backup Server, or any storage for backups.
    pub storage: String,
    /// When, as Proxmox writes calendar events (`02:30`, `sun 01:00`).
    pub schedule: String,
    /// How many of the last backups are kept.
    pub keep: u32,
}

impl Engine {
    /// Makes a job that backs up all VMs of the cluster, or removes it.
    pub async fn backup_job(
        &self,
        cluster: &Cluster,
        job: Option<&BackupJob>,
    ) -> Result<Vec<Ensured>, Error> {
        let id = format!("daedal-{}", cluster.name);
        if let Some(job) = job {
            self.takes_backups(&job.storage).await?;
        }
        let jobs = ClusterObjects::read(&self.parts, ClusterObject::BackupJob).await?;
        let Some(job) = job else { return Ok(vec![jobs.remove(&id).await?]) };
        let vmids: Vec<String> = cluster.nodes.iter().map(|node| node.vmid.to_string()).collect();
        let wanted: Options = [
            ("vmid", vmids.join(",")),
            ("storage", job.storage.clone()),
            ("schedule", job.schedule.clone()),
            ("prune-backups", format!("keep-last={}", job.keep)),
            ("mode", "snapshot".to_owned()),
            ("enabled", "1".to_owned()),
            ("comment", format!("Talos cluster {}, kept by daedal", cluster.name)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        Ok(vec![jobs.ensure(&id, &wanted).await?])
    }

    /// Proxmox keeps a job for any storage, and fails every night on one that is not there or takes no backups.
    async fn takes_backups(&self, storage: &str) -> Result<(), Error> {
        let rows = self.parts.proxmox.resources().await?;
        let seen: Vec<_> = rows.iter().filter(|row| row.kind == "storage").collect();
        let refused =
            |why: String, fix: String| Error::NoBackups { storage: storage.to_owned(), why, fix: Some(fix) };
        let Some(row) = seen.iter().find(|row| row.storage == storage) else {
            let takers = seen.iter().filter(|row| row.content.iter().any(|content| content == "backup"));
            let takers: BTreeSet<&str> = takers.map(|row| row.storage.as_str()).collect();
            let known = match takers.is_empty() {
                true => String::new(),
                false => {
                    format!("; storages for backups: {}", takers.into_iter().collect::<Vec<_>>().join(", "))
                }
            };
            let fix = format!(
                "name a storage that exists, or give the token Datastore.Audit on /storage/{storage}{known}"
            );
            return Err(refused("it does not exist, or the token may not see it".to_owned(), fix));
        };
        if row.content.iter().any(|content| content == "backup") {
            return Ok(());
        }
        let content = row.content.join(",");
        let fix = format!("on {}: pvesm set {storage} --content {content},backup", row.node);
        Err(refused(format!("its content types are {content}"), fix))
    }
}
