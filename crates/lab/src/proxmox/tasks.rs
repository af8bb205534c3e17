//! Worker tasks: UPIDs, their log and end, and the run of a worker through simulated time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Datacenter;
use super::access::Who;
use super::fail::Fail;
use crate::faults::TaskFault;
use crate::moments::Occasion;

/// How many tasks are remembered.
const MANY: usize = 20_000;

/// One worker task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) upid: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) pstart: u64,
    pub(crate) start: i64,
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) who: Who,
    pub(crate) log: Vec<String>,
    /// When and how it ended.
    pub(crate) end: Option<(i64, String)>,
}

/// All tasks, oldest first, with an index by UPID.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Task>", into = "Vec<Task>")]
pub(crate) struct Tasks {
    all: Vec<Task>,
    index: HashMap<String, usize>,
}

impl From<Vec<Task>> for Tasks {
    fn from(all: Vec<Task>) -> Self {
        let index = all.iter().enumerate().map(|(at, task)| (task.upid.clone(), at)).collect();
        Self { all, index }
    }
}

impl From<Tasks> for Vec<Task> {
    fn from(tasks: Tasks) -> Self {
        tasks.all
    }
}

impl Tasks {
    pub(crate) fn add(&mut self, task: Task) {
        if self.all.len() >= MANY {
            // The oldest half of what is over is forgotten, as log rotation does.
            let all = std::mem::take(&mut self.all);
            let kept = all.into_iter().enumerate().filter(|(at, task)| *at >= MANY / 2 || task.end.is_none());
            *self = kept.map(|(_, task)| task).collect::<Vec<_>>().into();
        }
        self.index.insert(task.upid.clone(), self.all.len());
        self.all.push(task);
    }

    pub(crate) fn get(&self, upid: &str) -> Option<&Task> {
        self.index.get(upid).and_then(|at| self.all.get(*at))
    }

    pub(crate) fn get_mut(&mut self, upid: &str) -> Option<&mut Task> {
        self.index.get(upid).and_then(|at| self.all.get_mut(*at))
    }

    /// Newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &Task> {
        self.all.iter().rev()
    }

    /// Ends whatever still runs: the daemon was restarted under it.
    pub(crate) fn lose_workers(&mut self, now: i64) {
        for task in self.all.iter_mut().filter(|task| task.end.is_none()) {
            task.end = Some((now, "unexpected status".into()));
        }
    }
}

/// How a worker ends other than well.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// With an error text.
    Error(String),
    /// Killed: nothing is cleaned up.
    Killed,
}

impl From<Fail> for Stop {
    fn from(fail: Fail) -> Self {
        Self::Error(fail.in_task())
    }
}

impl Stop {
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// The same end with a prefix before an error's text.
    #[must_use]
    pub(crate) fn prefixed(self, prefix: &str) -> Self {
        match self {
            Self::Error(text) => Self::Error(format!("{prefix}{text}")),
            Self::Killed => Self::Killed,
        }
    }
}

/// The inside of a running worker.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) dc: Datacenter,
    pub(crate) host: String,
    pub(crate) upid: String,
    pub(crate) who: Who,
    pub(crate) fault: Option<TaskFault>,
    aborted: CancellationToken,
    warnings: Arc<AtomicU32>,
}

impl Job {
    /// The inside of a call that does its work itself, without a worker.
    pub(crate) fn inline(dc: &Datacenter, host: &str, who: &Who) -> Self {
        Self {
            dc: dc.clone(),
            host: host.into(),
            upid: String::new(),
            who: who.clone(),
            fault: None,
            aborted: CancellationToken::new(),
            warnings: Arc::default(),
        }
    }

    pub(crate) fn log(&self, line: impl Into<String>) {
        let line = line.into();
        self.dc.with(|state| {
            if let Some(task) = state.tasks.get_mut(&self.upid) {
                task.log.push(line);
            }
        });
    }

    pub(crate) fn warn(&self, line: &str) {
        self.warnings.fetch_add(1, Ordering::Relaxed);
        self.log(format!("WARN: {line}"));
    }

    /// Lets simulated time pass, or ends with the error of an aborted worker.
    pub(crate) async fn pass(&self, duration: Duration) -> Result<(), Stop> {
        let factor = match self.fault {
            Some(TaskFault::Slower(factor)) => factor.max(1),
            _ => 1,
        };
        self.until(self.dc.pace().pass(duration * factor)).await
    }

    /// Waits for something unless the worker is aborted.
    pub(crate) async fn until<T>(&self, future: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.aborted.cancelled() => Err(Stop::error("interrupted by signal")),
            value = future => Ok(value),
        }
    }

    /// Whether a command of the storage takes too long for this worker.
    pub(crate) fn storage_times_out(&self) -> bool {
        self.fault == Some(TaskFault::StorageTimeout)
    }

    /// The point at which a doomed worker dies.
    pub(crate) fn checkpoint(&self) -> Result<(), Stop> {
        match &self.fault {
            Some(TaskFault::Dies) => Err(Stop::Killed),
            Some(TaskFault::Fails(text)) => Err(Stop::error(text.clone())),
            _ => Ok(()),
        }
    }
}

impl Datacenter {
    /// Starts a worker and returns its UPID at once.
    pub(crate) fn fork<F, W>(
        &self,
        host: &str,
        kind: &str,
        id: &str,
        who: &Who,
        fault: Option<TaskFault>,
        work: F,
    ) -> Result<String, Fail>
    where
        F: FnOnce(Job) -> W,
        W: Future<Output = Result<(), Stop>> + Send + 'static,
    {
        if fault == Some(TaskFault::NoWorker) {
            return Err(Fail::internal("got no worker upid - start worker failed"));
        }
        let upid = self.with(|state| {
            let pid = state.pid(host);
            let booted = state.hosts.get(host).map_or(0, |host| host.booted);
            let jitter = state.rng.next() % 100;
            let pstart = (state.now - booted).max(0) as u64 * 100 + jitter;
            let upid =
                format!("UPID:{host}:{pid:08X}:{pstart:08X}:{:08X}:{kind}:{id}:{}:", state.now, who.id());
            state.tasks.add(Task {
                upid: upid.clone(),
                host: host.into(),
                pid,
                pstart,
                start: state.now,
                kind: kind.into(),
                id: id.into(),
                who: who.clone(),
                log: Vec::new(),
                end: None,
            });
            upid
        });
        let aborted = CancellationToken::new();
        self.register_worker(&upid, aborted.clone());
        let job = Job {
            dc: self.clone(),
            host: host.into(),
            upid: upid.clone(),
            who: who.clone(),
            fault: fault.clone(),
            aborted,
            warnings: Arc::default(),
        };
        let running = work(job.clone());
        let killed = self.halted();
        // A create has reserved its number before the worker begins, and takes it back when it fails.
        let cleans_up = kind == "qmcreate";
        tokio::spawn(async move {
            let end = match &fault {
                Some(TaskFault::Fails(text)) if !cleans_up => Err(Stop::error(text.clone())),
                _ => tokio::select! {
                    biased;
                    () = killed.cancelled() => return,
                    end = running => end,
                },
            };
            job.finish(&end);
        });
        Ok(upid)
    }
}

impl Job {
    fn finish(&self, end: &Result<(), Stop>) {
        let mut warnings = self.warnings.load(Ordering::Relaxed);
        if let Some(TaskFault::Warnings(more)) = self.fault {
            warnings += more;
        }
        let status = match end {
            Ok(()) if warnings > 0 => format!("WARNINGS: {warnings}"),
            Ok(()) => "OK".into(),
            Err(Stop::Error(text)) => text.trim_end().replace('\n', " "),
            Err(Stop::Killed) => "unexpected status".into(),
        };
        let last = match end {
            Ok(()) if warnings > 0 => Some(format!("TASK {status}")),
            Ok(()) => Some("TASK OK".into()),
            Err(Stop::Error(_)) => Some(format!("TASK ERROR: {status}")),
            Err(Stop::Killed) => None,
        };
        self.dc.unregister_worker(&self.upid);
        self.dc.with(|state| {
            let now = state.now;
            if let Some(task) = state.tasks.get_mut(&self.upid) {
                task.log.extend(last);
                task.end = Some((now, status));
                let subject = format!("{} {} on {}", task.kind, task.id, task.host);
                self.dc.faults().happened(Occasion::TaskEnded, subject);
            }
        });
    }
}
