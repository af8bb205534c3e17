//! A store that is given up: everything in it is removed, whether or not it can be read.

use super::Store;
use super::secrets::SECRETS;
use crate::Error;

/// What is in a store that may be damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The names of all that is kept.
    Names(Vec<String>),
    /// Nothing can be found, because what describes it is damaged: why.
    Damaged(String),
}

impl Store {
    /// What is there, also of a damaged store.
    pub async fn contents(&self) -> Result<Contents, Error> {
        match self.names().await {
            Ok(names) => Ok(Contents::Names(names)),
            Err(error @ Error::Damaged { .. }) => Ok(Contents::Damaged(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// The secrets bundle as it is kept, encrypted; none if there is none, or it cannot be read.
    pub async fn sealed_secrets(&self) -> Result<Option<Vec<u8>>, Error> {
        match self.backend.get(SECRETS).await {
            Ok(found) => Ok(found.map(|blob| blob.bytes.expose().to_vec())),
            Err(Error::Damaged { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a store usable again in which nothing can be found: it is empty then. Whether that was needed.
    pub async fn mend(&self) -> Result<bool, Error> {
        self.backend.mend().await
    }

    /// Removes all that is kept; the names. To be called under the lock, which stays.
    pub async fn clear(&self) -> Result<Vec<String>, Error> {
        let names = self.names().await?;
        let fence = self.fence();
        for name in &names {
            self.backend.wipe(name, fence.as_ref()).await?;
        }
        Ok(names)
    }
}
