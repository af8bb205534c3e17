//! Why a peer did not answer, told apart by what one can do about it.

use std::error::Error as StdError;
use std::io;

use daedal_planner::{Hindrance, Unreached};

use crate::error::chain;

/// A peer of which nothing came before its time was up.
pub(crate) fn silent() -> Unreached {
    Unreached { because: Hindrance::Silent, why: "no answer in time".to_owned() }
}

/// What a failed call says of the way to its peer.
pub(crate) fn unreached(error: &(dyn StdError + 'static)) -> Unreached {
    Unreached { because: hindrance(error), why: chain(error) }
}

fn hindrance(error: &(dyn StdError + 'static)) -> Hindrance {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(crate::Error::Deadline { .. }) = error.downcast_ref() {
            return Hindrance::Silent;
        }
        // A shared error passes over itself when it is asked for its source.
        if let Some(shared) = error.downcast_ref::<daedal_proxmox::Cause>() {
            next = Some(&**shared);
            continue;
        }
        if let Some(kind) = error.downcast_ref::<io::Error>().map(io::Error::kind) {
            match kind {
                io::ErrorKind::ConnectionRefused => return Hindrance::Refused,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    return Hindrance::NoRoute;
                }
                io::ErrorKind::TimedOut => return Hindrance::Silent,
                _ => {}
            }
        }
        next = error.source();
    }
    Hindrance::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_told_apart_from_the_peer() {
        for (kind, because) in [
            (io::ErrorKind::ConnectionRefused, Hindrance::Refused),
            (io::ErrorKind::HostUnreachable, Hindrance::NoRoute),
            (io::ErrorKind::NetworkUnreachable, Hindrance::NoRoute),
            (io::ErrorKind::TimedOut, Hindrance::Silent),
            (io::ErrorKind::InvalidData, Hindrance::Other),
        ] {
            let error = daedal_proxmox::Kind::Unreachable {
                endpoint: "atlas:8006".into(),
                cause: std::sync::Arc::new(io::Error::from(kind)),
            };
            assert_eq!(unreached(&error).because, because, "{kind:?}");
        }
        assert_eq!(silent().because, Hindrance::Silent);
    }
}
