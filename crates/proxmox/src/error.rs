//! What can go wrong, typed the same whether Proxmox said it as an HTTP answer or as a task's end.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// A call or a task that failed: [`fmt::Display`] names the operation, [`Error::kind`] and `source()` say why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("could not {operation}")]
pub struct Error {
    operation: String,
    #[source]
    kind: Box<Kind>,
}

/// A cause that is not ours to explain.
pub type Cause = Arc<dyn std::error::Error + Send + Sync + 'static>;

/// Why it failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Kind {
    /// The thing is not there.
    #[error("{text}")]
    NotFound {
        /// What is missing.
        what: Missing,
        /// Proxmox's words.
        text: String,
    },
    /// The VMID or file is already taken.
    #[error("{text}")]
    AlreadyExists {
        /// Proxmox's words.
        text: String,
    },
    /// The guest carries a lock (`backup`, `create` …) that only its operation, or root on the node, removes.
    #[error("{text}")]
    Locked {
        /// Which lock.
        lock: String,
        /// Proxmox's words.
        text: String,
    },
    /// Proxmox waited in vain for one of its file or cluster locks; nothing was done.
    #[error("{text}")]
    LockTimeout {
        /// Proxmox's words.
        text: String,
    },
    /// Proxmox waited in vain for a command of a storage; what it began may be there.
    #[error("{text}")]
    StorageTimeout {
        /// Proxmox's words.
        text: String,
    },
    /// The configuration changed since it was read.
    #[error("{text}")]
    Stale {
        /// Proxmox's words.
        text: String,
    },
    /// A privilege is missing, or the option is for root alone.
    #[error("{text}")]
    Permission {
        /// ACL path, where Proxmox names it.
        path: Option<String>,
        /// Privilege, where Proxmox names it (alternatives joined by `|`).
        privilege: Option<String>,
        /// Proxmox's words.
        text: String,
    },
    /// Parameters that Proxmox refuses.
    #[error("{}", parameters(.errors, .text))]
    Parameter {
        /// Complaint by parameter.
        errors: BTreeMap<String, String>,
        /// Proxmox's words.
        text: String,
    },
    /// The token is not accepted.
    #[error("Proxmox does not accept the API token: {text}")]
    Auth {
        /// Proxmox's words.
        text: String,
    },
    /// The Proxmox cluster has no quorum, so nothing can be written.
    #[error("{text}")]
    NoQuorum {
        /// Proxmox's words.
        text: String,
    },
    /// The guest runs, and must not.
    #[error("{text}")]
    Running {
        /// Proxmox's words.
        text: String,
    },
    /// The guest does not run, and must.
    #[error("{text}")]
    NotRunning {
        /// Proxmox's words.
        text: String,
    },
    /// The guest agent does not answer (yet).
    #[error("{text}")]
    AgentUnavailable {
        /// Proxmox's words.
        text: String,
    },
    /// The guest has its protection flag set.
    #[error("{text}")]
    Protected {
        /// Proxmox's words.
        text: String,
    },
    /// A file is not what its checksum says.
    #[error("{text}")]
    ChecksumMismatch {
        /// Proxmox's words.
        text: String,
    },
    /// The daemon could not start a worker. Nothing was done, except that a create leaves its VMID reserved.
    #[error("{text}")]
    NoWorkerUpid {
        /// Proxmox's words.
        text: String,
    },
    /// The task's worker died without a result: what it did is unknown.
    #[error("the task's worker died without saying how far it came ({text})")]
    WorkerDied {
        /// Proxmox's words.
        text: String,
    },
    /// A change was sent but its answer did not arrive: it may have happened. Look before repeating it.
    #[error("the request was sent but no usable answer came back, so it may have happened")]
    MayHaveHappened {
        /// What broke.
        #[source]
        cause: Cause,
    },
    /// Proxmox (or the node it should pass the call to) cannot be reached; nothing was done.
    #[error("no usable answer from {endpoint}")]
    Unreachable {
        /// Who was asked.
        endpoint: String,
        /// What broke.
        #[source]
        cause: Cause,
    },
    /// The server's certificate is not the trusted one; nothing was sent.
    #[error("the TLS certificate of {endpoint} is not trusted")]
    Untrusted {
        /// Who was asked.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        cause: Cause,
    },
    /// This Proxmox release has no such call.
    #[error("{text}")]
    NotImplemented {
        /// Proxmox's words.
        text: String,
    },
    /// An answer that makes no sense.
    #[error("the answer makes no sense: {text}")]
    Protocol {
        /// What about it.
        text: String,
    },
    /// Anything else that Proxmox says.
    #[error("{text}")]
    Other {
        /// HTTP status; none if a task said it.
        status: Option<u16>,
        /// Proxmox's words.
        text: String,
    },
}

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A VM's configuration.
    Vm,
    /// A storage, by name.
    Storage(String),
    /// A volume or file, as Proxmox names it.
    Volume(String),
    /// A VM's disk, by slot.
    Disk(String),
    /// A task.
    Task,
    /// A node, by name.
    Node(String),
    /// A pool, by name.
    Pool(String),
}

impl Error {
    /// An error of an operation, written so that it reads on after "could not".
    pub fn new(operation: impl Into<String>, kind: Kind) -> Self {
        Self { operation: operation.into(), kind: Box::new(kind.shortened()) }
    }

    /// What was tried; reads on after "could not".
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// Why it failed.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Something is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(*self.kind, Kind::NotFound { .. })
    }

    /// The VM is not there.
    pub fn is_vm_missing(&self) -> bool {
        matches!(*self.kind, Kind::NotFound { what: Missing::Vm, .. })
    }

    /// The VMID or file is taken.
    pub fn is_already_exists(&self) -> bool {
        matches!(*self.kind, Kind::AlreadyExists { .. })
    }

    /// The change may have happened: look before repeating it.
    pub fn may_have_happened(&self) -> bool {
        matches!(*self.kind, Kind::MayHaveHappened { .. } | Kind::WorkerDied { .. })
    }

    /// Trying again later may well succeed without anything being changed: locks, quorum, reachability.
    pub fn is_passing(&self) -> bool {
        self.kind.is_passing()
    }

    /// A privilege is missing.
    pub fn is_permission(&self) -> bool {
        matches!(*self.kind, Kind::Permission { .. })
    }
}

/// The most that is quoted of what Proxmox says, in characters; and of how many parameters.
const LONGEST_QUOTE: usize = 500;
const MOST_PARAMETERS: usize = 20;

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_QUOTE) {
        text.truncate(end);
        text.push('…');
    }
}

impl Kind {
    /// With its quotes cut where they become too long to read.
    fn shortened(mut self) -> Self {
        match &mut self {
            Self::NotFound { text, .. }
            | Self::AlreadyExists { text }
            | Self::Locked { text, .. }
            | Self::LockTimeout { text }
            | Self::StorageTimeout { text, .. }
            | Self::Stale { text }
            | Self::Permission { text, .. }
            | Self::Auth { text }
            | Self::NoQuorum { text }
            | Self::Running { text }
            | Self::NotRunning { text }
            | Self::AgentUnavailable { text }
            | Self::Protected { text }
            | Self::ChecksumMismatch { text }
            | Self::NoWorkerUpid { text }
            | Self::WorkerDied { text }
            | Self::NotImplemented { text }
            | Self::Protocol { text }
            | Self::Other { text, .. } => shorten(text),
            Self::Parameter { errors, text } => {
                shorten(text);
                while errors.len() > MOST_PARAMETERS {
                    errors.pop_last();
                }
                errors.values_mut().for_each(shorten);
            }
            Self::MayHaveHappened { .. } | Self::Unreachable { .. } | Self::Untrusted { .. } => {}
        }
        self
    }

    /// Trying again later may well succeed without anything being changed.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::LockTimeout { .. }
                | Self::StorageTimeout { .. }
                | Self::Locked { .. }
                | Self::NoQuorum { .. }
                | Self::NoWorkerUpid { .. }
                | Self::AgentUnavailable { .. }
                | Self::Unreachable { .. }
        )
    }
}

fn parameters(errors: &BTreeMap<String, String>, text: &str) -> String {
    if errors.is_empty() {
        return text.to_owned();
    }
    let each: Vec<_> = errors.iter().map(|(name, why)| format!("{name}: {}", why.trim())).collect();
    format!("{} {}", text.trim_end(), each.join("; "))
}

/// A cause that is only a text.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Text {}

pub(crate) fn text_cause(text: impl Into<String>) -> Cause {
    let mut text = text.into();
    shorten(&mut text);
    Arc::new(Text(text))
}
