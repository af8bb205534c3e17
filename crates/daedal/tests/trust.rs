//! A folder, a file or a peer that comes from somebody else: what it can make the program do, and what not.

use crate::common;

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Changed, Lab, SMALL, command, good, text};

/// Everything that a run said.
fn said(run: &Output) -> String {
    text(&run.stdout) + &text(&run.stderr)
}

/// A command that leaves a trace when it is run.
fn trap(folder: &Path) -> (PathBuf, PathBuf) {
    let (command, trace) = (folder.join("trap"), folder.join("it-ran"));
    std::fs::write(&command, format!("#!/bin/sh\ntouch {}\n", trace.display())).unwrap();
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o700)).unwrap();
    (command, trace)
}

/// A lab's folder can be cloned like any other; what is written in it must not run.
#[test]
fn a_labs_folder_cannot_name_a_command_to_run() {
    let (lab, cluster) = (Lab::new(), Changed::new("home", SMALL));
    let elsewhere = tempfile::tempdir().unwrap();
    let (runner, trace) = trap(elsewhere.path());
    let with = |line: &[&str]| {
        lab.command_on(line, &cluster.file()).arg("--lab-runner").arg(&runner).output().unwrap()
    };
    good(&with(&["plan"]));
    let running = cluster.run(&lab, &["plan"]);
    assert_eq!(running.status.code(), Some(64), "{}", said(&running));
    assert!(said(&running).contains("--lab-runner"), "{}", said(&running));
    good(&command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap());

    let world = lab.dir().join("world.json");
    let kept = std::fs::read_to_string(&world).unwrap();
    assert!(!kept.contains("trap"), "the world names the command");
    let refused = cluster.run(&lab, &["apply", "--yes"]);
    assert!(!refused.status.success());
    assert!(said(&refused).contains("names no --lab-runner"), "{}", said(&refused));

    // As worlds were kept that named it.
    let mut forged: serde_json::Value = serde_json::from_str(&kept).unwrap();
    forged["outside"] = serde_json::json!([{"command": runner, "folder": elsewhere.path()}, {}]);
    std::fs::write(&world, forged.to_string()).unwrap();
    let refused = cluster.run(&lab, &["apply", "--yes"]);
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(!trace.exists(), "the command of the folder ran");
    std::fs::write(&world, kept).unwrap();
    good(&with(&["plan"]));
}

#[test]
fn a_labs_control_file_leads_nowhere_else() {
    let (lab, cluster) = (Lab::new(), Changed::new("home", SMALL));
    std::fs::create_dir(lab.dir()).unwrap();
    let control = lab.dir().join("lab.json");
    let forged = r#"{"pid": 1, "proxy": "192.0.2.1:3128", "control": "192.0.2.1:80", "key": "k", "speed": 1.0,
        "started": "2026-01-01T00:00:00Z"}"#;
    std::fs::write(&control, forged).unwrap();
    for (mode, why) in [(0o644, "other users can read or write it"), (0o600, "it leads to 192.0.2.1:80")] {
        std::fs::set_permissions(&control, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = cluster.run(&lab, &["plan"]);
        assert_eq!(refused.status.code(), Some(69), "{}", said(&refused));
        assert!(said(&refused).contains(why), "{}", said(&refused));
        // What helps names the lab that is meant.
        let reset = format!("daedal lab reset --lab-dir {}", lab.dir().display());
        assert!(said(&refused).contains(&reset), "{}", said(&refused));
    }
    std::fs::write(lab.dir().join("token"), "x").unwrap();
    good(&command(["lab", "reset", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    assert!(!control.exists());
    good(&cluster.run(&lab, &["plan"]));
}

#[test]
fn a_labs_process_gets_no_secret_and_its_folder_is_private() {
    let (lab, cluster) = (Lab::new(), Changed::new("home", SMALL));
    let precious = lab.dir().parent().unwrap().join("precious");
    let dir = lab.dir();
    let run =
        lab.command_on(&["plan"], &cluster.file()).env("SOME_TOKEN", "s3cret-of-mine").output().unwrap();
    good(&run);
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap).filter(|e| e.path().is_file()) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
    let status = good(&command(["lab", "status", "-o", "json", "--lab-dir"]).arg(&dir).output().unwrap());
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let environment = std::fs::read(format!("/proc/{}/environ", status["pid"])).unwrap();
    assert!(!text(&environment).contains("s3cret-of-mine"), "{}", text(&environment));
    good(&command(["lab", "stop", "--lab-dir"]).arg(&dir).output().unwrap());

    // A log or a world that is a link must not cut what it leads to.
    std::fs::write(&precious, "precious").unwrap();
    for name in ["lab.log", "lab.new", "world.new", "last.json"] {
        let _ = std::fs::remove_file(dir.join(name));
        symlink(&precious, dir.join(name)).unwrap();
    }
    good(&cluster.run(&lab, &["plan"]));
    good(&command(["lab", "stop", "--lab-dir"]).arg(&dir).output().unwrap());
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

/// An inventory with these patches beside it, in a folder inside another one.
fn with_patches(patches: &str) -> (tempfile::TempDir, PathBuf) {
    let changed = Changed::new("home", &[("  pools:", &format!("  patches: {patches}\n\n  pools:"))]);
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("cloned");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(changed.file(), folder.join("cluster.yaml")).unwrap();
    (top, folder)
}

fn check(folder: &Path) -> std::process::Command {
    let mut check = command(["check", "-f"]);
    check.arg(folder.join("cluster.yaml")).env("SOME_TOKEN", "s3cret-of-mine");
    check
}

#[test]
fn patches_stay_in_the_inventorys_folder_unless_the_operator_allows_more() {
    for patches in
        ["[{file: /proc/self/environ}]", "[{file: ../p.yaml}]", "[{file: link.yaml}]", "[{folder: up}]"]
    {
        let (top, folder) = with_patches(patches);
        std::fs::write(top.path().join("p.yaml"), "machine: {nodeLabels: {a: b}}\n").unwrap();
        symlink("../p.yaml", folder.join("link.yaml")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        let refused = check(&folder).output().unwrap();
        assert_eq!(refused.status.code(), Some(65), "{patches}: {}", said(&refused));
        assert!(said(&refused).contains("outside the inventory's folder"), "{patches}: {}", said(&refused));
        assert!(!said(&refused).contains("s3cret"), "{}", said(&refused));

        let own = tempfile::tempdir().unwrap();
        let settings = own.path().join("settings.yaml");
        std::fs::write(&settings, "allowOutside: true\n").unwrap();
        let allowed = check(&folder).env("DAEDAL_SETTINGS", &settings).output().unwrap();
        match patches.contains("/proc") {
            true => assert_eq!(allowed.status.code(), Some(65), "{}", said(&allowed)),
            false => drop(good(&allowed)),
        }
        assert!(!said(&allowed).contains("s3cret"), "{}", said(&allowed));
        // The inventory itself cannot allow it.
        std::fs::write(folder.join("settings.yaml"), "allowOutside: true\n").unwrap();
        assert_eq!(check(&folder).current_dir(&folder).output().unwrap().status.code(), Some(65));
    }
}

#[test]
fn a_patch_that_cannot_be_used_shows_no_secret() {
    for (content, line) in [
        ("Password=hunter2;Host=db:\t'5432\n", "line 1"),
        ("Password=hunter2;Host=db: 5432\n", "is not a known key"),
        ("machine:\n  nodeLabels: {a: b\n  hunter2: c\n", "line 3"),
        ("machine: {hunter2: 1}\n", "`machine.***` is not a known key"),
        ("machine: {env: {hunter2: [1]}}\n", "`machine.env.***`"),
        ("apiVersion: v1alpha1\nkind: hunter2\n", "`***` is not a known kind"),
        ("machine: !hunter2 {env: {}}\n", "line 1"),
        ("a: \"${node.hunter2}\"\n", "not a known variable"),
    ] {
        let (_top, folder) = with_patches("[{file: p.yaml}]");
        std::fs::write(folder.join("p.yaml"), content).unwrap();
        for format in ["text", "json"] {
            let run = check(&folder).args(["-o", format]).output().unwrap();
            assert_eq!(run.status.code(), Some(65), "{content}: {}", said(&run));
            assert!(said(&run).contains(line), "{content}: {}", said(&run));
            assert!(!said(&run).contains("hunter2"), "{content}: {}", said(&run));
        }
    }
}

#[test]
fn patches_are_regular_files_of_a_sane_size() {
    let (_top, folder) = with_patches("[{file: p.yaml}]");
    let patch = folder.join("p.yaml");
    std::fs::write(&patch, "a".repeat((1 << 20) + 1)).unwrap();
    assert!(said(&check(&folder).output().unwrap()).contains("larger than 1 MiB"));
    std::fs::remove_file(&patch).unwrap();
    // A pipe that nobody writes to would hold it up for ever.
    let made = std::process::Command::new("mkfifo").arg(&patch).status().unwrap();
    assert!(made.success());
    assert!(said(&check(&folder).output().unwrap()).contains("not a regular file"));
}

/// Whether a terminal would do something with this instead of showing it.
fn does_something(text: &str) -> bool {
    text.chars().any(|c| (c.is_control() && !"\n\t".contains(c)) || "\u{202e}\u{2066}\u{200f}".contains(c))
}

#[test]
fn nothing_from_a_file_reaches_the_terminal_raw() {
    let evil = "name: \"ho\\e]0;owned\\a\\x9b2J\\u202eme\" # \u{202e}\u{2066}";
    let inventory = Changed::new("home", &[("name: home ", evil)]);
    for args in [&["check"][..], &["check", "-o", "json"]] {
        let run = command(args).arg("-f").arg(inventory.file()).output().unwrap();
        assert_eq!(run.status.code(), Some(65), "{}", said(&run));
        assert!(!does_something(&said(&run)) && said(&run).contains("]0;owned"), "{:?}", said(&run));
    }

    // Who holds a lock is written in a file, too.
    let lab = Lab::new();
    let state = lab.dir().join("clusters/home/home");
    std::fs::create_dir_all(&state).unwrap();
    let owner = r#"{"who": "\u001b[2Jme\u009b", "machine": "\u202ehere", "pid": 1, "doing": "\u0007",
        "since": "2026-01-01T00:00:00Z"}"#;
    std::fs::write(state.join("lock"), owner).unwrap();
    let held = std::fs::File::open(state.join("lock")).unwrap();
    held.lock().unwrap();
    let busy = lab.run(&["apply", "--yes"], "home");
    assert_eq!(busy.status.code(), Some(75), "{}", said(&busy));
    assert!(!does_something(&said(&busy)), "{:?}", said(&busy));
    assert!(said(&busy).contains("\\u{1b}[2Jme"), "{}", said(&busy));
}

#[test]
fn nothing_from_a_peer_reaches_the_terminal_raw() {
    use std::io::{Read as _, Write as _};
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reach = format!("  reach: {{proxy: \"http://{}\"}}\n\n  pools:", proxy.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in proxy.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let says = format!("\x1b]0;owned\x07\u{9b}2J\u{202e}{}", "x".repeat(3000));
            let _ = stream.write_all(format!("HTTP/1.1 403 {says}\r\n\r\n").as_bytes());
        }
    });
    let inventory = Changed::new("home", &[("  pools:", &reach)]);
    for more in [&[][..], &["-o", "json"], &["-vv"], &["--color", "always"]] {
        let mut plan = command(["plan", "-f"]);
        plan.arg(inventory.file()).args(more).env("PROXMOX_TOKEN_SECRET", "s3cret-of-mine");
        let run = plan.output().unwrap();
        assert!(!run.status.success());
        let text = said(&run).replace("\x1b[1;31m", "").replace("\x1b[36m", "").replace("\x1b[0m", "");
        assert!(!does_something(&text), "{more:?}: {text:?}");
        assert!(text.contains("owned"), "{more:?}: {text}");
        assert!(!text.contains(&"x".repeat(600)), "{more:?}: it is quoted at length");
    }
}

/// The settings of an operator who lets others change the home example.
const LISTED: &str = "untrusted:
  variables: [PROXMOX_TOKEN_SECRET]
  endpoints: ['https://atlas.lan:8006']
  networks: [10.0.0.0/16]
";

fn untrusted(replacements: &[(&str, &str)], args: &[&str], settings: &str) -> Output {
    let inventory = Changed::new("home", replacements);
    let own = tempfile::tempdir().unwrap();
    std::fs::write(own.path().join("settings.yaml"), settings).unwrap();
    command(args)
        .arg("-f")
        .arg(inventory.file())
        .env("DAEDAL_SETTINGS", own.path().join("settings.yaml"))
        .env("PROXMOX_TOKEN_SECRET", "s3cret-of-mine")
        .env("AWS_SECRET_ACCESS_KEY", "another-s3cret")
        .output()
        .unwrap()
}

/// A merge request can change the inventory; what it reads and contacts is the operator's to say.
#[test]
fn an_untrusted_inventory_reads_and_contacts_only_what_is_listed() {
    let check = |replacements: &[(&str, &str)]| untrusted(replacements, &["check", "--untrusted"], LISTED);
    good(&check(&[]));
    let pools = |more: &str| format!("  {more}\n\n  pools:");
    let leak =
        pools(r#"patches: [{inline: "machine: {nodeLabels: {a: \"${env.AWS_SECRET_ACCESS_KEY}\"}}"}]"#);
    let proxy = pools("reach: {proxy: \"http://192.0.2.1:3128\"}");
    let token = "secret: {env: PROXMOX_TOKEN_SECRET}";
    for (replacement, why) in [
        (("https://atlas.lan:8006", "https://evil.example:8006"), "https://evil.example:8006"),
        (("https://atlas.lan:8006", "https://atlas.lan:8007"), "https://atlas.lan:8007"),
        ((token, "secret: {env: AWS_SECRET_ACCESS_KEY}"), "AWS_SECRET_ACCESS_KEY"),
        ((token, "secret: {file: ~/.ssh/id_ed25519}"), "outside the inventory's folder"),
        ((token, "secret: {file: /proc/self/environ}"), "outside the inventory's folder"),
        (("  pools:", leak.as_str()), "AWS_SECRET_ACCESS_KEY"),
        (("  pools:", proxy.as_str()), "192.0.2.1:3128"),
    ] {
        let refused = check(&[replacement]);
        let said = said(&refused);
        assert_eq!(refused.status.code(), Some(77), "{replacement:?}: {said}");
        assert!(said.contains(why) && !said.contains("s3cret"), "{replacement:?}: {said}");
    }
    let elsewhere = LISTED.replace("10.0.0.0/16", "10.9.0.0/16");
    let refused = untrusted(&[], &["check", "--untrusted"], &elsewhere);
    assert_eq!(refused.status.code(), Some(77), "{}", said(&refused));
    assert!(said(&refused).contains("the address 10.0.0.11 is not in"), "{}", said(&refused));
    // Without a list nothing is allowed.
    assert_eq!(untrusted(&[], &["plan", "--untrusted"], "").status.code(), Some(77));
}

#[test]
fn an_untrusted_inventory_changes_nothing() {
    for args in [&["apply", "--yes"][..], &["destroy", "--confirm", "home"], &["outputs"], &["node", "list"]]
    {
        let run = untrusted(&[], &[args, &["--untrusted"]].concat(), LISTED);
        assert_eq!(run.status.code(), Some(64), "{args:?}: {}", said(&run));
    }
    // A link to a file of the operator's is not read.
    let top = tempfile::tempdir().unwrap();
    std::fs::write(top.path().join("secret"), "token: s3cret-of-mine: x\n").unwrap();
    symlink("secret", top.path().join("cluster.yaml")).unwrap();
    let mut check = command(["check", "-f"]);
    let run = check.arg(top.path().join("cluster.yaml")).env("DAEDAL_UNTRUSTED", "1").output().unwrap();
    assert_eq!(run.status.code(), Some(66), "{}", said(&run));
    assert!(!said(&run).contains("s3cret"), "{}", said(&run));
}

#[test]
fn lock_and_journal_are_not_opened_through_links() {
    let lab = Lab::new();
    let state = lab.dir().join("clusters/home/home");
    std::fs::create_dir_all(&state).unwrap();
    let precious = lab.dir().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    for name in ["lock", "journal.jsonl"] {
        symlink(&precious, state.join(name)).unwrap();
        let run = lab.run(&["apply", "--yes"], "home");
        // Without a lock nothing is done; a journal is for people, and a run goes on without it.
        let refused = !run.status.success() && said(&run).contains("symbolic link");
        assert!(refused || name != "lock", "{}", said(&run));
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious", "{name}");
        std::fs::remove_file(state.join(name)).unwrap();
    }
}

#[test]
fn secrets_in_memory_are_nothing_to_dump() {
    use std::io::BufRead as _;
    let lab = Lab::new();
    // Whatever the shell allows; exec keeps the process.
    let ours = env!("CARGO_BIN_EXE_daedal");
    let serve = format!("ulimit -c 1000; exec {ours} lab serve -o json --lab-dir \"$LAB\"");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &serve]).env("LAB", lab.dir()).stdout(std::process::Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let said = std::io::BufReader::new(child.stdout.take().unwrap()).lines().next();
    assert!(said.is_some(), "it answers once everything is set up");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    drop(lab);
    child.wait().unwrap();
}
