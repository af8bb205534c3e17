//! A good plan, damaged in one place: the checker must see it.

use std::collections::HashSet;

use proptest::prelude::*;

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
