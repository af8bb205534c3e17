//! Chart repositories and registries, as clients of Helm meet them.

use std::collections::BTreeMap;
use std::io::Read as _;

use daedal_dial::{Dial as _, Target};
use daedal_lab::{ChartPackage, Lab, LabSpec};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) async fn get(lab: &Lab, host: &str, path: &str, token: Option<&str>) -> Response<bytes::Bytes> {
    let stream = lab.fabric().dial(&Target::new(host, 443)).await.unwrap();
    let tls = tokio_rustls::TlsConnector::from(lab.pki().client_config().unwrap());
    let stream = tls.connect(ServerName::try_from(host.to_owned()).unwrap(), stream).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::get(path).header("host", host);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

pub(crate) fn lab() -> Lab {
    let charts = vec!["https://helm.cilium.io".into(), "oci://quay.io/jetstack/charts".into()];
    Lab::new(LabSpec { charts, ..LabSpec::default() }).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[tokio::test]
async fn a_repository_has_an_index_and_archives_of_its_digests() {
    let lab = lab();
    let index = get(&lab, "helm.cilium.io", "/index.yaml", None).await;
    let index: Value = yaml_serde::from_slice(index.body()).unwrap();
    let versions = index["entries"]["cilium"].as_array().unwrap();
    assert_eq!(versions[0]["version"], "1.20.2");
    let old = versions.iter().find(|entry| entry["version"] == "1.16.5").unwrap();
    let archive = get(&lab, "helm.cilium.io", &format!("/{}", old["urls"][0].as_str().unwrap()), None).await;
    assert_eq!(sha256(archive.body()), old["digest"].as_str().unwrap());
    let mut texts = BTreeMap::new();
    for entry in tar::Archive::new(flate2::read::GzDecoder::new(&archive.body()[..])).entries().unwrap() {
        let mut entry = entry.unwrap();
        let (path, mut text) = (entry.path().unwrap().display().to_string(), String::new());
        entry.read_to_string(&mut text).unwrap();
        texts.insert(path, text);
    }
    assert!(texts["cilium/Chart.yaml"].contains("version: 1.16.5"));
    assert!(texts["cilium/templates/all.yaml"].contains("kind: DaemonSet"));
    assert_eq!(get(&lab, "helm.cilium.io", "/cilium-9.9.9.tgz", None).await.status(), StatusCode::NOT_FOUND);

    // What a test publishes is there as well.
    let files = BTreeMap::from([("templates/a.yaml".to_owned(), "kind: ConfigMap\n".to_owned())]);
    let own = ChartPackage { name: "own".into(), version: "0.1.0".into(), app_version: "1".into(), files };
    lab.charts().publish(own).unwrap();
    lab.charts().publish_file("/releases/crds.yaml", "kind: Namespace\n");
    assert_eq!(get(&lab, "helm.cilium.io", "/own-0.1.0.tgz", None).await.status(), StatusCode::OK);
    assert_eq!(get(&lab, "helm.cilium.io", "/releases/crds.yaml", None).await.body(), "kind: Namespace\n");
}

#[tokio::test]
async fn a_registry_wants_a_token_and_gives_manifests_and_blobs() {
    let lab = lab();
    let manifest = "/v2/jetstack/charts/cert-manager/manifests/v1.21.1";
    let refused = get(&lab, "quay.io", manifest, None).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    assert_eq!(
        challenge,
        "Bearer realm=\"https://quay.io/token\",service=\"quay.io\",scope=\"repository:jetstack/charts/cert-manager:pull\""
    );
    let token = get(&lab, "quay.io", "/token?service=quay.io&scope=repository:x:pull", None).await;
    let token: Value = serde_json::from_slice(token.body()).unwrap();
    let token = token["token"].as_str();
    let found = get(&lab, "quay.io", manifest, token).await;
    let digest = found.headers()["docker-content-digest"].to_str().unwrap().to_owned();
    assert_eq!(digest, format!("sha256:{}", sha256(found.body())));
    let parsed: Value = serde_json::from_slice(found.body()).unwrap();
    let layer = &parsed["layers"][0];
    assert_eq!(layer["mediaType"], "application/vnd.cncf.helm.chart.content.v1.tar+gzip");
    for part in [layer, &parsed["config"]] {
        let wanted = part["digest"].as_str().unwrap();
        let blob =
            get(&lab, "quay.io", &format!("/v2/jetstack/charts/cert-manager/blobs/{wanted}"), token).await;
        assert_eq!(
            (format!("sha256:{}", sha256(blob.body())), blob.body().len() as u64),
            (wanted.into(), part["size"].as_u64().unwrap())
        );
    }
    let by_digest = format!("/v2/jetstack/charts/cert-manager/manifests/{digest}");
    assert_eq!(get(&lab, "quay.io", &by_digest, token).await.body(), found.body());
    let tags = get(&lab, "quay.io", "/v2/jetstack/charts/cert-manager/tags/list", token).await;
    assert!(String::from_utf8_lossy(tags.body()).contains("\"v1.21.1\""));
    for unknown in ["/v2/jetstack/charts/cert-manager/manifests/v0.0.1", "/v2/jetstack/charts/none/tags/list"]
    {
        assert_eq!(get(&lab, "quay.io", unknown, token).await.status(), StatusCode::NOT_FOUND);
    }
}
