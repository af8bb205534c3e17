//! Secrets never show: every command, every format, every log level, searched for every secret there is.

use crate::common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{Lab, good, text};

/// Every string in the secrets bundle, the private keys and the token that must never be seen.
fn canaries(lab: &Lab) -> BTreeSet<String> {
    let outputs = lab.dir().join("clusters/home/outputs");
    let mut found = BTreeSet::new();
    for name in ["secrets.yaml", "kubeconfig", "talosconfig"] {
        let text = std::fs::read_to_string(outputs.join(name)).unwrap();
        for line in text.lines() {
            let Some((key, value)) = line.trim().split_once(':') else { continue };
            // Certificates are public; ids are not secret.
            let public = ["crt", "ca", "id", "certificate-authority-data", "client-certificate-data"];
            let value = value.trim().trim_matches('"');
            if value.len() >= 16 && !public.contains(&key.trim()) && !value.contains("://") {
                found.insert(value.to_owned());
            }
        }
    }
    found.insert(lab_token(lab));
    assert!(found.len() >= 8, "the canaries themselves: {}", found.len());
    found
}

fn lab_token(lab: &Lab) -> String {
    std::fs::read_to_string(lab.dir().join("token")).unwrap().trim().to_owned()
}

/// A lab that writes everything it can into a file; the first command of the test finds it running.
fn serve_at_trace(lab: &Lab, log: &Path) -> std::process::Child {
    let served = common::command(["lab", "serve", "-vvv", "--lab-speed", "60", "--lab-dir"])
        .arg(lab.dir())
        .env("DAEDAL_LOG", "trace")
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(log).unwrap())
        .spawn()
        .unwrap();
    common::eventually("the lab answers", || lab.dir().join("lab.json").exists());
    served
}

fn search(place: &str, haystack: &str, canaries: &BTreeSet<String>) {
    for canary in canaries {
        assert!(!haystack.contains(canary.as_str()), "a secret shows in {place}");
        // Not in part either: the first 24 characters of a key would do harm enough.
        let part: String = canary.chars().skip(canary.len() / 3).take(24).collect();
        assert!(part.len() < 16 || !haystack.contains(&part), "part of a secret shows in {place}");
    }
}

fn search_file(path: &Path, canaries: &BTreeSet<String>) {
    search(&path.display().to_string(), &text(&std::fs::read(path).unwrap()), canaries);
}

/// Every journal below a folder.
fn journals(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(journals(&entry.path()));
        } else if entry.file_name().to_string_lossy().starts_with("journal") {
            found.push(entry.path());
        }
    }
    found
}

/// Mission: M14
#[test]
fn no_command_prints_a_secret_at_any_log_level() {
    let lab = Lab::new();
    let lab_log = lab.dir().with_file_name("lab-trace.log");
    let mut served = serve_at_trace(&lab, &lab_log);
    let plan_file = lab.dir().with_file_name("plan.json");
    let timeline = lab.dir().with_file_name("timeline.svg");
    let (plan_arg, timeline_arg) = (plan_file.display().to_string(), timeline.display().to_string());
    let page = lab.dir().with_file_name("plan.md");
    let page_arg = page.display().to_string();
    let mut seen = Vec::new();
    let mut run_to = |exit: i32, command_line: &[&str]| {
        for format in ["text", "json"] {
            let out = lab
                .command(&[command_line, &["-o", format, "-vvv"]].concat(), "home")
                .env("DAEDAL_LOG", "trace")
                .output()
                .unwrap();
            let said = || format!("{command_line:?}: {}{}", text(&out.stdout), text(&out.stderr));
            assert_eq!(out.status.code(), Some(exit), "{}", said());
            seen.push((format!("{command_line:?} -o {format}: stdout"), text(&out.stdout)));
            seen.push((format!("{command_line:?} -o {format}: stderr"), text(&out.stderr)));
        }
    };
    let mut run = |command_line: &[&str]| run_to(0, command_line);
    run(&["plan", "--save", &plan_arg, "--markdown", &page_arg]);
    run(&["check"]);
    run(&["check", "--lint"]);
    run(&["check", "--format", "sarif"]);
    run(&["check", "--live"]);
    run(&["apply", "--yes", "--timeline", &timeline_arg]);
    run(&["plan"]);
    run(&["status"]);
    run(&["outputs"]);
    run(&["outputs", "machines.json"]);
    run(&["env"]);
    run(&["node", "show", "cp-1"]);
    run(&["secrets", "show"]);
    let canaries = canaries(&lab);
    search_file(&lab.dir().join("clusters/home/outputs/machines.json"), &canaries);
    // Runs that fail: without the secrets, with the wrong name, with a plan that no longer fits, with a full disk.
    let elsewhere = lab.dir().with_file_name("elsewhere").display().to_string();
    run_to(1, &["apply", "--yes", "--state", &elsewhere]);
    run_to(1, &["destroy", "--confirm", "work"]);
    run_to(1, &["apply", &plan_arg]);
    run_to(73, &["plan", "--save", "/dev/null/plan.json"]);
    run_to(66, &["outputs", "no-such-output"]);
    run_to(0, &["destroy", "--confirm", "home"]);
    for command_line in [&["inventory", "show"][..], &["inventory", "show", "--resolved"]] {
        for format in ["text", "json"] {
            let mut command = common::command(command_line);
            command.args(["-o", format, "-vvv", "-f"]).arg(common::root().join("examples/home/cluster.yaml"));
            let out = command
                .env("DAEDAL_LOG", "trace")
                .env("PROXMOX_TOKEN_SECRET", lab_token(&lab))
                .output()
                .unwrap();
            seen.push((format!("{command_line:?} -o {format}"), good(&out) + &text(&out.stderr)));
        }
    }
    good(&common::command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    served.wait().unwrap();
    let log = std::fs::read_to_string(&lab_log).unwrap();
    assert!(log.contains("TRACE"), "the lab's log is at the trace level");

    for (place, said) in &seen {
        search(place, said, &canaries);
    }
    search_file(&plan_file, &canaries);
    search_file(&page, &canaries);
    search_file(&timeline, &canaries);
    search("the lab's log", &log, &canaries);
    let journals = journals(&lab.dir().join("clusters"));
    assert_eq!(journals.len(), 1, "{journals:?}");
    search_file(&journals[0], &canaries);
}

/// A patch with a secret in every place that people put one, all of one family.
fn patch_of_secrets(family: &str) -> String {
    let secret = |place: &str| format!("{family}-{place}-0123456789abcdef");
    let manifest = format!(
        "apiVersion: v1\\nkind: Secret\\nmetadata: {{name: db}}\\nstringData:\\n  password: {}\\n",
        secret("manifest")
    );
    format!(
        "machine:\n  env:\n    ANYTHING: {env}\n    https_proxy: http://me:{proxy}@proxy:3128\n  nodeAnnotations:\n    \
         example.org/plain: ${{env.CANARY_VARIABLE}}\n  sysctls:\n    vm.max_map_count: \"{count}\"\n  files:\n    - path: \
         /var/etc/x\n      op: create\n      permissions: 0o600\n      content: {file}\n  pods:\n    - apiVersion: v1\n      kind: Pod\n      \
         metadata: {{name: web}}\n      spec:\n        containers:\n          - name: web\n            image: nginx\n            env: [{{name: \
         ANYTHING, value: {pod}}}]\n            args: [--token, {argument}]\ncluster:\n  apiServer:\n    env: {{ANYTHING: \
         {api}}}\n  extraManifestHeaders: {{X-Any: {header}}}\n  inlineManifests:\n    - name: db\n      contents: \
         \"{manifest}\"\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: tailscale\nenvironment: \
         [ANYTHING={service}]\nconfigFiles:\n  - mountPath: /etc/x\n    content: {service_file}\n---\napiVersion: \
         v1alpha1\nkind: SideroLinkConfig\napiUrl: https://omni.example.org?jointoken={join}\n---\napiVersion: \
         v1alpha1\nkind: RegistryAuthConfig\nname: patched.example.org\nusername: me\npassword: {registry}\n",
        env = secret("env"),
        proxy = secret("proxy"),
        count = if family == "canary" { 262_144 } else { 524_288 },
        file = secret("file"),
        pod = secret("pod"),
        argument = secret("argument"),
        api = secret("api"),
        header = secret("header"),
        service = secret("service"),
        service_file = secret("servicefile"),
        join = secret("join"),
        registry = secret("registry"),
    )
}

/// Secrets that are the user's own, in a patch or from the environment, appear, change and go: the plans are readable and say
/// nothing of them.
#[test]
fn no_plan_shows_what_a_user_put_into_the_machine_config() {
    let lab = Lab::new();
    let lab_log = lab.dir().with_file_name("lab-trace.log");
    let mut served = serve_at_trace(&lab, &lab_log);
    let plan_file = lab.dir().with_file_name("plan.json");
    let plan_arg = plan_file.display().to_string();
    let page = lab.dir().with_file_name("plan.md");
    let page_arg = page.display().to_string();
    let few = [("count: 3 ", "count: 1 "), ("count: 2", "count: 0")];
    let registries = "  registries:\n    ghcr.io: {auth: {username: me, password: {env: CANARY_PASSWORD}}}\n";
    let more = format!("{registries}  patches: [{{file: patch.yaml}}]\n\n  pools:");
    let bare = common::Changed::new("home", &few);
    let patched = common::Changed::new("home", &[few[0], few[1], ("  pools:", &more)]);
    // What is no longer declared is known for a secret by where it stands, or by its variable, which is still used.
    let annotation = r#"  patches: [{inline: "machine: {nodeAnnotations: {example.org/other: '${env.CANARY_VARIABLE}'}}"}]"#;
    let emptied = format!("{annotation}\n\n  pools:");
    let emptied = common::Changed::new("home", &[few[0], few[1], ("  pools:", &emptied)]);
    let mut seen: Vec<(String, String)> = Vec::new();
    let mut run = |inventory: &common::Changed, family: &str, command_line: &[&str]| {
        let patch = patched.file().with_file_name("patch.yaml");
        std::fs::write(patch, patch_of_secrets(family)).unwrap();
        let mut said = String::new();
        for format in ["text", "json"] {
            let command_line = [command_line, &["-o", format, "-vvv"]].concat();
            let mut command = match command_line[0] {
                "inventory" => common::command(&command_line),
                _ => lab.command_on(&command_line, &inventory.file()),
            };
            if command_line[0] == "inventory" {
                command.arg("-f").arg(inventory.file()).env("PROXMOX_TOKEN_SECRET", "none");
            }
            let out = command
                .env("DAEDAL_LOG", "trace")
                .env("CANARY_VARIABLE", format!("{family}-variable-0123456789abcdef"))
                .env("CANARY_PASSWORD", format!("{family}-password-0123456789abcdef"))
                .output()
                .unwrap();
            said.push_str(&good(&out));
            seen.push((format!("{family} {command_line:?} -o {format}: stdout"), text(&out.stdout)));
            seen.push((format!("{family} {command_line:?} -o {format}: stderr"), text(&out.stderr)));
        }
        for (what, file) in [("the saved plan", &plan_file), ("the plan as Markdown", &page)] {
            seen.push((format!("{family} {what}"), std::fs::read_to_string(file).unwrap_or_default()));
        }
        said
    };
    run(&bare, "canary", &["apply", "--yes"]);
    // They appear, change, and go again.
    for (inventory, family) in [(&patched, "canary"), (&patched, "kanarie"), (&emptied, "kanarie")] {
        let plan = run(inventory, family, &["plan", "--save", &plan_arg, "--markdown", &page_arg]);
        for shown in [
            "machine.sysctls.\"vm.max_map_count\": ",
            "machine.env",
            "machine.nodeAnnotations",
            "machine.pods",
            "cluster.apiServer.env",
            "cluster.inlineManifests",
            "ANYTHING=[secret ",
            "SideroLinkConfig",
            "omni.example.org?jointoken=[secret ",
            "RegistryAuthConfig patched.example.org",
            "RegistryAuthConfig ghcr.io",
        ] {
            assert!(plan.contains(shown), "{family}: the plan does not say {shown}:\n{plan}");
        }
        run(inventory, family, &["check"]);
        run(inventory, family, &["check", "--lint"]);
        run(inventory, family, &["check", "--format", "github"]);
        run(inventory, family, &["inventory", "show", "--resolved"]);
        run(inventory, family, &["apply", "--yes"]);
        run(inventory, family, &["status"]);
        run(inventory, family, &["node", "show", "cp-1"]);
    }
    good(&common::command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    served.wait().unwrap();

    let own = ["canary-", "kanarie-"].map(str::to_owned).into_iter().collect();
    for (place, said) in &seen {
        search(place, said, &own);
    }
    search("the lab's log", &std::fs::read_to_string(&lab_log).unwrap(), &own);
    let journals = journals(&lab.dir().join("clusters"));
    assert!(!journals.is_empty());
    journals.iter().for_each(|journal| search_file(journal, &own));
}
