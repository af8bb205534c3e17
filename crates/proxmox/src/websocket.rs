//! The little of WebSocket (RFC 6455) that a console needs: the client's side of the handshake, and frames.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use std::io;

/// Payloads of a console are small; anything larger is not one.
const LONGEST: u64 = 1 << 20;
const LONGEST_HEAD: usize = 16 << 10;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// One end of an open WebSocket. What is sent is masked with zeros: over TLS the mask protects nothing.
pub(crate) struct WebSocket<S> {
    stream: S,
    read: BytesMut,
}

/// How the server took the handshake.
pub(crate) enum Handshake<S> {
    /// It speaks WebSocket from here on.
    Open(WebSocket<S>),
    /// It answered something else: status and reason phrase.
    Refused(u16, String),
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Asks for an upgrade with these headers (without their last line end).
    pub(crate) async fn open(mut stream: S, uri: &str, headers: &str) -> io::Result<Handshake<S>> {
        // The key proves to nobody but a confused cache that this is a WebSocket; any sixteen bytes do.
        let request = format!(
            "GET {uri} HTTP/1.1\r\n{headers}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: \
             13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: binary\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut read = BytesMut::new();
        let end = loop {
            if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if read.len() > LONGEST_HEAD || stream.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let head = read.split_to(end + 4);
        let head = String::from_utf8_lossy(&head);
        let mut first = head.lines().next().unwrap_or_default().splitn(3, ' ').skip(1);
        let status = first.next().and_then(|status| status.parse().ok()).unwrap_or(0);
        if status == 101 {
            return Ok(Handshake::Open(Self { stream, read }));
        }
        Ok(Handshake::Refused(status, first.next().unwrap_or_default().trim().to_owned()))
    }

    /// Sends bytes as one frame.
    pub(crate) async fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        self.frame(BINARY, payload).await
    }

    async fn frame(&mut self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![0x80 | opcode];
        match u16::try_from(payload.len()) {
            Ok(short) if short < 126 => frame.push(0x80 | payload.len() as u8),
            Ok(short) => {
                frame.push(0x80 | 126);
                frame.extend(short.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 127);
                frame.extend((payload.len() as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(payload);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await
    }

    /// The next bytes from the other side; none once it has closed. Dropping the future loses nothing.
    pub(crate) async fn receive(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some((opcode, payload)) = self.take_frame()? {
                match opcode {
                    0 | TEXT | BINARY => return Ok(Some(payload)),
                    CLOSE => return Ok(None),
                    PING => self.frame(PONG, &payload).await?,
                    PONG => {}
                    other => return Err(io::Error::other(format!("a frame of unknown kind {other}"))),
                }
                continue;
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// A whole frame of what was read, if there is one.
    fn take_frame(&mut self) -> io::Result<Option<(u8, Bytes)>> {
        let read = &self.read[..];
        let [first, second, ..] = *read else { return Ok(None) };
        let (length, mut at) = match second & 0x7f {
            126 => match read.get(2..4) {
                Some(&[a, b]) => (u64::from(u16::from_be_bytes([a, b])), 4),
                _ => return Ok(None),
            },
            127 => match read.get(2..10).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()) {
                Some(bytes) => (u64::from_be_bytes(bytes), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        if length > LONGEST {
            return Err(io::Error::other(format!("a frame of {length} bytes")));
        }
        let mask = match second & 0x80 {
            0 => None,
            _ => {
                at += 4;
                match read.get(at - 4..at).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) {
                    Some(mask) => Some(mask),
                    None => return Ok(None),
                }
            }
        };
        let length = length as usize;
        if read.len() < at + length {
            return Ok(None);
        }
        self.read.advance(at);
        let mut payload = self.read.split_to(length);
        if let Some(mask) = mask {
            payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        }
        Ok(Some((first & 0x0f, payload.freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pair(sent: &[u8]) -> WebSocket<tokio::io::DuplexStream> {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        far.write_all(sent).await.unwrap();
        drop(far);
        WebSocket { stream: near, read: BytesMut::new() }
    }

    #[tokio::test]
    async fn frames_of_every_length_are_read() {
        let mut sent = vec![0x82, 3, b'a', b'b', b'c', 0x81, 126, 1, 0];
        sent.extend([b'x'; 256]);
        sent.extend([0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        sent.extend([b'y'; 65_536]);
        // Masked, as only clients do, and a pong that nobody asked for.
        sent.extend([0x8a, 0, 0x82, 0x81, 1, 2, 3, 4, b'z' ^ 1, 0x88, 0]);
        let mut socket = pair(&sent).await;
        for (length, byte) in [(3, b'a'), (256, b'x'), (65_536, b'y'), (1, b'z')] {
            let got = socket.receive().await.unwrap().unwrap();
            assert_eq!((got.len(), got[0]), (length, byte));
        }
        assert_eq!(socket.receive().await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_breaks_off_ends_and_what_is_huge_is_refused() {
        assert_eq!(pair(&[0x82, 5, 1]).await.receive().await.unwrap(), None);
        assert!(pair(&[0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0]).await.receive().await.is_err());
    }
}
