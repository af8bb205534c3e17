//! Tasks: how they stand and how they ended.

use serde::Deserialize;

use crate::{
    classify::from_task_text,
    error::{Error, Kind},
    lenient,
    params::Params,
    upid::Upid,
};

/// How a task ended.
#[derive(Clone, Debug)]
pub enum TaskOutcome {
    /// `OK`.
    Ok,
    /// `WARNINGS: n`, which is success.
    Warnings(u32),
    /// Anything else, typed like the same failure of a call.
    Failed(Kind),
}

impl TaskOutcome {
    /// Reads an exit status.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text == "OK" {
            return Self::Ok;
        }
        match text.strip_prefix("WARNINGS:").map(|count| count.trim().parse()) {
            Some(Ok(count)) => Self::Warnings(count),
            _ => Self::Failed(from_task_text(text)),
        }
    }

    /// Success, warnings included.
    pub fn is_success(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// Success, or an error of `operation` (which reads on after "could not").
    pub fn into_result(self, operation: impl Into<String>) -> Result<(), Error> {
        match self {
            Self::Ok | Self::Warnings(_) => Ok(()),
            Self::Failed(kind) => Err(Error::new(operation, kind)),
        }
    }
}

/// How a task stands.
#[derive(Clone, Debug)]
pub enum TaskState {
    /// It runs.
    Running,
    /// It ended.
    Ended(TaskOutcome),
}

/// One row of a task list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskRow {
    /// Its name.
    pub upid: Upid,
    /// `RUNNING`, or none, while it runs; then its exit status.
    #[serde(default, deserialize_with = "lenient::opt_text")]
    pub status: Option<String>,
    /// When it ended by the node's clock, Unix seconds; none while it runs.
    #[serde(default, deserialize_with = "lenient::opt_number")]
    pub endtime: Option<u64>,
    /// Who started it; a running task's token may be part of it.
    #[serde(default, deserialize_with = "lenient::text")]
    pub user: String,
    /// The token it was started with, on finished tasks.
    #[serde(default, deserialize_with = "lenient::opt_text")]
    pub tokenid: Option<String>,
}

impl TaskRow {
    /// How it stands.
    pub fn state(&self) -> TaskState {
        match (self.status.as_deref(), self.endtime) {
            (Some(status), Some(_)) => TaskState::Ended(TaskOutcome::parse(status)),
            // Some lists leave the end time out; a status other than RUNNING is an end all the same.
            (Some(status), None) if !status.eq_ignore_ascii_case("running") => {
                TaskState::Ended(TaskOutcome::parse(status))
            }
            _ => TaskState::Running,
        }
    }

    /// Whether it runs.
    pub fn running(&self) -> bool {
        matches!(self.state(), TaskState::Running)
    }

    /// The full id of who started it, `user@realm` or `user@realm!token`.
    pub fn owner(&self) -> &str {
        self.upid.user()
    }
}

/// Which tasks to list. Proxmox lists at most 50 unless told otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// About this VMID (source VMID for clones).
    pub vmid: Option<u32>,
    /// Running, finished, or both.
    pub source: TaskSource,
    /// Started at or after this Unix second of the node's clock.
    pub since: Option<u64>,
    /// Of this user (`user@realm`); tokens of the user match too.
    pub user: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Running tasks, finished ones, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSource {
    /// Both.
    #[default]
    All,
    /// Running.
    Active,
    /// Finished.
    Archive,
}

impl TaskFilter {
    pub(crate) fn params(&self) -> Params {
        let mut params = Params::new();
        let source = match self.source {
            TaskSource::All => "all",
            TaskSource::Active => "active",
            TaskSource::Archive => "archive",
        };
        params.set("source", source).set_some("vmid", self.vmid).set_some("since", self.since);
        params.set_some("userfilter", self.user.as_ref()).set_some("typefilter", self.kind.as_ref());
        params.set_some("limit", self.limit);
        params
    }
}

/// `GET /nodes/N/tasks/UPID/status`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TaskStatus {
    #[serde(default, deserialize_with = "lenient::text")]
    status: String,
    #[serde(default, deserialize_with = "lenient::opt_text")]
    exitstatus: Option<String>,
}

impl TaskStatus {
    pub(crate) fn state(&self) -> TaskState {
        match (&self.exitstatus, self.status.as_str()) {
            (Some(exit), _) => TaskState::Ended(TaskOutcome::parse(exit)),
            (None, "stopped") => TaskState::Ended(TaskOutcome::parse("unexpected status")),
            (None, _) => TaskState::Running,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct LogLine {
    #[serde(default, deserialize_with = "lenient::text")]
    pub(crate) t: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_success() {
        assert!(matches!(TaskOutcome::parse("OK"), TaskOutcome::Ok));
        assert!(matches!(TaskOutcome::parse("WARNINGS: 2"), TaskOutcome::Warnings(2)));
        assert!(matches!(TaskOutcome::parse("WARNINGS: x"), TaskOutcome::Failed(Kind::Other { .. })));
        let failed = TaskOutcome::parse("VM is locked (create)").into_result("destroy VM 900 on pve1");
        let error = failed.unwrap_err();
        assert_eq!(error.to_string(), "could not destroy VM 900 on pve1");
        assert!(matches!(error.kind(), Kind::Locked { lock, .. } if lock == "create"));
    }

    #[test]
    fn rows_of_all_lists_are_read() {
        let row = |text: &str| serde_json::from_str::<TaskRow>(text).unwrap();
        let upid = "UPID:pve1:000007DC:00028310:6AF9FCAF:qmcreate:900:root@pam!t1:";
        assert!(row(&format!(r#"{{"upid":"{upid}","status":"RUNNING","user":"root@pam!t1"}}"#)).running());
        assert!(row(&format!(r#"{{"upid":"{upid}","user":"root@pam"}}"#)).running());
        let done = row(&format!(r#"{{"upid":"{upid}","status":"OK","endtime":1794768048,"tokenid":"t1"}}"#));
        assert!(matches!(done.state(), TaskState::Ended(TaskOutcome::Ok)));
        assert_eq!(done.owner(), "root@pam!t1");
        // An error text could itself read "running".
        let odd = row(&format!(r#"{{"upid":"{upid}","status":"running","endtime":1}}"#));
        assert!(!odd.running());
    }
}
