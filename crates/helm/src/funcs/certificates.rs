//! Keys and certificates generated while rendering.

mod der;
mod issue;
mod keys;

use std::rc::Rc;

use issue::{Names, Request, Signer};
use keys::Key;

use super::{Entry, Type, bytes, fixed, int, text};
use crate::template::exec::{Exec, FuncError, FuncResult};
use crate::value::{Field, Struct, Value};

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Certificate, Int, List, Str};
    vec![
        fixed("genPrivateKey", &[Str], gen_private_key),
        fixed("genCA", &[Str, Int], |exec, args| {
            let key = new_rsa(exec, 2048)?;
            issue(exec, &text(args, 0), None, int(args, 1), &key, None, true)
        }),
        fixed("genCAWithKey", &[Str, Int, Str], |exec, args| {
            let key = read_key(&text(args, 2))?;
            issue(exec, &text(args, 0), None, int(args, 1), &key, None, true)
        }),
        fixed("genSelfSignedCert", &[Str, List, List, Int], |exec, args| {
            let key = new_rsa(exec, 2048)?;
            let names = alternative_names(&args[1], &args[2])?;
            issue(exec, &text(args, 0), Some(names), int(args, 3), &key, None, false)
        }),
        fixed("genSelfSignedCertWithKey", &[Str, List, List, Int, Str], |exec, args| {
            let key = read_key(&text(args, 4))?;
            let names = alternative_names(&args[1], &args[2])?;
            issue(exec, &text(args, 0), Some(names), int(args, 3), &key, None, false)
        }),
        fixed("genSignedCert", &[Str, List, List, Int, Certificate], |exec, args| {
            let key = new_rsa(exec, 2048)?;
            let names = alternative_names(&args[1], &args[2])?;
            issue(exec, &text(args, 0), Some(names), int(args, 3), &key, Some(pair(&args[4])?), false)
        }),
        fixed("genSignedCertWithKey", &[Str, List, List, Int, Certificate, Str], |exec, args| {
            let key = read_key(&text(args, 5))?;
            let names = alternative_names(&args[1], &args[2])?;
            issue(exec, &text(args, 0), Some(names), int(args, 3), &key, Some(pair(&args[4])?), false)
        }),
        fixed("buildCustomCert", &[Str, Str], build_custom),
    ]
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
    Ok(Key::new_rsa(exec.env.random.borrow_mut().generator(), bits)?)
}

fn read_key(pem: &str) -> Result<Key, FuncError> {
    Key::parse(pem).map_err(|e| format!("parsing private key: {e}").into())
}

fn gen_private_key(exec: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let kind = text(args, 0);
    let key = match kind.as_str() {
        "" | "rsa" => new_rsa(exec, 4096)?,
        "ecdsa" => Key::new_ecdsa(exec.env.random.borrow_mut().generator()),
        "ed25519" => Key::new_ed25519(exec.env.random.borrow_mut().generator()),
        "dsa" => return Err("DSA keys are obsolete and not supported".into()),
        other => return Ok(Value::string(format!("Unknown type {other}"))),
    };
    Ok(Value::string(key.to_pem()?))
}

fn alternative_names(ips: &Value, dns: &Value) -> Result<Names, FuncError> {
    let mut names = Names::default();
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

/// Issues a certificate for a key, signed by an authority if one is given.
fn issue(
    exec: &Exec<'_>,
    common_name: &str,
    names: Option<Names>,
    days: i64,
    key: &Key,
    signer: Option<(String, String)>,
    authority: bool,
) -> FuncResult {
    let signer = signer.map(|(cert, key)| Signer::parse(&cert, &key)).transpose()?;
    let now = exec.env.now.seconds;
    let request = Request {
        common_name,
        names: names.unwrap_or_default(),
        valid: (now, now.saturating_add(days.saturating_mul(86_400))),
        authority,
    };
    let mut random = exec.env.random.borrow_mut();
    let issued = issue::issue(random.generator(), &request, key, signer.as_ref());
    let issued = issued.map_err(|e| format!("error creating certificate: {e}"))?;
    Ok(certificate(issued, key.to_pem()?))
}

fn build_custom(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let decode = |index: usize, what: &str| -> Result<String, FuncError> {
        let raw = super::encoding::base64_decode(bytes(args, index))
            .map_err(|_| format!("unable to decode base64 {what}"))?;
        Ok(crate::strconv::lossy(&raw).into_owned())
    };
    let cert = decode(0, "certificate")?;
    let key = decode(1, "private key")?;
    issue::check(&cert)?;
    Key::parse(&key).map_err(|e| format!("error parsing private key: {e}"))?;
    Ok(certificate(cert, key))
}
