//! A chart as it is delivered: its files in a `.tgz`, the same bytes every time.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

/// A chart that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of what it installs.
    pub app_version: String,
    /// Its files by their paths within the chart; `Chart.yaml` is written.
    pub files: BTreeMap<String, String>,
}

impl ChartPackage {
    /// `Chart.yaml`.
    pub(super) fn metadata(&self) -> String {
        format!(
            "apiVersion: v2\nname: {}\ndescription: A stand-in of the lab\ntype: application\nversion: {}\nappVersion: \"{}\"\n",
            self.name, self.version, self.app_version
        )
    }

    /// The archive.
    pub fn archive(&self) -> std::io::Result<Vec<u8>> {
        let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
        let mut tar = tar::Builder::new(gzip);
        let metadata = self.metadata();
        let own = std::iter::once(("Chart.yaml", metadata.as_str()));
        let others = self.files.iter().filter(|(path, _)| *path != "Chart.yaml");
        for (path, text) in own.chain(others.map(|(path, text)| (path.as_str(), text.as_str()))) {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            header.set_cksum();
            tar.append_data(&mut header, format!("{}/{path}", self.name), text.as_bytes())?;
        }
        let mut gzip = tar.into_inner()?;
        gzip.flush()?;
        gzip.finish()
    }
}

/// SHA-256 as lower-case hex.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_the_same_every_time() {
        let files = BTreeMap::from([("templates/a.yaml".to_owned(), "a: 1\n".to_owned())]);
        let chart =
            ChartPackage { name: "x".into(), version: "1.0.0".into(), app_version: "2".into(), files };
        assert_eq!(chart.archive().unwrap(), chart.archive().unwrap());
        let bytes = chart.archive().unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&*bytes));
        let paths: Vec<String> =
            archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(paths, ["x/Chart.yaml", "x/templates/a.yaml"]);
    }
}
