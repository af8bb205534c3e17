//! Waits end a moment after what they wait for, however far it is and though packets to machines that boot are lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use daedal_engine::{Effects, Run};
use daedal_lab::Distant;
use daedal_planner::{plan_apply, plan_destroy};
use tokio::time::Instant;

use crate::lateness::{p95, waits};
use crate::support::{Bench, assert_done};

#[tokio::test(start_paused = true)]
async fn every_wait_ends_a_moment_after_its_event_although_packets_are_lost() {
    for round_trip in [1, 20, 100].map(Duration::from_millis) {
        let bench = Bench::new(3, 2);
        let network = Arc::new(Distant::new(bench.lab.dialer(), round_trip).silent());
        let engine = bench.engine_over(network, Effects::default());
        let world = engine.observe(&bench.cluster).await.unwrap();
        let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
        let origin = Instant::now();
        let report = engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
        assert_done(&report, "apply");
        let mut late = waits(&bench.cluster, &report, origin, &bench.lab.faults().moments());
        let kinds: BTreeSet<(&str, Option<&str>)> = late
            .iter()
            .map(|wait| (report.steps[wait.step].stage, report.steps[wait.step].node.as_deref()))
            .collect();
        assert_eq!(kinds.len(), 4 * 5 + 3 + 2, "{kinds:#?}");

        let world = engine.observe(&bench.cluster).await.unwrap();
        let plan = plan_destroy(&bench.cluster, &world).unwrap();
        let origin = Instant::now();
        let report = engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
        assert_done(&report, "destroy");
        late.extend(waits(&bench.cluster, &report, origin, &bench.lab.faults().moments()));
        late.sort_by_key(|wait| wait.late);
        assert!(p95(&late) <= Duration::from_millis(300), "at {round_trip:?}: {late:#?}");
        // Nobody comes much later; an answer from afar takes as long as it takes.
        let most = Duration::from_millis(300) + round_trip;
        assert!(late.last().unwrap().late <= most, "at {round_trip:?}: {late:#?}");
    }
}
