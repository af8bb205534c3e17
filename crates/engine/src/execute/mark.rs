//! The step that writes a lost mark again, on a VM that is still as it was judged.

use daedal_planner::{Action, Likeness, Ownership, Step};
use daedal_proxmox::{UpdateVm, VmConfig};

use super::vm::not_ours;
use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::{Executor, Outcome};
use crate::machine::FIRST_NIC;
use crate::observe::guests::judged;

impl Executor<'_> {
    pub(super) async fn restore_mark(&self, step: &Step) -> Result<Outcome, Error> {
        let Action::RestoreMark { vmid, uuid, mac, notes, config: wanted, .. } = &step.action else {
            return Err(Error::Plan { why: format!("step {} restores no mark", step.id) });
        };
        let vmid = *vmid;
        self.persist(step, |again| async move {
            let Some((host, config)) = self.find(self.host(step)?, vmid).await? else {
                return Err(Error::Gone { vmid });
            };
            match judged(&self.judge, vmid, &config) {
                found if self.is_marked(step, &found) => {
                    return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
                }
                Ownership::LookAlike { likeness: Likeness::LostMark, .. } => {}
                other => return Err(not_ours(vmid, host, other)),
            }
            let has = config.smbios_uuid.as_deref().and_then(|uuid| uuid.parse().ok());
            if has != Some(*uuid) || !has_mac(&config, mac) || config.digest != *wanted {
                return Err(Error::Changed { what: format!("VM {vmid} on {host}") });
            }
            let update = UpdateVm::new().set("description", notes).digest(wanted);
            let call = async { Ok(self.engine.parts.proxmox.update_vm(&host, vmid, &update).await?) };
            match self.perform(EffectKind::UpdateVm, vmid, &host, call).await {
                // An answer that was lost makes the client ask again, and the digest is another by then.
                Err(error @ Error::Proxmox(_)) => {
                    let now = self.find(&host, vmid).await?.map(|(_, now)| judged(&self.judge, vmid, &now));
                    match now.is_some_and(|now| self.is_marked(step, &now)) {
                        true => Ok(Outcome::Done),
                        false => Err(error),
                    }
                }
                ended => ended.map(|()| Outcome::Done),
            }
        })
        .await
    }

    fn is_marked(&self, step: &Step, found: &Ownership) -> bool {
        matches!(found, Ownership::Ours { node, .. } if Some(node) == step.node.as_ref())
    }
}

fn has_mac(config: &VmConfig, mac: &str) -> bool {
    let has = config.nics.get(FIRST_NIC).and_then(|nic| nic.mac.as_deref());
    has.is_some_and(|has| has.eq_ignore_ascii_case(mac))
}
