//! What talosctl shows of a node, without what differs from node to node: recorded from real nodes of each version in a file beside
//! this, which the suite of real nodes keeps true and the lab has to follow.

use std::collections::BTreeSet;
use std::process::Output;

/// How to compare what a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The names of the columns.
    Columns,
    /// The keys of YAML documents.
    Keys,
    /// What the checks are called, in order.
    Checks,
    /// Every word, but for addresses and numbers.
    Words,
    /// The first words, before a difference of configurations.
    Head,
}

/// What is asked: the check it belongs to, whether of a worker, the arguments.
pub const COMMANDS: &[(&str, bool, How, &[&str])] = &[
    ("get", false, How::Columns, &["get", "machinestatus"]),
    ("get", false, How::Columns, &["get", "members"]),
    ("get", false, How::Columns, &["get", "disks"]),
    ("get", false, How::Columns, &["get", "links"]),
    ("get", false, How::Columns, &["get", "addresses"]),
    ("get", false, How::Columns, &["get", "extensions"]),
    ("get", false, How::Columns, &["get", "hostname"]),
    ("get", false, How::Columns, &["get", "nodeaddresses"]),
    ("get", false, How::Columns, &["get", "machineconfig"]),
    ("get", false, How::Columns, &["get", "services"]),
    ("get", false, How::Columns, &["get", "volumestatus"]),
    ("get", false, How::Columns, &["get", "nodestatus"]),
    ("get", false, How::Columns, &["get", "etcdmembers"]),
    ("get", false, How::Columns, &["get", "version"]),
    ("get", false, How::Keys, &["get", "machinestatus", "-o", "yaml"]),
    ("get", false, How::Keys, &["get", "version", "-o", "yaml"]),
    ("get", false, How::Keys, &["get", "hostname", "-o", "yaml"]),
    ("get", false, How::Keys, &["get", "netstatus", "-o", "yaml"]),
    ("get", false, How::Keys, &["get", "timestatus", "-o", "yaml"]),
    ("get", false, How::Keys, &["get", "nodename", "-o", "yaml"]),
    ("get", false, How::Keys, &["get", "machinetype", "-o", "yaml"]),
    ("get", false, How::Keys, &["get", "services", "apid", "-o", "yaml"]),
    ("get", false, How::Columns, &["get", "osrootsecrets"]),
    ("get", false, How::Keys, &["get", "osrootsecrets", "-o", "yaml"]),
    ("get", false, How::Words, &["get", "nosuch"]),
    ("get", false, How::Words, &["get", "machinestatus", "nosuch"]),
    ("version", false, How::Keys, &["version"]),
    ("services", false, How::Columns, &["services"]),
    ("services", false, How::Words, &["service", "nosuch"]),
    ("services", false, How::Words, &["logs", "nosuch"]),
    ("health", false, How::Checks, &["health", "--wait-timeout", "60s"]),
    ("etcd", false, How::Columns, &["etcd", "members"]),
    ("etcd", false, How::Columns, &["etcd", "status"]),
    ("etcd", false, How::Words, &["etcd", "alarm", "list"]),
    ("etcd", false, How::Words, &["etcd", "defrag"]),
    ("etcd", false, How::Words, &["bootstrap"]),
    ("etcd", true, How::Words, &["etcd", "members"]),
    ("etcd", true, How::Words, &["etcd", "status"]),
    ("etcd", true, How::Words, &["etcd", "forfeit-leadership"]),
    ("etcd", true, How::Words, &["bootstrap"]),
    ("etcd", true, How::Words, &["kubeconfig", "-"]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "-p", LABEL]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "-p", ENVIRONMENT]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "-p", SYSCTL]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "-p", QUOTA]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "-p", PRISM]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "-p", RULES]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "--mode", "staged", "-p", LABEL]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "--mode", "try", "-p", LABEL]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--dry-run", "--mode", "reboot", "-p", LABEL]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--mode", "no-reboot", "-p", ENVIRONMENT]),
    ("apply", true, How::Head, &["patch", "machineconfig", "--mode", "try", "-p", ENVIRONMENT]),
    ("apply", true, How::Words, &["patch", "machineconfig", "--mode", "no-reboot", "-p", LABEL]),
    ("apply", true, How::Words, &["patch", "machineconfig", "--mode", "try", "--timeout", "5s", "-p", OTHER]),
    ("apply", true, How::Words, &["patch", "machineconfig", "--mode", "staged", "-p", STAGED]),
];

const LABEL: &str = r#"{"machine":{"nodeLabels":{"shape":"a"}}}"#;
const OTHER: &str = r#"{"machine":{"nodeLabels":{"shape":"b"}}}"#;
const STAGED: &str = r#"{"machine":{"nodeLabels":{"shape":"c"}}}"#;
const ENVIRONMENT: &str = r#"{"machine":{"env":{"A":"b"}}}"#;
const SYSCTL: &str = r#"{"machine":{"sysctls":{"net.core.somaxconn":"65535"}}}"#;
const QUOTA: &str = r#"{"machine":{"features":{"diskQuotaSupport":false}}}"#;
const PRISM: &str = r#"{"machine":{"features":{"kubePrism":{"enabled":true,"port":7446}}}}"#;
const RULES: &str = r#"{"machine":{"udev":{"rules":["KERNEL==\"a\""]}}}"#;

/// What is recorded of real nodes, by their version.
const REAL: &[(&str, &str)] =
    &[("v1.12.", include_str!("shapes-1.12.txt")), ("v1.13.", include_str!("shapes-1.13.txt"))];

/// What remains of what a command shows.
pub fn shape(how: How, run: &Output, addresses: &[&str]) -> String {
    let (said, failed) = (crate::common::text(&run.stdout), crate::common::text(&run.stderr));
    let shape = match how {
        How::Columns => {
            let head = said.lines().next().unwrap_or_default();
            head.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect::<Vec<_>>().join(" | ")
        }
        How::Keys => keys(&said),
        How::Checks => {
            let checks = failed.lines().chain(said.lines()).filter_map(|line| line.strip_suffix(": ..."));
            checks.collect::<Vec<_>>().join(" | ")
        }
        How::Words => words(&format!("{said}\n{failed}")),
        How::Head => {
            let all = format!("{said}\n{failed}");
            words(all.split("--- a").next().unwrap_or_default())
        }
    };
    let mut shape = format!("{} {shape}", if run.status.success() { "ok" } else { "fails" });
    for address in addresses {
        shape = shape.replace(address, "NODE");
    }
    shape.trim_end().to_owned()
}

/// A text on one line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The keys of YAML-like text by their depth; items of lists and repeated documents count once.
fn keys(text: &str) -> String {
    let keys: BTreeSet<String> = text
        .lines()
        .filter_map(|line| {
            let (key, _) = line.split_once(':')?;
            let depth = key.len() - key.trim_start().len();
            Some(format!("{}{}", ".".repeat(depth.min(9)), key.trim()))
        })
        .collect();
    keys.into_iter().collect::<Vec<_>>().join(" ")
}

/// The line of a command in the record.
pub fn line(worker: bool, args: &[&str]) -> String {
    format!("{} {}", if worker { "worker" } else { "control-plane" }, args.join(" "))
}

/// What was recorded of a command on real nodes of a version.
pub fn recorded(talos: &str, worker: bool, args: &[&str]) -> Option<&'static str> {
    let wanted = line(worker, args);
    let (_, record) = REAL.iter().find(|(version, _)| talos.starts_with(version))?;
    record
        .lines()
        .find_map(|record| record.split_once(" => ").filter(|(l, _)| *l == wanted))
        .map(|(_, shape)| shape)
}
