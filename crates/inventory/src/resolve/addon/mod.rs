//! Add-ons: where each is, with which values, in which order, or everything that is wrong with it.

mod accounts;
mod manifests;
mod needs;
mod order;
mod source;
mod values;
mod volumes;

pub(crate) use needs::{Around, follow};
pub(crate) use volumes::{extensions, volumes};

use std::collections::BTreeMap;

use super::{Context, Refusal, name};
use crate::addon::{Addon, AddonSource, PodSecurity};
use crate::catalogue::{self, Entry, EntrySource};
use crate::document;
use crate::path::Path;
use crate::suggest::nearest;

/// How long an add-on may take to become ready unless something else is said.
const TIMEOUT: u64 = 300;
/// The longest name of a release that Helm takes.
const NAME_MAX: usize = 53;

/// An add-on, and the entry of the catalogue that it is.
pub(crate) struct Draft {
    pub(crate) addon: Addon,
    pub(crate) entry: Option<&'static Entry>,
    /// Its position in the inventory.
    pub(crate) index: usize,
}

/// The add-ons as far as they could be resolved, in the order of the document, without those that Talos brings.
pub(crate) fn addons(spec: &document::Spec, at: &Path<'_>, cx: &mut Context<'_>) -> Vec<Draft> {
    let at = at.key("addons");
    let listed = spec.addons.as_deref().unwrap_or_default();
    let mut drafts: Vec<Draft> = Vec::with_capacity(listed.len());
    for (index, written) in listed.iter().enumerate() {
        let at = at.index(index);
        let name_at = if written.settings().is_some() { at.key("name") } else { at };
        let name = written.name();
        if listed[..index].iter().any(|earlier| earlier.name() == name) {
            let help = "Give the second one a name of its own, with `chart`, or remove it.";
            cx.error("addon", &name_at, format!("The add-on `{name}` is there twice."), help);
            continue;
        }
        if cx.take("name", &name_at, release_name(name)).is_none() {
            continue;
        }
        let default = document::AddonSettings { name: name.to_owned(), ..Default::default() };
        let settings = written.settings().unwrap_or(&default);
        if catalogue::entry(name).is_some_and(|entry| matches!(entry.source, EntrySource::Talos))
            && settings.is_bare()
        {
            needs::of_talos(name, spec, &name_at, cx);
            continue;
        }
        drafts.extend(addon(settings, index, (&at, &name_at), cx));
    }
    order::check(listed, &drafts, &at, cx);
    order::settle(&mut drafts);
    namespaces(&mut drafts, &at, cx);
    drafts
}

/// Gives add-ons of one namespace the same pod security.
fn namespaces(drafts: &mut [Draft], at: &Path<'_>, cx: &mut Context<'_>) {
    let mut known: BTreeMap<String, (PodSecurity, String)> = BTreeMap::new();
    for draft in drafts.iter() {
        let Some(security) = draft.addon.pod_security else { continue };
        let (namespace, name) = (&draft.addon.namespace, &draft.addon.name);
        match known.get(namespace) {
            Some((other, whose)) if *other != security => {
                let message = format!(
                    "`{name}` and `{whose}` share the namespace `{namespace}`, with different pod security: {} and {}.",
                    security.label(),
                    other.label()
                );
                let help = "Give both the same `podSecurity`, or namespaces of their own.";
                cx.error("addon", &at.index(draft.index), message, help);
            }
            _ => drop(known.insert(namespace.clone(), (security, name.clone()))),
        }
    }
    for draft in drafts {
        draft.addon.pod_security = known.get(&draft.addon.namespace).map(|(security, _)| *security);
    }
}

/// Whether a name can be that of a release.
fn release_name(name: &str) -> Result<(), Refusal> {
    name::dns_label(name)?;
    if name.len() > NAME_MAX {
        let message =
            format!("`{name}` has {} characters; {NAME_MAX} is the most for an add-on.", name.len());
        return Err((message, "Shorten it: Helm takes no longer names of releases.".to_owned()));
    }
    Ok(())
}

fn addon(
    written: &document::AddonSettings,
    index: usize,
    (at, name_at): (&Path<'_>, &Path<'_>),
    cx: &mut Context<'_>,
) -> Option<Draft> {
    let found = source::source(written, at, name_at, cx);
    let own = manifests::manifests(written.manifests.as_deref(), at, cx);
    let entry = found.as_ref().and_then(|found| found.entry);
    let source = match found?.source {
        Some(source) => source,
        None => AddonSource::Manifests(own.clone()),
    };
    let extra = match &source {
        AddonSource::Manifests(list) if *list == own => Vec::new(),
        _ => manifests::besides(own, at, cx),
    };
    let is_chart = !matches!(source, AddonSource::Manifests(_));
    let namespace = written
        .namespace
        .clone()
        .unwrap_or_else(|| entry.map_or_else(|| written.name.clone(), |entry| entry.namespace.to_owned()));
    cx.take("name", &at.key("namespace"), name::dns_label(&namespace));
    let timeout = match &written.timeout {
        Some(text) => cx.take("addon", &at.key("timeout"), duration(text)),
        None => Some(entry.map_or(TIMEOUT, |entry| entry.timeout)),
    };
    let values = values::values(written, entry, is_chart, at, cx);
    let secret_values = values::secrets(written, is_chart, at, cx);
    let addon = Addon {
        name: written.name.clone(),
        entry: entry.map(|entry| entry.name.to_owned()),
        namespace,
        source,
        values,
        secret_values,
        kept_values: BTreeMap::new(),
        extra,
        pod_security: written.pod_security.or(entry.and_then(|entry| entry.pod_security)),
        policies: written.policies,
        network: written.network.unwrap_or(entry.is_some_and(|entry| entry.network)),
        after: order::after(written, entry),
        wait: written.wait.unwrap_or(entry.is_none_or(|entry| entry.wait)),
        timeout: timeout?,
        force: written.force.unwrap_or(false),
    };
    Some(Draft { addon, entry, index })
}

/// Seconds of a length of time such as `90s`, `10m` or `1h30m`.
fn duration(text: &str) -> Result<u64, Refusal> {
    let refused = || {
        let help = "Write for example `90s`, `10m` or `1h`; a day is the most.";
        (format!("`{text}` is not a length of time that can be waited for."), help.to_owned())
    };
    let (mut seconds, mut number, mut smallest) = (0_u64, String::new(), u64::MAX);
    for c in text.chars() {
        let unit = match c {
            '0'..='9' if number.len() < 6 => {
                number.push(c);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return Err(refused()),
        };
        let count: u64 = number.parse().map_err(|_| refused())?;
        if unit >= smallest {
            return Err(refused());
        }
        (seconds, smallest) = (seconds + count * unit, unit);
        number.clear();
    }
    if number.is_empty() && (1..=86_400).contains(&seconds) { Ok(seconds) } else { Err(refused()) }
}

/// Says that a name is not in the catalogue.
fn unknown(name: &str, at: &Path<'_>, cx: &mut Context<'_>) {
    let known: Vec<&str> = catalogue::catalogue().map(|entry| entry.name).collect();
    let help = match nearest(name, &known) {
        Some(near) => format!("Did you mean `{near}`?"),
        None => "Give it a `chart` with its `repo` and `version`, or `manifests`; docs/addons.md lists the catalogue."
            .to_owned(),
    };
    cx.error("addon", at, format!("`{name}` is not an add-on of the catalogue."), help);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h30m", 5400), ("24h", 86_400)] {
            assert_eq!(duration(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "10", "5 m", "m", "0s", "1m1h", "25h", "9999999h", "1.5h", "-5m"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
