//! From the declared reach to the dialers: the only place that decides how each kind of peer is reached.

use std::sync::Arc;

use daedal_dial::{Direct, Proxy, ProxyError, Routes};
use daedal_inventory::Reach;

/// The way to each kind of peer. Connects nothing yet.
pub fn routes(reach: &Reach) -> Result<Routes, ProxyError> {
    Ok(match reach {
        Reach::Direct => Routes::same(Arc::new(Direct)),
        Reach::Proxy(url) => Routes::same(Arc::new(Proxy::parse(url)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_stands_before_every_peer() {
        let through = |reach: &Reach| {
            let Routes { proxmox, factory, nodes, kubernetes } = routes(reach).unwrap();
            [proxmox, factory, nodes, kubernetes].map(|dialer| dialer.through())
        };
        assert_eq!(through(&Reach::Direct), [None, None, None, None]);
        let proxy = Reach::Proxy("socks5://127.0.0.1:1080".to_owned());
        assert_eq!(through(&proxy), ["proxy 127.0.0.1:1080"; 4].map(|who| Some(who.to_owned())));
        assert_eq!(routes(&Reach::Proxy("nowhere".to_owned())).err(), Some(ProxyError::NotAUrl));
    }
}
