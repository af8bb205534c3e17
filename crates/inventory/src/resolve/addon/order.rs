//! Which add-on waits for which.

use std::collections::BTreeMap;

use super::Draft;
use crate::addon::AddonSource;
use crate::catalogue::{self, Entry};
use crate::document::{self, AddonSettings};
use crate::path::Path;
use crate::resolve::Context;
use crate::suggest::{listed, nearest};

/// What an add-on waits for: what is declared, and what its entry says.
pub(super) fn after(written: &AddonSettings, entry: Option<&'static Entry>) -> Vec<String> {
    let mut after: Vec<String> = Vec::new();
    let known = entry.map_or(&[][..], |entry| entry.after).iter().map(|name| (*name).to_owned());
    for name in written.after.iter().flatten().cloned().chain(known) {
        if !after.contains(&name) {
            after.push(name);
        }
    }
    after
}

/// Says what is wrong with the order.
pub(super) fn check(all: &[document::Addon], drafts: &[Draft], at: &Path<'_>, cx: &mut Context<'_>) {
    let names: Vec<&str> = all.iter().map(document::Addon::name).collect();
    for (index, written) in all.iter().enumerate() {
        let at = at.index(index);
        let at = at.key("after");
        let declared = written.settings().and_then(|settings| settings.after.as_deref()).unwrap_or_default();
        for (i, name) in declared.iter().enumerate() {
            if names.contains(&name.as_str()) {
                continue;
            }
            let help = match nearest(name, &names) {
                Some(near) => format!("Did you mean `{near}`?"),
                None if catalogue::entry(name).is_some() => format!("Add it: `- {name}`."),
                None => "Name an add-on of this inventory.".to_owned(),
            };
            let message = format!("`{name}` is not an add-on of this inventory, so it cannot be waited for.");
            cx.error("addon", &at.index(i), message, help);
        }
    }
    circles(drafts, at, cx);
    networks(drafts, at, cx);
}

/// Add-ons that wait for each other.
fn circles(drafts: &[Draft], at: &Path<'_>, cx: &mut Context<'_>) {
    let waits: BTreeMap<&str, &Draft> =
        drafts.iter().map(|draft| (draft.addon.name.as_str(), draft)).collect();
    let mut settled: Vec<&str> = Vec::new();
    for draft in drafts {
        let mut trail: Vec<&str> = Vec::new();
        let Some(start) = circle(&draft.addon.name, &waits, &mut settled, &mut trail) else { continue };
        let round: Vec<String> = trail[start..].iter().map(|name| format!("`{name}`")).collect();
        let first =
            trail.get(start).and_then(|name| waits.get(name)).map_or(draft.index, |first| first.index);
        let addon_at = at.index(first);
        let message = match round.as_slice() {
            [one] => format!("{one} waits for itself."),
            _ => format!("{} wait for each other.", listed(round.clone(), "and")),
        };
        cx.error("addon", &addon_at.key("after"), message, "Remove one of the names under `after`.");
        settled.extend(trail);
    }
}

/// Where in a trail a circle begins, if what is waited for leads into one.
fn circle<'d>(
    name: &'d str,
    waits: &BTreeMap<&str, &'d Draft>,
    settled: &mut Vec<&'d str>,
    trail: &mut Vec<&'d str>,
) -> Option<usize> {
    if settled.contains(&name) {
        return None;
    }
    if let Some(start) = trail.iter().position(|there| *there == name) {
        return Some(start);
    }
    let draft = waits.get(name)?;
    trail.push(name);
    for next in &draft.addon.after {
        if let Some(start) = circle(next, waits, settled, trail) {
            return Some(start);
        }
    }
    trail.pop();
    settled.push(name);
    None
}

/// What brings the pod network is alone in that, and waits for nothing that needs it.
fn networks(drafts: &[Draft], at: &Path<'_>, cx: &mut Context<'_>) {
    let mut networks = drafts.iter().filter(|draft| draft.addon.network);
    let Some(first) = networks.next() else { return };
    for other in networks {
        let message =
            format!("`{}` and `{}` would both bring the pod network.", first.addon.name, other.addon.name);
        cx.error("addon", &at.index(other.index), message, "Keep one of them.");
    }
    for draft in drafts.iter().filter(|draft| first.addon.after.contains(&draft.addon.name)) {
        let early = draft.entry.is_some_and(|entry| entry.definitions)
            || (draft.entry.is_none() && matches!(draft.addon.source, AddonSource::Manifests(_)));
        if !early && draft.addon.name != first.addon.name {
            let at = at.index(first.index);
            let message = format!(
                "`{}` brings the pod network and cannot wait for `{}`, whose pods need it.",
                first.addon.name, draft.addon.name
            );
            cx.error("addon", &at.key("after"), message, "Turn it around, or remove it from `after`.");
        }
    }
}

/// Leaves what is waited for only where it is installed.
pub(super) fn settle(drafts: &mut [Draft]) {
    let names: Vec<String> = drafts.iter().map(|draft| draft.addon.name.clone()).collect();
    for draft in drafts {
        draft.addon.after.retain(|name| names.contains(name));
    }
}
