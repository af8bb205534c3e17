//! `daedal helm template`: charts from a folder, a repository and a registry, its flags, its exit codes.

use crate::common;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
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
    serve_to(pages, None)
}

/// The same, only for those who bring this `Authorization`.
fn serve_to(
    pages: BTreeMap<String, Vec<u8>>,
    login: Option<&'static str>,
) -> (String, Arc<Mutex<Vec<String>>>) {
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
            let mut known = login.is_none();
            while reader.read_line(&mut header).is_ok_and(|n| n > 2) {
                known |=
                    login.is_some_and(|l| header.trim().eq_ignore_ascii_case(&format!("authorization: {l}")));
                header.clear();
            }
            seen.lock().unwrap().push(path.clone());
            let (status, body) = match pages.get(&path) {
                _ if !known => ("401 Unauthorized", &b""[..]),
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

/// A chart in a folder of its own: its values show as JSON.
fn small(folder: &std::path::Path, files: &[(&str, &str)]) -> String {
    let chart = folder.join("small");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.0.0\n").unwrap();
    std::fs::write(chart.join("templates/a.yaml"), "v: {{ toJson .Values }}\n").unwrap();
    for (name, text) in files {
        std::fs::write(chart.join(name), text).unwrap();
    }
    chart.display().to_string()
}

#[test]
fn values_come_from_lists_of_files_and_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let chart = small(folder.path(), &[]);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let both = format!("{},{}", file("a.yaml", "{a: 1, b: 1}"), file("b.yaml", "{b: 2, c: 2}"));
    let printed = stdout(&["helm", "template", &chart, "-f", &both]);
    assert!(printed.contains(r#"v: {"a":1,"b":2,"c":2}"#), "{printed}");

    let typed = |text: &str| {
        let mut command =
            common::command(["helm", "template", &chart, "-f", &format!("{both},-"), "--set", "d=4"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let run = typed("c: 3");
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains(r#"v: {"a":1,"b":2,"c":3,"d":4}"#), "{}", text(&run.stdout));
    let run = typed("[");
    assert_eq!(run.status.code(), Some(65));
    assert!(text(&run.stderr).contains("Cannot use the values in standard input"), "{}", text(&run.stderr));
}

#[test]
fn flags_without_effect_are_taken_as_helm_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let chart = small(folder.path(), &[]);
    let plain = stdout(&["helm", "template", &chart]);
    for flags in [
        &["--dry-run"][..],
        &["--dry-run=client"],
        &["--dry-run=none", "--create-namespace", "--hide-notes", "--debug", "--devel"],
    ] {
        assert_eq!(stdout(&[&["helm", "template"], flags, &[chart.as_str()]].concat()), plain, "{flags:?}");
    }
    let run = daedal(["helm", "template", &chart, "--dry-run=server"]);
    assert_eq!(run.status.code(), Some(64));
    assert!(text(&run.stderr).contains("--dry-run=server needs a cluster"), "{}", text(&run.stderr));
    assert_eq!(daedal(["helm", "template", &chart, "--dry-run=maybe"]).status.code(), Some(64));
}

#[test]
fn what_is_no_yaml_shows_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let chart = small(folder.path(), &[("templates/b.yaml", "a: b: {{ .Release.Name }}\n")]);
    let quiet = daedal(["helm", "template", "rel", &chart]);
    assert_eq!((quiet.status.code(), text(&quiet.stdout).as_str()), (Some(65), ""));
    assert!(text(&quiet.stderr).contains("--debug"), "{}", text(&quiet.stderr));
    let shown = daedal(["helm", "template", "rel", &chart, "--debug"]);
    assert_eq!(shown.status.code(), Some(65));
    assert!(text(&shown.stdout).contains("---\n# Source: small/templates/b.yaml\na: b: rel\n"));
    assert!(text(&shown.stderr).contains("YAML parse error on small/templates/b.yaml"));
}

#[test]
fn development_versions_and_logins_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (data, digest) = archive();
    let index = format!(
        "apiVersion: v1\nentries:\n  shop:\n  - name: shop\n    version: 2.0.0-rc.1\n    digest: {digest}\n    urls: [rc.tgz]\n"
    );
    let pages =
        BTreeMap::from([("/index.yaml".to_owned(), index.into_bytes()), ("/rc.tgz".to_owned(), data)]);
    // "user:canary"
    let (address, _) = serve_to(pages, Some("Basic dXNlcjpjYW5hcnk="));
    let repo = format!("http://{address}");
    let cache = folder.path().join("cache").display().to_string();
    let args = ["helm", "template", "rel", "shop", "--repo", &repo, "--chart-cache", &cache];
    let login = ["--username", "user", "--password", "canary"];
    let refused = daedal([&args[..], &["--devel"]].concat());
    assert_eq!(refused.status.code(), Some(69), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("status 401"), "{}", text(&refused.stderr));
    let none = daedal([&args[..], &login].concat());
    assert_eq!(none.status.code(), Some(69), "{}", text(&none.stderr));
    assert!(text(&none.stderr).contains("no chart version found"), "{}", text(&none.stderr));
    assert!(!text(&none.stderr).contains("canary"));
    assert!(stdout(&[&args[..], &login, &["--devel"]].concat()).contains("# Source: shop/"));
}

#[test]
fn what_a_schema_refers_to_is_fetched_or_the_check_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache").display().to_string();
    let (address, asked) = serve(BTreeMap::from([
        (
            "/common.json".to_owned(),
            br##"{"properties": {"replicas": {"$ref": "types/number.json#/definitions/count"}}}"##.to_vec(),
        ),
        (
            "/types/number.json".to_owned(),
            br#"{"definitions": {"count": {"type": "integer", "minimum": 1}}}"#.to_vec(),
        ),
    ]));
    let schema = |path: &str| {
        format!(
            r#"{{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "http://{address}/{path}"}}"#
        )
    };
    let chart = small(folder.path(), &[("values.schema.json", &schema("common.json"))]);
    let args = ["helm", "template", "rel", &chart, "--chart-cache", &cache, "--set"];
    assert!(stdout(&[&args[..], &["replicas=2"]].concat()).contains(r#"{"replicas":2}"#));
    assert_eq!(*asked.lock().unwrap(), ["/common.json", "/types/number.json"]);
    let wrong = daedal([&args[..], &["replicas=0"]].concat());
    assert_eq!(wrong.status.code(), Some(65));
    assert!(text(&wrong.stderr).contains("at '/replicas'"), "{}", text(&wrong.stderr));

    // A document that cannot be had, and a server that nobody reaches.
    for path in [schema("gone.json"), r#"{"$ref": "http://127.0.0.1:1/a.json"}"#.to_owned()] {
        let chart = small(folder.path(), &[("values.schema.json", &path)]);
        let args = ["helm", "template", "rel", &chart, "--chart-cache", &cache];
        let run = daedal(args);
        assert_eq!(run.status.code(), Some(69));
        let told = text(&run.stderr);
        assert!(told.contains("Cannot check the values against the chart's schema"), "{told}");
        assert!(told.contains(".json") && told.contains("--skip-schema-validation"), "{told}");
        assert!(!told.to_lowercase().contains("retriev"), "{told}");
        stdout(&[&args[..], &["--skip-schema-validation"]].concat());
    }
}
