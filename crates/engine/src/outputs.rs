//! The files a user gets: talosconfig, kubeconfig, machine configs, secrets and machines.json, in one private folder.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daedal_inventory::{Cluster, Role};
use daedal_machine::access::{self, Credential};
use daedal_machine::views::{self, Hosts};
use daedal_machine::{Configs, NodeConfig, RoleConfig};
use daedal_store::{ENCRYPTED, Keyring, SecretBytes, remove_private, write_private};
use daedal_talos_config::{
    ApiRole, DEFAULT_LIFETIME, Secret, SecretsBundle, Talosconfig, kubeconfig_validity,
};
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::effects::{EffectKind, Effects};
use crate::error::Error;

/// What the folder's files were made from, and what they were. Written last.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    /// Digest of all that goes into the files, randomness and time apart.
    basis: String,
    /// SHA-256 of each file.
    files: BTreeMap<String, String>,
    /// Whom the encrypted ones are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

const MANIFEST: &str = ".outputs.json";

impl Manifest {
    fn file(&self) -> File {
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        File { name: MANIFEST.to_owned(), bytes: SecretBytes::new(bytes) }
    }
}

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

/// What is read back of a [`Machine`].
#[derive(Deserialize)]
struct Known {
    name: String,
    address: String,
    host: Option<String>,
}

const TALOSCONFIG: &str = "talosconfig";
const KUBECONFIG: &str = "kubeconfig";
const MACHINES: &str = "machines.json";
/// Keeps a folder full of keys out of Git.
const IGNORE: &str = ".gitignore";

/// What came of encrypting the outputs anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rekeyed {
    /// Files that are encrypted with the first key now.
    pub written: usize,
    /// Files that are not there, or that no key opens.
    pub left: usize,
}

/// The output folder of one cluster.
#[derive(Clone, Debug)]
pub struct Outputs {
    folder: PathBuf,
    keys: Keyring,
}

impl Outputs {
    /// The outputs in this folder, whether or not there are any yet, and the keys to those that are encrypted.
    pub fn new(folder: impl Into<PathBuf>, keys: Keyring) -> Self {
        Self { folder: folder.into(), keys }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of the files that are there, relative to the folder and sorted; hidden ones are bookkeeping.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        collect(&self.folder, "", &mut names);
        names.sort();
        names
    }

    /// What is in a file, decrypted if it is encrypted. Waits for the disk.
    pub fn read(&self, name: &str) -> Result<Secret, Error> {
        let path = self.folder.join(name);
        let unreadable = |source| Error::ReadOutput { path: path.display().to_string(), source };
        let bytes = self.keys.open(&path, std::fs::read(&path).map_err(unreadable)?)?;
        match std::str::from_utf8(bytes.expose()) {
            Ok(text) => Ok(Secret::new(text.to_owned())),
            Err(error) => Err(unreadable(std::io::Error::other(error))),
        }
    }

    /// The client certificates in the files that are there and can be read.
    pub async fn credentials(&self, now: Timestamp) -> Vec<Credential> {
        let outputs = self.clone();
        let look = move || {
            let read =
                |name: &str| outputs.read(name).or_else(|_| outputs.read(&format!("{name}{ENCRYPTED}"))).ok();
            let talosconfig = read(TALOSCONFIG)
                .and_then(|text| Talosconfig::from_yaml(text.expose()).ok()?.credentials.validity().ok());
            let kubeconfig = read(KUBECONFIG).and_then(|text| kubeconfig_validity(text.expose()).ok());
            [(TALOSCONFIG, talosconfig), (KUBECONFIG, kubeconfig)]
                .into_iter()
                .filter_map(|(name, validity)| Some(Credential::judge(name, validity?, now)))
                .collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Writes a new admin talosconfig and kubeconfig over the old ones; every other file stays. What was handed out
    /// before remains valid until it ends: Talos and Kubernetes know no revocation.
    pub async fn rotate_admin(
        &self,
        cluster: &Cluster,
        secrets: &SecretsBundle,
        lifetime: SignedDuration,
        rng: &mut StdRng,
        now: Timestamp,
    ) -> Result<(), Error> {
        let effects = Effects::default();
        let mut manifest = self.manifest().await;
        for (name, content) in admin_files(cluster, secrets, lifetime, rng, now)? {
            let file = self.file(cluster, name, &content)?;
            if let Some(manifest) = &mut manifest {
                manifest.files.insert(file.name.clone(), sha256(file.bytes.expose()));
            }
            self.put(&effects, file).await?;
        }
        // Without a manifest there are no other outputs yet; the next apply writes all of them.
        let Some(mut manifest) = manifest else { return Ok(()) };
        manifest.key = self.key(cluster)?;
        self.put(&effects, manifest.file()).await
    }

    /// Encrypts anew what is encrypted, with the first of the keys. What is not there or cannot be opened is left for the
    /// next apply, which writes all of it anew then.
    pub async fn rekey(&self) -> Result<Rekeyed, Error> {
        let effects = Effects::default();
        let mut done = Rekeyed::default();
        let Some(mut manifest) = self.manifest().await else { return Ok(done) };
        for name in self.written().await.into_iter().filter(|name| name.ends_with(ENCRYPTED)) {
            let (outputs, file) = (self.clone(), name.clone());
            let read = tokio::task::spawn_blocking(move || outputs.read(&file));
            let content = match read.await.map_err(Error::Interrupted)? {
                Ok(content) => content,
                Err(
                    Error::ReadOutput { .. }
                    | Error::Store(daedal_store::Error::OtherKey { .. } | daedal_store::Error::Damaged { .. }),
                ) => {
                    done.left += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let bytes = SecretBytes::new(self.keys.encrypt(content.expose().as_bytes())?);
            manifest.files.insert(name.clone(), sha256(bytes.expose()));
            self.put(&effects, File { name, bytes }).await?;
            done.written += 1;
        }
        if done.left == 0 && done.written > 0 {
            manifest.key = Some(self.keys.public()?);
        }
        self.put(&effects, manifest.file()).await?;
        Ok(done)
    }

    /// The addresses of the nodes when the files were written, by name.
    pub async fn addresses(&self) -> BTreeMap<String, IpAddr> {
        let known = self.known().await.into_iter();
        known.filter_map(|one| Some((one.name, one.address.parse().ok()?))).collect()
    }

    /// The hosts of the nodes when the files were written, by name.
    pub async fn hosts(&self) -> Hosts {
        self.known().await.into_iter().filter_map(|one| Some((one.name, one.host?))).collect()
    }

    /// The machines as they were when the files were written.
    async fn known(&self) -> Vec<Known> {
        let path = self.folder.join(MACHINES);
        let look = move || serde_json::from_slice::<Vec<Known>>(&std::fs::read(path).ok()?).ok();
        tokio::task::spawn_blocking(look).await.ok().flatten().unwrap_or_default()
    }

    /// Removes every file that was written here, the manifest last. Other files in the folder are their owner's.
    pub async fn forget(&self) -> Result<(), Error> {
        let effects = Effects::default();
        for name in self.written().await.into_iter().flat_map(with_plain_one) {
            self.remove(&effects, &name).await?;
        }
        self.remove(&effects, MANIFEST).await
    }

    /// Whether every file is there, whole and made from the same things.
    pub(crate) async fn are_current(&self, configs: &Configs, hosts: &Hosts) -> bool {
        let (folder, cluster) = (self.folder.clone(), configs.cluster());
        // What cannot be made is not there.
        let Ok(lasting) = lasting_files(configs, hosts) else { return false };
        let basis = basis(cluster, &lasting);
        // Without a key at hand nothing can be written, and so nothing is planned.
        let key = self.key(cluster).ok();
        let look = move || {
            let text = std::fs::read(folder.join(MANIFEST)).ok()?;
            let manifest: Manifest = serde_json::from_slice(&text).ok()?;
            if key.is_some_and(|key| key != manifest.key) {
                return Some(false);
            }
            let whole = manifest.files.iter().all(|(name, digest)| {
                std::fs::read(folder.join(name)).is_ok_and(|bytes| sha256(&bytes) == *digest)
            });
            Some(whole && manifest.basis == basis)
        };
        tokio::task::spawn_blocking(look).await.ok().flatten().unwrap_or(false)
    }

    /// Writes all files, each atomically, the manifest last.
    pub(crate) async fn write(
        &self,
        configs: &Configs,
        hosts: &Hosts,
        effects: &Effects,
        rng: &mut StdRng,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (cluster, secrets) = (configs.cluster(), configs.secrets());
        let before = self.written().await;
        let mut digests = BTreeMap::new();
        let lasting = lasting_files(configs, hosts)?;
        let basis = basis(cluster, &lasting);
        let admin = admin_files(cluster, secrets, DEFAULT_LIFETIME, rng, now)?;
        let admin = admin.map(|(name, content)| (name.to_owned(), Content::Plain(content)));
        for (name, content) in lasting.into_iter().chain(admin) {
            let file = self.file(cluster, &name, content.text())?;
            digests.insert(file.name.clone(), sha256(file.bytes.expose()));
            self.put(effects, file).await?;
        }
        let manifest = Manifest { basis, files: digests, key: self.key(cluster)? };
        for name in before.into_iter().flat_map(with_plain_one) {
            if !manifest.files.contains_key(&name) {
                self.remove(effects, &name).await?;
            }
        }
        self.put(effects, manifest.file()).await
    }

    /// A file as it is written: encrypted if that is asked for and there is anything secret in it.
    fn file(&self, cluster: &Cluster, name: &str, content: &Secret) -> Result<File, Error> {
        let plain = content.expose().as_bytes();
        let open =
            [MACHINES, IGNORE].contains(&name) || cluster.outputs.names.tfvars.as_deref() == Some(name);
        if cluster.outputs.are_plain() || open {
            return Ok(File { name: name.to_owned(), bytes: SecretBytes::new(plain.to_vec()) });
        }
        let bytes = SecretBytes::new(self.keys.encrypt(plain)?);
        Ok(File { name: format!("{name}{ENCRYPTED}"), bytes })
    }

    /// What an earlier run wrote, by its manifest. Other files in the folder are their owner's.
    async fn written(&self) -> Vec<String> {
        let inside = |name: &String| {
            Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
        };
        let files = self.manifest().await.map(|manifest| manifest.files).unwrap_or_default();
        files.into_keys().filter(inside).collect()
    }

    async fn manifest(&self) -> Option<Manifest> {
        let path = self.folder.join(MANIFEST);
        let read = move || serde_json::from_slice(&std::fs::read(path).ok()?).ok();
        tokio::task::spawn_blocking(read).await.ok().flatten()
    }

    /// Removes a file that is no longer an output, and what a killed run left of it: they are full of keys.
    async fn remove(&self, effects: &Effects, name: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        effects
            .perform(EffectKind::WriteOutput, name, async move {
                let removing = tokio::task::spawn_blocking(move || remove_private(&path));
                Ok(removing.await.map_err(Error::Interrupted)??)
            })
            .await
    }

    /// Whom encrypted files are for; none where they are plain.
    fn key(&self, cluster: &Cluster) -> Result<Option<String>, Error> {
        match cluster.outputs.are_plain() {
            true => Ok(None),
            false => Ok(Some(self.keys.public()?)),
        }
    }

    async fn put(&self, effects: &Effects, file: File) -> Result<(), Error> {
        let path = self.folder.join(&file.name);
        let plain = file.name.strip_suffix(ENCRYPTED).map(|name| self.folder.join(name));
        let writing = move || {
            write(&path, &file.bytes)?;
            // Whatever an earlier run left of it in plain.
            Ok(plain.map_or(Ok(()), |plain| remove_private(&plain))?)
        };
        effects
            .perform(EffectKind::WriteOutput, file.name, async move {
                tokio::task::spawn_blocking(writing).await.map_err(Error::Interrupted)?
            })
            .await
    }
}

/// A file, and what it is called where it is not encrypted.
fn with_plain_one(name: String) -> impl Iterator<Item = String> {
    let plain = name.strip_suffix(ENCRYPTED).map(str::to_owned);
    plain.into_iter().chain([name])
}

/// A file as it is on disk.
struct File {
    name: String,
    bytes: SecretBytes,
}

fn write(path: &Path, bytes: &SecretBytes) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        daedal_store::make_private_folder(folder)?;
    }
    Ok(write_private(path, bytes.expose())?)
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), &format!("{name}/"), names);
        } else {
            names.push(name);
        }
    }
}

/// What is in a file.
enum Content {
    Plain(Secret),
    Node(Arc<NodeConfig>),
    Role(Arc<RoleConfig>),
}

impl Content {
    fn text(&self) -> &Secret {
        match self {
            Self::Plain(text) => text,
            Self::Node(config) => config.text(),
            Self::Role(config) => &config.text,
        }
    }
}

/// Every file by name, with its content, but for those with certificates: the same whenever they are made.
fn lasting_files(configs: &Configs, hosts: &Hosts) -> Result<Vec<(String, Content)>, Error> {
    let cluster = configs.cluster();
    let names = &cluster.outputs.names;
    let plain = |name: &str, text: Secret| (name.to_owned(), Content::Plain(text));
    let mut files = Vec::with_capacity(cluster.nodes.len() + 7);
    files.push(plain(IGNORE, Secret::new("*\n".to_owned())));
    files.push(plain("secrets.yaml", configs.secrets().to_yaml()));
    for role in [Role::ControlPlane, Role::Worker] {
        files.push((names.of_role(role).to_owned(), Content::Role(configs.role(role)?)));
    }
    for node in &cluster.nodes {
        files.push((names.of_node(&node.name), Content::Node(configs.node(&node.name)?)));
    }
    files.push(plain(MACHINES, Secret::new(machines(cluster, hosts))));
    if let Some(name) = &names.tfvars {
        files.push(plain(name, Secret::new(views::tfvars(cluster, hosts, name))));
    }
    Ok(files)
}

fn admin_files(
    cluster: &Cluster,
    secrets: &SecretsBundle,
    lifetime: SignedDuration,
    rng: &mut StdRng,
    now: Timestamp,
) -> Result<[(&'static str, Secret); 2], Error> {
    Ok([
        (TALOSCONFIG, access::talosconfig(cluster, secrets, ApiRole::Admin, lifetime, rng, now)?),
        (KUBECONFIG, access::kubeconfig(cluster, secrets, lifetime, rng, now)?),
    ])
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
            address: node.shown_address(),
            cores: node.cores,
            memory: node.memory,
            disk: node.disk,
        })
        .collect();
    serde_json::to_string_pretty(&machines).unwrap_or_default() + "\n"
}

/// Digest of all that goes into the files, and of those that are the same whenever they are made: another release may make
/// them otherwise.
fn basis(cluster: &Cluster, lasting: &[(String, Content)]) -> String {
    let mut hash = Sha256::new();
    hash.update(daedal_planner::intent(cluster));
    for (name, content) in lasting {
        hash.update(name);
        hash.update(sha256(content.text().expose().as_bytes()));
    }
    hex::encode(hash.finalize())
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
