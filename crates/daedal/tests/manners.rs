//! How commands behave towards whoever calls them: exit codes, files, what is said and what is left.

use crate::common;

use common::{BESIDE, Changed, Lab, SMALL, command, daedal, good, text};

/// A Proxmox that is not there is 69 for every command that asks it.
#[test]
fn an_unreachable_proxmox_is_69_and_says_so() {
    // Nothing listens on port 1 of the loopback address.
    let nowhere = Changed::new("home", &[("https://atlas.lan:8006", "https://127.0.0.1:1")]);
    for line in [&["check", "--live"][..], &["plan"]] {
        let mut run = command(line);
        let run = run.arg("-f").arg(nowhere.file()).env("PROXMOX_TOKEN_SECRET", "x").output().unwrap();
        let said = text(&run.stdout) + &text(&run.stderr);
        assert_eq!(run.status.code(), Some(69), "{line:?}: {said}");
        assert!(said.contains("Proxmox cannot be reached"), "{line:?}: {said}");
    }
}

#[test]
fn a_ca_that_is_not_there_is_told_before_it_is_needed() {
    let file = common::root().join("examples/enterprise/cluster.yaml").display().to_string();
    let run = daedal(["check", "-f", &file]);
    assert_eq!(run.status.code(), Some(0));
    assert!(text(&run.stderr).contains("pve-root-ca.pem does not exist yet"), "{}", text(&run.stderr));
}

#[test]
fn a_version_that_yaml_reads_as_a_number_is_met_with_what_to_write() {
    let bad = Changed::new("home", &[("version: v1.12.0", "version: 1.12")]);
    let run = daedal(["check", "-f", &bad.file().display().to_string()]);
    assert_eq!(run.status.code(), Some(65));
    assert!(text(&run.stderr).contains("v1.12.0"), "{}", text(&run.stderr));
}

/// A cluster's whole life, and what its commands leave behind.
#[test]
fn plans_pictures_and_outputs_follow_the_cluster() {
    let lab = Lab::new();
    let home = Changed::new("home", &[("count: 3 ", "count: 1 "), ("count: 2\n", "count: 0\n")]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    assert_eq!(home.run(&lab, &["status", "--detailed-exitcode"]).status.code(), Some(2), "nothing is there");

    // A saved plan knows what it was made for.
    good(&home.run(&lab, &["plan", "--save", &at("plan.json")]));
    let said = good(&command(["apply", &at("plan.json")]).output().unwrap());
    assert!(said.contains("1 node Ready, 1 VM created"), "{said}");
    assert_eq!(home.run(&lab, &["status", "--detailed-exitcode"]).status.code(), Some(0));
    assert!(good(&home.run(&lab, &["status"])).contains("The one node is as it should be."));

    // A run without changes is a picture, too.
    good(&home.run(&lab, &["apply", "--yes", "--timeline", &at("nothing.svg")]));
    assert!(std::fs::read_to_string(at("nothing.svg")).unwrap().contains("no changes"));

    // One page about the node, from all three sides.
    let page = home.json(&lab, &["node", "show", "cp-1"]);
    assert_eq!(page["proxmox"]["seen"]["ownership"], "ours");
    assert_eq!(page["proxmox"]["seen"]["power"], "running");
    assert_eq!(page["talos"]["seen"]["version"], "v1.12.0");
    assert_eq!(page["talos"]["seen"]["etcd"]["seen"]["members"], 1);
    assert!(page["talos"]["seen"]["certificateEnds"].is_string());
    assert_eq!(page["kubernetes"]["seen"]["kubelet"], "v1.35.0");
    let said = good(&home.run(&lab, &["node", "show", "cp-1"]));
    for word in
        ["VM           300", "10.0.0.11", "etcd", "qemu-guest-agent", "Ready: True", "/dev/sda", "digest"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    for command in ["show", "mark"] {
        let unknown = home.run(&lab, &["node", command, "cp-9"]);
        let said = text(&unknown.stderr);
        assert_eq!(unknown.status.code(), Some(66), "{said}");
        assert!(said.contains("no node called cp-9") && said.contains("Declared: cp-1"), "{said}");
    }

    // Once it is gone, nothing leads to it any more; its secrets stay.
    good(&home.run(&lab, &["destroy", "--confirm", "home"]));
    assert_eq!(home.run(&lab, &["env"]).status.code(), Some(66));
    assert_eq!(home.run(&lab, &["outputs", "kubeconfig"]).status.code(), Some(66));
    good(&home.run(&lab, &["secrets", "show"]));
    let page = home.json(&lab, &["node", "show", "cp-1"]);
    assert_eq!(page["proxmox"]["absent"], "There is no VM 300.", "{page}");
}

/// A changed inventory changes running nodes: told field by field, carried out, and then there is nothing left to do.
/// Mission: M19, M21
#[test]
fn a_changed_inventory_changes_running_nodes() {
    let lab = Lab::new();
    let before = Changed::new("home", SMALL);
    good(&before.run(&lab, &["apply", "--yes"]));
    let after = Changed::new(
        "home",
        &[SMALL, &[("  pools:", "  machine: {sysctls: {vm.max_map_count: \"262144\"}}\n  pools:")]].concat(),
    );
    let plan = after.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(2));
    let said = text(&plan.stdout);
    for word in [
        "change its machine config",
        "+ machine.sysctls",
        "262144",
        "without a reboot",
        "Nothing is restarted",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    good(&after.run(&lab, &["apply", "--yes"]));
    let plan = after.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    assert_eq!(after.json(&lab, &["status"])["healthy"], true);
}

/// What Tailscale is told rides in every machine config. When the secret in it changes, where it is does not: it is
/// seen all the same, carried out, and stands in the outputs.
/// Mission: H7
#[test]
fn a_changed_secret_reaches_running_nodes_and_the_outputs() {
    let lab = Lab::new();
    let machine = "  machine:
    extensionServices:
      - {name: tailscale, environment: {TS_AUTHKEY: {file: authkey}, TS_LOGIN_SERVER: https://headscale.lan}}
  pools:";
    let home = Changed::new("home", &[SMALL, &[("  pools:", machine)]].concat());
    let key = home.file().with_file_name("authkey");
    let outputs = lab.dir().join("clusters/home/outputs");
    let written = || -> Vec<String> {
        let files = ["nodes/cp-1.yaml", "nodes/worker-1.yaml"];
        files.map(|name| std::fs::read_to_string(outputs.join(name)).unwrap()).to_vec()
    };
    std::fs::write(&key, "canary-first-key\n").unwrap();
    good(&home.run(&lab, &["apply", "--yes"]));
    for config in written() {
        assert!(config.contains("kind: ExtensionServiceConfig"), "{config}");
        assert!(config.contains("TS_AUTHKEY=canary-first-key"), "{config}");
        assert!(config.contains("TS_LOGIN_SERVER=https://headscale.lan"), "{config}");
    }
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));

    std::fs::write(&key, "canary-second-key\n").unwrap();
    let plan = home.run(&lab, &["plan", "--detailed-exitcode"]);
    let said = text(&plan.stdout);
    assert_eq!(plan.status.code(), Some(2), "{said}");
    assert!(said.contains("write the output files") && said.contains("[secret "), "{said}");
    assert!(!said.contains("canary"), "{said}");
    good(&home.run(&lab, &["apply", "--yes"]));
    assert!(written().iter().all(|config| config.contains("TS_AUTHKEY=canary-second-key")));
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
}

/// One list of nodes; they ask for their addresses first, and are told them later, without a reboot.
/// Mission: H6
#[test]
fn addresses_are_asked_for_first_and_told_later() {
    let lab = Lab::new();
    let asking = Changed::new("home", &[SMALL, &[("  network:\n", "  network:\n    dhcp: true\n")]].concat());
    good(&asking.run(&lab, &["apply", "--yes"]));
    let config =
        std::fs::read_to_string(lab.dir().join("clusters/home/outputs/nodes/worker-1.yaml")).unwrap();
    assert!(config.contains("kind: DHCPv4Config") && !config.contains("10.0.0.21"), "{config}");
    let reserved = good(&asking.run(&lab, &["outputs", "dnsmasq"]));
    assert!(reserved.contains(",10.0.0.21,worker-1"), "{reserved}");
    assert_eq!(asking.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));

    let told = Changed::new("home", SMALL);
    let plan = told.run(&lab, &["plan", "--detailed-exitcode"]);
    let said = text(&plan.stdout);
    assert_eq!(plan.status.code(), Some(2), "{said}");
    assert!(said.contains("10.0.0.21/16") && said.contains("Nothing is restarted"), "{said}");
    good(&told.run(&lab, &["apply", "--yes"]));
    assert_eq!(told.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    assert_eq!(told.json(&lab, &["status"])["healthy"], true);
}

/// Clusters side by side on one Proxmox, in one store: each its own secrets and outputs, and one's end is not the other's.
/// Mission: M23
#[test]
fn clusters_live_side_by_side() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    let work = Changed::new("home", &[SMALL, BESIDE].concat());
    good(&home.run(&lab, &["apply", "--yes"]));
    good(&work.run(&lab, &["apply", "--yes"]));
    let secrets = |name: &str| {
        std::fs::read_to_string(lab.dir().join("clusters").join(name).join("outputs/secrets.yaml")).unwrap()
    };
    assert_ne!(secrets("home"), secrets("work"));
    for cluster in [&home, &work] {
        assert_eq!(cluster.json(&lab, &["status"])["healthy"], true);
        assert_eq!(cluster.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    }
    good(&home.run(&lab, &["destroy", "--confirm", "home"]));
    assert_eq!(work.json(&lab, &["status"])["healthy"], true);
    assert_eq!(work.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
}

/// What was approved is executed, wherever the folder with inventory and plan is by then, and nothing else is.
#[test]
fn a_saved_plan_is_shown_moved_and_executed_only_as_the_expected_one() {
    let lab = Lab::new();
    let home = Changed::new("home", &[("count: 3 ", "count: 1 "), ("count: 2\n", "count: 0\n")]);
    let plan = home.file().with_file_name("plan.json");
    let made = lab.command_on(&["plan"], &home.file()).arg("--save").arg(&plan).output().unwrap();
    good(&made);
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&plan).unwrap()).unwrap();
    assert_eq!(json["inventory"], "cluster.yaml", "relative to the plan");
    let moved = tempfile::tempdir().unwrap();
    for name in ["cluster.yaml", "plan.json"] {
        std::fs::copy(home.file().with_file_name(name), moved.path().join(name)).unwrap();
    }
    let plan = moved.path().join("plan.json");

    // Shown without asking anybody, with what names it.
    let shown = command(["plan", "show"]).arg(&plan).output().unwrap();
    assert!(good(&shown).contains("create VM 300"), "{}", text(&shown.stdout));
    let as_json = command(["plan", "show", "-o", "json"]).arg(&plan).output().unwrap();
    let as_json: serde_json::Value = serde_json::from_slice(&as_json.stdout).unwrap();
    let id = as_json["id"].as_str().unwrap();
    assert!(text(&shown.stderr).contains(&format!("Plan {id}, made by daedal")), "{}", text(&shown.stderr));
    assert!(text(&made.stderr).contains(&format!("--expect {id}")), "{}", text(&made.stderr));

    // One of an older version is refused as that, whatever else is in it.
    let mut older: serde_json::Value = serde_json::from_slice(&std::fs::read(&plan).unwrap()).unwrap();
    older["plan"]["format"] = 1.into();
    older["plan"]["notes"] = serde_json::json!([{"level": "info", "about": "cp-1", "text": "It is there."}]);
    let file = moved.path().join("older.json");
    std::fs::write(&file, older.to_string()).unwrap();
    let refused = command(["plan", "show"]).arg(&file).output().unwrap();
    assert_eq!(refused.status.code(), Some(65), "{}", text(&refused.stderr));
    let said = text(&refused.stderr);
    assert!(said.contains("its format is 1, this version knows 2") && said.contains("plan --save"), "{said}");

    let apply = |id: &str| {
        let mut apply = command(["apply", "--expect", id, "--lab", "--lab-speed", "60", "--lab-dir"]);
        apply.arg(lab.dir()).arg(&plan).output().unwrap()
    };
    let refused = apply("0123456789ab");
    assert_eq!(refused.status.code(), Some(65), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains(&format!("the saved plan is {id}")), "{}", text(&refused.stderr));
    assert!(good(&apply(id)).contains("1 node Ready"));
    let alone = daedal(["apply", "--expect", id]);
    assert_eq!(alone.status.code(), Some(64), "it is about a saved plan: {}", text(&alone.stderr));
}

/// Each wrong line of an inventory is an object with its place, for editors and CI.
#[test]
fn what_is_wrong_with_an_inventory_is_told_to_programs_field_by_field() {
    let bad = Changed::new("home", &[("count: 3 ", "count: 4 "), ("version: v1.12.0", "version: latest")]);
    let run = daedal(["check", "-o", "json", "-f", &bad.file().display().to_string()]);
    assert_eq!(run.status.code(), Some(65));
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.len() >= 2, "{json:#}");
    for finding in findings {
        assert!(finding["line"].is_u64() && finding["column"].is_u64(), "{finding:#}");
        assert!(finding["file"].as_str().unwrap().ends_with("cluster.yaml"), "{finding:#}");
        assert!(finding["code"].is_string() && finding["message"].is_string(), "{finding:#}");
        assert_eq!(finding["severity"], "error");
    }
}

/// Names are completed from the inventory at hand; without one there are none, and no complaint.
#[test]
fn shells_complete_nodes_outputs_roles_and_clusters() {
    let file = common::root().join("examples/home/cluster.yaml").display().to_string();
    let nodes = good(&daedal(["complete", "nodes", "-f", &file]));
    assert_eq!(nodes.lines().collect::<Vec<_>>(), ["cp-1", "cp-2", "cp-3", "worker-1", "worker-2"]);
    assert!(good(&daedal(["complete", "roles"])).contains("os:reader"));
    assert!(good(&daedal(["complete", "outputs", "-f", &file])).contains("dnsmasq"));
    assert_eq!(good(&daedal(["complete", "clusters", "-f", &file])).trim(), "home");
    assert_eq!(good(&daedal(["complete", "nodes", "-f", "/no/such/file"])), "");
    for shell in ["bash", "zsh", "fish"] {
        let script = good(&daedal(["completions", shell]));
        assert!(script.contains("daedal complete"), "{shell}");
    }
    // The script is one that bash takes, and it asks for names where a command wants one.
    let Ok(bash) = std::process::Command::new("bash").arg("--version").output() else { return };
    assert!(bash.status.success());
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), good(&daedal(["completions", "bash"]))).unwrap();
    for (words, at, names) in
        [("node show -f FILE wor", 5, "worker-1 worker-2"), ("plan -f FILE --cluster ho", 5, "home")]
    {
        let ask = format!(
            "PATH={}:$PATH; source {}; COMP_WORDS=(daedal {}); COMP_CWORD={at}; \
             __daedal_names daedal '' {file}; echo \"${{COMPREPLY[@]}}\"",
            std::path::Path::new(env!("CARGO_BIN_EXE_daedal")).parent().unwrap().display(),
            script.path().display(),
            words.replace("FILE", &file),
        );
        let said = std::process::Command::new("bash").args(["-c", &ask]).output().unwrap();
        assert!(text(&said.stdout).contains(names), "{}{}", text(&said.stdout), text(&said.stderr));
    }
}
