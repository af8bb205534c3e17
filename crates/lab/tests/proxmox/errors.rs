//! What Proxmox says when something is wrong: statuses, reason phrases, bodies and delays.

use std::time::Duration;

use bytes::Bytes;
use daedal_lab::proxmox::{Grant, TokenSpec};
use http::Request;
use http_body_util::Full;

use crate::story::CREATE;
use crate::support::{ADMIN, Lab, spec};

#[tokio::test(start_paused = true)]
async fn wrong_credentials_wait_three_seconds_and_say_little() {
    let lab = Lab::new();
    let none = lab.call_as("", "GET", "/version", &[]).await;
    assert_eq!((none.status, none.reason.as_str(), none.text.as_str()), (401, "No ticket", ""));
    assert!(none.took >= Duration::from_secs(3));
    let bad = lab.call_as("PVEAPIToken=root@pam!t1=wrong", "GET", "/version", &[]).await;
    assert_eq!((bad.status, bad.reason.as_str(), bad.text.as_str()), (401, "Authentication failed!", ""));

    let mut old = spec();
    old.version = "8.4.1".into();
    let lab = Lab::of(&old);
    let bad = lab.call_as("PVEAPIToken=root@pam!t1=wrong", "GET", "/version", &[]).await;
    assert_eq!(bad.reason, "invalid token value!");
    let nobody = lab.call_as("PVEAPIToken=x@pam!t1=wrong", "GET", "/version", &[]).await;
    assert_eq!(nobody.reason, "no such user ('x@pam')");
}

#[tokio::test(start_paused = true)]
async fn a_ticket_needs_its_csrf_token_for_writes() {
    let lab = Lab::new();
    let wrong = [("username", "root@pam"), ("password", "no")];
    assert_eq!(lab.call_as("", "POST", "/access/ticket", &wrong).await.reason, "authentication failure");
    let right = [("username", "root"), ("realm", "pam"), ("password", "hunter2")];
    let login = lab.call_as("", "POST", "/access/ticket", &right).await;
    let ticket = format!("PVEAuthCookie={}", login.data()["ticket"].as_str().unwrap());
    assert_eq!(lab.call_as(&ticket, "GET", "/version", &[]).await.status, 200);
    let refused = lab.call_as(&ticket, "POST", "/pools", &[("poolid", "x")]).await;
    assert_eq!((refused.status, refused.reason.as_str()), (401, "Permission denied - invalid csrf token"));
    let request = Request::post("/api2/json/pools")
        .header("cookie", &ticket)
        .header("csrfpreventiontoken", login.data()["CSRFPreventionToken"].as_str().unwrap())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(r#"{"poolid":"x"}"#)))
        .unwrap();
    assert_eq!(lab.send(request).await.unwrap().status, 200);
}

fn raw(method: &str, path: &str, header: (&str, &str), body: Vec<u8>) -> Request<Full<Bytes>> {
    let request =
        Request::builder().method(method).uri(format!("/api2/json{path}")).header("authorization", ADMIN);
    request.header(header.0, header.1).body(Full::new(Bytes::from(body))).unwrap()
}

#[tokio::test(start_paused = true)]
async fn bodies_have_rules() {
    let lab = Lab::new();
    let form = ("content-type", "application/x-www-form-urlencoded");
    let on_delete = lab.send(raw("DELETE", "/pools", form, b"poolid=lab".to_vec())).await.unwrap();
    assert_eq!(
        (on_delete.status, on_delete.reason.as_str()),
        (501, "Unexpected content for method 'DELETE'")
    );
    let strange =
        lab.send(raw("POST", "/pools", ("content-type", "text/plain"), b"x".to_vec())).await.unwrap();
    assert_eq!(strange.status, 506);
    let large = lab.send(raw("POST", "/pools", form, vec![b'a'; 600 * 1024])).await.unwrap();
    assert_eq!((large.status, large.reason.as_str()), (501, "for data too large"));
    let dropped = lab.send(raw("POST", "/nodes/pve1/storage/local/upload", form, b"x=1".to_vec())).await;
    assert!(dropped.is_none(), "a plain post to upload gets no answer");
    let unknown = lab.call("GET", "/nope", &[]).await;
    assert_eq!((unknown.status, unknown.reason.as_str()), (501, "Method 'GET /nope' not implemented"));
    assert_eq!(unknown.body["message"], "Method 'GET /nope' not implemented");
}

#[tokio::test(start_paused = true)]
async fn chunked_bodies_are_not_implemented() {
    let lab = Lab::new();
    let stream = daedal_dial::Dial::dial(&lab.fabric, &daedal_dial::Target::new("pve1", 8006)).await.unwrap();
    let tls = tokio_rustls::TlsConnector::from(lab.pki.client_config().unwrap());
    let name = rustls_pki_types::ServerName::try_from("pve1").unwrap();
    let mut stream = tls.connect(name, stream).await.unwrap();
    let request = format!(
        "POST /api2/json/pools HTTP/1.1\r\nHost: pve1\r\nAuthorization: {ADMIN}\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\n"
    );
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 501 chunked transfer encoding not supported\r\n"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn parameters_are_refused_by_name() {
    let lab = Lab::new();
    let long = "property is not defined in schema and the schema does not allow additional properties";
    type Params = &'static [(&'static str, &'static str)];
    let cases: &[(Params, &str, &str)] = &[
        (&[("vmid", "abc")], "vmid", "type check ('integer') failed - got 'abc'"),
        (&[("vmid", "900"), ("bogus", "1")], "bogus", long),
        (&[], "vmid", "property is missing and it is not optional"),
        (
            &[("vmid", "900"), ("name", "bad_name")],
            "name",
            "invalid format - value does not look like a valid DNS name\n",
        ),
        (&[("vmid", "900"), ("cores", "0")], "cores", "value must have a minimum value of 1"),
        (
            &[("vmid", "900"), ("bios", "efi")],
            "bios",
            "value 'efi' does not have a value in the enumeration 'seabios, ovmf'",
        ),
        (
            &[("vmid", "900"), ("scsi0", "local:8,import-from=local:import/x.qcow2")],
            "scsi0",
            "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>",
        ),
    ];
    for (params, name, text) in cases {
        let reply = lab.call("POST", "/nodes/pve1/qemu", params).await;
        assert_eq!((reply.status, reply.reason.as_str()), (400, "Parameter verification failed."));
        assert_eq!(reply.body["errors"][name], **text);
        assert_eq!(reply.body["message"], "Parameter verification failed.\n");
        assert_eq!(reply.headers["connection"], "close");
    }
    assert!(lab.dc.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_told_with_500() {
    let lab = Lab::new();
    for (method, path, params, reason) in [
        (
            "GET",
            "/nodes/pve1/qemu/900/config",
            vec![],
            "Configuration file 'nodes/pve1/qemu-server/900.conf' does not exist",
        ),
        ("GET", "/nodes/pve1/storage/x/content", vec![], "storage 'x' does not exist"),
        ("POST", "/nodes/pve1/qemu", vec![("vmid", "900"), ("scsi0", "x:8")], "storage 'x' does not exist"),
        (
            "POST",
            "/nodes/pve1/qemu",
            vec![("vmid", "900"), ("args", "-x")],
            "only root can set 'args' config",
        ),
        (
            "GET",
            "/nodes/ghost/status",
            vec![],
            "hostname lookup 'ghost' failed - failed to get address info for: ghost: Temporary failure in name resolution",
        ),
    ] {
        let reply = lab.call(method, path, &params).await;
        assert_eq!((reply.status, reply.reason.as_str()), (500, reason), "{method} {path}");
    }
    // The start of a VM that is not there is accepted; its task fails.
    let end = lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await;
    assert_eq!(end, "Configuration file 'nodes/pve1/qemu-server/900.conf' does not exist");
    let task = "/nodes/pve1/tasks/UPID:pve1:00000001:00000001:6AF9FA0A:qmcreate:100:root@pam:";
    let status = lab.call("GET", &format!("{task}/status"), &[]).await;
    assert_eq!((status.status, status.body["errors"]["upid"].as_str()), (400, Some("no such task")));
    let log = lab.call("GET", &format!("{task}/log"), &[]).await;
    assert_eq!((log.status, log.body["total"].as_i64()), (200, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn each_privilege_is_asked_for_by_name() {
    let mut wanted = spec();
    let mut none = TokenSpec::minimal("nobody@pve!t", "s");
    none.grants.clear();
    let mut pooled = TokenSpec::minimal("pooled@pve!t", "s");
    pooled.grants[0].path = "/pool/lab".into();
    let mut half = TokenSpec::minimal("half@pve!t", "s");
    half.grants = vec![Grant::new("/vms", &["VM.Allocate", "VM.Audit", "VM.Config.CPU"])];
    wanted.tokens.extend([none, pooled, half]);
    let lab = Lab::of(&wanted).with_image().await;

    let nobody = "PVEAPIToken=nobody@pve!t=s";
    for path in ["/nodes/pve1/qemu", "/nodes/pve1/storage", "/pools", "/nodes/pve1/network", "/access/acl"] {
        let reply = lab.call_as(nobody, "GET", path, &[]).await;
        assert_eq!((reply.status, reply.text.as_str()), (200, r#"{"data":[]}"#), "{path}");
    }
    let nodes = lab.call_as(nobody, "GET", "/nodes", &[]).await;
    assert!(nodes.data()[0].get("maxmem").is_none());
    let refused = lab.call_as(nobody, "GET", "/nodes/pve1/status", &[]).await;
    assert_eq!(
        (refused.status, refused.reason.as_str()),
        (403, "Permission check failed (/nodes/pve1, Sys.Audit)")
    );
    let bare = lab.call_as(nobody, "POST", "/nodes/pve1/qemu", &[("vmid", "900")]).await;
    assert_eq!((bare.status, bare.reason.as_str()), (403, "Permission check failed"));

    let half = "PVEAPIToken=half@pve!t=s";
    let memory = lab.call_as(half, "POST", "/nodes/pve1/qemu", &[("vmid", "900"), ("memory", "512")]).await;
    assert_eq!(memory.reason, "Permission check failed (/vms/900, VM.Config.Memory)");
    let disk = lab.call_as(half, "POST", "/nodes/pve1/qemu", &[("vmid", "900"), ("scsi0", "local:1")]).await;
    assert_eq!(disk.reason, "Permission check failed (/storage/local, Datastore.AllocateSpace)");

    // The trap: tags are checked in the worker, on the VM alone, after all disk work.
    let pooled = "PVEAPIToken=pooled@pve!t=s";
    let mut params = CREATE.to_vec();
    params.push(("pool", "lab"));
    let trapped = lab.call_as(pooled, "POST", "/nodes/pve1/qemu", &params).await;
    assert_eq!(trapped.status, 200, "{}", trapped.reason);
    let end = lab.wait(&trapped).await;
    assert_eq!(end, "unable to create VM 900 - 403 Permission check failed (/vms/900, VM.Config.Options)");
    assert_eq!(lab.dc.volumes(), ["pve1/local:import/talos.qcow2"]);
    params.retain(|(name, _)| *name != "tags");
    let made = lab.call_as(pooled, "POST", "/nodes/pve1/qemu", &params).await;
    assert_eq!(lab.wait(&made).await, "OK");
    let tagged = lab.call_as(pooled, "PUT", "/nodes/pve1/qemu/900/config", &[("tags", "x")]).await;
    assert_eq!(tagged.reason, "OK");
    let gone = lab.call_as(pooled, "DELETE", "/nodes/pve1/qemu/900", &[]).await;
    assert_eq!(lab.wait(&gone).await, "OK");
    let again = lab.call_as(pooled, "DELETE", "/nodes/pve1/qemu/900", &[]).await;
    assert_eq!(again.reason, "Permission check failed (/vms/900, VM.Allocate)");
}

#[tokio::test(start_paused = true)]
async fn downloads_are_checked() {
    let lab = Lab::new().with_image().await;
    let path = "/nodes/pve1/storage/local/download-url";
    let sum = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(crate::support::image()));
    let url = ("url", "http://files.lan/talos.qcow2");
    let base = [("content", "import"), ("filename", "talos.qcow2"), url];
    let end = lab.task("POST", path, &base).await;
    assert_eq!(end, "refusing to override existing file '/var/lib/vz/import/talos.qcow2'");
    let with = |sum: &'static str| {
        [base.as_slice(), &[("checksum", sum), ("checksum-algorithm", "sha256")]].concat()
    };
    let right: &'static str = sum.clone().leak();
    assert_eq!(lab.task("POST", path, &with(right)).await, "OK");
    let end = lab.task("POST", path, &with("00")).await;
    assert_eq!(end, format!("checksum mismatch: got '{sum}' != expect '00', aborting"));
    let other = [
        ("content", "import"),
        ("filename", "other.qcow2"),
        url,
        ("checksum", "00"),
        ("checksum-algorithm", "sha256"),
    ];
    assert_eq!(
        lab.task("POST", path, &other).await,
        format!("checksum mismatch: got '{sum}' != expect '00'")
    );
    let missing = [("content", "iso"), ("filename", "h.iso"), ("url", "http://files.lan/nope")];
    assert_eq!(lab.task("POST", path, &missing).await, "download failed: exit code 8");
    let nowhere = [("content", "iso"), ("filename", "h.iso"), ("url", "http://nowhere.lan/nope")];
    assert_eq!(lab.task("POST", path, &nowhere).await, "download failed: exit code 4");
    let packed = [("content", "import"), ("filename", "x.raw.xz"), url];
    let refused = lab.call("POST", path, &packed).await;
    assert_eq!(refused.body["errors"]["filename"], "invalid filename or wrong extension");
    lab.serve_file("/nine", b"123456789".to_vec());
    let nine = [("content", "import"), ("filename", "nine.qcow2"), ("url", "http://files.lan/nine")];
    assert!(lab.task("POST", path, &nine).await.ends_with("Image is not in qcow2 format"));
    let junk = [("content", "import"), ("filename", "nine.raw"), ("url", "http://files.lan/nine")];
    assert_eq!(lab.task("POST", path, &junk).await, "OK", "raw names are not verified");
    let wrong = lab.upload(ADMIN, "local", "iso", "x.txt", b"1").await;
    assert_eq!(wrong.body["errors"]["filename"], "wrong file extension");
}

#[tokio::test(start_paused = true)]
async fn a_missing_iso_is_noticed_at_start() {
    let lab = Lab::new();
    let seed = lab.upload(ADMIN, "local", "iso", "s.iso", b"x").await;
    lab.wait(&seed).await;
    let params = [("vmid", "900"), ("ide2", "local:iso/s.iso,media=cdrom"), ("net0", "virtio,bridge=vmbr99")];
    assert_eq!(lab.task("POST", "/nodes/pve1/qemu", &params).await, "OK");
    assert_eq!(lab.task("DELETE", "/nodes/pve1/storage/local/content/local:iso/s.iso", &[]).await, "OK");
    assert_eq!(lab.task("DELETE", "/nodes/pve1/storage/local/content/iso/s.iso", &[]).await, "OK");
    let end = lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await;
    assert_eq!(end, "volume 'local:iso/s.iso' does not exist");
    lab.call("PUT", "/nodes/pve1/qemu/900/config", &[("ide2", "none,media=cdrom")]).await;
    let end = lab.task("POST", "/nodes/pve1/qemu/900/status/start", &[]).await;
    assert_eq!(end, "bridge 'vmbr99' does not exist");
}
