//! High availability of the control planes: off until it is asked for. What is right already is left alone.

use daedal_inventory::{Cluster, Node, Role};
use daedal_proxmox::{ClusterObject, Options, release};

use crate::account::Ensured;
use crate::cluster_objects::ClusterObjects;
use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Puts the control planes under Proxmox's high availability, kept on different hosts; or takes them out.
    pub async fn high_availability(&self, cluster: &Cluster, on: bool) -> Result<Vec<Ensured>, Error> {
        let parts = &self.parts;
        let version = parts.proxmox.version().await?.version;
        let rules = release(&version).is_none_or(|(major, _)| major >= 9);
        let ours: Vec<_> = self
            .ours(cluster)
            .await?
            .into_iter()
            .filter(|(node, _)| node.role == Role::ControlPlane)
            .collect();
        let mut all = Vec::new();
        let comment = format!("control planes of {}, kept by daedal", cluster.name);
        let resources: Vec<String> = ours.iter().map(|(node, _)| format!("vm:{}", node.vmid)).collect();
        let apart = format!("daedal-{}-apart", cluster.name);
        let rule: Options = [
            ("type", "resource-affinity".to_owned()),
            ("affinity", "negative".to_owned()),
            ("resources", resources.join(",")),
            ("comment", comment.clone()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let group = |node: &Node| format!("daedal-{}-{}", cluster.name, node.name);
        // What keeps them apart: a rule, or before there were rules a preferred host for each.
        let apart_by =
            ClusterObjects::read(parts, if rules { ClusterObject::HaRule } else { ClusterObject::HaGroup })
                .await?;
        let under = ClusterObjects::read(parts, ClusterObject::HaResource).await?;
        if !on {
            if rules {
                all.push(apart_by.remove(&apart).await?);
            }
            for (node, _) in &ours {
                all.push(under.remove(&format!("vm:{}", node.vmid)).await?);
            }
            if !rules {
                // They carry our name, and outlive their VMs.
                for node in cluster.control_planes() {
                    all.push(apart_by.remove(&group(node)).await?);
                }
            }
            return Ok(all);
        }
        for (node, host) in &ours {
            let mut wanted = Options::from([
                ("state".to_owned(), "started".to_owned()),
                ("comment".to_owned(), comment.clone()),
            ]);
            if !rules {
                let others = cluster.proxmox.hosts.iter().filter(|other| other.name != *host);
                let nodes: Vec<String> = std::iter::once(format!("{host}:2"))
                    .chain(others.map(|other| format!("{}:1", other.name)))
                    .collect();
                let options = Options::from([
                    ("nodes".to_owned(), nodes.join(",")),
                    ("comment".to_owned(), comment.clone()),
                ]);
                all.push(apart_by.ensure(&group(node), &options).await?);
                wanted.insert("group".to_owned(), group(node));
            }
            all.push(under.ensure(&format!("vm:{}", node.vmid), &wanted).await?);
        }
        if rules && resources.len() > 1 {
            all.push(match self.too_many_to_part(resources.len()).await? {
                Some(why) => {
                    let what = format!("{} {apart}", ClusterObject::HaRule.name());
                    Ensured { left_out: Some(why), ..Ensured::new(what, None) }
                }
                None => apart_by.ensure(&apart, &rule).await?,
            });
        }
        Ok(all)
    }

    /// Why so many VMs cannot be kept on different hosts: Proxmox refuses a rule that names more VMs than it has hosts.
    async fn too_many_to_part(&self, vms: usize) -> Result<Option<String>, Error> {
        let rows = self.parts.proxmox.resources().await?;
        let hosts = rows.iter().filter(|row| row.kind == "node").count();
        let them = if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") };
        Ok((vms > hosts)
            .then(|| format!("{vms} control planes cannot be on different hosts, Proxmox has {them}")))
    }
}
