//! Kubernetes' authority was changed, and the kept secrets have not followed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daedal_engine::{Run, StepState};
use daedal_planner::{Action, Aspect, plan_apply};
use daedal_talos_client::ApplyMode;
use daedal_talos_config::{MachineConfig, Patch, SecretsBundle};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::support::{Bench, errors};

/// Gives nodes another authority of Kubernetes at once.
async fn change_authority(bench: &Bench, nodes: &[&str]) {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let other = SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(9), now, 512).unwrap().k8s;
    for node in nodes {
        let client = bench.talos(node).await;
        let running = client.machine_config().await.unwrap().unwrap();
        let mut config = MachineConfig::from_yaml(running.expose()).unwrap();
        let key = match node.starts_with("cp") {
            true => format!(", key: {}", STANDARD.encode(other.key.expose())),
            false => String::new(),
        };
        let patch = format!("cluster: {{ca: {{crt: {}{key}}}}}", STANDARD.encode(&other.crt));
        config.apply_patch(&Patch::from_yaml(&patch).unwrap()).unwrap();
        client.apply_configuration(&config.to_yaml(), ApplyMode::NoReboot, false).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
}

/// Nobody waits for an API server of another authority to become one of the kept one: whatever waits for Kubernetes ends, and says
/// what to do.
#[tokio::test(start_paused = true)]
async fn an_api_server_of_another_authority_is_not_waited_for() {
    let bench = Bench::created().await;
    bench.assert_converged("before").await;
    change_authority(&bench, &["cp-1", "worker-1"]).await;
    let (world, plan) = bench.look().await;
    let unobserved =
        world.unobserved.iter().find(|unobserved| unobserved.what == Aspect::Kubernetes).unwrap();
    let fix = unobserved.fix.as_ref().unwrap().to_string();
    assert!(fix.contains("daedal secrets import --replace"), "{unobserved:?}");
    let plan = plan.unwrap();
    let waits = |action: &Action| plan.steps.iter().any(|step| step.action == *action);
    assert!(waits(&Action::AwaitEndpoint) && waits(&Action::AwaitReady), "{:#?}", plan.steps);

    let began = tokio::time::Instant::now();
    let report = bench.apply().await;
    assert!(began.elapsed() < Duration::from_secs(30), "it waited for {:?}", began.elapsed());
    let said = errors(&report);
    assert!(said.iter().all(|one| one.contains("an authority that is not the kept one")), "{said:?}");
    let fixed = |step: &daedal_engine::StepReport| matches!(&step.state, StepState::Failed { fix: Some(fix), .. } if fix.to_string().contains("secrets import --replace"));
    assert!(!said.is_empty() && report.failures().all(fixed), "{report:#?}");
}

/// The same when it is changed while a node is awaited.
#[tokio::test(start_paused = true)]
async fn a_node_is_not_waited_for_where_all_api_servers_have_another_authority() {
    let bench = Bench::created().await;
    bench.assert_converged("before").await;
    let worker = bench.cluster.node("worker-1").unwrap().vmid;
    let host = bench.look().await.0.guests[&worker].host.clone();
    crate::strangers::proxmox(&bench).stop_vm(&host, worker).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    assert!(world.endpoint_answers && plan.steps.iter().any(|step| step.action == Action::AwaitReady));
    let run = Run::silent();
    let began = tokio::time::Instant::now();
    let changed = change_authority(&bench, &["cp-1"]);
    let (report, ()) = tokio::join!(engine.execute(&bench.cluster, &world, &plan, &run), changed);
    assert!(began.elapsed() < Duration::from_secs(120), "it waited for {:?}", began.elapsed());
    let said = errors(&report.unwrap());
    let told =
        |one: &String| one.contains("worker-1") && one.contains("an authority that is not the kept one");
    assert!(said.iter().any(told), "{said:?}");
}
