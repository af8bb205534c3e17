//! What runs on the machines: Talos and its image, Kubernetes and its networks.

use std::collections::{BTreeMap, HashSet};

use ipnet::IpNet;
use semver::Version;

use super::link::link;
use super::network::{self, Network};
use super::node::Draft;
use super::{Context, Refusal, trust};
use crate::cluster::{Kubernetes, Role, Talos};
use crate::document;
use crate::path::Path;
use crate::versions;

const FACTORY: &str = "https://factory.talos.dev";
const API_PORT: u16 = 6443;

pub(crate) fn talos(talos: &document::Talos, at: &Path<'_>, cx: &mut Context<'_>) -> Option<Talos> {
    let at = at.key("talos");
    let version = cx.take("version", &at.key("version"), talos_version(&talos.version));
    let extensions = extensions(talos.extensions.as_deref(), &at.key("extensions"), cx);
    let args_at = at.key("kernelArgs");
    let kernel_args = talos.kernel_args.clone().unwrap_or_default();
    for (i, arg) in kernel_args.iter().enumerate() {
        if arg.is_empty() || arg.contains(char::is_whitespace) {
            let message = format!("`{arg}` is not one kernel argument.");
            cx.error(
                "kernel-args",
                &args_at.index(i),
                message,
                "Write each argument as an entry of its own.",
            );
        }
    }
    let factory = factory(talos, &at, cx);
    let factory_tls = trust::trust(talos.factory_tls.as_ref(), &at.key("factoryTls"), &trust::FACTORY, cx);
    let install_disk = talos.install_disk.clone().unwrap_or_else(|| "/dev/sda".to_owned());
    if !install_disk.starts_with("/dev/") {
        let message = format!("`{install_disk}` is not a disk.");
        cx.error("disk", &at.key("installDisk"), message, "Write its device path, for example `/dev/sda`.");
    }
    let image_sha256 = talos.image_sha256.as_ref().and_then(|text| {
        let digest = text.trim().to_ascii_lowercase();
        let fits = hex::decode(&digest).is_ok_and(|d| d.len() == 32);
        let help = "It is 64 hexadecimal digits, as `sha256sum` prints them.";
        let checked =
            if fits { Ok(digest) } else { Err((format!("`{text}` is not a SHA-256."), help.to_owned())) };
        cx.take("digest", &at.key("imageSha256"), checked)
    });
    Some(Talos {
        version: version?,
        extensions,
        kernel_args,
        factory: factory?,
        factory_tls: factory_tls?,
        arch: talos.arch.unwrap_or_default(),
        install_disk,
        secure_boot: talos.secure_boot.unwrap_or(false),
        image_sha256,
        meta: meta(talos, &at.key("meta"), cx),
        overlay: talos.overlay.clone(),
        bootloader: talos.bootloader,
    })
}

/// META values by their keys, which are written as Talos writes them (`0x0c`) or counted (`12`).
fn meta(talos: &document::Talos, at: &Path<'_>, cx: &mut Context<'_>) -> BTreeMap<u8, String> {
    let mut values = BTreeMap::new();
    for (text, value) in talos.meta.iter().flatten() {
        let at = at.key(text);
        let key = match text.strip_prefix("0x") {
            Some(hex) => u8::from_str_radix(hex, 16),
            None => text.parse(),
        };
        match key {
            Ok(key) if values.contains_key(&key) => {
                cx.error("meta", &at, format!("The key {key:#04x} is there twice."), "Keep one.");
            }
            Ok(key) => {
                values.insert(key, value.clone());
            }
            Err(_) => {
                let message = format!("`{text}` is not a META key.");
                cx.error("meta", &at, message, "Write one byte, for example `0x0c`.");
            }
        }
    }
    values
}

fn factory(talos: &document::Talos, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    let Some(text) = &talos.factory else { return Some(FACTORY.to_owned()) };
    let at = at.key("factory");
    let url = link(text, &["https", "http"], &format!("Write for example `{FACTORY}`."), &at, cx)?;
    if url.scheme() == "http" && talos.image_sha256.is_none() {
        let message = "Images from this factory come over plain HTTP: anyone on the way can change them.";
        cx.warn("plain-http", &at, message, "Use HTTPS, or pin the image with `imageSha256`.");
    }
    if url.scheme() == "http" && talos.factory_tls.is_some() {
        let message =
            "This factory has no certificate that `factoryTls` could be about: its address begins with http.";
        cx.error("tls", &at, message, "Use HTTPS, or leave `factoryTls` out.");
    }
    Some(text.trim_end_matches('/').to_owned())
}

fn extensions(names: Option<&[String]>, at: &Path<'_>, cx: &mut Context<'_>) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for (i, name) in names.unwrap_or_default().iter().enumerate() {
        let word = |s: &str| {
            s.starts_with(|c: char| c.is_ascii_alphanumeric())
                && s.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.'))
        };
        let full = if name.contains('/') { name.clone() } else { format!("siderolabs/{name}") };
        if !full.split('/').all(word) || full.split('/').count() != 2 {
            let message = format!("`{name}` is not the name of a system extension.");
            cx.error(
                "extension",
                &at.index(i),
                message,
                "Write for example `qemu-guest-agent`, without version or registry.",
            );
        } else if list.contains(&full) {
            cx.warn(
                "extension",
                &at.index(i),
                format!("The extension `{full}` is named twice."),
                "Remove one.",
            );
        } else {
            list.push(full);
        }
    }
    list
}

fn version(text: &str, example: &str) -> Result<Version, Refusal> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).map_err(|_| {
        let numbers: Vec<&str> = text.strip_prefix('v').unwrap_or(text).split('.').collect();
        let short = numbers.len() == 2
            && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let better = if short { format!("v{}.0", numbers.join(".")) } else { example.to_owned() };
        (format!("`{text}` is not an exact version."), format!("Write for example `{better}`."))
    })
}

fn talos_version(text: &str) -> Result<Version, Refusal> {
    let version = version(text, "v1.12.0")?;
    if versions::kubernetes_range(&version).is_some() {
        return Ok(version);
    }
    let (first, last) = versions::talos_range();
    Err((
        format!("Talos v{version} is not known to this version of Daedal."),
        format!("Known are v1.{first} to v1.{last}."),
    ))
}

pub(crate) fn kubernetes(
    spec: &document::Spec,
    network: &Network,
    nodes: &[Draft<'_>],
    cx: &mut Context<'_>,
) -> Option<Kubernetes> {
    let root = Path::Root;
    let spec_at = root.key("spec");
    let at = spec_at.key("kubernetes");
    let none = document::Kubernetes::default();
    let kubernetes = spec.kubernetes.as_ref().unwrap_or(&none);
    let version = kubernetes_version(spec, kubernetes, &spec_at, cx);
    let pods = subnets(kubernetes.pod_subnets.as_deref(), "10.244.0.0/16", &at.key("podSubnets"), cx);
    let services =
        subnets(kubernetes.service_subnets.as_deref(), "10.96.0.0/12", &at.key("serviceSubnets"), cx);
    overlaps(network.cidr, &pods, &services, &at, cx);
    let dns_domain = kubernetes.dns_domain.clone().unwrap_or_else(|| "cluster.local".to_owned());
    if !network::host_name(&dns_domain) {
        let message = format!("`{dns_domain}` is not a DNS domain.");
        cx.error("name", &at.key("dnsDomain"), message, "Write for example `cluster.local`.");
    }
    let sans_at = at.key("certSANs");
    let cert_sans = kubernetes.cert_sans.clone().unwrap_or_default();
    for (i, san) in cert_sans.iter().enumerate() {
        if !network::host_name(san.strip_prefix("*.").unwrap_or(san)) {
            let (message, help) = network::not_a_host(san);
            cx.error("name", &sans_at.index(i), message, help);
        }
    }
    let first = nodes.iter().find(|n| n.role == Role::ControlPlane);
    let (endpoint_host, endpoint_port) = match &kubernetes.endpoint {
        Some(text) => {
            let (host, port) = cx.take("endpoint", &at.key("endpoint"), endpoint(text))?;
            (Some(host), port)
        }
        None => {
            let many = nodes.iter().filter(|n| n.role == Role::ControlPlane).count() > 1;
            if many && spec.network.vip.is_none() && cx.given(&spec_at.key("network").key("vip")) {
                let message = "Clients reach the API server only while the first control plane is up.";
                let help = "Give the control planes a shared address, `network.vip`, or name a load balancer as \
                            `kubernetes.endpoint`.";
                cx.warn("endpoint", &spec_at.key("network"), message, help);
            }
            let address = network.vip.or(first.and_then(|n| n.address)).map(|a| a.to_string());
            if address.is_none() && !network.discovered {
                return None;
            }
            (address, API_PORT)
        }
    };
    let has_workers = nodes.iter().any(|n| n.role == Role::Worker);
    Some(Kubernetes {
        version: version?,
        pod_subnets: pods.into_iter().map(|(net, _)| net).collect(),
        service_subnets: services.into_iter().map(|(net, _)| net).collect(),
        dns_domain,
        endpoint_host,
        endpoint_port,
        cert_sans,
        cni: kubernetes.cni.map(Into::into).unwrap_or_default(),
        cni_manifests: kubernetes.cni_manifests.clone().unwrap_or_default(),
        no_discovery: kubernetes.discovery == Some(false),
        discovery_service: kubernetes.discovery_service.clone(),
        kubespan: kubernetes.kubespan.unwrap_or(false),
        kube_proxy: kubernetes.kube_proxy.unwrap_or(true),
        schedule_on_control_planes: kubernetes.schedule_on_control_planes.unwrap_or(!has_workers),
    })
}

/// The declared version if Talos supports it, else the newest minor that Talos supports.
fn kubernetes_version(
    spec: &document::Spec,
    kubernetes: &document::Kubernetes,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<Version> {
    let talos = talos_version(&spec.talos.version).ok().filter(|_| cx.given(&at.key("talos").key("version")));
    let range = talos.as_ref().and_then(versions::kubernetes_range);
    let at = at.key("kubernetes");
    let at = at.key("version");
    let Some(text) = &kubernetes.version else {
        return range.map(|(_, high)| Version::new(1, high, 0)).filter(|_| cx.given(&at));
    };
    let checked = version(text, "v1.35.0").and_then(|version| match (range, &talos) {
        (Some((low, high)), Some(talos)) if version.major != 1 || !(low..=high).contains(&version.minor) => {
            let mut help = format!("Use v1.{low} to v1.{high}");
            if let Some(minor) = versions::nearest_talos(&version, talos) {
                help += &format!(", or Talos v1.{minor}");
            }
            Err((format!("Talos v{talos} does not support Kubernetes v{version}."), help + "."))
        }
        _ => Ok(version),
    });
    cx.take("kubernetes-version", &at, checked)
}

/// Networks with the place of each in its list.
fn subnets(
    list: Option<&[String]>,
    default: &str,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Vec<(IpNet, Option<usize>)> {
    match list {
        None => default.parse().ok().map(|net| (net, None)).into_iter().collect(),
        Some([]) => {
            cx.error("network", at, format!("`{at}` is empty."), format!("Leave it out for `{default}`."));
            Vec::new()
        }
        Some(list) => list
            .iter()
            .enumerate()
            .filter_map(|(i, text)| Some((cx.take("network", &at.index(i), network::subnet(text))?, Some(i))))
            .collect(),
    }
}

/// Pods, services and nodes must have networks of their own, or packets go to the wrong one.
fn overlaps(
    nodes: Option<IpNet>,
    pods: &[(IpNet, Option<usize>)],
    services: &[(IpNet, Option<usize>)],
    at: &Path<'_>,
    cx: &mut Context<'_>,
) {
    let overlap = |a: &IpNet, b: &IpNet| a.contains(&b.network()) || b.contains(&a.network());
    let mut earlier: Vec<(IpNet, &str)> = nodes.iter().map(|net| (*net, "the nodes' network")).collect();
    for (list, key, name) in
        [(pods, "podSubnets", "a pod subnet"), (services, "serviceSubnets", "a service subnet")]
    {
        let at = at.key(key);
        for (net, index) in list {
            if let Some((other, other_name)) = earlier.iter().find(|(other, _)| overlap(net, other)) {
                let at = index.map_or(at, |i| at.index(i));
                let message = format!("{net} overlaps {other}, which is {other_name}.");
                let help = format!(
                    "Choose a range of its own for `{key}`; nothing outside the cluster needs to know it."
                );
                cx.error("network", &at, message, help);
            }
        }
        let new: HashSet<IpNet> = list.iter().map(|(net, _)| *net).collect();
        earlier.extend(new.into_iter().map(|net| (net, name)));
    }
}

/// Host and port of an API endpoint as written.
fn endpoint(text: &str) -> Result<(String, u16), Refusal> {
    let bad = || {
        let help = "Write a name or address, with or without a port, for example `k8s.example.com:6443`.";
        (format!("`{text}` is not an endpoint."), help.to_owned())
    };
    let bare = match text.split_once("://") {
        Some(("https", rest)) => rest.strip_suffix('/').unwrap_or(rest),
        Some(_) => return Err(bad()),
        None => text,
    };
    if let Ok(address) = bare.parse::<std::net::IpAddr>() {
        return Ok((address.to_string(), API_PORT));
    }
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|p| *p > 0).ok_or_else(bad)?),
        None => (bare, API_PORT),
    };
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if network::host_name(host) { Ok((host.to_owned(), port)) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        assert_eq!(endpoint("k8s.lan"), Ok(("k8s.lan".to_owned(), 6443)));
        assert_eq!(endpoint("https://k8s.lan:443/"), Ok(("k8s.lan".to_owned(), 443)));
        assert_eq!(endpoint("[fd00::1]:8443"), Ok(("fd00::1".to_owned(), 8443)));
        assert_eq!(endpoint("fd00::1"), Ok(("fd00::1".to_owned(), 6443)));
        for wrong in ["http://k8s.lan", "k8s.lan/path", "k8s.lan:0", "k8s.lan:http", ""] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn versions_are_exact() {
        assert_eq!(version("v1.12", "x").expect_err("short").1, "Write for example `v1.12.0`.");
        assert_eq!(version("1.12.0", "x"), Ok(Version::new(1, 12, 0)));
        assert_eq!(talos_version("v1.7.0").expect_err("old").1, "Known are v1.8 to v1.14.");
    }
}
