//! What is a change, and what only looks like one.

use super::*;
use serde_json::json;

fn changes(want: &Value, live: &Value) -> Vec<String> {
    let shown = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let found = differences(want, live, &Seed::new([3; 32]));
    found.into_iter().map(|c| format!("{}: {} → {}", c.path, shown(c.from), shown(c.to))).collect()
}

fn deployment(containers: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": containers}}}})
}

#[test]
fn fields_that_are_left_to_others_make_no_difference() {
    let want = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "annotations": {}, "labels": null},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "name": ""}], "publishNotReadyAddresses": false}});
    let live = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a", "uid": "1", "resourceVersion": "2", "labels": {"x": "y"}},
        "spec": {"selector": {"app": "a"}, "clusterIP": "10.0.0.1", "type": "ClusterIP",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
        "status": {"loadBalancer": {}}});
    assert_eq!(changes(&want, &live), [""; 0]);
}

#[test]
fn elements_are_found_by_their_keys() {
    let live = deployment(&json!([
        {"name": "side", "image": "s:1"},
        {"name": "app", "image": "a:1", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
            "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}],
            "volumeMounts": [{"mountPath": "/b", "name": "v"}, {"mountPath": "/a", "name": "v"}]},
    ]));
    let same = deployment(&json!([{"name": "app", "image": "a:1",
        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
        "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}],
        "volumeMounts": [{"mountPath": "/a", "name": "v"}]}]));
    assert_eq!(changes(&same, &live), [""; 0]);
    let other = deployment(&json!([{"name": "app", "image": "a:2", "env": [{"name": "C", "value": "3"}]}]));
    assert_eq!(
        changes(&other, &live),
        [
            "spec.template.spec.containers[app].image: a:1 → a:2",
            "spec.template.spec.containers[app].env[C]: - → {\"name\":\"C\",\"value\":\"3\"}",
        ]
    );
}

#[test]
fn other_lists_are_one_value_whose_elements_may_have_defaults() {
    let with = |args: Value, tolerations: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "args": args}], "tolerations": tolerations}});
    let live = with(json!(["-a", "-b"]), json!([{"operator": "Exists", "tolerationSeconds": 300}]));
    assert_eq!(changes(&with(json!(["-a", "-b"]), json!([{"operator": "Exists"}])), &live), [""; 0]);
    assert_eq!(
        changes(&with(json!(["-a"]), json!([{"operator": "Equal"}])), &live),
        [
            "spec.containers[a].args: [\"-a\",\"-b\"] → [\"-a\"]",
            "spec.tolerations[0].operator: Exists → Equal",
        ]
    );
    assert_eq!(changes(&with(json!(["-b", "-a"]), json!(null)), &live).len(), 2);
}

#[test]
fn quantities_and_numbers_are_what_they_mean() {
    let with = |cpu: Value, memory: &str, env: &str| {
        deployment(
            &json!([{"name": "a", "resources": {"limits": {"cpu": cpu, "memory": memory}}, "env": [{"name": "Q", "value": env}]}]),
        )
    };
    let live = with(json!("1"), "1Gi", "1");
    assert_eq!(changes(&with(json!("1000m"), "1024Mi", "1"), &live), [""; 0]);
    assert_eq!(changes(&with(json!(1), "1Gi", "1"), &live), [""; 0]);
    assert_eq!(
        changes(&with(json!("1"), "1G", "1000m"), &live),
        [
            "spec.template.spec.containers[a].resources.limits.memory: 1Gi → 1G",
            "spec.template.spec.containers[a].env[Q].value: 1 → 1000m",
        ]
    );
    let port = |port: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1, "targetPort": port}]}});
    assert_eq!(changes(&port(json!("80")), &port(json!(80))), [""; 0]);
    assert_eq!(changes(&port(json!(80.0)), &port(json!(80))), [""; 0]);
}

#[test]
fn what_a_secret_holds_shows_as_marks() {
    let secret = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "data": data});
    let found = changes(
        &secret(json!({"a": "bmV3", "b": "c2FtZQ=="})),
        &secret(json!({"a": "b2xk", "b": "c2FtZQ=="})),
    );
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("data.a: [secret "), "{found:?}");
    let (from, to) = found[0].split_once(" → ").unwrap();
    assert!(!from.ends_with(to), "{found:?}");
    let created = changes(&secret(json!({"a": "bmV3", "b": "eA=="})), &secret(Value::Null));
    assert_eq!(created.len(), 2);
    assert!(created.iter().all(|change| change.contains(": - → [secret ")), "{created:?}");
    assert_eq!(changes(&secret(json!({"a": "bmV3\n"})), &secret(json!({"a": "bmV3"}))), [""; 0]);
    let other = differences(&secret(json!({"a": "bmV3"})), &secret(json!({})), &Seed::new([4; 32]));
    assert!(
        !created.contains(&format!("data.a: - → {}", other[0].to.as_deref().unwrap())),
        "marks need the seed"
    );
}

#[test]
fn what_others_fill_in_is_left_to_them() {
    let crd = |bundle: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}})
    };
    assert_eq!(changes(&crd(json!("YQ==")), &crd(json!("Yg=="))), [""; 0]);
    let webhook = |bundle: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "webhooks": [{"name": "a", "clientConfig": {"caBundle": bundle}}]})
    };
    assert_eq!(changes(&webhook("Cg=="), &webhook("Yg==")), [""; 0]);
    assert_eq!(changes(&webhook("YQ=="), &webhook("Yg==")).len(), 1);
    let role = |rules: Value, aggregation: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "aggregationRule": aggregation, "rules": rules});
    let live = role(json!([{"verbs": ["get"]}]), json!({"clusterRoleSelectors": []}));
    assert_eq!(changes(&role(json!([]), json!({"clusterRoleSelectors": []})), &live), [""; 0]);
    let digest = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {DIGEST: text}}});
    assert_eq!(changes(&digest("a"), &digest("b")), [""; 0]);
}

#[test]
fn a_custom_object_keeps_what_says_little() {
    let thing = |spec: Value| json!({"apiVersion": "example.org/v1", "kind": "Thing", "spec": spec});
    assert_eq!(changes(&thing(json!({"on": false})), &thing(json!({}))), ["spec.on: - → false"]);
    assert_eq!(
        changes(&thing(json!({"env": [{"name": "a"}]})), &thing(json!({"env": [{"name": "b"}]}))).len(),
        1
    );
}

fn managed(fields: &[(&str, &str, Value)]) -> Value {
    let entries = fields.iter().map(|(manager, operation, fields)| {
        json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
    });
    Value::Array(entries.collect())
}

#[test]
fn what_was_applied_and_is_no_longer_said_goes() {
    let want =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"keep": "1"}});
    let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"keep": "1", "ours": "2", "theirs": "3", "shared": "4"}});
    let ours = json!({"f:data": {".": {}, "f:keep": {}, "f:ours": {}, "f:shared": {}, "f:gone": {}}});
    let theirs = json!({"f:data": {"f:theirs": {}, "f:shared": {}}});
    live["metadata"]["managedFields"] =
        managed(&[("daedal", "Apply", ours.clone()), ("kubectl", "Update", theirs)]);
    assert_eq!(changes(&want, &live), ["data.ours: 2 → -"]);
    live["metadata"]["managedFields"] = managed(&[("helm", "Apply", ours)]);
    assert_eq!(changes(&want, &live), [""; 0]);
}

#[test]
fn an_element_that_is_no_longer_said_goes_by_its_keys() {
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {"ports": ports}});
    let want = service(json!([{"port": 80}]));
    let mut live = service(json!([{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}]));
    live["metadata"]["managedFields"] = managed(&[(
        "daedal",
        "Apply",
        json!({"f:spec": {"f:ports": {
            "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
            "k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
        }}}),
    )]);
    assert_eq!(changes(&want, &live), ["spec.ports[81/TCP]: {\"port\":81,\"protocol\":\"TCP\"} → -"]);

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {}});
    let mut live = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "b2xk"}});
    live["metadata"]["managedFields"] = managed(&[("daedal", "Apply", json!({"f:data": {"f:a": {}}}))]);
    let found = changes(&secret, &live);
    assert!(found[0].starts_with("data.a: [secret ") && found[0].ends_with(" → -"), "{found:?}");
}

#[test]
fn names_that_are_no_words_are_quoted() {
    let with = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {"a.b/c": value}}});
    assert_eq!(changes(&with("x"), &with("y")), ["metadata.annotations.\"a.b/c\": y → x"]);
}

#[test]
fn the_order_of_elements_is_that_of_who_applies_them() {
    let with = |names: &[&str]| deployment(&names.iter().map(|name| json!({"name": name})).collect());
    let live = with(&["x", "a", "y", "b"]);
    assert_eq!(changes(&with(&["a", "b"]), &live), [""; 0]);
    assert_eq!(
        changes(&with(&["b", "a", "c"]), &live),
        [
            "spec.template.spec.containers[c]: - → {\"name\":\"c\"}",
            "spec.template.spec.containers: a, b → b, a",
        ]
    );
}

#[test]
fn an_empty_structure_or_text_may_say_something() {
    let config = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
    assert_eq!(changes(&config(json!({"a": ""})), &config(json!({}))), ["data.a: - → "]);
    assert_eq!(changes(&config(json!({})), &config(Value::Null)), [""; 0]);
    let policy = |from: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"ingress": [{"from": [from]}]}});
    let (one, both) = (json!({"podSelector": {}}), json!({"podSelector": {}, "namespaceSelector": {}}));
    assert_eq!(changes(&policy(both), &policy(one)), ["spec.ingress[0].from[0].namespaceSelector: - → {}"]);
    let account =
        |names: Value| json!({"apiVersion": "v1", "kind": "ServiceAccount", "imagePullSecrets": names});
    let two = account(json!([{"name": "a"}, {"name": "b"}]));
    assert_eq!(changes(&account(json!([{"name": "a"}])), &two).len(), 1, "the list is one value");
}

#[test]
fn what_goes_and_comes_back_as_its_default_is_no_change() {
    let job =
        |spec: Value| json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {}, "spec": spec});
    let mut live = job(json!({"schedule": "@daily", "suspend": false}));
    let ours = json!({"f:spec": {"f:schedule": {}, "f:suspend": {}}});
    live["metadata"]["managedFields"] = managed(&[("daedal", "Apply", ours)]);
    assert_eq!(changes(&job(json!({"schedule": "@daily"})), &live), [""; 0]);
    live["spec"]["suspend"] = json!(true);
    assert_eq!(changes(&job(json!({"schedule": "@daily"})), &live), ["spec.suspend: true → -"]);
}
