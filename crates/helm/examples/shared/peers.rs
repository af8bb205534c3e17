//! Where real Helm and the published Go modules are on this machine.

use std::path::PathBuf;
use std::process::Command;

/// The newest built Helm of a major version under `DAEDAL_PEERS`, unless `HELM` names a program.
pub fn helm(major: u32) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("HELM") {
        return Some(path.into());
    }
    let folder = std::env::var_os("DAEDAL_PEERS")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/real-peers/bin")))?;
    let prefix = format!("helm-v{major}.");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .filter(|e| e.file_name().to_string_lossy().starts_with(&prefix))
        .map(|e| e.path().join("helm"))
        .filter(|p| p.is_file())
        .collect();
    found.sort();
    found.pop()
}

/// Go's module cache.
pub fn modules() -> Option<PathBuf> {
    let output = Command::new("go").args(["env", "GOMODCACHE"]).output().ok()?;
    let cache = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!cache.is_empty()).then(|| cache.into())
}
