//! The Image Factory's part of the live checks: whether it can build what the inventory names. Nothing is ever taken for "the
//! newest": an exact version that it does not have is refused, with the one that was probably meant.

use daedal_inventory::{Cluster, nearest};

use super::{CheckVerdict, LiveReport};
use crate::engine::Engine;
use crate::error::chain;

impl Engine {
    /// Whether the factory has the version and the extensions.
    pub(super) async fn factory(&self, report: &mut LiveReport, cluster: &Cluster) {
        let what = format!("Image Factory at {}", cluster.talos.factory);
        let version = format!("v{}", cluster.talos.version);
        let versions = match self.parts.factory.versions().await {
            Ok(versions) => versions,
            Err(error) => return not_asked(report, what, &error),
        };
        // An image of one's own may be what no factory builds; only upgrades ask for it there.
        let (verdict, but) = match cluster.boot.image {
            Some(_) => {
                (CheckVerdict::Warning, "; nodes are made from `boot.image` without it, but upgrades need it")
            }
            None => (CheckVerdict::Bad, ""),
        };
        if !versions.contains(&version) {
            let fix = like(&version, &versions).map(|other| format!("set talos.version to {other}"));
            return report.add(verdict, what, format!("it has no Talos {version}{but}"), fix);
        }
        let known: Vec<String> = match self.parts.factory.extensions(&version).await {
            Ok(extensions) => extensions.into_iter().map(|extension| extension.name).collect(),
            Err(error) => return not_asked(report, what, &error),
        };
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let mut missing = 0;
        for extension in cluster.talos.extensions.iter().filter(|name| !known.contains(name)) {
            missing += 1;
            let fix = nearest(extension, &names).map(|name| format!("did you mean {name}?"));
            let found = format!("{extension} is no official extension of Talos {version}{but}");
            report.add(verdict, &what, found, fix);
        }
        if missing == 0 {
            let count = cluster.talos.extensions.len();
            report.good(what, format!("it has Talos {version} and its {count} extensions"));
        }
    }
}

/// An image that is on the storage already needs no factory, so that this alone stops nothing.
fn not_asked(report: &mut LiveReport, what: String, error: &daedal_image_factory::Error) {
    let found = format!("it could not be asked what it has: {}", chain(error));
    report.add(CheckVerdict::Warning, what, found, None);
}

/// The newest patch of the same minor version, or the newest of all.
fn like(version: &str, versions: &[String]) -> Option<String> {
    let numbers = |version: &str| -> Option<[u64; 3]> {
        let mut parts = version.trim_start_matches('v').split('.').map(|part| part.parse().ok());
        Some([parts.next()??, parts.next()??, parts.next()??])
    };
    let [major, minor, _] = numbers(version)?;
    // What cannot be read as three numbers is no release.
    let releases = versions.iter().filter_map(|version| Some((numbers(version)?, version)));
    releases
        .max_by_key(|(known, _)| (known[..2] == [major, minor], *known))
        .map(|(_, version)| version.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_that_was_meant() {
        let versions = ["v1.11.6", "v1.12.3", "v1.12.11", "v1.13.0", "v1.14.0-alpha.1"].map(str::to_owned);
        assert_eq!(like("v1.12.99", &versions).as_deref(), Some("v1.12.11"));
        assert_eq!(like("v1.20.0", &versions).as_deref(), Some("v1.13.0"));
        assert_eq!(like("latest", &versions), None);
    }
}
