//! The serial console of a VM: `termproxy`, then a WebSocket on which the ticket is shown once more.

use std::{fmt, time::Duration};

use bytes::Bytes;
use daedal_dial::BoxStream;
use http::Method;
use serde::Deserialize;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::{
    Upid,
    client::{Ask, Client, Repeat},
    error::{Error, Kind, text_cause},
    lenient,
    params::{Params, segment},
    websocket::{Handshake, WebSocket},
};

/// Between two signs of life: whoever is silent for long is cut off.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
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
    socket: WebSocket<BoxStream>,
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
        let uri = format!("/api2/json{}?{}", path("vncwebsocket"), query.encode());
        let attach = async {
            let stream = self.stream().await?;
            let mut socket = match WebSocket::open(stream, &uri, &self.header_lines()).await? {
                Handshake::Open(socket) => socket,
                Handshake::Refused(status, reason) => {
                    return Err(std::io::Error::other(format!("{status} {reason}")));
                }
            };
            let line = Zeroizing::new(format!("{}:{}\n", session.user, session.ticket));
            socket.send(line.as_bytes()).await?;
            match socket.receive().await? {
                Some(answer) if answer.starts_with(b"OK") => Ok((socket, answer.slice(2..))),
                _ => Err(std::io::Error::other("the console does not accept the ticket")),
            }
        };
        let attached = tokio::time::timeout(OPENING, attach).await;
        let (socket, _) = match attached {
            Ok(Ok(attached)) => attached,
            Ok(Err(error)) => return Err(refused(&operation, error.to_string())),
            Err(_) => return Err(refused(&operation, format!("not open within {OPENING:?}"))),
        };
        let alive = Instant::now() + ALIVE_EVERY;
        Ok(Console { socket, upid: session.upid, alive, operation: format!("read the console of VM {vmid}") })
    }
}

fn refused(operation: &str, text: String) -> Error {
    // A console more or less changes nothing, so nothing may have happened that matters.
    let kind = Kind::Unreachable { endpoint: "the console".to_owned(), cause: text_cause(text) };
    Error::new(operation, kind)
}

impl Console {
    /// The task that holds it open.
    pub fn upid(&self) -> &Upid {
        &self.upid
    }

    /// What is printed next; none once it is closed.
    pub async fn read(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let alive = self.alive;
            let received = tokio::time::timeout_at(alive, self.socket.receive()).await;
            let result = match received {
                Ok(Ok(read)) => return Ok(read),
                Ok(Err(error)) => Err(error),
                Err(_) => {
                    self.alive = alive + ALIVE_EVERY;
                    self.socket.send(b"2").await
                }
            };
            result.map_err(|error| refused(&self.operation, error.to_string()))?;
        }
    }
}
