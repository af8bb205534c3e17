//! A bucket behind a server of the test's own, and two operators at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use daedal_dial::{BoxStream, Dial, Dialing, Target};
use jiff::Timestamp;
use tokio::time::Instant;

#[path = "../../tests/servers/s3.rs"]
mod server;

pub(crate) use self::server::{Line, S3Server};
use super::*;
use crate::contract::owner;
use crate::{Acquired, Keyring, Lock, Store};

/// What the objects of the cluster are below.
const ROOT: &str = "teams/a/home/";
const TTL: Duration = Duration::from_secs(60);

/// Every stream ends at the server.
struct ToServer(S3Server, Line);

impl Dial for ToServer {
    fn dial<'a>(&'a self, _: &'a Target) -> Dialing<'a> {
        let (near, far) = tokio::io::duplex(64 << 10);
        tokio::spawn(self.0.clone().serve(far, self.1.clone()));
        Box::pin(async { Ok(Box::new(near) as BoxStream) })
    }
}

fn settings() -> S3 {
    S3 {
        endpoint: Url::parse("http://s3.test").unwrap(),
        region: "eu-central-1".into(),
        bucket: server::BUCKET.into(),
        prefix: "/teams/a/".into(),
        credentials: Credentials {
            access_key_id: server::ACCESS_KEY.into(),
            secret_access_key: SecretBytes::new(b"secret".to_vec()),
            session_token: None,
        },
        lease: TTL,
    }
}

fn over(server: &S3Server, line: Line, settings: S3) -> Arc<dyn Backend> {
    let dialer: Dialer = Arc::new(ToServer(server.clone(), line));
    let now: Now = Arc::new(|| Timestamp::from_second(1_800_000_000).unwrap());
    settings.backend("home", dialer, &Trust::System, now).unwrap()
}

pub(crate) fn backend(server: &S3Server) -> Arc<dyn Backend> {
    over(server, Line::good(), settings())
}

/// Ends the lease as if it had not been renewed in time and somebody had taken it and given it back.
pub(crate) fn end_lease(server: &S3Server) {
    crate::remote::end_lease(
        || server.object(&format!("{ROOT}manifest")).unwrap(),
        |bytes| {
            server.set(&format!("{ROOT}manifest"), Some(bytes));
        },
    );
}

fn held(acquired: Acquired) -> Box<dyn crate::Lease> {
    match acquired {
        Acquired::Held(lease) => lease,
        Acquired::Busy(by) => panic!("{by:?} has it"),
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_below_the_prefix_and_old_ones_are_removed() {
    let server = S3Server::new();
    let backend = backend(&server);
    assert_eq!(backend.locate("a").to_str(), Some("s3://states/teams/a/home/a"));
    let lease = held(backend.acquire(&owner("ada")).await.unwrap());
    let first = backend.put_if_unchanged("a", b"one", None, Some(lease.fence())).await.unwrap();
    backend.put_if_unchanged("a", b"two", Some(&first), Some(lease.fence())).await.unwrap();
    backend.append("log", b"line\n").await.unwrap();
    // What a killed writer of this lease left; it is removed under the next one, and nothing else is.
    server.set(&format!("{ROOT}blobs/a/1-lost"), Some(b"lost".to_vec()));
    server.set(&format!("{ROOT}blobs/a/0-without-lease"), Some(b"perhaps".to_vec()));
    lease.release().await.unwrap();
    held(backend.acquire(&owner("bob")).await.unwrap());
    let keys = server.keys();
    let kinds: Vec<&str> = keys.iter().map(|key| &key[..key.rfind('-').unwrap_or(key.len())]).collect();
    assert_eq!(
        kinds,
        [
            "teams/a/home/blobs/a/0-without",
            "teams/a/home/blobs/a/1",
            "teams/a/home/logs/log/001800000000000",
            "teams/a/home/manifest"
        ]
    );
    assert_eq!(backend.get("a").await.unwrap().unwrap().bytes.expose(), b"two");
}

#[tokio::test(start_paused = true)]
async fn lists_of_many_pages_are_whole() {
    let server = S3Server::new();
    server.pages_of(3);
    let bucket = {
        let dialer: Dialer = Arc::new(ToServer(server.clone(), Line::good()));
        Bucket::new(settings(), "home", dialer, &Trust::System, Arc::new(Timestamp::now)).unwrap()
    };
    let keys: Vec<String> = (0..10).map(|number| format!("many/{number} & more")).collect();
    for key in &keys {
        bucket.put(key, Content::Bytes(b"x"), Condition::New).await.unwrap();
    }
    assert_eq!(bucket.list("many/").await.unwrap(), keys);
    assert_eq!(bucket.list("none/").await.unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_conditions_is_refused() {
    let server = S3Server::ignoring_conditions();
    let error = backend(&server).acquire(&owner("ada")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server of s3://states/teams/a/home does not honour conditional writes (it replaced an object that should \
         have been new); two operators could work at once, so it cannot keep a store"
    );
    assert_eq!(server.keys(), [""; 0], "nothing is left of the probe");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_or_an_account_that_is_not_there_is_an_error_and_no_empty_store() {
    let server = S3Server::new();
    let line = Line::good();
    let other = S3 { bucket: "other".into(), ..settings() };
    let error = over(&server, line.clone(), other).get("a").await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(error.to_string(), "cannot read s3://other/teams/a/home/manifest");
    assert_eq!(cause, "s3.test answered 404: NoSuchBucket: The specified bucket does not exist");
    let mut stranger = settings();
    stranger.credentials.access_key_id = "stranger".into();
    let error = over(&server, line, stranger).acquire(&owner("ada")).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("403: InvalidAccessKeyId"), "{cause}");
}

/// A manifest that is gone, cut or bent at any byte, and contents that are: an error, never data, never a new store.
#[tokio::test(start_paused = true)]
async fn damage_of_every_object_at_every_byte_is_detected() {
    let server = S3Server::new();
    let backend = backend(&server);
    backend.put_if_unchanged("a", b"content", None, None).await.unwrap();
    let damaged = |result: &Result<_, Error>| matches!(result, Err(Error::Damaged { .. }));
    for key in server.keys() {
        let whole = server.object(&key).unwrap();
        server.set(&key, None);
        assert!(damaged(&backend.get("a").await), "{key} is gone");
        for at in 0..whole.len() {
            server.set(&key, Some(whole[..at].to_vec()));
            assert!(damaged(&backend.get("a").await), "{key} cut at {at}");
            let mut bent = whole.clone();
            bent[at] ^= 0x20;
            server.set(&key, Some(bent));
            assert!(damaged(&backend.get("a").await), "{key} bent at {at}");
        }
        server.set(&key, Some(whole));
    }
    server.set(&format!("{ROOT}manifest"), None);
    assert!(matches!(backend.acquire(&owner("ada")).await, Err(Error::Damaged { .. })));
    let written = backend.put_if_unchanged("b", b"x", None, None).await;
    assert!(matches!(written, Err(Error::Damaged { .. })));
}

/// A holder that lives is told from one that is dead by its renewals alone.
#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_waited_for_and_a_living_one_is_named_at_once() {
    let server = S3Server::new();
    let stores = [0; 2].map(|_| Store::over(backend(&server), "home", "uuid", Keyring::given("", "KEY")));
    let lock = stores[0].lock(&owner("ada")).await.unwrap();
    let began = Instant::now();
    let refused = stores[1].lock(&owner("bob")).await.unwrap_err().to_string();
    assert!(refused.contains("ada on forge (process 42, apply, since 2027-01-15 08:00:00 UTC)"), "{refused}");
    assert!(began.elapsed() <= TTL / 4, "{:?}", began.elapsed());
    lock.release().await.unwrap();
    let began = Instant::now();
    drop(stores[1].lock(&owner("bob")).await.unwrap());
    assert!(began.elapsed() < TTL / 4);
    // Whoever is dropped without a word gives it back, too; whoever dies does not.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let dead = held(backend(&server).acquire(&owner("dead")).await.unwrap());
    let began = Instant::now();
    let lock = stores[0].lock(&owner("ada")).await.unwrap();
    assert!(began.elapsed() >= TTL && began.elapsed() < TTL * 2, "{:?}", began.elapsed());
    assert!(matches!(dead.renew().await, Err(Error::LeaseLost { .. })));
    assert_eq!(lock.epoch(), 4);
}

/// The world that two operators work on: at most one at a time, and its number only rises.
#[derive(Default)]
struct World {
    at_work: AtomicU64,
    newest: AtomicU64,
}

/// Numbers that look random, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// One operator: takes the lock, does a few steps, and is held up now and then for longer than a lease lasts.
async fn operate(store: Store, line: Line, world: Arc<World>, name: &'static str, seed: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut done = 0;
    for _ in 0..2 {
        let Some(lock) = patiently(&store, name, &mut chance).await else { continue };
        for _ in 0..1 + chance.below(3) {
            if chance.below(4) == 0 {
                line.hold(Duration::from_secs(chance.below(200)));
            }
            if step(&store, &world, &mut chance).await.is_err() {
                break;
            }
            done += 1;
        }
        match chance.below(3) {
            0 => drop(lock),
            // It dies, and so gives nothing back.
            1 => {
                line.hold(Duration::from_secs(90));
                drop(lock);
            }
            _ => drop(lock.release().await),
        }
    }
    done
}

async fn patiently(store: &Store, name: &str, chance: &mut Chance) -> Option<Lock> {
    for _ in 0..6 {
        match store.lock(&owner(name)).await {
            Ok(lock) => return Some(lock),
            Err(Error::Locked { .. } | Error::Remote { .. } | Error::Changed { .. }) => {
                tokio::time::sleep(Duration::from_secs(chance.below(60))).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    None
}

/// Makes sure of the lock, works for a while that is shorter than the lease is good for, and records one more.
async fn step(store: &Store, world: &World, chance: &mut Chance) -> Result<(), Error> {
    store.still_locked().await?;
    let before = world.at_work.fetch_add(1, Ordering::SeqCst);
    assert_eq!(before, 0, "two are at work");
    tokio::time::sleep(Duration::from_millis(chance.below(29_000))).await;
    world.at_work.fetch_sub(1, Ordering::SeqCst);
    let read = store.generation::<u64>().await?.unwrap_or(0);
    let newest = world.newest.load(Ordering::SeqCst);
    let recorded = store.record_generation(read + 1).await;
    if recorded.is_ok() {
        assert!(read >= newest, "{newest} was recorded, but {} was written over it", read + 1);
        world.newest.fetch_max(read + 1, Ordering::SeqCst);
    }
    recorded
}

async fn race(seed: u64) -> u64 {
    let server = S3Server::new();
    let world = Arc::new(World::default());
    let keys = Keyring::given("", "KEY");
    let operators = [("ada", 1), ("bob", 2)].map(|(name, number)| {
        let line = Line::bad(seed * 2 + number, 24);
        let store = Store::over(over(&server, line.clone(), settings()), "home", "uuid", keys.clone());
        tokio::spawn(operate(store, line, world.clone(), name, seed * 2 + number))
    });
    let mut done = 0;
    for operator in operators {
        done += operator.await.unwrap();
    }
    let store = Store::over(backend(&server), "home", "uuid", keys);
    let last = store.generation::<u64>().await.unwrap().unwrap_or(0);
    assert!(last >= world.newest.load(Ordering::SeqCst), "seed {seed}");
    assert!(last >= done, "seed {seed}: {done} steps were recorded, but {last} are there");
    done
}

#[tokio::test(start_paused = true)]
async fn of_two_operators_one_works_and_nothing_moves_backwards_in_1000_races() {
    let mut done = 0;
    for seed in 0..1000 {
        done += race(seed).await;
    }
    println!("races\tS3\t1000 seeded\t{done} steps, never two at work, nothing moved backwards");
    assert!(done > 1000, "only {done} steps were done");
}
