//! Images that lie on a storage already.

use daedal_engine::StepState;

use crate::support::{Bench, assert_done, errors};

#[tokio::test(start_paused = true)]
async fn an_image_of_the_right_size_with_other_content_is_never_made_a_vm_of() {
    let bench = Bench::created().await;
    assert_done(&bench.destroy().await, "destroy");
    let images: Vec<String> =
        bench.lab.datacenter().volumes().into_iter().filter(|volume| volume.contains(":import/")).collect();
    assert!(!images.is_empty());
    for image in &images {
        assert!(bench.lab.datacenter().spoil(image), "{image}");
    }
    let report = bench.apply_through(Default::default()).await.unwrap();
    assert!(!report.succeeded());
    let said = errors(&report).join("\n");
    assert!(said.contains("checksum mismatch"), "{said}");
    let fixes = report.failures().filter_map(|step| match &step.state {
        StepState::Failed { fix, .. } => fix.clone(),
        _ => None,
    });
    assert!(fixes.into_iter().all(|fix| fix.contains("pvesm free local:import/")), "{said}");
    assert!(!bench.lab.datacenter().vms().iter().any(|(_, _, name, _)| name.starts_with("cp")), "{said}");
    // The bit flips back, and everything goes its way.
    for image in &images {
        assert!(bench.lab.datacenter().spoil(image), "{image}");
    }
    assert_done(&bench.apply().await, "apply");
}
