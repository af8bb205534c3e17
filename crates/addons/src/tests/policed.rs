//! Baseline network policies.

use serde_json::{Value, json};

use super::Case;
use crate::{Release, applyset, policies};

fn with(manifests: &str) -> Release {
    let mut case = Case::manifests(&[manifests]);
    case.addon.namespace = "shop".into();
    let mut release = case.render().release;
    policies::baseline(&mut release, &case.seed);
    release
}

/// The policies besides that for the whole namespace: name, pods, rules.
fn opened(manifests: &str) -> Vec<(String, Value, Value)> {
    let release = with(manifests);
    let policies = release.objects.iter().filter(|object| object.id.kind == "NetworkPolicy");
    let shown = policies.filter(|object| object.id.name != "web-baseline").map(|object| {
        let spec = &object.body["spec"];
        (object.id.name.clone(), spec["podSelector"].clone(), spec["ingress"].clone())
    });
    shown.collect()
}

const SERVICE: &str = "---
apiVersion: v1
kind: Service
metadata: {name: api, labels: {app: api}}
spec: {selector: {run: api}, ports: [{name: https, port: 443, targetPort: tls}, {name: metrics, port: 9090, protocol: TCP}]}
";

#[test]
fn a_namespace_is_reached_from_itself() {
    let release = with(SERVICE);
    let policy = release.objects.iter().find(|object| object.id.name == "web-baseline").unwrap();
    assert_eq!(
        policy.body["spec"],
        json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]})
    );
    assert_eq!(policy.body["metadata"]["labels"][applyset::PART_OF], applyset::id_of("web"));
    assert_eq!(opened(SERVICE), [], "a service of the inside stays inside");
}

#[test]
fn what_is_offered_to_the_outside_is_open() {
    let rule = json!([{"ports": [{"port": "tls", "protocol": "TCP"}, {"port": 9090, "protocol": "TCP"}]}]);
    let pods = json!({"matchLabels": {"run": "api"}});
    let wanted = [("web-api".to_owned(), pods, rule)];
    assert_eq!(opened(&SERVICE.replace("spec: {", "spec: {type: LoadBalancer, ")), wanted);
    let config = "clientConfig: {service: {name: api, namespace: shop}}";
    for caller in [
        format!("---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: a}}\nwebhooks: [{{name: a, {config}}}]\n"),
        format!("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: a}}\nspec: {{conversion: {{webhook: {{{config}}}}}}}\n"),
        "---\napiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\nspec: {service: {name: api, namespace: shop}}\n".to_owned(),
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec: {rules: [{http: {paths: [{backend: {service: {name: api}}}]}}]}\n".to_owned(),
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {rules: [{backendRefs: [{name: api}]}]}\n".to_owned(),
    ] {
        assert_eq!(opened(&format!("{SERVICE}{caller}")), wanted, "{caller}");
    }
    let elsewhere = "---\napiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\nspec: {service: {name: api, namespace: other}}\n";
    assert_eq!(opened(&format!("{SERVICE}{elsewhere}")), []);
}

#[test]
fn metrics_are_collected_from_any_namespace() {
    let from = json!([{"namespaceSelector": {}}]);
    let monitor = "---\napiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m}\nspec: {selector: {matchLabels: {app: api}}, endpoints: [{port: metrics}]}\n";
    assert_eq!(
        opened(&format!("{SERVICE}{monitor}")),
        [(
            "web-api-metrics".to_owned(),
            json!({"matchLabels": {"run": "api"}}),
            json!([{"from": from, "ports": [{"port": 9090, "protocol": "TCP"}]}])
        )]
    );
    let other = monitor.replace("app: api", "app: other");
    assert_eq!(opened(&format!("{SERVICE}{other}")), []);
    let pods = "---\napiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: m}\nspec: {selector: {matchLabels: {run: api}}, podMetricsEndpoints: [{port: metrics}]}\n";
    assert_eq!(
        opened(pods),
        [(
            "web-m-metrics".to_owned(),
            json!({"matchLabels": {"run": "api"}}),
            json!([{"from": from, "ports": [{"port": "metrics", "protocol": "TCP"}]}])
        )]
    );
}

#[test]
fn namespaces_that_every_cluster_has_are_left_alone() {
    let mut case = Case::manifests(&[SERVICE]);
    case.addon.namespace = "kube-system".into();
    let mut release = case.render().release;
    let before = release.clone();
    policies::baseline(&mut release, &case.seed);
    assert_eq!(release, before);
}
