//! Classic chart repositories: an `index.yaml` that lists archives and their digests.

use super::{Fetcher, MAX_ARCHIVE, MAX_INDEX, Reference, choose, has_digest};
use crate::error::Error;
use crate::yaml::{self, Yaml};

/// The archive of a chart, its digest checked against the index.
pub(super) async fn archive(
    fetcher: &Fetcher<'_>,
    reference: &Reference,
    repository: &str,
    name: &str,
    wanted: &str,
) -> Result<Vec<u8>, Error> {
    let base = repository.trim_end_matches('/');
    let text = fetcher.body(reference, base, &format!("{base}/index.yaml"), MAX_INDEX).await?;
    let index = match yaml::parse_document(&text) {
        Ok(index) => index,
        Err(e) => return reference.fail(format!("{base}/index.yaml is not an index: yaml: {e}")),
    };
    let entries = match index.get("entries").and_then(|e| e.get(name)) {
        Some(Yaml::Sequence(entries)) => entries,
        _ => return reference.fail(format!("chart {name:?} is not in the index")),
    };
    let field =
        |entry: &Yaml<'_>, key: &str| entry.get(key).and_then(yaml::coerced_string).unwrap_or_default();
    let versions: Vec<String> = entries.iter().map(|e| field(e, "version")).collect();
    let Some(chosen) = choose(versions.iter().map(String::as_str), wanted) else {
        return reference.fail(format!("no chart version found for {name}-{wanted}"));
    };
    let Some(entry) = entries.iter().find(|e| field(e, "version") == chosen) else {
        return reference.fail("the index contradicts itself");
    };
    let url = match entry.get("urls") {
        Some(Yaml::Sequence(urls)) => urls.first().and_then(yaml::coerced_string).unwrap_or_default(),
        _ => String::new(),
    };
    if url.is_empty() {
        return reference.fail(format!("chart {name:?} {chosen} has no downloadable URLs"));
    }
    let url = if url.contains("://") { url } else { format!("{base}/{}", url.trim_start_matches('/')) };
    let digest = field(entry, "digest");
    if let Some(archive) = fetcher.kept(&digest) {
        return Ok(archive);
    }
    let data = fetcher.body(reference, base, &url, MAX_ARCHIVE).await?;
    if !digest.is_empty() && !has_digest(&data, &digest) {
        return reference.fail(format!("{url} does not have the digest {digest} the index promises"));
    }
    Ok(data)
}
