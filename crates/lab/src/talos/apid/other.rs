//! The smaller services: disks, time, cluster health.

use daedal_talos::proto::cluster::cluster_service_server::ClusterService;
use daedal_talos::proto::cluster::{HealthCheckProgress, HealthCheckRequest};
use daedal_talos::proto::storage::storage_service_server::StorageService;
use daedal_talos::proto::storage::{
    BlockDeviceWipe, BlockDeviceWipeRequest, BlockDeviceWipeResponse, Disk, Disks, DisksResponse, disk,
};
use daedal_talos::proto::time::time_service_server::TimeService;
use daedal_talos::proto::time::{Time, TimeRequest, TimeResponse};
use futures::stream::BoxStream;
use tonic::{Request, Response, Status};

use super::Api;

#[tonic::async_trait]
impl StorageService for Api {
    async fn disks(&self, _: Request<()>) -> Result<Response<DisksResponse>, Status> {
        let hardware = self.node.hardware();
        let disks = hardware.disk.iter().map(|d| Disk {
            size: d.size,
            model: "QEMU HARDDISK".into(),
            device_name: "/dev/sda".into(),
            name: "sda".into(),
            r#type: disk::DiskType::Hdd as i32,
            bus_path: "/pci0000:00/0000:00:05.0/virtio2/host2/target2:0:0/2:0:0:0/".into(),
            system_disk: true,
            subsystem: "/sys/class/block".into(),
            ..Disk::default()
        });
        let message = Disks { metadata: None, disks: disks.collect() };
        Ok(Response::new(DisksResponse { messages: vec![message] }))
    }

    async fn block_device_wipe(
        &self,
        request: Request<BlockDeviceWipeRequest>,
    ) -> Result<Response<BlockDeviceWipeResponse>, Status> {
        // The only disk is the one the system runs from.
        if let Some(device) = request.into_inner().devices.first() {
            let name = &device.device;
            return Err(if name.starts_with("sda") {
                Status::failed_precondition(format!("blockdevice {name:?} is in use"))
            } else {
                Status::not_found(format!("blockdevice {name:?} not found"))
            });
        }
        Ok(Response::new(BlockDeviceWipeResponse { messages: vec![BlockDeviceWipe { metadata: None }] }))
    }
}

impl Api {
    fn time(&self, server: String) -> Response<TimeResponse> {
        let now = Some(prost_types::Timestamp { seconds: self.now(), nanos: 0 });
        let message = Time { metadata: None, server, localtime: now, remotetime: now };
        Response::new(TimeResponse { messages: vec![message] })
    }
}

#[tonic::async_trait]
impl TimeService for Api {
    async fn time(&self, _: Request<()>) -> Result<Response<TimeResponse>, Status> {
        Ok(Api::time(self, "time.cloudflare.com".into()))
    }

    async fn time_check(&self, request: Request<TimeRequest>) -> Result<Response<TimeResponse>, Status> {
        Ok(Api::time(self, request.into_inner().server))
    }
}

#[tonic::async_trait]
impl ClusterService for Api {
    type HealthCheckStream = BoxStream<'static, Result<HealthCheckProgress, Status>>;

    async fn health_check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::HealthCheckStream>, Status> {
        let config = self.control_plane("health check")?;
        let wait = request.into_inner().wait_timeout.map_or(300, |d| d.seconds.max(0) as u64);
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(wait);
        let disk = self.node.disk.clone().unwrap_or_default();
        let key = config.kubernetes_key().to_owned();
        let steps = ["etcd to be healthy", "the API server to answer", "all nodes to report ready"];
        let stream = futures::stream::unfold((self.clone(), 0_usize), move |(api, step)| {
            let (disk, key) = (disk.clone(), key.clone());
            async move {
                let text = *steps.get(step)?;
                let mut changes = api.shared.watch();
                loop {
                    changes.mark_unchanged();
                    let met = {
                        let world = api.shared.world();
                        match step {
                            0 => world.cluster_of_disk(&disk).is_some_and(|c| world.has_quorum(c)),
                            1 => world.kubernetes(&key).is_some(),
                            _ => world
                                .nodes
                                .values()
                                .filter(|n| {
                                    n.state().config.as_ref().is_some_and(|c| c.kubernetes_key() == key)
                                })
                                .all(|n| n.state().ready),
                        }
                    };
                    if met {
                        let message = format!("waiting for {text}: OK");
                        return Some((Ok(HealthCheckProgress { metadata: None, message }), (api, step + 1)));
                    }
                    tokio::select! {
                        () = tokio::time::sleep_until(deadline) => {
                            let status = Status::deadline_exceeded(format!("waiting for {text}: timeout"));
                            return Some((Err(status), (api, usize::MAX)));
                        }
                        changed = changes.changed() => if changed.is_err() { return None },
                        () = tokio::time::sleep(std::time::Duration::from_secs(1)) => {}
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }
}
