//! Uploads: a multipart body that becomes a volume.

use crate::proxmox::blob::qcow2;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Fail};
use crate::proxmox::schema::{Kind, opt, req, verify};
use crate::proxmox::state::Volume;
use crate::proxmox::tasks::Stop;

use super::download::{CHECKSUMS, check_name, digest, kinds, safe_name, takes_images};

/// `POST /nodes/{node}/storage/{storage}/upload`
pub(super) fn start(context: &Context, host: &str, id: &str) -> Answer {
    context.need(&format!("/storage/{id}"), &["Datastore.AllocateTemplate"])?;
    let mut params = context.params.clone();
    if let Some(upload) = &context.upload {
        params.insert("filename".into(), upload.filename.clone());
    }
    verify(
        &params,
        &[
            req("content", context.dc.with(|state| kinds(state))),
            req("filename", Kind::Text),
            opt("checksum", Kind::Text),
            opt("checksum-algorithm", Kind::OneOf(CHECKSUMS)),
            opt("tmpfilename", Kind::Text),
        ],
    )?;
    let Some(upload) = &context.upload else {
        return Err(Fail::parameter("filename", "property is missing and it is not optional"));
    };
    let content = context.param("content").unwrap_or_default().to_owned();
    let filename = safe_name(&upload.filename);
    check_name(&content, &filename, context.dc.with(|state| takes_images(state)))
        .map_err(|()| Fail::parameter("filename", "wrong file extension"))?;
    context.dc.with(|state| {
        state.store_key(host, id)?;
        let storage = state.storages.get(id).ok_or_else(|| Fail::no_storage(id))?;
        if !storage.holds(&content) {
            return Err(Fail::internal(format!("storage '{id}' does not support '{content}' content")));
        }
        Ok(())
    })?;
    let checksum = context.param("checksum").map(str::to_owned);
    let algorithm = context.param("checksum-algorithm").unwrap_or("sha256").to_owned();
    let bytes = upload.bytes.clone();
    let storage = id.to_owned();
    context.fork(host, "imgcopy", "", |job| async move {
        let durations = job.dc.durations();
        let mib = bytes.len() as f64 / f64::from(1u32 << 20);
        job.pass(durations.transfer + durations.transfer_mib.mul_f64(mib)).await?;
        if let Some(expected) = &checksum {
            job.log("calculating checksum...");
            let got = digest(&algorithm, &bytes).unwrap_or_default();
            if !got.eq_ignore_ascii_case(expected) {
                return Err(Stop::error(format!("checksum mismatch: got '{got}' != expect '{expected}'")));
            }
        }
        let format = match (content.as_str(), filename.rsplit('.').next()) {
            ("import", Some(ending)) => ending.to_owned(),
            ("iso", _) => "iso".into(),
            _ => "tgz".into(),
        };
        if format == "qcow2" && qcow2(&bytes).is_none() {
            return Err(Stop::error("failed to verify file: Image is not in qcow2 format"));
        }

        if job.dc.with(|state| state.store(&job.host, &storage).is_ok_and(|store| !store.takes(bytes.len())))
        {
            job.log(format!("cp: error writing '{filename}': No space left on device"));
            return Err(Stop::error("import failed: exit code 1"));
        }
        let folder = if content == "vztmpl" { "vztmpl" } else { content.as_str() };
        let name = format!("{folder}/{filename}");
        job.dc
            .with(|state| {
                let path = state.volume_path(&storage, &name);
                let volume = Volume::file(&content, &format, bytes, state.now);
                state.store_mut(&job.host, &storage)?.volumes.insert(name.clone(), volume);
                Ok::<_, Fail>(path)
            })
            .map(|path| {
                job.log(format!("target file: {path}"));
                job.log("finished file import successfully");
            })?;
        Ok(())
    })
}
