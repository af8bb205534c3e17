//! Where a store is, and who asks for it.

use super::Context;
use super::link::link;
use super::reference::secret;
use super::trust::{STORE, trust};
use crate::cluster::TlsTrust;
use crate::document;
use crate::path::Path;
use crate::store::{S3Store, StorePlace, VaultPlace};

const REGION: &str = "us-east-1";
const LEASE_SECONDS: u32 = 60;

pub(crate) fn store(
    store: Option<&document::Store>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<StorePlace> {
    let Some(store) = store else { return Some(StorePlace::Folder) };
    let at = at.key("store");
    match (&store.s3, &store.vault) {
        (Some(declared), _) => s3(declared, &at.key("s3"), cx).map(|s3| StorePlace::S3(Box::new(s3))),
        (None, declared) => {
            vault(declared.as_ref()?, &at.key("vault"), cx).map(|place| StorePlace::Vault(Box::new(place)))
        }
    }
}

fn vault(place: &document::VaultPlace, at: &Path<'_>, cx: &mut Context<'_>) -> Option<VaultPlace> {
    let Some(server) = cx.vault.clone() else {
        if !cx.has_vault {
            let help = "Declare it with `vault: {address: …, auth: …}` below `spec`.";
            cx.error("store", at, "No Vault is configured.", help);
        }
        return None;
    };
    let given = ["mount", "prefix", "leaseSeconds"].iter().all(|key| cx.given(&at.key(key)));
    let trimmed =
        |text: &Option<String>, usual: &str| text.as_deref().unwrap_or(usual).trim_matches('/').to_owned();
    given.then(|| VaultPlace {
        server,
        mount: trimmed(&place.mount, "secret"),
        prefix: trimmed(&place.prefix, "daedal"),
        lease_seconds: place.lease_seconds.unwrap_or(LEASE_SECONDS),
    })
}

fn s3(s3: &document::S3, at: &Path<'_>, cx: &mut Context<'_>) -> Option<S3Store> {
    let region = s3.region.clone().unwrap_or_else(|| REGION.to_owned());
    let endpoint = match &s3.endpoint {
        Some(text) => endpoint(text, &at.key("endpoint"), cx),
        None => Some(format!("https://s3.{region}.amazonaws.com")),
    };
    let credentials_at = at.key("credentials");
    let access_key_id = secret(&s3.credentials.access_key_id, &credentials_at.key("accessKeyId"), cx);
    let secret_access_key =
        secret(&s3.credentials.secret_access_key, &credentials_at.key("secretAccessKey"), cx);
    let session_token = match &s3.credentials.session_token {
        Some(token) => secret(token, &credentials_at.key("sessionToken"), cx).map(Some),
        None => Some(None),
    };
    let tls: Option<TlsTrust> = trust(s3.tls.as_ref(), &at.key("tls"), &STORE, cx);
    let given = ["bucket", "prefix", "region", "leaseSeconds"].iter().all(|key| cx.given(&at.key(key)));
    given.then_some(())?;
    Some(S3Store {
        bucket: s3.bucket.clone(),
        prefix: s3.prefix.as_deref().unwrap_or_default().trim_matches('/').to_owned(),
        endpoint: endpoint?,
        region,
        access_key_id: access_key_id?,
        secret_access_key: secret_access_key?,
        session_token: session_token?,
        tls: tls?,
        lease_seconds: s3.lease_seconds.unwrap_or(LEASE_SECONDS),
    })
}

fn endpoint(text: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    let url = link(text, &["https", "http"], "Write it as `https://host` or `https://host:9000`.", at, cx)?;
    if url.query().is_some() || url.fragment().is_some() {
        cx.error(
            "url",
            at,
            "The endpoint is the server, without a query.",
            "Write it as `https://host:9000`.",
        );
        return None;
    }
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme() == "http" && !is_local {
        let message = "Over plain HTTP, anyone on the way can read the names of what is kept, and change it.";
        cx.warn("plain-http", at, message, "Use HTTPS; `tls: {ca: …}` trusts a CA of your own.");
    }
    Some(text.trim_end_matches('/').to_owned())
}
