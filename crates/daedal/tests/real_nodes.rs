//! An ordinary apply that ends on real Talos nodes: the lab plays Proxmox, a kit runs the machines. Part of the second tier:
//! `cargo xtask conformance nodes nodes-1.13` finds the kit and says where in `DAEDAL_REAL_PEERS`; without it a line says what
//! was skipped. The kit makes network namespaces of its own, so root is needed and nothing leaves the machine.

use crate::common;
#[path = "inside/mod.rs"]
mod inside;
#[path = "rotation/mod.rs"]
mod rotation;
use crate::talosctl;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{good, text};

/// Starts and stops the kit's node for a VM. The network card gets the VM's MAC, by which the config selects it. A bootstrap
/// interrupts the pull of etcd's image, and the kit's registry cannot resume one: a control plane is on once it had time for it.
const RUNNER: &str = r#"#!/usr/bin/env bash
set -eu
name=$LAB_VM_NAME
case $1 in
  power-on)
    octet=${LAB_VM_ADDRESS##*.}
    # The kernel takes its time to clear away the network of one that was there before.
    for _ in $(seq 10); do
      "$DAEDAL_REAL_PEERS" node start "$name" "$octet" ${LAB_VM_CONFIG:+"$LAB_VM_CONFIG"} && break
      ip -n rp.br link del "rp$octet" || true
      sleep 3
    done
    ip -n "rp-$name" link set eth0 address "$LAB_VM_MAC"
    case $name in cp-*)
      for _ in $(seq 100); do (exec 3<>"/dev/tcp/$LAB_VM_ADDRESS/50000") 2>/dev/null && break; sleep 0.3; done
      sleep 10 ;;
    esac
    ;;
  power-off) "$DAEDAL_REAL_PEERS" node stop "$name" ;;
  forget) "$DAEDAL_REAL_PEERS" node stop "$name" --wipe ;;
esac
"#;

/// Three control planes and a worker. The endpoint is the first of them: in containers Talos shares no address.
const INVENTORY: &str = "\
apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {name: real}
spec:
  environment: lab
  talos: {version: TALOS}
  kubernetes: {version: v1.35.0, endpoint: \"https://10.77.0.11:6443\"}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {id: \"daedal@pve!cli\", secret: {env: UNUSED}}
    tls: {insecure: true}
    hosts: [atlas]
    storage: {disks: local-lvm, images: local}
    bridge: vmbr0
  network: {cidr: 10.77.0.0/24, gateway: 10.77.0.1, dns: [10.77.0.1]}
  patches: [{file: patch.yaml}]
  pools:
    - {name: cp, role: controlplane, count: 3, cores: 2, memory: 2GiB, disk: 20GiB, vmid: 300, address: 10.77.0.11}
    - {name: worker, role: worker, count: 1, cores: 2, memory: 2GiB, disk: 20GiB, vmid: 310, address: 10.77.0.21}
";

/// The kit's namespaces and addresses are always the same: one story at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Kit {
    program: PathBuf,
    folder: tempfile::TempDir,
    /// The version of Talos that its nodes and talosctl have.
    talos: &'static str,
    inventory: String,
    _alone: MutexGuard<'static, ()>,
}

impl Kit {
    /// The kit with its network up; none after saying that it was skipped.
    fn find(talos: &'static str) -> Option<Self> {
        let Some(program) = std::env::var_os("DAEDAL_REAL_PEERS").map(PathBuf::from) else {
            println!("skipped: DAEDAL_REAL_PEERS names no kit of real nodes");
            return None;
        };
        let inventory = INVENTORY.replace("TALOS", talos);
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let kit = Self { program, folder: tempfile::tempdir().unwrap(), talos, inventory, _alone };
        let _ = kit.run(&["down"]);
        good(&kit.run(&["net", "up"]));
        std::fs::write(kit.path("patch.yaml"), good(&kit.run(&["patch"]))).unwrap();
        std::fs::write(kit.path("cluster.yaml"), &kit.inventory).unwrap();
        std::fs::write(kit.path("runner"), RUNNER).unwrap();
        std::fs::set_permissions(kit.path("runner"), std::fs::Permissions::from_mode(0o700)).unwrap();
        Some(kit)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The kit with its version of Talos, for whatever is to be done with it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("TALOS", self.talos);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    /// Runs a program where the nodes can be reached.
    fn exec(&self, program: &Path, args: &[&str]) -> Output {
        let outputs = self.path("lab/clusters/real/outputs");
        let kept = |name: &str| match self.path(name) {
            kept if kept.exists() => kept,
            _ => outputs.join(name),
        };
        self.command()
            .arg("exec")
            .arg(program)
            .args(args)
            .env("KUBECONFIG", kept("kubeconfig"))
            .env("TALOSCONFIG", kept("talosconfig"))
            .output()
            .unwrap()
    }

    /// Runs ours, and interrupts it if it takes longer than these seconds.
    fn daedal_within(&self, seconds: &str, command_line: &[&str]) -> Output {
        let (lab, runner, file) = (self.path("lab"), self.path("runner"), self.path("cluster.yaml"));
        let mut args = vec!["--signal=INT", seconds, env!("CARGO_BIN_EXE_daedal")];
        args.extend(command_line);
        let paths = [lab, runner, file].map(|path| path.display().to_string());
        args.extend(["--lab", "--lab-speed", "60", "--lab-dir", &paths[0], "--lab-runner", &paths[1]]);
        args.extend(["-f", &paths[2]]);
        self.exec(Path::new("timeout"), &args)
    }

    fn daedal(&self, command_line: &[&str]) -> Output {
        self.daedal_within("120", command_line)
    }

    /// Applies until it is done. Where a node's pull of etcd's image was interrupted all the same, everything is begun anew.
    fn apply(&self) -> String {
        for _ in 0..4 {
            let applied = self.daedal_within("240", &["apply", "--yes"]);
            let log = text(&self.run(&["node", "logs", "cp-1"]).stdout);
            if applied.status.success() || !log.contains("416 Requested Range Not Satisfiable") {
                return good(&applied);
            }
            println!("again: the registry could not resume an interrupted pull");
            good(&self.daedal(&["destroy", "--confirm", "real"]));
            std::thread::sleep(std::time::Duration::from_secs(5));
        }
        panic!("the registry interrupted every attempt");
    }

    /// Keeps the way in, which destroying takes away.
    fn keep_access(&self) {
        for name in ["kubeconfig", "talosconfig"] {
            std::fs::copy(self.path("lab/clusters/real/outputs").join(name), self.path(name)).unwrap();
        }
    }

    fn talosctl(&self, args: &[&str]) -> Output {
        self.exec(Path::new("talosctl"), args)
    }

    fn kubectl(&self, args: &[&str]) -> String {
        good(&self.exec(Path::new("kubectl"), args))
    }

    /// Waits for a node to be known to Kubernetes, and then to be Ready. kubectl gives up where an API server restarts, as it does
    /// for a new authority.
    fn ready(&self, node: &str) {
        let node = format!("node/{node}");
        for what in ["--for=create", "--for=condition=Ready"] {
            let mut said = String::new();
            let is = eventually(40, Duration::from_secs(3), || {
                let run = self.exec(Path::new("kubectl"), &["wait", what, &node, "--timeout=150s"]);
                said = text(&run.stderr);
                run.status.success()
            });
            assert!(is, "{said}");
        }
    }

    /// Waits for a node to say of itself that it lacks nothing: after a change its parts may still be on their way, and one that
    /// failed meanwhile is begun again after minutes only.
    fn whole(&self, node: &str) {
        let mut shown = String::new();
        let whole = eventually(360, Duration::from_secs(1), || {
            shown = good(&self.talosctl(&["-n", node, "get", "machinestatus", "-o", "yaml"]));
            shown.contains("ready: true")
        });
        assert!(whole, "{shown}");
    }

    /// What a plan says, and whether it would change anything.
    fn plan(&self) -> (String, Option<i32>) {
        let plan = self.daedal(&["plan", "--detailed-exitcode"]);
        (text(&plan.stdout), plan.status.code())
    }

    /// Runs a part of this very program where the nodes can be reached, with our own client.
    fn inside(&self, part: &str) -> String {
        let own = std::env::current_exe().unwrap();
        let name = format!("real_nodes::inside::{part}");
        let mut command = self.command();
        command.arg("exec").arg(own).args([&name, "--exact", "--ignored", "--nocapture"]);
        let run =
            command.env(inside::FOLDER, self.folder.path()).env(inside::TALOS, self.talos).output().unwrap();
        let said = good(&run);
        println!("{said}");
        assert!(said.contains("1 passed"), "{name} did not run: {said}");
        said
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        let lab = self.path("lab").display().to_string();
        let _ = self.exec(Path::new(env!("CARGO_BIN_EXE_daedal")), &["lab", "stop", "--lab-dir", &lab]);
        let _ = self.run(&["down"]);
    }
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn an_ordinary_apply_ends_on_real_nodes_of_1_12() {
    let Some(kit) = Kit::find("v1.12.0") else { return };
    story(&kit);
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn an_ordinary_apply_ends_on_real_nodes_of_1_13() {
    let Some(kit) = Kit::find("v1.13.0") else { return };
    story(&kit);
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn the_authority_of_kubernetes_changes_on_real_nodes() {
    for talos in ["v1.12.0", "v1.13.0"] {
        let Some(kit) = Kit::find(talos) else { return };
        kit.apply();
        kit.keep_access();
        kit.kubectl(&["create", "configmap", "before", "-n", "default"]);
        let file = kit.path("before.db").display().to_string();
        good(&kit.daedal(&["backup", "create", "--to", &file]));
        rotation::of_kubernetes(&kit);
        row(&kit, "rotate-ca of Kubernetes by talosctl, and the kept secrets follow", 4, 0);
        let living = kit.daedal(&["backup", "restore", &file, "--yes"]);
        assert!(text(&living.stderr).contains("its etcd lives"), "{}", text(&living.stderr));
        row(&kit, "a backup from before is this cluster's still", 1, 0);
    }
}

/// The life of a cluster, from nothing to its restore elsewhere.
fn story(kit: &Kit) {
    let row = |check: &str, cases: usize, differences: usize| row(kit, check, cases, differences);
    let said = kit.apply();
    println!("{said}");
    assert!(said.contains("4 nodes Ready"), "{said}");

    // Nothing is left to do, and everybody says so.
    let (plan, code) = kit.plan();
    assert_eq!(code, Some(0), "{plan}");
    let status: serde_json::Value =
        serde_json::from_str(&good(&kit.daedal(&["status", "-o", "json"]))).unwrap();
    assert_eq!(status["healthy"], true, "{status:#}");
    let nodes = good(&kit.exec(Path::new("kubectl"), &["get", "nodes", "--no-headers"]));
    println!("{nodes}");
    assert_eq!(nodes.lines().filter(|line| line.contains(" Ready ")).count(), 4, "{nodes}");

    // The talosconfig that was minted offline is good for the real client; all three joined and were promoted.
    let members = good(&kit.talosctl(&["-n", "10.77.0.12", "etcd", "members"]));
    println!("{members}");
    assert_eq!(members.lines().filter(|line| line.trim_end().ends_with("false")).count(), 3, "{members}");

    // A second bootstrap is refused, whoever asks; and the cluster stands.
    let again = kit.talosctl(&["-n", "10.77.0.11", "bootstrap"]);
    assert!(!again.status.success() && text(&again.stderr).contains("AlreadyExists"), "{again:?}");

    row("apply: four real nodes Ready, three members, no second bootstrap", 4, 0);
    kit.keep_access();

    // A changed inventory changes running nodes without a reboot, one after the other, and then nothing is left to do.
    let changed = kit.inventory.replace("role: worker,", "role: worker, labels: {example.org/shelf: low},");
    let machine = "  machine: {annotations: {example.org/owner: lab}}\n  pools:";
    std::fs::write(kit.path("cluster.yaml"), changed.replace("  pools:", machine)).unwrap();
    let (plan, code) = kit.plan();
    println!("{plan}");
    assert_eq!(code, Some(2), "{plan}");
    assert_eq!(plan.matches("without a reboot").count(), 4, "{plan}");
    assert!(plan.contains("machine.nodeLabels.\"example.org/shelf\": low"), "{plan}");
    good(&kit.daedal_within("240", &["apply", "--yes"]));
    let annotation = "jsonpath={.items[*].metadata.annotations.example\\.org/owner}";
    let seen = (0..30).any(|_| {
        let labelled = kit.kubectl(&["get", "nodes", "-l", "example.org/shelf=low", "-o", "name"]);
        let annotated = kit.kubectl(&["get", "nodes", "-o", annotation]);
        std::thread::sleep(std::time::Duration::from_secs(1));
        labelled.trim() == "node/worker-1" && annotated.trim() == "lab lab lab lab"
    });
    assert!(seen, "the changed config did not reach Kubernetes");
    let (plan, code) = kit.plan();
    assert_eq!(code, Some(0), "{plan}");
    row("a changed inventory, planned and applied without a reboot", 4, 0);

    // What a node runs is, but for its secrets, the config that we say it has.
    let running = good(&kit.talosctl(&[
        "-n",
        "10.77.0.21",
        "get",
        "machineconfig",
        "v1alpha1",
        "-o",
        "jsonpath={.spec}",
    ]));
    let written = std::fs::read_to_string(kit.path("lab/clusters/real/outputs/nodes/worker-1.yaml")).unwrap();
    assert_eq!(running.trim(), written.trim());

    // What talosctl shows of a real node is what is recorded, and what the lab is held to; recorded is one that lacks nothing.
    for node in ["10.77.0.11", "10.77.0.21"] {
        kit.whole(node);
    }
    let mut record = String::new();
    let mut different = 0;
    for (_, worker, how, args) in talosctl::COMMANDS {
        let node = if *worker { "10.77.0.21" } else { "10.77.0.11" };
        let run = kit.talosctl(&[&["-n", node], *args].concat());
        let shape = talosctl::shape(*how, &run, &[node]);
        record.push_str(&format!("{} => {shape}\n", talosctl::line(*worker, args)));
        let recorded = talosctl::recorded(kit.talos, *worker, args);
        if recorded != Some(shape.as_str()) {
            println!("DIFFERS: {}\n  now:      {shape}\n  recorded: {recorded:?}", args.join(" "));
            different += 1;
        }
    }
    if let Some(file) = std::env::var_os("DAEDAL_RECORD_SHAPES") {
        std::fs::write(file, &record).unwrap();
        different = 0;
    }
    row("what talosctl shows of a real node, as recorded", talosctl::COMMANDS.len(), different);

    // The commands above have changed a node by hand; that is seen, told and put right.
    let (plan, code) = kit.plan();
    assert_eq!(code, Some(2), "{plan}");
    assert!(plan.contains("machine.nodeLabels.shape") && plan.contains("without a reboot"), "{plan}");
    good(&kit.daedal_within("240", &["apply", "--yes"]));
    let (plan, code) = kit.plan();
    assert_eq!(code, Some(0), "{plan}");
    row("a config changed by hand, found and put right", 1, 0);

    // Our own client, on real nodes.
    kit.kubectl(&["create", "configmap", "before", "-n", "default"]);
    kit.inside("every_harmless_call_is_answered");
    kit.inside("quiet_logs_are_followed");
    let ours = kit.path("ours.db");
    let (file, bent) = (ours.display().to_string(), kit.path("bent.db"));
    let said = good(&kit.daedal(&["backup", "create", "--to", &file, "-o", "json"]));
    let kept: serde_json::Value = serde_json::from_str(&said).unwrap();
    let bytes = std::fs::read(&ours).unwrap();
    println!("{}", inside::described(&bytes));
    assert_eq!(kept["backup"]["size"], bytes.len(), "{kept:#}");
    assert!(
        kept["backup"]["revision"].as_i64().unwrap() > 100 && kept["backup"]["keys"].as_u64().unwrap() > 100
    );
    let refused = |file: &str, code: i32, why: &str| {
        let run = kit.daedal(&["backup", "restore", file, "--yes"]);
        assert_eq!(run.status.code(), Some(code), "{}", text(&run.stderr));
        assert!(text(&run.stderr).contains(why), "{}", text(&run.stderr));
    };
    let mut wrong = bytes;
    wrong[5_000] ^= 1;
    std::fs::write(&bent, wrong).unwrap();
    refused(&bent.display().to_string(), 65, "checksum");
    refused(&file, 1, "its etcd lives");
    row("backup create: taken, verified; a damaged one and a living cluster are refused", 3, 0);
    let shown = good(&kit.talosctl(&[
        "-n",
        "10.77.0.11",
        "etcd",
        "snapshot",
        &kit.path("theirs.db").display().to_string(),
    ]));
    let ours = inside::described(&std::fs::read(kit.path("theirs.db")).unwrap());
    assert!(shown.contains(&ours), "talosctl: {shown}\nours: {ours}");
    row("etcd snapshot: hash, revision, keys and size as talosctl tells them", 1, 0);

    rotation::of_talos(kit);
    row("rotate-ca by talosctl, and the kept secrets follow", 4, 0);

    // A node without a config is found in maintenance mode, pinned, and given its config there.
    good(&kit.run(&["node", "start", "worker-2", "22"]));
    kit.inside("maintenance_is_found_pinned_and_configured");
    kit.ready("worker-2");
    row("maintenance mode: found, pinned, configured, Ready", 1, 0);

    // A node that loses power comes back from its disk by itself, and nothing needs to be done.
    good(&kit.run(&["node", "stop", "worker-1"]));
    good(&kit.run(&["node", "start", "worker-1", "21"]));
    kit.ready("worker-1");
    row("power lost and back", 1, 0);

    // Two control planes go, one that died and one that lives; the others keep their quorum. So goes what is left of a node
    // that never was a VM of ours.
    good(&kit.run(&["node", "stop", "cp-3"]));
    good(&kit.run(&["node", "stop", "worker-2", "--wipe"]));
    let whole = std::fs::read_to_string(kit.path("cluster.yaml")).unwrap();
    std::fs::write(kit.path("cluster.yaml"), whole.replace("count: 3", "count: 1")).unwrap();
    let (plan, _) = kit.plan();
    assert!(plan.contains("daedal node remove cp-3"), "{plan}");
    let stays = kit.daedal(&["node", "remove", "cp-2", "--yes"]);
    assert_eq!(stays.status.code(), Some(1), "{}", text(&stays.stdout));
    assert!(text(&stays.stdout).contains("cp-3 does not serve etcd"), "{}", text(&stays.stdout));
    let members = |kit: &Kit| {
        let members = good(&kit.talosctl(&["-n", "10.77.0.11", "etcd", "members"]));
        members.lines().filter(|line| line.trim_end().ends_with("false")).count()
    };
    for (names, left, how) in
        [(&["cp-3", "worker-2"][..], 2, "take its member"), (&["cp-2"], 1, "let it leave etcd")]
    {
        let shown = good(&kit.daedal(&[&["node", "remove", "--plan-only"], names].concat()));
        println!("{shown}");
        assert!(shown.contains(how), "{shown}");
        let said = good(&kit.daedal_within("240", &[&["node", "remove", "--yes"], names].concat()));
        println!("{said}");
        assert_eq!(members(kit), left);
        kit.kubectl(&["get", "configmap", "before", "-n", "default"]);
    }
    let nodes = kit.kubectl(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.split_whitespace().collect::<Vec<_>>(), ["node/cp-1", "node/worker-1"], "{nodes}");
    let again = kit.daedal(&["node", "remove", "cp-2", "cp-3", "worker-2", "--yes"]);
    assert_eq!(again.status.code(), Some(66), "{}", text(&again.stdout));
    let told = text(&again.stderr);
    assert!(told.contains("there are no nodes called cp-2, cp-3, worker-2"), "{told}");
    assert!(told.contains("Declared: cp-1, worker-1"), "{told}");
    row("node remove: a dead and a living control plane, the quorum stays", 2, 0);

    good(&kit.daedal(&["destroy", "--confirm", "real"]));
    let gone =
        eventually(40, Duration::from_millis(500), || good(&kit.run(&["node", "list"])).trim().is_empty());
    assert!(gone, "left over: {}", text(&kit.run(&["node", "list"]).stdout));

    // Fresh machines that wait for their config in maintenance mode: found, known by their MAC (in containers they tell no
    // uuid), pinned, given their config, and etcd begins with the snapshot.
    let fresh = whole
        .replace("count: 3", "count: 1")
        .replace("  pools:", "  boot: {from: disk-image, config: cloud-init-drive}\n  pools:");
    std::fs::write(kit.path("cluster.yaml"), fresh).unwrap();
    let shown = good(&kit.daedal(&["backup", "restore", &file, "--plan-only"]));
    println!("{shown}");
    assert!(shown.contains("bootstrap etcd from the snapshot ours.db"), "{shown}");
    assert_eq!(shown.matches("give it its config in maintenance mode").count(), 2, "{shown}");
    let said = good(&kit.daedal_within("300", &["backup", "restore", &file, "--yes"]));
    println!("{said}");
    assert!(said.contains("2 nodes Ready"), "{said}");
    kit.kubectl(&["get", "configmap", "before", "-n", "default"]);
    assert_eq!(members(kit), 1);
    row("backup restore: a fresh cluster, through maintenance mode, with what etcd held", 2, 0);

    // What the snapshot remembers of nodes that are no more goes by name, and then all is as declared.
    let listed = good(&kit.daedal(&["node", "list"]));
    assert!(listed.contains("daedal node remove cp-2 cp-3 --"), "{listed}");
    good(&kit.daedal(&["node", "remove", "cp-2", "cp-3", "--yes"]));
    let nodes = kit.kubectl(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.split_whitespace().collect::<Vec<_>>(), ["node/cp-1", "node/worker-1"], "{nodes}");
    let (plan, code) = kit.plan();
    assert_eq!(code, Some(0), "{plan}");
    row("memories of nodes that are no more, removed", 2, 0);
}

/// Asks again and again, so many times, until it is so; whether it became so.
fn eventually(times: usize, pause: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    (0..times).any(|time| {
        if time > 0 {
            std::thread::sleep(pause);
        }
        is_so()
    })
}

/// A row of the table.
fn row(kit: &Kit, check: &str, cases: usize, differences: usize) {
    println!("\nconformance\tnodes {}: {check}\t{cases}\t{differences}", &kit.talos[..5]);
    assert_eq!(differences, 0, "{check}");
}
