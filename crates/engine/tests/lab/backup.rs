//! Snapshots of etcd: taken, verified, and the beginning of a new cluster; after every death again.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daedal_engine::{Effect, EffectKind, Effects, Error, Report, Run};
use daedal_inventory::Cluster;
use daedal_planner::{PlanError, World, plan_apply, plan_restore};
use daedal_store::SecretBytes;
use daedal_talos_config::SecretsBundle;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use sha2::{Digest as _, Sha256};

use crate::breadth::deaths;
use crate::support::{Bench, Killer, assert_done};

async fn config_maps(bench: &Bench) -> Api<ConfigMap> {
    // Whoever has the shared address may have to find out first.
    tokio::time::sleep(Duration::from_secs(15)).await;
    Api::namespaced(bench.engine().kubernetes(&bench.cluster).await.unwrap(), "default")
}

async fn put(bench: &Bench, name: &str) {
    let object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let object = serde_json::from_value(object).unwrap();
    config_maps(bench).await.create(&PostParams::default(), &object).await.unwrap();
}

async fn has(bench: &Bench, name: &str) -> bool {
    config_maps(bench).await.get_opt(name).await.unwrap().is_some()
}

/// `backup restore` in a new process.
async fn restore_through(bench: &Bench, file: &Path, effects: Effects) -> Result<Report, PlanError> {
    let engine = bench.engine_through(effects);
    let (recovery, _) = engine.examine(&bench.cluster, file).await.unwrap();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_restore(&bench.cluster, &engine.images(&bench.cluster), &world, &recovery)?;
    let run = Run::silent().restoring(file);
    Ok(engine.execute(&bench.cluster, &world, &plan, &run).await.unwrap())
}

/// A cluster with an object in it and a snapshot of that, destroyed again. Something was added in between.
async fn lost(bench: Bench) -> (Bench, PathBuf) {
    put(&bench, "before").await;
    let file = bench.folder.path().join("kept.db");
    bench.engine().backup(&bench.cluster, Some(&file)).await.unwrap();
    put(&bench, "after").await;
    assert_done(&bench.destroy().await, "destroy");
    bench.lab.save(bench.folder.path()).unwrap();
    (bench, file)
}

/// Everything that was in the snapshot is back, nothing else, and the cluster is whole.
async fn assert_restored(bench: &Bench, after: &str) {
    assert!(has(bench, "before").await, "{after}: what was in the snapshot is not there");
    assert!(!has(bench, "after").await, "{after}: what was not in the snapshot is there");
    let (world, plan) = bench.look().await;
    let plan = plan.unwrap();
    assert!(plan.is_empty(), "{after}: {:#?}\n{:#?}", plan.steps, world.nodes);
    assert_eq!(world.members.len(), bench.cluster.control_planes().count(), "{after}");
    assert_eq!(bench.bootstraps(), 2, "{after}: once in its first life, once in this");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_taken_verified_and_listed() {
    let bench = Bench::created().await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let engine = bench.engine();
    assert_eq!(engine.backups().await.unwrap(), []);
    let kept = engine.backup(&bench.cluster, None).await.unwrap();
    let backup = kept.backup.clone().unwrap();
    let bytes = std::fs::read(&kept.file).unwrap();
    assert_eq!(std::fs::metadata(&kept.file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((backup.size, backup.sha256), (bytes.len() as u64, hex::encode(Sha256::digest(&bytes))));
    assert_eq!(
        (backup.uuid, backup.talos.as_str(), backup.node.as_str()),
        (bench.cluster.uuid, "v1.12.0", "cp-1")
    );
    assert!(backup.keys > 5 && backup.revision > 5, "{} {}", backup.keys, backup.revision);
    let name = kept.file.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("etcd-2026") && name.ends_with("Z.db"), "{name}");
    assert_eq!(engine.backups().await.unwrap(), [kept]);
}

/// Mission: M22, H18
#[tokio::test(start_paused = true)]
async fn a_fresh_cluster_begins_with_the_snapshot() {
    let (bench, file) = lost(Bench::created_large().await).await;
    let watcher = Killer::never();
    let report = restore_through(&bench, &file, Effects::through(watcher.clone())).await.unwrap();
    assert_done(&report, "restore");
    let uploads = watcher.seen().iter().filter(|effect| effect.kind == EffectKind::UploadSnapshot).count();
    assert_eq!(uploads, 1);
    assert_restored(&bench, "restore").await;
    // What lives is not restored into, whoever asks.
    assert!(matches!(
        restore_through(&bench, &file, Effects::default()).await,
        Err(PlanError::NoRestore { .. })
    ));
}

/// Mission: E22
#[tokio::test(start_paused = true)]
async fn what_is_not_this_clusters_whole_snapshot_is_refused() {
    let bench = Bench::created().await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let engine = bench.engine();
    let file = bench.folder.path().join("kept.db");
    engine.backup(&bench.cluster, Some(&file)).await.unwrap();
    let examine = async |cluster: &Cluster| match bench.engine().examine(cluster, &file).await {
        Ok(_) => "good".to_owned(),
        Err(error) => daedal_engine::chain(&error),
    };
    assert_eq!(examine(&bench.cluster).await, "good");
    let mut other = bench.cluster.clone();
    other.uuid = uuid::Uuid::nil();
    assert!(examine(&other).await.contains("it is of cluster home"));
    // Without its description, it says itself whose it is.
    let description = bench.folder.path().join("kept.db.json");
    let described = std::fs::read(&description).unwrap();
    std::fs::remove_file(&description).unwrap();
    assert_eq!(examine(&bench.cluster).await, "good");
    std::fs::write(
        &description,
        String::from_utf8(described).unwrap().replace("\"sha256\": \"", "\"sha256\": \"0"),
    )
    .unwrap();
    assert!(examine(&bench.cluster).await.contains("its digest is not"));
    let whole = std::fs::read(&file).unwrap();
    for (broken, why) in [
        (whole[..whole.len() - 1].to_vec(), "length"),
        ([&whole[..5000], &[whole[5000] ^ 1], &whole[5001..]].concat(), "checksum"),
    ] {
        std::fs::write(&file, broken).unwrap();
        assert!(examine(&bench.cluster).await.contains(why));
    }
}

/// An authority that was changed since makes no backup useless; other secrets do, since nobody could read it.
#[tokio::test(start_paused = true)]
async fn a_backup_outlives_the_authority_but_not_the_secrets() {
    let bench = Bench::created().await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let file = bench.folder.path().join("kept.db");
    bench.engine().backup(&bench.cluster, Some(&file)).await.unwrap();
    let kept = SecretsBundle::from_yaml(&bench.stored_secrets().unwrap()).unwrap();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let others = SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(9), now, 512).unwrap();
    let keep = async |secrets: &SecretsBundle, old: &str| {
        let bytes = SecretBytes::new(secrets.to_yaml().expose().as_bytes().to_vec());
        bench.store().replace_secrets(&bytes, old).await.unwrap();
    };
    let examine = async || match bench.engine().examine(&bench.cluster, &file).await {
        Ok(_) => "good".to_owned(),
        Err(error) => daedal_engine::chain(&error),
    };
    keep(&SecretsBundle { k8s: others.k8s.clone(), ..kept.clone() }, "first.yaml").await;
    assert_eq!(examine().await, "good");
    let description = bench.folder.path().join("kept.db.json");
    let described = std::fs::read(&description).unwrap();
    std::fs::remove_file(&description).unwrap();
    assert!(examine().await.contains("another authority"), "{}", examine().await);
    std::fs::write(&description, described).unwrap();
    keep(&SecretsBundle { encryption: others.encryption, ..kept }, "second.yaml").await;
    assert!(examine().await.contains("other secrets"), "{}", examine().await);
}

/// What is begun with another file than the plan was made for, or beside an etcd that somebody made meanwhile.
#[tokio::test(start_paused = true)]
async fn a_restore_holds_to_its_file_and_never_counts_a_strangers_etcd_as_its_own() {
    let (bench, file) = lost(Bench::created().await).await;
    let engine = bench.engine();
    let (recovery, _) = engine.examine(&bench.cluster, &file).await.unwrap();
    let world: World = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_restore(&bench.cluster, &engine.images(&bench.cluster), &world, &recovery).unwrap();
    let failure = |report: &Report| crate::support::errors(report).join("\n");
    let report = engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    assert!(failure(&report).contains("none was given"), "{}", failure(&report));
    // The nodes are up now and wait; somebody bootstraps one by an ordinary apply.
    let now = engine.observe(&bench.cluster).await.unwrap();
    let again = plan_restore(&bench.cluster, &engine.images(&bench.cluster), &now, &recovery).unwrap();
    let other = bench.folder.path().join("other.db");
    std::fs::write(&other, "something else").unwrap();
    let run = Run::silent().restoring(&other);
    let report = engine.execute(&bench.cluster, &now, &again, &run).await.unwrap();
    assert!(failure(&report).contains("not the one that the plan was made for"), "{}", failure(&report));
    let apply = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &now).unwrap();
    assert_done(&engine.execute(&bench.cluster, &now, &apply, &Run::silent()).await.unwrap(), "apply");
    let run = Run::silent().restoring(&file);
    let report = engine.execute(&bench.cluster, &now, &again, &run).await.unwrap();
    assert!(failure(&report).contains("did not begin with this snapshot"), "{}", failure(&report));
    assert!(!has(&bench, "before").await);
    assert_eq!(bench.bootstraps(), 2);
}

/// A run that is killed is run again; where its etcd lives already, an apply brings up the rest, as it says.
async fn sweep(part: usize, parts: usize) {
    let (from, _) = lost(Bench::created().await).await;
    let file = |bench: &Bench| bench.folder.path().join("kept.db");
    let whole = Killer::never();
    let bench = from.copy();
    let report = restore_through(&bench, &file(&bench), Effects::through(whole.clone())).await.unwrap();
    assert_done(&report, "the run nobody kills");
    assert_restored(&bench, "the run nobody kills").await;
    let effects: HashSet<Effect> = whole.seen().into_iter().collect();
    assert!(effects.len() >= 12, "{effects:#?}");
    for (effect, point) in deaths(effects).into_iter().skip(part).step_by(parts) {
        let after = format!("death {point:?} {effect}");
        let bench = from.copy();
        let killer = Killer::at(&effect, point);
        let ended =
            killer.run(restore_through(&bench, &file(&bench), Effects::through(killer.clone()))).await;
        assert!(ended.is_none(), "{after}: it went on");
        match restore_through(&bench, &file(&bench), Effects::default()).await {
            Ok(report) => assert_done(&report, &after),
            Err(error) => {
                assert!(error.to_string().contains("daedal apply"), "{after}: {error}");
                assert_done(&bench.apply().await, &after);
            }
        }
        assert_restored(&bench, &after).await;
    }
}

/// Mission: M22
#[tokio::test(start_paused = true)]
async fn every_death_while_restoring_is_survived_1_of_2() {
    sweep(0, 2).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_while_restoring_is_survived_2_of_2() {
    sweep(1, 2).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_control_plane_that_answers_there_is_no_snapshot() {
    let bench = Bench::created().await;
    let host = bench.look().await.0.guests[&300].host.clone();
    crate::strangers::proxmox(&bench).stop_vm(&host, 300).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let failed = bench.engine().backup(&bench.cluster, None).await.unwrap_err();
    assert!(matches!(failed, Error::NoSnapshot { .. }), "{failed:?}");
    assert_eq!(bench.engine().backups().await.unwrap(), []);
}
