//! A network that takes time: every dial and every answer is late by one round trip.

use std::time::Duration;

use daedal_dial::{BoxStream, Dial, Dialer, Dialing, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

/// Dials through another dialer and delays what comes back. The whole round trip is charged to the way back, which is
/// the same to a protocol of questions and answers.
pub struct Late {
    inner: Dialer,
    round_trip: Duration,
}

impl Late {
    pub fn new(inner: Dialer, round_trip: Duration) -> Self {
        Self { inner, round_trip }
    }
}

impl Dial for Late {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            sleep(self.round_trip).await;
            let stream = self.inner.dial(target).await?;
            let (near, far) = tokio::io::duplex(256 * 1024);
            relay(far, stream, self.round_trip);
            Ok(Box::new(near) as BoxStream)
        })
    }
}

fn relay(client: tokio::io::DuplexStream, server: BoxStream, round_trip: Duration) {
    let (mut client_reads, mut client_writes) = tokio::io::split(client);
    let (mut server_reads, mut server_writes) = tokio::io::split(server);
    let (queue, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut client_reads, &mut server_writes).await;
        let _ = server_writes.shutdown().await;
    });
    tokio::spawn(async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = server_reads.read(&mut buffer).await {
            let Some(chunk) = buffer.get(..length) else { break };
            if queue.send((Instant::now() + round_trip, chunk.to_vec())).is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        while let Some((at, chunk)) = due.recv().await {
            sleep_until(at).await;
            if client_writes.write_all(&chunk).await.is_err() {
                return;
            }
        }
        let _ = client_writes.shutdown().await;
    });
}
