//! The published JSON Schemas: they are those of the types, and what is printed follows them.

use std::path::PathBuf;

use serde_json::Value;

use crate::common::{Changed, Lab, command, good, root, text};

fn published(name: &str) -> PathBuf {
    root().join(format!("docs/schema/{name}.schema.json"))
}

fn printed(name: &str) -> Value {
    serde_json::from_str(&good(&command(["schema", name]).output().unwrap())).unwrap()
}

/// Refuses what does not follow a schema, with the places.
#[track_caller]
fn follows(name: &str, document: &Value) {
    let schema: Value = serde_json::from_slice(&std::fs::read(published(name)).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}\n{document:#}");
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    for name in ["plan", "events", "report", "status"] {
        let kept = std::fs::read(published(name)).unwrap_or_default();
        let kept: Value = serde_json::from_slice(&kept).unwrap_or_default();
        assert!(kept == printed(name), "run `daedal schema {name} > docs/schema/{name}.schema.json`");
    }
    let kept = std::fs::read(root().join("docs/inventory.schema.json")).unwrap();
    assert_eq!(printed("inventory"), serde_json::from_slice::<Value>(&kept).unwrap());
}

#[test]
fn what_is_printed_follows_the_schemas() {
    let lab = Lab::new();
    let small = Changed::new("home", &[("count: 3 ", "count: 1 "), ("count: 2\n", "count: 1\n")]);
    let plan = small.json(&lab, &["plan"]);
    assert!(!plan["steps"].as_array().unwrap().is_empty(), "{plan:#}");
    follows("plan", &plan);

    let apply = small.run(&lab, &["apply", "--yes", "-o", "json"]);
    let report: Value = serde_json::from_str(&good(&apply)).unwrap();
    assert_eq!(report["changed"], true, "{report:#}");
    follows("report", &report);
    let events = text(&apply.stderr);
    let events: Vec<Value> = events
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: std::collections::BTreeSet<&str> =
        events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert!(kinds.is_superset(&["runStarted", "stepStarted", "stepDone", "runFinished"].into()), "{kinds:?}");
    events.iter().for_each(|event| follows("events", event));

    follows("status", &small.json(&lab, &["status"]));
    let again = small.json(&lab, &["apply", "--yes"]);
    assert_eq!(again["changed"], false, "{again:#}");
    follows("report", &again);

    // One with notes and differences: another number for a node that exists, and less memory.
    let changed = [("count: 3 ", "count: 1 "), ("count: 2\n", "count: 1\n"), ("vmid: 303", "vmid: 313")];
    let changed = Changed::new("home", &changed);
    let plan = changed.run(&lab, &["plan", "-o", "json"]);
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let codes: Vec<&str> =
        plan["notes"].as_array().unwrap().iter().filter_map(|note| note["code"].as_str()).collect();
    assert!(codes.contains(&"other-vmid"), "{plan:#}");
    follows("plan", &plan);
    // A note without its code is none.
    let mut broken = plan;
    broken["notes"][0].as_object_mut().unwrap().remove("code");
    let schema: Value = serde_json::from_slice(&std::fs::read(published("plan")).unwrap()).unwrap();
    assert!(!jsonschema::validator_for(&schema).unwrap().is_valid(&broken));
}
