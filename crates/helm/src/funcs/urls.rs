//! Sprig's URLs, taken apart and put together as Go's `net/url` does.

use std::collections::BTreeMap;

use super::{Entry, Type, fixed, text};
use crate::template::exec::{Exec, FuncError, FuncResult};
use crate::value::{Str, Value};

pub(super) fn functions() -> Vec<Entry> {
    vec![fixed("urlParse", &[Type::Str], parse), fixed("urlJoin", &[Type::Map], join)]
}

/// `url.QueryEscape`.
pub(super) fn query_escape(input: &[u8]) -> String {
    // No plus sign is kept, so every one of them is a space.
    escape(input, b" ").replace(' ', "+")
}

/// Writes bytes as they are when they are letters, digits, `-_.~` or among those to keep, and as `%XX` otherwise.
fn escape(input: &[u8], keep: &[u8]) -> String {
    let mut out = String::with_capacity(input.len());
    for byte in input {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) || keep.contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn unescape(input: &str, whole: &str) -> Result<Vec<u8>, FuncError> {
    let mut out = Vec::new();
    let mut rest = input.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            out.push(*first);
            rest = tail;
            continue;
        }
        let code = tail
            .get(..2)
            .and_then(|d| std::str::from_utf8(d).ok())
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|d| u8::from_str_radix(d, 16).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                let shown = crate::strconv::lossy(&rest[..rest.len().min(3)]).into_owned();
                return Err(format!(
                    "unable to parse url: parse {}: invalid URL escape {}",
                    crate::strconv::quote(whole.as_bytes()),
                    crate::strconv::quote(shown.as_bytes())
                )
                .into());
            }
        }
    }
    Ok(out)
}

/// What each part of an address keeps.
const IN_PATH: &[u8] = b"$&+,/:;=@";
const IN_HOST: &[u8] = b"!$&'()*+,;=:[]<>\"";
const IN_FRAGMENT: &[u8] = b"$&+,/:;=?@!()*";
const IN_USER: &[u8] = b"$&+,;=";

fn user_info(raw: &str, whole: &str) -> Result<String, FuncError> {
    Ok(match raw.split_once(':') {
        Some((user, password)) => {
            format!(
                "{}:{}",
                escape(&unescape(user, whole)?, IN_USER),
                escape(&unescape(password, whole)?, IN_USER)
            )
        }
        None => escape(&unescape(raw, whole)?, IN_USER),
    })
}

fn parse(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let whole = text(args, 0);
    let fail = |why: &str| -> FuncError {
        format!("unable to parse url: parse {}: {why}", crate::strconv::quote(whole.as_bytes())).into()
    };
    if whole.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err(fail("net/url: invalid control character in URL"));
    }
    let (rest, fragment) = whole.split_once('#').unwrap_or((&whole, ""));
    let (scheme, rest) = match rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))
    {
        Some(0) if rest.starts_with(':') => return Err(fail("missing protocol scheme")),
        Some(at) if rest[at..].starts_with(':') && rest.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (rest[..at].to_ascii_lowercase(), &rest[at + 1..])
        }
        _ => (String::new(), rest),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut host, mut user, mut path, mut opaque) =
        (String::new(), String::new(), Vec::new(), String::new());
    if !rest.starts_with('/') && !scheme.is_empty() {
        opaque = rest.to_owned();
    } else {
        if scheme.is_empty()
            && !rest.starts_with('/')
            && rest.split('/').next().is_some_and(|s| s.contains(':'))
        {
            return Err(fail("first path segment in URL cannot contain colon"));
        }
        let mut remaining = rest;
        if (!scheme.is_empty() || !rest.starts_with("///")) && rest.starts_with("//") {
            let authority_and_path = &rest[2..];
            let end = authority_and_path.find('/').unwrap_or(authority_and_path.len());
            let (authority, tail) = authority_and_path.split_at(end);
            let (raw_user, raw_host) = match authority.rfind('@') {
                Some(at) => (&authority[..at], &authority[at + 1..]),
                None => ("", authority),
            };
            user = user_info(raw_user, &whole)?;
            if raw_host.starts_with('[') && !raw_host.contains(']') {
                return Err(fail("missing ']' in host"));
            }
            let after_bracket = raw_host.rfind(']').map_or(0, |at| at + 1);
            if let Some(colon) = raw_host[after_bracket..].rfind(':') {
                let port = &raw_host[after_bracket + colon + 1..];
                if !port.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(fail(&format!(
                        "invalid port {} after host",
                        crate::strconv::quote(format!(":{port}").as_bytes())
                    )));
                }
            }
            if raw_host.contains(' ') {
                return Err(fail("invalid character \" \" in host name"));
            }
            host = crate::strconv::lossy(&unescape(raw_host, &whole)?).into_owned();
            remaining = tail;
        }
        path = unescape(remaining, &whole)?;
    }
    let hostname = match host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        Some((inner, _)) => inner.to_owned(),
        None => host.split(':').next().unwrap_or_default().to_owned(),
    };
    let entries: BTreeMap<Str, Value> = BTreeMap::from([
        ("scheme".into(), Value::string(scheme)),
        ("host".into(), Value::string(host)),
        ("hostname".into(), Value::string(hostname)),
        ("path".into(), Value::string(path)),
        ("query".into(), Value::string(query)),
        ("opaque".into(), Value::string(opaque)),
        ("fragment".into(), Value::string(unescape(fragment, &whole)?)),
        ("userinfo".into(), Value::string(user)),
    ]);
    Ok(Value::map(entries))
}

fn join(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let Value::Map(map) = &args[0] else { return Err("expected a dictionary".into()) };
    let part = |key: &str| -> Result<Vec<u8>, FuncError> {
        match map.get(key.as_bytes()) {
            None => Ok(Vec::new()),
            Some(Value::Str(s)) => Ok(s.as_bytes().to_vec()),
            Some(other) => Err(format!(
                "unable to parse {key} key, must be of type string, but {} found",
                other.kind_name()
            )
            .into()),
        }
    };
    let lossy = |bytes: Vec<u8>| crate::strconv::lossy(&bytes).into_owned();
    let (scheme, host, path) = (lossy(part("scheme")?), part("host")?, part("path")?);
    let (query, opaque, fragment) = (lossy(part("query")?), lossy(part("opaque")?), part("fragment")?);
    let raw_user = lossy(part("userinfo")?);
    let user = user_info(&raw_user, &raw_user)?;
    let mut out = String::new();
    if !scheme.is_empty() {
        out.push_str(&scheme);
        out.push(':');
    }
    if !opaque.is_empty() {
        out.push_str(&opaque);
    } else {
        if !scheme.is_empty() || !host.is_empty() || !raw_user.is_empty() {
            if !host.is_empty() || !path.is_empty() || !raw_user.is_empty() {
                out.push_str("//");
            }
            if !raw_user.is_empty() {
                out.push_str(&user);
                out.push('@');
            }
            out.push_str(&escape(&host, IN_HOST));
        }
        let escaped = escape(&path, IN_PATH);
        if !escaped.is_empty() && !escaped.starts_with('/') && !host.is_empty() {
            out.push('/');
        }
        if out.is_empty() && escaped.split('/').next().is_some_and(|s| s.contains(':')) {
            out.push_str("./");
        }
        out.push_str(&escaped);
    }
    if !query.is_empty() {
        out.push('?');
        out.push_str(&query);
    }
    if !fragment.is_empty() {
        out.push('#');
        out.push_str(&escape(&fragment, IN_FRAGMENT));
    }
    Ok(Value::string(out))
}
