//! A store in real S3 servers: versitygw, which keeps objects as files, and moto. Part of the second tier: `cargo xtask
//! conformance s3 s3-moto` finds them and says where in `DAEDAL_VERSITYGW` and `DAEDAL_MOTO`; without them a line says what was
//! skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use daedal_dial::{Direct, Trust};
use daedal_store::{Acquired, Backend, Credentials, Error, Keyring, Lease, Owner, S3, SecretBytes, Store};
use jiff::Timestamp;

const KEY: &str = "test-access-key";
const SECRET: &str = "test-secret-access-key";
const UUID: &str = "11111111-2222-3333-4444-555555555555";

/// A real server, ended with this.
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn named(variable: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    if named.is_none() {
        println!("skipped: {variable} names no program");
    }
    named
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    async fn start(program: &Path, args: impl Fn(u16, &Path) -> Vec<String>) -> Self {
        // Beside the tests, because the files of /tmp may have no extended attributes.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir(folder.path().join("states")).unwrap();
        let port = free_port();
        let mut command = Command::new(program);
        command
            .args(args(port, folder.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.envs([("ROOT_ACCESS_KEY", KEY), ("ROOT_SECRET_KEY", SECRET)]);
        let server = Self { child: command.spawn().unwrap(), port, _folder: folder };
        for _ in 0..600 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} does not answer", program.display());
    }

    async fn versitygw(program: &Path, more: &'static [&'static str]) -> Self {
        Self::start(program, |port, folder| {
            let mut args = vec!["--port".to_owned(), format!("127.0.0.1:{port}"), "posix".to_owned()];
            args.extend(more.iter().map(|arg| (*arg).to_owned()));
            args.push(folder.display().to_string());
            args
        })
        .await
    }

    fn backend(&self, lease: Duration) -> Arc<dyn Backend> {
        let settings = S3 {
            endpoint: format!("http://127.0.0.1:{}", self.port).parse().unwrap(),
            region: "us-east-1".into(),
            bucket: "states".into(),
            prefix: "teams/a".into(),
            credentials: Credentials {
                access_key_id: KEY.into(),
                secret_access_key: SecretBytes::new(SECRET.into()),
                session_token: None,
            },
            lease,
        };
        settings.backend("home", Arc::new(Direct), &Trust::System, Arc::new(Timestamp::now)).unwrap()
    }
}

fn owner(who: &str) -> Owner {
    let since = Timestamp::from_second(1_800_000_000).unwrap();
    Owner { who: who.into(), machine: "forge".into(), pid: 42, doing: "apply".into(), since }
}

fn held(acquired: Acquired) -> Box<dyn Lease> {
    match acquired {
        Acquired::Held(lease) => lease,
        Acquired::Busy(by) => panic!("{by:?} has it"),
    }
}

/// Everything that a store does, and what it must refuse.
async fn keeps_a_store(server: &Server) {
    let backend = server.backend(Duration::from_secs(60));
    let keys = tempfile::tempdir().unwrap();
    let keyring = Keyring::in_file(keys.path().join("key.txt"));
    let store = Store::over(backend.clone(), "home", UUID, keyring);
    assert_eq!(store.secrets().await.unwrap(), None);
    let lock = store.lock(&owner("ada")).await.unwrap();
    assert!(store.ensure_key().await.unwrap());
    let secrets = SecretBytes::new(b"token: hunter2\n".to_vec());
    store.write_new_secrets(&secrets).await.unwrap();
    let again = store.write_new_secrets(&SecretBytes::new(b"other".to_vec())).await;
    assert!(matches!(again, Err(Error::SecretsExist { .. })), "{again:?}");
    for generation in 1..=5 {
        store.record_generation(generation).await.unwrap();
    }
    let snapshot = keys.path().join("a.db");
    std::fs::write(&snapshot, vec![7; 3 << 20]).unwrap();
    let place = store.keep_backup("a.db", &snapshot, b"{}").await.unwrap();
    let fetched = store.fetch_backup(&place, keys.path()).await.unwrap().unwrap();
    assert_eq!(std::fs::read(fetched).unwrap(), vec![7; 3 << 20]);
    let journal = store.journal();
    for number in 0..3 {
        let (at, what) = (Timestamp::now(), "begun".to_owned());
        journal.note(&daedal_store::Entry { at, what, subject: number.to_string(), detail: String::new() });
    }
    journal.close().await.unwrap();
    store.still_locked().await.unwrap();
    lock.release().await.unwrap();

    let other = Store::over(server.backend(Duration::from_secs(60)), "home", UUID, store.keys().clone());
    assert_eq!(other.secrets().await.unwrap(), Some(secrets));
    assert_eq!(other.generation::<u32>().await.unwrap(), Some(5));
    let lines = backend.get("journal.jsonl").await.unwrap().unwrap();
    assert_eq!(lines.bytes.expose().split(|byte| *byte == b'\n').count(), 4);
    let names = other.names().await.unwrap();
    assert_eq!(
        names,
        ["generation.json", "journal.jsonl", "secrets.yaml.age", "backups/a.db.age", "backups/a.db.json"]
    );
}

/// One of eight gets the lease; a dead holder's ends, and what it writes then is refused.
async fn fences(server: &Server) {
    for _ in 0..5 {
        let asking: Vec<_> = (0..8)
            .map(|number: u32| {
                let backend = server.backend(Duration::from_secs(3));
                tokio::spawn(async move { backend.acquire(&owner(&number.to_string())).await })
            })
            .collect();
        let mut leases = Vec::new();
        for one in asking {
            if let Ok(Acquired::Held(lease)) = one.await.unwrap() {
                leases.push(lease);
            }
        }
        // Others may have taken it over, each after the one before was silent for its time.
        let mut epochs: Vec<u64> = leases.iter().map(|lease| lease.fence().epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        assert_eq!(epochs.len(), leases.len(), "two have the same lease");
        leases.sort_by_key(|lease| lease.fence().epoch);
        let newest = leases.pop().unwrap();
        for late in &leases {
            let written = server
                .backend(Duration::from_secs(3))
                .put_if_unchanged("late", b"x", None, Some(late.fence()))
                .await;
            assert!(matches!(written, Err(Error::LeaseLost { .. })), "{written:?}");
        }
        newest.release().await.unwrap();
    }
    let dead = held(server.backend(Duration::from_secs(3)).acquire(&owner("dead")).await.unwrap());
    let next = held(server.backend(Duration::from_secs(3)).acquire(&owner("next")).await.unwrap());
    assert!(next.fence().epoch > dead.fence().epoch);
    let late =
        server.backend(Duration::from_secs(3)).put_if_unchanged("late", b"x", None, Some(dead.fence())).await;
    assert!(matches!(late, Err(Error::LeaseLost { .. })), "{late:?}");
    next.release().await.unwrap();
}

#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn versitygw_keeps_a_store() {
    let Some(program) = named("DAEDAL_VERSITYGW") else { return };
    let server = Server::versitygw(&program, &[]).await;
    keeps_a_store(&server).await;
    fences(&server).await;
    println!("versitygw keeps a store, and fences 8 operators");
}

#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn versitygw_without_metadata_ignores_conditions_and_is_refused() {
    let Some(program) = named("DAEDAL_VERSITYGW") else { return };
    let server = Server::versitygw(&program, &["--nometa"]).await;
    let refused = server.backend(Duration::from_secs(60)).acquire(&owner("ada")).await;
    assert!(matches!(refused, Err(Error::NoConditions { .. })), "{refused:?}");
    println!("versitygw --nometa is refused: {}", refused.unwrap_err());
}

#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn moto_keeps_a_store() {
    let Some(program) = named("DAEDAL_MOTO") else { return };
    let server = Server::start(&program, |port, _| {
        vec!["-H".into(), "127.0.0.1".into(), "-p".into(), port.to_string()]
    })
    .await;
    create_bucket(server.port).await;
    keeps_a_store(&server).await;
    fences(&server).await;
    println!("moto keeps a store, and fences 8 operators");
}

/// Whoever uses a store has made its bucket before.
async fn create_bucket(port: u16) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = "PUT /states HTTP/1.1\r\nhost: s3.us-east-1.amazonaws.com\r\ncontent-length: 0\r\nconnection: close\r\n\
                   authorization: AWS4-HMAC-SHA256 Credential=test-access-key/20261118/us-east-1/s3/aws4_request\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
