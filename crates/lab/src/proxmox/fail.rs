//! How a call ends: data, or a status with Proxmox's words.

use indexmap::IndexMap;
use serde_json::Value;

/// A call's success.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) data: Value,
    /// For lists that can be paged.
    pub(crate) total: Option<usize>,
}

impl Data {
    pub(crate) fn null() -> Answer {
        Ok(Self::default())
    }
}

impl From<Value> for Data {
    fn from(data: Value) -> Self {
        Self { data, total: None }
    }
}

/// What a handler returns.
pub(crate) type Answer = Result<Data, Fail>;

/// A call's failure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fail {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// Parameter to text, for 400.
    pub(crate) errors: IndexMap<String, String>,
}

impl Fail {
    pub(crate) fn new(status: u16, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), errors: IndexMap::new() }
    }

    /// What a `die` in the API code becomes.
    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        Self::new(500, reason)
    }

    pub(crate) fn parameters(errors: IndexMap<String, String>) -> Self {
        Self { status: 400, reason: "Parameter verification failed.".into(), errors }
    }

    pub(crate) fn parameter(name: &str, text: impl Into<String>) -> Self {
        Self::parameters(IndexMap::from([(name.to_owned(), text.into())]))
    }

    pub(crate) fn forbidden(path: &str, privileges: &str) -> Self {
        Self::new(403, format!("Permission check failed ({path}, {privileges})"))
    }

    pub(crate) fn forbidden_bare() -> Self {
        Self::new(403, "Permission check failed")
    }

    pub(crate) fn no_vm(host: &str, vmid: u32) -> Self {
        Self::internal(format!("Configuration file 'nodes/{host}/qemu-server/{vmid}.conf' does not exist"))
    }

    pub(crate) fn no_storage(storage: &str) -> Self {
        Self::internal(format!("storage '{storage}' does not exist"))
    }

    /// The text of this failure when it happens inside a worker.
    pub(crate) fn in_task(&self) -> String {
        match self.status {
            500 => self.reason.clone(),
            400 => {
                let details: Vec<_> =
                    self.errors.iter().map(|(name, text)| format!("{name}: {text}")).collect();
                format!("400 Parameter verification failed. {}", details.join(" "))
            }
            status => format!("{status} {}", self.reason),
        }
    }
}
