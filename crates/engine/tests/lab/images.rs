//! Disk images: those that lie on a storage already, and Proxmox releases that cannot import any.

use daedal_engine::{CheckVerdict, StepState};
use daedal_planner::PlanError;

use crate::boot::{CLOUD_INIT, ISO_CIDATA, ISO_CLOUD_INIT, TEMPLATE, TEMPLATE_BY_ISO};
use crate::support::{Bench, Way, assert_done, errors};

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

fn on_release(way: Way, version: &str) -> Bench {
    Bench::on(way, 1, 1, |datacenter| datacenter.version = version.to_owned())
}

/// What `check --live` says of the Proxmox itself.
async fn said_of_proxmox(bench: &Bench) -> (CheckVerdict, String, Option<String>) {
    let report = bench.engine().live_checks(&bench.cluster).await;
    let about: Vec<_> = report.checks.iter().filter(|check| check.found.contains("version ")).collect();
    assert_eq!(about.len(), 1, "said once: {:#?}", report.checks);
    assert!(!report.checks.iter().any(|check| check.what == "plan"), "{:#?}", report.checks);
    (about[0].verdict, about[0].found.clone(), about[0].fix.clone())
}

#[tokio::test(start_paused = true)]
async fn a_proxmox_that_cannot_import_is_told_with_the_way_that_works() {
    for (version, way, instead) in [
        ("8.3.5", Way::USUAL, ISO_CIDATA),
        ("8.2.2", CLOUD_INIT, ISO_CLOUD_INIT),
        ("8.3.5", TEMPLATE, TEMPLATE_BY_ISO),
    ] {
        let bench = on_release(way, version);
        let (verdict, found, fix) = said_of_proxmox(&bench).await;
        assert_eq!(verdict, CheckVerdict::Bad, "{version}: {found}");
        assert_eq!(found, format!("version {version} cannot import disk images; 8.4 or newer is needed"));
        let fix = fix.unwrap();
        let words = match way.boot == TEMPLATE.boot {
            true => "let an ISO make the templates: `boot: {template: {made: iso}}`".to_owned(),
            false => format!("boot from an ISO: `boot: {}`", instead.boot),
        };
        assert_eq!(fix, format!("upgrade Proxmox VE, or {words}"));
        // No plan is made that would fail half-way; nothing was changed.
        let refused = bench.look().await.1.unwrap_err();
        assert!(matches!(refused, PlanError::NoImport { .. }), "{refused}");
        let said = refused.to_string();
        assert!(said.contains(&found.replace("version", "Proxmox VE")) && said.contains(&words), "{said}");
        assert_eq!(bench.counts().mutating, 0, "{version}: {:?}", bench.counts().by_shape);

        let bench = on_release(instead, version);
        assert_eq!(said_of_proxmox(&bench).await.0, CheckVerdict::Good, "{version} {instead:?}");
        assert_done(&bench.apply().await, instead.boot);
        bench.assert_converged(instead.boot).await;
    }
    for version in ["8.4.0", "9.1"] {
        let bench = on_release(Way::USUAL, version);
        assert_eq!(said_of_proxmox(&bench).await.0, CheckVerdict::Good, "{version}");
        assert!(bench.look().await.1.is_ok(), "{version}");
    }
}

/// A cluster that is there already needs no import, whatever it was made from: an old Proxmox can keep it.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_exists_is_kept_without_import() {
    let mut bench = on_release(ISO_CIDATA, "8.3.5");
    assert_done(&bench.apply().await, "apply");
    bench.cluster.boot.from = daedal_inventory::BootFrom::DiskImage;
    assert!(bench.look().await.1.is_ok());
}
