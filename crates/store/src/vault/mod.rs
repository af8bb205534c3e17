//! A client of the key-value store (version 2) of Vault and OpenBao: secrets by path, and a place for a store.

mod bundle;
mod login;
mod objects;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use daedal_dial::{Dialer, Trust};
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use url::Url;

use self::login::Token;
use crate::Error;
use crate::http::{Answer, Body, Fault, Http, full, shortened};
use crate::secret::SecretBytes;

pub use self::bundle::VaultBundle;
pub use self::login::Login;
pub use self::objects::VaultStore;

const LARGEST: usize = 32 << 20;
/// How many servers hand a request on, at most.
const REDIRECTS: usize = 3;

/// A Vault, and who asks.
#[derive(Clone, Debug)]
pub struct VaultSettings {
    /// The server, such as `https://vault.lan:8200`.
    pub address: Url,
    /// The namespace; none for the root.
    pub namespace: Option<String>,
    /// Who asks.
    pub login: Login,
}

/// A client of one Vault. Cheap to clone.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

struct Inner {
    settings: VaultSettings,
    dialer: Dialer,
    trust: Trust,
    http: Http,
    token: Mutex<Option<Token>>,
    /// Whether the namespace was seen to be honoured.
    judged: Mutex<bool>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({})", self.0.settings.address)
    }
}

/// A secret: its fields, and which version of it that is.
#[derive(Clone, Debug)]
pub struct VaultSecret {
    /// Texts as they are; everything else as JSON.
    pub fields: BTreeMap<String, SecretBytes>,
    /// Its number, which rises with every write.
    pub version: u64,
}

/// Where a path leads: the engine's mount, with `/` at its end, and the rest.
struct Place {
    mount: String,
    rest: String,
}

impl Vault {
    /// A client that has not asked for anything yet.
    pub fn new(settings: VaultSettings, dialer: Dialer, trust: Trust) -> Result<Self, Error> {
        let failed = |source| Error::Trust { host: settings.address.to_string(), source };
        let http = Http::new(&settings.address, dialer.clone(), &trust).map_err(failed)?;
        let (token, judged) = (Mutex::default(), Mutex::new(settings.namespace.is_none()));
        Ok(Self(Arc::new(Inner { settings, dialer, trust, http, token, judged })))
    }

    /// The secret at a path such as `secret/team/proxmox`; none if there is none, or its newest version was deleted.
    pub async fn read(&self, path: &str) -> Result<Option<VaultSecret>, Error> {
        self.read_at(path).await.map_err(self.failed("read", path))
    }

    async fn read_at(&self, path: &str) -> Result<Option<VaultSecret>, Fault> {
        let place = self.place(path).await?;
        let read = self.get(&format!("{}data/{}", place.mount, place.rest)).await?;
        let Some(answer) = read else { return Ok(None) };
        let Some(fields) = answer["data"]["data"].as_object() else { return Ok(None) };
        let field = |(name, value): (&String, &Value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), SecretBytes::new(text.into_bytes()))
        };
        let version = answer["data"]["metadata"]["version"].as_u64().unwrap_or(0);
        Ok(Some(VaultSecret { fields: fields.iter().map(field).collect(), version }))
    }

    /// Finds the engine of a path, which must be a key-value store of version 2.
    async fn place(&self, path: &str) -> Result<Place, Fault> {
        let path = path.trim_matches('/');
        let answer = self.get(&format!("sys/internal/ui/mounts/{path}")).await?;
        let answer = answer.ok_or_else(|| self.unusable(format!("nothing is mounted at {path}")))?;
        let mount = answer["data"]["path"].as_str().unwrap_or_default().to_owned();
        let (kind, version) = (&answer["data"]["type"], &answer["data"]["options"]["version"]);
        if kind.as_str() != Some("kv") || version.as_str() != Some("2") {
            return Err(self.unusable(format!(
                "the engine at {mount} is no key-value store of version 2 (`vault secrets enable -version=2 kv`)"
            )));
        }
        let whole = format!("{path}/");
        let rest = whole.strip_prefix(&mount).unwrap_or_default().trim_end_matches('/').to_owned();
        Ok(Place { mount, rest })
    }

    /// Reads something; none if it is not there.
    async fn get(&self, path: &str) -> Result<Option<Value>, Fault> {
        let answer = self.call(&Method::GET, path, None).await?;
        match answer.status.as_u16() {
            200..=299 => self.json(&answer).map(Some),
            // Nothing is there, or it was deleted; a wrong path says so.
            404 if said(&answer).is_empty() => Ok(None),
            _ => Err(self.refused(&answer)),
        }
    }

    /// Sends a request as whoever asks. A token that ended is replaced once.
    async fn call(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Answer, Fault> {
        self.judge_namespace().await?;
        let token = self.token(false).await?;
        let answer = self.send(method, path, body, Some(&token)).await?;
        let renewable = !matches!(self.0.settings.login, Login::Token(_));
        if answer.status.as_u16() != 403 || !renewable {
            return Ok(answer);
        }
        let token = self.token(true).await?;
        self.send(method, path, body, Some(&token)).await
    }

    async fn token(&self, again: bool) -> Result<SecretBytes, Fault> {
        let mut token = self.0.token.lock().await;
        if let Some(token) = token.as_ref().filter(|token| !again && token.is_good()) {
            return Ok(token.secret.clone());
        }
        let new = match (&self.0.settings.login, self.0.settings.login.request()) {
            (Login::Token(secret), _) => Token::lasting(secret.clone()),
            (_, None) => return Err(self.unusable("there is no way to log in".to_owned())),
            (_, Some((path, body))) => {
                let answer = self.send(&Method::POST, &path, Some(&body), None).await?;
                match answer.status.is_success() {
                    true => Token::of(&self.json(&answer)?, &self.0.http.host())?,
                    false => return Err(self.refused(&answer)),
                }
            }
        };
        let secret = new.secret.clone();
        *token = Some(new);
        Ok(secret)
    }

    /// The free Vault ignores the namespace and answers from the root: that would be somebody else's secret.
    async fn judge_namespace(&self) -> Result<(), Fault> {
        let mut judged = self.0.judged.lock().await;
        if *judged {
            return Ok(());
        }
        let answer =
            self.send(&Method::GET, "sys/health?standbyok=true&perfstandbyok=true", None, None).await?;
        let health = self.json(&answer)?;
        let is_vault = health["version"].as_str().is_some_and(|version| version.starts_with("1."));
        if is_vault && health["enterprise"] == json!(false) {
            return Err(self.unusable(
                "this edition of Vault has no namespaces, and would ignore the one that is set".to_owned(),
            ));
        }
        *judged = true;
        Ok(())
    }

    /// Sends a request, on to whichever server hands it on.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        token: Option<&SecretBytes>,
    ) -> Result<Answer, Fault> {
        let settings = &self.0.settings;
        let mut url = join(&settings.address, path);
        let mut elsewhere: Option<Http> = None;
        for _ in 0..=REDIRECTS {
            let http = elsewhere.as_ref().unwrap_or(&self.0.http);
            let make = || self.request(method, &url, body, token);
            let answer = match method.as_str() {
                "GET" | "LIST" | "DELETE" => http.ask(make, LARGEST).await?,
                _ => http.send(make()?, 0, LARGEST).await?,
            };
            let location = answer.headers.get("location").and_then(|location| location.to_str().ok());
            let Some(location) = location.filter(|_| answer.status.as_u16() == 307) else {
                return Ok(answer);
            };
            let next = url.join(location).map_err(|_| self.unusable(format!("it leads to {location}")))?;
            if next.scheme() != settings.address.scheme() {
                return Err(self.unusable(format!("it leads to {next}, which is not encrypted as it is")));
            }
            let made = Http::new(&next, self.0.dialer.clone(), &self.0.trust);
            elsewhere = Some(made.map_err(|error| self.unusable(error.to_string()))?);
            url = next;
        }
        Err(self.unusable("every server hands the request on to another".to_owned()))
    }

    fn request(
        &self,
        method: &Method,
        url: &Url,
        body: Option<&Value>,
        token: Option<&SecretBytes>,
    ) -> Result<Request<Body>, Fault> {
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", host)
            .header("x-vault-request", "true");
        if let Some(token) = token {
            let invalid = |_| self.unusable("the token has characters that no token has".to_owned());
            let mut value = http::HeaderValue::from_bytes(token.expose()).map_err(invalid)?;
            value.set_sensitive(true);
            request = request.header("x-vault-token", value);
        }
        if let Some(namespace) = &self.0.settings.namespace {
            request = request.header("x-vault-namespace", namespace);
        }
        let body = body.map(|body| SecretBytes::new(body.to_string().into_bytes()));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = full(body.as_ref().map_or(&[], SecretBytes::expose));
        request.body(body).map_err(|error| self.unusable(error.to_string()))
    }

    fn json(&self, answer: &Answer) -> Result<Value, Fault> {
        serde_json::from_slice(&answer.body).map_err(|error| self.unusable(format!("it is no JSON: {error}")))
    }

    fn unusable(&self, text: String) -> Fault {
        Fault::Protocol { host: self.0.http.host(), text }
    }

    fn refused(&self, answer: &Answer) -> Fault {
        Fault::Refused {
            host: self.0.http.host(),
            status: answer.status.as_u16(),
            text: shortened(&said(answer).join("; ")),
        }
    }

    fn failed(&self, what: &'static str, path: &str) -> impl FnOnce(Fault) -> Error {
        let path = PathBuf::from(format!("vault:{path}"));
        move |source| Error::Remote { what, path, source }
    }
}

/// What an answer complains of.
fn said(answer: &Answer) -> Vec<String> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let errors = body["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    errors.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A path of the API, each part encoded.
fn join(address: &Url, path: &str) -> Url {
    let mut url = address.clone();
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push("v1").extend(path.split('/'));
    }
    url.set_query(query);
    url
}
