//! A store in a service that keeps objects and honours conditional writes, such as S3.
//!
//! The content of a blob is an object that is written once, under a key of its own. The manifest, one object that is
//! replaced only if it is unchanged, says which object is whose content and who has the lease. So a write, the version
//! that it is based on and the lease that it is made under are one step.

mod lease;
mod log;
mod manifest;
mod mend;
mod objects;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use self::log::Logs;
use self::manifest::{Entry, MANIFEST, Manifest};
use crate::Error;
use crate::backend::{Acquired, Backend, Blob, Version, Working, is_name};
use crate::lease::{Fence, Owner};

pub(crate) use self::objects::{Condition, Content, Object, Objects, Put, Tag};

/// Where the contents of blobs are.
const BLOBS: &str = "blobs/";
/// How often something is tried that others were quicker with, or that broke off.
const TRIES: u32 = 12;
/// The first pause between two tries; the next ones are longer.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// For how long a lease is good that nobody renews, unless somebody says otherwise.
pub const LEASE: Duration = Duration::from_secs(60);

/// What time it is, for the names of logs and for signatures; never to judge a lease.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A store in a service. All clones are the same place.
#[derive(Clone)]
pub(crate) struct Remote {
    objects: Arc<dyn Objects>,
    /// For how long its own leases are good.
    ttl: Duration,
    now: Now,
    /// Changes of this process wait for each other here, and not in the service.
    turn: Arc<Mutex<()>>,
    logs: Arc<Mutex<Logs>>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Remote").field(&self.objects).finish()
    }
}

/// A manifest as it was read.
struct Seen {
    manifest: Manifest,
    /// None if there is none yet.
    tag: Option<Tag>,
}

impl Seen {
    fn condition(&self) -> Condition<'_> {
        self.tag.as_ref().map_or(Condition::New, Condition::Matches)
    }
}

impl Remote {
    pub(crate) fn new(objects: Arc<dyn Objects>, ttl: Duration, now: Now) -> Self {
        Self { objects, ttl, now, turn: Arc::default(), logs: Arc::default() }
    }

    fn place(&self) -> PathBuf {
        self.objects.locate("")
    }

    fn changed(&self, name: &str) -> Error {
        Error::Changed { path: self.locate(name) }
    }

    /// Reads the manifest. A store that never was has an empty one; blobs without one are an error.
    async fn seen(&self) -> Result<Seen, Error> {
        if let Some(object) = self.objects.get(MANIFEST).await? {
            let manifest = Manifest::open(object.bytes.expose(), &self.objects.locate(MANIFEST))?;
            return Ok(Seen { manifest, tag: Some(object.tag) });
        }
        if self.objects.list(BLOBS).await?.is_empty() {
            return Ok(Seen { manifest: Manifest::default(), tag: None });
        }
        // Somebody may just have written both, in their order.
        match self.objects.get(MANIFEST).await? {
            Some(object) => {
                let manifest = Manifest::open(object.bytes.expose(), &self.objects.locate(MANIFEST))?;
                Ok(Seen { manifest, tag: Some(object.tag) })
            }
            None => Err(Error::Damaged {
                path: self.objects.locate(MANIFEST),
                why: "it is missing, but what it describes is there".to_owned(),
            }),
        }
    }

    /// Changes the manifest, based on whatever it is at that moment. `change` says what becomes of it and may refuse.
    async fn commit<T>(&self, mut change: impl FnMut(&mut Manifest) -> Result<T, Error>) -> Result<T, Error> {
        let _turn = self.turn.lock().await;
        let write = id();
        let mut unanswered = None;
        for tried in 1.. {
            let mut seen = match self.seen().await {
                Err(error) if error.may_pass() && tried < TRIES => {
                    pause(tried).await;
                    continue;
                }
                seen => seen?,
            };
            if seen.manifest.has(&write)
                && let Some(done) = unanswered.take()
            {
                return Ok(done);
            }
            let done = change(&mut seen.manifest)?;
            seen.manifest.sign(&write);
            let bytes = seen.manifest.sealed();
            match self.objects.put(MANIFEST, Content::Bytes(&bytes), seen.condition()).await {
                Ok(Put::Done(_)) => return Ok(done),
                Ok(Put::Refused) if tried < TRIES => {}
                Ok(Put::Refused) => return Err(self.changed(MANIFEST)),
                Err(error) if error.may_pass() && tried < TRIES => {}
                Err(error) => return Err(error),
            }
            unanswered = Some(done);
            pause(tried).await;
        }
        Err(self.changed(MANIFEST))
    }

    /// Whether a write could be made at this moment.
    fn judge(
        &self,
        manifest: &Manifest,
        name: &str,
        before: Option<&Version>,
        fence: Option<&Fence>,
    ) -> Result<(), Error> {
        manifest.check(fence, &self.place())?;
        let there = manifest.blobs.get(name).map(Entry::version);
        match there.as_ref() == before {
            true => Ok(()),
            false => Err(self.changed(name)),
        }
    }

    /// Writes an object nobody else writes. A lost answer does no harm: the object is what it should be, or not there.
    async fn create(&self, key: &str, content: Content<'_>, entry: &Entry) -> Result<(), Error> {
        for tried in 1.. {
            match self.objects.put(key, content, Condition::New).await {
                Ok(Put::Done(_)) => return Ok(()),
                // Only an earlier try can have made it.
                Ok(Put::Refused) if self.content(key, entry).await?.is_some() => return Ok(()),
                Ok(Put::Refused) if tried < TRIES => pause(tried).await,
                Ok(Put::Refused) => return Err(Error::Changed { path: self.objects.locate(key) }),
                Err(error) if error.may_pass() && tried < TRIES => pause(tried).await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// An object as its entry describes it.
    async fn content(&self, key: &str, entry: &Entry) -> Result<Option<Object>, Error> {
        let Some(object) = self.objects.get(key).await? else { return Ok(None) };
        let bytes = object.bytes.expose();
        let damaged = |why: String| Error::Damaged { path: self.objects.locate(key), why };
        if bytes.len() as u64 != entry.size {
            return Err(damaged(format!("it should have {} bytes and has {}", entry.size, bytes.len())));
        }
        match digest(bytes) == entry.sha256 {
            true => Ok(Some(object)),
            false => Err(damaged("its content does not match its digest".to_owned())),
        }
    }

    async fn put(
        &self,
        name: &str,
        content: Content<'_>,
        before: Option<&Version>,
        fence: Option<&Fence>,
    ) -> Result<Version, Error> {
        let (size, sha256) = match content {
            Content::Bytes(bytes) => (bytes.len() as u64, digest(bytes)),
            Content::File { size, sha256, .. } => (size, sha256.to_owned()),
        };
        self.usable(name)?;
        if size > self.objects.largest() {
            return Err(Error::TooLarge { path: self.locate(name), size, largest: self.objects.largest() });
        }
        let seen = self.seen().await?;
        self.judge(&seen.manifest, name, before, fence)?;
        // Blobs without a manifest would look like a damaged store.
        if seen.tag.is_none() {
            self.commit(|_| Ok(())).await?;
        }
        let version = format!("{}-{}", fence.map_or(0, |fence| fence.epoch), id());
        let entry = Entry { version: version.clone(), size, sha256 };
        let key = key(name, &version);
        self.create(&key, content, &entry).await?;
        let committed = self
            .commit(|manifest| {
                self.judge(manifest, name, before, fence)?;
                Ok(manifest.blobs.insert(name.to_owned(), entry.clone()))
            })
            .await;
        match committed {
            Ok(old) => {
                if let Some(old) = old {
                    self.discard(name, &old.version).await;
                }
                Ok(Version::new(version))
            }
            Err(error) => {
                // Nothing refers to it, and nothing will.
                if matches!(error, Error::Changed { .. } | Error::LeaseLost { .. }) {
                    self.discard(name, &version).await;
                }
                Err(error)
            }
        }
    }

    /// Removes a content that nothing refers to. What remains of it is removed under a later lease.
    async fn discard(&self, name: &str, version: &str) {
        let _ = self.objects.delete(&key(name, version)).await;
    }

    /// Removes contents that nothing refers to and that nobody can refer to any more: those of leases before `epoch`.
    async fn sweep(&self, epoch: u64) -> Result<(), Error> {
        let keys = self.objects.list(BLOBS).await?;
        let manifest = self.seen().await?.manifest;
        for key in keys {
            let Some((name, version)) = key.strip_prefix(BLOBS).and_then(|rest| rest.rsplit_once('/')) else {
                continue;
            };
            let is_old = made_under(version).is_some_and(|made| 0 < made && made < epoch);
            if is_old && manifest.blobs.get(name).is_none_or(|entry| entry.version != version) {
                self.objects.delete(&key).await?;
            }
        }
        Ok(())
    }

    async fn read(&self, name: &str) -> Result<Option<Blob>, Error> {
        let mut before = None;
        loop {
            let Some(entry) = self.seen().await?.manifest.blobs.remove(name) else {
                return self.read_log(name).await;
            };
            let key = key(name, &entry.version);
            if let Some(object) = self.content(&key, &entry).await? {
                return Ok(Some(Blob { bytes: object.bytes, version: entry.version() }));
            }
            // Whoever replaced it removed what was there before.
            if before.as_ref() == Some(&entry) {
                let path = self.objects.locate(&key);
                return Err(Error::Damaged { path, why: "it is missing".to_owned() });
            }
            before = Some(entry);
        }
    }

    async fn remove(&self, name: &str, before: &Version, fence: Option<&Fence>) -> Result<(), Error> {
        let removed = self
            .commit(|manifest| {
                manifest.check(fence, &self.place())?;
                match manifest.blobs.get(name) {
                    Some(entry) if entry.version() != *before => Err(self.changed(name)),
                    _ => Ok(manifest.blobs.remove(name)),
                }
            })
            .await?;
        if let Some(entry) = removed {
            self.discard(name, &entry.version).await;
        }
        Ok(())
    }

    fn usable(&self, name: &str) -> Result<(), Error> {
        match is_name(name) {
            true => Ok(()),
            false => Err(Error::Io {
                what: "use",
                path: self.locate(name),
                source: io::Error::new(io::ErrorKind::InvalidInput, "it is not a name for something kept"),
            }),
        }
    }
}

impl Backend for Remote {
    fn locate(&self, name: &str) -> PathBuf {
        match name {
            "" => self.place(),
            name => self.place().join(name),
        }
    }

    fn get<'a>(&'a self, name: &'a str) -> Working<'a, Option<Blob>> {
        Box::pin(self.read(name))
    }

    fn put_if_unchanged<'a>(
        &'a self,
        name: &'a str,
        bytes: &'a [u8],
        before: Option<&'a Version>,
        fence: Option<&'a Fence>,
    ) -> Working<'a, Version> {
        Box::pin(self.put(name, Content::Bytes(bytes), before, fence))
    }

    fn delete_if_unchanged<'a>(
        &'a self,
        name: &'a str,
        before: &'a Version,
        fence: Option<&'a Fence>,
    ) -> Working<'a, ()> {
        Box::pin(self.remove(name, before, fence))
    }

    fn wipe<'a>(&'a self, name: &'a str, fence: Option<&'a Fence>) -> Working<'a, ()> {
        Box::pin(self.remove_whatever(name, fence))
    }

    fn mend(&self) -> Working<'_, bool> {
        Box::pin(self.begin_anew())
    }

    fn list<'a>(&'a self, folder: &'a str) -> Working<'a, Vec<String>> {
        Box::pin(async move {
            let manifest = self.seen().await?.manifest;
            let mut names: Vec<String> = manifest.blobs.into_keys().chain(self.log_names().await?).collect();
            names.retain(|name| name.strip_prefix(folder).is_some_and(|rest| !rest.contains('/')));
            names.sort();
            Ok(names)
        })
    }

    fn append<'a>(&'a self, name: &'a str, lines: &'a [u8]) -> Working<'a, ()> {
        Box::pin(self.extend_log(name, lines))
    }

    fn is_private(&self) -> bool {
        false
    }

    fn adopt<'a>(&'a self, name: &'a str, file: &'a Path, fence: Option<&'a Fence>) -> Working<'a, ()> {
        Box::pin(async move {
            let (size, sha256) = measure(file).await?;
            let content = Content::File { path: file, size, sha256: &sha256 };
            self.put(name, content, None, fence).await?;
            tokio::fs::remove_file(file).await.map_err(crate::files::io("remove", file))
        })
    }

    fn acquire<'a>(&'a self, owner: &'a Owner) -> Working<'a, Acquired> {
        Box::pin(self.take(owner))
    }
}

/// The key of a content.
fn key(name: &str, version: &str) -> String {
    format!("{BLOBS}{name}/{version}")
}

/// The epoch of the lease that a content was made under.
fn made_under(version: &str) -> Option<u64> {
    version.split('-').next()?.parse().ok()
}

/// What nobody else has.
fn id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Waits before the next try, longer each time and never as long as somebody else.
async fn pause(tried: u32) {
    let longest = PAUSE.saturating_mul(1 << tried.min(10)).min(LONGEST_PAUSE);
    tokio::time::sleep(longest.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
}

/// Size and digest of a file.
async fn measure(file: &Path) -> Result<(u64, String), Error> {
    use tokio::io::AsyncReadExt as _;
    let failed = |source| Error::Io { what: "read", path: file.to_owned(), source };
    let mut reader = tokio::fs::File::open(file).await.map_err(failed)?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match reader.read(&mut buffer).await.map_err(failed)? {
            0 => return Ok((size, hex::encode(hash.finalize()))),
            count => {
                hash.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
}

/// Removes the lease of a store behind its back, as somebody does who took it over and gave it back.
#[cfg(test)]
pub(crate) fn end_lease(read: impl Fn() -> Vec<u8>, write: impl Fn(Vec<u8>)) {
    let mut manifest = Manifest::open(&read(), Path::new(MANIFEST)).unwrap();
    manifest.lease = None;
    manifest.sign(&id());
    write(manifest.sealed());
}
