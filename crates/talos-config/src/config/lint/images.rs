//! Faults of references to images, of the rules by which images are verified, and of Kubernetes' images.

use yaml_serde::Value;

use super::{Findings, is_set, items, text};
use crate::config::{contract::Release, document::MachineConfig, options::Role, url::Url};

/// Where Kubernetes' images stand in the main document, and whether only control planes run them.
const IN_MAIN: [(&str, bool); 4] = [
    ("machine.kubelet", false),
    ("cluster.apiServer", true),
    ("cluster.controllerManager", true),
    ("cluster.scheduler", true),
];
/// Documents that have them from Talos 1.14 on.
const IN_DOCUMENTS: [&str; 5] = [
    "KubeletConfig",
    "KubeAPIServerConfig",
    "KubeControllerManagerConfig",
    "KubeSchedulerConfig",
    "KubeProxyConfig",
];

impl MachineConfig {
    pub(super) fn lint_images(&self, release: Release, found: &mut Findings) {
        self.lint_verification(found);
        // Earlier ones run what they are told to.
        if release.minor() < 11 {
            return;
        }
        let is_control_plane = self.role() == Some(Role::ControlPlane);
        let main = IN_MAIN
            .iter()
            .filter(|(_, control_plane)| is_control_plane || !control_plane)
            .filter_map(|(path, _)| Some((*path, self.get(path)?)));
        let documents =
            IN_DOCUMENTS.iter().flat_map(|kind| self.of_kind(kind).map(|document| (*kind, document)));
        for (place, of) in main.chain(documents) {
            let is_off = of.get("enabled").and_then(Value::as_bool) == Some(false);
            let image = text(Some(of), "image");
            if !is_off && !image.is_empty() {
                found.errors(place, version_fault(image, release));
            }
        }
    }

    fn lint_verification(&self, found: &mut Findings) {
        let place = "ImageVerificationConfig";
        for rule in self.of_kind(place).flat_map(|document| items(document, "rules")) {
            let image = text(Some(rule), "image");
            if image.is_empty() {
                found.error(place, "has a rule without an `image`");
            }
            let is_on = |key: &str| rule.get(key).and_then(Value::as_bool) == Some(true);
            let part = |key: &str| rule.get(key).filter(|value| is_set(value));
            let ways = [is_on("skip"), is_on("deny"), part("keyless").is_some(), part("publicKey").is_some()];
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

/// Why this Talos does not run the Kubernetes of an image, of which it looks at the tag.
fn version_fault(image: &str, release: Release) -> Option<String> {
    let tag = image.rsplit_once(":v").map(|(_, tag)| tag.split('@').next().unwrap_or_default());
    // What is short of numbers is filled up with zeros.
    let full = |tag: &str| match tag.split('.').count() {
        1 => format!("{tag}.0.0"),
        2 => format!("{tag}.0"),
        _ => tag.to_owned(),
    };
    let runs = tag.map(|version| (version, release.contract.supports_kubernetes(&full(version))));
    let minors = &release.contract.kubernetes_minors;
    match runs {
        Some((_, Ok(true))) => None,
        Some((version, Ok(false))) => Some(format!(
            "has an image of Kubernetes v{version}; Talos v1.{} runs v1.{} to v1.{}",
            release.minor(),
            minors.start(),
            minors.end(),
        )),
        _ => Some(format!(
            "needs an image whose tag is a version of Kubernetes, such as :v1.{}.0",
            minors.end()
        )),
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
    (!is_tagged(image) && !is_digested(image))
        .then(|| "can be read, such as docker.io/library/nginx:1.27".into())
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

#[cfg(test)]
mod tests {
    use super::{fault, version_fault};
    use crate::config::Release;

    #[test]
    fn images_of_kubernetes_are_of_versions_that_talos_runs() {
        let release = Release::of("v1.12.4").unwrap();
        let fault = |image: &str| version_fault(image, release);
        assert_eq!(fault("ghcr.io/siderolabs/kubelet:v1.35.0"), None);
        assert_eq!(fault("kubelet:v1.35"), None);
        assert_eq!(fault("a.lan:5000/kubelet:v1.30.1-rc.0@sha256:00"), None);
        let newer = "has an image of Kubernetes v1.36.0; Talos v1.12 runs v1.30 to v1.35";
        assert_eq!(fault("kubelet:v1.36.0").as_deref(), Some(newer));
        for wrong in ["kubelet", "kubelet:1.35.0", "kubelet:latest", "kubelet:vx"] {
            assert!(fault(wrong).is_some_and(|fault| fault.contains("whose tag is a version")), "{wrong}");
        }
    }

    #[test]
    fn talos_looks_at_the_tag_from_1_11_on() {
        let text = "machine: {type: worker, kubelet: {image: 'reg.lan/kubelet:latest'}}";
        let config = crate::config::MachineConfig::from_yaml(text).unwrap();
        for (version, expected) in
            [("v1.8.0", false), ("v1.10.6", false), ("v1.11.6", true), ("v1.14.1", true)]
        {
            let lints = config.lint(Release::of(version).unwrap());
            let refused = lints.iter().any(|lint| lint.message.contains("whose tag is a version"));
            assert_eq!(refused, expected, "{version}");
        }
    }

    #[test]
    fn references_are_read_as_talos_reads_them() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        for good in ["nginx", "nginx:1.27", "docker.io/library/nginx", "localhost:5000/a/b:c", &digest] {
            assert_eq!(fault(good), None, "{good}");
        }
        for wrong in ["", "a", "Nginx", "nginx:", "nginx:a b", "nginx@sha256:00", "a:b:c:d e"] {
            assert!(fault(wrong).is_some(), "{wrong}");
        }
    }
}
