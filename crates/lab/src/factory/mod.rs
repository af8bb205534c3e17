//! The Image Factory: schematics in, images out.

mod catalogue;
mod request;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use daedal_dial::Target;
use daedal_talos_image::Schematic;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::faults::Faults;
use crate::http::{Body, Handler, full};
use crate::image::{DISK_SIZE, Format, SystemImage};
use crate::pki::{Pki, PkiError};
use crate::{Fabric, Pace};

/// The public factory's address.
pub const PUBLIC_FACTORY: &str = "https://factory.talos.dev";

/// An Image Factory. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Factory {
    schematics: Arc<Mutex<BTreeMap<String, Registered>>>,
    disk_size: Arc<AtomicU64>,
}

impl Default for Factory {
    fn default() -> Self {
        Self::new(SavedFactory::default())
    }
}

/// A schematic that was posted.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Registered {
    yaml: String,
    extensions: Vec<String>,
    /// By name, which is all that an image is made by.
    #[serde(default)]
    overlay: Option<String>,
    kernel_args: Vec<String>,
    #[serde(default)]
    meta: std::collections::BTreeMap<u8, String>,
}

/// What the factory must remember: the schematics that were posted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SavedFactory(BTreeMap<String, Registered>);

impl Factory {
    /// A factory that knows these schematics.
    pub fn new(saved: SavedFactory) -> Self {
        let disk_size = Arc::new(AtomicU64::new(DISK_SIZE));
        Self { schematics: Arc::new(Mutex::new(saved.0)), disk_size }
    }

    /// From now on the disks inside its images are of this size, as of a factory that grows them for its users.
    pub fn set_disk_size(&self, bytes: u64) {
        self.disk_size.store(bytes, Ordering::Relaxed);
    }

    /// What it must remember.
    pub fn save(&self) -> SavedFactory {
        SavedFactory(self.lock().clone())
    }

    /// The extensions of a posted schematic.
    pub fn extensions(&self, id: &str) -> Option<Vec<String>> {
        self.lock().get(id).map(|s| s.extensions.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Registered>> {
        self.schematics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers at a base URL; over HTTPS with a certificate of the lab.
    pub fn listen(
        &self,
        url: &str,
        fabric: &Fabric,
        pki: &Pki,
        faults: &Faults,
        pace: Pace,
    ) -> Result<(), PkiError> {
        let Some((target, secure)) = url
            .parse::<http::Uri>()
            .ok()
            .and_then(|uri| Some((Target::of_uri(&uri)?, uri.scheme_str() == Some("https"))))
        else {
            tracing::debug!(url, "lab: no Image Factory can answer there");
            return Ok(());
        };
        let factory = self.clone();
        let handler: Handler = Arc::new(move |request| {
            let factory = factory.clone();
            Box::pin(async move { factory.answer(request).await })
        });
        let handler = crate::faulty::http(handler, "factory", faults.clone(), pace);
        let acceptor = if secure {
            let names = [target.host.clone()];
            let tls = pki.issue(&names)?.server_config(&[b"h2", b"http/1.1"])?;
            crate::http::tls_service(tls, CancellationToken::new(), handler)
        } else {
            crate::http::plain_service(handler)
        };
        fabric.listen(target, acceptor);
        Ok(())
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (&parts.method, segments.as_slice()) {
            (&Method::POST, ["schematics"]) => match body.collect().await {
                Ok(body) => self.post(&body.to_bytes()),
                Err(error) => plain(StatusCode::BAD_REQUEST, &error.to_string()),
            },
            (&Method::GET | &Method::HEAD, ["schematics", id]) => match self.lock().get(*id) {
                Some(found) => full(StatusCode::OK, "application/yaml", found.yaml.clone()),
                None => plain(StatusCode::NOT_FOUND, "schematic not found"),
            },
            (&Method::GET | &Method::HEAD, ["versions"]) => {
                crate::http::json(StatusCode::OK, &json!(catalogue::versions()))
            }
            (&Method::GET | &Method::HEAD, ["version", version, "extensions", "official"]) => {
                match catalogue::extensions(version) {
                    Some(list) => crate::http::json(StatusCode::OK, &json!(list)),
                    None => plain(StatusCode::NOT_FOUND, "version not found"),
                }
            }
            (&Method::GET | &Method::HEAD, ["version", version, "overlays", "official"]) => {
                match catalogue::overlays(version) {
                    Some(list) => crate::http::json(StatusCode::OK, &json!(list)),
                    None => plain(StatusCode::NOT_FOUND, "version not found"),
                }
            }
            (&Method::GET | &Method::HEAD, ["image", id, version, file]) => {
                let head = parts.method == Method::HEAD;
                self.image(id, version, file, head)
            }
            (&Method::GET | &Method::HEAD, _) => plain(StatusCode::NOT_FOUND, "404 page not found"),
            _ => plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"),
        }
    }

    fn post(&self, body: &[u8]) -> Response<Body> {
        let schematic: Schematic = match request::parse(body) {
            Ok(schematic) => schematic,
            Err(problem) => return plain(StatusCode::BAD_REQUEST, &problem),
        };
        let id = schematic.id();
        let yaml = schematic.canonical_yaml();
        let registered = Registered {
            yaml: yaml.clone(),
            extensions: schematic.extensions,
            overlay: schematic.overlay.map(|overlay| overlay.name),
            kernel_args: schematic.kernel_args,
            meta: schematic.meta.into_iter().map(|value| (value.key, value.value)).collect(),
        };
        self.lock().insert(id.clone(), registered);
        crate::http::json(StatusCode::CREATED, &json!({"id": id, "schematic": yaml}))
    }

    fn image(&self, id: &str, version: &str, file: &str, head: bool) -> Response<Body> {
        let Some(schematic) = self.lock().get(id).cloned() else {
            return plain(StatusCode::NOT_FOUND, &format!("schematic ID {id:?} not found"));
        };
        if !catalogue::is_version(version) {
            return plain(StatusCode::NOT_FOUND, &format!("version {version:?} is not available"));
        }
        // Only here: the factory takes every schematic that it can read.
        if let Some(unknown) = schematic.extensions.iter().find(|name| !catalogue::has_extension(name)) {
            let problem =
                format!("official extension {unknown:?} is not available for Talos version {version}");
            return plain(StatusCode::BAD_REQUEST, &problem);
        }
        if let Some(unknown) = schematic.overlay.as_ref().filter(|name| !catalogue::has_overlay(name)) {
            let problem =
                format!("official overlay {unknown:?} is not available for Talos version {version}");
            return plain(StatusCode::BAD_REQUEST, &problem);
        }
        let Some((name, platform, arch)) = file.split_once('.').and_then(|(name, _)| {
            let (platform, arch) = name.trim_end_matches("-secureboot").rsplit_once('-')?;
            Some((name, platform, arch))
        }) else {
            return plain(StatusCode::BAD_REQUEST, &format!("invalid image path {file:?}"));
        };
        let extension = &file[name.len() + 1..];
        if !catalogue::is_platform(platform) || !matches!(arch, "amd64" | "arm64") {
            return plain(
                StatusCode::BAD_REQUEST,
                &format!("invalid platform {platform:?} or architecture {arch:?}"),
            );
        }
        let (format, packed) = match extension {
            "qcow2" => (Format::Qcow2, false),
            "raw" => (Format::Raw, false),
            "iso" => (Format::Iso, false),
            "qcow2.gz" => (Format::Qcow2, true),
            "raw.gz" => (Format::Raw, true),
            "qcow2.sha256" | "qcow2.sha512" | "raw.sha256" | "iso.sha256" => {
                return plain(StatusCode::PAYMENT_REQUIRED, "checksums are an Enterprise feature");
            }
            _ => return plain(StatusCode::BAD_REQUEST, &format!("unsupported image format {extension:?}")),
        };
        let system = SystemImage {
            version: version.to_owned(),
            schematic: id.to_owned(),
            platform: platform.to_owned(),
            arch: arch.to_owned(),
            extensions: schematic.extensions,
            kernel_args: schematic.kernel_args,
            installer: format == Format::Iso,
            secure_boot: name.ends_with("-secureboot"),
            meta: schematic.meta,
        };
        let mut bytes = system.encode_sized(format, self.disk_size.load(Ordering::Relaxed));
        if packed {
            bytes = gzip(&bytes).unwrap_or_default();
        }
        let length = bytes.len();
        let body = if head { Vec::new() } else { bytes };
        let mut response = full(StatusCode::OK, "application/octet-stream", body);
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_LENGTH, length.into());
        if let Ok(value) = format!("attachment; filename=\"{file}\"").parse() {
            headers.insert(http::header::CONTENT_DISPOSITION, value);
        }
        response
    }
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    full(status, "text/plain; charset=utf-8", format!("{text}\n"))
}
