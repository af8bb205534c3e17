//! The templates that a cluster has made: which there are, whether they are of use, and how old ones go.

use daedal_inventory::{Cluster, Role};
use daedal_planner::{Ownership, SecretsId, World, template_digest};
use serde::Serialize;

use crate::effects::EffectKind;
use crate::engine::Engine;
use crate::error::{Error, chain};

/// A template of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRow {
    /// VMID.
    pub vmid: u32,
    /// Host.
    pub host: String,
    /// Name, which tells version and schematic.
    pub name: String,
    /// The role whose nodes are cloned from it.
    pub role: Role,
    /// Whether it is declared, complete, and made of what is declared now.
    pub current: bool,
    /// Whether it became a template; not while it is made, or where that was interrupted.
    pub complete: bool,
    /// Whether it runs, as one does while an ISO installs it.
    pub running: bool,
    /// Our VMs whose disks are linked to it.
    pub linked: Vec<String>,
    /// What its mark says that it was made of.
    #[serde(skip)]
    pub digest: String,
}

/// Which templates go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruning {
    /// Also those that are current.
    pub all: bool,
    /// Also in a cluster that says `protect: true`.
    pub protected: bool,
    /// Also those of which no secrets prove that they are this store's.
    pub without_secrets: bool,
}

/// What has become of a template that was to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    /// Which.
    #[serde(flatten)]
    pub template: TemplateRow,
    /// Why it stayed; none if it is gone.
    pub kept: Option<String>,
}

impl Engine {
    /// The templates with this cluster's mark, by VMID, wherever they are.
    pub async fn templates(&self, cluster: &Cluster) -> Result<Vec<TemplateRow>, Error> {
        let world = self.observe(cluster).await?;
        Ok(self.rows(cluster, &world))
    }

    fn rows(&self, cluster: &Cluster, world: &World) -> Vec<TemplateRow> {
        let image = self.images(cluster).shared;
        let ours = world.guests.values().filter_map(|guest| match &guest.ownership {
            Ownership::Template { role, digest } => Some((guest, *role, digest)),
            _ => None,
        });
        let row = |(guest, role, digest): (&daedal_planner::GuestView, Role, &String)| {
            let declared = cluster.templates().any(|(vmid, of, at)| {
                (vmid, of, at.name.as_str()) == (guest.vmid, role, guest.host.as_str())
            });
            let wanted = image.as_ref().map(|image| template_digest(cluster, role, &image.file));
            let linked = world
                .guests
                .values()
                .filter(|other| other.config.as_ref().is_some_and(|config| config.base == Some(guest.vmid)));
            TemplateRow {
                vmid: guest.vmid,
                host: guest.host.clone(),
                name: guest.name.clone(),
                role,
                current: declared && guest.template && wanted.as_ref() == Some(digest),
                complete: guest.template,
                running: guest.running,
                linked: linked.map(|other| other.name.clone()).collect(),
                digest: digest.clone(),
            }
        };
        ours.map(row).collect()
    }

    /// The templates that would go.
    pub async fn prunable_templates(
        &self,
        cluster: &Cluster,
        pruning: Pruning,
    ) -> Result<Vec<TemplateRow>, Error> {
        let world = match pruning.without_secrets {
            true => self.observe_with(cluster, None).await?,
            false => self.observe(cluster).await?,
        };
        let rows = self.rows(cluster, &world).into_iter().filter(|row| pruning.all || !row.current);
        let rows: Vec<TemplateRow> = rows.collect();
        if !rows.is_empty() && cluster.protect && !pruning.protected {
            return Err(Error::Protected { cluster: cluster.name.clone() });
        }
        if !rows.is_empty() && !world.secrets_stored && !pruning.without_secrets {
            return Err(Error::NoProof { what: format!("{} of its templates", rows.len()) });
        }
        Ok(rows)
    }

    /// Destroys the templates that somebody was shown and agreed to, unless a disk is linked to them. Each is looked at once
    /// more before it goes: one that is not what was shown stays. Proxmox itself refuses while somebody else's disk is linked
    /// to it.
    pub async fn prune_templates(
        &self,
        cluster: &Cluster,
        pruning: Pruning,
        shown: Vec<TemplateRow>,
    ) -> Result<Vec<Pruned>, Error> {
        let id = match pruning.without_secrets {
            true => None,
            false => self.secrets_id().await?,
        };
        let mut pruned = Vec::new();
        for template in shown {
            let kept = match &template.linked[..] {
                [] => self.drop_one(cluster, &template, id.as_ref()).await?,
                linked => Some(format!("the disks of {} are linked to it", linked.join(", "))),
            };
            pruned.push(Pruned { template, kept });
        }
        Ok(pruned)
    }

    /// Why it is still there; none if it is gone.
    async fn drop_one(
        &self,
        cluster: &Cluster,
        template: &TemplateRow,
        id: Option<&SecretsId>,
    ) -> Result<Option<String>, Error> {
        let (proxmox, TemplateRow { vmid, host, .. }) = (&self.parts.proxmox, template);
        let config = match proxmox.vm_config(host, *vmid).await {
            Err(error) if error.is_vm_missing() => return Ok(None),
            config => config?,
        };
        let judge = daedal_planner::Judge::knowing(cluster, id.cloned());
        let ours = crate::observe::guests::judged(&judge, *vmid, &config);
        let running = proxmox.vm_status(host, *vmid).await?.running();
        let name = config.name.as_deref().unwrap_or_default();
        match ours {
            Ownership::Template { role, digest }
                if (role, &digest, name) == (template.role, &template.digest, template.name.as_str())
                    && (config.template, running) == (template.complete, template.running) => {}
            Ownership::Template { .. } => {
                return Ok(Some(
                    "it changed after it was listed; run again to see what it is now".to_owned(),
                ));
            }
            _ => return Ok(Some("it is no template of this cluster any more".to_owned())),
        }
        let (tasks, what) = (daedal_proxmox::TaskWatcher::new(proxmox), format!("VM {vmid} on {host}"));
        if running {
            let call = async { Ok::<_, Error>(proxmox.stop_vm(host, *vmid).await?) };
            let upid = self.parts.effects.perform(EffectKind::StopVm, &what, call).await?;
            if let Err(error) = tasks.finish(&upid, &format!("stop template {vmid}")).await {
                return Ok(Some(chain(&error)));
            }
        }
        let call = async { Ok::<_, Error>(proxmox.destroy_vm(host, *vmid, true).await?) };
        let upid = self.parts.effects.perform(EffectKind::DestroyVm, what, call).await?;
        match tasks.finish(&upid, &format!("destroy template {vmid}")).await {
            Ok(()) => Ok(None),
            Err(error) if error.is_vm_missing() => Ok(None),
            Err(error) => Ok(Some(chain(&error))),
        }
    }
}
