//! Fetches charts over HTTPS: certificates are checked, redirects followed, bodies bounded.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use daedal_dial::{Dialer, Direct, Target, Trust, TrustError};
use daedal_helm::{Fetch, Pending, Request, Response};
use http::header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, USER_AGENT, WWW_AUTHENTICATE};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use rustls::ClientConfig;
use url::Url;

const PATIENCE: Duration = Duration::from_secs(120);
const MAX_REDIRECTS: usize = 5;

/// HTTPS, by default from this machine and trusting what the system trusts.
pub struct Https {
    dialer: Dialer,
    tls: Arc<ClientConfig>,
}

impl Https {
    /// A transport with the system's trust.
    pub fn new() -> Result<Self, TrustError> {
        Self::through(Arc::new(Direct), &Trust::System)
    }

    /// A transport over some network, with another trust.
    pub fn through(dialer: Dialer, trust: &Trust) -> Result<Self, TrustError> {
        Ok(Self { dialer, tls: trust.client_config()? })
    }

    async fn exchange(&self, mut request: Request) -> Result<Response, String> {
        for _ in 0..=MAX_REDIRECTS {
            let url = Url::parse(&request.url).map_err(|e| e.to_string())?;
            let response = self.once(&url, &request).await?;
            let Some(location) = response.1 else { return Ok(response.0) };
            let next = url.join(&location).map_err(|e| e.to_string())?;
            if next.scheme() != "https" && url.scheme() == "https" {
                return Err(format!("{url} redirects to {next}, which is not HTTPS"));
            }
            // A login is for the server that was asked, not for the one it names.
            if (next.host_str(), next.port_or_known_default())
                != (url.host_str(), url.port_or_known_default())
            {
                request.authorization = None;
            }
            request.url = next.into();
        }
        Err("too many redirects".to_owned())
    }

    async fn once(&self, url: &Url, request: &Request) -> Result<(Response, Option<String>), String> {
        let mut sender = self.connect(url).await.map_err(|e| e.to_string())?;
        let authority = match url.port() {
            Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
            None => url.host_str().unwrap_or_default().to_owned(),
        };
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let mut head = http::Request::get(path).header(HOST, authority).header(USER_AGENT, "daedal");
        if let Some(accept) = request.accept {
            head = head.header(ACCEPT, accept);
        }
        if let Some(authorization) = &request.authorization {
            head = head.header(AUTHORIZATION, authorization);
        }
        let message = head.body(Full::<Bytes>::default()).map_err(|e| e.to_string())?;
        let answer = sender.send_request(message).await.map_err(|e| e.to_string())?;
        let text = |name: http::HeaderName| {
            answer.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned)
        };
        let location = text(LOCATION).filter(|_| answer.status().is_redirection());
        let (status, authenticate) = (answer.status().as_u16(), text(WWW_AUTHENTICATE));
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let body = Limited::new(answer.into_body(), limit).collect().await.map_err(|e| e.to_string())?;
        Ok((Response { status, authenticate, body: body.to_bytes().to_vec() }, location))
    }

    async fn connect(&self, url: &Url) -> io::Result<http1::SendRequest<Full<Bytes>>> {
        let tls = (url.scheme() == "https").then(|| self.tls.clone());
        daedal_dial::http1(&*self.dialer, &Target::from(url), tls).await
    }
}

impl Fetch for Https {
    fn get(&self, request: Request) -> Pending<'_> {
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, self.exchange(request)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            }
        })
    }
}
