//! Renders an add-on for a cluster: fetches what it is made of, and answers what its templates look up.

use std::collections::BTreeMap;
use std::sync::Arc;

use daedal_addons::{Capabilities, Fetched, Inputs, LookupAnswer, ObjectId, Release, Seed, ServedKind};
use daedal_inventory::{Addon, AddonSource, Cluster, ManifestSource, Policies};
use futures::future::try_join_all;
use serde_json::Value;

use super::{AddonFiles, Objects};
use crate::engine::Engine;
use crate::error::chain;

/// How often templates may look up something new because of what they found.
const ROUNDS: usize = 8;

/// What a release is rendered for.
struct Ground<'a> {
    /// The cluster; none where it is not there yet, or does not answer.
    objects: Option<&'a Objects>,
    /// What it serves, or is assumed to.
    capabilities: &'a Capabilities,
    /// What random values are derived from.
    seed: &'a Seed,
    /// The time that templates see.
    now: i64,
}

/// Everything that is not there.
struct Absent;

impl daedal_addons::Lookup for Absent {
    fn get(&self, _: &str, _: &str, _: &str, _: &str) -> LookupAnswer {
        LookupAnswer::Absent
    }
}

/// Declared add-ons, and what each is rendered to; an error is a sentence.
pub(crate) type Releases<'c> = Vec<(&'c Addon, Result<Arc<Release>, String>)>;

/// Every declared add-on as it is rendered for this cluster, with the definitions of all the others. Without a seed what depends on
/// it has no digest, and is not kept.
pub(crate) async fn releases<'c>(
    engine: &Engine,
    cluster: &'c Cluster,
    seed: Option<&Seed>,
    objects: Option<&Objects>,
) -> Releases<'c> {
    let capabilities = match objects {
        Some(objects) => objects.capabilities(),
        None => Capabilities { kube_version: format!("v{}", cluster.kubernetes.version), kinds: Vec::new() },
    };
    let mut all = with(engine, cluster, seed, (objects, &capabilities)).await;
    let defined = all.iter().filter_map(|(_, release)| release.as_ref().ok());
    let defined: Vec<ServedKind> = defined.flat_map(|release| release.defines()).collect();
    let wider = capabilities.clone().and(defined);
    if wider != capabilities {
        all = with(engine, cluster, seed, (objects, &wider)).await;
    }
    if seed.is_some() {
        let rendered = all.iter().filter_map(|(_, release)| release.as_ref().ok());
        rendered.for_each(|release| engine.releases.keep(release.clone()));
    }
    all
}

async fn with<'c>(
    engine: &Engine,
    cluster: &'c Cluster,
    seed: Option<&Seed>,
    (objects, capabilities): (Option<&Objects>, &Capabilities),
) -> Releases<'c> {
    let now = season(engine.parts.clock.now());
    let files = &*engine.parts.addons;
    let mut all = Vec::with_capacity(cluster.addons.len());
    for addon in &cluster.addons {
        let rendered = match seed {
            Some(seed) => render(files, addon, &Ground { objects, capabilities, seed, now }).await,
            None => render_unseeded(files, addon, capabilities, now).await,
        };
        all.push((addon, rendered.map(Arc::new)));
    }
    all
}

/// Renders an add-on. An error is a sentence.
async fn render(files: &dyn AddonFiles, addon: &Addon, ground: &Ground<'_>) -> Result<Release, String> {
    let chart = match &addon.source {
        AddonSource::Manifests(_) => None,
        source => Some(files.chart(&addon.name, source).await?),
    };
    let urls = match &addon.source {
        AddonSource::Manifests(sources) => &sources[..],
        _ => &[],
    };
    let fetched = try_join_all(urls.iter().filter_map(|source| match source {
        ManifestSource::Url { url, sha256 } => Some(async move {
            let text = files.manifests(url, sha256).await?;
            Ok::<_, String>(Fetched { origin: url.clone(), text })
        }),
        ManifestSource::Text(_) => None,
    }))
    .await?;
    let secrets = files.secrets(addon).await?;
    let mut known: BTreeMap<ObjectId, Option<Value>> = BTreeMap::new();
    let schemas = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut rendered = {
            let inputs = Inputs {
                addon,
                chart: chart.as_deref(),
                manifests: &fetched,
                secrets: &secrets,
                capabilities: ground.capabilities,
                lookup: if ground.objects.is_some() { &known } else { &Absent },
                seed: ground.seed,
                now: ground.now,
                schemas: &schemas,
            };
            daedal_addons::render(&inputs).map_err(|error| chain(&error))?
        };
        if addon.policies == Some(Policies::Baseline) {
            daedal_addons::policies::baseline(&mut rendered.release, ground.seed);
        }
        let Some(objects) = ground.objects.filter(|_| !rendered.asked.is_empty()) else {
            return Ok(rendered.release);
        };
        for id in rendered.asked {
            let found = objects.look_up(&id).await.map_err(|error| chain(&error))?;
            known.insert(id, found);
        }
    }
    Err("its templates look up more and more".to_owned())
}

/// Renders the same as [`render`] where no secrets are there yet: what depends on them has no digest.
async fn render_unseeded(
    files: &dyn AddonFiles,
    addon: &Addon,
    capabilities: &Capabilities,
    now: i64,
) -> Result<Release, String> {
    let with = |byte| {
        let seed = Seed::new([byte; 32]);
        async move { render(files, addon, &Ground { objects: None, capabilities, seed: &seed, now }).await }
    };
    let (mut one, other) = (with(1).await?, with(2).await?);
    for (object, again) in one.objects.iter_mut().zip(&other.objects) {
        if object.digest != again.digest {
            object.digest.clear();
        }
    }
    Ok(one)
}

/// The time that templates see: the beginning of the current half of a year, so that what a chart makes of it changes twice a
/// year, and certificates that last for one are renewed in time.
fn season(now: jiff::Timestamp) -> i64 {
    const HALF_A_YEAR: i64 = 182 * 86_400;
    now.as_second().div_euclid(HALF_A_YEAR) * HALF_A_YEAR
}
