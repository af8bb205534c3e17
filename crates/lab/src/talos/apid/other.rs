//! The smaller services: disks and time.

use daedal_talos_client::proto::storage::storage_service_server::StorageService;
use daedal_talos_client::proto::storage::{
    BlockDeviceWipe, BlockDeviceWipeRequest, BlockDeviceWipeResponse, Disk, Disks, DisksResponse, disk,
};
use daedal_talos_client::proto::time::time_service_server::TimeService;
use daedal_talos_client::proto::time::{Time, TimeRequest, TimeResponse};
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
        let now = Some(prost_types::Timestamp { seconds: self.shared.pace.outside(), nanos: 0 });
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
