//! The node's other services: health, disks, installer, images.

use daedal_talos_client::proto::{
    cluster::{self, cluster_service_server::ClusterService},
    common,
    machine::{
        self, image_service_import_request, image_service_server::ImageService,
        lifecycle_service_install_progress::Response as Step, lifecycle_service_server::LifecycleService,
    },
    storage::{self, storage_service_server::StorageService},
};
use futures::StreamExt;
use tonic::{Request, Response, Status, Streaming};

use super::{Node, Out, Reply};

pub fn cluster() -> machine::EtcdClusterDowngrade {
    machine::EtcdClusterDowngrade { cluster_version: "3.6.0".into() }
}

#[tonic::async_trait]
impl ClusterService for Node {
    type HealthCheckStream = Out<cluster::HealthCheckProgress>;

    /// Well if no worker is named, unwell with one, and silent with two.
    async fn health_check(
        &self,
        request: Request<cluster::HealthCheckRequest>,
    ) -> Reply<Self::HealthCheckStream> {
        self.0.note("HealthCheck", request.get_ref());
        let info = request.into_inner().cluster_info.unwrap_or_default();
        let workers = info.worker_nodes.len();
        if info.control_plane_nodes.is_empty() && workers == 0 {
            // It has to find them out first, and says nothing meanwhile.
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        }
        let said =
            |message: &str| Ok(cluster::HealthCheckProgress { metadata: None, message: message.to_owned() });
        let said = futures::stream::iter([said("waiting for etcd to be healthy: ..."), said("etcd: OK")]);
        Ok(Response::new(match workers {
            0 => Box::pin(said),
            1 => Box::pin(said.chain(futures::stream::once(async {
                let metadata =
                    common::Metadata { error: "a kubelet is not ready".into(), ..Default::default() };
                Ok(cluster::HealthCheckProgress { metadata: Some(metadata), message: String::new() })
            }))),
            _ => Box::pin(said.chain(futures::stream::pending())),
        }))
    }
}

#[tonic::async_trait]
impl StorageService for Node {
    async fn disks(&self, _: Request<()>) -> Reply<storage::DisksResponse> {
        let disk = |device: &str, kind: storage::disk::DiskType, system_disk: bool| storage::Disk {
            size: 10 << 30,
            device_name: device.into(),
            serial: "S1".into(),
            r#type: kind.into(),
            system_disk,
            ..Default::default()
        };
        let disks = vec![
            disk("/dev/nvme0n1", storage::disk::DiskType::Nvme, true),
            disk("/dev/sdb", storage::disk::DiskType::Unknown, false),
        ];
        Ok(Response::new(storage::DisksResponse { messages: vec![storage::Disks { metadata: None, disks }] }))
    }

    async fn block_device_wipe(
        &self,
        request: Request<storage::BlockDeviceWipeRequest>,
    ) -> Reply<storage::BlockDeviceWipeResponse> {
        self.0.note("BlockDeviceWipe", request.get_ref());
        if request
            .get_ref()
            .devices
            .iter()
            .any(|wipe| wipe.method() == storage::block_device_wipe_descriptor::Method::Zeroes)
        {
            // It takes its time.
            tokio::time::sleep(std::time::Duration::from_mins(30)).await;
        }
        let message = storage::BlockDeviceWipe { metadata: None };
        Ok(Response::new(storage::BlockDeviceWipeResponse { messages: vec![message] }))
    }
}

fn installer(disk: &str) -> Vec<Option<machine::LifecycleServiceInstallProgress>> {
    let code = i32::from(disk == "/dev/full");
    let mut steps = vec![Step::Message("copying files\n".into())];
    if disk != "/dev/lost" {
        steps.push(Step::ExitCode(code));
    }
    steps
        .into_iter()
        .map(|step| Some(machine::LifecycleServiceInstallProgress { response: Some(step) }))
        .collect()
}

#[tonic::async_trait]
impl LifecycleService for Node {
    type InstallStream = Out<machine::LifecycleServiceInstallResponse>;
    type UpgradeStream = Out<machine::LifecycleServiceUpgradeResponse>;

    async fn install(
        &self,
        request: Request<machine::LifecycleServiceInstallRequest>,
    ) -> Reply<Self::InstallStream> {
        self.0.note("Install", request.get_ref());
        let disk = request.into_inner().destination.unwrap_or_default().disk;
        let steps = installer(&disk).into_iter();
        let steps = steps.map(|progress| Ok(machine::LifecycleServiceInstallResponse { progress }));
        Ok(Response::new(Box::pin(futures::stream::iter(steps.collect::<Vec<_>>()))))
    }

    async fn upgrade(
        &self,
        request: Request<machine::LifecycleServiceUpgradeRequest>,
    ) -> Reply<Self::UpgradeStream> {
        self.0.note("Upgrade", request.get_ref());
        let steps = installer("").into_iter();
        let steps = steps.map(|progress| Ok(machine::LifecycleServiceUpgradeResponse { progress }));
        Ok(Response::new(Box::pin(futures::stream::iter(steps.collect::<Vec<_>>()))))
    }
}

#[tonic::async_trait]
impl ImageService for Node {
    type ListStream = Out<machine::ImageServiceListResponse>;
    type PullStream = Out<machine::ImageServicePullResponse>;

    async fn list(&self, _: Request<machine::ImageServiceListRequest>) -> Reply<Self::ListStream> {
        Ok(Response::new(Box::pin(futures::stream::empty())))
    }

    async fn pull(&self, _: Request<machine::ImageServicePullRequest>) -> Reply<Self::PullStream> {
        Ok(Response::new(Box::pin(futures::stream::empty())))
    }

    async fn import(
        &self,
        request: Request<Streaming<machine::ImageServiceImportRequest>>,
    ) -> Reply<machine::ImageServiceImportResponse> {
        use image_service_import_request::Request as Part;
        let mut parts = request.into_inner();
        let mut archive = None;
        while let Some(part) = parts.message().await? {
            self.0.note("Import", &part);
            match (part.request, &mut archive) {
                (Some(Part::Containerd(_)), None) => archive = Some(Vec::new()),
                (Some(Part::ImageChunk(data)), Some(archive)) => archive.extend(data.bytes),
                _ => return Err(Status::invalid_argument("containerd instance is required")),
            }
        }
        let name = String::from_utf8(archive.unwrap_or_default()).unwrap();
        Ok(Response::new(machine::ImageServiceImportResponse { name }))
    }

    async fn remove(&self, _: Request<machine::ImageServiceRemoveRequest>) -> Reply<()> {
        Ok(Response::new(()))
    }

    async fn verify(
        &self,
        request: Request<machine::ImageServiceVerifyRequest>,
    ) -> Reply<machine::ImageServiceVerifyResponse> {
        self.0.note("Verify", request.get_ref());
        let reference = request.into_inner().image_ref;
        if reference.starts_with("forged") {
            return Err(Status::permission_denied("no signature holds"));
        }
        let verified = reference.starts_with("signed");
        Ok(Response::new(machine::ImageServiceVerifyResponse {
            verified,
            message: if verified { "by rule 1".into() } else { "no rule".into() },
            digested_image_ref: if verified { format!("{reference}@sha256:00") } else { String::new() },
        }))
    }
}
