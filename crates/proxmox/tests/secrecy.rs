//! The token's secret is in no error, log line or debug output. Alone in its program: what is logged is decided once for all
//! threads, and a place in the code that another thread comes to first may log nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, reason = "helpers of tests")]

mod support;

use std::sync::{Arc, Mutex};

use daedal_proxmox::Kind;
use support::{Act, SECRET, Server, answer};

/// Collects everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn the_secret_appears_nowhere() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let server = Server::new(|wire| match wire.method.as_str() {
        "GET" => answer(401, "Authentication failed!", ""),
        _ => Act::Cut(String::new()),
    });
    let client = server.client();
    let lost = client.start_vm("atlas", 300).await.unwrap_err();
    let auth = client.version().await.unwrap_err();
    drop(guard);
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("call failed"), "{logged}");
    for text in
        [logged, format!("{client:?} {lost:?} {lost:#} {auth:?} {auth}"), server.seen()[0].target.clone()]
    {
        assert!(!text.contains(SECRET), "{text}");
    }
    assert!(matches!(auth.kind(), Kind::Auth { .. }));
    assert!(server.seen()[0].head.contains(SECRET), "the test would notice");
}
