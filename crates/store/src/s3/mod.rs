//! Objects in an S3 bucket, by the few requests that a store needs.

mod list;
mod sign;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daedal_dial::{Dialer, Trust};
use futures::TryStreamExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use sha2::{Digest as _, Sha256};
use tokio_util::io::ReaderStream;
use url::Url;

use self::sign::Unsigned;
use crate::Error;
use crate::backend::{Backend, Working};
use crate::http::{Answer, Body, Fault, Http, full, shortened};
use crate::remote::{Condition, Content, Now, Object, Objects, Put, Remote, Tag};
use crate::secret::SecretBytes;

pub use self::sign::Credentials;

/// What one request can write.
const LARGEST: u64 = 5 << 30;
/// What is read into memory at most.
const LARGEST_READ: usize = 1 << 30;
/// Lists and errors.
const LARGEST_TEXT: usize = 16 << 20;

/// Where a bucket is, and who asks for what is in it.
#[derive(Clone, Debug)]
pub struct S3 {
    /// The server, such as `https://s3.eu-central-1.amazonaws.com`.
    pub endpoint: Url,
    /// Its region.
    pub region: String,
    /// The bucket.
    pub bucket: String,
    /// What all keys begin with; may be empty.
    pub prefix: String,
    /// Who asks.
    pub credentials: Credentials,
    /// For how long a lease is good that nobody renews.
    pub lease: Duration,
}

impl S3 {
    /// A backend that keeps one cluster under the prefix, in a folder of its name.
    pub fn backend(
        self,
        cluster: &str,
        dialer: Dialer,
        trust: &Trust,
        now: Now,
    ) -> Result<Arc<dyn Backend>, Error> {
        let lease = self.lease;
        let objects = Bucket::new(self, cluster, dialer, trust, now.clone())?;
        Ok(Arc::new(Remote::new(Arc::new(objects), lease, now)))
    }
}

/// One cluster's part of a bucket.
struct Bucket {
    http: Http,
    settings: S3,
    /// What all keys begin with, with a `/` at its end.
    root: String,
    /// The header `host`.
    host: String,
    now: Now,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.locate("").display())
    }
}

impl Bucket {
    fn new(settings: S3, cluster: &str, dialer: Dialer, trust: &Trust, now: Now) -> Result<Self, Error> {
        let prefix = settings.prefix.trim_matches('/');
        let root = match prefix {
            "" => format!("{cluster}/"),
            prefix => format!("{prefix}/{cluster}/"),
        };
        let http = Http::new(&settings.endpoint, dialer, trust)
            .map_err(|source| Error::Trust { host: settings.endpoint.to_string(), source })?;
        let name = settings.endpoint.host_str().unwrap_or_default();
        let host = match settings.endpoint.port() {
            Some(port) => format!("{name}:{port}"),
            None => name.to_owned(),
        };
        Ok(Self { http, settings, root, host, now })
    }

    /// A signed request for a key, or for the bucket if that is none.
    fn request(
        &self,
        method: &Method,
        key: Option<&str>,
        query: &[(&str, &str)],
        more: &[(&str, &str)],
        (body, payload): (Body, &str),
    ) -> Result<Request<Body>, Fault> {
        let below = self.settings.endpoint.path().trim_end_matches('/');
        let path = match key {
            Some(key) => format!("{below}/{}/{}{key}", self.settings.bucket, self.root),
            None => format!("{below}/{}", self.settings.bucket),
        };
        let path = sign::encode(&path, true);
        let date = sign::date((self.now)());
        let token = self.settings.credentials.session_token.as_ref();
        let token = token.map(|token| String::from_utf8_lossy(token.expose()).into_owned());
        let mut headers =
            vec![("host", self.host.as_str()), ("x-amz-content-sha256", payload), ("x-amz-date", &date)];
        headers.extend(token.as_deref().map(|token| ("x-amz-security-token", token)));
        headers.extend(more);
        let unsigned = Unsigned { method: method.as_str(), path: &path, query, headers: &headers, payload };
        let signed = sign::authorization(&unsigned, &self.settings.credentials, &self.settings.region, &date);
        let uri = match query {
            [] => path,
            query => format!("{path}?{}", sign::query(query)),
        };
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        let invalid =
            |error: http::Error| Fault::Protocol { host: self.host.clone(), text: error.to_string() };
        request.header("authorization", signed).body(body).map_err(invalid)
    }

    /// The fault that an answer other than success is.
    fn refused(&self, answer: &Answer) -> Fault {
        let text = String::from_utf8_lossy(&answer.body);
        let text = match list::error(&text) {
            (code, message) if code.is_empty() && message.is_empty() => shortened(&text),
            (code, message) => shortened(&format!("{code}: {message}")),
        };
        Fault::Refused { host: self.host.clone(), status: answer.status.as_u16(), text }
    }

    fn failed(&self, what: &'static str, key: &str) -> impl FnOnce(Fault) -> Error {
        let path = self.locate(key);
        move |source| Error::Remote { what, path, source }
    }

    async fn read(&self, key: &str) -> Result<Option<Object>, Fault> {
        let make = || self.request(&Method::GET, Some(key), &[], &[], (full(b""), &empty()));
        let answer = self.http.ask(make, LARGEST_READ).await?;
        if answer.status.is_success() {
            let tag = self.tag(&answer)?;
            return Ok(Some(Object { bytes: SecretBytes::new(answer.body.to_vec()), tag }));
        }
        // A bucket that is not there is no empty store.
        let code = list::error(&String::from_utf8_lossy(&answer.body)).0;
        match answer.status.as_u16() == 404 && code != "NoSuchBucket" {
            true => Ok(None),
            false => Err(self.refused(&answer)),
        }
    }

    fn tag(&self, answer: &Answer) -> Result<Tag, Fault> {
        let etag = answer.headers.get("etag").and_then(|etag| etag.to_str().ok());
        etag.map(|etag| Tag(etag.to_owned()))
            .ok_or_else(|| Fault::Protocol { host: self.host.clone(), text: "it has no ETag".to_owned() })
    }

    async fn write(&self, key: &str, content: Content<'_>, condition: Condition<'_>) -> Result<Put, Error> {
        let (body, size, payload) = match content {
            Content::Bytes(bytes) => (full(bytes), bytes.len() as u64, hex::encode(Sha256::digest(bytes))),
            Content::File { path, size, sha256 } => (file(path).await?, size, sha256.to_owned()),
        };
        let length = size.to_string();
        let condition = match condition {
            Condition::New => ("if-none-match", "*"),
            Condition::Matches(Tag(etag)) => ("if-match", etag.as_str()),
        };
        let more = [("content-length", length.as_str()), condition];
        let put = async {
            let request = self.request(&Method::PUT, Some(key), &[], &more, (body, &payload))?;
            let answer = self.http.send(request, size, LARGEST_TEXT).await?;
            let code = list::error(&String::from_utf8_lossy(&answer.body)).0;
            match answer.status.as_u16() {
                200..=299 => Ok(Put::Done(self.tag(&answer)?)),
                304 | 409 | 412 => Ok(Put::Refused),
                404 if code != "NoSuchBucket" => Ok(Put::Refused),
                _ => Err(self.refused(&answer)),
            }
        };
        put.await.map_err(self.failed("write", key))
    }

    async fn remove(&self, key: &str) -> Result<(), Fault> {
        let make = || self.request(&Method::DELETE, Some(key), &[], &[], (full(b""), &empty()));
        let answer = self.http.ask(make, LARGEST_TEXT).await?;
        match answer.status.is_success() || answer.status.as_u16() == 404 {
            true => Ok(()),
            false => Err(self.refused(&answer)),
        }
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        let prefix = format!("{}{prefix}", self.root);
        let mut keys = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let make = || {
                let mut query = vec![("list-type", "2"), ("prefix", prefix.as_str())];
                query.extend(next.as_deref().map(|token| ("continuation-token", token)));
                self.request(&Method::GET, None, &query, &[], (full(b""), &empty()))
            };
            let answer = self.http.ask(make, LARGEST_TEXT).await?;
            if !answer.status.is_success() {
                return Err(self.refused(&answer));
            }
            let text = String::from_utf8_lossy(&answer.body);
            let page = list::page(&text).ok_or_else(|| Fault::Protocol {
                host: self.host.clone(),
                text: "it is no list of objects".to_owned(),
            })?;
            keys.extend(page.keys.iter().filter_map(|key| key.strip_prefix(&self.root)).map(str::to_owned));
            match page.next {
                Some(token) if Some(&token) != next.as_ref() => next = Some(token),
                _ => break,
            }
        }
        keys.sort();
        Ok(keys)
    }
}

impl Objects for Bucket {
    fn locate(&self, key: &str) -> PathBuf {
        let root = self.root.trim_end_matches('/');
        let place = PathBuf::from(format!("s3://{}/{root}", self.settings.bucket));
        if key.is_empty() { place } else { place.join(key) }
    }

    fn largest(&self) -> u64 {
        LARGEST
    }

    fn get<'a>(&'a self, key: &'a str) -> Working<'a, Option<Object>> {
        Box::pin(async move { self.read(key).await.map_err(self.failed("read", key)) })
    }

    fn put<'a>(&'a self, key: &'a str, content: Content<'a>, condition: Condition<'a>) -> Working<'a, Put> {
        Box::pin(self.write(key, content, condition))
    }

    fn delete<'a>(&'a self, key: &'a str) -> Working<'a, ()> {
        Box::pin(async move { self.remove(key).await.map_err(self.failed("remove", key)) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Working<'a, Vec<String>> {
        Box::pin(async move { self.keys(prefix).await.map_err(self.failed("list", prefix)) })
    }
}

/// The digest of nothing.
fn empty() -> String {
    hex::encode(Sha256::digest(b""))
}

/// A file as a body.
async fn file(path: &Path) -> Result<Body, Error> {
    let file = tokio::fs::File::open(path).await.map_err(crate::files::io("read", path))?;
    Ok(StreamBody::new(ReaderStream::with_capacity(file, 256 << 10).map_ok(Frame::data)).boxed_unsync())
}
