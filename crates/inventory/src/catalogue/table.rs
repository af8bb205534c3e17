//! The entries, in the order of their names.

use super::{Entry, EntrySource, Need};

/// An entry about which nothing is special.
const PLAIN: Entry = Entry {
    name: "",
    about: "",
    source: EntrySource::Chart { chart: "", repo: "", version: "" },
    namespace: "",
    values: "",
    pod_security: None,
    network: false,
    definitions: false,
    after: &[],
    wait: true,
    timeout: 300,
    needs: &[],
    retired: None,
    talos: "",
};

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "cilium",
    about: "Pod network by eBPF, with network policies",
    source: EntrySource::Chart { chart: "cilium", repo: "https://helm.cilium.io", version: "1.19.7" },
    namespace: "kube-system",
    values: include_str!("values/cilium.yaml"),
    network: true,
    after: &["gateway-api"],
    timeout: 600,
    needs: &[Need::NoCni, Need::KubeProxyReplacement],
    talos: "Talos brings no network plugin. It replaces kube-proxy unless `kubernetes.kubeProxy: true`, and asks the API server \
            through KubePrism.",
    ..PLAIN
}];
