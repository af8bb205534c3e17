//! The lab's network: names and addresses that streams can be opened to, all inside the process.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_dial::{BoxStream, Dial, Dialing, Direct, Target};
use ipnet::IpNet;
use tokio::sync::watch;

use crate::dhcp::Dhcp;

/// Takes the server end of each new connection.
pub type Acceptor = Arc<dyn Fn(BoxStream) + Send + Sync>;

/// Which service answers on which address. Cheap to clone; all clones are one network.
#[derive(Clone, Default)]
pub struct Fabric {
    services: Arc<Mutex<HashMap<Target, Acceptor>>>,
    changes: Arc<watch::Sender<u64>>,
    names: Arc<Mutex<HashMap<String, String>>>,
    outside: Arc<Mutex<BTreeSet<String>>>,
    dhcp: Arc<Mutex<Option<Dhcp>>>,
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

    /// Lets a DHCP server answer, instead of the one there was.
    pub fn serve_dhcp(&self, dhcp: Dhcp) {
        *self.dhcp.lock().unwrap_or_else(PoisonError::into_inner) = Some(dhcp);
    }

    /// The DHCP server as it is now.
    pub(crate) fn dhcp(&self) -> Option<Dhcp> {
        self.dhcp.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the DHCP server gives to a network card: its address and the gateway.
    pub(crate) fn lease(&self, mac: &str) -> Option<(IpNet, Option<IpAddr>)> {
        let mut dhcp = self.dhcp.lock().unwrap_or_else(PoisonError::into_inner);
        let dhcp = dhcp.as_mut()?;
        Some((dhcp.lease(mac)?, dhcp.gateway))
    }

    /// The host name that the DHCP server gives together with the address.
    pub(crate) fn leased_name(&self, mac: &str) -> Option<String> {
        let dhcp = self.dhcp.lock().unwrap_or_else(PoisonError::into_inner);
        dhcp.as_ref()?.name(mac).map(str::to_owned)
    }

    /// Makes a DNS name lead to an address.
    pub fn name(&self, name: &str, address: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(name.to_owned(), address.to_owned());
    }

    /// Passes connections to these addresses on to the real network, unless something in the lab answers there.
    pub(crate) fn pass_on(&self, addresses: &[IpAddr]) {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.extend(addresses.iter().map(ToString::to_string));
    }

    /// Passes nothing on to these addresses any more.
    pub(crate) fn keep(&self, addresses: &[IpAddr]) {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        outside.retain(|known| !addresses.iter().any(|address| address.to_string() == *known));
    }

    fn is_outside(&self, target: &Target) -> bool {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner).contains(&target.host)
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
                if self.is_outside(target) {
                    return Direct.dial(target).await;
                }
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
