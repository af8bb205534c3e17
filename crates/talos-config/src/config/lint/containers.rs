//! Faults of containers that Talos runs by itself.

use std::collections::{BTreeMap, HashSet};

use yaml_serde::Value;

use super::{Findings, is_set, items, text};
use crate::config::{
    document::{DocumentId, MachineConfig},
    schema::size,
};

const MOUNTS: [&str; 3] = ["userVolume", "tmpfs", "hostPath"];
const OPTIONS: [&str; 8] = ["ro", "rw", "noexec", "nosuid", "nodev", "noatime", "rbind", "rshared"];
const NETWORKS: [&str; 4] = ["addresses", "connectivity", "hostname", "etcfiles"];

impl MachineConfig {
    pub(super) fn lint_containers(&self, found: &mut Findings) {
        let mut waits: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for container in self.of_kind("ContainerConfig") {
            let id = DocumentId::of(container);
            let place = id.to_string();
            if let Some(fault) = super::images::fault(text(Some(container), "image")) {
                found.error(&place, &format!("needs an `image` that {fault}"));
            }
            if items(container, "environment").filter_map(Value::as_str).any(|entry| !entry.contains('=')) {
                found.error(&place, "has an entry of `environment` that is not of the form NAME=value");
            }
            lint_mounts(container, &place, found);
            lint_security(container, &place, found);
            lint_limits(container, &place, found);
            lint_conditions(container, &place, found);
            let containers = items(container, "dependsOn.containers").filter_map(Value::as_str).collect();
            waits.insert(id.name, containers);
        }
        for (name, others) in &waits {
            let place = format!("ContainerConfig {name}");
            for other in others {
                if !waits.contains_key(*other) {
                    found.error(&place, &format!("waits for the container `{other}`, which is not there"));
                }
            }
            if reaches(name, name, &waits, &mut HashSet::new()) {
                found.error(&place, "waits for itself, directly or by way of others");
            }
        }
    }
}

/// Whether one container waits for the other.
fn reaches<'a>(
    from: &'a str,
    to: &str,
    waits: &'a BTreeMap<String, Vec<&'a str>>,
    seen: &mut HashSet<&'a str>,
) -> bool {
    let next = waits.get(from).map(Vec::as_slice).unwrap_or_default();
    next.iter().any(|next| *next == to || (seen.insert(next) && reaches(next, to, waits, seen)))
}

fn lint_mounts(container: &Value, place: &str, found: &mut Findings) {
    let mut destinations = HashSet::new();
    for mount in items(container, "mounts") {
        let ways: Vec<(&str, &Value)> = MOUNTS
            .iter()
            .filter_map(|way| Some((*way, mount.get(way).filter(|value| is_set(value))?)))
            .collect();
        let [(way, fields)] = ways[..] else {
            found.error(place, "has a mount that needs one of userVolume, tmpfs and hostPath");
            continue;
        };
        let mut faults = Vec::new();
        if way == "userVolume" && text(Some(fields), "name").is_empty() {
            faults.push("needs a `name`".to_owned());
        }
        let paths: &[&str] = if way == "hostPath" { &["source", "destination"] } else { &["destination"] };
        for key in paths.iter().filter(|key| !text(Some(fields), key).starts_with('/')) {
            faults.push(format!("needs a `{key}` that begins with `/`"));
        }
        let options: Vec<&str> = items(fields, "options").filter_map(Value::as_str).collect();
        for option in options.iter().filter(|option| !OPTIONS.contains(option)) {
            faults.push(format!("has the option `{option}`; there are {}", OPTIONS.join(", ")));
        }
        if options.contains(&"ro") && options.contains(&"rw") {
            faults.push("is both `ro` and `rw`".into());
        }
        let destination = text(Some(fields), "destination");
        if faults.is_empty() && !destinations.insert(destination) {
            faults.push(format!("has the destination of another: {destination}"));
        }
        for fault in faults {
            found.error(place, &format!("has a mount ({way}) that {fault}"));
        }
    }
}

fn lint_security(container: &Value, place: &str, found: &mut Findings) {
    if !["", "restricted", "privileged"].contains(&text(Some(container), "security.profile")) {
        found.error(place, "needs a `security.profile` that is restricted or privileged");
    }
    if !["", "none", "host"].contains(&text(Some(container), "network.mode")) {
        found.error(place, "needs a `network.mode` that is none or host");
    }
    let list = |key: &str| -> Vec<&str> {
        items(container, &format!("security.capabilities.{key}")).filter_map(Value::as_str).collect()
    };
    let (added, dropped) = (list("add"), list("drop"));
    if added.contains(&"ALL") {
        found.error(place, "cannot add ALL capabilities; set `security.profile: privileged`");
    }
    for capability in added.iter().chain(&dropped) {
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
        if capability.is_empty() || capability.starts_with("CAP_") || !capability.bytes().all(plain) {
            let message = format!("has the capability `{capability}`; write it like NET_ADMIN, without CAP_");
            found.error(place, &message);
        }
    }
    for capability in added.iter().filter(|capability| dropped.contains(capability)) {
        found.error(place, &format!("both adds and drops the capability `{capability}`"));
    }
}

fn lint_limits(container: &Value, place: &str, found: &mut Findings) {
    let memory = text(Some(container), "resources.limits.memory");
    if !memory.is_empty() && size(memory, false, 0).is_err() {
        found.error(place, "needs a limit of `memory` such as 512MiB");
    }
    let cpu = text(Some(container), "resources.limits.cpu");
    let is_digits = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = cpu.strip_suffix('m').filter(is_digits).and_then(|digits| digits.parse::<u64>().ok());
    if !cpu.is_empty() && thousandths.is_none_or(|count| count == 0) {
        found.error(place, "needs a limit of `cpu` such as 1500m");
    }
}

fn lint_conditions(container: &Value, place: &str, found: &mut Findings) {
    let mut paths = items(container, "dependsOn.paths").filter_map(Value::as_str);
    if paths.any(|path| !path.starts_with('/')) {
        found.error(place, "waits for a path that does not begin with `/`");
    }
    let networks = items(container, "dependsOn.networks").filter_map(Value::as_str);
    for network in networks.filter(|network| !NETWORKS.contains(network)) {
        found.error(
            place,
            &format!("waits for `{network}` of the network; there are {}", NETWORKS.join(", ")),
        );
    }
}
