//! References to secrets, which the binary resolves.

use std::path::PathBuf;

use super::{Context, vault};
use crate::cluster::{SecretRef, SecretsPlace, SopsValue};
use crate::document;
use crate::path::Path;

/// Where a secret is. That exactly one place is named was checked before.
pub(crate) fn secret(secret: &document::SecretRef, at: &Path<'_>, cx: &mut Context<'_>) -> Option<SecretRef> {
    let place = place(secret, at, cx);
    let Some(name) = &secret.r#override else { return place };
    let variable = variable(name, &at.key("override"), cx);
    Some(SecretRef::Override { variable: variable?, otherwise: Box::new(place?) })
}

fn place(secret: &document::SecretRef, at: &Path<'_>, cx: &mut Context<'_>) -> Option<SecretRef> {
    if let Some(name) = &secret.env {
        return variable(name, &at.key("env"), cx).map(SecretRef::Env);
    }
    if let Some(field) = &secret.vault {
        return vault::field(field, &at.key("vault"), cx).map(SecretRef::Vault);
    }
    if let Some(value) = &secret.sops {
        let at = at.key("sops");
        let file = file(&value.file, "secrets.sops.yaml", &at.key("file"), cx);
        let key_at = at.key("key");
        if value.key.is_empty() {
            let help = "For example `key: proxmox.token`.";
            cx.error("secret", &key_at, "`key` must say where the value is in the file.", help);
            return None;
        }
        let key = cx.given(&key_at).then(|| value.key.clone());
        return Some(SecretRef::Sops(SopsValue { file: file?, key: key? }));
    }
    if let Some(words) = &secret.command {
        let at = at.key("command");
        command(words, &at, cx)?;
        return cx.given(&at).then(|| SecretRef::Command(words.clone()));
    }
    file(secret.file.as_ref()?, "token.secret", &at.key("file"), cx).map(SecretRef::File)
}

/// The name of an environment variable.
pub(crate) fn variable(name: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(fits) || name.starts_with(|c: char| c.is_ascii_digit()) {
        // Whoever writes this may have put the secret itself here.
        cx.hide(at);
        let key = match at {
            Path::Key(_, key) => key,
            _ => "env",
        };
        let help = format!(
            "`{key}` is the variable's name, not its value, for example `{key}: PROXMOX_TOKEN_SECRET`."
        );
        cx.error("secret", at, "This is not the name of an environment variable.", help);
        return None;
    }
    cx.given(at).then(|| name.to_owned())
}

/// A program and its arguments.
pub(crate) fn command(words: &[String], at: &Path<'_>, cx: &mut Context<'_>) -> Option<()> {
    let bad = words.first().is_none_or(String::is_empty) || words.iter().any(|word| word.contains('\0'));
    if bad {
        let help = "For example `command: [pass, show, proxmox/token]`.";
        cx.error("secret", at, "`command` must name a program, and its arguments.", help);
        return None;
    }
    Some(())
}

fn file(file: &str, example: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<PathBuf> {
    if file.is_empty() || file.contains('\0') {
        let help = format!("For example `file: {example}`, next to the inventory.");
        cx.error("secret", at, "`file` must name a file.", help);
        return None;
    }
    cx.given(at).then(|| PathBuf::from(file))
}

/// Where the secrets bundle is kept.
pub(crate) fn bundle(
    secrets: Option<&document::Secrets>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<SecretsPlace> {
    let Some(secrets) = secrets else { return Some(SecretsPlace::Store) };
    let secrets_at = at.key("secrets");
    let Some(sops) = &secrets.sops else {
        let bundle = vault::bundle(secrets.vault.as_ref()?, &secrets_at.key("vault"), cx)?;
        return Some(SecretsPlace::Vault(Box::new(bundle)));
    };
    let at = secrets_at.key("sops");
    let is_yaml = [".yaml", ".yml"].iter().any(|end| sops.ends_with(end));
    if !is_yaml || sops.contains('\0') {
        let help = "For example `sops: secrets.sops.yaml`, next to the inventory.";
        cx.error("secret", &at, "The secrets bundle is kept in a file of YAML (`.yaml`, `.yml`).", help);
        return None;
    }
    cx.given(&at).then(|| SecretsPlace::Sops(PathBuf::from(sops)))
}
