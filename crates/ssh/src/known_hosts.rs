//! Host keys, judged by known_hosts files as OpenSSH writes them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use russh::keys::{Algorithm, HashAlg, PublicKey};
use sha1::Sha1;

use crate::pattern::any_fits;

/// The port that known_hosts does not write.
const USUAL_PORT: u16 = 22;

/// The host keys that are known.
#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    marker: Marker,
    names: Names,
    key: PublicKey,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    None,
    Authority,
    Revoked,
}

#[derive(Clone, Debug)]
enum Names {
    Patterns(Vec<String>),
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A host key as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey {
    /// Its type, such as `ssh-ed25519`.
    pub kind: String,
    /// Its fingerprint, `SHA256:…`.
    pub fingerprint: String,
}

impl HostKey {
    pub(crate) fn of(key: &PublicKey) -> Self {
        Self {
            kind: key.algorithm().as_str().to_owned(),
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
        }
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.fingerprint)
    }
}

/// What the files say of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the host's.
    Known,
    /// Nothing is known of this host.
    Unknown,
    /// The host has another one.
    Changed {
        /// Where.
        place: Place,
        /// Which.
        known: HostKey,
    },
    /// It must not be used.
    Revoked {
        /// Where that stands.
        place: Place,
    },
    /// Only certificates of an authority are trusted for this host.
    Authority {
        /// Where that stands.
        place: Place,
    },
}

impl KnownHosts {
    /// Adds what a file says. Lines that are not understood are left out, as OpenSSH does.
    pub fn read(&mut self, file: &str, text: &str) {
        let lines = text.lines().enumerate();
        self.entries.extend(lines.filter_map(|(at, line)| entry(line, file, at + 1)));
    }

    /// Judges the key of a host.
    pub fn judge(&self, host: &str, port: u16, key: &PublicKey) -> Verdict {
        let named = |name: &str| -> Vec<&Entry> {
            self.entries.iter().filter(|entry| entry.names.fit(name)).collect()
        };
        let same = |entry: &&Entry| entry.key.key_data() == key.key_data();
        let own = named(&name(host, port));
        // A key that is known for the host is good on any port, but keys of other ports are no contradiction.
        let plain = if port == USUAL_PORT { Vec::new() } else { named(&name(host, USUAL_PORT)) };
        let all = || own.iter().chain(&plain).copied();
        if let Some(entry) = all().filter(same).find(|entry| entry.marker == Marker::Revoked) {
            return Verdict::Revoked { place: entry.place.clone() };
        }
        if all().filter(same).any(|entry| entry.marker == Marker::None) {
            return Verdict::Known;
        }
        let place_of = |marker| own.iter().find(|entry| entry.marker == marker);
        match (place_of(Marker::None), place_of(Marker::Authority)) {
            (Some(entry), _) => {
                Verdict::Changed { place: entry.place.clone(), known: HostKey::of(&entry.key) }
            }
            (None, Some(entry)) => Verdict::Authority { place: entry.place.clone() },
            (None, None) => Verdict::Unknown,
        }
    }

    /// Puts the key types that are known for a host first: else a server that has several may show one that is not known.
    pub(crate) fn preferred(&self, host: &str, port: u16, mut types: Vec<Algorithm>) -> Vec<Algorithm> {
        let names = [name(host, port), name(host, USUAL_PORT)];
        let known: Vec<Algorithm> = self
            .entries
            .iter()
            .filter(|entry| entry.marker == Marker::None && names.iter().any(|name| entry.names.fit(name)))
            .map(|entry| entry.key.algorithm())
            .collect();
        let is_known = |wanted: &Algorithm| match wanted {
            Algorithm::Rsa { .. } => known.iter().any(|known| matches!(known, Algorithm::Rsa { .. })),
            other => known.contains(other),
        };
        types.sort_by_key(|wanted| !is_known(wanted));
        types
    }

    /// Makes a key known, for as long as this lives.
    pub(crate) fn learn(&mut self, host: &str, port: u16, key: &PublicKey) {
        let place = Place { file: "the answer".to_owned(), line: 1 };
        let names = Names::Patterns(vec![name(host, port)]);
        self.entries.push(Entry { marker: Marker::None, names, key: key.clone(), place });
    }
}

/// The line that makes a key known.
pub(crate) fn line(host: &str, port: u16, key: &PublicKey) -> String {
    let text = PublicKey::from(key.key_data().clone()).to_openssh().unwrap_or_default();
    format!("{} {}", name(host, port), text.trim())
}

/// A host as known_hosts names it.
fn name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == USUAL_PORT { host } else { format!("[{host}]:{port}") }
}

impl Names {
    fn fit(&self, name: &str) -> bool {
        match self {
            Self::Patterns(patterns) => any_fits(patterns.iter().map(String::as_str), name),
            Self::Hashed { salt, hash } => Hmac::<Sha1>::new_from_slice(salt)
                .is_ok_and(|mac| mac.chain_update(name.as_bytes()).verify_slice(hash).is_ok()),
        }
    }
}

fn entry(line: &str, file: &str, at: usize) -> Option<Entry> {
    let line = line.trim_start();
    if line.starts_with('#') {
        return None;
    }
    let mut fields = line.split([' ', '\t']).filter(|field| !field.is_empty()).peekable();
    let marker = match fields.peek()?.strip_prefix('@') {
        None => Marker::None,
        Some("cert-authority") => Marker::Authority,
        Some("revoked") => Marker::Revoked,
        Some(_) => return None,
    };
    if marker != Marker::None {
        fields.next();
    }
    let names = fields.next()?;
    let (_kind, blob) = (fields.next()?, fields.next()?);
    let key = russh::keys::parse_public_key_base64(blob).ok()?;
    let names = match names.strip_prefix("|1|") {
        Some(hashed) => {
            let (salt, hash) = hashed.split_once('|')?;
            Names::Hashed { salt: STANDARD.decode(salt).ok()?, hash: STANDARD.decode(hash).ok()? }
        }
        None => Names::Patterns(names.split(',').map(str::to_ascii_lowercase).collect()),
    };
    Some(Entry { marker, names, key, place: Place { file: file.to_owned(), line: at } })
}

#[cfg(test)]
mod tests {
    use russh::keys::PrivateKey;
    use russh::keys::key::safe_rng;

    use super::*;

    fn key(algorithm: Algorithm) -> (PublicKey, String) {
        let key = PrivateKey::random(&mut safe_rng(), algorithm).unwrap().public_key().clone();
        let text = key.to_openssh().unwrap();
        (key, text.trim().to_owned())
    }

    fn ed25519() -> (PublicKey, String) {
        key(Algorithm::Ed25519)
    }

    fn hosts(text: &str) -> KnownHosts {
        let mut hosts = KnownHosts::default();
        hosts.read("known_hosts", text);
        hosts
    }

    #[test]
    fn plain_names_wildcards_negations_and_ports_are_read() {
        let (key, text) = ed25519();
        let hosts = hosts(&format!(
            "# a comment\n\n  atlas.lan,10.0.0.2\t{text} me@here\n*.home,!nas.home {text}\n[Bastion.example.org]:2222  {text}\n"
        ));
        for (host, port) in [
            ("atlas.lan", 22),
            ("ATLAS.lan", 22),
            ("10.0.0.2", 22),
            ("tv.home", 22),
            ("bastion.example.org", 2222),
        ] {
            assert_eq!(hosts.judge(host, port, &key), Verdict::Known, "{host}:{port}");
        }
        // What is known for the host is good on any of its ports, not the other way round.
        assert_eq!(hosts.judge("atlas.lan", 2222, &key), Verdict::Known);
        for (host, port) in [("nas.home", 22), ("bastion.example.org", 22), ("home", 22), ("10.0.0.20", 22)] {
            assert_eq!(hosts.judge(host, port, &key), Verdict::Unknown, "{host}:{port}");
        }
    }

    #[test]
    fn another_key_of_a_known_host_is_named_by_its_place() {
        let ((_, old), (new, _)) = (ed25519(), ed25519());
        let hosts = hosts(&format!("# one\natlas.lan {old}\n"));
        let Verdict::Changed { place, known } = hosts.judge("atlas.lan", 22, &new) else { panic!() };
        assert_eq!(place.to_string(), "known_hosts:2");
        assert!(known.to_string().starts_with("ssh-ed25519 SHA256:"), "{known}");
        assert_ne!(known, HostKey::of(&new));
        // Another port may be another machine.
        assert_eq!(hosts.judge("atlas.lan", 2222, &new), Verdict::Unknown);
    }

    #[test]
    fn a_revoked_key_is_refused_even_where_it_is_known() {
        let (key, text) = ed25519();
        let hosts = hosts(&format!("atlas.lan {text}\n@revoked * {text}\n"));
        let place = Place { file: "known_hosts".into(), line: 2 };
        assert_eq!(hosts.judge("atlas.lan", 22, &key), Verdict::Revoked { place });
    }

    #[test]
    fn an_authority_is_not_taken_for_a_key() {
        let (key, text) = ed25519();
        let hosts = hosts(&format!("@cert-authority *.lan {text}\n"));
        let place = Place { file: "known_hosts".into(), line: 1 };
        assert_eq!(hosts.judge("atlas.lan", 22, &key), Verdict::Authority { place });
        assert_eq!(hosts.judge("atlas.home", 22, &key), Verdict::Unknown);
    }

    /// The line is one that `ssh-keygen -H` of OpenSSH 9.2 wrote for `atlas.lan`.
    #[test]
    fn hashed_names_are_found() {
        let text = "|1|joEjLme+tbNZQ+i7dcJUlt8AZV0=|rk/YmGLlxesPJojDMomrk2JX0ZI= ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPS5oYbZJgJLXJ41To8Ni7TCYuBImXe0nhvjhvHw2ahJ";
        let hosts = hosts(text);
        let key = hosts.entries[0].key.clone();
        assert_eq!(hosts.judge("atlas.lan", 22, &key), Verdict::Known);
        assert_eq!(hosts.judge("nas.lan", 22, &key), Verdict::Unknown);
    }

    #[test]
    fn known_types_come_first() {
        let (rsa_or_ecdsa, text) = key(Algorithm::Ecdsa { curve: russh::keys::EcdsaCurve::NistP256 });
        let hosts = hosts(&format!("[atlas.lan]:2222 {text}\n"));
        let types = russh::Preferred::DEFAULT.key.to_vec();
        assert_eq!(hosts.preferred("atlas.lan", 2222, types.clone())[0], rsa_or_ecdsa.algorithm());
        assert_eq!(hosts.preferred("nas.lan", 22, types.clone()), types);
        assert_eq!(hosts.preferred("atlas.lan", 2222, types.clone()).len(), types.len());
    }

    #[test]
    fn what_is_learnt_can_be_written_and_read_again() {
        let (key, _) = ed25519();
        let mut learnt = KnownHosts::default();
        learnt.learn("Atlas.lan", 2222, &key);
        assert_eq!(learnt.judge("atlas.lan", 2222, &key), Verdict::Known);
        let line = line("Atlas.lan", 2222, &key);
        assert!(line.starts_with("[atlas.lan]:2222 ssh-ed25519 AAAA"), "{line}");
        assert_eq!(hosts(&line).judge("atlas.lan", 2222, &key), Verdict::Known);
    }
}
