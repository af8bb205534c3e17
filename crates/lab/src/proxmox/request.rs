//! What arrives: the rules for headers and bodies, and parameters from query, form, JSON or multipart.

use indexmap::IndexMap;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::fail::Fail;

/// Parameters by name; every value as text.
pub(crate) type Params = IndexMap<String, String>;

/// The largest body of a call that is not an upload.
pub(crate) const MAX_BODY: usize = 512 * 1024;

/// The file part of an upload.
#[derive(Clone)]
pub(crate) struct Upload {
    pub(crate) filename: String,
    pub(crate) bytes: Vec<u8>,
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// Splits on `&` and `;`, and cuts a value at a second raw `=`, as Proxmox's parser does.
pub(crate) fn parse_form(text: &str) -> Params {
    let mut params = Params::new();
    for pair in text.split(['&', ';']).filter(|pair| !pair.is_empty()) {
        let mut parts = pair.split('=');
        let key = decode(parts.next().unwrap_or_default());
        let value = decode(parts.next().unwrap_or_default());
        params
            .entry(key)
            .and_modify(|known| {
                known.push('\0');
                known.push_str(&value);
            })
            .or_insert(value);
    }
    params
}

/// Reads a JSON body: booleans become 0 and 1, arrays become lists.
pub(crate) fn parse_json(bytes: &[u8]) -> Result<Params, Fail> {
    if bytes.is_empty() {
        return Ok(Params::new());
    }
    let value: Value =
        serde_json::from_slice(bytes).map_err(|_| Fail::new(400, "invalid JSON in request body"))?;
    let Value::Object(map) = value else {
        return Err(Fail::new(400, "invalid JSON in request body"));
    };
    Ok(map.into_iter().filter_map(|(key, value)| Some((key, json_text(&value)?))).collect())
}

fn json_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => u8::from(*value).to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(json_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    })
}

/// Query parameters win over those of the body.
pub(crate) fn merge(mut body: Params, query: Params) -> Params {
    body.extend(query);
    body
}

/// The boundary of a multipart content type.
pub(crate) fn boundary(content_type: &str) -> Option<&str> {
    let rest = content_type.strip_prefix("multipart/form-data")?;
    let at = rest.find("boundary=")?;
    let value = rest[at + "boundary=".len()..].split(';').next()?.trim();
    Some(value.trim_matches('"'))
}

/// Reads a multipart body. Fields that stand after the file are lost, as in life.
pub(crate) fn parse_multipart(bytes: &[u8], boundary: &str) -> (Params, Option<Upload>) {
    let mut params = Params::new();
    let opening = format!("--{boundary}");
    let closing = format!("\r\n--{boundary}");
    let Some(mut at) = find(bytes, opening.as_bytes(), 0).map(|at| at + opening.len()) else {
        return (params, None);
    };
    while bytes.get(at..at + 2) == Some(b"\r\n") {
        let Some(head_end) = find(bytes, b"\r\n\r\n", at) else { break };
        let head = String::from_utf8_lossy(&bytes[at..head_end]).into_owned();
        let body_start = head_end + 4;
        let Some(body_end) = find(bytes, closing.as_bytes(), body_start) else { break };
        let body = &bytes[body_start..body_end];
        let disposition = head.lines().find(|line| line.to_lowercase().starts_with("content-disposition:"));
        let disposition = disposition.unwrap_or_default();
        match (attribute(disposition, "name"), attribute(disposition, "filename")) {
            (Some(name), Some(filename)) if name == "filename" => {
                return (params, Some(Upload { filename, bytes: body.to_vec() }));
            }
            (Some(name), _) => {
                params.insert(name, String::from_utf8_lossy(body).into_owned());
            }
            _ => {}
        }
        at = body_end + closing.len();
    }
    (params, None)
}

fn attribute(line: &str, name: &str) -> Option<String> {
    line.split(';').map(str::trim).find_map(|part| {
        let value = part.strip_prefix(name)?.strip_prefix('=')?;
        Some(value.trim_matches('"').to_owned())
    })
}

fn find(haystack: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let first = *needle.first()?;
    let mut at = from;
    while let Some(offset) = haystack.get(at..)?.iter().position(|byte| *byte == first) {
        at += offset;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_split_on_semicolons_and_lose_what_follows_a_second_equals() {
        let params = parse_form("boot=order%3Dscsi0%3Bide2&net0=virtio=AA,bridge=x;tags=a+b");
        assert_eq!(params["boot"], "order=scsi0;ide2");
        assert_eq!(params["net0"], "virtio");
        assert_eq!(params["tags"], "a b");
    }

    #[test]
    fn json_values_become_text() {
        let params = parse_json(br#"{"onboot":true,"cores":2,"tags":["a","b"],"x":null}"#).unwrap();
        assert_eq!(params.into_iter().collect::<Vec<_>>().len(), 3);
    }

    #[test]
    fn multipart_keeps_what_stands_before_the_file() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n--x\r\n\
            Content-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\r\n\
            Content-Type: application/octet-stream\r\n\r\n\x00\r\n-bytes\r\n--x--\r\n";
        let (params, upload) = parse_multipart(body, "x");
        assert_eq!(params["content"], "iso");
        let upload = upload.unwrap();
        assert_eq!((upload.filename.as_str(), upload.bytes.as_slice()), ("a.iso", &b"\x00\r\n-bytes"[..]));
        assert_eq!(boundary("multipart/form-data; boundary=\"x\""), Some("x"));
    }
}
