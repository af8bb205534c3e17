//! Waits: for a node's API, for etcd, for the endpoint, for Ready. Each ends within a moment of what it waits for.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use daedal_dial::Target;
use daedal_inventory::Node;
use daedal_planner::Step;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::addresses;
use crate::error::{Error, chain};
use crate::event::{Event, StepRef};
use crate::execute::give::Heard;
use crate::execute::{Executor, Outcome};
use crate::kubernetes::{API_SERVER_PORT, Beginning, Followed, KubeNode, Kubernetes};
use crate::limits::Limits;
use crate::node_identities::NodeIdentities;
use crate::nodes::{Member, Membership, Nodes, Probe};

/// Tries of one wait that may be under way at once.
const TRIES: usize = 24;
/// Every so many tries, one gets the whole patience; the others give their place to the next sooner.
const SLOW: u32 = 8;
/// Between two looks at what tells of its changes by itself.
const TOLD: Duration = Duration::from_secs(1);

/// What a look has shown.
pub(super) enum Look<T> {
    /// What was waited for, or that it will never come.
    Ended(Result<T, Error>),
    /// Not yet, and why.
    NotYet(String),
    /// Not yet, and why; if it changes, it is [`News`].
    Told(String),
}

/// Wakes a wait when there may be something new to see.
#[derive(Default)]
pub(super) struct News {
    changed: Notify,
    live: AtomicBool,
}

impl News {
    /// There is something new to see.
    pub(super) fn told(&self) {
        self.changed.notify_one();
    }

    /// Whether changes are told at the moment. Either way it is time for a look: something may have been missed.
    fn live(&self, live: bool) {
        self.live.store(live, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

/// What a wait tells of itself, and when it has had enough.
pub(super) struct Waiter<'e> {
    executor: &'e Executor<'e>,
    step: &'e Step,
    what: String,
    patience: Duration,
    began: Instant,
    every: Duration,
    last: Option<String>,
}

impl<'e> Waiter<'e> {
    pub(super) fn new(executor: &'e Executor<'e>, step: &'e Step, what: String, patience: Duration) -> Self {
        executor.waiting(step, what.clone(), Duration::ZERO);
        let every = executor.engine.parts.limits.attempt_every;
        Self { executor, step, what, patience, began: Instant::now(), every, last: None }
    }

    /// The same with another time between two looks.
    pub(super) fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Takes note of why it is not there yet, and waits a moment.
    pub(super) async fn pause(&mut self, why: String) -> Result<(), Error> {
        self.note(why)?;
        self.executor.sleep(self.every).await
    }

    fn note(&mut self, why: String) -> Result<(), Error> {
        let since = self.began.elapsed();
        if since >= self.patience {
            return Err(Error::Deadline { what: self.what.clone(), after: self.patience, last: Some(why) });
        }
        if self.last.as_ref() != Some(&why) {
            self.executor.waiting(self.step, format!("{} ({why})", self.what), since);
            self.last = Some(why);
        }
        Ok(())
    }

    /// Looks until it has ended. The next look begins when its time has come or there is news, whether or not the ones
    /// before were answered; the first answer counts, and with it all others are dropped. Each look gets its patience.
    pub(super) async fn until<T, F>(
        &mut self,
        news: &News,
        mut look: impl FnMut(Duration) -> F,
    ) -> Result<(T, bool), Error>
    where
        F: Future<Output = Look<T>>,
    {
        let executor = self.executor;
        let limits = &executor.engine.parts.limits;
        let mut looks = 0_u32;
        let mut looking = FuturesUnordered::new();
        let mut due = Instant::now();
        let mut first = true;
        loop {
            tokio::select! {
                biased;
                () = executor.run.stop.cancelled() => return Err(Error::Stopped),
                Some(seen) = looking.next(), if !looking.is_empty() => {
                    let (why, told) = match seen {
                        Look::Ended(ended) => return ended.map(|ended| (ended, first)),
                        Look::NotYet(why) => (why, false),
                        Look::Told(why) => (why, news.live.load(Ordering::Relaxed)),
                    };
                    first = false;
                    self.note(why)?;
                    if told {
                        due = Instant::now() + TOLD;
                    }
                }
                () = news.changed.notified() => due = Instant::now(),
                () = tokio::time::sleep_until(due) => {
                    // Each wait may always have one try under way, and more while not everybody does.
                    let room = looking.len() < TRIES;
                    let permit = executor.engine.site.overlaps().try_acquire().ok();
                    if room && (permit.is_some() || looking.is_empty()) {
                        // What is lost stays lost, and what is slow must get its time now and then.
                        let slow = looks.is_multiple_of(SLOW);
                        looks += 1;
                        let look = look(if slow { limits.probe_timeout } else { limits.probe_timeout / 6 });
                        looking.push(async move {
                            let seen = look.await;
                            drop(permit);
                            seen
                        });
                    }
                    due = Instant::now() + self.every;
                }
            }
        }
    }
}

impl Executor<'_> {
    pub(super) fn waiting(&self, step: &Step, what: String, since: Duration) {
        self.run.tell(Event::StepWaiting { of: StepRef::of(step), what, since });
    }

    pub(super) async fn await_api(&self, step: &Step) -> Result<Outcome, Error> {
        let (node, limits) = (self.node(step)?, &self.engine.parts.limits);
        let nodes = self.nodes().await?;
        let what = match self.addresses.of(node) {
            Some(address) => format!("Talos to answer on {address}"),
            None => format!("Talos to answer on {}, wherever it is", node.name),
        };
        let mut wait = Waiter::new(self, step, what, limits.boot);
        let look = |patience| async move {
            match nodes.reach(node, patience).await {
                Ok(()) | Err(Probe::Configured { .. }) => Look::Ended(Ok(())),
                Err(Probe::OtherCluster) => {
                    let (node, address) = (node.name.clone(), self.addresses.of(node));
                    Look::Ended(Err(Error::OtherCluster { node, address }))
                }
                // One that was just given its config leaves maintenance mode a moment later.
                Err(Probe::Maintenance) if self.was_given(node.vmid) => {
                    Look::NotYet("it takes its config".to_owned())
                }
                Err(Probe::Maintenance) => Look::Ended(Err(Error::Maintenance { node: node.name.clone() })),
                Err(Probe::Unreachable(unreached)) => Look::NotYet(unreached.why),
            }
        };
        let (heard, news) = (Heard::default(), News::default());
        tokio::select! {
            biased;
            never = self.ask_agent(step, node.vmid, node, &heard, &news), if node.address.is_none() => match never {},
            ended = wait.until(&news, look) => ended.map(outcome),
        }
    }

    pub(super) async fn await_etcd(&self, step: &Step) -> Result<Outcome, Error> {
        let (node, limits) = (self.node(step)?, &self.engine.parts.limits);
        let nodes = self.nodes().await?;
        let mut wait =
            Waiter::new(self, step, format!("etcd to take {} as a member", node.name), limits.etcd);
        let news = News::default();
        let look = |patience| async move {
            match nodes.members(node, patience).await {
                Membership::Of { members, own } => {
                    let is = |one: &&Member| match own {
                        Some(own) => one.id == own,
                        None => self.is_of(one, &node.name),
                    };
                    match members.iter().find(is) {
                        Some(member) if !member.learner => Look::Ended(Ok(())),
                        // That it votes is no news of its service, which runs already.
                        Some(_) => Look::NotYet("it is a learner".to_owned()),
                        None => Look::NotYet("it is not a member yet".to_owned()),
                    }
                }
                Membership::NotJoined(why) | Membership::Unreachable(why) => Look::Told(why),
            }
        };
        tokio::select! {
            biased;
            never = self.tell_of_etcd(nodes, node, &news) => match never {},
            ended = wait.until(&news, look) => ended.map(outcome),
        }
    }

    /// Whether a member of etcd is this node's, whatever it calls itself.
    pub(super) fn is_of(&self, member: &Member, node: &str) -> bool {
        self.identities.of_member(member, None).name == node
    }

    /// Tells of every change of a node's etcd service for as long as it can be watched.
    async fn tell_of_etcd(&self, nodes: &Nodes, node: &Node, news: &News) -> Infallible {
        let limits = &self.engine.parts.limits;
        loop {
            if let Ok(mut events) = nodes.follow_etcd(node, limits.probe_timeout).await {
                while let Some(Ok(_)) = events.next().await {
                    news.live(true);
                }
                news.live(false);
            }
            tokio::time::sleep(limits.attempt_every).await;
        }
    }

    pub(super) async fn await_endpoint(&self, step: &Step) -> Result<Outcome, Error> {
        let limits = &self.engine.parts.limits;
        let target = &self.endpoint();
        let kubernetes = self.kubernetes().await?;
        let what = format!("https://{target}");
        // Its answer takes one exchange more than a node's handshake, and everybody waits for it.
        let mut wait = Waiter::new(self, step, what, limits.endpoint).every(limits.attempt_every / 2);
        let look = |patience| async move {
            match kubernetes.answers(target, patience).await {
                Ok(()) => Look::Ended(Ok(())),
                Err(error @ Error::OtherAuthority { .. }) => Look::Ended(Err(error)),
                Err(error) => Look::NotYet(chain(&error)),
            }
        };
        wait.until(&News::default(), look).await.map(outcome)
    }

    pub(super) async fn await_ready(&self, step: &Step) -> Result<Outcome, Error> {
        let node = self.node(step)?;
        let patience = self.engine.parts.limits.ready;
        let mut followed = self.readiness.follow();
        let mut wait = Waiter::new(self, step, format!("Kubernetes to call {} Ready", node.name), patience);
        let former = self.former_boot(node);
        let mut first = true;
        loop {
            let state = {
                let now = followed.borrow_and_update();
                let memory =
                    |seen: &KubeNode| self.reborn.is_some_and(|at| seen.heartbeat.is_none_or(|h| h < at));
                match (now.nodes.of(&node.name).map(|(_, seen)| seen), &now.trouble, &now.stranger) {
                    (Some(seen), ..) if seen.ready && memory(seen) => {
                        "it has not reported since the restore".to_owned()
                    }
                    (Some(seen), ..) if seen.ready && former.is_some() && seen.boot == former => {
                        "it has not reported since its reboot".to_owned()
                    }
                    (Some(seen), ..) if seen.ready => {
                        return Ok(if first { Outcome::AlreadyDone } else { Outcome::Done });
                    }
                    (.., Some(target)) => {
                        return Err(Error::OtherAuthority { target: target.clone() });
                    }
                    (Some(_), ..) => "it is NotReady".to_owned(),
                    (None, Some(trouble), None) => trouble.clone(),
                    (None, None, None) => "it has not registered".to_owned(),
                }
            };
            first = false;
            wait.note(state)?;
            tokio::select! {
                biased;
                () = self.run.stop.cancelled() => return Err(Error::Stopped),
                changed = followed.changed() => if changed.is_err() { return Err(Error::Stopped) },
                () = tokio::time::sleep(patience.saturating_sub(wait.began.elapsed())) => {}
            }
        }
    }

    /// The endpoint, declared or found.
    pub(super) fn endpoint(&self) -> Target {
        addresses::endpoint(&self.located())
    }
}

/// One watch of the Kubernetes nodes for all steps that wait for one.
pub(crate) struct Readiness {
    wanted: Notify,
    followed: watch::Sender<Followed>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { wanted: Notify::new(), followed: watch::Sender::new(Followed::default()) }
    }
}

impl Readiness {
    fn follow(&self) -> watch::Receiver<Followed> {
        self.wanted.notify_one();
        self.followed.subscribe()
    }

    /// The boot by which Kubernetes knows a node, if it tells in time.
    pub(super) async fn boot_of(&self, node: &str, patience: Duration) -> Option<String> {
        let mut followed = self.follow();
        let told = followed.wait_for(|now| now.nodes.of(node).is_some() || now.stranger.is_some());
        let told = tokio::time::timeout(patience, told).await.ok()?.ok()?;
        told.nodes.of(node).and_then(|(_, seen)| seen.boot.clone())
    }

    /// Keeps the watch going once somebody wants it, on whichever control plane answers.
    pub(super) async fn drive(&self, executor: &Executor<'_>) -> Infallible {
        self.wanted.notified().await;
        let limits = &executor.engine.parts.limits;
        let planes: Vec<&Node> = executor.cluster.control_planes().collect();
        loop {
            let target = |node: &&Node| executor.addresses.target(node, API_SERVER_PORT);
            let targets: Vec<Target> = planes.iter().map(target).collect();
            let followed = match executor.kubernetes().await {
                Ok(kubernetes) => {
                    let beginning = self.begin(kubernetes, &targets, &executor.identities, limits).await;
                    beginning.follow(&executor.identities, limits.probe_timeout, &self.followed).await
                }
                Err(error) => Err(error),
            };
            // A watch that the server ended in good order goes on at once, with a new list.
            if let Err(error) = followed {
                self.trouble(chain(&error));
            }
            tokio::time::sleep(limits.attempt_every).await;
        }
    }

    /// A list of nodes from the first control plane that gives one. All are asked in turn, over and over, whether or
    /// not they answered before.
    async fn begin(
        &self,
        kubernetes: &Kubernetes,
        targets: &[Target],
        identities: &NodeIdentities,
        limits: &Limits,
    ) -> Beginning {
        let mut asked = FuturesUnordered::new();
        let mut strangers: HashSet<&Target> = HashSet::new();
        let mut turns = targets.iter().cycle();
        let mut tick =
            tokio::time::interval(limits.attempt_every / u32::try_from(targets.len()).unwrap_or(1).max(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some((target, answer)) = asked.next(), if !asked.is_empty() => match answer {
                    Ok(beginning) => return beginning,
                    Err(error) => {
                        self.trouble(chain(&error));
                        match error {
                            Error::OtherAuthority { .. } => strangers.insert(target),
                            _ => strangers.remove(target),
                        };
                        // While one is of the kept authority, be it silent, there is somebody to wait for.
                        let only = targets.iter().all(|target| strangers.contains(target));
                        self.strangers_only(only.then(|| target.to_string()));
                    }
                },
                _ = tick.tick(), if asked.len() < TRIES * targets.len().max(1) => {
                    if let Some(target) = turns.next() {
                        let begin = kubernetes.begin(target, identities, limits.probe_timeout);
                        asked.push(async move { (target, begin.await) });
                    }
                }
            }
        }
    }

    fn strangers_only(&self, stranger: Option<String>) {
        self.followed.send_if_modified(|followed| {
            let news = followed.stranger.is_some() != stranger.is_some();
            followed.stranger = stranger;
            news
        });
    }

    fn trouble(&self, why: String) {
        self.followed.send_if_modified(|followed| {
            let news = followed.trouble.as_ref() != Some(&why);
            followed.trouble = Some(why);
            news
        });
    }
}

fn outcome(((), first): ((), bool)) -> Outcome {
    if first { Outcome::AlreadyDone } else { Outcome::Done }
}
