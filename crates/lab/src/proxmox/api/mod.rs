//! The endpoints, one file per family, and the way from a path to its handler.

mod accounts;
mod agent;
mod clone;
mod cluster;
pub(super) mod cluster_objects;
mod config;
pub(super) mod console;
mod content;
mod create;
mod destroy;
mod download;
mod firewall;
mod guests;
pub(super) mod login;
mod migrate;
mod nodes;
mod plain;
mod pools;
mod power;
mod resize;
pub(super) mod snapshot;
mod storage;
mod storages;
mod tasks;
mod template;
mod twice;
mod upload;

use percent_encoding::percent_decode_str;

use super::context::Context;
use super::fail::{Answer, Data, Fail};

/// Finds the host that must do the work, waits for one of its processes, and does it.
pub(super) async fn call(mut context: Context) -> Answer {
    let segments: Vec<String> = context
        .path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let writes = context.method != "GET";
    let host = match parts.as_slice() {
        ["nodes", host, ..] => reachable(&context, host)?,
        _ => context.local.clone(),
    };
    twice::merge(&mut context, &parts)?;
    if writes {
        quorate(&context, &parts)?;
    }
    let duration = if writes { context.dc.durations().write } else { context.dc.durations().read };
    let process = context.dc.process(&host, writes).await;
    context.dc.pace().pass(duration).await;
    let answer = match plain::check(&context, &parts) {
        Ok(()) => dispatch(&context, &parts).await,
        Err(fail) => Err(fail),
    };
    drop(process);
    answer
}

/// What is kept in the cluster's file system cannot be changed without a quorum. Files on storages can, and tasks end.
fn quorate(context: &Context, parts: &[&str]) -> Result<(), Fail> {
    if context.dc.with(|state| state.quorate()) {
        return Ok(());
    }
    match parts {
        ["access", "ticket"] | ["nodes", _, "storage" | "tasks", ..] => Ok(()),
        ["nodes", ..] => Err(Fail::internal("cluster not ready - no quorum?")),
        ["access", ..] => Err(Fail::internal("cfs-lock 'file-user_cfg' error: no quorum!")),
        _ => Err(Fail::internal("no quorum!")),
    }
}

fn reachable(context: &Context, host: &str) -> Result<String, Fail> {
    context.dc.with(|state| match state.hosts.get(host) {
        Some(known) if known.online || host == context.local => Ok(host.to_owned()),
        Some(_) => Err(Fail::new(595, "No route to host")),
        None => Err(Fail::internal(format!(
            "hostname lookup '{host}' failed - failed to get address info for: {host}: Temporary failure in name \
             resolution"
        ))),
    })
}

fn vmid(text: &str) -> Result<u32, Fail> {
    match text.parse::<u32>() {
        Ok(vmid) if (100..=999_999_999).contains(&vmid) => Ok(vmid),
        Ok(_) => Err(Fail::parameter("vmid", "value must have a minimum value of 100")),
        Err(_) => Err(Fail::parameter("vmid", format!("type check ('integer') failed - got '{text}'"))),
    }
}

async fn dispatch(context: &Context, parts: &[&str]) -> Answer {
    match (context.method.as_str(), parts) {
        ("GET", ["version"]) => nodes::version(context),
        ("GET", ["cluster", "resources"]) => cluster::resources(context),
        ("GET", ["cluster", "status"]) => cluster::status(context),
        ("GET", ["cluster", "nextid"]) => cluster::next_id(context),
        ("GET", ["cluster", "tasks"]) => tasks::cluster_list(context),
        (_, ["cluster", "ha", kind @ ("resources" | "rules" | "groups")]) => {
            cluster_objects::kept(context, kind, None)
        }
        (_, ["cluster", "ha", kind @ ("resources" | "rules" | "groups"), id]) => {
            cluster_objects::kept(context, kind, Some(id))
        }
        (_, ["cluster", "backup"]) => cluster_objects::kept(context, "backup", None),
        (_, ["cluster", "backup", id]) => cluster_objects::kept(context, "backup", Some(id)),
        ("GET", ["cluster", "sdn", "zones"]) => rows(Vec::new()),
        ("GET", ["cluster", "sdn", "vnets"]) => cluster::vnets(context),
        (_, ["cluster", "mapping", "pci"]) => cluster_objects::kept(context, "pci", None),
        (_, ["cluster", "mapping", "pci", id]) => cluster_objects::kept(context, "pci", Some(id)),
        ("GET", ["nodes"]) => nodes::list(context),
        ("GET", ["storage"]) => storage::definitions(context),
        ("GET", ["storage", id]) => storage::definition(context, id),
        ("POST", ["storage"]) => storages::create(context),
        ("PUT", ["storage", id]) => storages::update(context, id),
        ("DELETE", ["storage", id]) => storages::delete(context, id),
        ("GET", ["pools"]) => pools::list(context),
        ("POST", ["pools"]) => pools::create(context),
        ("GET", ["pools", id]) => pools::show(context, id),
        ("PUT", ["pools"]) => pools::update(context, context.param("poolid").unwrap_or_default()),
        ("PUT", ["pools", id]) => pools::update(context, id),
        ("DELETE", ["pools"]) => pools::delete(context, context.param("poolid").unwrap_or_default()),
        ("DELETE", ["pools", id]) => pools::delete(context, id),
        (_, ["access", ..]) => accounts::dispatch(context, parts),
        (_, ["nodes", host, rest @ ..]) => node(context, host, rest).await,
        _ => Err(unknown(context)),
    }
}

async fn node(context: &Context, host: &str, parts: &[&str]) -> Answer {
    match (context.method.as_str(), parts) {
        ("GET", ["status"]) => nodes::status(context, host),
        ("GET", ["version"]) => nodes::version(context),
        ("GET", ["time"]) => nodes::time(context, host),
        ("GET", ["network"]) => nodes::network(context, host),
        ("GET", ["query-url-metadata"]) => download::metadata(context, host).await,
        ("GET", ["storage"]) => storage::list(context, host),
        ("GET", ["storage", id, "status"]) => storage::status(context, host, id),
        ("GET", ["storage", id, "content"]) => content::list(context, host, id),
        ("POST", ["storage", id, "content"]) => storages::allocate(context, host, id).await,
        ("GET", ["storage", id, "content", rest @ ..]) if !rest.is_empty() => {
            content::show(context, host, id, &rest.join("/"))
        }
        ("DELETE", ["storage", id, "content", rest @ ..]) if !rest.is_empty() => {
            content::delete(context, host, id, &rest.join("/")).await
        }
        ("POST", ["storage", id, "download-url"]) => download::start(context, host, id),
        ("POST", ["storage", id, "upload"]) => upload::start(context, host, id),
        ("GET", ["tasks"]) => tasks::list(context, host),
        ("GET", ["tasks", upid, "status"]) => tasks::status(context, host, upid),
        ("GET", ["tasks", upid, "log"]) => tasks::log(context, host, upid),
        ("DELETE", ["tasks", upid]) => tasks::abort(context, host, upid),
        ("GET", ["qemu"]) => guests::list(context, host),
        ("POST", ["qemu"]) => create::start(context, host).await,
        (_, ["qemu", id, rest @ ..]) => guest(context, host, id, rest).await,
        _ => Err(unknown(context)),
    }
}

async fn guest(context: &Context, host: &str, id: &str, parts: &[&str]) -> Answer {
    match (context.method.as_str(), parts) {
        ("DELETE", []) => destroy::start(context, host, vmid(id)?).await,
        ("GET", ["config"]) => config::show(context, host, vmid(id)?),
        ("GET", ["pending"]) => config::pending(context, host, vmid(id)?),
        ("PUT", ["config"]) => config::put(context, host, vmid(id)?).await,
        ("POST", ["config"]) => config::post(context, host, vmid(id)?),
        ("PUT", ["resize"]) => resize::start(context, host, vmid(id)?),
        ("GET", ["status", "current"]) => guests::current(context, host, vmid(id)?),
        ("POST", ["status", "start"]) => power::start(context, host, vmid(id)?),
        ("POST", ["status", "stop"]) => power::stop(context, host, vmid(id)?),
        ("POST", ["status", "shutdown"]) => power::shutdown(context, host, vmid(id)?),
        ("POST", ["status", "reboot"]) => power::reboot(context, host, vmid(id)?),
        ("POST", ["status", "reset"]) => power::reset(context, host, vmid(id)?),
        ("POST", ["clone"]) => clone::start(context, host, vmid(id)?).await,
        ("POST", ["migrate"]) => migrate::start(context, host, vmid(id)?),
        ("POST", ["template"]) => template::start(context, host, vmid(id)?),
        (_, ["snapshot", rest @ ..]) => snapshot::dispatch(context, host, vmid(id)?, rest),
        (_, ["firewall", rest @ ..]) => firewall::firewall(context, host, vmid(id)?, rest),
        ("POST", ["termproxy"]) => console::open(context, host, vmid(id)?),
        ("GET", ["vncwebsocket"]) => console::attach(context, vmid(id)?),
        (_, ["agent", command]) => agent::run(context, host, vmid(id)?, command).await,
        _ => Err(unknown(context)),
    }
}

fn unknown(context: &Context) -> Fail {
    Fail::new(501, format!("Method '{} {}' not implemented", context.method, context.path))
}

/// A list as the API prints it.
fn rows(rows: Vec<serde_json::Value>) -> Answer {
    Ok(Data::from(serde_json::Value::Array(rows)))
}
