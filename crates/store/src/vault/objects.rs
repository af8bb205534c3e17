//! A store in a Vault: every object is a secret with one field.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use super::{Vault, said};
use crate::Error;
use crate::backend::{Backend, Working};
use crate::http::Fault;
use crate::remote::{Condition, Content, Now, Object, Objects, Put, Remote, Tag};
use crate::secret::SecretBytes;

/// The field of an object's content.
const CONTENT: &str = "content";
/// An entry of a Vault has at most 1 MiB, and base64 takes a third more.
const LARGEST: u64 = 700 << 10;
/// What Vault says where a condition is not met. There is no status of its own for it.
pub(super) const MISMATCH: &str = "check-and-set parameter did not match the current version";
/// A version that nothing has.
const NEVER: u64 = u32::MAX as u64;

/// Where in a Vault a store is.
#[derive(Clone, Debug)]
pub struct VaultStore {
    /// The Vault.
    pub vault: Vault,
    /// Where its key-value store of version 2 is mounted, such as `secret`.
    pub mount: String,
    /// What all paths begin with; may be empty.
    pub prefix: String,
    /// For how long a lease is good that nobody renews.
    pub lease: Duration,
}

impl VaultStore {
    /// A backend that keeps one cluster under the prefix, in a folder of its name.
    pub fn backend(self, cluster: &str, now: Now) -> Arc<dyn Backend> {
        let mount = self.mount.trim_matches('/').to_owned();
        let root = match self.prefix.trim_matches('/') {
            "" => format!("{cluster}/"),
            prefix => format!("{prefix}/{cluster}/"),
        };
        Arc::new(Remote::new(Arc::new(Entries { vault: self.vault, mount, root }), self.lease, now))
    }
}

/// One cluster's part of a key-value store.
#[derive(Debug)]
struct Entries {
    vault: Vault,
    mount: String,
    root: String,
}

impl Entries {
    fn path(&self, kind: &str, key: &str) -> String {
        format!("{}/{kind}/{}{key}", self.mount, self.root)
    }

    fn failed(&self, what: &'static str, key: &str) -> impl FnOnce(Fault) -> Error {
        let path = self.locate(key);
        move |source| Error::Remote { what, path, source }
    }

    async fn read(&self, key: &str) -> Result<Option<Object>, Fault> {
        let Some(answer) = self.vault.get(&self.path("data", key)).await? else { return Ok(None) };
        let (data, version) = (&answer["data"]["data"], &answer["data"]["metadata"]["version"]);
        let (Some(text), Some(version)) = (data[CONTENT].as_str(), version.as_u64()) else {
            return Err(self.vault.unusable(format!("it has no field `{CONTENT}`")));
        };
        // Damage is for whoever knows what should be there to tell.
        let bytes = STANDARD.decode(text).unwrap_or_else(|_| text.as_bytes().to_vec());
        Ok(Some(Object { bytes: SecretBytes::new(bytes), tag: Tag(version.to_string()) }))
    }

    async fn write(&self, key: &str, bytes: &[u8], condition: Condition<'_>) -> Result<Put, Fault> {
        let cas = match condition {
            Condition::New => 0,
            Condition::Matches(Tag(version)) => version.parse().unwrap_or(NEVER),
        };
        let body = json!({"options": {"cas": cas}, "data": {CONTENT: STANDARD.encode(bytes)}});
        let answer = self.vault.call(&Method::POST, &self.path("data", key), Some(&body)).await?;
        if answer.status.is_success() {
            let written = self.vault.json(&answer)?;
            let version = written["data"]["version"].as_u64();
            let version = version.ok_or_else(|| self.vault.unusable("it has no version".to_owned()))?;
            return Ok(Put::Done(Tag(version.to_string())));
        }
        match answer.status.as_u16() == 400 && said(&answer).iter().any(|text| text.contains(MISMATCH)) {
            true => Ok(Put::Refused),
            false => Err(self.vault.refused(&answer)),
        }
    }

    async fn remove(&self, key: &str) -> Result<(), Fault> {
        let answer = self.vault.call(&Method::DELETE, &self.path("metadata", key), None).await?;
        match answer.status.is_success() || answer.status.as_u16() == 404 {
            true => Ok(()),
            false => Err(self.vault.refused(&answer)),
        }
    }

    /// A Vault lists one folder at a time.
    async fn keys(&self, prefix: &str) -> Result<Vec<String>, Fault> {
        let list = Method::from_bytes(b"LIST").unwrap_or(Method::GET);
        let (mut folders, mut keys) = (VecDeque::from([prefix.to_owned()]), Vec::new());
        while let Some(folder) = folders.pop_front() {
            let answer = self.vault.call(&list, &self.path("metadata", &folder), None).await?;
            if answer.status.as_u16() == 404 && said(&answer).is_empty() {
                continue;
            }
            if !answer.status.is_success() {
                return Err(self.vault.refused(&answer));
            }
            let listed = self.vault.json(&answer)?;
            let names = listed["data"]["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
            for name in names.iter().filter_map(Value::as_str) {
                let whole = format!("{folder}{name}");
                if name.ends_with('/') { folders.push_back(whole) } else { keys.push(whole) }
            }
        }
        keys.sort();
        Ok(keys)
    }
}

impl Objects for Entries {
    fn locate(&self, key: &str) -> PathBuf {
        let root = self.root.trim_end_matches('/');
        let place = PathBuf::from(format!("vault:{}/{root}", self.mount));
        if key.is_empty() { place } else { place.join(key) }
    }

    fn largest(&self) -> u64 {
        LARGEST
    }

    fn get<'a>(&'a self, key: &'a str) -> Working<'a, Option<Object>> {
        Box::pin(async move { self.read(key).await.map_err(self.failed("read", key)) })
    }

    fn put<'a>(&'a self, key: &'a str, content: Content<'a>, condition: Condition<'a>) -> Working<'a, Put> {
        Box::pin(async move {
            let written = match content {
                Content::Bytes(bytes) => self.write(key, bytes, condition).await,
                Content::File { path, .. } => {
                    let bytes = tokio::fs::read(path).await.map_err(crate::files::io("read", path))?;
                    self.write(key, &bytes, condition).await
                }
            };
            written.map_err(self.failed("write", key))
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Working<'a, ()> {
        Box::pin(async move { self.remove(key).await.map_err(self.failed("remove", key)) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Working<'a, Vec<String>> {
        Box::pin(async move { self.keys(prefix).await.map_err(self.failed("list", prefix)) })
    }
}
