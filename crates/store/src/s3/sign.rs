//! Signatures of requests to S3 (AWS Signature Version 4).

use std::fmt::Write as _;

use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::secret::SecretBytes;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Its name.
    pub access_key_id: String,
    /// Its secret.
    pub secret_access_key: SecretBytes,
    /// What temporary credentials have besides.
    pub session_token: Option<SecretBytes>,
}

/// What is signed.
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    /// Encoded already.
    pub(super) path: &'a str,
    /// Names and values, not encoded yet.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// All headers, in lower case, with `host`, `x-amz-date` and `x-amz-content-sha256`.
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// The digest of the body.
    pub(super) payload: &'a str,
}

/// `20261118T120000Z`.
pub(super) fn date(now: Timestamp) -> String {
    now.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The header `authorization` of a request that is made at `date`.
pub(super) fn authorization(
    request: &Unsigned<'_>,
    credentials: &Credentials,
    region: &str,
    date: &str,
) -> String {
    let mut headers = request.headers.to_vec();
    headers.sort_unstable();
    let signed = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let listed = headers.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name}:{}", value.trim());
        text
    });
    let canonical = format!(
        "{}\n{}\n{}\n{listed}\n{signed}\n{}",
        request.method,
        request.path,
        query(request.query),
        request.payload
    );
    let day = date.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/s3/aws4_request");
    let digest = hex::encode(Sha256::digest(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}");
    let first = SecretBytes::new([b"AWS4", credentials.secret_access_key.expose()].concat());
    let key = [day, region, "s3", "aws4_request"]
        .iter()
        .fold(first, |key, part| SecretBytes::new(mac(key.expose(), part.as_bytes())));
    let signature = hex::encode(mac(key.expose(), text.as_bytes()));
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
        credentials.access_key_id
    )
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // A key of any length will do: longer ones are hashed first.
    let mut mac = match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => return Vec::new(),
    };
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// A query as it is sent and signed.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut encoded: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name, false), encode(value, false)))
        .collect();
    encoded.sort_unstable();
    encoded.join("&")
}

/// Encodes all but letters, digits, `-`, `.`, `_`, `~`, and `/` in a path.
pub(super) fn encode(text: &str, is_path: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            b'/' if is_path => encoded.push('/'),
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const DATE: &str = "20130524T000000Z";

    fn signature(
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        more: &[(&str, &str)],
        payload: &str,
    ) -> String {
        let credentials = Credentials {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_access_key: SecretBytes::new(b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_vec()),
            session_token: None,
        };
        let mut headers = vec![
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-content-sha256", payload),
            ("x-amz-date", DATE),
        ];
        headers.extend(more);
        let request = Unsigned { method, path, query, headers: &headers, payload };
        let header = authorization(&request, &credentials, "us-east-1", DATE);
        header.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    /// The examples of the documentation of Signature Version 4.
    #[test]
    fn signatures_are_those_of_the_documentation() {
        assert_eq!(
            signature("GET", "/test.txt", &[], &[("range", "bytes=0-9")], EMPTY),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        assert_eq!(
            signature("GET", "/", &[("lifecycle", "")], &[], EMPTY),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("GET", "/", &[("prefix", "J"), ("max-keys", "2")], &[], EMPTY),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
        let payload = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        let more = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        assert_eq!(
            signature("PUT", &encode("/test$file.text", true), &[], &more, payload),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
    }

    #[test]
    fn dates_are_in_utc_without_separators() {
        assert_eq!(date(Timestamp::from_second(1_369_353_600).unwrap()), DATE);
    }
}
