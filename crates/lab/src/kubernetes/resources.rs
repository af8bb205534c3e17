//! Which resources the API serves: the built-in ones and those that CustomResourceDefinitions add.

use serde_json::{Value, json};

use super::store::Store;

/// One served resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) status: bool,
    pub(crate) scale: bool,
    /// Whether a CustomResourceDefinition makes it.
    pub(crate) custom: bool,
    /// Printer columns of a custom resource.
    pub(crate) columns: Vec<Value>,
}

/// group, version, plural, kind, namespaced, short names, has status, in category `all`
type Row = (&'static str, &'static str, &'static str, &'static str, bool, &'static str, bool, bool);

const BUILT_IN: &[Row] = &[
    ("", "v1", "configmaps", "ConfigMap", true, "cm", false, false),
    ("", "v1", "endpoints", "Endpoints", true, "ep", false, false),
    ("", "v1", "events", "Event", true, "ev", false, false),
    ("", "v1", "limitranges", "LimitRange", true, "limits", false, false),
    ("", "v1", "namespaces", "Namespace", false, "ns", true, false),
    ("", "v1", "nodes", "Node", false, "no", true, false),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true, "pvc", true, false),
    ("", "v1", "persistentvolumes", "PersistentVolume", false, "pv", true, false),
    ("", "v1", "pods", "Pod", true, "po", true, true),
    ("", "v1", "podtemplates", "PodTemplate", true, "", false, false),
    ("", "v1", "replicationcontrollers", "ReplicationController", true, "rc", true, true),
    ("", "v1", "resourcequotas", "ResourceQuota", true, "quota", true, false),
    ("", "v1", "secrets", "Secret", true, "", false, false),
    ("", "v1", "serviceaccounts", "ServiceAccount", true, "sa", false, false),
    ("", "v1", "services", "Service", true, "svc", true, true),
    (
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        false,
        "",
        false,
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        false,
        "",
        true,
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        false,
        "",
        false,
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        false,
        "",
        false,
        false,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
        "crd",
        true,
        false,
    ),
    ("apiregistration.k8s.io", "v1", "apiservices", "APIService", false, "", true, false),
    ("apps", "v1", "controllerrevisions", "ControllerRevision", true, "", false, false),
    ("apps", "v1", "daemonsets", "DaemonSet", true, "ds", true, true),
    ("apps", "v1", "deployments", "Deployment", true, "deploy", true, true),
    ("apps", "v1", "replicasets", "ReplicaSet", true, "rs", true, true),
    ("apps", "v1", "statefulsets", "StatefulSet", true, "sts", true, true),
    ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true, "hpa", true, true),
    ("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true, "hpa", true, true),
    ("batch", "v1", "cronjobs", "CronJob", true, "cj", true, true),
    ("batch", "v1", "jobs", "Job", true, "", true, true),
    (
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        false,
        "csr",
        true,
        false,
    ),
    ("coordination.k8s.io", "v1", "leases", "Lease", true, "", false, false),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true, "", false, false),
    ("events.k8s.io", "v1", "events", "Event", true, "ev", false, false),
    ("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", false, "", true, false),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        false,
        "",
        true,
        false,
    ),
    ("networking.k8s.io", "v1", "ingressclasses", "IngressClass", false, "", false, false),
    ("networking.k8s.io", "v1", "ingresses", "Ingress", true, "ing", true, false),
    ("networking.k8s.io", "v1", "ipaddresses", "IPAddress", false, "ip", false, false),
    ("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", false, "", true, false),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true, "netpol", false, false),
    ("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false, "", false, false),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true, "pdb", true, false),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false, "", false, false),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false, "", false, false),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true, "", false, false),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", true, "", false, false),
    ("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false, "", false, false),
    ("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true, "", true, false),
    ("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", true, "", false, false),
    ("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false, "", false, false),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false, "pc", false, false),
    ("storage.k8s.io", "v1", "csidrivers", "CSIDriver", false, "", false, false),
    ("storage.k8s.io", "v1", "csinodes", "CSINode", false, "", false, false),
    ("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", true, "", false, false),
    ("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", false, "vac", false, false),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass", false, "sc", false, false),
    ("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false, "", true, false),
];

impl Resource {
    fn built_in(row: &Row) -> Self {
        let (group, version, plural, kind, namespaced, short, status, all) = *row;
        Self {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            singular: kind.to_ascii_lowercase(),
            kind: kind.into(),
            namespaced,
            short: if short.is_empty() { Vec::new() } else { vec![short.into()] },
            categories: if all { vec!["all".into()] } else { Vec::new() },
            status,
            scale: matches!(
                plural,
                "deployments" | "replicasets" | "statefulsets" | "replicationcontrollers"
            ),
            custom: false,
            columns: Vec::new(),
        }
    }

    /// The name under which the store keeps it: all versions of a resource are one.
    pub(crate) fn stored(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}/{}", self.group, self.plural) }
    }

    /// `apiVersion` of its objects.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The entry in a legacy discovery list.
    pub(crate) fn listing(&self) -> Value {
        let mut entry = json!({
            "name": self.plural, "singularName": self.singular, "namespaced": self.namespaced, "kind": self.kind,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        });
        if !self.short.is_empty() {
            entry["shortNames"] = json!(self.short);
        }
        if !self.categories.is_empty() {
            entry["categories"] = json!(self.categories);
        }
        entry
    }
}

/// All served resources, built-in ones first.
pub(crate) fn all(store: &Store) -> Vec<Resource> {
    let mut all: Vec<Resource> = BUILT_IN.iter().map(Resource::built_in).collect();
    for definition in store.list("apiextensions.k8s.io/customresourcedefinitions", None).0 {
        all.extend(custom(&definition));
    }
    all
}

/// Finds a resource by its place in a path.
pub(crate) fn find(store: &Store, group: &str, version: &str, plural: &str) -> Option<Resource> {
    let built_in = BUILT_IN.iter().find(|r| r.0 == group && r.1 == version && r.2 == plural);
    built_in.map(Resource::built_in).or_else(|| {
        let key = super::store::Key::new(
            "apiextensions.k8s.io/customresourcedefinitions",
            "",
            &format!("{plural}.{group}"),
        );
        custom(&*store.get(&key)?).into_iter().find(|r| r.version == version)
    })
}

/// What a definition serves: nothing before it is established.
fn custom(definition: &Value) -> Vec<Resource> {
    let conditions = definition["status"]["conditions"].as_array();
    if !conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True") {
        return Vec::new();
    }
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let kind = text(&names["kind"]);
    let singular = names["singular"].as_str().map_or_else(|| kind.to_ascii_lowercase(), str::to_owned);
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .filter(|v| v["served"].as_bool().unwrap_or(true))
        .map(|version| Resource {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            plural: text(&names["plural"]),
            singular: singular.clone(),
            kind: kind.clone(),
            namespaced: spec["scope"] == "Namespaced",
            short: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            status: version["subresources"].get("status").is_some(),
            scale: version["subresources"].get("scale").is_some(),
            custom: true,
            columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
        })
        .collect()
}
