//! Environments as overlays on a base: what they come to, where what is wrong is pointed at, and which bases are taken.

use std::path::Path;
use std::process::Output;

use serde_json::{Value as Json, json};

use crate::common::{Lab, command, good, text};

const BASE: &str = "apiVersion: daedal.dev/v1alpha1
kind: Cluster
spec:
  talos: {version: v1.12.0, extensions: [qemu-guest-agent]}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {id: \"daedal@pve!cli\", secret: {env: PROXMOX_TOKEN_SECRET}}
    hosts: [atlas, boreas]
    storage: {disks: local-lvm, images: local}
  network: {cidr: 10.0.0.0/24, gateway: 10.0.0.1, dns: [1.1.1.1]}
  machine: {sysctls: {vm.max_map_count: \"262144\"}}
  pools:
    - {name: cp, role: controlplane, count: 1, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 300, address: 10.0.0.11}
    - {name: worker, role: worker, count: 1, cores: 2, memory: 4GiB, disk: 20GiB, vmid: 310, address: 10.0.0.21}
  patches: [{file: common/logging.yaml}]
";

const DEV: &str = "kind: Cluster
base: ../../base.yaml
metadata: {name: dev}
spec:
  environment: dev
  proxmox: {hosts: [atlas]}
";

const PROD: &str = "kind: Cluster
base: [../../base.yaml, ../large.yaml]
metadata: {name: prod}
spec:
  environment: production
  proxmox: {tls: {insecure: true}}
  network: {dns: [10.0.0.2], vip: 10.0.0.30}
  machine: {sysctls: {net.core.somaxconn: \"4096\"}}
  pools:
    - {name: cp, count: 3, vmid: 400, address: 10.0.0.41}
    - {name: worker, vmid: 410, address: 10.0.0.51}
  patches: [{file: own.yaml}]
";

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(project.path(".git")).unwrap();
        project.write("base.yaml", BASE);
        project.write("common/logging.yaml", "machine: {logging: {destinations: []}}\n");
        project.write("envs/dev/cluster.yaml", DEV);
        project.write("envs/large.yaml", "spec: {pools: [{name: worker, memory: 8GiB}]}\n");
        project.write("envs/prod/cluster.yaml", PROD);
        project.write("envs/prod/own.yaml", "machine: {kubelet: {extraArgs: {v: \"2\"}}}\n");
        project
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn run(&self, command_line: &[&str]) -> Output {
        command(command_line).current_dir(self.folder.path()).output().unwrap()
    }

    /// What a refusal says.
    fn refused(&self, command_line: &[&str]) -> String {
        let run = self.run(command_line);
        assert_eq!(run.status.code(), Some(65), "{}{}", text(&run.stdout), text(&run.stderr));
        text(&run.stderr)
    }
}

fn resolved(project: &Project, environment: &str) -> Json {
    let file = format!("envs/{environment}");
    let shown = good(&project.run(&["inventory", "show", "--resolved", "-o", "json", "-f", &file]));
    serde_json::from_str(&shown).unwrap()
}

/// Mission: I12 — environments as overlays on a base
#[test]
fn environments_are_overlays_on_a_base() {
    let (project, lab) = (Project::new(), Lab::new());
    let prod = resolved(&project, "prod");
    assert_eq!((&prod["name"], &prod["environment"]), (&json!("prod"), &json!("production")));
    assert_eq!(
        prod["machine"]["sysctls"],
        json!({"net.core.somaxconn": "4096", "vm.max_map_count": "262144"})
    );
    assert_eq!(prod["network"]["dns"], json!(["10.0.0.2"]));
    let nodes = prod["nodes"].as_array().unwrap();
    let of = |at: usize| (nodes[at]["name"].clone(), nodes[at]["vmid"].clone(), nodes[at]["memory"].clone());
    assert_eq!(nodes.len(), 4);
    assert_eq!(of(2), (json!("cp-3"), json!(402), json!(4_u64 << 30)));
    // The later base wins over the earlier one, and the overlay over both.
    assert_eq!(of(3), (json!("worker-1"), json!(410), json!(8_u64 << 30)));
    let origins: Vec<&Json> =
        prod["patches"].as_array().unwrap().iter().map(|patch| &patch["origin"]).collect();
    assert_eq!(origins, ["../../common/logging.yaml", "own.yaml"]);
    let dev = resolved(&project, "dev");
    let hosts = dev["proxmox"]["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), &hosts[0]["name"]), (1, &json!("atlas")));
    assert_eq!(dev["network"]["dns"], json!(["1.1.1.1"]));

    // Both at once; what they are based on is no cluster, also where it is beside them.
    std::fs::rename(project.path("base.yaml"), project.path("envs/base.yaml")).unwrap();
    std::fs::rename(project.path("common"), project.path("envs/common")).unwrap();
    project.write("envs/dev/cluster.yaml", &DEV.replace("../../base", "../base"));
    project.write("envs/prod/cluster.yaml", &PROD.replace("../../base", "../base"));
    let check = good(&project.run(&["check", "--all", "-f", "envs"]));
    assert!(check.trim_end().ends_with("2 clusters. done: dev, prod."), "{check}");
    let apply =
        lab.command_on(&["apply", "--yes", "--cluster", "dev"], &project.path("envs")).output().unwrap();
    assert!(good(&apply).contains("Cluster dev is up: 2 nodes Ready"), "{}", text(&apply.stdout));
    let plan = lab.command_on(&["plan", "--detailed-exitcode"], &project.path("envs/dev")).output().unwrap();
    good(&plan);
    // What the base says is declared of each.
    let base = std::fs::read_to_string(project.path("envs/base.yaml")).unwrap();
    project.write("envs/base.yaml", &base.replace("v1.12.0", "v1.12.1"));
    let plan = lab.command_on(&["plan", "--detailed-exitcode"], &project.path("envs/dev")).output().unwrap();
    assert_eq!(plan.status.code(), Some(2), "{}", text(&plan.stdout));
}

#[test]
fn what_is_wrong_is_pointed_at_in_the_file_where_it_stands() {
    let project = Project::new();
    project.write("base.yaml", &BASE.replace("gateway: 10.0.0.1,", "gateway: 10.0.9.1,"));
    let said = project.refused(&["check", "-f", "envs/prod"]);
    assert!(said.contains("[base.yaml:10:41]"), "{said}");
    project.write("base.yaml", BASE);
    project.write("envs/prod/cluster.yaml", &PROD.replace("count: 3", "count: 2"));
    let said = project.refused(&["check", "-f", "envs/prod"]);
    assert!(said.contains("[envs/prod/cluster.yaml:10:"), "{said}");
    // In JSON as well.
    let run = project.run(&["check", "-f", "envs/prod", "-o", "json"]);
    let told: Json = serde_json::from_slice(&run.stdout).unwrap();
    assert!(told.to_string().contains(r#""file":"envs/prod/cluster.yaml","#), "{told:#}");
    // A file that the base names is missed beside the base.
    project.write("envs/prod/cluster.yaml", PROD);
    std::fs::remove_file(project.path("common/logging.yaml")).unwrap();
    let said = project.refused(&["check", "-f", "envs/prod"]);
    assert!(said.contains("../../common/logging.yaml") && said.contains("[base.yaml:"), "{said}");
}

#[test]
fn a_base_is_an_inventory_in_the_same_repository_and_no_circle() {
    let project = Project::new();
    let outside = tempfile::tempdir().unwrap();
    let elsewhere = outside.path().join("base.yaml");
    std::fs::write(
        &elsewhere,
        BASE.replace("patches", "tags").replace("[{file: common/logging.yaml}]", "[x]"),
    )
    .unwrap();
    let settings = outside.path().join("settings.yaml");
    std::fs::write(&settings, "allowOutside: true\n").unwrap();
    let dev = |base: &str| project.write("envs/dev/cluster.yaml", &DEV.replace("../../base.yaml", base));

    for (base, why) in [
        ("../../missing.yaml", "The base `../../missing.yaml` cannot be read: No such file"),
        (elsewhere.to_str().unwrap(), "it lies outside the git repository"),
        ("cluster.yaml", "leads back to this file, in a circle"),
        ("../../secret.env", "is not an inventory, or a part of one"),
    ] {
        project.write("secret.env", "TOKEN=canary\n");
        dev(base);
        let said = project.refused(&["check", "-f", "envs/dev"]);
        let flat = said.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(flat.contains(why) && said.contains("envs/dev/cluster.yaml:2:"), "{base}: {said}");
        assert!(!said.contains("canary"), "{said}");
    }
    // A circle of two, each named where it closes.
    project.write("base.yaml", &BASE.replace("spec:", "base: envs/dev/cluster.yaml\nspec:"));
    dev("../../base.yaml");
    assert!(project.refused(&["check", "-f", "envs/dev"]).contains("in a circle"));

    // The operator may allow more; of somebody else's inventory never.
    dev(elsewhere.to_str().unwrap());
    let check = |more: &[&str]| {
        let line = [&["check", "-f", "envs/dev"], more].concat();
        let mut check = command(line);
        check.current_dir(project.folder.path()).env("DAEDAL_SETTINGS", &settings).output().unwrap()
    };
    good(&check(&[]));
    assert_eq!(check(&["--untrusted"]).status.code(), Some(65));
    // Without a repository the folder of the inventory is the limit.
    project.write("base.yaml", BASE);
    dev("../../base.yaml");
    std::fs::remove_dir(project.path(".git")).unwrap();
    assert!(project.refused(&["check", "-f", "envs/dev"]).contains("it lies outside"));
}

/// An overlay of somebody else reads and contacts no more for being one.
#[test]
fn an_untrusted_overlay_is_judged_with_its_base() {
    let project = Project::new();
    let refused = project.run(&["check", "--untrusted", "-f", "envs/dev"]);
    assert_eq!(refused.status.code(), Some(77), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("https://atlas.lan:8006"), "{}", text(&refused.stderr));
    let settings = project.path("settings.yaml");
    let listed = "untrusted: {variables: [PROXMOX_TOKEN_SECRET], endpoints: ['https://atlas.lan:8006'], networks: [10.0.0.0/24]}\n";
    std::fs::write(&settings, listed).unwrap();
    let check = |env: &str| {
        let mut check = command(["check", "--untrusted", "-f", env]);
        check
            .current_dir(project.folder.path())
            .env("DAEDAL_SETTINGS", Path::new(&settings))
            .output()
            .unwrap()
    };
    good(&check("envs/dev"));
    assert_eq!(check("envs/prod").status.code(), Some(77), "insecure is not allowed");
}
