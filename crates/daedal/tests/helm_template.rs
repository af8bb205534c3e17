//! `daedal helm template`: charts from a folder, a repository and a registry, its flags, its exit codes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use common::{daedal, root, text};
use sha2::Digest as _;

fn shop() -> String {
    root().join("crates/helm/tests/charts/shop").display().to_string()
}

fn stdout(args: &[&str]) -> String {
    let run = daedal(args);
    assert_eq!(run.status.code(), Some(0), "{args:?}: {}", text(&run.stderr));
    text(&run.stdout)
}

/// The chart as an archive, and its digest.
fn archive() -> (Vec<u8>, String) {
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    builder.append_dir_all("shop", shop()).unwrap();
    let data = builder.into_inner().unwrap().finish().unwrap();
    let digest = hex::encode(sha2::Sha256::digest(&data));
    (data, digest)
}

/// What the archive renders when it lies on the disk.
fn from_disk(folder: &std::path::Path, data: &[u8]) -> String {
    let file = folder.join("shop.tgz");
    std::fs::write(&file, data).unwrap();
    stdout(&["helm", "template", "rel", &file.display().to_string()])
}

/// A web server on loopback that knows some paths and counts what it is asked.
fn serve(pages: BTreeMap<String, Vec<u8>>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut header = String::new();
            while reader.read_line(&mut header).is_ok_and(|n| n > 2) {
                header.clear();
            }
            seen.lock().unwrap().push(path.clone());
            let (status, body) = match pages.get(&path) {
                Some(body) => ("200 OK", body.as_slice()),
                None => ("404 Not Found", &b""[..]),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    (address, asked)
}

#[test]
fn a_repository_is_asked_once_and_its_digest_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache").display().to_string();
    let (data, digest) = archive();
    let expected = from_disk(folder.path(), &data);
    let index = |digest: &str| {
        format!(
            "apiVersion: v1\nentries:\n  shop:\n  - name: shop\n    version: 1.0.0\n    digest: {digest}\n    urls: [files/shop.tgz]\n"
        )
        .into_bytes()
    };
    let (address, asked) = serve(BTreeMap::from([
        ("/good/index.yaml".to_owned(), index(&digest)),
        ("/good/files/shop.tgz".to_owned(), data.clone()),
        ("/bad/index.yaml".to_owned(), index(&"0".repeat(64))),
        ("/bad/files/shop.tgz".to_owned(), data),
    ]));
    let repo = format!("http://{address}/good");
    let args =
        ["helm", "template", "rel", "shop", "--repo", &repo, "--version", "1.0.0", "--chart-cache", &cache];
    let first = stdout(&args);
    assert_eq!(first, expected);
    let before = asked.lock().unwrap().len();
    assert_eq!(stdout(&args), first);
    assert_eq!(asked.lock().unwrap().len(), before, "the second time needs no network");

    // Without a version the index is asked again, and only if nobody answers what was fetched before is used.
    let newest = ["helm", "template", "rel", "shop", "--repo", &repo, "--chart-cache", &cache];
    assert_eq!(stdout(&newest), first);
    assert_eq!(stdout(&newest), first);
    assert_eq!(asked.lock().unwrap().len(), before + 2, "the index twice, the archive never");
    // A folder of the chart's name is preferred to the repository, as Helm prefers it.
    let local = daedal(["helm", "template", "rel", &shop(), "--repo", &repo]);
    assert!(text(&local.stderr).contains("is ignored"), "{}", text(&local.stderr));
    assert_eq!(local.status.code(), Some(0));

    let repo = format!("http://{address}/bad");
    let run = daedal([
        "helm",
        "template",
        "rel",
        "shop",
        "--repo",
        &repo,
        "--version",
        "1.0.0",
        "--chart-cache",
        &cache,
    ]);
    assert_eq!(run.status.code(), Some(69), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("digest"), "{}", text(&run.stderr));
}

#[test]
fn a_registry_gives_the_same_chart() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache").display().to_string();
    let (data, digest) = archive();
    let expected = from_disk(folder.path(), &data);
    let manifest = format!(
        r#"{{"schemaVersion": 2, "layers": [{{"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": "sha256:{digest}", "size": {}}}]}}"#,
        data.len()
    );
    let (address, asked) = serve(BTreeMap::from([
        ("/v2/charts/shop/manifests/1.0.0".to_owned(), manifest.into_bytes()),
        (format!("/v2/charts/shop/blobs/sha256:{digest}"), data),
    ]));
    let chart = format!("oci://{address}/charts/shop");
    let args =
        ["helm", "template", "rel", &chart, "--version", "1.0.0", "--plain-http", "--chart-cache", &cache];
    let first = stdout(&args);
    assert_eq!(first, expected);
    let before = asked.lock().unwrap().len();
    assert_eq!(stdout(&args), first);
    assert_eq!(asked.lock().unwrap().len(), before, "the second time needs no network");
}

#[test]
fn names_are_given_templated_or_made_up() {
    assert!(stdout(&["helm", "template", &shop()]).contains("release-name"));
    let named = stdout(&["helm", "template", &shop(), "--name-template", "{{ \"x\" | upper | lower }}-y"]);
    assert!(named.contains("x-y"), "{named}");
    assert!(stdout(&["helm", "template", &shop(), "--generate-name"]).contains("shop-1"));
    let both = daedal(["helm", "template", "rel", &shop(), "-g"]);
    assert_eq!(both.status.code(), Some(64));
}

#[test]
fn files_are_written_where_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let printed = stdout(&["helm", "template", "rel", &shop(), "--no-hooks"]);
    let out = folder.path().display().to_string();
    stdout(&["helm", "template", "rel", &shop(), "--no-hooks", "--output-dir", &out, "--release-name"]);
    let service = std::fs::read_to_string(folder.path().join("rel/shop/templates/service.yaml")).unwrap();
    assert!(service.starts_with("---\n# Source: shop/templates/service.yaml\n"), "{service}");
    // One template may give several manifests, which are installed at different times.
    assert_eq!(service.matches("# Source: ").count(), 2, "{service}");
    for manifest in service.split("---\n").skip(1) {
        assert!(printed.contains(manifest.trim_end()), "{manifest}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_its_exit_code() {
    let run = daedal(["helm", "template", "rel", &shop(), "--validate"]);
    assert_eq!(run.status.code(), Some(64));
    assert!(text(&run.stderr).contains("needs a cluster"), "{}", text(&run.stderr));
    assert_eq!(daedal(["helm", "template", "rel", "no/such/chart"]).status.code(), Some(66));
    let run = daedal(["helm", "template", "Bad_Name", &shop()]);
    assert_eq!(run.status.code(), Some(64));
    assert!(text(&run.stderr).contains("invalid release name, must match regex"), "{}", text(&run.stderr));
    assert_eq!(daedal(["helm", "template", "rel", &shop(), "--set", "a[=1"]).status.code(), Some(64));
    assert_eq!(daedal(["helm", "template", "rel", &shop(), "-f", "no.yaml"]).status.code(), Some(66));
    let repo =
        ["helm", "template", "rel", "shop", "--repo", "http://127.0.0.1:1", "--chart-cache", "/nonexistent"];
    assert_eq!(daedal(repo).status.code(), Some(69));
}
