//! Templates and volumes through the command line: listed, pruned when they are old or left over, and never unasked.

use crate::common;

use common::{Changed, Lab, SMALL, good, text};

const CLONES: (&str, &str) = ("  network:\n", "  boot: {from: template, config: cidata}\n\n  network:\n");

/// On ZFS a template stays while its linked clones do; on a thin pool it need not.
const ON_ZFS: (&str, &str) = ("disks: local-lvm ", "disks: tank ");

/// What is old can be seen and goes when somebody says so.
/// Mission: M15
#[test]
fn templates_are_listed_and_go_when_somebody_says_so() {
    let lab = Lab::new();
    let before = Changed::new("home", &[SMALL, &[CLONES, ON_ZFS]].concat());
    let said = good(&before.run(&lab, &["templates", "list"]));
    assert_eq!(said.trim(), "There are no templates of this cluster.");
    good(&before.run(&lab, &["apply", "--yes"]));

    let said = good(&before.run(&lab, &["templates", "list"]));
    for (vmid, role, node) in [("998", "control plane", "cp-1"), ("999", "worker", "worker-1")] {
        let row = said.lines().find(|line| line.starts_with(vmid)).unwrap();
        for word in ["atlas", role, "current", node, "v1-12-0"] {
            assert!(row.contains(word), "{word} in {row}");
        }
    }
    let said = good(&before.run(&lab, &["templates", "prune"]));
    assert_eq!(said.trim(), "No changes: no template of cluster home is to be destroyed.");

    // Another version: both are old, and stay under their clones, whoever asks.
    let newer = ("version: v1.12.0", "version: v1.12.1");
    let after = Changed::new("home", &[SMALL, &[CLONES, ON_ZFS, newer]].concat());
    let rows = after.json(&lab, &["templates", "list"]);
    assert_eq!(rows["blind"], serde_json::json!([]), "{rows:#}");
    let told: Vec<_> =
        rows["templates"].as_array().unwrap().iter().map(|row| (&row["vmid"], &row["current"])).collect();
    assert_eq!(told, [(&998.into(), &false.into()), (&999.into(), &false.into())]);
    let said = good(&after.run(&lab, &["templates", "prune", "--all", "--yes"]));
    for line in [
        "  template 998 on atlas: It stays: the disks of cp-1 are linked to it.",
        "  template 999 on atlas: It stays: the disks of worker-1 are linked to it.",
    ] {
        assert!(said.lines().any(|said| said == line), "{said}");
    }

    // Their clones are gone. Nobody is there to ask: nothing goes. Asked for, they do, and once only.
    let said = good(&before.run(&lab, &["destroy", "--confirm", "home"]));
    let (gone, stays) = said.split_once("What stays:\n").unwrap();
    assert!(gone.contains("Cluster home is gone, "), "{said}");
    let stays: Vec<&str> = stays.lines().collect();
    assert!(stays[0].starts_with("  templates 998, 999; to destroy: "), "{said}");
    assert!(stays[0].contains("templates prune --all --lab --lab-dir "), "{said}");
    assert!(
        stays[1].starts_with("  image local:import/talos-v1.12.0-") && stays[1].ends_with(" on atlas"),
        "{said}"
    );
    assert_eq!(stays[2..], ["  its secrets in the store"], "{said}");
    // Once more, with nothing to destroy: what stays is told as well.
    let again = before.json(&lab, &["destroy", "--confirm", "home"]);
    assert_eq!((&again["changed"], &again["left"]), (&false.into(), &serde_json::json!([])), "{again:#}");
    assert_eq!(again["stays"]["templates"], serde_json::json!([998, 999]), "{again:#}");
    let run = after.run(&lab, &["templates", "prune"]);
    let (shown, said) = (text(&run.stdout), text(&run.stderr));
    assert_eq!(run.status.code(), Some(64), "{said}");
    assert!(shown.contains("destroy template 998 on atlas") && said.contains("Give --yes"), "{shown}{said}");
    // What would go can be seen without going.
    let planned = after.json(&lab, &["templates", "prune", "--plan-only"]);
    assert_eq!(
        (&planned["purpose"], &planned["counts"]["templates"]["destroy"]),
        (&"pruneTemplates".into(), &2.into())
    );
    // A protected cluster keeps its templates, unless they are named as well; apply does not replace them either.
    let guard = ("  environment: lab ", "  protect: true\n  environment: lab ");
    let guarded = Changed::new("home", &[SMALL, &[CLONES, newer, guard]].concat());
    let run = guarded.run(&lab, &["templates", "prune", "--yes"]);
    assert_eq!(run.status.code(), Some(1), "{}", text(&run.stdout));
    assert!(text(&run.stderr).contains("is protected"), "{}", text(&run.stderr));
    let run = guarded.run(&lab, &["plan"]);
    let said = text(&run.stdout);
    assert!(said.contains("the cluster is protected") && !said.contains("destroy template"), "{said}");
    // Unprotected, they would be replaced, which is counted and not called the deletion of a file.
    let planned = after.json(&lab, &["plan"]);
    let templates = serde_json::json!({"create": 0, "replace": 2, "destroy": 0});
    assert_eq!(planned["counts"]["templates"], templates, "{}", planned["counts"]);
    let said = good(&after.run(&lab, &["plan"]));
    assert!(said.contains("Replaces templates 998, 999.") && !said.contains("image file"), "{said}");
    assert!(said.trim_end().ends_with("0 to destroy, 2 templates to replace."), "{said}");
    // Neither do they go from a machine that has no secrets to prove whose they are.
    let empty = lab.dir().with_file_name("empty").display().to_string();
    let run = after.run(&lab, &["templates", "prune", "--yes", "--state", &empty]);
    assert_eq!(run.status.code(), Some(1), "{}", text(&run.stdout));
    assert!(text(&run.stderr).contains("nothing proves"), "{}", text(&run.stderr));
    assert_eq!(after.json(&lab, &["templates", "list"])["templates"].as_array().unwrap().len(), 2);
    let gone = guarded.json(&lab, &["templates", "prune", "--yes", "--protected"]);
    assert_eq!(gone["counts"]["templates"]["destroy"], 2, "{gone:#}");
    let states: Vec<_> = gone["steps"].as_array().unwrap().iter().map(|step| &step["state"]["is"]).collect();
    assert_eq!(states, ["done", "done"]);
    let said = good(&after.run(&lab, &["templates", "list"]));
    assert_eq!(said.trim(), "There are no templates of this cluster.");
}

/// A volume that no VM uses is listed; it goes when somebody says so, and once no VM has its number.
#[test]
fn volumes_that_were_left_are_listed_and_go_when_somebody_says_so() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    let said = good(&small.run(&lab, &["volumes", "list"]));
    assert_eq!(said.trim(), "There are no volumes left over.");
    good(&small.run(&lab, &["apply", "--yes"]));
    lab.tamper(|world| {
        let volumes = world["datacenter"]["stores"]["atlas/local-lvm"]["volumes"].as_object_mut().unwrap();
        let left = volumes["vm-303-disk-0"].clone();
        volumes.insert("vm-303-disk-7".to_owned(), left);
    });
    let row =
        |said: &str| said.lines().find(|line| line.starts_with("local-lvm:vm-303-disk-7")).map(str::to_owned);
    let said = good(&small.run(&lab, &["volumes", "list"]));
    assert!(row(&said).unwrap().contains("a VM has this VMID"), "{said}");
    let said = good(&small.run(&lab, &["volumes", "prune", "--yes"]));
    assert!(said.contains("local-lvm:vm-303-disk-7 on atlas: It stays: VM 303 has its number"), "{said}");

    good(&small.run(&lab, &["destroy", "--confirm", "home"]));
    let said = good(&small.run(&lab, &["volumes", "list"]));
    assert!(row(&said).unwrap().contains("no VM has this VMID"), "{said}");
    // The advice leads to this very cluster, for people and programs; what is saved is the plan all the same.
    let advised =
        format!("volumes prune --lab --lab-dir {} -f {}", lab.dir().display(), small.file().display());
    let said = good(&small.run(&lab, &["plan"]));
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(&advised), "{said}");
    let file = lab.dir().join("plan.json");
    let planned = small.json(&lab, &["plan", "--save", &file.display().to_string()]);
    let fixes = |plan: &serde_json::Value| {
        plan["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|note| note["fix"].as_str().is_some_and(|fix| fix.contains(&advised)))
    };
    assert!(fixes(&planned), "{planned:#}");
    let saved = common::daedal(["plan", "show", "-o", "json", &file.display().to_string()]);
    let saved: serde_json::Value = serde_json::from_str(&good(&saved)).unwrap();
    assert_eq!(saved["id"], planned["id"], "{saved:#}");
    let unasked = small.run(&lab, &["volumes", "prune"]);
    let (shown, said) = (text(&unasked.stdout), text(&unasked.stderr));
    assert_eq!(unasked.status.code(), Some(64), "{said}");
    assert!(shown.contains("delete volume local-lvm:vm-303-disk-7"), "{shown}");
    assert!(said.contains("Give --yes"), "{said}");
    // A protected cluster keeps them until somebody says otherwise.
    let guard = ("  environment: lab ", "  protect: true\n  environment: lab ");
    let guarded = Changed::new("home", &[SMALL, &[guard]].concat());
    let run = guarded.run(&lab, &["volumes", "prune", "--yes"]);
    assert!(!run.status.success() && text(&run.stderr).contains("--protected"), "{}", text(&run.stderr));
    let listed = small.json(&lab, &["volumes", "list"]);
    assert_eq!(listed["volumes"][0]["volid"], "local-lvm:vm-303-disk-7", "{listed:#}");
    let said = good(&small.run(&lab, &["volumes", "prune", "--yes"]));
    let last = said.trim_end().lines().last().unwrap();
    assert!(last.starts_with("Cluster home: 1 volume deleted, 1 step in "), "{said}");
    let said = good(&small.run(&lab, &["volumes", "list"]));
    assert_eq!(said.trim(), "There are no volumes left over.");
}

/// A host or a storage that could not be listed may hold some: that is said, to people and to programs.
#[test]
fn none_is_said_only_where_everything_was_seen() {
    let lab = Lab::new();
    let two = Changed::new("home", &[SMALL, &[("hosts: [atlas] ", "hosts: [atlas, boreas] ")]].concat());
    good(&two.run(&lab, &["plan"]));
    lab.tamper(|world| world["datacenter"]["hosts"]["boreas"]["online"] = false.into());
    for (what, none) in
        [("templates", "No template of this cluster was found"), ("volumes", "No volumes left over")]
    {
        let said = good(&two.run(&lab, &[what, "list"]));
        assert!(said.contains(none) && said.contains("not everything was seen:"), "{said}");
        assert!(said.contains("  host boreas: it is offline or unknown"), "{said}");
        let json = two.json(&lab, &[what, "list"]);
        assert_eq!(json[what], serde_json::json!([]), "{json:#}");
        assert_eq!(json["blind"][0]["what"], "host boreas", "{json:#}");
        let said = good(&two.run(&lab, &[what, "prune", "--yes"]));
        assert!(said.contains("host boreas: Could not be seen: it is offline or unknown"), "{said}");
        assert!(said.trim_end().ends_with("Not seen: host boreas."), "{said}");
    }
    lab.tamper(|world| {
        world["datacenter"]["hosts"]["boreas"]["online"] = true.into();
        world["datacenter"]["stores"]["atlas/local-lvm"]["lost"] = 1.into();
    });
    let said = good(&two.run(&lab, &["volumes", "list"]));
    assert!(said.contains("  storage local-lvm on host atlas: it is not active there"), "{said}");
    let said = good(&two.run(&lab, &["templates", "list"]));
    assert_eq!(said.trim(), "There are no templates of this cluster.");
}
