//! Downloads by the host itself: names, checksums, and what is verified.

use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use crate::faults::TaskFault;
use crate::proxmox::blob::qcow2;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::fetch::fetch;
use crate::proxmox::schema::{Kind, opt, req, verify};
use crate::proxmox::state::{State, Volume};
use crate::proxmox::tasks::{Job, Stop};

/// The algorithms a checksum can have.
pub(super) const CHECKSUMS: &[&str] = &["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];

/// Characters other than letters, digits and `-_.` become `_`.
pub(super) fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or(name);
    last.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

/// The kinds of content that can be sent to a storage or downloaded to it: appliances to import since 8.3.
pub(super) fn kinds(state: &State) -> Kind {
    Kind::OneOf(if state.at_least(8, 3) { &["iso", "vztmpl", "import"] } else { &["iso", "vztmpl"] })
}

/// Whether disk images can be imported; before 8.4 only appliances could.
pub(super) fn takes_images(state: &State) -> bool {
    state.at_least(8, 4)
}

/// Whether a name has an ending that its content type allows.
pub(super) fn check_name(content: &str, name: &str, images: bool) -> Result<(), ()> {
    let endings: &[&str] = match content {
        "iso" => &[".iso", ".img", ".ISO", ".IMG"],
        "import" if images => &[".ova", ".qcow2", ".raw", ".vmdk"],
        "import" => &[".ova"],
        _ => &[".tar.gz", ".tar.xz", ".tar.zst", ".tar"],
    };
    if endings.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending)) {
        Ok(())
    } else {
        Err(())
    }
}

/// A checksum in hex; none for an algorithm that the lab does not compute.
pub(super) fn digest(algorithm: &str, bytes: &[u8]) -> Option<String> {
    Some(match algorithm {
        "sha1" => hex::encode(Sha1::digest(bytes)),
        "sha224" => hex::encode(Sha224::digest(bytes)),
        "sha256" => hex::encode(Sha256::digest(bytes)),
        "sha384" => hex::encode(Sha384::digest(bytes)),
        "sha512" => hex::encode(Sha512::digest(bytes)),
        _ => return None,
    })
}

/// Whether somebody may let a host reach out into the network.
fn need_network(context: &Context, host: &str) -> Result<(), Fail> {
    let may = context.may(&format!("/nodes/{host}"), "Sys.AccessNetwork")
        || context.may("/", "Sys.Audit") && context.may("/", "Sys.Modify");
    if may { Ok(()) } else { Err(Fail::forbidden_bare()) }
}

/// Certificates are verified unless somebody says otherwise.
fn verifies(context: &Context) -> bool {
    context.param("verify-certificates").is_none() || context.flag("verify-certificates")
}

/// What of a URL can be downloaded at all.
fn need_http(url: &str) -> Result<(), Fail> {
    match url.starts_with("http://") || url.starts_with("https://") {
        true => Ok(()),
        false => Err(Fail::parameter("url", "value does not match the regex pattern")),
    }
}

/// `GET /nodes/{node}/query-url-metadata`
pub(super) async fn metadata(context: &Context, host: &str) -> Answer {
    need_network(context, host)?;
    verify(&context.params, &[req("url", Kind::Text), opt("verify-certificates", Kind::Bool)])?;
    let url = context.param("url").unwrap_or_default();
    need_http(url)?;
    let bytes = fetch(&context.dc, url, verifies(context))
        .await
        .map_err(|failed| Fail::parameter("url", format!("invalid server response: '{}'", failed.line)))?;
    let path = url.split(['?', '#']).next().unwrap_or(url);
    Ok(Data::from(json!({
        "filename": path.rsplit('/').next(),
        "mimetype": "application/octet-stream",
        "size": bytes.len(),
    })))
}

/// `POST /nodes/{node}/storage/{storage}/download-url`
pub(super) fn start(context: &Context, host: &str, id: &str) -> Answer {
    context.need(&format!("/storage/{id}"), &["Datastore.AllocateTemplate"])?;
    need_network(context, host)?;
    verify(
        &context.params,
        &[
            req("content", context.dc.with(|state| kinds(state))),
            req("filename", Kind::Text),
            req("url", Kind::Text),
            opt("checksum", Kind::Text),
            opt("checksum-algorithm", Kind::OneOf(CHECKSUMS)),
            opt("compression", Kind::Text),
            opt("verify-certificates", Kind::Bool),
        ],
    )?;
    let checksum = match (context.param("checksum"), context.param("checksum-algorithm")) {
        (Some(sum), Some(algorithm)) => Some((sum.to_owned(), algorithm.to_owned())),
        (Some(_), None) => {
            return Err(Fail::parameter("checksum", "missing property - 'checksum-algorithm'"));
        }
        (None, Some(_)) => {
            return Err(Fail::parameter("checksum-algorithm", "missing property - 'checksum'"));
        }
        (None, None) => None,
    };
    let content = context.param("content").unwrap_or_default().to_owned();
    context.dc.with(|state| {
        state.store_key(host, id)?;
        let storage = state.storages.get(id).ok_or_else(|| Fail::no_storage(id))?;
        if !storage.holds(&content) {
            return Err(Fail::internal(format!(
                "storage '{id}' is not configured for content-type '{content}'"
            )));
        }
        Ok(())
    })?;
    let url = context.param("url").unwrap_or_default().to_owned();
    need_http(&url)?;
    let filename = safe_name(context.param("filename").unwrap_or_default());
    check_name(&content, &filename, context.dc.with(|state| takes_images(state)))
        .map_err(|()| Fail::parameter("filename", "invalid filename or wrong extension"))?;
    let compression = context.param("compression").map(str::to_owned);
    if compression.is_some() && content != "iso" {
        return Err(Fail::internal(format!("decompression not supported for {content}")));
    }
    let order = Order {
        storage: id.to_owned(),
        content,
        filename: filename.clone(),
        url,
        verifies: verifies(context),
        checksum,
        compression,
    };
    context.fork(host, "download", &filename, |job| order.run(job))
}

struct Order {
    storage: String,
    content: String,
    filename: String,
    url: String,
    verifies: bool,
    checksum: Option<(String, String)>,
    compression: Option<String>,
}

impl Order {
    async fn run(self, job: Job) -> Result<(), Stop> {
        let name = format!("{}/{}", self.content, self.filename);
        let volid = format!("{}:{name}", self.storage);
        let (path, existing) = job.dc.with(|state| {
            let existing = state.volume(&job.host, &volid).map(|volume| volume.bytes.clone());
            (state.volume_path(&self.storage, &name), existing)
        });
        job.log(format!("downloading {} to {path}", self.url));
        if let Some(bytes) = existing {
            let Some((expected, algorithm)) = &self.checksum else {
                return Err(Stop::error(format!("refusing to override existing file '{path}'")));
            };
            job.log("calculating checksum of existing file...");
            let got = digest(algorithm, bytes.bytes()).unwrap_or_default();
            if !got.eq_ignore_ascii_case(expected) {
                return Err(Stop::error(format!(
                    "checksum mismatch: got '{got}' != expect '{expected}', aborting"
                )));
            }
            job.log("OK, got correct file already, no need to download");
            return Ok(());
        }
        let durations = job.dc.durations().clone();
        job.pass(durations.transfer).await?;
        let mut bytes = match job.until(fetch(&job.dc, &self.url, self.verifies)).await? {
            Ok(bytes) => bytes,
            Err(failed) => {
                job.log(failed.line);
                return Err(Stop::error(format!("download failed: exit code {}", failed.exit_code)));
            }
        };
        if job.fault == Some(TaskFault::ShortDownload) {
            bytes.truncate(9);
        }
        let mib = bytes.len() as f64 / f64::from(1u32 << 20);
        job.pass(durations.transfer_mib.mul_f64(mib)).await?;
        if let Some((expected, algorithm)) = &self.checksum {
            job.log("calculating checksum...");
            let got = digest(algorithm, &bytes).unwrap_or_default();
            if !got.eq_ignore_ascii_case(expected) {
                return Err(Stop::error(format!("checksum mismatch: got '{got}' != expect '{expected}'")));
            }
        }
        let bytes = self.decompress(bytes)?;
        let format = match self.content.as_str() {
            "import" => self.filename.rsplit('.').next().unwrap_or("raw").to_owned(),
            "iso" => "iso".into(),
            _ => "tgz".into(),
        };
        if format == "qcow2" {
            verify_qcow2(&bytes, &path)?;
        }
        if job
            .dc
            .with(|state| state.store(&job.host, &self.storage).is_ok_and(|store| !store.takes(bytes.len())))
        {
            job.log(format!("{path}: No space left on device"));
            return Err(Stop::error("download failed: exit code 3"));
        }
        job.dc.with(|state| {
            let volume = Volume::file(&self.content, &format, bytes, state.now);
            state.store_mut(&job.host, &self.storage)?.volumes.insert(name, volume);
            Ok::<_, Fail>(())
        })?;
        job.log(format!("download of '{}' to '{path}' finished", self.url));
        Ok(())
    }

    fn decompress(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Stop> {
        match self.compression.as_deref() {
            None => Ok(bytes),
            Some("gz") => {
                let mut plain = Vec::new();
                std::io::copy(&mut flate2::read::GzDecoder::new(bytes.as_slice()), &mut plain)
                    .map_err(|_| Stop::error("decompression failed: exit code 1"))?;
                Ok(plain)
            }
            Some(_) => Err(Stop::error("no decompression method found")),
        }
    }
}

fn verify_qcow2(bytes: &[u8], path: &str) -> Result<(), Stop> {
    match qcow2(bytes) {
        Some(header) if header.has_backing_file => {
            Err(Stop::error(format!("failed to verify file: '{path}' has a backing file")))
        }
        Some(_) => Ok(()),
        None => Err(Stop::error(format!(
            "failed to verify file: qemu-img: Could not open '{path}': Image is not in qcow2 format"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certain_endings_are_import_names() {
        for name in ["talos.qcow2", "talos.raw", "talos.vmdk", "talos.ova"] {
            assert!(check_name("import", name, true).is_ok(), "{name}");
            assert_eq!(check_name("import", name, false).is_ok(), name == "talos.ova", "{name}");
        }
        assert!(check_name("import", "x.raw.xz", true).is_err());
        assert!(check_name("iso", "a.iso", false).is_ok());
        assert_eq!(safe_name("talos v1:12.iso"), "talos_v1_12.iso");
    }
}
