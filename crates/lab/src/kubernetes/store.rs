//! The objects of one Kubernetes cluster, with revisions and a log of changes to watch.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

/// How many changes can be watched in hindsight.
const LOG: usize = 20_000;

/// Names an object: resource as `group/plural` (`nodes` for the core group), namespace (empty for none), name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Added,
    Modified,
    Deleted,
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) verb: Verb,
    pub(crate) key: Key,
    pub(crate) object: Arc<Value>,
    pub(crate) previous: Option<Arc<Value>>,
}

#[derive(Default)]
struct Inner {
    revision: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    log: VecDeque<Change>,
    /// What names an owner, by the owner's uid.
    owned: HashMap<String, BTreeSet<Key>>,
}

impl Inner {
    /// Brings the index of owners in line with what became of an object.
    fn index(&mut self, key: &Key, before: Option<&Value>, after: Option<&Value>) {
        let (before, after) = (before.map(owners).unwrap_or_default(), after.map(owners).unwrap_or_default());
        for gone in before.iter().filter(|uid| !after.contains(uid)) {
            if let Some(keys) = self.owned.get_mut(*gone) {
                keys.remove(key);
                if keys.is_empty() {
                    self.owned.remove(*gone);
                }
            }
        }
        for new in after.into_iter().filter(|uid| !before.contains(uid)) {
            self.owned.entry(new.to_owned()).or_default().insert(key.clone());
        }
    }
}

/// The uids of an object's owners.
fn owners(object: &Value) -> Vec<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str()).collect()
}

/// The objects of one cluster.
pub struct Store {
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
    /// The nodes on which pods have a network.
    networks: watch::Sender<BTreeSet<String>>,
    uid_seed: String,
}

/// A store as it is kept on disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SavedStore {
    pub(crate) revision: u64,
    pub(crate) uid_seed: String,
    pub(crate) objects: Vec<(Key, Value)>,
}

/// The revision asked for is no longer in the log.
#[derive(Debug)]
pub(crate) struct Gone;

impl Store {
    /// An empty store whose object uids derive from `uid_seed`.
    pub(crate) fn new(uid_seed: &str) -> Self {
        let (changed, networks) = (watch::Sender::new(0), watch::Sender::default());
        Self { inner: Mutex::default(), changed, networks, uid_seed: uid_seed.to_owned() }
    }

    /// What must outlive the process.
    pub(crate) fn save(&self) -> SavedStore {
        let inner = self.lock();
        SavedStore {
            revision: inner.revision,
            uid_seed: self.uid_seed.clone(),
            objects: inner.objects.iter().map(|(k, v)| (k.clone(), Value::clone(v))).collect(),
        }
    }

    /// A saved store.
    pub(crate) fn load(saved: SavedStore) -> Self {
        let store = Self::new(&saved.uid_seed);
        {
            let mut inner = store.lock();
            inner.revision = saved.revision;
            for (key, object) in saved.objects {
                inner.index(&key, None, Some(&object));
                inner.objects.insert(key, Arc::new(object));
            }
        }
        store
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes at every change.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Tells on which nodes pods have a network.
    pub(crate) fn networks(&self) -> watch::Receiver<BTreeSet<String>> {
        self.networks.subscribe()
    }

    /// From now on the pods of a node have a network.
    pub(crate) fn connect(&self, node: &str) {
        self.networks.send_if_modified(|nodes| nodes.insert(node.to_owned()));
    }

    /// The pods of a node have none any more.
    pub(crate) fn disconnect(&self, node: &str) {
        self.networks.send_if_modified(|nodes| nodes.remove(node));
    }

    /// The newest revision.
    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// One object.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.lock().objects.get(key).cloned()
    }

    /// All objects of a resource, in one namespace or in all, and the revision they are of.
    pub(crate) fn list(&self, resource: &str, namespace: Option<&str>) -> (Vec<Arc<Value>>, u64) {
        let inner = self.lock();
        let from = Key::new(resource, namespace.unwrap_or_default(), "");
        let objects = inner
            .objects
            .range(from..)
            .take_while(|(key, _)| key.resource == resource && namespace.is_none_or(|n| key.namespace == n))
            .map(|(_, object)| object.clone())
            .collect();
        (objects, inner.revision)
    }

    /// All keys for which a condition holds.
    pub(crate) fn keys(&self, mut holds: impl FnMut(&Key, &Value) -> bool) -> Vec<Key> {
        self.lock().objects.iter().filter(|(k, v)| holds(k, v)).map(|(k, _)| k.clone()).collect()
    }

    /// All objects that name an owner.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<(Key, Arc<Value>)> {
        let inner = self.lock();
        let keys = inner.owned.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some((key.clone(), inner.objects.get(key)?.clone()))).collect()
    }

    fn uid_at(&self, revision: u64, key: &Key) -> String {
        let digest = Sha256::digest(format!("{}/{revision}/{key:?}", self.uid_seed));
        let uid = digest.first_chunk::<16>().map(|b| uuid::Builder::from_random_bytes(*b).into_uuid());
        uid.unwrap_or_default().to_string()
    }

    /// A uid for an object that is about to be made.
    pub(crate) fn next_uid(&self, key: &Key) -> String {
        self.uid_at(self.revision(), key)
    }

    /// Changes one object in one step. The closure gets the object (if there is one) and says what becomes of it:
    /// another content, or nothing. An unchanged object gets no new revision.
    pub(crate) fn change<E>(
        &self,
        key: &Key,
        now: i64,
        edit: impl FnOnce(Option<&Value>) -> Result<Option<Value>, E>,
    ) -> Result<Option<Arc<Value>>, E> {
        let mut inner = self.lock();
        let previous = inner.objects.get(key).cloned();
        let wanted = edit(previous.as_deref())?;
        let (verb, object) = match (wanted, previous.clone()) {
            (None, None) => return Ok(None),
            (None, Some(previous)) => {
                let mut object = Value::clone(&previous);
                object["metadata"]["resourceVersion"] = json!((inner.revision + 1).to_string());
                (Verb::Deleted, object)
            }
            (Some(mut object), None) => {
                let uid = self.uid_at(inner.revision, key);
                let metadata = &mut object["metadata"];
                if !metadata["uid"].is_string() {
                    metadata["uid"] = json!(uid);
                }
                metadata["creationTimestamp"] = json!(timestamp(now));
                metadata["resourceVersion"] = json!((inner.revision + 1).to_string());
                (Verb::Added, object)
            }
            (Some(mut object), Some(previous)) => {
                for field in ["uid", "creationTimestamp", "resourceVersion"] {
                    object["metadata"][field] = previous["metadata"][field].clone();
                }
                if object == *previous {
                    return Ok(Some(previous));
                }
                object["metadata"]["resourceVersion"] = json!((inner.revision + 1).to_string());
                (Verb::Modified, object)
            }
        };
        inner.revision += 1;
        let revision = inner.revision;
        let object = Arc::new(object);
        inner.index(key, previous.as_deref(), (verb != Verb::Deleted).then_some(&*object));
        if verb == Verb::Deleted {
            inner.objects.remove(key);
        } else {
            inner.objects.insert(key.clone(), object.clone());
        }
        inner.log.push_back(Change { revision, verb, key: key.clone(), object: object.clone(), previous });
        if inner.log.len() > LOG {
            inner.log.pop_front();
        }
        drop(inner);
        self.changed.send_replace(revision);
        Ok(Some(object))
    }

    /// Writes an object as it is.
    pub(crate) fn put(&self, key: &Key, object: Value, now: i64) {
        let _ = self.change(key, now, |_| Ok::<_, std::convert::Infallible>(Some(object)));
    }

    /// Removes an object.
    pub(crate) fn remove(&self, key: &Key, now: i64) {
        let _ = self.change(key, now, |_| Ok::<_, std::convert::Infallible>(None));
    }

    /// The changes of a resource after a revision, and the newest revision.
    pub(crate) fn since(
        &self,
        resource: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<(Vec<Change>, u64), Gone> {
        self.changes(revision, |key| key.resource == resource && namespace.is_none_or(|n| key.namespace == n))
    }

    /// The changes of all objects that are asked for after a revision, and the newest revision.
    pub(crate) fn changes(
        &self,
        revision: u64,
        wanted: impl Fn(&Key) -> bool,
    ) -> Result<(Vec<Change>, u64), Gone> {
        let inner = self.lock();
        let oldest = inner.log.front().map_or(inner.revision + 1, |c| c.revision);
        if revision + 1 < oldest && revision < inner.revision {
            return Err(Gone);
        }
        let start = inner.log.partition_point(|c| c.revision <= revision);
        let changes = inner.log.range(start..).filter(|c| wanted(&c.key)).cloned().collect();
        Ok((changes, inner.revision))
    }
}

/// A moment as Kubernetes writes it.
pub(crate) fn timestamp(unix: i64) -> String {
    jiff::Timestamp::from_second(unix).map(|t| t.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, value: u32) -> Value {
        json!({"metadata": {"name": name}, "value": value})
    }

    #[test]
    fn changes_can_be_followed_and_no_change_is_none() {
        let store = Store::new("test");
        let key = Key::new("things", "a", "x");
        store.put(&key, object("x", 1), 0);
        store.put(&key, object("x", 1), 5);
        store.put(&key, object("x", 2), 9);
        store.put(&Key::new("other", "a", "x"), object("x", 2), 9);
        store.remove(&key, 10);
        let (changes, newest) = store.since("things", None, 0).unwrap();
        assert_eq!(newest, 4);
        let verbs: Vec<Verb> = changes.iter().map(|c| c.verb).collect();
        assert_eq!(verbs, [Verb::Added, Verb::Modified, Verb::Deleted]);
        assert_eq!(store.since("things", Some("b"), 0).unwrap().0.len(), 0);
        assert_eq!(store.since("things", None, changes[1].revision).unwrap().0.len(), 1);
        assert_eq!(store.revision(), 4);
    }

    #[test]
    fn a_saved_store_continues_where_it_was() {
        let store = Store::new("test");
        store.put(&Key::new("things", "", "x"), object("x", 1), 0);
        let loaded = Store::load(store.save());
        assert_eq!(loaded.revision(), 1);
        assert_eq!(loaded.list("things", None).0.len(), 1);
        assert!(loaded.since("things", None, 0).is_err());
        assert!(loaded.since("things", None, 1).is_ok());
    }

    #[test]
    fn what_is_owned_is_found_by_its_owner() {
        let owned = |owners: &[&str]| {
            let owners: Vec<Value> = owners.iter().map(|uid| json!({"uid": uid})).collect();
            json!({"metadata": {"name": "x", "ownerReferences": owners}})
        };
        let store = Store::new("test");
        let key = Key::new("things", "", "x");
        store.put(&key, owned(&["a", "b"]), 0);
        let found = |store: &Store, uid: &str| store.owned_by(uid).len();
        assert_eq!([found(&store, "a"), found(&store, "b"), found(&store, "c")], [1, 1, 0]);
        store.put(&key, owned(&["b", "c"]), 0);
        assert_eq!([found(&store, "a"), found(&store, "b"), found(&store, "c")], [0, 1, 1]);
        assert_eq!(found(&Store::load(store.save()), "c"), 1);
        store.remove(&key, 0);
        assert_eq!([found(&store, "b"), found(&store, "c")], [0, 0]);
    }
}
