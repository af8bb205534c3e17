//! How the nodes are reached.

use std::path::PathBuf;

use super::link::link;
use super::reference::secret;
use super::{Context, Refusal};
use crate::cluster::{Reach, Ssh, SshKey, SshServer};
use crate::document::{self, Jump, ReachName, ReachSsh};
use crate::path::Path;

/// The way to the nodes. That exactly one is named was checked before.
pub(crate) fn reach(reach: Option<&document::Reach>, at: &Path<'_>, cx: &mut Context<'_>) -> Option<Reach> {
    let at = at.key("reach");
    let through = match reach {
        None | Some(document::Reach::Named(ReachName::Direct)) => return Some(Reach::Direct),
        Some(document::Reach::Through(through)) => through,
    };
    if let Some(ssh) = &through.ssh {
        return by_ssh(ssh, &at.key("ssh"), cx);
    }
    let proxy = through.proxy.as_ref()?;
    let help = "Write `http://host:port` for HTTP CONNECT or `socks5://host:port`.";
    let url = link(proxy, &["http", "socks5", "socks5h"], help, &at.key("proxy"), cx);
    url.map(|_| Reach::Proxy(proxy.clone()))
}

fn by_ssh(ssh: &ReachSsh, at: &Path<'_>, cx: &mut Context<'_>) -> Option<Reach> {
    let declared = Declared {
        host: &ssh.host,
        user: ssh.user.as_deref(),
        port: ssh.port,
        key: ssh.key.as_ref(),
        agent: ssh.agent,
        passphrase: ssh.passphrase.as_ref(),
    };
    let server = server(&declared, at, cx);
    let jumps_at = at.key("jump");
    let jump = ssh.jump.as_ref().map(|jumps| {
        let jumps = jumps.iter().enumerate().map(|(i, one)| self::jump(one, &jumps_at.index(i), cx));
        // Every one is looked at, so that all that is wrong is said at once.
        jumps.collect::<Vec<Option<SshServer>>>().into_iter().collect::<Option<Vec<_>>>()
    });
    let known_hosts = ssh
        .known_hosts
        .as_ref()
        .map(|file| path("knownHosts", file, "known_hosts", &at.key("knownHosts"), cx));
    Some(Reach::Ssh(Box::new(Ssh {
        server: server?,
        jump: settled(jump)?,
        known_hosts: settled(known_hosts)?,
        proxmox: ssh.proxmox.unwrap_or(false),
    })))
}

fn jump(jump: &Jump, at: &Path<'_>, cx: &mut Context<'_>) -> Option<SshServer> {
    match jump {
        Jump::Text(text) => {
            // Whoever writes a password here must not see it again.
            if text.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
                cx.hide(at);
                let help =
                    "Remove the password, and change it, as it may have been seen. Use a key or the agent.";
                cx.error("literal-secret", at, "This server is written with a password.", help);
                return None;
            }
            cx.take("reach", at, asked(text))
        }
        Jump::Server(spec) => {
            let declared = Declared {
                host: &spec.host,
                user: spec.user.as_deref(),
                port: spec.port,
                key: spec.key.as_ref(),
                agent: spec.agent,
                passphrase: spec.passphrase.as_ref(),
            };
            server(&declared, at, cx)
        }
    }
}

/// A server as it is written, wherever that is.
struct Declared<'a> {
    host: &'a str,
    user: Option<&'a str>,
    port: Option<u16>,
    key: Option<&'a document::SshKey>,
    agent: Option<bool>,
    passphrase: Option<&'a document::SecretRef>,
}

fn server(declared: &Declared<'_>, at: &Path<'_>, cx: &mut Context<'_>) -> Option<SshServer> {
    let host = cx.take("reach", &at.key("host"), host(declared.host));
    let user = declared.user.map(|user| cx.take("reach", &at.key("user"), self::user(user)));
    let key_at = at.key("key");
    let key = declared.key.map(|key| match key {
        document::SshKey::File(file) => path("key", file, "~/.ssh/id_ed25519", &key_at, cx).map(SshKey::File),
        document::SshKey::Found(reference) => secret(reference, &key_at, cx).map(SshKey::Found),
    });
    let agent = declared.agent.unwrap_or(false);
    if agent && declared.key.is_some() {
        let help = "Remove `agent` to use this key, or `key` to use those of the agent.";
        cx.error("reach", &at.key("agent"), "Give a `key` or `agent: true`, not both.", help);
    }
    let passphrase_at = at.key("passphrase");
    if declared.passphrase.is_some() && declared.key.is_none() {
        let help = "Name the key: `key: ~/.ssh/id_ed25519`.";
        cx.error("reach", &passphrase_at, "A `passphrase` is of no use without its `key`.", help);
    }
    let passphrase = declared.passphrase.map(|reference| secret(reference, &passphrase_at, cx));
    Some(SshServer {
        host: host?,
        user: settled(user)?,
        port: declared.port,
        key: settled(key)?,
        agent,
        passphrase: settled(passphrase)?,
    })
}

/// What is given must be right; what is not need not be.
fn settled<T>(given: Option<Option<T>>) -> Option<Option<T>> {
    match given {
        Some(None) => None,
        Some(right) => Some(right),
        None => Some(None),
    }
}

fn path(key: &str, text: &str, example: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<PathBuf> {
    if text.is_empty() || text.contains('\0') {
        cx.error(
            "reach",
            at,
            format!("`{key}` must name a file."),
            format!("For example `{key}: {example}`."),
        );
        return None;
    }
    if text.contains("PRIVATE KEY") {
        cx.hide(at);
        let help = format!(
            "Put it into a file and name that: `{key}: {example}`. Make a new key, as this one may have been seen."
        );
        cx.error("literal-secret", at, "A private key stands in the inventory.", help);
        return None;
    }
    cx.given(at).then(|| PathBuf::from(text))
}

fn host(text: &str) -> Result<String, Refusal> {
    let help =
        "Write a name, an address or an alias of `~/.ssh/config`; `user` and `port` have keys of their own.";
    let fits = !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_ascii_graphic() && !"@/[]".contains(c));
    // One colon is a port; more are an address.
    if fits && text.matches(':').count() != 1 {
        return Ok(text.to_owned());
    }
    Err((format!("`{text}` is not the name of a server."), help.to_owned()))
}

fn user(text: &str) -> Result<String, Refusal> {
    let fits = !text.is_empty()
        && !text.starts_with(['-', '@'])
        && text.chars().all(|c| c.is_ascii_graphic() && !":/".contains(c));
    fits.then(|| text.to_owned()).ok_or_else(|| {
        (format!("`{text}` is not the name of a user."), "For example `user: root`.".to_owned())
    })
}

/// `user@host:port`, as `ssh -J` takes it.
fn asked(text: &str) -> Result<SshServer, Refusal> {
    let wrong = || {
        let help = "Write `host`, `user@host` or `user@host:port`, or an alias of `~/.ssh/config`.";
        (format!("`{text}` is not a server to jump through."), help.to_owned())
    };
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(self::user(user).map_err(|_| wrong())?), rest),
        None => (None, text),
    };
    let (name, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, port)) => (address, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
        None => match rest.split_once(':') {
            Some((name, port)) if !port.contains(':') => (name, Some(port)),
            _ => (rest, None),
        },
    };
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
        None => None,
    };
    Ok(SshServer { host: host(name).map_err(|_| wrong())?, user, port, ..SshServer::default() })
}
