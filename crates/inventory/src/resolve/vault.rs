//! Which Vault keeps secrets, and who asks there.

use super::Context;
use super::link::link;
use super::reference::secret;
use super::trust::{VAULT, trust};
use crate::cluster::{SecretRef, VaultBundle};
use crate::document;
use crate::path::Path;
use crate::vault::{VaultAuth, VaultField, VaultServer};

pub(crate) fn vault(
    vault: Option<&document::Vault>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<VaultServer> {
    let vault = vault?;
    let at = at.key("vault");
    let address = address(&vault.address, &at.key("address"), cx);
    let tls = trust(vault.tls.as_ref(), &at.key("tls"), &VAULT, cx);
    let auth = auth(&vault.auth, &at.key("auth"), cx);
    cx.given(&at.key("namespace")).then_some(())?;
    let namespace = vault.namespace.as_deref().map(|name| name.trim_matches('/').to_owned());
    Some(VaultServer { address: address?, namespace, tls: tls?, auth: auth? })
}

fn address(text: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    let url = link(text, &["https", "http"], "Write it as `https://host:8200`.", at, cx)?;
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme() == "http" && !is_local {
        let message = "Over plain HTTP, anyone on the way can read the token and the secrets.";
        cx.error("plain-http", at, message, "Use HTTPS; `tls: {ca: …}` trusts a CA of your own.");
        return None;
    }
    Some(text.trim_end_matches('/').to_owned())
}

fn auth(auth: &document::VaultAuth, at: &Path<'_>, cx: &mut Context<'_>) -> Option<VaultAuth> {
    if let Some(token) = &auth.token {
        return elsewhere(token, &at.key("token"), cx).map(VaultAuth::Token);
    }
    if let Some(role) = &auth.app_role {
        let at = at.key("appRole");
        let role_id = elsewhere(&role.role_id, &at.key("roleId"), cx);
        let secret_id = elsewhere(&role.secret_id, &at.key("secretId"), cx);
        let mount = role.mount.clone().unwrap_or_else(|| "approle".to_owned());
        return Some(VaultAuth::AppRole { mount, role_id: role_id?, secret_id: secret_id? });
    }
    let logins = [("kubernetes", &auth.kubernetes), ("jwt", &auth.jwt)];
    let (name, login) = logins.into_iter().find_map(|(name, login)| Some((name, login.as_ref()?)))?;
    let at = at.key(name);
    let jwt = elsewhere(&login.jwt, &at.key("jwt"), cx)?;
    let mount = login.mount.clone().unwrap_or_else(|| name.to_owned());
    Some(VaultAuth::Jwt { mount, role: login.role.clone(), jwt })
}

/// What opens a Vault is not in it.
fn elsewhere(reference: &document::SecretRef, at: &Path<'_>, cx: &mut Context<'_>) -> Option<SecretRef> {
    if reference.vault.is_some() {
        let help = "Name an environment variable or a file: `{env: VAULT_TOKEN}`.";
        cx.error(
            "secret",
            &at.key("vault"),
            "The credentials for the Vault cannot be kept in that Vault.",
            help,
        );
        return None;
    }
    secret(reference, at, cx)
}

/// A field of a secret in the Vault that the inventory declares.
pub(crate) fn field(field: &document::VaultRef, at: &Path<'_>, cx: &mut Context<'_>) -> Option<VaultField> {
    if field.path.trim_matches('/').is_empty() || field.key.is_empty() {
        let help = "For example `vault: {path: secret/team/proxmox, key: token}`.";
        cx.error("secret", at, "A secret in a Vault has a path and a key.", help);
        return None;
    }
    let server = Box::new(server(at, cx)?);
    let (path, key) = (field.path.trim_matches('/').to_owned(), field.key.clone());
    Some(VaultField { server, path, key })
}

/// A secret of its own for the bundle, below a mount.
pub(crate) fn bundle(
    bundle: &document::VaultBundle,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<VaultBundle> {
    let path = bundle.path.trim_matches('/');
    if !path.contains('/') || path.split('/').any(|part| part.is_empty() || part == "..") {
        let help = "For example `path: secret/talos/home`: the mount, then a secret that holds nothing else.";
        cx.error("secret", &at.key("path"), "This is not the path of a secret in a Vault.", help);
        return None;
    }
    let server = server(at, cx)?;
    cx.given(&at.key("path")).then(|| VaultBundle { server, path: path.to_owned() })
}

/// The Vault that the inventory declares.
fn server(at: &Path<'_>, cx: &mut Context<'_>) -> Option<VaultServer> {
    if cx.vault.is_none() && !cx.has_vault {
        let help = "Declare it: `vault: {address: \"https://vault.lan:8200\", auth: {token: {env: VAULT_TOKEN}}}` below `spec`.";
        cx.error("secret", at, "No Vault is configured.", help);
    }
    cx.vault.clone()
}
