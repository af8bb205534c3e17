//! The firewall of a VM: kept and told, and without further effect.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cluster_objects::{Options, given, shown};
use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, Rule, opt, req, verify};

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Firewall {
    options: Options,
    rules: Vec<Options>,
    ipsets: BTreeMap<String, BTreeSet<String>>,
}

const LEVELS: Kind =
    Kind::OneOf(&["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug", "nolog"]);
const POLICY: Kind = Kind::OneOf(&["ACCEPT", "REJECT", "DROP"]);

const OPTIONS: &[Rule] = &[
    opt("delete", Kind::Text),
    opt("dhcp", Kind::Bool),
    opt("digest", Kind::Text),
    opt("enable", Kind::Bool),
    opt("ipfilter", Kind::Bool),
    opt("log_level_in", LEVELS),
    opt("log_level_out", LEVELS),
    opt("macfilter", Kind::Bool),
    opt("ndp", Kind::Bool),
    opt("policy_in", POLICY),
    opt("policy_out", POLICY),
    opt("radv", Kind::Bool),
];

const RULE: &[Rule] = &[
    req("action", Kind::Text),
    req("type", Kind::OneOf(&["in", "out", "forward", "group"])),
    opt("comment", Kind::Text),
    opt("dest", Kind::Text),
    opt("digest", Kind::Text),
    opt("dport", Kind::Text),
    opt("enable", Kind::Int(0, i64::MAX)),
    opt("icmp-type", Kind::Text),
    opt("iface", Kind::Text),
    opt("log", LEVELS),
    opt("macro", Kind::Text),
    opt("pos", Kind::Int(0, i64::MAX)),
    opt("proto", Kind::Text),
    opt("source", Kind::Text),
    opt("sport", Kind::Text),
];

/// A digest of all rules, by which a client tells that they are still those that it read.
fn digest(rules: &[Options]) -> String {
    super::download::digest("sha1", format!("{rules:?}").as_bytes()).unwrap_or_default()
}

/// Everything below `/nodes/{node}/qemu/{vmid}/firewall`.
pub(super) fn firewall(context: &Context, host: &str, vmid: u32, parts: &[&str]) -> Answer {
    let privilege = if context.method == "GET" { "VM.Audit" } else { "VM.Config.Network" };
    context.need(&format!("/vms/{vmid}"), &[privilege])?;
    understood(context, parts)?;
    context.dc.with(|state| {
        state.vm(host, vmid)?;
        let firewall = state.objects.firewalls.entry(vmid).or_default();
        match context.method.as_str() {
            "GET" => read(firewall, parts),
            _ => change(firewall, context, parts).and_then(|()| Data::null()),
        }
    })
}

/// Refuses parameters that a call does not take.
fn understood(context: &Context, parts: &[&str]) -> Result<(), Fail> {
    match (context.method.as_str(), parts) {
        ("GET", ["options"] | ["rules"] | ["ipset"] | ["ipset", _]) => verify(&context.params, &[]),
        ("PUT", ["options"]) => verify(&context.params, OPTIONS),
        ("POST", ["rules"]) => verify(&context.params, RULE),
        ("DELETE", ["rules", _]) => verify(&context.params, &[opt("digest", Kind::Text)]),
        ("POST", ["ipset"]) => verify(
            &context.params,
            &[
                req("name", Kind::Text),
                opt("comment", Kind::Text),
                opt("digest", Kind::Text),
                opt("rename", Kind::Text),
            ],
        ),
        ("POST", ["ipset", _]) => verify(
            &context.params,
            &[req("cidr", Kind::Text), opt("comment", Kind::Text), opt("nomatch", Kind::Bool)],
        ),
        ("DELETE", ["ipset", _]) => verify(&context.params, &[opt("force", Kind::Bool)]),
        ("DELETE", ["ipset", _, _]) => verify(&context.params, &[opt("digest", Kind::Text)]),
        _ => Err(super::unknown(context)),
    }
}

fn no_set(name: &str) -> Fail {
    Fail::internal(format!("IPSet '{name}' does not exist"))
}

fn read(firewall: &Firewall, parts: &[&str]) -> Answer {
    match parts {
        ["rules"] => {
            let digest = digest(&firewall.rules);
            let rule = |(pos, rule): (usize, &Options)| {
                let mut row = shown(rule);
                row["pos"] = pos.into();
                row["digest"] = digest.as_str().into();
                row
            };
            rows(firewall.rules.iter().enumerate().map(rule).collect())
        }
        ["ipset"] => rows(firewall.ipsets.keys().map(|name| json!({ "name": name })).collect()),
        ["ipset", name, ..] => {
            let set = firewall.ipsets.get(*name).ok_or_else(|| no_set(name))?;
            rows(set.iter().map(|cidr| json!({ "cidr": cidr })).collect())
        }
        _ => Ok(Data::from(shown(&firewall.options))),
    }
}

fn change(firewall: &mut Firewall, context: &Context, parts: &[&str]) -> Result<(), Fail> {
    match (context.method.as_str(), parts) {
        ("PUT", ["options"]) => {
            for name in context.param("delete").unwrap_or_default().split([',', ';', ' ']) {
                firewall.options.remove(name);
            }
            firewall.options.extend(given(context, &["delete", "digest"]));
        }
        // A new rule goes first, whatever place is asked for.
        ("POST", ["rules"]) => firewall.rules.insert(0, given(context, &["pos", "digest"])),
        ("DELETE", ["rules", pos]) => {
            if context.param("digest").is_some_and(|known| known != digest(&firewall.rules)) {
                let text = "detected modified configuration - file changed by other user? Try again.";
                return Err(Fail::internal(text));
            }
            let pos = pos.parse::<usize>().ok().filter(|pos| *pos < firewall.rules.len());
            let pos = pos.ok_or_else(|| Fail::internal("no rule at that position"))?;
            firewall.rules.remove(pos);
        }
        ("POST", ["ipset"]) => {
            let name = context.param("name").unwrap_or_default().to_owned();
            if firewall.ipsets.contains_key(&name) {
                return Err(Fail::internal(format!("IPSet '{name}' already exists")));
            }
            firewall.ipsets.insert(name, BTreeSet::new());
        }
        ("POST", ["ipset", name]) => {
            let cidr = context.param("cidr").unwrap_or_default().to_owned();
            let set = firewall.ipsets.get_mut(*name).ok_or_else(|| no_set(name))?;
            if !set.insert(cidr.clone()) {
                return Err(Fail::internal(format!("address '{cidr}' already exists")));
            }
        }
        ("DELETE", ["ipset", name]) => {
            let set = firewall.ipsets.get(*name).ok_or_else(|| no_set(name))?;
            if !set.is_empty() && !context.flag("force") {
                return Err(Fail::internal(format!("IPSet '{name}' is not empty")));
            }
            firewall.ipsets.remove(*name);
        }
        ("DELETE", ["ipset", name, cidr]) => {
            let set = firewall.ipsets.get_mut(*name).ok_or_else(|| no_set(name))?;
            set.remove(*cidr);
        }
        _ => {}
    }
    Ok(())
}
