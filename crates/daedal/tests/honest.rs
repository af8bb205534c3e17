//! What the commands say is true, also when not all went well.

use crate::common;

use common::{Changed, Lab, SMALL, good, text};

/// One more worker than in [`SMALL`], and other VMIDs for them: worker-1 is found, but neither apply nor destroy touches it.
const MOVED: &[(&str, &str)] = &[("count: 3 ", "count: 1 "), ("vmid: 303", "vmid: 313")];

#[test]
fn a_cluster_is_called_gone_only_when_it_is() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    let moved = Changed::new("home", MOVED);

    // Programs are told what was done, and why that is not all.
    let apply = moved.run(&lab, &["apply", "--yes", "-o", "json"]);
    assert_eq!(apply.status.code(), Some(1), "{}", text(&apply.stderr));
    let json: serde_json::Value = serde_json::from_slice(&apply.stdout).unwrap();
    assert!(!json["steps"].as_array().unwrap().is_empty() && json["changed"] == true, "{json}");
    let notes = json["notes"].as_array().unwrap();
    let why = |note: &&serde_json::Value| note["level"] == "problem" && note["about"] == "worker-1";
    let note = notes.iter().find(why).unwrap();
    // The advice names the number that leads back; taken, it does.
    assert_eq!(note["fix"], "set `vmid: 303` for worker-1 in the inventory", "{notes:?}");
    assert_eq!(
        (&note["code"], &note["data"]["guest"]["vmid"]),
        (&"other-vmid".into(), &303.into()),
        "{note}"
    );
    let one_by_one = ("count: 2\n", "nodes: [{vmid: 303}, {vmid: 314}]\n");
    let advised = Changed::new("home", &[MOVED, &[one_by_one]].concat());
    let plan = advised.run(&lab, &["plan"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));

    let destroy = moved.run(&lab, &["destroy", "--confirm", "home"]);
    assert_eq!(destroy.status.code(), Some(1), "{}", text(&destroy.stderr));
    let said = text(&destroy.stdout);
    assert!(said.contains("Cluster home is not gone. Left") && !said.contains("is gone,"), "{said}");
    assert!(
        said.contains("\n  image local:import/talos-") && said.contains("\n  its secrets in the store\n"),
        "{said}"
    );

    // From another machine without the secrets, none are promised.
    let empty = lab.dir().with_file_name("empty").display().to_string();
    let said =
        good(&small.run(&lab, &["destroy", "--confirm", "home", "--state", &empty, "--without-secrets=1"]));
    assert!(
        said.contains("Cluster home is gone, ") && said.contains("\n  image local:import/talos-"),
        "{said}"
    );
    assert!(!said.contains("its secrets"), "{said}");
}

#[test]
fn a_timeline_that_cannot_be_written_hides_nothing() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    // Nothing is begun when the picture has nowhere to go.
    let nowhere = lab.dir().join("no/such/folder/timeline.svg").display().to_string();
    let run = small.run(&lab, &["apply", "--yes", "--timeline", &nowhere]);
    assert_eq!(run.status.code(), Some(73), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("cannot write the timeline"), "{}", text(&run.stderr));
    let status = good(&small.run(&lab, &["status"]));
    assert_eq!(status.matches("absent").count(), 2, "{status}");
    // A disk that fills up while the run goes on.
    if std::path::Path::new("/dev/full").exists() {
        let run = small.run(&lab, &["apply", "--yes", "--timeline", "/dev/full"]);
        assert_eq!(run.status.code(), Some(73), "{}", text(&run.stderr));
        assert!(text(&run.stdout).contains("Cluster home is up"), "{}", text(&run.stdout));
    }
}

/// A VM joins its pool when its create ends. One whose worker died is invisible to a token with rights on the pool only: it is told
/// all the same, with the command that frees it, and the cluster is not called gone.
#[test]
fn a_dead_create_that_the_token_may_not_see_is_told() {
    let lab = Lab::new();
    let pooled = [SMALL, &[("    bridge: vmbr0\n", "    bridge: vmbr0\n    pool: talos\n")]].concat();
    dead_task_is_told(&lab, &Changed::new("home", &pooled), "create", "303");
}

/// The same of a clone, whose task names the template only.
#[test]
fn a_dead_clone_that_the_token_may_not_see_is_told() {
    let lab = Lab::new();
    let cloned = ("  network:\n", "  boot: {from: template, config: cidata}\n\n  network:\n");
    let pooled = ("    bridge: vmbr0\n", "    bridge: vmbr0\n    pool: talos\n");
    dead_task_is_told(&lab, &Changed::new("home", &[SMALL, &[cloned, pooled]].concat()), "clone", "999");
}

/// The worker of a task on `id` died, and left VM 303 with this lock.
fn dead_task_is_told(lab: &Lab, small: &Changed, lock: &str, id: &str) {
    good(&small.run(lab, &["plan"]));
    lab.tamper(|world| {
        let datacenter = &mut world["datacenter"];
        let config = serde_json::json!({"lock": lock});
        datacenter["vms"]["303"] = serde_json::json!({"host": "atlas", "config": config, "pending": {}, "running": null});
        let task = serde_json::json!({
            "upid": format!("UPID:atlas:000007DC:00028310:6AF9FCAF:qm{lock}:{id}:daedal@pve!cli:"), "host": "atlas",
            "pid": 2012, "pstart": 164_624, "start": 1_794_768_047, "kind": format!("qm{lock}"), "id": id,
            "who": {"user": "daedal@pve", "token": "cli"}, "log": [], "end": [1_794_768_048, "unexpected status"],
        });
        datacenter["tasks"].as_array_mut().unwrap().push(task);
    });
    let freeing = "qm unlock 303 && qm destroy 303 --purge --destroy-unreferenced-disks 1";
    // However wide the terminal is.
    let plain = |run: &std::process::Output| {
        let said = text(&run.stdout) + &text(&run.stderr);
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let apply = small.run(lab, &["apply", "--yes"]);
    let said = plain(&apply);
    assert_eq!(apply.status.code(), Some(1), "{said}");
    assert!(said.contains("the token may not see the VM") && said.contains(freeing), "{said}");
    assert!(said.contains(&format!("`lock: {lock}`: qm unlock")), "{said}");
    let status = text(&small.run(lab, &["status"]).stdout);
    assert!(status.contains(&format!("stuck in lock: {lock}")), "{status}");
    let page = plain(&small.run(lab, &["node", "show", "worker-1"]));
    assert!(page.contains("died half-way") && page.contains(freeing), "{page}");
    let destroy = small.run(lab, &["destroy", "--confirm", "home"]);
    let said = plain(&destroy);
    assert_eq!(destroy.status.code(), Some(1), "{said}");
    assert!(
        said.contains("Cluster home is not gone. Left") && !said.contains("Cluster home is gone"),
        "{said}"
    );
    assert!(said.contains(freeing), "{said}");
    // Freed, it is gone, although its task is remembered.
    lab.tamper(|world| drop(world["datacenter"]["vms"].as_object_mut().unwrap().remove("303")));
    let said = good(&small.run(lab, &["destroy", "--confirm", "home"]));
    assert!(said.contains("nothing of cluster home is left to destroy"), "{said}");
}

/// What a problem blocks is not built around silently: the plan says what apply leaves out, and so do the exit codes.
#[test]
fn a_blocked_node_is_told_before_the_summary_and_by_the_exit_code() {
    let lab = Lab::new();
    let home = Changed::new("home", &[]);
    let plain =
        |run: &std::process::Output| text(&run.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    good(&home.run(&lab, &["plan"]));
    let stranger = |vmid: &str| {
        lab.tamper(|world| {
            let config = serde_json::json!({"name": "nas"});
            world["datacenter"]["vms"][vmid] =
                serde_json::json!({"host": "atlas", "config": config, "pending": {}, "running": null});
        });
    };
    stranger("301");
    let leaves_out = "apply leaves out cp-2 (see Problems). The cluster gets 2 of 3 control planes.";
    let plan = home.run(&lab, &["plan"]);
    let said = plain(&plan);
    assert_eq!(plan.status.code(), Some(1), "{said}");
    let end = format!("{leaves_out} 4 to create, 0 to change, 0 to destroy, 1 blocked.");
    assert!(said.ends_with(&end), "{said}");
    // Scripts that ask for it learn that there is something to do.
    let plan = home.run(&lab, &["plan", "--detailed-exitcode", "-o", "json"]);
    assert_eq!(plan.status.code(), Some(2), "{}", text(&plan.stderr));
    let json: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
    let counts = serde_json::json!({"create": 4, "change": 0, "destroy": 0, "restart": 0, "blocked": 1});
    assert_eq!(json["counts"]["vms"], counts, "{}", json["counts"]);

    // Apply says it, too, and is no success. Then nothing else is to be done, and it still is none.
    stranger("303");
    let small = Changed::new("home", SMALL);
    let leaves_out = "apply leaves out worker-1 (see Problems). The cluster gets 0 of 1 worker.";
    let apply = small.run(&lab, &["apply", "--yes"]);
    let said = plain(&apply);
    assert_eq!(apply.status.code(), Some(1), "{said}");
    assert!(said.contains(leaves_out) && said.contains("Cluster home is incomplete"), "{said}");
    for command in [&["plan"][..], &["plan", "--detailed-exitcode"], &["apply", "--yes"]] {
        let run = small.run(&lab, command);
        let said = plain(&run);
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{leaves_out} No changes: nothing can be done")), "{said}");
    }
}

/// One is not many.
#[test]
fn one_extension_is_told_as_one() {
    let lab = Lab::new();
    let one = Changed::new("home", &[SMALL, &[("      - tailscale\n", "")]].concat());
    let said = good(&one.run(&lab, &["check", "--live"]));
    assert!(
        said.contains("Talos v1.12.0 and the declared extension") && !said.contains("1 extensions"),
        "{said}"
    );
}

/// A missing file is told as that, and not as a lack of room.
#[test]
fn a_missing_iso_is_no_lack_of_room() {
    let lab = Lab::new();
    good(&Changed::new("home", SMALL).run(&lab, &["plan"]));
    let boot = ("  network:\n", "  boot: {from: iso, iso: \"local:iso/talos.iso\"}\n\n  network:\n");
    let own = Changed::new("home", &[SMALL, &[boot]].concat());
    let plain = |bytes: &[u8]| text(bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    let missing = "the boot ISO talos.iso is missing on storage local (`boot.iso: local:iso/talos.iso`)";
    let plan = own.run(&lab, &["plan"]);
    let said = plain(&plan.stderr);
    assert_eq!(plan.status.code(), Some(1), "{said}");
    assert!(said.contains("error: no host can take the new nodes"), "{said}");
    assert!(said.contains(&format!("atlas cannot be used: {missing}")), "{said}");
    assert!(said.contains("fix: copy the file to storage local of atlas"), "{said}");
    let check = own.run(&lab, &["check", "--live"]);
    let said = plain(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert!(
        said.contains(missing) && said.contains("no host can take the new nodes: cp-1, worker-1"),
        "{said}"
    );
    assert!(!said.contains("capacity") && !said.contains("does not fit"), "{said}");
}

/// A volume that Proxmox CSI attached is somebody else's: no difference, no advice, and it outlives the VM.
#[test]
fn a_volume_of_another_owner_is_not_ours_to_compare() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    lab.tamper(|world| {
        let datacenter = &mut world["datacenter"];
        let volumes = datacenter["stores"]["atlas/local-lvm"]["volumes"].as_object_mut().unwrap();
        let mut claim = volumes["vm-303-disk-0"].clone();
        claim["vmid"] = 9999.into();
        volumes.insert("vm-9999-pvc-1b2c".to_owned(), claim);
        let drive = "local-lvm:vm-9999-pvc-1b2c,backup=0,iothread=1,size=5G";
        datacenter["vms"]["303"]["config"]["scsi1"] = drive.into();
    });
    let plan = small.run(&lab, &["plan", "--detailed-exitcode"]);
    let said = text(&plan.stdout);
    assert_eq!(plan.status.code(), Some(0), "{said}");
    assert!(!said.contains("scsi1") && !said.contains("qm destroy"), "{said}");
    // A disk of our own takes the next slot.
    let more =
        [SMALL, &[("  network:\n    cidr", "  hardware: {disks: [{size: 10GiB}]}\n\n  network:\n    cidr")]]
            .concat();
    let more = Changed::new("home", &more);
    let said = good(&more.run(&lab, &["apply", "--yes"]));
    assert!(!said.contains("scsi1: 5 GiB"), "{said}");
    lab.tamper(|world| {
        let config = &world["datacenter"]["vms"]["303"]["config"];
        assert!(config["scsi1"].as_str().unwrap().contains("size=5G"), "{config}");
        assert!(config["scsi2"].as_str().unwrap().contains("serial=daedal-disk-1"), "{config}");
    });
    good(&more.run(&lab, &["destroy", "--confirm", "home"]));
    lab.tamper(|world| {
        let volumes = &world["datacenter"]["stores"]["atlas/local-lvm"]["volumes"];
        assert!(volumes["vm-9999-pvc-1b2c"].is_object(), "{volumes}");
        assert!(volumes["vm-303-disk-0"].is_null(), "{volumes}");
    });
}

/// The lab answers where the endpoint says.
#[test]
fn a_lab_listens_on_the_port_of_the_endpoint() {
    let lab = Lab::new();
    let elsewhere = Changed::new("home", &[("https://atlas.lan:8006", "https://atlas.lan:8443")]);
    assert!(good(&elsewhere.run(&lab, &["plan"])).contains("5 to create"));
}

/// A node that was off while its config changed is started and gets the config in the same run.
#[test]
fn a_stopped_node_gets_its_changed_config_in_the_run_that_starts_it() {
    let lab = Lab::new();
    good(&Changed::new("home", SMALL).run(&lab, &["apply", "--yes"]));
    lab.tamper(|world| {
        for vmid in ["300", "303"] {
            world["datacenter"]["vms"][vmid]["running"] = serde_json::Value::Null;
        }
    });
    let labelled = ("      role: worker\n", "      role: worker\n      labels: {tier: gold}\n");
    let changed = Changed::new("home", &[SMALL, &[labelled]].concat());
    let said = good(&changed.run(&lab, &["plan"]));
    assert!(said.contains("in the same run"), "{said}");
    // It was not Kubernetes that forgot them.
    assert_eq!(said.matches("wait until it is Ready            it starts in this plan").count(), 2, "{said}");
    assert!(!said.contains("Kubernetes does not know it"), "{said}");
    let said = good(&changed.run(&lab, &["apply", "--yes"]));
    assert!(said.contains("tier"), "{said}");
    let plan = changed.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
}

/// What `proxmox ha` and `proxmox backup-job` put there and no destroy takes away is named, with the command that does.
#[test]
fn guards_that_outlive_a_cluster_are_named_with_what_removes_them() {
    let lab = Lab::new();
    let hosts = [("hosts: [atlas] ", "hosts: [atlas, boreas, chronos] "), ("count: 2\n", "count: 1\n")];
    let cluster = Changed::new("home", &hosts);
    good(&cluster.run(&lab, &["apply", "--yes"]));
    // As `proxmox setup --with ha --with backup` allows it.
    lab.tamper(|world| {
        let role = &mut world["datacenter"]["access"]["roles"]["Lab-daedal-pve-cli"];
        *role = serde_json::json!(["Sys.Audit", "Sys.Console", "Sys.Modify"]);
    });
    good(&cluster.run(&lab, &["proxmox", "ha", "--yes"]));
    good(&cluster.run(&lab, &["proxmox", "backup-job", "--storage", "local", "--yes"]));
    // Somebody had the job back up a VM of theirs, too: it outlives ours.
    lab.tamper(|world| {
        let job = &mut world["datacenter"]["objects"]["kept"]["backup"]["daedal-home"]["vmid"];
        *job = format!("{},120", job.as_str().unwrap()).into();
    });
    let said = good(&cluster.run(&lab, &["destroy", "--confirm", "home"]));
    assert!(said.contains("Cluster home is gone, "), "{said}");
    let to = format!("--lab --lab-dir {}", lab.dir().display());
    for line in [
        format!(
            "\n  HA rule daedal-home-apart; to remove: {} proxmox ha --off {to}",
            env!("CARGO_BIN_EXE_daedal")
        ),
        format!(
            "\n  backup job daedal-home; to remove: {} proxmox backup-job --off {to}",
            env!("CARGO_BIN_EXE_daedal")
        ),
    ] {
        assert!(said.contains(&line), "{line} in {said}");
    }
    assert!(!said.contains("HA resource"), "they went with their VMs: {said}");
    // What is advised leads to the end of it.
    for off in [["ha", "--off"], ["backup-job", "--off"]] {
        good(&cluster.run(&lab, &[&["proxmox"][..], &off, &["--yes"]].concat()));
    }
    let again = cluster.json(&lab, &["destroy", "--confirm", "home"]);
    assert_eq!(again["stays"]["guards"], serde_json::json!([]), "{again:#}");
}

/// A pool that is nearly full, or gone, under nodes that live: `status` warns, with what to do.
#[test]
fn status_warns_of_storages_that_fail_under_the_nodes() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    let warnings = || {
        let status = text(&small.run(&lab, &["status"]).stdout);
        let lines = status.lines().skip_while(|line| !line.starts_with("Warning: ")).map(str::to_owned);
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(warnings(), "");
    lab.tamper(|world| {
        let pool = &mut world["datacenter"]["stores"]["atlas/local-lvm"];
        pool["others"] = (pool["total"].as_u64().unwrap() - (8 << 30)).into();
    });
    let said = warnings();
    assert!(said.contains("Warning: storage local-lvm on atlas: It is nearly full"), "{said}");
    lab.tamper(|world| {
        let pool = &mut world["datacenter"]["stores"]["atlas/local-lvm"];
        pool["others"] = 0.into();
        pool["lost"] = 1.into();
    });
    let said = warnings();
    assert!(said.contains("Warning: storage local-lvm on atlas: ") && said.contains("not active"), "{said}");
    assert!(said.contains("vgs"), "what to do: {said}");
    lab.tamper(|world| {
        world["datacenter"]["stores"]["atlas/local-lvm"]["lost"] = serde_json::Value::Null;
    });
    assert_eq!(warnings(), "");
}
