//! What the nodes of a pool share, and the numbers and addresses they are given from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::network::{self, Network};
use super::size::{self, GIB, Of};
use super::{Context, Refusal, name, patch};
use crate::cluster::{Patch, Role};
use crate::document::{self, Pool, PoolNode};
use crate::path::Path;

const VMID_MIN: u32 = 100;
const VMID_MAX: u32 = 999_999_999;
const DISK_MIN: u64 = 10 * GIB;

/// What all nodes of a pool have in common.
pub(crate) struct PoolValues {
    pub(crate) memory: Option<u64>,
    pub(crate) disk: Option<u64>,
    pub(crate) vmids: Option<Vmids>,
    pub(crate) start: Option<IpAddr>,
    pub(crate) tags: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: BTreeMap<String, String>,
    pub(crate) patches: Vec<Patch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vmids {
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Whether the end was declared.
    pub(crate) range: bool,
}

pub(crate) fn values(
    pool: &Pool,
    may_default: bool,
    network: &Network,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> PoolValues {
    let control_plane = pool.role == document::Role::ControlPlane;
    let memory = match &pool.memory {
        Some(size) => memory(size, pool.role.into(), &at.key("memory"), cx),
        None => Some(if control_plane { 4 * GIB } else { 8 * GIB }),
    };
    let disk = match &pool.disk {
        Some(size) => disk(size, &at.key("disk"), cx),
        None => Some(if control_plane { 20 * GIB } else { 50 * GIB }),
    };
    // A listed node may bring its own; then the pool need not have any.
    let each = |has: fn(&PoolNode) -> bool| pool.nodes.as_ref().is_some_and(|n| n.iter().all(has));
    let vmids = match &pool.vmid {
        Some(text) => cx.take("vmid", &at.key("vmid"), vmids(&text.0)),
        None if each(|n| n.vmid.is_some()) => None,
        None if !may_default => {
            undecided(pool, "vmid", "vmid: 4000-4999", at, cx);
            None
        }
        None => vmids(if control_plane { "2000-2999" } else { "3000-3999" })
            .ok()
            .filter(|_| cx.given(&at.key("vmid"))),
    };
    let start = match &pool.address {
        Some(_) if network.discovered => {
            network::not_declared(&at.key("address"), cx);
            None
        }
        None if network.discovered => None,
        Some(text) => {
            cx.take("address", &at.key("address"), network::address(&text.0, network.cidr)).flatten()
        }
        None if each(|n| n.address.is_some()) => None,
        None if !may_default => {
            undecided(pool, "address", "address: +30", at, cx);
            None
        }
        None => network::address(if control_plane { "+10" } else { "+20" }, network.cidr)
            .ok()
            .flatten()
            .filter(|_| cx.given(&at.key("address"))),
    };
    PoolValues {
        memory,
        disk,
        vmids,
        start,
        tags: super::tag_list(pool.tags.as_deref(), at, cx),
        labels: labels(pool.labels.as_ref(), at, cx),
        taints: taints(pool.taints.as_ref(), at, cx),
        patches: patch::patches(pool.patches.as_deref(), at, cx),
    }
}

pub(crate) fn undecided(pool: &Pool, key: &str, example: &str, at: &Path<'_>, cx: &mut Context<'_>) {
    // Where one of the listed nodes could not be read, it may have brought its own.
    let nodes = at.key("nodes").to_string();
    if cx.given(&at.key(key)) && !cx.guessed.iter().any(|path| path.starts_with(&nodes)) {
        let message =
            format!("The pool `{}` must say its `{key}`, as there are several pools of its role.", pool.name);
        let help =
            format!("Say where it starts, for example `{example}`: then no pool moves when another grows.");
        cx.error(if key == "vmid" { "vmid" } else { "address" }, &at.key("name"), message, help);
    }
}

pub(crate) fn default_cores(role: document::Role) -> u32 {
    match role {
        document::Role::ControlPlane => 4,
        document::Role::Worker => 8,
    }
}

pub(crate) fn memory(size: &document::Size, role: Role, at: &Path<'_>, cx: &mut Context<'_>) -> Option<u64> {
    let (least, who) = match role {
        Role::ControlPlane => (2 * GIB, "a control plane"),
        Role::Worker => (GIB, "a worker"),
    };
    let checked = size::parse(&size.0, Of::Memory).and_then(|bytes| {
        let help = format!("Give it at least `{}`.", size::shown(least));
        if bytes < least {
            Err((format!("Talos does not run as {who} with {}.", size::shown(bytes)), help))
        } else {
            Ok(bytes)
        }
    });
    cx.take("size", at, checked)
}

pub(crate) fn disk(size: &document::Size, at: &Path<'_>, cx: &mut Context<'_>) -> Option<u64> {
    let checked = size::parse(&size.0, Of::Disk).and_then(|bytes| {
        let help = format!("Give it at least `{}`.", size::shown(DISK_MIN));
        if bytes < DISK_MIN {
            Err((format!("Talos needs a larger disk than {}.", size::shown(bytes)), help))
        } else {
            Ok(bytes)
        }
    });
    cx.take("size", at, checked)
}

pub(crate) type Pairs = BTreeMap<String, String>;

pub(crate) fn labels(map: Option<&Pairs>, at: &Path<'_>, cx: &mut Context<'_>) -> Pairs {
    pairs(
        map,
        &at.key("labels"),
        "label",
        |value| name::kubernetes_label(value).map(|()| value.to_owned()),
        cx,
    )
}

pub(crate) fn taints(map: Option<&Pairs>, at: &Path<'_>, cx: &mut Context<'_>) -> Pairs {
    pairs(map, &at.key("taints"), "taint", name::kubernetes_taint, cx)
}

pub(crate) fn pairs(
    map: Option<&Pairs>,
    at: &Path<'_>,
    code: &'static str,
    read: impl Fn(&str) -> Result<String, Refusal>,
    cx: &mut Context<'_>,
) -> Pairs {
    let checked = map.into_iter().flatten().filter_map(|(key, value)| {
        let at = at.key(key);
        let value = cx.take(code, &at, read(value));
        cx.take_key(code, &at, name::kubernetes_key(key))?;
        Some((key.clone(), value?))
    });
    checked.collect()
}

/// `300` or `2000-2999`.
pub(crate) fn vmids(text: &str) -> Result<Vmids, Refusal> {
    let number = |s: &str| {
        let s = s.trim();
        if s.bytes().all(|b| b.is_ascii_digit()) { s.parse::<u32>().ok() } else { None }
    };
    let bad = || {
        let help = format!(
            "Write the first one (`300`), or a range (`2000-2999`); VMIDs go from {VMID_MIN} to {VMID_MAX}."
        );
        (format!("`{text}` is not a VMID."), help)
    };
    let (first, last, range) = match text.split_once('-') {
        Some((first, last)) => (number(first), number(last), true),
        None => (number(text), Some(VMID_MAX), false),
    };
    let (first, last) = first.zip(last).ok_or_else(bad)?;
    if !(VMID_MIN..=VMID_MAX).contains(&first) || last > VMID_MAX {
        return Err(bad());
    }
    if last < first {
        return Err((
            format!("The range {first}-{last} is empty."),
            format!("Did you mean `{last}-{first}`?"),
        ));
    }
    Ok(Vmids { first, last, range })
}

/// Nodes of a pool that got nothing, because numbers or addresses ran out.
#[derive(Default)]
pub(crate) struct Shortage {
    vmids: usize,
    addresses: usize,
}

impl Shortage {
    pub(crate) fn vmid(&mut self, vmids: Vmids, index: usize) -> Option<u32> {
        let vmid =
            u32::try_from(index).ok().and_then(|i| vmids.first.checked_add(i)).filter(|v| *v <= vmids.last);
        self.vmids += usize::from(vmid.is_none());
        vmid
    }

    pub(crate) fn address(&mut self, start: IpAddr, index: usize) -> Option<IpAddr> {
        let address = i128::try_from(index).ok().and_then(|i| network::step(start, i));
        self.addresses += usize::from(address.is_none());
        address
    }

    pub(crate) fn report(
        &self,
        pool: &Pool,
        count: usize,
        vmids: Option<Vmids>,
        at: &Path<'_>,
        cx: &mut Context<'_>,
    ) {
        if let Some(vmids) = vmids.filter(|_| self.vmids > 0) {
            let (message, help) = if vmids.range {
                let (Vmids { first, last, .. }, room) = (vmids, vmids.last - vmids.first + 1);
                (
                    format!(
                        "The pool `{}` has {count} nodes, but the range {first}-{last} has room for {room}.",
                        pool.name
                    ),
                    format!("Widen the range to at least {count} VMIDs, or have fewer nodes."),
                )
            } else {
                let message =
                    format!("The pool `{}` runs out of VMIDs: the last one is {VMID_MAX}.", pool.name);
                (message, "Start at a lower one.".to_owned())
            };
            cx.error("vmid", &at.key(if pool.vmid.is_some() { "vmid" } else { "name" }), message, help);
        }
        if self.addresses > 0 {
            let message = format!("The pool `{}` runs out of addresses.", pool.name);
            cx.error("address", &at.key("address"), message, "Start at a lower one.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmids_as_written() {
        assert_eq!(vmids("300"), Ok(Vmids { first: 300, last: VMID_MAX, range: false }));
        assert_eq!(vmids("2000 - 2999"), Ok(Vmids { first: 2000, last: 2999, range: true }));
        assert_eq!(vmids("2999-2000").expect_err("backwards").1, "Did you mean `2000-2999`?");
        for wrong in ["99", "1000000000", "", "-5", "a", "100-", "0x100", "+300"] {
            assert!(vmids(wrong).is_err(), "{wrong}");
        }
    }
}
