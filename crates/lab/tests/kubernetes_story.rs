//! The API server of a simulated cluster, byte by byte, in virtual time.

use crate::ground;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daedal_dial::{Dial as _, Target};
use daedal_lab::Guests as _;
use daedal_talos_client::{ApplyMode, Client, ResourceEvent};
use daedal_talos_config::{Cni, MachineConfig, Patch, Role};
use futures::StreamExt as _;
use ground::{Cluster, Lab, until_ready};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};

/// A client with the admin's certificate out of a kubeconfig, or without any.
pub(crate) struct Kube {
    lab: daedal_lab::Fabric,
    tls: Arc<rustls::ClientConfig>,
}

impl Kube {
    pub(crate) fn new(lab: &Lab, kubeconfig: &str, identity: bool) -> Self {
        let file: Value = yaml_serde::from_str(kubeconfig).unwrap();
        let pem = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let ca = pem(&file["clusters"][0]["cluster"]["certificate-authority-data"]);
        CertificateDer::pem_slice_iter(&ca).for_each(|one| roots.add(one.unwrap()).unwrap());
        let user = &file["users"][0]["user"];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let tls = if identity {
            let crt = CertificateDer::from_pem_slice(&pem(&user["client-certificate-data"])).unwrap();
            let key = PrivateKeyDer::from_pem_slice(&pem(&user["client-key-data"])).unwrap();
            builder.with_client_auth_cert(vec![crt], key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        Self { lab: lab.fabric.clone(), tls: Arc::new(tls) }
    }

    /// The same identity, with the authorities of another kubeconfig.
    fn believing(&self, kubeconfig: &str) -> Arc<rustls::ClientConfig> {
        let other = Self::new(&Lab { fabric: self.lab.clone(), ..Lab::new() }, kubeconfig, false);
        let mut tls = (*other.tls).clone();
        tls.client_auth_cert_resolver = self.tls.client_auth_cert_resolver.clone();
        Arc::new(tls)
    }

    /// Whether both sides believe each other.
    async fn is_let_in(&self) -> bool {
        let Ok(stream) = self.lab.dial(&Target::new("10.0.0.20", 6443)).await else { return false };
        let name = ServerName::try_from("10.0.0.20").unwrap();
        let connected = tokio_rustls::TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        let Ok(stream) = connected else { return false };
        // A server refuses a client's certificate only after the client is content.
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/api/v1/nodes").header("host", "10.0.0.20");
        let sent = sender.send_request(request.body(Full::new(bytes::Bytes::new())).unwrap()).await;
        sent.is_ok_and(|answer| answer.status() == StatusCode::OK)
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> http::Response<Incoming> {
        let stream = self.lab.dial(&Target::new("10.0.0.20", 6443)).await.unwrap();
        let name = ServerName::try_from("10.0.0.20").unwrap();
        let stream = tokio_rustls::TlsConnector::from(self.tls.clone()).connect(name, stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "10.0.0.20")
            .header("content-type", kind)
            .header("user-agent", "story/1")
            .body(Full::new(bytes::Bytes::from(body)))
            .unwrap();
        sender.send_request(request).await.unwrap()
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: Value,
    ) -> (StatusCode, Value) {
        let response = self.send(method, path, kind, &body).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, value) = self.call("GET", path, "", Value::Null).await;
        assert!(status.is_success(), "{path}: {status} {value}");
        value
    }

    pub(crate) async fn apply(&self, path: &str, object: Value) -> (StatusCode, Value) {
        self.call("PATCH", path, "application/apply-patch+yaml", object).await
    }
}

pub(crate) async fn cluster(cluster: &Cluster) -> (Lab, Kube) {
    let lab = Lab::new();
    lab.boot(cluster, Role::ControlPlane, "cp-1", 11);
    lab.boot(cluster, Role::Worker, "worker-1", 21);
    let client = lab.client(cluster, 11).await;
    lab.bootstrap(&client).await;
    lab.wait("10.0.0.20", 6443).await;
    let kubeconfig = client.kubeconfig().await.unwrap();
    let kube = Kube::new(&lab, kubeconfig.expose(), true);
    (lab, kube)
}

fn ready(node: &Value) -> (String, String) {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|c| c["type"] == "Ready").unwrap();
    (ready["status"].as_str().unwrap().into(), ready["message"].as_str().unwrap().into())
}

#[tokio::test(start_paused = true)]
async fn nodes_register_become_ready_and_are_missed_when_they_are_gone() {
    let ours = Cluster::new(1);
    let (lab, kube) = cluster(&ours).await;
    until_ready(&lab.client(&ours, 21).await).await;
    let nodes = kube.get("/api/v1/nodes").await;
    let names: Vec<_> =
        nodes["items"].as_array().unwrap().iter().map(|n| n["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["cp-1", "worker-1"]);
    let worker = kube.get("/api/v1/nodes/worker-1").await;
    assert_eq!(ready(&worker).0, "True");
    assert_eq!(worker["status"]["nodeInfo"]["osImage"], "Talos (v1.12.0)");
    assert_eq!(worker["status"]["addresses"][0]["address"], "10.0.0.21");
    lab.machines.power_off(321);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(ready(&kube.get("/api/v1/nodes/worker-1").await).0, "True");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(ready(&kube.get("/api/v1/nodes/worker-1").await).0, "Unknown");
}

#[tokio::test(start_paused = true)]
async fn without_a_network_plugin_nodes_wait_for_one() {
    let mut ours = Cluster::new(1);
    ours.options.cni = Cni::None;
    let (lab, kube) = cluster(&ours).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let (status, message) = ready(&kube.get("/api/v1/nodes/cp-1").await);
    assert_eq!(status, "False");
    assert!(message.contains("cni plugin not initialized"), "{message}");
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "cilium", "labels": {"k8s-app": "cilium"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "hostNetwork": true, "tolerations": [{"operator": "Exists"}], "containers": [{"name": "x", "image": "y"}]}}},
    });
    let path = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium?fieldManager=story";
    assert_eq!(kube.apply(path, set).await.0, StatusCode::CREATED);
    until_ready(&lab.client(&ours, 11).await).await;
    assert_eq!(ready(&kube.get("/api/v1/nodes/cp-1").await).0, "True");
}

#[tokio::test(start_paused = true)]
async fn objects_are_written_applied_watched_and_deleted() {
    let (lab, kube) = cluster(&Cluster::new(1)).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    let (status, made) = kube.call("POST", maps, "application/json", map(json!({"x": "1"}))).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, again) = kube.call("POST", maps, "application/json", map(json!({}))).await;
    assert_eq!((status, again["reason"].as_str()), (StatusCode::CONFLICT, Some("AlreadyExists")));

    let revision = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let path = format!("{maps}?watch=1&resourceVersion={revision}");
    let mut watch = kube.send("GET", &path, "", &Value::Null).await.into_body();

    // A long list comes in pieces.
    let first = kube.get("/api/v1/namespaces?limit=3").await;
    assert_eq!(
        (first["items"].as_array().unwrap().len(), &first["metadata"]["remainingItemCount"]),
        (3, &json!(1))
    );
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = kube.get(&format!("/api/v1/namespaces?limit=3&continue={token}")).await;
    assert_eq!(rest["items"][0]["metadata"]["name"], "kube-system");
    assert!(rest["items"].as_array().unwrap().len() == 1 && rest["metadata"]["continue"].is_null());

    // Another owner's value is a conflict until it is forced.
    let one = format!("{maps}/a");
    let (status, refusal) = kube.apply(&format!("{one}?fieldManager=two"), map(json!({"x": "2"}))).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(refusal["details"]["causes"][0]["field"], ".data.x");
    let (status, _) = kube.apply(&format!("{one}?fieldManager=two&force=true"), map(json!({"x": "2"}))).await;
    assert_eq!(status, StatusCode::OK);
    let patch = json!({"metadata": {"labels": {"l": "v"}}});
    kube.call("PATCH", &one, "application/merge-patch+json", patch).await;
    let mut stale = made.clone();
    stale["data"]["x"] = json!("3");
    assert_eq!(kube.call("PUT", &one, "application/json", stale).await.0, StatusCode::CONFLICT);
    assert_eq!(kube.call("DELETE", &one, "application/json", Value::Null).await.0, StatusCode::OK);
    assert_eq!(kube.call("GET", &one, "", Value::Null).await.0, StatusCode::NOT_FOUND);

    let mut seen = String::new();
    while seen.lines().count() < 3 {
        let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        seen.push_str(std::str::from_utf8(&frame).unwrap());
    }
    let kinds: Vec<Value> =
        seen.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["type"].clone()).collect();
    assert_eq!(kinds, ["MODIFIED", "MODIFIED", "DELETED"]);
    drop(lab);
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_served_once_defined_and_strangers_are_refused() {
    let ours = Cluster::new(1);
    let (lab, kube) = cluster(&ours).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}});
    assert_eq!(kube.call("POST", widgets, "application/json", widget.clone()).await.0, StatusCode::NOT_FOUND);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let path =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com?fieldManager=story";
    let served = async || {
        let groups = kube.get("/apis").await;
        groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "example.com")
    };
    let one = format!("{widgets}/w?fieldManager=story");
    let (_, made) = kube.apply(path, definition).await;
    assert_eq!(made["status"]["conditions"], json!([]));
    assert_eq!(kube.apply(&one, widget.clone()).await.0, StatusCode::NOT_FOUND, "not yet established");
    assert!(!served().await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let made = kube.get(path).await;
    assert_eq!(made["status"]["conditions"][1]["type"], "Established");
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert!(served().await);
    let (status, made) = kube.apply(&one, widget.clone()).await;
    assert_eq!((status, made["metadata"]["generation"].as_u64()), (StatusCode::CREATED, Some(1)));

    // It takes its objects along, but not while a finalizer holds one.
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    kube.call("PATCH", &one, "application/merge-patch+json", finalizers(json!(["example.com/hold"]))).await;
    assert_eq!(kube.call("DELETE", path, "application/json", Value::Null).await.0, StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(kube.get(path).await["metadata"]["deletionTimestamp"].is_string());
    assert!(kube.get(&one).await["metadata"]["deletionTimestamp"].is_string());
    kube.call("PATCH", &one, "application/merge-patch+json", finalizers(json!([]))).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(kube.call("GET", path, "", Value::Null).await.0, StatusCode::NOT_FOUND);
    assert!(!served().await);

    let client = lab.client(&ours, 11).await;
    let stranger = Kube::new(&lab, client.kubeconfig().await.unwrap().expose(), false);
    let (status, refusal) = stranger.call("GET", "/api/v1/nodes", "", Value::Null).await;
    assert_eq!((status, refusal["reason"].as_str()), (StatusCode::UNAUTHORIZED, Some("Unauthorized")));
    assert_eq!(stranger.get("/version").await["major"], "1");
}

/// Gives a machine a config with these patches, without a reboot.
async fn patch(client: &Client, patches: &[&str]) {
    let running = client.machine_config().await.unwrap().unwrap();
    let mut config = MachineConfig::from_yaml(running.expose()).unwrap();
    for patch in patches {
        config.apply_patch(&Patch::from_yaml(patch).unwrap()).unwrap();
    }
    client.apply_configuration(&config.to_yaml(), ApplyMode::NoReboot, false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
}

/// The patches that change an authority: accept it, let it sign on a control plane and on a worker, forget the others.
fn steps(old: &Cluster, new: &Cluster) -> [String; 4] {
    let old_ca = STANDARD.encode(&old.secrets.k8s.crt);
    let [ca, key] =
        [new.secrets.k8s.crt.as_str(), new.secrets.k8s.key.expose()].map(|pem| STANDARD.encode(pem));
    [
        format!("cluster: {{acceptedCAs: [{{crt: {ca}}}]}}"),
        format!("cluster: {{ca: {{crt: {ca}, key: {key}}}, acceptedCAs: [{{crt: {old_ca}}}]}}"),
        format!("cluster: {{ca: {{crt: {ca}}}, acceptedCAs: [{{crt: {old_ca}}}]}}"),
        "cluster: {acceptedCAs: {$patch: delete}}".to_owned(),
    ]
}

/// The authority of Kubernetes is changed as it should be: nobody is shut out before he has the new one, and afterwards the old one
/// is of no use.
#[tokio::test(start_paused = true)]
async fn an_authority_is_changed_without_losing_a_node() {
    let (ours, new) = (Cluster::new(1), Cluster::new(2));
    let (lab, old_admin) = cluster(&ours).await;
    let plane = lab.client(&ours, 11).await;
    let worker = lab.client(&ours, 21).await;
    until_ready(&worker).await;
    let [accept, sign, follow, forget] = steps(&ours, &new);
    let kubeconfig = async || plane.kubeconfig().await.unwrap().expose().to_owned();
    let admin = async || Kube::new(&lab, &kubeconfig().await, true);

    let mut events = worker.watch("runtime", "Services.v1alpha1.talos.dev", Some("kubelet")).await.unwrap();
    let mut next = async || events.next().await.unwrap().unwrap().event;
    assert_eq!(next().await, ResourceEvent::Created);
    patch(&plane, &[&accept]).await;
    patch(&worker, &[&accept]).await;
    assert_eq!([next().await, next().await], [ResourceEvent::Destroyed, ResourceEvent::Created]);
    assert!(old_admin.is_let_in().await && admin().await.is_let_in().await);

    patch(&plane, &[&forget, &sign]).await;
    assert!(!old_admin.is_let_in().await, "the API server is of the new authority");
    assert!(Kube { tls: old_admin.believing(&kubeconfig().await), ..admin().await }.is_let_in().await);
    patch(&worker, &[&forget, &follow]).await;
    patch(&plane, &[&forget]).await;
    patch(&worker, &[&forget]).await;
    assert!(!Kube { tls: old_admin.believing(&kubeconfig().await), ..admin().await }.is_let_in().await);
    let now = admin().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    for node in ["cp-1", "worker-1"] {
        assert_eq!(ready(&now.get(&format!("/api/v1/nodes/{node}")).await).0, "True", "{node}");
    }
    let told = now.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await;
    assert_eq!(told["data"]["ca.crt"], new.secrets.k8s.crt.as_str());
    let root = plane.get("secrets", "KubernetesRootSecrets.secrets.talos.dev", "k8s").await.unwrap().unwrap();
    assert_eq!(root.spec()["issuingCA"]["crt"], STANDARD.encode(&new.secrets.k8s.crt));
    assert!(worker.get("secrets", "KubernetesRootSecrets.secrets.talos.dev", "k8s").await.unwrap().is_none());

    // Who comes back finds the cluster of the new authority.
    worker.reboot(false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    until_ready(&lab.client(&ours, 21).await).await;
}

/// A worker that does not accept the authority of the API server is missed, until it does.
#[tokio::test(start_paused = true)]
async fn who_does_not_accept_the_new_authority_is_missed() {
    let (ours, new) = (Cluster::new(1), Cluster::new(2));
    let (lab, _) = cluster(&ours).await;
    let (plane, worker) = (lab.client(&ours, 11).await, lab.client(&ours, 21).await);
    until_ready(&worker).await;
    let [_, sign, follow, forget] = steps(&ours, &new);
    patch(&plane, &[&sign, &forget]).await;
    let admin = Kube::new(&lab, plane.kubeconfig().await.unwrap().expose(), true);
    let is_ready = async || ready(&admin.get("/api/v1/nodes/worker-1").await).0;
    assert_eq!(is_ready().await, "True", "nobody has missed it yet");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(is_ready().await, "Unknown");
    patch(&worker, &[&follow, &forget]).await;
    assert_eq!(is_ready().await, "True");
}
