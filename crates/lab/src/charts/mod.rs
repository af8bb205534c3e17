//! Chart repositories: over HTTP with an index, and as OCI artifacts with the tokens that public registries want. On every host that
//! is asked for there are the same stand-in charts, small but real, and what a test publishes.

mod oci;
mod package;
mod standins;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_dial::Target;
use http::{Method, Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

pub use package::ChartPackage;

use crate::faults::Faults;
use crate::http::{Body, Handler, full};
use crate::pki::{Pki, PkiError};
use crate::{Fabric, Pace};

/// A chart with its archive, which is made once.
struct Packed {
    chart: ChartPackage,
    archive: Vec<u8>,
    digest: String,
}

#[derive(Default)]
struct Shelf {
    /// By name and version.
    charts: BTreeMap<(String, String), Arc<Packed>>,
    /// Other files, by their paths.
    files: BTreeMap<String, Vec<u8>>,
    /// Whether the stand-ins are among the charts.
    stocked: bool,
}

/// Chart repositories. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Charts {
    shelf: Arc<Mutex<Shelf>>,
}

impl Charts {
    /// Offers another chart, or another content of a version that there is.
    pub fn publish(&self, chart: ChartPackage) -> std::io::Result<()> {
        let packed = pack(chart)?;
        self.with(|shelf| put(shelf, packed));
        Ok(())
    }

    /// Offers a file at a path, on every host.
    pub fn publish_file(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.with(|shelf| shelf.files.insert(path.to_owned(), bytes.into()));
    }

    /// What there is: names and versions.
    pub fn offered(&self) -> Vec<(String, String)> {
        self.with(|shelf| shelf.charts.keys().cloned().collect())
    }

    fn with<T>(&self, f: impl FnOnce(&mut Shelf) -> T) -> T {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut shelf.stocked, true) {
            standins::all()
                .into_iter()
                .filter_map(|chart| pack(chart).ok())
                .for_each(|chart| put(&mut shelf, chart));
        }
        f(&mut shelf)
    }

    fn versions(&self, name: &str) -> Vec<Arc<Packed>> {
        self.with(|shelf| shelf.charts.values().filter(|packed| packed.chart.name == name).cloned().collect())
    }

    /// Answers on the host of a URL, `https://…`, `http://…` or `oci://…`; with a certificate of the lab where it is secure.
    pub fn listen(
        &self,
        url: &str,
        fabric: &Fabric,
        pki: &Pki,
        faults: &Faults,
        pace: Pace,
    ) -> Result<(), PkiError> {
        let url = url.replacen("oci://", "https://", 1);
        let parsed = url.parse::<http::Uri>().ok();
        let Some((target, secure)) =
            parsed.and_then(|uri| Some((Target::of_uri(&uri)?, uri.scheme_str() == Some("https"))))
        else {
            tracing::debug!(url, "lab: no chart repository can answer there");
            return Ok(());
        };
        // Whoever answers there already, such as the Image Factory, goes on.
        if fabric.targets().contains(&target) {
            return Ok(());
        }
        let (charts, host) = (self.clone(), target.host.clone());
        let handler: Handler = Arc::new(move |request| {
            let answer = charts.answer(&host, &request);
            Box::pin(async move { answer })
        });
        let handler = crate::faulty::http(handler, "charts", faults.clone(), pace);
        let acceptor = if secure {
            let tls = pki.issue(std::slice::from_ref(&target.host))?.server_config(&[b"h2", b"http/1.1"])?;
            crate::http::tls_service(tls, CancellationToken::new(), handler)
        } else {
            crate::http::plain_service(handler)
        };
        fabric.listen(target, acceptor);
        Ok(())
    }

    fn answer(&self, host: &str, request: &Request<Body>) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
        }
        let path = request.uri().path();
        if path == "/token" {
            return oci::token();
        }
        if path == "/v2" || path.starts_with("/v2/") {
            return oci::answer(self, host, request);
        }
        if let Some(bytes) = self.with(|shelf| shelf.files.get(path).cloned()) {
            return full(StatusCode::OK, "application/octet-stream", bytes);
        }
        let file = path.rsplit('/').next().unwrap_or_default();
        if file == "index.yaml" {
            return full(StatusCode::OK, "application/yaml", self.index());
        }
        let archive = self.with(|shelf| {
            let named = |packed: &&Arc<Packed>| file == archive_name(packed);
            shelf.charts.values().find(named).cloned()
        });
        match archive {
            Some(packed) => full(StatusCode::OK, "application/gzip", packed.archive.clone()),
            None => plain(StatusCode::NOT_FOUND, "404 page not found"),
        }
    }

    /// `index.yaml`, newest version of each chart first.
    fn index(&self) -> String {
        let mut text = "apiVersion: v1\nentries:\n".to_owned();
        let charts: Vec<Arc<Packed>> = self.with(|shelf| shelf.charts.values().cloned().collect());
        let mut names: Vec<&str> = charts.iter().map(|packed| packed.chart.name.as_str()).collect();
        names.dedup();
        for name in names {
            let _ = writeln!(text, "  {name}:");
            for packed in charts.iter().rev().filter(|packed| packed.chart.name == name) {
                let ChartPackage { version, app_version, .. } = &packed.chart;
                let _ = write!(
                    text,
                    "  - apiVersion: v2\n    name: {name}\n    version: {version}\n    appVersion: \"{app_version}\"\n    \
                     digest: {}\n    created: \"2026-01-01T00:00:00Z\"\n    urls:\n    - {}\n",
                    packed.digest,
                    archive_name(packed),
                );
            }
        }
        text.push_str("generated: \"2026-01-01T00:00:00Z\"\n");
        text
    }
}

fn archive_name(packed: &Packed) -> String {
    format!("{}-{}.tgz", packed.chart.name, packed.chart.version)
}

fn pack(chart: ChartPackage) -> std::io::Result<Packed> {
    let archive = chart.archive()?;
    Ok(Packed { digest: package::digest(&archive), archive, chart })
}

fn put(shelf: &mut Shelf, packed: Packed) {
    let key = (packed.chart.name.clone(), packed.chart.version.clone());
    shelf.charts.insert(key, Arc::new(packed));
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    full(status, "text/plain; charset=utf-8", format!("{text}\n"))
}
