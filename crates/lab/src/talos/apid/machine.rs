//! The machine service: version, life, services, and the doors to etcd, configuration and logs.

use daedal_talos_client::proto::common::Data;
use daedal_talos_client::proto::machine::machine_service_server::MachineService;
use daedal_talos_client::proto::machine::*;
use futures::stream::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::Api;
use crate::image::SystemImage;
use crate::talos::keys::Authority;
use crate::talos::node::{Order, Stage};

type Stream<T> = BoxStream<'static, Result<T, Status>>;
type Answer<T> = Result<Response<T>, Status>;

/// One message in the wrapper that every reply has.
macro_rules! reply {
    ($wrapper:ident, $message:expr) => {
        Ok(Response::new($wrapper { messages: vec![$message] }))
    };
}

/// A stream of one piece.
pub(super) fn one(bytes: Vec<u8>) -> Stream<Data> {
    Box::pin(futures::stream::iter([Ok(Data { metadata: None, bytes })]))
}

#[tonic::async_trait]
impl MachineService for Api {
    type KubeconfigStream = Stream<Data>;
    type EtcdSnapshotStream = Stream<Data>;
    type EventsStream = Stream<Event>;
    type LogsStream = Stream<Data>;
    type DmesgStream = Stream<Data>;
    type ReadStream = Stream<Data>;
    type ListStream = Stream<FileInfo>;
    type ImageListStream = Stream<ImageListResponse>;

    async fn version(&self, _: Request<()>) -> Answer<VersionResponse> {
        let state = self.node.state();
        let image = state.image.clone();
        let tag = image.as_ref().map(|i| i.version.clone()).unwrap_or_default();
        let arch = image.as_ref().map(|i| i.arch.clone()).unwrap_or_default();
        let platform = image.map(|i| i.platform).unwrap_or_default();
        let mode = if platform == "metal" { "metal" } else { "cloud" };
        reply!(
            VersionResponse,
            Version {
                metadata: None,
                version: Some(VersionInfo {
                    tag,
                    sha: "00000000".into(),
                    built: String::new(),
                    go_version: "go1.25.5".into(),
                    os: "linux".into(),
                    arch,
                }),
                platform: Some(PlatformInfo { name: platform, mode: mode.into() }),
                features: Some(FeaturesInfo { rbac: true }),
            }
        )
    }

    async fn apply_configuration(
        &self,
        request: Request<ApplyConfigurationRequest>,
    ) -> Answer<ApplyConfigurationResponse> {
        let applied = self.apply(&request.into_inner())?;
        reply!(ApplyConfigurationResponse, applied)
    }

    async fn generate_client_configuration(
        &self,
        request: Request<GenerateClientConfigurationRequest>,
    ) -> Answer<GenerateClientConfigurationResponse> {
        let config = self.control_plane("client configuration")?;
        let request = request.into_inner();
        let roles = if request.roles.is_empty() { "os:admin".to_owned() } else { request.roles.join(",") };
        let ca = config.pem_at("/machine/ca/crt").unwrap_or_default();
        let key = config.pem_at("/machine/ca/key").unwrap_or_default();
        let lifetime = request.crt_ttl.map_or(86_400, |d| d.seconds);
        let identity = Authority::new(&ca, &key).and_then(|a| a.client("", &roles, self.now(), lifetime));
        let (crt, key) = identity.map_err(|e| Status::internal(e.to_string()))?;
        reply!(
            GenerateClientConfigurationResponse,
            GenerateClientConfiguration {
                metadata: None,
                ca: ca.into_bytes(),
                crt: crt.into_bytes(),
                key: key.into_bytes(),
                talosconfig: Vec::new(),
            }
        )
    }

    async fn bootstrap(&self, request: Request<BootstrapRequest>) -> Answer<BootstrapResponse> {
        self.bootstrap_etcd(&request.into_inner())?;
        reply!(BootstrapResponse, Bootstrap { metadata: None })
    }

    async fn kubeconfig(&self, _: Request<()>) -> Answer<Self::KubeconfigStream> {
        Ok(Response::new(one(self.admin_kubeconfig()?)))
    }

    async fn reboot(&self, _: Request<RebootRequest>) -> Answer<RebootResponse> {
        let actor_id = self.order(|actor| Order::Reboot { actor })?;
        reply!(RebootResponse, Reboot { metadata: None, actor_id })
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> Answer<ShutdownResponse> {
        let actor_id = self.order(|actor| Order::Shutdown { actor })?;
        reply!(ShutdownResponse, Shutdown { metadata: None, actor_id })
    }

    async fn reset(&self, request: Request<ResetRequest>) -> Answer<ResetResponse> {
        let request = request.into_inner();
        if request.graceful && self.config()?.is_control_plane() {
            self.check_leave()?;
        }
        let labels: Vec<String> =
            request.system_partitions_to_wipe.iter().filter(|p| p.wipe).map(|p| p.label.clone()).collect();
        const KNOWN: [&str; 6] = ["EPHEMERAL", "STATE", "META", "EFI", "BIOS", "BOOT"];
        if let Some(unknown) = labels.iter().find(|l| !KNOWN.contains(&l.as_str())) {
            return Err(Status::invalid_argument(format!("unknown partition label {unknown:?}")));
        }
        let whole_disk = labels.is_empty() && request.mode != reset_request::WipeMode::UserDisks as i32;
        let actor_id = self.order(|actor| Order::Reset {
            actor,
            labels,
            whole_disk,
            graceful: request.graceful,
            reboot: request.reboot,
        })?;
        reply!(ResetResponse, Reset { metadata: None, actor_id })
    }

    async fn upgrade(&self, request: Request<UpgradeRequest>) -> Answer<UpgradeResponse> {
        let request = request.into_inner();
        let running =
            { self.node.state().image.clone() }.ok_or_else(|| Status::internal("no running system"))?;
        let image = installer(&request.image, &running, &*self.shared.schematics).ok_or_else(|| {
            Status::unknown(format!(
                "error validating installer image {:?}: invalid reference format",
                request.image
            ))
        })?;
        if !request.force && self.config()?.is_control_plane() {
            self.check_upgrade().map_err(|status| {
                Status::unknown(format!("error validating etcd for upgrade: {}", status.message()))
            })?;
        }
        let stage = request.stage;
        let actor_id = self.order(|actor| Order::Upgrade { actor, image, stage })?;
        reply!(UpgradeResponse, Upgrade { metadata: None, ack: "Upgrade request received".into(), actor_id })
    }

    async fn rollback(&self, _: Request<RollbackRequest>) -> Answer<RollbackResponse> {
        let disk = self.node.disk.clone().unwrap_or_default();
        {
            let mut world = self.shared.world();
            let saved = world.disks.entry(disk).or_default();
            let previous = saved.previous.take();
            let previous =
                previous.ok_or_else(|| Status::failed_precondition("no previous system to boot"))?;
            saved.previous = saved.system.replace(previous);
        }
        self.order(|actor| Order::Reboot { actor })?;
        reply!(RollbackResponse, Rollback { metadata: None })
    }

    async fn meta_write(&self, request: Request<MetaWriteRequest>) -> Answer<MetaWriteResponse> {
        let request = request.into_inner();
        let key = u8::try_from(request.key).map_err(|_| Status::invalid_argument("key must be a uint8"))?;
        let value = String::from_utf8_lossy(&request.value).into_owned();
        let disk = self.node.disk.clone().unwrap_or_default();
        self.shared.world().disks.entry(disk).or_default().meta.insert(key, value);
        reply!(MetaWriteResponse, MetaWrite { metadata: None })
    }

    async fn meta_delete(&self, request: Request<MetaDeleteRequest>) -> Answer<MetaDeleteResponse> {
        let key = request.into_inner().key;
        let key = u8::try_from(key).map_err(|_| Status::invalid_argument("key must be a uint8"))?;
        let disk = self.node.disk.clone().unwrap_or_default();
        let removed = self.shared.world().disks.entry(disk).or_default().meta.remove(&key);
        removed.ok_or_else(|| Status::not_found("tag not found"))?;
        reply!(MetaDeleteResponse, MetaDelete { metadata: None })
    }

    async fn etcd_member_list(&self, _: Request<EtcdMemberListRequest>) -> Answer<EtcdMemberListResponse> {
        reply!(EtcdMemberListResponse, self.patiently(|| self.etcd_members()).await?)
    }

    async fn etcd_status(&self, _: Request<()>) -> Answer<EtcdStatusResponse> {
        reply!(EtcdStatusResponse, self.patiently(|| self.etcd_member_status()).await?)
    }

    async fn etcd_remove_member_by_id(
        &self,
        request: Request<EtcdRemoveMemberByIdRequest>,
    ) -> Answer<EtcdRemoveMemberByIdResponse> {
        self.etcd_remove(request.into_inner().member_id)?;
        reply!(EtcdRemoveMemberByIdResponse, EtcdRemoveMemberById { metadata: None })
    }

    async fn etcd_leave_cluster(
        &self,
        _: Request<EtcdLeaveClusterRequest>,
    ) -> Answer<EtcdLeaveClusterResponse> {
        self.check_leave()?;
        crate::talos::services::leave_etcd(&self.shared, &self.node);
        reply!(EtcdLeaveClusterResponse, EtcdLeaveCluster { metadata: None })
    }

    async fn etcd_forfeit_leadership(
        &self,
        _: Request<EtcdForfeitLeadershipRequest>,
    ) -> Answer<EtcdForfeitLeadershipResponse> {
        let member = self.etcd_forfeit()?;
        reply!(EtcdForfeitLeadershipResponse, EtcdForfeitLeadership { metadata: None, member })
    }

    async fn etcd_snapshot(&self, _: Request<EtcdSnapshotRequest>) -> Answer<Self::EtcdSnapshotStream> {
        let bytes = self.etcd_snapshot_bytes()?;
        let pieces: Vec<_> =
            bytes.chunks(64 * 1024).map(|c| Ok(Data { metadata: None, bytes: c.to_vec() })).collect();
        Ok(Response::new(Box::pin(futures::stream::iter(pieces))))
    }

    async fn etcd_recover(&self, request: Request<Streaming<Data>>) -> Answer<EtcdRecoverResponse> {
        self.control_plane("etcd recover")?;
        let mut stream = request.into_inner();
        let mut bytes = Vec::new();
        while let Some(piece) = stream.message().await? {
            bytes.extend_from_slice(&piece.bytes);
        }
        self.etcd_take_snapshot(bytes)?;
        reply!(EtcdRecoverResponse, EtcdRecover { metadata: None })
    }

    async fn etcd_alarm_list(&self, _: Request<()>) -> Answer<EtcdAlarmListResponse> {
        self.control_plane("etcd alarm list")?;
        reply!(EtcdAlarmListResponse, EtcdAlarm { metadata: None, member_alarms: Vec::new() })
    }

    async fn etcd_alarm_disarm(&self, _: Request<()>) -> Answer<EtcdAlarmDisarmResponse> {
        self.control_plane("etcd alarm list")?;
        reply!(EtcdAlarmDisarmResponse, EtcdAlarmDisarm { metadata: None, member_alarms: Vec::new() })
    }

    async fn etcd_defragment(&self, _: Request<()>) -> Answer<EtcdDefragmentResponse> {
        self.control_plane("etcd defragment")?;
        reply!(EtcdDefragmentResponse, EtcdDefragment { metadata: None })
    }

    // The lab's etcd has one version and none to go back to.
    async fn etcd_downgrade_validate(
        &self,
        _: Request<EtcdDowngradeValidateRequest>,
    ) -> Answer<EtcdDowngradeValidateResponse> {
        Err(Status::unimplemented("unknown method EtcdDowngradeValidate for service machine.MachineService"))
    }

    async fn etcd_downgrade_enable(
        &self,
        _: Request<EtcdDowngradeEnableRequest>,
    ) -> Answer<EtcdDowngradeEnableResponse> {
        Err(Status::unimplemented("unknown method EtcdDowngradeEnable for service machine.MachineService"))
    }

    async fn etcd_downgrade_cancel(&self, _: Request<()>) -> Answer<EtcdDowngradeCancelResponse> {
        Err(Status::unimplemented("unknown method EtcdDowngradeCancel for service machine.MachineService"))
    }

    async fn service_list(&self, _: Request<()>) -> Answer<ServiceListResponse> {
        let state = self.node.state();
        let moment = |at: i64| Some(prost_types::Timestamp { seconds: at, nanos: 0 });
        let services = state.services.iter().map(|(id, service)| ServiceInfo {
            id: (*id).to_owned(),
            state: service.state.to_owned(),
            events: Some(ServiceEvents {
                events: service
                    .history
                    .iter()
                    .map(|(state, msg, at)| ServiceEvent {
                        msg: msg.clone(),
                        state: (*state).to_owned(),
                        ts: moment(*at),
                    })
                    .collect(),
            }),
            health: Some(ServiceHealth {
                unknown: service.unknown(),
                healthy: !service.unknown() && service.healthy,
                last_message: String::new(),
                last_change: moment(service.since),
            }),
        });
        reply!(ServiceListResponse, ServiceList { metadata: None, services: services.collect() })
    }

    async fn service_start(&self, request: Request<ServiceStartRequest>) -> Answer<ServiceStartResponse> {
        let resp = self.known_service(&request.into_inner().id, "started")?;
        reply!(ServiceStartResponse, ServiceStart { metadata: None, resp })
    }

    async fn service_stop(&self, request: Request<ServiceStopRequest>) -> Answer<ServiceStopResponse> {
        let resp = self.known_service(&request.into_inner().id, "stopped")?;
        reply!(ServiceStopResponse, ServiceStop { metadata: None, resp })
    }

    async fn service_restart(
        &self,
        request: Request<ServiceRestartRequest>,
    ) -> Answer<ServiceRestartResponse> {
        let resp = self.known_service(&request.into_inner().id, "restarted")?;
        reply!(ServiceRestartResponse, ServiceRestart { metadata: None, resp })
    }

    async fn events(&self, request: Request<EventsRequest>) -> Answer<Self::EventsStream> {
        Ok(Response::new(self.event_stream(request.into_inner())?))
    }

    async fn logs(&self, request: Request<LogsRequest>) -> Answer<Self::LogsStream> {
        Ok(Response::new(self.log_stream(&request.into_inner())?))
    }

    async fn logs_containers(&self, _: Request<()>) -> Answer<LogsContainersResponse> {
        let ids = self.node.state().services.keys().map(|id| (*id).to_owned()).collect();
        reply!(LogsContainersResponse, LogsContainer { metadata: None, ids })
    }

    async fn dmesg(&self, request: Request<DmesgRequest>) -> Answer<Self::DmesgStream> {
        Ok(Response::new(self.kernel_log(&request.into_inner())))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Answer<Self::ReadStream> {
        Ok(Response::new(one(self.file(&request.into_inner().path)?)))
    }

    async fn list(&self, request: Request<ListRequest>) -> Answer<Self::ListStream> {
        let root = request.into_inner().root;
        let info = FileInfo { name: root, relative_name: ".".into(), is_dir: true, ..FileInfo::default() };
        Ok(Response::new(Box::pin(futures::stream::iter([Ok(info)]))))
    }

    async fn containers(&self, _: Request<ContainersRequest>) -> Answer<ContainersResponse> {
        reply!(ContainersResponse, Container { metadata: None, containers: Vec::new() })
    }

    async fn image_list(&self, _: Request<ImageListRequest>) -> Answer<Self::ImageListStream> {
        let images = self.pulled().into_iter().map(|(name, digest)| {
            Ok(ImageListResponse { name, digest, size: 100 << 20, ..Default::default() })
        });
        Ok(Response::new(Box::pin(futures::stream::iter(images.collect::<Vec<_>>()))))
    }

    async fn image_pull(&self, request: Request<ImagePullRequest>) -> Answer<ImagePullResponse> {
        self.pull(&request.into_inner().reference)?;
        reply!(ImagePullResponse, ImagePull { metadata: None })
    }

    async fn hostname(&self, _: Request<()>) -> Answer<HostnameResponse> {
        let hostname = { self.node.state().hostname.clone() };
        reply!(HostnameResponse, Hostname { metadata: None, hostname })
    }

    async fn memory(&self, _: Request<()>) -> Answer<MemoryResponse> {
        let total = self.node.hardware().memory / 1024;
        let free = total / 2;
        let meminfo = MemInfo { memtotal: total, memfree: free, memavailable: free, ..MemInfo::default() };
        reply!(MemoryResponse, Memory { metadata: None, meminfo: Some(meminfo) })
    }

    async fn load_avg(&self, _: Request<()>) -> Answer<LoadAvgResponse> {
        reply!(LoadAvgResponse, LoadAvg { metadata: None, load1: 0.2, load5: 0.2, load15: 0.2 })
    }

    async fn system_stat(&self, _: Request<()>) -> Answer<SystemStatResponse> {
        let boot_time = { self.node.state().booted_at }.max(0) as u64;
        reply!(SystemStatResponse, SystemStat { boot_time, ..SystemStat::default() })
    }

    async fn mounts(&self, _: Request<()>) -> Answer<MountsResponse> {
        let size = self.node.hardware().disk.map_or(0, |d| d.size);
        let stat = MountStat {
            filesystem: "/dev/sda6".into(),
            size,
            available: size / 10 * 9,
            mounted_on: "/var".into(),
        };
        reply!(MountsResponse, Mounts { metadata: None, stats: vec![stat] })
    }
}

impl Api {
    /// Gives an order that ends this boot, and its actor id to follow it by.
    fn order(&self, make: impl FnOnce(String) -> Order) -> Result<String, Status> {
        let (stage, serial, boot) = {
            let state = self.node.state();
            (state.stage, state.serial, state.boot_id.clone())
        };
        if matches!(stage, Some(Stage::Rebooting | Stage::ShuttingDown | Stage::Resetting | Stage::Upgrading))
        {
            return Err(Status::failed_precondition("another sequence is running"));
        }
        let actor =
            uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, format!("{boot}/{serial}").as_bytes()).to_string();
        let sent = self.node.orders.send(make(actor.clone()));
        sent.map_err(|_| Status::unavailable("the machine is going down"))?;
        Ok(actor)
    }

    fn known_service(&self, id: &str, done: &str) -> Result<String, Status> {
        if self.node.state().services.contains_key(id) {
            Ok(format!("Service {id:?} {done}"))
        } else {
            Err(Status::not_found(format!("service {id:?} is not registered")))
        }
    }
}

/// The system that an installer image puts on the disk: version from its tag, schematic from its path.
pub(crate) fn installer(
    reference: &str,
    running: &SystemImage,
    schematics: &dyn Fn(&str) -> Option<Vec<String>>,
) -> Option<SystemImage> {
    let (path, version) = reference.split('@').next()?.rsplit_once(':')?;
    if !version.starts_with('v') {
        return None;
    }
    let last = path.rsplit('/').next()?;
    let schematic = if last.len() == 64 { last.to_owned() } else { running.schematic.clone() };
    // A bare `installer` is metal's: from 1.10 on it changes the platform of the machine it upgrades.
    let platform =
        match path.split('/').find_map(|part| part.trim_end_matches("-secureboot").strip_suffix("installer"))
        {
            Some("") if super::version_at_least(version, 10) => "metal",
            Some("") | None => &running.platform,
            Some(prefix) => prefix.trim_end_matches('-'),
        };
    let extensions = schematics(&schematic).unwrap_or_else(|| running.extensions.clone());
    Some(SystemImage {
        version: version.to_owned(),
        schematic,
        platform: platform.to_owned(),
        extensions,
        secure_boot: path.split('/').any(|part| part.ends_with("installer-secureboot")),
        ..running.clone()
    })
}
