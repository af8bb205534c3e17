//! The way into the lab for programs outside its process.
//!
//! It dials into the fabric and nowhere else: what the lab does not know is refused, never forwarded.

use std::sync::Arc;

use daedal_dial::serve_proxy;
use tokio::net::TcpListener;

use crate::Fabric;
use crate::activity::Activity;

/// Serves for ever.
pub async fn serve(listener: TcpListener, fabric: Fabric, activity: Activity) {
    serve_proxy(listener, Arc::new(fabric), move || activity.begin()).await;
}

#[cfg(test)]
mod tests {
    use daedal_dial::{Dial as _, Proxy, Target};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn lab_with_an_echo() -> (std::net::SocketAddr, Activity) {
        let fabric = Fabric::default();
        let echo = |mut stream: daedal_dial::BoxStream| {
            tokio::spawn(async move {
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                stream.write_all(&word).await.unwrap();
            });
        };
        fabric.listen(Target::new("atlas.lan", 8006), Arc::new(echo));
        fabric.listen(Target::new("10.0.0.11", 50000), Arc::new(echo));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let activity = Activity::default();
        tokio::spawn(serve(listener, fabric, activity.clone()));
        (address, activity)
    }

    #[tokio::test]
    async fn both_protocols_lead_into_the_fabric() {
        let (address, activity) = lab_with_an_echo().await;
        for scheme in ["http", "socks5"] {
            let proxy = Proxy::parse(&format!("{scheme}://{address}")).unwrap();
            for target in [Target::new("atlas.lan", 8006), Target::new("10.0.0.11", 50000)] {
                let mut stream = proxy.dial(&target).await.unwrap();
                stream.write_all(b"ping").await.unwrap();
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                assert_eq!(&word, b"ping", "{scheme} to {target}");
            }
        }
        assert_eq!(activity.total(), 4);
    }

    #[tokio::test]
    async fn what_the_lab_does_not_know_is_refused() {
        let (address, _) = lab_with_an_echo().await;
        for scheme in ["http", "socks5"] {
            let proxy = Proxy::parse(&format!("{scheme}://{address}")).unwrap();
            let refused = proxy.dial(&Target::new("127.0.0.1", address.port())).await.err().unwrap();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{scheme}");
        }
    }
}
