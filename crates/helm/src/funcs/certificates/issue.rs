//! Certificates with the content and encoding of Go's `x509.CreateCertificate`.

use std::net::IpAddr;

use rand::RngCore as _;
use rand::rngs::StdRng;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::der::{
    self, BIT_STRING, GENERALIZED_TIME, OCTET_STRING, OID, PRINTABLE_STRING, SEQUENCE, SET, TRUE, UTC_TIME,
    UTF8_STRING, element, sequence,
};
use super::keys::Key;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// The names of a certificate besides its subject.
#[derive(Default)]
pub(super) struct Names {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) dns: Vec<String>,
}

/// What a certificate says.
pub(super) struct Request<'a> {
    pub(super) common_name: &'a str,
    pub(super) names: Names,
    /// Seconds since 1970.
    pub(super) valid: (i64, i64),
    pub(super) authority: bool,
}

/// Who signs: what of its certificate goes into those it signs, and its key.
pub(super) struct Signer {
    /// The subject as it is encoded, because another encoding of the same name is another name to many verifiers.
    name: Vec<u8>,
    key_id: Option<Vec<u8>>,
    key: Key,
}

impl Signer {
    /// An authority from its certificate and key.
    pub(super) fn parse(certificate: &str, key: &str) -> Result<Signer, String> {
        let block = der::first_block(certificate).ok_or("unable to decode certificate")?;
        let (_, parsed) = X509Certificate::from_der(&block.data)
            .map_err(|e| format!("error parsing certificate: decodedSignerCert.Bytes: {e}"))?;
        let key = Key::parse(key).map_err(|e| format!("error parsing private key: {e}"))?;
        if parsed.public_key().raw != key.public_info() {
            return Err(
                "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey"
                    .into(),
            );
        }
        let key_id = parsed.extensions().iter().find_map(|e| match e.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        });
        Ok(Signer { name: parsed.subject().as_raw().to_vec(), key_id, key })
    }
}

/// Refuses what is not a certificate.
pub(super) fn check(certificate: &str) -> Result<(), String> {
    let block = der::first_block(certificate).ok_or("unable to decode certificate")?;
    match X509Certificate::from_der(&block.data) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("error parsing certificate: decodedCert.Bytes: {e}")),
    }
}

/// A certificate for a key, as PEM; without a signer it is signed by the key itself.
pub(super) fn issue(
    random: &mut StdRng,
    request: &Request<'_>,
    key: &Key,
    signer: Option<&Signer>,
) -> Result<String, String> {
    let subject = name(request.common_name);
    let signing = signer.map_or(key, |s| &s.key);
    let issuer = signer.map_or(subject.as_slice(), |s| &s.name);
    // As Go does: a certificate that names itself as its issuer has no authority to point at.
    let authority_key_id = signer.filter(|_| issuer != subject).and_then(|s| s.key_id.as_deref());
    let mut serial = [0; 16];
    random.fill_bytes(&mut serial);
    let algorithm = signing.signature_algorithm();
    let content = sequence(&[
        &element(0xa0, &der::unsigned(&[2])),
        &der::unsigned(&serial),
        &algorithm,
        issuer,
        &sequence(&[&moment(request.valid.0)?, &moment(request.valid.1)?]),
        &subject,
        &key.public_info(),
        &element(0xa3, &extensions(request, key, authority_key_id)?),
    ]);
    let signature = signing.sign(random, &content)?;
    Ok(der::pem("CERTIFICATE", &sequence(&[&content, &algorithm, &der::bits(&signature)])))
}

/// A distinguished name that is a common name, or nothing.
fn name(common_name: &str) -> Vec<u8> {
    if common_name.is_empty() {
        return sequence(&[]);
    }
    let printable = |b: u8| b.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&b);
    let tag = if common_name.bytes().all(printable) { PRINTABLE_STRING } else { UTF8_STRING };
    let attribute = sequence(&[&element(OID, COMMON_NAME), &element(tag, common_name.as_bytes())]);
    sequence(&[&element(SET, &attribute)])
}

fn moment(seconds: i64) -> Result<Vec<u8>, String> {
    let time =
        jiff::Timestamp::from_second(seconds).map_err(|e| e.to_string())?.to_zoned(jiff::tz::TimeZone::UTC);
    let text = time.strftime("%Y%m%d%H%M%SZ").to_string();
    Ok(match time.year() {
        1950..2050 => element(UTC_TIME, &text.as_bytes()[2..]),
        0..=9999 => element(GENERALIZED_TIME, text.as_bytes()),
        _ => return Err("cannot represent time as GeneralizedTime".into()),
    })
}

fn extension(oid: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { &TRUE } else { &[] };
    sequence(&[&element(OID, oid), critical, &element(OCTET_STRING, content)])
}

/// The extensions in Go's order.
fn extensions(request: &Request<'_>, key: &Key, authority_key_id: Option<&[u8]>) -> Result<Vec<u8>, String> {
    // Digital signature and key encipherment, an authority also signs certificates; the first byte counts unused bits.
    let usage = if request.authority { [2, 0b1010_0100] } else { [5, 0b1010_0000] };
    let constraints = if request.authority { sequence(&[&TRUE]) } else { sequence(&[]) };
    let purposes = sequence(&[&element(OID, SERVER_AUTH), &element(OID, CLIENT_AUTH)]);
    let mut all = vec![
        extension(KEY_USAGE, true, &element(BIT_STRING, &usage)),
        extension(EXTENDED_KEY_USAGE, false, &purposes),
        extension(BASIC_CONSTRAINTS, true, &constraints),
    ];
    if request.authority {
        let id = &Sha256::digest(key.public())[..20];
        all.push(extension(SUBJECT_KEY_ID, false, &element(OCTET_STRING, id)));
    }
    if let Some(id) = authority_key_id {
        all.push(extension(AUTHORITY_KEY_ID, false, &sequence(&[&element(0x80, id)])));
    }
    if !request.names.dns.is_empty() || !request.names.addresses.is_empty() {
        let names = alternative_names(&request.names)?;
        all.push(extension(ALTERNATIVE_NAMES, request.common_name.is_empty(), &names));
    }
    Ok(element(SEQUENCE, &all.concat()))
}

fn alternative_names(names: &Names) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    for name in &names.dns {
        if !name.is_ascii() {
            return Err(format!("x509: {name:?} cannot be encoded as an IA5String"));
        }
        all.extend(element(0x82, name.as_bytes()));
    }
    for address in &names.addresses {
        all.extend(match address.to_canonical() {
            IpAddr::V4(address) => element(0x87, &address.octets()),
            IpAddr::V6(address) => element(0x87, &address.octets()),
        });
    }
    Ok(element(SEQUENCE, &all))
}
