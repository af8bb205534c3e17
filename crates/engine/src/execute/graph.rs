//! Runs a graph of steps: each begins as soon as what it needs is done and its turn has come; there are no waves.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daedal_planner::{Fix, Plan, Step, StepId};
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use tokio::time::Instant;

use super::limiter::Limiter;
use crate::error::{Error, ErrorKind, chain};
use crate::event::{Event, StepRef};
use crate::report::{Report, StepState};
use crate::run::Run;

/// How a step's work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Done now.
    Done,
    /// Found done.
    AlreadyDone,
    /// Failed. `peer`: because a peer does not answer, which may pass.
    Failed { failure: Failure, peer: bool },
    /// Ended its wait because the run is being stopped.
    Stopped,
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What sort of failure it is.
    pub(crate) kind: ErrorKind,
    /// The whole error chain in one line.
    pub(crate) error: String,
    /// A command or edit that helps.
    pub(crate) fix: Option<Fix>,
}

impl Failure {
    /// What remains of an error once its step has ended.
    pub(crate) fn of(error: &Error) -> Self {
        Self { kind: error.kind(), error: chain(error), fix: error.fix() }
    }
}

/// The work of one step.
pub(crate) type Work<'a> = Pin<Box<dyn Future<Output = Ended> + Send + 'a>>;

/// Does steps, and says whose turn it is.
pub(crate) trait Worker: Sync {
    /// The work of one step.
    fn work<'a>(&'a self, step: &'a Step) -> Work<'a>;
    /// Where the step must be inside while it works.
    fn limiter(&self, step: &Step) -> Option<Arc<Limiter>>;
    /// What a step waits for before its turn, holding nothing; how it ended if it must not begin.
    fn before<'a>(&'a self, step: &'a Step) -> Pin<Box<dyn Future<Output = Option<Ended>> + Send + 'a>>;
    /// Called when a step begins and when it has ended.
    fn note(&self, step: &Step, ended: Option<&Ended>);
    /// Called when a step failed: what waits for another before its turn must not wait in vain.
    fn failed(&self);
    /// Whether the peer that a step gave up on answers again.
    fn is_back<'a>(&'a self, step: &'a Step) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// How often a step that gave up on a peer is begun anew when the peer is back.
const COMEBACKS: u32 = 3;
/// Between two looks whether a peer is back.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A step that gave up on a peer. What needs it waits until the run has nothing else to do.
struct GaveUp {
    id: StepId,
    failure: Failure,
    took: Duration,
}

struct Finished {
    id: StepId,
    start: Option<Instant>,
    end: Instant,
    ended: Ended,
}

/// Runs the whole plan and reports. Never fails: failures are in the report.
pub(crate) async fn run(worker: &dyn Worker, plan: &Plan, run: &Run, began: Timestamp) -> Report {
    run.tell(Event::RunStarted {
        purpose: plan.purpose,
        cluster: plan.cluster.clone(),
        steps: plan.steps.len(),
        at: began,
    });
    let working = Mutex::new(BTreeMap::new());
    let mut walk = Walk::new(worker, plan, run, began);
    let mut in_flight = FuturesUnordered::new();
    loop {
        for step in walk.begin() {
            in_flight.push(one(worker, step, run, &working));
        }
        let busy = !in_flight.is_empty();
        if !busy && walk.gave_up.is_empty() {
            break;
        }
        tokio::select! {
            biased;
            () = run.abandon.cancelled() => {
                walk.report.cancelled = true;
                break;
            }
            Some(finished) = in_flight.next(), if busy => walk.finished(finished),
            back = back(worker, plan, &walk.gave_up, walk.next_look, run), if !walk.gave_up.is_empty() => {
                walk.looked(&back, busy);
            }
        }
    }
    drop(in_flight);
    walk.end(working.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A run in progress: what is known of its steps.
struct Walk<'a> {
    worker: &'a dyn Worker,
    plan: &'a Plan,
    run: &'a Run,
    origin: Instant,
    report: Report,
    /// By step: which steps need it.
    dependents: Vec<Vec<StepId>>,
    /// By step: how many of its needs are not done.
    unmet: Vec<usize>,
    /// Steps that may begin.
    ready: Vec<StepId>,
    gave_up: Vec<GaveUp>,
    comebacks: BTreeMap<StepId, u32>,
    next_look: Instant,
}

impl<'a> Walk<'a> {
    fn new(worker: &'a dyn Worker, plan: &'a Plan, run: &'a Run, began: Timestamp) -> Self {
        let mut dependents: Vec<Vec<StepId>> = vec![Vec::new(); plan.steps.len()];
        for step in &plan.steps {
            for need in &step.needs {
                if let Some(list) = dependents.get_mut(*need as usize) {
                    list.push(step.id);
                }
            }
        }
        let origin = Instant::now();
        Self {
            worker,
            plan,
            run,
            origin,
            report: Report::blank(plan, began),
            dependents,
            unmet: plan.steps.iter().map(|step| step.needs.len()).collect(),
            ready: plan.steps.iter().filter(|step| step.needs.is_empty()).map(|step| step.id).collect(),
            gave_up: Vec::new(),
            comebacks: BTreeMap::new(),
            next_look: origin,
        }
    }

    /// Takes the steps that may begin.
    fn begin(&mut self) -> Vec<&'a Step> {
        let mut steps = Vec::with_capacity(self.ready.len());
        for id in self.ready.drain(..) {
            let Some(step) = self.plan.steps.get(id as usize) else { continue };
            if let Some(entry) = self.report.steps.get_mut(id as usize) {
                entry.ready = Some(self.origin.elapsed());
            }
            steps.push(step);
        }
        steps
    }

    /// Notes how a step ended, and what may begin now.
    fn finished(&mut self, finished: Finished) {
        let Finished { id, start, end, ended } = finished;
        let Some(entry) = self.report.steps.get_mut(id as usize) else { return };
        entry.start = start.map(|start| start.duration_since(self.origin));
        entry.end = start.map(|_| end.duration_since(self.origin));
        match ended {
            Ended::Done => entry.state = StepState::Done,
            Ended::AlreadyDone => entry.state = StepState::AlreadyDone,
            Ended::Stopped => {
                entry.state = StepState::Left;
                self.report.cancelled = true;
            }
            Ended::Failed { failure, peer } => {
                let took = end.duration_since(start.unwrap_or(end));
                self.failed(GaveUp { id, failure, took }, peer);
            }
        }
        if self.report.steps.get(id as usize).is_some_and(|entry| entry.state.is_done()) {
            self.release(id);
        }
    }

    /// A step failed: for good, unless its peer may come back.
    fn failed(&mut self, one: GaveUp, peer: bool) {
        self.worker.failed();
        let tries = self.comebacks.entry(one.id).or_insert(0u32);
        *tries += 1;
        if peer && *tries <= COMEBACKS && !self.run.stop.is_cancelled() {
            tell_gave_up(self.plan, &one, self.run);
            self.gave_up.push(one);
        } else {
            fail(one, self.plan, &self.dependents, &mut self.report, self.run);
        }
    }

    /// What needed nothing but this step may begin.
    fn release(&mut self, id: StepId) {
        for id in self.dependents.get(id as usize).into_iter().flatten() {
            if let Some(count) = self.unmet.get_mut(*id as usize) {
                *count -= 1;
                if *count == 0 {
                    self.ready.push(*id);
                }
            }
        }
    }

    /// Peers were looked for. Those that are back have their steps begun again; where nothing else is to be done and nobody is
    /// back, the rest failed.
    fn looked(&mut self, back: &[StepId], busy: bool) {
        self.next_look = Instant::now() + LOOK_EVERY;
        let (again, lost): (Vec<GaveUp>, Vec<GaveUp>) =
            self.gave_up.drain(..).partition(|one| back.contains(&one.id));
        self.ready.extend(again.iter().map(|one| one.id));
        if busy || !self.ready.is_empty() {
            self.gave_up = lost;
            return;
        }
        for one in lost {
            fail(one, self.plan, &self.dependents, &mut self.report, self.run);
        }
    }

    /// Closes the report. What was begun and not heard of again may or may not have happened.
    fn end(mut self, working: BTreeMap<StepId, Instant>) -> Report {
        for one in std::mem::take(&mut self.gave_up) {
            fail(one, self.plan, &self.dependents, &mut self.report, self.run);
        }
        let mut report = self.report;
        for (id, start) in working {
            if let Some(entry) = report.steps.get_mut(id as usize) {
                entry.start = Some(start.duration_since(self.origin));
                entry.end = Some(self.origin.elapsed());
                entry.state = StepState::Abandoned;
            }
        }
        report.took = self.origin.elapsed();
        report.find_critical_path();
        let done = report.steps.iter().filter(|step| step.state.is_done()).count();
        let failed = report.failures().count();
        let left = self.plan.steps.len() - done - failed;
        self.run.tell(Event::RunFinished { done, failed, left, took: report.took });
        report
    }
}

/// One step from its turn to its end.
async fn one(
    worker: &dyn Worker,
    step: &Step,
    run: &Run,
    working: &Mutex<BTreeMap<StepId, Instant>>,
) -> Finished {
    let id = step.id;
    let stopped = |start| Finished { id, start, end: Instant::now(), ended: Ended::Stopped };
    let refused = tokio::select! {
        biased;
        () = run.stop.cancelled() => return stopped(None),
        refused = worker.before(step) => refused,
    };
    let limiter = worker.limiter(step).filter(|_| refused.is_none());
    let inside = match &limiter {
        None => None,
        Some(limiter) => tokio::select! {
            biased;
            () = run.stop.cancelled() => return stopped(None),
            inside = limiter.enter() => Some(inside),
        },
    };
    if run.stop.is_cancelled() {
        return stopped(None);
    }
    let start = Instant::now();
    let of = StepRef::of(step);
    run.tell(Event::StepStarted { of: of.clone() });
    worker.note(step, None);
    working.lock().unwrap_or_else(PoisonError::into_inner).insert(id, start);
    let ended = match refused {
        Some(refused) => refused,
        None => worker.work(step).await,
    };
    drop(inside);
    working.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    worker.note(step, Some(&ended));
    let end = Instant::now();
    let took = end.duration_since(start);
    match &ended {
        Ended::Done => run.tell(Event::StepDone { of, already: false, took }),
        Ended::AlreadyDone => run.tell(Event::StepDone { of, already: true, took }),
        // Whether that is the end of it is for the run to say.
        Ended::Failed { .. } => {}
        Ended::Stopped => {
            run.tell(Event::StepSkipped { of, because: "the run is being stopped".into() });
        }
    }
    Finished { id, start: Some(start), end, ended }
}

/// Which of the steps that gave up can go on. Waits for its time to look; looks at once where there is nothing else to do.
async fn back(
    worker: &dyn Worker,
    plan: &Plan,
    gave_up: &[GaveUp],
    next_look: Instant,
    run: &Run,
) -> Vec<StepId> {
    if run.stop.is_cancelled() {
        return Vec::new();
    }
    tokio::time::sleep_until(next_look).await;
    let steps = gave_up.iter().filter_map(|one| plan.steps.get(one.id as usize));
    let looks = steps.map(|step| async move { worker.is_back(step).await.then_some(step.id) });
    futures::future::join_all(looks).await.into_iter().flatten().collect()
}

fn tell_gave_up(plan: &Plan, one: &GaveUp, run: &Run) {
    let Some(step) = plan.steps.get(one.id as usize) else { return };
    let Failure { kind, error, .. } = one.failure.clone();
    run.tell(Event::StepGaveUp { of: StepRef::of(step), kind, error, took: one.took });
}

/// A step has failed for good.
fn fail(one: GaveUp, plan: &Plan, dependents: &[Vec<StepId>], report: &mut Report, run: &Run) {
    let GaveUp { id, failure: Failure { kind, error, fix }, took } = one;
    if let Some(step) = plan.steps.get(id as usize) {
        let (error, fix) = (error.clone(), fix.clone());
        run.tell(Event::StepFailed { of: StepRef::of(step), kind, error, fix, took });
    }
    if let Some(entry) = report.steps.get_mut(id as usize) {
        entry.state = StepState::Failed { kind, error, fix };
    }
    skip_dependents(plan, dependents, id, report, run);
}

/// Everything that needs the failed step, directly or not, will not begin in this run.
fn skip_dependents(plan: &Plan, dependents: &[Vec<StepId>], failed: StepId, report: &mut Report, run: &Run) {
    let Some(step) = plan.steps.get(failed as usize) else { return };
    let because = format!("{} failed", StepRef::of(step).subject());
    let mut open = vec![failed];
    while let Some(id) = open.pop() {
        for next in dependents.get(id as usize).into_iter().flatten() {
            let Some(entry) = report.steps.get_mut(*next as usize) else { continue };
            if entry.state != StepState::Left {
                continue;
            }
            entry.state = StepState::Skipped { because: because.clone() };
            if let Some(step) = plan.steps.get(*next as usize) {
                run.tell(Event::StepSkipped { of: StepRef::of(step), because: because.clone() });
            }
            open.push(*next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use daedal_planner::{Action, Impact, Purpose};
    use tokio::time::sleep;

    use super::*;

    /// Each step takes as many seconds as its reason says; a reason that is no number fails after a second.
    struct Fake {
        one_at_a_time: Arc<Limiter>,
        /// When the peer of steps whose reason is `peer` is back.
        back: Instant,
    }

    impl Worker for Fake {
        fn work<'a>(&'a self, step: &'a Step) -> Work<'a> {
            Box::pin(async move {
                match step.reason.parse() {
                    Ok(seconds) => {
                        sleep(Duration::from_secs(seconds)).await;
                        Ended::Done
                    }
                    Err(_) => {
                        sleep(Duration::from_secs(1)).await;
                        let peer = step.reason == "peer";
                        if peer && Instant::now() >= self.back {
                            return Ended::Done;
                        }
                        let failure =
                            Failure { kind: ErrorKind::Failed, error: step.reason.clone(), fix: None };
                        Ended::Failed { failure, peer }
                    }
                }
            })
        }

        fn limiter(&self, step: &Step) -> Option<Arc<Limiter>> {
            step.host.is_some().then(|| self.one_at_a_time.clone())
        }

        fn before<'a>(&'a self, _: &'a Step) -> Pin<Box<dyn Future<Output = Option<Ended>> + Send + 'a>> {
            Box::pin(std::future::ready(None))
        }

        fn note(&self, _: &Step, _: Option<&Ended>) {}

        fn is_back<'a>(&'a self, _: &'a Step) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
            Box::pin(async { Instant::now() >= self.back })
        }

        fn failed(&self) {}
    }

    fn plan(steps: &[(&[StepId], &str, bool)]) -> Plan {
        let steps = steps
            .iter()
            .enumerate()
            .map(|(id, (needs, reason, queued))| Step {
                id: id as StepId,
                needs: needs.to_vec(),
                node: None,
                host: queued.then(|| "atlas".to_owned()),
                action: Action::WriteOutputs,
                reason: (*reason).to_owned(),
                impact: Impact::None,
            })
            .collect();
        Plan {
            format: 1,
            purpose: Purpose::Apply,
            cluster: "home".into(),
            uuid: uuid::Uuid::nil(),
            intent: String::new(),
            basis: String::new(),
            phase: None,
            behind: None,
            without_secrets: false,
            despite_protection: false,
            versions: Default::default(),
            nodes: Vec::new(),
            steps,
            hosts: Vec::new(),
            quorum: Default::default(),
            differences: Vec::new(),
            unseen: false,
            not_seen: Vec::new(),
            notes: Vec::new(),
        }
    }

    async fn go(plan: &Plan, with: &Run) -> Report {
        back_after(plan, with, Duration::from_secs(1_000)).await
    }

    async fn back_after(plan: &Plan, with: &Run, back: Duration) -> Report {
        let fake = Fake { one_at_a_time: Limiter::fixed(1), back: Instant::now() + back };
        run(&fake, plan, with, Timestamp::UNIX_EPOCH).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_gave_up_on_a_peer_goes_on_when_the_peer_is_back() {
        let plan = plan(&[(&[], "peer", false), (&[0], "1", false), (&[], "60", false)]);
        let (with, mut events) = Run::new();
        let report = back_after(&plan, &with, Duration::from_secs(20)).await;
        assert!(report.succeeded(), "{:?}", report.steps);
        assert_eq!(report.took, Duration::from_secs(60), "while the rest goes on");
        let mut gave_up = 0;
        while let Ok(event) = events.try_recv() {
            assert!(!matches!(event, Event::StepFailed { .. } | Event::StepSkipped { .. }), "{event:?}");
            gave_up += usize::from(matches!(event, Event::StepGaveUp { .. }));
        }
        assert_eq!(gave_up, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_come_back_ends_the_run_with_the_rest() {
        let plan = plan(&[(&[], "peer", false), (&[0], "1", false), (&[], "9", false)]);
        let report = go(&plan, &Run::silent()).await;
        assert!(matches!(report.steps[0].state, StepState::Failed { .. }));
        assert!(matches!(report.steps[1].state, StepState::Skipped { .. }));
        assert_eq!(report.steps[2].state, StepState::Done);
        assert!(report.took < Duration::from_secs(16), "{:?}", report.took);
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_begins_when_its_own_needs_are_done_not_when_a_wave_is() {
        let plan = plan(&[(&[], "1", false), (&[], "9", false), (&[0], "3", false), (&[1, 2], "1", false)]);
        let report = go(&plan, &Run::silent()).await;
        assert!(report.succeeded());
        assert_eq!(report.took, Duration::from_secs(10));
        assert_eq!(report.steps[2].start, Some(Duration::from_secs(1)));
        assert_eq!(report.critical_path, [1, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_stops_what_depends_on_it_and_nothing_else() {
        let plan = plan(&[(&[], "boom", false), (&[0], "1", false), (&[1], "1", false), (&[], "5", false)]);
        let report = go(&plan, &Run::silent()).await;
        assert!(matches!(report.steps[0].state, StepState::Failed { .. }));
        assert!(matches!(report.steps[1].state, StepState::Skipped { .. }));
        assert!(matches!(report.steps[2].state, StepState::Skipped { .. }));
        assert_eq!(report.steps[3].state, StepState::Done);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turnstile_makes_ready_steps_queue() {
        let plan = plan(&[(&[], "2", true), (&[], "2", true), (&[], "2", true)]);
        let report = go(&plan, &Run::silent()).await;
        assert_eq!(report.took, Duration::from_secs(6));
        assert!(report.steps.iter().all(|step| step.ready == Some(Duration::ZERO)));
    }

    #[tokio::test(start_paused = true)]
    async fn stop_begins_nothing_new_and_sees_work_through() {
        let plan = plan(&[(&[], "5", false), (&[0], "1", false), (&[], "5", true), (&[], "5", true)]);
        let with = Run::silent();
        let stop = with.stop.clone();
        let (report, ()) = tokio::join!(go(&plan, &with), async {
            sleep(Duration::from_secs(1)).await;
            stop.cancel();
        });
        let states: Vec<_> = report.steps.iter().map(|step| step.state.clone()).collect();
        assert_eq!(states, [StepState::Done, StepState::Left, StepState::Done, StepState::Left]);
        assert!(report.cancelled);
    }

    #[tokio::test(start_paused = true)]
    async fn abandon_drops_what_is_in_flight_and_says_so() {
        let plan = plan(&[(&[], "50", false), (&[0], "1", false)]);
        let with = Run::silent();
        let abandon = with.abandon.clone();
        let (report, ()) = tokio::join!(go(&plan, &with), async {
            sleep(Duration::from_secs(2)).await;
            abandon.cancel();
        });
        assert_eq!(report.took, Duration::from_secs(2));
        assert_eq!(report.steps[0].state, StepState::Abandoned);
        assert_eq!(report.steps[1].state, StepState::Left);
    }
}
