//! The way to the nodes through SSH, as the inventory declares it and as `ssh` itself would go: keys, agent, ssh_config and
//! known_hosts of whoever runs this.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daedal_engine::HostFiles;
use daedal_inventory::{Reach, Ssh, SshKey, SshServer};
use daedal_ssh::{
    Asked, Error, Facts, Hop, Identity, KnownHosts, Questions, SshConfig, Stop, UnknownKey, way,
};
use daedal_store::Keyring;
use futures::future::BoxFuture;
use zeroize::Zeroizing;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::operator::variable;
use crate::{console, secrets, session};

/// Files of the whole machine.
const SYSTEM: &str = "/etc/ssh";

/// The declared way, if it leads through SSH. Reads files and connects nothing yet.
pub fn open(reach: &Reach, folder: &Path, keys: &Keyring) -> Outcome<Option<daedal_ssh::Ssh>> {
    let Reach::Ssh(declared) = reach else { return Ok(None) };
    let home = variable("HOME").map(PathBuf::from).unwrap_or_default();
    let own = home.join(".ssh");
    let facts = Facts { home: home.display().to_string(), local_user: session::user_name() };
    let jumps = declared.jump.as_ref().map(|jumps| jumps.iter().map(asked).collect::<Vec<_>>());
    let stops = way(&config(&own)?, &asked(&declared.server), jumps.as_deref(), &facts).map_err(|error| {
        Failure::from_error(Exit::BadDocument, &error)
            .hint("Name the servers on the way in the inventory: `jump: [user@host:port]`.")
    })?;
    for place in stops.iter().flat_map(|stop| &stop.skipped) {
        tracing::warn!(%place, "this Match block of ssh_config is not understood and left out");
    }
    let hosts = known_hosts(declared, &stops, &own, folder)?;
    // What the inventory says of a server stands in the order of the way; servers before them are ssh_config's alone.
    let said: Vec<&SshServer> = declared.jump.iter().flatten().chain([&declared.server]).collect();
    let unsaid = stops.len().saturating_sub(said.len());
    let said = std::iter::repeat_n(None, unsaid).chain(said.into_iter().map(Some));
    let hops = stops.into_iter().zip(said).map(|(stop, said)| hop(stop, said, folder, keys));
    let remembers = declared.known_hosts.as_ref().map(|file| secrets::resolve(file, folder));
    let person = Person { remembers: remembers.unwrap_or_else(|| own.join("known_hosts")) };
    Ok(Some(daedal_ssh::Ssh::new(hops.collect::<Outcome<_>>()?, hosts, Arc::new(person))))
}

/// Files of the last server on a way, for what Proxmox takes no other way.
pub fn files(ssh: daedal_ssh::Ssh) -> Arc<dyn HostFiles> {
    Arc::new(ByFtp(ssh))
}

/// Longest file that is read.
const FILE_LIMIT: usize = 4 << 20;

struct ByFtp(daedal_ssh::Ssh);

impl HostFiles for ByFtp {
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, std::io::Result<Option<Vec<u8>>>> {
        Box::pin(self.0.read_file(path, FILE_LIMIT))
    }

    fn write<'a>(&'a self, path: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, std::io::Result<()>> {
        Box::pin(self.0.write_file(path, bytes))
    }

    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, std::io::Result<()>> {
        Box::pin(self.0.remove_file(path))
    }
}

fn asked(server: &SshServer) -> Asked {
    Asked { host: server.host.clone(), user: server.user.clone(), port: server.port }
}

/// ssh_config of the user, then of the machine.
fn config(own: &Path) -> Outcome<SshConfig> {
    let mut config = SshConfig::default();
    for (file, folder) in
        [(own.join("config"), own), (Path::new(SYSTEM).join("ssh_config"), Path::new(SYSTEM))]
    {
        let Some(text) = read(&file)? else { continue };
        let mut include = |pattern: &str| included(pattern, folder);
        config
            .read(&file.display().to_string(), &text, &mut include)
            .map_err(|error| Failure::from_error(Exit::BadDocument, &error))?;
    }
    Ok(config)
}

/// A file, if it is there.
fn read(file: &Path) -> Outcome<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(Failure::new(Exit::NoInput, format!("cannot read {}", file.display())).because(&error))
        }
    }
}

/// The files that an `Include` means, in order; those that cannot be read are none, as for `ssh`.
fn included(pattern: &str, folder: &Path) -> Vec<(String, String)> {
    let path = secrets::resolve(Path::new(pattern), folder);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut files = match (name.contains(['*', '?']), path.parent()) {
        (true, Some(parent)) => {
            let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
            let named =
                |entry: &std::fs::DirEntry| daedal_ssh::fits(&name, &entry.file_name().to_string_lossy());
            entries.filter(named).map(|entry| entry.path()).collect()
        }
        _ => vec![path],
    };
    files.sort();
    let text = |file: PathBuf| Some((file.display().to_string(), std::fs::read_to_string(&file).ok()?));
    files.into_iter().filter_map(text).collect()
}

fn known_hosts(declared: &Ssh, stops: &[Stop], own: &Path, folder: &Path) -> Outcome<KnownHosts> {
    let mut hosts = KnownHosts::default();
    if let Some(file) = &declared.known_hosts {
        let file = secrets::resolve(file, folder);
        let text = read(&file)?.ok_or_else(|| {
            Failure::new(
                Exit::NoInput,
                format!("the file {} (`reach.ssh.knownHosts`) does not exist", file.display()),
            )
            .hint("Write the host keys into it: ssh-keyscan HOST")
        })?;
        hosts.read(&file.display().to_string(), &text);
        return Ok(hosts);
    }
    let usual = ["known_hosts", "known_hosts2"].map(|name| own.join(name).display().to_string());
    let system = ["ssh_known_hosts", "ssh_known_hosts2"].map(|name| format!("{SYSTEM}/{name}"));
    let named = stops.iter().flat_map(|stop| stop.known_hosts.as_deref().unwrap_or(&usual));
    let mut files: Vec<&String> = Vec::new();
    for file in named.chain(&system) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    for file in files {
        if let Some(text) = read(Path::new(file))? {
            hosts.read(file, &text);
        }
    }
    Ok(hosts)
}

/// A server with its keys: those that the inventory names, or else those that `ssh` would offer.
fn hop(stop: Stop, said: Option<&SshServer>, folder: &Path, keys: &Keyring) -> Outcome<Hop> {
    let agent = match stop.agent.as_deref() {
        None => variable("SSH_AUTH_SOCK").map(PathBuf::from),
        Some("none") => None,
        Some(path) => Some(PathBuf::from(path)),
    };
    let mut hop = Hop {
        host: stop.host,
        port: stop.port,
        user: stop.user,
        known_as: stop.known_as,
        agent,
        identities_only: stop.identities_only,
        identities: Vec::new(),
    };
    match said {
        Some(SshServer { agent: true, .. }) => {
            if hop.agent.is_none() {
                let text =
                    format!("no SSH agent can be asked to log in to {}: SSH_AUTH_SOCK is not set", hop.host);
                return Err(Failure::new(Exit::MissingSecret, text)
                    .hint("Start one: eval \"$(ssh-agent)\" && ssh-add")
                    .hint("Or name a key in the inventory: `key: ~/.ssh/id_ed25519`."));
            }
            hop.identities_only = false;
        }
        Some(SshServer { key: Some(key), passphrase, .. }) => {
            let mut identity = named(key, &hop.host, folder, keys)?;
            if let Some(reference) = passphrase {
                let what = format!("the passphrase of the SSH key {}", identity.name);
                identity.passphrase = Some(Zeroizing::new(secrets::read(reference, &what, folder, keys)?));
            }
            // An agent may hold it decrypted, and is asked for no other.
            hop.identities_only = true;
            hop.identities.push(identity);
        }
        _ => {
            for file in &stop.identity_files {
                hop.identities.extend(identity(Path::new(file))?);
            }
        }
    }
    Ok(hop)
}

/// The key that the inventory names for a host.
fn named(key: &SshKey, host: &str, folder: &Path, keys: &Keyring) -> Outcome<Identity> {
    let reference = match key {
        SshKey::Found(reference) => reference,
        SshKey::File(file) => {
            let path = secrets::resolve(file, folder);
            return identity(&path)?.ok_or_else(|| {
                let text = format!("the SSH key {} (`reach.ssh.key`) does not exist", path.display());
                Failure::new(Exit::NoInput, text).hint("Paths are relative to the inventory, or below `~/`.")
            });
        }
    };
    let private = Zeroizing::new(secrets::read(reference, &format!("the SSH key for {host}"), folder, keys)?);
    if !is_private_key(&private) {
        let text = format!("what `reach.ssh.key` refers to is no private key for {host}");
        return Err(Failure::new(Exit::MissingSecret, text)
            .hint("It begins with `-----BEGIN OPENSSH PRIVATE KEY-----`."));
    }
    // What was around it is gone, and a key ends with its line.
    let private = Zeroizing::new(format!("{}\n", *private));
    Ok(Identity {
        name: "`reach.ssh.key`".to_owned(),
        private: Some(private),
        public: None,
        passphrase: None,
    })
}

fn is_private_key(text: &str) -> bool {
    text.contains("PRIVATE KEY") || text.contains("PuTTY-User-Key-File")
}

/// A key's file, with its public part beside it; none if neither is there.
fn identity(path: &Path) -> Outcome<Option<Identity>> {
    let private = read(path)?.map(Zeroizing::new);
    let mut beside = path.as_os_str().to_owned();
    beside.push(".pub");
    let public = std::fs::read_to_string(beside).ok();
    if private.is_none() && public.is_none() {
        return Ok(None);
    }
    // Only the public part may be named, where an agent has the private one.
    let (private, public) = match private {
        Some(text) if !is_private_key(&text) => (None, Some(text.to_string())),
        private => (private, public),
    };
    Ok(Some(Identity { name: path.display().to_string(), private, public, passphrase: None }))
}

/// Whoever sits at the terminal.
struct Person {
    /// Where keys are written that they vouch for.
    remembers: PathBuf,
}

impl Questions for Person {
    fn trusts(&self, unknown: &UnknownKey) -> bool {
        let UnknownKey { login, key, line } = unknown;
        let question = format!(
            "The host key of {login} is not known:\n  {key}\n{}\nIs it the right one? If so, it is added to {}.",
            compare(&key.kind),
            self.remembers.display()
        );
        if console::agrees(&question) != Some(true) {
            return false;
        }
        if let Err(error) = remember(&self.remembers, line) {
            let file = self.remembers.display();
            console::say(&format!("warning: the key could not be added to {file}: {error}"));
        }
        true
    }

    fn passphrase(&self, key: &str) -> Option<Zeroizing<String>> {
        console::ask_secret(&format!("Passphrase of the SSH key {key}:")).map(Zeroizing::new)
    }
}

/// How somebody finds out what a host's key is.
fn compare(kind: &str) -> String {
    let name = match kind {
        ecdsa if ecdsa.starts_with("ecdsa") => "ecdsa",
        "ssh-rsa" | "rsa-sha2-256" | "rsa-sha2-512" => "rsa",
        _ => "ed25519",
    };
    format!("Compare it with what the host itself says: ssh-keygen -lf /etc/ssh/ssh_host_{name}_key.pub")
}

/// Adds a line to a known_hosts file, which is made if need be.
fn remember(file: &Path, line: &str) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(folder) = file.parent().filter(|folder| !folder.is_dir()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let ends = std::fs::read(file).map_or(true, |text| text.is_empty() || text.ends_with(b"\n"));
    let text = format!("{}{line}\n", if ends { "" } else { "\n" });
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file)?.write_all(text.as_bytes())
}

/// Why the way through SSH is closed, and what helps.
pub fn failure(error: &Error) -> Failure {
    let by_hand = |login: &str| format!("Try it by hand: ssh {}", arguments(login));
    match error {
        Error::UnknownHostKey(unknown) => {
            let (_, host, port) = parts(&unknown.login);
            let port = port.map(|port| format!("-p {port} ")).unwrap_or_default();
            Failure::from_error(Exit::Unavailable, error)
                .hint(compare(&unknown.key.kind))
                .hint(format!("If it is right, log in once, which remembers it: ssh {}", arguments(&unknown.login)))
                .hint(format!("Or add it: ssh-keyscan {port}{host} >> ~/.ssh/known_hosts"))
        }
        Error::ChangedHostKey(changed) => {
            let daedal_ssh::ChangedKey { login, key, place, .. } = &**changed;
            let (_, host, port) = parts(login);
            let name = port.map_or_else(|| host.to_owned(), |port| format!("[{host}]:{port}"));
            Failure::from_error(Exit::Unavailable, error)
                .hint("Another machine may be intercepting the connection. Nothing was sent.")
                .hint(compare(&key.kind))
                .hint(format!("If the host was installed again: ssh-keygen -f {} -R '{name}'", place.file))
        }
        Error::RevokedHostKey { .. } => Failure::from_error(Exit::Unavailable, error),
        Error::HostCertificate { login, .. } => {
            let (_, host, port) = parts(login);
            let port = port.map(|port| format!("-p {port} ")).unwrap_or_default();
            Failure::from_error(Exit::Unavailable, error)
                .hint(format!("Add its key beside the authority: ssh-keyscan {port}{host} >> ~/.ssh/known_hosts"))
        }
        Error::Login { login, .. } => Failure::from_error(Exit::Denied, error)
            .hint(by_hand(login))
            .hint("Name the key or the user in the inventory: `reach: {ssh: {host: …, user: root, key: ~/.ssh/id_ed25519}}`."),
        Error::Encrypted { name } => Failure::from_error(Exit::MissingSecret, error)
            .hint(format!("Add it to the agent: ssh-add {name}"))
            .hint("Or name its passphrase in the inventory: `passphrase: {env: SSH_PASSPHRASE}`."),
        Error::Key { .. } => Failure::from_error(Exit::NoInput, error),
        Error::Connect { login, .. } | Error::Handshake { login, .. } | Error::Silent { login, .. } => {
            Failure::from_error(Exit::Unavailable, error).hint(by_hand(login))
        }
        Error::NoSftp { .. } => Failure::from_error(Exit::Unavailable, error)
            .hint("Turn it on in /etc/ssh/sshd_config of the host: `Subsystem sftp internal-sftp`.")
            .hint("Or use `boot: {config: cidata}`, which needs no SSH."),
        Error::NoSession { .. } | Error::NoServer | Error::Forbidden { .. } | Error::Unreachable { .. } | Error::Lost { .. } => {
            Failure::from_error(Exit::Unavailable, error)
        }
    }
}

/// User, host and port of a login.
fn parts(login: &str) -> (&str, &str, Option<&str>) {
    let (user, rest) = login.rsplit_once('@').unwrap_or(("", login));
    match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (user, host, port.strip_prefix(':')),
        None => match rest.split_once(':') {
            Some((host, port)) => (user, host, Some(port)),
            None => (user, rest, None),
        },
    }
}

/// A login as `ssh` takes it.
fn arguments(login: &str) -> String {
    let (user, host, port) = parts(login);
    let port = port.map(|port| format!("-p {port} ")).unwrap_or_default();
    format!("{port}{user}@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_become_what_ssh_takes() {
        assert_eq!(arguments("root@atlas.lan"), "root@atlas.lan");
        assert_eq!(arguments("me@corp@atlas.lan:2222"), "-p 2222 me@corp@atlas.lan");
        assert_eq!(arguments("root@[fd00::1]:2222"), "-p 2222 root@fd00::1");
        assert_eq!(arguments("root@[fd00::1]"), "root@fd00::1");
    }

    #[test]
    fn a_key_is_remembered_on_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".ssh/known_hosts");
        remember(&file, "one ssh-ed25519 A").unwrap();
        std::fs::write(&file, "one ssh-ed25519 A").unwrap();
        remember(&file, "two ssh-ed25519 B").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one ssh-ed25519 A\ntwo ssh-ed25519 B\n");
    }

    #[test]
    fn included_files_come_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", "c.txt"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let texts: Vec<String> =
            included("*.conf", folder.path()).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["a.conf", "b.conf"]);
        assert_eq!(included("c.txt", folder.path()).len(), 1);
        assert!(included("no-such-file", folder.path()).is_empty());
    }

    #[test]
    fn an_unknown_key_comes_with_what_to_do() {
        let key = daedal_ssh::HostKey { kind: "ssh-rsa".into(), fingerprint: "SHA256:abc".into() };
        let unknown = UnknownKey { login: "root@atlas.lan:2222".into(), key, line: String::new() };
        let said = failure(&Error::UnknownHostKey(unknown)).render(false);
        assert!(
            said.contains("the host key of root@atlas.lan:2222 is not known: ssh-rsa SHA256:abc"),
            "{said}"
        );
        assert!(said.contains("ssh-keygen -lf /etc/ssh/ssh_host_rsa_key.pub"), "{said}");
        assert!(said.contains("ssh-keyscan -p 2222 atlas.lan >> ~/.ssh/known_hosts"), "{said}");
    }
}
