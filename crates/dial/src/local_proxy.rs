//! A proxy for programs on this machine: HTTP CONNECT and SOCKS5 on one port, without a login.
//!
//! Every connection goes out through one [`Dialer`], which resolves the names. What it does not reach is refused with
//! its reason.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{Dial, Dialer, Stream, Target, relay, socks};

/// Longest request head that is read.
const HEAD_LIMIT: usize = 8 * 1024;

/// How long to wait before accepting again after a failure, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves a listener for ever. What `begin` returns lives for as long as the connection that it was called for.
pub async fn serve_proxy<B: Send + 'static>(listener: TcpListener, dialer: Dialer, begin: impl Fn() -> B) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the local proxy cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // Only a matter of speed.
        let _ = stream.set_nodelay(true);
        let (dialer, begun) = (dialer.clone(), begin());
        tokio::spawn(async move {
            let _begun = begun;
            if let Err(error) = serve_connection(stream, &*dialer).await {
                tracing::debug!(%error, "a connection through the local proxy ended");
            }
        });
    }
}

/// One connection: reads the request, connects, and passes bytes both ways.
async fn serve_connection(mut stream: impl Stream, dialer: &dyn Dial) -> io::Result<()> {
    // SOCKS5 begins with its version, HTTP with a letter.
    match stream.read_u8().await? {
        5 => {
            let target = socks5_request(&mut stream).await?;
            match dialer.dial(&target).await {
                Ok(service) => {
                    stream.write_all(&socks5_reply(0)).await?;
                    relay(stream, service).await
                }
                Err(error) => stream.write_all(&socks5_reply(socks::code(error.kind()))).await,
            }
        }
        first => {
            let Some(target) = connect_request(&mut stream, first).await? else { return Ok(()) };
            match dialer.dial(&target).await {
                Ok(service) => {
                    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                    relay(stream, service).await
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    refuse(&mut stream, "504 Gateway Timeout", &error.to_string()).await
                }
                Err(error) => refuse(&mut stream, "502 Bad Gateway", &error.to_string()).await,
            }
        }
    }
}

/// Reads the head of an HTTP request; none if it was not a good CONNECT and was refused.
async fn connect_request(stream: &mut impl Stream, first: u8) -> io::Result<Option<Target>> {
    let mut head = vec![first];
    // Byte by byte: what follows the empty line belongs to the target.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD_LIMIT {
            return Err(bad("the request head is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head);
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("CONNECT") {
        let status = "405 Method Not Allowed\r\nAllow: CONNECT";
        refuse(stream, status, "this proxy serves CONNECT only").await?;
        return Ok(None);
    }
    let target = words.next().and_then(|target| target.parse().ok()).and_then(|uri| Target::of_uri(&uri));
    if target.is_none() {
        refuse(stream, "400 Bad Request", "CONNECT needs host:port").await?;
    }
    Ok(target)
}

async fn refuse(stream: &mut impl Stream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{why}\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// Speaks SOCKS5 up to the request.
async fn socks5_request(stream: &mut impl Stream) -> io::Result<Target> {
    let methods = stream.read_u8().await?;
    let mut offered = vec![0; usize::from(methods)];
    stream.read_exact(&mut offered).await?;
    if !offered.contains(&0) {
        stream.write_all(&[5, 0xff]).await?;
        return Err(bad("the SOCKS client insists on a login"));
    }
    stream.write_all(&[5, 0]).await?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let [version, command, _, kind] = request;
    if version != 5 {
        return Err(bad("the client does not speak SOCKS5"));
    }
    if command != 1 {
        stream.write_all(&socks5_reply(7)).await?;
        return Err(bad("only the SOCKS command CONNECT is supported"));
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
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| bad("the SOCKS host name is not text"))?
        }
        _ => {
            stream.write_all(&socks5_reply(8)).await?;
            return Err(bad("unknown SOCKS address type"));
        }
    };
    let port = stream.read_u16().await?;
    Ok(Target::new(host, port))
}

/// A reply without the address that the connection goes out from.
fn socks5_reply(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use tokio::net::TcpStream;

    use super::*;
    use crate::{BoxStream, Dialing, Proxy};

    /// Peers that say their name, hear everything to its end, and then repeat it.
    #[derive(Default)]
    struct Peers {
        dialled: Mutex<Vec<String>>,
    }

    impl Dial for Peers {
        fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
            Box::pin(async move {
                self.dialled.lock().unwrap().push(target.to_string());
                match target.port {
                    1 => return Err(io::Error::new(io::ErrorKind::HostUnreachable, "nobody is there")),
                    2 => return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody answers")),
                    _ => {}
                }
                let (near, mut far) = tokio::io::duplex(64);
                let name = target.to_string();
                tokio::spawn(async move {
                    far.write_all(format!("{name};").as_bytes()).await.unwrap();
                    let mut heard = Vec::new();
                    far.read_to_end(&mut heard).await.unwrap();
                    far.write_all(&heard).await.unwrap();
                });
                Ok(Box::new(near) as BoxStream)
            })
        }
    }

    async fn serve() -> (SocketAddr, Arc<Peers>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let peers = Arc::new(Peers::default());
        tokio::spawn(serve_proxy(listener, peers.clone(), || ()));
        (address, peers)
    }

    /// Says something through a proxy, ends, and hears all that comes back.
    async fn exchange(mut stream: impl Stream, words: &[u8]) -> String {
        stream.write_all(words).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        heard
    }

    /// What a client that writes these bytes hears until the proxy hangs up.
    async fn answer(address: SocketAddr, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        heard
    }

    /// Half-closed connections: the peer answers only after it heard the end.
    #[tokio::test]
    async fn both_protocols_carry_names_and_addresses_and_the_end_of_each_side() {
        let (address, peers) = serve().await;
        let mut expected = Vec::new();
        for scheme in ["http", "socks5"] {
            let proxy = Proxy::parse(&format!("{scheme}://{address}")).unwrap();
            for host in ["cp-1.home", "10.0.0.11", "fd00::1"] {
                let target = Target::new(host, 50000);
                let stream = proxy.dial(&target).await.unwrap();
                assert_eq!(exchange(stream, b"ping").await, format!("{target};ping"), "{scheme}");
                expected.push(target.to_string());
            }
        }
        assert_eq!(*peers.dialled.lock().unwrap(), expected);
    }

    /// What a client says right behind its request belongs to the target.
    #[tokio::test]
    async fn a_client_need_not_wait_for_the_answer() {
        let (address, _) = serve().await;
        let http = TcpStream::connect(address).await.unwrap();
        let heard = exchange(http, b"CONNECT cp-1:80 HTTP/1.1\r\nHost: cp-1:80\r\n\r\nping").await;
        assert_eq!(heard, "HTTP/1.1 200 Connection established\r\n\r\ncp-1:80;ping");
        let socks = TcpStream::connect(address).await.unwrap();
        let heard = exchange(socks, b"\x05\x01\x00\x05\x01\x00\x03\x04cp-1\x00\x50ping").await;
        assert_eq!(heard.as_bytes(), b"\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00cp-1:80;ping");
    }

    #[tokio::test]
    async fn what_cannot_be_reached_is_refused_with_its_reason() {
        let (address, _) = serve().await;
        let proxy = |scheme: &str| Proxy::parse(&format!("{scheme}://{address}")).unwrap();
        for (port, kind) in [(1, io::ErrorKind::HostUnreachable), (2, io::ErrorKind::TimedOut)] {
            let refused = proxy("socks5").dial(&Target::new("cp-1", port)).await.err().unwrap();
            assert_eq!(refused.kind(), kind, "{refused}");
        }
        for (port, status) in [(1, "502 Bad Gateway"), (2, "504 Gateway Timeout")] {
            let refused = proxy("http").dial(&Target::new("cp-1", port)).await.err().unwrap();
            assert!(refused.to_string().ends_with(status), "{refused}");
        }
        let heard = answer(address, b"CONNECT cp-1:1 HTTP/1.1\r\n\r\n").await;
        assert!(String::from_utf8(heard).unwrap().ends_with("\r\n\r\nnobody is there\n"));
    }

    #[tokio::test]
    async fn other_requests_are_refused_and_reach_nobody() {
        let (address, peers) = serve().await;
        let http = async |request: &str| {
            let heard = String::from_utf8(answer(address, request.as_bytes()).await).unwrap();
            heard.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(http("GET http://cp-1/ HTTP/1.1\r\n\r\n").await, "HTTP/1.1 405 Method Not Allowed");
        assert_eq!(http("CONNECT cp-1 HTTP/1.1\r\n\r\n").await, "HTTP/1.1 400 Bad Request");
        assert_eq!(http("CONNECT cp-1:99999 HTTP/1.1\r\n\r\n").await, "HTTP/1.1 400 Bad Request");
        // A head without end is not read for ever.
        assert_eq!(answer(address, &[b'C'; HEAD_LIMIT]).await, b"");
        // A login that the proxy does not have; the command BIND; an address of no known type; another version.
        assert_eq!(answer(address, b"\x05\x01\x02").await, b"\x05\xff");
        let reply = |code| [&[5, 0][..], &socks5_reply(code)].concat();
        assert_eq!(answer(address, b"\x05\x01\x00\x05\x02\x00\x01").await, reply(7));
        assert_eq!(answer(address, b"\x05\x01\x00\x05\x01\x00\x09").await, reply(8));
        assert_eq!(answer(address, b"\x05\x01\x00\x04\x01\x00\x01").await, b"\x05\x00");
        assert_eq!(*peers.dialled.lock().unwrap(), [""; 0]);
    }

    /// Counts itself while it lives.
    struct Open(Arc<AtomicUsize>);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn what_a_connection_begins_with_ends_with_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(AtomicUsize::new(0));
        let begin = {
            let open = open.clone();
            move || {
                open.fetch_add(1, Ordering::SeqCst);
                Open(open.clone())
            }
        };
        tokio::spawn(serve_proxy(listener, Arc::new(Peers::default()), begin));
        let proxy = Proxy::parse(&format!("socks5://{address}")).unwrap();
        let stream = proxy.dial(&Target::new("cp-1", 80)).await.unwrap();
        assert_eq!(open.load(Ordering::SeqCst), 1);
        exchange(stream, b"").await;
        while open.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    }
}
