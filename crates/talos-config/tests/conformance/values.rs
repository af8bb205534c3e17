//! Values of every sort, right and wrong, put wherever an inventory or a patch can put them: our lint and Talos' own
//! validator are of one mind, but for what ours is documented to add.

pub mod places;
pub mod pools;

use daedal_talos_config::{ClusterOptions, Link, MachineConfig, NodeOptions, Patch, Role, Severity};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;

use crate::peer::{CONTRACTS, ConfigTool, Contract, Tally, bundle};
use places::{DOCUMENTS, FIELDS};

const DOCUMENT: &str = "apiVersion: v1alpha1\nkind: ";

/// What our lint refuses beyond Talos, as docs/talos.md has it.
pub const OURS: &[&str] = &[
    "only control planes can hold the virtual address",
    "which is the network's own or its broadcast",
    "is the node's own address",
    "which is its own address",
    "has no passphrase",
    "cluster.controlPlane.endpoint: ",
    // Without these, a node is no part of a cluster that runs Kubernetes.
    "token: is missing",
    "ca.crt: is missing",
    "is missing; a control plane needs it",
    "machine.type: is neither",
    // A worker has no use for it, and should not be able to tell it.
    "cluster.ca.key: must not be on a worker",
    // Talos takes some of them, and breaks at them later.
    "says nothing: fill it in, or take it out",
    // The peer is asked without its own version, by which a node judges these.
    "image of Kubernetes",
    "whose tag is a version of Kubernetes",
    // What works on one link does not work on two.
    "has already",
    "a second time",
];

/// A config as this contract has it.
pub fn config(contract: Contract, role: Role) -> MachineConfig {
    let version = format!("v1.{}.0", contract.minor);
    let cluster = ClusterOptions::new("c1", "https://10.0.0.20:6443", version, contract.kubernetes);
    let mut node = NodeOptions::new(role, "node-1");
    node.install.disk = Some("/dev/sda".into());
    node.links = vec![Link {
        addresses: vec!["10.0.0.5/24".parse().unwrap()],
        ..Link::new("02:00:00:00:00:01".parse().unwrap())
    }];
    MachineConfig::generate(bundle(), &cluster, &node).unwrap()
}

/// A value with one character changed, left out or doubled.
fn damaged(value: &str, rng: &mut StdRng) -> String {
    let mut letters: Vec<char> = value.chars().collect();
    let inner = 1..letters.len().saturating_sub(1).max(2);
    let at = rng.gen_range(inner).min(letters.len().saturating_sub(1));
    if letters.is_empty() {
        return value.to_owned();
    }
    match rng.gen_range(0..3) {
        0 => drop(letters.remove(at)),
        1 => letters.insert(at, letters[at]),
        _ => letters[at] = ['a', '0', '.', ':', '/', '-', '(', ' '][rng.gen_range(0..8)],
    }
    letters.into_iter().collect()
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn values_are_judged_as_the_library_does() {
    let mut tally = Tally::new("lint: values right and wrong, judged as the validator does");
    let mut refused = 0;
    let mut rng = StdRng::seed_from_u64(11);
    for contract in CONTRACTS {
        let Some(mut tool) = ConfigTool::start(contract.library) else { continue };
        let bases = [Role::ControlPlane, Role::Worker].map(|role| config(contract, role));
        let texts = bases.each_ref().map(|base| base.to_yaml().expose().to_owned());
        let documents = DOCUMENTS.iter().map(|(text, values)| (format!("{DOCUMENT}{text}"), *values));
        for (place, values) in
            documents.chain(FIELDS.iter().map(|(text, values)| ((*text).to_owned(), *values)))
        {
            let mut cases: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            for _ in 0..3 {
                cases.push(damaged(values[rng.gen_range(0..values.len())], &mut rng));
            }
            for value in cases {
                // One reader takes several zeros for a number, the other for a text.
                if value == "00" {
                    continue;
                }
                let base = rng.gen_range(0..2);
                let patch = place.replace('@', &value);
                // What is not YAML any more is no value.
                let Ok(parsed) = Patch::for_contract(&patch, contract.own()).map(Ok).or_else(|error| {
                    if error.to_string().contains("YAML") { Err(()) } else { Ok(Err(error.to_string())) }
                }) else {
                    continue;
                };
                let ours: Vec<String> = match parsed {
                    Err(refusal) => vec![refusal],
                    Ok(parsed) => {
                        let mut config = bases[base].clone();
                        match config.apply_patch(&parsed) {
                            Err(error) => vec![error.to_string()],
                            Ok(()) => {
                                let lints = config.lint(contract.release()).into_iter();
                                lints
                                    .filter(|l| l.severity == Severity::Error)
                                    .map(|l| l.to_string())
                                    .collect()
                            }
                        }
                    }
                };
                let request =
                    json!({"config": texts[base], "patches": [patch], "validate": {"mode": "metal"}});
                let real = tool.ask(&request);
                refused += usize::from(real.is_err());
                // An older Talos knows less than the library that stands for it.
                let is_extra = |fault: &String| {
                    OURS.iter().any(|extra| fault.contains(extra))
                        || (contract.minor < 12 && fault.contains("came with v1."))
                };
                let agreed = match &real {
                    Err(_) => !ours.is_empty(),
                    Ok(_) => ours.iter().all(is_extra),
                };
                tally.case((!agreed).then(|| {
                    let real = real.map_or_else(|error| error, |_| "accepted".into());
                    format!(
                        "v1.{} {}: {patch:?}: theirs {real:?}, ours {ours:?}",
                        contract.minor,
                        if base == 0 { "control plane" } else { "worker" }
                    )
                }));
            }
        }
    }
    let cases = tally.cases();
    assert!(cases == 0 || (cases > 5000 && refused > cases / 4), "{refused} of {cases} refused");
    tally.done();
}
