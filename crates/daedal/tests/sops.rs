//! Secrets from SOPS files and from programs, variables that override them, and the bundle in a SOPS file.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::stores::{refused, write_bundle};
use common::served::Served;
use common::{Changed, FINGERPRINT, SMALL, good, text};
use daedal_sops::{Encrypted, Format, Identities, Rule};
use daedal_store::Keyring;

const TOKEN: &str = "secret: {env: PROXMOX_TOKEN_SECRET}";

/// A folder of keys: that of sops and our own, which is not made yet.
struct Keys {
    folder: tempfile::TempDir,
    recipient: String,
}

impl Keys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ring = Keyring::in_file(folder.path().join("keys.txt"));
        ring.make().unwrap();
        let keys = Self { recipient: ring.public().unwrap(), folder };
        keys.allow("true");
        keys
    }

    /// Which inventories the operator's settings allow to run programs.
    fn allow(&self, commands: &str) {
        let settings = self.path("config/daedal");
        std::fs::create_dir_all(&settings).unwrap();
        std::fs::write(settings.join("settings.yaml"), format!("allowCommands: {commands}\n")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("keys.txt")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    /// A command that finds no age keys but those that it is given.
    fn bare(&self, command_line: &[&str], inventory: &Changed) -> Command {
        let mut command = common::command(command_line);
        command.arg("-f").arg(inventory.file()).env("XDG_CONFIG_HOME", self.path("config"));
        command.env("DAEDAL_KEY_FILE", self.path("own.txt"));
        for name in ["SOPS_AGE_KEY", "SOPS_AGE_KEY_FILE", "SOPS_AGE_KEY_CMD", "PROXMOX_TOKEN_SECRET"] {
            command.env_remove(name);
        }
        command
    }

    /// The same with the keys of sops.
    fn command(&self, command_line: &[&str], inventory: &Changed) -> Command {
        let mut command = self.bare(command_line, inventory);
        command.env("SOPS_AGE_KEY_FILE", self.file());
        command
    }

    fn run(&self, command_line: &[&str], inventory: &Changed) -> Output {
        self.command(command_line, inventory).output().unwrap()
    }

    /// Writes a SOPS file beside an inventory.
    fn put(&self, inventory: &Changed, name: &str, plain: &str) -> PathBuf {
        let rule = Rule::for_recipients([&self.recipient]);
        let (now, rng) = (jiff::Timestamp::now(), &mut rand::thread_rng());
        let closed = daedal_sops::encrypt(Format::of(name), plain.as_bytes(), &rule, now, rng).unwrap();
        let file = beside(inventory, name);
        std::fs::write(&file, closed).unwrap();
        file
    }
}

/// Insists on a finding, however its lines are broken.
fn findings(ran: &Output, exit: i32, words: &str) {
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(exit), "{said}");
    let line: Vec<&str> = said.split_whitespace().filter(|word| *word != "│").collect();
    assert!(line.join(" ").contains(words) && !said.contains("hunter2"), "{said}");
}

fn beside(inventory: &Changed, name: &str) -> PathBuf {
    inventory.file().with_file_name(name)
}

/// The home example on a served lab, with another place of its token, and more in its spec.
fn on(served: &Served, secret: &str, more: &str) -> Changed {
    let more = format!("  reach: {{proxy: \"{}\"}}\n\n{more}  network:\n", served.announced("proxy"));
    let by_ca = format!("ca: \"{}\"", served.announced("ca"));
    let factory = format!("version: v1.12.0\n    factoryTls: {{ca: \"{}\"}}", served.announced("ca"));
    let replacements = [
        (FINGERPRINT, by_ca.as_str()),
        (TOKEN, secret),
        ("  network:\n", &more),
        ("version: v1.12.0", &factory),
    ];
    Changed::new("home", &[SMALL, &replacements].concat())
}

/// The Proxmox token is in a SOPS file, opened with any of the keys that sops finds; what is missing is named beside
/// what is there, no other place is looked at, and a variable overrides it where the inventory says so.
/// Mission: H10, F13
#[test]
fn a_secret_is_in_a_sops_file() {
    let (served, keys) = (Served::start(), Keys::new());
    let token = served.token();
    let plans = |ran: &Output| {
        assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
        assert!(!(text(&ran.stdout) + &text(&ran.stderr)).contains(&token), "the token shows");
    };
    let plan = ["plan", "--detailed-exitcode"];
    let reference = |file: &str, key: &str| format!("secret: {{sops: {{file: {file}, key: '{key}'}}}}");
    let yaml = on(&served, &reference("secrets.sops.yaml", "proxmox.token"), "");
    keys.put(&yaml, "secrets.sops.yaml", &format!("# ours\nproxmox:\n  token: {token}\n  other: hunter2\n"));
    plans(&keys.run(&plan, &yaml));
    plans(&keys.bare(&plan, &yaml).env("SOPS_AGE_KEY", keys.text()).output().unwrap());
    plans(&keys.bare(&plan, &yaml).env("DAEDAL_KEY", keys.text()).output().unwrap());
    let json = on(&served, &reference("secrets.json", "hosts[1].token"), "");
    keys.put(
        &json,
        "secrets.json",
        &format!("{{\"hosts\": [{{\"token\": \"x\"}}, {{\"token\": \"{token}\"}}]}}"),
    );
    std::fs::create_dir_all(keys.path("config/sops/age")).unwrap();
    std::fs::copy(keys.file(), keys.path("config/sops/age/keys.txt")).unwrap();
    plans(&keys.bare(&plan, &json).output().unwrap());
    std::fs::remove_file(keys.path("config/sops/age/keys.txt")).unwrap();
    let dotenv = on(&served, &reference("secrets.env", "TOKEN"), "");
    keys.put(&dotenv, "secrets.env", &format!("TOKEN={token}\n"));
    plans(&keys.run(&plan, &dotenv));

    // What is missing is named, and so is what is there; a variable of the usual name is no way around it.
    let wrong = on(&served, &reference("secrets.sops.yaml", "proxmox.tokn"), "");
    let file = keys.put(&wrong, "secrets.sops.yaml", "proxmox:\n  token: hunter2\n  other: hunter2\n");
    let ran = keys.command(&["plan"], &wrong).env("PROXMOX_TOKEN_SECRET", &token).output().unwrap();
    refused(&ran, 78, "there is no key proxmox.tokn; the keys are proxmox.token, proxmox.other");
    assert!(text(&ran.stderr).contains("Did you mean `proxmox.token`?"), "{}", text(&ran.stderr));
    refused(&keys.bare(&["plan"], &wrong).output().unwrap(), 78, &keys.recipient);
    refused(&keys.bare(&["plan"], &wrong).output().unwrap(), 78, "age keys were looked for in");
    let unreadable = keys.bare(&["plan"], &wrong).env("SOPS_AGE_KEY_FILE", "/no/such/keys").output().unwrap();
    refused(&unreadable, 78, "/no/such/keys");
    let closed = std::fs::read_to_string(&file).unwrap();
    let other = closed.lines().filter(|line| !line.contains("other:")).map(|line| format!("{line}\n"));
    std::fs::write(&file, other.collect::<String>()).unwrap();
    refused(&keys.run(&["plan"], &wrong), 78, "was changed by something else than sops");
    std::fs::remove_file(&file).unwrap();
    refused(&keys.run(&["plan"], &wrong), 78, "secrets.sops.yaml");

    let overridden = "secret: {sops: {file: secrets.sops.yaml, key: none}, override: TOKEN_OF_TODAY}";
    let overridden = on(&served, overridden, "");
    keys.put(&overridden, "secrets.sops.yaml", "a: hunter2\n");
    plans(&keys.command(&plan, &overridden).env("TOKEN_OF_TODAY", &token).output().unwrap());
    for set in [None, Some(" ")] {
        let mut command = keys.command(&["plan"], &overridden);
        if let Some(value) = set {
            command.env("TOKEN_OF_TODAY", value);
        }
        refused(&command.output().unwrap(), 78, "Or override it: export TOKEN_OF_TODAY=");
    }
}

/// A program prints the secret; one that fails is quoted, and nothing takes its place.
/// Mission: H10
#[test]
fn a_secret_is_printed_by_a_program() {
    let (served, keys) = (Served::start(), Keys::new());
    let token = served.token();
    let good_one = on(&served, "secret: {command: [cat, token.txt]}", "");
    std::fs::write(beside(&good_one, "token.txt"), format!("{token}\n")).unwrap();
    let ran = keys.run(&["plan", "--detailed-exitcode"], &good_one);
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
    let bad = on(
        &served,
        "secret: {command: [sh, -c, \"echo hunter2; printf 'no \\x1b[31mentry' >&2; exit 3\"]}",
        "",
    );
    let ran = keys.command(&["plan"], &bad).env("PROXMOX_TOKEN_SECRET", &token).output().unwrap();
    refused(&ran, 78, "the command `sh` printed no secret");
    let said = text(&ran.stderr);
    assert!(said.contains("exit code 3") && said.contains("entry") && !said.contains("\u{1b}[31m"), "{said}");
    // Somebody else's inventory runs nothing, and reads nothing outside its folder.
    let marked = on(&served, "secret: {command: [touch, was-run]}", "");
    let ran = keys.run(&["plan", "--untrusted"], &marked);
    refused(&ran, 77, "is printed by a program");
    assert!(!beside(&marked, "was-run").exists());
    let outside = on(&served, "secret: {sops: {file: /etc/passwd, key: a}, override: HOME}", "");
    let ran = keys.run(&["plan", "--untrusted"], &outside);
    refused(&ran, 77, "/etc/passwd is outside the inventory's folder");
    assert!(text(&ran.stderr).contains("HOME is not in `untrusted.variables`"), "{}", text(&ran.stderr));
}

/// Whoever cloned a folder did not agree to what is run in it.
#[test]
fn a_cloned_folder_runs_no_program() {
    let keys = Keys::new();
    keys.allow("[/nowhere]");
    let token = Changed::new("home", &[(TOKEN, "secret: {command: [touch, was-run]}")]);
    let registries =
        "  registries: {ghcr.io: {auth: {username: u, password: {command: [touch, was-run]}}}}\n\n";
    let password = Changed::new("home", &[("  network:\n", &format!("{registries}  network:\n"))]);
    for inventory in [&token, &password] {
        let folder = inventory.file().parent().unwrap().canonicalize().unwrap();
        let ran = keys.run(&["plan"], inventory);
        let said = text(&ran.stderr).replace("│", "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ran.status.code(), Some(78), "{said}");
        assert!(said.contains("your settings do not allow inventories in"), "{said}");
        assert!(said.contains("settings.yaml: allowCommands: [/"), "{said}");
        assert!(!beside(inventory, "was-run").exists());
        keys.allow(&format!("['{}']", folder.display()));
        let ran = keys.run(&["plan"], inventory);
        assert!(text(&ran.stderr).contains("printed nothing"), "{}", text(&ran.stderr));
        assert!(beside(inventory, "was-run").exists());
        keys.allow("false");
    }
}

/// The same references wherever a machine's settings take a secret; each is checked before anything is asked.
/// Mission: H10
#[test]
fn machine_settings_refer_to_sops_files_and_programs() {
    let keys = Keys::new();
    let with = |text: &str| {
        let registries =
            format!("  registries: {{ghcr.io: {{auth: {{username: u, password: {text}}}}}}}\n\n  network:\n");
        let inventory = Changed::new("home", &[("  network:\n", &registries)]);
        keys.put(&inventory, "secrets.sops.yaml", "registry: {password: hunter2, user: hunter2-user}\n");
        inventory
    };
    let check = |text: &str| keys.run(&["check"], &with(text));
    good(&check("{sops: {file: secrets.sops.yaml, key: registry.password}}"));
    good(&check("{command: [echo, hunter2]}"));
    let told = [
        (
            "{sops: {file: secrets.sops.yaml, key: registry.pasword}}",
            78,
            "the keys are registry.password, registry.user",
        ),
        ("{sops: {file: secrets.sops.yaml, key: registry}}", 78, "registry is not a single value"),
        ("{sops: {file: other.sops.yaml, key: a}}", 78, "The key `a` of other.sops.yaml cannot be read"),
        ("{sops: {file: /etc/passwd, key: a}}", 65, "lies outside the inventory's folder"),
        ("{command: [\"false\"]}", 78, "exit code 1"),
        ("{command: []}", 65, "`command` must name a program"),
        ("{command: [a], env: B}", 65, "takes only one of"),
        ("{override: B}", 65, "is incomplete"),
        ("{command: [\"true\"], override: \"b c\"}", 65, "not the name of an environment variable"),
    ];
    for (text, exit, words) in told {
        findings(&check(text), exit, words);
    }
    let overridden = with("{command: [\"false\"], override: REGISTRY_PASSWORD}");
    good(&keys.command(&["check"], &overridden).env("REGISTRY_PASSWORD", "hunter2").output().unwrap());
    findings(&keys.run(&["check"], &overridden), 78, "Or override it: export REGISTRY_PASSWORD=");
    // Commands that make no machine configs say what they lack; nothing is shown.
    let lacking = with("{sops: {file: secrets.sops.yaml, key: nothing}}");
    let shown =
        keys.run(&["inventory", "show"], &with("{sops: {file: secrets.sops.yaml, key: registry.password}}"));
    assert!(!good(&shown).contains("hunter2"));
    let ran = keys.run(&["secrets", "show"], &lacking);
    assert!(text(&ran.stderr).contains("machine configs cannot be made"), "{}", text(&ran.stderr));
    let untrusted = keys.run(&["check", "--untrusted"], &with("{command: [touch, was-run]}"));
    assert_ne!(untrusted.status.code(), Some(0));
    assert!(text(&untrusted.stderr).contains("no program is run"), "{}", text(&untrusted.stderr));
}

const IN_FILE: &str = "  secrets: {sops: secrets.sops.yaml}\n\n  network:\n";

/// The home example with its bundle in a SOPS file, and rules beside it.
fn with_bundle(keys: &Keys, rules: &str) -> Changed {
    let inventory = Changed::new("home", &[("  network:\n", IN_FILE)]);
    let rules = rules.replace("ME", &keys.recipient);
    if !rules.is_empty() {
        std::fs::write(beside(&inventory, ".sops.yaml"), rules).unwrap();
    }
    inventory
}

fn opens(file: &Path, key: &str) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    let identities = Identities::parse(key).unwrap();
    Encrypted::parse(Format::Yaml, &text).unwrap().open(&identities).is_ok()
}

/// The first apply writes the bundle into the SOPS file, by the rules beside it; a machine that has the folder and a key of
/// sops goes on with it.
/// Mission: F13
#[test]
fn a_cluster_is_made_with_its_bundle_in_a_sops_file() {
    let (served, keys) = (Served::start(), Keys::new());
    let token = served.token();
    let secret = "secret: {sops: {file: secrets.sops.yaml, key: proxmox.token}}";
    let inventory = on(&served, secret, "  secrets: {sops: secrets.sops.yaml}\n\n");
    let file =
        keys.put(&inventory, "secrets.sops.yaml", &format!("proxmox: {{token: {token}}} # of daedal\n"));
    let ran = keys.run(&["apply", "--yes"], &inventory);
    good(&ran);
    let closed = std::fs::read_to_string(&file).unwrap();
    let exported = good(&keys.run(&["secrets", "export", "--stdout"], &inventory));
    let bootstrap = exported.lines().find_map(|line| line.trim().strip_prefix("bootstraptoken: ")).unwrap();
    assert!(closed.contains("# of daedal") || closed.contains("ENC["), "{closed}");
    assert!(!closed.contains(bootstrap) && !closed.contains(&token), "{closed}");
    assert!(!beside(&inventory, ".daedal/home/home/secrets.yaml.age").exists());
    // No key of ours was needed, and none was made.
    assert!(!keys.path("own.txt").exists());
    let ran = keys.run(&["plan", "--detailed-exitcode"], &inventory);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stdout));
    let shown = good(&keys.run(&["secrets", "show"], &inventory));
    assert!(shown.contains("secrets.sops.yaml"), "{shown}");
    // Another machine has what is in Git.
    let other = on(&served, secret, "  secrets: {sops: secrets.sops.yaml}\n\n");
    std::fs::copy(&file, beside(&other, "secrets.sops.yaml")).unwrap();
    assert_eq!(good(&keys.run(&["secrets", "export", "--stdout"], &other)), exported);
    let ran = keys.run(&["plan", "--detailed-exitcode"], &other);
    let said = text(&ran.stdout);
    assert!(said.contains("0 to create, 0 to change, 0 to destroy"), "{said}");
    // Who has no key is told whose would do, and nothing is made anew.
    let ran = keys.bare(&["secrets", "show"], &other).output().unwrap();
    refused(&ran, 78, &keys.recipient);
    good(&keys.run(&["destroy", "--confirm", "home"], &inventory));
}

/// A bundle is imported into a SOPS file, moves there from the store, and is encrypted anew by other rules.
/// Mission: F13
#[test]
fn a_bundle_moves_into_a_sops_file_and_is_encrypted_anew() {
    let keys = Keys::new();
    let files = tempfile::tempdir().unwrap();
    let bundle = files.path().join("bundle.yaml");
    write_bundle(&bundle, 1);
    let import = ["secrets", "import", bundle.to_str().unwrap(), "--unchecked"];
    let rules = "creation_rules: [{path_regex: secrets, age: ME}]\n";
    let inventory = with_bundle(&keys, rules);
    let file = beside(&inventory, "secrets.sops.yaml");
    refused(&keys.run(&["secrets", "show"], &inventory), 66, "secrets.sops.yaml yet");
    let said = good(&keys.run(&import, &inventory));
    assert!(said.contains("secrets.sops.yaml"), "{said}");
    let exported = |inventory: &Changed| good(&keys.run(&["secrets", "export", "--stdout"], inventory));
    assert_eq!(exported(&inventory), std::fs::read_to_string(&bundle).unwrap());
    good(&keys.run(&import, &inventory));
    write_bundle(&bundle, 2);
    refused(&keys.run(&import, &inventory), 1, "other secrets of cluster home are kept");

    // Encrypted anew for whom the rules name now.
    let second = Keys::new();
    assert!(!opens(&file, &second.text()));
    let both = format!("creation_rules: [{{age: \"{},{}\"}}]\n", keys.recipient, second.recipient);
    std::fs::write(beside(&inventory, ".sops.yaml"), both).unwrap();
    let before = exported(&inventory);
    std::fs::copy(keys.file(), keys.path("own.txt")).unwrap();
    let said = good(&keys.run(&["secrets", "rekey"], &inventory));
    assert!(said.contains("secrets.sops.yaml") && opens(&file, &second.text()), "{said}");
    assert_eq!(exported(&inventory), before);

    // What the store keeps is not overlooked, and moves.
    let moved = with_bundle(&keys, rules);
    let plain = Changed::new("home", &[]);
    let state = beside(&moved, ".daedal/home");
    let at = |command_line: &[&str], inventory: &Changed| {
        keys.command(command_line, inventory).arg("--state").arg(&state).output().unwrap()
    };
    good(&at(&import, &plain));
    refused(&at(&["secrets", "show"], &moved), 65, "has some");
    let out = files.path().join("out.yaml");
    good(&at(&["secrets", "export", "--to", out.to_str().unwrap()], &plain));
    let said = good(&at(&["secrets", "import", out.to_str().unwrap()], &moved));
    assert!(said.contains("no longer used"), "{said}");
    assert_eq!(good(&at(&["secrets", "export", "--stdout"], &moved)), std::fs::read_to_string(&out).unwrap());

    // Rules that cannot be used, or leave a secret in plain, are refused; so are none at all.
    for (rules, exit, words) in [
        ("", 78, "no .sops.yaml in its folder or above has creation rules"),
        ("creation_rules: [{path_regex: other, age: ME}]\n", 73, "no creation rule of .sops.yaml matches"),
        ("creation_rules: [{age: ME, encrypted_regex: ^crt$}]\n", 73, "in plain; it was not written"),
        ("creation_rules: [{pgp: ABCD}]\n", 73, "only `age` is supported"),
    ] {
        let inventory = with_bundle(&keys, rules);
        let mut command = keys.command(&import, &inventory);
        refused(&command.env("DAEDAL_KEY_FILE", keys.path("none.txt")).output().unwrap(), exit, words);
        assert!(!beside(&inventory, "secrets.sops.yaml").exists());
    }
}

/// Killed at any moment, an import leaves no bundle or the whole one, and the next goes on from there.
#[test]
fn a_killed_import_leaves_no_bundle_or_the_whole_one() {
    let keys = Keys::new();
    let bundle = keys.path("bundle.yaml");
    write_bundle(&bundle, 1);
    let import = ["secrets", "import", bundle.to_str().unwrap(), "--unchecked"];
    let (mut absent, mut whole) = (0, 0);
    for moment in 0..24 {
        let inventory = with_bundle(&keys, "creation_rules: [{age: ME}]\n");
        let mut command = keys.command(&import, &inventory);
        let mut child =
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(moment * 15));
        let _ = child.kill();
        child.wait().unwrap();
        match beside(&inventory, "secrets.sops.yaml").exists() {
            true => whole += 1,
            false => absent += 1,
        }
        good(&keys.run(&import, &inventory));
        let exported = good(&keys.run(&["secrets", "export", "--stdout"], &inventory));
        assert_eq!(exported, std::fs::read_to_string(&bundle).unwrap());
        let names = std::fs::read_dir(beside(&inventory, "")).unwrap().count();
        // The inventory, the rules, the file, the store's folder.
        assert!(names <= 4, "something is left over");
    }
    println!("killed imports\t{absent} before the file, {whole} after it");
}
