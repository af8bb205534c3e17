//! Secret texts of machine settings and registries: where they are is checked, and what is there is read.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path as FilePath;

use super::{Context, reference};
use crate::diagnostic::MISSING_SECRET;
use crate::document;
use crate::options::{Hidden, Machine, Registry, SecretText, SopsText, Text, VaultText};
use crate::path::Path;
use crate::vault::VaultField;

/// Checks what the services of extensions are told.
pub(crate) fn check_services(machine: &Machine, at: &Path<'_>, cx: &mut Context<'_>) {
    let services_at = at.key("extensionServices");
    for (i, service) in machine.extension_services.iter().enumerate() {
        let at = services_at.index(i);
        if service.name.is_empty() || service.name.contains(|c: char| c.is_whitespace() || c == '/') {
            let message = format!("`{}` is not the name of a service.", service.name);
            cx.error("extension-service", &at.key("name"), message, "For example `tailscale`.");
        }
        if service.environment.is_empty() && service.files.is_empty() {
            let help = "Give it an `environment` or `files`, or remove it.";
            cx.error("extension-service", &at, "The extension service has no configuration.", help);
        }
        let environment_at = at.key("environment");
        for (name, text) in &service.environment {
            if name.is_empty() || name.contains(['=', ' ']) {
                let message = format!("`{name}` is not the name of an environment variable.");
                cx.error(
                    "extension-service",
                    &environment_at.key(name),
                    message,
                    "For example `TS_AUTHKEY`.",
                );
            }
            check(text, &environment_at.key(name), cx);
        }
        let files_at = at.key("files");
        for (j, file) in service.files.iter().enumerate() {
            let at = files_at.index(j);
            if !file.path.starts_with('/') {
                let message = format!("`{}` is not a path that a service sees.", file.path);
                cx.error("extension-service", &at.key("path"), message, "Begin it with a slash.");
            }
            check(&file.content, &at.key("content"), cx);
        }
    }
}

/// Checks who the nodes are to registries.
pub(crate) fn check_registries(spec: &document::Spec, at: &Path<'_>, cx: &mut Context<'_>) {
    let registries_at = at.key("registries");
    for (host, registry) in spec.registries.iter().flatten() {
        let at = registries_at.key(host);
        if host.is_empty() || host.contains(['/', ' ', '@']) {
            let message = format!("`{host}` is not the host of a registry.");
            cx.error("registry", &at, message, "Write it without a scheme, for example `ghcr.io`.");
        }
        if let Some(auth) = &registry.auth {
            let at = at.key("auth");
            let ways = [auth.password.is_some(), auth.auth.is_some(), auth.identity_token.is_some()];
            if ways.iter().filter(|way| **way).count() != 1
                || auth.username.is_some() != auth.password.is_some()
            {
                let help = "Write `username` and `password`, or `auth`, or `identityToken`.";
                cx.error("registry", &at, "Give exactly one kind of credential.", help);
            }
            for (key, secret) in
                [("password", &auth.password), ("auth", &auth.auth), ("identityToken", &auth.identity_token)]
            {
                if let Some(secret) = secret {
                    look(secret, &at.key(key), cx);
                }
            }
        }
        if let Some(tls) = &registry.tls {
            let at = at.key("tls");
            if tls.client_certificate.is_some() != tls.client_key.is_some() {
                let help = "Write both `clientCertificate` and `clientKey`, or neither.";
                cx.error("registry", &at, "A certificate is of no use without its key.", help);
            }
            if tls.insecure && tls.ca.is_some() {
                let help = "Remove `insecure`, or the `ca`.";
                cx.error("registry", &at.key("insecure"), "Either the CA is trusted or everybody is.", help);
            }
            for (key, text) in [("ca", &tls.ca), ("clientCertificate", &tls.client_certificate)] {
                let Some(text) = text else { continue };
                check(text, &at.key(key), cx);
                let found = found(text, cx).unwrap_or_default();
                if !found.is_empty() && !found.contains("-----BEGIN CERTIFICATE-----") {
                    cx.error(
                        "registry",
                        &at.key(key),
                        "This is not a certificate in PEM.",
                        "Name its file: `{file: ca.pem}`.",
                    );
                }
            }
            if let Some(key) = &tls.client_key {
                look(key, &at.key("clientKey"), cx);
            }
        }
    }
}

/// The registries with their secrets read.
pub(crate) fn registries(spec: &document::Spec, cx: &Context<'_>) -> BTreeMap<String, Registry> {
    let mut registries = spec.registries.clone().unwrap_or_default();
    for registry in registries.values_mut() {
        if let Some(auth) = &mut registry.auth {
            for secret in [&mut auth.password, &mut auth.auth, &mut auth.identity_token].into_iter().flatten()
            {
                fill(secret, cx);
            }
        }
        if let Some(tls) = &mut registry.tls {
            for text in [&mut tls.ca, &mut tls.client_certificate].into_iter().flatten() {
                fill_text(text, cx);
            }
            tls.client_key.iter_mut().for_each(|key| fill(key, cx));
        }
    }
    registries
}

/// Reads the secrets of machine settings.
pub(crate) fn find_in(machine: &mut Machine, cx: &Context<'_>) {
    for service in &mut machine.extension_services {
        service.environment.values_mut().for_each(|text| fill_text(text, cx));
        service.files.iter_mut().for_each(|file| fill_text(&mut file.content, cx));
    }
}

fn fill_text(text: &mut Text, cx: &Context<'_>) {
    if let Text::Secret(secret) = text {
        fill(secret, cx);
    }
}

fn fill(secret: &mut SecretText, cx: &Context<'_>) {
    // What cannot be read is an error of the check.
    secret.found = Hidden(read(secret, cx).unwrap_or_default());
}

fn check(text: &Text, at: &Path<'_>, cx: &mut Context<'_>) {
    if let Text::Secret(secret) = text {
        look(secret, at, cx);
    }
}

fn found(text: &Text, cx: &Context<'_>) -> Option<String> {
    match text {
        Text::Plain(text) => Some(text.clone()),
        Text::Secret(secret) => read(secret, cx).ok(),
    }
}

/// Looks whether the secret is where it is said to be.
fn look(secret: &SecretText, at: &Path<'_>, cx: &mut Context<'_>) {
    if let Some(words) = &secret.command
        && reference::command(words, &at.key("command"), cx).is_none()
    {
        return;
    }
    if let Some(name) = &secret.r#override
        && reference::variable(name, &at.key("override"), cx).is_none()
    {
        return;
    }
    if let Err((code, why)) = read(secret, cx) {
        let help = match (&secret.env, &secret.sops, &secret.vault, &secret.command) {
            (Some(name), ..) => format!("Set it: export {name}=…"),
            (_, Some(value), ..) => {
                format!("Paths are relative to the inventory; `sops {}` edits it.", value.file)
            }
            (_, _, Some(_), _) => "The Vault is the one that `spec.vault` declares.".to_owned(),
            (.., Some(_)) => {
                "Run the command yourself; it must print the secret and nothing else.".to_owned()
            }
            _ => "Paths are relative to the inventory.".to_owned(),
        };
        let help = match &secret.r#override {
            Some(name) => format!("{help} Or override it: export {name}=…"),
            None => help,
        };
        cx.error(code, at, why, help);
    }
}

/// Why a secret cannot be read: the code of the finding, and the sentence.
type Refusal = (&'static str, String);

/// A field of a secret in the Vault.
fn vault(text: &VaultText, cx: &Context<'_>) -> Result<String, Refusal> {
    let Some(server) = &cx.vault else {
        return Err(("secret", "No Vault is configured.".to_owned()));
    };
    let field =
        VaultField { server: Box::new(server.clone()), path: text.path.clone(), key: text.key.clone() };
    cx.files.vault(&field).map_err(|error| (MISSING_SECRET, format!("{error}.")))
}

/// What is where a secret is said to be, without the line break at its end; or why not. A variable that overrides it wins where
/// it says something.
fn read(secret: &SecretText, cx: &Context<'_>) -> Result<String, Refusal> {
    let variable = |name: &String| cx.files.variable(name).filter(|text| !text.trim().is_empty());
    let text = match secret.r#override.as_ref().and_then(variable) {
        Some(text) => text,
        None => declared(secret, cx)?,
    };
    match text.trim_end_matches(['\n', '\r']) {
        "" => Err((MISSING_SECRET, "What is there is empty.".to_owned())),
        text => Ok(text.to_owned()),
    }
}

/// What is in the one place that is declared.
fn declared(secret: &SecretText, cx: &Context<'_>) -> Result<String, Refusal> {
    match secret {
        SecretText { env: Some(name), .. } => cx
            .files
            .variable(name)
            .ok_or_else(|| (MISSING_SECRET, format!("The environment variable {name} is not set."))),
        SecretText { file: Some(file), .. } => cx
            .files
            .read(FilePath::new(file))
            .map_err(|error| unreadable(&format!("The file {file} cannot be read"), &error)),
        SecretText { sops: Some(SopsText { file, key }), .. } => {
            let failed = format!("The key `{key}` of {file} cannot be read");
            cx.files.sops(FilePath::new(file), key).map_err(|error| unreadable(&failed, &error))
        }
        SecretText { vault: Some(text), .. } => vault(text, cx),
        SecretText { command: Some(words), .. } => {
            cx.files.command(words).map_err(|error| (MISSING_SECRET, format!("{error}.")))
        }
        _ => Err(("secret", "A secret is in exactly one place.".to_owned())),
    }
}

fn unreadable(failed: &str, error: &std::io::Error) -> Refusal {
    let (code, why) = match error.kind() {
        // Another's words, such as that a key is missing.
        ErrorKind::Other => (MISSING_SECRET, format!(": {error}")),
        kind @ ErrorKind::NotFound => (MISSING_SECRET, format!(" ({kind})")),
        // Refused before it was opened, in our own words.
        ErrorKind::InvalidInput => ("secret", format!(": {error}")),
        kind => ("secret", format!(" ({kind})")),
    };
    (code, format!("{failed}{why}."))
}
