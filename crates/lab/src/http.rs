//! Serving HTTP over TLS on the lab's in-memory streams.

use std::convert::Infallible;
use std::sync::Arc;

use daedal_dial::BoxStream;
use futures::future::BoxFuture;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::Acceptor;
use crate::talos::keys::Caller;

/// Bodies of requests and answers.
pub(crate) use tonic::body::Body;

/// Answers requests; finds the [`Caller`] among the request's extensions.
pub(crate) type Handler =
    Arc<dyn Fn(http::Request<Body>) -> BoxFuture<'static, http::Response<Body>> + Send + Sync>;

/// Takes connections with TLS and answers on them until `stop`.
pub(crate) fn tls_service(tls: Arc<ServerConfig>, stop: CancellationToken, handler: Handler) -> Acceptor {
    let acceptor = TlsAcceptor::from(tls);
    Arc::new(move |stream: BoxStream| {
        let (acceptor, handler, stop) = (acceptor.clone(), handler.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tls_connection(acceptor, stream, handler) => {}
            }
        });
    })
}

/// Takes connections without TLS and answers on them.
pub(crate) fn plain_service(handler: Handler) -> Acceptor {
    Arc::new(move |stream: BoxStream| {
        tokio::spawn(connection(stream, Caller::from_peer(None), handler.clone()));
    })
}

async fn tls_connection(acceptor: TlsAcceptor, stream: BoxStream, handler: Handler) {
    let tls = match acceptor.accept(stream).await {
        Ok(tls) => tls,
        Err(error) => {
            tracing::debug!(%error, "lab: TLS handshake failed");
            return;
        }
    };
    let caller = Caller::from_peer(tls.get_ref().1.peer_certificates());
    connection(Box::new(tls), caller, handler).await;
}

async fn connection(stream: BoxStream, caller: Caller, handler: Handler) {
    let broken = CancellationToken::new();
    let cut = broken.clone();
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(caller.clone());
        let answer = handler(request);
        let cut = cut.clone();
        async move {
            let answer = answer.await;
            if answer.extensions().get::<Dropped>().is_some() {
                cut.cancel();
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let served = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = broken.cancelled() => {}
        served = served => if let Err(error) = served {
            tracing::debug!(error = %error, "lab: connection ended");
        }
    }
}

/// On an answer: there is none, the connection ends instead.
#[derive(Clone, Copy)]
pub(crate) struct Dropped;

/// No answer: the connection ends.
pub(crate) fn dropped() -> http::Response<Body> {
    let mut response = http::Response::new(Body::empty());
    response.extensions_mut().insert(Dropped);
    response
}

/// An answer with a JSON body.
pub(crate) fn json(status: http::StatusCode, value: &serde_json::Value) -> http::Response<Body> {
    full(status, "application/json", value.to_string())
}

/// An answer with a whole body.
pub(crate) fn full(
    status: http::StatusCode,
    content_type: &'static str,
    body: impl Into<bytes::Bytes>,
) -> http::Response<Body> {
    let mut response = http::Response::new(Body::new(http_body_util::Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
