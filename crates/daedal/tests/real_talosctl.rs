//! Unmodified talosctl, of two versions, against a served lab: what it shows is what it shows of a real node, and what it changes
//! takes effect as on one. Part of the second tier: `cargo xtask conformance talosctl talosctl-1.13` finds the programs and says
//! where in `DAEDAL_TALOSCTL` and `DAEDAL_TALOSCTL_1_13`; without them a line says what was skipped.

use crate::common;
use crate::talosctl;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{Changed, Lab, client, good, text};

/// talosctl with the way into a lab.
struct Talosctl {
    program: PathBuf,
    proxy: String,
    folder: PathBuf,
}

impl Talosctl {
    fn new(program: PathBuf, lab: &Lab) -> Self {
        let status =
            common::command(["lab", "status", "-o", "json", "--lab-dir"]).arg(lab.dir()).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let proxy = format!("http://{}", status["proxy"].as_str().unwrap());
        Self { program, proxy, folder: lab.dir() }
    }

    fn run(&self, node: &str, args: &[&str]) -> Output {
        let out = Command::new("timeout")
            .arg("90")
            .arg(&self.program)
            .args(["-e", "10.0.0.11", "-n", node])
            .args(args)
            .env("TALOSCONFIG", self.folder.join("clusters/home/outputs/talosconfig"))
            .env("HTTPS_PROXY", &self.proxy)
            .env("HOME", &self.folder)
            .output()
            .unwrap();
        println!("talosctl {}\n{}{}", args.join(" "), text(&out.stdout), text(&out.stderr));
        out
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// Counts cases and differences by check, and prints them as the rows of the table.
#[derive(Default)]
struct Table(BTreeMap<String, (u32, u32)>);

impl Table {
    fn case(&mut self, check: &str, holds: bool, why: impl Fn() -> String) {
        let row = self.0.entry(check.to_owned()).or_default();
        row.0 += 1;
        if !holds {
            row.1 += 1;
            println!("DIFFERS: {check}: {}", why());
        }
    }

    fn finish(self) {
        for (check, (cases, differences)) in &self.0 {
            println!("\nconformance\t{check}\t{cases}\t{differences}");
        }
        let different: Vec<_> = self.0.iter().filter(|(_, (_, differences))| *differences > 0).collect();
        assert!(different.is_empty(), "{different:?}");
    }
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_12_shows_the_lab_as_a_real_node() {
    let Some(program) = client("DAEDAL_TALOSCTL") else { return };
    shows(program, &[], "v1.12.0");
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_13_shows_the_lab_as_a_real_node() {
    let Some(program) = client("DAEDAL_TALOSCTL_1_13") else { return };
    shows(program, TO_1_13, "v1.13.0");
}

/// What the example says, and what a cluster of the next version says instead.
const TO_1_13: &[(&str, &str)] = &[("v1.12.0", "v1.13.0"), ("v1.35.0", "v1.36.0")];

/// What stands below the columns, of the first control plane of the home example: a row with all of the words for each.
const ROWS: &[(&[&str], &[&[&str]])] = &[
    (&["get", "machinestatus"], &[&["10.0.0.11", "runtime", "machine", "running", "true"]]),
    (
        &["get", "members"],
        &[
            &["cp-1", "controlplane", "10.0.0.11"],
            &["cp-2", "controlplane", "10.0.0.12"],
            &["cp-3", "controlplane", "10.0.0.13"],
            &["worker-1", "worker", "10.0.0.21"],
            &["worker-2", "worker", "10.0.0.22"],
        ],
    ),
    (&["get", "disks"], &[&["sda", "43 GB", "virtio", "QEMU HARDDISK"]]),
    (&["get", "links"], &[&["eth0", "ether", "up"], &["lo", "loopback"]]),
    (&["get", "addresses"], &[&["eth0/10.0.0.11/16", "10.0.0.11/16", "eth0"], &["lo/127.0.0.1/8"]]),
    (&["get", "extensions"], &[&["qemu-guest-agent"], &["tailscale"], &["schematic"]]),
    (&["services"], &[&["apid", "Running", "OK"], &["etcd", "Running", "OK"], &["kubelet", "Running", "OK"]]),
    (
        &["etcd", "members"],
        &[
            &["cp-1", "https://10.0.0.11:2380", "https://10.0.0.11:2379", "false"],
            &["cp-2", "https://10.0.0.12:2380", "false"],
            &["cp-3", "https://10.0.0.13:2380", "false"],
        ],
    ),
    (&["etcd", "status"], &[&["10.0.0.11", "false"]]),
];

/// Everything that only looks, and what a change would do.
fn shows(program: PathBuf, versions: &[(&str, &str)], version: &str) {
    let lab = Lab::new();
    let inventory = Changed::new("home", versions);
    good(&inventory.run(&lab, &["apply", "--yes"]));
    let talosctl = Talosctl::new(program, &lab);
    let mut table = Table::default();
    let minor = &version[..5];
    let check = |what: &str| format!("talosctl {minor}: {what}, as on a real node");
    for (what, worker, how, args) in talosctl::COMMANDS {
        let node = if *worker { "10.0.0.21" } else { "10.0.0.11" };
        let shown = talosctl::shape(*how, &talosctl.run(node, args), &[node]);
        let real = talosctl::recorded(version, *worker, args).unwrap_or("nothing recorded");
        table.case(&check(what), shown == real, || {
            format!("{}\n  lab:  {shown}\n  real: {real}", args.join(" "))
        });
    }
    // Below the columns stands what is so: the cluster's own nodes, members, disks, links, services.
    let check = format!("talosctl {minor}: what is in the columns");
    for (args, rows) in ROWS {
        let shown = good(&talosctl.run("10.0.0.11", args));
        for words in *rows {
            let is_there = shown.lines().skip(1).any(|row| words.iter().all(|word| row.contains(word)));
            table.case(&check, is_there, || format!("{}: no row with {words:?} in\n{shown}", args.join(" ")));
        }
    }
    table.finish();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_12_changes_the_lab() {
    let Some(program) = client("DAEDAL_TALOSCTL") else { return };
    changes(program, &[], "v1.12.0", "v1.12.1");
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_13_changes_the_lab() {
    let Some(program) = client("DAEDAL_TALOSCTL_1_13") else { return };
    changes(program, TO_1_13, "v1.13.0", "v1.13.1");
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_12_changes_the_authority_of_the_lab() {
    let Some(program) = client("DAEDAL_TALOSCTL") else { return };
    rotates(program, &[], "v1.12");
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_13_changes_the_authority_of_the_lab() {
    let Some(program) = client("DAEDAL_TALOSCTL_1_13") else { return };
    rotates(program, TO_1_13, "v1.13");
}

/// The nodes whose authorities are changed.
const NODES: [&str; 4] =
    ["--control-plane-nodes", "10.0.0.11,10.0.0.12,10.0.0.13", "--worker-nodes", "10.0.0.21,10.0.0.22"];

/// The kept secrets follow what a control plane runs on.
fn follow(talosctl: &Talosctl, access: &[&str], inventory: &Changed, lab: &Lab) {
    let show = ["get", "machineconfig", "v1alpha1", "-o", "jsonpath={.spec}"];
    let config = talosctl.file("control-plane.yaml");
    std::fs::write(&config, good(&talosctl.run("10.0.0.11", &[access, &show[..]].concat()))).unwrap();
    good(&inventory.run(lab, &["secrets", "import", "--replace", &config]));
    good(&inventory.run(lab, &["apply", "--yes"]));
}

/// The steps of the manual: talosctl changes the authority of the node API, and the kept secrets follow.
fn rotates(program: PathBuf, versions: &[(&str, &str)], version: &str) {
    let lab = Lab::new();
    let inventory = Changed::new("home", versions);
    good(&inventory.run(&lab, &["apply", "--yes"]));
    let talosctl = Talosctl::new(program, &lab);
    let mut table = Table::default();
    let check = format!("talosctl {version}: rotate-ca, and the kept secrets follow");
    let talosconfig = talosctl.file("talosconfig-of-talosctl");
    let rotate = ["rotate-ca", "--kubernetes=false", "--dry-run=false", "-o", &talosconfig];
    let rotated = talosctl.run("10.0.0.11", &[&rotate[..], &NODES[..]].concat());
    table.case(&check, rotated.status.success(), || text(&rotated.stderr));
    let old = talosctl.run("10.0.0.11", &["version"]);
    table.case(&check, !old.status.success(), || "the old access still works".into());

    follow(&talosctl, &["--talosconfig", &talosconfig], &inventory, &lab);
    let plan = inventory.run(&lab, &["plan", "--detailed-exitcode"]);
    table.case(&check, plan.status.code() == Some(0), || text(&plan.stdout));
    let access = talosctl.run("10.0.0.21", &["version"]);
    table.case(&check, access.status.success(), || text(&access.stderr));
    table.finish();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_12_changes_the_authority_of_kubernetes() {
    let Some(program) = client("DAEDAL_TALOSCTL") else { return };
    rotates_kubernetes(program, &[], "v1.12");
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_13_changes_the_authority_of_kubernetes() {
    let Some(program) = client("DAEDAL_TALOSCTL_1_13") else { return };
    rotates_kubernetes(program, TO_1_13, "v1.13");
}

/// The same for the authority of Kubernetes: API servers and kubelets follow, and until the kept secrets have, an apply ends with
/// what to do.
fn rotates_kubernetes(program: PathBuf, versions: &[(&str, &str)], version: &str) {
    let lab = Lab::new();
    let inventory = Changed::new("home", versions);
    good(&inventory.run(&lab, &["apply", "--yes"]));
    let talosctl = Talosctl::new(program, &lab);
    let mut table = Table::default();
    let check = format!("talosctl {version}: rotate-ca of Kubernetes, and the kept secrets follow");
    let rotate = ["rotate-ca", "--talos=false"];
    let plan = || inventory.run(&lab, &["plan", "--detailed-exitcode"]);
    let dry = talosctl.run("10.0.0.11", &[&rotate[..], &NODES[..]].concat());
    table.case(&check, dry.status.success(), || text(&dry.stderr));
    table.case(&check, plan().status.code() == Some(0), || "a dry run changed something".into());

    let kubeconfig = lab.dir().join("clusters/home/outputs/kubeconfig");
    let old = std::fs::read_to_string(&kubeconfig).unwrap();
    let rotated = talosctl.run("10.0.0.11", &[&rotate[..], &["--dry-run=false"], &NODES[..]].concat());
    table.case(&check, rotated.status.success(), || text(&rotated.stderr));
    let ready = text(&rotated.stderr).matches("OK (5 nodes ready)").count()
        + text(&rotated.stdout).matches("OK (5 nodes ready)").count();
    table.case(&check, ready == 3, || "not all nodes were ready in each phase".into());

    let begin = Instant::now();
    let held = inventory.run(&lab, &["apply", "--yes"]);
    let said = text(&held.stdout) + &text(&held.stderr);
    table.case(&check, !held.status.success() && said.contains("secrets import --replace"), || said.clone());
    table.case(&check, begin.elapsed() < Duration::from_secs(60), || "it waited for nothing".into());

    follow(&talosctl, &[], &inventory, &lab);
    table.case(&check, plan().status.code() == Some(0), || text(&plan().stdout));
    let new = std::fs::read_to_string(&kubeconfig).unwrap();
    table.case(&check, new != old, || "the kubeconfig is the old one".into());
    if let Some(kubectl) = client("DAEDAL_KUBECTL") {
        let asks = |config: &str| {
            let file = talosctl.folder.join("kubeconfig-to-try");
            std::fs::write(&file, config).unwrap();
            let mut kubectl = Command::new(&kubectl);
            let get = ["get", "nodes", "-o", "name", "--request-timeout=20s"];
            kubectl.args(get).env("KUBECONFIG", &file).env("HOME", &talosctl.folder).output().unwrap()
        };
        table.case(&check, good(&asks(&new)).lines().count() == 5, || text(&asks(&new).stderr));
        let refused = text(&asks(&old).stderr);
        table.case(&check, refused.contains("certificate signed by unknown authority"), || refused.clone());
    }
    table.finish();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_12_begins_anew_in_maintenance_mode() {
    let Some(program) = client("DAEDAL_TALOSCTL") else { return };
    begins_anew(program, &[], "v1.12");
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn talosctl_1_13_begins_anew_in_maintenance_mode() {
    let Some(program) = client("DAEDAL_TALOSCTL_1_13") else { return };
    begins_anew(program, TO_1_13, "v1.13");
}

/// A machine that lost its config waits for one, gets it without a certificate, and is bootstrapped as on the first day.
fn begins_anew(program: PathBuf, versions: &[(&str, &str)], version: &str) {
    const CP: &str = "10.0.0.11";
    let lab = Lab::new();
    let alone = [
        ("count: 3 ", "count: 1 "),
        ("count: 2", "count: 0"),
        ("  pools:", "  boot: {from: disk-image, config: cloud-init-drive}\n  pools:"),
    ];
    let inventory = Changed::new("home", &[versions, &alone].concat());
    let mut apply = common::command(["apply", "--yes", "--lab", "--lab-speed", "5", "--lab-dir"]);
    good(&apply.arg(lab.dir()).arg("-f").arg(inventory.file()).output().unwrap());
    let talosctl = Talosctl::new(program, &lab);
    let mut table = Table::default();
    let check = format!("talosctl {version}: reset, maintenance mode, apply-config, bootstrap");
    let wipe = ["--system-labels-to-wipe", "STATE", "--system-labels-to-wipe", "EPHEMERAL"];
    let reset = ["reset", "--graceful=false", "--reboot", "--wait=false"];
    good(&talosctl.run(CP, &[&reset[..], &wipe[..]].concat()));
    let shown = |args: &[&str]| {
        let out = talosctl.run(CP, args);
        text(&out.stdout) + &text(&out.stderr)
    };
    let waits = within(Duration::from_secs(60), || {
        shown(&["get", "machinestatus", "--insecure"]).contains("maintenance")
    });
    table.case(&check, waits, || "no maintenance mode".into());
    let disks = shown(&["get", "disks", "--insecure"]);
    table.case(&check, disks.contains("QEMU HARDDISK"), || disks.clone());
    let secret = talosctl.run(CP, &["get", "machineconfig", "--insecure"]);
    table.case(&check, !text(&secret.stdout).contains("v1alpha1"), || text(&secret.stdout));
    let config = talosctl.folder.join("clusters/home/outputs/nodes/cp-1.yaml").display().to_string();
    let dry = shown(&["apply-config", "--insecure", "--dry-run", "-f", &config]);
    table.case(&check, dry.contains("Dry run"), || dry.clone());
    let given = talosctl.run(CP, &["apply-config", "--insecure", "-f", &config]);
    table.case(&check, given.status.success(), || text(&given.stderr));
    let refused = within(Duration::from_secs(60), || talosctl.run(CP, &["version"]).status.success());
    table.case(&check, refused, || "it does not answer who has its certificate".into());
    let insecure = talosctl.run(CP, &["get", "machinestatus", "--insecure"]);
    table.case(&check, !insecure.status.success(), || "it still answers without a certificate".into());
    let bootstrapped = within(Duration::from_secs(60), || talosctl.run(CP, &["bootstrap"]).status.success());
    table.case(&check, bootstrapped, || "no bootstrap".into());
    let healthy = talosctl.run(CP, &["health", "--wait-timeout", "60s"]);
    table.case(&check, healthy.status.success(), || text(&healthy.stderr));

    // The whole disk: nothing is left that could boot.
    good(&talosctl.run(CP, &["reset", "--graceful=false", "--reboot", "--wait=false"]));
    let gone = within(Duration::from_secs(40), || !talosctl.run(CP, &["version"]).status.success());
    table.case(&check, gone, || "it is still there".into());
    table.finish();
}

/// Waits until something holds.
fn within(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if begin.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// One story with every call that changes a node.
fn changes(program: PathBuf, versions: &[(&str, &str)], version: &str, next: &str) {
    const CP: &str = "10.0.0.11";
    const WORKER: &str = "10.0.0.21";
    let client_1_13 = version == "v1.13.0";
    let lab = Lab::new();
    let fewer = [("count: 3 ", "count: 1 "), ("count: 2", "count: 1")];
    let inventory = Changed::new("home", &[versions, &fewer].concat());
    // Not too fast: talosctl takes a second between two looks at a node that reboots.
    let mut apply = common::command(["apply", "--yes", "--lab", "--lab-speed", "5", "--lab-dir"]);
    good(&apply.arg(lab.dir()).arg("-f").arg(inventory.file()).output().unwrap());
    let talosctl = Talosctl::new(program, &lab);
    let mut table = Table::default();
    let name = |what: &str| format!("talosctl {}: {what}", &version[..5]);
    let label = |talosctl: &Talosctl, key: &str| {
        let shown = talosctl.run(WORKER, &["get", "machineconfig", "v1alpha1", "-o", "jsonpath={.spec}"]);
        text(&shown.stdout).contains(key)
    };

    let shown = good(&talosctl.run(CP, &["version"]));
    table.case(&name("version"), shown.matches(version).count() >= 1, || shown.clone());
    let all = good(&talosctl.run(CP, &["-n", WORKER, "version"]));
    table.case(&name("version"), all.matches("NODE:").count() == 2, || all.clone());

    // Without a reboot: now, and still there after one.
    let check = name("apply-config and patch");
    let patch = |mode: &[&str], key: &str| {
        let patch = format!(r#"{{"machine":{{"nodeLabels":{{"{key}":"x"}}}}}}"#);
        talosctl.run(WORKER, &[&["patch", "machineconfig", "-p", &patch], mode].concat())
    };
    good(&patch(&["--dry-run"], "dry"));
    table.case(&check, !label(&talosctl, "dry"), || "a dry run changed something".into());
    good(&patch(&["--mode", "no-reboot"], "now"));
    table.case(&check, label(&talosctl, "now"), || "no-reboot did not take effect".into());
    good(&patch(&["--mode", "try", "--timeout", "20s"], "tried"));
    table.case(&check, label(&talosctl, "tried"), || "a trial did not take effect".into());
    let back = within(Duration::from_secs(20), || !label(&talosctl, "tried"));
    table.case(&check, back, || "a trial was not taken back".into());
    good(&patch(&["--mode", "staged"], "staged"));
    table.case(&check, !label(&talosctl, "staged"), || "a staged configuration took effect at once".into());
    let whole =
        good(&talosctl.run(WORKER, &["get", "machineconfig", "persistent", "-o", "jsonpath={.spec}"]));
    table.case(&check, whole.contains("staged"), || "a staged configuration is not kept".into());
    let file = talosctl.file("worker.yaml");
    std::fs::write(&file, whole.replace("staged: x", "file: x")).unwrap();
    let dry = talosctl.run(WORKER, &["apply-config", "--dry-run", "-f", &file]);
    let shown = text(&dry.stdout) + &text(&dry.stderr);
    table.case(&check, shown.contains("without a reboot (skipped in dry-run)"), || shown.clone());
    // Whole configurations by the same ways.
    let give = |mode: &[&str], label: &str| {
        std::fs::write(&file, whole.replace("staged: x", &format!("{label}: x"))).unwrap();
        talosctl.run(WORKER, &[&["apply-config", "-f", &file], mode].concat())
    };
    good(&give(&["--mode", "try", "--timeout", "20s"], "attempt"));
    table.case(&check, label(&talosctl, "attempt"), || "apply-config: a trial did not take effect".into());
    let back = within(Duration::from_secs(20), || !label(&talosctl, "attempt"));
    table.case(&check, back, || "apply-config: a trial was not taken back".into());
    good(&give(&["--mode", "no-reboot"], "whole"));
    table.case(&check, label(&talosctl, "whole"), || "apply-config: it did not take effect".into());
    good(&give(&["--mode", "staged"], "staged"));
    table.case(&check, !label(&talosctl, "staged"), || "apply-config: staged took effect at once".into());
    let refused = talosctl.run(WORKER, &["apply-config", "-f", &talosctl.file("ca.pem")]);
    table.case(&check, !refused.status.success(), || "what is no configuration was taken".into());

    // Reboot, followed to its end; what was staged takes effect.
    let check = name("reboot, followed");
    let before = good(&talosctl.run(WORKER, &["read", "/proc/sys/kernel/random/boot_id"]));
    let reboot = talosctl.run(WORKER, &["reboot", "--wait", "--timeout", "80s"]);
    table.case(&check, reboot.status.success(), || text(&reboot.stderr));
    let after = good(&talosctl.run(WORKER, &["read", "/proc/sys/kernel/random/boot_id"]));
    table.case(&check, before != after, || "the boot is the same".into());
    table.case(
        &name("apply-config and patch"),
        label(&talosctl, "staged") && label(&talosctl, "now"),
        || "what was staged did not take effect at the reboot".into(),
    );

    // A change that needs a reboot, and gets one.
    let environment = r#"{"machine":{"env":{"A":"b"}}}"#;
    let refused = talosctl.run(WORKER, &["patch", "machineconfig", "--mode", "no-reboot", "-p", environment]);
    table.case(&name("apply-config and patch"), !refused.status.success(), || "it needs a reboot".into());
    good(&talosctl.run(WORKER, &["patch", "machineconfig", "-p", environment]));
    let again = within(Duration::from_secs(40), || {
        let now = talosctl.run(WORKER, &["read", "/proc/sys/kernel/random/boot_id"]);
        now.status.success() && text(&now.stdout) != after
    });
    table.case(&name("apply-config and patch"), again, || "no reboot followed".into());

    // The kernel's log begins with the boot; events are told as they happen.
    let check = name("dmesg, events, logs");
    let dmesg = good(&talosctl.run(WORKER, &["dmesg"]));
    table.case(&check, dmesg.contains(": user: warning: [20"), || dmesg.clone());
    table.case(&check, dmesg.matches("booting Talos").count() == 1, || dmesg.clone());
    let followed = Command::new("timeout")
        .args(["3"])
        .arg(&talosctl.program)
        .args(["-e", CP, "-n", CP, "events", "--tail", "-1"])
        .env("TALOSCONFIG", talosctl.folder.join("clusters/home/outputs/talosconfig"))
        .env("HTTPS_PROXY", &talosctl.proxy)
        .env("HOME", &talosctl.folder)
        .output()
        .unwrap();
    let told = text(&followed.stdout);
    for kind in ["machine.SequenceEvent", "machine.MachineStatusEvent", "machine.ServiceStateEvent"] {
        table.case(&check, told.contains(kind), || format!("no {kind} in {told}"));
    }
    let logs = good(&talosctl.run(CP, &["logs", "etcd", "--tail", "1"]));
    table.case(&check, logs.lines().count() == 1, || logs.clone());

    // A snapshot that talosctl itself can read, and a kubeconfig.
    let snapshot = talosctl.file("etcd.snapshot");
    let check = name("etcd snapshot, reset, bootstrap from it");
    let taken = good(&talosctl.run(CP, &["etcd", "snapshot", &snapshot]));
    table.case(&check, taken.contains("snapshot info: hash"), || taken.clone());
    let kubeconfig = talosctl.file("kubeconfig-of-talosctl");
    good(&talosctl.run(CP, &["kubeconfig", "--merge=false", &kubeconfig]));
    let written = std::fs::read_to_string(&kubeconfig).unwrap_or_default();
    table.case(&name("kubeconfig"), written.contains("client-certificate-data"), || written.clone());

    // Upgrades: by the old call, and by the new service where both sides know it.
    let check = name("upgrade and rollback");
    let image = format!(
        "factory.talos.dev/nocloud-installer/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba:{next}"
    );
    let drain: &[&str] = if client_1_13 { &["--drain=false"] } else { &[] };
    let upgrade =
        talosctl.run(WORKER, &[&["upgrade", "--wait", "--timeout", "80s", "-i", &image], drain].concat());
    table.case(&check, upgrade.status.success(), || text(&upgrade.stderr));
    let runs = |version: &str| {
        within(Duration::from_secs(40), || {
            text(&talosctl.run(WORKER, &["version", "--short"]).stdout)
                .contains(&format!("Tag:         {version}"))
        })
    };
    table.case(&check, runs(next), || format!("{next} does not run"));
    good(&talosctl.run(WORKER, &["rollback"]));
    table.case(&check, runs(version), || format!("{version} does not run"));
    if client_1_13 {
        let legacy = ["upgrade", "--legacy", "--drain=false", "--wait", "--timeout", "80s", "-i", &image];
        let upgrade = talosctl.run(WORKER, &legacy);
        table.case(&check, upgrade.status.success() && runs(next), || text(&upgrade.stderr));
    }

    // The control plane loses its data and gets it back from the snapshot.
    let check = name("etcd snapshot, reset, bootstrap from it");
    let wipe =
        ["reset", "--graceful=false", "--reboot", "--system-labels-to-wipe", "EPHEMERAL", "--timeout", "80s"];
    let reset = talosctl.run(CP, &wipe);
    table.case(&check, reset.status.success(), || text(&reset.stderr));
    let recovered = within(Duration::from_secs(60), || {
        talosctl.run(CP, &["bootstrap", "--recover-from", &snapshot]).status.success()
    });
    table.case(&check, recovered, || "no bootstrap from the snapshot".into());
    let healthy = talosctl.run(CP, &["health", "--wait-timeout", "60s"]);
    table.case(&check, healthy.status.success(), || text(&healthy.stderr));
    let again = talosctl.run(CP, &["bootstrap"]);
    table.case(&check, text(&again.stderr).contains("AlreadyExists"), || text(&again.stderr));
    table.finish();
}
