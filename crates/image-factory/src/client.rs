//! Talks to an Image Factory: registers schematics, lists versions and extensions, measures images.

use std::{fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use daedal_dial::{Dialer, Target, Trust, TrustError, tls_error};
use daedal_talos_image::{Format, Image, Schematic};
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, LOCATION, USER_AGENT},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, client::conn::http1};
use rustls::ClientConfig;
use serde::{Deserialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use url::Url;

const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// The factory builds an image when it is first asked for, before it answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(600);
/// No image of Talos comes near this.
const LARGEST_IMAGE: u64 = 16 << 30;
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
const MAX_REDIRECTS: usize = 5;
const MAX_JSON: usize = 16 << 20;
const TRIES: u32 = 4;
/// A file smaller than this holds no disk, whatever its first bytes say: the size of a qcow2 header.
const SMALLEST_QCOW2: u64 = 72;
/// The first bytes of a qcow2 file, up to and with the size of its disk.
const HEADER: usize = 32;
/// The first sector of a disk.
const SECTOR: usize = 512;

/// A client of one Image Factory. Cheap to clone.
#[derive(Clone)]
pub struct Factory {
    base: Url,
    dialer: Dialer,
    tls: Arc<ClientConfig>,
    largest: u64,
}

/// Size and SHA-256 of a file, and the size of the disk inside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageFingerprint {
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    pub sha256: String,
    /// Bytes of the disk that a qcow2 file holds.
    pub disk_size: Option<u64>,
}

/// An official extension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Extension {
    /// Such as `siderolabs/qemu-guest-agent`.
    pub name: String,
    /// Image reference.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Image digest.
    pub digest: String,
    /// Author.
    pub author: String,
    /// What it is for.
    pub description: String,
}

/// An official overlay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OfficialOverlay {
    /// Such as `rpi_generic`.
    pub name: String,
    /// Such as `siderolabs/sbc-raspberrypi`.
    pub image: String,
    /// Image reference.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Image digest.
    pub digest: String,
}

/// What can go wrong with a factory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not an address.
    #[error("'{0}' is not an Image Factory address; 'https://factory.talos.dev' is expected")]
    Address(String),
    /// TLS cannot be set up.
    #[error("the trust in the Image Factory cannot be set up")]
    Trust(#[from] TrustError),
    /// No connection.
    #[error("could not {operation}: no connection to {host}")]
    Unreachable {
        /// What was tried.
        operation: String,
        /// With whom.
        host: String,
        /// What broke.
        #[source]
        cause: io::Error,
    },
    /// The connection broke, or fell silent.
    #[error("could not {operation}: {host} broke off")]
    BrokeOff {
        /// What was tried.
        operation: String,
        /// With whom.
        host: String,
        /// What broke.
        #[source]
        cause: io::Error,
    },
    /// An answer other than success.
    #[error("could not {operation}: {host} answered {status}{}", said(.text))]
    Refused {
        /// What was tried.
        operation: String,
        /// With whom.
        host: String,
        /// HTTP status.
        status: u16,
        /// What it said, shortened.
        text: String,
    },
    /// An answer that makes no sense.
    #[error("could not {operation}: the answer makes no sense: {text}")]
    Protocol {
        /// What was tried.
        operation: String,
        /// What about it.
        text: String,
    },
    /// The factory computes another id for the same schematic.
    #[error("the Image Factory calls this schematic {theirs}, but {ours} was expected")]
    OtherId {
        /// Computed offline.
        ours: String,
        /// Its answer.
        theirs: String,
    },
    /// The file ended too early or late.
    #[error("{file} has {got} bytes, but {expected} were announced")]
    WrongSize {
        /// Which file.
        file: String,
        /// Bytes received.
        got: u64,
        /// Bytes announced.
        expected: u64,
    },
    /// The file is too large to be an image.
    #[error("{file} has more than {limit} bytes: no image is that large")]
    TooLarge {
        /// Which file.
        file: String,
        /// How many bytes are read at most.
        limit: u64,
    },
    /// The file is not a disk image.
    #[error("{file} is not a disk image: it has {size} bytes and {seen}")]
    NotAnImage {
        /// Which file.
        file: String,
        /// Bytes received.
        size: u64,
        /// What it has in the place where an image has its sign.
        seen: String,
    },
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

impl Error {
    fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { cause, .. } => !is_distrust(cause),
            Self::BrokeOff { .. } => true,
            Self::Refused { status, .. } => matches!(status, 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }
}

fn is_distrust(error: &io::Error) -> bool {
    tls_error(error).is_some()
}

impl Factory {
    /// A factory at an address such as `https://factory.talos.dev`.
    pub fn new(address: &str, dialer: Dialer, trust: &Trust) -> Result<Self, Error> {
        let wrong = || Error::Address(address.to_owned());
        let base = Url::parse(address).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "https" | "http") || base.host_str().is_none_or(str::is_empty) {
            return Err(wrong());
        }
        Ok(Self { base, dialer, tls: trust.client_config()?, largest: LARGEST_IMAGE })
    }

    /// The same, with another limit to the size of images than 16 GiB.
    pub fn largest_image(self, bytes: u64) -> Self {
        Self { largest: bytes, ..self }
    }

    /// Makes a schematic known to the factory, so that its images can be had, and compares its id with ours.
    pub async fn register(&self, schematic: &Schematic) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Reply {
            id: String,
        }
        let operation = "register the schematic at the Image Factory";
        let body = Bytes::from(schematic.canonical_yaml());
        let reply: Reply = self.json(Method::POST, "/schematics", body, operation).await?;
        let ours = schematic.id();
        if reply.id == ours { Ok(ours) } else { Err(Error::OtherId { ours, theirs: reply.id }) }
    }

    /// Talos versions it builds.
    pub async fn versions(&self) -> Result<Vec<String>, Error> {
        self.json(Method::GET, "/versions", Bytes::new(), "list the versions of the Image Factory").await
    }

    /// Official extensions for a Talos version.
    pub async fn extensions(&self, version: &str) -> Result<Vec<Extension>, Error> {
        let version = version.strip_prefix('v').unwrap_or(version);
        let path = format!("/version/v{version}/extensions/official");
        self.json(Method::GET, &path, Bytes::new(), &format!("list the extensions for Talos v{version}"))
            .await
    }

    /// Official overlays for a Talos version, for boards that need one.
    pub async fn overlays(&self, version: &str) -> Result<Vec<OfficialOverlay>, Error> {
        let version = version.strip_prefix('v').unwrap_or(version);
        let path = format!("/version/v{version}/overlays/official");
        self.json(Method::GET, &path, Bytes::new(), &format!("list the overlays for Talos v{version}")).await
    }

    /// The address of an image at this factory.
    pub fn url(&self, image: &Image) -> String {
        image.url(self.base.as_str())
    }

    /// Whether an image can be had, and its size if the factory tells.
    pub async fn head(&self, image: &Image) -> Result<Option<u64>, Error> {
        let operation = format!("look for {}", image.file_name());
        let url = self.join(&image.path(), &operation)?;
        let response = self.follow(Method::HEAD, url, &Bytes::new(), &operation).await?;
        Ok(announced(&response))
    }

    /// Reads a whole image and measures it. Nothing is kept. `progress` hears the bytes so far and the bytes announced.
    ///
    /// A file that is cut short, or should be a disk image and is none, is an error: its digest must never be trusted.
    pub async fn fingerprint(
        &self,
        image: &Image,
        mut progress: impl FnMut(u64, Option<u64>) + Send,
    ) -> Result<ImageFingerprint, Error> {
        let operation = format!("read {}", image.file_name());
        let mut attempt = 1;
        loop {
            match self.measure(image, &operation, &mut progress).await {
                Err(error) if attempt < TRIES && error.may_pass() => wait_before_retry(attempt, &error).await,
                result => return result,
            }
            attempt += 1;
        }
    }

    async fn measure(
        &self,
        image: &Image,
        operation: &str,
        progress: &mut (impl FnMut(u64, Option<u64>) + Send),
    ) -> Result<ImageFingerprint, Error> {
        let url = self.join(&image.path(), operation)?;
        let host = host_of(&url);
        let response = self.follow(Method::GET, url, &Bytes::new(), operation).await?;
        let expected = announced(&response);
        let too_large = || Error::TooLarge { file: image.file_name(), limit: self.largest };
        if expected.is_some_and(|expected| expected > self.largest) {
            return Err(too_large());
        }
        let (mut size, mut digest, mut start) = (0, Sha256::new(), Vec::new());
        let mut body = response.into_body();
        let broke_off =
            |cause| Error::BrokeOff { operation: operation.to_owned(), host: host.clone(), cause };
        loop {
            let frame = tokio::time::timeout(SILENCE_LIMIT, body.frame())
                .await
                .map_err(|_| broke_off(io::Error::new(io::ErrorKind::TimedOut, "no data for a minute")))?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| broke_off(io::Error::other(error)))?;
            let Some(data) = frame.data_ref() else { continue };
            size += data.len() as u64;
            // Whoever sends more than was announced would send for ever.
            match expected {
                Some(expected) if size > expected => {
                    return Err(Error::WrongSize { file: image.file_name(), got: size, expected });
                }
                _ if size > self.largest => return Err(too_large()),
                _ => {}
            }
            digest.update(data);
            start.extend_from_slice(&data[..data.len().min(SECTOR.saturating_sub(start.len()))]);
            progress(size, expected);
        }
        let file = image.file_name();
        if let Some(expected) = expected.filter(|expected| *expected != size) {
            return Err(Error::WrongSize { file, got: size, expected });
        }
        let disk_size = match image.format {
            Format::Qcow2 if !is_qcow2(&start, size) => {
                let seen = format!("starts with {}", hex::encode(&start[..start.len().min(8)]));
                return Err(Error::NotAnImage { file, size, seen });
            }
            Format::Raw if !is_disk(&start, size) => {
                let end = &start[start.len().saturating_sub(2)..];
                let seen = format!("its first sector ends with {}", hex::encode(end));
                return Err(Error::NotAnImage { file, size, seen });
            }
            Format::Qcow2 => disk_size(&start),
            Format::Raw => Some(size),
            Format::Iso => None,
        };
        Ok(ImageFingerprint { size, sha256: hex::encode(digest.finalize()), disk_size })
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        operation: &str,
    ) -> Result<T, Error> {
        let url = self.join(path, operation)?;
        let host = host_of(&url);
        let mut attempt = 1;
        let response = loop {
            match self.follow(method.clone(), url.clone(), &body, operation).await {
                Err(error) if attempt < TRIES && error.may_pass() => wait_before_retry(attempt, &error).await,
                result => break result?,
            }
            attempt += 1;
        };
        let text =
            tokio::time::timeout(SILENCE_LIMIT, Limited::new(response.into_body(), MAX_JSON).collect());
        let text = match text.await {
            Ok(Ok(text)) => text.to_bytes(),
            Ok(Err(cause)) => {
                let cause = io::Error::other(cause);
                return Err(Error::BrokeOff { operation: operation.to_owned(), host, cause });
            }
            Err(_) => {
                let cause = io::Error::new(io::ErrorKind::TimedOut, "no data for a minute");
                return Err(Error::BrokeOff { operation: operation.to_owned(), host, cause });
            }
        };
        serde_json::from_slice(&text)
            .map_err(|error| Error::Protocol { operation: operation.to_owned(), text: error.to_string() })
    }

    fn join(&self, path: &str, operation: &str) -> Result<Url, Error> {
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{path}"))
            .map_err(|error| Error::Protocol { operation: operation.to_owned(), text: error.to_string() })
    }

    /// Sends a request and follows redirects to its answer, which is a success.
    async fn follow(
        &self,
        method: Method,
        mut url: Url,
        body: &Bytes,
        operation: &str,
    ) -> Result<Response<Incoming>, Error> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.once(&method, &url, body, operation).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            match location.filter(|_| status.is_redirection() && method != Method::POST) {
                Some(location) => {
                    let next = url.join(location).map_err(|error| Error::Protocol {
                        operation: operation.to_owned(),
                        text: format!("redirect to '{location}': {error}"),
                    })?;
                    if url.scheme() == "https" && next.scheme() != "https" {
                        let text = format!("redirect from https to '{}'", next.scheme());
                        return Err(Error::Protocol { operation: operation.to_owned(), text });
                    }
                    url = next;
                }
                None => return Err(refused(response, &url, operation).await),
            }
        }
        Err(Error::Protocol { operation: operation.to_owned(), text: "too many redirects".into() })
    }

    async fn once(
        &self,
        method: &Method,
        url: &Url,
        body: &Bytes,
        operation: &str,
    ) -> Result<Response<Incoming>, Error> {
        let host = host_of(url);
        let unreachable =
            |cause| Error::Unreachable { operation: operation.to_owned(), host: host.clone(), cause };
        let mut sender = tokio::time::timeout(CONNECT_LIMIT, self.connect(url))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer")))
            .map_err(unreachable)?;
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, HeaderValue::from_str(&host_header(url)).unwrap_or(HeaderValue::from_static("")))
            .header(USER_AGENT, "image-factory-client")
            .header(ACCEPT, "*/*");
        let request =
            if *method == Method::POST { request.header(CONTENT_TYPE, "application/yaml") } else { request };
        let request = request
            .body(Full::new(body.clone()))
            .map_err(|error| Error::Protocol { operation: operation.to_owned(), text: error.to_string() })?;
        let broke_off =
            |cause| Error::BrokeOff { operation: operation.to_owned(), host: host.clone(), cause };
        match tokio::time::timeout(ANSWER_LIMIT, sender.send_request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(broke_off(io::Error::other(error))),
            Err(_) => Err(broke_off(io::Error::new(io::ErrorKind::TimedOut, "no answer"))),
        }
    }

    async fn connect(&self, url: &Url) -> io::Result<http1::SendRequest<Full<Bytes>>> {
        let tls = (url.scheme() == "https").then(|| self.tls.clone());
        daedal_dial::http1(&*self.dialer, &Target::from(url), tls).await
    }
}

async fn wait_before_retry(attempt: u32, error: &Error) {
    tracing::debug!(%error, attempt, "trying again");
    tokio::time::sleep(Duration::from_millis(500) * 2_u32.pow(attempt.min(6) - 1)).await;
}

async fn refused(response: Response<Incoming>, url: &Url, operation: &str) -> Error {
    let status: StatusCode = response.status();
    let body = Limited::new(response.into_body(), 64 << 10).collect();
    let text = match tokio::time::timeout(Duration::from_secs(5), body).await {
        Ok(Ok(body)) => String::from_utf8_lossy(&body.to_bytes()).trim().chars().take(300).collect(),
        _ => String::new(),
    };
    Error::Refused { operation: operation.to_owned(), host: host_of(url), status: status.as_u16(), text }
}

fn announced<B>(response: &Response<B>) -> Option<u64> {
    response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Magic `QFI\xfb`, then a big-endian version 2 or 3.
fn is_qcow2(start: &[u8], size: u64) -> bool {
    size >= SMALLEST_QCOW2 && matches!(start, [b'Q', b'F', b'I', 0xfb, 0, 0, 0, 2 | 3, ..])
}

/// Whole sectors, of which the first ends as a partition table does.
fn is_disk(start: &[u8], size: u64) -> bool {
    size.is_multiple_of(SECTOR as u64) && start.len() == SECTOR && start.ends_with(&[0x55, 0xaa])
}

/// What a qcow2 header says of the disk inside.
fn disk_size(header: &[u8]) -> Option<u64> {
    let (_, size) = header.first_chunk::<HEADER>()?.split_last_chunk::<8>()?;
    Some(u64::from_be_bytes(*size))
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

fn host_header(url: &Url) -> String {
    match url.port() {
        Some(port) => format!("{}:{port}", host_of(url)),
        None => host_of(url),
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}
