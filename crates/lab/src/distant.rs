//! Distance between a client and the lab.

use std::time::Duration;

use daedal_dial::{BoxStream, Dial, Dialer, Dialing, Target};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

/// Dials through another dialer from afar: connecting takes a round trip, bytes take half of one each way.
pub struct Distant {
    near: Dialer,
    one_way: Duration,
    silent: bool,
}

impl Distant {
    /// So far away.
    pub fn new(near: Dialer, round_trip: Duration) -> Self {
        Self { near, one_way: round_trip / 2, silent: false }
    }

    /// Who dials where nobody listens hears nothing, ever: his packet is lost.
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }
}

impl Dial for Distant {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            sleep(self.one_way).await;
            let dialled = self.near.dial(target).await;
            if dialled.is_err() && self.silent {
                return std::future::pending().await;
            }
            sleep(self.one_way).await;
            let (near, far) = tokio::io::duplex(256 * 1024);
            let (from_us, to_us) = tokio::io::split(far);
            let (from_peer, to_peer) = tokio::io::split(dialled?);
            tokio::spawn(carry(from_us, to_peer, self.one_way));
            tokio::spawn(carry(from_peer, to_us, self.one_way));
            Ok(Box::new(near) as BoxStream)
        })
    }
}

/// Carries bytes one way, each late by the same time, any number of them under way at once.
async fn carry(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin + Send + 'static,
    late: Duration,
) {
    let (queue, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let Some(chunk) = buffer.get(..length) else { break };
            if queue.send((Instant::now() + late, chunk.to_vec())).is_err() {
                break;
            }
        }
    };
    let write = async move {
        while let Some((due, chunk)) = under_way.recv().await {
            sleep_until(due).await;
            if to.write_all(&chunk).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
