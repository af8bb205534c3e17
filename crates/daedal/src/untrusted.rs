//! What an inventory may do that somebody else wrote (`--untrusted`): no more than the operator's own settings list.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use daedal_inventory::{Cluster, Node, Reach, SecretRef, TlsTrust};
use ipnet::IpNet;
use serde::Deserialize;

use crate::cli::Command;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::file;

/// The Image Factory that is used where an inventory names none.
const USUAL_FACTORY: &str = "https://factory.talos.dev";

/// What the operator lists for inventories of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Listed {
    /// Environment variables that may be read.
    pub variables: Vec<String>,
    /// Proxmox, Image Factories, proxies and API servers that may be contacted, as `https://host:port`.
    pub endpoints: Vec<String>,
    /// Networks in which nodes may be contacted.
    pub networks: Vec<IpNet>,
}

/// What is allowed to an inventory of somebody else, and what it asked for besides.
#[derive(Debug, Default)]
pub struct Policy {
    listed: Listed,
    refused: RefCell<BTreeSet<String>>,
}

impl Policy {
    /// A policy of what is listed.
    pub fn new(listed: Listed) -> Self {
        Self { listed, refused: RefCell::default() }
    }

    /// Whether a variable may be read; remembered if not.
    pub fn variable(&self, name: &str) -> bool {
        let allowed = self.listed.variables.iter().any(|listed| listed == name);
        if !allowed {
            self.refuse(format!("the environment variable {name} is not in `untrusted.variables`"));
        }
        allowed
    }

    fn refuse(&self, why: String) {
        self.refused.borrow_mut().insert(why);
    }

    fn endpoint(&self, what: &str, url: &str) {
        let Some(origin) = origin(url) else {
            return self.refuse(format!("{what} is not the plain address of a server"));
        };
        let mut listed = self.listed.endpoints.iter().filter_map(|listed| self::origin(listed));
        if listed.all(|listed| listed != origin) {
            self.refuse(format!("{what} ({origin}) is not in `untrusted.endpoints`"));
        }
    }

    fn tls(&self, what: &str, tls: &TlsTrust, folder: &Path) {
        match tls {
            TlsTrust::Insecure => self.refuse(format!("{what} is not verified (`insecure: true`)")),
            TlsTrust::Ca(path) => self.inside(what, path, folder),
            TlsTrust::System | TlsTrust::Fingerprint(_) => {}
        }
    }

    fn inside(&self, what: &str, path: &Path, folder: &Path) {
        let outside = |error: std::io::Error| error.kind() != std::io::ErrorKind::NotFound;
        if path.starts_with("~") || file::locate(folder, path, false).is_err_and(outside) {
            self.refuse(format!("{what}: the file {} is outside the inventory's folder", path.display()));
        }
    }

    /// Looks at everything that a command would read or contact for this inventory.
    pub fn look(&self, cluster: &Cluster, folder: &Path) {
        let proxmox = &cluster.proxmox;
        self.endpoint("`proxmox.endpoint`", &proxmox.endpoint);
        self.tls("the certificate of Proxmox", &proxmox.tls, folder);
        match &proxmox.token_secret {
            SecretRef::Env(name) => {
                self.variable(name);
            }
            SecretRef::File(path) => self.inside("`proxmox.token.secret`", path, folder),
        }
        if origin(&cluster.talos.factory) != origin(USUAL_FACTORY) {
            self.endpoint("`talos.factory`", &cluster.talos.factory);
        }
        self.tls("the certificate of the Image Factory", &cluster.talos.factory_tls, folder);
        if let Reach::Proxy(url) = &cluster.reach {
            self.endpoint("`reach.proxy`", url);
        }
        let inside = |address| self.listed.networks.iter().any(|network| network.contains(&address));
        for address in cluster.nodes.iter().filter_map(Node::ip).chain(cluster.network.vip) {
            if !inside(address) {
                self.refuse(format!("the address {address} is not in `untrusted.networks`"));
            }
        }
        match cluster.kubernetes.endpoint_host.as_deref().map(str::parse) {
            Some(Ok(address)) if inside(address) => {}
            Some(_) => {
                let url = cluster.kubernetes.endpoint_url().unwrap_or_default();
                self.endpoint("`kubernetes.endpoint`", &url);
            }
            None => {}
        }
    }

    /// Refuses the inventory if it asked for more than is listed.
    pub fn verdict(&self, inventory: &Path) -> Outcome<()> {
        let refused = self.refused.borrow();
        if refused.is_empty() {
            return Ok(());
        }
        let inventory = inventory.display();
        let message = format!("the untrusted inventory {inventory} asks for more than your settings allow");
        let mut failure = Failure::new(Exit::Denied, message);
        failure.causes = refused.iter().cloned().collect();
        Err(failure.hint("Nothing was contacted. List what is right in your settings (docs/ci.md)."))
    }
}

/// Refuses commands that change something, or that hand out secrets.
pub fn allows(command: &Command) -> Outcome<()> {
    match command {
        Command::Check { .. }
        | Command::Plan { .. }
        | Command::Status { .. }
        | Command::Inventory(_)
        | Command::Completions { .. } => Ok(()),
        _ => Err(Failure::new(Exit::Usage, "`--untrusted` allows only check, plan, status and inventory")
            .hint("Everything else changes something or hands out secrets: review the inventory first.")),
    }
}

/// Scheme, host and port of a URL that has no credentials in it.
fn origin(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    let host = url.host_str().filter(|host| !host.is_empty() && plain)?.to_ascii_lowercase();
    let port = url.port_or_known_default().or(match url.scheme() {
        "socks5" | "socks5h" => Some(1080),
        _ => None,
    })?;
    Some(format!("{}://{host}:{port}", url.scheme()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_as_a_whole() {
        assert_eq!(origin("https://Atlas.lan:8006/").as_deref(), Some("https://atlas.lan:8006"));
        assert_eq!(origin("https://factory.talos.dev").as_deref(), Some("https://factory.talos.dev:443"));
        assert_eq!(origin("socks5://[fd00::1]").as_deref(), Some("socks5://[fd00::1]:1080"));
        for bad in ["atlas.lan:8006", "https://me:pw@atlas.lan", "https://", "file:///etc/passwd", ""] {
            assert_eq!(origin(bad), None, "{bad}");
        }
    }
}
