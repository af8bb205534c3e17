//! Machine settings: what a type cannot say about addresses, expressions and names.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Context, secret, size};
use crate::document;
use crate::options::{DiskSelector, Encryption, EncryptionKey, Machine, Route};
use crate::path::Path;

/// Checks what the whole cluster says.
pub(crate) fn cluster(spec: &document::Spec, at: &Path<'_>, cx: &mut Context<'_>) {
    if let Some(machine) = &spec.machine {
        check(machine, &at.key("machine"), cx);
    }
    let mirrors_at = at.key("registryMirrors");
    for (registry, mirror) in spec.registry_mirrors.iter().flatten() {
        let at = mirrors_at.key(registry);
        let at = at.key("endpoints");
        if mirror.endpoints.is_empty() {
            cx.error(
                "registry",
                &at,
                "A mirror needs at least one address.",
                "Add one, or remove the mirror.",
            );
        }
        for (i, endpoint) in mirror.endpoints.iter().enumerate() {
            url(endpoint, &["https://", "http://"], &at.index(i), cx);
        }
    }
    secret::check_registries(spec, at, cx);
    let Some(kubernetes) = &spec.kubernetes else { return };
    let at = at.key("kubernetes");
    let manifests_at = at.key("cniManifests");
    for (i, manifest) in kubernetes.cni_manifests.iter().flatten().enumerate() {
        url(manifest, &["https://", "http://"], &manifests_at.index(i), cx);
    }
    if let Some(service) = &kubernetes.discovery_service {
        url(service, &["https://"], &at.key("discoveryService"), cx);
    }
    if kubernetes.cni.is_some() && kubernetes.cni_manifests.as_ref().is_some_and(|list| !list.is_empty()) {
        let help = "Remove `cni`: the manifests bring the network plugin. Or remove `cniManifests`.";
        cx.error("cni", &at.key("cni"), "`cni` and `cniManifests` exclude each other.", help);
    }
    if kubernetes.discovery == Some(false) && kubernetes.discovery_service.is_some() {
        let help = "Remove `discovery: false`, or the `discoveryService`.";
        cx.error("discovery", &at.key("discovery"), "Discovery is off, and yet a service is named.", help);
    }
    if kubernetes.kubespan == Some(true) && kubernetes.discovery == Some(false) {
        let help = "Remove `discovery: false`.";
        cx.error("kubespan", &at.key("kubespan"), "KubeSpan needs discovery.", help);
    }
}

/// Adds what a pool or node says, and checks it.
pub(crate) fn machine(nearer: Option<&Machine>, machine: &mut Machine, at: &Path<'_>, cx: &mut Context<'_>) {
    if let Some(nearer) = nearer {
        check(nearer, &at.key("machine"), cx);
        machine.extend(nearer);
        secret::find_in(machine, cx);
    }
}

fn check(machine: &Machine, at: &Path<'_>, cx: &mut Context<'_>) {
    for (key, list) in [("logs", &machine.logs), ("kernelLogs", &machine.kernel_logs)] {
        let at = at.key(key);
        for (i, endpoint) in list.iter().enumerate() {
            url(endpoint, &["tcp://", "udp://"], &at.index(i), cx);
        }
    }
    routes(&machine.routes, &at.key("routes"), cx);
    secret::check_services(machine, at, cx);
    install_disk(machine, at, cx);
    let vlans_at = at.key("vlans");
    for (i, vlan) in machine.vlans.iter().enumerate() {
        let at = vlans_at.index(i);
        if machine.vlans[..i].iter().any(|earlier| earlier.id == vlan.id) {
            let message = format!("VLAN {} is there twice.", vlan.id);
            cx.error("vlan", &at.key("id"), message, "Put its addresses into one entry.");
        }
        let addresses_at = at.key("addresses");
        for (j, address) in vlan.addresses.iter().enumerate() {
            if address.parse::<IpNet>().is_err() {
                let message = format!("`{address}` is not an address with a prefix length.");
                cx.error("address", &addresses_at.index(j), message, "Write for example `10.100.0.11/24`.");
            }
        }
        routes(&vlan.routes, &at.key("routes"), cx);
    }
    let volumes_at = at.key("userVolumes");
    for (i, volume) in machine.user_volumes.iter().enumerate() {
        let at = volumes_at.index(i);
        let good = (1..=34).contains(&volume.name.len())
            && volume.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !good {
            let message = format!("`{}` is not a name for a volume.", volume.name);
            cx.error("volume", &at.key("name"), message, "Use 1 to 34 letters, digits and hyphens.");
        }
        for (key, size) in [("minSize", &volume.min_size), ("maxSize", &volume.max_size)] {
            // Talos would count bytes.
            if let Some(size) = size
                && !size.is_empty()
                && size.bytes().all(|b| b.is_ascii_digit())
            {
                let _ = cx.take("size", &at.key(key), size::parse(size, size::Of::Disk));
            }
        }
        if let Some(encryption) = &volume.encryption {
            keys(encryption, &at.key("encryption"), cx);
        }
    }
    if let Some(Encryption { state, ephemeral }) = &machine.encryption {
        let at = at.key("encryption");
        if state.is_empty() && ephemeral.is_empty() {
            let help = "List what opens `state` and `ephemeral`, or remove `encryption`.";
            cx.error("encryption", &at, "Nothing is encrypted.", help);
        }
        keys(state, &at.key("state"), cx);
        keys(ephemeral, &at.key("ephemeral"), cx);
    }
}

fn install_disk(machine: &Machine, at: &Path<'_>, cx: &mut Context<'_>) {
    let Some(selector) = &machine.install_disk else { return };
    let at = at.key("installDisk");
    if *selector == DiskSelector::default() {
        let help = "Say what it must be like, for example `{minSize: 20GiB, type: ssd}`, or remove it.";
        cx.error("install-disk", &at, "Any disk would do.", help);
    }
    if let Some(text) = &selector.min_size {
        let _ = cx.take("size", &at.key("minSize"), size::parse(text, size::Of::Disk));
    }
}

fn keys(keys: &[EncryptionKey], at: &Path<'_>, cx: &mut Context<'_>) {
    for (i, key) in keys.iter().enumerate() {
        let at = at.index(i);
        let ways = [key.tpm.is_some(), key.kms.is_some(), key.node_id == Some(true)];
        if ways.iter().filter(|way| **way).count() != 1 {
            let help = "Write one of `tpm: {}`, `kms: https://…` and `nodeId: true`.";
            cx.error("encryption", &at, "Give exactly one way to unlock a key.", help);
        }
        if let Some(kms) = &key.kms {
            url(kms, &["https://", "grpc://"], &at.key("kms"), cx);
        }
    }
}

pub(crate) fn routes(routes: &[Route], at: &Path<'_>, cx: &mut Context<'_>) {
    for (i, route) in routes.iter().enumerate() {
        let at = at.index(i);
        if route.to.parse::<IpNet>().is_err() {
            let message = format!("`{}` is not a network.", route.to);
            cx.error("route", &at.key("to"), message, "Write for example `192.168.0.0/16`.");
        }
        if route.via.parse::<IpAddr>().is_err() {
            let message = format!("`{}` is not an address.", route.via);
            cx.error("route", &at.key("via"), message, "Write for example `10.0.0.2`.");
        }
    }
}

fn url(text: &str, schemes: &[&str], at: &Path<'_>, cx: &mut Context<'_>) {
    let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    if rest.is_none_or(|rest| rest.is_empty() || rest.contains([' ', '@'])) {
        let message = "This is not an address that can be used here.".to_owned();
        let help = format!("Begin with {}, and put credentials into a patch.", schemes.join(" or "));
        cx.error("url", at, message, help);
    }
}
