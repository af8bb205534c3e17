//! A forwarded connection as a byte stream that tells a loss from an end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, ReusableBoxFuture, WaitForCancellationFutureOwned};

use crate::Error;

type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// One forwarded connection. Dropping it closes the channel.
pub(crate) struct Forwarded {
    next: ReusableBoxFuture<'static, (Option<ChannelMsg>, ChannelReadHalf)>,
    rest: Bytes,
    reading: Reading,
    writer: Writer,
    is_shut: bool,
    half: Option<ChannelWriteHalf<Msg>>,
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
    login: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    /// The other side said that this is all.
    Ended,
    /// The connection went away without a word.
    Lost,
}

async fn next(mut half: ChannelReadHalf) -> (Option<ChannelMsg>, ChannelReadHalf) {
    (half.wait().await, half)
}

impl Forwarded {
    pub(crate) fn new(channel: Channel<Msg>, lost: CancellationToken, login: String) -> Self {
        let (read, write) = channel.split();
        Self {
            next: ReusableBoxFuture::new(next(read)),
            rest: Bytes::new(),
            reading: Reading::Open,
            writer: Box::new(write.make_writer()),
            is_shut: false,
            half: Some(write),
            lost: Box::pin(lost.cancelled_owned()),
            login,
        }
    }

    fn reset(&self) -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionReset, Error::Lost { login: self.login.clone() })
    }

    /// Whoever waits to write would wait for ever once the connection is gone.
    fn unless_lost<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match written {
            Poll::Pending => match self.lost.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(self.reset())),
                Poll::Pending => Poll::Pending,
            },
            Poll::Ready(Err(_)) => Poll::Ready(Err(self.reset())),
            done => done,
        }
    }
}

impl AsyncRead for Forwarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.rest.is_empty() {
                let take = self.rest.len().min(buf.remaining());
                buf.put_slice(&self.rest[..take]);
                self.rest.advance(take);
                return Poll::Ready(Ok(()));
            }
            match self.reading {
                Reading::Ended => return Poll::Ready(Ok(())),
                Reading::Lost => return Poll::Ready(Err(self.reset())),
                Reading::Open => {}
            }
            let (message, half) = ready!(self.next.poll(cx));
            self.next.set(next(half));
            match message {
                Some(ChannelMsg::Data { data }) => self.rest = data,
                Some(ChannelMsg::Eof | ChannelMsg::Close) => self.reading = Reading::Ended,
                Some(_) => {}
                None => self.reading = Reading::Lost,
            }
        }
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let written = Pin::new(&mut self.writer).poll_write(cx, buf);
        self.unless_lost(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.writer).poll_flush(cx);
        self.unless_lost(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_shut {
            return Poll::Ready(Ok(()));
        }
        let shut = Pin::new(&mut self.writer).poll_shutdown(cx);
        let shut = self.unless_lost(cx, shut);
        self.is_shut = shut.is_ready();
        shut
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        // A channel that is only forgotten stays open on the server.
        if let (Some(half), Ok(runtime)) = (self.half.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let _ = half.close().await;
            });
        }
    }
}
