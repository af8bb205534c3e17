//! Changing what storages there are, as an administrator does, and making volumes on them by hand.

use serde_json::json;

use crate::proxmox::blob::Blob;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::property::parse_size;
use crate::proxmox::schema::{Kind, Rule, STORAGE, VMID, opt, req, verify};
use crate::proxmox::state::{State, Storage, Store};

/// Bytes of a storage that is added by hand.
const ADDED: u64 = 100 << 30;

const TYPES: &[&str] =
    &["btrfs", "cephfs", "cifs", "dir", "iscsi", "lvm", "lvmthin", "nfs", "pbs", "rbd", "zfs", "zfspool"];

/// What both a new storage and a change can say. Paths and names of pools are taken and not kept.
const COMMON: [Rule; 6] = [
    opt("content", Kind::Text),
    opt("nodes", Kind::Text),
    opt("disable", Kind::Bool),
    opt("shared", Kind::Bool),
    opt("prune-backups", Kind::Text),
    opt("is_mountpoint", Kind::Text),
];

fn list(text: &str) -> Vec<String> {
    text.split([',', ';', ' ']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

impl Storage {
    /// Content types that a storage of this type can hold; others are dropped with a warning in the log.
    fn possible(&self, content: &str) -> Vec<String> {
        let can = |one: &String| self.has_path() || matches!(one.as_str(), "images" | "rootdir" | "none");
        list(content).into_iter().filter(can).collect()
    }
}

impl State {
    /// The hosts that a parameter names, all of which must exist.
    fn nodes(&self, context: &Context) -> Result<Vec<String>, Fail> {
        let nodes = list(context.param("nodes").unwrap_or_default());
        match nodes.iter().find(|node| !self.hosts.contains_key(*node)) {
            Some(unknown) => Err(Fail::parameter("nodes", format!("no such cluster node '{unknown}'"))),
            None => Ok(nodes),
        }
    }

    /// Gives a storage to these hosts, or to all.
    fn spread(&mut self, id: &str, nodes: &[String]) -> Result<(), Fail> {
        let all: Vec<String> = self.hosts.keys().cloned().collect();
        let hosts = if nodes.is_empty() { &all } else { nodes };
        let Some(storage) = self.storages.get_mut(id) else { return Err(Fail::no_storage(id)) };
        storage.hosts = hosts.iter().cloned().collect();
        for host in hosts {
            let key = if storage.shared { id.to_owned() } else { format!("{host}/{id}") };
            self.stores.entry(key).or_insert_with(|| Store { total: ADDED, ..Store::default() });
        }
        Ok(())
    }
}

/// `POST /storage`
pub(super) fn create(context: &Context) -> Answer {
    context.need("/storage", &["Datastore.Allocate"])?;
    const PLACES: [Rule; 9] = [
        req("storage", STORAGE),
        req("type", Kind::OneOf(TYPES)),
        opt("path", Kind::Text),
        opt("vgname", Kind::Text),
        opt("thinpool", Kind::Text),
        opt("pool", Kind::Text),
        opt("server", Kind::Text),
        opt("export", Kind::Text),
        opt("sparse", Kind::Bool),
    ];
    verify(&context.params, &[&PLACES[..], &COMMON[..]].concat())?;
    let id = context.param("storage").unwrap_or_default();
    let kind = context.param("type").unwrap_or_default();
    let needed: &[&str] = match kind {
        "dir" => &["path"],
        "lvm" => &["vgname"],
        "lvmthin" => &["vgname", "thinpool"],
        "zfspool" => &["pool"],
        "nfs" => &["server", "export"],
        _ => &[],
    };
    for name in needed {
        if context.param(name).is_none() {
            return Err(Fail::parameter(name, "property is missing and it is not optional"));
        }
    }
    context.dc.with(|state| {
        if state.storages.contains_key(id) {
            return Err(Fail::internal(format!("create storage failed: storage ID '{id}' already defined")));
        }
        let mut storage = Storage {
            kind: kind.to_owned(),
            content: Vec::new(),
            shared: context.flag("shared") || matches!(kind, "nfs" | "cifs" | "cephfs" | "rbd" | "pbs"),
            hosts: Default::default(),
            disabled: context.flag("disable"),
        };
        let usual =
            if storage.has_path() { "images,rootdir,vztmpl,iso,backup,snippets" } else { "images,rootdir" };
        storage.content = storage.possible(context.param("content").unwrap_or(usual));
        let nodes = state.nodes(context)?;
        state.storages.insert(id.to_owned(), storage);
        state.spread(id, &nodes)?;
        Ok(Data::from(json!({ "storage": id, "type": kind })))
    })
}

/// `PUT /storage/{storage}`
pub(super) fn update(context: &Context, id: &str) -> Answer {
    context.need("/storage", &["Datastore.Allocate"])?;
    verify(
        &context.params,
        &[&COMMON[..], &[opt("delete", Kind::Text), opt("digest", Kind::Text)]].concat(),
    )?;
    context.dc.with(|state| {
        let nodes = state.nodes(context)?;
        let storage = state.storages.get_mut(id).ok_or_else(|| Fail::no_storage(id))?;
        if let Some(content) = context.param("content") {
            storage.content = storage.possible(content);
        }
        if context.param("disable").is_some() {
            storage.disabled = context.flag("disable");
        }
        if context.param("shared").is_some_and(|_| context.flag("shared") != storage.shared) {
            return Err(Fail::internal("the lab cannot make a storage shared after its creation"));
        }
        let kind = storage.kind.clone();
        let dropped = list(context.param("delete").unwrap_or_default());
        if dropped.iter().any(|name| name == "disable") {
            storage.disabled = false;
        }
        if !nodes.is_empty() || dropped.iter().any(|name| name == "nodes") {
            state.spread(id, &nodes)?;
        }
        Ok(Data::from(json!({ "storage": id, "type": kind })))
    })
}

/// `DELETE /storage/{storage}`: the definition goes, the volumes stay where they are.
pub(super) fn delete(context: &Context, id: &str) -> Answer {
    context.need("/storage", &["Datastore.Allocate"])?;
    verify(&context.params, &[])?;
    context.dc.with(|state| match state.storages.remove(id) {
        Some(_) => Data::null(),
        None => Err(Fail::internal(format!("delete storage failed: storage '{id}' does not exist"))),
    })
}

/// `POST /nodes/{node}/storage/{storage}/content`: an empty volume for a guest.
pub(super) async fn allocate(context: &Context, host: &str, id: &str) -> Answer {
    verify(
        &context.params,
        &[
            req("vmid", VMID),
            req("filename", Kind::Text),
            req("size", Kind::Text),
            opt("format", Kind::OneOf(&["raw", "qcow2", "subvol", "vmdk"])),
        ],
    )?;
    context.need(&format!("/storage/{id}"), &["Datastore.AllocateSpace"])?;
    let vmid = super::vmid(context.param("vmid").unwrap_or_default())?;
    let name = context.param("filename").unwrap_or_default().to_owned();
    // Without a unit it is KiB.
    let size = context.param("size").unwrap_or_default();
    let size = match size.ends_with(|c: char| c.is_ascii_digit()) {
        true => size.parse::<u64>().ok().map(|kib| kib << 10),
        false => parse_size(size),
    };
    let size = size.ok_or_else(|| Fail::parameter("size", "value does not match the regex pattern"))?;
    let _lock = context.dc.lock_storage(host, id).await?;
    context.dc.pace().pass(context.dc.allocate_time(host, id)).await;
    context.dc.with(|state| {
        let definition = state.storages.get(id).ok_or_else(|| Fail::no_storage(id))?;
        if !name.starts_with(&format!("vm-{vmid}-")) {
            return Err(Fail::internal(format!("illegal name '{name}' - should be 'vm-{vmid}-*'")));
        }
        let wanted = if definition.has_path() { format!("{vmid}/{name}") } else { name.clone() };
        if state.store(host, id)?.volumes.contains_key(&wanted) {
            return Err(Fail::internal(format!("disk image '{wanted}' already exists")));
        }
        let format = context.param("format").unwrap_or("raw");
        let made = state.allocate(host, id, vmid, format, size, Blob::default())?;
        let volume = state.remove_volume(host, &made);
        state.store_mut(host, id)?.volumes.extend(volume.map(|volume| (wanted.clone(), volume)));
        Ok(Data::from(json!(format!("{id}:{wanted}"))))
    })
}
