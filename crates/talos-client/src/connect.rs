//! Connections to a node, and the one way that every call takes.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use daedal_dial::{Dialer, Target};
use daedal_talos_config::{ClientCredentials, pki};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tonic::{
    Request, Response, Status,
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};

use crate::{
    Error, Result,
    failure::{Failure, FailureKind},
    proto::{
        cluster::cluster_service_client::ClusterServiceClient,
        cosi::state_client::StateClient,
        machine::{
            image_service_client::ImageServiceClient, lifecycle_service_client::LifecycleServiceClient,
            machine_service_client::MachineServiceClient,
        },
        storage::storage_service_client::StorageServiceClient,
    },
    tls::{self, Clock, LastFault, NodeDialer, Seen},
};

/// How often a connection is tried while calls are under way. Nodes hang up on who asks more often than every five
/// minutes; what must be noticed sooner is asked for by a small call.
const PING: Duration = Duration::from_secs(330);
/// How long the answer to that may take.
const PONG: Duration = Duration::from_secs(20);

/// Nodes send messages of up to this size.
const MAX_MESSAGE: usize = 32 * 1024 * 1024;

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// How long dialling and the handshake may take.
    pub connect_timeout: Duration,
    /// How long a call may take. Streams are not limited by it once they have begun.
    pub call_timeout: Duration,
    /// The node that calls are for, if the endpoint is to pass them on; only control planes do.
    pub node: Option<String>,
    /// Another clock than the machine's to judge certificates by.
    pub clock: Option<Clock>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(20),
            node: None,
            clock: None,
        }
    }
}

/// A client of one node, or of one node through another. Cheap to clone; clones share the connection, which comes
/// back by itself after a break.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    endpoint: Target,
    pub(crate) node: Option<String>,
    pub(crate) call_timeout: Duration,
    fault: LastFault,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.endpoint).field("node", &self.node).finish()
    }
}

impl Client {
    /// Connects with mutual TLS.
    pub async fn connect(
        dialer: Dialer,
        endpoint: Target,
        credentials: &ClientCredentials,
        options: &ConnectOptions,
    ) -> Result<Self> {
        let config = tls::mutual(credentials, options.clock.as_ref())?;
        Self::open(dialer, endpoint, config, options).await
    }

    /// Connects to a node in maintenance mode, which knows no client certificates. With a pin, only a node with that
    /// public key is spoken to; without, whoever answers. Returns the key's fingerprint, so that it can be pinned.
    pub async fn connect_maintenance(
        dialer: Dialer,
        endpoint: Target,
        pin: Option<&str>,
        options: &ConnectOptions,
    ) -> Result<(Self, String)> {
        let (config, seen) = tls::without_identity(pin, options.clock.as_ref())?;
        let client = Self::open(dialer, endpoint.clone(), config, options).await?;
        let certificate = seen_certificate(&seen).ok_or_else(|| {
            failed("connect", &endpoint, Failure::new(FailureKind::Tls, "the node showed no certificate"))
        })?;
        Ok((client, pki::spki_fingerprint(&certificate)?))
    }

    pub(crate) async fn open(
        dialer: Dialer,
        endpoint: Target,
        config: Arc<ClientConfig>,
        options: &ConnectOptions,
    ) -> Result<Self> {
        let fault = LastFault::default();
        let node = NodeDialer { dialer, target: endpoint.clone(), config, fault: fault.clone() };
        // The scheme is plain for tonic, because TLS is our own; nodes look at neither scheme nor authority.
        let transport = Endpoint::from_shared(format!("http://{endpoint}"))
            .map_err(|error| failed("connect", &endpoint, Failure::new(FailureKind::Invalid, error)))?
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PONG);
        let connector = tower::service_fn(move |_| {
            let node = node.clone();
            async move { node.connect().await.map(TokioIo::new) }
        });
        let connecting = transport.connect_with_connector(connector);
        let channel = match tokio::time::timeout(options.connect_timeout, connecting).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => {
                let failure = fault.get().unwrap_or_else(|| Failure::new(FailureKind::Unreachable, error));
                return Err(failed("connect", &endpoint, failure));
            }
            Err(_) => {
                let failure = Failure::new(FailureKind::Unreachable, "the deadline has passed");
                return Err(failed("connect", &endpoint, failure));
            }
        };
        Ok(Self { channel, endpoint, node: options.node.clone(), call_timeout: options.call_timeout, fault })
    }

    /// The same connection, with calls passed on to another node.
    pub fn for_node(&self, node: impl Into<String>) -> Self {
        Self { node: Some(node.into()), ..self.clone() }
    }

    /// The address connected to.
    pub fn endpoint(&self) -> &Target {
        &self.endpoint
    }

    /// The generated client of the machine service, for calls that have no function here.
    pub fn machine(&self) -> MachineServiceClient<Channel> {
        MachineServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// The generated client of the resource service.
    pub fn state(&self) -> StateClient<Channel> {
        StateClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// The generated client of the cluster service.
    pub fn cluster(&self) -> ClusterServiceClient<Channel> {
        ClusterServiceClient::new(self.channel.clone())
    }

    /// The generated client of the storage service.
    pub fn storage(&self) -> StorageServiceClient<Channel> {
        StorageServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// The generated client of the lifecycle service (Talos 1.13).
    pub fn lifecycle(&self) -> LifecycleServiceClient<Channel> {
        LifecycleServiceClient::new(self.channel.clone())
    }

    /// The generated client of the image service (Talos 1.13).
    pub fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel.clone())
    }

    /// A request with the header that passes it on to the chosen node.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        // A node's name or address is plain ASCII; anything else could not be a node.
        if let Some(Ok(value)) = self.node.as_deref().map(MetadataValue::try_from) {
            request.metadata_mut().insert("node", value);
        }
        request
    }

    /// Waits for a reply within the call's deadline and says what a failure means.
    pub async fn call<T>(
        &self,
        operation: &'static str,
        reply: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T> {
        self.call_within(operation, self.call_timeout, reply).await
    }

    /// The same with a deadline of its own, for calls that take their time.
    pub(crate) async fn call_within<T>(
        &self,
        operation: &'static str,
        patience: Duration,
        reply: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T> {
        let result = match tokio::time::timeout(patience, reply).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failed(operation, self.of_status(&status))),
            Err(_) => Err(self.failed(operation, Failure::timeout())),
        };
        let failure = result.as_ref().err().and_then(Error::kind);
        tracing::debug!(operation, endpoint = %self.endpoint, node = self.node, ?failure, "talos call");
        result
    }

    /// An error of this client's node.
    pub(crate) fn failed(&self, operation: &'static str, failure: Failure) -> Error {
        match &self.node {
            Some(node) => {
                Error::Call { operation, node: node.clone(), kind: failure.kind, source: failure.cause }
            }
            None => failed(operation, &self.endpoint, failure),
        }
    }

    pub(crate) fn of_status(&self, status: &Status) -> Failure {
        // A status with a source was made on this side: the connection failed, not the call.
        if std::error::Error::source(status).is_some() {
            if let Some(failure) = self.fault.get() {
                return failure;
            }
            if status.code() != tonic::Code::DeadlineExceeded {
                return Failure::new(FailureKind::Unreachable, ConnectionBroke(status.message().to_owned()));
            }
        }
        Failure::of_code(status.code(), status.message())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the connection broke ({0})")]
struct ConnectionBroke(String);

pub(crate) fn seen_certificate(seen: &Seen) -> Option<rustls_pki_types::CertificateDer<'static>> {
    seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

pub(crate) fn failed(operation: &'static str, endpoint: &Target, failure: Failure) -> Error {
    Error::Call { operation, node: endpoint.to_string(), kind: failure.kind, source: failure.cause }
}
