//! Config media that are snippets: put on the host over SSH, because the Proxmox API has no way to upload them.

use daedal_planner::Step;
use daedal_planner::names::media_volid;
use daedal_talos_config::Secret;

use super::{Executor, Outcome};
use crate::effects::EffectKind;
use crate::error::Error;
use crate::host_files::{STORAGES, snippets_folder};

impl Executor<'_> {
    /// Puts a machine config on a storage of the step's host, where it is not there already, and sees that Proxmox lists it.
    pub(super) async fn put_snippet(
        &self,
        step: &Step,
        storage: &str,
        file: &str,
        text: &Secret,
    ) -> Result<Outcome, Error> {
        let (parts, host) = (&self.engine.parts, self.host(step)?);
        let files = parts.host_files.as_ref().ok_or(Error::NoHostFiles)?;
        let unreadable = |path: &str| {
            let path = path.to_owned();
            move |source| Error::HostFile { what: "read", path, source }
        };
        let known = files.read(STORAGES).await.map_err(unreadable(STORAGES))?.unwrap_or_default();
        let folder = snippets_folder(&String::from_utf8_lossy(&known), storage)
            .ok_or_else(|| Error::NoSnippets { storage: storage.to_owned() })?;
        let path = format!("{folder}/{file}");
        let bytes = text.expose().as_bytes();
        let there = files.read(&path).await.map_err(unreadable(&path))?;
        let outcome = match there.is_some_and(|there| there == bytes) {
            true => Outcome::AlreadyDone,
            false => {
                let call = async {
                    let unwritable = |source| Error::HostFile { what: "write", path: path.clone(), source };
                    files.write(&path, bytes).await.map_err(unwritable)
                };
                parts.effects.perform(EffectKind::UploadMedia, format!("{file} on {host}"), call).await?;
                Outcome::Done
            }
        };
        let volid = media_volid(storage, file);
        let listed = parts.proxmox.volumes(host, storage, Some("snippets")).await?;
        if listed.iter().any(|volume| volume.volid == volid) {
            return Ok(outcome);
        }
        // It lies on another host, where nothing would ever find it again, and it holds keys.
        let call = async {
            let unremovable = |source| Error::HostFile { what: "remove", path: path.clone(), source };
            files.remove(&path).await.map_err(unremovable)
        };
        parts.effects.perform(EffectKind::DeleteMedia, format!("{file} beside {host}"), call).await?;
        Err(Error::SnippetNotSeen { path, volid, host: host.to_owned() })
    }
}
