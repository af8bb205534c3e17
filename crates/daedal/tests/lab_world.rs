//! The lab's world: made from the inventory at its first use, and from then on as strict as a real datacenter.

use crate::common;

use common::{Changed, Lab, SMALL, command, good, text};

/// What the world does not know is refused as Proxmox would refuse it, until somebody adds it.
#[test]
fn what_the_world_does_not_know_is_refused() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["check", "--live"]));
    for (change, said) in [
        (("disks: local-lvm ", "disks: fast "), "storage fast on atlas"),
        (("bridge: vmbr0", "bridge: vmbr7"), "bridge vmbr7 on atlas"),
        (("hosts: [atlas] ", "hosts: [atlas, boreas] "), "host boreas"),
        (("daedal@pve!cli", "daedal@pve!other"), "Authentication failed"),
    ] {
        let other = Changed::new("home", &[SMALL, &[change]].concat());
        let run = other.run(&lab, &["check", "--live"]);
        let all = text(&run.stdout) + &text(&run.stderr);
        assert!(!run.status.success() && all.contains(said), "{change:?}: {all}");
        let file = other.file();
        let extend = ["lab", "extend", "--lab-dir"];
        good(&command(extend).arg(lab.dir()).arg("-f").arg(&file).output().unwrap());
        good(&other.run(&lab, &["check", "--live"]));
    }
}

/// The disk under the lab is full: the run says so, and so does the next; nothing pretends to be kept.
#[test]
fn a_full_disk_under_the_lab_is_told() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["plan"]));
    // What is written there fails, as on a full disk.
    let full = lab.dir().join("world.new");
    std::fs::create_dir(&full).unwrap();
    let run = home.run(&lab, &["apply", "--yes"]);
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(73), "{said}");
    for part in ["the lab cannot keep its world", "world.json", "Is a directory", "Free some space"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let run = home.run(&lab, &["plan"]);
    let said = text(&run.stderr);
    assert!(run.status.code() == Some(73) && said.contains("Nothing was done"), "{said}");
    let run = command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap();
    assert!(text(&run.stderr).contains("It still runs"), "{}", text(&run.stderr));
    std::fs::remove_dir(&full).unwrap();
    // It was not lost meanwhile.
    good(&home.run(&lab, &["apply", "--yes"]));
    let run = home.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stdout));
}
