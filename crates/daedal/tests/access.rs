//! What could not be asked is named as that, with why and what would give access; nothing is claimed of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod common;

use common::{Changed, Lab, SMALL, good, text};

/// A colleague has the inventory and Proxmox, but not the store.
#[test]
fn without_the_secrets_a_healthy_cluster_is_not_called_dead() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    assert!(good(&small.run(&lab, &["status", "--detailed-exitcode"])).contains("2 of 2 nodes are as"));

    let empty = lab.dir().with_file_name("empty").display().to_string();
    let ran = small.run(&lab, &["status", "--state", &empty]);
    let (table, why) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(78), "{table}{why}");
    assert_eq!(table.matches("running").count(), 2, "what Proxmox says is still said: {table}");
    assert_eq!(
        table.matches("not asked").count(),
        2 + 2 + 1 + 1,
        "Talos, Kubernetes, etcd, endpoint: {table}"
    );
    assert!(
        table.contains("2 of 2 VMs run; whether their nodes are as they should be is not known"),
        "{table}"
    );
    for lie in ["does not answer", "0 of 2", "unreachable", "NotReady"] {
        assert!(!table.contains(lie), "{lie}: {table}");
    }
    assert!(
        why.contains("Talos and Kubernetes could not be asked: the secrets of cluster home are not in"),
        "{why}"
    );
    assert!(why.contains("--state DIR") && why.contains("secrets import FILE"), "{why}");
    // An apply would be refused, so that it is no advice.
    assert!(!why.contains("daedal apply") && !table.contains("daedal apply"), "{table}{why}");

    // The same for programs: unknown is neither true nor false.
    let ran = small.run(&lab, &["status", "--state", &empty, "-o", "json"]);
    assert_eq!(ran.status.code(), Some(78));
    let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(json["healthy"].is_null() && json["endpointAnswers"].is_null(), "{json:#}");
    assert_eq!(json["unasked"][0]["because"], "no-secrets", "{json:#}");
    assert_eq!(json["unasked"][1]["side"], "Kubernetes", "{json:#}");
    assert!(json["nodes"].as_array().unwrap().iter().all(|node| node["healthy"].is_null()), "{json:#}");
}

/// A typo must not look like success.
#[test]
fn a_node_that_nobody_knows_cannot_be_removed() {
    let lab = Lab::new();
    let all = Changed::new("home", &[("count: 3 ", "count: 1 ")]);
    good(&all.run(&lab, &["apply", "--yes"]));
    let small = Changed::new("home", SMALL);
    for words in
        [&["node", "remove", "worker-9", "--yes"][..], &["node", "remove", "worker-9", "--plan-only"]]
    {
        let ran = small.run(&lab, words);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(66), "{said}{}", text(&ran.stdout));
        assert!(said.contains("there is no node called worker-9"), "{said}");
        assert!(said.contains("No longer declared, and still there: worker-2"), "{said}");
        assert!(said.contains("Declared: cp-1, worker-1"), "{said}");
    }
    // A wrong name among right ones, as after a run that was cut short: the rest goes, and it is no success.
    let ran = small.run(&lab, &["node", "remove", "worker-2", "worker-9", "--yes"]);
    let said = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(66), "{said}{}", text(&ran.stderr));
    assert!(said.contains("worker-9: There is no such node") && said.contains("worker-2 is gone"), "{said}");
    let ran = small.run(&lab, &["node", "remove", "worker-2", "--yes"]);
    assert_eq!(ran.status.code(), Some(66), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("nothing is left to remove"), "{}", text(&ran.stderr));
}

/// Whoever lacks the password of a registry can still look and clean up; only what makes machine configs needs it.
#[test]
fn a_missing_secret_blocks_only_what_needs_it() {
    let lab = Lab::new();
    let registry = "  registries: {ghcr.io: {auth: {username: me, password: {env: ACCESS_TEST_PASSWORD}}}}\n\n  network:\n";
    let cluster = Changed::new("home", &[SMALL, &[("  network:\n", registry)]].concat());
    let apply = &["apply", "--yes"];
    let with = |words: &[&str]| {
        lab.command_on(words, &cluster.file()).env("ACCESS_TEST_PASSWORD", "s3cret").output().unwrap()
    };
    good(&with(apply));
    assert!(good(&with(&["status", "--detailed-exitcode"])).contains("2 of 2 nodes are as they should be"));

    for words in [&["plan"][..], apply, &["check"]] {
        let ran = cluster.run(&lab, words);
        assert_eq!(ran.status.code(), Some(78), "{words:?}: {}", text(&ran.stderr));
    }
    let ran = cluster.run(&lab, &["status"]);
    let said = good(&ran);
    assert!(said.contains("Not seen: machine configs: not compared with the declared ones"), "{said}");
    assert!(said.contains("The environment variable ACCESS_TEST_PASSWORD is not set"), "{said}");
    assert!(said.contains("2 of 2 nodes are as they should be, as far as was seen"), "{said}");
    assert!(text(&ran.stderr).contains("warning: The environment variable ACCESS_TEST_PASSWORD"));
    // Not all was compared, so that not all is known to be well.
    let ran = cluster.run(&lab, &["status", "--detailed-exitcode"]);
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stdout));
    for words in
        [&["outputs"][..], &["outputs", "kubeconfig"], &["env"], &["node", "list"], &["node", "show", "cp-1"]]
    {
        good(&cluster.run(&lab, words));
    }
    assert!(good(&cluster.run(&lab, &["destroy", "--confirm", "home"])).contains("Cluster home is gone"));
}
