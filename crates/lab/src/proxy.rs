//! The way into the lab for programs outside its process: HTTP CONNECT and SOCKS5 on one loopback port.
//!
//! It dials into the fabric and nowhere else: what the lab does not know is refused, never forwarded.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use daedal_dial::{Dial as _, Target};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::Fabric;
use crate::activity::Activity;
use crate::relay::relay;

/// Longest request head that is read before the peer is given up.
const HEAD_LIMIT: usize = 8 * 1024;

/// Serves for ever.
pub async fn serve(listener: TcpListener, fabric: Fabric, activity: Activity) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the lab's proxy cannot accept");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (fabric, busy) = (fabric.clone(), activity.begin());
        tokio::spawn(async move {
            let _busy = busy;
            if let Err(error) = through(stream, &fabric).await {
                tracing::debug!(%error, "a connection through the lab's proxy ended");
            }
        });
    }
}

/// One connection: what the peer asks for, then bytes both ways.
async fn through<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, fabric: &Fabric) -> io::Result<()> {
    let first = stream.read_u8().await?;
    let (target, socks) = if first == 5 {
        (socks5_request(&mut stream).await?, true)
    } else {
        match connect_request(&mut stream, first).await? {
            Some(target) => (target, false),
            None => {
                let refusal =
                    "HTTP/1.1 405 Method Not Allowed\r\nAllow: CONNECT\r\nContent-Length: 0\r\n\r\n";
                return stream.write_all(refusal.as_bytes()).await;
            }
        }
    };
    match fabric.dial(&target).await {
        Ok(service) => {
            if socks {
                stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
            } else {
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            }
            relay(stream, service).await
        }
        Err(error) => {
            if socks {
                // 5 is "connection refused".
                stream.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]).await
            } else {
                let text = format!("{error}\n");
                let head =
                    format!("HTTP/1.1 502 Bad Gateway\r\nContent-Length: {}\r\n\r\n{text}", text.len());
                stream.write_all(head.as_bytes()).await
            }
        }
    }
}

/// Reads the head of an HTTP request; none if it is not a CONNECT.
async fn connect_request<S: AsyncRead + Unpin>(stream: &mut S, first: u8) -> io::Result<Option<Target>> {
    let mut head = vec![first];
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD_LIMIT {
            return Err(bad("the request head is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head);
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("CONNECT") {
        return Ok(None);
    }
    let authority = words.next().unwrap_or_default();
    let (host, port) = authority.rsplit_once(':').ok_or_else(|| bad("CONNECT needs host:port"))?;
    let port = port.parse().map_err(|_| bad("CONNECT needs a port number"))?;
    Ok(Some(Target::new(host.trim_start_matches('[').trim_end_matches(']'), port)))
}

/// Speaks SOCKS5 up to the request, without authentication.
async fn socks5_request<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<Target> {
    let methods = stream.read_u8().await?;
    let mut offered = vec![0; usize::from(methods)];
    stream.read_exact(&mut offered).await?;
    if !offered.contains(&0) {
        stream.write_all(&[5, 0xff]).await?;
        return Err(bad("the SOCKS client insists on authentication"));
    }
    stream.write_all(&[5, 0]).await?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let [_, command, _, kind] = request;
    if command != 1 {
        stream.write_all(&[5, 7, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        return Err(bad("only the SOCKS command CONNECT is understood"));
    }
    let host = match kind {
        1 => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            Ipv4Addr::from(octets).to_string()
        }
        4 => {
            let mut octets = [0; 16];
            stream.read_exact(&mut octets).await?;
            Ipv6Addr::from(octets).to_string()
        }
        3 => {
            let length = stream.read_u8().await?;
            let mut name = vec![0; usize::from(length)];
            stream.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| bad("the SOCKS host name is not text"))?
        }
        _ => return Err(bad("unknown SOCKS address type")),
    };
    let port = stream.read_u16().await?;
    Ok(Target::new(host, port))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use daedal_dial::{Dial as _, Proxy};

    use super::*;

    async fn lab_with_an_echo() -> (std::net::SocketAddr, Activity) {
        let fabric = Fabric::default();
        let echo = |mut stream: daedal_dial::BoxStream| {
            tokio::spawn(async move {
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                stream.write_all(&word).await.unwrap();
            });
        };
        fabric.listen(Target::new("atlas.lan", 8006), Arc::new(echo));
        fabric.listen(Target::new("10.0.0.11", 50000), Arc::new(echo));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let activity = Activity::default();
        tokio::spawn(serve(listener, fabric, activity.clone()));
        (address, activity)
    }

    #[tokio::test]
    async fn both_protocols_lead_into_the_fabric() {
        let (address, activity) = lab_with_an_echo().await;
        for scheme in ["http", "socks5"] {
            let proxy = Proxy::parse(&format!("{scheme}://{address}")).unwrap();
            for target in [Target::new("atlas.lan", 8006), Target::new("10.0.0.11", 50000)] {
                let mut stream = proxy.dial(&target).await.unwrap();
                stream.write_all(b"ping").await.unwrap();
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                assert_eq!(&word, b"ping", "{scheme} to {target}");
            }
        }
        assert_eq!(activity.total(), 4);
    }

    #[tokio::test]
    async fn what_the_lab_does_not_know_is_refused() {
        let (address, _) = lab_with_an_echo().await;
        for scheme in ["http", "socks5"] {
            let proxy = Proxy::parse(&format!("{scheme}://{address}")).unwrap();
            assert!(proxy.dial(&Target::new("127.0.0.1", address.port())).await.is_err(), "{scheme}");
        }
    }
}
