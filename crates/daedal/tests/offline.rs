//! The commands that need no world: help, exit codes, the inventory, its schema, its diagnostics.

use crate::common;

use common::{daedal, text};

#[test]
fn wrong_command_lines_exit_with_64_and_help_with_0() {
    assert_eq!(daedal(["--version"]).status.code(), Some(0));
    assert_eq!(daedal(["--help"]).status.code(), Some(0));
    assert_eq!(daedal(["fly"]).status.code(), Some(64));
    assert_eq!(daedal(["plan", "--no-such-flag"]).status.code(), Some(64));
}

#[test]
fn help_documents_every_exit_code() {
    let help = text(&daedal(["--help"]).stdout);
    for code in ["0 ", "1 ", "2 ", "64", "65", "66", "69", "73", "75", "77", "78", "129", "130", "143"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(code)), "exit code {code}");
    }
}

#[test]
fn every_example_passes_the_offline_check() {
    let examples = common::root().join("examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let file = entry.unwrap().path().join("cluster.yaml");
        let run = daedal(["check", "-f", &file.display().to_string()]);
        assert_eq!(run.status.code(), Some(0), "{}: {}", file.display(), text(&run.stderr));
        seen += 1;
    }
    assert!(seen >= 4);
}

#[test]
fn a_secret_that_is_missing_is_78_unless_the_inventory_is_wrong_besides() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read_to_string(common::root().join("examples/home/cluster.yaml")).unwrap();
    let file = folder.path().join("cluster.yaml");
    let lacks = format!(
        "{good}\n  registries: {{ghcr.io: {{auth: {{username: me, password: {{env: NO_SUCH_PASSWORD}}}}}}}}\n"
    );
    for (text, exit) in [(lacks.replace("count: 3", "count: 4"), 65), (lacks, 78)] {
        std::fs::write(&file, text).unwrap();
        let run = daedal(["check", "-f", &file.display().to_string()]);
        let said = common::text(&run.stderr);
        assert_eq!(run.status.code(), Some(exit), "{said}");
        assert!(said.contains("NO_SUCH_PASSWORD is not set"), "{said}");
    }
}

#[test]
fn a_missing_inventory_is_66_and_says_what_to_do() {
    let run = daedal(["check", "-f", "no/such/file.yaml"]);
    assert_eq!(run.status.code(), Some(66));
    assert!(text(&run.stderr).contains("help: Name it with -f FILE"));
}

#[test]
fn an_inventory_that_is_no_utf8_is_65_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    std::fs::write(&file, b"kind: Cluster\nmetadata:\n  name: m\xfcnchen\n").unwrap();
    let run = daedal(["check", "-f", &file.display().to_string()]);
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(65), "{said}");
    assert!(said.contains("is not UTF-8: see line 3") && !said.contains("-f FILE"), "{said}");
}

#[test]
fn a_bad_inventory_is_65_with_every_error_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read_to_string(common::root().join("examples/home/cluster.yaml")).unwrap();
    let bad = good.replace("gateway: 10.0.0.1", "gatway: 10.0.0.1").replace("count: 3", "count: 4");
    let file = folder.path().join("cluster.yaml");
    std::fs::write(&file, bad).unwrap();
    let run = daedal(["check", "-f", &file.display().to_string()]);
    assert_eq!(run.status.code(), Some(65));
    let said = text(&run.stderr);
    assert!(said.contains("gatway") && said.contains("gateway"), "{said}");
    assert!(said.contains("cluster.yaml:"), "{said}");
    let run = daedal(["check", "-o", "json", "-f", &file.display().to_string()]);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(json["exitCode"], 65);
    assert!(json["causes"].as_array().unwrap().len() >= 2, "{json}");
}

#[test]
fn a_missing_token_is_78_and_names_the_variable() {
    let file = common::root().join("examples/home/cluster.yaml").display().to_string();
    let run = common::command(["plan", "-f", &file]).env_remove("PROXMOX_TOKEN_SECRET").output().unwrap();
    assert_eq!(run.status.code(), Some(78));
    assert!(text(&run.stderr).contains("PROXMOX_TOKEN_SECRET"));
}

#[test]
fn the_schema_is_a_json_schema_and_the_resolved_inventory_has_everything_decided() {
    let schema: serde_json::Value = serde_json::from_slice(&daedal(["inventory", "schema"]).stdout).unwrap();
    assert!(schema["$schema"].as_str().unwrap().contains("json-schema.org"));
    let file = common::root().join("examples/home/cluster.yaml").display().to_string();
    let run = daedal(["inventory", "show", "--resolved", "-o", "json", "-f", &file]);
    let cluster: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let nodes = cluster["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 5);
    let vmids: Vec<_> = nodes.iter().map(|node| node["vmid"].as_u64().unwrap()).collect();
    assert_eq!(vmids, [300, 301, 302, 303, 304]);
    assert_eq!(nodes[4]["address"], "10.0.0.22/16");
    assert_eq!(cluster["network"]["vip"], "10.0.0.20");
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let run = daedal(["completions", shell]);
        assert!(run.status.success() && text(&run.stdout).contains("daedal"), "{shell}");
        let json = daedal(["completions", shell, "-o", "json"]).stdout;
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&json["shell"], &json["script"]), (&shell.into(), &text(&run.stdout).into()));
    }
}

#[test]
fn what_reads_well_but_cannot_be_done_is_refused_before_anything_is() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read_to_string(common::root().join("examples/home/cluster.yaml")).unwrap();
    let file = folder.path().join("cluster.yaml");
    let bad = good.replace("  pools:", "  patches: [{inline: \"machine: [\"}]\n  pools:");
    assert_ne!(good, bad);
    std::fs::write(&file, bad).unwrap();
    let run = daedal(["check", "-f", &file.display().to_string()]);
    assert_eq!(run.status.code(), Some(65), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("patch"), "{}", text(&run.stderr));

    let later = "{apiVersion: v1alpha1, kind: SysctlConfig, params: {a: b}}";
    let later = good.replace("  pools:", &format!("  patches:\n    - inline: |\n        {later}\n  pools:"));
    std::fs::write(&file, later).unwrap();
    let run = daedal(["check", "-f", &file.display().to_string()]);
    assert_eq!(run.status.code(), Some(65), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("it came with v1.14"), "{}", text(&run.stderr));

    std::fs::write(folder.path().join("a.yaml"), "machine:\n  type: worker\n  kubelt: {image: hush}\n")
        .unwrap();
    let two = good.replace(
        "  pools:",
        "  patches:\n    - file: a.yaml\n    - inline: |\n        machine:\n          kernel: {modules: hush}\n  pools:",
    );
    let line = 1 + two.lines().position(|line| line.contains("kernel:")).unwrap();
    std::fs::write(&file, two).unwrap();
    for command in [&["check"][..], &["check", "-o", "json"], &["plan", "--lab"]] {
        let run = common::command(command).arg("-f").arg(&file).output().unwrap();
        let said = text(&run.stderr) + &text(&run.stdout);
        assert_eq!(run.status.code(), Some(65), "{said}");
        for words in
            ["a.yaml:3:3", "did you mean `kubelet`?", &format!("cluster.yaml:{line}:20"), "must be a list"]
        {
            assert!(said.contains(words), "{command:?}: no {words} in {said}");
        }
        assert!(!said.contains("hush"), "{said}");
    }
}

/// A config that no node would take, or that none should, is refused by name before anything is done.
#[test]
fn an_invalid_machine_config_never_leaves_the_machine() {
    let on_workers = "address: 10.0.0.21    # .21, .22";
    let cases: [(&str, &str, &str, &[&str]); 5] = [
        ("v1.12.0", "v1.35.0", "persist: false", &["worker-1", "persist: must be true"]),
        (
            "v1.12.0",
            "v1.35.0",
            "{apiVersion: v1alpha1, kind: Layer2VIPConfig, name: 10.0.0.99, link: eth0}",
            &["worker-1", "Layer2VIPConfig"],
        ),
        ("v1.12.0", "v1.35.0", "[{op: remove, path: /machine/install}]", &["worker-1", "single document"]),
        ("v1.11.0", "v1.34.0", "[{op: remove, path: /machine/nothing}]", &["worker-1", "/machine/***"]),
        (
            "v1.12.0",
            "v1.35.0",
            "cluster: {etcd: {advertisedSubnets: [10.0.0.0/16]}}",
            &["must not be on a worker"],
        ),
    ];
    for (talos, kubernetes, patch, words) in cases {
        let patched = format!("{on_workers}\n      patches:\n        - inline: |\n            {patch}\n");
        let changed = common::Changed::new(
            "home",
            &[("v1.12.0", talos), ("v1.35.0", kubernetes), (on_workers, &patched)],
        );
        let lab = common::Lab::new();
        for command in [&["check"][..], &["plan", "--lab"], &["apply", "--yes", "--lab"]] {
            let mut run = common::command(command);
            run.arg("-f").arg(changed.file());
            if command.contains(&"--lab") {
                run.arg("--lab-dir").arg(lab.dir());
            }
            let run = run.output().unwrap();
            let said = text(&run.stderr);
            assert_eq!(run.status.code(), Some(65), "{command:?} {patch}: {said}");
            for word in words.iter().chain(&["patches[0]", "Nothing was done"]) {
                assert!(said.contains(word), "{command:?} {patch}: no {word} in {said}");
            }
        }
    }
}

/// Nothing is made for nodes whose image cannot be: not even media with keys on them.
#[test]
fn an_image_that_the_factory_cannot_build_is_refused_before_anything_is_done() {
    let misspelled = common::Changed::new("home", &[("- tailscale", "- tailscal")]);
    let unknown = common::Changed::new("home", &[("version: v1.12.0", "version: v1.12.99")]);
    let renamed = common::Changed::new("home", &[("- tailscale", "- i915-ucode")]);
    let lab = common::Lab::new();
    let cases = [
        (
            &misspelled,
            [
                "siderolabs/tailscal is no official extension of Talos v1.12.0",
                "did you mean siderolabs/tailscale?",
            ],
        ),
        (&unknown, ["it has no Talos v1.12.99", "set talos.version to v1.12."]),
    ];
    for (changed, words) in cases {
        for command in [&["plan"][..], &["apply", "--yes"]] {
            let run = changed.run(&lab, command);
            let said = text(&run.stderr);
            assert_eq!(run.status.code(), Some(65), "{command:?}: {said}");
            for words in words.iter().chain(&["Nothing was done"]) {
                assert!(said.contains(words), "{command:?}: no {words} in {said}");
            }
        }
    }
    // Under its former name an extension is on no list, and is built all the same.
    common::good(&renamed.run(&lab, &["plan"]));
    let plan = lab.run(&["plan"], "home");
    let said = common::good(&plan);
    assert!(said.contains("register schematic") && said.contains("create the secrets bundle"), "{said}");
}

/// A node that nobody declared is not looked for, and no lab is started for it.
#[test]
fn a_node_that_is_not_declared_is_told_at_once() {
    let lab = common::Lab::new();
    // Another number is as likely to be any of them: none is suggested.
    for (name, meant) in
        [("nope", None), ("cp-9", None), ("worker-12", None), ("worker1", Some("Did you mean worker-1?"))]
    {
        for command in ["show", "mark"] {
            let run = lab.run(&["node", command, name], "home");
            let said = text(&run.stderr);
            assert_eq!(run.status.code(), Some(66), "{said}");
            assert!(said.contains("Declared: cp-1, cp-2, cp-3, worker-1, worker-2"), "{said}");
            assert_eq!(said.contains("Did you mean"), meant.is_some(), "{said}");
            assert!(meant.is_none_or(|meant| said.contains(meant)), "{said}");
        }
    }
    assert!(!lab.dir().exists(), "a lab was started");
}

/// What deserves a second look is a line for people, and a text with its nodes for programs.
#[test]
fn a_second_look_is_told_with_its_nodes() {
    let route = "{apiVersion: v1alpha1, kind: LinkConfig, name: net0, routes: [{destination: 10.9.0.0/16, gateway: 192.168.0.1}]}";
    let changed = common::Changed::new(
        "home",
        &[(
            "  pools:",
            &format!("  patches:\n    - role: worker\n      inline: |\n        {route}\n  pools:"),
        )],
    );
    let file = changed.file().display().to_string();
    let words = "routes through 192.168.0.1, which none of its addresses reaches";
    let said = text(&daedal(["check", "-f", &file]).stderr);
    assert!(said.contains(words) && said.contains("(node worker-1, worker-2)"), "{said}");
    let run = daedal(["check", "-o", "json", "-f", &file]);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let doubt = &json["doubts"][0];
    assert_eq!(doubt["nodes"], serde_json::json!(["worker-1", "worker-2"]), "{json}");
    assert!(doubt["text"].as_str().unwrap().ends_with(words), "{json}");
}
