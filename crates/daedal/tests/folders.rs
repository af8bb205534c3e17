//! An inventory as a folder of `cluster.yaml`, `nodes.yaml`, secrets and patches, as people have it.

use std::process::Output;

use daedal_sops::{Format, Rule};
use daedal_store::Keyring;
use serde_json::{Value as Json, json};

use crate::common::served::Served;
use crate::common::{Lab, command, good, text};

/// As the team wrote it, and what Daedal needs besides.
const CLUSTER: &str = "cluster_name: dev
talos_version: v1.8.2
kubernetes_version: v1.30.1

network:
  pod_cidr: 10.244.0.0/16
  svc_cidr: 10.96.0.0/12
  cidr: 10.0.10.0/24
  gateway: 10.0.10.1

proxmox:
  node: pve1
  datastore: local-lvm
  bridge: vmbr0
  endpoint: https://pve1.lan:8006
  token_id: daedal@pve!cli
  token_secret: {env: PROXMOX_TOKEN_SECRET}
";

const NODES: &str = "controlplane:
  - name: dev-cp-1
    ip: 10.0.10.11
    cpu: 4
    ram: 8192
    disk: 40G

workers:
  - name: dev-wk-1
    ip: 10.0.10.21
    cpu: 4
    ram: 8192
    disk: 60G
";

struct Infra {
    folder: tempfile::TempDir,
    lab: Lab,
}

impl Infra {
    fn new() -> Self {
        let infra = Self { folder: tempfile::tempdir().unwrap(), lab: Lab::new() };
        infra.write("inventory/dev/cluster.yaml", CLUSTER);
        infra.write("inventory/dev/nodes.yaml", NODES);
        infra
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs a command line in the folder.
    fn run(&self, command_line: &[&str]) -> Output {
        command(command_line).current_dir(self.folder.path()).output().unwrap()
    }

    /// The same in the lab.
    fn in_lab(&self, command_line: &[&str]) -> Output {
        let mut run = command(command_line);
        run.args(["--lab", "--lab-speed", "60", "--lab-dir"]).arg(self.lab.dir());
        run.current_dir(self.folder.path()).output().unwrap()
    }

    /// What a refusal says.
    fn refused(&self) -> String {
        let run = self.run(&["-f", "inventory/dev", "check"]);
        assert_eq!(run.status.code(), Some(65), "{}{}", text(&run.stdout), text(&run.stderr));
        text(&run.stderr)
    }
}

/// Mission: I1 — the folder as the team wrote it is the inventory
#[tokio::test]
async fn a_folder_of_cluster_and_nodes_is_an_inventory() {
    let infra = Infra::new();
    infra.write("inventory/dev/patches/10-all.yaml", "machine: {sysctls: {vm.max_map_count: \"262144\"}}\n");
    infra.write("inventory/dev/patches/workers.yaml", "machine: {nodeLabels: {tier: apps}}\n");
    infra.write("inventory/dev/patches/dev-wk-1.yaml", "machine: {nodeLabels: {disk: large}}\n");
    // Before the command and after it.
    let apply = infra.in_lab(&["-f", "inventory/dev", "apply", "--yes"]);
    assert!(good(&apply).contains("Cluster dev is up: 2 nodes Ready"), "{}", text(&apply.stdout));
    good(&infra.in_lab(&["plan", "-f", "inventory/dev", "--detailed-exitcode"]));

    let root = infra.lab.root("https://pve1.lan:8006").await;
    let rows = root.resources_of("vm").await.unwrap();
    let is_there = |vmid: u32| rows.iter().any(|row| row.vmid == Some(vmid));
    assert!(is_there(2000) && is_there(3000) && !is_there(3001), "{rows:#?}");
    let worker = root.vm_config("pve1", 3000).await.unwrap();
    assert_eq!((worker.vcpus(), worker.memory_mib), (4, 8192));
    assert_eq!(worker.disks["scsi0"].size, Some(60 << 30));
    let file = infra.run(&["-f", "inventory/dev", "inventory", "show", "--resolved", "-o", "json"]);
    let resolved: Json = serde_json::from_str(&good(&file)).unwrap();
    assert_eq!(resolved["nodes"][1]["name"], "dev-wk-1");
    assert_eq!(resolved["nodes"][1]["address"], "10.0.10.21/24");
    assert_eq!(resolved["kubernetes"]["podSubnets"], json!(["10.244.0.0/16"]));
    let origins = |patches: &Json| -> Vec<String> {
        patches.as_array().unwrap().iter().map(|patch| patch["origin"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(origins(&resolved["patches"]), ["patches/10-all.yaml", "patches/workers.yaml"]);
    assert_eq!(origins(&resolved["nodes"][1]["patches"]), ["patches/dev-wk-1.yaml"]);

    // A worker more in nodes.yaml is a worker more; what is nowhere else is said in our words.
    let more = "  - {name: dev-wk-2, ip: 10.0.10.22, cpu: 2, ram: 4G, disk: 20}\n";
    infra.write("inventory/dev/nodes.yaml", &format!("{NODES}{more}"));
    infra.write(
        "inventory/dev/cluster.yaml",
        &format!("{CLUSTER}spec:\n  tags: [team-a]\n  proxmox: {{cpuOvercommit: 2}}\n"),
    );
    let apply = infra.in_lab(&["apply", "--yes", "-f", "inventory/dev/cluster.yaml"]);
    assert!(good(&apply).contains("Cluster dev is up: 3 nodes Ready"), "{}", text(&apply.stdout));
    let third = root.vm_config("pve1", 3001).await.unwrap();
    assert_eq!((third.memory_mib, third.tags.contains(&"team-a".to_owned())), (4096, true));

    // The folder above holds one inventory for each environment.
    let prod = CLUSTER.replace(": dev", ": prod").replace("pve1", "pve2");
    infra.write("inventory/prod/cluster.yaml", &prod);
    infra.write("inventory/prod/nodes.yaml", &NODES.replace("dev-", "prod-"));
    let check = good(&infra.run(&["check", "--all", "-f", "inventory"]));
    assert!(check.trim_end().ends_with("2 clusters. done: dev, prod."), "{check}");
}

#[test]
fn what_is_wrong_in_such_a_folder_is_said_in_its_words_and_files() {
    let infra = Infra::new();
    let flat = |said: &str| said.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    for (file, from, to, place, why) in [
        ("nodes.yaml", "ram: 8192", "ram: lots", "nodes.yaml:5:10", "`lots`"),
        ("nodes.yaml", "10.0.10.21", "10.0.99.21", "nodes.yaml:10:9", "10.0.99.21"),
        ("nodes.yaml", "cpu: 4", "cores: 4", "nodes.yaml:4:5", "`cores` is not a key of `controlplane[0]`"),
        ("nodes.yaml", "cpu: 4", "cpu: many", "nodes.yaml:4:10", "`controlplane[0].cpu`"),
        ("nodes.yaml", "workers:", "wrokers:", "nodes.yaml:8:1", "Did you mean `workers`?"),
        (
            "cluster.yaml",
            "  gateway: 10.0.10.1\n",
            "",
            "cluster.yaml:5:1",
            "`gateway` is missing in `network`",
        ),
        ("cluster.yaml", "  node: pve1\n", "", "cluster.yaml:11:1", "`node` is missing in `proxmox`"),
        (
            "cluster.yaml",
            "datastore: local-lvm",
            "datstore: local-lvm",
            "cluster.yaml:13:3",
            "Did you mean `datastore`?",
        ),
        (
            "cluster.yaml",
            "  token_secret: {env: PROXMOX_TOKEN_SECRET}\n",
            "",
            "cluster.yaml:11:1",
            "secrets.sops.yaml",
        ),
        ("cluster.yaml", "{env: PROXMOX_TOKEN_SECRET}", "canary", "cluster.yaml:17:17", "token_secret"),
        ("cluster.yaml", "pod_cidr: 10.244.0.0/16", "pod_cidr: all", "cluster.yaml:6:13", "all"),
    ] {
        infra.write("inventory/dev/cluster.yaml", CLUSTER);
        infra.write("inventory/dev/nodes.yaml", NODES);
        let text = if file == "nodes.yaml" { NODES } else { CLUSTER };
        assert!(text.contains(from), "{from}");
        infra.write(&format!("inventory/dev/{file}"), &text.replacen(from, to, 1));
        let said = infra.refused();
        let flat = flat(&said);
        assert!(
            said.contains(&format!("[inventory/dev/{place}]")) && flat.contains(why),
            "{from} → {to}: {said}"
        );
        assert!(
            !said.contains("canary") && !said.contains("spec.pools") && !said.contains("spec.proxmox"),
            "{said}"
        );
    }
    infra.write("inventory/dev/cluster.yaml", CLUSTER);
    std::fs::remove_file(infra.folder.path().join("inventory/dev/nodes.yaml")).unwrap();
    let said = infra.refused();
    assert!(said.contains("nodes.yaml cannot be read"), "{said}");
    // Before a command that takes none.
    let run = infra.run(&["-f", "inventory/dev", "helm", "template", "chart"]);
    assert_eq!(run.status.code(), Some(64), "{}", text(&run.stderr));
}

/// The secret of the token is in `secrets.sops.yaml`, and the first apply puts those of the cluster beside it.
/// Mission: I1 — `secrets.sops.yaml` holds the secrets
#[test]
fn the_secrets_of_such_a_folder_are_in_its_sops_file() {
    let infra = Infra::new();
    let folder = infra.folder.path();
    let served = Served::start_in(Lab::new(), &folder.join("inventory/dev"));
    let token = served.token();
    let (proxy, ca) = (served.announced("proxy"), served.announced("ca"));
    let own = format!(
        "  ca: {ca}\nspec:\n  reach: {{proxy: \"{proxy}\"}}\n  talos: {{factoryTls: {{ca: {ca}}}}}\n"
    );
    let cluster = CLUSTER.replace("  token_secret: {env: PROXMOX_TOKEN_SECRET}\n", &own);
    infra.write("inventory/dev/cluster.yaml", &cluster);

    let keys = folder.join("keys.txt");
    let ring = Keyring::in_file(keys.clone());
    ring.make().unwrap();
    let rule = Rule::for_recipients([&ring.public().unwrap()]);
    let (now, rng) = (jiff::Timestamp::now(), &mut rand::thread_rng());
    let plain = format!("proxmox_token_secret: {token}\n");
    let closed = daedal_sops::encrypt(Format::Yaml, plain.as_bytes(), &rule, now, rng).unwrap();
    let file = folder.join("inventory/dev/secrets.sops.yaml");
    std::fs::write(&file, closed).unwrap();
    let run = |command_line: &[&str]| {
        let mut run = command([&["-f", "inventory/dev"], command_line].concat());
        run.env("SOPS_AGE_KEY_FILE", &keys).env_remove("PROXMOX_TOKEN_SECRET");
        run.current_dir(folder).output().unwrap()
    };
    assert!(good(&run(&["apply", "--yes"])).contains("Cluster dev is up: 2 nodes Ready"));
    let closed = std::fs::read_to_string(&file).unwrap();
    let keys_there = ["proxmox_token_secret:", "certs:", "trustdinfo:"];
    assert!(keys_there.iter().all(|key| closed.contains(key)) && !closed.contains(&token), "{closed}");
    good(&run(&["plan", "--detailed-exitcode"]));
    good(&run(&["destroy", "--confirm", "dev"]));
}
