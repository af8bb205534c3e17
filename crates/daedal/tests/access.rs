//! What could not be asked is named as that, with why and what would give access; nothing is claimed of it.

use crate::common;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use common::{Changed, Lab, SMALL, command, good, text};

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
    assert!(table.contains("2 of 2 VMs run. 2 nodes could not be checked."), "{table}");
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

/// What is not seen of one node is told as that, with why, and with the exit code that says the same.
#[test]
fn a_node_without_its_secrets_is_shown_as_far_as_it_can_be_seen() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    let show = ["node", "show", "cp-1"];
    let empty = lab.dir().with_file_name("empty").display().to_string();
    // Where nothing was made yet, there are no secrets, and nothing to ask.
    let said = good(&small.run(&lab, &show));
    assert!(
        said.contains("There is no VM 300.") && said.contains("the secrets of cluster home are not in"),
        "{said}"
    );
    good(&small.run(&lab, &["apply", "--yes"]));

    let no_key = lab.dir().with_file_name("no-key.txt").display().to_string();
    for (flags, why) in
        [(["--state", &empty], "the secrets of cluster home are not in"), (["--key", &no_key], "no-key.txt")]
    {
        let ran = small.run(&lab, &[&show[..], &flags].concat());
        let (page, help) = (text(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(78), "{page}{help}");
        assert!(page.contains("300 (cp-1) on atlas, running"), "what Proxmox says is still said: {page}");
        assert!(page.contains("ours (its mark was not compared with the secrets)"), "{page}");
        assert_eq!(page.matches("could not be asked: ").count(), 2, "{page}");
        assert_eq!(page.matches(why).count(), 2, "{page}");
        for lie in ["has no secrets yet", "There is no VM"] {
            assert!(!page.contains(lie), "{lie}: {page}");
        }
        assert!(help.contains("error: Talos and Kubernetes could not be asked: "), "{help}");
        let ran = small.run(&lab, &[&show[..], &flags, &["-o", "json"]].concat());
        let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(ran.status.code(), Some(78), "{json:#}");
        assert!(json["talos"]["unseen"].as_str().unwrap().contains(why), "{json:#}");
        assert_eq!(json["proxmox"]["seen"]["secretsCompared"], false, "{json:#}");
    }
}

/// Only VMs that run are counted as running, and only nodes that were seen are judged.
#[test]
fn status_counts_what_was_seen_and_nothing_else() {
    let lab = Lab::new();
    let hosts = ("hosts: [atlas] ", "hosts: [atlas, boreas] ");
    let two = Changed::new("home", &[("count: 3 ", "count: 1 "), hosts]);
    // Nobody asked an endpoint behind which nothing runs.
    let said = good(&two.run(&lab, &["status"]));
    assert!(said.contains("was not asked: no VM of the cluster runs. 0 of 3 nodes are"), "{said}");
    assert!(two.json(&lab, &["status"])["endpointAnswers"].is_null());
    good(&two.run(&lab, &["apply", "--yes"]));
    let json = two.json(&lab, &["status"]);
    let on =
        |host: &str| json["nodes"].as_array().unwrap().iter().filter(|node| node["host"] == host).count();
    let (here, there) = (on("atlas"), on("boreas"));
    assert!(here == 2 && there == 1, "{json:#}");
    lab.tamper(|world| world["datacenter"]["hosts"]["boreas"]["online"] = false.into());
    let ran = two.run(&lab, &["status", "--detailed-exitcode"]);
    let said = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("2 of 3 VMs run, 1 could not be seen."), "{said}");
    assert!(said.contains("1 node could not be checked."), "{said}");
    let json = two.json(&lab, &["status"]);
    let running: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|node| &node["running"]).collect();
    assert_eq!(running.iter().filter(|running| running.is_null()).count(), 1, "{json:#}");
    assert!(json["healthy"] != true, "{json:#}");
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
    for words in [
        &["outputs"][..],
        &["outputs", "kubeconfig"],
        &["env"],
        &["node", "list"],
        &["node", "show", "cp-1"],
        &["node", "mark", "cp-1"],
        &["templates", "list"],
        &["templates", "prune"],
        &["volumes", "list"],
        &["volumes", "prune"],
    ] {
        good(&cluster.run(&lab, words));
    }
    let said = good(&cluster.run(&lab, &["proxmox", "firewall", "--yes"]));
    assert!(said.contains("2 firewalls turned on"), "{said}");
    assert!(good(&cluster.run(&lab, &["destroy", "--confirm", "home"])).contains("Cluster home is gone"));
}

/// What a run says before it has ended, up to a line with these words.
fn says(inventory: &Changed, words: &str) -> String {
    let mut plan = command(["plan", "-f"]);
    plan.arg(inventory.file()).env("PROXMOX_TOKEN_SECRET", "x").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = plan.spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let found = said.inspect(|line| println!("{line}")).find(|line| line.contains(words));
    let _ = child.kill();
    let _ = child.wait();
    found.unwrap_or_else(|| panic!("it ended without saying: {words}"))
}

/// Whoever accepts and never answers is named while it is waited for, and so is the proxy in between.
#[test]
fn a_silent_proxmox_and_a_silent_proxy_are_named_long_before_they_are_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap().to_string();
    let direct = Changed::new("home", &[("https://atlas.lan:8006", &format!("https://{at}"))]);
    let said = says(&direct, "no answer for");
    assert!(said.contains(&format!("waiting for Proxmox at https://{at}: no answer for")), "{said}");

    let reach = format!("  reach: {{proxy: \"http://{at}\"}}\n\n  network:\n");
    let proxied = Changed::new("home", &[("  network:\n", &reach)]);
    let said = says(&proxied, "no answer for");
    let through = format!("Proxmox at https://atlas.lan:8006 through the proxy http://{at} (`reach.proxy`)");
    assert!(said.contains(&through), "{said}");
}
