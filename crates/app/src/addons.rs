//! What add-ons are made of: charts of repositories, registries and folders, and manifests of servers. What was fetched is kept by
//! its digest, so that it can be had without its server from then on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daedal_dial::{Dialer, Trust};
use daedal_engine::{AddonFiles, chain};
use daedal_helm::{Cache, Chart, Fetch, Fetched, Fetcher, Reference, Request};
use daedal_inventory::{ADDONS_LOCK, Addon, AddonSource, AddonsLock, KeptValue, LockedChart, SecretRef};
use daedal_store::Store;
use futures::future::BoxFuture;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::charts::Https;

/// Most bytes of manifests on a server.
const MAX_MANIFESTS: u64 = 32 << 20;

/// Reads a secret that the inventory refers to; `what` is for the message.
pub type ReadSecret = Arc<dyn Fn(&SecretRef, &str) -> Result<String, String> + Send + Sync>;

/// Where the parts of add-ons are.
#[derive(Clone)]
pub struct AddonParts {
    /// The folder of the inventory, which local charts are relative to.
    pub folder: PathBuf,
    /// The folder for what is fetched.
    pub cache: PathBuf,
    /// How secrets are read.
    pub secrets: ReadSecret,
    /// The store, which keeps some of the values.
    pub store: Store,
    /// Held while the lock file is changed.
    pub locking: Arc<Mutex<()>>,
    /// How servers are reached.
    pub dialer: Dialer,
    /// How servers prove themselves.
    pub trust: Trust,
    /// Whether the content of charts is kept in `addons.lock` beside the inventory.
    pub locks: bool,
}

impl AddonParts {
    async fn fetched(&self, reference: &Reference) -> Result<Fetched, String> {
        let cache = Cache::new(&self.cache);
        let fetched = Fetcher::new(&self.transport()?, &cache).chart(reference).await;
        fetched.map_err(|error| chain(&error))
    }

    fn transport(&self) -> Result<Https, String> {
        Https::through(self.dialer.clone(), &self.trust).map_err(|error| chain(&error))
    }

    /// A value that a command of ours keeps in the store.
    async fn kept(&self, path: &str, kept: &KeptValue, addon: &str) -> Result<String, String> {
        let found = self.store.kept(&kept.name).await.map_err(|error| chain(&error))?;
        let value = found.and_then(|found| kept.of(std::str::from_utf8(found.expose()).ok()?));
        value.ok_or_else(|| {
            format!(
                "the value {path} of add-on {addon} is missing: `{}` keeps it in {} of the store",
                kept.command, kept.name
            )
        })
    }

    /// Refuses a chart whose content is another than when it was first fetched, and keeps the content of one that is new.
    async fn lock(&self, chart: LockedChart) -> Result<(), String> {
        let path = self.folder.join(ADDONS_LOCK);
        // Charts are fetched side by side, and each writes the whole file.
        let _alone = self.locking.lock().await;
        let mut lock = match tokio::fs::read_to_string(&path).await {
            Ok(text) => AddonsLock::read(&text).map_err(|error| chain(&error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => AddonsLock::default(),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        match lock.sha256(&chart.chart, &chart.repo, &chart.version) {
            Some(known) if known == chart.sha256 => return Ok(()),
            Some(known) => {
                return Err(format!(
                    "the chart {} {} of {} has another content than in {}: SHA-256 {} instead of {known}",
                    chart.chart,
                    chart.version,
                    chart.repo,
                    path.display(),
                    chart.sha256
                ));
            }
            None => {}
        }
        lock.add(chart);
        let written = tokio::fs::write(&path, lock.text()).await;
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    async fn text(&self, url: &str, sha256: &str) -> Result<String, String> {
        let kept = self.cache.join("manifests").join(format!("{sha256}.yaml"));
        if let Ok(bytes) = tokio::fs::read(&kept).await
            && is_of(&bytes, sha256)
        {
            return String::from_utf8(bytes).map_err(|_| format!("{url} is not UTF-8 text"));
        }
        let request =
            Request { url: url.to_owned(), accept: None, authorization: None, limit: MAX_MANIFESTS };
        let transport = self.transport()?;
        let response =
            transport.get(request).await.map_err(|why| format!("{url} could not be fetched: {why}"))?;
        if response.status != 200 {
            return Err(format!(
                "{url} could not be fetched: the server answers with status {}",
                response.status
            ));
        }
        if is_of(&response.body, sha256) {
            // Without what is kept it is fetched again.
            let _ = keep(&kept, &response.body).await;
        }
        String::from_utf8(response.body).map_err(|_| format!("{url} is not UTF-8 text"))
    }
}

fn is_of(bytes: &[u8], sha256: &str) -> bool {
    hex::encode(Sha256::digest(bytes)).eq_ignore_ascii_case(sha256)
}

async fn keep(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    tokio::fs::write(path, bytes).await
}

impl AddonFiles for AddonParts {
    fn chart<'a>(
        &'a self,
        addon: &'a str,
        source: &'a AddonSource,
    ) -> BoxFuture<'a, Result<Arc<Chart>, String>> {
        Box::pin(async move {
            let chart = match source {
                AddonSource::Local { path } => {
                    let path = self.folder.join(path);
                    let why =
                        |error| format!("cannot read the chart in {}: {}", path.display(), chain(&error));
                    Chart::load(&path).map_err(why)?
                }
                AddonSource::Chart { chart, repo, version } => {
                    let reference = match repo.starts_with("oci://") {
                        true => Reference::Oci {
                            url: format!("{}/{chart}", repo.trim_end_matches('/')),
                            version: version.clone(),
                        },
                        false => Reference::Repository {
                            url: repo.clone(),
                            name: chart.clone(),
                            version: version.clone(),
                        },
                    };
                    let fetched = self.fetched(&reference).await?;
                    if self.locks {
                        self.lock(LockedChart {
                            chart: chart.clone(),
                            version: version.clone(),
                            repo: repo.clone(),
                            sha256: fetched.sha256,
                        })
                        .await?;
                    }
                    fetched.chart
                }
                AddonSource::Manifests(_) => return Err(format!("add-on {addon} has no chart")),
            };
            Ok(Arc::new(chart))
        })
    }

    fn manifests<'a>(&'a self, url: &'a str, sha256: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.text(url, sha256))
    }

    fn secrets<'a>(&'a self, addon: &'a Addon) -> BoxFuture<'a, Result<BTreeMap<String, String>, String>> {
        Box::pin(async move {
            let read = addon.secret_values.iter().map(|(path, reference)| {
                let what = format!("the value {path} of add-on {}", addon.name);
                Ok((path.clone(), (self.secrets)(reference, &what)?))
            });
            let mut secrets: BTreeMap<String, String> = read.collect::<Result<_, String>>()?;
            for (path, kept) in &addon.kept_values {
                secrets.insert(path.clone(), self.kept(path, kept, &addon.name).await?);
            }
            Ok(secrets)
        })
    }
}

#[cfg(test)]
mod tests {
    use daedal_dial::Direct;
    use daedal_inventory::{KeptValue, ManifestSource};
    use daedal_store::{Keyring, SecretBytes};

    use super::*;

    fn parts(folder: &Path) -> AddonParts {
        let keys = Keyring::in_file(folder.join("key.txt"));
        AddonParts {
            folder: folder.to_owned(),
            cache: folder.join("charts"),
            secrets: Arc::new(|_, what| Err(format!("{what} was asked for"))),
            store: Store::in_folder(folder.join("store"), "home", "uuid", keys),
            locking: Arc::default(),
            dialer: Arc::new(Direct),
            trust: Trust::System,
            locks: true,
        }
    }

    fn addon() -> Addon {
        let kept = KeptValue {
            name: "ccm.yaml".into(),
            key: "clusters[0].token_secret".into(),
            command: "daedal proxmox ccm".into(),
        };
        Addon {
            name: "proxmox-ccm".into(),
            entry: None,
            namespace: "kube-system".into(),
            source: AddonSource::Manifests(Vec::<ManifestSource>::new()),
            values: Vec::new(),
            secret_values: BTreeMap::new(),
            kept_values: [("config.clusters[0].token_secret".to_owned(), kept)].into(),
            extra: Vec::new(),
            pod_security: None,
            policies: None,
            network: false,
            after: Vec::new(),
            wait: true,
            timeout: 300,
            force: false,
        }
    }

    #[tokio::test]
    async fn values_that_the_store_keeps_are_given_or_missed_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let parts = parts(folder.path());
        let missed = parts.secrets(&addon()).await.unwrap_err();
        assert!(missed.contains("`daedal proxmox ccm` keeps it in ccm.yaml"), "{missed}");
        parts.store.ensure_key().await.unwrap();
        let config = "clusters: [{token_id: a, token_secret: s3cret}]\n";
        parts.store.keep("ccm.yaml", &SecretBytes::new(config.into())).await.unwrap();
        let given = parts.secrets(&addon()).await.unwrap();
        assert_eq!(given["config.clusters[0].token_secret"], "s3cret");
    }

    #[tokio::test]
    async fn charts_that_are_locked_side_by_side_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let parts = parts(folder.path());
        let chart = |number: usize, digit: &str| LockedChart {
            chart: format!("chart-{number}"),
            version: "1.0.0".into(),
            repo: "https://charts.test".into(),
            sha256: digit.repeat(64),
        };
        let locked: Vec<_> = (0..20)
            .map(|number| {
                let (parts, chart) = (parts.clone(), chart(number, "a"));
                tokio::spawn(async move { parts.lock(chart).await })
            })
            .collect();
        for one in locked {
            one.await.unwrap().unwrap();
        }
        let text = std::fs::read_to_string(folder.path().join(ADDONS_LOCK)).unwrap();
        assert_eq!(AddonsLock::read(&text).unwrap().charts().len(), 20, "{text}");
        let other = parts.lock(chart(3, "b")).await.unwrap_err();
        assert!(other.contains("chart-3") && other.contains("another content"), "{other}");
    }
}
