//! When an answer begins: servers of Talos send its headers along with the first message, and not before there is one.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};

use crate::http::{Body, Handler};

/// Holds every answer back until it has something to say. One that ends without a message is nothing but headers.
pub(super) fn until_the_first_message(handler: Handler) -> Handler {
    Arc::new(move |request: Request<Body>| {
        let answer = handler(request);
        Box::pin(async move {
            let (mut parts, mut body) = answer.await.into_parts();
            let Some(first) = body.frame().await else { return Response::from_parts(parts, Body::empty()) };
            match first.map(|frame| frame.into_trailers()) {
                Ok(Ok(trailers)) => {
                    parts.headers.extend(trailers);
                    Response::from_parts(parts, Body::empty())
                }
                Ok(Err(message)) => {
                    let frames = stream::iter([Ok(message)]).chain(BodyStream::new(body));
                    Response::from_parts(parts, Body::new(StreamBody::new(frames)))
                }
                Err(status) => status.into_http(),
            }
        })
    })
}
