//! A network that takes time: connecting takes a round trip, and bytes take half of one each way.

use std::time::Duration;

use daedal_dial::{BoxStream, Dial, Dialer, Dialing, Target};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

/// Dials through another dialer, from a distance.
pub struct Late {
    inner: Dialer,
    one_way: Duration,
}

impl Late {
    pub fn new(inner: Dialer, round_trip: Duration) -> Self {
        Self { inner, one_way: round_trip / 2 }
    }
}

impl Dial for Late {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            sleep(self.one_way).await;
            let dialed = self.inner.dial(target).await;
            sleep(self.one_way).await;
            let (near, far) = tokio::io::duplex(256 * 1024);
            let (from_us, to_us) = tokio::io::split(far);
            let (from_peer, to_peer) = tokio::io::split(dialed?);
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
        let mut buffer = vec![0; 16 * 1024];
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
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
