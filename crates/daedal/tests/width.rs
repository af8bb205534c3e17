//! Text fits the terminal: whatever is not a command to paste is broken at 80 columns.

use crate::common;

use std::process::Command;

use common::{Changed, Lab, SMALL, command, text};

const COLUMNS: usize = 80;

/// Runs it as on a terminal of 80 columns, and insists that what it says fits.
#[track_caller]
fn fits(run: &mut Command) -> String {
    let run = run.env("COLUMNS", COLUMNS.to_string()).output().unwrap();
    let said = text(&run.stdout) + &text(&run.stderr);
    assert!(!said.trim().is_empty(), "it says nothing");
    let wide: Vec<&str> = said.lines().filter(|line| width(line) > COLUMNS && !is_whole(line)).collect();
    assert!(wide.is_empty(), "{wide:#?}\n{said}");
    said
}

fn width(line: &str) -> usize {
    line.chars().count()
}

/// Whether a line is what cannot be broken: a command, something in backticks, or one word, each after a label at most.
fn is_whole(line: &str) -> bool {
    let line = line.trim_start();
    let begins = |line: &str| {
        let word = line.split(' ').next().unwrap_or_default();
        let program = word.trim_start_matches('(').rsplit('/').next().unwrap_or_default();
        ["daedal", "eval", "export", "openssl", "pvesm", "pveum", "qm"].contains(&program)
            || line.starts_with('`')
            || word == line.trim_end()
    };
    begins(line) || line.split_once(": ").is_some_and(|(label, rest)| !label.contains(' ') && begins(rest))
}

#[test]
fn what_the_commands_say_fits_80_columns() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    let say = |words: &[&str]| fits(&mut lab.command_on(words, &small.file()));
    for words in [&["check"][..], &["check", "--live"], &["status"], &["plan"], &["node", "show", "cp-1"]] {
        say(words);
    }
    let said = say(&["apply", "--yes"]);
    assert!(said.contains("Cluster home is up"), "{said}");
    let empty = lab.dir().with_file_name("a-folder-with-nothing-in-it").display().to_string();
    for words in [
        &["status"][..],
        &["status", "--state", &empty],
        &["plan", "--state", &empty],
        &["node", "list"],
        &["node", "show", "cp-1"],
        &["node", "show", "cp-1", "--state", &empty],
        &["node", "show", "cp-9"],
        &["node", "mark", "cp-1"],
        &["node", "remove", "worker-9"],
        &["templates", "list"],
        &["templates", "prune"],
        &["volumes", "list"],
        &["volumes", "prune"],
        &["outputs"],
        &["env"],
        &["secrets", "show"],
        &["secrets", "show", "--state", &empty],
        &["backup", "list"],
        &["check", "--live"],
        &["destroy"],
    ] {
        say(words);
    }
    // Something is wrong with the world, and with the inventory.
    lab.tamper(|world| {
        world["datacenter"]["vms"]["303"]["config"]["description"] = "my notes".into();
        let pool = &mut world["datacenter"]["stores"]["atlas/local-lvm"];
        pool["others"] = (pool["total"].as_u64().unwrap() - (8 << 30)).into();
        let left = pool["volumes"]["vm-300-disk-0"].clone();
        pool["volumes"]["vm-300-disk-7"] = left;
    });
    for words in [
        &["status"][..],
        &["plan"],
        &["check", "--live"],
        &["node", "show", "worker-1"],
        &["volumes", "list"],
    ] {
        say(words);
    }
    say(&["destroy", "--confirm", "home"]);
    fits(command(["lab", "status", "--lab-dir"]).arg(lab.dir()));
    let wrong = Changed::new(
        "home",
        &[("role: worker\n", "role: master\n"), ("cidr: 10.0.0.0/16", "cidr: 10.0.0.0/99")],
    );
    fits(&mut lab.command_on(&["check"], &wrong.file()));
    let nowhere = Changed::new("home", &[("https://atlas.lan:8006", "https://127.0.0.1:1")]);
    fits(command(["plan", "-f"]).arg(nowhere.file()).env("PROXMOX_TOKEN_SECRET", "x"));
    fits(&mut command([
        "status",
        "-f",
        "/no/such/folder/with/a/long/name/and/no/inventory/in/it/cluster.yaml",
    ]));
    fits(command(["lab", "stop", "--lab-dir"]).arg(lab.dir()));
}

/// Every command's help, found by asking each for its subcommands.
#[test]
fn help_fits_80_columns() {
    let mut asked = vec![Vec::<String>::new()];
    let mut seen = 0;
    while let Some(words) = asked.pop() {
        seen += 1;
        let said = fits(command(&words).arg("--help"));
        let commands = said.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in commands.take_while(|line| line.starts_with("  ")) {
            let name = line.split_whitespace().next().unwrap_or_default();
            if !line.starts_with("   ") && name != "help" {
                asked.push([&words[..], &[name.to_owned()]].concat());
            }
        }
    }
    assert!(seen > 40, "{seen} commands");
}
