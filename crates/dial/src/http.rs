//! One HTTP/1.1 connection over any dialer.

use std::{io, sync::Arc};

use hyper::{
    body::Body,
    client::conn::http1::{self, SendRequest},
};
use rustls::ClientConfig;

use crate::{Dial, Io, Target, server_name, tls_connect};

/// Opens a connection to a target, with TLS if a configuration for it is given. The server must then be the target's
/// host. The connection lives for as long as its sender.
pub async fn http1<B>(
    dialer: &dyn Dial,
    target: &Target,
    tls: Option<Arc<ClientConfig>>,
) -> io::Result<SendRequest<B>>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = dialer.dial(target).await?;
    let io = match tls {
        Some(config) => Io::new(Box::new(tls_connect(stream, server_name(&target.host)?, config).await?)),
        None => Io::new(stream),
    };
    let (sender, connection) = http1::handshake(io)
        .await
        .map_err(|error| io::Error::new(io::ErrorKind::ConnectionAborted, error))?;
    tokio::spawn(async move {
        // Its error reaches whoever waits for an answer on it.
        let _ = connection.await;
    });
    Ok(sender)
}
