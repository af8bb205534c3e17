//! A person who stops a run: what is in flight is seen through or abandoned, and what is left is said.

use std::time::Duration;

use daedal_engine::{Effects, Run, StepState};
use daedal_planner::plan_apply;
use tokio::time::sleep;

use crate::support::{Bench, assert_done};

/// Moments in all stages of a creation, in tenths of a second.
const MOMENTS: [u64; 8] = [0, 3, 20, 45, 80, 150, 220, 500];

/// How a run ended that was stopped at some moment: once, or once and then for good.
async fn stopped(bench: &Bench, tenths: u64, insist: bool) -> daedal_engine::Report {
    let engine = bench.engine_through(Effects::default());
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    let run = Run::silent();
    let person = async {
        sleep(Duration::from_millis(tenths * 100)).await;
        run.stop.cancel();
        if insist {
            run.abandon.cancel();
        }
    };
    let (report, ()) = tokio::join!(engine.execute(&bench.cluster, &world, &plan, &run), person);
    report.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_sees_its_work_through_and_says_what_is_left() {
    for tenths in MOMENTS {
        let bench = Bench::new(1, 1);
        let report = stopped(&bench, tenths, false).await;
        let at = Duration::from_millis(tenths * 100);
        assert!(report.cancelled, "{at:?}");
        assert!(report.left().count() > 0, "{at:?}");
        for step in &report.steps {
            // Nothing failed for being stopped, and of everything that was begun it is known how it ended.
            let known = step.state.is_done() || step.state == StepState::Left;
            assert!(known, "{at:?}: {step:#?}");
        }
        // What is seen through are calls and tasks, not machines that boot.
        assert!(report.took <= at + Duration::from_secs(30), "{at:?}: {:?}", report.took);
        assert_eq!(bench.lab.datacenter().running_tasks(), 0, "{at:?}");
        assert_done(&bench.apply().await, "the next run");
        bench.assert_converged(&format!("stop at {at:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_run_ends_at_once_and_names_what_may_have_happened() {
    let mut abandoned = 0;
    for tenths in MOMENTS {
        let bench = Bench::new(1, 1);
        let report = stopped(&bench, tenths, true).await;
        let at = Duration::from_millis(tenths * 100);
        assert!(report.cancelled, "{at:?}");
        assert_eq!(report.took, at);
        for step in &report.steps {
            let fair = step.state.is_done() || matches!(step.state, StepState::Left | StepState::Abandoned);
            assert!(fair, "{at:?}: {step:#?}");
            abandoned += usize::from(step.state == StepState::Abandoned);
        }
        assert_done(&bench.apply().await, "the next run");
        bench.assert_converged(&format!("abandoned at {at:?}")).await;
    }
    assert!(abandoned >= MOMENTS.len() - 1, "{abandoned}");
}
