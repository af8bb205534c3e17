//! A pretend datacenter for tests, with a small client that shows every byte of the answers.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use daedal_dial::{Dial, Target};
use daedal_lab::faults::Faults;
use daedal_lab::pki::Pki;
use daedal_lab::proxmox::{
    Datacenter, DatacenterSpec, Durations, HostSpec, StorageSpec, Surroundings, TokenSpec, UserSpec,
};
use daedal_lab::{Fabric, GuestInterface, Guests, Hardware, Pace};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use serde_json::Value;
use tokio_rustls::TlsConnector;

pub const EPOCH: i64 = 1_794_768_000;
pub const ADMIN: &str = "PVEAPIToken=root@pam!t1=admin-secret";
pub const MINIMAL: &str = "PVEAPIToken=daedal@pve!cli=minimal-secret";

/// Remembers what happened to the guests.
#[derive(Default)]
pub struct Pretend {
    pub events: Mutex<Vec<String>>,
    pub hardware: Mutex<BTreeMap<u32, Hardware>>,
    pub agents: Mutex<BTreeMap<u32, Vec<GuestInterface>>>,
    pub obedient: Mutex<bool>,
}

impl Pretend {
    fn note(&self, event: String) {
        self.events.lock().unwrap().push(event);
    }

    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

impl Guests for Pretend {
    fn power_on(&self, hardware: Hardware) {
        self.note(format!("on {}", hardware.vmid));
        self.hardware.lock().unwrap().insert(hardware.vmid, hardware);
    }

    fn power_off(&self, vmid: u32) {
        self.note(format!("off {vmid}"));
    }

    fn shut_down(&self, vmid: u32) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        self.note(format!("asked {vmid}"));
        let obeys = *self.obedient.lock().unwrap();
        Box::pin(async move { obeys })
    }

    fn forget(&self, _disk_identity: &str) {
        self.note("forgot a disk".into());
    }

    fn media_changed(&self, vmid: u32, cdroms: Vec<Vec<u8>>) {
        self.note(format!("media {vmid} {}", cdroms.len()));
    }

    fn agent_interfaces(&self, vmid: u32) -> Option<Vec<GuestInterface>> {
        self.agents.lock().unwrap().get(&vmid).cloned()
    }

    fn console(&self, _vmid: u32) -> Vec<String> {
        Vec::new()
    }
}

/// A lab with its parts in reach.
pub struct Lab {
    pub dc: Datacenter,
    pub fabric: Fabric,
    pub guests: Arc<Pretend>,
    pub faults: Faults,
    pub pki: Pki,
    pub endpoint: String,
}

pub fn spec() -> DatacenterSpec {
    let mut host = HostSpec::new("pve1", 16, 64 << 30);
    host.storages = vec![
        StorageSpec::new(
            "local",
            "dir",
            &["iso", "import", "vztmpl", "images", "snippets", "backup"],
            250 << 30,
        ),
        StorageSpec::new("data", "dir", &["images"], 250 << 30),
    ];
    DatacenterSpec {
        hosts: vec![host],
        users: vec![UserSpec { id: "root@pam".into(), password: Some("hunter2".into()), grants: vec![] }],
        tokens: vec![
            TokenSpec::administrator("root@pam!t1", "admin-secret"),
            TokenSpec::minimal("daedal@pve!cli", "minimal-secret"),
        ],
        pools: vec!["lab".into()],
        ..DatacenterSpec::default()
    }
}

pub fn surroundings() -> (Surroundings, Arc<Pretend>) {
    let guests = Arc::new(Pretend::default());
    let around = Surroundings {
        fabric: Fabric::default(),
        pace: Pace::new(1.0, EPOCH),
        guests: guests.clone(),
        faults: Faults::default(),
        pki: Pki::generate("test lab").unwrap(),
        durations: Durations::default(),
    };
    (around, guests)
}

impl Lab {
    pub fn new() -> Self {
        Self::of(&spec())
    }

    pub fn of(spec: &DatacenterSpec) -> Self {
        Self::of_which(spec, |_| {})
    }

    /// The same in changed surroundings.
    pub fn of_which(spec: &DatacenterSpec, change: impl FnOnce(&mut Surroundings)) -> Self {
        let (mut around, guests) = surroundings();
        change(&mut around);
        let (fabric, faults, pki) = (around.fabric.clone(), around.faults.clone(), around.pki.clone());
        let dc = Datacenter::start(spec, around).unwrap();
        let endpoint = format!("{}.lan", spec.hosts[0].name);
        Self { dc, fabric, guests, faults, pki, endpoint }
    }

    /// A call as the administrator's token.
    pub async fn call(&self, method: &str, path: &str, params: &[(&str, &str)]) -> Reply {
        self.call_as(ADMIN, method, path, params).await
    }

    pub async fn call_as(&self, who: &str, method: &str, path: &str, params: &[(&str, &str)]) -> Reply {
        self.try_call(who, method, path, params).await.expect("an answer")
    }

    /// A call that may find no answer. Parameters go where they belong: query for GET and DELETE, form otherwise.
    pub async fn try_call(
        &self,
        who: &str,
        method: &str,
        path: &str,
        params: &[(&str, &str)],
    ) -> Option<Reply> {
        let form = params.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value)));
        let form = form.collect::<Vec<_>>().join("&");
        let in_query = matches!(method, "GET" | "DELETE");
        let uri = match (in_query, form.is_empty()) {
            (true, false) => format!("/api2/json{path}?{form}"),
            _ => format!("/api2/json{path}"),
        };
        let mut request = Request::builder().method(method).uri(uri).header("host", &self.endpoint);
        if !who.is_empty() {
            request = request.header("authorization", who);
        }
        let body = if in_query { String::new() } else { form };
        if !body.is_empty() {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        self.send(request.body(Full::new(Bytes::from(body))).unwrap()).await
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> Option<Reply> {
        let stream = self.fabric.dial(&Target::new(self.endpoint.clone(), 8006)).await.ok()?;
        let name = ServerName::try_from(self.endpoint.clone()).unwrap();
        let tls = TlsConnector::from(self.pki.client_config().unwrap());
        let stream = tls.connect(name, stream).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        let began = tokio::time::Instant::now();
        let response = sender.send_request(request).await.ok()?;
        Reply::read(response, began.elapsed()).await
    }

    /// Waits for the task of a call and returns how it ended.
    pub async fn task(&self, method: &str, path: &str, params: &[(&str, &str)]) -> String {
        let reply = self.call(method, path, params).await;
        assert_eq!(reply.status, 200, "{method} {path}: {} {:?}", reply.reason, reply.body);
        self.wait(&reply).await
    }

    pub async fn wait(&self, reply: &Reply) -> String {
        let upid = reply.data().as_str().expect("a UPID").to_owned();
        self.end_of(&upid).await
    }

    pub async fn end_of(&self, upid: &str) -> String {
        let host = upid.split(':').nth(1).unwrap();
        loop {
            let status = self.call("GET", &format!("/nodes/{host}/tasks/{upid}/status"), &[]).await;
            if status.data()["status"] == "stopped" {
                return status.data()["exitstatus"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn upload(&self, who: &str, storage: &str, content: &str, name: &str, bytes: &[u8]) -> Reply {
        let mut body = format!(
            "--b\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\n{content}\r\n--b\r\nContent-Disposition: \
             form-data; name=\"filename\"; filename=\"{name}\"\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n--b--\r\n");
        let request = Request::post(format!("/api2/json/nodes/pve1/storage/{storage}/upload"))
            .header("host", &self.endpoint)
            .header("authorization", who)
            .header("content-type", "multipart/form-data; boundary=b")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        self.send(request).await.expect("an answer")
    }

    /// Serves bytes over plain HTTP on `files.lan`.
    pub fn serve_file(&self, path: &'static str, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        self.fabric.listen(
            Target::new("files.lan", 80),
            Arc::new(move |stream| {
                let bytes = bytes.clone();
                let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                    let found = request.uri().path() == path;
                    let body = if found { bytes.clone() } else { Bytes::new() };
                    let status = if found { 200 } else { 404 };
                    async move { Response::builder().status(status).body(Full::new(body)) }
                });
                tokio::spawn(async move {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }),
        );
    }

    /// Puts a small Talos-like image on `local` as `import/talos.qcow2`.
    pub async fn with_image(self) -> Self {
        self.serve_file("/talos.qcow2", image());
        let end = self
            .task(
                "POST",
                "/nodes/pve1/storage/local/download-url",
                &[
                    ("content", "import"),
                    ("filename", "talos.qcow2"),
                    ("url", "http://files.lan/talos.qcow2"),
                ],
            )
            .await;
        assert_eq!(end, "OK");
        self
    }
}

/// A qcow2 header for 64 MiB and some bytes.
pub fn image() -> Vec<u8> {
    let mut image = b"QFI\xfb\0\0\0\x03".to_vec();
    image.resize(512, 0);
    image[24..32].copy_from_slice(&(64u64 << 20).to_be_bytes());
    image.extend_from_slice(b"what a lab image carries");
    image
}

pub fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub reason: String,
    pub headers: http::HeaderMap,
    pub text: String,
    pub body: Value,
    pub took: Duration,
}

impl Reply {
    async fn read(response: Response<hyper::body::Incoming>, took: Duration) -> Option<Self> {
        let status = response.status();
        let reason = match response.extensions().get::<hyper::ext::ReasonPhrase>() {
            Some(reason) => String::from_utf8_lossy(reason.as_bytes()).into_owned(),
            None => status.canonical_reason().unwrap_or_default().to_owned(),
        };
        let headers = response.headers().clone();
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Some(Self { status: status.as_u16(), reason, headers, text, body, took })
    }

    pub fn data(&self) -> &Value {
        &self.body["data"]
    }
}
