//! Two stores, one cluster: the second finds the first's mark before it makes anything, and leaves nothing behind.

use std::time::Duration;

use daedal_engine::{Effects, Engine, Report, Run, StepState};
use daedal_planner::{Level, Ownership, plan_apply, plan_destroy};
use daedal_words::Told as _;

use crate::support::{Bench, assert_done, errors};

/// `apply` by a process that looked before anybody had made anything.
async fn begin(bench: &Bench, engine: &Engine, after: Duration) -> Report {
    let world = engine.observe(&bench.cluster).await.unwrap();
    assert!(world.guests.values().all(|guest| guest.ownership == Ownership::Foreign));
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    tokio::time::sleep(after).await;
    engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn of_two_that_begin_at_once_one_makes_the_cluster_and_the_other_nothing() {
    for millis in [0, 1, 20, 100, 400, 1_000, 3_000, 10_000] {
        let bench = Bench::new(1, 2);
        let folder = tempfile::tempdir().unwrap();
        let (mine, theirs) = (bench.engine(), bench.rival(folder.path(), Effects::default()));
        let (a, b) = tokio::join!(
            begin(&bench, &mine, Duration::from_secs(1)),
            begin(&bench, &theirs, Duration::from_millis(millis)),
        );
        let after = format!("{millis} ms: {:?} / {:?}", errors(&a), errors(&b));
        let (winner, loser, lost) = match a.failures().count() {
            0 => (&mine, &theirs, &b),
            _ => (&theirs, &mine, &a),
        };
        assert_eq!(
            usize::from(a.failures().count() > 0) + usize::from(b.failures().count() > 0),
            1,
            "{after}"
        );
        assert!(errors(lost).iter().any(|error| error.contains("other secrets")), "{after}");
        // The loser's new secrets fit nothing, and it is told what to do.
        let fixes: Vec<String> = lost
            .failures()
            .filter_map(|step| match &step.state {
                StepState::Failed { fix, .. } => fix.as_ref().map(ToString::to_string),
                _ => None,
            })
            .collect();
        assert!(fixes.iter().any(|fix| fix.contains("secrets import --replace FILE")), "{after}: {fixes:?}");
        // Every VM is the winner's, all is up, and no medium of either is left.
        let world = winner.observe(&bench.cluster).await.unwrap();
        for node in &bench.cluster.nodes {
            let ownership = &world.guests[&node.vmid].ownership;
            assert!(matches!(ownership, Ownership::Ours { .. }), "{after}: {ownership:?}");
        }
        let plan = plan_apply(&bench.cluster, &winner.images(&bench.cluster), &world).unwrap();
        assert!(plan.is_empty(), "{after}: {:#?}", plan.steps);
        bench.assert_no_orphans(&after);

        // To the loser they are somebody else's: it neither changes nor destroys them.
        let world = loser.observe(&bench.cluster).await.unwrap();
        let plan = plan_apply(&bench.cluster, &loser.images(&bench.cluster), &world).unwrap();
        let told = plan.notes.iter().find(|note| note.about() == "secrets").unwrap();
        assert!(told.level == Level::Problem && told.text().contains("are unused"), "{after}: {told:#?}");
        let touches = |step: &&daedal_planner::Step| step.host.is_some();
        assert!(!plan.steps.iter().any(|step| touches(&step)), "{after}: {:#?}", plan.steps);
        let destroy = plan_destroy(&bench.cluster, &world).unwrap();
        assert!(destroy.is_empty(), "{after}: {:#?}", destroy.steps);
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_later_with_other_secrets_touches_nothing() {
    let bench = Bench::new(1, 1);
    assert_done(&bench.apply().await, "apply");
    let folder = tempfile::tempdir().unwrap();
    let rival = bench.rival(folder.path(), Effects::default());
    // Without any secrets, nothing proves whose the VMs are.
    let world = rival.observe(&bench.cluster).await.unwrap();
    let refused = plan_apply(&bench.cluster, &rival.images(&bench.cluster), &world).unwrap_err();
    assert!(refused.to_string().contains("are not in the store"), "{refused}");
    let refused = plan_destroy(&bench.cluster, &world).unwrap_err();
    assert!(refused.to_string().contains("nothing proves that 2 VMs are this store's"), "{refused}");
}
