//! Faults of a machine config that Talos notices late or not at all.

mod conflicts;
mod containers;
mod expression;
mod firewall;
mod images;
mod interfaces;
mod kubernetes;
mod links;
mod network;
mod node;
mod pem;
mod routing;
mod rules;
mod runtime_spec;
mod services;
mod storage;
mod system;
mod volumes;

use std::{collections::HashSet, fmt};

use yaml_serde::Value;

use crate::config::{
    contract::Release,
    document::{DocumentId, MachineConfig},
    options::Role,
    schema::{self, Misfit},
    url::Url,
};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, but probably not as meant.
    Warning,
    /// It does not work.
    Error,
}

/// Something wrong with a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// How bad it is.
    pub severity: Severity,
    /// Where: a path of the main document, or another document's kind and name.
    pub place: String,
    /// What is wrong, as a sentence without its subject.
    pub message: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl MachineConfig {
    /// Everything wrong with a config for this release of Talos that can be seen without a node, worst first.
    pub fn lint(&self, release: Release) -> Vec<Lint> {
        let mut found = Findings::default();
        self.lint_keys(release, &mut found);
        let read =
            self.documents.iter().map(|document| schema::as_read(document, &DocumentId::of(document).kind));
        Self { documents: read.collect() }.lint_as_read(release, found)
    }

    fn lint_as_read(&self, release: Release, mut found: Findings) -> Vec<Lint> {
        self.lint_main(&mut found);
        self.lint_documents(release, &mut found);
        self.lint_rules(&mut found);
        self.lint_conflicts(release, &mut found);
        self.lint_network(&mut found);
        self.lint_links(release, &mut found);
        self.lint_interfaces(&mut found);
        self.lint_routing(&mut found);
        self.lint_firewall(&mut found);
        self.lint_volumes(release, &mut found);
        self.lint_storage(release, &mut found);
        self.lint_node(&mut found);
        self.lint_services(release, &mut found);
        self.lint_system(&mut found);
        self.lint_containers(&mut found);
        self.lint_runtime_spec(release, &mut found);
        self.lint_images(release, &mut found);
        self.lint_pem(release, &mut found);
        self.lint_kubernetes(release, &mut found);
        let mut lints = found.0;
        lints.sort_by_key(|lint| std::cmp::Reverse(lint.severity));
        lints
    }

    fn lint_main(&self, found: &mut Findings) {
        if self.get("machine").is_none() || self.get("cluster").is_none() {
            found.error("the main document", "`machine` and `cluster` are both needed");
            return;
        }
        if self.get("persist").and_then(Value::as_bool) == Some(false) {
            found.error("persist", "must be true");
        }
        match self.endpoint().map(endpoint_host) {
            None => found.error("cluster.controlPlane.endpoint", "is missing"),
            Some(None) => {
                found.error("cluster.controlPlane.endpoint", "is not of the form https://host:port");
            }
            Some(Some(_)) => {}
        }
        found.errors("cluster.controlPlane.endpoint", self.endpoint().and_then(Url::endpoint_fault));
        for needed in ["machine.token", "cluster.token"] {
            if self.text(needed).is_none_or(str::is_empty) {
                found.error(needed, "is missing");
            }
        }
        // A worker signs nothing: those that it accepts are enough for it.
        let accepted = self.get("machine.acceptedCAs").and_then(Value::as_sequence);
        let accepts = self.role() == Some(Role::Worker) && accepted.is_some_and(|all| !all.is_empty());
        if self.text("machine.ca.crt").is_none_or(str::is_empty) && !accepts {
            found.error("machine.ca.crt", "is missing");
        }
        if self.text("cluster.ca.crt").is_none_or(str::is_empty)
            && self.of_kind("KubeAPIServerCAConfig").next().is_none()
        {
            found.error("cluster.ca.crt", "is missing");
        }
        self.lint_private_keys(found);
        let uki = self.get("machine.install.grubUseUKICmdline").and_then(Value::as_bool) == Some(true);
        let args = self.get("machine.install.extraKernelArgs").and_then(Value::as_sequence);
        if uki && args.is_some_and(|args| !args.is_empty()) {
            found.error(
                "machine.install.extraKernelArgs",
                "cannot stand beside grubUseUKICmdline; put kernel arguments into the image",
            );
        }
        let kubespan = self.get("machine.network.kubespan.enabled").and_then(Value::as_bool) == Some(true)
            || self
                .of_kind("KubeSpanConfig")
                .any(|d| d.get("enabled").and_then(Value::as_bool) == Some(true));
        let discovery = self.get("cluster.discovery.enabled").and_then(Value::as_bool) == Some(true)
            || self.of_kind("DiscoveryServiceConfig").next().is_some();
        if kubespan && !discovery {
            found.error("cluster.discovery.enabled", "must be true for KubeSpan");
        }
    }

    /// Control planes need the authorities' keys, workers must not have them.
    fn lint_private_keys(&self, found: &mut Findings) {
        let private = [
            ("machine.ca.key", "", ""),
            ("cluster.ca.key", "KubeAPIServerCAConfig", "issuingCA.key"),
            ("cluster.etcd.ca.key", "", ""),
            ("cluster.serviceAccount.key", "KubeServiceAccountConfig", "issuer.privateKey"),
        ];
        let present = |(path, kind, inner): &(&str, &str, &str)| {
            self.text(path)
                .or_else(|| self.in_document(kind, inner)?.as_str())
                .is_some_and(|key| !key.is_empty())
        };
        match self.role() {
            None => found.error("machine.type", "is neither `controlplane` nor `worker`"),
            Some(Role::ControlPlane) => {
                for key in private.iter().filter(|key| !present(key)) {
                    found.error(key.0, "is missing; a control plane needs it");
                }
            }
            Some(Role::Worker) => {
                for key in private.iter().filter(|key| present(key)) {
                    found.error(key.0, "must not be on a worker");
                }
                if self.get("cluster.etcd").is_some_and(is_set) {
                    found.error("cluster.etcd", "must not be on a worker");
                }
            }
        }
    }

    /// What a node of this release of Talos cannot even read.
    pub fn misfits(&self, release: Release) -> Vec<Misfit> {
        self.misfits_by_document(release).flat_map(|(_, misfits)| misfits).collect()
    }

    fn misfits_by_document(&self, release: Release) -> impl Iterator<Item = (DocumentId, Vec<Misfit>)> {
        self.documents.iter().map(move |document| {
            let id = DocumentId::of(document);
            let mut misfits = schema::misfits(document, &id.kind, release.minor());
            misfits.extend(schema::empties(document, &id.kind));
            (id, misfits)
        })
    }

    fn lint_keys(&self, release: Release, found: &mut Findings) {
        for (id, misfits) in self.misfits_by_document(release) {
            for misfit in misfits {
                let place = if id.kind.is_empty() || id.kind == misfit.path {
                    misfit.path
                } else {
                    format!("{id}: {}", misfit.path)
                };
                found.error(&place, &misfit.message);
            }
        }
    }

    fn lint_documents(&self, release: Release, found: &mut Findings) {
        let mut seen = HashSet::new();
        for document in &self.documents {
            let id = DocumentId::of(document);
            if !seen.insert(id.clone()) {
                found.error(&id.to_string(), "stands there twice");
            }
        }
        for document in self.of_kind("HostnameConfig") {
            let name = text(Some(document), "hostname");
            let auto = text(Some(document), "auto").to_ascii_lowercase();
            match (auto.as_str(), name) {
                ("", "") => found.error("HostnameConfig", "sets no name"),
                ("off", "") if !release.takes_hostname_off() => found.error(
                    "HostnameConfig",
                    "leaves the name to DHCP, which Talos takes from v1.12.9 and v1.13.3 on only; leave the document out",
                ),
                ("stable", name) if !name.is_empty() => {
                    found.error("HostnameConfig", "sets both `auto` and `hostname`; set auto: \"off\"");
                }
                (_, "") => {}
                (_, name) if name.len() > 253 => found.error("HostnameConfig", "sets a name that is too long"),
                (_, name) => {
                    if name.split('.').next().is_none_or(|label| label.is_empty() || label.len() > 63) {
                        found.error(
                            "HostnameConfig",
                            "sets a name that is too long or empty before its first dot",
                        );
                    }
                }
            }
        }
    }
}

/// What is at a dotted path below a value.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

/// The text at a dotted path; empty if there is none.
fn text<'a>(value: Option<&'a Value>, path: &str) -> &'a str {
    value.and_then(|value| at(value, path)).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of the list at a dotted path.
fn items<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + Clone {
    at(value, path).and_then(Value::as_sequence).map(Vec::as_slice).unwrap_or_default().iter()
}

/// Whether something stands there, if only `{}`.
fn is_set(value: &Value) -> bool {
    !value.is_null()
}

/// The host of `https://host:port`, if it is one.
pub(super) fn endpoint_host(endpoint: &str) -> Option<&str> {
    let authority = endpoint.strip_prefix("https://")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let host = match authority.rsplit_once(':').filter(|_| !authority.ends_with(']')) {
        Some((host, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => host,
        Some(_) => return None,
        None => authority,
    };
    (!host.is_empty() && !host.contains(['/', '@', '?', '#'])).then_some(host)
}

/// Whether it is of the form `host:port`, with brackets around a host that has colons in it.
fn has_port(endpoint: &str) -> bool {
    let split = endpoint.rsplit_once(':');
    split.is_some_and(|(host, _)| !host.contains(':') || (host.starts_with('[') && host.ends_with(']')))
}

#[derive(Default)]
struct Findings(Vec<Lint>);

impl Findings {
    fn error(&mut self, place: &str, message: &str) {
        self.0.push(Lint { severity: Severity::Error, place: place.into(), message: message.into() });
    }

    /// The error that there may be.
    fn errors(&mut self, place: &str, message: Option<String>) {
        if let Some(message) = message {
            self.error(place, &message);
        }
    }

    fn warning(&mut self, place: &str, message: &str) {
        self.0.push(Lint { severity: Severity::Warning, place: place.into(), message: message.into() });
    }
}
