//! Clusters and worlds to try things on.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use daedal_machine::fixture::*;

use daedal_machine::vm::{Card, FIRST_NIC, Value};

use crate::{
    ConfigDifference, ConfigFacts, ConfigView, DocumentChange, DryRun, HostView, StorageView, VmConfig, World,
};

/// A config that differs from the declared one, which the node takes.
pub(crate) fn differs(
    [running, declared]: [&str; 2],
    reboot: bool,
    changes: &[DocumentChange],
) -> ConfigView {
    let facts = |digest: &str| ConfigFacts { digest: digest.to_owned(), ..ConfigFacts::default() };
    ConfigView::Differs(Box::new(ConfigDifference {
        running: facts(running),
        declared: facts(declared),
        changes: changes.to_vec(),
        answer: DryRun::Accepted { reboot },
    }))
}

fn storage(kind: &str, content: &[&str], total: u64, available: u64) -> StorageView {
    StorageView {
        kind: kind.into(),
        content: content.iter().map(|c| (*c).to_owned()).collect(),
        active: true,
        shared: false,
        total,
        available,
        ..StorageView::default()
    }
}

/// A host with room.
pub(crate) fn host(cpus: u32, memory_gib: u64, disk_gib: u64) -> HostView {
    HostView {
        arch: None,
        online: true,
        cpus,
        memory: memory_gib * GIB,
        bridges: BTreeSet::from(["vmbr0".to_owned()]),
        bridges_seen: true,
        storages: BTreeMap::from([
            (
                "local".to_owned(),
                storage("dir", &["iso", "import", "vztmpl", "snippets"], 100 * GIB, 80 * GIB),
            ),
            ("local-lvm".to_owned(), storage("lvmthin", &["images"], disk_gib * GIB, disk_gib * GIB)),
            ("nas".to_owned(), storage("nfs", &["iso", "import"], 1000 * GIB, 900 * GIB)),
        ]),
    }
}

/// A world with these hosts and nothing on them.
pub(crate) fn empty_world(hosts: &[(&str, u32, u64, u64)]) -> World {
    World {
        proxmox_version: "9.2.11".into(),
        hosts: hosts.iter().map(|(n, c, m, d)| ((*n).to_owned(), host(*c, *m, *d))).collect(),
        ..World::default()
    }
}

/// The world the home cluster is made in.
pub(crate) fn home_world() -> World {
    empty_world(&[("atlas", 32, 64, 1000)])
}

/// What was read of a VM.
pub(crate) fn config(world: &mut World, vmid: u32) -> &mut VmConfig {
    world.guests.get_mut(&vmid).unwrap().config.as_mut().unwrap()
}

/// A VM's first network card.
pub(crate) fn card(config: &mut VmConfig) -> &mut Card {
    match config.options.get_mut(FIRST_NIC) {
        Some(Value::Card(card)) => card,
        other => panic!("{other:?}"),
    }
}
