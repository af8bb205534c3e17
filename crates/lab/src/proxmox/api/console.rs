//! `termproxy` and `vncwebsocket`: a session on a VM's serial console, from the ticket to what is printed.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use base64::Engine as _;
use bytes::{Buf, BytesMut};
use futures::StreamExt;
use serde_json::json;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::proxmox::Datacenter;
use crate::proxmox::access::Who;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, opt, req, verify};

/// Ports of the sessions of one host.
const PORTS: std::ops::Range<u16> = 5900..6000;
/// How long a ticket is good for, and how long a session waits for somebody to show it.
const TICKET_LIFE: i64 = 40;
const PATIENCE: Duration = Duration::from_secs(10);

/// Sessions that wait for their client, by host and port.
#[derive(Default)]
pub(in crate::proxmox) struct Sessions(std::sync::Mutex<HashMap<(String, u16), Session>>);

#[derive(Clone)]
pub(in crate::proxmox) struct Session {
    vmid: u32,
    who: Who,
    ticket: String,
    /// Ends the worker that holds it.
    over: CancellationToken,
}

impl Sessions {
    fn with<R>(&self, work: impl FnOnce(&mut HashMap<(String, u16), Session>) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is signed into a ticket: whose it is, and for which VM.
fn ticket(dc: &Datacenter, who: &Who, vmid: u32, stamp: i64) -> String {
    dc.with(|state| {
        let signature = state.access.sign(&format!("PVEVNC:{stamp:08X}:{}:/vms/{vmid}", who.id()));
        format!("PVEVNC:{stamp:08X}::{signature}")
    })
}

/// `POST …/termproxy`
pub(super) fn open(context: &Context, host: &str, vmid: u32) -> Answer {
    verify(&context.params, &[opt("serial", Kind::OneOf(&["serial0", "serial1", "serial2", "serial3"]))])?;
    context.need(&format!("/vms/{vmid}"), &["VM.Console"])?;
    let (now, serial) = context.dc.with(|state| {
        let vm = state.vm(host, vmid)?;
        let serial = match context.param("serial") {
            Some(serial) => vm.config.contains_key(serial),
            None => vm.config.get("vga").is_some_and(|vga| vga.starts_with("serial")),
        };
        Ok::<_, Fail>((state.now, serial))
    })?;
    if !serial {
        return Err(Fail::internal("unable to find a serial interface"));
    }
    let ticket = ticket(&context.dc, &context.who, vmid, now);
    let sessions = context.dc.sessions();
    let over = CancellationToken::new();
    let port = sessions.with(|open| {
        let port = PORTS.clone().find(|port| !open.contains_key(&(host.to_owned(), *port)))?;
        let session = Session { vmid, who: context.who.clone(), ticket: ticket.clone(), over: over.clone() };
        open.insert((host.to_owned(), port), session);
        Some(port)
    });
    let Some(port) = port else { return Err(Fail::internal("unable to find free vnc port")) };
    let (dc, place) = (context.dc.clone(), (host.to_owned(), port));
    let upid =
        context.dc.fork(host, "vncproxy", &vmid.to_string(), &context.who, None, move |job| async move {
            let waited = async {
                tokio::time::sleep(PATIENCE).await;
                // Whoever came has taken it away.
                let late = dc.sessions().with(|open| open.remove(&place).is_some());
                if !late {
                    over.cancelled().await;
                }
            };
            job.until(waited).await
        })?;
    Ok(Data::from(json!({ "user": context.who.id(), "ticket": ticket, "port": port, "upid": upid })))
}

/// `GET …/vncwebsocket`, up to the point where HTTP ends.
pub(super) fn attach(context: &Context, vmid: u32) -> Answer {
    verify(&context.params, &[req("port", Kind::Int(5900, 5999)), req("vncticket", Kind::Text)])?;
    context.need(&format!("/vms/{vmid}"), &["VM.Console"])?;
    let port = context.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
    let given = context.param("vncticket").unwrap_or_default();
    let stamp = given.split(':').nth(1).and_then(|stamp| i64::from_str_radix(stamp, 16).ok()).unwrap_or(0);
    let now = context.dc.with(|state| state.now);
    let good = given == ticket(&context.dc, &context.who, vmid, stamp)
        && (stamp..=stamp + TICKET_LIFE).contains(&now);
    if !good {
        return Err(Fail::new(401, "permission denied - invalid PVEVNC ticket"));
    }
    Ok(Data::from(json!({ "port": port.to_string() })))
}

/// What a WebSocket key is answered with.
pub(in crate::proxmox) fn accept(key: &str) -> String {
    let digest = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    base64::engine::general_purpose::STANDARD.encode(digest)
}

/// The session itself: the ticket once more, `OK`, and then every line that is printed from now on.
pub(in crate::proxmox) async fn run(
    dc: Datacenter,
    host: String,
    port: u16,
    stream: impl AsyncRead + AsyncWrite + Unpin,
) {
    let Some(session) = dc.sessions().with(|open| open.remove(&(host.clone(), port))) else { return };
    let _over = session.over.clone().drop_guard();
    let mut socket = Socket { stream, read: BytesMut::new() };
    let shown = async {
        let mut line = Vec::new();
        while !line.contains(&b'\n') {
            line.extend(socket.receive().await?);
        }
        Some(line)
    };
    let Ok(Some(line)) = tokio::time::timeout(PATIENCE, shown).await else { return };
    let wanted = format!("{}:{}\n", session.who.id(), session.ticket);
    // Before 9.1 the console asks `/access/ticket` whether the ticket is good, which knows users only.
    let tokens_too = dc.with(|state| state.at_least(9, 1)) || session.who.token.is_none();
    if line != wanted.as_bytes() || !tokens_too {
        return;
    }
    if socket.send(b"OK").await.is_none() {
        return;
    }
    let lines = match dc.with(|state| state.vms.get(&session.vmid).is_some_and(|vm| vm.running.is_some())) {
        true => dc.guests().console_from_now(session.vmid),
        false => None,
    };
    let Some(mut lines) = lines else {
        socket.send(format!("VM {} not running\r\n", session.vmid).as_bytes()).await;
        return;
    };
    let halted = dc.halted();
    loop {
        tokio::select! {
            () = halted.cancelled() => return,
            line = lines.next() => {
                let Some(line) = line else { return };
                if socket.send(format!("{line}\r\n").as_bytes()).await.is_none() {
                    return;
                }
            }
            // What is typed goes nowhere: nobody listens on a Talos console.
            typed = socket.receive() => if typed.is_none() { return },
        }
    }
}

/// A server's end of a WebSocket.
struct Socket<S> {
    stream: S,
    read: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    async fn send(&mut self, payload: &[u8]) -> Option<()> {
        let mut frame = vec![0x82];
        match u16::try_from(payload.len()).ok()? {
            short if short < 126 => frame.push(short as u8),
            long => {
                frame.push(126);
                frame.extend(long.to_be_bytes());
            }
        }
        frame.extend(payload);
        self.stream.write_all(&frame).await.ok()?;
        self.stream.flush().await.ok()
    }

    /// The next payload; none when the client is gone or does not mask.
    async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            let read = &self.read[..];
            if let [first, second, rest @ ..] = read {
                let (length, skip) = match (second & 0x7f, rest) {
                    (126, [a, b, ..]) => (usize::from(u16::from_be_bytes([*a, *b])), 4),
                    (126, _) => (usize::MAX >> 1, 4),
                    (127, _) => return None,
                    (short, _) => (usize::from(short), 2),
                };
                if second & 0x80 == 0 || first & 0x0f == 8 {
                    return None;
                }
                if read.len() >= skip + 4 + length {
                    let mask = [read[skip], read[skip + 1], read[skip + 2], read[skip + 3]];
                    self.read.advance(skip + 4);
                    let payload = self.read.split_to(length);
                    return Some(
                        payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect(),
                    );
                }
            }
            if self.stream.read_buf(&mut self.read).await.ok()? == 0 {
                return None;
            }
        }
    }
}
