//! The peers: Talos' own library behind a pipe, talosctl as a program; and the comparison of configs.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::OnceLock,
};

use daedal_talos_config::{MachineConfig, SecretsBundle};
use jiff::Timestamp;
use rand::{SeedableRng, rngs::StdRng};
use serde_json::{Value as Json, json};

/// A contract: the version of Talos' library that is asked, the minor it is asked for, a Kubernetes it supports.
#[derive(Clone, Copy)]
pub struct Contract {
    pub library: &'static str,
    pub minor: u32,
    pub kubernetes: &'static str,
}

impl Contract {
    /// The same of our own.
    pub fn own(self) -> &'static daedal_talos_config::Contract {
        daedal_talos_config::Contract::of(&format!("v1.{}.0", self.minor)).unwrap()
    }

    /// The release of the library that is asked, or the first one of an older contract.
    pub fn release(self) -> daedal_talos_config::Release {
        let version = format!("v1.{}.0", self.minor);
        let of_library = self.library.starts_with(&version[..version.len() - 1]);
        daedal_talos_config::Release::of(if of_library { self.library } else { &version }).unwrap()
    }

    /// Our own of the library that is asked: what it knows is known, whatever contract it writes for.
    pub fn of_library(self) -> &'static daedal_talos_config::Contract {
        daedal_talos_config::Contract::of(self.library).unwrap()
    }
}

pub const CONTRACTS: [Contract; 7] = [
    Contract { library: "v1.12.4", minor: 8, kubernetes: "v1.31.0" },
    Contract { library: "v1.12.4", minor: 9, kubernetes: "v1.32.0" },
    Contract { library: "v1.12.4", minor: 10, kubernetes: "v1.33.0" },
    Contract { library: "v1.12.4", minor: 11, kubernetes: "v1.34.0" },
    Contract { library: "v1.12.4", minor: 12, kubernetes: "v1.35.0" },
    Contract { library: "v1.13.0", minor: 13, kubernetes: "v1.36.0" },
    Contract { library: "v1.14.1", minor: 14, kubernetes: "v1.37.0" },
];

/// The newest contract of each library.
pub fn newest() -> impl Iterator<Item = Contract> {
    CONTRACTS.into_iter().filter(|contract| contract.minor >= 12)
}

/// The peer's path, or `None` after saying that it was skipped.
pub fn peer(folder: &str, program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("DAEDAL_PEERS").map(|peers| PathBuf::from(peers).join(folder).join(program));
    let found = path.filter(|path| path.is_file());
    if found.is_none() {
        println!("skipped: {folder}/{program} is not there (DAEDAL_PEERS)");
    }
    found
}

/// One running `config-tool`: a JSON request per line, a JSON answer per line.
pub struct ConfigTool {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl ConfigTool {
    pub fn start(version: &str) -> Option<Self> {
        let path = peer(&format!("config-tool-{version}"), "config-tool")?;
        let mut process = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Some(Self { process, requests, answers })
    }

    /// The resulting config, or the error.
    pub fn ask(&mut self, request: &Json) -> Result<MachineConfig, String> {
        writeln!(self.requests, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Json = serde_json::from_str(&line).unwrap();
        if answer["ok"] == true {
            let text = answer["config"].as_str().unwrap();
            MachineConfig::from_yaml(text).map_err(|error| format!("unreadable answer: {error}"))
        } else {
            Err(format!("{}: {}", answer["step"], answer["error"]))
        }
    }

    /// A config as the library reads and writes it again: zero values gone, keys in order.
    pub fn normal(&mut self, config: &MachineConfig) -> Result<MachineConfig, String> {
        self.ask(&json!({"config": config.to_yaml().expose()}))
    }

    pub fn patched(&mut self, config: &MachineConfig, patch: &str) -> Result<MachineConfig, String> {
        self.ask(&json!({"config": config.to_yaml().expose(), "patches": [patch]}))
    }
}

impl Drop for ConfigTool {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn bundle() -> &'static SecretsBundle {
    static BUNDLE: OnceLock<SecretsBundle> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(7), now, 2048).unwrap()
    })
}

fn sorted(config: &MachineConfig) -> Json {
    let mut documents: Vec<Json> =
        config.documents().iter().map(|document| serde_json::to_value(document).unwrap()).collect();
    documents.sort_by_key(|document| format!("{}/{}", document["kind"], document["name"]));
    documents.into()
}

/// Where two configs differ first.
pub fn difference(ours: &MachineConfig, theirs: &MachineConfig) -> Option<String> {
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    (ours != theirs).then(|| first_difference(&ours, &theirs, String::new()))
}

fn first_difference(ours: &Json, theirs: &Json, path: String) -> String {
    match (ours, theirs) {
        (Json::Object(a), Json::Object(b)) => {
            for key in a.keys().chain(b.keys()) {
                if a.get(key) != b.get(key) {
                    let null = Json::Null;
                    let (a, b) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                    return first_difference(a, b, format!("{path}.{key}"));
                }
            }
            path
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            let index = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or_default();
            let name = &a[index]["kind"];
            first_difference(&a[index], &b[index], format!("{path}[{index} {name}]"))
        }
        (Json::Array(a), Json::Array(b)) if path.is_empty() => {
            let ids = |list: &[Json]| -> Vec<String> {
                list.iter().map(|d| format!("{}/{}", d["kind"], d["name"])).collect()
            };
            format!("the documents: ours {:?}, theirs {:?}", ids(a), ids(b))
        }
        _ => format!("{path}: ours {ours}, theirs {theirs}"),
    }
}

/// Counts what was compared, and fails at the end with the first differences.
pub struct Tally {
    check: &'static str,
    cases: usize,
    differences: Vec<String>,
}

impl Tally {
    pub fn new(check: &'static str) -> Self {
        Self { check, cases: 0, differences: Vec::new() }
    }

    pub fn case(&mut self, difference: Option<String>) {
        self.cases += 1;
        self.differences.extend(difference);
    }

    pub fn cases(&self) -> usize {
        self.cases
    }

    /// Prints the row of the table that `cargo xtask conformance` shows.
    pub fn done(self) {
        println!("conformance\t{}\t{}\t{}", self.check, self.cases, self.differences.len());
        let first: Vec<&String> = self.differences.iter().take(12).collect();
        assert!(first.is_empty(), "{} differences, the first: {first:#?}", self.differences.len());
    }
}
