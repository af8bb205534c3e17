//! `cargo xtask protos`: the wire types of the Talos node API, generated from `crates/talos-client/proto` and checked in.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

const PROTO: &str = "crates/talos-client/proto";
const GENERATED: &str = "crates/talos-client/src/generated";

/// Writes the generated files, or with `--check` only says whether they are up to date.
pub fn run(args: &[String]) -> ExitCode {
    let check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("usage: cargo xtask protos [--check]");
            return ExitCode::from(64);
        }
    };
    match generate(check) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cannot generate {GENERATED}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn generate(check: bool) -> io::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fresh = root.join("target").join("protos");
    let _ = fs::remove_dir_all(&fresh);
    fs::create_dir_all(&fresh)?;
    let mut generator = crate::cargo();
    generator
        .args(["run", "--quiet", "--locked", "--manifest-path"])
        .arg(root.join("tools/protos/Cargo.toml"))
        .arg("--")
        .args([root.join(PROTO), fresh.clone()]);
    if crate::finished(&mut generator) != ExitCode::SUCCESS {
        return Ok(ExitCode::FAILURE);
    }
    let (fresh, kept) = (files(&fresh)?, files(&root.join(GENERATED)).unwrap_or_default());
    if fresh == kept {
        println!("{GENERATED} is up to date ({} files)", kept.len());
        return Ok(ExitCode::SUCCESS);
    }
    if check {
        eprintln!("{GENERATED} differs from what {PROTO} gives; run: cargo xtask protos");
        return Ok(ExitCode::FAILURE);
    }
    fs::create_dir_all(root.join(GENERATED))?;
    for name in kept.keys().filter(|name| !fresh.contains_key(*name)) {
        fs::remove_file(root.join(GENERATED).join(name))?;
    }
    for (name, text) in &fresh {
        fs::write(root.join(GENERATED).join(name), text)?;
    }
    println!("{GENERATED}: wrote {} files", fresh.len());
    Ok(ExitCode::SUCCESS)
}

/// Name and text of each file of a folder.
fn files(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path())?);
    }
    Ok(files)
}
