//! Gives a VM back the mark that somebody removed or damaged, once everything else proves that it is the node's.

use daedal_inventory::{Cluster, Node};
use daedal_planner::{FoundMark, Judge, Likeness, Mark, Ownership, Stamp, remark};
use daedal_proxmox::{UpdateVm, VmConfig};
use serde::Serialize;

use crate::effects::EffectKind;
use crate::engine::{Engine, secrets_id};
use crate::error::Error;
use crate::machine::FIRST_NIC;
use crate::nodes::{Nodes, Probe};
use crate::observe::guests::judged;

/// What a mark says where nobody knows what its VM was made from: the next apply finds out and writes it.
const UNKNOWN: &str = "unknown";

/// A VM whose VMID, SMBIOS uuid and MAC are those of a declared node, and whose mark is lost.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LostMark {
    /// Node name.
    pub node: String,
    /// VMID.
    pub vmid: u32,
    /// Host it is on.
    pub host: String,
    /// The VM's name.
    pub name: String,
    /// SMBIOS uuid.
    pub uuid: String,
    /// MAC of its first network card.
    pub mac: String,
    /// What its Talos API says, in a few words.
    pub talos: String,
    /// The line that its notes get.
    pub mark: String,
    /// The notes as they become.
    #[serde(skip)]
    description: String,
    /// Proxmox's digest of the config that was judged.
    #[serde(skip)]
    digest: String,
}

impl Engine {
    /// Looks for a node's VM without its mark. None if the mark is there. An error says what does not agree: the VMID, the
    /// SMBIOS uuid and the MAC must all be the node's, and a VM that answers must know this cluster's keys.
    pub async fn lost_mark(&self, cluster: &Cluster, node: &Node) -> Result<Option<LostMark>, Error> {
        let secrets = self.stored_secrets().await?.ok_or(Error::NoSecrets)?;
        let proxmox = &self.parts.proxmox;
        let vmid = node.vmid;
        let rows = proxmox.resources_of("vm").await?;
        let Some(row) = rows.iter().find(|row| row.vmid == Some(vmid)) else {
            return Err(Error::Gone { vmid });
        };
        let host = row.node.clone();
        let config = proxmox.vm_config(&host, vmid).await?;
        let not_ours = |why: String| Error::NotOurs { vmid, host: host.clone(), why, other_secrets: false };
        match judged(&Judge::knowing(cluster, Some(secrets_id(&secrets))), vmid, &config) {
            Ownership::Ours { node: name, .. } if name == node.name => return Ok(None),
            Ownership::LookAlike { likeness: Likeness::LostMark, .. } => {}
            other => return Err(crate::execute::vm::not_ours(vmid, host.clone(), other)),
        }
        if let Some(why) = disagreement(node, &config) {
            return Err(not_ours(why));
        }
        let talos = match row.status == "running" {
            false => "not asked: the VM is stopped".to_owned(),
            true => {
                let nodes = Nodes::new(&self.parts, &secrets)?;
                match nodes.probe(node, self.parts.limits.probe_timeout).await {
                    Probe::Configured { .. } => "answers to the keys of this cluster".to_owned(),
                    Probe::OtherCluster => {
                        return Err(not_ours(format!(
                            "what answers at {} does not know the keys of this cluster",
                            node.shown_address()
                        )));
                    }
                    Probe::Maintenance => "waits for a config".to_owned(),
                    Probe::Unreachable(unreached) => format!("does not answer: {}", unreached.why),
                }
            }
        };
        let stamp = Stamp { secrets: Some(secrets_id(&secrets)), ..Stamp::default() };
        let mark = Mark { digest: UNKNOWN.to_owned(), ..Mark::of(cluster, node, &stamp) };
        Ok(Some(LostMark {
            node: node.name.clone(),
            vmid,
            name: config.name.clone().unwrap_or_default(),
            uuid: node.uuid.to_string(),
            mac: node.mac.clone(),
            talos,
            mark: mark.line(),
            description: with_mark(config.description.as_deref().unwrap_or_default(), &mark),
            digest: config.digest.clone(),
            host,
        }))
    }

    /// Writes the mark, unless the VM's config changed since it was judged.
    pub async fn give_mark(&self, lost: &LostMark) -> Result<(), Error> {
        let update = UpdateVm::new().set("description", &lost.description).digest(&lost.digest);
        let proxmox = &self.parts.proxmox;
        let call = async { Ok::<_, Error>(proxmox.update_vm(&lost.host, lost.vmid, &update).await?) };
        let what = format!("VM {} on {}", lost.vmid, lost.host);
        self.parts.effects.perform(EffectKind::UpdateVm, what, call).await
    }
}

/// What of a VM is not the node's.
fn disagreement(node: &Node, config: &VmConfig) -> Option<String> {
    let uuid = config.smbios_uuid.as_deref().and_then(|uuid| uuid.parse().ok());
    if uuid != Some(node.uuid) {
        let has = config.smbios_uuid.as_deref().unwrap_or("none");
        return Some(format!("its SMBIOS uuid is {has}, that of {} is {}", node.name, node.uuid));
    }
    let mac = config.nics.get(FIRST_NIC).and_then(|nic| nic.mac.as_deref()).unwrap_or("none");
    (!mac.eq_ignore_ascii_case(&node.mac))
        .then(|| format!("the MAC of its first network card is {mac}, that of {} is {}", node.name, node.mac))
}

/// Notes with the mark in them. What people wrote stays; what is left of a mark goes.
fn with_mark(notes: &str, mark: &Mark) -> String {
    match Mark::find(notes) {
        FoundMark::None if notes.trim().is_empty() => mark.line(),
        FoundMark::None => format!("{}\n\n{}", notes.trim_end(), mark.line()),
        FoundMark::One(_) => remark(notes, mark),
        FoundMark::Damaged => {
            let once = remark(notes, mark);
            let mut seen = false;
            let lines =
                once.lines().filter(|line| *line != mark.line() || !std::mem::replace(&mut seen, true));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_people_stay_and_there_is_one_mark() {
        let mark = Mark {
            cluster: uuid::Uuid::from_u128(1),
            node: "cp-1".into(),
            vmid: 300,
            generation: 1,
            digest: UNKNOWN.into(),
            secrets: None,
            by: None,
            at: None,
            protected: false,
            waiting: false,
        };
        let line = mark.line();
        assert_eq!(with_mark("", &mark), line);
        assert_eq!(with_mark("my notes\n", &mark), format!("my notes\n\n{line}"));
        let doubled = format!("a\n{line}\nb\n  daedal-mark cluster=\n{line}");
        assert_eq!(with_mark(&doubled, &mark), format!("a\n{line}\nb"));
    }
}
