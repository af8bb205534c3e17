//! The cluster of templates and ranges.
//!
//! Mission gap: M1 — no test installs the cloud-controller-manager, together or apart.
//! Mission gap: M9 — no test installs the cloud-controller-manager itself.
//! Mission gap: M18 — the operator of Flux is installed, Flux itself is not.
//! Mission gap: M21 — running nodes are not upgraded to a new image or template.

use serde_json::json;

use super::{Step, Walk, behind};
use crate::common::{self, good, text};

const STEPS: [Step; 21] = [
    ("M1", apart),
    ("M10", ranges),
    ("M12", counts),
    ("M3", addresses),
    ("M2", sizes_of_roles),
    ("M4", resolvers_and_vip),
    ("M5", version_of_a_template),
    ("M6", cloud_init),
    ("M7", clones),
    ("M8", order),
    ("M11", datastores),
    ("M13", dhcp),
    ("M14", secrecy),
    ("M15", protection),
    ("M16", groups),
    ("M17", hosts),
    ("M19", overrides),
    ("M9", controller_account),
    ("M20", commands),
    ("M21", scaling),
    ("M22", recovery),
];

#[test]
fn the_cluster_of_modules() {
    let walk = Walk::new("modules/cluster.yaml", &[], &[]);
    walk.through(&STEPS);
    debts(&walk);
}

/// Mission: M1
fn apart(walk: &Walk) {
    let edits = [
        ("  name: modules", "  name: apart"),
        ("controlplane: 998, worker: 999", "controlplane: 898, worker: 899"),
        ("vip: +5 ", "vip: +55 "),
        ("count: 3 ", "count: 1 "),
        ("count: 4 ", "count: 0 "),
        ("vmid: 2000-2999", "vmid: 4000-4099"),
        ("address: +10 ", "address: +60 "),
    ];
    let apart = walk.beside("apart", &edits);
    walk.by_phases(&apart);
    good(&walk.run_on(&["destroy", "--confirm", "apart"], &apart));
}

/// Mission: M10
fn ranges(walk: &Walk) {
    walk.refused(&["check"], &[("vmid: 2000-2999", "vmid: 2000-2001")], 65, &["2000"]);
    walk.refused(
        &["check"],
        &[("vmid: 3000-3999", "vmid: 2000-2999")],
        65,
        &["Move one of them to free VMIDs."],
    );
}

/// Mission: M12
fn counts(walk: &Walk) {
    walk.refused(&["check"], &[("count: 3 ", "count: 2 ")], 65, &["odd"]);
    for (control_planes, workers) in [("1", "0"), ("5", "9")] {
        let edits =
            [("count: 3 ", format!("count: {control_planes} ")), ("count: 4 ", format!("count: {workers} "))];
        let edits: Vec<_> = edits.iter().map(|(from, to)| (*from, to.as_str())).collect();
        good(&walk.run_on(&["check"], &walk.variant("counts", &edits)));
    }
}

/// Mission: M3
fn addresses(walk: &Walk) {
    let wanted =
        ["10.20.0.10", "10.20.0.11", "10.20.0.12", "10.20.0.20", "10.20.0.21", "10.20.0.22", "10.20.0.23"];
    assert_eq!(walk.column("address"), wanted);
    assert_eq!(walk.column("vmid"), ["2000", "2001", "2002", "3000", "3001", "3002", "3003"]);
}

/// Mission: M2
fn sizes_of_roles(walk: &Walk) {
    walk.applied();
    let list = walk.say(&["templates", "list"]);
    for (vmid, role) in [("998", "control plane"), ("999", "worker")] {
        let row = list.lines().find(|line| line.starts_with(vmid)).unwrap_or_else(|| panic!("{list}"));
        assert!(row.contains("pve1") && row.contains(role), "{row}");
    }
    for (node, cores, memory, disk) in [("cp-1", 4, 4_u64, 20_u64), ("worker-1", 8, 8, 50)] {
        let vm = walk.vm(node);
        assert_eq!((&vm["cores"], &vm["memory"]), (&json!(cores), &json!(memory << 30)), "{vm:#}");
        assert_eq!(vm["disks"]["scsi0"]["size"], json!(disk << 30), "{vm:#}");
        assert_eq!(vm["nics"]["net0"]["model"], "virtio");
        let extensions = walk.node(node)["talos"]["seen"]["extensions"].to_string();
        assert!(extensions.contains("qemu-guest-agent"), "{extensions}");
    }
}

/// Mission: M4
fn resolvers_and_vip(walk: &Walk) {
    assert_eq!(walk.json(&["status"])["endpoint"], "https://10.20.0.5:6443");
    let config = walk.output("cp-1.yaml");
    for resolver in ["9.9.9.9", "149.112.112.112", "1.1.1.1"] {
        assert!(config.contains(resolver), "{config}");
    }
    let without = walk.variant("no-vip", &[("    vip: +5 ", "    # no vip: +5 ")]);
    let show = ["inventory", "show", "--resolved", "-f", without.to_str().unwrap()];
    assert!(good(&common::daedal(show)).contains("endpointHost: 10.20.0.10"));
}

/// Mission: M5
fn version_of_a_template(walk: &Walk) {
    let list = walk.json(&["templates", "list"]);
    for template in list["templates"].as_array().unwrap() {
        let name = template["name"].as_str().unwrap();
        assert!(name.starts_with("talos-v1-12-0-") && template["current"] == true, "{template:#}");
    }
    let steps = walk.applied()["steps"].to_string();
    assert!(
        steps.contains("registering the schematic") && steps.contains("downloading the image"),
        "{steps}"
    );
}

/// Mission: M6
fn cloud_init(walk: &Walk) {
    let node = walk.node("worker-1");
    assert_eq!(node["talos"]["seen"]["platform"], "nocloud/amd64");
    assert_eq!(node["proxmox"]["seen"]["media"], json!(["local-lvm:vm-3000-cloudinit"]));
}

/// Mission: M7
fn clones(walk: &Walk) {
    let steps = walk.applied()["steps"].as_array().unwrap();
    let cloned = steps.iter().filter(|step| step["stage"] == "cloning the VM").count();
    assert_eq!(cloned, 7, "{steps:#?}");
}

/// Mission: M8
fn order(walk: &Walk) {
    let bootstrapped = walk.time(Some("cp-1"), "bootstrapping etcd", "end");
    for other in ["cp-2", "cp-3"] {
        assert!(walk.time(Some(other), "joining etcd", "end") >= bootstrapped, "{other}");
    }
    assert_eq!(walk.column("etcd")[..3], ["member", "member", "member"]);
}

/// Mission: M11
fn datastores(walk: &Walk) {
    let vm = walk.vm("cp-1");
    assert!(vm["disks"]["scsi0"]["volume"].as_str().unwrap().starts_with("local-zfs:"), "{vm:#}");
    assert!(vm["media"][0].as_str().unwrap().starts_with("local-lvm:"), "{vm:#}");
    let files = walk.served.files("https://10.20.0.2:8006", "templates", "images");
    assert!(files.iter().any(|volume| volume.contains("998")), "{files:?}");
    let images = walk.served.files("https://10.20.0.2:8006", "local", "import");
    assert!(
        images.iter().all(|volume| volume.contains("talos-v1.12.0-")) && !images.is_empty(),
        "{images:?}"
    );
}

/// Mission: M13
fn dhcp(walk: &Walk) {
    let asking = [
        (
            "    from: template\n    config: cloud-init-drive ",
            "    from: disk-image\n    config: maintenance ",
        ),
        (
            "    template: {controlplane: 998, worker: 999, clone: full}   # 996 and 997 on the second host\n",
            "",
        ),
        (", templates: templates, cloudInit: local-lvm}", "}"),
        ("    macPrefix:", "    dhcp: true\n    macPrefix:"),
        ("name: modules", "name: asking"),
        ("vip: +5 ", "vip: +6 "),
        ("count: 3 ", "count: 1 "),
        ("count: 4 ", "count: 0 "),
        ("2000-2999", "2100-2199"),
        ("3000-3999", "3100-3199"),
        ("address: +10 ", "address: +40 "),
        ("address: +20 ", "address: +50 "),
    ];
    let file = walk.beside("asking", &asking);
    good(&walk.run_on(&["apply", "--yes"], &file));
    let config = good(&walk.run_on(&["outputs", "cp-1.yaml"], &file));
    assert!(config.contains("kind: DHCPv4Config") && !config.contains("10.20.0.40/24"), "{config}");
    good(&walk.run_on(&["destroy", "--confirm", "asking"], &file));
}

/// Mission: M14
fn secrecy(walk: &Walk) {
    let bundle = walk.say(&["secrets", "export", "--stdout"]);
    let canary = behind(&bundle, "token:").to_owned();
    for words in [&["secrets", "show"][..], &["plan"], &["status"], &["outputs"], &["node", "show", "cp-1"]] {
        assert!(!walk.say(words).contains(&canary), "{words:?}");
    }
    let store = walk.folder.path().join(".daedal/modules/modules");
    for entry in std::fs::read_dir(store).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file())
    {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(!text(&bytes).contains(&canary), "{}", entry.path().display());
    }
}

/// Mission: M15
fn protection(walk: &Walk) {
    let guarded = [("  environment: staging", "  environment: staging\n  protect: true")];
    walk.refused(&["destroy", "--confirm", "modules"], &guarded, 1, &["is protected"]);
    let newer = walk.variant("newer", &[("version: v1.12.0", "version: v1.12.1")]);
    let said = good(&walk.run_on(&["templates", "prune", "--plan-only"], &newer));
    assert!(
        said.contains("template 998 on pve1  it is made of something else than is declared now"),
        "{said}"
    );
    // One more node is a clone of the new version: the template on its host is replaced first.
    let more = [("version: v1.12.0", "version: v1.12.1"), ("count: 4 ", "count: 5 ")];
    let said = good(&walk.run_on(&["plan"], &walk.variant("more", &more)));
    assert!(said.contains("Replaces template"), "{said}");
}

/// Mission: M16
fn groups(walk: &Walk) {
    let (cp, worker) = (walk.vm("cp-1"), walk.vm("worker-1"));
    assert_eq!(cp["tags"], json!(["daedal", "daedal-modules", "staging", "team-a"]));
    assert_eq!(worker["tags"], json!(["daedal", "daedal-modules", "staging", "team-a", "workload"]));
    assert_eq!((&cp["host"], &cp["nics"]["net0"]["bridge"]), (&json!("pve1"), &json!("vmbr0")));
    assert!(cp["nics"]["net0"]["mac"].as_str().unwrap().starts_with("BC:24:11"), "{cp:#}");
}

/// Mission: M17
fn hosts(walk: &Walk) {
    let hosts = walk.column("host");
    let on = |host: &str| hosts.iter().filter(|one| *one == host).count();
    assert_eq!((on("pve1") + on("pve2"), on("pve1").abs_diff(on("pve2")) <= 1), (7, true), "{hosts:?}");
}

/// Mission: M19
fn overrides(walk: &Walk) {
    let edits = [
        ("  network:\n", "  machine: {sysctls: {vm.max_map_count: \"262144\"}}\n  network:\n"),
        ("extensions: [qemu-guest-agent]", "extensions: [qemu-guest-agent, iscsi-tools]"),
    ];
    let plan = good(&walk.run_on(&["plan", "--full"], &walk.variant("overrides", &edits)));
    assert!(
        plan.contains("vm.max_map_count") && plan.contains("schematic (extensions, kernel arguments) is"),
        "{plan}"
    );
    let patch =
        "  patches: [{role: worker, inline: \"machine: {kubelet: {extraArgs: {v: '4'}}}\"}]\n  network:\n";
    let plan = good(&walk.run_on(&["plan", "--full"], &walk.variant("patched", &[("  network:\n", patch)])));
    assert!(plan.contains("+ machine.kubelet.extraArgs.v: 4"), "{plan}");
}

/// Mission: M9
fn controller_account(walk: &Walk) {
    let ccm = walk.folder.path().join("cluster.yaml");
    let mut setup = walk.command(&["proxmox", "ccm", "--yes"], &ccm);
    let said = good(&setup.env("PROXMOX_ADMIN_SECRET", walk.served.token()).output().unwrap());
    assert!(said.contains("create role DaedalCCM with VM.Audit\n"), "{said}");
    let config = walk.say(&["outputs", "ccm.yaml"]);
    assert!(config.contains("modules-ccm@pve!ccm"), "{config}");
}

/// Mission: M20
fn commands(walk: &Walk) {
    assert!(walk.say(&["plan"]).contains("No changes: cluster modules is as declared"));
    assert_eq!(walk.json(&["apply", "--yes"])["changed"], false);
    assert!(walk.say(&["outputs", "talosconfig"]).contains("context: modules"));
    assert_eq!(walk.json(&["status"])["healthy"], true);
}

/// Mission: M21
fn scaling(walk: &Walk) {
    let five = walk.variant("five", &[("count: 4 ", "count: 5 ")]);
    let said = good(&walk.run_on(&["apply", "--yes"], &five));
    assert!(said.contains("8 nodes Ready"), "{said}");
    let plan = walk.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(2), "{}", text(&plan.stdout));
    let said = walk.say(&["node", "remove", "worker-5", "--yes"]);
    assert!(said.contains("worker-5 is gone"), "{said}");
    walk.say(&["apply", "--yes"]);
    walk.as_declared();
}

/// Mission: M22
fn recovery(walk: &Walk) {
    let folder = tempfile::tempdir().unwrap();
    let (bundle, file) = (folder.path().join("bundle.yaml"), folder.path().join("cluster.yaml"));
    std::fs::write(&bundle, walk.say(&["secrets", "export", "--stdout"])).unwrap();
    std::fs::write(&file, &walk.text).unwrap();
    // Another machine without the store: nothing is guessed. With the bundle, it is the same cluster.
    let lost = walk.run_on(&["apply", "--yes"], &file);
    assert_eq!(lost.status.code(), Some(1), "{}", text(&lost.stdout));
    assert!(text(&lost.stderr).contains("secrets"), "{}", text(&lost.stderr));
    good(&walk.run_on(&["secrets", "import", bundle.to_str().unwrap()], &file));
    let status = good(&walk.run_on(&["status", "-o", "json"], &file));
    assert!(status.contains("\"healthy\": true"), "{status}");
}

/// Mission: M23
fn debts(walk: &Walk) {
    let config = walk.output("worker-1.yaml");
    let mac = walk.vm("worker-1")["nics"]["net0"]["mac"].as_str().unwrap().to_lowercase();
    assert!(config.to_lowercase().contains(&mac), "{config}");
    assert!(!config.contains("eth0") && !config.contains("ens18"), "{config}");
    good(&walk.run_on(
        &["check"],
        &walk.variant("arm", &[("    version: v1.12.0\n", "    version: v1.12.0\n    arch: arm64\n")]),
    ));
}
