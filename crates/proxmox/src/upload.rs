//! A file upload as Proxmox's own parser wants it: every field before the file, the length known.

use bytes::{BufMut as _, Bytes, BytesMut};
use sha2::{Digest as _, Sha256};

use crate::client::Body;

/// A file to put on a storage. It replaces one of the same name without a word.
#[derive(Clone)]
pub struct Upload {
    /// `iso`, `vztmpl` or `import`.
    pub content: String,
    /// Name; Proxmox turns odd characters into `_`.
    pub filename: String,
    /// The bytes.
    pub bytes: Bytes,
    /// Have Proxmox check the SHA-256 of what arrived.
    pub verify: bool,
}

impl Upload {
    /// An ISO, checked on arrival.
    pub fn iso(filename: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { content: "iso".into(), filename: filename.into(), bytes: bytes.into(), verify: true }
    }

    pub(crate) fn body(&self) -> Body {
        let digest = hex::encode(Sha256::digest(&self.bytes));
        let boundary = boundary(&digest, &self.bytes);
        let mut body = BytesMut::with_capacity(self.bytes.len() + 1024);
        let mut field = |name: &str, value: &str| {
            body.put_slice(
                format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
                    .as_bytes(),
            );
        };
        field("content", &self.content);
        if self.verify {
            field("checksum-algorithm", "sha256");
            field("checksum", &digest);
        }
        // Quotes and line breaks would end the header; Proxmox would replace them by `_` anyway.
        let name: String =
            self.filename.chars().map(|c| if c == '"' || c.is_control() { '_' } else { c }).collect();
        body.put_slice(
            format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"{name}\"\r\n\
                 Content-Type: application/octet-stream\r\n\r\n"
            )
            .as_bytes(),
        );
        body.put_slice(&self.bytes);
        body.put_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        Body::Multipart {
            content_type: format!("multipart/form-data; boundary={boundary}"),
            bytes: body.freeze(),
        }
    }
}

/// A boundary that does not occur in the bytes; the same for the same bytes.
fn boundary(digest: &str, bytes: &[u8]) -> String {
    let mut text = format!("------------------------{}", &digest[..16.min(digest.len())]);
    while bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
        text.push('x');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_before_the_file() {
        let upload = Upload::iso("se\"ed.iso", &b"hello"[..]);
        let Body::Multipart { content_type, bytes } = upload.body() else { panic!("not multipart") };
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let want = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"checksum-algorithm\"\r\n\r\nsha256\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"checksum\"\r\n\r\n{digest}\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"se_ed.iso\"\r\n\
             Content-Type: application/octet-stream\r\n\r\nhello\r\n--{boundary}--\r\n"
        );
        assert_eq!(text, want);
    }

    #[test]
    fn the_boundary_is_not_in_the_file() {
        let first = boundary("0123456789abcdef", b"");
        let second = boundary("0123456789abcdef", first.as_bytes());
        assert_ne!(first, second);
    }
}
