//! Snapshots of etcd: taken through the Talos API into a private file, verified, described beside it, and read again.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use daedal_inventory::{Cluster, Node};
use daedal_planner::Recovery;
use daedal_store::KeptBackup;
use daedal_talos_client::Snapshot;
use daedal_talos_config::{EncryptionSecret, SecretsBundle};
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::addresses::Addresses;
use crate::effects::EffectKind;
use crate::engine::Engine;
use crate::error::{Error, chain};
use crate::nodes::{Membership, Nodes};

/// Bytes sent at once.
const PART: usize = 256 << 10;
/// Parts read ahead.
const AHEAD: usize = 4;
/// Where every cluster keeps its own authority, readable by anybody in it.
const ROOT_CA: &[u8] = b"/registry/configmaps/kube-system/kube-root-ca.crt";

/// What is written beside a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// Cluster name.
    pub cluster: String,
    /// Cluster uuid.
    pub uuid: Uuid,
    /// Talos version, `v1.12.0`.
    pub talos: String,
    /// Kubernetes version, `v1.35.0`.
    pub kubernetes: String,
    /// The node it was taken from.
    pub node: String,
    /// When.
    pub taken: Timestamp,
    /// Bytes of the file.
    pub size: u64,
    /// Lower-case hex SHA-256 of the whole file.
    pub sha256: String,
    /// The newest revision in it.
    pub revision: i64,
    /// Keys in it.
    pub keys: u64,
    /// Digest of the secrets that encrypt and sign what is in it; none in descriptions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<String>,
}

/// A snapshot in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The file.
    pub file: PathBuf,
    /// What is written beside it; none if nothing is.
    pub backup: Option<Backup>,
}

/// What a whole snapshot is.
struct Found {
    size: u64,
    sha256: String,
    revision: i64,
    keys: u64,
}

impl Found {
    fn described(self, cluster: &Cluster, secrets: &SecretsBundle, node: &Node, taken: Timestamp) -> Backup {
        let Self { size, sha256, revision, keys } = self;
        Backup {
            cluster: cluster.name.clone(),
            uuid: cluster.uuid,
            talos: format!("v{}", cluster.talos.version),
            kubernetes: format!("v{}", cluster.kubernetes.version),
            node: node.name.clone(),
            taken,
            size,
            sha256,
            revision,
            keys,
            secrets: Some(lasting(secrets)),
        }
    }
}

/// Digest of the secrets without which nobody can use what etcd holds, whatever becomes of the authorities.
fn lasting(secrets: &SecretsBundle) -> String {
    let (EncryptionSecret::Secretbox(key) | EncryptionSecret::AesCbc(key)) = &secrets.encryption;
    let mut hash = Sha256::new();
    for secret in [key, &secrets.k8s_service_account] {
        hash.update(Sha256::digest(secret.expose()));
    }
    hex::encode(hash.finalize())
}

/// Why there is no snapshot.
enum Declined {
    /// This node gives none.
    Node(String),
    /// There is nowhere to put it.
    Files(Error),
}

impl From<Error> for Declined {
    fn from(error: Error) -> Self {
        match error {
            Error::Talos { .. } | Error::BackupDamaged { .. } => Self::Node(chain(&error)),
            error => Self::Files(error),
        }
    }
}

impl Engine {
    /// Takes a snapshot from the first control plane that gives one. The file gets its name only when it is whole,
    /// verified and described; without a name it is kept in the store.
    pub async fn backup(&self, cluster: &Cluster, to: Option<&Path>) -> Result<Kept, Error> {
        let taken = self.parts.clock.now();
        let place = match to {
            Some(file) => Destination::of_file(file),
            None => self.in_store(format!("etcd-{}.db", taken.strftime("%Y%m%dT%H%M%SZ")))?,
        };
        let secrets = self.stored_secrets().await?.ok_or(Error::NoSecrets)?;
        let nodes = Nodes::new(&self.parts, &secrets)?.finding(Addresses::new(self.found_addresses().await?));
        let mut why = "there is none".to_owned();
        for node in cluster.control_planes() {
            match self.take_from(&nodes, node, &place).await {
                Ok(found) => return self.keep(place, found.described(cluster, &secrets, node, taken)).await,
                // Another one may do better; a file that cannot be written stays so.
                Err(Declined::Node(reason)) => why = format!("{}: {reason}", node.name),
                Err(Declined::Files(error)) => return Err(error),
            }
        }
        Err(Error::NoSnapshot { why })
    }

    /// A snapshot of this name in the store.
    fn in_store(&self, name: String) -> Result<Destination, Error> {
        let scratch = self.parts.store.backup_scratch(&name);
        // The outputs are in a private folder on this machine.
        let scratch = scratch.unwrap_or_else(|| beside(&self.outputs.folder().join(&name)));
        if let Some(folder) = scratch.parent() {
            daedal_store::make_private_folder(folder)?;
        }
        Ok(Destination { scratch, place: Place::Store(name) })
    }

    /// Takes a snapshot from this node.
    async fn take_from(&self, nodes: &Nodes, node: &Node, place: &Destination) -> Result<Found, Declined> {
        let patience = self.parts.limits.probe_timeout;
        if let Membership::NotJoined(why) | Membership::Unreachable(why) = nodes.members(node, patience).await
        {
            return Err(Declined::Node(why));
        }
        let client = nodes.client(node, patience).await.map_err(|error| Declined::Node(chain(&error)))?;
        let (taking, subject) = (self.take(&client, &node.name, &place.scratch), place.to_string());
        Ok(Box::pin(self.parts.effects.perform(EffectKind::StoreBackup, subject, taking)).await?)
    }

    /// Streams a snapshot into a file, and verifies it there.
    async fn take(
        &self,
        client: &daedal_talos_client::Client,
        node: &str,
        scratch: &Path,
    ) -> Result<Found, Error> {
        let failed = |source| Error::Talos {
            what: "take a snapshot of etcd",
            node: node.to_owned(),
            source: Box::new(source),
        };
        let path = scratch.to_owned();
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<Vec<u8>>(AHEAD);
        let writing = {
            let path = path.clone();
            tokio::task::spawn_blocking(move || {
                let unwritable =
                    |source| Error::BackupFile { what: "write the snapshot", path: path.clone(), source };
                let _ = std::fs::remove_file(&path);
                let mut options = OpenOptions::new();
                let mut file =
                    options.write(true).create_new(true).mode(0o600).open(&path).map_err(unwritable)?;
                while let Some(part) = receiver.blocking_recv() {
                    file.write_all(&part).map_err(unwritable)?;
                }
                file.sync_all().map_err(unwritable)
            })
        };
        let reading = async {
            let mut stream = Box::pin(client.etcd_snapshot().await.map_err(failed)?);
            while let Some(part) = stream.next().await {
                if sender.send(part.map_err(failed)?).await.is_err() {
                    // Who writes has given up, and says why.
                    break;
                }
            }
            drop(sender);
            Ok::<_, Error>(())
        };
        let read = reading.await;
        writing.await.map_err(Error::Interrupted)??;
        read?;
        tokio::task::spawn_blocking(move || verified(&path)).await.map_err(Error::Interrupted)?
    }

    /// Describes a snapshot and gives it its name: a description without a snapshot is of no account.
    async fn keep(&self, destination: Destination, backup: Backup) -> Result<Kept, Error> {
        let Destination { scratch, place } = destination;
        let text = serde_json::to_vec_pretty(&backup).unwrap_or_default();
        let file = match place {
            Place::Store(name) => self.parts.store.keep_backup(&name, &scratch, &text).await?,
            Place::File(file) => {
                let naming = move || name_file(file, &scratch, &text);
                tokio::task::spawn_blocking(naming).await.map_err(Error::Interrupted)??
            }
        };
        Ok(Kept { file, backup: Some(backup) })
    }

    /// The snapshots in the store, oldest first.
    pub async fn backups(&self) -> Result<Vec<Kept>, Error> {
        let kept = self.parts.store.backups().await?;
        let read = |kept: KeptBackup| {
            let backup = kept.description.map(|text| parsed(&text, manifest(&kept.place))).transpose()?;
            Ok(Kept { file: kept.place, backup })
        };
        kept.into_iter().map(read).collect()
    }

    /// Looks at a snapshot that is to be restored: it must be whole, what its description says, and this cluster's.
    pub async fn examine(&self, cluster: &Cluster, file: &Path) -> Result<(Recovery, Option<Backup>), Error> {
        let secrets = self.stored_secrets().await?.ok_or(Error::NoSecrets)?;
        let (file, uuid, ca) = (file.to_owned(), cluster.uuid, secrets.k8s.crt.clone());
        let lasting = lasting(&secrets);
        let looking = move || {
            let unusable = |why: &str| Error::Backup { path: file.clone(), why: why.to_owned() };
            let backup = described(&file)?;
            let (bytes, sha256) = contents(&file)?;
            let size = bytes.len() as u64;
            let snapshot = Snapshot::read(&bytes).map_err(|source| damaged(&file, source))?;
            if let Some(backup) = &backup {
                if (backup.size, &backup.sha256) != (size, &sha256) {
                    return Err(unusable("its digest is not the one that its description has"));
                }
                if backup.uuid != uuid {
                    return Err(unusable(&format!("it is of cluster {} ({})", backup.cluster, backup.uuid)));
                }
            }
            match backup.as_ref().and_then(|backup| backup.secrets.as_ref()) {
                // The authority may have been changed since.
                Some(told) if *told == lasting => {}
                Some(_) => {
                    return Err(unusable(
                        "it was taken with other secrets, so what it holds could not be read",
                    ));
                }
                None => match (belongs(&snapshot, &ca), &backup) {
                    (Some(false), _) => return Err(unusable("it is of a cluster with another authority")),
                    (None, None) => {
                        let why = "neither its content nor a description beside it says whose it is";
                        return Err(unusable(why));
                    }
                    _ => {}
                },
            }
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let recovery = Recovery { file: name, size, sha256, revision: snapshot.info().revision };
            Ok((recovery, backup))
        };
        tokio::task::spawn_blocking(looking).await.map_err(Error::Interrupted)?
    }
}

/// Where a snapshot is made, and where it is to be.
struct Destination {
    scratch: PathBuf,
    place: Place,
}

enum Place {
    /// In the store, by its name.
    Store(String),
    /// In a file that somebody named.
    File(PathBuf),
}

impl Destination {
    fn of_file(file: &Path) -> Self {
        Self { scratch: beside(file), place: Place::File(file.to_owned()) }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Store(name) => f.write_str(name),
            Place::File(file) => write!(f, "{}", file.display()),
        }
    }
}

/// Gives a snapshot the name that somebody chose, after its description is beside it.
fn name_file(file: PathBuf, scratch: &Path, description: &[u8]) -> Result<PathBuf, Error> {
    daedal_store::write_private(&manifest(&file), description)?;
    let unnamed = |source| Error::BackupFile { what: "name the snapshot", path: file.clone(), source };
    std::fs::rename(scratch, &file).map_err(unnamed)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(unnamed)?;
    Ok(file)
}

/// The file in the making: hidden, one fixed name, so that a crash leaves at most one.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.new"))
}

fn manifest(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{name}.json"))
}

/// What is written beside a snapshot; none if nothing is.
fn described(file: &Path) -> Result<Option<Backup>, Error> {
    let path = manifest(file);
    match std::fs::read(&path) {
        Ok(text) => parsed(&text, path).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::BackupFile { what: "read", path, source }),
    }
}

fn parsed(text: &[u8], path: PathBuf) -> Result<Backup, Error> {
    serde_json::from_slice(text)
        .map_err(|error| Error::Backup { path, why: format!("its description cannot be read: {error}") })
}

/// A file and its SHA-256.
fn contents(file: &Path) -> Result<(Vec<u8>, String), Error> {
    let bytes = std::fs::read(file).map_err(|source| Error::BackupFile {
        what: "read",
        path: file.to_owned(),
        source,
    })?;
    let sha256 = hex::encode(Sha256::digest(&bytes));
    Ok((bytes, sha256))
}

fn damaged(file: &Path, source: daedal_talos_client::Error) -> Error {
    Error::BackupDamaged { path: file.to_owned(), source }
}

fn verified(file: &Path) -> Result<Found, Error> {
    let (bytes, sha256) = contents(file)?;
    let info = Snapshot::read(&bytes).map_err(|source| damaged(file, source))?.info();
    Ok(Found { size: bytes.len() as u64, sha256, revision: info.revision, keys: info.keys })
}

/// Whether the cluster in a snapshot has this authority; none if it does not tell. However its objects are written, the
/// lines of the certificate are in there.
fn belongs(snapshot: &Snapshot<'_>, ca: &str) -> Option<bool> {
    let value = snapshot.value(ROOT_CA)?;
    let mut lines = ca.lines().filter(|line| !line.starts_with("-----") && !line.is_empty());
    Some(lines.all(|line| value.windows(line.len()).any(|part| part == line.as_bytes())))
}

/// Size and SHA-256 of a file, without holding it in memory.
pub(crate) async fn digest(file: PathBuf) -> Result<(u64, String), Error> {
    let reading = move || {
        let unread = |source| Error::BackupFile { what: "read", path: file.clone(), source };
        let (mut open, mut hash) = (File::open(&file).map_err(unread)?, Sha256::new());
        let mut size = 0;
        let mut part = vec![0; PART];
        loop {
            match open.read(&mut part).map_err(unread)? {
                0 => return Ok((size, hex::encode(hash.finalize()))),
                read => {
                    hash.update(&part[..read]);
                    size += read as u64;
                }
            }
        }
    };
    tokio::task::spawn_blocking(reading).await.map_err(Error::Interrupted)?
}

/// A file in parts. One that ends early is refused by who gets it: its checksum is at its end.
pub(crate) fn parts(file: PathBuf) -> impl Stream<Item = Vec<u8>> + Send + 'static {
    let (sender, receiver) = tokio::sync::mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        let Ok(mut open) = File::open(&file) else { return };
        let mut part = vec![0; PART];
        while let Ok(read @ 1..) = open.read(&mut part) {
            if sender.blocking_send(part[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|part| (part, receiver))
    })
}
