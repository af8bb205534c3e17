//! Begins a store anew: takes out what is damaged, and replaces a manifest that cannot be read.

use super::manifest::{MANIFEST, Manifest};
use super::{BLOBS, Condition, Content, Put, Remote, id, made_under};
use crate::Error;
use crate::backend::Backend as _;
use crate::lease::Fence;

impl Remote {
    /// Removes a blob or a log without reading it.
    pub(super) async fn remove_whatever(&self, name: &str, fence: Option<&Fence>) -> Result<(), Error> {
        let removed = self
            .commit(|manifest| {
                manifest.check(fence, &self.locate(""))?;
                Ok(manifest.blobs.remove(name))
            })
            .await?;
        match removed {
            Some(entry) => self.discard(name, &entry.version).await,
            None => self.remove_log(name).await?,
        }
        Ok(())
    }

    /// An empty manifest in place of one that is damaged or missing. Its epoch is that of the newest content, so that the next lease
    /// is newer than all before it.
    pub(super) async fn begin_anew(&self) -> Result<bool, Error> {
        let found = self.objects.get(MANIFEST).await?;
        let path = self.objects.locate(MANIFEST);
        if found.as_ref().is_some_and(|object| Manifest::open(object.bytes.expose(), &path).is_ok()) {
            return Ok(false);
        }
        let lost = self.objects.list(BLOBS).await?;
        if found.is_none() && lost.is_empty() {
            return Ok(false);
        }
        let versions = lost.iter().filter_map(|key| key.rsplit_once('/'));
        let epoch = versions.filter_map(|(_, version)| made_under(version)).max().unwrap_or(0);
        let mut manifest = Manifest::of_epoch(epoch);
        manifest.sign(&id());
        let condition = found.as_ref().map_or(Condition::New, |object| Condition::Matches(&object.tag));
        match self.objects.put(MANIFEST, Content::Bytes(&manifest.sealed()), condition).await? {
            Put::Done(_) => {}
            Put::Refused => return Err(Error::Changed { path }),
        }
        // Nothing refers to them any more.
        for key in &lost {
            self.objects.delete(key).await?;
        }
        Ok(true)
    }
}
