//! Keys and certificates that templates make: their formats, and that they verify against their authorities.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daedal_helm::{Chart, File, RenderOptions, ValuesBuilder, render};
use rsa::signature::Verifier as _;
use x509_parser::oid_registry::OID_DOMAIN_COMPONENT;
use x509_parser::pem::Pem;
use x509_parser::prelude::{
    AttributeTypeAndValue, FromDer as _, GeneralName, ParsedExtension, X509Certificate,
};

/// What an expression prints, or the end of the complaint.
fn printed(expression: &str) -> Result<String, String> {
    let file = |name: &str, text: String| File { name: name.into(), data: text.into_bytes() };
    let chart = Chart::from_files(vec![
        file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.2.3\n".into()),
        file("templates/NOTES.txt", format!("{{{{ {expression} }}}}")),
    ])
    .unwrap();
    let options = RenderOptions { now: (1_700_000_000, 0), seed: [7; 32], ..RenderOptions::default() };
    match render(&chart, &ValuesBuilder::new().build(), &options) {
        Ok(rendered) => Ok(rendered.notes),
        Err(error) => Err(error.to_string().rsplit(">: ").next().unwrap().to_owned()),
    }
}

/// The blocks of a PEM text: label and content.
fn blocks(text: &str) -> Vec<(String, Vec<u8>)> {
    Pem::iter_from_buffer(text.as_bytes())
        .map(|block| block.unwrap())
        .map(|block| (block.label, block.contents))
        .collect()
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/authorities/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The expression of an authority that somebody brings, in `$ca`.
fn brought(name: &str) -> String {
    let [cert, key] = ["crt", "key"].map(|end| STANDARD.encode(fixture(&format!("{name}.{end}"))));
    format!("$ca := buildCustomCert \"{cert}\" \"{key}\"")
}

/// Whether an authority signed a certificate, names it exactly, and is pointed at by its key's identifier.
fn assert_signed(leaf: &X509Certificate<'_>, authority: &X509Certificate<'_>) {
    assert_eq!(leaf.issuer().as_raw(), authority.subject().as_raw(), "the issuer is the authority's subject");
    let own_id = authority.extensions().iter().find_map(|e| match e.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    });
    let id = leaf.extensions().iter().find_map(|e| match e.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0),
        _ => None,
    });
    assert!(id.is_some() && id == own_id, "{id:?} {own_id:?}");
    let (message, signature) = (leaf.tbs_certificate.as_ref(), leaf.signature_value.data.as_ref());
    let key = authority.public_key();
    let bits = key.subject_public_key.data.as_ref();
    match (key.algorithm.algorithm.to_id_string().as_str(), bits.len()) {
        ("1.2.840.113549.1.1.1", _) => {
            use rsa::pkcs1::DecodeRsaPublicKey as _;
            let padding = rsa::Pkcs1v15Sign {
                hash_len: Some(32),
                prefix: hex::decode("3031300d060960864801650304020105000420").unwrap().into(),
            };
            let digest = <sha2::Sha256 as sha2::Digest>::digest(message);
            rsa::RsaPublicKey::from_pkcs1_der(bits).unwrap().verify(padding, &digest, signature).unwrap();
        }
        ("1.2.840.10045.2.1", 65) => p256::ecdsa::VerifyingKey::from_sec1_bytes(bits)
            .unwrap()
            .verify(message, &p256::ecdsa::Signature::from_der(signature).unwrap())
            .unwrap(),
        ("1.2.840.10045.2.1", 97) => p384::ecdsa::VerifyingKey::from_sec1_bytes(bits)
            .unwrap()
            .verify(message, &p384::ecdsa::Signature::from_der(signature).unwrap())
            .unwrap(),
        ("1.2.840.10045.2.1", 133) => p521::ecdsa::VerifyingKey::from_sec1_bytes(bits)
            .unwrap()
            .verify(message, &p521::ecdsa::Signature::from_der(signature).unwrap())
            .unwrap(),
        ("1.3.101.112", 32) => ed25519_dalek::VerifyingKey::from_bytes(bits.try_into().unwrap())
            .unwrap()
            .verify(message, &ed25519_dalek::Signature::from_slice(signature).unwrap())
            .unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_signed_certificate_points_at_its_authority() {
    let text = printed(
        "$ca := genCA \"authority\" 365 }}{{ $ca.Cert }}{{ $ca.Key }}\
         {{ $leaf := genSignedCert \"shop.example.org\" (list \"10.0.0.1\" \"fd00::1\" \"::ffff:10.0.0.2\") (list \"shop.example.org\") 30 $ca }}\
         {{ $leaf.Cert }}{{ $leaf.Key }}{{ (genSelfSignedCert \"own\" nil nil 1).Cert",
    )
    .unwrap();
    let blocks = blocks(&text);
    let labels: Vec<&str> = blocks.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["CERTIFICATE", "RSA PRIVATE KEY", "CERTIFICATE", "RSA PRIVATE KEY", "CERTIFICATE"]);
    let certificates = [0, 2, 4].map(|at: usize| X509Certificate::from_der(&blocks[at].1).unwrap().1);
    let [authority, leaf, own] = &certificates;
    assert_signed(leaf, authority);
    assert!(authority.is_ca() && !leaf.is_ca());
    assert_eq!(leaf.validity().not_before.timestamp(), 1_700_000_000);
    assert_eq!(leaf.validity().not_after.timestamp(), 1_700_000_000 + 30 * 86_400);
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    let addresses: Vec<usize> = names
        .value
        .general_names
        .iter()
        .filter_map(|n| match n {
            GeneralName::IPAddress(bytes) => Some(bytes.len()),
            _ => None,
        })
        .collect();
    assert_eq!(addresses, [4, 16, 4], "an IPv4 address is one however it is written");
    // One that signs itself has no authority to point at, as Go has it.
    let points = |c: &X509Certificate<'_>| {
        c.extensions()
            .iter()
            .any(|e| matches!(e.parsed_extension(), ParsedExtension::AuthorityKeyIdentifier(_)))
    };
    assert!(points(leaf) && !points(authority) && !points(own));
}

#[test]
fn authorities_of_every_kind_sign_and_keep_their_exact_name() {
    for (name, label) in [
        ("rsa", "RSA PRIVATE KEY"),
        ("p256", "EC PRIVATE KEY"),
        ("p384", "EC PRIVATE KEY"),
        ("p521", "EC PRIVATE KEY"),
        ("ed25519", "PRIVATE KEY"),
    ] {
        let key = STANDARD.encode(fixture(&format!("{name}.key")));
        let text = printed(&format!(
            "{} }}}}{{{{ $leaf := genSignedCertWithKey \"leaf\" nil (list \"a.example.org\") 30 $ca (b64dec \"{key}\") }}}}\
             {{{{ $leaf.Cert }}}}{{{{ $leaf.Key }}}}{{{{ (genCAWithKey \"own\" 1 $ca.Key).Cert",
            brought(name)
        ))
        .unwrap_or_else(|e| panic!("{name}: {e}"));
        let blocks = blocks(&text);
        let (_, leaf) = X509Certificate::from_der(&blocks[0].1).unwrap();
        let brought = &self::blocks(&fixture(&format!("{name}.crt")))[0].1;
        let (_, authority) = X509Certificate::from_der(brought).unwrap();
        // DC=org and DC=example are two attributes of one type.
        let component = |a: &AttributeTypeAndValue<'_>| a.attr_type() == &OID_DOMAIN_COMPONENT;
        assert_eq!(authority.subject().iter_attributes().filter(|a| component(a)).count(), 2, "{name}");
        assert_signed(&leaf, &authority);
        assert_eq!(blocks[1].0, label, "{name}: keys are written as Go writes them");
        let (_, own) = X509Certificate::from_der(&blocks[2].1).unwrap();
        assert_eq!(own.public_key().raw, authority.public_key().raw, "{name}");
    }
}

#[test]
fn keys_have_the_formats_that_others_read() {
    let ec = printed("genPrivateKey \"ecdsa\"").unwrap();
    let (label, data) = &blocks(&ec)[0];
    assert_eq!(label, "EC PRIVATE KEY");
    // Version 1, 32 bytes of key, then the curve's name: [0] { OID prime256v1 }.
    assert_eq!(hex::encode(&data[..7]), "30770201010420");
    assert_eq!(hex::encode(&data[39..51]), "a00a06082a8648ce3d030107");
    let ed = printed("genPrivateKey \"ed25519\"").unwrap();
    let (label, data) = &blocks(&ed)[0];
    assert_eq!(label, "PRIVATE KEY");
    // Version 0 (PKCS#8 v1), the algorithm, the seed, and nothing after it.
    assert_eq!(hex::encode(&data[..16]), "302e020100300506032b657004220420");
    assert_eq!(data.len(), 48);
    // What was written is read again, and stays the same.
    for key in [ec, ed] {
        let key = STANDARD.encode(key);
        let again = printed(&format!("(genCAWithKey \"a\" 1 (b64dec \"{key}\")).Key | b64enc")).unwrap();
        assert_eq!(again, key);
    }
}

#[test]
fn wrong_keys_and_authorities_are_refused_in_gos_words() {
    let encoded = |text: &str| STANDARD.encode(text);
    let p256 = fixture("p256.crt");
    for (expression, complaint) in [
        (
            format!("genCAWithKey \"a\" 1 (b64dec \"{}\")", encoded("nothing")),
            "error calling genCAWithKey: parsing private key: no PEM data in input",
        ),
        (
            format!("genCAWithKey \"a\" 1 (b64dec \"{}\")", encoded(&p256)),
            "error calling genCAWithKey: parsing private key: no private key data in PEM block of type CERTIFICATE",
        ),
        (
            format!("buildCustomCert \"{}\" \"\"", encoded("-----BEGIN CERTIFICATE-----")),
            "error calling buildCustomCert: unable to decode certificate",
        ),
        (
            format!(
                "genSignedCert \"a\" nil nil 1 (buildCustomCert \"{}\" \"{}\")",
                encoded(&p256),
                encoded(&fixture("p384.key"))
            ),
            "error calling genSignedCert: error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey",
        ),
        (
            "genSelfSignedCert \"a\" nil (list \"é.example.org\") 1".to_owned(),
            "error calling genSelfSignedCert: error creating certificate: x509: \"é.example.org\" cannot be encoded as an IA5String",
        ),
    ] {
        assert_eq!(printed(&expression).unwrap_err(), complaint);
    }
}
