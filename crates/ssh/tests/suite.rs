//! Everything against a real SSH server, which runs in the test.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod server;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use daedal_dial::{Dial as _, Target};
use daedal_ssh::{Error, Hop, Identity, KnownHosts, NobodyToAsk, Questions, Ssh, UnknownKey};
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, EcdsaCurve, PrivateKey, key::safe_rng};
use server::{Server, relay_to};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use zeroize::Zeroizing;

fn new_key() -> PrivateKey {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
}

fn identity(name: &str, key: &PrivateKey) -> Identity {
    let private = Some(Zeroizing::new(key.to_openssh(LineEnding::LF).unwrap().to_string()));
    Identity { name: name.to_owned(), private, public: None, passphrase: None }
}

fn hop(port: u16, identities: Vec<Identity>) -> Hop {
    Hop {
        host: "127.0.0.1".into(),
        port,
        user: "root".into(),
        known_as: None,
        agent: None,
        identities_only: false,
        identities,
    }
}

fn known(lines: &[String]) -> KnownHosts {
    let mut hosts = KnownHosts::default();
    hosts.read("known_hosts", &lines.join("\n"));
    hosts
}

/// Answers as it is told, and counts.
#[derive(Default)]
struct Person {
    trusts: bool,
    passphrase: Option<String>,
    asked: AtomicUsize,
}

impl Questions for Person {
    fn trusts(&self, unknown: &UnknownKey) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(unknown.key.to_string().starts_with("ssh-ed25519 SHA256:"), "{unknown:?}");
        assert!(unknown.line.starts_with("[127.0.0.1]:"), "{unknown:?}");
        self.trusts
    }

    fn passphrase(&self, key: &str) -> Option<Zeroizing<String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert_eq!(key, "locked");
        self.passphrase.clone().map(Zeroizing::new)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text += &format!(": {error}");
        next = error.source();
    }
    text
}

async fn echoes(ssh: &Ssh, word: &str) {
    let mut stream = ssh.dial(&Target::new("10.0.0.11", 50_000)).await.unwrap();
    stream.write_all(word.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, format!("10.0.0.11:50000 {word}"));
}

#[tokio::test]
async fn all_streams_share_one_connection_and_end_as_they_should() {
    let key = new_key();
    let server = Server::start(&[&key]).await;
    let hosts = known(&[server.known_line()]);
    let ssh = Ssh::new(vec![hop(server.port, vec![identity("mine", &key)])], hosts, Arc::new(NobodyToAsk));
    assert_eq!(ssh.through(), Some(format!("SSH server root@127.0.0.1:{}", server.port)));
    let words: Vec<String> = (0..40).map(|n| format!("word {n}")).collect();
    let asked = words.iter().map(|word| {
        let (ssh, word) = (ssh.clone(), word.clone());
        tokio::spawn(async move { echoes(&ssh, &word).await })
    });
    for task in asked.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(server.connections(), 1);
    server.until_idle().await;
}

#[tokio::test]
async fn much_data_arrives_whole() {
    let key = new_key();
    let server = Server::start(&[&key]).await;
    let hosts = known(&[server.known_line()]);
    let ssh = Ssh::new(vec![hop(server.port, vec![identity("mine", &key)])], hosts, Arc::new(NobodyToAsk));
    let stream = ssh.dial(&Target::new("10.0.0.11", 50_000)).await.unwrap();
    let (mut read, mut write) = tokio::io::split(stream);
    let sent: Vec<u8> = (0..6_000_000_u32).map(|n| (n ^ (n >> 8)) as u8).collect();
    let copy = sent.clone();
    let writing = tokio::spawn(async move {
        write.write_all(&copy).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let mut heard = Vec::new();
    read.read_to_end(&mut heard).await.unwrap();
    writing.await.unwrap();
    assert!(heard[b"10.0.0.11:50000 ".len()..] == sent);
}

/// Mission: H15
#[tokio::test]
async fn an_encrypted_key_is_asked_for_once_and_only_if_it_must() {
    let key = new_key();
    let server = Server::start(&[&key]).await;
    let locked = identity("locked", &key.encrypt(&mut safe_rng(), "open sesame").unwrap());
    let ssh = |identity: Identity, person: &Arc<Person>| {
        Ssh::new(vec![hop(server.port, vec![identity])], known(&[server.known_line()]), person.clone())
    };
    let person = Arc::new(Person { passphrase: Some("open sesame".into()), ..Person::default() });
    let asked = ssh(locked.clone(), &person);
    echoes(&asked, "one").await;
    server.cut();
    echoes(&asked, "two").await;
    assert_eq!(person.asked.load(Ordering::SeqCst), 1);

    let given = Identity { passphrase: Some(Zeroizing::new("open sesame".into())), ..locked.clone() };
    echoes(&ssh(given, &Arc::default()), "three").await;

    let nobody = ssh(locked.clone(), &Arc::default()).connect().await.unwrap_err();
    assert_eq!(nobody.to_string(), "the SSH key locked is encrypted, and its passphrase is not known");
    let wrong = Arc::new(Person { passphrase: Some("wrong".into()), ..Person::default() });
    let wrong = ssh(locked, &wrong).connect().await.unwrap_err();
    assert_eq!(chain(&*wrong), "cannot read the SSH key locked: the passphrase is wrong");
}

#[tokio::test]
async fn a_refused_login_says_what_was_tried() {
    let (key, other) = (new_key(), new_key());
    let server = Server::start(&[&key]).await;
    let hosts = known(&[server.known_line()]);
    let mut hop = hop(server.port, vec![identity("one", &other), identity("two", &new_key())]);
    hop.agent = Some("/no/such/agent".into());
    let ssh = Ssh::new(vec![hop], hosts, Arc::new(NobodyToAsk));
    let error = ssh.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    let said = chain(&*error);
    assert!(said.starts_with("the SSH server refuses the login root@127.0.0.1:"), "{said}");
    assert!(said.contains("offered: the agent /no/such/agent (No such file"), "{said}");
    assert!(said.ends_with("one, two; the server takes publickey"), "{said}");
    // Who knocks again at once is not let near the server.
    let again = ssh.dial(&Target::new("10.0.0.11", 50_000)).await.err().unwrap();
    assert_eq!(chain(&again), said);
    assert_eq!(server.connections(), 1);
}

/// Mission: H15
#[tokio::test]
async fn the_agent_signs_and_named_keys_come_first() {
    let (key, other) = (new_key(), new_key());
    let server = Server::start(&[&key]).await;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent");
    server::agent(&socket, &[&other, &key]).await;
    let public = key.public_key().to_openssh().unwrap();
    for identities_only in [false, true] {
        let named =
            Identity { name: "named".into(), private: None, public: Some(public.clone()), passphrase: None };
        let mut hop = hop(server.port, vec![named]);
        hop.agent = Some(socket.clone());
        hop.identities_only = identities_only;
        let before = server.offers();
        let ssh = Ssh::new(vec![hop], known(&[server.known_line()]), Arc::new(NobodyToAsk));
        echoes(&ssh, "signed").await;
        assert_eq!(server.offers() - before, 1, "only the named key is offered");
    }
    let mut hop = hop(server.port, Vec::new());
    hop.agent = Some(socket);
    echoes(&Ssh::new(vec![hop], known(&[server.known_line()]), Arc::new(NobodyToAsk)), "any").await;
}

#[tokio::test]
async fn an_unknown_host_key_is_never_taken_in_silence() {
    let key = new_key();
    let server = Server::start(&[&key]).await;
    let hops = || vec![hop(server.port, vec![identity("mine", &key)])];
    let nobody = Ssh::new(hops(), KnownHosts::default(), Arc::new(NobodyToAsk)).connect().await.unwrap_err();
    let Error::UnknownHostKey(unknown) = &*nobody else { panic!("{nobody}") };
    assert_eq!(unknown.line, server.known_line());
    let no = Arc::new(Person::default());
    assert!(Ssh::new(hops(), KnownHosts::default(), no.clone()).connect().await.is_err());
    assert_eq!(no.asked.load(Ordering::SeqCst), 1);

    let yes = Arc::new(Person { trusts: true, ..Person::default() });
    let ssh = Ssh::new(hops(), KnownHosts::default(), yes.clone());
    echoes(&ssh, "one").await;
    server.cut();
    echoes(&ssh, "two").await;
    assert_eq!(yes.asked.load(Ordering::SeqCst), 1);
    assert_eq!(server.logins(), 2);
}

#[tokio::test]
async fn a_changed_or_revoked_host_key_is_refused_without_a_question() {
    let key = new_key();
    let server = Server::start(&[&key]).await;
    let yes = || Arc::new(Person { trusts: true, ..Person::default() });
    let hops = || vec![hop(server.port, vec![identity("mine", &key)])];
    let other = new_key().public_key().to_openssh().unwrap();
    let changed = known(&[format!("[127.0.0.1]:{} {other}", server.port)]);
    let person = yes();
    let error = Ssh::new(hops(), changed, person.clone()).connect().await.unwrap_err();
    assert!(matches!(&*error, Error::ChangedHostKey(changed) if changed.place.line == 1), "{error}");
    let revoked = known(&[format!("@revoked {}", server.known_line())]);
    let error = Ssh::new(hops(), revoked, person.clone()).connect().await.unwrap_err();
    assert!(matches!(&*error, Error::RevokedHostKey { .. }), "{error}");
    let authority = known(&[format!("@cert-authority [127.0.0.1]:{} {other}", server.port)]);
    let error = Ssh::new(hops(), authority, person.clone()).connect().await.unwrap_err();
    assert!(matches!(&*error, Error::HostCertificate { .. }), "{error}");
    assert_eq!(person.asked.load(Ordering::SeqCst), 0);
    assert_eq!(server.logins(), 0);
}

/// A server shows the key that the client prefers: one that is known, if there is one.
#[tokio::test]
async fn a_host_that_is_known_by_another_type_of_key_is_known() {
    let key = new_key();
    let second =
        PrivateKey::random(&mut safe_rng(), Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 }).unwrap();
    let line = second.public_key().to_openssh().unwrap();
    let server = Server::start_with(&[&key], vec![new_key(), second]).await;
    let hosts = known(&[format!("127.0.0.1 {line}")]);
    let ssh = Ssh::new(vec![hop(server.port, vec![identity("mine", &key)])], hosts, Arc::new(NobodyToAsk));
    echoes(&ssh, "known").await;
}

#[tokio::test]
async fn refusals_of_the_server_keep_their_meaning() {
    let key = new_key();
    let server = Server::start(&[&key]).await;
    let hosts = known(&[server.known_line()]);
    let ssh = Ssh::new(vec![hop(server.port, vec![identity("mine", &key)])], hosts, Arc::new(NobodyToAsk));
    let login = ssh.login();
    let closed = ssh.dial(&Target::new("10.0.0.12", server::CLOSED)).await.err().unwrap();
    assert_eq!(closed.kind(), ErrorKind::HostUnreachable);
    assert_eq!(closed.to_string(), format!("{login} cannot reach 10.0.0.12:{}", server::CLOSED));
    let forbidden = ssh.dial(&Target::new("10.0.0.12", server::FORBIDDEN)).await.err().unwrap();
    assert_eq!(forbidden.kind(), ErrorKind::PermissionDenied);
    assert!(forbidden.to_string().starts_with(&format!("forwarding is forbidden on {login}")), "{forbidden}");
    // Nothing of it harms the connection.
    echoes(&ssh, "after").await;
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_lost_connection_is_a_reset_and_the_next_stream_has_a_new_one() {
    let key = new_key();
    let server = Server::start(&[&key]).await;
    let hosts = known(&[server.known_line()]);
    let ssh = Ssh::new(vec![hop(server.port, vec![identity("mine", &key)])], hosts, Arc::new(NobodyToAsk));
    let mut reading = ssh.dial(&Target::new("10.0.0.11", 50_000)).await.unwrap();
    let mut greeting = [0; 16];
    reading.read_exact(&mut greeting).await.unwrap();
    // The server's window is full, so that this one waits to write.
    let mut writing = ssh.dial(&Target::new("10.0.0.11", server::DEAF)).await.unwrap();
    let writing = tokio::spawn(async move {
        let much = vec![0; 1 << 20];
        loop {
            if let Err(error) = writing.write_all(&much).await {
                return error;
            }
        }
    });
    server.until_full().await;
    server.cut();
    let error = reading.read(&mut greeting).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(error.to_string(), format!("the SSH connection to {} was lost", ssh.login()));
    assert_eq!(reading.read(&mut greeting).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(writing.await.unwrap().kind(), ErrorKind::ConnectionReset);
    echoes(&ssh, "again").await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn servers_are_reached_through_each_other() {
    let (key, inner_key) = (new_key(), new_key());
    let (outer, inner) = (Server::start(&[&key]).await, Server::start(&[&inner_key]).await);
    // The outer server leads to the inner one, which the client does not know the way to.
    relay_to(&outer, ("inner.lan", 22), inner.port);
    let hosts = known(&[outer.known_line(), format!("inner.lan {}", inner.public())]);
    let last = Hop { host: "inner.lan".into(), ..hop(22, vec![identity("inner", &inner_key)]) };
    let ssh =
        Ssh::new(vec![hop(outer.port, vec![identity("outer", &key)]), last], hosts, Arc::new(NobodyToAsk));
    echoes(&ssh, "through two").await;
    assert_eq!((outer.connections(), inner.connections()), (1, 1));
    assert_eq!(ssh.login(), "root@inner.lan");
    outer.cut();
    echoes(&ssh, "through two again").await;
    assert_eq!((outer.connections(), inner.connections()), (2, 2));
}

/// Whoever gives up waiting leaves nothing open on the server.
#[tokio::test]
async fn a_stream_that_nobody_waits_for_is_closed() {
    let key = new_key();
    let server = Server::start(&[&key]).await;
    let hosts = known(&[server.known_line()]);
    let ssh = Ssh::new(vec![hop(server.port, vec![identity("mine", &key)])], hosts, Arc::new(NobodyToAsk));
    ssh.connect().await.unwrap();
    let slow = Target::new("10.0.0.11", server::SLOW);
    let given_up = tokio::time::timeout(std::time::Duration::from_millis(50), ssh.dial(&slow)).await;
    assert!(given_up.is_err());
    server.answer_slowly();
    server.until_idle_after(1).await;
}
