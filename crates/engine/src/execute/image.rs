//! Steps about what VMs are made from: secrets, schematic, disk image, config media; and the output files.

use std::time::Duration;

use daedal_planner::names::media_file;
use daedal_planner::{Content, Phase, Step};
use daedal_proxmox::{Download, Kind, Upload};
use daedal_store::{Pin, SecretBytes};
use daedal_talos_config::SecretsBundle;
use tokio::time::Instant;

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::{Executor, Outcome};

impl Executor<'_> {
    /// Makes the secrets, stores them, reads them back. Until that has happened nothing that depends on them exists.
    pub(super) async fn create_secrets(&self) -> Result<Outcome, Error> {
        let outcome = self.store_secrets().await?;
        // From now on, marks name these secrets, and those that name others are somebody else's.
        if let Some(id) = self.engine.secrets_id().await? {
            self.judge.learn(id);
        }
        Ok(outcome)
    }

    async fn store_secrets(&self) -> Result<Outcome, Error> {
        let parts = &self.engine.parts;
        if self.engine.stored_secrets().await?.is_some() {
            return Ok(Outcome::AlreadyDone);
        }
        let bundle = self.new_secrets().await?;
        let bytes = SecretBytes::new(bundle.to_yaml().expose().as_bytes().to_vec());
        let store = async { Ok(parts.store.write_new_secrets(&bytes).await?) };
        match parts.effects.perform(EffectKind::StoreSecrets, "secrets bundle", store).await {
            Ok(_) => Ok(Outcome::Done),
            // Somebody stored one in the meantime: that one counts.
            Err(Error::Store(daedal_store::Error::SecretsExist { .. })) => Ok(Outcome::AlreadyDone),
            Err(error) => Err(error),
        }
    }

    /// Secrets that nobody has yet.
    pub(super) async fn new_secrets(&self) -> Result<SecretsBundle, Error> {
        let parts = &self.engine.parts;
        let (new, mut rng, now) = (parts.new_secrets.clone(), parts.entropy.generator(), parts.clock.now());
        // The service account's key takes a good second of thinking.
        let made = tokio::task::spawn_blocking(move || new(&mut rng, now)).await;
        made.map_err(Error::Interrupted)?
            .map_err(|source| daedal_machine::Error::Credentials { source }.into())
    }

    pub(super) async fn register_schematic(&self, id: &str) -> Result<Outcome, Error> {
        let parts = &self.engine.parts;
        let Some(schematic) = daedal_machine::image::by_schematic(self.cluster, id) else {
            return Err(Error::Plan { why: format!("its schematic {id} is not this inventory's") });
        };
        let call = async {
            let failed = |source| Error::Factory { what: "register the schematic", source };
            parts.factory.register(&schematic).await.map_err(failed)
        };
        parts.effects.perform(EffectKind::RegisterSchematic, id, call).await?;
        Ok(Outcome::Done)
    }

    /// Streams the image once to learn its size and digest. Whoever downloads it later is held to them.
    pub(super) async fn pin_image(&self, step: &Step, file: &str, url: &str) -> Result<Outcome, Error> {
        let parts = &self.engine.parts;
        let known = parts.store.pin(file).await?;
        if let Some(pin) = known {
            self.compare_with_declared(file, &pin.sha256)?;
            return Ok(Outcome::AlreadyDone);
        }
        self.waiting(step, format!("the Image Factory to send {file}"), Duration::ZERO);
        let source = daedal_machine::image::by_file(self.cluster, file);
        let image = source.map(|source| source.image);
        let Some(image) = image.filter(|image| image.url(&self.cluster.talos.factory) == url) else {
            return Err(Error::Plan { why: format!("{url} is not this inventory's image") });
        };
        let began = Instant::now();
        let mut told = 0;
        let measuring = parts.factory.fingerprint(&image, |so_far, of| {
            // A word every sixteen megabytes is enough.
            if so_far >> 24 > told {
                told = so_far >> 24;
                let of = of.map_or_else(String::new, |of| format!(" of {} MiB", of >> 20));
                let what = format!("the Image Factory to send {file} ({} MiB{of})", so_far >> 20);
                self.waiting(step, what, began.elapsed());
            }
        });
        let measured = tokio::select! {
            measured = measuring => {
                measured.map_err(|source| Error::Factory { what: "measure the disk image", source })?
            }
            () = self.run.stop.cancelled() => return Err(Error::Stopped),
        };
        self.compare_with_declared(file, &measured.sha256)?;
        let pin = Pin {
            file: file.to_owned(),
            size: measured.size,
            sha256: measured.sha256,
            disk_size: measured.disk_size,
        };
        let record = async { Ok::<_, Error>(parts.store.record_pin(pin).await?) };
        parts.effects.perform(EffectKind::StorePin, file, record).await?;
        Ok(Outcome::Done)
    }

    fn compare_with_declared(&self, file: &str, sha256: &str) -> Result<(), Error> {
        match &self.cluster.talos.image_sha256 {
            Some(declared) if declared != sha256 => Err(Error::Image {
                file: file.to_owned(),
                why: format!("its SHA-256 is {sha256}, the inventory says {declared}"),
                fix: Some("correct `talos.imageSha256`, or find out who changed the image".to_owned()),
            }),
            _ => Ok(()),
        }
    }

    /// Has Proxmox download the image. With a checksum, a repeat finds the file and is content.
    pub(super) async fn download_image(
        &self,
        step: &Step,
        content: Content,
        storage: &str,
        file: &str,
        url: &str,
    ) -> Result<Outcome, Error> {
        let host = self.host(step)?;
        let parts = &self.engine.parts;
        let pin = parts.store.pin(file).await?;
        let sha256 = pin.map(|pin| pin.sha256).or_else(|| self.cluster.talos.image_sha256.clone());
        let Some(sha256) = sha256 else {
            let why = "it was never measured".to_owned();
            return Err(Error::Image { file: file.to_owned(), why, fix: None });
        };
        let download = &Download {
            content: content.as_str().to_owned(),
            filename: file.to_owned(),
            url: url.to_owned(),
            sha256: Some(sha256),
            // Hosts know their own roots only. The checksum was measured over a connection that was trusted as declared.
            verify_certificates: self.cluster.talos.factory_tls.is_system(),
        };
        self.persist(step, |_| async move {
            let call = async { Ok(parts.proxmox.download(host, storage, download).await?) };
            let subject = format!("{file} to {storage} on {host}");
            let downloaded = match parts.effects.perform(EffectKind::DownloadImage, subject, call).await {
                Ok(upid) => self.finish(step, &upid, &format!("download {file} on {host}")).await,
                Err(error) => Err(error),
            };
            match downloaded {
                Ok(()) => Ok(Outcome::Done),
                Err(Error::Proxmox(error)) if matches!(error.kind(), Kind::ChecksumMismatch { .. }) => {
                    let (why, volid) = (crate::error::chain(&error), content.volid(storage, file));
                    let fix = format!("if it lies on {host} already: pvesm free {volid}; then run again");
                    Err(Error::Image { file: file.to_owned(), why, fix: Some(fix) })
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    pub(super) async fn delete_image(&self, step: &Step, volid: &str) -> Result<Outcome, Error> {
        let storage = &self.cluster.proxmox.images_storage;
        if !self.engine.images(self.cluster).all().any(|image| image.volid(storage) == volid) {
            return Err(Error::Plan { why: format!("`{volid}` is not this cluster's disk image") });
        }
        self.delete_volume(step, volid, EffectKind::DeleteImage).await
    }

    /// Uploads the node's config ISO. It replaces one of the same name, so a repeat does no harm.
    pub(super) async fn upload_media(
        &self,
        step: &Step,
        storage: &str,
        file: &str,
    ) -> Result<Outcome, Error> {
        let node = self.node(step)?;
        let file = &*self.medium(file);
        if file != media_file(self.cluster, node, self.judge.secrets()) {
            return Err(Error::Plan { why: format!("`{file}` is not the config media of {}", node.name) });
        }
        if self.cluster.boot.by_snippet() {
            let configs = self.configs().await?;
            let config = &configs.node(&node.name)?;
            return self
                .persist(step, |_| async move { self.put_snippet(step, storage, file, config.text()).await })
                .await;
        }
        let upload = &Upload::iso(file, self.configs().await?.media(node)?.to_vec());
        self.persist(step, |_| async move {
            self.put_media(step, storage, upload).await?;
            Ok(Outcome::Done)
        })
        .await
    }

    /// Puts a config ISO on a storage of the step's host.
    pub(super) async fn put_media(&self, step: &Step, storage: &str, upload: &Upload) -> Result<(), Error> {
        let (parts, host, file) = (&self.engine.parts, self.host(step)?, &upload.filename);
        let call = async { Ok::<_, Error>(parts.proxmox.upload(host, storage, upload).await?) };
        let upid = parts.effects.perform(EffectKind::UploadMedia, format!("{file} on {host}"), call).await?;
        self.finish(step, &upid, &format!("upload {file} to {host}")).await
    }

    pub(super) async fn write_outputs(&self) -> Result<Outcome, Error> {
        // A look that went no further than the store saw no VM.
        let hosts = match self.plan.phase {
            Some(Phase::Generate) => self.engine.outputs.hosts().await,
            _ => self.hosts(),
        };
        let parts = &self.engine.parts;
        let mut rng = parts.entropy.generator();
        let now = parts.clock.now();
        if self.cluster.network.discovered {
            let found = self.addresses.discovered(self.cluster);
            let record = async { Ok::<_, Error>(parts.store.record_addresses(&found).await?) };
            parts.effects.perform(EffectKind::StoreAddresses, "addresses", record).await?;
        }
        let configs = self.configs().await?;
        self.engine.outputs.write(&configs, &hosts, &parts.effects, &mut rng, now).await?;
        Ok(Outcome::Done)
    }
}
