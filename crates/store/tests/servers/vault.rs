//! A small Vault for tests: a key-value store of version 2 at `secret/`, one of version 1 at `old/`, and three ways to log in.
//! Answers have the words of Vault 1.21.

#![allow(dead_code)] // Every test uses a part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

/// The token of root.
pub const ROOT: &str = "hvs.root-token";
/// Who may log in by AppRole.
pub const ROLE: (&str, &str) = ("role-id", "secret-id");
/// Who may log in by a JWT, at `kubernetes` and `jwt`.
pub const JWT: (&str, &str) = ("daedal", "eyJ.service.account");

type Answer = Response<Full<Bytes>>;

/// A server. All clones are the same one.
#[derive(Clone)]
pub struct VaultServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The versions of every secret, by path; none if one was deleted.
    secrets: BTreeMap<String, Vec<Option<Value>>>,
    tokens: BTreeSet<String>,
    logins: usize,
    enterprise: bool,
    requests: Vec<String>,
}

impl VaultServer {
    pub fn new() -> Self {
        let server = Self(Arc::default());
        server.state().tokens.insert(ROOT.to_owned());
        server
    }

    /// One that has namespaces.
    pub fn enterprise() -> Self {
        let server = Self::new();
        server.state().enterprise = true;
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Ends all tokens but root's.
    pub fn end_tokens(&self) {
        self.state().tokens.retain(|token| token == ROOT);
    }

    pub fn logins(&self) -> usize {
        self.state().logins
    }

    /// `METHOD path namespace` of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// The newest version of a secret below `secret/`.
    pub fn secret(&self, path: &str) -> Option<Value> {
        self.state().secrets.get(path)?.last()?.clone()
    }

    /// What somebody else writes.
    pub fn write(&self, path: &str, data: Option<Value>) {
        self.state().secrets.entry(path.to_owned()).or_default().push(data);
    }

    /// Listens on a port of this machine for as long as the runtime lives.
    pub async fn listen(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, server) = (listener.local_addr().unwrap(), self.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream));
            }
        });
        address
    }

    /// Serves one connection.
    pub async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request: Request<Incoming>| {
            let server = self.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let path = head.uri.path_and_query().unwrap().as_str().to_owned();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                Ok::<_, hyper::Error>(server.answer(head.method.as_str(), &path, &head.headers, &body))
            }
        });
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    fn answer(&self, method: &str, path: &str, headers: &HeaderMap, body: &Value) -> Answer {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        // A standby that cannot hand a request on sends whoever asks to the active one.
        if header("host").as_deref() == Some("standby.test") {
            let location = format!("http://active.test{path}");
            return Response::builder()
                .status(307)
                .header("location", location)
                .body(Full::default())
                .unwrap();
        }
        let path = path.strip_prefix("/v1/").unwrap_or_default();
        let mut state = self.state();
        state.requests.push(format!("{method} {path} {}", header("x-vault-namespace").unwrap_or_default()));
        if path.starts_with("sys/health") {
            return reply(
                200,
                &json!({"version": "1.21.4", "enterprise": state.enterprise, "sealed": false}),
            );
        }
        if let Some(mount) = path.strip_prefix("auth/").and_then(|rest| rest.strip_suffix("/login")) {
            return state.login(mount, body);
        }
        if !header("x-vault-token").is_some_and(|token| state.tokens.contains(&token)) {
            return errors(403, &["2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"]);
        }
        if let Some(asked) = path.strip_prefix("sys/internal/ui/mounts/") {
            return mounts(asked);
        }
        match path.strip_prefix("secret/").and_then(|rest| rest.split_once('/')) {
            Some(("data", path)) if method == "GET" => state.read(path),
            Some(("data", path)) if method == "POST" => state.write(path, body),
            Some(("metadata", path)) if method == "LIST" => state.list(path),
            Some(("metadata", path)) if method == "DELETE" => {
                state.secrets.remove(path);
                Response::builder().status(204).body(Full::default()).unwrap()
            }
            _ => errors(404, &[&format!("no handler for route \"{path}\". route entry not found.")]),
        }
    }
}

impl State {
    fn login(&mut self, mount: &str, body: &Value) -> Answer {
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let is_known = match mount {
            "approle" => (text("role_id"), text("secret_id")) == ROLE,
            "kubernetes" | "jwt" => (text("role"), text("jwt")) == JWT,
            _ => {
                return errors(
                    404,
                    &[&format!("no handler for route \"auth/{mount}/login\". route entry not found.")],
                );
            }
        };
        if !is_known {
            let refusal = if mount == "approle" { "invalid role or secret ID" } else { "permission denied" };
            return errors(if mount == "approle" { 400 } else { 403 }, &[refusal]);
        }
        self.logins += 1;
        let token = format!("hvs.login-{}", self.logins);
        self.tokens.insert(token.clone());
        reply(200, &json!({"auth": {"client_token": token, "lease_duration": 3600, "renewable": true}}))
    }

    fn read(&self, path: &str) -> Answer {
        let Some(versions) = self.secrets.get(path) else { return errors(404, &[]) };
        let data = versions.last().cloned().flatten();
        let status = if data.is_some() { 200 } else { 404 };
        reply(status, &json!({"data": {"data": data, "metadata": {"version": versions.len()}}}))
    }

    fn write(&mut self, path: &str, body: &Value) -> Answer {
        let versions = self.secrets.entry(path.to_owned()).or_default();
        if body["options"]["cas"].as_u64().is_some_and(|cas| cas != versions.len() as u64) {
            if versions.is_empty() {
                self.secrets.remove(path);
            }
            return errors(400, &["check-and-set parameter did not match the current version"]);
        }
        versions.push(Some(body["data"].clone()));
        reply(200, &json!({"data": {"version": versions.len(), "destroyed": false}}))
    }

    fn list(&self, folder: &str) -> Answer {
        let below = self.secrets.keys().filter_map(|path| path.strip_prefix(folder));
        let name = |rest: &str| rest.split_inclusive('/').next().unwrap_or_default().to_owned();
        let keys: BTreeSet<String> = below.map(name).collect();
        match keys.is_empty() {
            true => errors(404, &[]),
            false => reply(200, &json!({"data": {"keys": keys}})),
        }
    }
}

fn mounts(asked: &str) -> Answer {
    match asked.split('/').next().unwrap_or_default() {
        "secret" => {
            reply(200, &json!({"data": {"path": "secret/", "type": "kv", "options": {"version": "2"}}}))
        }
        "old" => reply(200, &json!({"data": {"path": "old/", "type": "kv", "options": {"version": "1"}}})),
        other => {
            let text = format!(
                "preflight capability check returned 403, please ensure client's policies grant access to path \"{other}/\""
            );
            errors(403, &[&text])
        }
    }
}

fn reply(status: u16, body: &Value) -> Answer {
    Response::builder().status(status).body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

fn errors(status: u16, errors: &[&str]) -> Answer {
    reply(status, &json!({"errors": errors}))
}
