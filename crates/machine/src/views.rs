//! The machines of a cluster in the languages of other tools: Terraform variables, an Ansible inventory, an ssh_config.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use daedal_inventory::{Cluster, Node, Reach, Role, Ssh, SshKey, SshServer};
use serde::Serialize;

/// Which host each node is on, as far as that is known.
pub type Hosts = BTreeMap<String, String>;

const MIB: u64 = 1 << 20;

/// Variables for Terraform and OpenTofu.
#[derive(Serialize)]
struct Variables<'a> {
    cluster_name: &'a str,
    cluster_endpoint: Option<String>,
    talos_version: String,
    kubernetes_version: String,
    talos_machines: BTreeMap<&'a str, Machine<'a>>,
}

/// A machine as others see it.
#[derive(Serialize)]
struct Machine<'a> {
    role: Role,
    pool: &'a str,
    host: Option<&'a str>,
    vmid: u32,
    uuid: String,
    mac: &'a str,
    address: Option<String>,
    cores: u32,
    memory_mib: u64,
    disk_mib: u64,
}

impl<'a> Machine<'a> {
    fn of(node: &'a Node, hosts: &'a Hosts) -> Self {
        Self {
            role: node.role,
            pool: &node.pool,
            host: hosts.get(&node.name).map(String::as_str),
            vmid: node.vmid,
            uuid: node.uuid.to_string(),
            mac: &node.mac,
            address: node.ip().map(|address| address.to_string()),
            cores: node.cores,
            memory_mib: node.memory / MIB,
            disk_mib: node.disk / MIB,
        }
    }
}

/// Variables for Terraform and OpenTofu: JSON where the name of the file ends in `.json`, else HCL.
pub fn tfvars(cluster: &Cluster, hosts: &Hosts, file: &str) -> String {
    let variables = Variables {
        cluster_name: &cluster.name,
        cluster_endpoint: cluster.kubernetes.endpoint_url(),
        talos_version: format!("v{}", cluster.talos.version),
        kubernetes_version: format!("v{}", cluster.kubernetes.version),
        talos_machines: cluster
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), Machine::of(node, hosts)))
            .collect(),
    };
    let json = serde_json::to_value(variables).unwrap_or_default();
    if file.ends_with(".json") {
        return serde_json::to_string_pretty(&json).unwrap_or_default() + "\n";
    }
    let mut text = String::new();
    for (name, value) in json.as_object().into_iter().flatten() {
        let _ = writeln!(text, "{name} = {}", hcl(value, 0));
    }
    text
}

/// A value as HCL writes it.
fn hcl(value: &serde_json::Value, depth: usize) -> String {
    use serde_json::Value;
    let indent = "  ".repeat(depth + 1);
    match value {
        Value::String(text) => hcl_text(text),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(|value| hcl(value, depth)).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(map) => {
            let mut text = "{\n".to_owned();
            for (key, value) in map {
                let _ = writeln!(text, "{indent}{} = {}", hcl_text(key), hcl(value, depth + 1));
            }
            text + &"  ".repeat(depth) + "}"
        }
        other => other.to_string(),
    }
}

/// A text in quotes, in which nothing is a template.
fn hcl_text(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c => quoted.push(c),
        }
    }
    quoted.replace("${", "$${").replace("%{", "%%{") + "\""
}

/// An inventory for Ansible in YAML (which JSON is): a group for each role and each pool. Nodes have no SSH server, so that
/// tasks for them run on the machine that Ansible runs on.
pub fn ansible(cluster: &Cluster, hosts: &Hosts) -> String {
    let group = |such: &dyn Fn(&Node) -> bool| {
        let members: serde_json::Map<_, _> = (cluster.nodes.iter().filter(|node| such(node)))
            .map(|node| {
                let mut variables = serde_json::json!(Machine::of(node, hosts));
                if let Some(address) = node.ip() {
                    variables["ansible_host"] = address.to_string().into();
                }
                (node.name.clone(), variables)
            })
            .collect();
        serde_json::json!({ "hosts": members })
    };
    let mut groups = serde_json::Map::new();
    for (name, role) in [("controlplane", Role::ControlPlane), ("worker", Role::Worker)] {
        groups.insert(name.to_owned(), group(&|node| node.role == role));
    }
    for node in &cluster.nodes {
        // What Ansible takes for a group is a name of Python.
        let name = format!("pool_{}", node.pool.replace('-', "_"));
        groups.entry(name).or_insert_with(|| group(&|other| other.pool == node.pool));
    }
    let variables = serde_json::json!({
        "ansible_connection": "local",
        "cluster_name": cluster.name,
        "cluster_endpoint": cluster.kubernetes.endpoint_url(),
        "talos_version": format!("v{}", cluster.talos.version),
        "kubernetes_version": format!("v{}", cluster.kubernetes.version),
    });
    yaml(&serde_json::json!({"all": {"vars": variables, "children": groups}}), 0)
}

/// A value as YAML in blocks; texts stand in quotes, as JSON writes them.
fn yaml(value: &serde_json::Value, depth: usize) -> String {
    let Some(map) = value.as_object() else { return format!(" {value}\n") };
    if map.is_empty() {
        return " {}\n".to_owned();
    }
    let mut text = if depth == 0 { String::new() } else { "\n".to_owned() };
    for (key, value) in map {
        let _ = write!(text, "{}{key}:{}", "  ".repeat(depth), yaml(value, depth + 1));
    }
    text
}

/// What `ssh` has to know to go the way that the inventory declares; none if that is not by SSH. `folder` is the inventory's.
pub fn ssh_config(cluster: &Cluster, folder: &Path) -> Option<String> {
    let Reach::Ssh(ssh) = &cluster.reach else { return None };
    let Ssh { server, jump, known_hosts, .. } = &**ssh;
    let known_hosts = known_hosts.as_ref().map(|path| absolute(path, folder));
    let alias = format!("daedal-{}", cluster.name);
    let jumps = jump.as_deref().unwrap_or_default();
    let names: Vec<String> = (1..=jumps.len()).map(|at| format!("{alias}-jump-{at}")).collect();
    let mut text = String::new();
    for (at, (name, jump)) in names.iter().zip(jumps).enumerate() {
        // The first one is reached directly, each other through the one before.
        let before = at.checked_sub(1).and_then(|before| names.get(before));
        let through = before.map_or("none", String::as_str);
        text += &host(name, jump, Some(through), known_hosts.as_deref(), folder);
    }
    let through = match (&jump, names.last()) {
        // What the user's own ssh_config says.
        (None, _) => None,
        (Some(_), None) => Some("none"),
        (Some(_), Some(last)) => Some(last.as_str()),
    };
    text += &host(&alias, server, through, known_hosts.as_deref(), folder);
    Some(text)
}

fn host(
    name: &str,
    server: &SshServer,
    through: Option<&str>,
    known: Option<&Path>,
    folder: &Path,
) -> String {
    let quoted = |path: PathBuf| format!("\"{}\"", path.display());
    let key = server.key.as_ref().and_then(SshKey::file);
    let lines = [
        ("HostName", Some(server.host.clone())),
        ("User", server.user.clone()),
        ("Port", server.port.map(|port| port.to_string())),
        ("IdentityFile", key.map(|key| quoted(absolute(key, folder)))),
        ("IdentitiesOnly", key.map(|_| "yes".to_owned())),
        ("UserKnownHostsFile", known.map(|path| quoted(path.to_owned()))),
        ("ProxyJump", through.map(str::to_owned)),
    ];
    let mut text = format!("Host {name}\n");
    for (key, value) in lines {
        if let Some(value) = value {
            let _ = writeln!(text, "    {key} {value}");
        }
    }
    text
}

/// A path of the inventory as ssh understands it.
fn absolute(path: &Path, folder: &Path) -> PathBuf {
    if path.starts_with("~") { path.to_owned() } else { folder.join(path) }
}

#[cfg(test)]
mod tests {
    use daedal_inventory::{Source, load};

    use super::*;

    fn cluster() -> Cluster {
        let text = include_str!("../../../examples/home/cluster.yaml").to_owned();
        let none = |_: &Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        load(&[Source { name: "cluster.yaml".into(), text }], &none).unwrap().cluster
    }

    #[test]
    fn variables_say_the_same_in_both_languages() {
        let cluster = cluster();
        let hosts = Hosts::from([("cp-1".to_owned(), "atlas".to_owned())]);
        let json: serde_json::Value =
            serde_json::from_str(&tfvars(&cluster, &hosts, "talos-machines.auto.tfvars.json")).unwrap();
        let first = &json["talos_machines"]["cp-1"];
        assert_eq!((&first["host"], &first["memory_mib"]), (&"atlas".into(), &8192.into()));
        assert_eq!(json["talos_machines"]["worker-1"]["host"], serde_json::Value::Null);
        let hcl = tfvars(&cluster, &hosts, "machines.auto.tfvars");
        assert!(hcl.contains("cluster_name = \"home\"\n"), "{hcl}");
        assert!(hcl.contains("\n  \"cp-1\" = {\n") && hcl.contains("\n    \"memory_mib\" = 8192\n"), "{hcl}");
        assert!(hcl.contains("\"host\" = null"), "{hcl}");
        assert_eq!(hcl_text("a\"b${c}%{d}\\"), r#""a\"b$${c}%%{d}\\""#);
    }

    #[test]
    fn every_node_is_in_the_groups_of_its_role_and_pool() {
        let text = ansible(&cluster(), &Hosts::new());
        let lines: Vec<&str> = text.lines().collect();
        for line in ["    controlplane:", "    worker:", "    pool_cp:", "        cp-1:"] {
            assert!(lines.contains(&line), "{line} in {text}");
        }
        assert!(text.contains("ansible_host: \"10.0.0.11\""), "{text}");
    }

    #[test]
    fn the_way_by_ssh_is_told_hop_by_hop() {
        let mut cluster = cluster();
        assert_eq!(ssh_config(&cluster, Path::new("/inventory")), None);
        let server = |host: &str| SshServer { host: host.to_owned(), ..SshServer::default() };
        cluster.reach = Reach::Ssh(Box::new(Ssh {
            server: SshServer {
                user: Some("root".into()),
                key: Some(SshKey::File("id".into())),
                ..server("atlas.lan")
            },
            jump: Some(vec![server("gate"), SshServer { port: Some(2222), ..server("bastion") }]),
            known_hosts: Some("known_hosts".into()),
            proxmox: true,
        }));
        let text = ssh_config(&cluster, Path::new("/inventory")).unwrap();
        let expected = "\
Host daedal-home-jump-1
    HostName gate
    UserKnownHostsFile \"/inventory/known_hosts\"
    ProxyJump none
Host daedal-home-jump-2
    HostName bastion
    Port 2222
    UserKnownHostsFile \"/inventory/known_hosts\"
    ProxyJump daedal-home-jump-1
Host daedal-home
    HostName atlas.lan
    User root
    IdentityFile \"/inventory/id\"
    IdentitiesOnly yes
    UserKnownHostsFile \"/inventory/known_hosts\"
    ProxyJump daedal-home-jump-2
";
        assert_eq!(text, expected);
    }
}
