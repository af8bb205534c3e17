//! Faults of a machine config that Talos notices late or not at all.

use std::{collections::HashSet, fmt, net::IpAddr};

use ipnet::IpNet;
use yaml_serde::Value;

use crate::config::{
    document::{DocumentId, MachineConfig},
    options::Role,
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

const MACHINE_KEYS: &[&str] = &[
    "type",
    "token",
    "ca",
    "acceptedCAs",
    "certSANs",
    "controlPlane",
    "kubelet",
    "pods",
    "network",
    "disks",
    "install",
    "files",
    "env",
    "time",
    "sysctls",
    "sysfs",
    "registries",
    "systemDiskEncryption",
    "features",
    "udev",
    "logging",
    "kernel",
    "seccompProfiles",
    "baseRuntimeSpecOverrides",
    "nodeLabels",
    "nodeAnnotations",
    "nodeTaints",
];

const CLUSTER_KEYS: &[&str] = &[
    "id",
    "secret",
    "controlPlane",
    "clusterName",
    "network",
    "token",
    "aescbcEncryptionSecret",
    "secretboxEncryptionSecret",
    "ca",
    "acceptedCAs",
    "aggregatorCA",
    "serviceAccount",
    "apiServer",
    "controllerManager",
    "proxy",
    "scheduler",
    "discovery",
    "etcd",
    "coreDNS",
    "externalCloudProvider",
    "extraManifests",
    "extraManifestHeaders",
    "inlineManifests",
    "adminKubeconfig",
    "allowSchedulingOnMasters",
    "allowSchedulingOnControlPlanes",
];

impl MachineConfig {
    /// Everything wrong that can be seen without a node, worst first.
    pub fn lint(&self) -> Vec<Lint> {
        let mut found = Findings::default();
        self.lint_main(&mut found);
        self.lint_keys(&mut found);
        self.lint_documents(&mut found);
        self.lint_network(&mut found);
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
        match self.text("cluster.controlPlane.endpoint").map(endpoint_host) {
            None => found.error("cluster.controlPlane.endpoint", "is missing"),
            Some(None) => {
                found.error("cluster.controlPlane.endpoint", "is not of the form https://host:port");
            }
            Some(Some(_)) => {}
        }
        for needed in ["machine.token", "machine.ca.crt", "cluster.token", "cluster.ca.crt"] {
            if self.text(needed).is_none_or(str::is_empty) {
                found.error(needed, "is missing");
            }
        }
        let private =
            ["machine.ca.key", "cluster.ca.key", "cluster.etcd.ca.key", "cluster.serviceAccount.key"];
        match self.role() {
            None => found.error("machine.type", "is neither `controlplane` nor `worker`"),
            Some(Role::ControlPlane) => {
                for path in private {
                    if self.text(path).is_none_or(str::is_empty) {
                        found.error(path, "is missing; a control plane needs it");
                    }
                }
            }
            Some(Role::Worker) => {
                for path in private {
                    if self.text(path).is_some_and(|key| !key.is_empty()) {
                        found.error(path, "must not be on a worker");
                    }
                }
                if self.get("cluster.etcd").is_some() {
                    found.error("cluster.etcd", "must not be on a worker");
                }
            }
        }
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
        if kubespan && self.get("cluster.discovery.enabled").and_then(Value::as_bool) != Some(true) {
            found.error("cluster.discovery.enabled", "must be true for KubeSpan");
        }
    }

    fn lint_keys(&self, found: &mut Findings) {
        for (section, known) in [("machine", MACHINE_KEYS), ("cluster", CLUSTER_KEYS)] {
            for key in
                self.get(section).and_then(Value::as_mapping).into_iter().flat_map(|fields| fields.keys())
            {
                let key = key.as_str().unwrap_or_default();
                if !known.contains(&key) {
                    found.error(&format!("{section}.{key}"), "is not a known key");
                }
            }
        }
        let main = self.documents.iter().find(|document| document.get("kind").is_none());
        for key in main.and_then(Value::as_mapping).into_iter().flat_map(|fields| fields.keys()) {
            let key = key.as_str().unwrap_or_default();
            if !["version", "debug", "persist", "machine", "cluster"].contains(&key) {
                found.error(key, "is not a known key");
            }
        }
    }

    fn lint_documents(&self, found: &mut Findings) {
        let mut seen = HashSet::new();
        for document in &self.documents {
            let id = DocumentId::of(document);
            if !seen.insert(id.clone()) {
                found.error(&id.to_string(), "stands there twice");
            }
        }
        for document in self.of_kind("HostnameConfig") {
            let hostname = document.get("hostname").and_then(Value::as_str).unwrap_or_default();
            let automatic = match document.get("auto") {
                // A reader of YAML 1.1 has made a boolean of a bare `off`.
                None | Some(Value::Null | Value::Bool(false)) => false,
                Some(auto) => auto.as_str() != Some("off"),
            };
            match (automatic, hostname) {
                (true, name) if !name.is_empty() => {
                    found.error("HostnameConfig", "sets both `auto` and `hostname`; set auto: \"off\"");
                }
                (false, "") => found.error("HostnameConfig", "sets no name"),
                (false, name)
                    if name.split('.').next().is_none_or(|label| label.is_empty() || label.len() > 63) =>
                {
                    found.error(
                        "HostnameConfig",
                        "sets a name that is too long or empty before its first dot",
                    );
                }
                _ => {}
            }
            if self.text("machine.network.hostname").is_some() {
                found.error("machine.network.hostname", "cannot stand beside HostnameConfig");
            }
        }
    }

    fn lint_network(&self, found: &mut Findings) {
        let names: HashSet<&str> =
            ["LinkAliasConfig", "LinkConfig", "VLANConfig", "BondConfig", "BridgeConfig"]
                .iter()
                .flat_map(|kind| self.of_kind(kind))
                .filter_map(|document| document.get("name").and_then(Value::as_str))
                .collect();
        let own = self.addresses();
        for document in self.of_kind("Layer2VIPConfig") {
            let place = DocumentId::of(document).to_string();
            if self.role() == Some(Role::Worker) {
                found.error(
                    &place,
                    "must not be on a worker: only control planes can hold the virtual address",
                );
            }
            match document.get("link").and_then(Value::as_str) {
                None | Some("") => found.error(&place, "names no link"),
                Some(link) if !names.contains(link) => {
                    found
                        .warning(&place, &format!("is on link `{link}`, which no other document configures"));
                }
                Some(_) => {}
            }
            match document.get("name").and_then(Value::as_str).and_then(|name| name.parse::<IpAddr>().ok()) {
                None => found.error(&place, "has no IP address as its name"),
                Some(vip) if own.iter().any(|net| net.addr() == vip) => {
                    found.error(&place, "is the node's own address");
                }
                Some(_) => {}
            }
        }
        for interface in self.legacy_interfaces() {
            if interface.get("vip").is_some() && self.role() == Some(Role::Worker) {
                found.error("machine.network.interfaces", "a virtual address must not be on a worker");
            }
        }
        for document in self.of_kind("LinkConfig") {
            let nets = link_addresses(document);
            let routes = document.get("routes").and_then(Value::as_sequence);
            for route in routes.into_iter().flatten() {
                let gateway =
                    route.get("gateway").and_then(Value::as_str).and_then(|text| text.parse::<IpAddr>().ok());
                if let Some(gateway) = gateway
                    && !nets.is_empty()
                    && !nets.iter().any(|net| net.contains(&gateway))
                {
                    let place = DocumentId::of(document).to_string();
                    found.warning(
                        &place,
                        &format!("routes through {gateway}, which none of its addresses reaches"),
                    );
                }
            }
        }
    }

    /// The static addresses that the config gives the machine.
    pub fn addresses(&self) -> Vec<IpNet> {
        let legacy = self.legacy_interfaces().flat_map(|interface| {
            let addresses = interface.get("addresses").and_then(Value::as_sequence);
            addresses.into_iter().flatten().filter_map(|address| address.as_str()?.parse().ok())
        });
        self.of_kind("LinkConfig").flat_map(link_addresses).chain(legacy).collect()
    }

    /// The virtual addresses that the machine takes part in.
    pub fn virtual_addresses(&self) -> Vec<IpAddr> {
        let legacy = self.legacy_interfaces().filter_map(|interface| interface.get("vip")?.get("ip"));
        self.of_kind("Layer2VIPConfig")
            .filter_map(|document| document.get("name"))
            .chain(legacy)
            .filter_map(|address| address.as_str()?.parse().ok())
            .collect()
    }

    fn legacy_interfaces(&self) -> impl Iterator<Item = &Value> {
        self.get("machine.network.interfaces").and_then(Value::as_sequence).into_iter().flatten()
    }
}

fn link_addresses(document: &Value) -> Vec<IpNet> {
    let addresses = document.get("addresses").and_then(Value::as_sequence);
    addresses
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("address").and_then(Value::as_str)?.parse().ok())
        .collect()
}

/// The host of `https://host:port`, if it is one.
pub(super) fn endpoint_host(endpoint: &str) -> Option<&str> {
    let authority = endpoint.strip_prefix("https://")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => host,
        Some(_) => return None,
        None => authority,
    };
    (!host.is_empty() && !host.contains(['/', '@', '?', '#'])).then_some(host)
}

#[derive(Default)]
struct Findings(Vec<Lint>);

impl Findings {
    fn error(&mut self, place: &str, message: &str) {
        self.0.push(Lint { severity: Severity::Error, place: place.into(), message: message.into() });
    }

    fn warning(&mut self, place: &str, message: &str) {
        self.0.push(Lint { severity: Severity::Warning, place: place.into(), message: message.into() });
    }
}
