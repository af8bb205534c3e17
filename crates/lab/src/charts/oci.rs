//! The registry: tags, manifests and blobs, for who has fetched a token as public registries want it.

use http::{HeaderValue, Request, Response, StatusCode, header};
use serde_json::{Value, json};

use super::package::digest;
use super::{Charts, Packed};
use crate::http::{Body, full};

const TOKEN: &str = "anonymous";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// A token for whoever asks.
pub(super) fn token() -> Response<Body> {
    crate::http::json(StatusCode::OK, &json!({"token": TOKEN, "access_token": TOKEN, "expires_in": 300}))
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    crate::http::json(status, &json!({"errors": [{"code": code, "message": message}]}))
}

/// Answers below `/v2/`.
pub(super) fn answer(charts: &Charts, host: &str, request: &Request<Body>) -> Response<Body> {
    let path = request.uri().path().trim_start_matches("/v2").trim_matches('/').to_owned();
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if given != Some(&format!("Bearer {TOKEN}")) {
        let mut response = refusal(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "authentication required");
        let repository =
            path.split("/manifests/").next().and_then(|p| p.split("/blobs/").next()).unwrap_or_default();
        let repository = repository.trim_end_matches("/tags/list");
        let challenge = format!(
            "Bearer realm=\"https://{host}/token\",service=\"{host}\",scope=\"repository:{repository}:pull\""
        );
        if let Ok(value) = HeaderValue::from_str(&challenge) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
        return response;
    }
    if path.is_empty() {
        return crate::http::json(StatusCode::OK, &json!({}));
    }
    let chart_of = |repository: &str| repository.rsplit('/').next().unwrap_or_default().to_owned();
    if let Some(repository) = path.strip_suffix("/tags/list") {
        let tags: Vec<String> =
            charts.versions(&chart_of(repository)).iter().map(|packed| tag(&packed.chart.version)).collect();
        if tags.is_empty() {
            return refusal(StatusCode::NOT_FOUND, "NAME_UNKNOWN", "repository name not known to registry");
        }
        return crate::http::json(StatusCode::OK, &json!({"name": repository, "tags": tags}));
    }
    if let Some((repository, reference)) = path.rsplit_once("/manifests/") {
        let all = charts.versions(&chart_of(repository));
        let found = all.iter().find_map(|packed| {
            let bytes = manifest(packed).to_string();
            let named = tag(&packed.chart.version) == reference;
            (named || format!("sha256:{}", digest(bytes.as_bytes())) == reference).then_some(bytes)
        });
        return match found {
            Some(bytes) => digested(MANIFEST, bytes.into_bytes()),
            None => {
                refusal(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", &format!("manifest unknown: {reference}"))
            }
        };
    }
    if let Some((repository, reference)) = path.rsplit_once("/blobs/") {
        let wanted = reference.trim_start_matches("sha256:");
        for packed in charts.versions(&chart_of(repository)) {
            if packed.digest == wanted {
                return digested("application/octet-stream", packed.archive.clone());
            }
            let config = config(&packed);
            if digest(config.as_bytes()) == wanted {
                return digested("application/octet-stream", config.into_bytes());
            }
        }
        return refusal(StatusCode::NOT_FOUND, "BLOB_UNKNOWN", "blob unknown to registry");
    }
    refusal(StatusCode::NOT_FOUND, "UNSUPPORTED", "not found")
}

/// A version as a tag: there is no plus in one.
fn tag(version: &str) -> String {
    version.replace('+', "_")
}

fn config(packed: &Packed) -> String {
    let chart = &packed.chart;
    json!({"apiVersion": "v2", "name": chart.name, "version": chart.version, "appVersion": chart.app_version,
           "type": "application"})
    .to_string()
}

fn manifest(packed: &Packed) -> Value {
    let config = config(packed);
    let chart = &packed.chart;
    json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "digest": format!("sha256:{}", digest(config.as_bytes())), "size": config.len()},
        "layers": [{"mediaType": LAYER, "digest": format!("sha256:{}", packed.digest), "size": packed.archive.len()}],
        "annotations": {"org.opencontainers.image.title": chart.name, "org.opencontainers.image.version": chart.version},
    })
}

fn digested(kind: &'static str, bytes: Vec<u8>) -> Response<Body> {
    let name = format!("sha256:{}", digest(&bytes));
    let mut response = full(StatusCode::OK, kind, bytes);
    if let Ok(value) = HeaderValue::from_str(&name) {
        response.headers_mut().insert("docker-content-digest", value);
    }
    response
}
