//! Charts in OCI registries: a tag names a manifest, the manifest names the archive by digest.

use super::{Fetcher, Login, MAX_ARCHIVE, MAX_DOCUMENT, Reference, Request, Response, choose, has_digest};
use crate::error::Error;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const OLD_CHART_LAYER: &str = "application/tar+gzip";

/// One repository of a registry, and the token it gave us.
struct Registry<'f, 'a> {
    fetcher: &'f Fetcher<'a>,
    reference: &'f Reference,
    base: String,
    token: Option<String>,
}

/// The archive of a chart, its digest checked against the manifest.
pub(super) async fn archive(
    fetcher: &Fetcher<'_>,
    reference: &Reference,
    url: &str,
    wanted: &str,
) -> Result<Vec<u8>, Error> {
    let location = url.strip_prefix("oci://").unwrap_or(url).trim_end_matches('/');
    let Some((host, path)) = location.split_once('/').filter(|(h, p)| !h.is_empty() && !p.is_empty()) else {
        return reference.fail("an OCI chart is written oci://HOST/PATH/NAME");
    };
    let scheme = if fetcher.plain_http { "http" } else { "https" };
    let mut registry =
        Registry { fetcher, reference, base: format!("{scheme}://{host}/v2/{path}"), token: None };
    let tag = if reference.is_exact() { wanted.to_owned() } else { registry.tag(wanted).await? };
    // A plus sign is not allowed in a tag.
    let tag = tag.replace('+', "_");
    let manifest = registry.json(&format!("manifests/{tag}"), Some(MANIFEST)).await?;
    let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
    let layer = layers
        .iter()
        .find(|l| l["mediaType"].as_str().is_some_and(|m| m == CHART_LAYER || m == OLD_CHART_LAYER));
    let Some(digest) = layer.and_then(|l| l["digest"].as_str()) else {
        return reference.fail("the manifest does not contain a layer with a chart");
    };
    if !digest
        .strip_prefix("sha256:")
        .is_some_and(|d| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit()))
    {
        return reference
            .fail(format!("the manifest names its chart by {digest:?}, which is no SHA-256 digest"));
    }
    if let Some(archive) = fetcher.kept(digest) {
        return Ok(archive);
    }
    let response = registry.get(&format!("blobs/{digest}"), None, MAX_ARCHIVE).await?;
    if !has_digest(&response.body, digest) {
        return reference
            .fail(format!("the archive does not have the digest {digest} the manifest promises"));
    }
    Ok(response.body)
}

impl Registry<'_, '_> {
    /// The tag of the newest version a range allows.
    async fn tag(&mut self, wanted: &str) -> Result<String, Error> {
        let list = self.json("tags/list", None).await?;
        let tags: Vec<String> = list["tags"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|t| t.as_str())
            .map(|t| t.replace('_', "+"))
            .collect();
        match choose(tags.iter().map(String::as_str), wanted) {
            Some(tag) => Ok(tag.to_owned()),
            None => self.reference.fail(format!("no tag of the registry satisfies {wanted:?}")),
        }
    }

    async fn json(&mut self, path: &str, accept: Option<&'static str>) -> Result<serde_json::Value, Error> {
        let response = self.get(path, accept, MAX_DOCUMENT).await?;
        match serde_json::from_slice(&response.body) {
            Ok(value) => Ok(value),
            Err(e) => self.reference.fail(format!("{}/{path} is not JSON: {e}", self.base)),
        }
    }

    /// A GET that fetches a token when the registry asks for one.
    async fn get(&mut self, path: &str, accept: Option<&'static str>, limit: u64) -> Result<Response, Error> {
        let url = format!("{}/{path}", self.base);
        for attempt in 0..2 {
            let request = Request { url: url.clone(), accept, authorization: self.token.clone(), limit };
            let response = self.fetcher.get(self.reference, request).await?;
            match response.status {
                200 => return Ok(response),
                401 if attempt == 0 => self.authenticate(response.authenticate.as_deref()).await?,
                401 | 403 => return self.reference.fail(format!("{url}: the registry denies access")),
                404 => return self.reference.fail(format!("{url}: not found")),
                status => return self.reference.fail(format!("{url} answers with status {status}")),
            }
        }
        self.reference.fail(format!("{url}: the registry denies access"))
    }

    async fn authenticate(&mut self, challenge: Option<&str>) -> Result<(), Error> {
        let challenge = challenge.unwrap_or_default();
        let login = self.fetcher.login.as_ref().map(Login::basic);
        let Some(parameters) = challenge.strip_prefix("Bearer ") else {
            self.token = login;
            return match self.token {
                Some(_) => Ok(()),
                None => self.reference.fail("the registry wants a login"),
            };
        };
        let parameter = |name: &str| {
            parameters
                .split(',')
                .filter_map(|p| p.trim().split_once('='))
                .find(|(k, _)| *k == name)
                .map(|(_, v)| v.trim_matches('"').to_owned())
        };
        let Some(realm) = parameter("realm").filter(|r| r.starts_with("https://") || self.fetcher.plain_http)
        else {
            return self.reference.fail("the registry sends us to a token service that is not HTTPS");
        };
        let mut query = Vec::new();
        for name in ["service", "scope"] {
            if let Some(value) = parameter(name) {
                query.push(format!("{name}={}", crate::funcs::query_escape(value.as_bytes())));
            }
        }
        let url = format!("{realm}{}{}", if realm.contains('?') { '&' } else { '?' }, query.join("&"));
        let request = Request { url, accept: None, authorization: login, limit: MAX_DOCUMENT };
        let response = self.fetcher.get(self.reference, request).await?;
        if response.status != 200 {
            return self.reference.fail(format!("the token service answers with status {}", response.status));
        }
        let answer: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
        match answer["token"].as_str().or_else(|| answer["access_token"].as_str()) {
            Some(token) => {
                self.token = Some(format!("Bearer {token}"));
                Ok(())
            }
            None => self.reference.fail("the token service answers without a token"),
        }
    }
}
