//! Client certificates end: that is told in time, and the next apply renews them.

use daedal_planner::Action;

use crate::support::{Bench, assert_done};

/// Mission: M22
#[tokio::test(start_paused = true)]
async fn certificates_near_their_end_are_told_and_renewed() {
    let young = Bench::created().await;
    let status = young.engine().status(&young.cluster).await.unwrap();
    assert_eq!(status.credentials.len(), 2, "talosconfig and kubeconfig");
    assert!(status.credentials.iter().all(|credential| !credential.due));
    assert!(young.look().await.1.unwrap().is_empty());

    for days in [306, 400] {
        let old = Bench::created_days_ago(days).await;
        let status = old.engine().status(&old.cluster).await.unwrap();
        assert!(
            status.credentials.iter().all(|credential| credential.due),
            "{days}: {:?}",
            status.credentials
        );
        let plan = old.look().await.1.unwrap();
        let [step] = &plan.steps[..] else { panic!("{days}: {plan:#?}") };
        assert_eq!(step.action, Action::WriteOutputs);
        assert!(step.reason.contains("client certificates end on 2027-"), "{}", step.reason);
        let before = std::fs::read(old.outputs().join("talosconfig")).unwrap();
        assert_done(&old.apply().await, "renewal");
        assert_ne!(before, std::fs::read(old.outputs().join("talosconfig")).unwrap());
        assert!(old.look().await.1.unwrap().is_empty());
        let status = old.engine().status(&old.cluster).await.unwrap();
        assert!(status.credentials.iter().all(|credential| !credential.due));
    }
}
