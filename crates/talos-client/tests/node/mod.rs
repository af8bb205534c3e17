//! A small node for tests: the real protocol over in-memory streams.

mod services;
mod ways;

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex},
};

use daedal_talos_client::proto::{cluster, common, cosi, machine, storage};
use daedal_talos_config::{
    ApiRole, ClientCredentials, DEFAULT_LIFETIME, SecretsBundle,
    pki::{CertificateAuthority, KeyKind, Leaf, SubjectName, Usage},
};
use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use rand::{SeedableRng, rngs::StdRng};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use tokio::sync::{broadcast, mpsc};
use tokio_rustls::TlsAcceptor;
use tonic::{Request, Response, Status};

use self::ways::Accepted;
pub use self::ways::{Slow, Switch, ToNode};

pub const ADDRESS: &str = "10.0.0.11";

pub fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

pub fn bundle(seed: u64) -> SecretsBundle {
    SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(seed), now(), 512).unwrap()
}

pub fn admin(bundle: &SecretsBundle) -> ClientCredentials {
    bundle.client_credentials(ApiRole::Admin, DEFAULT_LIFETIME, &mut StdRng::seed_from_u64(1), now()).unwrap()
}

/// What the node does and has seen.
pub struct World {
    pub stage: Mutex<String>,
    pub bootstrapped: Mutex<bool>,
    pub nodes: Mutex<Vec<String>>,
    pub changes: broadcast::Sender<String>,
    pub silent: Mutex<bool>,
    /// What was asked: the call and the bytes of its request.
    pub asked: Mutex<Vec<(&'static str, Vec<u8>)>>,
    /// Resources that a whole type is watched with: version and contents by id.
    pub resources: Mutex<BTreeMap<String, (u32, String)>>,
    pub happenings: broadcast::Sender<cosi::Event>,
}

impl World {
    /// Keeps the bytes of a request as they were on the wire.
    pub fn note(&self, call: &'static str, message: &impl prost::Message) {
        self.asked.lock().unwrap().push((call, message.encode_to_vec()));
    }

    /// What was asked since the last time.
    pub fn asked(&self) -> Vec<(&'static str, Vec<u8>)> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Changes a resource and tells who watches.
    pub fn set(&self, id: &str, version: u32, yaml: &str) {
        let known = self.resources.lock().unwrap().insert(id.into(), (version, yaml.into())).is_some();
        let kind = if known { cosi::EventType::Updated } else { cosi::EventType::Created };
        let _ = self.happenings.send(happening(kind, id, version, yaml));
    }

    /// Ends every watch of a whole type with the words of COSI for a reader that is too slow.
    pub fn overrun(&self) {
        let why = "buffer overrun: namespace \"network\" type \"LinkStatuses.net.talos.dev\", write pos 900, pos 1, capacity 100";
        let errored = cosi::EventType::Errored.into();
        let _ = self.happenings.send(cosi::Event {
            event_type: errored,
            error: Some(why.into()),
            ..Default::default()
        });
    }
}

fn happening(kind: cosi::EventType, id: &str, version: u32, yaml: &str) -> cosi::Event {
    let metadata = cosi::Metadata { id: id.into(), version: version.to_string(), ..Default::default() };
    let spec = cosi::Spec { proto_spec: Vec::new(), yaml_spec: yaml.into() };
    let resource = cosi::Resource { metadata: Some(metadata), spec: Some(spec) };
    cosi::Event { resource: Some(resource), event_type: kind.into(), ..Default::default() }
}

#[derive(Clone)]
pub struct Node(pub Arc<World>);

type Reply<T> = Result<Response<T>, Status>;
type Replying<'f, T> = Pin<Box<dyn Future<Output = Reply<T>> + Send + 'f>>;
type Out<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

macro_rules! absent {
    ($($name:ident: $request:ty => $reply:ty),* $(,)?) => {
        $(fn $name<'s, 'f>(&'s self, _: Request<$request>) -> Replying<'f, $reply>
        where
            's: 'f,
            Self: 'f,
        {
            Box::pin(async { Err(Status::unimplemented("API is not implemented in maintenance mode")) })
        })*
    };
}

macro_rules! absent_streams {
    ($($name:ident: $request:ty => $stream:ident),* $(,)?) => {
        $(fn $name<'s, 'f>(&'s self, _: Request<$request>) -> Replying<'f, Self::$stream>
        where
            's: 'f,
            Self: 'f,
        {
            Box::pin(async { Err(Status::unimplemented("no")) })
        })*
    };
}

#[tonic::async_trait]
impl machine::machine_service_server::MachineService for Node {
    type KubeconfigStream = Out<common::Data>;
    type EtcdSnapshotStream = Out<common::Data>;
    type EventsStream = Out<machine::Event>;
    type LogsStream = Out<common::Data>;
    type DmesgStream = Out<common::Data>;
    type ReadStream = Out<common::Data>;
    type ListStream = Out<machine::FileInfo>;
    type ImageListStream = Out<machine::ImageListResponse>;

    async fn version(&self, request: Request<()>) -> Reply<machine::VersionResponse> {
        if let Some(node) = request.metadata().get("node") {
            let node = node.to_str().unwrap().to_owned();
            let failed = node == "10.0.0.99";
            self.0.nodes.lock().unwrap().push(node);
            if failed {
                let metadata = common::Metadata { error: "connection refused".into(), ..Default::default() };
                let message = machine::Version { metadata: Some(metadata), ..Default::default() };
                return Ok(Response::new(machine::VersionResponse { messages: vec![message] }));
            }
        }
        if *self.0.silent.lock().unwrap() {
            futures::future::pending::<()>().await;
        }
        let version = machine::VersionInfo { tag: "v1.12.0".into(), ..Default::default() };
        let message = machine::Version { version: Some(version), ..Default::default() };
        Ok(Response::new(machine::VersionResponse { messages: vec![message] }))
    }

    async fn bootstrap(&self, _: Request<machine::BootstrapRequest>) -> Reply<machine::BootstrapResponse> {
        if std::mem::replace(&mut *self.0.bootstrapped.lock().unwrap(), true) {
            return Err(Status::already_exists("etcd data directory is not empty"));
        }
        Ok(Response::new(machine::BootstrapResponse { messages: vec![machine::Bootstrap::default()] }))
    }

    async fn kubeconfig(&self, _: Request<()>) -> Reply<Self::KubeconfigStream> {
        let mut archive =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(17);
        header.set_mode(0o600);
        archive.append_data(&mut header, "kubeconfig", &b"apiVersion: v1\n#\n"[..]).unwrap();
        let bytes = archive.into_inner().unwrap().finish().unwrap();
        let parts: Vec<_> =
            bytes.chunks(50).map(|part| Ok(common::Data { metadata: None, bytes: part.to_vec() })).collect();
        Ok(Response::new(Box::pin(futures::stream::iter(parts))))
    }

    async fn reboot(&self, request: Request<machine::RebootRequest>) -> Reply<machine::RebootResponse> {
        self.0.note("Reboot", request.get_ref());
        let message = machine::Reboot { actor_id: "reboot-1".into(), ..Default::default() };
        Ok(Response::new(machine::RebootResponse { messages: vec![message] }))
    }

    async fn reset(&self, request: Request<machine::ResetRequest>) -> Reply<machine::ResetResponse> {
        self.0.note("Reset", request.get_ref());
        let message = machine::Reset { actor_id: "reset-1".into(), ..Default::default() };
        Ok(Response::new(machine::ResetResponse { messages: vec![message] }))
    }

    async fn logs(&self, request: Request<machine::LogsRequest>) -> Reply<Self::LogsStream> {
        self.0.note("Logs", request.get_ref());
        let parts = [b"one\n".to_vec(), b"two\n".to_vec()];
        let parts = parts.map(|bytes| Ok(common::Data { metadata: None, bytes }));
        Ok(Response::new(Box::pin(futures::stream::iter(parts))))
    }

    async fn etcd_downgrade_validate(
        &self,
        request: Request<machine::EtcdDowngradeValidateRequest>,
    ) -> Reply<machine::EtcdDowngradeValidateResponse> {
        self.0.note("EtcdDowngradeValidate", request.get_ref());
        if request.get_ref().version != "3.5" {
            return Err(Status::invalid_argument("etcdserver: invalid downgrade target version"));
        }
        let message =
            machine::EtcdDowngradeValidate { metadata: None, cluster_downgrade: Some(services::cluster()) };
        Ok(Response::new(machine::EtcdDowngradeValidateResponse { messages: vec![message] }))
    }

    async fn etcd_downgrade_enable(
        &self,
        request: Request<machine::EtcdDowngradeEnableRequest>,
    ) -> Reply<machine::EtcdDowngradeEnableResponse> {
        self.0.note("EtcdDowngradeEnable", request.get_ref());
        let message =
            machine::EtcdDowngradeEnable { metadata: None, cluster_downgrade: Some(services::cluster()) };
        Ok(Response::new(machine::EtcdDowngradeEnableResponse { messages: vec![message] }))
    }

    async fn etcd_downgrade_cancel(&self, _: Request<()>) -> Reply<machine::EtcdDowngradeCancelResponse> {
        self.0.note("EtcdDowngradeCancel", &());
        let message =
            machine::EtcdDowngradeCancel { metadata: None, cluster_downgrade: Some(services::cluster()) };
        Ok(Response::new(machine::EtcdDowngradeCancelResponse { messages: vec![message] }))
    }

    async fn etcd_status(&self, _: Request<()>) -> Reply<machine::EtcdStatusResponse> {
        if *self.0.stage.lock().unwrap() != "etcd runs" {
            return Err(Status::failed_precondition("etcd is not running"));
        }
        // By the numbers of its fields, as Talos sends it.
        let mut wire =
            [&[0x0a, 5][..], b"3.6.5", &[0x10, 50, 0x18, 20, 0x20, 7, 0x50, 9, 0x5a, 3], b"3.6"].concat();
        wire.extend([0x48, 1]);
        let member_status = prost::Message::decode(wire.as_slice()).unwrap();
        let message = machine::EtcdStatus { metadata: None, member_status: Some(member_status) };
        Ok(Response::new(machine::EtcdStatusResponse { messages: vec![message] }))
    }

    absent! {
        apply_configuration: machine::ApplyConfigurationRequest => machine::ApplyConfigurationResponse,
        generate_client_configuration: machine::GenerateClientConfigurationRequest => machine::GenerateClientConfigurationResponse,
        shutdown: machine::ShutdownRequest => machine::ShutdownResponse,
        upgrade: machine::UpgradeRequest => machine::UpgradeResponse,
        rollback: machine::RollbackRequest => machine::RollbackResponse,
        meta_write: machine::MetaWriteRequest => machine::MetaWriteResponse,
        meta_delete: machine::MetaDeleteRequest => machine::MetaDeleteResponse,
        etcd_member_list: machine::EtcdMemberListRequest => machine::EtcdMemberListResponse,
        etcd_remove_member_by_id: machine::EtcdRemoveMemberByIdRequest => machine::EtcdRemoveMemberByIdResponse,
        etcd_leave_cluster: machine::EtcdLeaveClusterRequest => machine::EtcdLeaveClusterResponse,
        etcd_forfeit_leadership: machine::EtcdForfeitLeadershipRequest => machine::EtcdForfeitLeadershipResponse,
        etcd_recover: tonic::Streaming<common::Data> => machine::EtcdRecoverResponse,
        etcd_alarm_list: () => machine::EtcdAlarmListResponse,
        etcd_alarm_disarm: () => machine::EtcdAlarmDisarmResponse,
        etcd_defragment: () => machine::EtcdDefragmentResponse,
        service_list: () => machine::ServiceListResponse,
        service_start: machine::ServiceStartRequest => machine::ServiceStartResponse,
        service_stop: machine::ServiceStopRequest => machine::ServiceStopResponse,
        service_restart: machine::ServiceRestartRequest => machine::ServiceRestartResponse,
        logs_containers: () => machine::LogsContainersResponse,
        containers: machine::ContainersRequest => machine::ContainersResponse,
        image_pull: machine::ImagePullRequest => machine::ImagePullResponse,
        hostname: () => machine::HostnameResponse,
        memory: () => machine::MemoryResponse,
        load_avg: () => machine::LoadAvgResponse,
        system_stat: () => machine::SystemStatResponse,
        mounts: () => machine::MountsResponse,
    }

    absent_streams! {
        etcd_snapshot: machine::EtcdSnapshotRequest => EtcdSnapshotStream,
        events: machine::EventsRequest => EventsStream,
        dmesg: machine::DmesgRequest => DmesgStream,
        read: machine::ReadRequest => ReadStream,
        list: machine::ListRequest => ListStream,
        image_list: machine::ImageListRequest => ImageListStream,
    }
}

fn status(stage: &str) -> cosi::Resource {
    cosi::Resource {
        metadata: Some(cosi::Metadata { id: "machine".into(), ..Default::default() }),
        spec: Some(cosi::Spec {
            proto_spec: Vec::new(),
            yaml_spec: format!(
                "stage: {stage}\nstatus:\n    ready: false\n    unmetConditions:\n        - name: time\n          reason: not in sync\n"
            ),
        }),
    }
}

fn event(stage: &str, kind: cosi::EventType) -> Result<cosi::WatchResponse, Status> {
    let event = cosi::Event { resource: Some(status(stage)), event_type: kind.into(), ..Default::default() };
    Ok(cosi::WatchResponse { event: vec![event] })
}

#[tonic::async_trait]
impl cosi::state_server::State for Node {
    type ListStream = Out<cosi::ListResponse>;
    type WatchStream = Out<cosi::WatchResponse>;

    async fn get(&self, request: Request<cosi::GetRequest>) -> Reply<cosi::GetResponse> {
        if *self.0.silent.lock().unwrap() {
            futures::future::pending::<()>().await;
        }
        if request.get_ref().id != "machine" {
            return Err(Status::not_found("resource doesn't exist"));
        }
        let stage = self.0.stage.lock().unwrap().clone();
        Ok(Response::new(cosi::GetResponse { resource: Some(status(&stage)) }))
    }

    async fn watch(&self, request: Request<cosi::WatchRequest>) -> Reply<Self::WatchStream> {
        let wanted = request.get_ref().id.clone();
        if wanted.as_deref() != Some("machine") {
            return Ok(Response::new(self.watch_resources(wanted)));
        }
        let first = event(&self.0.stage.lock().unwrap(), cosi::EventType::Created);
        let changes = tokio_stream::wrappers::BroadcastStream::new(self.0.changes.subscribe());
        let changes =
            futures::StreamExt::map(changes, |stage| event(&stage.unwrap(), cosi::EventType::Updated));
        let all = futures::StreamExt::chain(futures::stream::once(async { first }), changes);
        Ok(Response::new(Box::pin(all)))
    }

    absent_streams! { list: cosi::ListRequest => ListStream }
    absent! {
        create: cosi::CreateRequest => cosi::CreateResponse,
        update: cosi::UpdateRequest => cosi::UpdateResponse,
        destroy: cosi::DestroyRequest => cosi::DestroyResponse,
        teardown: cosi::TeardownRequest => cosi::TeardownResponse,
    }
}

impl Node {
    /// As Talos tells: of a whole type what is there and that this was all, of one resource whether it is there; then
    /// what happens.
    fn watch_resources(&self, wanted: Option<String>) -> Out<cosi::WatchResponse> {
        use cosi::EventType::{Bootstrapped, Created, Destroyed};
        let resources = self.0.resources.lock().unwrap();
        let mut events: Vec<cosi::Event> = match &wanted {
            None => {
                resources.iter().map(|(id, (version, yaml))| happening(Created, id, *version, yaml)).collect()
            }
            Some(id) => vec![match resources.get(id) {
                Some((version, yaml)) => happening(Created, id, *version, yaml),
                None => happening(Destroyed, id, 0, ""),
            }],
        };
        if wanted.is_none() {
            events.push(cosi::Event { event_type: Bootstrapped.into(), ..Default::default() });
        }
        let later = tokio_stream::wrappers::BroadcastStream::new(self.0.happenings.subscribe());
        let later = futures::StreamExt::filter_map(later, move |event| {
            let event = event.unwrap();
            let id = event.resource.as_ref().and_then(|r| r.metadata.as_ref()).map(|m| m.id.clone());
            let told = wanted.is_none() || id == wanted;
            std::future::ready(told.then(|| Ok(cosi::WatchResponse { event: vec![event] })))
        });
        // All that is there comes in one message, as with Talos.
        let first = Ok(cosi::WatchResponse { event: events });
        Box::pin(futures::StreamExt::chain(futures::stream::once(async { first }), later))
    }
}

/// How the node's API is protected.
pub enum Api<'a> {
    Maintenance,
    /// The same machine to all appearances, but with another key.
    Impostor,
    Configured(&'a SecretsBundle),
}

fn server_config(api: &Api<'_>) -> ServerConfig {
    let rng = &mut StdRng::seed_from_u64(if matches!(api, Api::Impostor) { 3 } else { 2 });
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let day = SignedDuration::from_hours(24);
    let authority = match api {
        Api::Maintenance | Api::Impostor => {
            CertificateAuthority::generate(KeyKind::Ed25519, Some("talos"), day, rng, now()).unwrap()
        }
        Api::Configured(bundle) => bundle.os.authority().unwrap(),
    };
    let leaf = Leaf {
        common_name: Some("node-1".into()),
        organization: None,
        names: vec![SubjectName::Ip(ADDRESS.parse().unwrap()), SubjectName::Dns("node-1".into())],
        usage: Usage::Server,
        not_before: now(),
        not_after: now() + day,
    };
    let identity = authority.issue(&leaf, rng).unwrap();
    let certificate = daedal_talos_config::pki::certificate_from_pem(&identity.certificate).unwrap();
    let time = Arc::new(Fixed);
    let builder = ServerConfig::builder_with_details(provider.clone(), time)
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match api {
        Api::Maintenance | Api::Impostor => builder.with_no_client_auth(),
        Api::Configured(_) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.certificate().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(vec![certificate], identity.key.to_der()).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

#[derive(Debug)]
struct Fixed;

impl rustls::time_provider::TimeProvider for Fixed {
    fn current_time(&self) -> Option<rustls_pki_types::UnixTime> {
        let seconds = u64::try_from(now().as_second()).unwrap() + 60;
        Some(rustls_pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)))
    }
}

/// Starts a node and returns the way to it.
pub fn start(api: &Api<'_>, stage: &str) -> (Arc<ToNode>, Node) {
    let world = World {
        stage: Mutex::new(stage.into()),
        bootstrapped: Mutex::new(false),
        nodes: Mutex::default(),
        changes: broadcast::channel(8).0,
        silent: Mutex::new(false),
        asked: Mutex::default(),
        resources: Mutex::default(),
        happenings: broadcast::channel(8).0,
    };
    let node = Node(Arc::new(world));
    let (sender, mut receiver) = mpsc::channel(8);
    let (accepted_sender, accepted) = mpsc::channel(8);
    let acceptor = TlsAcceptor::from(Arc::new(server_config(api)));
    tokio::spawn(async move {
        while let Some(stream) = receiver.recv().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                let _ = accepted_sender.send(Ok::<_, std::io::Error>(Accepted(stream))).await;
            }
        }
    });
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(machine::machine_service_server::MachineServiceServer::new(node.clone()))
            .add_service(cosi::state_server::StateServer::new(node.clone()))
            .add_service(cluster::cluster_service_server::ClusterServiceServer::new(node.clone()))
            .add_service(storage::storage_service_server::StorageServiceServer::new(node.clone()))
            .add_service(machine::lifecycle_service_server::LifecycleServiceServer::new(node.clone()))
            .add_service(machine::image_service_server::ImageServiceServer::new(node.clone()))
            .serve_with_incoming(tokio_stream::wrappers::ReceiverStream::new(accepted)),
    );
    (Arc::new(ToNode(sender)), node)
}
