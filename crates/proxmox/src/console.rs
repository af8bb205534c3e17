//! The serial console of a VM: `termproxy`, then a WebSocket on which the ticket is shown once more.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use daedal_dial::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use http::{Method, Request};
use serde::Deserialize;
use tokio::time::Instant;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, Message, handshake::client::generate_key, protocol::WebSocketConfig},
};
use zeroize::Zeroizing;

use crate::{
    Upid,
    client::{Ask, Client, Repeat},
    error::{Cause, Error, Kind, text_cause},
    lenient,
    params::{Params, segment},
};

/// Between two signs of life: whoever is silent for long is cut off.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
/// Payloads of a console are small; anything larger is not one.
const LONGEST: usize = 1 << 20;
/// The other side waits ten seconds for the ticket.
const OPENING: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
struct Session {
    user: String,
    ticket: String,
    #[serde(deserialize_with = "lenient::small")]
    port: u32,
    upid: Upid,
}

/// An open serial console. It tells what is printed from now on; what was printed before nobody kept.
pub struct Console {
    socket: WebSocketStream<BoxStream>,
    upid: Upid,
    alive: Instant,
    operation: String,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("upid", &self.upid).finish_non_exhaustive()
    }
}

impl Client {
    /// `POST …/termproxy` and `GET …/vncwebsocket`: attaches to `serial0` of a running VM; needs VM.Console. API tokens
    /// can since 9.1; before, the ticket of a token is not accepted on the console itself.
    pub async fn console(&self, node: &str, vmid: u32) -> Result<Console, Error> {
        let path = |what: &str| format!("/nodes/{}/qemu/{vmid}/{what}", segment(node));
        let operation = format!("open the console of VM {vmid}");
        let mut form = Params::new();
        form.set("serial", "serial0");
        let ask = Ask::change(Method::POST, path("termproxy"), Repeat::Once, operation.as_str()).form(form);
        let session: Session = self.ask(ask).await?;
        let mut query = Params::new();
        query.set("port", session.port).set("vncticket", &session.ticket);
        let (endpoint, attached) = (self.endpoint(), path("vncwebsocket"));
        let uri = format!("wss://{endpoint}/api2/json{attached}?{}", query.encode());
        let attach = self.attach(uri, Zeroizing::new(format!("{}:{}\n", session.user, session.ticket)));
        let socket = match tokio::time::timeout(OPENING, attach).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(cause)) => return Err(refused(&operation, cause)),
            Err(_) => return Err(refused(&operation, text_cause(format!("not open within {OPENING:?}")))),
        };
        let alive = Instant::now() + ALIVE_EVERY;
        Ok(Console { socket, upid: session.upid, alive, operation: format!("read the console of VM {vmid}") })
    }
    async fn attach(
        &self,
        uri: String,
        line: Zeroizing<String>,
    ) -> Result<WebSocketStream<BoxStream>, Cause> {
        let mut request = Request::get(uri)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", generate_key())
            .header("sec-websocket-protocol", "binary");
        for (name, value) in self.headers() {
            request = request.header(name, value);
        }
        let request = request.body(()).map_err(|error| Arc::new(error) as Cause)?;
        let limits = WebSocketConfig::default().max_message_size(Some(LONGEST)).max_frame_size(Some(LONGEST));
        let stream = self.stream().await.map_err(|error| Arc::new(error) as Cause)?;
        let (mut socket, _) =
            client_async_with_config(request, stream, Some(limits)).await.map_err(broken)?;
        socket.send(Message::binary(line.as_bytes().to_vec())).await.map_err(broken)?;
        match socket.next().await {
            Some(Ok(answer)) if answer.clone().into_data().starts_with(b"OK") => Ok(socket),
            Some(Err(error)) => Err(broken(error)),
            _ => Err(text_cause("the console does not accept the ticket")),
        }
    }
}

fn broken(error: tungstenite::Error) -> Cause {
    Arc::new(error)
}

fn refused(operation: &str, cause: Cause) -> Error {
    // A console more or less changes nothing, so nothing may have happened that matters.
    let kind = Kind::Unreachable { endpoint: "the console".to_owned(), cause };
    Error::new(operation, kind)
}

impl Console {
    /// The task that holds it open.
    pub fn upid(&self) -> &Upid {
        &self.upid
    }

    /// What is printed next; none once it is closed. Dropping the future loses nothing.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Error> {
        let failed = |error| refused(&self.operation, broken(error));
        loop {
            match tokio::time::timeout_at(self.alive, self.socket.next()).await {
                Ok(Some(Ok(Message::Binary(printed)))) => return Ok(Some(printed)),
                Ok(Some(Ok(Message::Text(printed)))) => return Ok(Some(printed.into())),
                Ok(None | Some(Ok(Message::Close(_)))) => return Ok(None),
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => {}
                // Hung up without a word, as a machine does that is switched off.
                Ok(Some(Err(tungstenite::Error::Protocol(
                    tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
                )))) => return Ok(None),
                Ok(Some(Err(error))) => return Err(failed(error)),
                Err(_) => {
                    self.alive += ALIVE_EVERY;
                    self.socket.send(Message::binary(&b"2"[..])).await.map_err(failed)?;
                }
            }
        }
    }
}
