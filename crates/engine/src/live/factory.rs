//! The Image Factory's part of the live checks: whether it can build what the inventory names. Nothing is ever taken for "the
//! newest": an exact version that it does not have is refused, with the one that was probably meant.

use daedal_image_factory::OfficialOverlay;
use daedal_inventory::{Cluster, TlsTrust, nearest};
use daedal_talos_image::renamed_extension;

use super::{CheckSubject, CheckVerdict, LiveReport};
use crate::engine::Engine;
use crate::error::chain;

/// What an inventory names and the Image Factory does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInFactory {
    /// What it is.
    pub found: String,
    /// What was probably meant.
    pub fix: Option<String>,
    /// Whether the factory builds the image all the same.
    pub harmless: bool,
}

impl NotInFactory {
    fn new(found: String, fix: Option<String>) -> Self {
        Self { found, fix, harmless: false }
    }
}

impl Engine {
    /// Whether the factory has the version, the extensions and the overlay.
    pub(super) async fn factory(&self, report: &mut LiveReport, cluster: &Cluster) {
        let what = CheckSubject::Factory(cluster.talos.factory.clone());
        let missing = match self.not_in_factory(cluster).await {
            Ok(missing) => missing,
            // An image that is on the storage already needs no factory, so that this alone stops nothing.
            Err(error) => {
                let found = format!("it could not be asked what it has: {}", chain(&error));
                return report.unasked(what, found, None);
            }
        };
        // An image of one's own may be what no factory builds; only upgrades ask for it there.
        let (verdict, but) = match cluster.boot.image {
            Some(_) => {
                (CheckVerdict::Warning, "; nodes are made from `boot.image` without it, but upgrades need it")
            }
            None => (CheckVerdict::Bad, ""),
        };
        if missing.is_empty() {
            let count = cluster.talos.extensions.len();
            let overlay =
                cluster.talos.overlay.iter().map(|overlay| format!(", and the overlay {}", overlay.name));
            let overlay: String = overlay.collect();
            let version = &cluster.talos.version;
            let extensions = match count {
                0 => String::new(),
                1 => " and the declared extension".to_owned(),
                _ => format!(" and the {count} declared extensions"),
            };
            report.good(what.clone(), format!("it has Talos v{version}{extensions}{overlay}"));
        }
        for NotInFactory { found, fix, harmless } in missing {
            match harmless {
                true => report.add(CheckVerdict::Warning, what.clone(), found, fix),
                false => report.add(verdict, what.clone(), format!("{found}{but}"), fix),
            }
        }
        if cluster.talos.factory_tls == TlsTrust::Insecure {
            let found = "its certificate is not verified (`insecure: true`)";
            let fix = "name its CA: `talos.factoryTls: {ca: …}`".to_owned();
            report.add(CheckVerdict::Warning, what, found, Some(fix));
        }
    }

    /// What of the version, the extensions and the overlay the factory does not have.
    ///
    /// # Errors
    /// The factory could not be asked.
    pub async fn not_in_factory(
        &self,
        cluster: &Cluster,
    ) -> Result<Vec<NotInFactory>, daedal_image_factory::Error> {
        let factory = &self.parts.factory;
        let version = format!("v{}", cluster.talos.version);
        let versions = factory.versions().await?;
        if !versions.contains(&version) {
            let fix = like(&version, &versions).map(|other| format!("set talos.version to {other}"));
            return Ok(vec![NotInFactory::new(format!("it has no Talos {version}"), fix)]);
        }
        let extensions = factory.extensions(&version).await?;
        let overlays = match &cluster.talos.overlay {
            Some(_) => factory.overlays(&version).await?,
            None => Vec::new(),
        };
        let known: Vec<&str> = extensions.iter().map(|extension| extension.name.as_str()).collect();
        let has =
            |name: &str| known.contains(&name) || renamed_extension(name).is_some_and(|n| known.contains(&n));
        let unknown = cluster.talos.extensions.iter().filter(|name| !has(name));
        let mut missing: Vec<NotInFactory> = unknown
            .map(|name| {
                let fix = nearest(name, &known).map(|name| format!("did you mean {name}?"));
                NotInFactory::new(format!("{name} is no official extension of Talos {version}"), fix)
            })
            .collect();
        if let Some(overlay) = &cluster.talos.overlay {
            missing.extend(unknown_overlay(&overlay.name, &overlay.image, &version, &overlays));
        }
        Ok(missing)
    }
}

/// What is wrong with an overlay that the factory does not have, and what was probably meant. It goes by the name; the image
/// is only part of the schematic's id.
fn unknown_overlay(
    name: &str,
    image: &str,
    version: &str,
    known: &[OfficialOverlay],
) -> Option<NotInFactory> {
    if let Some(overlay) = known.iter().find(|overlay| overlay.name == name) {
        let fix = format!("set talos.overlay.image to {}", overlay.image);
        let found = format!("the image {image} does not hold the overlay {name} of Talos {version}");
        return (overlay.image != image)
            .then(|| NotInFactory { harmless: true, ..NotInFactory::new(found, Some(fix)) });
    }
    let names: Vec<&str> = known.iter().map(|overlay| overlay.name.as_str()).collect();
    let fix = nearest(name, &names).map(|name| format!("did you mean {name}?"));
    Some(NotInFactory::new(format!("{name} is no official overlay of Talos {version}"), fix))
}

/// The newest patch of the same minor version, or the newest of all.
fn like(version: &str, versions: &[String]) -> Option<String> {
    let numbers = |version: &str| -> Option<[u64; 3]> {
        let mut parts = version.trim_start_matches('v').split('.').map(|part| part.parse().ok());
        Some([parts.next()??, parts.next()??, parts.next()??])
    };
    // A pre-release that is gone has become a release.
    let [major, minor, _] = numbers(version.split('-').next()?)?;
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
        assert_eq!(like("v1.12.0-beta.1", &versions).as_deref(), Some("v1.12.11"));
        assert_eq!(like("latest", &versions), None);
    }

    #[test]
    fn the_overlay_that_was_meant() {
        let overlay = |name: &str, image: &str| OfficialOverlay {
            name: name.to_owned(),
            image: image.to_owned(),
            ..OfficialOverlay::default()
        };
        let known = [
            overlay("rpi_generic", "siderolabs/sbc-raspberrypi"),
            overlay("pine64", "siderolabs/sbc-allwinner"),
        ];
        let said = |name, image| unknown_overlay(name, image, "v1.12.0", &known);
        assert_eq!(said("rpi_generic", "siderolabs/sbc-raspberrypi"), None);
        let lack = said("rpi_generik", "siderolabs/sbc-raspberrypi").unwrap();
        assert_eq!(
            (lack.found.as_str(), lack.fix.as_deref(), lack.harmless),
            ("rpi_generik is no official overlay of Talos v1.12.0", Some("did you mean rpi_generic?"), false)
        );
        let lack = said("rpi_generic", "ghcr.io/siderolabs/sbc-raspberrypi").unwrap();
        assert_eq!(lack.fix.as_deref(), Some("set talos.overlay.image to siderolabs/sbc-raspberrypi"));
        assert!(lack.harmless, "the factory builds it");
        assert_eq!(said("quantum", "acme/quantum").unwrap().fix, None);
    }
}
