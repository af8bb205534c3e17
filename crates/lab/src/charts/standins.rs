//! The stand-ins: charts of well-known names that render to few objects of the kinds that the real ones have.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ChartPackage;

/// A chart with templates of its own.
struct StandIn {
    name: &'static str,
    /// Versions of the chart and of what it installs.
    versions: &'static [(&'static str, &'static str)],
    values: &'static str,
    template: &'static str,
    definitions: &'static [Definition],
    place: Place,
}

/// Where a chart has its CustomResourceDefinitions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In `crds/`.
    Folder,
    /// Among the templates, behind this condition.
    Template(&'static str),
    /// Among the templates of a chart inside it.
    Inner,
}

/// Group, plural, kind, version, whether it is of a namespace.
type Definition = (&'static str, &'static str, &'static str, &'static str, bool);

const STAND_INS: [StandIn; 7] = [
    StandIn {
        name: "cilium",
        versions: &[
            ("1.16.5", "1.16.5"),
            ("1.17.9", "1.17.9"),
            ("1.18.13", "1.18.13"),
            ("1.19.7", "1.19.7"),
            ("1.20.1", "1.20.1"),
            ("1.20.2", "1.20.2"),
        ],
        values: include_str!("standin/cilium-values.yaml"),
        template: include_str!("standin/cilium.yaml"),
        definitions: &[],
        place: Place::Folder,
    },
    StandIn {
        name: "cert-manager",
        versions: &[("v1.20.3", "v1.20.3"), ("v1.21.1", "v1.21.1"), ("v1.21.2", "v1.21.2")],
        values: include_str!("standin/cert-manager-values.yaml"),
        template: include_str!("standin/cert-manager.yaml"),
        definitions: &[
            ("cert-manager.io", "certificates", "Certificate", "v1", true),
            ("cert-manager.io", "issuers", "Issuer", "v1", true),
            ("cert-manager.io", "clusterissuers", "ClusterIssuer", "v1", false),
        ],
        place: Place::Template("or .Values.crds.enabled .Values.installCRDs"),
    },
    StandIn {
        name: "metrics-server",
        versions: &[("3.13.0", "0.8.0"), ("3.13.1", "0.8.1")],
        values: include_str!("standin/metrics-server-values.yaml"),
        template: include_str!("standin/metrics-server.yaml"),
        definitions: &[],
        place: Place::Folder,
    },
    StandIn {
        name: "longhorn",
        versions: &[("1.11.0", "v1.11.0"), ("1.12.0", "v1.12.0"), ("1.12.1", "v1.12.1")],
        values: include_str!("standin/longhorn-values.yaml"),
        template: include_str!("standin/longhorn.yaml"),
        definitions: &[
            ("longhorn.io", "volumes", "Volume", "v1beta2", true),
            ("longhorn.io", "settings", "Setting", "v1beta2", true),
        ],
        place: Place::Template("true"),
    },
    StandIn {
        name: "proxmox-cloud-controller-manager",
        versions: &[("0.2.26", "v0.12.3"), ("0.2.27", "v0.13.1")],
        values: include_str!("standin/proxmox-cloud-controller-manager-values.yaml"),
        template: include_str!("standin/proxmox-cloud-controller-manager.yaml"),
        definitions: &[],
        place: Place::Folder,
    },
    StandIn {
        name: "flux-operator",
        versions: &[("0.58.0", "v0.58.0"), ("0.59.0", "v0.59.0")],
        values: "installCRDs: true\n",
        template: include_str!("standin/flux-operator.yaml"),
        definitions: &[
            ("fluxcd.controlplane.io", "fluxinstances", "FluxInstance", "v1", true),
            ("fluxcd.controlplane.io", "fluxreports", "FluxReport", "v1", true),
        ],
        place: Place::Template(".Values.installCRDs"),
    },
    StandIn {
        name: "prometheus-operator-crds",
        versions: &[("30.0.0", "v0.92.0"), ("31.0.1", "v0.93.1")],
        values: "crds:\n  annotations: {}\n",
        template: "",
        definitions: &[
            ("monitoring.coreos.com", "servicemonitors", "ServiceMonitor", "v1", true),
            ("monitoring.coreos.com", "podmonitors", "PodMonitor", "v1", true),
            ("monitoring.coreos.com", "prometheusrules", "PrometheusRule", "v1", true),
        ],
        place: Place::Inner,
    },
];

/// Charts that are one Deployment in the lab: name, version of the chart, version of what it installs.
const OTHERS: [(&str, &str, &str); 15] = [
    ("argo-cd", "10.1.1", "v3.4.4"),
    ("cloudnative-pg", "0.29.0", "1.30.0"),
    ("harbor", "1.19.1", "2.15.1"),
    ("ingress-nginx", "4.15.1", "1.15.1"),
    ("kube-prometheus-stack", "88.5.3", "v0.93.1"),
    ("kube-vip", "0.9.9", "v1.0.4"),
    ("local-path-provisioner", "0.0.37", "v0.0.37"),
    ("loki", "18.11.0", "3.7.6"),
    ("openbao", "0.29.2", "v2.6.2"),
    ("proxmox-csi-plugin", "0.5.9", "v0.19.1"),
    ("tailscale-operator", "1.102.3", "v1.102.3"),
    ("traefik", "41.3.0", "v3.7.11"),
    ("vault", "0.34.1", "2.0.4"),
    ("velero", "12.1.0", "1.18.1"),
    ("victoria-metrics-k8s-stack", "0.91.2", "v1.150.0"),
];

/// All stand-ins in all their versions.
pub(super) fn all() -> Vec<ChartPackage> {
    let own = STAND_INS.iter().flat_map(|chart| chart.versions.iter().map(|version| chart.package(*version)));
    let others = OTHERS.iter().map(|(name, version, app_version)| {
        let values = format!("replicaCount: 1\nimage:\n  repository: registry.lan/{name}\n  tag: \"\"\n");
        let files = BTreeMap::from([
            ("values.yaml".to_owned(), values),
            ("templates/all.yaml".to_owned(), include_str!("standin/generic.yaml").to_owned()),
        ]);
        let (name, version, app_version) = ((*name).into(), (*version).into(), (*app_version).into());
        ChartPackage { name, version, app_version, files }
    });
    own.chain(others).collect()
}

impl StandIn {
    fn package(&self, (version, app_version): (&str, &str)) -> ChartPackage {
        let mut files = BTreeMap::from([("values.yaml".to_owned(), self.values.to_owned())]);
        if !self.template.is_empty() {
            files.insert("templates/all.yaml".to_owned(), self.template.to_owned());
        }
        for definition in self.definitions {
            let (group, plural, ..) = definition;
            let file = format!("{group}_{plural}.yaml");
            let text = written(definition);
            match self.place {
                Place::Folder => files.insert(format!("crds/{file}"), text),
                Place::Template(condition) => {
                    let kept = text.replacen(
                        "metadata:\n",
                        "metadata:\n  annotations:\n    helm.sh/resource-policy: keep\n",
                        1,
                    );
                    files.insert(
                        format!("templates/crd-{file}"),
                        format!("{{{{- if {condition} }}}}\n{kept}{{{{- end }}}}\n"),
                    )
                }
                Place::Inner => files.insert(format!("charts/crds/templates/{file}"), text),
            };
        }
        if self.place == Place::Inner {
            files.insert(
                "charts/crds/Chart.yaml".to_owned(),
                "apiVersion: v2\nname: crds\nversion: 0.0.0\n".to_owned(),
            );
            files.insert("charts/crds/values.yaml".to_owned(), "annotations: {}\n".to_owned());
        }
        ChartPackage {
            name: self.name.into(),
            version: version.into(),
            app_version: app_version.into(),
            files,
        }
    }
}

/// A CustomResourceDefinition that takes any content.
fn written((group, plural, kind, version, namespaced): &Definition) -> String {
    let mut text = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {plural}.{group}\n\
         spec:\n  group: {group}\n  names:\n    kind: {kind}\n    listKind: {kind}List\n    plural: {plural}\n    singular: {}\n",
        kind.to_ascii_lowercase()
    );
    let scope = if *namespaced { "Namespaced" } else { "Cluster" };
    let _ = write!(
        text,
        "  scope: {scope}\n  versions:\n  - name: {version}\n    served: true\n    storage: true\n    subresources:\n      status: {{}}\n    \
         schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            type: object\n            \
         x-kubernetes-preserve-unknown-fields: true\n          status:\n            type: object\n            \
         x-kubernetes-preserve-unknown-fields: true\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_there_once() {
        let all = all();
        let mut names: Vec<_> = all.iter().map(|chart| (&chart.name, &chart.version)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        let definition = written(&("cert-manager.io", "issuers", "Issuer", "v1", true));
        let definition: serde_json::Value = yaml_serde::from_str(&definition).unwrap();
        assert_eq!(definition["metadata"]["name"], "issuers.cert-manager.io");
        assert_eq!(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"], "object");
    }
}
