//! The entries, in the order of their names.

use super::{DataValues, Entry, EntrySource, Need};
use crate::addon::PodSecurity;

/// An entry about which nothing is special.
const PLAIN: Entry = Entry {
    name: "",
    about: "",
    source: EntrySource::Talos,
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

const PROMETHEUS: &str = "https://prometheus-community.github.io/helm-charts";
const SERGELOGVINOV: &str = "oci://ghcr.io/sergelogvinov/charts";

const fn chart(chart: &'static str, repo: &'static str, version: &'static str) -> EntrySource {
    EntrySource::Chart { chart, repo, version }
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "argo-cd",
        about: "GitOps agent",
        source: chart("argo-cd", "oci://ghcr.io/argoproj/argo-helm", "10.1.1"),
        namespace: "argocd",
        timeout: 600,
        talos: "Its chart makes the password of its Redis by a hook, which is not run: create the Secret `argocd-redis` with the key `auth` first.",
        ..PLAIN
    },
    Entry {
        name: "cert-manager",
        about: "Certificates",
        source: chart("cert-manager", "oci://quay.io/jetstack/charts", "v1.21.1"),
        namespace: "cert-manager",
        values: include_str!("values/cert-manager.yaml"),
        after: &["gateway-api", "prometheus-operator-crds"],
        talos: "Its CustomResourceDefinitions are installed, and kept when it is removed.",
        ..PLAIN
    },
    Entry {
        name: "cilium",
        about: "Pod network by eBPF, with network policies",
        source: chart("cilium", "https://helm.cilium.io", "1.19.7"),
        namespace: "kube-system",
        values: include_str!("values/cilium.yaml"),
        network: true,
        after: &["gateway-api"],
        timeout: 600,
        needs: &[Need::NoCni, Need::KubeProxyReplacement],
        talos: "Talos brings no network plugin. It replaces kube-proxy unless `kubernetes.kubeProxy: true`, and reaches the API server \
                through KubePrism. Updates pass every minor version.",
        ..PLAIN
    },
    Entry {
        name: "cloudnative-pg",
        about: "PostgreSQL operator",
        source: chart("cloudnative-pg", "https://cloudnative-pg.github.io/charts", "0.29.0"),
        namespace: "cnpg-system",
        ..PLAIN
    },
    Entry {
        name: "flannel",
        about: "Pod network of Talos",
        network: true,
        talos: "Talos installs it by itself: the same as `kubernetes: {cni: flannel}`. It has no network policies.",
        ..PLAIN
    },
    Entry {
        name: "flux-operator",
        about: "GitOps agent: the operator of Flux",
        source: chart("flux-operator", "oci://ghcr.io/controlplaneio-fluxcd/charts", "0.59.0"),
        namespace: "flux-system",
        ..PLAIN
    },
    Entry {
        name: "gateway-api",
        about: "CustomResourceDefinitions of the Gateway API, standard channel",
        source: EntrySource::Manifests { version: "v1.4.1", files: GATEWAY_API },
        namespace: "kube-system",
        definitions: true,
        talos: "Cilium, Traefik and cert-manager look for it when they start, and come after it.",
        ..PLAIN
    },
    Entry {
        name: "harbor",
        about: "Container registry",
        source: chart("harbor", "https://helm.goharbor.io", "1.19.1"),
        namespace: "harbor",
        timeout: 900,
        needs: &[Need::Secrets(&["harborAdminPassword"])],
        talos: "Set `externalURL`, and the administrator's password under `secrets`.",
        ..PLAIN
    },
    Entry {
        name: "ingress-nginx",
        about: "Ingress controller",
        source: chart("ingress-nginx", "https://kubernetes.github.io/ingress-nginx", "4.15.1"),
        namespace: "ingress-nginx",
        values: include_str!("values/ingress-nginx.yaml"),
        retired: Some("It is no longer maintained. Use Gateway API with `cilium` or `traefik`."),
        talos: "Its admission webhook is off.",
        ..PLAIN
    },
    Entry {
        name: "kube-prometheus-stack",
        about: "Prometheus, Alertmanager, Grafana",
        source: chart("kube-prometheus-stack", PROMETHEUS, "88.5.3"),
        namespace: "monitoring",
        values: include_str!("values/kube-prometheus-stack.yaml"),
        pod_security: Some(PodSecurity::Privileged),
        after: &["prometheus-operator-crds"],
        timeout: 900,
        needs: &[Need::Metrics],
        talos: "Controller manager, scheduler, kube-proxy and etcd listen for it on all addresses. Its admission webhook is off.",
        ..PLAIN
    },
    Entry {
        name: "kube-vip",
        about: "Virtual addresses for services and the API server",
        source: chart("kube-vip", "https://kube-vip.github.io/helm-charts", "0.9.9"),
        namespace: "kube-system",
        talos: "Set `values: {config: {address: …}, env: {vip_interface: …}}`; ARP needs an Ethernet card. In a LAN `network.vip` of Talos \
                does the same for the API server.",
        ..PLAIN
    },
    Entry {
        name: "kubelet-serving-cert-approver",
        about: "Approves the certificates of kubelets",
        source: EntrySource::Manifests {
            version: "v0.11.0",
            files: &[(
                "https://raw.githubusercontent.com/alex1989hu/kubelet-serving-cert-approver/v0.11.0/deploy/standalone-install.yaml",
                "310be96fc85ea1016daddc3d609ebb0042130f98fec7829240c06642cc9663f4",
            )],
        },
        namespace: "kubelet-serving-cert-approver",
        pod_security: Some(PodSecurity::Restricted),
        needs: &[Need::ServingCertificates],
        talos: "Kubelets ask for certificates (`rotate-server-certificates`).",
        ..PLAIN
    },
    Entry {
        name: "local-path",
        about: "Volumes in folders of the nodes",
        source: chart("local-path-provisioner", "https://charts.containeroo.ch", "0.0.37"),
        namespace: "local-path-storage",
        pod_security: Some(PodSecurity::Privileged),
        needs: &[Need::DataVolume("local-path", DataValues::LocalPath)],
        talos: "Nodes with a disk of their own for it get a volume there, mounted at /var/mnt/local-path.",
        ..PLAIN
    },
    Entry {
        name: "loki",
        about: "Logs",
        source: chart("loki", "oci://ghcr.io/grafana-community/helm-charts", "18.11.0"),
        namespace: "loki",
        values: include_str!("values/loki.yaml"),
        timeout: 600,
        talos: "One process on one volume, without caches, canary and gateway. Its data needs a default storage class.",
        ..PLAIN
    },
    Entry {
        name: "longhorn",
        about: "Replicated volumes on disks of the nodes",
        source: chart("longhorn", "https://charts.longhorn.io", "1.12.1"),
        namespace: "longhorn-system",
        values: include_str!("values/longhorn.yaml"),
        pod_security: Some(PodSecurity::Privileged),
        timeout: 900,
        needs: &[
            Need::Extension("iscsi-tools"),
            Need::Extension("util-linux-tools"),
            Need::DataVolume("longhorn", DataValues::Longhorn),
        ],
        talos: "The image gets iscsi-tools and util-linux-tools. Nodes with a disk of their own for it get a volume there, mounted at \
                /var/mnt/longhorn.",
        ..PLAIN
    },
    Entry {
        name: "metrics-server",
        about: "Metrics for `kubectl top` and autoscaling",
        source: chart("metrics-server", "https://kubernetes-sigs.github.io/metrics-server", "3.13.1"),
        namespace: "kube-system",
        after: &["kubelet-serving-cert-approver"],
        needs: &[Need::ServingCertificates],
        talos: "Kubelets ask for certificates (`rotate-server-certificates`); add `kubelet-serving-cert-approver`.",
        ..PLAIN
    },
    Entry {
        name: "openbao",
        about: "Secrets: the free successor of Vault",
        source: chart("openbao", "oci://ghcr.io/openbao/charts", "0.29.2"),
        namespace: "openbao",
        wait: false,
        talos: "It starts sealed and is not Ready until somebody unseals it: `apply` does not wait for it.",
        ..PLAIN
    },
    Entry {
        name: "prometheus-operator-crds",
        about: "CustomResourceDefinitions of the Prometheus operator",
        source: chart("prometheus-operator-crds", PROMETHEUS, "31.0.1"),
        namespace: "kube-system",
        definitions: true,
        talos: "With it, `kube-prometheus-stack` leaves its own out.",
        ..PLAIN
    },
    Entry {
        name: "proxmox-ccm",
        about: "Cloud controller manager of Proxmox: regions and zones of nodes",
        source: chart("proxmox-cloud-controller-manager", SERGELOGVINOV, "0.2.27"),
        namespace: "kube-system",
        values: include_str!("values/proxmox-ccm.yaml"),
        needs: &[
            Need::ExternalCloudProvider,
            Need::ProxmoxAccount { suffix: "ccm", kept: Some(("ccm.yaml", "daedal proxmox ccm")) },
        ],
        talos: "Kubelets leave it to make nodes known (`cloud-provider=external`). Its account is that of `daedal proxmox ccm`.",
        ..PLAIN
    },
    Entry {
        name: "proxmox-csi",
        about: "Volumes on storages of Proxmox",
        source: chart("proxmox-csi-plugin", SERGELOGVINOV, "0.5.9"),
        namespace: "csi-proxmox",
        values: include_str!("values/proxmox-csi.yaml"),
        pod_security: Some(PodSecurity::Privileged),
        after: &["proxmox-ccm"],
        needs: &[Need::ProxmoxAccount { suffix: "csi", kept: None }],
        talos: "Needs the labels of `proxmox-ccm`, a token, and `storageClass` in its values.",
        ..PLAIN
    },
    Entry {
        name: "rabbitmq-operator",
        about: "RabbitMQ operator",
        source: EntrySource::Release {
            version: "v2.22.3",
            url: "https://github.com/rabbitmq/cluster-operator/releases/download/v2.22.3/cluster-operator.yml",
        },
        namespace: "rabbitmq-system",
        talos: "It has no chart: name the manifest of its release, with the SHA-256.",
        ..PLAIN
    },
    Entry {
        name: "tailscale-operator",
        about: "Services and nodes in a tailnet",
        source: chart("tailscale-operator", "https://pkgs.tailscale.com/helmcharts", "1.102.3"),
        namespace: "tailscale",
        pod_security: Some(PodSecurity::Privileged),
        needs: &[Need::Secrets(&["oauth.clientId", "oauth.clientSecret"])],
        talos: "Its proxies are privileged. Name its OAuth client under `secrets`.",
        ..PLAIN
    },
    Entry {
        name: "traefik",
        about: "Ingress controller and gateway",
        source: chart("traefik", "oci://ghcr.io/traefik/helm", "41.3.0"),
        namespace: "traefik",
        after: &["gateway-api"],
        ..PLAIN
    },
    Entry {
        name: "vault",
        about: "Secrets",
        source: chart("vault", "https://helm.releases.hashicorp.com", "0.34.1"),
        namespace: "vault",
        wait: false,
        talos: "It starts sealed and is not Ready until somebody unseals it: `apply` does not wait for it.",
        ..PLAIN
    },
    Entry {
        name: "velero",
        about: "Backups of objects and volumes",
        source: chart("velero", "https://vmware-tanzu.github.io/helm-charts", "12.1.0"),
        namespace: "velero",
        values: include_str!("values/velero.yaml"),
        pod_security: Some(PodSecurity::Privileged),
        talos: "Set `configuration.backupStorageLocation` and the credentials.",
        ..PLAIN
    },
    Entry {
        name: "victoria-metrics-k8s-stack",
        about: "VictoriaMetrics, Alertmanager, Grafana",
        source: chart(
            "victoria-metrics-k8s-stack",
            "https://victoriametrics.github.io/helm-charts",
            "0.91.2",
        ),
        namespace: "monitoring",
        values: include_str!("values/victoria-metrics-k8s-stack.yaml"),
        pod_security: Some(PodSecurity::Privileged),
        after: &["prometheus-operator-crds"],
        timeout: 900,
        needs: &[Need::Metrics],
        talos: "Controller manager, scheduler, kube-proxy and etcd listen for it on all addresses.",
        ..PLAIN
    },
];

/// A file of the Gateway API's standard channel.
macro_rules! of_gateway_api {
    ($($kind:literal: $sha256:literal,)+) => {
        &[$((
            concat!(
                "https://raw.githubusercontent.com/kubernetes-sigs/gateway-api/v1.4.1/config/crd/standard/gateway.networking.k8s.io_",
                $kind,
                ".yaml"
            ),
            $sha256,
        ),)+]
    };
}

const GATEWAY_API: &[(&str, &str)] = of_gateway_api! {
    "backendtlspolicies": "f94f34b0c19cab6c25b53a6e672d9a684116a4e52193531fe2abcea20b51574f",
    "gatewayclasses": "7d958ad3965ea4a4996616846d9ecaf1fededbf9351b9752b8b85973936ae8c8",
    "gateways": "a02ea425fc901f197b668c9ddd56375e1f6896994914c6e6b9b4fdb85cf3ba6e",
    "grpcroutes": "b72068b42cb32051ca609e5a8dfefb16904d164abe2e71d9f3c776fae41c4dab",
    "httproutes": "98c6777c22309d319292e9c288ee632006c9ffdd4272383d6f9dffa3fbccaf14",
    "referencegrants": "d74fc2f8e90094f4c4d6dc13a2d720011a40e30e5640b3e2a2051fac820f6584",
};
