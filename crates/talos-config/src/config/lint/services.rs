//! Faults of what a machine's services are told: logs, registries, extensions, the clock, name servers, discovery.

use yaml_serde::Value;

use super::{Findings, at, is_set, items, node::subnet_fault, text};
use crate::config::{
    contract::Release,
    document::{DocumentId, MachineConfig},
    url::Url,
};

/// What packets of KubeSpan must have room for.
const LEAST_KUBESPAN_MTU: u64 = 1280;

impl MachineConfig {
    pub(super) fn lint_services(&self, release: Release, found: &mut Findings) {
        self.lint_logs(found);
        self.lint_registries(found);
        self.lint_extensions(found);
        self.lint_clock_and_names(release, found);
        self.lint_discovery(release, found);
    }

    fn lint_logs(&self, found: &mut Findings) {
        for destination in self.get("machine.logging").into_iter().flat_map(|of| items(of, "destinations")) {
            let place = "machine.logging.destinations";
            match Url::parse(text(Some(destination), "endpoint")) {
                Ok(url) if !matches!(url.scheme.as_str(), "tcp" | "udp") => {
                    found.error(place, "needs endpoints that begin with tcp:// or udp://");
                }
                Ok(url) if url.host.is_empty() => found.error(place, "needs endpoints with a host"),
                Ok(_) | Err(_) => {}
            }
            if text(Some(destination), "format") != "json_lines" {
                found.error(place, "needs `format: json_lines`, which is the only one there is");
            }
        }
    }

    fn lint_registries(&self, found: &mut Findings) {
        for document in self.of_kind("RegistryAuthConfig") {
            let is_there = |key: &str| !text(Some(document), key).is_empty();
            let ways = ["username", "auth", "identityToken"].into_iter().filter(|key| is_there(key)).count();
            if ways > 1 {
                let place = DocumentId::of(document).to_string();
                found.error(&place, "knows more than one way to log in: set username, auth or identityToken");
            }
        }
    }

    fn lint_extensions(&self, found: &mut Findings) {
        for document in self.of_kind("ExtensionServiceConfig") {
            let place = DocumentId::of(document).to_string();
            let mut files = items(document, "configFiles").peekable();
            if files.peek().is_none() && items(document, "environment").next().is_none() {
                found.error(&place, "says nothing: neither files nor environment");
            }
            for file in files {
                for (key, what) in [("content", "content"), ("mountPath", "path")] {
                    if text(Some(file), key).is_empty() {
                        found.error(&place, &format!("has a file without {what}"));
                    }
                }
            }
        }
        let mut images = std::collections::HashSet::new();
        for extension in self.get("machine.install").into_iter().flat_map(|of| items(of, "extensions")) {
            let image = text(Some(extension), "image");
            if !images.insert(image) {
                found.error("machine.install.extensions", &format!("has `{image}` twice"));
            }
        }
    }

    fn lint_clock_and_names(&self, release: Release, found: &mut Findings) {
        for document in self.of_kind("TimeSyncConfig") {
            if ["ntp", "ptp"].iter().all(|way| document.get(way).is_some_and(is_set)) {
                found.error("TimeSyncConfig", "sets the clock by both `ntp` and `ptp`; set one of them");
            }
            if at(document, "ntp.useNTS").and_then(Value::as_bool) == Some(true) {
                let servers = items(document, "ntp.servers").filter_map(Value::as_str);
                for server in servers.filter(|server| server.parse::<std::net::IpAddr>().is_ok()) {
                    found.error(
                        "TimeSyncConfig",
                        &format!("cannot trust the address {server}: NTS needs names"),
                    );
                }
            }
        }
        for document in self.of_kind("ResolverConfig").filter(|_| release.minor() >= 14) {
            for server in items(document, "nameservers") {
                let encrypted =
                    !matches!(text(Some(server), "protocol").to_ascii_lowercase().as_str(), "" | "do53");
                match (encrypted, text(Some(server), "tlsServerName").is_empty()) {
                    (true, true) => {
                        found.error("ResolverConfig", "has an encrypted name server without `tlsServerName`");
                    }
                    (false, false) => {
                        found.error(
                            "ResolverConfig",
                            "has a `tlsServerName` for a name server that is not encrypted",
                        );
                    }
                    _ => {}
                }
                if encrypted && !self.has_host_dns() {
                    found.error(
                        "ResolverConfig",
                        "has an encrypted name server, for which hostDNS has to be enabled",
                    );
                }
                if text(Some(server), "address").is_empty() {
                    found.error("ResolverConfig", "has a name server without an address");
                }
            }
            lint_host_dns(document.get("hostDNS"), "ResolverConfig", true, found);
        }
        if release.minor() >= 13 {
            lint_host_dns(self.get("machine.features.hostDNS"), "machine.features.hostDNS", false, found);
        }
    }

    fn has_host_dns(&self) -> bool {
        let enabled = |of: &Value| of.get("enabled").and_then(Value::as_bool) == Some(true);
        self.in_document("ResolverConfig", "hostDNS").is_some_and(enabled)
            || self.get("machine.features.hostDNS").is_some_and(enabled)
    }

    fn lint_discovery(&self, release: Release, found: &mut Findings) {
        let kubespan = self.get("machine.network.kubespan");
        let enabled = |of: &Value| of.get("enabled").and_then(Value::as_bool) == Some(true);
        for (place, of, always) in [
            ("machine.network.kubespan", kubespan, false),
            ("KubeSpanConfig", self.of_kind("KubeSpanConfig").next(), true),
        ] {
            let Some(of) = of.filter(|of| always || enabled(of)) else { continue };
            let mtu = of.get("mtu").and_then(Value::as_u64).filter(|mtu| always || *mtu != 0);
            if mtu.is_some_and(|mtu| mtu < LEAST_KUBESPAN_MTU) {
                found.error(place, &format!("needs an `mtu` of at least {LEAST_KUBESPAN_MTU}"));
            }
            for subnet in items(of, "filters.endpoints").filter_map(Value::as_str) {
                found.errors(place, subnet_fault(subnet));
            }
            for subnet in
                items(of, "filters.excludeAdvertisedNetworks").filter_map(Value::as_str).filter(|_| !always)
            {
                if !crate::config::schema::is_prefix(subnet) {
                    found.error(place, &format!("`{subnet}` is not a network"));
                }
            }
        }
        let legacy = self.get("cluster.discovery").filter(|of| enabled(of));
        let service = legacy.map(|of| at(of, "registries.service"));
        let is_on = |service: Option<&Value>| {
            service.and_then(|of| of.get("disabled")).and_then(Value::as_bool) != Some(true)
        };
        let used = service.is_some_and(is_on) || self.of_kind("DiscoveryServiceConfig").next().is_some();
        if let Some(service) = service.filter(|service| is_on(*service)) {
            let endpoint = text(service, "endpoint");
            let fault = match Url::parse(endpoint) {
                _ if endpoint.is_empty() => None,
                Err(fault) => Some(fault),
                Ok(url) if url.scheme.is_empty() && !url.path.starts_with('/') => {
                    Some("must be of the form https://host/".to_owned())
                }
                Ok(url) if release.minor() >= 13 && url.has_stray_colon() => {
                    Some("must have brackets around its IPv6 address".to_owned())
                }
                Ok(url) => (!matches!(url.path.as_str(), "" | "/")).then(|| "must have no path".to_owned()),
            };
            found.errors("cluster.discovery.registries.service.endpoint", fault);
        }
        let kubespan_before_the_split = release.minor() < 14 && kubespan.is_some_and(enabled);
        if used || kubespan_before_the_split {
            for (path, inner) in [("cluster.id", "clusterID"), ("cluster.secret", "clusterSecret")] {
                if self.text_or(path, "DiscoveryIdentityConfig", inner).is_none_or(str::is_empty) {
                    found.error(path, "is missing; discovery and KubeSpan need it");
                }
            }
        }
    }
}

fn lint_host_dns(of: Option<&Value>, place: &str, members_too: bool, found: &mut Findings) {
    let Some(of) = of else { return };
    let is_on = |key: &str| of.get(key).and_then(Value::as_bool) == Some(true);
    for key in ["forwardKubeDNSToHost", "resolveMemberNames"] {
        if is_on(key) && !is_on("enabled") && (members_too || key != "resolveMemberNames") {
            found.error(place, &format!("cannot have `{key}` while hostDNS is not enabled"));
        }
    }
}
