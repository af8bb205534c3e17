//! The Proxmox side: endpoint, token, trust, hosts and storages.

use std::collections::HashMap;

use super::link::link;
use super::reference::secret;
use super::size::{self, Of};
use super::trust::{PROXMOX, trust};
use super::{Context, name};
use crate::cluster::{Capacity, Host, Proxmox};
use crate::document;
use crate::path::Path;

const DEFAULT_OVERCOMMIT: f64 = 4.0;

pub(crate) fn proxmox(proxmox: &document::Proxmox, at: &Path<'_>, cx: &mut Context<'_>) -> Option<Proxmox> {
    let at = at.key("proxmox");
    let endpoint = endpoint(&proxmox.endpoint, &at.key("endpoint"), cx);
    let token_at = at.key("token");
    let token_id = token_id(&proxmox.token.id, &token_at.key("id"), cx);
    let token_secret = secret(&proxmox.token.secret, &token_at.key("secret"), cx);
    let tls = trust(proxmox.tls.as_ref(), &at.key("tls"), &PROXMOX, cx);
    let hosts = hosts(&proxmox.hosts, &at.key("hosts"), cx);
    let storage_at = at.key("storage");
    let storages =
        [("disks", &proxmox.storage.disks), ("images", &proxmox.storage.images)].map(|(key, id)| {
            cx.take("name", &storage_at.key(key), name::proxmox_id("storage", id)).map(|()| id.clone())
        });
    let own = [("templates", &proxmox.storage.templates), ("cloudInit", &proxmox.storage.cloud_init)];
    let [template_disks, cloud_init_drives] = own.map(|(key, id)| {
        let id = id.as_ref().filter(|id| **id != proxmox.storage.disks)?;
        cx.take("name", &storage_at.key(key), name::proxmox_id("storage", id)).map(|()| id.clone())
    });
    let bridge = proxmox.bridge.clone().unwrap_or_else(|| "vmbr0".to_owned());
    let bridge_ok = cx.take("name", &at.key("bridge"), name::proxmox_id("bridge", &bridge));
    if let Some(pool) = &proxmox.pool {
        cx.take("name", &at.key("pool"), name::proxmox_id("resource pool", &pool.replace('/', "-")));
    }
    let reserve = match &proxmox.memory_reserve {
        Some(size) => cx.take("size", &at.key("memoryReserve"), size::parse(&size.0, Of::Memory)),
        None => Some(size::GIB),
    };
    let [disks, images] = storages;
    bridge_ok?;
    Some(Proxmox {
        endpoint: endpoint?,
        token_id: token_id?,
        token_secret: token_secret?,
        tls: tls?,
        hosts,
        disks_storage: disks?,
        images_storage: images?,
        template_disks,
        cloud_init_drives,
        bridge,
        vlan: proxmox.vlan,
        pool: proxmox.pool.clone(),
        cpu_overcommit: proxmox.cpu_overcommit.unwrap_or(DEFAULT_OVERCOMMIT),
        disk_overcommit: proxmox.disk_overcommit.unwrap_or(1.0),
        memory_reserve: reserve?,
    })
}

fn endpoint(text: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    let help = if text.contains("://") {
        "Write it as `https://host:8006`.".to_owned()
    } else {
        format!("Did you mean `https://{text}`?")
    };
    let url = link(text, &["https", "http"], &help, at, cx)?;
    if url.scheme() == "http" {
        let help =
            format!("Proxmox speaks HTTPS: write `https{}`.", text.strip_prefix("http").unwrap_or(text));
        cx.error("plain-http", at, "Over plain HTTP the token would be readable by anyone on the way.", help);
        return None;
    }
    let host = url.host_str()?;
    let base = match url.port() {
        Some(port) => format!("https://{host}:{port}"),
        None => format!("https://{host}"),
    };
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        cx.error("url", at, "The endpoint is the server alone, without a path.", format!("Write `{base}`."));
        return None;
    }
    if url.port().is_none() {
        let message = format!("`{text}` names no port, so 443 is used; Proxmox itself listens on 8006.");
        cx.warn("port", at, message, format!("Unless a proxy stands in front of it, write `{base}:8006`."));
    }
    cx.given(at).then_some(base)
}

fn token_id(text: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    if let Some((id, _)) = text.split_once('=') {
        cx.hide(at);
        let help = format!(
            "Keep `id: {id}`, put the part after `=` into an environment variable and name that: \
             `secret: {{env: PROXMOX_TOKEN_SECRET}}`. Make a new token, as this one may have been seen."
        );
        cx.error("literal-secret", at, "The token's secret stands in its id.", help);
        return None;
    }
    let word = |s: &str| {
        !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let parts = text.rsplit_once('!').and_then(|(user, token)| Some((user.rsplit_once('@')?, token)));
    let fits = parts.is_some_and(|((user, realm), token)| {
        let user_ok = !user.is_empty()
            && !user.contains(|c: char| c.is_whitespace() || c.is_control() || ":/!".contains(c));
        user_ok && word(realm) && word(token)
    });
    if !text.contains(['@', '!']) {
        // Whoever writes this may have put the secret itself here.
        cx.hide(at);
        let help = "It has the form `user@realm!name`, for example `daedal@pve!cli`.";
        cx.error("token", at, "This is not the id of an API token.", help);
        return None;
    }
    let checked = if fits {
        Ok(text.to_owned())
    } else {
        Err((
            format!("`{text}` is not the id of an API token."),
            "It has the form `user@realm!name`, for example `daedal@pve!cli`.".to_owned(),
        ))
    };
    cx.take("token", at, checked)
}

fn hosts(hosts: &[document::Host], at: &Path<'_>, cx: &mut Context<'_>) -> Vec<Host> {
    if hosts.is_empty() {
        cx.error("hosts", at, "No Proxmox host may be used.", "Name at least one, as in `hosts: [atlas]`.");
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut list = Vec::new();
    for (i, host) in hosts.iter().enumerate() {
        let item_at = at.index(i);
        let spec_at = item_at.key("name");
        let (name, spec, name_at) = match host {
            document::Host::Name(name) => (name, None, &item_at),
            document::Host::Spec(spec) => (&spec.name, Some(spec), &spec_at),
        };
        let capacity = spec.and_then(|s| capacity(s, &item_at, cx));
        if cx.take("name", name_at, name::proxmox_id("host", name)).is_none() {
            continue;
        }
        if seen.insert(name, i).is_some() {
            cx.error("hosts", name_at, format!("The host `{name}` is named twice."), "Keep one.");
            continue;
        }
        list.push(Host { name: name.clone(), capacity });
    }
    list
}

fn capacity(host: &document::HostSpec, at: &Path<'_>, cx: &mut Context<'_>) -> Option<Capacity> {
    let capacity = host.capacity.as_ref()?;
    let at = at.key("capacity");
    let mut amount = |key, size: Option<&document::Size>, of| {
        size.and_then(|s| cx.take("size", &at.key(key), size::parse(&s.0, of)))
    };
    let memory = amount("memory", capacity.memory.as_ref(), Of::Memory);
    let disk = amount("disk", capacity.disk.as_ref(), Of::Disk);
    Some(Capacity { cores: capacity.cores, memory, disk })
}
