//! What a usable inventory says that deserves a second look: mostly what is less safe than it could be.
//!
//! Findings never make an inventory unusable. Their ids are those of [`rules`]; an inventory accepts some with `lint.ignore`.

mod addons;
mod patches;
mod rules;

pub use rules::{Rule, rule, rules};

use crate::cluster::{BootConfig, Cluster, FirstContact, Reach, Role};
use crate::diagnostic::{Finding, Severity};
use crate::document::{self, Document};
use crate::options::{Encryption, EncryptionKey};
use crate::path::Path;
use crate::resolve::Context;
use crate::suggest::nearest;
use crate::yaml::{Node, Span};

/// Finds what deserves a second look.
pub(crate) fn lint<'a>(document: &Document, cluster: &Cluster, cx: &'a Context<'_>) -> Lint<'a> {
    let mut lint = Lint { findings: Vec::new(), sources: Vec::new(), root: cx.root, texts: cx.sources.len() };
    let (root, spec) = (Path::Root, &document.spec);
    let at = root.key("spec");
    proxmox(cluster, &at, &mut lint);
    secrets(spec, &at, cx, &mut lint);
    boot(cluster, &at, &mut lint);
    registries(cluster, &at, &mut lint);
    manifests(cluster, &at, &mut lint);
    disks(cluster, &at, &mut lint);
    addons::addons(spec, cluster, &at, &mut lint);
    if cluster.outputs.are_plain() {
        lint.found(
            "plain-outputs",
            &at.key("outputs"),
            "The files for the cluster's users are not encrypted.",
        );
    }
    let production = |name: &str| matches!(name.to_ascii_lowercase().as_str(), "prod" | "production");
    if cluster.environment.as_deref().is_some_and(production) && !cluster.protect {
        lint.found(
            "unprotected",
            &at.key("environment"),
            "This is a production cluster without `protect: true`.",
        );
    }
    if !cluster.kubernetes.no_discovery && cluster.kubernetes.discovery_service.is_none() {
        let message = "Nodes find each other through https://discovery.talos.dev/.";
        lint.found("public-discovery", &at.key("kubernetes"), message);
    }
    if let Reach::Ssh(ssh) = &cluster.reach
        && ssh.server.user.as_deref() == Some("root")
    {
        let reach = at.key("reach");
        lint.found("root-ssh", &reach.key("ssh").key("user"), "SSH logs in as root.");
    }
    let filters = patches::patches(cluster, cx, &mut lint);
    if !filters {
        lint.found("no-ingress-firewall", &at, "No patch declares Talos's ingress firewall.");
    }
    lint
}

/// What was found, and the texts besides the inventory that it points into.
pub(crate) struct Lint<'a> {
    pub(crate) findings: Vec<Finding>,
    pub(crate) sources: Vec<crate::Source>,
    root: &'a Node,
    texts: usize,
}

impl Lint<'_> {
    /// Notes a finding at a path of the inventory.
    fn found(&mut self, id: &'static str, at: &Path<'_>, message: impl Into<String>) {
        self.push(id, at.point(self.root), message, false);
    }

    /// Notes a finding in a patch, not a line of which is shown: it may hold secrets.
    fn found_in_patch(&mut self, id: &'static str, span: Span, message: impl Into<String>) {
        self.push(id, span, message, true);
    }

    fn push(&mut self, id: &'static str, span: Span, message: impl Into<String>, is_unquoted: bool) {
        let Some(rule) = rule(id) else { return };
        let finding = Finding::error(rule.id, span, message).help(rule.help);
        self.findings.push(Finding { severity: rule.severity, is_unquoted, ..finding });
    }
}

/// The ids that an inventory accepts; one that is unknown, or an error's, is an error.
pub(crate) fn ignored(spec: &document::Spec, cx: &mut Context<'_>) -> Vec<String> {
    let ids = spec.lint.as_ref().and_then(|lint| lint.ignore.clone()).unwrap_or_default();
    let root = Path::Root;
    let spec_at = root.key("spec");
    let lint_at = spec_at.key("lint");
    let at = lint_at.key("ignore");
    for (i, id) in ids.iter().enumerate() {
        if let Err((message, help)) = can_be_ignored(id) {
            cx.error("lint", &at.index(i), message, help);
        }
    }
    ids
}

/// Whether an id is one of a warning or a note; else what is wrong, and what to do.
///
/// # Errors
/// A sentence about what is wrong with the id, and a suggestion.
pub fn can_be_ignored(id: &str) -> Result<(), (String, String)> {
    match rule(id) {
        Some(rule) if rule.severity == Severity::Error => {
            let help = "Only warnings and notes can be ignored.".to_owned();
            Err((format!("`{id}` is an error and cannot be ignored."), help))
        }
        Some(_) => Ok(()),
        None => {
            let known: Vec<&str> =
                rules().filter(|rule| rule.severity != Severity::Error).map(|rule| rule.id).collect();
            let help = match nearest(id, &known) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => format!("Known are {}.", known.join(", ")),
            };
            Err((format!("`{id}` is not the id of a finding."), help))
        }
    }
}

fn proxmox(cluster: &Cluster, at: &Path<'_>, lint: &mut Lint<'_>) {
    if cluster.proxmox.token_id.starts_with("root@pam!") {
        let proxmox = at.key("proxmox");
        let token = proxmox.key("token");
        lint.found("root-token", &token.key("id"), "The API token belongs to root@pam.");
    }
}

/// Secret references in plain files, wherever they stand: `secret`, `passphrase`, credentials.
fn secrets(spec: &document::Spec, at: &Path<'_>, cx: &Context<'_>, lint: &mut Lint<'_>) {
    let mut look = |file: Option<&String>, at: &Path<'_>| {
        let Some(file) = file else { return };
        if cx.files.is_encrypted(std::path::Path::new(file)) == Some(false) {
            let message = format!("The secret in {file} is not encrypted.");
            lint.found("unencrypted-secret-file", &at.key("file"), message);
        }
    };
    let proxmox = at.key("proxmox");
    let token = proxmox.key("token");
    look(spec.proxmox.token.secret.file.as_ref(), &token.key("secret"));
    if let Some(s3) = spec.store.as_ref().and_then(|store| store.s3.as_ref()) {
        let store = at.key("store");
        let s3_at = store.key("s3");
        let at = s3_at.key("credentials");
        look(s3.credentials.access_key_id.file.as_ref(), &at.key("accessKeyId"));
        look(s3.credentials.secret_access_key.file.as_ref(), &at.key("secretAccessKey"));
    }
    let addons = at.key("addons");
    for (i, addon) in spec.addons.iter().flatten().enumerate() {
        let addon_at = addons.index(i);
        let secrets = addon.settings().and_then(|settings| settings.secrets.as_ref());
        for (path, secret) in secrets.into_iter().flatten() {
            look(secret.file.as_ref(), &addon_at.key("secrets").key(path));
        }
    }
    for (host, registry) in spec.registries.iter().flatten() {
        let registries = at.key("registries");
        let registry_at = registries.key(host);
        if let Some(auth) = &registry.auth {
            let at = registry_at.key("auth");
            let secrets =
                [("password", &auth.password), ("auth", &auth.auth), ("identityToken", &auth.identity_token)];
            for (key, secret) in secrets {
                look(secret.as_ref().and_then(|secret| secret.file.as_ref()), &at.key(key));
            }
        }
        if let Some(key) = registry.tls.as_ref().and_then(|tls| tls.client_key.as_ref()) {
            let at = registry_at.key("tls");
            look(key.file.as_ref(), &at.key("clientKey"));
        }
    }
}

fn boot(cluster: &Cluster, at: &Path<'_>, lint: &mut Lint<'_>) {
    let boot_at = at.key("boot");
    match cluster.boot.first_contact {
        Some(FirstContact::Tofu) => {
            let message = "The first contact with a new node is not verified.";
            lint.found("trust-on-first-use", &boot_at.key("firstContact"), message);
        }
        None if cluster.boot.through_maintenance() => {
            let message = "The first contact is verified only where the token can read serial consoles.";
            lint.found("trust-on-first-use", &boot_at.key("config"), message);
        }
        _ => {}
    }
    let key = if cluster.boot.iso.is_some() { "iso" } else { "image" };
    if let Some(volume) = cluster.boot.volume() {
        lint.found("unverified-volume", &boot_at.key(key), format!("{volume} is used as it is."));
    } else if cluster.talos.image_sha256.is_none() && cluster.boot.config != BootConfig::Meta {
        let message = "The SHA-256 of the image is not declared.";
        lint.found("unpinned-image", &at.key("talos"), message);
    }
}

fn registries(cluster: &Cluster, at: &Path<'_>, lint: &mut Lint<'_>) {
    let registries = at.key("registries");
    for (host, registry) in &cluster.registries {
        if registry.tls.as_ref().is_some_and(|tls| tls.insecure) {
            let of_host = registries.key(host);
            let message = format!("Nodes do not verify the certificate of the registry {host}.");
            lint.found("insecure", &of_host.key("tls"), message);
        }
    }
    let mirrors = at.key("registryMirrors");
    for (registry, mirror) in &cluster.registry_mirrors {
        let of_registry = mirrors.key(registry);
        let endpoints = of_registry.key("endpoints");
        for (i, endpoint) in mirror.endpoints.iter().enumerate() {
            if endpoint.starts_with("http://") {
                let message = format!("Images of {registry} come over plain HTTP.");
                lint.found("plain-http", &endpoints.index(i), message);
            }
        }
    }
}

/// Parts of an address that stand for whatever is newest.
const MOVING: [&str; 5] = ["main", "master", "latest", "head", "nightly"];

fn manifests(cluster: &Cluster, at: &Path<'_>, lint: &mut Lint<'_>) {
    let kubernetes = at.key("kubernetes");
    let manifests = kubernetes.key("cniManifests");
    for (i, address) in cluster.kubernetes.cni_manifests.iter().enumerate() {
        let at = manifests.index(i);
        if address.starts_with("http://") {
            lint.found("plain-http", &at, "The manifest comes over plain HTTP.");
        }
        let path = address.split(['?', '#']).next().unwrap_or_default();
        if path.split('/').any(|part| MOVING.iter().any(|moving| part.eq_ignore_ascii_case(moving))) {
            lint.found("moving-reference", &at, "The manifest is whatever is newest at its address.");
        }
    }
}

fn disks(cluster: &Cluster, at: &Path<'_>, lint: &mut Lint<'_>) {
    let encrypted = |encryption: &Option<Encryption>| {
        encryption.as_ref().is_some_and(|one| !one.state.is_empty() && !one.ephemeral.is_empty())
    };
    let at = at.key("machine");
    let plain: Vec<&str> = (cluster.nodes.iter())
        .filter(|node| !encrypted(&node.machine.encryption))
        .map(|node| node.name.as_str())
        .collect();
    if !plain.is_empty() {
        let which =
            if plain.len() == cluster.nodes.len() { "all nodes".to_owned() } else { plain.join(", ") };
        let message = format!("The partitions STATE and EPHEMERAL are not both encrypted: {which}.");
        lint.found("unencrypted-disks", &at, message);
    }
    let by_node_id = |keys: &[EncryptionKey]| keys.iter().any(|key| key.node_id == Some(true));
    let weak: Vec<&str> = (cluster.nodes.iter())
        .filter(|node| {
            let encryption = node.machine.encryption.as_ref();
            encryption.is_some_and(|one| by_node_id(&one.state) || by_node_id(&one.ephemeral))
        })
        .map(|node| if node.role == Role::ControlPlane { "control planes" } else { "workers" })
        .collect();
    if let Some(first) = weak.first() {
        let both = weak.iter().any(|role| role != first);
        let which = if both { "control planes and workers" } else { first };
        let message = format!("The key follows from the node's UUID: {which}.");
        lint.found("node-id-encryption", &at.key("encryption"), message);
    }
}
