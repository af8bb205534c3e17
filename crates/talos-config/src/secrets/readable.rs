//! Which releases of Talos can use a bundle's keys.

use crate::{Error, Result, config::Release, pem, secrets::SecretsBundle};

impl SecretsBundle {
    /// Refuses keys that nodes of this release cannot use, as such nodes would be configured and never answer.
    pub fn check_readable_by(&self, release: Release) -> Result<()> {
        if release.reads_every_key() {
            return Ok(());
        }
        let account = ("k8sserviceaccount", &self.k8s_service_account);
        let keys = self.authorities().map(|(name, pair)| (name, &pair.key));
        for (name, key) in keys.into_iter().chain([account]) {
            let reason = match pem::decode(key.expose()).map(|(label, _)| label) {
                Some("PRIVATE KEY") => {
                    "is in PKCS #8 (`PRIVATE KEY`), which Talos reads from v1.10.3 on: write it as `RSA PRIVATE KEY` \
                     (openssl rsa -traditional) or `EC PRIVATE KEY` (openssl ec)"
                }
                Some(label) if name == "os" && label != "ED25519 PRIVATE KEY" => {
                    "is no Ed25519 key, and before Talos v1.10.3 workers get certificates by no other"
                }
                _ => continue,
            };
            return Err(Error::Bundle { field: format!("certs.{name}.key"), reason: reason.into() });
        }
        Ok(())
    }
}
