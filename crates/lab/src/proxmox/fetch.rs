//! How a host downloads: a small HTTP client over the lab's network, with wget's exit codes for what goes wrong.

use bytes::Bytes;
use daedal_dial::{BoxStream, Dial, Target};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;
use url::Url;

use super::Datacenter;

/// Why a download failed, as wget tells it.
#[derive(Debug, PartialEq)]
pub(super) struct Failed {
    pub(super) exit_code: u8,
    pub(super) line: String,
}

impl Failed {
    fn new(exit_code: u8, line: impl Into<String>) -> Self {
        Self { exit_code, line: line.into() }
    }
}

const MAX_REDIRECTS: usize = 20;

/// Fetches a URL whole, verifying certificates or not.
pub(super) async fn fetch(datacenter: &Datacenter, url: &str, verifies: bool) -> Result<Vec<u8>, Failed> {
    let mut url = Url::parse(url).map_err(|_| Failed::new(1, format!("{url}: Unsupported scheme.")))?;
    for _ in 0..MAX_REDIRECTS {
        match get(datacenter, &url, verifies).await? {
            Got::Body(bytes) => return Ok(bytes),
            Got::Elsewhere(next) => {
                url = url.join(&next).map_err(|_| Failed::new(1, "bad redirection"))?;
            }
        }
    }
    Err(Failed::new(8, format!("{MAX_REDIRECTS} redirections exceeded.")))
}

enum Got {
    Body(Vec<u8>),
    Elsewhere(String),
}

async fn get(datacenter: &Datacenter, url: &Url, verifies: bool) -> Result<Got, Failed> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(80);
    let target = Target::new(host.clone(), port);
    let stream =
        datacenter.inner.around.fabric.dial(&target).await.map_err(|_| {
            Failed::new(4, format!("Connecting to {host}:{port}... failed: Connection refused."))
        })?;
    let stream: BoxStream = if url.scheme() == "https" {
        let untrusted = || Failed::new(5, format!("ERROR: cannot verify {host}'s certificate"));
        if verifies && datacenter.with(|state| state.distrusted.contains(&host)) {
            return Err(untrusted());
        }
        let config = datacenter.inner.around.pki.client_config().map_err(|_| untrusted())?;
        let name = ServerName::try_from(host.clone()).map_err(|_| untrusted())?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|_| untrusted())?;
        Box::new(stream)
    } else {
        stream
    };
    let broken = |_| Failed::new(4, "Read error in headers.");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(async move {
        // The answer tells what went wrong; nothing is left to say here.
        let _ = connection.await;
    });
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let authority = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    };
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, "Wget/1.25.0")
        .header(header::ACCEPT, "*/*")
        .body(Empty::<Bytes>::new())
        .map_err(|_| Failed::new(1, "bad request"))?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    if status.is_redirection()
        && let Some(next) = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok())
    {
        return Ok(Got::Elsewhere(next.to_owned()));
    }
    if status != StatusCode::OK {
        let reason = status.canonical_reason().unwrap_or_default();
        return Err(Failed::new(8, format!("ERROR {}: {reason}.", status.as_u16())));
    }
    let body = response.into_body().collect().await.map_err(broken)?;
    Ok(Got::Body(body.to_bytes().to_vec()))
}
