//! A good plan, damaged in one place: the checker must see it.

use std::collections::HashSet;

use proptest::prelude::*;

use super::guards::{Ask, looked, planned};
use super::laws::scenes;
use super::simulator::Sim;
use crate::*;

/// Whether `need` is implied by the step's other needs.
fn implied(plan: &Plan, step: &Step, need: StepId) -> bool {
    let mut left: Vec<StepId> = step.needs.iter().copied().filter(|id| *id != need).collect();
    let mut seen = HashSet::new();
    while let Some(id) = left.pop() {
        if id == need {
            return true;
        }
        if seen.insert(id) {
            left.extend(&plan.steps[id as usize].needs);
        }
    }
    false
}

/// Damages a plan; none if this damage does not apply.
fn damage(plan: &Plan, kind: u8, at: usize) -> Option<(String, Plan)> {
    let mut bad = plan.clone();
    let at = at % bad.steps.len();
    let step = &mut bad.steps[at];
    let what = match kind % 12 {
        0 => {
            let need = *step.needs.get(at % step.needs.len().max(1))?;
            if implied(plan, &plan.steps[at], need) {
                return None;
            }
            step.needs.retain(|id| *id != need);
            format!("need {need} dropped")
        }
        1 => {
            step.needs = vec![step.id];
            "needs itself".into()
        }
        2 => {
            let json = serde_json::to_value(&step.action).ok()?;
            let mut json = json.as_object()?.clone();
            json.get("vmid")?;
            json.insert("vmid".into(), 9999.into());
            step.action = serde_json::from_value(json.into()).ok()?;
            "another VMID".into()
        }
        3 => {
            let vm = matches!(
                step.action,
                Action::CreateVm { .. } | Action::StartVm { .. } | Action::GrowDisk { .. }
            );
            if !vm {
                return None;
            }
            step.host = Some("elsewhere".into());
            "another host".into()
        }
        4 => {
            let Action::StartVm { vmid } = step.action else { return None };
            step.action = Action::DestroyVm { vmid };
            step.impact = Impact::Destroy;
            "destroys instead of starting".into()
        }
        5 => {
            let Action::DeleteMedia { volid } = &mut step.action else { return None };
            *volid = "local:iso/debian.iso".into();
            "deletes someone's ISO".into()
        }
        6 => {
            let Action::CreateVm { digest, .. } = &mut step.action else { return None };
            *digest = "0".repeat(32);
            "another digest".into()
        }
        7 => {
            let mut twin = step.clone();
            if !matches!(
                twin.action,
                Action::CreateVm { .. }
                    | Action::Bootstrap { .. }
                    | Action::DeleteMedia { .. }
                    | Action::CreateSecrets
            ) {
                return None;
            }
            twin.id = StepId::try_from(plan.steps.len()).ok()?;
            bad.steps.push(twin);
            "done twice".into()
        }
        8 => {
            bad.intent = "0".repeat(64);
            "another inventory".into()
        }
        9 => {
            bad.purpose = Purpose::Destroy;
            "another purpose".into()
        }
        10 => {
            let Action::GrowDisk { size, .. } = &mut step.action else { return None };
            *size /= 2;
            "a smaller disk".into()
        }
        _ => {
            let Action::CreateVm { media: Some(media), .. } = &mut step.action else { return None };
            *media = media.replace("cp-1", "cp-9").replace("worker-1", "cp-9");
            if plan.steps[at] == *step {
                return None;
            }
            "another node's medium".into()
        }
    };
    Some((what, bad))
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn damage_is_seen(scene in scenes(), kind in any::<u8>(), at in any::<prop::sample::Index>()) {
        let sim = Sim::new(&scene.cluster, &scene.world);
        let plan = sim.plan();
        prop_assume!(!plan.is_empty());
        let Some((what, bad)) = damage(&plan, kind, at.index(plan.steps.len())) else { return Ok(()) };
        let findings = check(&scene.cluster, &scene.world, &bad);
        let step = &bad.steps[at.index(plan.steps.len())];
        prop_assert!(!findings.is_empty(), "{what} at {step:?}");
    }
}

/// Damages a plan to guard VMs; none if this damage does not apply.
fn damage_guard(plan: &Plan, kind: u8, at: usize) -> Option<(&'static str, Plan)> {
    let mut bad = plan.clone();
    let at = at % bad.steps.len();
    let step = &mut bad.steps[at];
    let what = match kind % 18 {
        0 => {
            let need = *step.needs.first()?;
            if implied(plan, &plan.steps[at], need) {
                return None;
            }
            step.needs.retain(|id| *id != need);
            "a need dropped"
        }
        1 => {
            let Action::PutClusterObject { vms, .. } = &mut step.action else { return None };
            *vms.first_mut()? = 9999;
            "another VM"
        }
        2 => {
            let Action::PutClusterObject { options, .. } = &mut step.action else { return None };
            let option = if options.contains_key("vmid") { "vmid" } else { "resources" };
            let list = options.get_mut(option)?;
            list.push_str(",9999");
            "one more VM in the list"
        }
        3 => {
            let Action::PutClusterObject { options, .. } = &mut step.action else { return None };
            options.remove("comment");
            "no comment"
        }
        4 => {
            let (Action::PutClusterObject { id, .. } | Action::RemoveClusterObject { id, .. }) =
                &mut step.action
            else {
                return None;
            };
            *id = if id.starts_with("vm:") { "vm:120" } else { "nightly" }.to_owned();
            "somebody else's object"
        }
        5 => {
            let Action::PutClusterObject { options, .. } = &mut step.action else { return None };
            *options.get_mut("storage")? = "local-lvm".into();
            "a storage that takes no backups"
        }
        6 => {
            let Action::PutClusterObject { options, .. } = &mut step.action else { return None };
            options.insert("delete".into(), "comment".into());
            "another option"
        }
        7 => {
            let mut twin = step.clone();
            twin.id = StepId::try_from(plan.steps.len()).ok()?;
            bad.steps.push(twin);
            "done twice"
        }
        8 => {
            bad.purpose = match bad.purpose {
                Purpose::Ha => Purpose::BackupJob,
                Purpose::BackupJob => Purpose::Firewall,
                _ => Purpose::Ha,
            };
            "another purpose"
        }
        9 => {
            bad.purpose = Purpose::Apply;
            "apply"
        }
        11 => {
            let json = serde_json::to_value(&step.action).ok()?;
            let mut json = json.as_object()?.clone();
            json.get("vmid")?;
            json.insert("vmid".into(), 9999.into());
            step.action = serde_json::from_value(json.into()).ok()?;
            "the firewall of another VM"
        }
        12 => {
            let Action::SetFirewallRules { rules, .. } = &mut step.action else { return None };
            rules.first_mut()?.source = None;
            "lets everybody in"
        }
        13 => {
            let Action::SetFirewallRules { rules, .. } = &mut step.action else { return None };
            rules.retain(|rule| rule.dport.as_deref() != Some("50000"));
            if rules.is_empty() {
                return None;
            }
            "locks the Talos API in"
        }
        14 => {
            let Action::SetFirewallRules { before, .. } = &mut step.action else { return None };
            before.push(VmRule { comment: Some("backup agent".into()), ..VmRule::default() });
            "deletes a rule of somebody else"
        }
        15 => {
            let Action::FillIpSet { members, .. } = &mut step.action else { return None };
            members.insert("0.0.0.0/0".into());
            "everybody passes for the cluster"
        }
        16 => {
            let Action::SetFirewallOptions { options, .. } = &mut step.action else { return None };
            options.insert("policy_in".into(), "ACCEPT".into());
            "drops nothing"
        }
        17 => {
            if !matches!(step.action, Action::FilterCard { .. }) || step.impact == Impact::None {
                return None;
            }
            step.impact = Impact::None;
            "does more harm than it says"
        }
        10 => {
            let Action::PutClusterObject { options, .. } = &mut step.action else { return None };
            *options.get_mut("prune-backups")? = "keep-last=0".into();
            "keeps nothing"
        }
        _ => {
            let Action::PutClusterObject { options, .. } = &mut step.action else { return None };
            *options.get_mut("affinity")? = "positive".into();
            "keeps them together"
        }
    };
    Some((what, bad))
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn damage_to_guards_is_seen(
        scene in scenes(),
        rules in any::<bool>(),
        off in any::<bool>(),
        guard in 0u8..3,
        kind in any::<u8>(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut sim = Sim::new(&scene.cluster, &scene.world);
        let apply = sim.plan();
        sim.run(&apply, |_| true);
        looked(&mut sim.world, rules, 5);
        let (on, ask) = match guard {
            0 => (Ask::Backup(Some(7)), if off { Ask::Backup(None) } else { Ask::Backup(Some(7)) }),
            1 => (Ask::Firewall(Some(443)), if off { Ask::Firewall(None) } else { Ask::Firewall(Some(443)) }),
            _ => (Ask::Ha(true), Ask::Ha(!off)),
        };
        if off {
            let plan = planned(&sim.cluster, &sim.world, on);
            sim.run(&plan, |_| true);
        }
        let plan = planned(&sim.cluster, &sim.world, ask);
        prop_assume!(!plan.is_empty());
        let Some((what, bad)) = damage_guard(&plan, kind, at.index(plan.steps.len())) else { return Ok(()) };
        let findings = check(&sim.cluster, &sim.world, &bad);
        let step = &bad.steps[at.index(plan.steps.len())];
        prop_assert!(!findings.is_empty(), "{what} at {step:?}");
        // Nor does any such plan pass once a VM that it names is not proven ours.
        let mut doubtful = sim.world.clone();
        doubtful.secrets_stored = false;
        let named = plan.steps.iter().any(|step| match &step.action {
            Action::PutClusterObject { vms, .. } => !vms.is_empty(),
            Action::RemoveClusterObject { vm, .. } => vm.is_some(),
            _ => true,
        });
        prop_assert!(!named || !check(&sim.cluster, &doubtful, &plan).is_empty());
    }
}
