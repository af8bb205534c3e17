//! One call on its way through the API: who, what, with which parameters.

use std::future::Future;

use super::Datacenter;
use super::access::Who;
use super::fail::{Data, Fail};
use super::request::{Params, Upload};
use super::tasks::{Job, Stop};
use crate::faults::TaskFault;

/// An authenticated call.
pub(crate) struct Context {
    pub(crate) dc: Datacenter,
    /// The host whose API was called.
    pub(crate) local: String,
    pub(crate) method: String,
    /// Path below `/api2/json`, as sent.
    pub(crate) path: String,
    pub(crate) params: Params,
    pub(crate) who: Who,
    pub(crate) upload: Option<Upload>,
    pub(crate) fault: Option<TaskFault>,
}

impl Context {
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params.get(name).map(String::as_str)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.param(name) == Some("1")
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.param(name).and_then(|text| text.parse().ok())
    }

    /// Fails unless the caller has one of the privileges on the path.
    pub(crate) fn need(&self, path: &str, any_of: &[&str]) -> Result<(), Fail> {
        let may = self.dc.with(|state| state.privileges(&self.who, path));
        if any_of.iter().any(|name| may.has(name)) {
            return Ok(());
        }
        Err(Fail::forbidden(path, &any_of.join("|")))
    }

    pub(crate) fn may(&self, path: &str, privilege: &str) -> bool {
        self.dc.with(|state| state.privileges(&self.who, path)).has(privilege)
    }

    /// A privilege on a VM, or on the pool that it is going to be in.
    pub(crate) fn need_vm(&self, vmid: u32, pool: Option<&str>, any_of: &[&str]) -> Result<(), Fail> {
        if let Some(pool) = pool
            && any_of.iter().any(|name| self.may(&format!("/pool/{pool}"), name))
        {
            return Ok(());
        }
        self.need(&format!("/vms/{vmid}"), any_of)
    }

    /// Starts a worker for this call and answers with its UPID.
    pub(crate) fn fork<F, W>(&self, host: &str, kind: &str, id: &str, work: F) -> Result<Data, Fail>
    where
        F: FnOnce(Job) -> W,
        W: Future<Output = Result<(), Stop>> + Send + 'static,
    {
        let upid = self.dc.fork(host, kind, id, &self.who, self.fault.clone(), work)?;
        Ok(Data::from(serde_json::Value::String(upid)))
    }
}
