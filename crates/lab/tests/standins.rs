//! The stand-in charts are charts: they render, the API takes what they render, and it becomes ready.

use std::collections::BTreeMap;

use daedal_helm::{Chart, HookEvent, RenderOptions, ValuesBuilder, render};
use http::StatusCode;
use serde_json::{Value, json};

use crate::chart_story;
use crate::ground::{Cluster, until_ready};
use crate::kubernetes_story::{Kube, cluster};

/// Where an object of a kind is, as discovery says.
async fn place(kube: &Kube, object: &Value, namespace: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let listed = kube.get(&root).await;
    let found = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["kind"] == object["kind"] && !r["name"].as_str().unwrap().contains('/'));
    let found = found.unwrap_or_else(|| panic!("nobody serves {object}"));
    let scope = if found["namespaced"] == true { format!("/namespaces/{namespace}") } else { String::new() };
    format!("{root}{scope}/{}/{}?fieldManager=story", text(&found["name"]), text(&object["metadata"]["name"]))
}

async fn apply(kube: &Kube, object: &Value, namespace: &str) {
    let at = place(kube, object, namespace).await;
    let (status, answer) = kube.apply(&at, object.clone()).await;
    assert_eq!(status, StatusCode::CREATED, "{at}: {answer}");
    let (_, again) = kube.apply(&at, object.clone()).await;
    let generation = |object: &Value| object["metadata"]["generation"].clone();
    assert_eq!(generation(&again), generation(&answer), "{at} is not the same when it is applied again");
}

#[tokio::test(start_paused = true)]
async fn every_stand_in_becomes_ready() {
    let ours = Cluster::new(1);
    let (lab, kube) = cluster(&ours).await;
    until_ready(&lab.client(&ours, 21).await).await;
    let shop = chart_story::lab();
    let newest: BTreeMap<String, String> = shop.charts().offered().into_iter().collect();
    assert!(newest.len() > 20, "{newest:?}");
    for (name, version) in &newest {
        let archive =
            chart_story::get(&shop, "helm.cilium.io", &format!("/{name}-{version}.tgz"), None).await;
        let chart = Chart::from_archive(archive.body()).unwrap();
        let values = ValuesBuilder::new().set("crds.enabled=true").unwrap();
        let values = if name == "cert-manager" { values.build() } else { ValuesBuilder::new().build() };
        let namespace = if name == "cilium" { "kube-system" } else { name };
        let options = RenderOptions {
            release_name: name.clone(),
            namespace: namespace.into(),
            ..RenderOptions::default()
        };
        let rendered = render(&chart, &values, &options).unwrap();
        if namespace == name {
            let labels = json!({"pod-security.kubernetes.io/enforce": "privileged"});
            let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
            kube.call("POST", "/api/v1/namespaces", "application/json", made).await;
        }
        for manifest in &rendered.manifests {
            apply(&kube, &yaml_serde::from_str(&manifest.content).unwrap(), namespace).await;
        }
        for hook in rendered.hooks.iter().filter(|hook| hook.events.contains(&HookEvent::PostInstall)) {
            apply(&kube, &yaml_serde::from_str(&hook.manifest.content).unwrap(), namespace).await;
        }
    }
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let count = |object: &Value, field: &str| object["status"][field].as_u64().unwrap_or(0);
    let mut seen = 0;
    for (path, wanted, ready) in [
        ("/apis/apps/v1/deployments", "replicas", "availableReplicas"),
        ("/apis/apps/v1/daemonsets", "desiredNumberScheduled", "numberAvailable"),
        ("/apis/batch/v1/jobs", "succeeded", "succeeded"),
    ] {
        for object in kube.get(path).await["items"].as_array().unwrap() {
            seen += 1;
            assert!(count(object, wanted) > 0 && count(object, wanted) == count(object, ready), "{object}");
        }
    }
    assert!(seen >= newest.len(), "{seen}");
    let definitions = kube.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await;
    assert!(definitions["items"].as_array().unwrap().len() >= 10);
    let apis = kube.get("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io").await;
    assert_eq!(apis["status"]["conditions"][0]["status"], "True");
}
