//! What the users of a cluster get: names that can be chosen, what other tools read, a kubeconfig through a proxy. E9, I3, H16.

use crate::common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use common::{Changed, Lab, SMALL, good, text};
use serde_json::Value;

const NAMED: &str = "outputs:
    names: {controlplane: control-plane.yaml, node: \"<node>.yaml\", tfvars: talos-machines.auto.tfvars.json}
    kubeconfig: {proxy: true, port: PORT}
  talos:";

/// A port that is free now, and below those that are given to outgoing connections.
fn free_port() -> u16 {
    let base = 20_000 + u16::try_from(std::process::id() % 4_000).unwrap();
    (base..).find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// Mission: E9, I3 — file names as a team is used to, a file of Terraform variables, a kubeconfig through `daedal proxy`.
#[test]
fn outputs_are_called_as_declared_and_the_kubeconfig_goes_through_the_proxy() {
    let lab = Lab::new();
    let port = free_port();
    let named = NAMED.replace("PORT", &port.to_string());
    let usual = Changed::new("home", SMALL);
    let home = Changed::new("home", &[SMALL, &[("talos:", named.as_str())]].concat());
    let names = |inventory: &Changed| -> Vec<String> {
        let files = inventory.json(&lab, &["outputs"])["files"].as_array().unwrap().clone();
        files.iter().map(|file| file.as_str().unwrap().to_owned()).collect()
    };
    good(&usual.run(&lab, &["generate"]));
    assert!(names(&usual).contains(&"nodes/cp-1.yaml".to_owned()));

    // E9's names and I3's; what was called otherwise goes.
    good(&home.run(&lab, &["generate"]));
    let expected = [
        "control-plane.yaml",
        "cp-1.yaml",
        "kubeconfig",
        "machines.json",
        "secrets.yaml",
        "talos-machines.auto.tfvars.json",
        "talosconfig",
        "worker-1.yaml",
        "worker.yaml",
    ];
    assert_eq!(names(&home), expected);
    good(&home.run(&lab, &["apply", "--yes"]));
    let tfvars = good(&home.run(&lab, &["outputs", "talos-machines.auto.tfvars.json"]));
    let tfvars: Value = serde_json::from_str(&tfvars).unwrap();
    assert_eq!(tfvars["talos_machines"]["cp-1"]["host"], "atlas", "{tfvars:#}");
    assert_eq!(tfvars["talos_machines"]["worker-1"]["vmid"], 303);
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));

    // The kubeconfig names a proxy, and `daedal proxy` is there by itself.
    let url = format!("http://127.0.0.1:{port}");
    let kubeconfig = good(&home.run(&lab, &["outputs", "kubeconfig"]));
    assert!(kubeconfig.contains(&format!("proxy-url: {url}")), "{kubeconfig}");
    let mut proxy = lab.command_on(&["proxy"], &home.file());
    let mut proxy = proxy.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"CONNECT 10.0.0.20:6443 HTTP/1.1\r\nHost: 10.0.0.20:6443\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    assert!(said.starts_with(&url), "{said}");
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// Mission: H16, I3 — what Terraform, Ansible, ssh and direnv read.
#[test]
fn other_tools_are_told_in_their_language() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    // They follow from the inventory alone, but for the hosts.
    let hcl = good(&home.run(&lab, &["outputs", "tfvars"]));
    assert!(hcl.contains("\n  \"cp-1\" = {\n") && hcl.contains("\"host\" = null"), "{hcl}");
    good(&home.run(&lab, &["generate"]));
    good(&home.run(&lab, &["provision", "--yes"]));
    let json: Value = serde_json::from_str(&good(&home.run(&lab, &["outputs", "tfvars.json"]))).unwrap();
    assert_eq!(json["talos_machines"]["cp-1"]["host"], "atlas", "{json:#}");
    let ansible = good(&home.run(&lab, &["outputs", "ansible"]));
    assert!(
        ansible.contains("        worker-1:\n") && ansible.contains("ansible_host: \"10.0.0.21\""),
        "{ansible}"
    );
    let envrc = good(&home.run(&lab, &["outputs", "envrc"]));
    let line = |name: &str| envrc.lines().any(|line| line.starts_with(&format!("export {name}=/")));
    assert!(line("KUBECONFIG") && line("TALOSCONFIG") && envrc.contains("watch_file /"), "{envrc}");
    let none = home.run(&lab, &["outputs", "ssh-config"]);
    assert_eq!(none.status.code(), Some(64), "{}", text(&none.stderr));
    let by_ssh = Changed::new(
        "home",
        &[
            SMALL,
            &[("  network:", "  reach: {ssh: {host: atlas.lan, user: root, jump: [ops@gate]}}\n  network:")],
        ]
        .concat(),
    );
    let config = good(&common::command(["outputs", "ssh-config", "-f"]).arg(by_ssh.file()).output().unwrap());
    assert!(config.contains("Host daedal-home\n    HostName atlas.lan\n    User root\n"), "{config}");
    assert!(config.contains("ProxyJump daedal-home-jump-1"), "{config}");
}
