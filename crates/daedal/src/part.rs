//! One cluster's part of a command that is about several: what it prints stays together, and nothing is changed before every plan
//! is made and agreed to.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use daedal_inventory::Cluster;
use serde_json::Value as Json;
use tokio::sync::watch;

use crate::cli::Target;
use crate::documents;

tokio::task_local! {
    static PART: Arc<Part>;
}

/// How far a part has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its plan is made and shown.
    Planned,
    /// Its plan is agreed to.
    Approved,
}

/// One cluster's part.
#[derive(Debug)]
pub struct Part {
    /// The cluster's name.
    pub name: String,
    /// What advice is about.
    pub target: OnceLock<Target>,
    said: Mutex<String>,
    values: Mutex<Vec<Json>>,
    reached: Mutex<[bool; 2]>,
    together: Together,
}

/// All parts of a command, and how many of them have come to each stage.
#[derive(Clone, Debug)]
pub struct Together {
    parts: usize,
    reached: Arc<watch::Sender<[usize; 2]>>,
    targets: Arc<Vec<Target>>,
    declared: Arc<OnceLock<Vec<Cluster>>>,
}

impl Together {
    /// So many parts, none of which has begun.
    fn of(parts: usize) -> Self {
        let (targets, declared) = Default::default();
        Self { parts, reached: Arc::new(watch::Sender::new([0; 2])), targets, declared }
    }

    /// One part for each of these.
    pub fn about(targets: Vec<Target>) -> Self {
        let parts = targets.len();
        Self { targets: Arc::new(targets), ..Self::of(parts) }
    }

    async fn all(&self, stage: Stage) {
        let mut reached = self.reached.subscribe();
        // The sender lives as long as this.
        let _ = reached.wait_for(|reached| reached[stage as usize] >= self.parts).await;
    }
}

impl Part {
    /// A part that has not begun.
    pub fn new(name: String, together: Together) -> Arc<Self> {
        let (target, said, values, reached) = Default::default();
        Arc::new(Self { name, target, said, values, reached, together })
    }

    /// Does this part's work. Nobody waits for a part that has ended.
    pub async fn work<T>(self: &Arc<Self>, work: impl Future<Output = T>) -> T {
        let done = PART.scope(self.clone(), work).await;
        self.reach(Stage::Planned);
        self.reach(Stage::Approved);
        done
    }

    /// What all parts declare, as far as it can be read.
    pub fn declared(&self) -> &[Cluster] {
        let Together { targets, declared, .. } = &self.together;
        declared.get_or_init(|| targets.iter().filter_map(|one| documents::declared(one).ok()).collect())
    }

    fn reach(&self, stage: Stage) {
        let before = std::mem::replace(&mut lock(&self.reached)[stage as usize], true);
        if !before {
            self.together.reached.send_modify(|reached| reached[stage as usize] += 1);
        }
    }

    /// Keeps a text that is printed later, with all else of this cluster.
    pub fn keep(&self, text: &str) {
        let mut said = lock(&self.said);
        said.push_str(text);
        if !text.ends_with('\n') {
            said.push('\n');
        }
    }

    /// Keeps a value for programs.
    pub fn keep_value(&self, value: Json) {
        lock(&self.values).push(value);
    }

    /// What was kept so far, below the cluster's name; none if it said nothing since.
    pub fn take(&self) -> Option<String> {
        let said = std::mem::take(&mut *lock(&self.said));
        (!said.is_empty()).then(|| format!("── {} ──\n{said}", self.name))
    }

    /// The last value for programs.
    pub fn take_value(&self) -> Json {
        lock(&self.values).pop().unwrap_or_default()
    }
}

/// The part that is being worked on; none where a command is about one cluster.
pub fn current() -> Option<Arc<Part>> {
    PART.try_with(Arc::clone).ok()
}

/// Waits until every part has come so far, or has ended.
pub async fn all(stage: Stage) {
    if let Some(part) = current() {
        part.reach(stage);
        part.together.all(stage).await;
    }
}

/// Work for the same part in a task of its own.
pub async fn inherit<T>(part: Option<Arc<Part>>, work: impl Future<Output = T>) -> T {
    match part {
        Some(part) => PART.scope(part, work).await,
        None => work.await,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn nobody_is_changed_before_all_are_agreed_to_and_nobody_waits_for_whoever_ended() {
        let together = Together::of(3);
        let log: Mutex<Vec<String>> = Mutex::default();
        let note = |what: &str| lock(&log).push(what.to_owned());
        let parts = ["home", "away", "gone"].map(|name| Part::new(name.to_owned(), together.clone()));
        let work = |part: &Arc<Part>| {
            let name = part.name.clone();
            async move {
                if name == "gone" {
                    return;
                }
                tokio::task::yield_now().await;
                note(&format!("{name} planned"));
                all(Stage::Planned).await;
                note("asked");
                all(Stage::Approved).await;
                note("changed");
            }
        };
        join_all(parts.iter().map(|part| part.work(work(part)))).await;
        let log = log.into_inner().unwrap();
        assert_eq!(log, ["home planned", "away planned", "asked", "asked", "changed", "changed"]);
    }

    #[tokio::test]
    async fn what_a_part_says_stays_together() {
        let part = Part::new("home".to_owned(), Together::of(1));
        part.work(async { current().unwrap().keep("one\ntwo") }).await;
        assert_eq!(part.take().as_deref(), Some("── home ──\none\ntwo\n"));
        assert_eq!(part.take(), None);
        assert!(current().is_none());
    }
}
