//! Keys and certificates generated while rendering.

use std::net::IpAddr;
use std::rc::Rc;

use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding};

use super::{Entry, Type, bytes, fixed, int, text};
use crate::template::exec::{Exec, FuncError, FuncResult};
use crate::value::{Field, Struct, Value};

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Certificate, Int, List, Str};
    vec![
        fixed("genPrivateKey", &[Str], gen_private_key),
        fixed("genCA", &[Str, Int], |exec, args| {
            let key = new_rsa(exec, 2048)?;
            issue(exec, &text(args, 0), None, int(args, 1), key, None, true)
        }),
        fixed("genCAWithKey", &[Str, Int, Str], |exec, args| {
            let key = read_key(&text(args, 2))?;
            issue(exec, &text(args, 0), None, int(args, 1), key, None, true)
        }),
        fixed("genSelfSignedCert", &[Str, List, List, Int], |exec, args| {
            let key = new_rsa(exec, 2048)?;
            let names = alternative_names(&args[1], &args[2])?;
            issue(exec, &text(args, 0), Some(names), int(args, 3), key, None, false)
        }),
        fixed("genSelfSignedCertWithKey", &[Str, List, List, Int, Str], |exec, args| {
            let key = read_key(&text(args, 4))?;
            let names = alternative_names(&args[1], &args[2])?;
            issue(exec, &text(args, 0), Some(names), int(args, 3), key, None, false)
        }),
        fixed("genSignedCert", &[Str, List, List, Int, Certificate], |exec, args| {
            let key = new_rsa(exec, 2048)?;
            let names = alternative_names(&args[1], &args[2])?;
            issue(exec, &text(args, 0), Some(names), int(args, 3), key, Some(pair(&args[4])?), false)
        }),
        fixed("genSignedCertWithKey", &[Str, List, List, Int, Certificate, Str], |exec, args| {
            let key = read_key(&text(args, 5))?;
            let names = alternative_names(&args[1], &args[2])?;
            issue(exec, &text(args, 0), Some(names), int(args, 3), key, Some(pair(&args[4])?), false)
        }),
        fixed("buildCustomCert", &[Str, Str], build_custom),
    ]
}

/// A private key as PEM for the template, and as PKCS#8 for signing.
struct Key {
    pem: String,
    pkcs8: Vec<u8>,
}

fn certificate(cert: String, key: String) -> Value {
    let field =
        |name, value: String| Field { name, json: name, omit_empty: false, value: Value::string(value) };
    Value::Struct(Rc::new(Struct {
        type_name: "sprig.certificate",
        pointer: false,
        addressable: false,
        fields: vec![field("Cert", cert), field("Key", key)],
    }))
}

fn pair(value: &Value) -> Result<(String, String), FuncError> {
    let Value::Struct(s) = value else { return Err("expected a certificate".into()) };
    let part = |name| match s.field(name) {
        Some(Value::Str(s)) => s.text().into_owned(),
        _ => String::new(),
    };
    Ok((part("Cert"), part("Key")))
}

fn new_rsa(exec: &Exec<'_>, bits: usize) -> Result<Key, FuncError> {
    let mut random = exec.env.random.borrow_mut();
    let key = rsa::RsaPrivateKey::new(random.generator(), bits)
        .map_err(|e| format!("error generating rsa key: {e}"))?;
    rsa_key(&key)
}

fn rsa_key(key: &rsa::RsaPrivateKey) -> Result<Key, FuncError> {
    let pem = key.to_pkcs1_pem(LineEnding::LF).map_err(|e| e.to_string())?.to_string();
    let pkcs8 = key.to_pkcs8_der().map_err(|e| e.to_string())?.as_bytes().to_vec();
    Ok(Key { pem, pkcs8 })
}

fn read_key(pem: &str) -> Result<Key, FuncError> {
    use rsa::pkcs1::DecodeRsaPrivateKey as _;
    if let Ok(key) = rsa::RsaPrivateKey::from_pkcs1_pem(pem) {
        return rsa_key(&key);
    }
    if let Ok(key) = p256::SecretKey::from_sec1_pem(pem) {
        let pkcs8 = key.to_pkcs8_der().map_err(|e| e.to_string())?.as_bytes().to_vec();
        return Ok(Key { pem: pem.to_owned(), pkcs8 });
    }
    if let Ok(key) = rsa::RsaPrivateKey::from_pkcs8_pem(pem) {
        return rsa_key(&key);
    }
    if let Ok(key) = p256::SecretKey::from_pkcs8_pem(pem) {
        return ec_key(&key);
    }
    if let Ok(key) = ed25519_dalek::SigningKey::from_pkcs8_pem(pem) {
        let pkcs8 = key.to_pkcs8_der().map_err(|e| e.to_string())?.as_bytes().to_vec();
        return Ok(Key { pem: pem.to_owned(), pkcs8 });
    }
    if pem.contains("-----BEGIN") {
        Err("parsing private key: the key is malformed or of a kind that is not supported".into())
    } else {
        Err("parsing private key: no PEM data in input".into())
    }
}

fn ec_key(key: &p256::SecretKey) -> Result<Key, FuncError> {
    let pem = key.to_sec1_pem(LineEnding::LF).map_err(|e| e.to_string())?.to_string();
    let pkcs8 = key.to_pkcs8_der().map_err(|e| e.to_string())?.as_bytes().to_vec();
    Ok(Key { pem, pkcs8 })
}

fn gen_private_key(exec: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let kind = text(args, 0);
    let pem = match kind.as_str() {
        "" | "rsa" => new_rsa(exec, 4096)?.pem,
        "ecdsa" => {
            let key = p256::SecretKey::random(exec.env.random.borrow_mut().generator());
            ec_key(&key)?.pem
        }
        "ed25519" => {
            let key = ed25519_dalek::SigningKey::generate(exec.env.random.borrow_mut().generator());
            key.to_pkcs8_pem(LineEnding::LF).map_err(|e| e.to_string())?.to_string()
        }
        "dsa" => return Err("DSA keys are obsolete and not supported".into()),
        other => format!("Unknown type {other}"),
    };
    Ok(Value::string(pem))
}

struct Names {
    addresses: Vec<IpAddr>,
    dns: Vec<String>,
}

fn alternative_names(ips: &Value, dns: &Value) -> Result<Names, FuncError> {
    let mut names = Names { addresses: Vec::new(), dns: Vec::new() };
    let display = |v: &Value| crate::strconv::lossy(&crate::printf::display(v)).into_owned();
    for ip in ips.elements().unwrap_or_default().iter() {
        let Value::Str(s) = ip else {
            return Err(format!("error parsing ip: {} is not a string", display(ip)).into());
        };
        names.addresses.push(s.text().parse().map_err(|_| format!("error parsing ip: {}", s.text()))?);
    }
    for name in dns.elements().unwrap_or_default().iter() {
        let Value::Str(s) = name else {
            return Err(
                format!("error processing alternate dns name: {} is not a string", display(name)).into()
            );
        };
        names.dns.push(s.text().into_owned());
    }
    Ok(names)
}

fn key_pair(pkcs8: &[u8]) -> Result<rcgen::KeyPair, FuncError> {
    rcgen::KeyPair::try_from(pkcs8).map_err(|e| format!("error creating certificate: {e}").into())
}

fn issue(
    exec: &Exec<'_>,
    common_name: &str,
    names: Option<Names>,
    days: i64,
    key: Key,
    signer: Option<(String, String)>,
    authority: bool,
) -> FuncResult {
    let fail = |e: rcgen::Error| FuncError::from(format!("error creating certificate: {e}"));
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
    let names = names.unwrap_or(Names { addresses: Vec::new(), dns: Vec::new() });
    for name in names.dns {
        let name = name.as_str().try_into().map_err(fail)?;
        params.subject_alt_names.push(rcgen::SanType::DnsName(name));
    }
    params.subject_alt_names.extend(names.addresses.into_iter().map(rcgen::SanType::IpAddress));
    let now = exec.env.now.seconds;
    params.not_before = instant(now)?;
    params.not_after = instant(now.saturating_add(days.saturating_mul(86_400)))?;
    params.key_usages =
        vec![rcgen::KeyUsagePurpose::DigitalSignature, rcgen::KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages =
        vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    params.serial_number = Some(rcgen::SerialNumber::from(exec.env.random.borrow_mut().bytes(16)));
    if authority {
        params.key_usages.push(rcgen::KeyUsagePurpose::KeyCertSign);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    } else {
        params.is_ca = rcgen::IsCa::ExplicitNoCa;
    }
    let subject = key_pair(&key.pkcs8)?;
    let issued = match signer {
        None => params.self_signed(&subject).map_err(fail)?,
        Some((cert, signer_key)) => {
            let signer_key = key_pair(&read_key(&signer_key)?.pkcs8)?;
            let issuer = rcgen::Issuer::from_ca_cert_pem(&cert, signer_key)
                .map_err(|_| FuncError::from("unable to decode certificate"))?;
            params.signed_by(&subject, &issuer).map_err(fail)?
        }
    };
    Ok(certificate(issued.pem().replace("\r\n", "\n"), key.pem))
}

fn instant(seconds: i64) -> Result<time::OffsetDateTime, FuncError> {
    time::OffsetDateTime::from_unix_timestamp(seconds).map_err(|e| e.to_string().into())
}

fn build_custom(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let decode = |index: usize, what: &str| -> Result<String, FuncError> {
        let raw = super::encoding::base64_decode(bytes(args, index))
            .map_err(|_| format!("unable to decode base64 {what}"))?;
        Ok(crate::strconv::lossy(&raw).into_owned())
    };
    let cert = decode(0, "certificate")?;
    let key = decode(1, "private key")?;
    if !cert.contains("-----BEGIN CERTIFICATE-----") {
        return Err("unable to decode certificate".into());
    }
    read_key(&key).map_err(|e| format!("error parsing private key: {}", e.message))?;
    Ok(certificate(cert, key))
}
