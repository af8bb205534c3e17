//! The reply codes of SOCKS5 (RFC 1928), as errors and back.

use std::io::ErrorKind;

/// Every code for a failure that has a kind of its own.
const CODES: [(u8, ErrorKind, &str); 6] = [
    (2, ErrorKind::PermissionDenied, "not allowed"),
    (3, ErrorKind::NetworkUnreachable, "network unreachable"),
    (4, ErrorKind::HostUnreachable, "host unreachable"),
    (5, ErrorKind::ConnectionRefused, "connection refused"),
    (6, ErrorKind::TimedOut, "TTL expired"),
    (7, ErrorKind::Unsupported, "not supported by the proxy"),
];

/// What a reply code means.
pub(crate) fn meaning(code: u8) -> (ErrorKind, &'static str) {
    // 8 is an address type that the proxy does not know.
    let code = if code == 8 { 7 } else { code };
    let known = CODES.iter().find(|(known, ..)| *known == code);
    known.map_or((ErrorKind::Other, "general failure"), |(_, kind, text)| (*kind, *text))
}

/// The reply code for a failure; 1 is a general one.
pub(crate) fn code(kind: ErrorKind) -> u8 {
    CODES.iter().find(|(_, known, _)| *known == kind).map_or(1, |(code, ..)| *code)
}
