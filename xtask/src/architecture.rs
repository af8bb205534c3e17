//! The picture of the crates in `docs/architecture.md` is the tree that Cargo builds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;

/// Which crate uses which, by short names.
type Arrows = BTreeMap<String, BTreeSet<String>>;

const PREFIX: &str = "daedal-";
/// What a pure crate must not reach, however many crates lie between.
const NETWORK: [&str; 5] = ["tokio", "hyper", "tonic", "prost", "daedal-dial"];
const PURE: [&str; 10] = [
    "daedal-addons",
    "daedal-go-yaml",
    "daedal-inventory",
    "daedal-keys",
    "daedal-machine",
    "daedal-planner",
    "daedal-sops",
    "daedal-talos-config",
    "daedal-talos-image",
    "daedal-words",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The lines `crate ─► crate, crate` of the picture.
fn drawn() -> Arrows {
    let text = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let picture = text.split("## Who uses whom").nth(1).and_then(|rest| rest.split("```").nth(1)).unwrap();
    let names = |list: &str| list.split(',').map(|name| name.trim().to_owned()).collect();
    let line = |line: &str| match line.split_once("─►") {
        Some((from, to)) => (from.trim().to_owned(), names(to)),
        None => (line.trim().to_owned(), BTreeSet::new()),
    };
    picture.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

/// The platform that the tests are built for.
fn platform() -> String {
    let output = std::process::Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

fn metadata() -> Json {
    // A build fetches what this platform needs and nothing else: a fresh machine lacks the crates of the others.
    let output = crate::cargo()
        .current_dir(root())
        .args([
            "metadata",
            "--offline",
            "--locked",
            "--format-version",
            "1",
            "--filter-platform",
            &platform(),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What each package of the tree is built with, by package id; tests and build scripts do not count.
struct Tree {
    names: BTreeMap<String, String>,
    uses: BTreeMap<String, Vec<String>>,
}

impl Tree {
    fn read() -> Self {
        let metadata = metadata();
        let list = |value: &Json| value.as_array().unwrap().clone();
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        let names = list(&metadata["packages"]).iter().map(|p| (text(&p["id"]), text(&p["name"]))).collect();
        let built =
            |dependency: &Json| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let uses = |node: &Json| {
            list(&node["deps"]).iter().filter(|d| built(d)).map(|d| text(&d["pkg"])).collect::<Vec<_>>()
        };
        let uses = list(&metadata["resolve"]["nodes"]).iter().map(|n| (text(&n["id"]), uses(n))).collect();
        Self { names, uses }
    }

    /// The crates of this project and what they use of each other.
    fn arrows(&self) -> Arrows {
        let own = |id: &String| {
            let name = self.names[id].as_str();
            (name == "daedal" || name.starts_with(PREFIX)).then(|| name.trim_start_matches(PREFIX).to_owned())
        };
        let arrows =
            self.uses.iter().filter_map(|(id, uses)| Some((own(id)?, uses.iter().filter_map(own).collect())));
        arrows.collect()
    }

    /// The names of everything that a package needs, directly or not.
    fn reach(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut next: Vec<&String> =
            self.names.iter().filter(|(_, n)| *n == name).map(|(id, _)| id).collect();
        while let Some(id) = next.pop() {
            for used in &self.uses[id] {
                if found.insert(self.names[used].as_str()) {
                    next.push(used);
                }
            }
        }
        found
    }
}

#[test]
fn the_picture_of_the_crates_is_the_tree() {
    assert_eq!(drawn(), Tree::read().arrows(), "docs/architecture.md (left) and Cargo (right) differ");
}

#[test]
fn pure_crates_do_not_reach_the_network() {
    let tree = Tree::read();
    for name in PURE {
        let reached = tree.reach(name);
        assert!(!reached.is_empty(), "{name} is a crate of this tree");
        let network: Vec<_> = NETWORK.iter().filter(|what| reached.contains(**what)).collect();
        assert!(network.is_empty(), "{name} reaches {network:?}");
    }
}
