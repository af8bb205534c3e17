//! The files a user gets: talosconfig, kubeconfig, machine configs, secrets and machines.json, in one private folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use daedal_inventory::{Cluster, Reach, Role};
use daedal_store::write_private;
use daedal_talos::{ApiRole, DEFAULT_LIFETIME, KubeconfigOptions, Secret, SecretsBundle, Talosconfig};
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::effects::{EffectKind, Effects};
use crate::error::Error;
use crate::machine;
use crate::status::endpoint_url;

/// Certificates are renewed when less than this is left of them.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(60 * 24);

/// What the folder's files were made from, and what they were. Written last.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    /// Digest of all that goes into the files, randomness and time apart.
    basis: String,
    /// When the credentials in them should be renewed.
    renew_after: Timestamp,
    /// SHA-256 of each file.
    files: BTreeMap<String, String>,
}

const MANIFEST: &str = ".outputs.json";

/// One machine in machines.json.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Machine<'a> {
    name: &'a str,
    pool: &'a str,
    role: Role,
    host: Option<&'a str>,
    vmid: u32,
    uuid: String,
    mac: &'a str,
    address: String,
    cores: u32,
    memory: u64,
    disk: u64,
}

/// Which host each node is on.
pub(crate) type Hosts = BTreeMap<String, String>;

/// The output folder of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    folder: PathBuf,
}

impl Outputs {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Whether every file is there, whole, made from the same things, and not about to expire.
    pub(crate) async fn are_current(
        &self,
        cluster: &Cluster,
        secrets: &SecretsBundle,
        hosts: &Hosts,
        now: Timestamp,
    ) -> bool {
        let folder = self.folder.clone();
        let basis = basis(cluster, secrets, hosts);
        let look = move || {
            let text = std::fs::read(folder.join(MANIFEST)).ok()?;
            let manifest: Manifest = serde_json::from_slice(&text).ok()?;
            let whole = manifest.files.iter().all(|(name, digest)| {
                std::fs::read(folder.join(name)).is_ok_and(|bytes| sha256(&bytes) == *digest)
            });
            Some(whole && manifest.basis == basis && now < manifest.renew_after)
        };
        tokio::task::spawn_blocking(look).await.ok().flatten().unwrap_or(false)
    }

    /// Writes all files, each atomically, the manifest last.
    pub(crate) async fn write(
        &self,
        cluster: &Cluster,
        secrets: &SecretsBundle,
        hosts: &Hosts,
        effects: &Effects,
        rng: &mut StdRng,
        now: Timestamp,
    ) -> Result<(), Error> {
        let before = self.written().await;
        let mut digests = BTreeMap::new();
        for (name, content) in files(cluster, secrets, hosts, rng, now)? {
            digests.insert(name.clone(), sha256(content.expose().as_bytes()));
            self.put(effects, &name, content).await?;
        }
        let manifest = Manifest {
            basis: basis(cluster, secrets, hosts),
            renew_after: now + DEFAULT_LIFETIME - RENEW_BEFORE,
            files: digests,
        };
        for name in before.iter().filter(|name| !manifest.files.contains_key(*name)) {
            self.remove(effects, name).await?;
        }
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
        self.put(effects, MANIFEST, Secret::new(text)).await
    }

    /// What an earlier run wrote, by its manifest. Other files in the folder are their owner's.
    async fn written(&self) -> Vec<String> {
        let path = self.folder.join(MANIFEST);
        let read = move || {
            let manifest: Manifest = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
            let inside = |name: &String| {
                Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
            };
            Some(manifest.files.into_keys().filter(inside).collect())
        };
        tokio::task::spawn_blocking(read).await.ok().flatten().unwrap_or_default()
    }

    /// Removes the file of a node that is no longer declared: it is full of keys.
    async fn remove(&self, effects: &Effects, name: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        let shown = path.display().to_string();
        effects
            .perform(EffectKind::WriteOutput, name, async move {
                match tokio::fs::remove_file(&path).await {
                    Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                        Err(Error::RemoveOutput { path: shown, source })
                    }
                    _ => Ok(()),
                }
            })
            .await
    }

    async fn put(&self, effects: &Effects, name: &str, content: Secret) -> Result<(), Error> {
        let path = self.folder.join(name);
        effects
            .perform(EffectKind::WriteOutput, name, async move {
                tokio::task::spawn_blocking(move || write(&path, &content))
                    .await
                    .map_err(Error::Interrupted)?
            })
            .await
    }
}

fn write(path: &Path, content: &Secret) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        daedal_store::make_private_folder(folder)?;
    }
    Ok(write_private(path, content.expose().as_bytes())?)
}

/// Every file by name, with its content.
fn files(
    cluster: &Cluster,
    secrets: &SecretsBundle,
    hosts: &Hosts,
    rng: &mut StdRng,
    now: Timestamp,
) -> Result<Vec<(String, Secret)>, Error> {
    let credentials = |source| Error::Credentials { source };
    let mut files = Vec::with_capacity(cluster.nodes.len() + 6);
    files.push(("secrets.yaml".to_owned(), secrets.to_yaml()));
    for role in [Role::ControlPlane, Role::Worker] {
        let name = match role {
            Role::ControlPlane => "controlplane.yaml",
            Role::Worker => "worker.yaml",
        };
        files.push((name.to_owned(), machine::role_config(cluster, role, secrets)?));
    }
    for node in &cluster.nodes {
        files.push((format!("nodes/{}.yaml", node.name), machine::config(cluster, node, secrets)?));
    }
    files.push(("machines.json".to_owned(), Secret::new(machines(cluster, hosts))));
    let talosconfig = Talosconfig {
        context: cluster.name.clone(),
        endpoints: cluster.control_planes().map(|node| node.address.addr().to_string()).collect(),
        nodes: cluster.control_planes().take(1).map(|node| node.address.addr().to_string()).collect(),
        credentials: secrets
            .client_credentials(ApiRole::Admin, DEFAULT_LIFETIME, rng, now)
            .map_err(credentials)?,
    };
    files.push(("talosconfig".to_owned(), talosconfig.to_yaml().map_err(credentials)?));
    let options = KubeconfigOptions {
        cluster: cluster.name.clone(),
        server: endpoint_url(cluster),
        proxy_url: match &cluster.reach {
            Reach::Direct => None,
            Reach::Proxy(url) => Some(url.clone()),
        },
    };
    let kubeconfig = secrets.kubeconfig(&options, DEFAULT_LIFETIME, rng, now).map_err(credentials)?;
    files.push(("kubeconfig".to_owned(), kubeconfig));
    Ok(files)
}

fn machines(cluster: &Cluster, hosts: &Hosts) -> String {
    let machines: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| Machine {
            name: &node.name,
            pool: &node.pool,
            role: node.role,
            host: hosts.get(&node.name).map(String::as_str),
            vmid: node.vmid,
            uuid: node.uuid.to_string(),
            mac: &node.mac,
            address: node.address.addr().to_string(),
            cores: node.cores,
            memory: node.memory,
            disk: node.disk,
        })
        .collect();
    serde_json::to_string_pretty(&machines).unwrap_or_default() + "\n"
}

/// Digest of all that goes into the files. Of the secrets only a digest enters.
fn basis(cluster: &Cluster, secrets: &SecretsBundle, hosts: &Hosts) -> String {
    let mut hash = Sha256::new();
    hash.update(daedal_planner::intent(cluster));
    hash.update(sha256(secrets.to_yaml().expose().as_bytes()));
    hash.update(machines(cluster, hosts));
    hex::encode(hash.finalize())
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
