//! Where charts come from besides the disk: HTTP repositories and OCI registries, over a transport the caller brings.

mod cache;
mod oci;
mod repository;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use sha2::Digest as _;

pub use cache::Cache;

use crate::chart::Chart;
use crate::error::Error;

/// Largest index of a repository.
const MAX_INDEX: u64 = 64 << 20;
/// Largest archive of a chart.
const MAX_ARCHIVE: u64 = 20 << 20;
/// Largest manifest, token or list of tags.
const MAX_DOCUMENT: u64 = 4 << 20;

/// A GET request.
#[derive(Clone)]
pub struct Request {
    /// The address.
    pub url: String,
    /// `Accept`, if it matters.
    pub accept: Option<&'static str>,
    /// `Authorization`, if the server asked for one.
    pub authorization: Option<String>,
    /// Most bytes the body may have; a transport should stop reading there.
    pub limit: u64,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorization = self.authorization.as_ref().map(|_| "…");
        f.debug_struct("Request")
            .field("url", &self.url)
            .field("authorization", &authorization)
            .finish_non_exhaustive()
    }
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// `WWW-Authenticate`, if there was one.
    pub authenticate: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// A request under way.
pub type Pending<'a> = Pin<Box<dyn Future<Output = Result<Response, String>> + Send + 'a>>;

/// A transport: sends GET requests, follows redirects, checks certificates.
pub trait Fetch: Send + Sync {
    /// Sends a request. An error is for no answer at all; any status is an answer.
    fn get(&self, request: Request) -> Pending<'_>;
}

/// A name and password for a server.
#[derive(Clone)]
pub struct Login {
    /// Who.
    pub user: String,
    /// The secret.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    fn basic(&self) -> String {
        use base64::Engine as _;
        let pair = format!("{}:{}", self.user, self.password);
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
    }
}

/// A chart that is not on this machine, or not yet.
#[derive(Clone, Debug)]
pub enum Reference {
    /// A chart of a repository with an `index.yaml`.
    Repository {
        /// The repository's address.
        url: String,
        /// The chart's name.
        name: String,
        /// A version or a range; empty means the newest that is not a prerelease.
        version: String,
    },
    /// A chart in a registry.
    Oci {
        /// `oci://host/path/name`.
        url: String,
        /// A version or a range; empty means the newest that is not a prerelease.
        version: String,
    },
}

impl Reference {
    /// The words errors use.
    fn shown(&self) -> String {
        match self {
            Reference::Repository { url, name, version } => format!("chart {name} {version} of {url}"),
            Reference::Oci { url, version } => format!("chart {url} {version}"),
        }
    }

    /// What the cache files the answer under.
    fn key(&self) -> String {
        hex::encode(sha2::Sha256::digest(self.shown().as_bytes()))
    }

    /// Whether the reference can only ever mean one version.
    fn is_exact(&self) -> bool {
        let (Reference::Repository { version, .. } | Reference::Oci { version, .. }) = self;
        let plain = version.trim_start_matches('v');
        crate::semver::Version::parse(version).is_ok_and(|parsed| parsed.to_string() == plain)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::Fetch { what: self.shown(), message: message.into() })
    }
}

/// A chart, and how sure it is that it is the newest that fits.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The chart.
    pub chart: Chart,
    /// Why nobody could be asked for a newer one, when the chart is one that was kept.
    pub stale: Option<String>,
    /// SHA-256 of its archive, as lower-case hex.
    pub sha256: String,
}

fn sha256(archive: &[u8]) -> String {
    hex::encode(sha2::Sha256::digest(archive))
}

/// Fetches charts and keeps them.
pub struct Fetcher<'a> {
    transport: &'a dyn Fetch,
    cache: &'a Cache,
    login: Option<Login>,
    plain_http: bool,
}

impl<'a> Fetcher<'a> {
    /// A fetcher over a transport, with a cache.
    pub fn new(transport: &'a dyn Fetch, cache: &'a Cache) -> Self {
        Fetcher { transport, cache, login: None, plain_http: false }
    }

    /// With a login for the server.
    pub fn login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }

    /// Registries are asked without TLS.
    pub fn plain_http(mut self, plain: bool) -> Self {
        self.plain_http = plain;
        self
    }

    /// The chart. One of an exact version is taken from the cache if it was fetched before; otherwise the source is asked
    /// what is newest, and only when it cannot be reached what was kept is good enough. What the cache holds is checked
    /// against its digest again.
    pub async fn chart(&self, reference: &Reference) -> Result<Fetched, Error> {
        let kept = self.cache.find(&reference.key());
        if let Some(archive) = kept.as_ref().filter(|_| reference.is_exact()) {
            return Ok(Fetched {
                chart: Chart::from_archive(archive)?,
                stale: None,
                sha256: sha256(archive),
            });
        }
        let fetched = match reference {
            Reference::Repository { url, name, version } => {
                repository::archive(self, reference, url, name, version).await
            }
            Reference::Oci { url, version } => oci::archive(self, reference, url, version).await,
        };
        match (fetched, kept) {
            (Ok(archive), _) => {
                let chart = Chart::from_archive(&archive)?;
                self.cache.keep(&reference.key(), &archive)?;
                Ok(Fetched { chart, stale: None, sha256: sha256(&archive) })
            }
            (Err(error @ Error::Unreachable { .. }), Some(archive)) => {
                let (chart, sha256) = (Chart::from_archive(&archive)?, sha256(&archive));
                Ok(Fetched { chart, stale: Some(error.to_string()), sha256 })
            }
            (Err(error), _) => Err(error),
        }
    }

    /// A document that a chart's schema refers to. It is asked for every time, and only when its server cannot be reached
    /// what was kept is good enough; why, comes with it.
    pub async fn schema(&self, url: &str) -> Result<(Vec<u8>, Option<String>), Error> {
        let fail = |message| Err(Error::Fetch { what: url.to_owned(), message });
        let request = Request { url: url.to_owned(), accept: None, authorization: None, limit: MAX_DOCUMENT };
        let document = match self.transport.get(request).await {
            Ok(response) if response.status != 200 => {
                return fail(format!("the server answers with status {}", response.status));
            }
            Ok(response) if response.body.len() as u64 > MAX_DOCUMENT => {
                return fail(format!("the document has more than {MAX_DOCUMENT} bytes"));
            }
            Ok(response) => response.body,
            Err(message) => {
                return match self.cache.document(url) {
                    Some(kept) => Ok((kept, Some(format!("cannot reach {url}: {message}")))),
                    None => Err(Error::Unreachable { what: url.to_owned(), message }),
                };
            }
        };
        if let Err(e) = serde_json::from_slice::<serde::de::IgnoredAny>(&document) {
            return fail(format!("the document is not JSON: {e}"));
        }
        self.cache.keep_document(url, &document)?;
        Ok((document, None))
    }

    /// An archive that was kept, if its digest is known beforehand.
    fn kept(&self, digest: &str) -> Option<Vec<u8>> {
        self.cache.archive(digest.strip_prefix("sha256:").unwrap_or(digest))
    }

    async fn get(&self, reference: &Reference, request: Request) -> Result<Response, Error> {
        let (url, limit) = (request.url.clone(), request.limit);
        match self.transport.get(request).await {
            Ok(response) if response.body.len() as u64 > limit => {
                reference.fail(format!("{url} answers with more than {limit} bytes"))
            }
            Ok(response) => Ok(response),
            Err(message) => {
                Err(Error::Unreachable { what: reference.shown(), message: format!("{url}: {message}") })
            }
        }
    }

    /// The body of a successful answer. The login is for the server of `home` and no other.
    async fn body(&self, reference: &Reference, home: &str, url: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let authorization = self
            .login
            .as_ref()
            .filter(|_| server(home).is_some() && server(home) == server(url))
            .map(Login::basic);
        let request = Request { url: url.to_owned(), accept: None, authorization, limit };
        let response = self.get(reference, request).await?;
        match response.status {
            200 => Ok(response.body),
            status => reference.fail(format!("{url} answers with status {status}")),
        }
    }
}

/// Scheme, host and port of an address.
fn server(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    Some((scheme, rest.split(['/', '?', '#']).next().unwrap_or_default()))
}

/// Whether bytes have a digest, written with or without `sha256:`.
fn has_digest(data: &[u8], digest: &str) -> bool {
    let wanted = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex::encode(sha2::Sha256::digest(data)).eq_ignore_ascii_case(wanted)
}

/// The newest of some versions that a range allows: an exact one first, prereleases only when asked for.
fn choose<'v>(versions: impl Iterator<Item = &'v str>, wanted: &str) -> Option<&'v str> {
    let mut best: Option<(crate::semver::Version, &'v str)> = None;
    let range = crate::semver::Constraint::parse(if wanted.is_empty() { "*" } else { wanted }).ok();
    for text in versions {
        if !wanted.is_empty() && text == wanted {
            return Some(text);
        }
        let Ok(version) = crate::semver::Version::parse(text) else { continue };
        let allowed = range.as_ref().is_some_and(|r| r.matches(&version));
        if allowed && best.as_ref().is_none_or(|(b, _)| version.compare(b).is_gt()) {
            best = Some((version, text));
        }
    }
    best.map(|(_, text)| text)
}
