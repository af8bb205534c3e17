//! OpenSSH's server, agent and key files. Part of the second tier: `cargo xtask conformance ssh` finds the server and says where in
//! `DAEDAL_SSHD`; without it a line says what was skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use daedal_dial::{Dial as _, Target};
use daedal_ssh::{Error, Hop, Identity, KnownHosts, NobodyToAsk, Ssh};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use zeroize::Zeroizing;

/// The account that root's server becomes: it can log in none but itself.
const NOBODY: u32 = 65534;

/// The real server, or none after saying that it was skipped.
fn sshd() -> Option<PathBuf> {
    let named = std::env::var_os("DAEDAL_SSHD").map(PathBuf::from);
    if named.is_none() {
        println!("skipped: DAEDAL_SSHD names no program");
    }
    named
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A server with its keys in a folder of its own.
struct Sshd {
    folder: tempfile::TempDir,
    child: Child,
    port: u16,
    user: String,
}

impl Sshd {
    async fn start(program: &Path, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for kind in ["ed25519", "ecdsa", "rsa"] {
            let bits: &[&str] = if kind == "rsa" { &["-b", "2048"] } else { &[] };
            for name in [format!("host_{kind}"), kind.to_owned()] {
                run(
                    "ssh-keygen",
                    &[&["-q", "-t", kind, "-N", "", "-C", "", "-f", &at(&name)], bits].concat(),
                );
            }
        }
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "open sesame", "-C", "", "-f", &at("locked")]);
        let public = |name: &str| std::fs::read_to_string(at(&format!("{name}.pub"))).unwrap();
        let authorized = ["ed25519", "ecdsa", "rsa", "locked"].map(public).concat();
        std::fs::write(at("authorized_keys"), authorized).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let hosts =
            ["ed25519", "ecdsa", "rsa"].map(|kind| format!("HostKey {}\n", at(&format!("host_{kind}"))));
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\n{}PidFile {}\nStrictModes no\nAuthorizedKeysFile {}\nUsePAM yes\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\n{more}",
            hosts.concat(),
            at("pid"),
            at("authorized_keys")
        );
        std::fs::write(at("sshd_config"), config).unwrap();
        // It calls itself again by its path, which another account must be able to read.
        let own = folder.path().join("sshd");
        std::fs::copy(program, &own).unwrap();
        let (mut command, user) = match is_root() {
            true => {
                std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
                for entry in std::fs::read_dir(folder.path()).unwrap() {
                    chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
                }
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&own);
                (command, "nobody".to_owned())
            }
            false => (Command::new(&own), run("id", &["-un"]).trim().to_owned()),
        };
        // Unpacked beside its libraries, or installed.
        let libraries = program.parent().unwrap().join("../lib/x86_64-linux-gnu");
        let copied = folder.path().join("lib");
        std::fs::create_dir(&copied).unwrap();
        for library in std::fs::read_dir(libraries).into_iter().flatten().flatten() {
            if library.file_name().to_string_lossy().starts_with("libwrap") {
                std::fs::copy(library.path(), copied.join(library.file_name())).unwrap();
            }
        }
        command
            .env("LD_LIBRARY_PATH", &copied)
            .args(["-D", "-e", "-f"])
            .arg(folder.path().join("sshd_config"));
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        for _ in 0..6000 {
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Self { folder, child, port, user };
            }
            if child.try_wait().unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not start: {}", std::fs::read_to_string(folder.path().join("log")).unwrap());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn identity(&self, name: &str, passphrase: Option<&str>) -> Identity {
        Identity {
            name: name.to_owned(),
            private: Some(Zeroizing::new(std::fs::read_to_string(self.path(name)).unwrap())),
            public: None,
            passphrase: passphrase.map(|text| Zeroizing::new(text.to_owned())),
        }
    }

    fn hop(&self, identities: Vec<Identity>) -> Hop {
        Hop {
            host: "127.0.0.1".into(),
            port: self.port,
            user: self.user.clone(),
            known_as: None,
            agent: None,
            identities_only: false,
            identities,
        }
    }

    /// What known_hosts has of one of its keys.
    fn known(&self, kind: &str) -> String {
        let key = std::fs::read_to_string(self.path(&format!("host_{kind}.pub"))).unwrap();
        format!("[127.0.0.1]:{} {key}", self.port)
    }

    fn ssh(&self, hop: Hop) -> Ssh {
        Ssh::new(vec![hop], hosts(&self.known("ed25519")), Arc::new(NobodyToAsk))
    }

    /// Every process that the server started, however deep.
    fn sessions(&self) -> Vec<u32> {
        let mut found = vec![self.child.id()];
        let mut at = 0;
        while at < found.len() {
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", found[at]));
            found.extend(
                children.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()),
            );
            at += 1;
        }
        found.split_off(1)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        for session in self.sessions() {
            let _ = Command::new("kill").args(["-9", &session.to_string()]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hosts(text: &str) -> KnownHosts {
    let mut hosts = KnownHosts::default();
    hosts.read("known_hosts", text);
    hosts
}

/// A peer that repeats what it hears.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    port
}

async fn echoes(ssh: &Ssh, port: u16, word: &str) {
    let mut stream = ssh.dial(&Target::new("127.0.0.1", port)).await.unwrap();
    stream.write_all(word.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, word);
}

#[tokio::test]
async fn openssh_lets_every_kind_of_key_in() {
    let Some(program) = sshd() else { return };
    let (server, port) = (Sshd::start(&program, "").await, echo().await);
    for (name, passphrase) in
        [("ed25519", None), ("ecdsa", None), ("rsa", None), ("locked", Some("open sesame"))]
    {
        echoes(&server.ssh(server.hop(vec![server.identity(name, passphrase)])), port, name).await;
    }
    // All three in a real agent.
    let socket = server.path("agent");
    let mut agent =
        Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    while !socket.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for name in ["rsa", "ecdsa", "ed25519"] {
        let key = server.path(name);
        // Its owner is the server's account, whose keys others may not add.
        std::fs::copy(&key, server.path("copy")).unwrap();
        std::fs::set_permissions(server.path("copy"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let added =
            Command::new("ssh-add").arg("-q").arg(server.path("copy")).env("SSH_AUTH_SOCK", &socket).status();
        assert!(added.unwrap().success(), "{name}");
        let hop = Hop { agent: Some(socket.clone()), ..server.hop(Vec::new()) };
        echoes(&server.ssh(hop), port, name).await;
        let cleared = Command::new("ssh-add").args(["-q", "-D"]).env("SSH_AUTH_SOCK", &socket).status();
        assert!(cleared.unwrap().success());
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[tokio::test]
async fn openssh_takes_and_gives_files() {
    let Some(program) = sshd() else { return };
    let server = Sshd::start(&program, "Subsystem sftp internal-sftp\n").await;
    let ssh = server.ssh(server.hop(vec![server.identity("ed25519", None)]));
    let folder = server.path("files");
    std::fs::create_dir(&folder).unwrap();
    if is_root() {
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let path = folder.join("config.yaml").display().to_string();
    assert_eq!(ssh.read_file(&path, 1 << 20).await.unwrap(), None);
    // Longer than one packet, then shorter: it is written as a whole, and nobody else reads it.
    let long: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    for bytes in [&long[..], b"short"] {
        ssh.write_file(&path, bytes).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(ssh.read_file(&path, 1 << 20).await.unwrap().unwrap(), bytes);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no part of a file is left");
    // More at once than the server allows sessions.
    let mut many = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let (ssh, path) = (ssh.clone(), path.clone());
        many.spawn(async move { ssh.read_file(&path, 1 << 20).await });
    }
    while let Some(read) = many.join_next().await {
        assert!(read.unwrap().unwrap().is_some());
    }
    let nowhere = folder.join("no/folder.yaml").display().to_string();
    let error = ssh.write_file(&nowhere, b"text").await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::NotFound, "No such file"));

    let without = Sshd::start(&program, "").await;
    let ssh = without.ssh(without.hop(vec![without.identity("ed25519", None)]));
    let error = ssh.read_file("/etc/hostname", 1 << 20).await.unwrap_err();
    assert!(error.to_string().contains("does not serve SFTP"), "{error}");
}

#[tokio::test]
async fn openssh_is_known_by_what_its_own_tools_write() {
    let Some(program) = sshd() else { return };
    let (server, port) = (Sshd::start(&program, "").await, echo().await);
    let hop = || server.hop(vec![server.identity("ed25519", None)]);
    for kind in ["ed25519", "ecdsa", "rsa"] {
        // Hashed, and only this one of its three keys.
        let file = server.path("known_hosts");
        std::fs::write(&file, server.known(kind)).unwrap();
        run("ssh-keygen", &["-q", "-H", "-f", &file.display().to_string()]);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("|1|"), "{text}");
        echoes(&Ssh::new(vec![hop()], hosts(&text), Arc::new(NobodyToAsk)), port, kind).await;
    }
    let stranger = Ssh::new(vec![hop()], KnownHosts::default(), Arc::new(NobodyToAsk));
    let error = stranger.connect().await.unwrap_err();
    let Error::UnknownHostKey(unknown) = &*error else { panic!("{error}") };
    let shown = run("ssh-keygen", &["-lf", &server.path("host_ed25519.pub").display().to_string()]);
    assert!(shown.contains(&unknown.key.fingerprint), "{shown} {unknown:?}");
}

#[tokio::test]
async fn openssh_refuses_as_it_is_told() {
    let Some(program) = sshd() else { return };
    let server = Sshd::start(&program, "").await;
    let ssh = server.ssh(server.hop(vec![server.identity("ed25519", None)]));
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let error = ssh.dial(&Target::new("127.0.0.1", closed)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    let strict = Sshd::start(&program, "AllowTcpForwarding no\n").await;
    let ssh = strict.ssh(strict.hop(vec![strict.identity("ed25519", None)]));
    let error = ssh.dial(&Target::new("127.0.0.1", closed)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().starts_with("forwarding is forbidden on "), "{error}");
    // A key of somebody else.
    let ssh = strict.ssh(strict.hop(vec![server.identity("ed25519", None)]));
    let error = ssh.connect().await.unwrap_err();
    assert!(
        matches!(&*error, Error::Login { source, .. } if source.to_string() == "offered: ed25519; the server takes publickey"),
        "{error:?}"
    );
}

#[tokio::test]
async fn openssh_servers_are_reached_through_each_other_and_again_when_they_are_killed() {
    let Some(program) = sshd() else { return };
    let (outer, inner, port) =
        (Sshd::start(&program, "").await, Sshd::start(&program, "").await, echo().await);
    let hops = [&outer, &inner].map(|server| server.hop(vec![server.identity("ed25519", None)])).to_vec();
    let known = hosts(&(outer.known("ed25519") + &inner.known("ed25519")));
    let ssh = Ssh::new(hops, known, Arc::new(NobodyToAsk));
    let all = (0..60).map(|n| {
        let ssh = ssh.clone();
        tokio::spawn(async move { echoes(&ssh, port, &format!("word {n}")).await })
    });
    for task in all.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    for server in [&inner, &outer] {
        let mut stream = ssh.dial(&Target::new("127.0.0.1", port)).await.unwrap();
        let sessions = server.sessions();
        assert!(!sessions.is_empty());
        for session in sessions {
            run("kill", &["-9", &session.to_string()]);
        }
        let error = stream.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        echoes(&ssh, port, "again").await;
    }
}
