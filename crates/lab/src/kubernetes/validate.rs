//! What cannot be: objects that lack what they need, and changes of what cannot be changed.

use serde_json::{Value, json};

use super::selector;
use super::status::Refusal;

/// One thing that is wrong, as the API says it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    reason: &'static str,
    field: String,
    message: String,
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, reason: &'static str, field: &str, message: String) {
        self.0.push(Fault { reason, field: field.to_owned(), message });
    }

    fn required(&mut self, field: &str, why: &str) {
        let colon = if why.is_empty() { "" } else { ": " };
        self.add("FieldValueRequired", field, format!("Required value{colon}{why}"));
    }

    fn invalid(&mut self, field: &str, value: &Value, why: &str) {
        self.add("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"));
    }

    fn forbidden(&mut self, field: &str, why: &str) {
        self.add("FieldValueForbidden", field, format!("Forbidden: {why}"));
    }

    /// A value that stays as it was made.
    fn immutable(&mut self, live: &Value, wanted: &Value, pointer: &str, field: &str) {
        let (old, new) = (live.pointer(pointer), wanted.pointer(pointer));
        if old.unwrap_or(&Value::Null) != new.unwrap_or(&Value::Null) {
            self.invalid(field, new.unwrap_or(&Value::Null), "field is immutable");
        }
    }

    fn refusal(self, group: &str, kind: &str, name: &str) -> Result<(), Refusal> {
        if self.0.is_empty() {
            return Ok(());
        }
        let shown = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let each: Vec<String> = self.0.iter().map(|f| format!("{}: {}", f.field, f.message)).collect();
        let all = if each.len() == 1 { each.concat() } else { format!("[{}]", each.join(", ")) };
        let mut refusal = Refusal::invalid(format!("{shown} \"{name}\" is invalid: {all}"));
        let causes =
            self.0.iter().map(|f| json!({"reason": f.reason, "message": f.message, "field": f.field}));
        let causes: Vec<Value> = causes.collect();
        refusal.details = Some(json!({"name": name, "group": group, "kind": kind, "causes": causes}));
        Err(refusal)
    }
}

/// Refuses an object that lacks what its kind needs.
pub(crate) fn object(group: &str, kind: &str, object: &Value) -> Result<(), Refusal> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut faults = Faults::default();
    if !is_name(name, kind) {
        faults.invalid("metadata.name", &json!(name), RULE);
    }
    let spec = &object["spec"];
    match (group, kind) {
        ("", "Pod") => containers(spec, "spec", &mut faults),
        ("apps", "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet") => {
            let labels = &spec["template"]["metadata"]["labels"];
            let wanted = &spec["selector"];
            if !wanted.is_object() {
                faults.required("spec.selector", "");
            }
            if !selector::selects(wanted, labels) {
                let why = "`selector` does not match template `labels`";
                faults.invalid("spec.template.metadata.labels", labels, why);
            }
            containers(&spec["template"]["spec"], "spec.template.spec", &mut faults);
        }
        ("batch", "Job") => {
            containers(&spec["template"]["spec"], "spec.template.spec", &mut faults);
            restart(&spec["template"]["spec"], "spec.template.spec.restartPolicy", &mut faults);
        }
        ("", "Service") => {
            let headless = spec["clusterIP"] == "None" || spec["type"] == "ExternalName";
            if !headless && spec["ports"].as_array().is_none_or(Vec::is_empty) {
                faults.required("spec.ports", "");
            }
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding")
            if object["roleRef"]["name"].as_str().is_none_or(str::is_empty) =>
        {
            faults.required("roleRef.name", "");
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(name, spec, &mut faults),
        _ => {}
    }
    faults.refusal(group, kind, name)
}

const RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                    start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Whether an object of this kind may have this name. Roles and their bindings are freer.
fn is_name(name: &str, kind: &str) -> bool {
    if matches!(kind, "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding") {
        return !name.contains(['/', '%']) && name != "." && name != "..";
    }
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let part = |part: &str| {
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

fn containers(spec: &Value, at: &str, faults: &mut Faults) {
    let Some(all) = spec["containers"].as_array().filter(|all| !all.is_empty()) else {
        faults.required(&format!("{at}.containers"), "");
        return;
    };
    let volumes: Vec<&Value> =
        spec["volumes"].as_array().into_iter().flatten().map(|volume| &volume["name"]).collect();
    for (number, container) in all.iter().enumerate() {
        let at = format!("{at}.containers[{number}]");
        if container["name"].as_str().is_none_or(str::is_empty) {
            faults.required(&format!("{at}.name"), "");
        }
        if container["image"].as_str().is_none_or(str::is_empty) {
            faults.required(&format!("{at}.image"), "");
        }
        for (number, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
            if !volumes.contains(&&mount["name"]) {
                let field = format!("{at}.volumeMounts[{number}].name");
                faults.add("FieldValueNotFound", &field, format!("Not found: {}", mount["name"]));
            }
        }
    }
}

fn restart(spec: &Value, field: &str, faults: &mut Faults) {
    let policy = &spec["restartPolicy"];
    if policy != "OnFailure" && policy != "Never" {
        let message = format!("Unsupported value: {policy}: supported values: \"OnFailure\", \"Never\"");
        faults.add("FieldValueNotSupported", field, message);
    }
}

fn definition(name: &str, spec: &Value, faults: &mut Faults) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let wanted = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if name != wanted {
        let why = "must be spec.names.plural+\".\"+spec.group";
        faults.invalid("metadata.name", &json!(name), why);
    }
    let versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        faults.invalid("spec.versions", &spec["versions"], why);
    }
    for (number, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let field = format!("spec.versions[{number}].schema.openAPIV3Schema");
            faults.required(&field, "schemas are required");
        }
    }
    if !matches!(spec["scope"].as_str(), Some("Namespaced" | "Cluster")) {
        faults.required("spec.scope", "");
    }
}

const STATEFUL: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                        'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const POD: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                   `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const CLAIM: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// Refuses a change of what cannot be changed.
pub(crate) fn change(group: &str, kind: &str, live: &Value, wanted: &Value) -> Result<(), Refusal> {
    let mut faults = Faults::default();
    match (group, kind) {
        ("apps", "Deployment" | "DaemonSet" | "ReplicaSet") => {
            faults.immutable(live, wanted, "/spec/selector", "spec.selector");
        }
        ("apps", "StatefulSet") => {
            let free = [
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ];
            if rest(&live["spec"], &free) != rest(&wanted["spec"], &free) {
                faults.forbidden("spec", STATEFUL);
            }
        }
        ("batch", "Job") => {
            for field in
                ["selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"]
            {
                faults.immutable(live, wanted, &format!("/spec/{field}"), &format!("spec.{field}"));
            }
            if live["spec"]["completionMode"] != "Indexed" {
                faults.immutable(live, wanted, "/spec/completions", "spec.completions");
            }
        }
        ("", "Service") => service(live, wanted, &mut faults),
        ("", "Pod") => pod(live, wanted, &mut faults),
        ("", "Secret") => {
            faults.immutable(live, wanted, "/type", "type");
            frozen(live, wanted, &mut faults);
        }
        ("", "ConfigMap") => frozen(live, wanted, &mut faults),
        ("", "PersistentVolumeClaim") => {
            let free = ["resources", "volumeAttributesClassName", "volumeName"];
            if rest(&live["spec"], &free) != rest(&wanted["spec"], &free) {
                faults.forbidden("spec", CLAIM);
            }
        }
        ("storage.k8s.io", "StorageClass") => {
            for field in ["parameters", "provisioner", "reclaimPolicy"] {
                if live[field] != wanted[field] {
                    faults.forbidden(field, &format!("updates to {field} are forbidden."));
                }
            }
            faults.immutable(live, wanted, "/volumeBindingMode", "volumeBindingMode");
        }
        ("storage.k8s.io", "CSIDriver") => {
            for field in ["attachRequired", "volumeLifecycleModes"] {
                faults.immutable(live, wanted, &format!("/spec/{field}"), &format!("spec.{field}"));
            }
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            if live["value"] != wanted["value"] {
                faults.forbidden("value", "may not be changed in an update.");
            }
            faults.immutable(live, wanted, "/preemptionPolicy", "preemptionPolicy");
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding")
            if live["roleRef"] != wanted["roleRef"] =>
        {
            faults.invalid("roleRef", &wanted["roleRef"], "cannot change roleRef");
        }
        ("networking.k8s.io", "IngressClass") => {
            faults.immutable(live, wanted, "/spec/controller", "spec.controller");
        }
        ("node.k8s.io", "RuntimeClass") => faults.immutable(live, wanted, "/handler", "handler"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            for field in ["scope", "group"] {
                faults.immutable(live, wanted, &format!("/spec/{field}"), &format!("spec.{field}"));
            }
            faults.immutable(live, wanted, "/spec/names/kind", "spec.names.kind");
            faults.immutable(live, wanted, "/spec/names/plural", "spec.names.plural");
        }
        _ => {}
    }
    faults.refusal(group, kind, live["metadata"]["name"].as_str().unwrap_or_default())
}

/// A map without some of its fields.
fn rest(spec: &Value, free: &[&str]) -> Value {
    let mut spec = spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|field, _| !free.contains(&field.as_str()));
    }
    spec
}

fn service(live: &Value, wanted: &Value, faults: &mut Faults) {
    let (old, new) = (&live["spec"]["clusterIP"], &wanted["spec"]["clusterIP"]);
    if old.is_string() && old != "" && old != new && wanted["spec"]["type"] != "ExternalName" {
        faults.invalid("spec.clusterIPs[0]", &json!([new]), "may not change once set");
    }
}

/// What says of itself that it does not change.
fn frozen(live: &Value, wanted: &Value, faults: &mut Faults) {
    if live["immutable"] != true {
        return;
    }
    for field in ["data", "binaryData", "immutable"] {
        if live[field] != wanted[field] {
            faults.forbidden(field, "field is immutable when `immutable` is set");
        }
    }
}

fn pod(live: &Value, wanted: &Value, faults: &mut Faults) {
    let bare = |pod: &Value| {
        let free = ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"];
        let mut spec = rest(&pod["spec"], &free);
        for field in ["containers", "initContainers"] {
            if let Some(containers) = spec.get_mut(field).and_then(Value::as_array_mut) {
                containers.iter_mut().for_each(|container| container["image"] = Value::Null);
            }
        }
        spec
    };
    if bare(live) != bare(wanted) {
        faults.forbidden("spec", POD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(selector: &str, label: &str) -> Value {
        json!({"metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": {"app": selector}},
            "template": {"metadata": {"labels": {"app": label}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }})
    }

    #[test]
    fn what_cannot_change_is_named_with_its_value() {
        let refused = change("apps", "Deployment", &deployment("a", "a"), &deployment("b", "b")).unwrap_err();
        assert_eq!(
            refused.message,
            "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable"
        );
        let details = refused.details.unwrap();
        assert_eq!(details["causes"][0]["reason"], "FieldValueInvalid");
        assert_eq!(details["causes"][0]["field"], "spec.selector");
        change("apps", "Deployment", &deployment("a", "a"), &deployment("a", "a")).unwrap();

        let job = |image: &str| json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"image": image}}}});
        assert!(
            change("batch", "Job", &job("1"), &job("2"))
                .unwrap_err()
                .message
                .contains("spec.template: Invalid")
        );
        let set = |service: &str, replicas: u8| json!({"metadata": {"name": "s"}, "spec": {"serviceName": service, "replicas": replicas}});
        change("apps", "StatefulSet", &set("a", 1), &set("a", 2)).unwrap();
        assert!(
            change("apps", "StatefulSet", &set("a", 1), &set("b", 1))
                .unwrap_err()
                .message
                .contains("'template'")
        );
        let service = |ip: &str| json!({"metadata": {"name": "s"}, "spec": {"clusterIP": ip}});
        let refused = change("", "Service", &service("10.96.0.9"), &service("10.96.0.8")).unwrap_err();
        assert!(
            refused
                .message
                .ends_with("spec.clusterIPs[0]: Invalid value: [\"10.96.0.8\"]: may not change once set")
        );
        let role = |name: &str| json!({"metadata": {"name": "b"}, "roleRef": {"name": name}});
        let group = "rbac.authorization.k8s.io";
        assert!(
            change(group, "ClusterRoleBinding", &role("a"), &role("b"))
                .unwrap_err()
                .message
                .contains("cannot change roleRef")
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        object("apps", "Deployment", &deployment("a", "a")).unwrap();
        let refused = object("apps", "Deployment", &deployment("a", "b")).unwrap_err();
        assert!(
            refused.message.contains("`selector` does not match template `labels`"),
            "{}",
            refused.message
        );
        let refused =
            object("", "Pod", &json!({"metadata": {"name": "P_"}, "spec": {"containers": []}})).unwrap_err();
        assert!(
            refused.message.contains("metadata.name")
                && refused.message.contains("spec.containers: Required value")
        );
        let mounts = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "none", "mountPath": "/x"}]}]}});
        let refused = object("", "Pod", &mounts).unwrap_err();
        assert_eq!(
            refused.message,
            "Pod \"p\" is invalid: spec.containers[0].volumeMounts[0].name: Not found: \"none\""
        );
    }
}
