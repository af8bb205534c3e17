//! What an inventory may do that somebody else wrote (`--untrusted`): no more than the operator's own settings list.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use daedal_inventory::{
    Addon, AddonSource, Cluster, EntrySource, ManifestSource, Node, Reach, SecretRef, SecretsPlace, Ssh,
    SshKey, StorePlace, TlsTrust, VaultServer, catalogue,
};
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

    fn tls(&self, what: &str, tls: &TlsTrust, folders: &[PathBuf]) {
        match tls {
            TlsTrust::Insecure => self.refuse(format!("{what} is not verified (`insecure: true`)")),
            TlsTrust::Ca(path) => self.inside(what, path, folders),
            TlsTrust::System | TlsTrust::Fingerprint(_) => {}
        }
    }

    fn inside(&self, what: &str, path: &Path, folders: &[PathBuf]) {
        let outside = |error: std::io::Error| error.kind() != std::io::ErrorKind::NotFound;
        if path.starts_with("~") || file::locate(folders, path, false).is_err_and(outside) {
            self.refuse(format!("{what}: the file {} is outside the inventory's folder", path.display()));
        }
    }

    fn secret(&self, what: &str, reference: &SecretRef, folders: &[PathBuf]) {
        match reference {
            SecretRef::Env(name) => {
                self.variable(name);
            }
            SecretRef::File(path) => self.inside(what, path, folders),
            SecretRef::Sops(value) => self.inside(what, &value.file, folders),
            SecretRef::Vault(field) => self.vault(&field.server, folders),
            SecretRef::Command(_) => self.refuse(format!("{what} is printed by a program (`command`)")),
            SecretRef::Override { variable, otherwise } => {
                self.variable(variable);
                self.secret(what, otherwise, folders);
            }
        }
    }

    fn vault(&self, server: &VaultServer, folders: &[PathBuf]) {
        self.endpoint("`vault.address`", &server.address);
        self.tls("the certificate of Vault", &server.tls, folders);
        for reference in server.auth.secrets() {
            self.secret("`vault.auth`", reference, folders);
        }
    }

    /// Servers are listed as they are written: what your ssh_config makes of a name is your own.
    fn ssh(&self, ssh: &Ssh, folders: &[PathBuf]) {
        for server in ssh.jump.iter().flatten().chain([&ssh.server]) {
            let host = match server.host.contains(':') {
                true => format!("[{}]", server.host),
                false => server.host.clone(),
            };
            self.endpoint("`reach.ssh`", &format!("ssh://{host}:{}", server.port.unwrap_or(22)));
            match &server.key {
                None => {}
                Some(SshKey::File(key)) => self.inside("`reach.ssh.key`", key, folders),
                Some(SshKey::Found(reference)) => self.secret("`reach.ssh.key`", reference, folders),
            }
            if let Some(passphrase) = &server.passphrase {
                self.secret("`reach.ssh.passphrase`", passphrase, folders);
            }
        }
        if let Some(file) = &ssh.known_hosts {
            self.inside("`reach.ssh.knownHosts`", file, folders);
        }
    }

    /// Charts and manifests come from the catalogue's places, or from those that are listed.
    fn addon(&self, addon: &Addon, folders: &[PathBuf]) {
        let known =
            catalogue().find(|entry| addon.entry.as_deref() == Some(entry.name)).map(|entry| entry.source);
        match &addon.source {
            AddonSource::Chart { repo, .. } => {
                if !matches!(known, Some(EntrySource::Chart { repo: known, .. }) if known == repo) {
                    self.endpoint(&format!("the chart of the add-on {}", addon.name), repo);
                }
            }
            AddonSource::Local { path } => {
                self.inside(&format!("the chart of the add-on {}", addon.name), Path::new(path), folders);
            }
            AddonSource::Manifests(list) => {
                for source in list {
                    let ManifestSource::Url { url, .. } = source else { continue };
                    let of_entry = |files: &[(&str, &str)]| files.iter().any(|(known, _)| known == url);
                    if !matches!(known, Some(EntrySource::Manifests { files, .. }) if of_entry(files)) {
                        self.endpoint(&format!("a manifest of the add-on {}", addon.name), url);
                    }
                }
            }
        }
        for (path, reference) in &addon.secret_values {
            self.secret(&format!("`{path}` of the add-on {}", addon.name), reference, folders);
        }
    }

    /// Looks at everything that a command would read or contact for this inventory.
    pub fn look(&self, cluster: &Cluster, folders: &[PathBuf]) {
        let proxmox = &cluster.proxmox;
        self.endpoint("`proxmox.endpoint`", &proxmox.endpoint);
        self.tls("the certificate of Proxmox", &proxmox.tls, folders);
        self.secret("`proxmox.token.secret`", &proxmox.token_secret, folders);
        if origin(&cluster.talos.factory) != origin(USUAL_FACTORY) {
            self.endpoint("`talos.factory`", &cluster.talos.factory);
        }
        self.tls("the certificate of the Image Factory", &cluster.talos.factory_tls, folders);
        if let Some(key) = &cluster.key {
            self.secret("`key`", key, folders);
        }
        match &cluster.secrets {
            SecretsPlace::Store => {}
            SecretsPlace::Sops(path) => self.inside("`secrets.sops`", path, folders),
            SecretsPlace::Vault(bundle) => self.vault(&bundle.server, folders),
        }
        if let StorePlace::S3(store) = &cluster.store {
            self.endpoint("`store.s3.endpoint`", &store.endpoint);
            self.tls("the certificate of the store's server", &store.tls, folders);
            let credentials = [&store.access_key_id, &store.secret_access_key];
            for reference in credentials.into_iter().chain(&store.session_token) {
                self.secret("`store.s3.credentials`", reference, folders);
            }
        }
        if let StorePlace::Vault(place) = &cluster.store {
            self.vault(&place.server, folders);
        }
        for addon in &cluster.addons {
            self.addon(addon, folders);
        }
        match &cluster.reach {
            Reach::Direct => {}
            Reach::Proxy(url) => self.endpoint("`reach.proxy`", url),
            Reach::Ssh(ssh) => self.ssh(ssh, folders),
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
        | Command::Schema { .. }
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
        "ssh" => Some(22),
        "oci" => Some(443),
        _ => None,
    })?;
    Some(format!("{}://{host}:{port}", url.scheme()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_ons_come_from_places_that_are_known_or_listed() {
        let home = include_str!("../../../examples/home/cluster.yaml");
        let home = home.split("\n  addons:").next().unwrap_or(home);
        let digest = "ab".repeat(32);
        let addons = format!(
            "  addons:\n    - cilium\n    - gateway-api\n    - {{name: web, chart: web, repo: 'https://charts.lan', version: 1.0.0}}\n    \
             - {{name: api, chart: 'oci://registry.lan/charts/api', version: 1.0.0, secrets: {{a.b: {{env: API_KEY}}}}}}\n    \
             - {{name: crds, manifests: [{{url: 'https://raw.example.org/a.yaml', sha256: {digest}}}]}}\n  pools:"
        );
        let text = home.replace("  pools:", &addons);
        let source = daedal_inventory::Source { name: "cluster.yaml".into(), text };
        let loaded =
            daedal_inventory::load(&[source], &|_: &Path| Err(std::io::ErrorKind::NotFound.into())).unwrap();
        let policy = Policy::default();
        policy.look(&loaded.cluster, &[]);
        let failure = policy.verdict(Path::new("cluster.yaml")).unwrap_err();
        let of_addons: Vec<&String> =
            failure.causes.iter().filter(|cause| cause.contains("add-on")).collect();
        assert_eq!(
            of_addons,
            [
                "a manifest of the add-on crds (https://raw.example.org:443) is not in `untrusted.endpoints`",
                "the chart of the add-on api (oci://registry.lan:443) is not in `untrusted.endpoints`",
                "the chart of the add-on web (https://charts.lan:443) is not in `untrusted.endpoints`",
            ]
        );
        assert!(failure.causes.iter().any(|cause| cause.contains("API_KEY")), "{:?}", failure.causes);
    }

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
