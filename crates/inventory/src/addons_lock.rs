//! `addons.lock`: which charts an inventory's add-ons are, by their content. It stands beside the inventory and is committed with it.
//!
//! Versions of charts can be pushed again with other content. What is in the lock is taken with the locked content or not at all; what
//! is not yet there is added when it is first fetched.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::addon::{Addon, AddonSource};

/// What the file is called.
pub const ADDONS_LOCK: &str = "addons.lock";

/// What stands above the charts.
const HEAD: &str = "# Written by daedal: the charts of this inventory's add-ons, by the SHA-256 of their archives. Commit it.\n";

/// Why a lock cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// It is no lock, or one of a later version.
    #[error("reading {ADDONS_LOCK}")]
    Yaml(#[source] yaml_serde::Error),
    /// It has a digest that is none.
    #[error("{ADDONS_LOCK} has a SHA-256 for the chart {chart} {version} that is not 64 hexadecimal digits")]
    Digest {
        /// The chart.
        chart: String,
        /// Its version.
        version: String,
    },
    /// It has two digests for one chart.
    #[error("{ADDONS_LOCK} has the chart {chart} {version} of {repo} twice")]
    Twice {
        /// The chart.
        chart: String,
        /// Its version.
        version: String,
        /// Its repository.
        repo: String,
    },
}

/// The charts of an inventory, by their content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddonsLock {
    #[serde(default)]
    charts: Vec<LockedChart>,
}

/// A chart and its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedChart {
    /// Its name.
    pub chart: String,
    /// The exact version.
    pub version: String,
    /// Where it is.
    pub repo: String,
    /// SHA-256 of its archive, as lower-case hex.
    pub sha256: String,
}

impl LockedChart {
    fn is(&self, chart: &str, repo: &str, version: &str) -> bool {
        (self.chart.as_str(), self.repo.as_str(), self.version.as_str()) == (chart, repo, version)
    }
}

impl AddonsLock {
    /// Reads a lock.
    ///
    /// # Errors
    /// If it is none, or names a chart twice.
    pub fn read(text: &str) -> Result<Self, LockError> {
        // A file with nothing but comments locks nothing.
        let read: Option<Self> = yaml_serde::from_str(text).map_err(LockError::Yaml)?;
        let lock = read.unwrap_or_default();
        for (i, one) in lock.charts.iter().enumerate() {
            let LockedChart { chart, version, repo, sha256 } = one.clone();
            let fits = sha256.len() == 64 && sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if !fits {
                return Err(LockError::Digest { chart, version });
            }
            if lock.charts[..i].iter().any(|earlier| earlier.is(&chart, &repo, &version)) {
                return Err(LockError::Twice { chart, version, repo });
            }
        }
        Ok(lock)
    }

    /// The lock as a file: the same charts give the same bytes.
    pub fn text(&self) -> String {
        let mut charts: Vec<&LockedChart> = self.charts.iter().collect();
        charts.sort();
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let entries: String = charts
            .into_iter()
            .map(|one| {
                format!(
                    "  - chart: {}\n    version: {}\n    repo: {}\n    sha256: {}\n",
                    quoted(&one.chart),
                    quoted(&one.version),
                    quoted(&one.repo),
                    quoted(&one.sha256)
                )
            })
            .collect();
        if entries.is_empty() { format!("{HEAD}charts: []\n") } else { format!("{HEAD}charts:\n{entries}") }
    }

    /// The content that a chart must have, as lower-case hex; none if it is not locked yet.
    pub fn sha256(&self, chart: &str, repo: &str, version: &str) -> Option<&str> {
        self.charts.iter().find(|one| one.is(chart, repo, version)).map(|one| one.sha256.as_str())
    }

    /// Locks a chart; one that is locked already keeps its content.
    pub fn add(&mut self, chart: LockedChart) {
        if self.sha256(&chart.chart, &chart.repo, &chart.version).is_none() {
            self.charts.push(chart);
        }
    }

    /// Leaves what the add-ons of an inventory are made of.
    pub fn retain(&mut self, addons: &[Addon]) {
        self.charts.retain(|one| {
            addons.iter().any(|addon| match &addon.source {
                AddonSource::Chart { chart, repo, version } => one.is(chart, repo, version),
                _ => false,
            })
        });
    }

    /// What is locked.
    pub fn charts(&self) -> &[LockedChart] {
        &self.charts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(name: &str, version: &str) -> LockedChart {
        let digit = if version.ends_with('1') { "1" } else { "2" };
        LockedChart {
            chart: name.to_owned(),
            version: version.to_owned(),
            repo: "https://charts.example.org".to_owned(),
            sha256: digit.repeat(64),
        }
    }

    #[test]
    fn a_lock_reads_back_and_does_not_depend_on_the_order() {
        let (mut one, mut other) = (AddonsLock::default(), AddonsLock::default());
        assert_eq!(AddonsLock::read(&one.text()).expect("empty"), one);
        assert_eq!(AddonsLock::read("# nothing yet\n").expect("comments"), one);
        for chart in [chart("b", "1.0.1"), chart("a", "1.0.0")] {
            one.add(chart);
        }
        for chart in [chart("a", "1.0.0"), chart("b", "1.0.1")] {
            other.add(chart);
        }
        assert_eq!(one.text(), other.text());
        assert_eq!(AddonsLock::read(&one.text()).expect("reads"), other);
        assert_eq!(one.sha256("b", "https://charts.example.org", "1.0.1"), Some("1".repeat(64).as_str()));
        assert_eq!(one.sha256("b", "https://charts.example.org", "1.0.0"), None);
        assert_eq!(one.sha256("b", "https://else.example.org", "1.0.1"), None);
    }

    #[test]
    fn what_is_locked_keeps_its_content() {
        let mut lock = AddonsLock::default();
        lock.add(chart("a", "1.0.0"));
        lock.add(LockedChart { sha256: "3".repeat(64), ..chart("a", "1.0.0") });
        assert_eq!(lock.sha256("a", "https://charts.example.org", "1.0.0"), Some("2".repeat(64).as_str()));
        lock.retain(&[]);
        assert!(lock.charts().is_empty());
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        let twice = format!("{}{}", AddonsLock { charts: vec![chart("a", "1.0.0")] }.text(), {
            let text = AddonsLock { charts: vec![chart("a", "1.0.0")] }.text();
            text.split_once("charts:\n").map(|(_, entries)| entries.to_owned()).unwrap_or_default()
        });
        assert!(matches!(AddonsLock::read(&twice), Err(LockError::Twice { .. })), "{twice}");
        let short =
            AddonsLock { charts: vec![LockedChart { sha256: "AB".to_owned(), ..chart("a", "1.0.0") }] };
        assert!(matches!(AddonsLock::read(&short.text()), Err(LockError::Digest { .. })));
        for text in ["- a", "charts: 1", "chart: []", "{"] {
            assert!(matches!(AddonsLock::read(text), Err(LockError::Yaml(_))), "{text}");
        }
    }
}
