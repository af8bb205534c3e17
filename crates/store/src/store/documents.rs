//! What is known of a cluster that is no secret: image pins, the generation, the addresses that were found.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Store, TRIES};
use crate::Error;
use crate::backend::Version;
use crate::pins::Pin;

const PINS: &str = "images.json";
const GENERATION: &str = "generation.json";
const ADDRESSES: &str = "addresses.json";

impl Store {
    /// What is known of an image file.
    pub async fn pin(&self, file: &str) -> Result<Option<Pin>, Error> {
        Ok(self.pins().await?.0.remove(file))
    }

    /// Records what an image file is. Others may record theirs at the same time: all pins are in one document.
    pub async fn record_pin(&self, pin: Pin) -> Result<(), Error> {
        let mut tries = 1;
        loop {
            let (mut pins, before) = self.pins().await?;
            pins.insert(pin.file.clone(), pin.clone());
            let closed = self.closed(PINS, &written(&pins)).await?;
            match self.put(PINS, &closed, before.as_ref()).await {
                Err(Error::Changed { .. }) if tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    async fn pins(&self) -> Result<(BTreeMap<String, Pin>, Option<Version>), Error> {
        let (pins, version) = self.document(PINS).await?.unzip();
        Ok((pins.unwrap_or_default(), version))
    }

    /// The newest generation of the cluster that was applied with this store, or onto which somebody said to go, as it was
    /// recorded. What a generation is, is the caller's to say.
    pub async fn generation<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        Ok(self.document(GENERATION).await?.map(|(generation, _)| generation))
    }

    /// Records a generation, in place of the one before. To be called under the lock.
    pub async fn record_generation<T: Serialize>(&self, generation: T) -> Result<(), Error> {
        self.replace(GENERATION, &written(&generation)).await
    }

    /// Where nodes were found whose addresses nobody declares, by their names; none if that was never recorded.
    pub async fn addresses(&self) -> Result<Option<BTreeMap<String, IpAddr>>, Error> {
        Ok(self.document(ADDRESSES).await?.map(|(addresses, _)| addresses))
    }

    /// Records where nodes were found, in place of what was recorded before. To be called under the lock.
    pub async fn record_addresses(&self, addresses: &BTreeMap<String, IpAddr>) -> Result<(), Error> {
        self.replace(ADDRESSES, &written(addresses)).await
    }

    /// Removes what was recorded of where nodes were found. To be called under the lock.
    pub async fn forget_addresses(&self) -> Result<(), Error> {
        self.forget(ADDRESSES).await
    }

    /// A document by its name; none if there is none.
    async fn document<T: DeserializeOwned>(&self, name: &str) -> Result<Option<(T, Version)>, Error> {
        let Some(kept) = self.read(name).await? else { return Ok(None) };
        match serde_json::from_slice(kept.content.expose()) {
            Ok(document) => Ok(Some((document, kept.version))),
            Err(error) => Err(Error::Damaged { path: self.backend.locate(name), why: error.to_string() }),
        }
    }
}

fn written(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(document).unwrap_or_default()
}
