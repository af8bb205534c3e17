//! What the commands say is true, also when not all went well.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod common;

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
    let why = |note: &serde_json::Value| note["level"] == "problem" && note["about"] == "worker-1";
    assert!(notes.iter().any(why), "{notes:?}");

    let destroy = moved.run(&lab, &["destroy", "--confirm", "home"]);
    assert_eq!(destroy.status.code(), Some(1), "{}", text(&destroy.stderr));
    let said = text(&destroy.stdout);
    assert!(said.contains("Cluster home is not gone. Left") && !said.contains("is gone,"), "{said}");
    assert!(said.contains("Images and secrets stay"), "{said}");

    // From another machine without the secrets, none are promised.
    let empty = lab.dir().with_file_name("empty").display().to_string();
    let said = good(&small.run(&lab, &["destroy", "--confirm", "home", "--state", &empty]));
    assert!(said.contains("Cluster home is gone, ") && said.contains("Images stay."), "{said}");
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
