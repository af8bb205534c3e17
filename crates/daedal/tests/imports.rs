//! `daedal inventory import`: what other tools were told about a cluster becomes an inventory, and nothing of it is lost unsaid.

use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value as Json, json};

use crate::common::{Lab, command, good, text};

/// Never to be seen again.
const CANARY: &str = "0b5a6a8e-canary-4c1e-9a53-1f6a2f0c7d11";

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self { folder }
    }

    fn run(&self, command_line: &[&str]) -> Output {
        let run = command(command_line).current_dir(self.folder.path()).output().unwrap();
        let said = text(&run.stdout) + &text(&run.stderr);
        assert!(!said.contains("canary"), "a secret is shown: {said}");
        run
    }

    fn import(&self, names: &[&str]) -> Json {
        let run = self.run(&[&["inventory", "import", "-o", "json"], names].concat());
        serde_json::from_str(&good(&run)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What an inventory comes to.
    fn resolved(&self, file: &str) -> Json {
        let shown = self.run(&["inventory", "show", "--resolved", "-o", "json", "-f", file]);
        serde_json::from_str(&good(&shown)).unwrap()
    }
}

/// Why each value that is lost is lost, by its name.
fn lost<'a>(imported: &'a Json, name: &str) -> &'a str {
    let quoted = format!("`{name}` ");
    let found = imported["lost"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|lost| lost["message"].as_str().filter(|message| message.starts_with(&quoted)));
    found.unwrap_or_else(|| panic!("nothing is said of {name}: {imported:#}"))
}

const GROUPS: &str = r#"# All nine groups.
proxmox_config = {
  host      = "pve1.lan"
  api_token = "terraform@pve!tofu=CANARY"
  insecure  = true
  node_name = "pve1"

  talos_disk_image_datastore_id = "local"
  template_datastore_id         = "local-lvm"
  vm_datastore_id               = "local-zfs"
  dns_servers                   = ["9.9.9.9", "1.1.1.1"]
  ccm_config = { enabled = true, user = "ccm@pve" }
}

network_config = {
  cidr      = "10.20.0.0/24" // where the nodes are
  gateway   = "10.20.0.1"
  bridge    = "vmbr1"
  vlan_id   = 30
  interface = "eth0"
  mtu       = 1450
}

cluster_config = {
  name          = "staging"
  talos_version = "v1.12.0"
  vip = { enabled = true, ip = "10.20.0.5" }
}

node_config = {
  controlplane_count    = 1
  worker_count          = 3
  controlplane_ip_start = 10
  worker_ip_start       = 20
}

template_config = {
  controlplane_id = 998
  worker_id       = 999
  node            = "pve1"
}

resource_config = {
  controlplane = { memory = 4096, cpu_cores = 4, disk_size = 20 }
  worker       = { memory = 6144, cpu_cores = 8, disk_size = 50 }
  cpu_type     = "x86-64-v3"
}

vm_id_ranges = {
  controlplane_min = 2000, controlplane_max = 2999
  worker_min       = 3000, worker_max       = 3999
}

node_distribution = {
  "pve2" = { controlplane_count = 0, worker_count = 1 }
  "pve1" = { controlplane_count = 1, worker_count = 2 }
}

tagging_config = { common = ["talos"], extra = ["team-a"] }
"#;

/// Mission: M16 — imported from Terraform's own files
#[tokio::test]
async fn all_nine_groups_of_terraform_variables_are_imported() {
    let groups = GROUPS.replace("CANARY", CANARY);
    let files = Files::new(&[("terraform.tfvars", &groups)]);
    let imported = files.import(&["terraform.tfvars", "--to", "cluster.yaml"]);
    assert_eq!(
        (&imported["shape"], &imported["complete"]),
        (&json!("terraform-groups"), &json!(true)),
        "{imported:#}"
    );
    assert!(lost(&imported, "proxmox_config.api_token").contains("PROXMOX_TOKEN_SECRET"));
    assert!(lost(&imported, "proxmox_config.ccm_config").contains("daedal proxmox ccm"));
    lost(&imported, "network_config.interface");
    lost(&imported, "template_config.node");
    assert_eq!(imported["lost"].as_array().unwrap().len(), 4, "{imported:#}");
    assert_eq!(
        (&imported["lost"][0]["file"], &imported["lost"][0]["line"]),
        (&json!("terraform.tfvars"), &json!(4))
    );

    let resolved = files.resolved("cluster.yaml");
    let proxmox = &resolved["proxmox"];
    assert_eq!(proxmox["endpoint"], "https://pve1.lan:8006");
    assert_eq!(proxmox["tokenId"], "terraform@pve!tofu");
    assert_eq!(
        (&proxmox["disksStorage"], &proxmox["templateDisks"]),
        (&json!("local-zfs"), &json!("local-lvm"))
    );
    assert_eq!((&proxmox["bridge"], &proxmox["vlan"]), (&json!("vmbr1"), &json!(30)));
    let network = &resolved["network"];
    assert_eq!((&network["vip"], &network["mtu"]), (&json!("10.20.0.5"), &json!(1450)));
    assert_eq!(network["dns"], json!(["9.9.9.9", "1.1.1.1"]));
    assert_eq!(resolved["boot"]["template"], json!({"controlPlane": 998, "worker": 999, "full": true}));
    let nodes: Vec<(&str, u64, &str)> = (resolved["nodes"].as_array().unwrap().iter())
        .map(|n| (n["name"].as_str().unwrap(), n["vmid"].as_u64().unwrap(), n["address"].as_str().unwrap()))
        .collect();
    assert_eq!(
        nodes,
        [
            ("cp-1", 2000, "10.20.0.10/24"),
            ("worker-1", 3000, "10.20.0.20/24"),
            ("worker-2", 3001, "10.20.0.21/24"),
            ("worker-3", 3002, "10.20.0.22/24")
        ]
    );
    assert_eq!(resolved["nodes"][1]["memory"], json!(6_u64 << 30));
    let pins = json!({"cp-1": "pve1", "worker-1": "pve1", "worker-2": "pve1", "worker-3": "pve2"});
    assert_eq!(resolved["placement"]["pin"], pins);
    assert_eq!(resolved["tags"], json!(["talos", "team-a"]));

    // The same as JSON is the same, and an existing file stays.
    let as_json = Files::new(&[("terraform.tfvars.json", &groups_as_json(CANARY))]);
    assert_eq!(as_json.import(&["terraform.tfvars.json"])["document"], imported["document"]);
    let again = files.run(&["inventory", "import", "terraform.tfvars", "--to", "cluster.yaml"]);
    assert_eq!(again.status.code(), Some(73), "{}", text(&again.stderr));

    // What was imported is what is built.
    let lab = Lab::new();
    good(&lab.command_on(&["apply", "--yes"], &files.path("cluster.yaml")).output().unwrap());
    let root = lab.root("https://pve1.lan:8006").await;
    let rows = root.resources_of("vm").await.unwrap();
    let third = rows.iter().find(|row| row.vmid == Some(3002)).unwrap();
    assert_eq!(third.node, "pve2");
}

/// The same variables as JSON.
fn groups_as_json(secret: &str) -> String {
    let groups = json!({
        "proxmox_config": {
            "host": "pve1.lan", "api_token": format!("terraform@pve!tofu={secret}"), "insecure": true, "node_name": "pve1",
            "talos_disk_image_datastore_id": "local", "template_datastore_id": "local-lvm", "vm_datastore_id": "local-zfs",
            "dns_servers": ["9.9.9.9", "1.1.1.1"], "ccm_config": {"enabled": true, "user": "ccm@pve"},
        },
        "network_config": {
            "cidr": "10.20.0.0/24", "gateway": "10.20.0.1", "bridge": "vmbr1", "vlan_id": 30, "interface": "eth0", "mtu": 1450,
        },
        "cluster_config": {
            "name": "staging", "talos_version": "v1.12.0", "vip": {"enabled": true, "ip": "10.20.0.5"},
        },
        "node_config": {
            "controlplane_count": 1, "worker_count": 3, "controlplane_ip_start": 10, "worker_ip_start": 20,
        },
        "template_config": {"controlplane_id": 998, "worker_id": 999, "node": "pve1"},
        "resource_config": {
            "controlplane": {"memory": 4096, "cpu_cores": 4, "disk_size": 20},
            "worker": {"memory": 6144, "cpu_cores": 8, "disk_size": 50},
            "cpu_type": "x86-64-v3",
        },
        "vm_id_ranges": {
            "controlplane_min": 2000, "controlplane_max": 2999, "worker_min": 3000, "worker_max": 3999,
        },
        "node_distribution": {
            "pve1": {"controlplane_count": 1, "worker_count": 2}, "pve2": {"controlplane_count": 0, "worker_count": 1},
        },
        "tagging_config": {"common": ["talos"], "extra": ["team-a"]},
    });
    serde_json::to_string_pretty(&groups).unwrap()
}

const VARIABLES: &str = r#"cluster_name        = "platform"
environment         = "production"
ha_enabled          = true
control_plane_count = 3
worker_count        = 2

proxmox = {
  endpoint     = "https://pve.example.com:8006/api2/json"
  insecure     = false
  target_nodes = ["pve-a", "pve-b", "pve-c"]
  datastore_id = "ceph-vm"
  bridge       = "vmbr1"
  vlan_id      = 120
}

pve_capacity = {
  pve-a = { vcpu = 48, memory = 196608 }
  pve-b = { vcpu = 32, memory = 131072 }
  pve-c = { vcpu = 16, memory = 65536 }
}

sizing = {
  control_plane = { vcpu = 4, memory = 8192, disk = 60 }
  worker        = { vcpu = 8, memory = 24576, disk = 100 }
}

placement = {
  strategy = "spread"
  pinned   = { "platform-cp-1" = "pve-a", "platform-cp-2" = "pve-b", "mystery" = "pve-c" }
}

talos = { iso = "cephfs:iso/talos-1.9.0.iso" }
"#;

const CREDENTIALS: &str = r#"
proxmox_api_url          = "https://pve.example.com:8006/api2/json"
proxmox_api_token_id     = "terraform-user@pam!tokenid"
proxmox_api_token_secret = "CANARY"
"#;

#[test]
fn variables_of_a_capacity_aware_project_are_imported() {
    let credentials = CREDENTIALS.replace("CANARY", CANARY);
    let files = Files::new(&[("terraform.tfvars", VARIABLES), ("credentials.auto.tfvars", &credentials)]);
    let imported = files.import(&["terraform.tfvars", "credentials.auto.tfvars"]);
    assert_eq!((&imported["shape"], &imported["complete"]), (&json!("terraform-variables"), &json!(false)));
    // DHCP gave the addresses there: which network that is was never said.
    assert_eq!(imported["missing"], json!(["spec.network.cidr", "spec.network.gateway"]));
    lost(&imported, "placement.pinned.mystery");
    assert!(lost(&imported, "proxmox_api_token_secret").contains("secret"));
    assert_eq!(imported["lost"].as_array().unwrap().len(), 2, "{imported:#}");

    let run = files.run(&[
        "inventory",
        "import",
        "terraform.tfvars",
        "credentials.auto.tfvars",
        "--to",
        "cluster.yaml",
    ]);
    good(&run);
    let said = text(&run.stderr);
    assert!(said.contains("Recognised: Terraform variables (cluster_name, proxmox, sizing, …)."), "{said}");
    assert!(
        said.contains("terraform.tfvars:29:70: `placement.pinned.mystery`")
            && said.contains("cluster.yaml: fill in `spec.network.cidr`"),
        "{said}"
    );
    assert!(
        said.contains(
            "The inventory is incomplete: fill in 2 lines, then run `daedal check -f cluster.yaml`."
        )
    );
    assert_eq!(files.run(&["check"]).status.code(), Some(65));
    let document = std::fs::read_to_string(files.path("cluster.yaml")).unwrap();
    let filled = document
        .replace("# cidr: 10.0.0.0/24", "cidr: 10.120.0.0/22")
        .replace("# gateway: 10.0.0.1", "gateway: 10.120.0.1");
    std::fs::write(files.path("cluster.yaml"), filled).unwrap();
    let resolved = files.resolved("cluster.yaml");
    assert_eq!((&resolved["ha"], &resolved["environment"]), (&json!(true), &json!("production")));
    assert_eq!(
        resolved["proxmox"]["hosts"][0],
        json!({"name": "pve-a", "capacity": {"cores": 48, "memory": 192_u64 << 30, "disk": null}})
    );
    assert_eq!(resolved["proxmox"]["tokenId"], "terraform-user@pam!tokenid");
    assert_eq!(resolved["placement"]["pin"], json!({"cp-1": "pve-a", "cp-2": "pve-b"}));
    assert_eq!(resolved["boot"]["iso"], "cephfs:iso/talos-1.9.0.iso");
    assert_eq!(resolved["talos"]["version"], "1.9.0");
    let vmids: Vec<&Json> = resolved["nodes"].as_array().unwrap().iter().map(|node| &node["vmid"]).collect();
    assert_eq!(vmids, [401, 402, 403, 501, 502]);
}

#[test]
fn a_list_of_nodes_is_imported() {
    let nodes = r#"{
  "control_plane_vip": "tailscale-vip-placeholder",
  "headscale_login_server": "https://agentydragon.com:8080",
  "controlplanes": [{"name":"talos-cp-01","dhcp":"10.0.232.93"}],
  "workers": [{"name":"talos-worker-01","dhcp":"10.0.232.109", "rack": "a"}]
}
"#;
    let files = Files::new(&[("nodes.json", nodes)]);
    let imported = files.import(&["nodes.json"]);
    assert_eq!(imported["shape"], "node-list");
    lost(&imported, "control_plane_vip");
    assert!(lost(&imported, "workers[0].rack").contains("no key for it"));
    assert_eq!(imported["missing"].as_array().unwrap().len(), 9, "{imported:#}");
    // Filled in as the examples say, but for the network.
    let filled = |line: &str| match line.contains("# fill in: ") {
        true => format!("{}\n", line.replacen("# ", "", 1).replace("10.0.0.0/24", "10.0.0.0/16")),
        false => format!("{line}\n"),
    };
    let document: String = imported["document"].as_str().unwrap().lines().map(filled).collect();
    std::fs::write(files.path("cluster.yaml"), document).unwrap();
    let mut show = command(["inventory", "show", "--resolved", "-o", "json", "-f"]);
    let shown = show.arg(files.path("cluster.yaml")).env("HEADSCALE_AUTH_KEY", "tskey").output().unwrap();
    let resolved: Json = serde_json::from_str(&good(&shown)).unwrap();
    let first = &resolved["nodes"][0];
    assert_eq!((&first["name"], &first["vmid"]), (&json!("talos-cp-01"), &json!(300)));
    assert_eq!(first["address"], "10.0.232.93/16");
    assert_eq!(resolved["network"]["dhcp"], true);
    assert!(resolved.to_string().contains("--login-server=https://agentydragon.com:8080"));
}

const GROUP_VARIABLES: &str = r#"---
proxmox_host: 10.10.0.1
proxmox_node: fluodata
proxmox_api_user: root@pam
proxmox_api_token_id: terraform
proxmox_api_token_secret: CANARY

talos_version: v1.12.4
talos_schematic_id: e187c9b90f773cd8c84e5a3265c5554ee787b2fe67b508d9f955e90e7ae8c96c
talos_iso_url: "https://factory.talos.dev/image/{{ talos_schematic_id }}/{{ talos_version }}/nocloud-amd64.iso"
talos_iso_storage: local

cluster_name: fluodata
cluster_vip: 10.10.0.5
cluster_endpoint: "https://{{ cluster_vip }}:6443"

vm_bridge: vmbr1
vm_gateway: 10.10.0.1
vm_subnet_mask: 24
vm_nameservers: [10.10.0.1]
vm_storage: local-lvm

controlplane_nodes:
  - {name: cp-0, vmid: 110, ip: 10.10.0.10, mac: "BC:24:11:01:01:01", cores: 2, memory: 4096, boot_disk_gb: 20}
worker_nodes:
  - {name: worker-0, vmid: 120, ip: 10.10.0.20, mac: "BC:24:11:02:01:01", cores: 4, memory: 8192, boot_disk_gb: 20, longhorn_disk_gb: 20}
  - {name: worker-1, vmid: 121, ip: 10.10.0.21, mac: "BC:24:11:02:01:02", cores: 4, memory: 8192, boot_disk_gb: 20, longhorn_disk_gb: 20}

all_nodes: "{{ controlplane_nodes + worker_nodes }}"
cilium_version: "1.17.3"
"#;

/// Mission: F10, F11
#[test]
fn variables_of_an_ansible_group_are_imported() {
    let files = Files::new(&[("all.yml", &GROUP_VARIABLES.replace("CANARY", CANARY))]);
    let imported = files.import(&["all.yml", "--to", "cluster.yaml"]);
    assert_eq!(
        (&imported["shape"], &imported["complete"]),
        (&json!("group-variables"), &json!(true)),
        "{imported:#}"
    );
    for name in [
        "proxmox_api_token_secret",
        "talos_schematic_id",
        "talos_iso_url",
        "cluster_endpoint",
        "all_nodes",
        "cilium_version",
    ] {
        lost(&imported, name);
    }
    let resolved = files.resolved("cluster.yaml");
    let nodes: Vec<(&Json, &Json, &Json, &Json)> = (resolved["nodes"].as_array().unwrap().iter())
        .map(|node| (&node["name"], &node["vmid"], &node["address"], &node["mac"]))
        .collect();
    assert_eq!(nodes[0], (&json!("cp-0"), &json!(110), &json!("10.10.0.10/24"), &json!("BC:24:11:01:01:01")));
    assert_eq!(
        nodes[2],
        (&json!("worker-1"), &json!(121), &json!("10.10.0.21/24"), &json!("BC:24:11:02:01:02"))
    );
    assert_eq!(resolved["proxmox"]["tokenId"], "root@pam!terraform");
    assert_eq!(resolved["nodes"][1]["memory"], json!(8_u64 << 30));
    assert!(resolved["nodes"][1].to_string().contains("longhorn"), "{:#}", resolved["nodes"][1]);
}

#[test]
fn what_cannot_be_imported_is_refused_with_its_place() {
    let files = Files::new(&[
        (
            "broken.tfvars",
            &format!("proxmox_config = {{\n  api_token = \"a@b!c={CANARY}\"\n  host = var.host\n}}\n"),
        ),
        ("values.yaml", "replicas: 3\n"),
        ("broken.json", &format!("{{\"proxmox_config\": {{\"api_token\": \"{CANARY}\"")),
    ]);
    for (name, place, why) in [
        ("broken.tfvars", "broken.tfvars:3:10", "expression"),
        ("values.yaml", "values.yaml:1:1", "nothing that can be imported"),
        ("broken.json", "broken.json:", "not valid YAML"),
    ] {
        let run = files.run(&["inventory", "import", name]);
        assert_eq!(run.status.code(), Some(65), "{name}");
        let run = files.run(&["inventory", "import", name, "-o", "json"]);
        let said = text(&run.stdout);
        assert!(said.contains(why) && said.contains(place), "{name}: {said}");
    }
    assert_eq!(files.run(&["inventory", "import", "missing.tfvars"]).status.code(), Some(66));
}
