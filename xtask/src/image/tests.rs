//! The image is read back as a registry would, and what is in it runs with nothing around it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use flate2::read::GzDecoder;
use tar::Archive;

use super::*;

/// A program as small as one can be that needs what the image has for Daedal.
const PROGRAM: &str = r#"fn main() {
    let ca = std::fs::read_to_string(std::env::var("SSL_CERT_FILE").unwrap()).unwrap();
    std::fs::write("/tmp/written", &ca).unwrap();
    let args: Vec<String> = std::env::args().skip(1).collect();
    println!("{} {ca}", args.join(" "));
}"#;

/// The program as a static one, or none where the compiler cannot.
fn program(folder: &Path) -> Option<PathBuf> {
    let (source, made) = (folder.join("program.rs"), folder.join("program"));
    fs::write(&source, PROGRAM).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "-C", "target-feature=+crt-static", "-C", "panic=abort", "-o"]);
    let built = rustc.arg(&made).arg(&source).output().unwrap();
    if !built.status.success() {
        println!("skipped: no static program can be built here: {}", String::from_utf8_lossy(&built.stderr));
        return None;
    }
    Some(made)
}

fn files(archive: &[u8]) -> std::collections::BTreeMap<String, (u32, u64, Vec<u8>)> {
    let mut archive = Archive::new(archive);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let (path, mode) = (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap());
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        assert_eq!(entry.header().mtime().unwrap(), 0, "{path}");
        (path, (mode, entry.header().uid().unwrap(), content))
    });
    entries.collect()
}

/// Follows a reference to its blob, whose digest and size must be right.
fn follow(files: &std::collections::BTreeMap<String, (u32, u64, Vec<u8>)>, reference: &Value) -> Vec<u8> {
    let digest = reference["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let (_, _, content) = &files[&format!("blobs/sha256/{digest}")];
    assert_eq!(sha256(content), digest);
    assert_eq!(reference["size"], content.len());
    content.clone()
}

/// Mission: I11 — an image of the one static binary; its bytes follow from its content, and it runs in an empty root
#[test]
fn the_image_is_read_back_and_runs_in_an_empty_root() {
    let folder = std::env::temp_dir().join(format!("daedal-image-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let Some(binary) = program(&folder) else { return };
    let ca = folder.join("ca.pem");
    fs::write(&ca, "certificates").unwrap();
    let make = |name: &str| {
        let to = folder.join(name);
        let options = Options { binaries: vec![binary.clone()], ca: ca.clone(), to: to.clone() };
        let digest = super::make(&options).unwrap();
        let bytes = fs::read(to).unwrap();
        assert_eq!(sha256(&bytes), digest);
        bytes
    };
    let archive = make("one.tar");
    assert_eq!(archive, make("two.tar"), "the same content has the same bytes");

    let outer = files(&archive);
    let layout: Value = serde_json::from_slice(&outer["oci-layout"].2).unwrap();
    assert_eq!(layout["imageLayoutVersion"], "1.0.0");
    let index: Value = serde_json::from_slice(&outer["index.json"].2).unwrap();
    let [reference] = index["manifests"].as_array().unwrap().as_slice() else { panic!("{index:#}") };
    assert_eq!(reference["platform"]["os"], "linux");
    let manifest: Value = serde_json::from_slice(&follow(&outer, reference)).unwrap();
    let config: Value = serde_json::from_slice(&follow(&outer, &manifest["config"])).unwrap();
    assert_eq!(config["architecture"], reference["platform"]["architecture"]);
    assert_eq!(config["config"]["User"], "65532:65532");
    let mut layer = Vec::new();
    GzDecoder::new(&follow(&outer, &manifest["layers"][0])[..]).read_to_end(&mut layer).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer)));
    let inner = files(&layer);
    assert_eq!(inner["tmp/"].0, 0o1777);
    assert_eq!((inner["work/"].1, inner["home/daedal/"].1), (USER, USER));
    assert_eq!(inner[CERTIFICATES].2, b"certificates");
    assert!(inner.contains_key("usr/share/licenses/daedal/LICENSE-MIT"));

    let empty = folder.join("root");
    fs::create_dir_all(&empty).unwrap();
    let mut unpacked = Archive::new(&layer[..]);
    unpacked.set_preserve_permissions(true);
    unpacked.unpack(&empty).unwrap();
    run(&empty, &config["config"]);
    if let Some(skopeo) = crate::peers::on_path("skopeo") {
        let copied = Command::new(skopeo)
            .args(["--insecure-policy", "copy", "-q"])
            .arg(format!("oci-archive:{}", folder.join("one.tar").display()))
            .arg(format!("dir:{}", folder.join("copied").display()))
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    } else {
        println!("skipped: skopeo is not there; the archive was read by our own reader");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Runs the entry point as its user with that root, where this machine allows it.
fn run(empty: &Path, config: &Value) {
    let Some(output) = in_root(empty, config, &["plan", "--all"]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "plan --all certificates\n");
    assert_eq!(fs::read_to_string(empty.join("tmp/written")).unwrap(), "certificates");
}

/// What the entry point says with that root; none where this machine lets nobody change the root of a program.
fn in_root(empty: &Path, config: &Value, args: &[&str]) -> Option<Output> {
    let variables =
        config["Env"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().split_once('=').unwrap());
    let entry = config["Entrypoint"][0].as_str().unwrap();
    let ways: [&[&str]; 2] =
        [&["chroot", "--userspec=65532:65532"], &["unshare", "--user", "--map-root-user", "chroot"]];
    for way in ways {
        let Some(program) = crate::peers::on_path(way[0]) else { continue };
        let mut command = Command::new(program);
        command.args(&way[1..]).arg(empty).arg(entry).args(args).env_clear().envs(variables.clone());
        let Ok(output) = command.stdin(Stdio::null()).output() else { continue };
        if !String::from_utf8_lossy(&output.stderr).contains("permitted") {
            return Some(output);
        }
    }
    println!("skipped: this machine lets nobody change the root of a program");
    None
}

/// The binary itself, where somebody built a static one and names it: it reads an inventory in an image with nothing else in it.
#[test]
fn a_static_daedal_runs_in_an_empty_root() {
    let Some(binary) = std::env::var_os("DAEDAL_STATIC_BINARY").map(PathBuf::from) else {
        println!("skipped: DAEDAL_STATIC_BINARY names no static binary");
        return;
    };
    let bytes = fs::read(&binary).unwrap();
    standalone(&binary, &bytes).unwrap();
    let empty = std::env::temp_dir().join(format!("daedal-root-{}", std::process::id()));
    fs::create_dir_all(&empty).unwrap();
    let layer = layer(&bytes, b"").unwrap();
    let mut unpacked = Archive::new(&layer[..]);
    unpacked.set_preserve_permissions(true);
    unpacked.unpack(&empty).unwrap();
    fs::copy(crate::root().join("examples/home/cluster.yaml"), empty.join("work/cluster.yaml")).unwrap();
    if let Some(output) = in_root(&empty, &settings(), &["check", "-f", "/work/cluster.yaml"]) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("is valid: cluster home"));
    }
    fs::remove_dir_all(&empty).unwrap();
}

/// A binary that needs a loader would not run in the image: it is refused, with what it needs.
#[test]
fn a_binary_that_needs_libraries_is_refused() {
    let ours = std::env::current_exe().unwrap();
    let refused = standalone(&ours, &fs::read(&ours).unwrap());
    if !cfg!(target_feature = "crt-static") {
        let why = refused.unwrap_err();
        assert!(why.contains("is not static: it needs /") && why.contains("libc.so"), "{why}");
    }
}

/// Whoever builds with a container engine gets the same: user, entry point, variables.
#[test]
fn the_containerfile_says_the_same() {
    let text = fs::read_to_string(crate::root().join("Containerfile")).unwrap();
    let config = settings();
    let user = config["User"].as_str().unwrap();
    for line in [
        format!("USER {user}"),
        format!("ENTRYPOINT {}", config["Entrypoint"]),
        format!("WORKDIR {}", config["WorkingDir"].as_str().unwrap()),
    ] {
        assert!(text.lines().any(|known| known == line), "{line}");
    }
    for variable in config["Env"].as_array().unwrap() {
        assert!(text.contains(variable.as_str().unwrap()), "{variable}");
    }
}

#[test]
fn several_architectures_are_behind_one_index() {
    let images = [("amd64", b"one".to_vec()), ("arm64", b"two".to_vec())];
    let archive = oci(&images).unwrap();
    let outer = files(&archive);
    let index: Value = serde_json::from_slice(&outer["index.json"].2).unwrap();
    let inner: Value = serde_json::from_slice(&follow(&outer, &index["manifests"][0])).unwrap();
    let platforms: Vec<&str> = (inner["manifests"].as_array().unwrap().iter())
        .map(|one| one["platform"]["architecture"].as_str().unwrap())
        .collect();
    assert_eq!(platforms, ["amd64", "arm64"]);
    inner["manifests"].as_array().unwrap().iter().for_each(|one| drop(follow(&outer, one)));
}
