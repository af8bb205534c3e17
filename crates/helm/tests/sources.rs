//! Charts from repositories and registries, over a transport in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use daedal_helm::{Cache, Fetch, Fetcher, Login, Pending, Reference, Request, Response};
use sha2::Digest as _;

/// A network of addresses and answers that remembers what was asked.
#[derive(Default)]
struct Network {
    /// Nothing answers.
    down: bool,
    /// Addresses that were sent a login.
    trusted: Mutex<Vec<String>>,
    pages: BTreeMap<String, Vec<u8>>,
    /// Addresses that want this token, and where it is to be had.
    token: Option<(&'static str, &'static str)>,
    asked: Mutex<Vec<String>>,
}

impl Fetch for Network {
    fn get(&self, request: Request) -> Pending<'_> {
        self.asked.lock().unwrap().push(request.url.clone());
        if self.down {
            return Box::pin(async { Err("no route to host".to_owned()) });
        }
        if request.authorization.is_some() {
            self.trusted.lock().unwrap().push(request.url.clone());
        }
        let response = match (self.pages.get(&request.url), self.token) {
            (_, Some((token, challenge)))
                if request.url.contains("/v2/") && request.authorization.as_deref() != Some(token) =>
            {
                Response { status: 401, authenticate: Some(challenge.into()), body: vec![] }
            }
            (Some(body), _) => Response { status: 200, authenticate: None, body: body.clone() },
            (None, _) => Response { status: 404, ..Response::default() },
        };
        Box::pin(async move { Ok(response) })
    }
}

fn archive(version: &str) -> Vec<u8> {
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, text) in [
        ("c/Chart.yaml", format!("apiVersion: v2\nname: c\nversion: {version}\n")),
        ("c/values.yaml", "a: 1\n".to_owned()),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn digest(data: &[u8]) -> String {
    hex::encode(sha2::Sha256::digest(data))
}

fn repository(promised: &str) -> Network {
    let index = format!(
        "apiVersion: v1\nentries:\n  c:\n  - version: 1.1.0-rc.1\n    urls: [c-rc.tgz]\n  - version: 1.0.2\n    urls: [charts/c-1.0.2.tgz]\n    digest: {promised}\n  - version: 0.9.0\n    urls: ['https://cdn.test/c-0.9.0.tgz']\n"
    );
    let pages = BTreeMap::from([
        ("https://charts.test/r/index.yaml".to_owned(), index.into_bytes()),
        ("https://charts.test/r/charts/c-1.0.2.tgz".to_owned(), archive("1.0.2")),
        ("https://cdn.test/c-0.9.0.tgz".to_owned(), archive("0.9.0")),
    ]);
    Network { pages, ..Network::default() }
}

fn from_repository(version: &str) -> Reference {
    Reference::Repository { url: "https://charts.test/r/".into(), name: "c".into(), version: version.into() }
}

#[tokio::test]
async fn the_newest_release_that_fits_is_taken() {
    let network = repository(&digest(&archive("1.0.2")));
    let cache = Cache::none();
    let fetcher = Fetcher::new(&network, &cache);
    assert_eq!(fetcher.chart(&from_repository("")).await.unwrap().chart.metadata.version, "1.0.2");
    assert_eq!(fetcher.chart(&from_repository("<1")).await.unwrap().chart.metadata.version, "0.9.0");
    let error = fetcher.chart(&from_repository(">2")).await.unwrap_err().to_string();
    assert!(error.contains("no chart version found for c->2"), "{error}");
}

#[tokio::test]
async fn an_archive_with_another_digest_is_refused() {
    let network = repository(&"0".repeat(64));
    let cache = Cache::none();
    let error =
        Fetcher::new(&network, &cache).chart(&from_repository("1.0.2")).await.unwrap_err().to_string();
    assert!(error.contains("does not have the digest"), "{error}");
}

#[tokio::test]
async fn what_was_fetched_once_needs_no_network_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let network = repository(&digest(&archive("1.0.2")));
    Fetcher::new(&network, &cache).chart(&from_repository("1.0.2")).await.unwrap();
    let offline = Network::default();
    let chart = Fetcher::new(&offline, &cache).chart(&from_repository("1.0.2")).await.unwrap().chart;
    assert_eq!(chart.metadata.version, "1.0.2");
    assert!(offline.asked.lock().unwrap().is_empty());
    // A damaged archive is fetched again instead of being used.
    let kept = std::fs::read_dir(folder.path().join("archives")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(kept, b"damaged").unwrap();
    assert!(Fetcher::new(&offline, &cache).chart(&from_repository("1.0.2")).await.is_err());
}

#[tokio::test]
async fn registries_hand_out_tokens_and_tags() {
    let data = archive("2.1.0");
    let manifest = serde_json::json!({
        "layers": [{
            "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
            "digest": format!("sha256:{}", digest(&data)),
        }],
    });
    let base = "https://registry.test/v2/team/c";
    let network = Network {
        pages: BTreeMap::from([
            (format!("{base}/tags/list"), br#"{"tags": ["2.0.0", "2.1.0", "3.0.0-beta_1"]}"#.to_vec()),
            (format!("{base}/manifests/2.1.0"), manifest.to_string().into_bytes()),
            (format!("{base}/blobs/sha256:{}", digest(&data)), data),
            (
                "https://auth.test/token?service=registry.test&scope=repository%3Ateam%2Fc%3Apull".to_owned(),
                br#"{"token": "t0ken"}"#.to_vec(),
            ),
        ]),
        token: Some((
            "Bearer t0ken",
            "Bearer realm=\"https://auth.test/token\",service=\"registry.test\",scope=\"repository:team/c:pull\"",
        )),
        ..Network::default()
    };
    let cache = Cache::none();
    let reference = Reference::Oci { url: "oci://registry.test/team/c".into(), version: "^2".into() };
    let login = Login { user: "u".into(), password: "canary".into() };
    assert!(!format!("{login:?}").contains("canary"));
    let chart = Fetcher::new(&network, &cache).login(login).chart(&reference).await.unwrap().chart;
    assert_eq!(chart.metadata.version, "2.1.0");
}

#[tokio::test]
async fn a_registry_cannot_exchange_what_its_manifest_promises() {
    let data = archive("2.1.0");
    let base = "https://registry.test/v2/team/c";
    let reference = Reference::Oci { url: "oci://registry.test/team/c".into(), version: "2.1.0".into() };
    let cache = Cache::none();
    let registry = |layer: serde_json::Value, blob: &str| Network {
        pages: BTreeMap::from([
            (
                format!("{base}/manifests/2.1.0"),
                serde_json::json!({ "layers": [layer] }).to_string().into_bytes(),
            ),
            (format!("{base}/blobs/{blob}"), data.clone()),
        ]),
        ..Network::default()
    };
    let layer = |digest: &str| {
        serde_json::json!({
            "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
            "digest": digest,
        })
    };
    let other = format!("sha256:{}", "0".repeat(64));
    for (network, complaint) in [
        (registry(layer(&other), &other), "does not have the digest"),
        (registry(layer("md5:0"), "md5:0"), "no SHA-256 digest"),
        (registry(layer("sha256:../../x"), "sha256:../../x"), "no SHA-256 digest"),
        (registry(serde_json::json!({"mediaType": "text/plain"}), "x"), "layer with a chart"),
    ] {
        let error = Fetcher::new(&network, &cache).chart(&reference).await.unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
}

#[tokio::test]
async fn the_newest_is_asked_for_again_unless_nobody_answers() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let mut network = repository(&digest(&archive("1.0.2")));
    assert_eq!(
        Fetcher::new(&network, &cache).chart(&from_repository("")).await.unwrap().chart.metadata.version,
        "1.0.2"
    );
    // The same answer leads to the archive that was kept.
    network.asked.lock().unwrap().clear();
    let again = Fetcher::new(&network, &cache).chart(&from_repository("")).await.unwrap();
    assert_eq!((again.chart.metadata.version.as_str(), again.stale), ("1.0.2", None));
    assert_eq!(*network.asked.lock().unwrap(), ["https://charts.test/r/index.yaml"]);
    // A newer one is noticed.
    let index = "entries: {c: [{version: 1.0.2, urls: [c.tgz]}, {version: 1.3.0, urls: [n.tgz]}]}";
    network.pages.insert("https://charts.test/r/index.yaml".into(), index.into());
    network.pages.insert("https://charts.test/r/n.tgz".into(), archive("1.3.0"));
    let newer = Fetcher::new(&network, &cache).chart(&from_repository("")).await.unwrap();
    assert_eq!(newer.chart.metadata.version, "1.3.0");
    // Without a network the last one has to do, and says so; what was never fetched is missing.
    network.down = true;
    let old = Fetcher::new(&network, &cache).chart(&from_repository("")).await.unwrap();
    assert_eq!(old.chart.metadata.version, "1.3.0");
    assert!(old.stale.unwrap().contains("no route to host"));
    assert!(Fetcher::new(&network, &cache).chart(&from_repository("<1")).await.is_err());
}

#[tokio::test]
async fn a_login_stays_with_its_server() {
    let network = repository("");
    let cache = Cache::none();
    let login = Login { user: "u".into(), password: "canary".into() };
    Fetcher::new(&network, &cache).login(login).chart(&from_repository("0.9.0")).await.unwrap();
    assert!(network.asked.lock().unwrap().contains(&"https://cdn.test/c-0.9.0.tgz".to_owned()));
    assert_eq!(*network.trusted.lock().unwrap(), ["https://charts.test/r/index.yaml"]);
}

#[tokio::test]
async fn documents_of_schemas_are_fetched_checked_and_kept_for_when_nobody_answers() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let mut network = repository("");
    let url = |name: &str| format!("https://charts.test/{name}");
    network.pages.insert(url("s.json"), b"{\"type\": \"object\"}".to_vec());
    network.pages.insert(url("page.html"), b"<html>".to_vec());
    network.pages.insert(url("long.json"), vec![b' '; (4 << 20) + 1]);
    let login = Login { user: "u".into(), password: "canary".into() };
    let fetcher = Fetcher::new(&network, &cache).login(login);
    let (document, stale) = fetcher.schema(&url("s.json")).await.unwrap();
    assert_eq!((document.as_slice(), stale), (&b"{\"type\": \"object\"}"[..], None));
    assert!(network.trusted.lock().unwrap().is_empty(), "a login is not for whom a chart names");
    for (name, complaint) in
        [("page.html", "not JSON"), ("long.json", "more than"), ("none.json", "status 404")]
    {
        let error = fetcher.schema(&url(name)).await.unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
    network.down = true;
    let fetcher = Fetcher::new(&network, &cache);
    let (kept, stale) = fetcher.schema(&url("s.json")).await.unwrap();
    assert_eq!(kept, document);
    assert!(stale.unwrap().contains("no route to host"));
    assert!(matches!(fetcher.schema(&url("page.html")).await, Err(daedal_helm::Error::Unreachable { .. })));
}
