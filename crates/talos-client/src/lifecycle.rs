//! A node's operating system and images: upgrades in both forms, rollback, META, images.

use std::time::Duration;

use daedal_talos_config::Secret;
use futures::{Stream, StreamExt};

use crate::{
    Result,
    connect::Client,
    failure::{Failure, FailureKind},
    proto::{common, machine, machine::upgrade_request},
    streams::Answer,
};

const INSTALLER: &str = "run the installer";

/// How long a node may say nothing while it pulls an image or runs the installer; its first word too comes with the first
/// thing to tell.
const PATIENCE: Duration = Duration::from_mins(10);

/// How a node upgrades itself (every version; deprecated since 1.13).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upgrade {
    /// The installer, with its tag.
    pub image: String,
    /// Prepare now, install at the next reboot.
    pub stage: bool,
    /// Skip the checks of etcd.
    pub force: bool,
    /// Reboot through the firmware.
    pub powercycle: bool,
}

/// Whose images: Talos' own, or those of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageNamespace {
    /// Talos' own: installers, etcd, kubelet.
    System,
    /// Those of pods.
    Cri,
}

impl ImageNamespace {
    fn wire(self) -> common::ContainerdNamespace {
        match self {
            Self::System => common::ContainerdNamespace::NsSystem,
            Self::Cri => common::ContainerdNamespace::NsCri,
        }
    }

    fn instance(self) -> common::ContainerdInstance {
        common::ContainerdInstance {
            driver: common::ContainerDriver::Cri.into(),
            namespace: self.wire().into(),
        }
    }
}

/// An image on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage {
    /// Its reference.
    pub name: String,
    /// Its digest.
    pub digest: String,
    /// Bytes.
    pub size: i64,
}

/// How to log in to a registry that an image's signatures are read from.
#[derive(Clone, Debug)]
pub struct RegistryLogin {
    /// Such as `registry.example.org`.
    pub host: String,
    /// Who.
    pub username: String,
    /// Password or token.
    pub password: Secret,
}

/// What a node found out about an image's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageVerification {
    /// The image by its digest, if a rule of the node's config is about it; `None` if no rule is.
    pub verified: Option<String>,
    /// The node's words on it.
    pub message: String,
}

impl Client {
    /// Lets the node upgrade itself: it checks etcd, drains, installs and reboots. Returns the id of the action in the
    /// node's events. Exactly two members of etcd, or an unhealthy one, are refused by the node.
    pub async fn upgrade(&self, upgrade: &Upgrade) -> Result<String> {
        use upgrade_request::RebootMode;
        let mode = if upgrade.powercycle { RebootMode::Powercycle } else { RebootMode::Default };
        let request = self.request(machine::UpgradeRequest {
            image: upgrade.image.clone(),
            preserve: false,
            stage: upgrade.stage,
            force: upgrade.force,
            reboot_mode: mode.into(),
        });
        // The node pulls the image before it answers.
        let reply = self.call_within("upgrade", PATIENCE, self.machine().upgrade(request)).await?;
        Ok(self.only("upgrade", reply.messages)?.actor_id)
    }

    /// Runs the installer and nothing else (since 1.13): no check of etcd, no drain, no reboot. `progress` is told what
    /// the installer says.
    pub async fn install_upgrade(&self, image: &str, progress: impl FnMut(&str)) -> Result<()> {
        let request = self.request(machine::LifecycleServiceUpgradeRequest {
            containerd: Some(ImageNamespace::System.instance()),
            source: Some(machine::InstallArtifactsSource { image_name: image.into() }),
        });
        let mut lifecycle = self.lifecycle();
        let answer = self.follow(INSTALLER, async move { lifecycle.upgrade(request).await }).await?;
        self.follow_installer(answer, |item| item.progress, progress).await
    }

    /// Installs Talos on a disk of a node in maintenance mode (since 1.13), from an image that was pulled before; no
    /// reboot. `progress` is told what the installer says.
    pub async fn install(&self, image: &str, disk: &str, progress: impl FnMut(&str)) -> Result<()> {
        let request = self.request(machine::LifecycleServiceInstallRequest {
            containerd: Some(ImageNamespace::System.instance()),
            source: Some(machine::InstallArtifactsSource { image_name: image.into() }),
            destination: Some(machine::InstallDestination { disk: disk.into() }),
        });
        let mut lifecycle = self.lifecycle();
        let answer = self.follow(INSTALLER, async move { lifecycle.install(request).await }).await?;
        self.follow_installer(answer, |item| item.progress, progress).await
    }

    async fn follow_installer<T>(
        &self,
        mut answer: Answer<T>,
        step: impl Fn(T) -> Option<machine::LifecycleServiceInstallProgress>,
        mut progress: impl FnMut(&str),
    ) -> Result<()> {
        use machine::lifecycle_service_install_progress::Response;
        let mut code = None;
        while let Some(item) = self.next(INSTALLER, PATIENCE, &mut answer).await? {
            match step(item).and_then(|progress| progress.response) {
                Some(Response::Message(text)) => progress(&text),
                Some(Response::ExitCode(exit)) => code = Some(exit),
                None => {}
            }
        }
        match code {
            Some(0) => Ok(()),
            Some(code) => {
                let reason = format!("the installer ended with {code}");
                Err(self.failed(INSTALLER, Failure::new(FailureKind::Other, reason)))
            }
            None => {
                let reason = "the stream ended before the installer did";
                Err(self.failed(INSTALLER, Failure::new(FailureKind::Transient, reason)))
            }
        }
    }

    /// Boots what was installed before.
    pub async fn rollback(&self) -> Result<()> {
        let request = self.request(machine::RollbackRequest {});
        let reply = self.call("rollback", self.machine().rollback(request)).await?;
        self.only("rollback", reply.messages).map(drop)
    }

    /// Writes a value of META, such as key 0xa, the network config of the metal platform.
    pub async fn meta_write(&self, key: u8, value: &[u8]) -> Result<()> {
        let request = machine::MetaWriteRequest { key: key.into(), value: value.to_vec() };
        let reply = self.call("write META", self.machine().meta_write(self.request(request))).await?;
        self.only("write META", reply.messages).map(drop)
    }

    /// Deletes a value of META; one that is not there is as good as deleted.
    pub async fn meta_delete(&self, key: u8) -> Result<()> {
        let request = self.request(machine::MetaDeleteRequest { key: key.into() });
        let done = match self.call("delete META", self.machine().meta_delete(request)).await {
            Ok(reply) => self.only("delete META", reply.messages).map(drop),
            Err(error) => Err(error),
        };
        match done {
            Err(error) if error.kind() == Some(FailureKind::NotFound) => Ok(()),
            other => other,
        }
    }

    /// The images on the node: by the new service, and by the old one where that is not there.
    pub async fn image_list(&self, namespace: ImageNamespace) -> Result<Vec<NodeImage>> {
        const OPERATION: &str = "list images";
        let request = machine::ImageServiceListRequest { containerd: Some(namespace.instance()) };
        let mut images = Vec::new();
        let new = async {
            let stream = self.call(OPERATION, self.images().list(self.request(request))).await?;
            let mut answer = Answer::from(stream);
            while let Some(image) = self.next(OPERATION, self.call_timeout, &mut answer).await? {
                images.push(NodeImage { name: image.name, digest: image.digest, size: image.size });
            }
            Ok(())
        };
        match new.await {
            Ok(()) => return Ok(images),
            Err(error) if is_unimplemented(&error) => images.clear(),
            Err(error) => return Err(error),
        }
        let request = machine::ImageListRequest { namespace: namespace.wire().into() };
        let stream = self.call(OPERATION, self.machine().image_list(self.request(request))).await?;
        let mut answer = Answer::from(stream);
        while let Some(image) = self.next(OPERATION, self.call_timeout, &mut answer).await? {
            Failure::of_metadata(image.metadata.as_ref())
                .map_err(|failure| self.failed(OPERATION, failure))?;
            images.push(NodeImage { name: image.name, digest: image.digest, size: image.size });
        }
        Ok(images)
    }

    /// Has the node pull an image: by the new service, and by the old one where that is not there.
    pub async fn image_pull(&self, namespace: ImageNamespace, reference: &str) -> Result<()> {
        const OPERATION: &str = "pull image";
        let request = machine::ImageServicePullRequest {
            containerd: Some(namespace.instance()),
            image_ref: reference.into(),
        };
        let new = async {
            let (mut images, request) = (self.images(), self.request(request));
            let mut answer = self.follow(OPERATION, async move { images.pull(request).await }).await?;
            while self.next(OPERATION, PATIENCE, &mut answer).await?.is_some() {}
            Ok(())
        };
        match new.await {
            Err(error) if is_unimplemented(&error) => {}
            other => return other,
        }
        let request =
            machine::ImagePullRequest { namespace: namespace.wire().into(), reference: reference.into() };
        let reply =
            self.call_within(OPERATION, PATIENCE, self.machine().image_pull(self.request(request))).await?;
        self.only(OPERATION, reply.messages).map(drop)
    }

    /// Brings an image onto the node from an archive (since 1.13), piece by piece; returns its name.
    pub async fn image_import(
        &self,
        namespace: ImageNamespace,
        archive: impl Stream<Item = Vec<u8>> + Send + 'static,
    ) -> Result<String> {
        use machine::image_service_import_request::Request;
        let first = futures::stream::iter([Request::Containerd(namespace.instance())]);
        let pieces = archive.map(|bytes| Request::ImageChunk(common::Data { metadata: None, bytes }));
        let messages =
            first.chain(pieces).map(|request| machine::ImageServiceImportRequest { request: Some(request) });
        let mut images = self.images();
        let request = images.import(self.request(messages));
        Ok(self.call_within("import image", PATIENCE, request).await?.name)
    }

    /// Has the node verify an image's signature by the rules of its config (since 1.13). A signature that does not hold
    /// is an error.
    pub async fn image_verify(
        &self,
        reference: &str,
        login: Option<&RegistryLogin>,
    ) -> Result<ImageVerification> {
        let request = self.request(machine::ImageServiceVerifyRequest {
            image_ref: reference.into(),
            credentials: login.map(|login| machine::ImageServiceCredentials {
                host: login.host.clone(),
                username: login.username.clone(),
                password: login.password.expose().to_owned(),
            }),
        });
        // The node asks the registry before it answers.
        let mut images = self.images();
        let reply = self.call_within("verify image", Duration::from_mins(2), images.verify(request)).await?;
        let verified = reply.verified.then_some(reply.digested_image_ref);
        Ok(ImageVerification { verified, message: reply.message })
    }

    /// Removes an image from the node (since 1.13).
    pub async fn image_remove(&self, namespace: ImageNamespace, reference: &str) -> Result<()> {
        let request = self.request(machine::ImageServiceRemoveRequest {
            containerd: Some(namespace.instance()),
            image_ref: reference.into(),
        });
        self.call("remove image", self.images().remove(request)).await
    }
}

fn is_unimplemented(error: &crate::Error) -> bool {
    error.kind() == Some(FailureKind::NotImplemented)
}
