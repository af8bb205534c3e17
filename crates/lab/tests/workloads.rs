//! Workloads get on as under real controllers, in virtual time.

use std::time::Duration;

use daedal_lab::Guests as _;
use daedal_talos_config::{Cni, Role};
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::ground::{Cluster, Lab, until_ready};
use crate::kubernetes_story::{Kube, cluster};

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn workload(kind: &str, name: &str, image: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}},
        },
    })
}

fn path(plural: &str, name: &str) -> String {
    format!("/apis/apps/v1/namespaces/default/{plural}/{name}?fieldManager=story")
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array().unwrap();
    all.iter().find(|c| c["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {object}"))
}

async fn items(kube: &Kube, path: &str) -> Vec<Value> {
    kube.get(path).await["items"].as_array().unwrap().clone()
}

async fn warnings(kube: &Kube, namespace: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let events = items(kube, &format!("/api/v1/namespaces/{namespace}/events")).await;
    events.iter().map(|e| (text(&e["reason"]), text(&e["message"]))).collect()
}

async fn ready_cluster() -> (Lab, Kube) {
    let ours = Cluster::new(1);
    let (lab, kube) = cluster(&ours).await;
    until_ready(&lab.client(&ours, 21).await).await;
    (lab, kube)
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_from_one_image_to_the_next() {
    let (_lab, kube) = ready_cluster().await;
    let at = path("deployments", "web");
    let mut web = workload("Deployment", "web", "web:1");
    web["spec"]["replicas"] = json!(3);
    assert_eq!(kube.apply(&at, web.clone()).await.0, StatusCode::CREATED);
    seconds(1).await;
    let early = kube.get(&at).await;
    assert_eq!(early["status"]["observedGeneration"], 1);
    assert_eq!(early["status"]["unavailableReplicas"], 3);
    assert_eq!(condition(&early, "Available")["status"], "False");
    seconds(5).await;
    let live = kube.get(&at).await;
    let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
        .map(|f| live["status"][f].as_u64());
    assert_eq!(counts, [Some(3); 4], "{live}");
    assert_eq!(condition(&live, "Progressing")["reason"], "NewReplicaSetAvailable");
    assert_eq!(live["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");

    // What is applied again changes nothing, although much was filled in.
    let (status, again) = kube.apply(&at, web.clone()).await;
    assert_eq!(
        (status, &again["metadata"]["resourceVersion"]),
        (StatusCode::OK, &live["metadata"]["resourceVersion"])
    );
    assert_eq!(again["spec"]["progressDeadlineSeconds"], 600);

    web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    kube.apply(&at, web.clone()).await;
    for _ in 0..30 {
        seconds(1).await;
        let available = kube.get(&at).await["status"]["availableReplicas"].as_u64();
        assert_eq!(available.unwrap_or(0), 3, "none may be missing of three: 25% are none");
    }
    let live = kube.get(&at).await;
    assert_eq!(
        (live["status"]["replicas"].as_u64(), live["status"]["observedGeneration"].as_u64()),
        (Some(3), Some(2))
    );
    let pods = items(&kube, "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb").await;
    assert!(
        pods.len() == 3 && pods.iter().all(|p| p["spec"]["containers"][0]["image"] == "web:2"),
        "{pods:?}"
    );
    let sets = items(&kube, "/apis/apps/v1/replicasets").await;
    let mut sizes: Vec<u64> = sets.iter().map(|set| set["spec"]["replicas"].as_u64().unwrap()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 3]);

    web["spec"]["selector"]["matchLabels"]["app"] = json!("other");
    web["spec"]["template"]["metadata"]["labels"]["app"] = json!("other");
    let (status, refused) = kube.apply(&at, web).await;
    assert_eq!((status, refused["reason"].as_str()), (StatusCode::UNPROCESSABLE_ENTITY, Some("Invalid")));
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.selector");
    kube.call("DELETE", &at, "application/json", Value::Null).await;
    seconds(1).await;
    assert!(items(&kube, "/api/v1/namespaces/default/pods").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_run_says_why() {
    let (_lab, kube) = ready_cluster().await;
    let at = path("deployments", "bad");
    let mut bad = workload("Deployment", "bad", "registry.lan/team/broken:1");
    bad["spec"]["progressDeadlineSeconds"] = json!(60);
    kube.apply(&at, bad.clone()).await;
    seconds(10).await;
    let pods = items(&kube, "/api/v1/namespaces/default/pods").await;
    let state = &pods[0]["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(state["reason"], "ImagePullBackOff", "{}", pods[0]);
    assert!(state["message"].as_str().unwrap().contains("registry.lan/team/broken:1: not found"));
    assert!(
        warnings(&kube, "default")
            .await
            .iter()
            .any(|(reason, why)| reason == "Failed" && why.contains("Failed to pull image"))
    );
    assert_eq!(condition(&kube.get(&at).await, "Progressing")["reason"], "ReplicaSetUpdated");
    seconds(60).await;
    let late = kube.get(&at).await;
    assert_eq!(condition(&late, "Progressing")["reason"], "ProgressDeadlineExceeded", "{late}");
    // It is mended, and a Secret that is missing is the next reason.
    bad["spec"]["template"]["spec"]["containers"][0] =
        json!({"name": "main", "image": "fine:1", "envFrom": [{"secretRef": {"name": "login"}}]});
    kube.apply(&at, bad).await;
    seconds(10).await;
    assert!(
        warnings(&kube, "default")
            .await
            .contains(&("Failed".into(), "Error: secret \"login\" not found".into()))
    );
    let login = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"a": "b"}});
    let (_, made) = kube.call("POST", "/api/v1/namespaces/default/secrets", "application/json", login).await;
    assert_eq!((&made["data"], &made["type"]), (&json!({"a": "Yg=="}), &json!("Opaque")));
    seconds(5).await;
    assert_eq!(condition(&kube.get(&at).await, "Available")["status"], "True");
    assert_eq!(condition(&kube.get(&at).await, "Progressing")["reason"], "NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn daemons_run_where_they_are_tolerated_and_allowed() {
    let (_lab, kube) = ready_cluster().await;
    let at = path("daemonsets", "agent");
    let mut agent = workload("DaemonSet", "agent", "agent:1");
    agent["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    let answer = kube.send("PATCH", &at, "application/apply-patch+yaml", &agent).await;
    let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
    assert!(
        warning.starts_with("299 - \"would violate PodSecurity \\\"restricted:latest\\\": host namespaces"),
        "{warning}"
    );
    answer.into_body().collect().await.unwrap();
    seconds(5).await;
    let live = kube.get(&at).await;
    assert_eq!(
        (live["status"]["desiredNumberScheduled"].as_u64(), live["status"]["numberReady"].as_u64()),
        (Some(1), Some(0))
    );
    let why = warnings(&kube, "default").await;
    let refused = why.iter().find(|(reason, _)| reason == "FailedCreate").unwrap();
    assert!(
        refused.1.contains("violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"),
        "{refused:?}"
    );

    // The namespace allows it, and at once the pods come: on the worker, then on the control plane that is tolerated.
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
    kube.call("PATCH", "/api/v1/namespaces/default", "application/merge-patch+json", label).await;
    seconds(5).await;
    assert_eq!(kube.get(&at).await["status"]["numberReady"], 1);
    agent["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    kube.apply(&at, agent).await;
    seconds(15).await;
    let live = kube.get(&at).await;
    let counts = ["desiredNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable"];
    assert_eq!(counts.map(|field| live["status"][field].as_u64()), [Some(2); 4], "{live}");

    // A Deployment keeps off the control plane, and waits where nobody takes it.
    let mut picky = workload("Deployment", "picky", "web:1");
    picky["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    kube.apply(&path("deployments", "picky"), picky).await;
    seconds(5).await;
    let why = warnings(&kube, "default").await;
    let message = why.iter().find(|(reason, _)| reason == "FailedScheduling").unwrap().1.clone();
    assert!(message.starts_with("0/2 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }"), "{message}");
    let label = json!({"metadata": {"labels": {"disk": "ssd"}}});
    kube.call("PATCH", "/api/v1/nodes/worker-1", "application/merge-patch+json", label).await;
    seconds(5).await;
    assert_eq!(kube.get(&path("deployments", "picky")).await["status"]["readyReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn jobs_end_and_stateful_sets_follow_their_order() {
    let (_lab, kube) = ready_cluster().await;
    let job = |name: &str, image: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
               "spec": {"backoffLimit": 1, "ttlSecondsAfterFinished": 60, "template": {"spec": {
                   "restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}}}})
    };
    let at = |name: &str| format!("/apis/batch/v1/namespaces/default/jobs/{name}?fieldManager=story");
    assert_eq!(kube.apply(&at("good"), job("good", "work:1")).await.0, StatusCode::CREATED);
    assert_eq!(kube.apply(&at("bad"), job("bad", "crashing:1")).await.0, StatusCode::CREATED);
    seconds(20).await;
    let good = kube.get(&at("good")).await;
    assert_eq!(
        (condition(&good, "Complete")["status"].as_str(), good["status"]["succeeded"].as_u64()),
        (Some("True"), Some(1))
    );
    let bad = kube.get(&at("bad")).await;
    assert_eq!(condition(&bad, "Failed")["reason"], "BackoffLimitExceeded");
    let (status, refused) = kube.apply(&at("good"), job("good", "work:2")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.template");
    seconds(70).await;
    assert_eq!(kube.call("GET", &at("good"), "", Value::Null).await.0, StatusCode::NOT_FOUND);

    let mut set = workload("StatefulSet", "db", "db:1");
    set["spec"]["replicas"] = json!(2);
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    kube.apply(&path("statefulsets", "db"), set).await;
    seconds(10).await;
    let names = async || -> Vec<String> {
        let pods = items(&kube, "/api/v1/namespaces/default/pods?labelSelector=app%3Ddb").await;
        pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names().await, ["db-0"], "the second waits for the first, and that for its volume");
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x", "metadata": {
        "name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    kube.call("POST", "/apis/storage.k8s.io/v1/storageclasses", "application/json", class).await;
    seconds(10).await;
    assert_eq!(names().await, ["db-0", "db-1"]);
    let live = kube.get(&path("statefulsets", "db")).await;
    assert_eq!(
        (live["status"]["readyReplicas"].as_u64(), &live["status"]["currentRevision"]),
        (Some(2), &live["status"]["updateRevision"])
    );
    let claims = items(&kube, "/api/v1/persistentvolumeclaims").await;
    assert!(claims.len() == 2 && claims.iter().all(|claim| claim["status"]["phase"] == "Bound"));
}

#[tokio::test(start_paused = true)]
async fn without_a_network_only_pods_of_the_host_run() {
    let mut ours = Cluster::new(1);
    ours.options.cni = Cni::None;
    let (lab, kube) = cluster(&ours).await;
    kube.apply(&path("deployments", "web"), workload("Deployment", "web", "web:1")).await;
    seconds(120).await;
    let pods = items(&kube, "/api/v1/namespaces/default/pods").await;
    assert_eq!(condition(&pods[0], "PodScheduled")["reason"], "Unschedulable");
    // An agent of any name that writes the runtime's configuration.
    let mut agent = workload("DaemonSet", "agent", "agent:1");
    let volumes = json!([{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]);
    agent["spec"]["template"]["spec"]["volumes"] = volumes;
    agent["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    agent["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let at = "/apis/apps/v1/namespaces/kube-system/daemonsets/agent?fieldManager=story";
    kube.apply(at, agent).await;
    for last in [11, 21] {
        until_ready(&lab.client(&ours, last).await).await;
    }
    seconds(10).await;
    assert_eq!(kube.get(at).await["status"]["numberReady"], 2);
    assert_eq!(kube.get(&path("deployments", "web")).await["status"]["readyReplicas"], 1);
    let pods = items(&kube, "/api/v1/namespaces/default/pods").await;
    assert_eq!(pods[0]["spec"]["nodeName"], "worker-1");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_furnished_and_takes_everything_along() {
    let (_lab, kube) = ready_cluster().await;
    let (status, refused) = kube
        .apply(
            "/api/v1/namespaces/shop/configmaps/a?fieldManager=story",
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        )
        .await;
    assert_eq!(
        (status, refused["message"].as_str()),
        (StatusCode::NOT_FOUND, Some("namespaces \"shop\" not found"))
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    kube.apply("/api/v1/namespaces/shop?fieldManager=story", namespace).await;
    seconds(1).await;
    assert_eq!(items(&kube, "/api/v1/namespaces/shop/serviceaccounts").await.len(), 1);
    let map = |finalizers: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": finalizers}});
    let at = "/api/v1/namespaces/shop/configmaps/a?fieldManager=story";
    assert_eq!(kube.apply(at, map(json!(["example.com/hold"]))).await.0, StatusCode::CREATED);
    let web = "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=story";
    kube.apply(web, workload("Deployment", "web", "web:1")).await;
    seconds(5).await;
    kube.call("DELETE", "/api/v1/namespaces/shop", "application/json", Value::Null).await;
    let (status, refused) =
        kube.apply(&at.replace("/a?", "/b?"), json!({"apiVersion": "v1", "kind": "ConfigMap"})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");
    seconds(5).await;
    let dying = kube.get("/api/v1/namespaces/shop").await;
    assert_eq!(dying["status"]["phase"], "Terminating");
    assert!(
        condition(&dying, "NamespaceFinalizersRemaining")["message"]
            .as_str()
            .unwrap()
            .contains("configmaps a")
    );
    assert!(items(&kube, "/api/v1/namespaces/shop/pods").await.is_empty());
    kube.apply(at, map(json!([]))).await;
    seconds(1).await;
    assert_eq!(kube.call("GET", "/api/v1/namespaces/shop", "", Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn webhooks_and_aggregated_apis_need_pods_behind_them() {
    let (_lab, kube) = ready_cluster().await;
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "check", "annotations": {"cert-manager.io/inject-ca-from-secret": "default/x"}},
        "webhooks": [{
            "name": "check.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "webhook", "namespace": "default", "path": "/validate"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    });
    let hooks =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/check?fieldManager=story";
    assert_eq!(kube.apply(hooks, hook).await.0, StatusCode::CREATED);
    let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.metrics.k8s.io"},
                     "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "service": {"name": "webhook", "namespace": "default"}}});
    let apis = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io?fieldManager=story";
    kube.apply(apis, api).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let at = "/api/v1/namespaces/default/configmaps/a?fieldManager=story&dryRun=All";
    let (status, refused) = kube.apply(at, map.clone()).await;
    assert_eq!(
        (status, refused["reason"].as_str()),
        (StatusCode::INTERNAL_SERVER_ERROR, Some("InternalError"))
    );
    assert!(refused["message"].as_str().unwrap().ends_with("service \"webhook\" not found"), "{refused}");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "webhook"},
                         "spec": {"selector": {"app": "webhook"}, "ports": [{"port": 443}]}});
    let (_, service) =
        kube.call("POST", "/api/v1/namespaces/default/services", "application/json", service).await;
    assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."), "{service}");
    assert!(
        kube.apply(at, map.clone()).await.1["message"].as_str().unwrap().contains("no endpoints available")
    );
    assert_eq!(condition(&kube.get(apis).await, "Available")["reason"], "MissingEndpoints");
    let metrics = "/apis/metrics.k8s.io/v1beta1";
    assert_eq!(kube.call("GET", metrics, "", Value::Null).await.0, StatusCode::SERVICE_UNAVAILABLE);
    kube.apply(&path("deployments", "webhook"), workload("Deployment", "webhook", "webhook:1")).await;
    seconds(5).await;
    assert_eq!(condition(&kube.get(apis).await, "Available")["status"], "True");
    assert_eq!(kube.get(metrics).await["groupVersion"], "metrics.k8s.io/v1beta1");
    assert!(kube.apply(at, map.clone()).await.1["message"].as_str().unwrap().contains("x509"));
    let mut injector = workload("Deployment", "injector", "cainjector:1");
    injector["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] = json!("cainjector");
    kube.apply(&path("deployments", "injector"), injector).await;
    seconds(5).await;
    assert_eq!(kube.apply(at, map).await.0, StatusCode::CREATED);
    let live = kube.get(hooks).await;
    let managers: Vec<&Value> =
        live["metadata"]["managedFields"].as_array().unwrap().iter().map(|m| &m["manager"]).collect();
    assert_eq!(managers, ["story", "cainjector"]);
}

#[tokio::test(start_paused = true)]
async fn fields_that_do_not_exist_are_refused_or_warned_of() {
    let (_lab, kube) = ready_cluster().await;
    let mut web = workload("Deployment", "web", "web:1");
    web["spec"]["replica"] = json!(3);
    let (status, refused) = kube.apply(&path("deployments", "web"), web.clone()).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        refused["message"],
        "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): .spec.replica: field not declared in schema"
    );
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let (status, refused) =
        kube.call("POST", &format!("{all}?fieldValidation=Strict"), "application/json", web.clone()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .ends_with("strict decoding error: unknown field \"spec.replica\""),
        "{refused}"
    );
    let answer = kube.send("POST", all, "application/json", &web).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    let warnings: Vec<&str> =
        answer.headers().get_all("warning").iter().map(|w| w.to_str().unwrap()).collect();
    assert_eq!(warnings[0], "299 - \"unknown field \\\"spec.replica\\\"\"");
    answer.into_body().collect().await.unwrap();
    assert!(kube.get(&path("deployments", "web")).await["spec"].get("replica").is_none());
    web["spec"] = json!({"replicas": "3"});
    let (status, refused) = kube.call("PUT", &format!("{all}/web"), "application/json", web).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("cannot unmarshal string into Go struct field Deployment.spec.replicas")
    );
}

#[tokio::test(start_paused = true)]
async fn pods_go_on_when_the_lab_does_and_are_not_ready_on_a_silent_node() {
    let ours = Cluster::new(1);
    let (lab, kube) = cluster(&ours).await;
    until_ready(&lab.client(&ours, 21).await).await;
    kube.apply(&path("deployments", "web"), workload("Deployment", "web", "web:1")).await;
    seconds(1).await;
    let flannel = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-flannel";
    assert_eq!(kube.get(flannel).await["status"]["numberReady"], 2);
    let saved = lab.machines.save();
    drop((lab, kube));

    let lab = Lab::with(1.0, saved);
    lab.machines.set_resuming(true);
    lab.boot(&ours, Role::ControlPlane, "cp-1", 11);
    lab.boot(&ours, Role::Worker, "worker-1", 21);
    lab.machines.set_resuming(false);
    lab.wait("10.0.0.20", 6443).await;
    let kubeconfig = lab.client(&ours, 11).await.kubeconfig().await.unwrap();
    let kube = Kube::new(&lab, kubeconfig.expose(), true);
    seconds(60).await;
    assert_eq!(kube.get(&path("deployments", "web")).await["status"]["readyReplicas"], 1);
    lab.machines.power_off(321);
    seconds(60).await;
    assert_eq!(condition(&kube.get(&path("deployments", "web")).await, "Available")["status"], "False");
    assert_eq!(kube.get(flannel).await["status"]["numberReady"], 1);
    lab.boot(&ours, Role::Worker, "worker-1", 21);
    seconds(60).await;
    assert_eq!(condition(&kube.get(&path("deployments", "web")).await, "Available")["status"], "True");
    assert_eq!(kube.get(flannel).await["status"]["numberReady"], 2);
}
