//! Addresses such as `tcp://host:port`, read as Talos reads them.

use std::net::Ipv6Addr;

/// The parts of an address that Talos looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    /// Lower case; empty if there is none.
    pub(crate) scheme: String,
    /// With brackets around IPv6 addresses, with the port.
    pub(crate) host: String,
    /// What is behind the host.
    pub(crate) path: String,
    /// Whether nothing but a scheme was recognised, as in `tcp:host`.
    pub(crate) is_opaque: bool,
}

impl Url {
    /// An address without what may be secret in it: no user, no query. For messages.
    pub(crate) fn harmless(text: &str) -> String {
        let text = text.split(['?', '#']).next().unwrap_or_default();
        match text.split_once("://") {
            Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or_default()),
            None => text.rsplit('@').next().unwrap_or_default().to_owned(),
        }
    }

    /// Reads an address; an error says what is wrong with it, as a sentence without its subject.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("has a character in it that cannot be seen".into());
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        escapes(fragment)?;
        let (scheme, rest) = split_scheme(rest)?;
        let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
        let scheme = scheme.to_ascii_lowercase();
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                return Ok(Self { scheme, is_opaque: true, ..Self::default() });
            }
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err("has no scheme such as tcp:// before it".into());
            }
        }
        let mut url = Self { scheme, ..Self::default() };
        let authority =
            rest.strip_prefix("//").filter(|_| !url.scheme.is_empty() || !rest.starts_with("///"));
        let path = match authority {
            Some(authority) => {
                let end = authority.find('/').unwrap_or(authority.len());
                url.host = host(&authority[..end])?.to_owned();
                &authority[end..]
            }
            None => rest,
        };
        escapes(path)?;
        path.clone_into(&mut url.path);
        Ok(url)
    }

    /// The host without its port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port; empty if there is none.
    pub(crate) fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        let split = self.host.rsplit_once(':');
        split.filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit())).unwrap_or((&self.host, ""))
    }

    /// Whether there are colons in the host of a web address that begin no port.
    pub(crate) fn has_stray_colon(&self) -> bool {
        let port = self.host.split_once(':').map(|(_, port)| port);
        matches!(self.scheme.as_str(), "http" | "https")
            && !self.host.starts_with('[')
            && port.is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// What Talos asks of an address that something is fetched from or found at.
    pub(crate) fn endpoint_fault(text: &str) -> Option<String> {
        let url = match Self::parse(text) {
            Ok(url) => url,
            Err(fault) => return Some(fault),
        };
        let port = url.port();
        if url.host.matches(':').count() > 2 && !(url.host.contains('[') && url.host.contains(']')) {
            Some("has an IPv6 address without brackets around it".into())
        } else if url.hostname().is_empty() {
            Some("names no host; write it as https://host:port".into())
        } else if !port.is_empty() && !port.parse::<u16>().is_ok_and(|port| port > 0) {
            Some(format!("has the port {port}, which is not one from 1 to 65535"))
        } else {
            None
        }
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("has no scheme such as tcp:// before it".into()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

/// Every `%` must have two digits behind it.
fn escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let digits = text.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err("has a `%` in it without two digits behind it".into());
        }
    }
    Ok(())
}

/// The host and port behind user and password.
fn host(authority: &str) -> Result<&str, String> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(plain) {
                return Err("has a user before its host that cannot be read".into());
            }
            escapes(user)?;
            host
        }
        None => authority,
    };
    // Without its text: user and password may be in it.
    let wrong_port = || Err("has a port that is no number".to_owned());
    let is_port = |port: &str| {
        port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.rsplit_once(']') else {
            return Err("has a `[` without its `]`".into());
        };
        if !is_port(port) {
            return wrong_port();
        }
        let (address, zone) = address.split_once("%25").unwrap_or((address, ""));
        escapes(zone)?;
        if address.parse::<Ipv6Addr>().is_err() {
            return Err(format!("has brackets around {address}, which is no IPv6 address"));
        }
        return Ok(host);
    }
    if host.rfind(':').is_some_and(|colon| !is_port(&host[colon..])) {
        return wrong_port();
    }
    for (at, letter) in host.char_indices().filter(|(_, letter)| letter.is_ascii()) {
        // Of escapes, a host may have those of letters beyond ASCII.
        let escaped = |digits: &str| {
            digits.bytes().all(|byte| byte.is_ascii_hexdigit())
                && (digits == "25" || digits.starts_with(|c: char| c >= '8'))
        };
        match letter {
            '%' if host.get(at + 1..at + 3).is_some_and(escaped) => {}
            _ if letter.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"".contains(letter) => {}
            _ => return Err(format!("has a host with `{letter}` in it")),
        }
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_without_user_and_query() {
        for url in ["https://me:s3cret@reg.lan:50o0/v2", "https://me:s3cret/x@reg.lan"] {
            let fault = Url::parse(url).err().unwrap_or_default();
            assert!(!fault.contains("s3cret"), "{fault}");
        }
        assert_eq!(Url::harmless("https://me:s3cret@reg.lan/a?token=s3cret#b"), "https://reg.lan/a");
        assert_eq!(Url::harmless("me:s3cret@reg.lan"), "reg.lan");
    }

    #[test]
    fn addresses_are_read_as_talos_reads_them() {
        let url = Url::parse("TCP://user:a@[fd00::1]:514/").unwrap();
        assert_eq!((url.scheme.as_str(), url.hostname(), url.port()), ("tcp", "fd00::1", "514"));
        assert_eq!(url.path, "/");
        assert!(Url::parse("tcp:a:1").unwrap().is_opaque);
        for good in ["tcp://:1", "tcp://a:99999", "tcp://fd00::1:5", "tcp://ä:1", "tcp://a<b:1", "", "a/b"] {
            assert!(Url::parse(good).is_ok(), "{good}");
        }
        for wrong in [
            "tcp://a:b",
            "10.0.0.1:514",
            "tcp://a b:1",
            "tcp://[fd00::1:5",
            "tcp://a%zz:1",
            "tcp://a:1/%zz",
            "://a:1",
            "1tcp://a:1",
            "tcp://a\tb:1",
            "tcp://[xyz]:1",
            "tcp://[1.2.3.4]:1",
            "tcp://a{b:1",
            "tcp://%41:1",
            "tcp://u r@a:1",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Url::endpoint_fault("https://a.lan:6443"), None);
        for wrong in ["https://fd00::1:6443", "https://", "https://a:0", "https://a:65536", "a"] {
            assert!(Url::endpoint_fault(wrong).is_some(), "{wrong}");
        }
    }
}
