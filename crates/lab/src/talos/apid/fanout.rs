//! Calls to several nodes at once: the answers are joined, each marked with the node it is from.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use daedal_talos_client::proto::common::Metadata;
use daedal_talos_client::proto::google::rpc;
use futures::StreamExt as _;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use hyper::body::Frame;
use prost::Message as _;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::http::{Body, Handler};
use crate::talos::keys::Caller;

/// Methods that answer with a stream: each message carries its node itself.
const STREAMS: [&str; 10] = [
    "Kubeconfig",
    "EtcdSnapshot",
    "Events",
    "Logs",
    "Dmesg",
    "Read",
    "List",
    "ImageList",
    "HealthCheck",
    "Copy",
];

/// Makes the call on every target.
pub(super) async fn call(
    request: Request<Body>,
    targets: Vec<(String, Result<Handler, Status>)>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Status::internal(error.to_string()).into_http(),
    };
    let method = parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
    let streamed = STREAMS.contains(&method.as_str());
    let mut answers = Vec::new();
    for (name, handler) in targets {
        let mut request =
            Request::builder().method(parts.method.clone()).uri(parts.uri.clone()).version(parts.version);
        for (key, value) in &parts.headers {
            if key != "nodes" {
                request = request.header(key, value);
            }
        }
        let Ok(mut request) = request.body(Body::new(Full::new(body.clone()))) else { continue };
        if let Some(caller) = parts.extensions.get::<Caller>() {
            request.extensions_mut().insert(caller.clone());
        }
        let answer = match handler {
            Ok(handler) => handler(request).await,
            Err(status) => status.into_http(),
        };
        answers.push((name, answer));
    }
    if streamed { join_streams(answers) } else { join_replies(answers).await }
}

/// Forwards to another machine for as long as that is up: its end cuts off the call, as a broken connection would.
pub(super) fn while_up(handler: Handler, session: CancellationToken) -> Handler {
    Arc::new(move |request| {
        let (handler, session) = (handler.clone(), session.clone());
        Box::pin(async move {
            let response = tokio::select! {
                () = session.cancelled() => return gone().into_http(),
                response = handler(request) => response,
            };
            let (parts, body) = response.into_parts();
            let frames =
                futures::stream::unfold(Some((BodyStream::new(body), session)), |state| async move {
                    let (mut body, session) = state?;
                    tokio::select! {
                        () = session.cancelled() => {
                            let mut trailers = http::HeaderMap::new();
                            let _ = gone().add_header(&mut trailers);
                            Some((Ok(Frame::trailers(trailers)), None))
                        }
                        frame = body.next() => Some((frame?, Some((body, session)))),
                    }
                });
            Response::from_parts(parts, Body::new(StreamBody::new(frames)))
        })
    })
}

fn gone() -> Status {
    Status::unavailable("error reading from server: EOF")
}

fn frame(payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(payload.len() + 5);
    out.put_u8(0);
    out.put_u32(payload.len() as u32);
    out.put_slice(payload);
    out.freeze()
}

fn length_delimited(tag: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(tag << 3 | 2);
    prost::encoding::encode_varint(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

fn failure(name: &str, code: i32, message: &str) -> Metadata {
    Metadata {
        hostname: name.to_owned(),
        error: format!("rpc error: code = {:?} desc = {message}", Code::from(code)),
        status: Some(rpc::Status { code, message: message.to_owned(), details: Vec::new() }),
    }
}

fn status_of(headers: &http::HeaderMap) -> Option<(i32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|m| m.to_str().ok()).unwrap_or_default();
    Some((code, percent_encoding::percent_decode_str(message).decode_utf8_lossy().into_owned()))
}

/// One reply with the messages of all nodes.
async fn join_replies(answers: Vec<(String, Response<Body>)>) -> Response<Body> {
    let mut joined = Vec::new();
    for (name, answer) in answers {
        let early = status_of(answer.headers());
        let (payload, late) = match answer.into_body().collect().await {
            Ok(body) => {
                let late = body.trailers().and_then(status_of);
                (body.to_bytes(), late)
            }
            Err(error) => (Bytes::new(), Some((Code::Unavailable as i32, error.to_string()))),
        };
        if let Some((code, message)) = early.or(late).filter(|(code, _)| *code != 0) {
            let mut message_bytes = Vec::new();
            length_delimited(1, &failure(&name, code, &message).encode_to_vec(), &mut message_bytes);
            length_delimited(1, &message_bytes, &mut joined);
            continue;
        }
        let mut reply = payload.get(5..).unwrap_or_default();
        // A reply is a list of messages in field 1; each gets its node's name in its own field 1.
        while let [0x0a, rest @ ..] = reply {
            let mut rest = rest;
            let Ok(length) = prost::encoding::decode_varint(&mut rest) else { break };
            let Some((inner, after)) = rest.split_at_checked(length as usize) else { break };
            let mut marked = Vec::new();
            let metadata = Metadata { hostname: name.clone(), ..Metadata::default() };
            length_delimited(1, &metadata.encode_to_vec(), &mut marked);
            marked.extend_from_slice(inner);
            length_delimited(1, &marked, &mut joined);
            reply = after;
        }
    }
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Ok::<_, std::io::Error>(Frame::data(frame(&joined))), Ok(Frame::trailers(trailers))];
    grpc_response(Body::new(StreamBody::new(futures::stream::iter(frames))))
}

fn grpc_response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

/// The streams of all nodes, one after the other, each message marked.
fn join_streams(answers: Vec<(String, Response<Body>)>) -> Response<Body> {
    let streams = answers.into_iter().map(|(name, answer)| {
        let metadata = Metadata { hostname: name.clone(), ..Metadata::default() };
        let mut mark = Vec::new();
        length_delimited(1, &metadata.encode_to_vec(), &mut mark);
        let early = status_of(answer.headers());
        let error_frame = move |code: i32, message: &str| {
            let mut payload = Vec::new();
            length_delimited(1, &failure(&name, code, message).encode_to_vec(), &mut payload);
            frame(&payload)
        };
        if let Some((code, message)) = early.filter(|(code, _)| *code != 0) {
            let frame = error_frame(code, &message);
            return futures::stream::iter([Ok(Frame::data(frame))]).boxed();
        }
        let mut waiting = BytesMut::new();
        BodyStream::new(answer.into_body())
            .filter_map(move |part| {
                let out = match part {
                    Ok(part) => match part.into_data() {
                        Ok(data) => {
                            waiting.extend_from_slice(&data);
                            Some(mark_messages(&mut waiting, &mark))
                        }
                        Err(part) => part
                            .trailers_ref()
                            .and_then(status_of)
                            .and_then(|(code, message)| (code != 0).then(|| error_frame(code, &message))),
                    },
                    Err(error) => Some(error_frame(Code::Unavailable as i32, &error.to_string())),
                };
                let out = out.filter(|b| !b.is_empty()).map(|b| Ok::<_, std::io::Error>(Frame::data(b)));
                std::future::ready(out)
            })
            .boxed()
    });
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let end = futures::stream::iter([Ok(Frame::trailers(trailers))]);
    let all = futures::stream::select_all(streams).chain(end);
    grpc_response(Body::new(StreamBody::new(all)))
}

/// Takes whole messages off the front and puts the node's name into each.
fn mark_messages(waiting: &mut BytesMut, mark: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    while waiting.len() >= 5 {
        let length = u32::from_be_bytes([waiting[1], waiting[2], waiting[3], waiting[4]]) as usize;
        if waiting.len() < 5 + length {
            break;
        }
        let message = waiting.split_to(5 + length);
        out.put_u8(0);
        out.put_u32((mark.len() + length) as u32);
        out.put_slice(mark);
        out.put_slice(&message[5..]);
    }
    out.freeze()
}
