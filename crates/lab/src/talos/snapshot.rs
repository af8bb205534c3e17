//! Snapshots of a simulated etcd: files that real tools read, with the Kubernetes objects as JSON under their usual keys.

use std::collections::BTreeMap;

use daedal_talos_client::Snapshot;
use prost::Message as _;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::bolt;
use crate::kubernetes::{Key, SavedStore};

/// Under which all objects lie.
const REGISTRY: &str = "/registry/";

/// One revision of a key, as etcd keeps it.
#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "2")]
    create_revision: i64,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
    #[prost(int64, tag = "4")]
    version: i64,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

/// Why a snapshot cannot be restored, in the words of a node.
#[derive(Debug, thiserror::Error)]
#[error("error recovering etcd from snapshot: {0}")]
pub(super) struct Unusable(&'static str);

fn revision_key(revision: u64, deleted: bool) -> Vec<u8> {
    let mut key = revision.to_be_bytes().to_vec();
    key.push(b'_');
    key.extend_from_slice(&0_u64.to_be_bytes());
    if deleted {
        key.push(b't');
    }
    key
}

/// Writes a snapshot: the database and its checksum.
pub(super) fn write(store: &SavedStore) -> Vec<u8> {
    let mut entries = BTreeMap::new();
    for (key, object) in &store.objects {
        let revision =
            object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or(1);
        let parts = [key.resource.as_str(), key.namespace.as_str(), key.name.as_str()];
        let path = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let pair = KeyValue {
            key: format!("{REGISTRY}{path}").into_bytes(),
            create_revision: revision as i64,
            mod_revision: revision as i64,
            version: 1,
            value: object.to_string().into_bytes(),
        };
        entries.insert(revision_key(revision, false), pair.encode_to_vec());
    }
    let newest = revision_key(store.revision, false);
    if !entries.contains_key(&newest) {
        // The last change was a deletion: it leaves a mark behind.
        let mark = KeyValue { key: format!("{REGISTRY}deleted").into_bytes(), ..KeyValue::default() };
        entries.insert(revision_key(store.revision, true), mark.encode_to_vec());
    }
    let meta = vec![
        (b"consistent_index".to_vec(), store.revision.to_be_bytes().to_vec()),
        (b"storageVersion".to_vec(), b"3.6.0".to_vec()),
        (b"term".to_vec(), 2_u64.to_be_bytes().to_vec()),
    ];
    let empty = ["alarm", "auth", "authRoles", "authUsers", "cluster", "lease", "members", "members_removed"];
    let mut buckets: Vec<_> = empty.into_iter().map(|name| (name, Vec::new())).collect();
    buckets.push(("key", entries.into_iter().collect()));
    buckets.push(("meta", meta));
    let mut file = bolt::database(buckets);
    let checksum = Sha256::digest(&file);
    file.extend_from_slice(&checksum);
    file
}

/// Reads a snapshot back. Without `skip_hash` its checksum must be there and fit.
pub(super) fn read(file: &[u8], skip_hash: bool) -> Result<SavedStore, Unusable> {
    let has_checksum = file.len() % 512 == 32;
    let database = if has_checksum { &file[..file.len() - 32] } else { file };
    if !skip_hash && !has_checksum {
        return Err(Unusable("snapshot missing hash but --skip-hash-check=false"));
    }
    if !skip_hash && Sha256::digest(database)[..] != file[database.len()..] {
        return Err(Unusable("expected sha256 does not match that of the snapshot"));
    }
    let snapshot = Snapshot::read_unchecked(database).map_err(|_| Unusable("invalid database"))?;
    let info = snapshot.info();
    let mut objects = BTreeMap::new();
    for (_, value) in snapshot.bucket(b"key").ok_or(Unusable("invalid database"))? {
        let pair = KeyValue::decode(*value).map_err(|_| Unusable("invalid database"))?;
        let Some((key, object)) = object(&pair) else { continue };
        objects.insert(key, object);
    }
    Ok(SavedStore {
        revision: u64::try_from(info.revision).unwrap_or_default(),
        uid_seed: format!("restored/{:08x}", info.hash),
        objects: objects.into_iter().collect(),
    })
}

fn object(pair: &KeyValue) -> Option<(Key, Value)> {
    let path = std::str::from_utf8(&pair.key).ok()?.strip_prefix(REGISTRY)?;
    let object: Value = serde_json::from_slice(&pair.value).ok()?;
    let name = object["metadata"]["name"].as_str()?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let resource = path.strip_suffix(name)?.strip_suffix('/')?;
    let resource = match namespace {
        "" => resource,
        namespace => resource.strip_suffix(namespace)?.strip_suffix('/')?,
    };
    Some((Key::new(resource, namespace, name), object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_snapshot_brings_back_every_object() {
        let object = |name: &str, namespace: &str, revision: u64| json!({"metadata": {"name": name, "namespace": namespace, "resourceVersion": revision.to_string()}});
        let store = SavedStore {
            revision: 9,
            uid_seed: "x".into(),
            objects: vec![
                (Key::new("apps/deployments", "kube-system", "coredns"), object("coredns", "kube-system", 3)),
                (Key::new("nodes", "", "cp-1"), object("cp-1", "", 7)),
            ],
        };
        let file = write(&store);
        let info = Snapshot::read(&file).unwrap().info();
        assert_eq!((info.revision, info.size), (9, file.len() as u64 - 32));
        let back = read(&file, false).unwrap();
        assert_eq!((back.revision, &back.objects), (9, &store.objects));
        // Any byte that is another is noticed.
        for at in [0, 17, 5_000, file.len() - 1] {
            let mut wrong = file.clone();
            wrong[at] ^= 1;
            assert!(read(&wrong, false).is_err() && Snapshot::read(&wrong).is_err(), "{at}");
        }
        assert!(
            read(&file[..file.len() - 32], true).is_ok() && read(&file[..file.len() - 32], false).is_err()
        );
    }
}
