//! Secrets and a store in a real Vault over TLS. Part of the second tier: `cargo xtask conformance vault` finds the program that is
//! built of `servers/vault-peer` and says where in `DAEDAL_VAULT`; without it a line says what was skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use daedal_dial::{Direct, Trust};
use daedal_store::{
    Acquired, Backend, Entry, Error, Keyring, Lease, Login, Owner, SecretBytes, Store, Vault, VaultSettings,
    VaultStore,
};
use jiff::Timestamp;
use serde_json::Value;

const UUID: &str = "11111111-2222-3333-4444-555555555555";

/// A real server, ended with this: it runs as long as its standard input is open.
struct Server {
    child: Child,
    told: Value,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn secret(text: &str) -> SecretBytes {
    SecretBytes::new(text.as_bytes().to_vec())
}

impl Server {
    fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("DAEDAL_VAULT").map(PathBuf::from) else {
            println!("skipped: DAEDAL_VAULT names no program");
            return None;
        };
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told = serde_json::from_str(&line).unwrap_or_else(|e| panic!("the server did not start: {e}"));
        Some(Self { child, told })
    }

    fn told(&self, name: &str) -> &str {
        self.told[name].as_str().unwrap()
    }

    fn vault(&self, login: Login) -> Vault {
        let settings =
            VaultSettings { address: self.told("address").parse().unwrap(), namespace: None, login };
        Vault::new(settings, Arc::new(Direct), Trust::Ca(self.told("authority").to_owned())).unwrap()
    }

    fn root(&self) -> Login {
        Login::Token(secret(self.told("token")))
    }

    /// Its tokens last three seconds.
    fn approle(&self) -> Login {
        Login::AppRole {
            mount: "approle".into(),
            role_id: secret(self.told("role_id")),
            secret_id: secret(self.told("secret_id")),
        }
    }

    fn jwt(&self) -> Login {
        Login::Jwt { mount: "jwt".into(), role: "team".into(), jwt: secret(self.told("jwt")) }
    }

    fn backend(&self, login: Login, lease: Duration) -> Arc<dyn Backend> {
        let vault = self.vault(login);
        VaultStore { vault, mount: "secret".into(), prefix: "teams/a".into(), lease }
            .backend("home", Arc::new(Timestamp::now))
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
async fn keeps_a_store(server: &Server, login: Login) {
    let backend = server.backend(login.clone(), Duration::from_secs(60));
    let keys = tempfile::tempdir().unwrap();
    let store = Store::over(backend.clone(), "home", UUID, Keyring::in_file(keys.path().join("key.txt")));
    assert_eq!(store.secrets().await.unwrap(), None);
    let lock = store.lock(&owner("ada")).await.unwrap();
    let second = store.lock(&owner("bob")).await;
    assert!(matches!(second, Err(Error::Locked { .. })), "{second:?}");
    assert!(store.ensure_key().await.unwrap());
    let secrets = secret("token: hunter2\n");
    store.write_new_secrets(&secrets).await.unwrap();
    let again = store.write_new_secrets(&secret("other")).await;
    assert!(matches!(again, Err(Error::SecretsExist { .. })), "{again:?}");
    for generation in 1..=5 {
        store.record_generation(generation).await.unwrap();
    }
    let snapshot = keys.path().join("a.db");
    std::fs::write(&snapshot, vec![7; 400 << 10]).unwrap();
    let place = store.keep_backup("a.db", &snapshot, b"{}").await.unwrap();
    let fetched = store.fetch_backup(&place, keys.path()).await.unwrap().unwrap();
    assert_eq!(std::fs::read(fetched).unwrap(), vec![7; 400 << 10]);
    // More than one entry of a Vault holds.
    std::fs::write(&snapshot, vec![7; 3 << 20]).unwrap();
    let refused = store.keep_backup("b.db", &snapshot, b"{}").await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let journal = store.journal();
    for number in 0..3 {
        let (at, what) = (Timestamp::now(), "begun".to_owned());
        journal.note(&Entry { at, what, subject: number.to_string(), detail: String::new() });
    }
    journal.close().await.unwrap();
    store.still_locked().await.unwrap();
    lock.release().await.unwrap();

    let other =
        Store::over(server.backend(login, Duration::from_secs(60)), "home", UUID, store.keys().clone());
    assert_eq!(other.secrets().await.unwrap(), Some(secrets));
    assert_eq!(other.generation::<u32>().await.unwrap(), Some(5));
    let lines = backend.get("journal.jsonl").await.unwrap().unwrap();
    assert_eq!(lines.bytes.expose().split(|byte| *byte == b'\n').count(), 4);
    assert!(other.names().await.unwrap().iter().any(|name| name == "secrets.yaml.age"));
}

/// One of eight gets the lease; a dead holder's ends, and what it writes then is refused.
async fn fences(server: &Server) {
    let ask = |who: String| {
        let backend = server.backend(server.root(), Duration::from_secs(3));
        async move { backend.acquire(&owner(&who)).await }
    };
    for _ in 0..5 {
        let asking: Vec<_> = (0..8).map(|number: u32| tokio::spawn(ask(number.to_string()))).collect();
        let mut leases = Vec::new();
        for one in asking {
            if let Ok(Acquired::Held(lease)) = one.await.unwrap() {
                leases.push(lease);
            }
        }
        let mut epochs: Vec<u64> = leases.iter().map(|lease| lease.fence().epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        assert_eq!(epochs.len(), leases.len(), "two have the same lease");
        leases.sort_by_key(|lease| lease.fence().epoch);
        leases.pop().unwrap().release().await.unwrap();
    }
    let dead = held(ask("dead".into()).await.unwrap());
    let next = held(ask("next".into()).await.unwrap());
    assert!(next.fence().epoch > dead.fence().epoch);
    let late = server
        .backend(server.root(), Duration::from_secs(3))
        .put_if_unchanged("late", b"x", None, Some(dead.fence()))
        .await;
    assert!(matches!(late, Err(Error::LeaseLost { .. })), "{late:?}");
    next.release().await.unwrap();
}

#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn vault_keeps_a_store_for_every_way_to_log_in() {
    let Some(server) = Server::start() else { return };
    keeps_a_store(&server, server.approle()).await;
    fences(&server).await;
    println!("Vault keeps a store for AppRole, and fences 8 operators");
}

#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn vault_gives_secrets_to_tokens_roles_and_pipelines() {
    let Some(server) = Server::start() else { return };
    let text = secret("token: hunter2\n");
    let path = "secret/team/bundle";
    for login in [server.root(), server.approle(), server.jwt()] {
        let vault = server.vault(login);
        let found = vault.read(path).await.unwrap().unwrap();
        assert_eq!((&found.fields["bundle"], found.version), (&text, 1));
        assert!(vault.read("secret/team/nothing").await.unwrap().is_none());
        assert!(vault.read("secret/team/gone").await.unwrap().is_none(), "its newest version was deleted");
    }
    // A token of three seconds ends while its owner lives on.
    let role = server.vault(server.approle());
    assert!(role.read(path).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(role.read(path).await.unwrap().is_some());
    println!("Vault gives secrets to a token, a role whose tokens end, and a pipeline");
}

#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn vault_says_what_is_wrong() {
    let Some(server) = Server::start() else { return };
    let stranger = server.vault(Login::Token(secret("hvs.unknown")));
    let refused = format!("{:?}", stranger.read("secret/team/bundle").await.unwrap_err());
    assert!(refused.contains("permission denied"), "{refused}");
    let mut wrong = server.approle();
    if let Login::AppRole { secret_id, .. } = &mut wrong {
        *secret_id = secret("another");
    }
    let refused = format!("{:?}", server.vault(wrong).read("secret/x").await.unwrap_err());
    assert!(refused.contains("invalid role or secret ID"), "{refused}");
    let root = server.vault(server.root());
    for (path, why) in [("old/team/bundle", "version"), ("nowhere/x", "nowhere")] {
        let refused = format!("{:?}", root.read(path).await.unwrap_err());
        assert!(refused.contains(why), "{refused}");
    }
    let settings = VaultSettings {
        address: server.told("address").parse().unwrap(),
        namespace: None,
        login: server.root(),
    };
    let untrusting = Vault::new(settings, Arc::new(Direct), Trust::System).unwrap();
    assert!(untrusting.read("secret/x").await.is_err(), "its authority is not known to this system");
    println!(
        "Vault says: permission denied, invalid role, no version 2, nothing mounted; and TLS is verified"
    );
}
