//! The first day with a Proxmox: an account with the least privileges, an inventory that fits, a cluster.

use crate::common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use common::served::Served;
use common::{command, good, text};

/// A command on the served lab as somebody would give it who knows but its address.
fn run(served: &Served, folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = command(words);
    command.current_dir(folder).env_remove("PROXMOX_TOKEN_SECRET").env_remove("PROXMOX_ADMIN_SECRET");
    let reached = ["init", "proxmox"].contains(&words[0]) && !words.contains(&"-f");
    if reached {
        command.args(["--endpoint", "atlas.lan", "--proxy", served.announced("proxy")]);
    }
    command.env("DAEDAL_KEY_FILE", folder.join(KEY)).envs(variables.iter().copied()).output().unwrap()
}

const KEY: &str = "elsewhere/key.txt";

/// What is in an encrypted file.
fn decrypted(folder: &Path, file: &Path) -> String {
    let keys = daedal_store::Keyring::in_file(folder.join(KEY));
    let plain = keys.decrypt(file, &std::fs::read(file).unwrap()).unwrap();
    std::str::from_utf8(plain.expose()).unwrap().trim().to_owned()
}

/// Mission: E15, E19, M9, M14
#[test]
fn from_an_address_to_a_cluster() {
    let served = Served::start();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let password = served.token();
    let root = [("PROXMOX_ADMIN_SECRET", password.as_str())];
    let setup = ["proxmox", "setup", "--token", "robot@pve!day-one", "--host", "atlas", "--pool", "talos"];

    // Nobody is there to compare the fingerprint: it is shown, and nothing was sent.
    let ran = run(&served, here, &setup, &root);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(69), "{said}");
    let shown = said.split_once("--fingerprint ").unwrap().1.trim().to_owned();
    assert_eq!(shown.len(), 95, "{said}");
    let asked = [&setup[..], &["--fingerprint", &shown]].concat();
    let pinned = [&asked[..], &["--yes"]].concat();

    // Nobody is there to ask: the plan is shown, and nothing is done, not even a key made.
    let ran = run(&served, here, &asked, &root);
    let (planned, told) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(64), "{planned}{told}");
    assert!(told.contains("Give --yes") && !here.join(KEY).exists(), "{told}");
    for line in [
        "Plan to set up account robot@pve!day-one\n",
        "  + create role DaedalVM with VM.Allocate, VM.Audit, ",
        "  + create token robot@pve!day-one; its secret goes to proxmox-token.age\n",
        "  + grant role DaedalVM on /pool/talos to robot@pve and its token\n",
        "\nNothing is deleted.\n",
    ] {
        assert!(planned.contains(line), "{planned}");
    }
    let only = run(&served, here, &[&asked[..], &["--plan-only"]].concat(), &root);
    assert_eq!(good(&only), planned);
    // The account, and again: nothing to do. The secret is in its file and nowhere else.
    let ran = run(&served, here, &pinned, &root);
    let said = good(&ran);
    let told = text(&ran.stderr);
    assert!(told.contains("Created the key") && told.contains(KEY) && told.contains("Keep a copy"), "{told}");
    assert!(said.starts_with(&planned), "{said}");
    let (done, next) = said.split_once("\nAccount robot@pve!day-one: ").unwrap().1.split_once('\n').unwrap();
    assert!(
        done.contains("1 user created, 1 token created, ") && done.contains(" permissions granted"),
        "{said}"
    );
    assert!(next.contains("token: {id: \"robot@pve!day-one\", secret: {file: proxmox-token.age}}"), "{said}");
    let kept = here.join("proxmox-token.age");
    let secret = decrypted(here, &kept);
    assert_eq!(secret.len(), 36);
    assert!(!std::fs::read_to_string(&kept).unwrap().contains(&secret));
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!said.contains(&secret));
    // Nothing to do, and nothing to ask.
    let again = good(&run(&served, here, &asked, &root));
    assert!(again.starts_with("No changes: account robot@pve!day-one is as asked for.\n"), "{again}");
    // A token whose secret is elsewhere is not taken away from whoever has it.
    std::fs::remove_file(&kept).unwrap();
    let ran = run(&served, here, &pinned, &root);
    assert!(!ran.status.success() && text(&ran.stderr).contains("--rotate"), "{}", text(&ran.stderr));
    good(&run(&served, here, &[&pinned[..], &["--rotate"]].concat(), &root));
    assert_ne!(decrypted(here, &kept), secret);
    keys_matter(&served, here, &pinned, &root);
    // A wrong password says so.
    let ran = run(&served, here, &pinned, &[("PROXMOX_ADMIN_SECRET", "wrong")]);
    assert_eq!(ran.status.code(), Some(77), "{}", text(&ran.stderr));

    // The inventory, with the certificate pinned; never over another one.
    let init = [
        "init",
        "--token",
        "robot@pve!day-one",
        "--secret-file",
        "proxmox-token.age",
        "--name",
        "first",
        "--pool",
        "talos",
        "--workers",
        "1",
        "--fingerprint",
        &shown,
    ];
    // A name that no cluster can have is refused, and nothing is left behind.
    let misnamed: Vec<&str> =
        init.iter().map(|word| if *word == "first" { "my_first" } else { word }).collect();
    let ran = run(&served, here, &misnamed, &[]);
    assert_eq!(ran.status.code(), Some(65), "{}", text(&ran.stderr));
    assert!(!here.join("cluster.yaml").exists());
    let said = good(&run(&served, here, &init, &[]));
    assert!(said.contains("could not be made (marked ?). Nothing was found that stops an apply."), "{said}");
    let written = std::fs::read_to_string(here.join("cluster.yaml")).unwrap();
    for wanted in [
        &shown,
        "disks: local-lvm",
        "images: local",
        "bridge: vmbr0",
        "cidr: 10.0.0.0/16",
        "secret: {file: \"proxmox-token.age\"}",
        "pool: talos",
    ] {
        assert!(written.contains(wanted), "{written}");
    }
    let uid = written.lines().find_map(|line| line.strip_prefix("  uid: ")).unwrap();
    let uid: uuid::Uuid = uid.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(uid.get_version_num(), 4, "random, not made of the name: {uid}");
    assert!(!written.contains(&decrypted(here, &kept)));
    let ran = run(&served, here, &init, &[]);
    assert_eq!(ran.status.code(), Some(73), "{}", text(&ran.stderr));
    assert_eq!(std::fs::read_to_string(here.join("cluster.yaml")).unwrap(), written);

    // What was written is what it takes: setup finds nothing to add but what it named more widely.
    let file = ["-f", "cluster.yaml"];
    let said = good(&run(&served, here, &[&["check", "--live"][..], &file].concat(), &[]));
    assert!(said.contains("could not be made (marked ?). Nothing was found that stops an apply."), "{said}");
    // The cloud-controller-manager gets an account of its own, which sees the VMs and nothing else.
    let ccm = [&["proxmox", "ccm"][..], &file].concat();
    let ran = run(&served, here, &ccm, &root);
    assert_eq!(ran.status.code(), Some(64), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let said = good(&run(&served, here, &[&ccm[..], &["--yes"]].concat(), &root));
    assert!(said.contains("create role DaedalCCM with VM.Audit\n"), "{said}");
    assert!(
        said.contains("1 role created, 1 user created, 1 token created, 2 permissions granted"),
        "{said}"
    );
    let journal = std::fs::read_to_string(here.join(".daedal/first/first/journal.jsonl")).unwrap();
    assert!(journal.contains("token first-ccm@pve!ccm"), "{journal}");
    let encrypted = here.join(".daedal/first/first/ccm.yaml.age");
    assert_eq!(std::fs::metadata(&encrypted).unwrap().permissions().mode() & 0o777, 0o600);
    let config = good(&run(&served, here, &[&["outputs", "ccm.yaml"][..], &file].concat(), &[]));
    let own = config.split_once("\"token_secret\":\"").unwrap().1.split_once('"').unwrap().0;
    assert!(config.contains("\"token_id\":\"first-ccm@pve!ccm\"") && !said.contains(own), "{said}");
    assert!(!std::fs::read_to_string(&encrypted).unwrap().contains(own));
    let again = good(&run(&served, here, &ccm, &root));
    assert!(again.starts_with("No changes: account first-ccm@pve!ccm is as asked for.\n"), "{again}");
    // With it, an apply would not get far.
    let denied = [
        "init",
        "-f",
        "denied.yaml",
        "--token",
        "first-ccm@pve!ccm",
        "--endpoint",
        "atlas.lan",
        "--proxy",
        served.announced("proxy"),
        "--fingerprint",
        &shown,
    ];
    let ran = run(&served, here, &denied, &[("PROXMOX_TOKEN_SECRET", own)]);
    assert!(!ran.status.success() && text(&ran.stderr).contains("may see"), "{}", text(&ran.stderr));
    // The factory's certificate is signed by the lab's CA, too.
    let ca = [("SSL_CERT_FILE", served.announced("ca"))];
    good(&run(&served, here, &[&["apply", "--yes"][..], &file].concat(), &ca));
    let ran = run(&served, here, &[&["plan", "--detailed-exitcode"][..], &file].concat(), &ca);
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
    another_key(&served, here);
    on_request(&served, here, &pinned, &root);
    let ran = run(&served, here, &[&["plan", "--detailed-exitcode"][..], &file].concat(), &ca);
    assert_eq!(ran.status.code(), Some(0), "what is done on request is no drift: {}", text(&ran.stdout));
    good(&run(&served, here, &[&["destroy", "--confirm", "first"][..], &file].concat(), &ca));
}

/// A token is neither made nor deleted where its secret could not be kept, or cannot be read for want of a key.
fn keys_matter(served: &Served, here: &Path, setup: &[&str], root: &[(&str, &str)]) {
    let key = here.join(KEY);
    let good_one = std::fs::read_to_string(&key).unwrap();
    let rotate = [setup, &["--rotate"]].concat();
    for words in [setup, &rotate] {
        std::fs::write(&key, "rubbish").unwrap();
        let ran = run(served, here, words, root);
        assert_eq!(ran.status.code(), Some(78), "{}", text(&ran.stderr));
    }
    // On another machine.
    std::fs::remove_file(&key).unwrap();
    let ran = run(served, here, setup, root);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(78), "{said}");
    assert!(said.contains("proxmox-token.age is encrypted") && !key.exists(), "{said}");
    // With its key, all is there.
    std::fs::write(&key, good_one).unwrap();
    let again = good(&run(served, here, setup, root));
    assert!(again.starts_with("No changes: "), "{again}");
}

/// Another key opens what is kept, the API token's secret among it.
fn another_key(served: &Served, here: &Path) {
    let key = here.join(KEY);
    let old = std::fs::read_to_string(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    daedal_store::Keyring::in_file(&key).make().unwrap();
    let new = std::fs::read_to_string(&key).unwrap();
    std::fs::write(&key, new.clone() + &old).unwrap();
    // A token that cannot be read stops it before anything is done.
    let (token, aside) = (here.join("proxmox-token.age"), here.join("aside"));
    std::fs::rename(&token, &aside).unwrap();
    std::fs::create_dir(&token).unwrap();
    let kept = || std::fs::read(here.join(".daedal/first/first/secrets.yaml.age")).unwrap();
    let before = kept();
    let ran = run(served, here, &["secrets", "rekey", "-f", "cluster.yaml"], &[]);
    assert_eq!((ran.status.code(), kept()), (Some(66), before), "{}", text(&ran.stderr));
    std::fs::remove_dir(&token).unwrap();
    std::fs::rename(&aside, &token).unwrap();
    let said = good(&run(served, here, &["secrets", "rekey", "-f", "cluster.yaml"], &[]));
    for kept in ["ccm.yaml.age", "secrets.yaml.age", "proxmox-token.age"] {
        assert!(said.contains(kept), "{said}");
    }
    std::fs::write(&key, new).unwrap();
}

/// Firewall, high availability and backups: off until asked for, there once asked for, gone when told.
fn on_request(served: &Served, here: &Path, setup: &[&str], root: &[(&str, &str)]) {
    let asked =
        |words: &[&str]| run(served, here, &[&["proxmox"][..], words, &["-f", "cluster.yaml"]].concat(), &[]);
    let done = |words: &[&str], wanted: &str| {
        // Nobody is there to ask: it is shown, and nothing is done.
        let ran = asked(words);
        let (shown, said) = (text(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(64), "{shown}{said}");
        assert!(shown.contains("Plan to set ") && said.contains("Give --yes"), "{shown}{said}");
        let planned = good(&asked(&[words, &["--plan-only"]].concat()));
        assert_eq!(planned, shown);
        let said = good(&asked(&[words, &["--yes"]].concat()));
        assert!(said.contains(wanted), "{said}");
        // Once done, there is nothing left to do, and nothing to ask.
        let again = good(&asked(words));
        assert!(again.contains("No changes: "), "{again}");
    };
    // Two nodes: on the control plane one rule more.
    done(
        &["firewall", "--allow", "80,443"],
        "2 firewalls turned on, 11 rules created, 2 IP sets created, 8 steps in ",
    );
    done(
        &["firewall", "--allow", "80"],
        "2 firewalls changed, 9 rules created, 11 rules deleted, 2 steps in ",
    );
    // What touches the whole datacenter takes privileges that the account was not given.
    for (words, usage) in [(&["ha"][..], "ha"), (&["backup-job", "--storage", "local"], "backup")] {
        let ran = asked(words);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(77), "{said}");
        assert!(said.contains(&format!("proxmox setup --with {usage} -f cluster.yaml")), "{said}");
    }
    good(&run(served, here, &[setup, &["--with", "ha,backup"]].concat(), root));
    done(&["ha"], "1 HA resource created, 1 step in ");
    done(&["backup-job", "--storage", "local"], "1 backup job created, 1 step in ");
    done(&["backup-job", "--storage", "local", "--keep", "3"], "1 backup job changed, 1 step in ");
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(&good(&asked(&[words, &["-o", "json"]].concat()))).unwrap()
    };
    let told = json(&["backup-job", "--storage", "local", "--keep", "4", "--yes"]);
    let one = serde_json::json!({"create": 0, "change": 1, "remove": 0});
    assert_eq!((&told["changed"], &told["counts"]["objects"]), (&true.into(), &one), "{told}");
    assert_eq!(json(&["backup-job", "--storage", "local", "--keep", "4", "--yes"])["changed"], false);
    let refused = asked(&["backup-job", "--storage", "local-lvm", "--yes"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot take backups") && said.contains("pvesm set local-lvm"), "{said}");
    done(&["ha", "--off"], "1 HA resource removed, 1 step in ");
    done(&["backup-job", "--off"], "1 backup job removed, 1 step in ");
    done(&["firewall", "--off"], "2 firewalls turned off, 9 rules deleted, 2 IP sets deleted, 8 steps in ");
}

#[test]
fn setup_can_be_printed_instead() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |release: &str| {
        let words =
            ["proxmox", "setup", "--print", "--with", "agent", "--pool", "talos", "--release", release];
        good(&command(words).current_dir(folder.path()).output().unwrap())
    };
    let (eight, nine) = (printed("8"), printed("9"));
    assert!(eight.contains("--privs 'VM.Monitor'") && !eight.contains("VM.GuestAgent"), "{eight}");
    assert!(nine.contains("--privs 'VM.GuestAgent.Audit'") && !nine.contains("VM.Monitor"), "{nine}");
    for line in [
        "pveum acl modify /pool/talos --users 'daedal@pve' --roles DaedalVM --propagate 1\n",
        "pveum acl modify /pool/talos --tokens 'daedal@pve!cli' --roles DaedalVM --propagate 1\n",
        "pveum acl modify / --users 'daedal@pve' --roles DaedalTasks --propagate 0\n",
    ] {
        assert!(nine.contains(line), "{nine}");
    }
    let words = ["proxmox", "setup", "--print", "-o", "json", "--pool", "talos"];
    let json = good(&command(words).current_dir(folder.path()).output().unwrap());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["script"].as_str().unwrap().contains("pveum acl modify /pool/talos"), "{json}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let ran = common::daedal(["proxmox", "setup", "--print", "--token", "nonsense"]);
    assert_eq!(ran.status.code(), Some(64));
}

/// What is printed must run, and must run again: the secret that the first run kept is not lost to the second.
#[test]
fn what_setup_prints_can_be_run_twice() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let pveum = here.join("pveum");
    let pretended = r#"#!/bin/sh
case "$*" in
  "user token list "*) if [ -e made ]; then echo '[{"tokenid":"cli"}]'; else echo '[]'; fi ;;
  "user token add "*) if [ -e broken ]; then echo 'no quorum' >&2; exit 2; fi
    touch made; echo '{"full-tokenid":"daedal@pve!cli","value":"s3cret"}' ;;
  *list*) echo '[]' ;;
esac
"#;
    std::fs::write(&pveum, pretended).unwrap();
    std::fs::set_permissions(&pveum, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = good(&command(["proxmox", "setup", "--print"]).current_dir(here).output().unwrap());
    let path = format!("{}:{}", here.display(), std::env::var("PATH").unwrap());
    let run = || {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(here).env("PATH", &path).output().unwrap()
    };
    let token = here.join("proxmox-token");
    let kept = || std::fs::read_to_string(&token).unwrap();

    std::fs::write(&token, "older\n").unwrap();
    std::fs::write(here.join("broken"), "").unwrap();
    let ran = run();
    assert!(!ran.status.success() && text(&ran.stderr).contains("no quorum"), "{}", text(&ran.stderr));
    assert_eq!(kept(), "older\n");
    std::fs::remove_file(here.join("broken")).unwrap();
    std::fs::remove_file(&token).unwrap();

    let first = run();
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert_eq!(kept(), "s3cret\n");
    assert_eq!(std::fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    let said = text(&first.stderr);
    assert!(said.contains("daedal init --token 'daedal@pve!cli' --secret-file proxmox-token\n"), "{said}");
    assert!(!said.contains("s3cret") && first.stdout.is_empty(), "{said}");
    let second = run();
    assert!(second.status.success(), "{}", text(&second.stderr));
    assert!(text(&second.stderr).contains("is there already"), "{}", text(&second.stderr));
    assert_eq!(kept(), "s3cret\n");
}
