//! A log of what was begun and finished: for people, never read to decide anything.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

use crate::Error;
use crate::backend::Backend;

/// What it is called.
pub(crate) const JOURNAL: &str = "journal.jsonl";

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// `run begun`, `begun`, `done`, `failed`, `run ended`.
    pub what: String,
    /// On what.
    pub subject: String,
    /// More, such as an error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// An open journal. Lines are written in their order, while whoever noted them goes on.
#[derive(Debug)]
pub struct Journal {
    lines: UnboundedSender<Vec<u8>>,
    writing: JoinHandle<Result<(), Error>>,
}

impl Journal {
    pub(crate) fn open(backend: Arc<dyn Backend>) -> Self {
        let (lines, noted) = mpsc::unbounded_channel();
        Self { lines, writing: tokio::spawn(write(backend, noted)) }
    }

    /// Notes one line.
    pub fn note(&self, entry: &Entry) {
        let mut line = serde_json::to_vec(entry).unwrap_or_default();
        line.push(b'\n');
        // Once a line could not be written, the others are not tried; the end says why.
        let _ = self.lines.send(line);
    }

    /// Waits until all lines are written, or says why they could not be.
    pub async fn close(self) -> Result<(), Error> {
        drop(self.lines);
        self.writing.await.map_err(Error::Interrupted)?
    }
}

/// Appends all lines that wait, in one piece.
async fn write(backend: Arc<dyn Backend>, mut noted: UnboundedReceiver<Vec<u8>>) -> Result<(), Error> {
    while let Some(mut lines) = noted.recv().await {
        while let Ok(more) = noted.try_recv() {
            lines.extend(more);
        }
        backend.append(JOURNAL, &lines).await?;
    }
    Ok(())
}
