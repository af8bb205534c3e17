//! What is kept for the cluster or a VM and told again: high availability, backup jobs, mappings, firewalls.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::firewall::Firewall;
use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, Rule, opt, verify};

pub(super) type Options = BTreeMap<String, String>;

/// All of it, as it is saved.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterObjects {
    pub(super) firewalls: BTreeMap<u32, Firewall>,
    kept: BTreeMap<String, BTreeMap<String, Options>>,
}

impl ClusterObjects {
    /// A VM that is gone takes its firewall with it.
    pub(crate) fn forget(&mut self, vmid: u32) {
        self.firewalls.remove(&vmid);
    }

    /// Takes a VM out of high availability and of backup jobs. A job that backs up nothing else goes; rules keep naming the VM.
    pub(crate) fn purge(&mut self, vmid: u32) {
        if let Some(resources) = self.kept.get_mut("resources") {
            resources.remove(&format!("vm:{vmid}"));
        }
        let without = |list: &str| {
            let rest = list.split(',').map(str::trim).filter(|one| *one != vmid.to_string());
            rest.collect::<Vec<_>>().join(",")
        };
        if let Some(jobs) = self.kept.get_mut("backup") {
            jobs.retain(|_, job| match job.get_mut("vmid") {
                Some(list) => {
                    *list = without(list);
                    !list.is_empty()
                }
                None => true,
            });
        }
    }

    /// Maps a PCI device.
    pub(crate) fn map(&mut self, id: &str, map: &str) {
        let mappings = self.kept.entry("pci".to_owned()).or_default();
        mappings.insert(id.to_owned(), Options::from([("map".to_owned(), map.to_owned())]));
    }

    /// Whether a mapping has a device on the host.
    pub(crate) fn maps(&self, id: &str, host: &str) -> bool {
        let map = self.kept.get("pci").and_then(|all| all.get(id)?.get("map"));
        map.is_some_and(|map| map.contains(&format!("node={host}")))
    }

    /// Whether high availability has the VM.
    pub(crate) fn manages(&self, vmid: u32) -> bool {
        self.wanted(vmid).is_some_and(|state| state != "ignored")
    }

    /// What the VM should be by its resource; none if it has none.
    pub(crate) fn wanted(&self, vmid: u32) -> Option<&str> {
        let resource = self.kept.get("resources")?.get(&format!("vm:{vmid}"))?;
        Some(resource.get("state").map_or("started", String::as_str))
    }

    /// Its resource asks for another state from now on.
    pub(crate) fn want(&mut self, vmid: u32, wanted: &str) {
        let resource = self.kept.get_mut("resources").and_then(|all| all.get_mut(&format!("vm:{vmid}")));
        if let Some(resource) = resource {
            resource.insert("state".into(), wanted.into());
        }
    }
}

pub(super) fn shown(options: &Options) -> Value {
    let typed = |(name, value): (&String, &String)| {
        let value = match value.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) if PROPERTIES.contains(&name.as_str()) => properties(value),
            Err(_) => value.as_str().into(),
        };
        (name.clone(), value)
    };
    Value::Object(options.iter().map(typed).collect::<Map<_, _>>())
}

/// Options that are sent as a list of properties and come back as an object.
const PROPERTIES: [&str; 3] = ["fleecing", "performance", "prune-backups"];

fn properties(value: &str) -> Value {
    let one = |part: &str| part.split_once('=').map(|(key, value)| (key.to_owned(), Value::from(value)));
    Value::Object(value.split(',').filter_map(one).collect::<Map<_, _>>())
}

pub(super) fn given(context: &Context, but: &[&str]) -> Options {
    let wanted = context.params.iter().filter(|(name, _)| !but.contains(&name.as_str()));
    wanted.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What a resource of HA takes.
const RESOURCE: &[Rule] = &[
    opt("comment", Kind::Text),
    opt("failback", Kind::Bool),
    opt("group", Kind::Text),
    opt("max_relocate", Kind::Int(0, i64::MAX)),
    opt("max_restart", Kind::Int(0, i64::MAX)),
    opt("state", Kind::OneOf(&["started", "stopped", "enabled", "disabled", "ignored"])),
    opt("type", Kind::OneOf(&["ct", "vm"])),
    opt("sid", Kind::Text),
    opt("delete", Kind::Text),
    opt("digest", Kind::Text),
    opt("purge", Kind::Bool),
];

/// What a rule of HA takes.
const AFFINITY: &[Rule] = &[
    opt("affinity", Kind::OneOf(&["positive", "negative"])),
    opt("comment", Kind::Text),
    opt("disable", Kind::Bool),
    opt("nodes", Kind::Text),
    opt("resources", Kind::Text),
    opt("strict", Kind::Bool),
    opt("type", Kind::OneOf(&["node-affinity", "resource-affinity"])),
    opt("rule", Kind::Text),
    opt("resource", Kind::Text),
    opt("delete", Kind::Text),
    opt("digest", Kind::Text),
];

/// What a group of HA takes.
const GROUP: &[Rule] = &[
    opt("comment", Kind::Text),
    opt("nodes", Kind::Text),
    opt("nofailback", Kind::Bool),
    opt("restricted", Kind::Bool),
    opt("type", Kind::OneOf(&["group"])),
    opt("group", Kind::Text),
    opt("delete", Kind::Text),
    opt("digest", Kind::Text),
];

/// What a backup job takes.
const BACKUP: &[Rule] = &[
    opt("id", Kind::Text),
    opt("all", Kind::Bool),
    opt("bwlimit", Kind::Int(0, i64::MAX)),
    opt("comment", Kind::Text),
    opt("compress", Kind::OneOf(&["0", "1", "gzip", "lzo", "zstd"])),
    opt("enabled", Kind::Bool),
    opt("exclude", Kind::Text),
    opt("mailnotification", Kind::OneOf(&["always", "failure"])),
    opt("mailto", Kind::Text),
    opt("dow", Kind::Text),
    opt("dumpdir", Kind::Text),
    opt("exclude-path", Kind::Text),
    opt("fleecing", Kind::Text),
    opt("ionice", Kind::Int(0, 8)),
    opt("lockwait", Kind::Int(0, i64::MAX)),
    opt("maxfiles", Kind::Int(1, i64::MAX)),
    opt("notification-mode", Kind::OneOf(&["auto", "legacy-sendmail", "notification-system"])),
    opt("pbs-change-detection-mode", Kind::OneOf(&["legacy", "data", "metadata"])),
    opt("performance", Kind::Text),
    opt("pigz", Kind::Int(i64::MIN, i64::MAX)),
    opt("quiet", Kind::Bool),
    opt("remove", Kind::Bool),
    opt("script", Kind::Text),
    opt("starttime", Kind::Text),
    opt("stdexcludes", Kind::Bool),
    opt("stop", Kind::Bool),
    opt("stopwait", Kind::Int(0, i64::MAX)),
    opt("tmpdir", Kind::Text),
    opt("zstd", Kind::Int(i64::MIN, i64::MAX)),
    opt("mode", Kind::OneOf(&["snapshot", "suspend", "stop"])),
    opt("node", Kind::Text),
    opt("notes-template", Kind::Text),
    opt("pool", Kind::Text),
    opt("protected", Kind::Bool),
    opt("prune-backups", Kind::Text),
    opt("repeat-missed", Kind::Bool),
    opt("schedule", Kind::Text),
    opt("storage", Kind::Text),
    opt("vmid", Kind::Text),
    opt("delete", Kind::Text),
];

/// What a mapping of PCI devices takes.
const PCI: &[Rule] = &[
    opt("id", Kind::Text),
    opt("map", Kind::Text),
    opt("description", Kind::Text),
    opt("mdev", Kind::Bool),
    opt("live-migration-capable", Kind::Bool),
    opt("check-node", Kind::Text),
    opt("delete", Kind::Text),
    opt("digest", Kind::Text),
];

/// What each kind of object that is kept for the cluster takes, and the name of its id.
fn rules(kind: &str) -> (&'static str, &'static [Rule]) {
    match kind {
        "pci" => ("id", PCI),
        "resources" => ("sid", RESOURCE),
        "rules" => ("rule", AFFINITY),
        "groups" => ("group", GROUP),
        _ => ("id", BACKUP),
    }
}

/// No more VMs can be kept on different hosts than there are hosts.
fn apart(rule: &Options, hosts: usize) -> Result<(), Fail> {
    let negative = rule.get("affinity").is_some_and(|affinity| affinity == "negative");
    let resources = rule.get("resources").map_or(0, |resources| resources.split(',').count());
    match negative && resources > hosts {
        true => Err(Fail::parameter("resources", "rule defines more resources than available nodes")),
        false => Ok(()),
    }
}

/// Lists are kept in an order of Proxmox's own: those of rules sorted, those of groups in no order at all.
fn reorder(kind: &str, options: &mut Options) {
    for (of, option) in [("rules", "resources"), ("rules", "nodes"), ("groups", "nodes")] {
        if let Some(list) = options.get_mut(option).filter(|_| of == kind) {
            let mut all: Vec<&str> = list.split(',').collect();
            all.sort_unstable();
            if kind == "groups" {
                all.reverse();
            }
            *list = all.join(",");
        }
    }
}

/// A resource of HA is a VM that is there.
fn exists(id: &str, known: &BTreeSet<u32>) -> Result<(), Fail> {
    let vmid = id.strip_prefix("vm:").and_then(|vmid| vmid.parse().ok());
    match vmid.is_some_and(|vmid| known.contains(&vmid)) {
        true => Ok(()),
        false => Err(Fail::internal(format!("cannot add service '{id}' to HA resource config - no such vm"))),
    }
}

/// A rule is about resources of HA only.
fn are_managed(resources: &str, managed: &BTreeSet<String>) -> Result<(), Fail> {
    match resources.split(',').find(|one| !managed.contains(*one)) {
        Some(stranger) => {
            Err(Fail::parameter("resources", format!("cannot use unmanaged resource(s) {stranger}.")))
        }
        None => Ok(()),
    }
}

fn mapping(id: Option<&str>) -> String {
    id.map_or_else(|| "/mapping/pci".to_owned(), |id| format!("/mapping/pci/{id}"))
}

/// What somebody must be allowed to look at such objects, or to change them.
fn may(context: &Context, kind: &str, id: Option<&str>) -> Result<(), Fail> {
    match (kind, context.method.as_str()) {
        ("pci", "GET") => context.need(&mapping(id), &["Mapping.Audit", "Mapping.Modify", "Mapping.Use"]),
        ("pci", _) => context.need(&mapping(id), &["Mapping.Modify"]),
        (_, "GET") => context.need("/", &["Sys.Audit"]),
        ("backup", _) => context.need("/", &["Sys.Modify"]),
        _ => context.need("/", &["Sys.Console"]),
    }
}

/// `/cluster/ha/{resources,rules,groups}`, `/cluster/mapping/pci` and `/cluster/backup`, each with its objects below.
pub(super) fn kept(context: &Context, kind: &str, id: Option<&str>) -> Answer {
    let (name, rules) = rules(kind);
    let major = context.dc.with(|state| state.major());
    if kind == "rules" && major < 9 {
        return Err(super::unknown(context));
    }
    may(context, kind, id)?;
    verify(&context.params, rules)?;
    if kind == "groups" && major >= 9 && context.method == "POST" {
        return Err(Fail::internal("ha groups have been migrated to rules"));
    }
    let answer = context.dc.with(|state| {
        let managed: BTreeSet<String> =
            state.objects.kept.get("resources").into_iter().flat_map(|all| all.keys().cloned()).collect();
        let next = format!("backup-{}", state.rng.uuid());
        let known: BTreeSet<u32> = state.vms.keys().copied().collect();
        let hosts = state.hosts.len();
        let all = state.objects.kept.entry(kind.to_owned()).or_default();
        let missing = |id: &str| Fail::internal(format!("no such {name} '{id}'"));
        match (context.method.as_str(), id) {
            ("GET", None) => {
                let row = |(id, options): (&String, &Options)| {
                    let mut row = shown(options);
                    row[name] = id.as_str().into();
                    row
                };
                return rows(all.iter().map(row).collect());
            }
            ("GET", Some(id)) => {
                let mut row = shown(all.get(id).ok_or_else(|| missing(id))?);
                row[name] = id.into();
                return Ok(Data::from(row));
            }
            ("POST", None) => {
                let id = match context.param(name) {
                    Some(id) => id.to_owned(),
                    None if kind == "backup" => next,
                    None => return Err(Fail::parameter(name, "property is missing and it is not optional")),
                };
                if all.contains_key(&id) {
                    return Err(Fail::internal(format!("{name} '{id}' already defined")));
                }
                if kind == "resources" {
                    exists(&id, &known)?;
                }
                if kind == "rules" {
                    apart(&given(context, &[name]), hosts)?;
                    are_managed(context.param("resources").unwrap_or_default(), &managed)?;
                }
                let mut options = given(context, &[name]);
                reorder(kind, &mut options);
                all.insert(id, options);
            }
            ("PUT", Some(id)) => {
                let options = all.get_mut(id).ok_or_else(|| missing(id))?;
                let mut changed = options.clone();
                changed.extend(given(context, &[name, "delete", "digest"]));
                if kind == "rules" {
                    apart(&changed, hosts)?;
                }
                reorder(kind, &mut changed);
                *options = changed;
            }
            ("DELETE", Some(id)) => {
                all.remove(id).ok_or_else(|| missing(id))?;
            }
            _ => return Err(super::unknown(context)),
        }
        Data::null()
    });
    let sid = id.or_else(|| context.param(name)).filter(|_| kind == "resources" && context.method != "GET");
    if let Some(vmid) = sid.and_then(|sid| sid.strip_prefix("vm:")?.parse().ok())
        && answer.is_ok()
    {
        super::power::manage(&context.dc, vmid);
    }
    answer
}
