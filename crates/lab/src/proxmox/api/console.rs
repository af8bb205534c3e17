//! `termproxy` and `vncwebsocket`: a session on a VM's serial console, from the ticket to what is printed.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Message, protocol::Role};
use tokio_util::sync::CancellationToken;

use crate::proxmox::Datacenter;
use crate::proxmox::access::Who;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, opt, req, verify};

/// Ports of the sessions of one host.
const PORTS: std::ops::Range<u16> = 5900..6000;
/// How long a ticket is good for, and how long a session waits for somebody to show it.
const TICKET_LIFE: Duration = Duration::from_secs(40);
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
    let life = context.dc.pace().patience(TICKET_LIFE).as_secs() as i64;
    let good =
        given == ticket(&context.dc, &context.who, vmid, stamp) && (stamp..=stamp + life).contains(&now);
    if !good {
        return Err(Fail::new(401, "permission denied - invalid PVEVNC ticket"));
    }
    Ok(Data::from(json!({ "port": port.to_string() })))
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
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let shown = async {
        let mut line = Vec::new();
        while !line.contains(&b'\n') {
            line.extend(socket.next().await?.ok()?.into_data());
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
    if socket.send(Message::binary(&b"OK"[..])).await.is_err() {
        return;
    }
    let lines = match dc.with(|state| state.vms.get(&session.vmid).is_some_and(|vm| vm.running.is_some())) {
        true => dc.guests().console_from_now(session.vmid),
        false => None,
    };
    let Some(mut lines) = lines else {
        // Whether the client still hears it makes no difference.
        let _ = socket.send(printed(format!("VM {} not running", session.vmid))).await;
        return;
    };
    let halted = dc.halted();
    loop {
        tokio::select! {
            () = halted.cancelled() => return,
            line = lines.next() => {
                let Some(line) = line else { return };
                if socket.send(printed(line)).await.is_err() {
                    return;
                }
            }
            // What is typed goes nowhere: nobody listens on a Talos console.
            typed = socket.next() => if !matches!(typed, Some(Ok(_))) { return },
        }
    }
}

fn printed(line: impl std::fmt::Display) -> Message {
    Message::binary(format!("{line}\r\n").into_bytes())
}
