//! Secrets at rest: what is kept is encrypted, the key is elsewhere, and whoever lacks it is told so.

use crate::common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Changed, Lab, SMALL, good, text};
use daedal_store::Keyring;

/// A small cluster in a lab, its key in a file of its own.
struct Bench {
    lab: Lab,
    changed: Changed,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(outputs: &str) -> Self {
        let outputs = format!("spec:\n  outputs: {outputs}\n");
        let changed = Changed::new("home", &[SMALL, &[("spec:\n", outputs.as_str())]].concat());
        Self { lab: Lab::new(), changed, folder: tempfile::tempdir().unwrap() }
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("deep/key.txt")
    }

    /// Runs a command with the key.
    fn run(&self, words: &[&str]) -> Output {
        let key = self.key();
        self.changed.run(&self.lab, &[words, &["--key", key.to_str().unwrap()]].concat())
    }

    fn state(&self) -> PathBuf {
        self.lab.dir().join("clusters/home")
    }

    fn secrets(&self) -> PathBuf {
        self.state().join("home/secrets.yaml.age")
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => found.extend(files(&entry)),
            false => found.push(entry),
        }
    }
    found
}

/// The tokens and private keys of a secrets bundle, of which there are many.
fn canaries(bundle: &str) -> Vec<&str> {
    let values = bundle.lines().filter_map(|line| Some(line.trim().split_once(": ")?.1.trim_matches('"')));
    let found: Vec<_> = values.filter(|value| value.len() > 20).collect();
    assert!(found.len() > 8, "{}", found.len());
    found
}

/// Mission: M14
#[test]
fn tokens_and_certificates_are_encrypted_at_rest() {
    let bench = Bench::new("encrypted");
    let said = good(&bench.run(&["apply", "--yes"]));
    assert!(said.contains("daedal secrets kubeconfig --ttl 8h") && !said.contains("daedal env"), "{said}");
    let bundle = good(&bench.run(&["secrets", "export", "--stdout"]));
    let canaries = canaries(&bundle);
    let kept = files(&bench.state());
    assert!(kept.len() > 8, "{kept:?}");
    for file in &kept {
        let bytes = std::fs::read(file).unwrap();
        let content = String::from_utf8_lossy(&bytes);
        let shows = canaries.iter().any(|canary| content.contains(canary));
        // In base64 and in plain: the beginning of every PEM.
        let pem = content.contains("LS0tLS1CRUdJTi") || content.contains("PRIVATE KEY");
        assert!(!shows && !pem, "{}", file.display());
    }
    // They are there for those who ask.
    let kubeconfig = good(&bench.run(&["outputs", "kubeconfig"]));
    assert!(kubeconfig.contains("client-key-data"), "{kubeconfig}");
    assert_eq!(good(&bench.run(&["outputs", "secrets.yaml"])).trim(), bundle.trim());
    assert!(good(&bench.run(&["outputs", "worker-1.yaml"])).contains("machine:"));
    let env = bench.run(&["env"]);
    assert_eq!(env.status.code(), Some(66), "{}", text(&env.stdout));
    assert!(text(&env.stderr).contains("outputs: plain"), "{}", text(&env.stderr));
    // Certificates are read where they are, and nothing is a change.
    assert!(
        good(&bench.run(&["secrets", "show"]))
            .contains("The client certificate in kubeconfig is valid until")
    );
    good(&bench.run(&["secrets", "rotate-admin"]));
    assert_ne!(good(&bench.run(&["outputs", "kubeconfig"])), kubeconfig);
    let ran = bench.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stdout));

    // Another key: what is kept and what was written open with it alone.
    let old = std::fs::read_to_string(bench.key()).unwrap();
    std::fs::remove_file(bench.key()).unwrap();
    Keyring::in_file(bench.key()).make().unwrap();
    let new = std::fs::read_to_string(bench.key()).unwrap();
    std::fs::write(bench.key(), new.clone() + &old).unwrap();
    // What somebody deleted is no obstacle, and comes back.
    std::fs::remove_file(bench.state().join("outputs/worker.yaml.age")).unwrap();
    let said = good(&bench.run(&["secrets", "rekey"]));
    assert!(said.contains("1 kept file ") && said.contains(" for age1"), "{said}");
    assert!(said.contains("1 output could not be opened"), "{said}");
    std::fs::write(bench.key(), new).unwrap();
    good(&bench.run(&["apply", "--yes"]));
    assert!(good(&bench.run(&["outputs", "worker.yaml"])).contains("machine:"));
    assert_eq!(good(&bench.run(&["outputs", "secrets.yaml"])).trim(), bundle.trim());
    let ran = bench.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));

    // Plain after all: each file takes the other's place.
    let document = std::fs::read_to_string(bench.changed.file()).unwrap();
    std::fs::write(bench.changed.file(), document.replace("outputs: encrypted", "outputs: plain")).unwrap();
    good(&bench.run(&["apply", "--yes"]));
    let outputs = bench.state().join("outputs");
    assert_eq!(std::fs::read_to_string(outputs.join("secrets.yaml")).unwrap(), bundle);
    assert!(!files(&outputs).iter().any(|file| file.extension().is_some_and(|ending| ending == "age")));
    good(&bench.run(&["env"]));
    good(&bench.run(&["destroy", "--confirm", "home"]));
    assert!(bench.secrets().exists(), "secrets outlive what is made with them");
}

#[test]
fn whoever_lacks_the_key_is_told_and_nothing_is_made_anew() {
    let bench = Bench::new("plain");
    good(&bench.run(&["apply", "--yes"]));
    let (kept, key) =
        (std::fs::read(bench.secrets()).unwrap(), std::fs::read_to_string(bench.key()).unwrap());

    // On another machine there is no key yet, and none is made.
    let elsewhere = bench.folder.path().join("elsewhere.txt");
    std::fs::rename(bench.key(), &elsewhere).unwrap();
    for words in [&["plan"][..], &["apply", "--yes"], &["secrets", "show"], &["status"]] {
        let ran = bench.run(words);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(78), "{words:?}: {said}");
        assert!(said.contains("there is no key in") && said.contains("--key FILE"), "{said}");
        assert!(!bench.key().exists());
    }
    // With another key, it says which one it has.
    Keyring::in_file(bench.key()).make().unwrap();
    let ran = bench.run(&["plan"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(78), "{said}");
    assert!(said.contains("encrypted for another key") && said.contains("(age1"), "{said}");
    std::fs::write(bench.key(), "not a key\n").unwrap();
    let said = text(&bench.run(&["plan"]).stderr);
    assert!(said.contains("line 1 is no age identity") && !said.contains("not a key"), "{said}");
    assert_eq!(std::fs::read(bench.secrets()).unwrap(), kept);

    // Two keys in a file: either opens.
    std::fs::remove_file(bench.key()).unwrap();
    Keyring::in_file(bench.key()).make().unwrap();
    let both = std::fs::read_to_string(bench.key()).unwrap() + &key;
    std::fs::write(bench.key(), both).unwrap();
    let ran = bench.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));

    // Others may read it: that is said, and no more.
    let mode = |mode| std::fs::set_permissions(bench.key(), PermissionsExt::from_mode(mode)).unwrap();
    mode(0o644);
    assert!(text(&bench.run(&["plan"]).stderr).contains("chmod 600"));
    mode(0o600);
    assert!(!text(&bench.run(&["plan"]).stderr).contains("chmod 600"));
}

/// Mission: M14
#[test]
fn a_lost_key_costs_no_cluster() {
    let bench = Bench::new("encrypted");
    good(&bench.run(&["apply", "--yes"]));
    let config = bench.folder.path().join("cp.yaml");
    std::fs::write(&config, good(&bench.run(&["outputs", "cp-1.yaml"]))).unwrap();
    let taken_along = bench.folder.path().join("taken-along.age");
    std::fs::copy(bench.secrets(), &taken_along).unwrap();
    std::fs::rename(bench.key(), bench.folder.path().join("lost.txt")).unwrap();
    let import = |file: &Path| bench.run(&["secrets", "import", file.to_str().unwrap()]);

    // What nothing opens is in the way until it is moved.
    let ran = import(&config);
    assert_eq!(ran.status.code(), Some(78), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("move ") && text(&ran.stderr).contains("machine config"));
    // The command that helps has the flags that lead to this cluster.
    assert!(text(&ran.stderr).contains("daedal secrets import FILE --"), "{}", text(&ran.stderr));
    std::fs::remove_file(bench.secrets()).unwrap();
    // The secrets are in a control plane's machine config; a new key is made for them.
    good(&import(&config));
    // Outputs that only the old key opens are written anew, and then all is as it was.
    let ran = bench.run(&["outputs", "kubeconfig"]);
    assert_eq!(ran.status.code(), Some(78), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains(" writes it again"), "{}", text(&ran.stderr));
    assert_eq!(bench.run(&["plan", "--detailed-exitcode"]).status.code(), Some(2));
    good(&bench.run(&["apply", "--yes"]));
    assert!(good(&bench.run(&["outputs", "kubeconfig"])).contains("client-key-data"));
    assert_eq!(bench.run(&["plan", "--detailed-exitcode"]).status.code(), Some(0));

    // The key is found again: another store's file opens with it, and holds the same.
    let lost = std::fs::read_to_string(bench.folder.path().join("lost.txt")).unwrap();
    let new = std::fs::read_to_string(bench.key()).unwrap();
    std::fs::write(bench.key(), new + &lost).unwrap();
    assert!(good(&import(&taken_along)).contains("that are kept in"));
}

#[test]
fn plain_outputs_give_way_to_encrypted_ones_whatever_was_left_of_them() {
    let bench = Bench::new("plain");
    good(&bench.run(&["apply", "--yes"]));
    let outputs = bench.state().join("outputs");
    assert_eq!(std::fs::read_to_string(outputs.join(".gitignore")).unwrap(), "*\n");
    // A copy of one's own is one's own.
    let copy = outputs.join("secrets.yaml.age");
    std::fs::write(&copy, "closed with a key of somebody's own").unwrap();
    std::fs::remove_file(outputs.join("worker.yaml")).unwrap();
    good(&bench.run(&["apply", "--yes"]));
    assert!(copy.exists() && outputs.join("worker.yaml").exists());
    let document = std::fs::read_to_string(bench.changed.file()).unwrap();
    std::fs::write(bench.changed.file(), document.replace("outputs: plain", "outputs: encrypted")).unwrap();
    // A new kubeconfig takes the place of the plain one at once.
    let (before, shown) =
        (good(&bench.run(&["outputs", "kubeconfig"])), good(&bench.run(&["secrets", "show"])));
    good(&bench.run(&["secrets", "rotate-admin", "--ttl", "8h"]));
    assert!(!outputs.join("kubeconfig").exists() && outputs.join("kubeconfig.age").exists());
    assert_ne!(good(&bench.run(&["outputs", "kubeconfig"])), before);
    assert_ne!(good(&bench.run(&["secrets", "show"])), shown, "it ends sooner");
    // Killed before its manifest was written, and while a file was.
    std::fs::remove_file(outputs.join(".outputs.json")).unwrap();
    std::fs::write(outputs.join("nodes/.cp-1.yaml.new"), "half a key").unwrap();
    good(&bench.run(&["apply", "--yes"]));
    let plain: Vec<_> = files(&outputs)
        .into_iter()
        .filter(|file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            !name.ends_with(".age") && ![".gitignore", ".outputs.json", "machines.json"].contains(&name)
        })
        .collect();
    assert!(plain.is_empty(), "{plain:?}");
    assert_eq!(bench.run(&["plan", "--detailed-exitcode"]).status.code(), Some(0));
}

#[test]
fn who_needs_no_key_is_not_asked_for_one() {
    let bench = Bench::new("plain");
    let run = |words: &[&str], key: Option<&str>| {
        let mut command = bench.lab.command_on(words, &bench.changed.file());
        command.env_remove("HOME").env_remove("XDG_CONFIG_HOME").envs(key.map(|key| ("DAEDAL_KEY", key)));
        command.output().unwrap()
    };
    for key in [None, Some("no key at all")] {
        good(&run(&["check"], key));
        good(&run(&["plan"], key));
        assert!(good(&run(&["outputs", "dnsmasq"], key)).contains("10.0.0.11"));
    }
}

#[test]
fn what_an_inventory_refers_to_may_be_encrypted() {
    let bench = Bench::new("plain");
    let keys = Keyring::in_file(bench.key());
    keys.make().unwrap();
    let file = bench.changed.file().with_file_name("password.age");
    std::fs::write(&file, keys.encrypt(b"s3cret-of-the-registry").unwrap()).unwrap();
    let auth = "spec:\n  registries: {ghcr.io: {auth: {username: me, password: {file: password.age}}}}\n";
    let document = std::fs::read_to_string(bench.changed.file()).unwrap();
    std::fs::write(bench.changed.file(), document.replacen("spec:\n", auth, 1)).unwrap();
    let ran = bench.changed.run(&bench.lab, &["check"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(78), "{said}");
    assert!(said.contains("password.age") && said.contains("key"), "{said}");
    good(&bench.run(&["apply", "--yes"]));
    assert!(good(&bench.run(&["outputs", "cp-1.yaml"])).contains("s3cret-of-the-registry"));
}

#[test]
fn what_an_older_version_kept_in_plain_is_encrypted_by_the_next_apply() {
    let bench = Bench::new("plain");
    good(&bench.run(&["apply", "--yes"]));
    let keys = Keyring::in_file(bench.key());
    let sealed = keys.decrypt(&bench.secrets(), &std::fs::read(bench.secrets()).unwrap()).unwrap();
    let plain = bench.state().join("home/secrets.yaml");
    std::fs::write(&plain, sealed.expose()).unwrap();
    std::fs::remove_file(bench.secrets()).unwrap();
    // Looking changes nothing.
    let ran = bench.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(plain.exists() && !bench.secrets().exists());
    let ran = bench.run(&["apply", "--yes"]);
    good(&ran);
    assert!(text(&ran.stderr).contains("they are encrypted now"), "{}", text(&ran.stderr));
    assert!(!plain.exists() && bench.secrets().exists());
    let ran = bench.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
}
