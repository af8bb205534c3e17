//! Faults of what Kubernetes' own parts are told.

use ipnet::IpNet;
use yaml_serde::Value;

use super::{Findings, at, is_set, items, node::entries, node::is_subdomain, node::subnet_fault, text};
use crate::config::{
    contract::Release,
    document::{DocumentId, MachineConfig},
    options::Role,
    url::Url,
};

/// Kinds of documents that only control planes have.
const OF_CONTROL_PLANES: [&str; 14] = [
    "KubeAdmissionControlConfig",
    "KubeAggregatorCAConfig",
    "KubeAPIServerConfig",
    "KubeAuditPolicyConfig",
    "KubeAuthenticationConfig",
    "KubeAuthorizerConfig",
    "KubeControllerManagerConfig",
    "KubeCoreDNSConfig",
    "KubeEtcdEncryptionConfig",
    "KubeFlannelCNIConfig",
    "KubeProxyConfig",
    "KubeSchedulerConfig",
    "KubeServiceAccountConfig",
    "KubeTalosAPIAccessConfig",
];
const ROLES: [&str; 7] = [
    "os:admin",
    "os:operator",
    "os:reader",
    "os:etcd:backup",
    "os:image:verifier",
    "os:meta:writer",
    "os:impersonator",
];

impl MachineConfig {
    pub(super) fn lint_kubernetes(&self, release: Release, found: &mut Findings) {
        self.lint_cluster_section(release, found);
        if release.minor() >= 14 {
            self.lint_parts(found);
        }
        for document in self.of_kind("KubeNetworkConfig") {
            lint_subnets(document, found);
        }
        for (kind, can_be_off) in [
            ("KubeAPIServerConfig", false),
            ("KubeControllerManagerConfig", true),
            ("KubeSchedulerConfig", true),
            ("KubeProxyConfig", true),
            ("KubeletConfig", false),
        ] {
            for document in self.of_kind(kind) {
                if can_be_off && document.get("enabled").and_then(Value::as_bool) == Some(false) {
                    continue;
                }
                if text(Some(document), "image").is_empty() {
                    found.error(kind, "needs an image");
                }
                lint_resources(document, kind, found);
            }
        }
        for document in self.of_kind("KubeFlannelCNIConfig") {
            lint_resources(document, "KubeFlannelCNIConfig", found);
        }
        for (arg, _) in entries(self.in_document("KubeAPIServerConfig", "extraArgs")) {
            let taken = [
                "anonymous-auth",
                "oidc-",
                "authentication-config",
                "authorization-config",
                "authorization-mode",
                "authorization-webhook-",
            ];
            if taken.iter().any(|taken| arg.starts_with(taken)) {
                let message = format!(
                    "cannot have the argument `{arg}`; use KubeAuthenticationConfig or KubeAuthorizerConfig"
                );
                found.error("KubeAPIServerConfig", &message);
            }
        }
        if let Some(mode) = self.in_document("KubeProxyConfig", "mode").and_then(Value::as_str)
            && !["", "nftables", "iptables", "ipvs"].contains(&mode)
        {
            found.error("KubeProxyConfig", "needs a mode that is one of nftables, iptables, ipvs");
        }
        for kind in ["KubeExternalManifestConfig", "KubeInlineManifestConfig", "KubeStaticPodConfig"] {
            for document in self.of_kind(kind) {
                let id = DocumentId::of(document);
                if !is_subdomain(&id.name) {
                    found.error(&id.to_string(), "needs a name of lower-case letters, digits, `-` and `.`");
                }
            }
        }
        self.lint_access(found);
        if self.role() == Some(Role::Worker) {
            for kind in OF_CONTROL_PLANES {
                if self.of_kind(kind).next().is_some() {
                    found.error(kind, "must not be on a worker");
                }
            }
        }
    }

    /// Who may do what: authorizers, and pods that use the Talos API.
    fn lint_access(&self, found: &mut Findings) {
        for document in self.of_kind("KubeAuthorizerConfig") {
            let place = DocumentId::of(document).to_string();
            match text(Some(document), "type") {
                "Node" | "RBAC" => {}
                "Webhook" if entries(document.get("webhook")).next().is_some() => {}
                "Webhook" => found.error(&place, "needs a `webhook` to ask"),
                _ => found.error(&place, "needs a type that is one of Node, RBAC, Webhook"),
            }
        }
        let access = self.get("machine.features.kubernetesTalosAPIAccess");
        let access = access.filter(|of| of.get("enabled").and_then(Value::as_bool) == Some(true));
        let documents = self.of_kind("KubeTalosAPIAccessConfig").map(|of| ("KubeTalosAPIAccessConfig", of));
        for (place, of) in
            access.map(|of| ("machine.features.kubernetesTalosAPIAccess", of)).into_iter().chain(documents)
        {
            if self.role() == Some(Role::Worker) && place.starts_with("machine") {
                found.error(place, "must not be on a worker");
            }
            for role in items(of, "allowedRoles").filter_map(Value::as_str) {
                if !ROLES.contains(&role) {
                    found.error(place, &format!("allows `{role}`, which is no role: {}", ROLES.join(", ")));
                }
            }
        }
    }

    fn lint_cluster_section(&self, release: Release, found: &mut Findings) {
        if let Some(domain) = self.text("cluster.network.dnsDomain").filter(|domain| !domain.is_empty())
            && !is_dns_name(domain)
        {
            found.error("cluster.network.dnsDomain", &format!("`{domain}` is not a name of DNS"));
        }
        if self.role() == Some(Role::ControlPlane) {
            self.lint_cni(release, found);
            for (path, list) in [
                ("cluster.etcd.advertisedSubnets", "advertisedSubnets"),
                ("cluster.etcd.listenSubnets", "listenSubnets"),
            ] {
                for subnet in self
                    .get("cluster.etcd")
                    .into_iter()
                    .flat_map(|of| items(of, list))
                    .filter_map(Value::as_str)
                {
                    found.errors(path, subnet_fault(subnet));
                }
            }
            if !self.text("cluster.etcd.subnet").unwrap_or_default().is_empty() {
                let advertised =
                    self.get("cluster.etcd").into_iter().flat_map(|of| items(of, "advertisedSubnets"));
                if advertised.count() > 0 {
                    found.error("cluster.etcd.subnet", "cannot stand beside advertisedSubnets");
                }
                found.errors("cluster.etcd.subnet", self.text("cluster.etcd.subnet").and_then(subnet_fault));
            }
        }
        let mut names = std::collections::HashSet::new();
        for manifest in self.get("cluster").into_iter().flat_map(|of| items(of, "inlineManifests")) {
            let name = text(Some(manifest), "name");
            if name.trim().is_empty() {
                found.error("cluster.inlineManifests", "has a manifest without a name");
            } else if !names.insert(name) {
                found.error("cluster.inlineManifests", &format!("has `{name}` twice"));
            }
        }
        let external = self.get("cluster.externalCloudProvider");
        let manifests = external.into_iter().flat_map(|of| items(of, "manifests")).filter_map(Value::as_str);
        for manifest in manifests {
            let place = "cluster.externalCloudProvider.manifests";
            if external.and_then(|of| of.get("enabled")).and_then(Value::as_bool) != Some(true) {
                found.error(place, "cannot be there while the provider is not enabled");
            }
            found.errors(
                place,
                Url::endpoint_fault(manifest).map(|fault| format!("`{}` {fault}", Url::harmless(manifest))),
            );
        }
        for part in ["apiServer", "controllerManager", "scheduler"] {
            if let Some(of) = self.get(&format!("cluster.{part}")) {
                lint_resources(of, &format!("cluster.{part}"), found);
            }
        }
        self.lint_authorizers(found);
        if let Some(sort) = self.text("machine.features.nodeAddressSortAlgorithm")
            && !["", "v1", "v2"].contains(&sort.to_ascii_lowercase().as_str())
        {
            found.error("machine.features.nodeAddressSortAlgorithm", "must be v1 or v2");
        }
    }

    /// What one part of Kubernetes needs of another, wherever each of them stands.
    fn lint_parts(&self, found: &mut Findings) {
        let is_there = |path: &str| self.get(path).is_some_and(is_set);
        let is_text = |path: &str| self.text(path).is_some_and(|text| !text.is_empty());
        let has_authority = is_there("cluster.ca")
            || is_there("cluster.acceptedCAs")
            || self.of_kind("KubeAPIServerCAConfig").next().is_some();
        let is_encrypted = is_text("cluster.secretboxEncryptionSecret")
            || is_text("cluster.aescbcEncryptionSecret")
            || self.of_kind("KubeEtcdEncryptionConfig").next().is_some();
        if self.role() == Some(Role::ControlPlane) && has_authority && !is_encrypted {
            found.error(
                "cluster.secretboxEncryptionSecret",
                "is missing; etcd needs a key for Kubernetes' Secrets",
            );
        }
        if is_there("cluster.serviceAccount") && !is_text("cluster.controlPlane.endpoint") {
            let message =
                "needs `cluster.controlPlane.endpoint` beside it; use KubeServiceAccountConfig instead";
            found.error("cluster.serviceAccount", message);
        }
    }

    /// Who may do what in Kubernetes, before there were documents for it.
    fn lint_authorizers(&self, found: &mut Findings) {
        let Some(server) = self.get("cluster.apiServer") else { return };
        let place = "cluster.apiServer.authorizationConfig";
        let is_there = server.get("authorizationConfig").is_some_and(is_set);
        for (argument, _) in entries(server.get("extraArgs")).filter(|_| is_there) {
            if argument == "authorization-mode" || argument.starts_with("authorization-webhook-") {
                found.error(place, &format!("cannot stand beside the argument `{argument}`"));
            }
        }
        for authorizer in items(server, "authorizationConfig") {
            if !["Node", "RBAC", "Webhook"].contains(&text(Some(authorizer), "type")) {
                found.error(place, "needs types that are Node, RBAC or Webhook");
            }
            if text(Some(authorizer), "name").is_empty() {
                found.error(place, "has an authorizer without a name");
            }
        }
    }

    fn lint_cni(&self, release: Release, found: &mut Findings) {
        let Some(cni) = self.get("cluster.network.cni").filter(|value| is_set(value)) else { return };
        let place = "cluster.network.cni";
        let name = text(Some(cni), "name");
        let urls: Vec<&str> = items(cni, "urls").filter_map(Value::as_str).collect();
        match name {
            "flannel" | "none" if !urls.is_empty() => {
                found.error(place, &format!("cannot have urls with the name `{name}`"));
            }
            "flannel" | "none" | "custom" => {}
            _ => found.error(place, "needs a name that is one of flannel, custom, none"),
        }
        let flannel = cni.get("flannel").filter(|value| is_set(value) && name != "flannel");
        if flannel.is_some_and(|of| items(of, "extraArgs").next().is_some()) {
            found.error(place, "cannot have arguments for flannel, which is not used");
        }
        let policies = flannel.and_then(|of| of.get("kubeNetworkPoliciesEnabled")).and_then(Value::as_bool);
        if policies == Some(true) && release.minor() >= 13 {
            found.error(place, "cannot have network policies of flannel, which is not used");
        }
        if name == "custom" {
            for url in urls {
                found.errors(
                    place,
                    Url::endpoint_fault(url).map(|fault| format!("`{}` {fault}", Url::harmless(url))),
                );
            }
        }
    }
}

fn lint_resources(of: &Value, place: &str, found: &mut Findings) {
    for part in ["requests", "limits"] {
        for (key, _) in entries(at(of, &format!("resources.{part}"))) {
            if !["cpu", "memory"].contains(&key.as_str()) {
                found.error(place, &format!("cannot have {part} of `{key}`; there are cpu and memory"));
            }
        }
    }
}

/// Networks of pods and services: one of each family at most, as many of one as of the other, neither too small nor too large.
fn lint_subnets(document: &Value, found: &mut Findings) {
    let place = "KubeNetworkConfig";
    let number = |key: &str| document.get(key).and_then(Value::as_i64).unwrap_or_default();
    let (v4, v6) = (number("nodeCIDRMaskSizeIPv4"), number("nodeCIDRMaskSizeIPv6"));
    if !(0..=32).contains(&v4) || !(0..=128).contains(&v6) {
        found.error(place, "has a `nodeCIDRMaskSize` that no network has");
        return;
    }
    let count = |key: &str| items(document, key).count();
    if count("podSubnets") != count("serviceSubnets") {
        found.error(place, "needs as many service subnets as pod subnets");
    }
    for key in ["podSubnets", "serviceSubnets"] {
        let subnets: Vec<IpNet> =
            items(document, key).filter_map(|subnet| subnet.as_str()?.parse().ok()).collect();
        let families = subnets.iter().filter(|subnet| subnet.addr().is_ipv4()).count();
        if items(document, key).all(|subnet| subnet.as_str() == Some("")) {
            found.error(place, &format!("needs {key}"));
        } else if items(document, key).any(|subnet| subnet.as_str() == Some("")) {
            found.error(place, &format!("has an empty network in {key}"));
        } else if families > 1 || subnets.len() - families > 1 {
            found.error(place, &format!("has more than one network of a family in {key}"));
        }
        for subnet in subnets {
            let bits = i64::from(subnet.prefix_len());
            let all = i64::from(subnet.max_prefix_len());
            let of_node = match (subnet.addr().is_ipv4(), v4, v6) {
                (true, 0, _) => 24,
                (true, of_node, _) => of_node,
                (false, _, 0) => 64,
                (false, _, of_node) => of_node,
            };
            let fault = if subnet.addr() != subnet.network() {
                Some("is not a network: bits are set behind its prefix".to_owned())
            } else if all - bits < 4 {
                Some(format!("is too small; its prefix may be /{} at most", all - 4))
            } else if key == "serviceSubnets" && all - bits > 20 {
                Some(format!("is too large; its prefix must be /{} at least", all - 20))
            } else if key == "podSubnets" && bits > of_node {
                Some(format!("is smaller than the /{of_node} that every node gets of it"))
            } else if key == "podSubnets" && of_node - bits > 16 {
                Some(format!(
                    "is too large for the /{of_node} that every node gets of it; use /{}",
                    of_node - 16
                ))
            } else {
                None
            };
            found.errors(place, fault.map(|fault| format!("{subnet} in {key} {fault}")));
        }
    }
}

fn is_dns_name(name: &str) -> bool {
    let name = name.strip_suffix(['.', '_']).unwrap_or(name);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    name.len() - name.matches('.').count() <= 255 && name.split('.').all(label)
}
