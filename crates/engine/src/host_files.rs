//! Files on a Proxmox host, for what its API has no way to upload, and where a storage keeps its snippets.

use std::io;

use futures::future::BoxFuture;

/// The storages of a Proxmox cluster, as every host has them.
pub(crate) const STORAGES: &str = "/etc/pve/storage.cfg";

/// Reads, writes and removes files on a Proxmox host. How is the implementation's secret.
pub trait HostFiles: Send + Sync + 'static {
    /// What is in a file; none if there is no such file.
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, io::Result<Option<Vec<u8>>>>;
    /// Writes a file as a whole, readable by its owner alone.
    fn write<'a>(&'a self, path: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>>;
    /// Removes a file; that there is none is no error.
    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, io::Result<()>>;
}

/// The folder in which a storage keeps its snippets, by the text of `storage.cfg`; none if it keeps none in a folder.
pub(crate) fn snippets_folder(text: &str, storage: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !is_section(line, storage)).skip(1);
    let options: Vec<(&str, &str)> = lines
        .by_ref()
        .take_while(|line| line.starts_with([' ', '\t']))
        .filter_map(|line| line.trim().split_once(char::is_whitespace))
        .collect();
    let option = |name: &str| options.iter().find(|(key, _)| *key == name).map(|(_, value)| value.trim());
    let path = option("path")?.trim_end_matches('/');
    let folders = option("content-dirs").unwrap_or_default();
    let own = folders.split(',').find_map(|one| one.trim().strip_prefix("snippets="));
    path.starts_with('/').then(|| format!("{path}/{}", own.unwrap_or("snippets").trim_matches('/')))
}

/// Whether a line begins the section of a storage: `dir: local`.
fn is_section(line: &str, storage: &str) -> bool {
    !line.starts_with([' ', '\t', '#']) && line.split_once(':').is_some_and(|(_, id)| id.trim() == storage)
}

#[cfg(test)]
mod tests {
    use super::snippets_folder;

    const TEXT: &str = "\
dir: local
\tpath /var/lib/vz
\tcontent iso,vztmpl,backup,snippets

lvmthin: local-lvm
\tthinpool data
\tvgname pve

nfs: nas
\texport /volume1/proxmox
\tpath /mnt/pve/nas
\tserver nas.lan
\tcontent snippets,iso
\tcontent-dirs iso=media,snippets=own/snippets

dir: local-2
\tpath /srv/two/
";

    #[test]
    fn the_folder_of_snippets_is_that_of_its_storage() {
        let folder = |storage| snippets_folder(TEXT, storage);
        assert_eq!(folder("local").as_deref(), Some("/var/lib/vz/snippets"));
        assert_eq!(folder("nas").as_deref(), Some("/mnt/pve/nas/own/snippets"));
        assert_eq!(folder("local-2").as_deref(), Some("/srv/two/snippets"));
        assert_eq!(folder("local-lvm"), None);
        assert_eq!(folder("two"), None);
    }
}
