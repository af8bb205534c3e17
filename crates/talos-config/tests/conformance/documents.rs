//! Documents of every kind, and parts of the main one, right and changed at random: our lint and Talos' own validator are of one
//! mind, but for what ours is documented to add.
//!
//! `CONFORMANCE_SEED` and `CONFORMANCE_CASES` (of each kind) search further than every run does.

mod mutate;
mod samples;
mod shapes;

use std::collections::{BTreeMap, BTreeSet};

use daedal_talos_config::{MachineConfig, Role, Severity};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use serde_json::{Value as Json, json};

use crate::{
    peer::{CONTRACTS, ConfigTool, Contract, Tally},
    values::{OURS, config},
};
use shapes::Shapes;

/// Documents that a link can have, of which several may be about the same one.
const LINKS: &[&str] = &[
    "LinkConfig",
    "VLANConfig",
    "BondConfig",
    "BridgeConfig",
    "DummyLinkConfig",
    "WireguardConfig",
    "VRFConfig",
    "VethConfig",
    "DHCPv4Config",
    "DHCPv6Config",
    "EthernetConfig",
    "LinkAliasConfig",
];

struct Generator {
    shapes: Shapes,
    samples: BTreeMap<String, Vec<Json>>,
    rng: StdRng,
}

impl Generator {
    fn sample(&mut self, kind: &str, minor: u32) -> Json {
        let mut sample = self.samples[kind].choose(&mut self.rng).unwrap().clone();
        samples::before(&self.shapes, kind, minor, &mut sample, &mut Vec::new());
        sample
    }

    /// A document of a kind, changed in no, one or several places.
    fn document(&mut self, kind: &str, minor: u32) -> Json {
        let mut document = self.sample(kind, minor);
        let changes = *[0, 1, 1, 1, 1, 1, 2, 2, 3].choose(&mut self.rng).unwrap();
        for _ in 0..changes {
            mutate::mutate(&mut document, kind, &self.samples[kind], &self.shapes, minor, &mut self.rng);
        }
        document
    }

    /// A config with documents of this kind in it; the empty kind changes the main document.
    fn config(&mut self, base: &[Json], kind: &str, minor: u32) -> Vec<Json> {
        let mut documents = base.to_vec();
        // Something else may be missing.
        if documents.len() > 1 && self.rng.gen_bool(0.1) {
            let place = self.rng.gen_range(1..documents.len());
            documents.remove(place);
        }
        if kind.is_empty() {
            let part = self.document(kind, minor);
            merge(&mut documents[0], &part);
            if self.rng.gen_bool(0.2) {
                let all = [documents[0].clone()];
                mutate::mutate(&mut documents[0], kind, &all, &self.shapes, minor, &mut self.rng);
            }
            return documents;
        }
        let document = self.document(kind, minor);
        put(&mut documents, document.clone());
        if self.rng.gen_bool(0.2) {
            let other = if LINKS.contains(&kind) {
                LINKS.choose(&mut self.rng).unwrap()
            } else if self.rng.gen_bool(0.5) {
                kind
            } else {
                ["UserVolumeConfig", "ExistingVolumeConfig", "Layer2VIPConfig", "VolumeConfig"]
                    .choose(&mut self.rng)
                    .unwrap()
            };
            let mut further = if self.shapes.kinds(minor).any(|kind| kind == other) {
                self.sample(other, minor)
            } else {
                return documents;
            };
            if self.rng.gen_bool(0.6) && further.get("name").is_some() {
                further["name"] = document.get("name").cloned().unwrap_or(json!("a"));
            }
            documents.push(further);
        }
        documents
    }
}

/// Puts a document where one of its kind was generated, or behind all others.
fn put(documents: &mut Vec<Json>, document: Json) {
    let is_same =
        |other: &Json| other["kind"] == document["kind"] && other.get("name") == document.get("name");
    documents.retain(|other| !is_same(other));
    documents.push(document);
}

fn merge(into: &mut Json, part: &Json) {
    match (into, part) {
        (Json::Object(into), Json::Object(part)) => {
            for (key, value) in part {
                merge(into.entry(key.clone()).or_insert(Json::Null), value);
            }
        }
        (into, part) => *into = part.clone(),
    }
}

/// The documents of a config as this contract has it, which the library may be older or newer than.
fn base(contract: Contract, role: Role) -> Vec<Json> {
    let config = config(contract, role);
    config.documents().iter().map(|document| serde_json::to_value(document).unwrap()).collect()
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Compares this many cases of each kind.
fn judge(contract: Contract, cases: u64, tally: &mut Tally) {
    let Some(mut tool) = ConfigTool::start(contract.library) else { return };
    let before = tally.cases();
    let mut of = Generator {
        shapes: Shapes::read(),
        samples: samples::read(),
        rng: StdRng::seed_from_u64(number("CONFORMANCE_SEED", 5)),
    };
    // Machines keep the configs that an older Talos was given.
    let bases: Vec<Vec<Json>> = CONTRACTS
        .into_iter()
        .filter(|older| older.minor == contract.minor || (older.minor < contract.minor && older.minor >= 11))
        .flat_map(|older| [Role::ControlPlane, Role::Worker].map(|role| base(older, role)))
        .collect();
    let kinds: Vec<String> = of.shapes.kinds(contract.minor).map(str::to_owned).collect();
    let (mut refused, mut seen) = (0, BTreeSet::new());
    for kind in &kinds {
        assert!(of.samples.contains_key(kind), "there is no sample of {kind}");
        let cases = number("CONFORMANCE_CASES", cases) * if kind.is_empty() { 10 } else { 1 };
        for _ in 0..cases {
            let base = bases.choose(&mut of.rng).unwrap();
            let documents = of.config(base, kind, contract.minor);
            let text = documents.iter().map(Json::to_string).collect::<Vec<_>>().join("\n---\n");
            let ours: Vec<String> = match MachineConfig::from_yaml(&text) {
                Err(error) => vec![error.to_string()],
                Ok(config) => {
                    let lints = config.lint(contract.release()).into_iter();
                    lints.filter(|l| l.severity == Severity::Error).map(|l| l.to_string()).collect()
                }
            };
            let mut real = tool.ask(&json!({"config": text, "validate": {"mode": "metal"}}));
            // Only images for hardware are installed; what they miss there, those for clouds do without.
            if real.is_err() && ours.is_empty() {
                real = tool.ask(&json!({"config": text, "validate": {"mode": "cloud"}}));
            }
            refused += usize::from(real.is_err());
            // An older Talos knows less than the library that stands for it.
            let is_extra = |fault: &String| {
                OURS.iter().any(|extra| fault.contains(extra))
                    || (contract.minor < 12 && fault.contains("came with v1."))
                    // It took `{}` for an expression or an address that is not there.
                    || (contract.minor < 13
                        && ["match", "extraAnnouncedEndpoints[0]", "gateway", "destination", "source", "address"]
                            .iter()
                            .any(|key| fault.ends_with(&format!("{key}: must be a single value"))))
            };
            let agreed = match &real {
                Err(_) => !ours.is_empty(),
                Ok(_) => ours.iter().all(is_extra),
            };
            // One fault is found by many cases: the first of each is enough to see.
            let real = real.map_or_else(|error| error, |_| "accepted".into());
            let fault = format!("{kind}: theirs {real:?}, ours {ours:?}");
            let is_new = !agreed && seen.insert(fault.clone());
            tally.case((!agreed).then(|| {
                let added: Vec<&Json> =
                    documents.iter().filter(|document| !base.contains(document)).collect();
                let shown: Vec<String> = added.iter().map(|document| difference(base, document)).collect();
                if is_new {
                    println!(
                        "v1.{} {} {fault}\n    {}",
                        contract.minor,
                        documents[0]["machine"]["type"],
                        shown.join("\n    ")
                    );
                }
                fault
            }));
        }
    }
    let cases = tally.cases() - before;
    assert!(refused > cases / 4 && refused < cases * 3 / 4, "{refused} of {cases} refused");
}

/// A document; of the main one, what is not in the base.
fn difference(base: &[Json], document: &Json) -> String {
    if document.get("kind").is_some() {
        return document.to_string();
    }
    fn without(value: &Json, base: &Json) -> Option<Json> {
        match (value, base) {
            _ if value == base => None,
            (Json::Object(fields), Json::Object(of_base)) => {
                let null = Json::Null;
                let mut left: serde_json::Map<String, Json> = fields
                    .iter()
                    .filter_map(|(key, value)| {
                        Some((key.clone(), without(value, of_base.get(key).unwrap_or(&null))?))
                    })
                    .collect();
                let gone = of_base.keys().filter(|key| !fields.contains_key(*key));
                left.extend(gone.map(|key| (format!("-{key}"), Json::Null)));
                Some(left.into())
            }
            _ => Some(value.clone()),
        }
    }
    without(document, &base[0]).unwrap_or_default().to_string()
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn documents_are_judged_as_v1_8_to_v1_11_do() {
    let mut tally = Tally::new("lint: documents of every kind, right and changed at random, v1.8 to v1.11");
    CONTRACTS[..4].iter().for_each(|contract| judge(*contract, 20, &mut tally));
    tally.done();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn documents_are_judged_as_v1_12_does() {
    let mut tally = Tally::new("lint: documents of every kind, right and changed at random, v1.12");
    judge(CONTRACTS[4], 60, &mut tally);
    tally.done();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn documents_are_judged_as_v1_13_does() {
    let mut tally = Tally::new("lint: documents of every kind, right and changed at random, v1.13");
    judge(CONTRACTS[5], 60, &mut tally);
    tally.done();
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn documents_are_judged_as_v1_14_does() {
    let mut tally = Tally::new("lint: documents of every kind, right and changed at random, v1.14");
    judge(CONTRACTS[6], 60, &mut tally);
    tally.done();
}
