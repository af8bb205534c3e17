//! The lab's network: names and addresses that streams can be opened to, all inside the process.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_dial::{BoxStream, Dial, Dialing, Target};
use tokio::sync::watch;

/// Takes the server end of each new connection.
pub type Acceptor = Arc<dyn Fn(BoxStream) + Send + Sync>;

/// Which service answers on which address. Cheap to clone; all clones are one network.
#[derive(Clone, Default)]
pub struct Fabric {
    services: Arc<Mutex<HashMap<Target, Acceptor>>>,
    changes: Arc<watch::Sender<u64>>,
    names: Arc<Mutex<HashMap<String, String>>>,
}

impl Fabric {
    /// Makes `acceptor` answer on `target`, replacing who did.
    pub fn listen(&self, target: Target, acceptor: Acceptor) {
        self.services.lock().unwrap_or_else(PoisonError::into_inner).insert(target, acceptor);
        self.changes.send_modify(|version| *version += 1);
    }

    /// Makes `target` refuse connections again.
    pub fn close(&self, target: &Target) {
        self.services.lock().unwrap_or_else(PoisonError::into_inner).remove(target);
        self.changes.send_modify(|version| *version += 1);
    }

    /// Makes a DNS name lead to an address.
    pub fn name(&self, name: &str, address: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(name.to_owned(), address.to_owned());
    }

    /// What a name leads to; what is no known name stays.
    fn resolve(&self, target: &Target) -> Target {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match names.get(&target.host) {
            Some(address) => Target::new(address, target.port),
            None => target.clone(),
        }
    }

    /// Tells whenever a service came or went.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// All addresses on which something answers, sorted.
    pub fn targets(&self) -> Vec<Target> {
        let mut all: Vec<_> =
            self.services.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        all.sort();
        all
    }
}

impl Dial for Fabric {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            let target = &self.resolve(target);
            let acceptor = self.services.lock().unwrap_or_else(PoisonError::into_inner).get(target).cloned();
            let Some(acceptor) = acceptor else {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    format!("nothing in the lab answers on {target}"),
                ));
            };
            let (near, far) = tokio::io::duplex(256 * 1024);
            acceptor(Box::new(far));
            Ok(Box::new(near) as BoxStream)
        })
    }
}
