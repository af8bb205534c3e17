//! Faults of references to images, of the rules by which images are verified, and of Kubernetes' images.

use yaml_serde::Value;

use super::{Findings, is_set, items, text};
use crate::config::document::MachineConfig;
use crate::config::url::Url;

impl MachineConfig {
    pub(super) fn lint_images(&self, found: &mut Findings) {
        let place = "ImageVerificationConfig";
        for rule in self.of_kind(place).flat_map(|document| items(document, "rules")) {
            let image = text(Some(rule), "image");
            if image.is_empty() {
                found.error(place, "has a rule without an `image`");
            }
            let is_on = |key: &str| rule.get(key).and_then(Value::as_bool) == Some(true);
            let part = |key: &str| rule.get(key).filter(|value| is_set(value));
            let ways = [
                is_on("skip"),
                is_on("deny"),
                part("keyless").is_some(),
                part("publicKey").is_some(),
            ];
            if ways.into_iter().filter(|way| *way).count() != 1 {
                found.error(place, &format!("needs one of skip, deny, keyless and publicKey for `{image}`"));
            }
            if let Some(keyless) = part("keyless") {
                if text(Some(keyless), "issuer").is_empty() {
                    found.error(place, &format!("needs an `issuer` for `{image}`"));
                }
                if ["subject", "subjectRegex"].iter().all(|key| text(Some(keyless), key).is_empty()) {
                    found.error(place, &format!("needs a `subject` or a `subjectRegex` for `{image}`"));
                }
            }
            if part("publicKey").is_some_and(|key| text(Some(key), "certificate").is_empty()) {
                found.error(place, &format!("needs a `certificate` for `{image}`"));
            }
        }
    }
}

/// What is wrong with a reference to an image, as a sentence without its subject.
pub(super) fn fault(image: &str) -> Option<String> {
    if image.is_empty() {
        return Some("is there".into());
    }
    let is_digested = |image: &str| {
        image.split_once('@').is_some_and(|(name, digest)| {
            let digits = digest.strip_prefix("sha256:").unwrap_or_default();
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            digits.len() == 64 && digits.bytes().all(is_hex) && (is_tagged(name) || is_repository(name))
        })
    };
    (!is_tagged(image) && !is_digested(image)).then(|| "can be read, such as docker.io/library/nginx:1.27".into())
}

/// Whether it is a repository with or without a tag.
fn is_tagged(image: &str) -> bool {
    let is_tag = |tag: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        (1..=128).contains(&tag.len()) && tag.bytes().all(plain)
    };
    match image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
        Some((name, tag)) => is_tag(tag) && is_repository(name),
        None => is_repository(image),
    }
}

/// Whether it is a repository, with or without the host that it is on.
fn is_repository(name: &str) -> bool {
    let is_host = |host: &str| host == "localhost" || host.contains(['.', ':']);
    let (host, repository) = match name.split_once('/').filter(|(host, _)| is_host(host)) {
        Some((host, repository)) => (host, repository),
        None => ("", name),
    };
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-./".contains(&byte);
    (2..=255).contains(&repository.len())
        && repository.bytes().all(plain)
        && Url::parse(&format!("//{host}")).is_ok_and(|url| url.host == host)
}
