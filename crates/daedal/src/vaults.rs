//! Secrets in a Vault, and a store in one.

use std::path::Path;
use std::sync::Arc;

use daedal_dial::Direct;
use daedal_inventory::{VaultAuth, VaultField, VaultServer};
use daedal_store::{Keyring, Login, SecretBytes, Vault, VaultSettings};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::trust;
use crate::{keys, secrets};

/// A client of a declared Vault.
pub fn client(server: &VaultServer, folder: &Path, ring: &Keyring) -> Outcome<Vault> {
    let read = |reference, what| {
        secrets::read(reference, what, folder, ring).map(|text| SecretBytes::new(text.into_bytes()))
    };
    let login = match &server.auth {
        VaultAuth::Token(token) => Login::Token(read(token, "the token for Vault")?),
        VaultAuth::AppRole { mount, role_id, secret_id } => Login::AppRole {
            mount: mount.clone(),
            role_id: read(role_id, "the id of the AppRole for Vault")?,
            secret_id: read(secret_id, "the secret of the AppRole for Vault")?,
        },
        VaultAuth::Jwt { mount, role, jwt } => {
            Login::Jwt { mount: mount.clone(), role: role.clone(), jwt: read(jwt, "the JWT for Vault")? }
        }
    };
    let address = url::Url::parse(&server.address).map_err(|error| {
        Failure::new(Exit::BadDocument, format!("{} is not a URL", server.address)).because(&error)
    })?;
    let settings = VaultSettings { address, namespace: server.namespace.clone(), login };
    Vault::new(settings, Arc::new(Direct), trust(&server.tls, folder)?)
        .map_err(|error| keys::failure(&error, Exit::BadDocument))
}

/// Reads a field of a secret; `what` is for the message. No other place is looked at.
pub fn read(field: &VaultField, what: &str, folder: &Path, ring: &Keyring) -> Outcome<String> {
    let vault = client(&field.server, folder, ring)?;
    let VaultField { server, path, key } = field;
    let asking = async { vault.read(path).await };
    let found = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(asking))
        .map_err(|error| keys::failure(&error, Exit::MissingSecret))?;
    let missing = |why: String| Failure::new(Exit::MissingSecret, format!("{what} is missing: {why}"));
    let Some(secret) = found else {
        return Err(missing(format!("the Vault at {} has no secret {path}", server.address)));
    };
    let Some(value) = secret.fields.get(key) else {
        let there: Vec<&str> = secret.fields.keys().map(String::as_str).collect();
        return Err(missing(format!(
            "the secret {path} in the Vault at {} has no key `{key}`",
            server.address
        ))
        .hint(format!("It has these keys: {}.", there.join(", "))));
    };
    match std::str::from_utf8(value.expose()).map(str::trim) {
        Ok("") | Err(_) => Err(missing(format!("the key `{key}` of the secret {path} is empty"))),
        Ok(text) => Ok(text.to_owned()),
    }
}
