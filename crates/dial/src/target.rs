//! Where a stream should end.

use std::fmt;

/// Where a stream should end: a DNS name or an IP address in text form, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// DNS name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Target {
    /// A target from its two parts.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The target of a URI; the port defaults by scheme (`https` 443, `http` 80).
    pub fn of_uri(uri: &http::Uri) -> Option<Self> {
        let host = uri.host()?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().or(match uri.scheme_str() {
            Some("https") => Some(443),
            Some("http") => Some(80),
            _ => None,
        })?;
        Some(Self::new(host, port))
    }
}

impl From<&url::Url> for Target {
    /// The target of a URL; the port defaults by scheme, and to 443 where that has none.
    fn from(url: &url::Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self::new(host, url.port_or_known_default().unwrap_or(443))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_become_targets() {
        let of = |text: &str| Target::of_uri(&text.parse().unwrap()).map(|t| t.to_string());
        assert_eq!(of("https://atlas.lan:8006/api2").as_deref(), Some("atlas.lan:8006"));
        assert_eq!(of("https://factory.talos.dev/x").as_deref(), Some("factory.talos.dev:443"));
        assert_eq!(of("http://[fd00::1]/x").as_deref(), Some("[fd00::1]:80"));
        assert_eq!(of("/just/a/path"), None);
    }
}
