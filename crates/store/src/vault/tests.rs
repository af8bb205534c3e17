//! Secrets by path, every way to log in, and what a Vault says where something is wrong.

use daedal_dial::{BoxStream, Dial, Dialing, Target};
use jiff::Timestamp;

#[path = "../../tests/servers/vault.rs"]
mod server;

pub(crate) use self::server::VaultServer;
use super::*;
use crate::backend::Backend;
use crate::remote::LEASE;

/// Every stream ends at the server.
struct ToServer(VaultServer);

impl Dial for ToServer {
    fn dial<'a>(&'a self, _: &'a Target) -> Dialing<'a> {
        let (near, far) = tokio::io::duplex(64 << 10);
        tokio::spawn(self.0.clone().serve(far));
        Box::pin(async { Ok(Box::new(near) as BoxStream) })
    }
}

fn bytes(text: &str) -> SecretBytes {
    SecretBytes::new(text.as_bytes().to_vec())
}

fn vault_at(server: &VaultServer, address: &str, namespace: Option<&str>, login: Login) -> Vault {
    let settings =
        VaultSettings { address: address.parse().unwrap(), namespace: namespace.map(str::to_owned), login };
    Vault::new(settings, Arc::new(ToServer(server.clone())), Trust::System).unwrap()
}

fn vault(server: &VaultServer, login: Login) -> Vault {
    vault_at(server, "http://vault.test", None, login)
}

fn root() -> Login {
    Login::Token(bytes(server::ROOT))
}

pub(crate) fn backend(server: &VaultServer) -> Arc<dyn Backend> {
    let store = VaultStore {
        vault: vault(server, root()),
        mount: "secret".into(),
        prefix: "daedal".into(),
        lease: LEASE,
    };
    store.backend("home", Arc::new(|| Timestamp::from_second(1_800_000_000).unwrap()))
}

/// Ends the lease as if it had not been renewed in time and somebody had taken it and given it back.
pub(crate) fn end_lease(server: &VaultServer) {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    const MANIFEST: &str = "daedal/home/manifest";
    let read = || STANDARD.decode(server.secret(MANIFEST).unwrap()["content"].as_str().unwrap()).unwrap();
    crate::remote::end_lease(read, |bytes| {
        server.write(MANIFEST, Some(json!({"content": STANDARD.encode(bytes)})));
    });
}

fn cause(error: &Error) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_read_by_every_login() {
    let server = VaultServer::new();
    server.write("team/proxmox", Some(json!({"token": "old"})));
    server.write("team/proxmox", Some(json!({"token": "hunter2", "port": 8006})));
    let jwt = |mount: &str| Login::Jwt {
        mount: mount.into(),
        role: server::JWT.0.into(),
        jwt: bytes(server::JWT.1),
    };
    let app_role = Login::AppRole {
        mount: "approle".into(),
        role_id: bytes(server::ROLE.0),
        secret_id: bytes(server::ROLE.1),
    };
    for login in [root(), app_role, jwt("kubernetes"), jwt("jwt")] {
        let vault = vault(&server, login);
        let secret = vault.read("secret/team/proxmox").await.unwrap().unwrap();
        assert_eq!(secret.version, 2);
        assert_eq!(secret.fields["token"], bytes("hunter2"));
        assert_eq!(secret.fields["port"], bytes("8006"));
        assert_eq!(vault.read("/secret/team/other/").await.unwrap().map(|secret| secret.version), None);
    }
    assert_eq!(server.logins(), 3, "a token is used for as long as it is good");
    server.write("team/proxmox", None);
    assert!(vault(&server, root()).read("secret/team/proxmox").await.unwrap().is_none(), "it was deleted");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ended_is_replaced_where_it_can_be() {
    let server = VaultServer::new();
    server.write("a", Some(json!({"k": "v"})));
    let login = Login::AppRole {
        mount: "approle".into(),
        role_id: bytes(server::ROLE.0),
        secret_id: bytes(server::ROLE.1),
    };
    let vault = vault(&server, login);
    vault.read("secret/a").await.unwrap().unwrap();
    server.end_tokens();
    vault.read("secret/a").await.unwrap().unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    vault.read("secret/a").await.unwrap().unwrap();
    assert_eq!(server.logins(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_told_in_the_words_of_vault() {
    let server = VaultServer::new();
    let wrong = |login| vault(&server, login);
    let error = wrong(Login::Token(bytes("hvs.other"))).read("secret/a").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read vault:secret/a");
    assert_eq!(
        cause(&error),
        "vault.test:80 answered 403: 2 errors occurred: * permission denied * invalid token"
    );
    let login = Login::AppRole { mount: "approle".into(), role_id: bytes("x"), secret_id: bytes("hunter2") };
    let error = wrong(login).read("secret/a").await.unwrap_err();
    assert_eq!(cause(&error), "vault.test:80 answered 400: invalid role or secret ID");
    let error = wrong(root()).read("nowhere/a").await.unwrap_err();
    assert!(cause(&error).contains("grant access to path \"nowhere/\""), "{}", cause(&error));
    let error = wrong(root()).read("old/a").await.unwrap_err();
    assert!(cause(&error).contains("no key-value store of version 2"), "{}", cause(&error));
    assert!(!format!("{:?}", wrong(root())).contains("hvs."), "the token shows");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_would_be_ignored_is_an_error() {
    let free = VaultServer::new();
    free.write("a", Some(json!({"k": "of root"})));
    let error =
        vault_at(&free, "http://vault.test", Some("team"), root()).read("secret/a").await.unwrap_err();
    assert!(cause(&error).contains("has no namespaces"), "{}", cause(&error));
    let server = VaultServer::enterprise();
    server.write("a", Some(json!({"k": "of the team"})));
    vault_at(&server, "http://vault.test", Some("team"), root()).read("secret/a").await.unwrap().unwrap();
    assert_eq!(server.requests().last().map(String::as_str), Some("GET secret/data/a team"));
}

#[tokio::test(start_paused = true)]
async fn a_standby_leads_to_the_active_server() {
    let server = VaultServer::new();
    server.write("a", Some(json!({"k": "v"})));
    let standby = vault_at(&server, "http://standby.test", None, root());
    let secret = standby.read("secret/a").await.unwrap().unwrap();
    assert_eq!(secret.fields["k"], bytes("v"));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_for_a_vault_is_refused_before_it_is_sent() {
    let server = VaultServer::new();
    let large = vec![0; 800 << 10];
    let error = backend(&server).put_if_unchanged("a", &large, None, None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "vault:secret/daedal/home/a has 819200 bytes, but at most 716800 can be kept there"
    );
}

/// A bundle as a secret of its own: new, exchanged, deleted and written again; never over what somebody else wrote.
#[tokio::test(start_paused = true)]
async fn a_bundle_is_a_secret_of_its_own() {
    let server = VaultServer::new();
    let bundle = VaultBundle::new(vault(&server, root()), "secret/talos/home");
    assert_eq!(bundle.read("uuid").await.unwrap(), None);
    bundle.write_new("uuid", &bytes("cluster: {id: one}\n")).await.unwrap();
    assert_eq!(bundle.read("uuid").await.unwrap().unwrap().expose(), b"cluster: {id: one}\n");
    // As it is, behind one line that says whose it is.
    let kept = server.secret("talos/home").unwrap()["bundle"].as_str().unwrap().to_owned();
    assert!(
        kept.starts_with("# daedal-store/v1 cluster=uuid ") && kept.ends_with("\ncluster: {id: one}\n"),
        "{kept}"
    );
    let again = bundle.write_new("uuid", &bytes("other")).await.unwrap_err();
    assert!(matches!(again, Error::SecretsExist { .. }), "{again}");
    assert!(matches!(bundle.read("other").await.unwrap_err(), Error::OtherCluster { .. }));
    let old = bundle.replace("uuid", &bytes("two"), "secrets-until-20260101T000000Z.yaml").await.unwrap();
    assert_eq!(old.to_str(), Some("vault:secret/talos/home-secrets-until-20260101T000000Z"));
    assert_eq!(bundle.read("uuid").await.unwrap().unwrap().expose(), b"two");
    let kept = server.secret("talos/home-secrets-until-20260101T000000Z").unwrap();
    assert!(kept["bundle"].as_str().unwrap().ends_with("{id: one}\n"), "{kept}");
    // Deleted, it is none, and the next one is written over the deleted version.
    server.write("talos/home", None);
    assert_eq!(bundle.read("uuid").await.unwrap(), None);
    bundle.write_new("uuid", &bytes("three")).await.unwrap();
    assert_eq!(bundle.read("uuid").await.unwrap().unwrap().expose(), b"three");
    // What somebody changed, and what somebody else keeps there.
    let bent = server.secret("talos/home").unwrap()["bundle"].as_str().unwrap().replace("three", "thrice");
    server.write("talos/home", Some(json!({"bundle": bent})));
    assert!(matches!(bundle.read("uuid").await.unwrap_err(), Error::Damaged { .. }));
    server.write("talos/home", Some(json!({"token": "x"})));
    let error = bundle.read("uuid").await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("it has no field `bundle`, but others"), "{cause}");
    assert!(bundle.write_new("uuid", &bytes("four")).await.is_err());
}
