//! The clusters of five teams, each from its example: one test walks through everything that the team asks for, by id, through the
//! command line. `Mission gap` names what is missing.

mod em_infra;
mod enterprise;
mod fluodata;
mod home;
mod modules;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use daedal_sops::{Format, Rule};
use daedal_store::Keyring;
use serde_json::Value;

use crate::common::served::Served;
use crate::common::{self, Lab, good, root, text};

/// One requirement: its id, and what shows it.
type Step = (&'static str, fn(&Walk));

/// An example on a datacenter of its own, which is reached as a real one is.
struct Walk {
    served: Served,
    folder: tempfile::TempDir,
    /// The example, with this datacenter's certificate and the way to it.
    text: String,
    variables: Vec<(&'static str, String)>,
    report: OnceCell<Value>,
}

impl Walk {
    /// A datacenter for an example (`home/static.yaml`), with some of its text replaced. `{ssh}` and `{key}` in a
    /// replacement stand for the port and the key of its SSH server.
    fn new(example: &str, edits: &[(&str, &str)], variables: &[(&'static str, &str)]) -> Self {
        let file = root().join("examples").join(example);
        let declared = std::fs::read_to_string(&file).unwrap();
        let folder = tempfile::tempdir().unwrap();
        copy_folders(file.parent().unwrap(), folder.path());
        // The datacenter need not know how it is reached.
        let datacenter = edited(&declared, edits).replace("{ssh}", "22").replace("{key}", "key");
        std::fs::write(folder.path().join("datacenter.yaml"), datacenter).unwrap();
        let served = Served::start_with(Lab::new(), &folder.path().join("datacenter.yaml"), variables);
        let (ca, proxy) = (served.announced("ca").to_owned(), served.announced("proxy").to_owned());
        let reach = format!("  reach: {{proxy: \"{proxy}\"}}\n\n  network:\n");
        let mut text = String::new();
        for line in edited(&declared, edits).lines() {
            text.push_str(&match line {
                "  talos:" => format!("  talos:\n    factoryTls: {{ca: \"{ca}\"}}\n"),
                "  network:" if !declared.contains("\n  reach:") => reach.clone(),
                line if line.starts_with("    tls: ") => format!("    tls: {{ca: \"{ca}\"}}\n"),
                line => format!("{line}\n"),
            });
        }
        let ssh = served.announced("ssh").to_owned();
        let text = text.replace("{ssh}", ssh.rsplit(':').next().unwrap());
        let text = text.replace("{key}", served.announced("sshKey"));
        let mut variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        variables.push(("PROXMOX_TOKEN_SECRET", served.token()));
        let walk = Self { served, folder, text, variables, report: OnceCell::new() };
        walk.variant("cluster", &[]);
        walk
    }

    /// Writes a SOPS file beside the inventory, which the key at hand opens.
    fn seal(&self, name: &str, plain: &str) {
        let file = self.folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let ring = Keyring::in_file(self.folder.path().join("key.txt"));
        ring.make().unwrap();
        let rule = Rule::for_recipients([ring.public().unwrap()]);
        let (now, rng) = (jiff::Timestamp::now(), &mut rand::thread_rng());
        let closed = daedal_sops::encrypt(Format::Yaml, plain.as_bytes(), &rule, now, rng).unwrap();
        std::fs::write(file, closed).unwrap();
    }

    /// The phases of an apply one by one, each safe to repeat: together they are an apply.
    fn by_phases(&self, file: &Path) {
        let json = |words: &[&str]| -> Value {
            serde_json::from_str(&good(&self.run_on(&[words, &["-o", "json"]].concat(), file))).unwrap()
        };
        for again in [false, true] {
            good(&self.run_on(&["generate"], file));
            let nodes = json(&["status"])["nodes"].as_array().unwrap().clone();
            assert!(nodes.iter().all(|node| node["vm"] == "absent"), "{again}: {nodes:#?}");
        }
        for phase in ["provision", "bootstrap"] {
            for changed in [true, false] {
                let done = json(&[phase, "--yes"]);
                assert_eq!((&done["phase"], &done["changed"]), (&phase.into(), &changed.into()), "{done:#}");
            }
        }
        let plan = self.run_on(&["plan", "--detailed-exitcode"], file);
        assert_eq!(plan.status.code(), Some(0), "{}{}", text(&plan.stdout), text(&plan.stderr));
        assert_eq!(json(&["status"])["healthy"], true);
    }

    /// Shows one requirement after the other.
    fn through(&self, steps: &[Step]) {
        for (id, step) in steps {
            println!("{id}");
            step(self);
        }
    }

    /// The inventory with some of its text replaced, beside the first.
    fn variant(&self, name: &str, edits: &[(&str, &str)]) -> PathBuf {
        let file = self.folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, edited(&self.text, edits)).unwrap();
        file
    }

    fn command(&self, words: &[&str], file: &Path) -> Command {
        let mut command = common::command(words);
        command.arg("-f").arg(file).env("HOME", self.folder.path()).env_remove("SSH_AUTH_SOCK");
        command.env("DAEDAL_KEY_FILE", self.folder.path().join("key.txt")).envs(self.variables.clone());
        command
    }

    /// Runs a command on the inventory.
    fn run(&self, words: &[&str]) -> Output {
        self.run_on(words, &self.folder.path().join("cluster.yaml"))
    }

    fn run_on(&self, words: &[&str], file: &Path) -> Output {
        self.command(words, file).output().unwrap()
    }

    /// What a command that ends well says.
    fn say(&self, words: &[&str]) -> String {
        good(&self.run(words))
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.say(&[words, &["-o", "json"]].concat())).unwrap()
    }

    /// Insists that a command on a changed inventory ends with this code and says this.
    fn refused(&self, words: &[&str], edits: &[(&str, &str)], exit: i32, said: &[&str]) {
        let ran = self.run_on(words, &self.variant("refused", edits));
        let told = text(&ran.stdout) + &text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(exit), "{told}");
        for said in said {
            assert!(told.contains(said), "{said} in {told}");
        }
    }

    /// The report of the apply that makes the cluster, which whoever asks first makes happen.
    fn applied(&self) -> &Value {
        self.report.get_or_init(|| self.json(&["apply", "--yes"]))
    }

    /// Start or end of a step of that apply.
    fn time(&self, node: Option<&str>, stage: &str, edge: &str) -> f64 {
        let steps = self.applied()["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["node"].as_str() == node && step["stage"] == stage);
        step.unwrap_or_else(|| panic!("{node:?} {stage}: {steps:#?}"))[edge].as_f64().unwrap()
    }

    /// A column of `status`, in the order of the nodes.
    fn column(&self, key: &str) -> Vec<String> {
        self.applied();
        let status = self.json(&["status"]);
        status["nodes"].as_array().unwrap().iter().map(|node| plain(&node[key])).collect()
    }

    /// Everything about a node, from all three sides.
    fn node(&self, name: &str) -> Value {
        self.applied();
        self.json(&["node", "show", name])
    }

    fn vm(&self, name: &str) -> Value {
        self.node(name)["proxmox"]["seen"].clone()
    }

    /// A file for the cluster's users.
    fn output(&self, name: &str) -> String {
        self.applied();
        self.say(&["outputs", name])
    }

    /// Insists that nothing is left to do and nothing differs.
    fn as_declared(&self) {
        self.applied();
        let ran = self.run(&["plan", "--detailed-exitcode"]);
        assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
    }

    /// Another inventory for the same datacenter, whose nodes its DHCP server knows.
    fn beside(&self, name: &str, edits: &[(&str, &str)]) -> PathBuf {
        let file = self.variant(name, edits);
        let mut extend = common::command(["lab", "extend", "--lab-dir"]);
        extend.arg(self.served.folder()).arg("-f").arg(&file);
        good(&extend.envs(self.variables.clone()).output().unwrap());
        file
    }
}

/// What was said, however its lines are broken.
fn flat(ran: &Output) -> String {
    let said = text(&ran.stdout) + &text(&ran.stderr);
    said.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn edited(text: &str, edits: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "the example still says: {from}");
        text = text.replace(from, to);
    }
    text
}

/// The folders beside an inventory: what its patches are in, and its store.
fn copy_folders(from: &Path, to: &Path) {
    let folders = std::fs::read_dir(from).unwrap().map(Result::unwrap);
    for folder in folders.filter(|entry| entry.file_type().unwrap().is_dir()) {
        let target = to.join(folder.file_name());
        std::fs::create_dir_all(&target).unwrap();
        copy_folders(&folder.path(), &target);
        let entries = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        for file in entries.filter(|entry| entry.file_type().unwrap().is_file()) {
            std::fs::copy(file.path(), target.join(file.file_name())).unwrap();
        }
    }
}

/// What stands in a bundle of secrets, or another YAML, behind the first of these keys.
fn behind<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
    line.unwrap_or_else(|| panic!("{key} in {text}")).trim()
}
