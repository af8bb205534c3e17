//! Lets injected faults happen to the services that answer through a [`Handler`].

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tonic::Status;

use crate::Pace;
use crate::faults::{Call, Fault, Faults};
use crate::http::{Body, Handler, dropped, full};

/// How long a proxy waits before it says that nobody answered.
const PATIENCE: Duration = Duration::from_secs(30);

/// Calls of the node API that change something.
const MUTATING: [&str; 21] = [
    "ApplyConfiguration",
    "BlockDeviceWipe",
    "Bootstrap",
    "EtcdAlarmDisarm",
    "EtcdDefragment",
    "EtcdForfeitLeadership",
    "EtcdLeaveCluster",
    "EtcdRecover",
    "EtcdRemoveMemberByID",
    "ImagePull",
    "MetaDelete",
    "MetaWrite",
    "Reboot",
    "Reset",
    "Rollback",
    "ServiceRestart",
    "ServiceStart",
    "ServiceStop",
    "Shutdown",
    "Upgrade",
    "Install",
];

/// An HTTP service with faults.
pub(crate) fn http(handler: Handler, service: &'static str, faults: Faults, pace: Pace) -> Handler {
    wrap(handler, service, faults, pace, false)
}

/// A gRPC service with faults: calls are known by their RPC name, statuses become gRPC codes.
pub(crate) fn grpc(handler: Handler, service: &'static str, faults: Faults, pace: Pace) -> Handler {
    wrap(handler, service, faults, pace, true)
}

fn wrap(handler: Handler, service: &'static str, faults: Faults, pace: Pace, grpc: bool) -> Handler {
    Arc::new(move |request: Request<Body>| {
        let (handler, faults) = (handler.clone(), faults.clone());
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let rpc = path.rsplit('/').next().unwrap_or_default();
            let method = if grpc { rpc.to_owned() } else { request.method().to_string() };
            let mutating = if grpc {
                MUTATING.contains(&rpc)
            } else {
                !matches!(*request.method(), Method::GET | Method::HEAD)
            };
            let call = Call { service, method: &method, path: &path, mutating, at: pace.now() };
            let verdict = faults.arrive(call);
            verdict.before_effect().await;
            let early = match &verdict.fault {
                Some(Fault::HangBefore) => std::future::pending().await,
                Some(Fault::DropBefore) => return dropped(),
                Some(Fault::TimedOutBefore) => {
                    pace.pass(PATIENCE).await;
                    Some(refusal(504, grpc))
                }
                Some(Fault::Status(status)) => Some(refusal(*status, grpc)),
                Some(Fault::LockTimeout) => Some(refusal(500, grpc)),
                _ => None,
            };
            let answer = match early {
                Some(answer) => answer,
                None => handler(request).await,
            };
            verdict.after_effect().await;
            let answer = match &verdict.fault {
                Some(Fault::HangAfter) => std::future::pending().await,
                Some(Fault::DropAfter) => return dropped(),
                Some(Fault::TimedOutAfter) => {
                    pace.pass(PATIENCE).await;
                    refusal(504, grpc)
                }
                Some(Fault::Slow(duration)) => {
                    pace.pass(*duration).await;
                    answer
                }
                Some(Fault::TruncatedBody) if grpc => cut(answer),
                Some(Fault::MalformedBody) if grpc => gibberish(),
                Some(Fault::TruncatedBody) => truncated(answer).await,
                Some(Fault::MalformedBody) => full(answer.status(), "application/json", "<html>\n"),
                _ => answer,
            };
            faults.finish(&verdict, answer.status().as_u16());
            answer
        })
    })
}

fn refusal(status: u16, grpc: bool) -> Response<Body> {
    if !grpc {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return full(status, "text/plain; charset=utf-8", "injected fault\n");
    }
    let text = "injected fault";
    match status {
        401 => Status::unauthenticated(text),
        403 => Status::permission_denied(text),
        404 => Status::not_found(text),
        409 => Status::aborted(text),
        501 => Status::unimplemented(text),
        502..=504 | 595 | 596 => Status::unavailable(text),
        _ => Status::internal(text),
    }
    .into_http()
}

/// A stream that is cut after its first piece: no further message, and never a status.
fn cut(answer: Response<Body>) -> Response<Body> {
    let (parts, mut body) = answer.into_parts();
    let frames = futures::stream::once(async move {
        match body.frame().await {
            Some(Ok(frame)) if frame.is_data() => Ok(frame),
            _ => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
        }
    });
    let end = futures::stream::once(std::future::ready(Err(std::io::ErrorKind::ConnectionReset.into())));
    Response::from_parts(parts, Body::new(http_body_util::StreamBody::new(frames.chain(end))))
}

/// A message that is none.
fn gibberish() -> Response<Body> {
    let message = [0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff];
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let frames: [Result<_, std::io::Error>; 2] = [
        Ok(hyper::body::Frame::data(bytes::Bytes::copy_from_slice(&message))),
        Ok(hyper::body::Frame::trailers(trailers)),
    ];
    let body = http_body_util::StreamBody::new(futures::stream::iter(frames));
    let mut response = Response::new(Body::new(body));
    let kind = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

/// The first half of an answer's body, under the whole's length.
async fn truncated(answer: Response<Body>) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let Ok(body) = body.collect().await else { return dropped() };
    let bytes = body.to_bytes();
    let half = bytes.slice(..bytes.len() / 2);
    let frames =
        [Ok(hyper::body::Frame::data(half)), Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))];
    let body = http_body_util::StreamBody::new(futures::stream::iter(frames));
    Response::from_parts(parts, Body::new(body))
}
