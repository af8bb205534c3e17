//! Ways to the node: straight, to another one from some moment on, slow.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use daedal_dial::{BoxStream, Dial, Dialing, Target};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    sync::mpsc,
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::ADDRESS;

/// A TLS stream that tonic's server takes.
pub(super) struct Accepted(pub(super) TlsStream<DuplexStream>);

impl Connected for Accepted {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Dials the node; any other address is refused.
pub struct ToNode(pub(super) mpsc::Sender<DuplexStream>);

impl Dial for ToNode {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            if target.host != ADDRESS {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            self.0.send(theirs).await.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(Box::new(ours) as BoxStream)
        })
    }
}

/// Dials one node until it is told to dial another; what was open then breaks.
pub struct Switch {
    ways: [Arc<ToNode>; 2],
    switched: tokio::sync::watch::Sender<bool>,
}

impl Switch {
    pub fn new(first: Arc<ToNode>, then: Arc<ToNode>) -> Arc<Self> {
        Arc::new(Self { ways: [first, then], switched: tokio::sync::watch::Sender::new(false) })
    }

    pub fn switch(&self) {
        self.switched.send_replace(true);
    }
}

impl Dial for Switch {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            let mut switched = self.switched.subscribe();
            let second = *switched.borrow_and_update();
            let mut far = self.ways[usize::from(second)].dial(target).await?;
            let (ours, mut near) = tokio::io::duplex(64 * 1024);
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    _ = switched.changed() => {}
                }
            });
            Ok(Box::new(ours) as BoxStream)
        })
    }
}

/// Dials the node by a way on which every write takes a second, and what was said meanwhile is read a moment after it.
pub struct Slow(Arc<ToNode>);

impl Slow {
    pub fn new(way: Arc<ToNode>) -> Arc<Self> {
        Arc::new(Self(way))
    }
}

impl Dial for Slow {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            let stream = self.0.dial(target).await?;
            Ok(Box::new(SlowStream { stream, writing: None, written: false, reader: None }) as BoxStream)
        })
    }
}

struct SlowStream {
    stream: BoxStream,
    writing: Option<Pin<Box<tokio::time::Sleep>>>,
    written: bool,
    reader: Option<Waker>,
}

impl AsyncRead for SlowStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.writing.is_some() {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if std::mem::take(&mut self.written) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for SlowStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let second = || Box::pin(tokio::time::sleep(std::time::Duration::from_secs(1)));
        ready!(self.writing.get_or_insert_with(second).as_mut().poll(cx));
        (self.writing, self.written) = (None, true);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
