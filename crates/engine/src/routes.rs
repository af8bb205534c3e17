//! From the declared reach to the dialers: the only place that decides how each kind of peer is reached.

use std::sync::Arc;

use daedal_dial::{Dialer, Direct, Proxy, ProxyError, Routes};
use daedal_inventory::Reach;

/// Why there is no way.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The proxy makes no sense.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// Nobody can log in to the SSH server here.
    #[error("the inventory reaches the nodes through SSH, which this command does not support")]
    NoSsh,
}

/// The way to each kind of peer. Connects nothing yet. `ssh` dials through the SSH server, if one is declared.
///
/// The SSH server stands before the nodes' network: the Image Factory is not behind it, and Proxmox only if the inventory
/// says so.
pub fn routes(reach: &Reach, ssh: Option<Dialer>) -> Result<Routes, RouteError> {
    Ok(match reach {
        Reach::Direct => Routes::same(Arc::new(Direct)),
        Reach::Proxy(url) => Routes::same(Arc::new(Proxy::parse(url)?)),
        Reach::Ssh(declared) => {
            let (ssh, direct): (Dialer, Dialer) = (ssh.ok_or(RouteError::NoSsh)?, Arc::new(Direct));
            Routes {
                proxmox: if declared.proxmox { ssh.clone() } else { direct.clone() },
                factory: direct,
                nodes: ssh.clone(),
                kubernetes: ssh,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use daedal_inventory::{Ssh, SshServer};

    use super::*;

    fn through(reach: &Reach, ssh: Option<Dialer>) -> [Option<String>; 4] {
        let Routes { proxmox, factory, nodes, kubernetes } = routes(reach, ssh).unwrap();
        [proxmox, factory, nodes, kubernetes].map(|dialer| dialer.through())
    }

    #[test]
    fn a_proxy_stands_before_every_peer() {
        assert_eq!(through(&Reach::Direct, None), [None, None, None, None]);
        let proxy = Reach::Proxy("socks5://127.0.0.1:1080".to_owned());
        assert_eq!(through(&proxy, None), ["proxy 127.0.0.1:1080"; 4].map(|who| Some(who.to_owned())));
        let nowhere = Reach::Proxy("nowhere".to_owned());
        assert_eq!(routes(&nowhere, None).err(), Some(RouteError::Proxy(ProxyError::NotAUrl)));
    }

    #[test]
    fn ssh_stands_before_the_nodes_and_before_proxmox_if_that_is_wanted() {
        let ssh = |proxmox| {
            let server = SshServer { host: "atlas.lan".into(), ..SshServer::default() };
            Reach::Ssh(Box::new(Ssh { server, jump: None, known_hosts: None, proxmox }))
        };
        let dialer = || -> Option<Dialer> { Some(Arc::new(Proxy::parse("http://atlas.lan:1").unwrap())) };
        let who = Some("proxy atlas.lan:1".to_owned());
        assert_eq!(through(&ssh(false), dialer()), [None, None, who.clone(), who.clone()]);
        assert_eq!(through(&ssh(true), dialer()), [who.clone(), None, who.clone(), who]);
        assert_eq!(routes(&ssh(true), None).err(), Some(RouteError::NoSsh));
    }
}
