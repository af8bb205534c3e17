//! What can go wrong while observing or executing.

mod fix;
mod kind;

use std::error::Error as StdError;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use daedal_planner::FieldConflict;

use crate::effects::Refused;

pub use kind::ErrorKind;

/// Why a node in maintenance mode is not believed to be the one on whose console we listen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// The console printed keys, but not the one that is shown.
    #[error("it shows a key ({shown}) that its VM did not print on its serial console")]
    OtherKey {
        /// Fingerprint of the key that is shown.
        shown: String,
    },
    /// The console printed no key.
    #[error("its serial console has not printed its key")]
    Silent,
    /// The console cannot be read.
    #[error("its serial console cannot be read: {why}")]
    NoConsole {
        /// Why.
        why: String,
    },
}

/// An error of the engine. Display says what was attempted; `source()` says why it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A Proxmox call or task failed; the source says which.
    #[error("{}", proxmox_words(.0))]
    Proxmox(#[from] daedal_proxmox::Error),
    /// A snippet is to be put on a host, and nobody said how files get there.
    #[error("a snippet can only be put on a host over SSH, and the inventory has no `reach.ssh`")]
    NoHostFiles,
    /// A file on a Proxmox host could not be read or written.
    #[error("cannot {what} {path} on the Proxmox host")]
    HostFile {
        /// `read`, `write` or `remove`.
        what: &'static str,
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A storage keeps no snippets in a folder.
    #[error("/etc/pve/storage.cfg of the Proxmox host names no folder for the snippets of storage {storage}")]
    NoSnippets {
        /// The storage.
        storage: String,
    },
    /// A snippet was written and removed again, because the host that is to use it does not see it.
    #[error(
        "{path} was written and removed again: {host} does not list it as {volid}, so the SSH server is not this Proxmox host"
    )]
    SnippetNotSeen {
        /// The file.
        path: String,
        /// What Proxmox calls it.
        volid: String,
        /// The host of the VM.
        host: String,
    },
    /// The declared machine cannot be made.
    #[error(transparent)]
    Machine(#[from] daedal_machine::Error),
    /// A node's Talos API failed.
    #[error("cannot {what} on node {node}")]
    Talos {
        /// What was attempted.
        what: &'static str,
        /// On which node.
        node: String,
        /// Why it failed.
        source: Box<daedal_talos_client::Error>,
    },
    /// TLS could not be set up.
    #[error("cannot set up TLS")]
    Tls {
        /// Why.
        source: rustls::Error,
    },
    /// An address that cannot be used.
    #[error("`{text}` is not an address")]
    Address {
        /// The text.
        text: String,
        /// Why.
        source: http::uri::InvalidUri,
    },
    /// A request could not be built.
    #[error("cannot build a request")]
    Request {
        /// Why.
        source: http::Error,
    },
    /// Kubernetes failed.
    #[error("cannot {what}")]
    Kubernetes {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// What answers where Kubernetes should is of an authority that nobody kept; it was sent nothing.
    #[error("the API server at {target} shows a certificate of an authority that is not the kept one")]
    OtherAuthority {
        /// Where.
        target: String,
    },
    /// The Image Factory failed.
    #[error("cannot {what}")]
    Factory {
        /// What was attempted.
        what: &'static str,
        /// Why it failed.
        source: daedal_image_factory::Error,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] daedal_store::Error),
    /// A test's gate refused the effect.
    #[error("an effect was refused")]
    Refused(#[from] Refused),
    /// The VM is not what the plan took it for; it was not touched.
    #[error("VM {vmid} on {host} is not ours to touch: {why}")]
    NotOurs {
        /// VMID.
        vmid: u32,
        /// Host.
        host: String,
        /// What does not agree.
        why: String,
        /// Whether it was made with other secrets than those of this store.
        other_secrets: bool,
    },
    /// Something is no longer what a plan was made from.
    #[error("{what} changed after the plan was made, and was not touched")]
    Changed {
        /// What, such as `template 998 on atlas`.
        what: String,
    },
    /// A token is there whose secret is not known.
    #[error("the token {id} exists, but its secret was not found")]
    TokenExists {
        /// `user@realm!name`.
        id: String,
    },
    /// A new token's secret could not be kept; the token was deleted again.
    #[error("the secret of the token {id} could not be written, so the token was deleted again")]
    NotKept {
        /// `user@realm!name`.
        id: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A VM that should be there is not.
    #[error("VM {vmid} is not there any more")]
    Gone {
        /// VMID.
        vmid: u32,
    },
    /// A create or clone that died and left a VM locked.
    #[error(
        "VM {vmid} on {host} is stuck in `lock: {lock}`: the task that made it died, and no API token can free it{}",
        if *unseen { " (nor see it: it is not in its pool yet)" } else { "" }
    )]
    StuckCreate {
        /// VMID.
        vmid: u32,
        /// Host.
        host: String,
        /// The lock.
        lock: String,
        /// Whether the token may not see it.
        unseen: bool,
    },
    /// A running VM could not take a value. Proxmox has kept it.
    #[error(
        "VM {vmid} on {host} could not take it while it runs ({why}), and Proxmox keeps it for its next start"
    )]
    NotPlugged {
        /// VMID.
        vmid: u32,
        /// Host.
        host: String,
        /// What Proxmox says, option by option.
        why: String,
        /// The options.
        options: Vec<String>,
    },
    /// A wait took too long.
    #[error("gave up after {} waiting for {what}{}", human(*after), last.as_ref().map_or_else(String::new, |last| format!(" (last seen: {last})")))]
    Deadline {
        /// What was waited for.
        what: String,
        /// For how long.
        after: Duration,
        /// What was last seen.
        last: Option<String>,
    },
    /// An image is not what it was.
    #[error("image {file} is not what was pinned: {why}")]
    Image {
        /// The file.
        file: String,
        /// What differs.
        why: String,
        /// What would help.
        fix: Option<String>,
    },
    /// A plan refers to something the inventory does not have.
    #[error("the plan does not fit the inventory: {why}")]
    Plan {
        /// What does not fit.
        why: String,
    },
    /// There are no secrets although a step needs them.
    #[error("the secrets bundle is not in the store")]
    NoSecrets,
    /// The stored bundle cannot be read.
    #[error("the stored secrets bundle cannot be read")]
    BadSecrets {
        /// Why, without any of it.
        source: daedal_talos_config::Error,
    },
    /// The API server answers, but does not serve yet.
    #[error("the API server at {target} is not ready: {} is not{}", checks.first().map_or("something", String::as_str), more(checks.len()))]
    ApiNotReady {
        /// Where.
        target: String,
        /// Its checks that fail.
        checks: Vec<String>,
    },
    /// An output file cannot be read.
    #[error("could not read {path}")]
    ReadOutput {
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The stored bundle is no text at all.
    #[error("the stored secrets bundle is not UTF-8 text")]
    SecretsNotText {
        /// Where it ceases to be.
        source: std::str::Utf8Error,
    },
    /// A node does not take its machine config.
    #[error("node {node} refuses its machine config: {why}")]
    ConfigRefused {
        /// Which node.
        node: String,
        /// In its own words, but for the secrets that they quote.
        why: String,
    },
    /// A node runs on another config than the one the plan was made for; it was not touched.
    #[error("node {node} runs on another config than when the plan was made")]
    ConfigMoved {
        /// Which node.
        node: String,
    },
    /// Who answers at a node's address has a config, but not one with our keys; it was sent nothing.
    #[error("what answers {}, where node {node} should be, belongs to another cluster", at(*address))]
    OtherCluster {
        /// Which node.
        node: String,
        /// Where.
        address: Option<IpAddr>,
    },
    /// Who waits at a node's address does not show a key that the node printed on its console.
    #[error("what waits for the config of node {node} could not be verified as this node")]
    Unproven {
        /// Which node.
        node: String,
        /// What speaks against it.
        #[source]
        why: Doubt,
    },
    /// A node waits without a config although it should have one.
    #[error("node {node} is in maintenance mode: it never got its config")]
    Maintenance {
        /// Which node.
        node: String,
    },
    /// Work on another thread was cut short.
    #[error("background work was cut short")]
    Interrupted(#[source] tokio::task::JoinError),
    /// A snapshot file cannot be used.
    #[error("the snapshot {} cannot be used: {why}", path.display())]
    Backup {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A snapshot that was just taken or read is not whole.
    #[error("the snapshot {} is not whole", path.display())]
    BackupDamaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: daedal_talos_client::Error,
    },
    /// A snapshot file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    BackupFile {
        /// What was attempted.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// No control plane gives a snapshot.
    #[error("no control plane gives a snapshot of etcd: {why}")]
    NoSnapshot {
        /// What they say.
        why: String,
    },
    /// An etcd is there where a snapshot was to be restored; nothing was changed.
    #[error("node {node} has an etcd that did not begin with this snapshot")]
    EtcdExists {
        /// Which node.
        node: String,
    },
    /// A node that is to be stopped is a member of etcd; it was not touched.
    #[error("node {node} is a member of etcd, and was not stopped")]
    StillMember {
        /// Which node.
        node: String,
    },
    /// An add-on could not be rendered.
    #[error("add-on {addon} could not be rendered: {why}")]
    AddonNotRendered {
        /// Which.
        addon: String,
        /// Why.
        why: String,
    },
    /// Somebody else looks after an object of an add-on; it was not touched.
    #[error("{object} of add-on {addon} belongs to {owner}, and was not touched")]
    AddonOwned {
        /// Which add-on.
        addon: String,
        /// The object.
        object: String,
        /// Whose it is.
        owner: String,
    },
    /// Others own fields of an object of an add-on; it was not touched.
    #[error("{object} of add-on {addon} has fields that others own: {}", owned(conflicts))]
    AddonConflict {
        /// Which add-on.
        addon: String,
        /// The object.
        object: String,
        /// The fields, and who owns them.
        conflicts: Vec<FieldConflict>,
    },
    /// Kubernetes refuses an object of an add-on.
    #[error("Kubernetes refuses {object} of add-on {addon}: {why}")]
    AddonRefused {
        /// Which add-on.
        addon: String,
        /// The object.
        object: String,
        /// In its own words.
        why: String,
        /// Whether a field that cannot be changed is the reason.
        immutable: bool,
    },
    /// The record of what is in an add-on cannot be used.
    #[error("the record of add-on {addon} cannot be used")]
    AddonSet {
        /// Which.
        addon: String,
        /// Why.
        source: daedal_addons::Error,
    },
    /// The run is being stopped; not a failure.
    #[error("the run is being stopped")]
    Stopped,
}

/// An error with all its causes in one line.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    /// The most that is quoted of a cause, which may be a peer's words.
    const LONGEST_QUOTE: usize = 500;
    let quote = |text: &str| match text.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let next = quote(&cause.to_string());
        // Some libraries print their source as well; saying it twice helps nobody.
        if !next.is_empty() && !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = cause.source();
    }
    text
}

/// What the failure means for whoever asked.
fn proxmox_words(error: &daedal_proxmox::Error) -> &'static str {
    use daedal_proxmox::Kind;
    match error.kind() {
        Kind::Unreachable { .. } => "Proxmox cannot be reached",
        Kind::Untrusted { .. } => "what answers is not trusted to be Proxmox",
        Kind::Auth { .. } | Kind::Permission { .. } => "Proxmox refuses",
        _ => "the Proxmox call failed",
    }
}

fn at(address: Option<IpAddr>) -> String {
    address.map_or_else(|| "there".to_owned(), |address| format!("on {address}"))
}

fn owned(conflicts: &[FieldConflict]) -> String {
    let one = |conflict: &FieldConflict| format!("{} ({})", conflict.field, conflict.manager);
    conflicts.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn more(checks: usize) -> String {
    if checks > 1 { format!(", nor are {} more", checks - 1) } else { String::new() }
}

fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    }
}
