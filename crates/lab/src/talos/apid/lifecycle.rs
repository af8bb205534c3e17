//! What Talos 1.13 added: upgrades whose progress is streamed, and container images; older versions answer that they do not know it.

use daedal_talos_client::proto::machine::image_service_server::ImageService;
use daedal_talos_client::proto::machine::lifecycle_service_install_progress::Response as Step;
use daedal_talos_client::proto::machine::lifecycle_service_server::LifecycleService;
use daedal_talos_client::proto::machine::{
    ImageServiceImportRequest, ImageServiceImportResponse, ImageServiceListRequest, ImageServiceListResponse,
    ImageServicePullRequest, ImageServicePullResponse, ImageServiceRemoveRequest, ImageServiceVerifyRequest,
    ImageServiceVerifyResponse, LifecycleServiceInstallProgress, LifecycleServiceInstallRequest,
    LifecycleServiceInstallResponse, LifecycleServiceUpgradeRequest, LifecycleServiceUpgradeResponse,
    image_service_pull_response,
};
use futures::stream::{self, BoxStream, StreamExt as _};
use sha2::{Digest, Sha256};
use tonic::{Request, Response, Status, Streaming};

use super::Api;
use crate::talos::{life, version_at_least};

type Stream<T> = BoxStream<'static, Result<T, Status>>;

impl Api {
    fn since_1_13(&self, service: &str) -> Result<(), Status> {
        let version = { self.node.state().image.as_ref().map(|i| i.version.clone()).unwrap_or_default() };
        if version_at_least(&version, 13) {
            Ok(())
        } else {
            Err(Status::unimplemented(format!("unknown service {service}")))
        }
    }

    /// Pulls an image: its digest is made up from its name, always the same.
    pub(super) fn pull(&self, reference: &str) -> Result<String, Status> {
        let (name, _) = reference.split_once('@').unwrap_or((reference, ""));
        let tagged = name.rsplit_once(':').is_some_and(|(_, tag)| !tag.contains('/'));
        if name.is_empty() || name.contains(' ') {
            return Err(Status::unknown(format!(
                "error pulling image: invalid reference format: {reference:?}"
            )));
        }
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(name)));
        let full = if tagged || reference.contains('@') {
            reference.to_owned()
        } else {
            format!("{reference}:latest")
        };
        self.node.update(|s| s.images.insert(full, digest.clone()));
        let repository = if tagged { name.rsplit_once(':').map_or(name, |(r, _)| r) } else { name };
        Ok(format!("{repository}@{digest}"))
    }

    /// The images on the machine: name and digest.
    pub(super) fn pulled(&self) -> Vec<(String, String)> {
        self.node.state().images.iter().map(|(name, digest)| (name.clone(), digest.clone())).collect()
    }
}

#[tonic::async_trait]
impl LifecycleService for Api {
    type InstallStream = Stream<LifecycleServiceInstallResponse>;
    type UpgradeStream = Stream<LifecycleServiceUpgradeResponse>;

    async fn install(
        &self,
        _: Request<LifecycleServiceInstallRequest>,
    ) -> Result<Response<Self::InstallStream>, Status> {
        self.since_1_13("machine.LifecycleService")?;
        Err(Status::already_exists("machine is already installed"))
    }

    async fn upgrade(
        &self,
        request: Request<LifecycleServiceUpgradeRequest>,
    ) -> Result<Response<Self::UpgradeStream>, Status> {
        self.since_1_13("machine.LifecycleService")?;
        let reference = request.into_inner().source.unwrap_or_default().image_name;
        let running =
            { self.node.state().image.clone() }.ok_or_else(|| Status::internal("no running system"))?;
        if !self.node.state().images.contains_key(&reference) {
            return Err(Status::unknown(format!(
                "installer image {reference:?} not found in containerd store: image {reference:?}: not found"
            )));
        }
        let image = super::machine::installer(&reference, &running, &*self.shared.schematics);
        let (shared, node) = (self.shared.clone(), self.node.clone());
        let lines = match &image {
            Some(image) => vec![
                format!("running Talos installer {}\n", image.version),
                "creating backup of META\n".to_owned(),
                format!("installation of {} complete\n", image.version),
            ],
            None => vec![format!("{reference} is no Talos installer\n")],
        };
        let code = i32::from(image.is_none());
        // Only the installer runs: nothing is checked, drained or rebooted.
        let install = async move {
            shared.pass(&node, shared.durations.install).await;
            if let Some(image) = image {
                life::install(&shared, &node, image);
            }
            Step::ExitCode(code)
        };
        let answer = |step| {
            let progress = Some(LifecycleServiceInstallProgress { response: Some(step) });
            Ok(LifecycleServiceUpgradeResponse { progress })
        };
        let said = stream::iter(lines.into_iter().map(Step::Message));
        Ok(Response::new(Box::pin(said.chain(stream::once(install)).map(answer))))
    }
}

#[tonic::async_trait]
impl ImageService for Api {
    type ListStream = Stream<ImageServiceListResponse>;
    type PullStream = Stream<ImageServicePullResponse>;

    async fn list(&self, _: Request<ImageServiceListRequest>) -> Result<Response<Self::ListStream>, Status> {
        self.since_1_13("machine.ImageService")?;
        let images = self.pulled().into_iter().map(|(name, digest)| {
            Ok(ImageServiceListResponse { name, digest, size: 100 << 20, ..Default::default() })
        });
        Ok(Response::new(Box::pin(stream::iter(images.collect::<Vec<_>>()))))
    }

    async fn pull(
        &self,
        request: Request<ImageServicePullRequest>,
    ) -> Result<Response<Self::PullStream>, Status> {
        self.since_1_13("machine.ImageService")?;
        let name = Api::pull(self, &request.into_inner().image_ref)?;
        let response = Some(image_service_pull_response::Response::Name(name));
        Ok(Response::new(Box::pin(stream::iter([Ok(ImageServicePullResponse { response })]))))
    }

    // Images of the lab are names: there is nothing in them to import or to verify.
    async fn import(
        &self,
        _: Request<Streaming<ImageServiceImportRequest>>,
    ) -> Result<Response<ImageServiceImportResponse>, Status> {
        Err(Status::unimplemented("unknown method Import for service machine.ImageService"))
    }

    async fn verify(
        &self,
        _: Request<ImageServiceVerifyRequest>,
    ) -> Result<Response<ImageServiceVerifyResponse>, Status> {
        Err(Status::unimplemented("unknown method Verify for service machine.ImageService"))
    }

    async fn remove(&self, request: Request<ImageServiceRemoveRequest>) -> Result<Response<()>, Status> {
        self.since_1_13("machine.ImageService")?;
        let reference = request.into_inner().image_ref;
        let removed = self.node.update(|s| s.images.remove(&reference));
        removed.ok_or_else(|| Status::not_found(format!("image {reference} not found")))?;
        Ok(Response::new(()))
    }
}
