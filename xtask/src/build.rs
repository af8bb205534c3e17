//! Builds the binary that is shipped: optimised, static on Linux, the same bytes wherever the project lies.

use std::path::PathBuf;
use std::process::Command;

use crate::{built, cargo, root};

/// The machine that compiles, as Cargo names it.
fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(rustc).arg("-vV").output().map_err(|error| format!("cannot run rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.ok_or_else(|| "rustc does not say for which machine it compiles".to_owned())
}

/// Whether the standard library for a target is installed.
fn has_std(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", target]).output();
    output.is_ok_and(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// The target whose programs need nothing, where it can be built for; else the host's own.
pub fn usual() -> Result<String, String> {
    let host = host()?;
    let musl = host.replace("-linux-gnu", "-linux-musl");
    Ok(if has_std(&musl) { musl } else { host })
}

/// Builds the binary for a target, by default the one that needs least, and gives its path.
pub fn release(target: Option<&str>) -> Result<PathBuf, String> {
    let target = match target {
        Some(target) => target.to_owned(),
        None => usual()?,
    };
    let mut flags =
        vec![format!("--remap-path-prefix={}=/daedal", root().display()), "-Cstrip=symbols".to_owned()];
    if let Some(home) = std::env::var_os("CARGO_HOME")
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo").into_os_string()))
    {
        flags.push(format!("--remap-path-prefix={}=/cargo", PathBuf::from(home).display()));
    }
    if target.contains("-linux-") {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    let mut cargo = cargo();
    // With a target named, build scripts and procedural macros stay ordinary programs of this machine.
    cargo.args([
        "build",
        "--release",
        "--locked",
        "--package",
        "daedal",
        "--bin",
        "daedal",
        "--target",
        &target,
    ]);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env("CARGO_INCREMENTAL", "0");
    let built = built::build(&mut cargo)?;
    let binary = built.into_iter().find(|binary| binary.label == "daedal/daedal");
    binary.map(|binary| binary.executable).ok_or_else(|| "cargo built no daedal".to_owned())
}
