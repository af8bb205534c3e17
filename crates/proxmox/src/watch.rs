//! Waits for any number of tasks with few calls.
//!
//! One background loop looks after all tasks of a client. It reads task *lists*, so that one call serves every task that
//! is waited for: the cluster's list while tasks run on several nodes and the token may see them there, else one list per
//! node. When it looks is a matter of how long such tasks took so far; in between it stays silent.

use std::{collections::BTreeMap, future::Future, pin::Pin, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{
    client::Client,
    error::{Error, Kind, Missing},
    estimate::{Bracket, Estimate, Estimates},
    task::{TaskFilter, TaskOutcome, TaskRow, TaskSource, TaskState},
    upid::Upid,
};

/// How attentively tasks are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// How long after its end a task's end may be noticed, mostly.
    pub slack: Duration,
    /// The same for [`TaskWatcher::wait_relaxed`].
    pub relaxed_slack: Duration,
    /// For how long a node may fail to list its tasks before the waits for them fail.
    pub patience: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            slack: Duration::from_millis(250),
            relaxed_slack: Duration::from_secs(2),
            patience: Duration::from_secs(120),
        }
    }
}

/// Waits for tasks. Cheap to clone; all clones share one loop, which ends with the last of them.
#[derive(Clone)]
pub struct TaskWatcher {
    requests: mpsc::UnboundedSender<Request>,
    options: WatchOptions,
}

type Waiter = oneshot::Sender<Result<TaskOutcome, Error>>;

struct Request {
    upid: Upid,
    fresh: bool,
    slack: Duration,
    waiter: Waiter,
}

impl TaskWatcher {
    /// Starts the loop; must be called inside a tokio runtime.
    pub fn new(client: &Client) -> Self {
        Self::with_options(client, WatchOptions::default())
    }

    /// The same with other options.
    pub fn with_options(client: &Client, options: WatchOptions) -> Self {
        let (requests, inbox) = mpsc::unbounded_channel();
        tokio::spawn(Watch::new(client.apart(), options).run(inbox));
        Self { requests, options }
    }

    /// Waits for a task that was started just now.
    pub async fn wait(&self, upid: &Upid) -> Result<TaskOutcome, Error> {
        self.watch(upid, true, self.options.slack).await
    }

    /// Waits for a task that was started just now and whose end is not urgent: looks that are made for other tasks
    /// mostly suffice.
    pub async fn wait_relaxed(&self, upid: &Upid) -> Result<TaskOutcome, Error> {
        self.watch(upid, true, self.options.relaxed_slack).await
    }

    /// Waits for a task that may have been started long ago.
    pub async fn join(&self, upid: &Upid) -> Result<TaskOutcome, Error> {
        self.watch(upid, false, self.options.slack).await
    }

    /// Waits for a task that was started just now and makes its failure an error of `operation`, which reads on after
    /// "could not".
    pub async fn finish(&self, upid: &Upid, operation: impl Into<String>) -> Result<(), Error> {
        self.wait(upid).await?.into_result(operation)
    }

    async fn watch(&self, upid: &Upid, fresh: bool, slack: Duration) -> Result<TaskOutcome, Error> {
        let (waiter, answer) = oneshot::channel();
        let gone = || {
            let text = "nobody watches tasks any more".to_owned();
            Error::new(format!("wait for task {upid}"), Kind::Protocol { text })
        };
        self.requests.send(Request { upid: upid.clone(), fresh, slack, waiter }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// A task that is waited for.
struct Watched {
    upid: Upid,
    began: Instant,
    fresh: bool,
    slack: Duration,
    waiters: Vec<Waiter>,
    /// When it was last seen running.
    ran_at: Option<Instant>,
    /// When a look that should show it was last made.
    looked_at: Option<Instant>,
    /// The cluster's list did not show it.
    not_in_cluster_list: bool,
    /// How often its node's list did not show it.
    not_in_node_list: u32,
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Cluster,
    Node(String),
    Task(Upid),
}

struct Look {
    place: Place,
    /// Tasks that it should show.
    covered: Vec<Upid>,
    sent: Instant,
    result: Result<Vec<(Upid, TaskState, Option<u64>)>, Error>,
}

struct Watch {
    client: Client,
    options: WatchOptions,
    tasks: BTreeMap<Upid, Watched>,
    estimates: Estimates,
    /// Running mean of how long a look takes.
    round_trip: f64,
    cluster_list_useful: bool,
    cluster_list_misses: u32,
    /// The latest start by each node's clock, and when it was heard of.
    clocks: BTreeMap<String, (u32, Instant)>,
    /// Since when, and until when not to look again.
    failing: BTreeMap<Place, (Instant, Instant)>,
}

/// How much later the next look may be at a task of this age: a little in proportion, and ever more the longer it takes
/// beyond what such tasks took so far.
fn patience(age: Duration, estimate: Option<Estimate>) -> Duration {
    let expected = estimate.map_or(0.0, |estimate| estimate.mean + 2.0 * estimate.deviation);
    let beyond = (age.as_secs_f64() - expected).max(0.0) * 0.1;
    let known = (age.as_secs_f64() * 0.02).min(1.0);
    Duration::from_secs_f64(beyond.min(LONGEST_PAUSE).max(known))
}

/// Seconds between two looks at a task, at most.
const LONGEST_PAUSE: f64 = 10.0;

type Looking = Pin<Box<dyn Future<Output = Look> + Send>>;

impl Watch {
    fn new(client: Client, options: WatchOptions) -> Self {
        Self {
            client,
            options,
            tasks: BTreeMap::new(),
            estimates: Estimates::default(),
            round_trip: 0.0,
            cluster_list_useful: true,
            cluster_list_misses: 0,
            clocks: BTreeMap::new(),
            failing: BTreeMap::new(),
        }
    }

    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Request>) {
        let mut looking: FuturesUnordered<Looking> = FuturesUnordered::new();
        let mut busy: Vec<Place> = Vec::new();
        let mut warmed_for: Vec<Instant> = Vec::new();
        loop {
            let next = self.next_look(&busy);
            // Opening a connection takes longer than a look; it is done before the look is due.
            let warm_at = next.as_ref().and_then(|(_, due)| {
                let at = due.checked_sub(self.client.connect_time().mul_f64(1.2))?;
                (at > Instant::now() && !warmed_for.contains(due)).then_some(at)
            });
            let sleep = async {
                match (warm_at, &next) {
                    (Some(at), _) => tokio::time::sleep_until(at).await,
                    (None, Some((_, due))) => tokio::time::sleep_until(*due).await,
                    (None, None) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                request = inbox.recv() => match request {
                    Some(request) => self.add(request),
                    None => return,
                },
                Some(look) = looking.next(), if !looking.is_empty() => {
                    busy.retain(|place| *place != look.place);
                    self.take_in(look);
                }
                () = sleep => {
                    if let (Some(_), Some((_, due))) = (warm_at, &next) {
                        warmed_for.retain(|due| *due > Instant::now());
                        warmed_for.push(*due);
                        let (client, due, count) = (self.client.clone(), *due, warmed_for.len());
                        tokio::spawn(async move { client.warm(due, count).await });
                    } else if let Some((place, _)) = next {
                        self.forget_abandoned();
                        if let Some(look) = self.look(&place) {
                            busy.push(place);
                            looking.push(look);
                        }
                    }
                }
            }
        }
    }

    fn add(&mut self, request: Request) {
        let Request { upid, fresh, slack, waiter } = request;
        let fresh = fresh && self.started_just_now(&upid);
        let task = self.tasks.entry(upid.clone()).or_insert_with(|| Watched {
            upid,
            began: Instant::now(),
            fresh,
            slack,
            waiters: Vec::new(),
            ran_at: None,
            looked_at: None,
            not_in_cluster_list: false,
            not_in_node_list: 0,
        });
        task.slack = task.slack.min(slack);
        task.waiters.push(waiter);
    }

    /// Whether a task is as young as its caller says, judged by what other tasks told of its node's clock: one that was
    /// started long ago may end at any moment, and teaches nothing about durations.
    fn started_just_now(&mut self, upid: &Upid) -> bool {
        let (now, started) = (Instant::now(), u64::from(upid.start_time()));
        let clock = self.clocks.entry(upid.node().to_owned()).or_insert((upid.start_time(), now));
        let node_time = u64::from(clock.0) + now.duration_since(clock.1).as_secs();
        if started >= node_time {
            *clock = (upid.start_time(), now);
        }
        started + 3 >= node_time
    }

    fn forget_abandoned(&mut self) {
        self.tasks.retain(|_, task| task.waiters.iter().any(|waiter| !waiter.is_closed()));
    }

    /// Time between looks that keeps within a slack.
    fn step(&self, slack: Duration) -> Duration {
        // What a look shows is half a round trip old when it is known.
        slack.saturating_sub(Duration::from_secs_f64(self.round_trip / 2.0)).max(Duration::from_millis(80))
    }

    fn due(&self, task: &Watched) -> Instant {
        let step = self.step(task.slack);
        let estimate = self.estimates.get(task.upid.node(), task.upid.kind());
        let first = if task.fresh {
            let relaxed = task.slack.saturating_sub(self.options.slack);
            task.began
                + estimate
                    .map_or(step, |estimate| estimate.first_look(self.step(self.options.slack)) + relaxed)
        } else {
            task.began
        };
        let Some(looked) = task.looked_at else { return first };
        first.max(looked + step.max(patience(looked.duration_since(task.began), estimate)))
    }

    fn place(&self, task: &Watched, several_nodes: bool) -> Place {
        if task.not_in_node_list >= 2 {
            Place::Task(task.upid.clone())
        } else if several_nodes && self.cluster_list_useful && !task.not_in_cluster_list {
            Place::Cluster
        } else {
            Place::Node(task.upid.node().to_owned())
        }
    }

    fn several_nodes(&self) -> bool {
        let mut nodes = self.tasks.values().map(|task| task.upid.node());
        let first = nodes.next();
        nodes.any(|node| Some(node) != first)
    }

    /// The place to look at next, and when.
    fn next_look(&self, busy: &[Place]) -> Option<(Place, Instant)> {
        let several = self.several_nodes();
        let mut best: Option<(Place, Instant)> = None;
        for task in self.tasks.values() {
            let place = self.place(task, several);
            if busy.contains(&place) {
                continue;
            }
            let rest = self.failing.get(&place).map(|(_, until)| *until);
            let due = rest.map_or_else(|| self.due(task), |until| self.due(task).max(until));
            if best.as_ref().is_none_or(|(_, earliest)| due < *earliest) {
                best = Some((place, due));
            }
        }
        best
    }

    fn look(&mut self, place: &Place) -> Option<Looking> {
        let several = self.several_nodes();
        let covered: Vec<Upid> = self
            .tasks
            .values()
            .filter(|task| self.place(task, several) == *place)
            .map(|task| task.upid.clone())
            .collect();
        let since = covered.iter().map(Upid::start_time).min()?;
        let now = Instant::now();
        for upid in &covered {
            if let Some(task) = self.tasks.get_mut(upid) {
                task.looked_at = Some(now);
            }
        }
        let (client, place) = (self.client.clone(), place.clone());
        let filter = TaskFilter {
            source: TaskSource::All,
            since: Some(since.into()),
            user: Some(client.user().to_owned()),
            limit: Some(1000),
            ..TaskFilter::default()
        };
        Some(Box::pin(async move {
            let rows = |rows: Vec<TaskRow>| {
                rows.into_iter().map(|row| (row.upid.clone(), row.state(), row.endtime)).collect()
            };
            let result = match &place {
                Place::Cluster => client.cluster_tasks().await.map(rows),
                Place::Node(node) => client.tasks(node, &filter).await.map(rows),
                Place::Task(upid) => {
                    client.task_state(upid).await.map(|state| vec![(upid.clone(), state, None)])
                }
            };
            Look { place, covered, sent: now, result }
        }))
    }

    fn take_in(&mut self, look: Look) {
        let Look { place, covered, sent, result } = look;
        let rows = match result {
            Ok(rows) => rows,
            Err(error) => return self.take_failure(&place, &covered, &error),
        };
        self.failing.remove(&place);
        let took = sent.elapsed();
        // The first look is all there is to go by; from then on it is the mean that counts.
        let weight = if self.round_trip > 0.0 { 0.25 } else { 1.0 };
        self.round_trip += (took.as_secs_f64() - self.round_trip) * weight;
        let seen_at = sent + took / 2;
        let mut rows: BTreeMap<Upid, (TaskState, Option<u64>)> =
            rows.into_iter().map(|(upid, state, end)| (upid, (state, end))).collect();
        let mut shown = 0;
        for upid in &covered {
            match rows.remove(upid) {
                Some((TaskState::Running, _)) => {
                    shown += 1;
                    if let Some(task) = self.tasks.get_mut(upid) {
                        task.ran_at = Some(seen_at);
                    }
                }
                Some((TaskState::Ended(outcome), end)) => {
                    shown += 1;
                    if let Some(task) = self.tasks.remove(upid) {
                        self.end(task, &outcome, end, seen_at);
                    }
                }
                None => self.take_absence(&place, upid),
            }
        }
        if place == Place::Cluster {
            self.cluster_list_misses = if shown == 0 { self.cluster_list_misses + 1 } else { 0 };
            self.cluster_list_useful = self.cluster_list_misses < 2;
        }
    }

    /// A list did not show a task that it should. It is looked for elsewhere, at once.
    fn take_absence(&mut self, place: &Place, upid: &Upid) {
        let Some(task) = self.tasks.get_mut(upid) else { return };
        match place {
            Place::Cluster => {
                task.not_in_cluster_list = true;
                task.looked_at = None;
                task.fresh &= task.ran_at.is_none();
            }
            Place::Node(_) => task.not_in_node_list += 1,
            Place::Task(_) => {}
        }
    }

    fn take_failure(&mut self, place: &Place, covered: &[Upid], error: &Error) {
        let now = Instant::now();
        let hopeless = match error.kind() {
            Kind::Permission { .. }
            | Kind::Auth { .. }
            | Kind::Untrusted { .. }
            | Kind::NotImplemented { .. }
            | Kind::Parameter { .. }
            | Kind::NotFound { what: Missing::Task | Missing::Node(_), .. } => true,
            _ if *place == Place::Cluster => false,
            _ => {
                let (since, _) = self.failing.get(place).copied().unwrap_or((now, now));
                now.duration_since(since) >= self.options.patience
            }
        };
        let (since, _) = self.failing.get(place).copied().unwrap_or((now, now));
        self.failing.insert(place.clone(), (since, now + Duration::from_secs(1)));
        if *place == Place::Cluster {
            // The nodes' own lists are asked instead; they decide about failing.
            self.cluster_list_useful &= !hopeless;
            for upid in covered {
                self.take_absence(place, upid);
            }
        } else if hopeless {
            self.failing.remove(place);
            for upid in covered {
                for waiter in self.tasks.remove(upid).into_iter().flat_map(|task| task.waiters) {
                    let error = Error::new(format!("wait for task {upid}"), error.kind().clone());
                    let _ = waiter.send(Err(error));
                }
            }
        }
    }

    fn end(&mut self, task: Watched, outcome: &TaskOutcome, end: Option<u64>, seen_at: Instant) {
        let Watched { upid, began, fresh, waiters, ran_at, .. } = task;
        if fresh && outcome.is_success() {
            let mut high = seen_at.saturating_duration_since(began);
            let mut low = ran_at.map_or(Duration::ZERO, |ran| ran.saturating_duration_since(began));
            // The node's clock tells the duration to a second either way.
            if let Some(seconds) = end.and_then(|end| end.checked_sub(upid.start_time().into())) {
                let by_clock = Duration::from_secs(seconds);
                let (from, to) =
                    (by_clock.saturating_sub(Duration::from_secs(1)), by_clock + Duration::from_secs(1));
                if from <= high && to >= low {
                    (low, high) = (low.max(from), high.min(to));
                }
            }
            let step = self.step(self.options.slack);
            self.estimates.learn(upid.node(), upid.kind(), Bracket { low, high }, step);
        }
        for waiter in waiters {
            let _ = waiter.send(Ok(outcome.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a task of unknown duration is looked at, and how late its end is noticed.
    fn looks(seconds: f64) -> (u32, f64) {
        let (mut count, mut age) = (0, 0.0);
        while age < seconds {
            age += patience(Duration::from_secs_f64(age), None).as_secs_f64().max(0.25);
            count += 1;
        }
        (count, age - seconds)
    }

    #[test]
    fn the_longer_a_task_takes_the_rarer_it_is_looked_at() {
        for (seconds, most) in [(2.0, 10), (60.0, 50), (600.0, 110)] {
            let (count, late) = looks(seconds);
            assert!(
                count <= most && late <= 0.25 + seconds / 10.0,
                "{seconds} s: {count} looks, {late} s late"
            );
        }
    }

    #[test]
    fn what_is_known_to_take_long_is_noticed_in_time() {
        let mut estimates = Estimates::default();
        let minute = Duration::from_secs(60);
        let bracket = Bracket { low: minute, high: minute + Duration::from_millis(250) };
        (0..5).for_each(|_| estimates.learn("n", "k", bracket, Duration::from_millis(250)));
        let known = estimates.get("n", "k");
        assert!(patience(minute, known) <= Duration::from_secs(1), "{:?}", patience(minute, known));
        assert!(patience(minute * 3, known) >= Duration::from_secs(10));
    }
}
