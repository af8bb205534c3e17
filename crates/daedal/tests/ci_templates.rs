//! The templates of `docs/ci`, run as a runner runs them: the steps of the files themselves, in the lab.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{Changed, Lab, SMALL, good, root, text};

/// A machine that runs jobs: a lab, our binary in front of it, and the operator's settings for inventories of others.
struct Runner {
    lab: Lab,
    home: tempfile::TempDir,
    template: Value,
}

impl Runner {
    fn new(template: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let lab = Lab::new();
        let template = std::fs::read_to_string(root().join("docs/ci").join(template)).unwrap();
        let runner = Self { lab, home, template: yaml_serde::from_str(&template).unwrap() };
        let settings = "untrusted:\n  variables: [PROXMOX_TOKEN_SECRET]\n  endpoints: ['https://atlas.lan:8006']\n  \
                        networks: [10.0.0.0/16]\n";
        let folder = runner.home.path().join(".config/daedal");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("settings.yaml"), settings).unwrap();
        let (ours, dir) = (env!("CARGO_BIN_EXE_daedal"), runner.lab.dir());
        let lab = format!("--lab --lab-speed 60 --lab-dir '{}'", dir.display());
        runner.program(
            "daedal",
            &format!(
                "case \"$1 $2\" in 'plan show') exec '{ours}' \"$@\";; esac\nexec '{ours}' \"$@\" {lab}"
            ),
        );
        runner
    }

    /// A program that jobs find.
    fn program(&self, name: &str, script: &str) {
        let folder = self.home.path().join("bin");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a script as a runner does: in its folder, with this environment and no other.
    fn shell(&self, folder: &Path, script: &str, variables: &BTreeMap<String, String>) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.home.path().join("bin").display());
        let mut bash = Command::new("bash");
        bash.args(["-eo", "pipefail", "-c", script]).current_dir(folder).env_clear().envs(variables);
        bash.env("PATH", path)
            .env("HOME", self.home.path())
            .env("CI", "true")
            .stdin(std::process::Stdio::null());
        bash.output().unwrap()
    }
}

/// A repository with one inventory, checked out anew for each job.
fn checkout(inventory: &Changed) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(inventory.file(), folder.path().join("cluster.yaml")).unwrap();
    folder
}

fn strings(map: &Value) -> impl Iterator<Item = (String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    map.as_object().into_iter().flatten().map(move |(key, value)| (key.clone(), text(value)))
}

/// What GitHub puts in place of `${{ … }}`: exactly what the templates use.
fn expressions(event: &str, secrets: &str, id: &str) -> BTreeMap<String, String> {
    let distrusted = if event == "pull_request" { "1" } else { "" };
    [
        ("github.event_name == 'pull_request' && '1' || ''", distrusted),
        ("github.token", "ghs_of-the-job"),
        ("github.event.pull_request.number", "7"),
        ("secrets.PROXMOX_PLAN_TOKEN", secrets),
        ("secrets.PROXMOX_TOKEN_SECRET", secrets),
        ("secrets.DAEDAL_KEY", ""),
        ("needs.plan.outputs.id", id),
        ("steps.plan.outputs.id", id),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn expanded(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let (name, after) = after.split_once("}}").expect("the end of an expression");
        made += before;
        made += known.get(name.trim()).unwrap_or_else(|| panic!("the runner does not know {name}"));
        rest = after;
    }
    made + rest
}

/// How a job of GitHub Actions went.
struct GithubJob {
    workspace: tempfile::TempDir,
    steps: Vec<(String, Output)>,
    outputs: BTreeMap<String, String>,
}

impl GithubJob {
    fn good(&self) -> &Self {
        self.steps.iter().for_each(|(_, run)| drop(good(run)));
        self
    }

    fn step(&self, name: &str) -> &Output {
        &self.steps.iter().find(|(step, _)| step == name).unwrap_or_else(|| panic!("no step {name}")).1
    }
}

impl Runner {
    /// Runs a job of the workflow. What was uploaded before is in `artifact`.
    fn github(&self, job: &str, event: &str, inventory: &Changed, artifact: &Path, id: &str) -> GithubJob {
        let known = expressions(event, "secret-of-the-pipeline", id);
        let declared = &self.template["jobs"][job];
        let workspace = checkout(inventory);
        let at = |name: &str| workspace.path().join(name).display().to_string();
        let files = tempfile::tempdir().unwrap();
        let file = |name: &str| files.path().join(name).display().to_string();
        let mut variables: BTreeMap<String, String> = [
            ("GITHUB_ACTIONS", "true".to_owned()),
            ("GITHUB_ACTOR", "ann".to_owned()),
            ("GITHUB_EVENT_NAME", event.to_owned()),
            ("GITHUB_REPOSITORY", "team/clusters".to_owned()),
            ("GITHUB_RUN_ID", "42".to_owned()),
            ("GITHUB_SERVER_URL", "https://github.example".to_owned()),
            ("GITHUB_WORKSPACE", at("")),
            ("GITHUB_OUTPUT", file("output")),
            ("GITHUB_STEP_SUMMARY", file("summary.md")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for map in [&self.template["env"], &declared["env"]] {
            variables.extend(strings(map).map(|(name, value)| (name, expanded(&value, &known))));
        }
        let mut steps = Vec::new();
        let mut failed = false;
        for step in declared["steps"].as_array().unwrap() {
            let condition = step["if"].as_str().unwrap_or("success()");
            let runs = match condition {
                "success()" => !failed,
                "always()" => true,
                "github.event_name == 'pull_request'" => !failed && event == "pull_request",
                other => panic!("the runner does not know {other}"),
            };
            if !runs {
                continue;
            }
            if let Some(action) = step["uses"].as_str() {
                let (name, version) = action.split_once('@').unwrap();
                assert!(version.len() == 40, "{action} is pinned");
                match name {
                    "actions/checkout" => assert_eq!(step["with"]["persist-credentials"], false),
                    "actions/upload-artifact" => {
                        let path = step["with"]["path"].as_str().unwrap();
                        std::fs::copy(at(path), artifact.join(path)).unwrap();
                    }
                    "actions/download-artifact" => {
                        for entry in std::fs::read_dir(artifact).unwrap() {
                            let path = entry.unwrap().path();
                            std::fs::copy(&path, workspace.path().join(path.file_name().unwrap())).unwrap();
                        }
                    }
                    "github/codeql-action/upload-sarif" => {
                        let file = std::fs::read(at(step["with"]["sarif_file"].as_str().unwrap())).unwrap();
                        let log: Value = serde_json::from_slice(&file).unwrap();
                        assert_eq!(log["version"], "2.1.0");
                    }
                    other => panic!("the runner does not know {other}"),
                }
                continue;
            }
            let mut variables = variables.clone();
            variables.extend(strings(&step["env"]).map(|(name, value)| (name, expanded(&value, &known))));
            let script = step["run"].as_str().unwrap();
            assert!(!script.contains("${{"), "what others chose is no part of a script: {script}");
            let run = self.shell(workspace.path(), script, &variables);
            failed |= !run.status.success();
            steps.push((step["name"].as_str().unwrap().to_owned(), run));
        }
        let outputs = std::fs::read_to_string(file("output")).unwrap_or_default();
        let outputs = outputs.lines().filter_map(|line| line.split_once('='));
        let outputs = outputs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        if let Ok(summary) = std::fs::read(file("summary.md")) {
            std::fs::write(workspace.path().join("summary.md"), summary).unwrap();
        }
        GithubJob { workspace, steps, outputs }
    }
}

/// Mission: E21, F13 — check, plan, approval by somebody, apply of exactly that plan: the steps of the template, run
#[test]
fn the_github_template_checks_plans_and_applies_what_was_approved() {
    let runner = Runner::new("github.yml");
    let comments = runner.home.path().join("comments");
    runner.program(
        "gh",
        &format!("[ \"$GH_TOKEN\" ] && echo \"$@\" >> '{0}' && cat plan.md >> '{0}'", comments.display()),
    );
    let home = Changed::new("home", SMALL);
    let artifact = tempfile::tempdir().unwrap();
    assert_eq!(runner.template["permissions"], serde_json::json!({}), "nothing unless a job says so");
    assert_eq!(runner.template["jobs"]["apply"]["environment"], "production", "somebody approves");
    assert_eq!(runner.template["jobs"]["apply"]["needs"], "plan");

    // A pull request that is wrong is annotated, and its findings are uploaded nevertheless.
    let wrong = Changed::new("home", &[("version: v1.12.0", "version: latest")]);
    let job = runner.github("check", "pull_request", &wrong, artifact.path(), "");
    let annotated = job.step("Annotate the pull request");
    assert_eq!(annotated.status.code(), Some(65), "{}", text(&annotated.stderr));
    assert!(
        text(&annotated.stdout).starts_with("::error file=cluster.yaml,line="),
        "{}",
        text(&annotated.stdout)
    );
    assert!(job.workspace.path().join("daedal.sarif").is_file());
    // One that wants other servers than the runner's settings list is refused.
    let stranger = Changed::new("home", &[("https://atlas.lan:8006", "https://stranger.example:8006")]);
    let job = runner.github("check", "pull_request", &stranger, artifact.path(), "");
    let refused = job.step("Annotate the pull request");
    assert_eq!(refused.status.code(), Some(77));
    let said = text(&refused.stdout);
    assert!(
        said.starts_with("::error file=cluster.yaml,line=1,") && said.contains("stranger.example"),
        "{said}"
    );

    // A good one is planned, and the plan is told in a comment.
    runner.github("check", "pull_request", &home, artifact.path(), "").good();
    let planned = runner.github("plan", "pull_request", &home, artifact.path(), "");
    planned.good();
    let comment = std::fs::read_to_string(&comments).unwrap();
    assert!(
        comment.starts_with("pr comment 7 --body-file plan.md") && comment.contains("<!-- daedal:home -->"),
        "{comment}"
    );

    // After the merge: the plan of the main branch, approved by whoever reads its summary, and applied.
    runner.github("check", "push", &home, artifact.path(), "").good();
    let planned = runner.github("plan", "push", &home, artifact.path(), "");
    let id = planned.good().outputs["id"].clone();
    let summary = std::fs::read_to_string(planned.workspace.path().join("summary.md")).unwrap();
    assert!(summary.contains(&format!("`{id}`")), "{summary}");
    let tampered = tempfile::tempdir().unwrap();
    let plan = std::fs::read_to_string(artifact.path().join("plan.json")).unwrap();
    std::fs::write(
        tampered.path().join("plan.json"),
        plan.replace("40.0 GiB", "41.0 GiB").replace(": 4,", ": 5,"),
    )
    .unwrap();
    let refused = runner.github("apply", "push", &home, tampered.path(), &id);
    assert_eq!(refused.step("Apply exactly the approved plan").status.code(), Some(65));
    let job = runner.github("apply", "push", &home, artifact.path(), &id);
    assert!(good(job.step("Apply exactly the approved plan")).contains("2 nodes Ready"));
    let journal = std::fs::read_to_string(runner.lab.dir().join("clusters/home/home/journal.jsonl")).unwrap();
    assert!(
        journal.contains(&format!("plan {id}, approved by ann (https://github.example/team/clusters")),
        "{journal}"
    );
    // The same again is refused: it was done.
    let again = runner.github("apply", "push", &home, artifact.path(), &id);
    assert!(!again.step("Apply exactly the approved plan").status.success());
}

impl Runner {
    /// Runs a job of the pipeline in a folder; `merge_request`, or after it.
    fn gitlab(&self, job: &str, merge_request: bool, folder: &Path, dotenv: &[(String, String)]) -> Output {
        let declared = &self.template[job];
        let mut variables: BTreeMap<String, String> = [
            ("GITLAB_CI", "true".to_owned()),
            ("GITLAB_USER_LOGIN", "bob".to_owned()),
            ("CI_JOB_URL", "https://gitlab.example/team/clusters/-/jobs/42".to_owned()),
            ("CI_PROJECT_DIR", folder.display().to_string()),
            ("PROXMOX_TOKEN_SECRET", "secret-of-the-pipeline".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        variables.extend(strings(&self.template["variables"]));
        if merge_request {
            variables.extend(strings(&self.template["workflow"]["rules"][0]["variables"]));
        }
        variables.extend(dotenv.iter().cloned());
        let lines: Vec<&str> =
            declared["script"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        self.shell(folder, &lines.join("\n"), &variables)
    }
}

/// Mission: E21, F13 — the same for GitLab
#[test]
fn the_gitlab_template_checks_plans_and_applies_what_was_approved() {
    let runner = Runner::new("gitlab-ci.yml");
    let home = Changed::new("home", SMALL);
    assert_eq!(runner.template["apply"]["rules"][0]["when"], "manual", "somebody approves");
    assert_eq!(runner.template["apply"]["needs"], serde_json::json!(["plan"]));

    let wrong = checkout(&Changed::new("home", &[("version: v1.12.0", "version: latest")]));
    let run = runner.gitlab("check", true, wrong.path(), &[]);
    assert_eq!(run.status.code(), Some(65), "{}", text(&run.stderr));
    let report = runner.template["check"]["artifacts"]["reports"]["codequality"].as_str().unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(wrong.path().join(report)).unwrap()).unwrap();
    assert_eq!(report[0]["location"]["path"], "cluster.yaml", "{report:#}");

    // The same steps for the merge request and after it.
    for merge_request in [true, false] {
        let folder = checkout(&home);
        good(&runner.gitlab("check", merge_request, folder.path(), &[]));
        good(&runner.gitlab("plan", merge_request, folder.path(), &[]));
        let reports = &runner.template["plan"]["artifacts"]["reports"];
        let read =
            |key: &str| std::fs::read_to_string(folder.path().join(reports[key].as_str().unwrap())).unwrap();
        let counts: Value = serde_json::from_str(&read("terraform")).unwrap();
        assert_eq!(counts, serde_json::json!({"create": 2, "update": 0, "delete": 0}));
        if merge_request {
            continue;
        }
        let dotenv: Vec<(String, String)> = (read("dotenv").lines())
            .map(|line| line.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        // The job that applies has a checkout of its own, and the artifacts.
        let next = checkout(&home);
        for path in runner.template["plan"]["artifacts"]["paths"].as_array().unwrap() {
            let path = path.as_str().unwrap();
            std::fs::copy(folder.path().join(path), next.path().join(path)).unwrap();
        }
        let other = [("PLAN_ID".to_owned(), "0123456789ab".to_owned())];
        assert_eq!(runner.gitlab("apply", false, next.path(), &other).status.code(), Some(65));
        assert!(good(&runner.gitlab("apply", false, next.path(), &dotenv)).contains("2 nodes Ready"));
    }
    let journal = std::fs::read_to_string(runner.lab.dir().join("clusters/home/home/journal.jsonl")).unwrap();
    assert!(journal.contains("approved by bob (https://gitlab.example/"), "{journal}");
}

/// Every job of a template is run above, and every path to them in the docs is right.
#[test]
fn every_job_of_the_templates_is_known() {
    let jobs = |template: &str| -> Vec<String> {
        let runner: Value =
            yaml_serde::from_str(&std::fs::read_to_string(root().join("docs/ci").join(template)).unwrap())
                .unwrap();
        let jobs = if runner["jobs"].is_object() { runner["jobs"].clone() } else { runner };
        let scripts = jobs
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, job)| job["script"].is_array() || job["steps"].is_array());
        scripts.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(jobs("github.yml"), ["check", "plan", "apply"]);
    assert_eq!(jobs("gitlab-ci.yml"), ["check", "plan", "apply"]);
    let page = std::fs::read_to_string(root().join("docs/ci.md")).unwrap();
    for path in ["ci/github.yml", "ci/gitlab-ci.yml"] {
        assert!(page.contains(path) && root().join("docs").join(path).is_file(), "{path}");
    }
}
