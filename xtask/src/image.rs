//! `cargo xtask image`: a container image of one static binary, as an OCI archive, made without a container engine.
//!
//! The same binary and the same certificates give the same bytes. `skopeo copy oci-archive:FILE docker://REGISTRY/NAME` pushes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::archive::{Entries, Entry, add, gzip, sha256, tar};
use crate::elf::Elf;
use crate::{build, elf};

const USAGE: &str = "\
usage: cargo xtask image [--binary FILE]… [--ca FILE] [--to FILE]

  --binary FILE   the static binary; one for each architecture (default: build one for this machine)
  --ca FILE       certificates to trust (default: /etc/ssl/certs/ca-certificates.crt)
  --to FILE       the archive (default: target/daedal-VERSION.oci.tar)";

/// Who runs in the image: nobody that a host knows.
const USER: u64 = 65_532;
const VERSION: &str = env!("CARGO_PKG_VERSION");
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

struct Options {
    binaries: Vec<PathBuf>,
    ca: PathBuf,
    to: PathBuf,
}

/// Runs the chore.
pub fn run(args: &[String]) -> ExitCode {
    let Some(options) = parse(args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    match make(&options) {
        Ok(digest) => {
            println!("{}: sha256:{digest}", options.to.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot make the image: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether these are its options.
#[cfg(test)]
pub fn understands(args: &[String]) -> bool {
    parse(args).is_some()
}

fn parse(args: &[String]) -> Option<Options> {
    let to = crate::root().join("target").join(format!("daedal-{VERSION}.oci.tar"));
    let ca = PathBuf::from("/").join(CERTIFICATES);
    let mut options = Options { binaries: Vec::new(), ca, to };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = PathBuf::from(args.next()?);
        match flag.as_str() {
            "--binary" => options.binaries.push(value),
            "--ca" => options.ca = value,
            "--to" => options.to = value,
            _ => return None,
        }
    }
    Some(options)
}

fn make(options: &Options) -> Result<String, String> {
    let built = match options.binaries.is_empty() {
        true => vec![build::release(None)?],
        false => options.binaries.clone(),
    };
    let read =
        |path: &PathBuf| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let ca = read(&options.ca)?;
    let mut images = Vec::new();
    for path in &built {
        let bytes = read(path)?;
        let elf = standalone(path, &bytes)?;
        images.push((elf.arch, layer(&bytes, &ca)?));
    }
    images.sort_by_key(|(arch, _)| *arch);
    if images.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("two of the binaries are for the same architecture".to_owned());
    }
    let archive = oci(&images).map_err(|error| error.to_string())?;
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", options.to.display());
    if let Some(folder) = options.to.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    fs::write(&options.to, &archive).map_err(cannot)?;
    Ok(sha256(&archive))
}

/// Refuses a binary that would find neither its loader nor its libraries in an image with nothing else in it.
pub fn standalone(path: &Path, bytes: &[u8]) -> Result<Elf, String> {
    let elf = elf::read(bytes).map_err(|why| format!("{}: {why}", path.display()))?;
    if elf.is_static() {
        return Ok(elf);
    }
    let needed: Vec<&str> = elf.interpreter.iter().chain(&elf.needed).map(String::as_str).collect();
    Err(format!(
        "{} is not static: it needs {}; build it for musl, or with `-C target-feature=+crt-static`",
        path.display(),
        needed.join(", ")
    ))
}

/// The files of the image, packed.
fn layer(binary: &[u8], ca: &[u8]) -> Result<Vec<u8>, String> {
    let mut entries = Entries::new();
    add(&mut entries, "usr/bin/daedal", Entry::file(0o755, binary));
    add(&mut entries, CERTIFICATES, Entry::file(0o644, ca));
    let users = format!(
        "root:x:0:0:root:/:/sbin/nologin\ndaedal:x:{USER}:{USER}:daedal:/home/daedal:/sbin/nologin\n"
    );
    add(&mut entries, "etc/passwd", Entry::file(0o644, users));
    add(&mut entries, "etc/group", Entry::file(0o644, format!("root:x:0:\ndaedal:x:{USER}:\n")));
    // Also under another user, whom some clusters choose, there is nothing here that must not be read.
    add(&mut entries, "home/daedal", Entry::folder(0o755, USER));
    add(&mut entries, "work", Entry::folder(0o755, USER));
    add(&mut entries, "tmp", Entry::folder(0o1777, 0));
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let text = fs::read(crate::root().join(licence))
            .map_err(|error| format!("cannot read {licence}: {error}"))?;
        add(&mut entries, &format!("usr/share/licenses/daedal/{licence}"), Entry::file(0o644, text));
    }
    tar(&entries).map_err(|error| error.to_string())
}

/// What runs, how, and as whom.
fn settings() -> Value {
    json!({
        "User": format!("{USER}:{USER}"),
        "Env": ["PATH=/usr/bin", "HOME=/home/daedal", format!("SSL_CERT_FILE=/{CERTIFICATES}")],
        "Entrypoint": ["/usr/bin/daedal"],
        "WorkingDir": "/work",
        "Labels": labels(),
    })
}

fn labels() -> Value {
    json!({
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.title": "daedal",
        "org.opencontainers.image.version": VERSION,
    })
}

/// The archive: an index, and for each architecture a manifest, a config and one layer.
fn oci(images: &[(&'static str, Vec<u8>)]) -> std::io::Result<Vec<u8>> {
    let mut entries = Entries::new();
    let mut manifests = Vec::new();
    for (arch, layer) in images {
        let packed = gzip(layer)?;
        let config = json!({
            "architecture": arch,
            "os": "linux",
            "config": settings(),
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(layer))]},
            "history": [{"created_by": "cargo xtask image"}],
        });
        let layer = blob(&mut entries, "application/vnd.oci.image.layer.v1.tar+gzip", packed);
        let config = blob(&mut entries, "application/vnd.oci.image.config.v1+json", config.to_string());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": [layer],
            "annotations": labels(),
        });
        let mut manifest =
            blob(&mut entries, "application/vnd.oci.image.manifest.v1+json", manifest.to_string());
        manifest["platform"] = json!({"architecture": arch, "os": "linux"});
        manifests.push(manifest);
    }
    // One image is the archive's own; several are behind an index, so that whoever reads it chooses by platform.
    if let [manifest] = &mut manifests[..] {
        manifest["annotations"] = json!({"org.opencontainers.image.ref.name": VERSION});
    } else {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests,
        });
        let mut index = blob(&mut entries, "application/vnd.oci.image.index.v1+json", index.to_string());
        index["annotations"] = json!({"org.opencontainers.image.ref.name": VERSION});
        manifests = vec![index];
    }
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    add(&mut entries, "index.json", Entry::file(0o644, index.to_string()));
    add(&mut entries, "oci-layout", Entry::file(0o644, json!({"imageLayoutVersion": "1.0.0"}).to_string()));
    tar(&entries)
}

/// Adds a blob, and gives what refers to it.
fn blob(entries: &mut Entries, kind: &str, content: impl Into<Vec<u8>>) -> Value {
    let content = content.into();
    let (digest, size) = (sha256(&content), content.len());
    add(entries, &format!("blobs/sha256/{digest}"), Entry::file(0o644, content));
    json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": size})
}

#[cfg(test)]
#[path = "image/tests.rs"]
mod tests;
