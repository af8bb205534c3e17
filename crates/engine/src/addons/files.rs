//! Where charts and manifests of add-ons come from.

use std::collections::BTreeMap;
use std::sync::Arc;

use daedal_helm::Chart;
use daedal_inventory::{Addon, AddonSource};
use futures::future::BoxFuture;

/// What is fetched for add-ons, from wherever it is. Errors are sentences.
pub trait AddonFiles: Send + Sync {
    /// The chart of an add-on.
    fn chart<'a>(
        &'a self,
        addon: &'a str,
        source: &'a AddonSource,
    ) -> BoxFuture<'a, Result<Arc<Chart>, String>>;
    /// The text of manifests on a server.
    fn manifests<'a>(&'a self, url: &'a str, sha256: &'a str) -> BoxFuture<'a, Result<String, String>>;
    /// The secret values of an add-on by their dotted path.
    fn secrets<'a>(&'a self, addon: &'a Addon) -> BoxFuture<'a, Result<BTreeMap<String, String>, String>>;
}

/// Has nothing, for inventories whose add-ons are made of what they say themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl AddonFiles for NoFiles {
    fn chart<'a>(&'a self, _: &'a str, _: &'a AddonSource) -> BoxFuture<'a, Result<Arc<Chart>, String>> {
        Box::pin(std::future::ready(Err("no charts can be fetched here".to_owned())))
    }

    fn manifests<'a>(&'a self, url: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(std::future::ready(Err(format!("{url} cannot be fetched here"))))
    }

    fn secrets<'a>(&'a self, addon: &'a Addon) -> BoxFuture<'a, Result<BTreeMap<String, String>, String>> {
        let secrets = match addon.secret_values.is_empty() {
            true => Ok(BTreeMap::new()),
            false => Err("secrets of add-ons cannot be read here".to_owned()),
        };
        Box::pin(std::future::ready(secrets))
    }
}
