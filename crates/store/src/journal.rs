//! A log of what was begun and finished: for people, never read to decide anything.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::folder::{append, io};

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

/// An open journal. Cheap to clone; all clones append to one file.
#[derive(Clone, Debug)]
pub struct Journal {
    file: Arc<Mutex<File>>,
    path: PathBuf,
}

impl Journal {
    pub(crate) fn open(path: PathBuf) -> Result<Self, Error> {
        Ok(Self { file: Arc::new(Mutex::new(append(&path)?)), path })
    }

    /// Appends one line. Each is one write, so that lines of two processes never mix.
    pub fn note(&self, entry: &Entry) -> Result<(), Error> {
        let mut line = serde_json::to_vec(entry).unwrap_or_default();
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).map_err(io("append to", &self.path))
    }
}
