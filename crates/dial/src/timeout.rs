//! Bounds the time that opening a stream may take.

use std::{io, time::Duration};

use crate::{Dial, Dialer, Dialing, Target};

/// Gives up on a dial after a while.
#[derive(Clone)]
pub struct Timeout {
    inner: Dialer,
    limit: Duration,
}

impl Timeout {
    /// Lets `inner` take at most `limit` for each stream.
    pub fn new(inner: Dialer, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

impl Dial for Timeout {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            match tokio::time::timeout(self.limit, self.inner.dial(target)).await {
                Ok(result) => result,
                Err(_) => {
                    let through =
                        self.inner.through().map(|who| format!(" through {who}")).unwrap_or_default();
                    let text = format!("no connection to {target}{through} within {:?}", self.limit);
                    Err(io::Error::new(io::ErrorKind::TimedOut, text))
                }
            }
        })
    }

    fn through(&self) -> Option<String> {
        self.inner.through()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Silent;
    impl Dial for Silent {
        fn dial<'a>(&'a self, _: &'a Target) -> Dialing<'a> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_given_up() {
        let began = tokio::time::Instant::now();
        let dial = Timeout::new(Arc::new(Silent), Duration::from_secs(3));
        let error = dial.dial(&Target::new("atlas", 8006)).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "no connection to atlas:8006 within 3s");
        assert_eq!(began.elapsed(), Duration::from_secs(3));
    }

    /// Whoever waits for a proxy is told that it is the proxy.
    #[tokio::test(start_paused = true)]
    async fn a_silent_proxy_is_named() {
        let proxy = crate::Proxy::parse("http://10.9.9.9:3128").unwrap().over(Arc::new(Silent));
        let dial = Timeout::new(Arc::new(proxy), Duration::from_secs(3));
        let error = dial.dial(&Target::new("atlas", 8006)).await.err().unwrap();
        assert_eq!(error.to_string(), "no connection to atlas:8006 through proxy 10.9.9.9:3128 within 3s");
    }
}
