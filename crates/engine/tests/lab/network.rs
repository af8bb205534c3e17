//! A network between the engine and the lab: far away, and silent about what is not there.

use std::time::Duration;

use daedal_dial::{BoxStream, Dial, Dialer, Dialing, Target};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

/// Connecting takes a round trip, bytes take half of one each way. Who dials where nobody listens hears nothing, ever:
/// his packet is lost.
pub struct Silent {
    pub near: Dialer,
    pub round_trip: Duration,
}

impl Dial for Silent {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            let one_way = self.round_trip / 2;
            tokio::time::sleep(one_way).await;
            let Ok(peer) = self.near.dial(target).await else { return std::future::pending().await };
            tokio::time::sleep(one_way).await;
            let (ours, far) = tokio::io::duplex(256 * 1024);
            let (from_us, to_us) = tokio::io::split(far);
            let (from_peer, to_peer) = tokio::io::split(peer);
            tokio::spawn(carry(from_us, to_peer, one_way));
            tokio::spawn(carry(from_peer, to_us, one_way));
            Ok(Box::new(ours) as BoxStream)
        })
    }
}

/// Carries bytes one way, each late by the same time, any number of them under way at once.
async fn carry(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin + Send + 'static,
    late: Duration,
) {
    let (sender, mut under_way) = tokio::sync::mpsc::unbounded_channel();
    let read = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if sender.send((Instant::now() + late, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = under_way.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
