//! Servers whose certificates are not signed by whom everybody trusts.

use std::path::PathBuf;

use super::{Context, Refusal};
use crate::cluster::TlsTrust;
use crate::document;
use crate::path::Path;

/// Whom a certificate is of, in the words for it.
pub(crate) struct Owner {
    /// An example of a file with its CA.
    ca: &'static str,
    /// Where its fingerprint is shown.
    shown: &'static str,
    /// What it means not to verify it.
    unverified: &'static str,
    /// What to do instead.
    instead: &'static str,
}

/// Proxmox.
pub(crate) const PROXMOX: Owner = Owner {
    ca: "pve-root-ca.pem",
    shown: "Copy it from System → Certificates in Proxmox, or from `pvenode cert info` on the host.",
    unverified: "Proxmox's certificate is not verified: whoever answers at its address gets the token.",
    instead: "Use `tls: {fingerprint: …}` with what `pvenode cert info` on the host shows, or `tls: {ca: …}`.",
};

/// An Image Factory.
pub(crate) const FACTORY: Owner = Owner {
    ca: "factory-ca.pem",
    shown: "Copy it from `openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE`.",
    unverified: "The Image Factory's certificate is not verified: whoever answers at its address chooses what the nodes run.",
    instead: "Use `factoryTls: {ca: …}` or `factoryTls: {fingerprint: …}`.",
};

/// A server that keeps a store.
pub(crate) const STORE: Owner = Owner {
    ca: "store-ca.pem",
    shown: "Copy it from `openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE`.",
    unverified: "The certificate of the store's server is not verified: whoever answers at its address can change what is kept.",
    instead: "Use `tls: {ca: …}` or `tls: {fingerprint: …}`.",
};

/// A Vault.
pub(crate) const VAULT: Owner = Owner {
    ca: "vault-ca.pem",
    shown: "Copy it from `openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE`.",
    unverified: "Vault's certificate is not verified: whoever answers at its address gets the token.",
    instead: "Use `tls: {ca: …}` or `tls: {fingerprint: …}`.",
};

/// How a certificate is trusted. That exactly one way is named was checked before.
pub(crate) fn trust(
    tls: Option<&document::TlsTrust>,
    at: &Path<'_>,
    whose: &Owner,
    cx: &mut Context<'_>,
) -> Option<TlsTrust> {
    let Some(tls) = tls else { return cx.given(at).then_some(TlsTrust::System) };
    if let Some(ca) = &tls.ca {
        if ca.is_empty() || ca.contains('\0') {
            let help = format!("For example `ca: {}`, next to the inventory.", whose.ca);
            cx.error("tls", &at.key("ca"), "`ca` must name a file.", help);
            return None;
        }
        return cx.given(&at.key("ca")).then(|| TlsTrust::Ca(PathBuf::from(ca)));
    }
    if let Some(text) = &tls.fingerprint {
        return cx.take("tls", &at.key("fingerprint"), fingerprint(text, whose)).map(TlsTrust::Fingerprint);
    }
    if tls.insecure != Some(true) {
        return cx.given(at).then_some(TlsTrust::System);
    }
    cx.warn("insecure", &at.key("insecure"), whose.unverified, whose.instead);
    Some(TlsTrust::Insecure)
}

/// A SHA-256 fingerprint as 32 upper-case bytes with colons.
fn fingerprint(text: &str, whose: &Owner) -> Result<String, Refusal> {
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | ' ')).collect();
    if !digits.is_ascii() || hex::decode(&digits).is_err() {
        return Err((format!("`{text}` is not a fingerprint."), whose.shown.to_owned()));
    }
    if digits.len() != 64 {
        let help = "A SHA-256 fingerprint has 32 bytes; 20 would be SHA-1, which is not safe.";
        return Err((format!("This fingerprint has {} bytes.", digits.len() / 2), help.to_owned()));
    }
    let digits = digits.to_ascii_uppercase();
    let pairs: Vec<&str> = (0..32).filter_map(|i| digits.get(i * 2..i * 2 + 2)).collect();
    Ok(pairs.join(":"))
}
