//! Webhooks of admission: a call that a webhook wants to hear of fails while nobody answers it.

use serde_json::Value;

use super::selector;
use super::status::Refusal;
use super::store::{Key, Store};

/// The authority that the lab's injector gives, as base64: the beginning of a certificate is enough where nobody reads it.
pub(crate) const AUTHORITY: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==";

/// Who is behind a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// There is no such Service.
    NoService,
    /// No pod is Ready.
    Nobody,
    Pods,
}

/// Who is behind a Service.
pub(crate) fn behind(store: &Store, namespace: &str, name: &str) -> Behind {
    let Some(service) = store.get(&Key::new("services", namespace, name)) else { return Behind::NoService };
    let Some(wanted) = service["spec"]["selector"].as_object() else { return Behind::Pods };
    let (pods, _) = store.list("pods", Some(namespace));
    let ready = pods.iter().any(|pod| {
        let labels = &pod["metadata"]["labels"];
        let conditions = pod["status"]["conditions"].as_array();
        let ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
        ready && wanted.iter().all(|(key, value)| labels[key] == *value)
    });
    if ready { Behind::Pods } else { Behind::Nobody }
}

/// What is to be done to an object.
pub(crate) struct Request<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) namespace: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(crate) operation: &'a str,
    pub(crate) object: &'a Value,
}

/// Calls the webhooks that want to hear of it. Nobody in the lab objects, but somebody must answer.
pub(crate) fn call(store: &Store, request: &Request<'_>) -> Result<(), Refusal> {
    if request.group == "admissionregistration.k8s.io" {
        return Ok(());
    }
    for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        for config in store.list(&format!("admissionregistration.k8s.io/{kind}"), None).0 {
            for webhook in config["webhooks"].as_array().into_iter().flatten() {
                if webhook["failurePolicy"] != "Ignore" && hears(store, webhook, request) {
                    answered(store, webhook)?;
                }
            }
        }
    }
    Ok(())
}

fn hears(store: &Store, webhook: &Value, request: &Request<'_>) -> bool {
    let listed = |list: &Value, wanted: &[&str]| {
        let list = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        list.into_iter().any(|one| wanted.contains(&one))
    };
    let rules = webhook["rules"].as_array().into_iter().flatten();
    let wanted = rules.into_iter().any(|rule| {
        let scope = if request.namespace.is_empty() { "Cluster" } else { "Namespaced" };
        listed(&rule["apiGroups"], &["*", request.group])
            && listed(&rule["apiVersions"], &["*", request.version])
            && listed(&rule["operations"], &["*", request.operation])
            && listed(&rule["resources"], &["*", "*/*", request.plural, &format!("{}/*", request.plural)])
            && (rule["scope"] == "*" || rule["scope"] == scope)
    });
    if !wanted {
        return false;
    }
    let is_namespace = request.group.is_empty() && request.plural == "namespaces";
    let here = match is_namespace {
        true => selector::selects(&webhook["namespaceSelector"], &request.object["metadata"]["labels"]),
        false if request.namespace.is_empty() => true,
        false => store
            .get(&Key::new("namespaces", "", request.namespace))
            .is_some_and(|n| selector::selects(&webhook["namespaceSelector"], &n["metadata"]["labels"])),
    };
    here && selector::selects(&webhook["objectSelector"], &request.object["metadata"]["labels"])
}

/// Whether somebody answers, and is known.
fn answered(store: &Store, webhook: &Value) -> Result<(), Refusal> {
    let client = &webhook["clientConfig"];
    let service = &client["service"];
    if !service.is_object() {
        // Somewhere outside of the lab.
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (text(&service["name"]), text(&service["namespace"]));
    let unknown = client["caBundle"].as_str().is_none_or(str::is_empty);
    let why = match behind(store, &namespace, &name) {
        Behind::NoService => format!("service \"{name}\" not found"),
        Behind::Nobody => format!("no endpoints available for service \"{name}\""),
        Behind::Pods if unknown => {
            "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
        }
        Behind::Pods => return Ok(()),
    };
    let port = service["port"].as_u64().unwrap_or(443);
    let path = text(&service["path"]);
    let path = path.trim_start_matches('/');
    let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(10);
    let url = format!("https://{name}.{namespace}.svc:{port}/{path}?timeout={seconds}s");
    Err(Refusal::internal(format!(
        "failed calling webhook \"{}\": failed to call webhook: Post \"{url}\": {why}",
        text(&webhook["name"])
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_webhook_that_nobody_answers_stops_what_it_wants_to_hear_of() {
        let store = Store::new("test");
        let config = json!({"metadata": {"name": "w"}, "webhooks": [{
            "name": "check.example.com", "failurePolicy": "Fail", "timeoutSeconds": 5,
            "namespaceSelector": {}, "objectSelector": {},
            "clientConfig": {"service": {"name": "check", "namespace": "tools", "path": "/v", "port": 443}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
                       "resources": ["*/*"], "scope": "*"}]}]});
        let at = Key::new("admissionregistration.k8s.io/validatingwebhookconfigurations", "", "w");
        store.put(&at, config.clone(), 0);
        let object = json!({"metadata": {"name": "x"}});
        let asked = |operation: &str, group: &str| {
            let request = Request {
                group,
                version: "v1",
                plural: "widgets",
                namespace: "",
                operation,
                object: &object,
            };
            call(&store, &request).map_err(|refusal| refusal.message)
        };
        assert_eq!(asked("DELETE", "example.com"), Ok(()));
        assert_eq!(asked("CREATE", "other.com"), Ok(()));
        let post = "Internal error occurred: failed calling webhook \"check.example.com\": failed to call webhook: \
                    Post \"https://check.tools.svc:443/v?timeout=5s\": ";
        assert_eq!(asked("CREATE", "example.com"), Err(format!("{post}service \"check\" not found")));
        let service = json!({"metadata": {"name": "check"}, "spec": {"selector": {"app": "check"}}});
        store.put(&Key::new("services", "tools", "check"), service, 0);
        assert_eq!(
            asked("CREATE", "example.com"),
            Err(format!("{post}no endpoints available for service \"check\""))
        );
        let pod = json!({"metadata": {"name": "p", "labels": {"app": "check"}},
                         "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        store.put(&Key::new("pods", "tools", "p"), pod, 0);
        assert!(
            asked("CREATE", "example.com").unwrap_err().ends_with("certificate signed by unknown authority")
        );
        let mut known = config;
        known["webhooks"][0]["clientConfig"]["caBundle"] = json!(AUTHORITY);
        store.put(&at, known, 0);
        assert_eq!(asked("CREATE", "example.com"), Ok(()));
    }
}
