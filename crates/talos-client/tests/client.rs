//! The client against a node that speaks the real protocol, over in-memory streams in paused time.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod node;
mod wire;

use std::{sync::Arc, time::Duration};

use daedal_dial::Target;
use daedal_talos_client::{
    ApplyMode, Bootstrap, Client, ConnectOptions, Error, FailureKind, Probe, ResourceEvent, ResourceEvents,
    probe,
};
use futures::StreamExt;
use node::{ADDRESS, Api, Slow, Switch, admin, bundle, now, start};

fn target() -> Target {
    Target::new(ADDRESS, 50000)
}

fn options() -> ConnectOptions {
    ConnectOptions {
        clock: Some(Arc::new(|| now() + jiff::SignedDuration::from_secs(60))),
        ..Default::default()
    }
}

#[track_caller]
fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> FailureKind {
    result.unwrap_err().kind().unwrap()
}

#[tokio::test(start_paused = true)]
async fn mutual_tls_and_calls() {
    let ours = bundle(1);
    let (dialer, node) = start(&Api::Configured(&ours), "running");
    let client = Client::connect(dialer, target(), &admin(&ours), &options()).await.unwrap();
    assert_eq!(client.version().await.unwrap().tag, "v1.12.0");
    assert!(node.0.nodes.lock().unwrap().is_empty(), "no header without a node");

    assert_eq!(client.bootstrap().await.unwrap(), Bootstrap::Started);
    assert_eq!(client.bootstrap().await.unwrap(), Bootstrap::AlreadyDone);
    assert_eq!(client.kubeconfig().await.unwrap().expose(), "apiVersion: v1\n#\n");
    assert_eq!(kind(client.etcd_status().await), FailureKind::FailedPrecondition);
    let config = daedal_talos_config::Secret::new("machine: {}");
    assert_eq!(
        kind(client.apply_configuration(&config, ApplyMode::Auto, true).await),
        FailureKind::NotImplemented
    );
    assert_eq!(client.get("runtime", "Versions.runtime.talos.dev", "version").await.unwrap(), None);

    client.for_node("10.0.0.12").version().await.unwrap();
    assert_eq!(*node.0.nodes.lock().unwrap(), ["10.0.0.12"]);
    let error = client.for_node("10.0.0.99").version().await.unwrap_err();
    assert_eq!(error.to_string(), "version on 10.0.0.99: the node failed");
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("connection refused"));
}

/// Mission: H9
#[tokio::test(start_paused = true)]
async fn whose_node_it_is() {
    let (ours, theirs) = (bundle(1), bundle(2));
    let (dialer, _node) = start(&Api::Configured(&theirs), "running");
    let result = Client::connect(dialer.clone(), target(), &admin(&ours), &options()).await;
    assert_eq!(kind(result), FailureKind::OtherCluster);

    // We trust it, but it does not trust us.
    let mut mixed = admin(&ours);
    mixed.ca = theirs.os.crt.clone();
    let client = Client::connect(dialer.clone(), target(), &mixed, &options()).await.unwrap();
    assert_eq!(kind(client.version().await), FailureKind::OtherCluster);

    let elsewhere = Target::new("10.0.0.1", 50000);
    let result = Client::connect(dialer, elsewhere, &admin(&ours), &options()).await;
    assert_eq!(kind(result), FailureKind::Unreachable);
}

#[tokio::test(start_paused = true)]
async fn wrong_clock_is_not_another_cluster() {
    let ours = bundle(1);
    let (dialer, _node) = start(&Api::Configured(&ours), "running");
    let late = ConnectOptions {
        clock: Some(Arc::new(|| now() + jiff::SignedDuration::from_hours(48))),
        ..options()
    };
    let result = Client::connect(dialer, target(), &admin(&ours), &late).await;
    assert_eq!(kind(result), FailureKind::Tls);
}

#[tokio::test(start_paused = true)]
async fn probing() {
    let (ours, theirs) = (bundle(1), bundle(2));
    let credentials = admin(&ours);
    let (dialer, _node) = start(&Api::Configured(&ours), "running");
    assert!(matches!(probe(dialer, target(), &credentials, &options()).await.unwrap(), Probe::Configured));

    let (dialer, _node) = start(&Api::Configured(&theirs), "running");
    let found = probe(dialer, target(), &credentials, &options()).await.unwrap();
    assert!(matches!(found, Probe::OtherCluster { .. }), "{found:?}");

    let (dialer, node) = start(&Api::Maintenance, "maintenance");
    let found = probe(dialer.clone(), target(), &credentials, &options()).await.unwrap();
    let Probe::Maintenance { fingerprint } = found else { panic!("{found:?}") };
    let pinned =
        Client::connect_maintenance(dialer.clone(), target(), Some(&fingerprint), &options()).await.unwrap();
    assert_eq!(pinned.1, fingerprint);
    pinned.0.version().await.unwrap();
    let wrong = Client::connect_maintenance(dialer.clone(), target(), Some("AAAA"), &options()).await;
    assert_eq!(kind(wrong), FailureKind::OtherCluster);

    *node.0.stage.lock().unwrap() = "booting".into();
    let found = probe(dialer.clone(), target(), &credentials, &options()).await.unwrap();
    assert!(matches!(found, Probe::Unreachable(_)));
    let found = probe(dialer, Target::new("10.0.0.1", 1), &credentials, &options()).await.unwrap();
    assert!(matches!(found, Probe::Unreachable(_)));
}

/// A node that refuses us says why and hangs up. Who is still writing meets the closed door first, and hears the reason even so.
#[tokio::test(start_paused = true)]
async fn the_reason_for_hanging_up_is_heard_by_who_is_late() {
    let (ours, theirs) = (bundle(1), bundle(2));
    for (whose, ours_then) in [(&ours, true), (&theirs, false)] {
        let (dialer, _node) = start(&Api::Configured(whose), "running");
        let found = probe(Slow::new(dialer), target(), &admin(&ours), &options()).await.unwrap();
        assert_eq!(matches!(found, Probe::Configured), ours_then, "{found:?}");
        assert_eq!(matches!(found, Probe::OtherCluster { .. }), !ours_then, "{found:?}");
    }
    let (dialer, _node) = start(&Api::Configured(&theirs), "running");
    let mut mixed = admin(&ours);
    mixed.ca = theirs.os.crt.clone();
    let client = Client::connect(Slow::new(dialer), target(), &mixed, &options()).await.unwrap();
    assert_eq!(kind(client.version().await), FailureKind::OtherCluster);
}

/// Who answers in the middle of an exchange with another key than at its beginning hears nothing of what is still to be said.
/// Mission: H9
#[tokio::test(start_paused = true)]
async fn a_pin_holds_for_the_whole_exchange() {
    let ((real, _node), (other, impostor)) =
        (start(&Api::Maintenance, "maintenance"), start(&Api::Impostor, "maintenance"));
    let way = Switch::new(real, other.clone());
    let (first, fingerprint) =
        Client::connect_maintenance(way.clone(), target(), None, &options()).await.unwrap();
    let (client, _) =
        Client::connect_maintenance(way.clone(), target(), Some(&fingerprint), &options()).await.unwrap();
    client.for_node("10.0.0.12").version().await.unwrap();
    drop(first);
    way.switch();
    for _ in 0..3 {
        let config = daedal_talos_config::Secret::new("machine: {}");
        let refused = client.for_node("10.0.0.13").apply_configuration(&config, ApplyMode::Auto, false).await;
        assert!(
            matches!(kind(refused), FailureKind::OtherCluster | FailureKind::Unreachable),
            "no connection, and so no answer"
        );
        let refused = client.for_node("10.0.0.13").version().await;
        assert!(matches!(kind(refused), FailureKind::OtherCluster | FailureKind::Unreachable));
    }
    assert!(impostor.0.nodes.lock().unwrap().is_empty(), "the impostor heard of nothing");
    // It is no stranger to whoever has no pin: only the pin keeps it out.
    let (fooled, shown) = Client::connect_maintenance(other, target(), None, &options()).await.unwrap();
    assert_ne!(shown, fingerprint);
    fooled.for_node("10.0.0.13").version().await.unwrap();
    assert_eq!(*impostor.0.nodes.lock().unwrap(), ["10.0.0.13"]);
}

#[tokio::test(start_paused = true)]
async fn watching_ends_waits_at_the_event() {
    let ours = bundle(1);
    let (dialer, node) = start(&Api::Configured(&ours), "booting");
    let client = Client::connect(dialer, target(), &admin(&ours), &options()).await.unwrap();
    let mut events = Box::pin(client.watch_machine_status().await.unwrap());
    let first = events.next().await.unwrap().unwrap();
    assert_eq!((first.stage.as_str(), first.ready), ("booting", false));
    assert_eq!(first.unmet, [("time".to_owned(), "not in sync".to_owned())]);

    // A long silence of a node that is alive breaks nothing.
    let begin = tokio::time::Instant::now();
    let changes = node.0.changes.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(100)).await;
        changes.send("running".into()).unwrap();
    });
    assert_eq!(events.next().await.unwrap().unwrap().stage, "running");
    assert!(begin.elapsed() < Duration::from_millis(100_100), "{:?}", begin.elapsed());

    // A node that no longer answers is noticed.
    *node.0.silent.lock().unwrap() = true;
    let error = events.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Some(FailureKind::Timeout));
    assert!(begin.elapsed() < Duration::from_secs(140));
    assert!(events.next().await.is_none());
    assert_eq!(kind(client.version().await), FailureKind::Timeout);
}

/// The next event in short: what happened, to what, and its version.
async fn told(events: &mut ResourceEvents) -> (ResourceEvent, String) {
    let event = events.next().await.unwrap().unwrap();
    let what =
        event.resource.map(|resource| format!("{}@{} {}", resource.id, resource.version, resource.yaml));
    (event.event, what.unwrap_or_default())
}

/// The node is away in the middle of a watch, and comes back changed.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_type_goes_on_after_a_break() {
    use ResourceEvent::{Bootstrapped, Created, Destroyed, Updated};
    let ours = bundle(1);
    let ((before, first), (after, second)) =
        (start(&Api::Configured(&ours), "running"), start(&Api::Configured(&ours), "running"));
    for id in ["gone", "kept", "newer", "other"] {
        first.0.set(id, 1, "x");
    }
    let way = Switch::new(before, after);
    let client = Client::connect(way.clone(), target(), &admin(&ours), &options()).await.unwrap();
    let mut events = client.watch_through_reboots("network", "LinkStatuses.net.talos.dev", None);
    for id in ["gone", "kept", "newer", "other"] {
        assert_eq!(told(&mut events).await, (Created, format!("{id}@1 x")));
    }
    assert_eq!(told(&mut events).await, (Bootstrapped, String::new()));
    first.0.set("kept", 2, "y");
    assert_eq!(told(&mut events).await, (Updated, "kept@2 y".into()));

    second.0.set("added", 1, "x");
    second.0.set("kept", 2, "y");
    second.0.set("newer", 5, "x");
    // A node that rebooted counts anew: the version is the same by chance.
    second.0.set("other", 1, "z");
    way.switch();
    assert_eq!(told(&mut events).await, (Created, "added@1 x".into()));
    assert_eq!(told(&mut events).await, (Updated, "newer@5 x".into()));
    assert_eq!(told(&mut events).await, (Updated, "other@1 z".into()));
    assert_eq!(told(&mut events).await, (Destroyed, "gone@1 x".into()), "as it was told last");
    // Neither the kept one nor a second beginning was told; what happens now is.
    second.0.set("gone", 1, "back");
    assert_eq!(told(&mut events).await, (Created, "gone@1 back".into()));
    second.0.set("kept", 3, "z");
    assert_eq!(told(&mut events).await, (Updated, "kept@3 z".into()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_resource_goes_on_after_a_break() {
    use ResourceEvent::{Created, Destroyed, Updated};
    let ours = bundle(1);
    let break_of = async |was: Option<(u32, &str)>, is: Option<(u32, &str)>| {
        let ((before, first), (after, second)) =
            (start(&Api::Configured(&ours), "running"), start(&Api::Configured(&ours), "running"));
        for (node, state) in [(&first, was), (&second, is)] {
            if let Some((version, yaml)) = state {
                node.0.set("one", version, yaml);
            }
        }
        let way = Switch::new(before, after);
        let client = Client::connect(way.clone(), target(), &admin(&ours), &options()).await.unwrap();
        let mut events =
            client.watch_through_reboots("config", "MachineConfigs.config.talos.dev", Some("one"));
        let first = told(&mut events).await;
        way.switch();
        let second_told = async {
            let told = told(&mut events).await;
            (told != (Updated, "one@9 end".to_owned())).then_some(told)
        };
        // What comes after the break, if anything does before the next change.
        let next = async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            second.0.set("one", 9, "end");
            futures::future::pending::<()>().await;
        };
        let second = tokio::select! { told = second_told => told, () = next => None };
        (first, second)
    };
    let (first, then) = break_of(Some((1, "x")), Some((1, "x"))).await;
    assert_eq!((first, then), ((Created, "one@1 x".into()), None), "nothing has changed");
    let (_, then) = break_of(Some((1, "x")), Some((2, "y"))).await;
    assert_eq!(then, Some((Updated, "one@2 y".into())));
    let (_, then) = break_of(Some((1, "x")), None).await;
    assert_eq!(then, Some((Destroyed, "one@1 x".into())), "as it was told last");
    let (first, then) = break_of(None, Some((1, "x"))).await;
    assert_eq!((first.0, then), (Destroyed, Some((Created, "one@1 x".into()))));
    let (_, then) = break_of(None, None).await;
    assert_eq!(then, Some((Created, "one@9 end".into())), "that it is not there was told");
}

/// More happened than the node keeps for a slow reader, so that it ends the watch with an error.
#[tokio::test(start_paused = true)]
async fn a_watch_that_was_too_slow_begins_anew() {
    use ResourceEvent::{Bootstrapped, Created, Updated};
    let ours = bundle(1);
    let (dialer, node) = start(&Api::Configured(&ours), "running");
    let client = Client::connect(dialer, target(), &admin(&ours), &options()).await.unwrap();
    node.0.set("one", 1, "x");
    let mut through = client.watch_through_reboots("network", "LinkStatuses.net.talos.dev", None);
    let mut once = client.watch("network", "LinkStatuses.net.talos.dev", None).await.unwrap();
    for events in [&mut through, &mut once] {
        assert_eq!(told(events).await, (Created, "one@1 x".into()));
        assert_eq!(told(events).await, (Bootstrapped, String::new()));
    }
    node.0.overrun();
    let error = once.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Some(FailureKind::Transient));
    node.0.set("one", 900, "y");
    assert_eq!(told(&mut through).await, (Updated, "one@900 y".into()), "and not again what was told");
}

#[tokio::test(start_paused = true)]
async fn nothing_secret_in_errors() {
    let ours = bundle(1);
    let mut credentials = admin(&ours);
    credentials.key = daedal_talos_config::Secret::new(
        "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n",
    );
    let (dialer, _node) = start(&Api::Configured(&ours), "running");
    let error = Client::connect(dialer, target(), &credentials, &options()).await.unwrap_err();
    let shown = format!("{error} {error:?} {credentials:?}");
    assert!(!shown.contains("canary") && !shown.contains("Y2FuYXJ5"), "{shown}");
}
