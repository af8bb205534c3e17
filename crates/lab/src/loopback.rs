//! Serves the lab's addresses that lie inside 127.0.0.0/8 on those very addresses, for programs that know no proxy.

use std::collections::HashMap;
use std::net::IpAddr;

use daedal_dial::{Dial as _, Target, relay};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::Fabric;
use crate::activity::Activity;

/// Follows the fabric for ever: listens where a service came up, stops where one went.
pub async fn serve(fabric: Fabric, activity: Activity) {
    let mut changes = fabric.changes();
    let mut listening: HashMap<Target, JoinHandle<()>> = HashMap::new();
    loop {
        let wanted: Vec<Target> = fabric.targets().into_iter().filter(|t| loopback(t).is_some()).collect();
        listening.retain(|target, task| {
            let stays = wanted.contains(target) && !task.is_finished();
            if !stays {
                task.abort();
            }
            stays
        });
        for target in wanted {
            let Some(ip) = loopback(&target) else { continue };
            if listening.contains_key(&target) {
                continue;
            }
            match TcpListener::bind((ip, target.port)).await {
                Ok(listener) => {
                    let task =
                        tokio::spawn(accept(listener, target.clone(), fabric.clone(), activity.clone()));
                    listening.insert(target, task);
                }
                Err(error) => {
                    tracing::warn!(%target, %error, "cannot listen on a loopback address of the lab");
                }
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn loopback(target: &Target) -> Option<IpAddr> {
    let ip: IpAddr = target.host.parse().ok()?;
    ip.is_loopback().then_some(ip)
}

async fn accept(listener: TcpListener, target: Target, fabric: Fabric, activity: Activity) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let (fabric, target, busy) = (fabric.clone(), target.clone(), activity.begin());
        tokio::spawn(async move {
            let _busy = busy;
            if let Ok(service) = fabric.dial(&target).await {
                let _ = relay(stream, service).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_loopback_service_is_there_while_it_is_there() {
        let fabric = Fabric::default();
        tokio::spawn(serve(fabric.clone(), Activity::default()));
        let hello = |mut stream: daedal_dial::BoxStream| {
            tokio::spawn(async move { stream.write_all(b"hi").await });
        };
        fabric.listen(Target::new("10.0.0.11", 50000), Arc::new(hello));
        // Somebody else on this machine may take a port that was free a moment ago: then another one is tried.
        let (mut stream, target, port) = loop {
            let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
            let target = Target::new("127.0.0.1", port);
            fabric.listen(target.clone(), Arc::new(hello));
            tokio::time::sleep(Duration::from_millis(50)).await;
            if let Ok(stream) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
                break (stream, target, port);
            }
            fabric.close(&target);
        };
        let mut word = [0; 2];
        stream.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"hi");
        fabric.close(&target);
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
