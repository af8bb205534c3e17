//! Volumes that Proxmox left behind: which there are, and how they go.

use daedal_inventory::Cluster;
use daedal_planner::{Leftover, leftovers};
use serde::Serialize;

use crate::effects::EffectKind;
use crate::engine::Engine;
use crate::error::{Error, chain};

/// What has become of a volume that was to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrunedVolume {
    /// Which.
    #[serde(flatten)]
    pub volume: Leftover,
    /// Why it stayed; none if it is gone.
    pub kept: Option<String>,
}

impl Engine {
    /// Volumes with numbers of this cluster's VMs that no VM uses.
    pub async fn leftovers(&self, cluster: &Cluster) -> Result<Vec<Leftover>, Error> {
        Ok(leftovers(cluster, &self.observe(cluster).await?))
    }

    /// Deletes them. Proxmox itself refuses where a VM has that number.
    pub async fn prune_leftovers(&self, volumes: Vec<Leftover>) -> Result<Vec<PrunedVolume>, Error> {
        let mut pruned = Vec::new();
        for volume in volumes {
            let kept = match volume.beside_vm {
                true => Some(format!(
                    "VM {} has that number, and Proxmox deletes it only once that VM is gone",
                    volume.vmid
                )),
                false => self.delete_one(&volume).await?,
            };
            pruned.push(PrunedVolume { volume, kept });
        }
        Ok(pruned)
    }

    /// Why it is still there; none if it is gone.
    async fn delete_one(&self, volume: &Leftover) -> Result<Option<String>, Error> {
        let (proxmox, Leftover { host, volid, .. }) = (&self.parts.proxmox, volume);
        let call = async { Ok::<_, Error>(proxmox.delete_volume(host, volid).await?) };
        let what = format!("{volid} on {host}");
        let upid = match self.parts.effects.perform(EffectKind::DeleteVolume, what, call).await {
            Ok(upid) => upid,
            Err(Error::Proxmox(error)) if !error.may_have_happened() => return Ok(Some(chain(&error))),
            Err(error) => return Err(error),
        };
        let Some(upid) = upid else { return Ok(None) };
        let tasks = daedal_proxmox::TaskWatcher::new(proxmox);
        match tasks.finish(&upid, &format!("delete {volid}")).await {
            Ok(()) => Ok(None),
            Err(error) => Ok(Some(chain(&error))),
        }
    }
}
