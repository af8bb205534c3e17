//! Reaches targets through an HTTP CONNECT or SOCKS5 proxy, which resolves the names.

use std::{fmt, io, net::IpAddr, sync::Arc};

use base64::Engine as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::{BoxStream, Dial, Dialer, Dialing, Direct, Target, socks};

const MAX_HEAD: usize = 8 * 1024;

/// A proxy to dial through. Names travel to the proxy unresolved.
#[derive(Clone)]
pub struct Proxy {
    kind: Kind,
    at: Target,
    login: Option<(String, Zeroizing<String>)>,
    inner: Dialer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Http,
    Socks5,
}

/// Why a text is not a proxy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProxyError {
    /// Not a URL at all.
    #[error("this is not a proxy URL; 'socks5://127.0.0.1:1080' or 'http://127.0.0.1:3128' is expected")]
    NotAUrl,
    /// A scheme that is not spoken.
    #[error("proxies of scheme '{0}' are not supported; use 'socks5' or 'http'")]
    Scheme(String),
    /// SOCKS5 carries at most 255 bytes each.
    #[error("user name and password of a SOCKS5 proxy must have 1 to 255 bytes")]
    Login,
}

impl Proxy {
    /// Reads `socks5://[user:password@]host[:port]` (also `socks5h`) or `http://…`; ports default to 1080 and 3128.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let url = url::Url::parse(text).map_err(|_| ProxyError::NotAUrl)?;
        let (kind, port) = match url.scheme() {
            "socks5" | "socks5h" => (Kind::Socks5, 1080),
            // The URL type hides an explicit :80, which is the default of its scheme but not of proxies.
            "http" if text.trim_end_matches('/').ends_with(":80") => (Kind::Http, 80),
            "http" => (Kind::Http, 3128),
            other => return Err(ProxyError::Scheme(other.to_owned())),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(ProxyError::NotAUrl)?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let plain = |text: &str| String::from_utf8(url_decode(text)).map_err(|_| ProxyError::NotAUrl);
        let login = if url.username().is_empty() {
            None
        } else {
            let user = plain(url.username())?;
            let password = Zeroizing::new(plain(url.password().unwrap_or_default())?);
            if kind == Kind::Socks5 && (user.len() > 255 || password.is_empty() || password.len() > 255) {
                return Err(ProxyError::Login);
            }
            Some((user, password))
        };
        let at = Target::new(host, url.port().unwrap_or(port));
        Ok(Self { kind, at, login, inner: Arc::new(Direct) })
    }

    /// Reaches the proxy itself through `inner` instead of by TCP.
    pub fn over(mut self, inner: Dialer) -> Self {
        self.inner = inner;
        self
    }

    /// Where the proxy is.
    pub fn target(&self) -> &Target {
        &self.at
    }

    async fn open(&self, target: &Target) -> io::Result<BoxStream> {
        let mut stream = self.inner.dial(&self.at).await.map_err(|error| {
            io::Error::new(error.kind(), format!("proxy {} cannot be reached: {error}", self.at))
        })?;
        match self.kind {
            Kind::Http => self.connect_http(&mut stream, target).await?,
            Kind::Socks5 => self.connect_socks5(&mut stream, target).await?,
        }
        Ok(stream)
    }

    async fn connect_http(&self, stream: &mut BoxStream, target: &Target) -> io::Result<()> {
        if target.host.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(invalid(target));
        }
        let mut head = Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"));
        if let Some((user, password)) = &self.login {
            let pair = Zeroizing::new(format!("{user}:{}", password.as_str()));
            let text = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(pair.as_bytes()));
            head.push_str("Proxy-Authorization: Basic ");
            head.push_str(&text);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await?;
        // Byte by byte: what follows the empty line already belongs to the target.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= MAX_HEAD {
                return Err(self.refuses(target, "its answer has no end"));
            }
            answer.push(stream.read_u8().await.map_err(|e| self.broke_off(target, &e))?);
        }
        let line = String::from_utf8_lossy(&answer);
        let line = line.lines().next().unwrap_or_default();
        let mut words = line.splitn(3, ' ');
        let (version, status) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if !version.starts_with("HTTP/1.") {
            return Err(self.refuses(target, "it does not speak HTTP/1"));
        }
        if status.len() != 3 || !status.starts_with('2') {
            return Err(self.refuses(target, line.trim_start_matches(version).trim()));
        }
        Ok(())
    }

    async fn connect_socks5(&self, stream: &mut BoxStream, target: &Target) -> io::Result<()> {
        let broke_off = |e: io::Error| self.broke_off(target, &e);
        let methods: &[u8] = if self.login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] };
        stream.write_all(methods).await?;
        stream.flush().await?;
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await.map_err(broke_off)?;
        match (chosen, &self.login) {
            ([5, 0], _) => {}
            ([5, 2], Some((user, password))) => {
                let mut message = Zeroizing::new(vec![1]);
                for part in [user.as_bytes(), password.as_bytes()] {
                    message.push(u8::try_from(part.len()).map_err(|_| invalid(target))?);
                    message.extend_from_slice(part);
                }
                stream.write_all(&message).await?;
                stream.flush().await?;
                let mut answer = [0; 2];
                stream.read_exact(&mut answer).await.map_err(broke_off)?;
                if answer[1] != 0 {
                    return Err(self.refuses(target, "user name or password is wrong"));
                }
            }
            ([5, _], _) => return Err(self.refuses(target, "it wants another kind of login")),
            _ => return Err(self.refuses(target, "it does not speak SOCKS5")),
        }

        let mut request = vec![5, 1, 0];
        match target.host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => {
                request.push(1);
                request.extend_from_slice(&address.octets());
            }
            Ok(IpAddr::V6(address)) => {
                request.push(4);
                request.extend_from_slice(&address.octets());
            }
            Err(_) => {
                request.push(3);
                request.push(u8::try_from(target.host.len()).map_err(|_| invalid(target))?);
                request.extend_from_slice(target.host.as_bytes());
            }
        }
        request.extend_from_slice(&target.port.to_be_bytes());
        stream.write_all(&request).await?;
        stream.flush().await?;

        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.map_err(broke_off)?;
        if answer[0] != 5 {
            return Err(self.refuses(target, "it does not speak SOCKS5"));
        }
        if answer[1] != 0 {
            let (kind, why) = socks::meaning(answer[1]);
            return Err(io::Error::new(kind, format!("proxy {} cannot reach {target}: {why}", self.at)));
        }
        let bound = match answer[3] {
            1 => 4,
            4 => 16,
            3 => usize::from(stream.read_u8().await.map_err(broke_off)?),
            _ => return Err(self.refuses(target, "its answer makes no sense")),
        };
        let mut rest = vec![0; bound + 2];
        stream.read_exact(&mut rest).await.map_err(broke_off)?;
        Ok(())
    }

    fn refuses(&self, target: &Target, why: &str) -> io::Error {
        io::Error::new(
            io::ErrorKind::ConnectionRefused,
            format!("proxy {} does not connect to {target}: {why}", self.at),
        )
    }

    fn broke_off(&self, target: &Target, error: &io::Error) -> io::Error {
        io::Error::new(
            error.kind(),
            format!("proxy {} broke off while connecting to {target}: {error}", self.at),
        )
    }
}

impl Dial for Proxy {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(self.open(target))
    }

    fn through(&self) -> Option<String> {
        Some(format!("proxy {}", self.at))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("kind", &self.kind).field("at", &self.at).finish_non_exhaustive()
    }
}

fn invalid(target: &Target) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("'{}' cannot be asked of a proxy", target.host))
}

fn url_decode(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).map(|d| d as u8);
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                plain.push(high << 4 | low);
                bytes = ahead;
            }
            _ => plain.push(byte),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// Plays a script: reads exactly `expect`, writes `answer`, and so on; then echoes one line.
    fn play(listener: TcpListener, script: Vec<(Vec<u8>, Vec<u8>)>) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for (expect, answer) in script {
                let mut got = vec![0; expect.len()];
                stream.read_exact(&mut got).await.unwrap();
                assert_eq!(got, expect, "{:?}", String::from_utf8_lossy(&got));
                stream.write_all(&answer).await.unwrap();
            }
            let mut byte = [0];
            while let Ok(1) = stream.read(&mut byte).await {
                stream.write_all(&byte).await.unwrap();
            }
        })
    }

    async fn echoes(mut stream: BoxStream, greeting: &[u8]) {
        let mut got = vec![0; greeting.len()];
        stream.read_exact(&mut got).await.unwrap();
        assert_eq!(got, greeting);
        stream.write_all(b"ping").await.unwrap();
        let mut got = [0; 4];
        stream.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"ping");
    }

    #[tokio::test]
    async fn http_connect_leaves_the_first_bytes_of_the_target() {
        let (socket, port) = listener().await;
        let ask = "CONNECT [fd00::1]:6443 HTTP/1.1\r\nHost: [fd00::1]:6443\r\n\
                   Proxy-Authorization: Basic bWU6cCB3\r\n\r\n";
        let answer = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nhello".to_vec();
        let server = play(socket, vec![(ask.into(), answer)]);
        let proxy = Proxy::parse(&format!("http://me:p%20w@127.0.0.1:{port}")).unwrap();
        echoes(proxy.dial(&Target::new("fd00::1", 6443)).await.unwrap(), b"hello").await;
        server.await.unwrap();
    }

    #[tokio::test]
    async fn http_connect_tells_why_not() {
        let (socket, port) = listener().await;
        let ask = "CONNECT a.b:1 HTTP/1.1\r\nHost: a.b:1\r\n\r\n";
        let _server = play(socket, vec![(ask.into(), b"HTTP/1.1 502 Bad Gateway\r\n\r\n".to_vec())]);
        let proxy = Proxy::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
        let error = proxy.dial(&Target::new("a.b", 1)).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(
            error.to_string(),
            format!("proxy 127.0.0.1:{port} does not connect to a.b:1: 502 Bad Gateway")
        );
    }

    #[tokio::test]
    async fn socks5_sends_names_unresolved_and_logs_in() {
        let (socket, port) = listener().await;
        let server = play(
            socket,
            vec![
                (vec![5, 2, 0, 2], vec![5, 2]),
                (b"\x01\x02me\x02pw".to_vec(), vec![1, 0]),
                (
                    b"\x05\x01\x00\x03\x09cp-1.home\xc3\x50".to_vec(),
                    b"\x05\x00\x00\x03\x01x\x00\x00hi".to_vec(),
                ),
            ],
        );
        let proxy = Proxy::parse(&format!("socks5://me:pw@127.0.0.1:{port}")).unwrap();
        echoes(proxy.dial(&Target::new("cp-1.home", 50000)).await.unwrap(), b"hi").await;
        server.await.unwrap();
        assert!(!format!("{proxy:?}").contains("pw"));
    }

    #[tokio::test]
    async fn socks5_failures_keep_their_kind() {
        for (code, kind) in [(5, io::ErrorKind::ConnectionRefused), (4, io::ErrorKind::HostUnreachable)] {
            let (socket, port) = listener().await;
            let _server = play(
                socket,
                vec![
                    (vec![5, 1, 0], vec![5, 0]),
                    (vec![5, 1, 0, 1, 10, 0, 0, 11, 0, 80], vec![5, code, 0, 1, 0, 0, 0, 0, 0, 0]),
                ],
            );
            let proxy = Proxy::parse(&format!("socks5h://127.0.0.1:{port}")).unwrap();
            assert_eq!(proxy.dial(&Target::new("10.0.0.11", 80)).await.err().unwrap().kind(), kind);
        }
    }

    #[tokio::test]
    async fn a_proxy_that_breaks_off_is_named() {
        let (socket, port) = listener().await;
        tokio::spawn(async move { drop(socket.accept().await) });
        let proxy = Proxy::parse(&format!("socks5://127.0.0.1:{port}")).unwrap();
        let error = proxy.dial(&Target::new("x", 1)).await.err().unwrap();
        assert!(error.to_string().contains("broke off while connecting to x:1"), "{error}");
    }

    #[test]
    fn texts_are_read_strictly() {
        assert_eq!(Proxy::parse("http://p").unwrap().target().to_string(), "p:3128");
        assert_eq!(Proxy::parse("http://p:80").unwrap().target().to_string(), "p:80");
        assert_eq!(Proxy::parse("socks5://[::1]").unwrap().target().to_string(), "[::1]:1080");
        assert_eq!(Proxy::parse("ftp://p").unwrap_err(), ProxyError::Scheme("ftp".into()));
        assert_eq!(Proxy::parse("p").unwrap_err(), ProxyError::NotAUrl);
        assert_eq!(Proxy::parse("socks5://u@p").unwrap_err(), ProxyError::Login);
    }
}
