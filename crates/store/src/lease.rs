//! One worker per cluster at a time: who it is, and what proves it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::Error;
use crate::backend::Working;

/// Who holds the lease, for the message to whoever comes second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// The user.
    pub who: String,
    /// The machine.
    pub machine: String,
    /// The process.
    pub pid: u32,
    /// What it does, such as `apply`.
    pub doing: String,
    /// Since when.
    pub since: Timestamp,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, machine, pid, doing, since } = self;
        let since = since.strftime("%Y-%m-%d %H:%M:%S UTC");
        write!(f, "{who} on {machine} (process {pid}, {doing}, since {since})")
    }
}

/// What a write carries to prove that it is made under a lease.
///
/// The epoch rises with every lease. The owner tells two leases apart even where the count of epochs was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// Who holds the lease.
    #[serde(flatten)]
    pub owner: Owner,
    /// Which lease it is.
    pub epoch: u64,
}

/// A lease that is held. Dropping it gives it back where that takes no waiting; else it ends by itself.
pub trait Lease: fmt::Debug + Send + Sync {
    /// What proves it.
    fn fence(&self) -> &Fence;

    /// How often it must be renewed, or else it ends; none if it lasts as long as this process.
    fn renew_every(&self) -> Option<Duration>;

    /// Makes sure of it. [`Error::LeaseLost`] if somebody else has it now.
    fn renew(&self) -> Working<'_, ()>;

    /// Gives it back. Fine if it is lost.
    fn release(&self) -> Working<'_, ()>;

    /// Gives it back where nobody waits for that, as well as that can be done.
    fn let_go(&self) {}
}

/// Where a store finds the lease that it holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current(Arc<Mutex<Option<Arc<dyn Lease>>>>);

impl Current {
    pub(crate) fn get(&self) -> Option<Arc<dyn Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, lease: Option<Arc<dyn Lease>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }
}

/// A cluster's lock: held until it is dropped or released, or until the process ends in whatever way.
#[derive(Debug)]
pub struct Lock {
    lease: Arc<dyn Lease>,
    current: Current,
    renewing: Option<JoinHandle<()>>,
    released: bool,
}

impl Lock {
    /// From now on, the store's writes carry this lease.
    pub(crate) fn new(lease: Box<dyn Lease>, current: Current) -> Self {
        let lease: Arc<dyn Lease> = Arc::from(lease);
        current.set(Some(lease.clone()));
        let renewing =
            lease.renew_every().map(|every| tokio::spawn(keep_alive(Arc::downgrade(&lease), every)));
        Self { lease, current, renewing, released: false }
    }

    /// Which lease it is: the number rises with every one.
    pub fn epoch(&self) -> u64 {
        self.lease.fence().epoch
    }

    /// Gives it back, and waits until it is.
    pub async fn release(mut self) -> Result<(), Error> {
        self.released = true;
        self.lease.release().await
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.current.set(None);
        if let Some(renewing) = &self.renewing {
            renewing.abort();
        }
        if !self.released {
            self.lease.let_go();
        }
    }
}

/// Renews a lease until it is lost or given back. What is written after that is refused where it is written.
async fn keep_alive(lease: Weak<dyn Lease>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(lease) = lease.upgrade() else { return };
        // Another fault may pass before the lease ends.
        if let Err(Error::LeaseLost { .. }) = lease.renew().await {
            return;
        }
    }
}
