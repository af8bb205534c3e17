//! Whoever loses the lock while a run goes on begins nothing more, and somebody else can finish the work.

use std::sync::{Arc, Mutex};

use daedal_engine::{Effect, EffectKind, Effects, ErrorKind, Gate, Run, StepState, Verdict};
use daedal_planner::plan_apply;
use daedal_store::{Lock, Owner, Store};

use crate::support::{Bench, assert_done};

pub fn owner(who: &str) -> Owner {
    Owner {
        who: who.to_owned(),
        machine: "forge".to_owned(),
        pid: 42,
        doing: "apply".to_owned(),
        since: "2026-11-01T00:00:00Z".parse().unwrap(),
    }
}

/// Takes the lock from whoever has it, once the image is pinned.
struct Thief {
    store: Store,
    taken: Mutex<Option<Lock>>,
    since: Mutex<Vec<EffectKind>>,
}

impl Gate for Thief {
    fn before<'a>(&'a self, effect: &'a Effect) -> Verdict<'a> {
        if self.taken.lock().unwrap().is_some() {
            self.since.lock().unwrap().push(effect.kind);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn after<'a>(&'a self, effect: &'a Effect) -> Verdict<'a> {
        Box::pin(async move {
            if effect.kind == EffectKind::StorePin {
                std::fs::remove_file(self.store.place().join("lock")).unwrap();
                *self.taken.lock().unwrap() = Some(self.store.lock(&owner("thief")).await.unwrap());
            }
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_lost_the_lock_begins_nothing_more() {
    let bench = Bench::new(1, 1);
    let store = bench.store();
    let _lost = store.lock(&owner("first")).await.unwrap();
    let thief = Arc::new(Thief { store: bench.store(), taken: Mutex::default(), since: Mutex::default() });
    let engine = bench.engine_on(store, Effects::through(thief.clone()));
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    let report = engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    let kinds: Vec<_> = report
        .failures()
        .map(|step| match &step.state {
            StepState::Failed { kind, error, .. } => (*kind, error.contains("no longer holds the lock")),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == (ErrorKind::Busy, true)), "{kinds:?}");
    // What had begun before may still have gone on; nothing that comes after it did.
    let since = thief.since.lock().unwrap().clone();
    let late = [EffectKind::DownloadImage, EffectKind::CreateVm, EffectKind::StartVm];
    assert!(!since.iter().any(|kind| late.contains(kind)), "{since:?}");

    let next = bench.engine_on(thief.store.clone(), Effects::default());
    let world = next.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &next.images(&bench.cluster), &world).unwrap();
    let report = next.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    assert_done(&report, "the second");
    bench.assert_converged("the second").await;
}
