//! What every backend must do, tried on all of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::backend::{Acquired, Backend, Version};
use crate::folder::Folder;
use crate::lease::{Fence, Lease, Owner};
use crate::s3::tests::{self as s3, S3Server};
use crate::vault::tests::{self as vault, VaultServer};
use crate::{Error, Memory};

/// A backend, and how its lease is lost while its owner lives.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) backend: Arc<dyn Backend>,
    lose: Box<dyn Fn() + Send + Sync>,
    _folder: tempfile::TempDir,
    pub(crate) elsewhere: PathBuf,
}

impl Place {
    pub(crate) fn lose_lease(&self) {
        (self.lose)();
    }
}

pub(crate) fn folder() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("home");
    let lock = root.join("lock");
    Place {
        name: "folder",
        backend: Arc::new(Folder::new(root)),
        // An impatient operator removes what seems to be left of a crash.
        lose: Box::new(move || std::fs::remove_file(&lock).unwrap()),
        elsewhere: folder.path().join("elsewhere"),
        _folder: folder,
    }
}

pub(crate) fn memory() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::new(Duration::from_secs(60));
    Place {
        name: "memory",
        backend: Arc::new(memory.clone()),
        lose: Box::new(move || memory.end_lease()),
        elsewhere: folder.path().join("elsewhere"),
        _folder: folder,
    }
}

pub(crate) fn bucket() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::new();
    Place {
        name: "S3",
        backend: s3::backend(&server),
        lose: Box::new(move || s3::end_lease(&server)),
        elsewhere: folder.path().join("elsewhere"),
        _folder: folder,
    }
}

pub(crate) fn entries() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let server = VaultServer::new();
    Place {
        name: "Vault",
        backend: vault::backend(&server),
        lose: Box::new(move || vault::end_lease(&server)),
        elsewhere: folder.path().join("elsewhere"),
        _folder: folder,
    }
}

pub(crate) fn all() -> [Place; 4] {
    [folder(), memory(), bucket(), entries()]
}

pub(crate) fn owner(who: &str) -> Owner {
    Owner {
        who: who.to_owned(),
        machine: "forge".to_owned(),
        pid: 42,
        doing: "apply".to_owned(),
        since: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

async fn take(backend: &dyn Backend, owner: Owner) -> Box<dyn Lease> {
    match backend.acquire(&owner).await.unwrap() {
        Acquired::Held(lease) => lease,
        Acquired::Busy(by) => panic!("{by:?} has it"),
    }
}

/// Renews a lease for as long as it is asked to.
async fn keep(lease: &dyn Lease) -> Error {
    loop {
        match lease.renew_every() {
            Some(every) => tokio::time::sleep(every).await,
            None => std::future::pending().await,
        }
        if let Err(error) = lease.renew().await {
            return error;
        }
    }
}

fn is_changed<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Changed { .. }))
}

fn is_lost<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::LeaseLost { .. }))
}

#[tokio::test(start_paused = true)]
async fn a_blob_is_changed_only_by_who_saw_it_last() {
    for Place { name, backend, .. } in &all() {
        assert_eq!(backend.get("a").await.unwrap(), None, "{name}");
        let stranger = Version::new("0");
        assert!(is_changed(&backend.put_if_unchanged("a", b"x", Some(&stranger), None).await), "{name}");
        let first = backend.put_if_unchanged("a", b"one", None, None).await.unwrap();
        assert!(is_changed(&backend.put_if_unchanged("a", b"x", None, None).await), "{name}");
        let second = backend.put_if_unchanged("a", b"two", Some(&first), None).await.unwrap();
        assert!(is_changed(&backend.put_if_unchanged("a", b"x", Some(&first), None).await), "{name}");
        let there = backend.get("a").await.unwrap().unwrap();
        assert_eq!((there.bytes.expose(), &there.version), (&b"two"[..], &second), "{name}");
        assert!(is_changed(&backend.delete_if_unchanged("a", &first, None).await), "{name}");
        backend.delete_if_unchanged("a", &second, None).await.unwrap();
        backend.delete_if_unchanged("a", &second, None).await.unwrap();
        assert_eq!(backend.get("a").await.unwrap(), None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn blobs_are_listed_by_folder_and_logs_only_grow() {
    for Place { name, backend, .. } in &all() {
        assert_eq!(backend.list("").await.unwrap(), [""; 0], "{name}");
        assert_eq!(backend.list("deep/").await.unwrap(), [""; 0], "{name}");
        for blob in ["b", "a", "deep/c", "deep/er/d"] {
            backend.put_if_unchanged(blob, b"x", None, None).await.unwrap();
        }
        let _lease = take(&**backend, owner("ada")).await;
        assert_eq!(backend.list("").await.unwrap(), ["a", "b"], "{name}");
        assert_eq!(backend.list("deep/").await.unwrap(), ["deep/c"], "{name}");
        for line in [b"one\n", b"two\n"] {
            backend.append("log", line).await.unwrap();
        }
        assert_eq!(backend.get("log").await.unwrap().unwrap().bytes.expose(), b"one\ntwo\n", "{name}");
        for bad in ["../a", "/a", ".a", ""] {
            assert!(backend.put_if_unchanged(bad, b"x", None, None).await.is_err(), "{name} {bad}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_adopted_once_wherever_it_was_made() {
    for Place { name, backend, elsewhere, .. } in &all() {
        let scratch = backend.scratch("big/a.db").unwrap_or_else(|| elsewhere.clone());
        std::fs::create_dir_all(scratch.parent().unwrap()).unwrap();
        for (blob, made) in [("big/a.db", &scratch), ("big/b.db", elsewhere)] {
            std::fs::write(made, "large").unwrap();
            backend.adopt(blob, made, None).await.unwrap();
            assert!(!made.exists(), "{name}");
            assert_eq!(backend.get(blob).await.unwrap().unwrap().bytes.expose(), b"large", "{name}");
        }
        std::fs::write(&scratch, "other").unwrap();
        assert!(is_changed(&backend.adopt("big/a.db", &scratch, None).await), "{name}");
        assert_eq!(backend.list("big/").await.unwrap(), ["big/a.db", "big/b.db"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_epoch_rises_with_every_lease_and_the_second_is_told_who_was_first() {
    for Place { name, backend, .. } in &all() {
        for epoch in 1..=3 {
            let lease = take(&**backend, owner("ada")).await;
            assert_eq!(lease.fence(), &Fence { owner: owner("ada"), epoch }, "{name}");
            lease.renew().await.unwrap();
            let bob = owner("bob");
            let asked = tokio::select! {
                asked = backend.acquire(&bob) => asked,
                lost = keep(&*lease) => panic!("{name}: {lost}"),
            };
            match asked.unwrap() {
                Acquired::Busy(by) => assert_eq!(by, Some(owner("ada")), "{name}"),
                Acquired::Held(_) => panic!("{name}: two have it"),
            }
            // Given back by who asks for it, or by who is gone.
            if epoch == 1 {
                lease.release().await.unwrap();
                assert!(is_lost(&lease.renew().await), "{name}");
            }
        }
    }
}

/// Blobs and logs are removed without being read, by whoever has the lease.
#[tokio::test(start_paused = true)]
async fn what_is_there_is_wiped_under_the_lease() {
    for place in &all() {
        let Place { name, backend, .. } = place;
        let first = take(&**backend, owner("ada")).await;
        backend.put_if_unchanged("deep/a", b"one", None, Some(first.fence())).await.unwrap();
        backend.append("log", b"line\n").await.unwrap();
        assert!(!backend.mend().await.unwrap(), "{name} is whole");
        place.lose_lease();
        let second = take(&**backend, owner("bob")).await;
        assert!(is_lost(&backend.wipe("deep/a", Some(first.fence())).await), "{name}");
        for blob in ["deep/a", "log", "never"] {
            backend.wipe(blob, Some(second.fence())).await.unwrap();
            assert_eq!(backend.get(blob).await.unwrap(), None, "{name} {blob}");
        }
        assert!(backend.list("").await.unwrap().is_empty(), "{name}");
        // Everything can be written again.
        backend.put_if_unchanged("deep/a", b"two", None, Some(second.fence())).await.unwrap();
        backend.append("log", b"more\n").await.unwrap();
        assert_eq!(backend.get("log").await.unwrap().unwrap().bytes.expose(), b"more\n", "{name}");
    }
}

/// Every kind of write of whoever lost the lease is refused, also where nobody else has written since.
#[tokio::test(start_paused = true)]
async fn whoever_lost_the_lease_writes_nothing() {
    for place in &all() {
        let Place { name, backend, elsewhere, .. } = place;
        let first = take(&**backend, owner("ada")).await;
        let late = Some(first.fence());
        let version = backend.put_if_unchanged("a", b"ada", None, late).await.unwrap();
        place.lose_lease();
        assert!(is_lost(&backend.put_if_unchanged("b", b"x", None, late).await), "{name}: nobody has it");
        let second = take(&**backend, owner("bob")).await;
        assert!(is_lost(&first.renew().await), "{name}");
        assert!(is_lost(&backend.put_if_unchanged("a", b"x", Some(&version), late).await), "{name}");
        assert!(is_lost(&backend.put_if_unchanged("b", b"x", None, late).await), "{name}");
        assert!(is_lost(&backend.delete_if_unchanged("a", &version, late).await), "{name}");
        std::fs::write(elsewhere, "large").unwrap();
        assert!(is_lost(&backend.adopt("c", elsewhere, late).await), "{name}");
        // Whoever gives back what is lost takes it from nobody.
        first.release().await.unwrap();
        drop(first);
        second.renew().await.unwrap();
        backend.put_if_unchanged("a", b"bob", Some(&version), Some(second.fence())).await.unwrap();
        assert_eq!(backend.list("").await.unwrap(), ["a"], "{name}");
    }
}

/// Numbers that look random, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// One holder, who never learns that the lease is lost but by being refused. Writes the number of the lease.
async fn work(backend: Arc<dyn Backend>, fence: Fence, newest: Arc<AtomicU32>, seed: u64) {
    let (mine, mut chance) = (fence.owner.pid, Chance(seed));
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u32>().unwrap();
    for _ in 0..1 + chance.below(6) {
        let read = backend.get("state").await.unwrap();
        for _ in 0..chance.below(3) {
            tokio::task::yield_now().await;
        }
        let before = newest.load(Ordering::SeqCst);
        let version = read.as_ref().map(|blob| &blob.version);
        let written =
            backend.put_if_unchanged("state", mine.to_string().as_bytes(), version, Some(&fence)).await;
        match &written {
            Ok(_) => {
                let over = read.map_or(0, |blob| number(blob.bytes.expose()));
                assert!(over <= mine, "lease {mine} wrote over lease {over}");
                assert!(before <= mine, "lease {mine} wrote when lease {before} had begun");
            }
            Err(Error::Changed { .. }) => {}
            Err(Error::LeaseLost { .. }) => assert!(newest.load(Ordering::SeqCst) >= mine),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Leases follow one another while all their holders go on writing.
async fn race(place: Place, seed: u64) {
    let (newest, mut chance) = (Arc::new(AtomicU32::new(0)), Chance(seed));
    let mut holders = Vec::new();
    let mut leases = Vec::new();
    for lease in 1..=4 {
        if lease > 1 {
            place.lose_lease();
        }
        let held = take(&*place.backend, Owner { pid: lease, ..owner("ada") }).await;
        newest.store(lease, Ordering::SeqCst);
        let (backend, fence) = (place.backend.clone(), held.fence().clone());
        holders.push(tokio::spawn(work(backend, fence, newest.clone(), chance.below(u64::MAX))));
        leases.push(held);
        for _ in 0..chance.below(8) {
            tokio::task::yield_now().await;
        }
    }
    for holder in holders {
        holder.await.unwrap();
    }
    // The last one can still write, whatever the others did.
    let last = leases.last().unwrap().fence();
    let version = place.backend.get("state").await.unwrap().map(|blob| blob.version);
    place.backend.put_if_unchanged("state", b"4", version.as_ref(), Some(last)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_holders_the_late_one_never_writes_in_memory() {
    for seed in 0..1000 {
        race(memory(), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_holders_the_late_one_never_writes_in_a_folder() {
    for seed in 0..40 {
        race(folder(), seed).await;
    }
}
