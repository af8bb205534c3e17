//! What a pipeline asks of the binary: findings in the forms of CI systems, and plans that are executed as approved.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::common::{BESIDE, Changed, FINGERPRINT, Lab, SMALL, command, daedal, good, root, text};

/// A check of an inventory as a runner does it, from the root of the repository.
fn check(folder: &Path, arguments: &[&str]) -> std::process::Output {
    command([&["check"][..], arguments].concat()).current_dir(folder).output().unwrap()
}

fn folder(changed: &Changed) -> std::path::PathBuf {
    changed.file().parent().unwrap().to_owned()
}

/// The home example with something of everything that deserves a second look.
fn careless() -> Changed {
    let careless = Changed::new(
        "home",
        &[
            ("daedal@pve!cli", "root@pam!cli"),
            ("{env: PROXMOX_TOKEN_SECRET}", "{file: token.secret}"),
            (FINGERPRINT, "insecure: true"),
            ("environment: lab ", "environment: production "),
            ("    vip: 10", "    dhcp: true\n    vip: 10"),
            (
                "\n  pools:",
                "\n  boot: {config: maintenance, firstContact: tofu}\n  patches: [{file: patch.yaml}]\n  pools:",
            ),
        ],
    );
    let patch =
        "machine:\n  features: {rbac: false}\n  install:\n    image: ghcr.io/siderolabs/installer:latest\n";
    std::fs::write(careless.file().with_file_name("patch.yaml"), patch).unwrap();
    std::fs::write(careless.file().with_file_name("token.secret"), "0a1b2c3d-secret").unwrap();
    careless
}

#[test]
fn what_could_be_safer_is_found_with_an_id_and_a_place() {
    let careless = careless();
    let here = folder(&careless);
    let plain = check(&here, &[]);
    assert!(good(&plain).contains("check --lint"), "{}", text(&plain.stdout));
    let json: Value = serde_json::from_str(&good(&check(&here, &["-o", "json"]))).unwrap();
    let found = json["findings"].as_array().unwrap();
    let at = |id: &str| {
        let finding = found.iter().find(|one| one["code"] == id).unwrap_or_else(|| panic!("{id}: {json:#}"));
        (finding["file"].as_str().unwrap().to_owned(), finding["line"].as_u64().unwrap() as usize)
    };
    let lines: Vec<String> =
        std::fs::read_to_string(careless.file()).unwrap().lines().map(str::to_owned).collect();
    for (id, severity, said) in [
        ("insecure", "warning", "insecure: true"),
        ("root-token", "warning", "root@pam!cli"),
        ("trust-on-first-use", "warning", "firstContact: tofu"),
        ("unprotected", "note", "environment: production"),
    ] {
        let (file, line) = at(id);
        assert_eq!(file, "cluster.yaml");
        assert!(lines[line - 1].contains(said), "{id} is at {line}: {}", lines[line - 1]);
        let finding = found.iter().find(|one| one["code"] == id).unwrap();
        assert_eq!(finding["severity"], severity, "{id}");
        assert!(finding["help"].as_str().is_some_and(|help| !help.is_empty()), "{id}");
    }
    assert_eq!(at("rbac-off"), ("patch.yaml".to_owned(), 2));
    assert_eq!(at("moving-reference"), ("patch.yaml".to_owned(), 4));
    for id in
        ["plain-outputs", "unpinned-image", "unencrypted-disks", "public-discovery", "no-ingress-firewall"]
    {
        at(id);
    }

    // They are no failure unless somebody says so, and what is accepted is not told again.
    let denied = check(&here, &["--deny", "warnings"]);
    assert_eq!(denied.status.code(), Some(1), "{}", text(&denied.stderr));
    let said = text(&denied.stderr);
    assert!(said.contains("are refused by `--deny warnings`") && said.contains("root-token"), "{said}");
    let accepted = "insecure,root-token,trust-on-first-use,rbac-off,moving-reference";
    good(&check(&here, &["--deny", "warnings", "--ignore", accepted]));
    let document = std::fs::read_to_string(careless.file()).unwrap();
    let document = document.replace("\n  pools:", &format!("\n  lint: {{ignore: [{accepted}]}}\n  pools:"));
    std::fs::write(careless.file(), document).unwrap();
    good(&check(&here, &["--deny", "warnings"]));
    assert_eq!(check(&here, &["--deny", "notes"]).status.code(), Some(1));
    let distrusted = check(&here, &["--deny", "warnings", "--untrusted"]);
    assert_ne!(distrusted.status.code(), Some(0), "somebody else's inventory accepts nothing");

    // An id that does not exist, and one that cannot be ignored.
    let wrong = check(&here, &["--ignore", "root-tokens"]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(text(&wrong.stderr).contains("Did you mean `root-token`?"), "{}", text(&wrong.stderr));
    let error = check(&here, &["--ignore", "unknown-key"]);
    assert!(text(&error.stderr).contains("is an error and cannot be ignored"), "{}", text(&error.stderr));
}

/// The home example with what else deserves a second look.
fn careless_otherwise() -> Changed {
    let settings = "
  boot: {image: local:import/talos-1.12.0.raw}
  reach: {ssh: {host: atlas.lan, user: root}}
  registryMirrors: {docker.io: {endpoints: ['http://mirror.lan']}}
  machine: {encryption: {state: [{nodeId: true}], ephemeral: [{nodeId: true}]}}
  addons:
    - ingress-nginx
    - longhorn
    - {name: web, chart: app, repo: 'https://charts.lan', version: 1.0.0, force: true, values: {adminPassword: x}}

  pools:";
    Changed::new(
        "home",
        &[
            ("https://atlas.lan:8006", "https://atlas.lan"),
            (FINGERPRINT, "ca: no-such-ca.pem"),
            ("    vip: 10.0.0.20 ", "    # vip: 10.0.0.20 "),
            ("\n  pools:", settings),
        ],
    )
}

/// Each warning and note of the docs is found in one of two inventories: none is there for nothing.
#[test]
fn every_warning_and_note_can_be_found() {
    let codes = |changed: &Changed| -> BTreeSet<String> {
        let json: Value = serde_json::from_str(&good(&check(&folder(changed), &["-o", "json"]))).unwrap();
        json["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["code"].as_str().unwrap().to_owned())
            .collect()
    };
    let (careless, other) = (careless(), careless_otherwise());
    let found: BTreeSet<String> = codes(&careless).union(&codes(&other)).cloned().collect();
    let page = std::fs::read_to_string(root().join("docs/ci.md")).unwrap();
    let listed = page.lines().filter(|line| line.contains("` | warning |") || line.contains("` | note |"));
    let listed: BTreeSet<String> = listed.map(|line| line.split('`').nth(1).unwrap().to_owned()).collect();
    // A doubt about machine configs takes a patch that is right and strange; other tests have those.
    let missing: Vec<&String> = listed.difference(&found).filter(|id| *id != "machine-config").collect();
    assert!(listed.len() >= 20 && missing.is_empty(), "{missing:?} of {listed:?}");
    // An encrypted file is none of them.
    let secret = "age-encryption.org/v1\n-> X25519 abc\n";
    std::fs::write(careless.file().with_file_name("token.secret"), secret).unwrap();
    assert!(!codes(&careless).contains("unencrypted-secret-file"));
}

#[test]
fn a_careful_inventory_has_no_findings() {
    let pinned = format!("version: v1.12.0\n    imageSha256: {}", "ab".repeat(32));
    let settings = "
  outputs: encrypted
  protect: true
  machine: {encryption: {state: [{kms: 'https://kms.lan'}], ephemeral: [{kms: 'https://kms.lan'}]}}
  patches:
    - inline: |
        apiVersion: v1alpha1
        kind: NetworkDefaultActionConfig
        ingress: block

  pools:";
    let careful = Changed::new(
        "home",
        &[
            ("version: v1.12.0", &pinned),
            ("version: v1.35.0 ", "discovery: false\n    version: v1.35.0 "),
            ("\n  pools:", settings),
        ],
    );
    let run = check(&folder(&careful), &["-o", "json"]);
    let json: Value = serde_json::from_str(&good(&run)).unwrap();
    assert_eq!(json["findings"].as_array().unwrap().len(), 0, "{json:#}");
    assert!(!good(&check(&folder(&careful), &[])).contains("--lint"));
}

/// What SARIF's own schema demands of a log, as far as we write it.
fn is_sarif(log: &Value) {
    assert_eq!(log["version"], "2.1.0");
    let [run] = log["runs"].as_array().unwrap().as_slice() else { panic!("{log:#}") };
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "daedal");
    let rules = driver["rules"].as_array().unwrap();
    let ids: BTreeSet<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), rules.len(), "each id once");
    for rule in rules {
        assert!(!rule["shortDescription"]["text"].as_str().unwrap().is_empty());
        assert!(
            ["error", "warning", "note"].contains(&rule["defaultConfiguration"]["level"].as_str().unwrap())
        );
    }
    let mut prints = BTreeSet::new();
    for result in run["results"].as_array().unwrap() {
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
        assert!(place["region"]["startColumn"].as_u64().unwrap() >= 1);
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.contains(' ') && !uri.starts_with('/'), "{uri}");
        assert!(prints.insert(result["partialFingerprints"]["daedal/v1"].as_str().unwrap().to_owned()));
    }
}

/// Mission: E21 — lint and security check, as findings where a merge request shows them
#[test]
fn findings_come_in_the_forms_of_ci_systems() {
    let bad = Changed::new("home", &[("count: 3 ", "count: 4 "), ("version: v1.12.0", "version: latest")]);
    let here = folder(&bad);
    let sarif = check(&here, &["--format", "sarif"]);
    assert_eq!(sarif.status.code(), Some(65), "as a plain check: {}", text(&sarif.stderr));
    let log: Value = serde_json::from_slice(&sarif.stdout).unwrap();
    is_sarif(&log);
    if let Some(schema) = std::env::var_os("DAEDAL_SARIF_SCHEMA") {
        // A pattern in it has a bracket too many, at which the validator stops.
        let schema = std::fs::read_to_string(schema).unwrap().replace("{2}]?$", "{2}$");
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(&log).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert!(results.iter().any(|one| one["ruleId"] == "version" && one["level"] == "error"), "{log:#}");

    let github = check(&here, &["--format", "github"]);
    assert_eq!(github.status.code(), Some(65));
    let lines = text(&github.stdout);
    assert_eq!(lines.lines().count(), results.len(), "{lines}");
    let version = lines.lines().find(|line| line.contains("title=version::")).unwrap();
    let line = std::fs::read_to_string(bad.file())
        .unwrap()
        .lines()
        .position(|line| line.contains("version: latest"));
    let line = line.unwrap() + 1;
    assert!(version.starts_with(&format!("::error file=cluster.yaml,line={line},col=")), "{version}");

    let gitlab = check(&here, &["--format", "gitlab"]);
    assert_eq!(gitlab.status.code(), Some(65));
    let report: Value = serde_json::from_slice(&gitlab.stdout).unwrap();
    let report = report.as_array().unwrap();
    assert_eq!(report.len(), results.len());
    for issue in report {
        assert_eq!(issue["location"]["path"], "cluster.yaml");
        assert!(issue["location"]["lines"]["begin"].as_u64().unwrap() >= 1);
        assert!(
            ["info", "minor", "major", "critical", "blocker"].contains(&issue["severity"].as_str().unwrap())
        );
        assert!(issue["description"].is_string() && issue["check_name"].is_string());
    }
    // A line above moves the finding, and not what names it.
    let document = std::fs::read_to_string(bad.file()).unwrap();
    std::fs::write(bad.file(), format!("# moved\n{document}")).unwrap();
    let moved: Value = serde_json::from_slice(&check(&here, &["--format", "gitlab"]).stdout).unwrap();
    let prints = |report: &[Value]| -> Vec<String> {
        report.iter().map(|issue| issue["fingerprint"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(prints(report), prints(moved.as_array().unwrap()));

    // Several inventories are one document, named from the root of the repository.
    let repository = tempfile::tempdir().unwrap();
    for (folder, changed) in [("home", Changed::new("home", &[])), ("work", Changed::new("home", BESIDE))] {
        std::fs::create_dir(repository.path().join(folder)).unwrap();
        std::fs::copy(changed.file(), repository.path().join(folder).join("cluster.yaml")).unwrap();
    }
    let all = check(repository.path(), &["--format", "sarif", "--all"]);
    good(&all);
    let log: Value = serde_json::from_slice(&all.stdout).unwrap();
    is_sarif(&log);
    let files: BTreeSet<&str> = (log["runs"][0]["results"].as_array().unwrap().iter())
        .map(|one| one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap())
        .collect();
    assert!(files.contains("home/cluster.yaml") && files.contains("work/cluster.yaml"), "{files:?}");
}

/// A finding names the file it is in, from the root of the repository: the base of an environment, a patch of that base.
#[test]
fn findings_in_a_base_and_its_patches_are_named_from_the_root() {
    let repository = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = repository.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    std::fs::create_dir(repository.path().join(".git")).unwrap();
    let base = std::fs::read_to_string(example()).unwrap().replace("daedal@pve!cli", "root@pam!cli");
    write("base.yaml", &base.replace("\n  pools:", "\n  patches: [{file: common/rbac.yaml}]\n  pools:"));
    write("common/rbac.yaml", "machine:\n  features: {rbac: false}\n");
    write("envs/dev/cluster.yaml", "kind: Cluster\nbase: ../../base.yaml\nmetadata: {name: dev}\n");
    let token = base.lines().position(|line| line.contains("root@pam!cli")).unwrap() + 1;
    let places = |run: &std::process::Output| -> BTreeSet<(String, String, u64)> {
        let json: Value = serde_json::from_str(&good(run)).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let found = json["findings"].as_array().unwrap().iter();
        found.map(|one| (text(&one["code"]), text(&one["file"]), one["line"].as_u64().unwrap())).collect()
    };
    let from_root = places(&check(repository.path(), &["-o", "json", "-f", "envs/dev/cluster.yaml"]));
    let dev = repository.path().join("envs/dev");
    let mut inside = command(["check", "-o", "json"]);
    let from_inside =
        places(&inside.current_dir(dev).env("GITHUB_WORKSPACE", repository.path()).output().unwrap());
    for found in [from_root, from_inside] {
        let named = |code: &str, file: &str, line| found.contains(&(code.to_owned(), file.to_owned(), line));
        assert!(named("root-token", "base.yaml", token as u64), "{found:?}");
        assert!(named("rbac-off", "common/rbac.yaml", 2), "{found:?}");
    }
}

/// The rules in the docs are those of the program, in their order.
#[test]
fn the_docs_list_every_finding() {
    let log: Value =
        serde_json::from_slice(&daedal(["check", "--format", "sarif", "-f", &example()]).stdout).unwrap();
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    let soft = rules.iter().filter(|rule| rule["defaultConfiguration"]["level"] != "error");
    let table: String = soft
        .map(|rule| {
            let of = |key: &str| rule[key]["text"].as_str().unwrap().replace('|', "\\|");
            let level = rule["defaultConfiguration"]["level"].as_str().unwrap();
            format!(
                "| `{}` | {level} | {} | {} |\n",
                rule["id"].as_str().unwrap(),
                of("shortDescription"),
                of("help")
            )
        })
        .collect();
    let path = root().join("docs/ci.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let head = "| id | level | what | what to do |\n|---|---|---|---|\n";
    let (before, rest) = page.split_once(head).expect("the table of findings");
    let end = rest.find("\n\n").map_or(rest.len(), |end| end + 1);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{head}{table}{}", &rest[end..])).unwrap();
        return;
    }
    assert_eq!(&rest[..end], table, "UPDATE=1 rewrites the table");
}

fn example() -> String {
    root().join("examples/home/cluster.yaml").display().to_string()
}

/// Mission: E21 — the plan is an artifact; exactly the approved one is applied
#[test]
fn a_plan_is_shown_in_a_merge_request_and_applied_only_as_approved() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    let here = folder(&home);
    let (plan, page, report) = (here.join("plan.json"), here.join("plan.md"), here.join("report.json"));
    let made = lab
        .command_on(&["plan"], &home.file())
        .arg("--save")
        .arg(&plan)
        .arg("--markdown")
        .arg(&page)
        .arg("--gitlab-report")
        .arg(&report)
        .output()
        .unwrap();
    good(&made);
    let id = good(&command(["plan", "show", "--id"]).arg(&plan).output().unwrap()).trim().to_owned();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!-- daedal:home -->\n") && page.chars().count() <= 65_536, "{page}");
    for said in [&format!("`{id}`")[..], "| VMs to create | 2 |", "<details>", "create VM 300", "--expect"] {
        assert!(page.contains(said), "{said}:\n{page}");
    }
    let numbers: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert_eq!(numbers, serde_json::json!({"create": 2, "update": 0, "delete": 0}));

    let apply = |plan: &Path, arguments: &[&str]| {
        let mut apply = command(["apply", "--lab", "--lab-speed", "60", "--lab-dir"]);
        apply.arg(lab.dir()).arg(plan).args(arguments);
        // As the job of a pipeline that somebody started.
        apply.env("GITHUB_ACTIONS", "true").env("GITHUB_ACTOR", "ann").env("GITHUB_RUN_ID", "42");
        apply.env("GITHUB_SERVER_URL", "https://github.example").env("GITHUB_REPOSITORY", "team/clusters");
        apply.env_remove("GITHUB_TRIGGERING_ACTOR");
        apply.output().unwrap()
    };
    let refused = |run: &std::process::Output, code: i32, why: &str| {
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{said}");
        assert!(said.contains(why), "{why}: {said}");
    };
    let edited = |name: &str, edit: &dyn Fn(&mut Value)| {
        let mut json: Value = serde_json::from_slice(&std::fs::read(&plan).unwrap()).unwrap();
        edit(&mut json);
        let file = here.join(name);
        std::fs::write(&file, json.to_string()).unwrap();
        file
    };

    // Whoever can write the file cannot write what is executed: not with the id that was approved, and not without.
    let tampered = edited("tampered.json", &|json| {
        let steps = json["plan"]["steps"].as_array_mut().unwrap();
        let create = steps.iter_mut().find(|step| step["action"].to_string().contains("createVm")).unwrap();
        let text = create.to_string().replace("300", "399");
        *create = serde_json::from_str(&text).unwrap();
    });
    refused(&apply(&tampered, &["--expect", &id]), 65, "was expected");
    let alone = apply(&tampered, &[]);
    assert!(
        !alone.status.success() && text(&alone.stderr).contains("changed after it was made"),
        "{}",
        text(&alone.stderr)
    );

    // One that has become too old, says no time, or comes from the future.
    let old = edited("old.json", &|json| json["made"] = "2026-01-01T00:00:00Z".into());
    refused(&apply(&old, &["--expect", &id, "--max-age", "24h"]), 65, "and may be 24 h old");
    let timeless = edited("timeless.json", &|json| drop(json.as_object_mut().unwrap().remove("made")));
    refused(&apply(&timeless, &["--max-age", "24h"]), 65, "does not say when it was made");
    let future = edited("future.json", &|json| json["made"] = "2199-01-01T00:00:00Z".into());
    refused(&apply(&future, &["--max-age", "24h"]), 65, "in the future");

    // Another checkout of the inventory, although the plan is the approved one.
    let other = tempfile::tempdir().unwrap();
    let document = std::fs::read_to_string(home.file()).unwrap().replace("memory: 8GiB", "memory: 6GiB");
    std::fs::write(other.path().join("cluster.yaml"), document).unwrap();
    std::fs::copy(&plan, other.path().join("plan.json")).unwrap();
    let elsewhere = apply(&other.path().join("plan.json"), &["--expect", &id]);
    assert!(!elsewhere.status.success(), "{}", text(&elsewhere.stdout));
    assert!(
        text(&elsewhere.stderr).contains("inventory has changed since the plan was made"),
        "{}",
        text(&elsewhere.stderr)
    );

    // The approved one is executed, and the journal says which it was and for whom.
    assert!(good(&apply(&plan, &["--expect", &id, "--max-age", "24h"])).contains("2 nodes Ready"));
    let journal = std::fs::read_to_string(lab.dir().join("clusters/home/home/journal.jsonl")).unwrap();
    let begun = journal.lines().find(|line| line.contains("run begun")).unwrap();
    let by = format!("plan {id}, approved by ann (https://github.example/team/clusters/actions/runs/42)");
    assert!(begun.contains(&by), "{begun}");
}
