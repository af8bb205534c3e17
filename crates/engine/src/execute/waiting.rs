//! Waits: for a node's API, for etcd, for the endpoint, for Ready. Each ends within a moment of what it waits for.

use std::convert::Infallible;
use std::time::Duration;

use daedal_dial::Target;
use daedal_inventory::Role;
use daedal_planner::Step;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::error::{Error, chain};
use crate::event::{Event, stage};
use crate::execute::{Executor, Outcome};
use crate::kubernetes::{API_SERVER_PORT, Followed};
use crate::nodes::{Membership, Probe};

/// What a wait tells of itself, and when it has had enough.
pub(super) struct Waiter<'e> {
    executor: &'e Executor<'e>,
    step: &'e Step,
    what: String,
    patience: Duration,
    began: Instant,
    pause: Duration,
    last: Option<String>,
}

impl<'e> Waiter<'e> {
    pub(super) fn new(executor: &'e Executor<'e>, step: &'e Step, what: String, patience: Duration) -> Self {
        executor.waiting(step, what.clone(), Duration::ZERO);
        let pause = executor.engine.parts.limits.poll.0;
        Self { executor, step, what, patience, began: Instant::now(), pause, last: None }
    }

    /// Takes note of why it is not there yet, and waits a moment.
    pub(super) async fn pause(&mut self, why: String) -> Result<(), Error> {
        self.note(why)?;
        self.executor.sleep(self.pause).await?;
        self.pause = (self.pause * 5 / 4).min(self.executor.engine.parts.limits.poll.1);
        Ok(())
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
}

impl Executor<'_> {
    pub(super) fn waiting(&self, step: &Step, what: String, since: Duration) {
        self.run.tell(Event::StepWaiting {
            step: step.id,
            node: step.node.clone(),
            stage: stage(&step.action),
            what,
            since,
        });
    }

    pub(super) async fn await_api(&self, step: &Step) -> Result<Outcome, Error> {
        let (node, limits) = (self.node(step)?, &self.engine.parts.limits);
        let nodes = self.nodes().await?;
        let mut wait =
            Waiter::new(self, step, format!("Talos to answer on {}", node.address.addr()), limits.boot);
        let mut first = true;
        loop {
            match nodes.probe(node, limits.probe_timeout).await {
                Probe::Configured { .. } => {
                    return Ok(if first { Outcome::AlreadyDone } else { Outcome::Done });
                }
                Probe::OtherCluster => return Err(Error::OtherCluster { node: node.name.clone() }),
                Probe::Maintenance => return Err(Error::Maintenance { node: node.name.clone() }),
                Probe::Unreachable(why) => wait.pause(why).await?,
            }
            first = false;
        }
    }

    pub(super) async fn await_etcd(&self, step: &Step) -> Result<Outcome, Error> {
        let (node, limits) = (self.node(step)?, &self.engine.parts.limits);
        let nodes = self.nodes().await?;
        let mut wait =
            Waiter::new(self, step, format!("etcd to take {} as a member", node.name), limits.etcd);
        let mut first = true;
        loop {
            match nodes.members(node, limits.probe_timeout).await {
                Membership::Of(members) => match members.iter().find(|member| member.name == node.name) {
                    Some(member) if !member.learner => {
                        return Ok(if first { Outcome::AlreadyDone } else { Outcome::Done });
                    }
                    Some(_) => wait.pause("it is a learner".to_owned()).await?,
                    None => wait.pause("it is not a member yet".to_owned()).await?,
                },
                Membership::NotJoined(why) | Membership::Unreachable(why) => wait.pause(why).await?,
            }
            first = false;
        }
    }

    pub(super) async fn await_endpoint(&self, step: &Step) -> Result<Outcome, Error> {
        let limits = &self.engine.parts.limits;
        let target = self.endpoint();
        let kubernetes = self.kubernetes().await?;
        let mut wait = Waiter::new(self, step, format!("the API server on {target}"), limits.endpoint);
        let mut first = true;
        while let Err(error) = kubernetes.answers(&target, limits.probe_timeout).await {
            wait.pause(chain(&error)).await?;
            first = false;
        }
        Ok(if first { Outcome::AlreadyDone } else { Outcome::Done })
    }

    pub(super) async fn await_ready(&self, step: &Step) -> Result<Outcome, Error> {
        let node = self.node(step)?;
        let patience = self.engine.parts.limits.ready;
        let mut followed = self.readiness.follow();
        let mut wait = Waiter::new(self, step, format!("Kubernetes to call {} Ready", node.name), patience);
        let mut first = true;
        loop {
            let state = {
                let now = followed.borrow_and_update();
                match (now.nodes.get(&node.name), &now.trouble) {
                    (Some(seen), _) if seen.ready => {
                        return Ok(if first { Outcome::AlreadyDone } else { Outcome::Done });
                    }
                    (Some(_), _) => "it is NotReady".to_owned(),
                    (None, Some(trouble)) => trouble.clone(),
                    (None, None) => "it has not registered".to_owned(),
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

    /// The declared endpoint.
    pub(super) fn endpoint(&self) -> Target {
        Target::new(&self.cluster.kubernetes.endpoint_host, self.cluster.kubernetes.endpoint_port)
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

    /// Keeps the watch going once somebody wants it, on whichever control plane answers.
    pub(super) async fn drive(&self, executor: &Executor<'_>) -> Infallible {
        self.wanted.notified().await;
        let limits = &executor.engine.parts.limits;
        let targets: Vec<Target> = executor
            .cluster
            .nodes
            .iter()
            .filter(|node| node.role == Role::ControlPlane)
            .map(|node| Target::new(node.address.addr().to_string(), API_SERVER_PORT))
            .collect();
        loop {
            for target in &targets {
                let followed = match executor.kubernetes().await {
                    Ok(kubernetes) => kubernetes.follow(target, limits.probe_timeout, &self.followed).await,
                    Err(error) => Err(error),
                };
                match followed {
                    // The server ended the watch in good order: list again at once.
                    Ok(()) => {}
                    Err(error) => {
                        let why = chain(&error);
                        self.followed.send_if_modified(|followed| {
                            let news = followed.trouble.as_ref() != Some(&why);
                            followed.trouble = Some(why.clone());
                            news
                        });
                    }
                }
                tokio::time::sleep(limits.poll.0).await;
            }
        }
    }
}
