//! Objects as charts write them, and edits that change something or nothing.

use serde_json::{Value, json};

type Edit = fn(&mut Value);

pub fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

pub fn deployment(namespace: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace, "labels": {"app": "web", "tier": "front"}, "annotations": {"note": "x"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
                "spec": {
                    "hostNetwork": false,
                    "securityContext": {},
                    "tolerations": [{"operator": "Exists"}],
                    "nodeSelector": {},
                    "initContainers": [{"name": "init", "image": "web:1"}],
                    "containers": [
                        {"name": "side", "image": "side:1", "args": []},
                        {"name": "web", "image": "web:1", "args": ["-a", "-b"],
                            "env": [{"name": "B", "value": ""}, {"name": "A", "value": "1000m"},
                                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}}],
                            "ports": [{"containerPort": 53, "protocol": "UDP", "name": "dns"}, {"containerPort": 80, "name": "http"}],
                            "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}},
                            "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "timeoutSeconds": 5},
                            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/config"}]},
                    ],
                    "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1024Mi"}}, {"name": "config", "configMap": {"name": "web"}}],
                },
            },
        },
    })
}

fn containers(object: &mut Value) -> &mut Vec<Value> {
    object["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap()
}

fn remove(object: &mut Value, key: &str) {
    object.as_object_mut().unwrap().remove(key);
}

fn workloads() -> Vec<(&'static str, Value, Vec<Edit>)> {
    let edits: Vec<Edit> = vec![
        |o| containers(o).reverse(),
        |o| containers(o)[1]["image"] = json!("web:2"),
        |o| containers(o)[1]["resources"]["limits"]["cpu"] = json!(1),
        |o| containers(o)[1]["resources"]["limits"]["memory"] = json!("1Gi"),
        |o| containers(o)[1]["resources"]["limits"]["memory"] = json!("1G"),
        |o| containers(o)[1]["resources"]["requests"]["cpu"] = json!("500m"),
        |o| containers(o)[1]["env"].as_array_mut().unwrap().reverse(),
        |o| containers(o)[1]["env"][1]["value"] = json!("1"),
        |o| {
            containers(o)[1]["env"].as_array_mut().unwrap().remove(1);
        },
        |o| containers(o)[1]["args"] = json!(["-b", "-a"]),
        |o| remove(&mut containers(o)[1], "args"),
        |o| remove(&mut containers(o)[1], "livenessProbe"),
        |o| {
            containers(o)[1]["ports"].as_array_mut().unwrap().remove(0);
        },
        |o| containers(o)[1]["ports"][1]["protocol"] = json!("TCP"),
        |o| {
            containers(o).remove(0);
        },
        |o| {
            containers(o)[1]["volumeMounts"].as_array_mut().unwrap().reverse();
        },
        |o| remove(&mut o["metadata"]["labels"], "tier"),
        |o| remove(&mut o["metadata"], "annotations"),
        |o| o["metadata"]["labels"]["more"] = json!("1"),
        |o| remove(&mut o["spec"], "replicas"),
        |o| o["spec"]["replicas"] = json!(3),
        |o| o["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = json!("0%"),
        |o| o["spec"]["template"]["spec"]["hostNetwork"] = json!(true),
        |o| o["spec"]["template"]["spec"]["tolerations"] = json!([]),
        |o| o["spec"]["template"]["spec"]["tolerations"][0]["operator"] = json!("Exists"),
        |o| o["spec"]["template"]["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] = json!("1Gi"),
        |o| o["spec"]["template"]["spec"]["volumes"][0]["emptyDir"] = json!({}),
        |o| o["spec"]["template"]["spec"]["nodeSelector"]["a"] = json!("b"),
        |o| o["spec"]["progressDeadlineSeconds"] = json!(600),
    ];
    let stateful = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "db:1"}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10240Mi"}}}}]},
    });
    let stateful_edits: Vec<Edit> =
        vec![|o| o["spec"]["replicas"] = json!(1), |o| o["spec"]["replicas"] = json!(2), |_| {}];
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "job", "namespace": "shop"},
        "spec": {"schedule": "@daily", "suspend": false, "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}}},
    });
    let cron_edits: Vec<Edit> =
        vec![|o| o["spec"]["suspend"] = json!(true), |o| remove(&mut o["spec"], "suspend")];
    vec![
        ("Deployment", deployment("shop"), edits),
        ("StatefulSet", stateful, stateful_edits),
        ("CronJob", cron, cron_edits),
    ]
}

fn others() -> Vec<(&'static str, Value, Vec<Edit>)> {
    let named = |api: &str, kind: &str, rest: Value| {
        let mut object =
            json!({"apiVersion": api, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}});
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    let service = named(
        "v1",
        "Service",
        json!({"spec": {"selector": {"app": "web"}, "type": "NodePort", "ports": [
        {"name": "http", "port": 80, "targetPort": "http"}, {"name": "dns", "port": 53, "protocol": "UDP"}]}}),
    );
    let config = named("v1", "ConfigMap", json!({"data": {"a": "1", "b": "x\ny\n"}}));
    let secret = named("v1", "Secret", json!({"type": "Opaque", "data": {"a": "YQ==", "b": "Yg=="}}));
    let role = named(
        "rbac.authorization.k8s.io/v1",
        "Role",
        json!({"rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}, {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}]}),
    );
    let policy = named(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]}}),
    );
    let ingress = named(
        "networking.k8s.io/v1",
        "Ingress",
        json!({"spec": {"rules": [{"host": "a.example.org", "http": {"paths": [
        {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}}),
    );
    let scaler = named(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        json!({"spec": {"maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1000m"}}}]}}),
    );
    let claim = named(
        "v1",
        "PersistentVolumeClaim",
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}),
    );
    let account = named(
        "v1",
        "ServiceAccount",
        json!({"imagePullSecrets": [{"name": "a"}, {"name": "b"}], "automountServiceAccountToken": false}),
    );
    let quota =
        named("v1", "ResourceQuota", json!({"spec": {"hard": {"requests.cpu": "10000m", "pods": 20}}}));
    vec![
        (
            "Service",
            service,
            vec![
                (|o| o["spec"]["ports"].as_array_mut().unwrap().reverse()) as Edit,
                |o| {
                    o["spec"]["ports"].as_array_mut().unwrap().remove(1);
                },
                |o| o["spec"]["ports"][0]["targetPort"] = json!(8080),
                |o| o["spec"]["ports"][1]["targetPort"] = json!(53),
                |o| o["spec"]["sessionAffinity"] = json!("None"),
                |o| remove(&mut o["spec"], "type"),
            ],
        ),
        (
            "ConfigMap",
            config,
            vec![(|o| remove(&mut o["data"], "a")) as Edit, |o| o["data"]["c"] = json!(""), |o| {
                remove(o, "data");
            }],
        ),
        (
            "Secret",
            secret,
            vec![(|o| o["data"]["a"] = json!("Yg==")) as Edit, |o| remove(&mut o["data"], "b")],
        ),
        (
            "Role",
            role,
            vec![(|o| o["rules"].as_array_mut().unwrap().reverse()) as Edit, |o| {
                o["rules"].as_array_mut().unwrap().pop();
            }],
        ),
        (
            "NetworkPolicy",
            policy,
            vec![
                (|o| o["spec"]["ingress"][0]["ports"][0]["protocol"] = json!("TCP")) as Edit,
                |o| o["spec"]["ingress"] = json!([]),
                |o| o["spec"]["ingress"][0]["from"][0]["namespaceSelector"] = json!({}),
            ],
        ),
        ("Ingress", ingress, vec![(|o| o["spec"]["rules"][0]["host"] = json!("b.example.org")) as Edit]),
        (
            "HorizontalPodAutoscaler",
            scaler,
            vec![
                (|o| o["spec"]["metrics"][0]["resource"]["target"]["averageValue"] = json!(1)) as Edit,
                |o| o["spec"]["metrics"][0]["resource"]["target"]["averageValue"] = json!("2"),
                |o| o["spec"]["minReplicas"] = json!(1),
            ],
        ),
        (
            "PersistentVolumeClaim",
            claim,
            vec![(|o| o["spec"]["resources"]["requests"]["storage"] = json!("1Gi")) as Edit],
        ),
        (
            "ServiceAccount",
            account,
            vec![(|o| o["imagePullSecrets"].as_array_mut().unwrap().reverse()) as Edit, |o| {
                o["imagePullSecrets"].as_array_mut().unwrap().pop();
            }],
        ),
        (
            "ResourceQuota",
            quota,
            vec![(|o| o["spec"]["hard"]["requests.cpu"] = json!(10)) as Edit, |o| {
                o["spec"]["hard"]["pods"] = json!("21");
            }],
        ),
        (
            "CustomResourceDefinition",
            definition(),
            vec![
                (|o| o["spec"]["names"]["shortNames"] = json!(["th"])) as Edit,
                |o| o["spec"]["names"]["singular"] = json!("thing"),
                |o| o["spec"]["conversion"] = json!({"strategy": "None"}),
            ],
        ),
    ]
}

/// Objects with their names and edits.
pub fn all() -> Vec<(&'static str, Value, Vec<Edit>)> {
    let mut all = workloads();
    all.extend(others());
    all
}
