//! Logs: every process writes into objects of its own, so that the lines of two never mix.

use std::collections::BTreeMap;

use super::{Condition, Content, Put, Remote, TRIES, Tag, digest, id, pause};
use crate::Error;
use crate::backend::{Blob, Version};
use crate::secret::SecretBytes;

/// Where they are.
const LOGS: &str = "logs/";
/// How large a piece may become before the next one is begun.
const LARGEST: usize = 256 << 10;

/// The pieces that this process writes, by the name of their log.
#[derive(Debug, Default)]
pub(super) struct Logs(BTreeMap<String, Piece>);

#[derive(Debug)]
struct Piece {
    key: String,
    bytes: Vec<u8>,
    tag: Option<Tag>,
}

impl Remote {
    pub(super) async fn extend_log(&self, name: &str, lines: &[u8]) -> Result<(), Error> {
        self.usable(name)?;
        let mut logs = self.logs.lock().await;
        let begun = logs.0.get(name).is_some_and(|piece| piece.bytes.len() + lines.len() <= LARGEST);
        if !begun {
            // Names are in the order of time, as far as the clocks of two machines agree.
            let began = (self.now)().as_millisecond();
            let key = format!("{LOGS}{name}/{began:015}-{}", id());
            logs.0.insert(name.to_owned(), Piece { key, bytes: Vec::new(), tag: None });
        }
        let Some(piece) = logs.0.get_mut(name) else { return Ok(()) };
        piece.bytes.extend_from_slice(lines);
        self.write_piece(piece).await
    }

    async fn write_piece(&self, piece: &mut Piece) -> Result<(), Error> {
        for tried in 1.. {
            let condition = piece.tag.as_ref().map_or(Condition::New, Condition::Matches);
            match self.objects.put(&piece.key, Content::Bytes(&piece.bytes), condition).await {
                Ok(Put::Done(tag)) => {
                    piece.tag = Some(tag);
                    return Ok(());
                }
                // Only an earlier try, whose answer was lost, can have written it.
                Ok(Put::Refused) if tried < TRIES => {
                    piece.tag = self.objects.get(&piece.key).await?.map(|object| object.tag);
                }
                Ok(Put::Refused) => return Err(Error::Changed { path: self.objects.locate(&piece.key) }),
                Err(error) if error.may_pass() && tried < TRIES => pause(tried).await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A log: its pieces, one after the other.
    pub(super) async fn read_log(&self, name: &str) -> Result<Option<Blob>, Error> {
        let mut bytes = Vec::new();
        let keys = self.objects.list(&format!("{LOGS}{name}/")).await?;
        for key in &keys {
            if let Some(object) = self.objects.get(key).await? {
                bytes.extend_from_slice(object.bytes.expose());
            }
        }
        let version = Version::new(digest(&bytes));
        Ok((!keys.is_empty()).then(|| Blob { bytes: SecretBytes::new(bytes), version }))
    }

    /// Removes a log. What this process writes later begins a new one.
    pub(super) async fn remove_log(&self, name: &str) -> Result<(), Error> {
        let mut logs = self.logs.lock().await;
        for key in self.objects.list(&format!("{LOGS}{name}/")).await? {
            self.objects.delete(&key).await?;
        }
        logs.0.remove(name);
        Ok(())
    }

    pub(super) async fn log_names(&self) -> Result<Vec<String>, Error> {
        let keys = self.objects.list(LOGS).await?;
        let name = |key: &String| Some(key.strip_prefix(LOGS)?.rsplit_once('/')?.0.to_owned());
        let mut names: Vec<String> = keys.iter().filter_map(name).collect();
        names.dedup();
        Ok(names)
    }
}
