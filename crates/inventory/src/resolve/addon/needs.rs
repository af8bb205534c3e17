//! What add-ons need of Kubernetes and of the machine configs: told in the same settings that may be written by hand, which win.

use serde_json::json;

use super::values::{CATALOGUE, said};
use super::{Draft, accounts};
use crate::addon::AddonText;
use crate::catalogue::{self, Need};
use crate::cluster::{Cni, Kubernetes, Patch, Proxmox, Role, Talos};
use crate::document;
use crate::path::Path;
use crate::resolve::{Context, node};

/// The entry that has the definitions which some charts bring as well.
const DEFINITIONS: &str = "prometheus-operator-crds";
/// The port at which etcd of Talos gives its metrics.
const ETCD_METRICS: u16 = 2381;

/// What add-ons may change or look at.
pub(crate) struct Around<'a, 'd> {
    pub(crate) spec: &'a document::Spec,
    pub(crate) name: &'a str,
    pub(crate) talos: Option<&'a Talos>,
    pub(crate) proxmox: Option<&'a Proxmox>,
    pub(crate) nodes: &'a [node::Draft<'d>],
    pub(crate) kubernetes: Option<&'a mut Kubernetes>,
    pub(crate) patches: &'a mut Vec<Patch>,
}

impl Draft {
    /// Whether its entry needs this.
    pub(super) fn needs(&self, need: Need) -> bool {
        self.entry.is_some_and(|entry| entry.needs.contains(&need))
    }

    /// What its values say of a path.
    pub(super) fn said(&self, path: &[&str]) -> Option<String> {
        said(&self.addon.values, path)
    }

    /// Adds values that follow from the inventory; what is declared still wins.
    pub(super) fn compute(&mut self, values: &serde_json::Value) {
        let own = self.addon.values.iter().position(|text| text.origin != CATALOGUE);
        let at = own.unwrap_or(self.addon.values.len());
        let text = AddonText { origin: CATALOGUE.to_owned(), text: values.to_string() };
        self.addon.values.insert(at, text);
    }

    /// Whether the declared values name something, wherever it is.
    fn mentions(&self, word: &str) -> bool {
        self.addon.values.iter().any(|text| text.origin != CATALOGUE && text.text.contains(word))
    }
}

/// Tells Kubernetes and the machines what the add-ons need, and the add-ons what these are.
pub(crate) fn follow(addons: &mut [Draft], mut around: Around<'_, '_>, cx: &mut Context<'_>) {
    let (root, spec) = (Path::Root, around.spec);
    let at = root.key("spec");
    if let Some(kubernetes) = around.kubernetes.as_deref_mut() {
        network(addons, kubernetes, spec, &at, cx);
        for draft in addons.iter_mut().filter(|draft| draft.needs(Need::KubeProxyReplacement)) {
            kube_proxy(draft, kubernetes, spec, &at, cx);
        }
    }
    policies(addons, around.kubernetes.as_deref(), &at, cx);
    // Two of its pods cannot run on one node, and it would wait for the second one.
    if around.nodes.len() == 1 {
        for draft in addons.iter_mut().filter(|draft| draft.needs(Need::KubeProxyReplacement)) {
            draft.compute(&json!({"operator": {"replicas": 1}}));
        }
    }
    secrets(addons, &at, cx);
    let Some(talos) = around.talos else { return };
    let is_split = talos.version.minor >= 14;
    let mut patches = kubelets(addons, is_split);
    serving_certificates(addons, &at, cx);
    let asked = addons.iter().find(|draft| draft.needs(Need::Metrics)).map(|draft| origin(&draft.addon.name));
    let declared = spec.monitoring;
    if let Some(origin) = match declared {
        Some(true) => Some(at.key("monitoring").to_string()),
        Some(false) => None,
        None => asked,
    } {
        let is_v6 =
            around.nodes.iter().find_map(|node| node.address).is_some_and(|address| address.is_ipv6());
        let proxy = around.kubernetes.as_deref().is_some_and(|kubernetes| kubernetes.kube_proxy);
        let text = metrics(is_split, if is_v6 { "[::]" } else { "0.0.0.0" }, proxy);
        patches.push(Patch { origin, text, role: Some(Role::ControlPlane), from_environment: Vec::new() });
    }
    targets(addons, &around, declared != Some(false));
    for draft in addons.iter_mut() {
        accounts::config(draft, around.name, around.proxmox, &at, cx);
    }
    around.patches.splice(0..0, patches);
}

/// What Talos brings by itself: the same as the setting that asks for it.
pub(super) fn of_talos(name: &str, spec: &document::Spec, at: &Path<'_>, cx: &mut Context<'_>) {
    let declared = spec.kubernetes.as_ref();
    let none = matches!(declared.and_then(|kubernetes| kubernetes.cni), Some(document::Cni::None));
    let manifests = declared.and_then(|kubernetes| kubernetes.cni_manifests.as_ref());
    if none || manifests.is_some_and(|manifests| !manifests.is_empty()) {
        let key = if none { "cni: none" } else { "cniManifests" };
        let message = format!("Talos is to install `{name}`, and `{key}` says that it is not.");
        cx.error("cni", at, message, format!("Remove `{key}`, or the add-on."));
    }
    let brings = |addon: &document::Addon| {
        let declared = addon.settings().and_then(|settings| settings.network);
        declared.unwrap_or_else(|| {
            addon.name() != name && catalogue::entry(addon.name()).is_some_and(|entry| entry.network)
        })
    };
    if let Some(other) = spec.addons.iter().flatten().find(|addon| brings(addon)) {
        let message = format!("`{name}` and `{}` would both bring the pod network.", other.name());
        cx.error("addon", at, message, "Keep one of them.");
    }
}

/// Where a patch comes from that an add-on needs.
fn origin(addon: &str) -> String {
    format!("the add-on {addon}")
}

/// Who brings the pod network.
fn network(
    addons: &[Draft],
    kubernetes: &mut Kubernetes,
    spec: &document::Spec,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) {
    let Some(draft) = addons.iter().find(|draft| draft.addon.network) else { return };
    let (name, at) = (&draft.addon.name, at.key("kubernetes"));
    let declared = spec.kubernetes.as_ref();
    if !kubernetes.cni_manifests.is_empty() {
        let message = format!("`{name}` brings the pod network, and so do these manifests.");
        cx.error("cni", &at.key("cniManifests"), message, "Remove `cniManifests`, or the add-on.");
    } else if matches!(declared.and_then(|k| k.cni), Some(document::Cni::Flannel)) {
        let message = format!("`{name}` brings the pod network, but Talos is told to install Flannel.");
        let help = "Remove `cni`: with such an add-on it is `none`. Or remove the add-on.";
        cx.error("cni", &at.key("cni"), message, help);
    }
    kubernetes.cni = Cni::None;
}

/// Network policies that nothing enforces are an error: whoever asks for them relies on them.
fn policies(addons: &[Draft], kubernetes: Option<&Kubernetes>, at: &Path<'_>, cx: &mut Context<'_>) {
    let Some(kubernetes) = kubernetes.filter(|kubernetes| kubernetes.cni == Cni::Flannel) else { return };
    if !kubernetes.cni_manifests.is_empty() {
        return;
    }
    let addons_at = at.key("addons");
    for draft in addons.iter().filter(|draft| draft.addon.policies.is_some()) {
        let at = addons_at.index(draft.index);
        let help = "Add a pod network that does, such as `- cilium`, or remove `policies`.";
        cx.error("addon", &at.key("policies"), "Flannel does not enforce network policies.", help);
    }
}

/// Whether the add-on or kube-proxy forwards to services: never both, never none.
fn kube_proxy(
    draft: &mut Draft,
    kubernetes: &mut Kubernetes,
    spec: &document::Spec,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) {
    let declared = spec.kubernetes.as_ref().and_then(|kubernetes| kubernetes.kube_proxy);
    let kubernetes_at = at.key("kubernetes");
    let proxy_at = kubernetes_at.key("kubeProxy");
    let name = &draft.addon.name;
    let replaces = match draft.said(&["kubeProxyReplacement"]).as_deref() {
        Some("true" | "strict") => Some(true),
        Some("false" | "disabled") => Some(false),
        _ => None,
    };
    match (replaces, declared) {
        (Some(true), Some(true)) => {
            let message = format!(
                "`{name}` replaces kube-proxy (`kubeProxyReplacement: true`), which is to run as well."
            );
            cx.error(
                "addon",
                &proxy_at,
                message,
                "Remove `kubeProxy: true`, or set `kubeProxyReplacement: false`.",
            );
        }
        (Some(false), Some(false)) => {
            let message = format!(
                "`{name}` does not replace kube-proxy, which is not to run: nothing serves services."
            );
            cx.error(
                "addon",
                &proxy_at,
                message,
                "Remove `kubeProxy: false`, or `kubeProxyReplacement: false`.",
            );
        }
        _ => {}
    }
    let replaces_it = replaces.unwrap_or(declared != Some(true));
    kubernetes.kube_proxy = !replaces_it;
    if replaces.is_none() {
        draft.compute(&json!({"kubeProxyReplacement": replaces_it}));
    }
    // Talos answers DNS on an address of the host, which packets that bypass the host's stack do not reach.
    if draft.said(&["bpf", "masquerade"]).as_deref() == Some("true")
        && draft.said(&["bpf", "hostLegacyRouting"]).is_none()
    {
        draft.compute(&json!({"bpf": {"hostLegacyRouting": true}}));
    }
}

/// Arguments that kubelets need, as patches.
fn kubelets(addons: &[Draft], is_split: bool) -> Vec<Patch> {
    let arguments = [
        (Need::ExternalCloudProvider, "cloud-provider", "external"),
        (Need::ServingCertificates, "rotate-server-certificates", "true"),
    ];
    let patch = |(need, argument, value): (Need, &str, &str)| {
        let draft = addons.iter().find(|draft| draft.needs(need) && !draft.mentions(INSECURE))?;
        let text = if is_split {
            format!("apiVersion: v1alpha1\nkind: KubeletConfig\nextraArgs:\n  {argument}: \"{value}\"\n")
        } else {
            format!("machine:\n  kubelet:\n    extraArgs:\n      {argument}: \"{value}\"\n")
        };
        Some(Patch { origin: origin(&draft.addon.name), text, role: None, from_environment: Vec::new() })
    };
    arguments.into_iter().filter_map(patch).collect()
}

/// The argument with which metrics-server takes any certificate.
const INSECURE: &str = "kubelet-insecure-tls";

/// Says so if nothing would approve the certificates that kubelets ask for.
fn serving_certificates(addons: &[Draft], at: &Path<'_>, cx: &mut Context<'_>) {
    let approver = "kubelet-serving-cert-approver";
    let is_approved = addons.iter().any(|draft| {
        let name = draft.addon.name.as_str();
        name == approver || name.ends_with("cert-approver") || name.contains("talos-cloud-controller-manager")
    });
    let asks =
        addons.iter().find(|draft| draft.needs(Need::ServingCertificates) && !draft.mentions(INSECURE));
    if let (false, Some(draft)) = (is_approved, asks) {
        let message = format!(
            "`{}` verifies the certificates of kubelets, and no add-on approves them.",
            draft.addon.name
        );
        let help = format!("Add `- {approver}`, or another approver.");
        cx.warn("addon-incomplete", &at.key("addons").index(draft.index), message, help);
    }
}

/// Says which secrets an add-on does not work without.
fn secrets(addons: &[Draft], at: &Path<'_>, cx: &mut Context<'_>) {
    for draft in addons {
        let needs = draft.entry.map_or(&[][..], |entry| entry.needs).iter();
        for path in needs.flat_map(|need| match need {
            Need::Secrets(paths) => *paths,
            _ => &[],
        }) {
            let said = draft.said(&path.split('.').collect::<Vec<_>>());
            if !draft.addon.secret_values.contains_key(*path) && said.is_none() {
                let message = format!("`{}` has no value for the secret `{path}`.", draft.addon.name);
                let help = format!(
                    "Say where it is: `secrets: {{{path}: {{env: …}}}}`; or make its Secret yourself."
                );
                let addons_at = at.key("addons");
                cx.warn("addon-incomplete", &addons_at.index(draft.index), message, help);
            }
        }
    }
}

/// What makes the parts of the control plane answer questions from other machines.
fn metrics(is_split: bool, any: &str, proxy: bool) -> String {
    let address = any.trim_matches(['[', ']']);
    let mut text = String::new();
    if is_split {
        for kind in ["KubeControllerManagerConfig", "KubeSchedulerConfig"] {
            text += &format!(
                "apiVersion: v1alpha1\nkind: {kind}\nextraArgs:\n  bind-address: \"{address}\"\n---\n"
            );
        }
        if proxy {
            text += &format!(
                "apiVersion: v1alpha1\nkind: KubeProxyConfig\nextraArgs:\n  metrics-bind-address: \"{any}:10249\"\n---\n"
            );
        }
        text += "cluster:\n";
    } else {
        text += "cluster:\n";
        for part in ["controllerManager", "scheduler"] {
            text += &format!("  {part}:\n    extraArgs:\n      bind-address: \"{address}\"\n");
        }
        if proxy {
            text += &format!("  proxy:\n    extraArgs:\n      metrics-bind-address: \"{any}:10249\"\n");
        }
    }
    text += &format!("  etcd:\n    extraArgs:\n      listen-metrics-urls: \"http://{any}:{ETCD_METRICS}\"\n");
    text
}

/// Tells charts where the parts of the control plane are.
fn targets(addons: &mut [Draft], around: &Around<'_, '_>, answer: bool) {
    let control_planes = around.nodes.iter().filter(|node| node.role == Role::ControlPlane);
    let addresses: Vec<String> =
        control_planes.filter_map(|node| node.address).map(|address| address.to_string()).collect();
    let proxy = answer && around.kubernetes.as_deref().is_some_and(|kubernetes| kubernetes.kube_proxy);
    let etcd = answer && !addresses.is_empty();
    let definitions = addons.iter().any(|draft| draft.entry.is_some_and(|entry| entry.name == DEFINITIONS));
    for draft in addons.iter_mut().filter(|draft| draft.needs(Need::Metrics)) {
        let service = json!({"enabled": true, "port": ETCD_METRICS, "targetPort": ETCD_METRICS});
        let mut values = json!({
            "kubeControllerManager": {"enabled": answer},
            "kubeScheduler": {"enabled": answer},
            "kubeProxy": {"enabled": proxy},
            "kubeEtcd": {"enabled": etcd, "endpoints": addresses, "service": service},
        });
        if definitions
            && draft
                .entry
                .is_some_and(|entry| entry.after.contains(&DEFINITIONS) && entry.name.starts_with("kube"))
        {
            values["crds"] = json!({"enabled": false});
        }
        if draft.entry.is_some_and(|entry| entry.name.starts_with("victoria")) {
            values["kubeEtcd"]["vmScrape"] =
                json!({"spec": {"endpoints": [{"port": "http-metrics", "scheme": "http"}]}});
        }
        draft.compute(&values);
    }
}
