//! Where real peers and their data are on this machine.

use std::path::PathBuf;

/// The folder that holds one folder per built peer (`helm-v3.19.0/helm`, `config-tool-v1.13.0/config-tool` …):
/// `DAEDAL_PEERS`, or where the kit that builds them puts them.
pub fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("DAEDAL_PEERS") {
        return folder.into();
    }
    let home = std::env::var_os("REAL_PEERS_HOME").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"));
        cache.join("real-peers")
    });
    home.join("bin")
}

/// Recorded exchanges and schemas of Proxmox, where somebody has them.
pub fn proxmox_data() -> Option<PathBuf> {
    std::env::var_os("DAEDAL_PROXMOX_DATA").map(PathBuf::from)
}

/// A program on the PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The newest built peer whose folder starts with `prefix` and that holds `program`.
pub fn built(prefix: &str, program: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder())
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path().join(program))
        .filter(|file| file.is_file())
        .collect();
    found.sort();
    found.pop()
}
