//! The secrets bundle as a secret of its own in a Vault, where people and pipelines read it as what it is.
//!
//! It is one text in one field: JSON would change it. The first line says whose it is, and is a comment for talosctl. Every write
//! names the version that it is based on.

use std::path::PathBuf;

use http::Method;
use serde_json::{Value, json};

use super::objects::MISMATCH;
use super::{Vault, said};
use crate::Error;
use crate::http::Fault;
use crate::seal;
use crate::secret::SecretBytes;

/// The field of the bundle.
const FIELD: &str = "bundle";

/// Where in a Vault a bundle is kept.
#[derive(Clone, Debug)]
pub struct VaultBundle {
    vault: Vault,
    path: String,
}

/// What is there.
struct Found {
    /// The newest version, also of a secret that was deleted; 0 where there never was one.
    version: u64,
    text: Option<SecretBytes>,
}

impl VaultBundle {
    /// The secret at a path with its mount, such as `secret/talos/home`.
    pub fn new(vault: Vault, path: impl Into<String>) -> Self {
        Self { vault, path: path.into() }
    }

    /// Where it is, for people.
    pub(crate) fn place(&self) -> PathBuf {
        self.place_of(&self.path)
    }

    fn place_of(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("vault:{path}"))
    }

    /// The bundle of a cluster; none if there is none.
    pub(crate) async fn read(&self, cluster: &str) -> Result<Option<SecretBytes>, Error> {
        let Some(text) = self.find(&self.path).await?.text else { return Ok(None) };
        let damaged = |why: String| Error::Damaged { path: self.place(), why };
        let opened = seal::open(text.expose()).map_err(damaged)?;
        match opened.cluster == cluster {
            true => Ok(Some(SecretBytes::new(opened.content.to_vec()))),
            false => {
                let found: String = opened.cluster.chars().filter(char::is_ascii_graphic).take(64).collect();
                Err(Error::OtherCluster { path: self.place(), found, wanted: cluster.to_owned() })
            }
        }
    }

    /// Writes a bundle where there is none, and reads it back.
    pub(crate) async fn write_new(&self, cluster: &str, bundle: &SecretBytes) -> Result<(), Error> {
        let found = self.find(&self.path).await?;
        if found.text.is_some() {
            return Err(Error::SecretsExist { path: self.place() });
        }
        self.write(&self.path, found.version, cluster, bundle).await
    }

    /// Exchanges the bundle. The one before is kept beside it first, under `old_name`; where that is.
    pub(crate) async fn replace(
        &self,
        cluster: &str,
        bundle: &SecretBytes,
        old_name: &str,
    ) -> Result<PathBuf, Error> {
        let old_path = format!("{}-{}", self.path, old_name.trim_end_matches(".yaml"));
        if let Some(old) = self.read(cluster).await? {
            self.write(&old_path, 0, cluster, &old).await?;
        }
        let found = self.find(&self.path).await?;
        self.write(&self.path, found.version, cluster, bundle).await?;
        Ok(self.place_of(&old_path))
    }

    async fn find(&self, path: &str) -> Result<Found, Error> {
        self.look(path).await.map_err(self.vault.failed("read", path))
    }

    async fn look(&self, path: &str) -> Result<Found, Fault> {
        let place = self.vault.place(path).await?;
        let asked = format!("{}data/{}", place.mount, place.rest);
        let answer = self.vault.call(&Method::GET, &asked, None).await?;
        let is_absent = answer.status.as_u16() == 404 && said(&answer).is_empty();
        if !answer.status.is_success() && !is_absent {
            return Err(self.vault.refused(&answer));
        }
        // A deleted one has a version, too, which the next write must name.
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let (data, metadata) = (&body["data"]["data"], &body["data"]["metadata"]);
        let text = match data[FIELD].as_str() {
            Some(text) => Some(SecretBytes::new(text.as_bytes().to_vec())),
            None if data.is_null() => None,
            None => return Err(self.vault.unusable(format!("it has no field `{FIELD}`, but others"))),
        };
        Ok(Found { version: metadata["version"].as_u64().unwrap_or(0), text })
    }

    async fn write(&self, path: &str, over: u64, cluster: &str, bundle: &SecretBytes) -> Result<(), Error> {
        let sealed = SecretBytes::new(seal::seal(cluster, bundle.expose()));
        let Ok(text) = std::str::from_utf8(sealed.expose()) else {
            return Err(Error::Damaged { path: self.place(), why: "it is not text".to_owned() });
        };
        let body = json!({"options": {"cas": over}, "data": {FIELD: text}});
        let sent = async {
            let place = self.vault.place(path).await?;
            let asked = format!("{}data/{}", place.mount, place.rest);
            let answer = self.vault.call(&Method::POST, &asked, Some(&body)).await?;
            let is_mismatch = said(&answer).iter().any(|text| text.contains(MISMATCH));
            match answer.status.is_success() {
                false if !is_mismatch => Err(self.vault.refused(&answer)),
                done => Ok(done),
            }
        };
        if !sent.await.map_err(self.vault.failed("write", path))? {
            return Err(Error::Changed { path: self.place_of(path) });
        }
        match self.find(path).await?.text == Some(sealed) {
            true => Ok(()),
            false => Err(Error::ReadBack { path: self.place_of(path) }),
        }
    }
}
