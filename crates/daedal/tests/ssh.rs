//! F7, H15: nodes on a network that this machine does not see, reached through SSH on a Proxmox host.

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::served::Served;
use common::{Changed, Lab, SMALL, good, text};
use russh::keys::decode_secret_key;
use russh::keys::key::safe_rng;

/// A lab, a machine that reaches nothing of it but its SSH server and its Image Factory, and the home of whoever sits there.
struct Site {
    served: Served,
    factory: String,
    home: tempfile::TempDir,
    size: &'static [(&'static str, &'static str)],
}

/// A small cluster whose configs are snippets. Whatever declares them declares SSH as well.
const SNIPPETS: &[(&str, &str)] = &[
    ("count: 3 ", "count: 1 "),
    ("count: 2\n", "count: 1\n"),
    ("  pools:\n", "  boot: {config: snippet}\n\n  pools:\n"),
];

impl Site {
    fn new(size: &'static [(&'static str, &'static str)]) -> Self {
        let lab = Lab::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ca = lab.dir().join("ca.pem");
        let factory = format!(
            "version: v1.12.0\n    factory: \"https://127.0.0.1:{port}\"\n    factoryTls: {{ca: \"{}\"}}\n",
            ca.display()
        );
        let edits = [
            ("version: v1.12.0\n", factory.as_str()),
            ("  network:\n", "  reach: {ssh: {host: atlas.lan, user: root}}\n\n  network:\n"),
        ];
        let datacenter = Changed::new("home", &[size, &edits].concat());
        let served = Served::start_in(lab, &datacenter.file());
        Self { served, factory, home: tempfile::tempdir().unwrap(), size }
    }

    fn at(&self) -> SocketAddr {
        self.served.announced("ssh").parse().unwrap()
    }

    /// The example, with the nodes and Proxmox behind SSH.
    fn inventory(&self, ssh: &str) -> Changed {
        let ca = format!("ca: \"{}\"", self.served.announced("ca"));
        let reach = format!("  reach: {{ssh: {{{ssh}, proxmox: true}}}}\n\n  network:\n");
        let edits = [
            ("version: v1.12.0\n", self.factory.as_str()),
            (common::FINGERPRINT, &ca),
            ("  network:\n", &reach),
        ];
        Changed::new("home", &[self.size, &edits].concat())
    }

    /// How the server is named in an inventory, with its key.
    fn by_key(&self, port: u16) -> String {
        format!("host: 127.0.0.1, port: {port}, user: root, key: \"{}\"", self.served.announced("sshKey"))
    }

    /// Makes the server known at a port.
    fn know(&self, port: u16) {
        let line = std::fs::read_to_string(self.served.announced("sshKnownHosts")).unwrap();
        let key = line.split_once(' ').unwrap().1;
        let folder = self.home.path().join(".ssh");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("known_hosts"), format!("[127.0.0.1]:{port} {key}")).unwrap();
    }

    fn command(&self, command_line: &[&str], inventory: &Changed) -> Command {
        let mut command = common::command(command_line);
        command.env("HOME", self.home.path()).env_remove("SSH_AUTH_SOCK").env("USER", "me");
        command.env("PROXMOX_TOKEN_SECRET", self.served.token()).arg("-f").arg(inventory.file());
        command
    }

    fn run(&self, command_line: &[&str], inventory: &Changed) -> Output {
        self.command(command_line, inventory).output().unwrap()
    }
}

/// `boot.config: snippet`: user-data over SFTP, in a real apply and in the lab's own.
#[test]
fn machine_configs_are_snippets_that_go_over_sftp() {
    let site = Site::new(SNIPPETS);
    let port = site.at().port();
    site.know(port);
    let inventory = site.inventory(&site.by_key(port));
    let said = good(&site.run(&["apply", "--yes"], &inventory));
    assert!(said.contains("Cluster home is up: 2 nodes Ready"), "{said}");
    // kubectl alone would not reach the nodes.
    assert!(said.contains(" kubectl -f ") && said.contains(" -- get nodes -o wide"), "{said}");
    assert!(!said.contains("&& kubectl"), "{said}");
    let plan = site.run(&["plan", "--detailed-exitcode"], &inventory);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    good(&site.run(&["destroy", "--confirm", "home"], &inventory));

    // With --lab it is the lab's SSH server, whatever the inventory says of it.
    let lab = Lab::new();
    let reach = [("  network:\n", "  reach: {ssh: {host: atlas.lan, user: root}}\n\n  network:\n")];
    let home = Changed::new("home", &[SNIPPETS, &reach].concat());
    good(&home.run(&lab, &["apply", "--yes"]));
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    good(&common::command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    let world = std::fs::read_to_string(lab.dir().join("world.json")).unwrap();
    let world: serde_json::Value = serde_json::from_str(&world).unwrap();
    let stores = world["datacenter"]["stores"].as_object().unwrap().values();
    let volumes: Vec<&String> =
        stores.flat_map(|store| store["volumes"].as_object().unwrap()).map(|(name, _)| name).collect();
    assert!(volumes.iter().any(|name| name.starts_with("vm-300-disk-")), "{volumes:?}");
    // They hold keys, and so do the drives that were made of them.
    let left = volumes.iter().filter(|name| name.starts_with("snippets/") || name.contains("-cloudinit"));
    assert_eq!(left.count(), 0, "{volumes:?}");
}

/// Mission: H15, F7
#[test]
fn everything_goes_through_ssh_on_a_proxmox_host() {
    let site = Site::new(SMALL);
    let port = site.at().port();
    let inventory = site.inventory(&site.by_key(port));

    // Nobody can be asked whether the host is the right one.
    let ran = site.run(&["plan"], &inventory);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(69), "{said}");
    assert!(
        said.contains(&format!("the host key of root@127.0.0.1:{port} is not known: ssh-ed25519 SHA256:")),
        "{said}"
    );
    assert!(said.contains(&format!("ssh-keyscan -p {port} 127.0.0.1 >> ~/.ssh/known_hosts")), "{said}");

    site.know(port);
    good(&site.run(&["apply", "--yes"], &inventory));
    let status = site.run(&["status", "-o", "json"], &inventory);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["healthy"], true, "{status:#}");
    assert!(good(&site.run(&["plan"], &inventory)).contains("No changes"));

    // Other programs go the same way.
    programs_go_along(&site, &inventory);

    // As `ssh` would go: an alias, and what stands there.
    let config = format!(
        "Host atlas\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {}\n",
        site.served.announced("sshKey")
    );
    std::fs::write(site.home.path().join(".ssh/config"), config).unwrap();
    let by_alias = site.inventory("host: atlas");
    assert!(good(&site.run(&["node", "list"], &by_alias)).contains("cp-1"));

    // A key that opens nothing.
    let other = site.inventory(&format!(
        "host: 127.0.0.1, port: {port}, user: nobody, key: \"{}\"",
        site.served.announced("sshKey")
    ));
    let ran = site.run(&["plan"], &other);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(77), "{said}");
    assert!(said.contains(&format!("the SSH server refuses the login nobody@127.0.0.1:{port}")), "{said}");
    assert!(said.contains("the server takes publickey"), "{said}");
}

/// The private key is in any place that a secret may be in, also encrypted; what is there instead is told without being shown.
/// Mission: H15
#[test]
fn the_ssh_key_is_where_the_inventory_says_and_may_be_encrypted() {
    let site = Site::new(SMALL);
    let port = site.at().port();
    site.know(port);
    let key = std::fs::read_to_string(site.served.announced("sshKey")).unwrap();
    let at = |key: &str| site.inventory(&format!("host: 127.0.0.1, port: {port}, user: root, key: {key}"));
    let plans = |ran: &Output| {
        assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
        assert!(!(text(&ran.stdout) + &text(&ran.stderr)).contains("PRIVATE KEY"), "the key shows");
    };
    let plan = ["plan", "--detailed-exitcode"];
    let by_env = at("{env: SSH_KEY}");
    plans(&site.command(&plan, &by_env).env("SSH_KEY", key.trim()).output().unwrap());
    let ran = site.run(&plan, &by_env);
    assert_eq!(ran.status.code(), Some(78), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("the SSH key for 127.0.0.1 is missing"), "{}", text(&ran.stderr));
    let ran = site.command(&plan, &by_env).env("SSH_KEY", "hunter2").output().unwrap();
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(78), "{said}");
    assert!(said.contains("is no private key") && !said.contains("hunter2"), "{said}");
    let by_file = at("{file: id}");
    std::fs::write(by_file.file().with_file_name("id"), &key).unwrap();
    plans(&site.run(&plan, &by_file));
    let by_command = at("{command: [cat, id]}");
    std::fs::write(by_command.file().with_file_name("id"), &key).unwrap();
    let mut command = site.command(&plan, &by_command);
    plans(&common::allow_commands(&mut command, site.home.path()).output().unwrap());

    // Encrypted, with its passphrase somewhere, with a wrong one, and with nobody to ask.
    let private = decode_secret_key(&key, None).unwrap();
    let closed = private.encrypt(&mut safe_rng(), "s3cret phrase").unwrap();
    let closed = closed.to_openssh(Default::default()).unwrap();
    let with_phrase = at("{env: SSH_KEY}, passphrase: {env: SSH_PHRASE}");
    let mut command = site.command(&plan, &with_phrase);
    plans(&command.env("SSH_KEY", closed.as_str()).env("SSH_PHRASE", "s3cret phrase").output().unwrap());
    let mut command = site.command(&plan, &with_phrase);
    let ran = command.env("SSH_KEY", closed.as_str()).env("SSH_PHRASE", "wrong").output().unwrap();
    assert_ne!(ran.status.code(), Some(2), "{}", text(&ran.stdout));
    let ran = site.command(&plan, &by_env).env("SSH_KEY", closed.as_str()).output().unwrap();
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(78), "{said}");
    assert!(said.contains("passphrase"), "{said}");
}

/// A proxy for other programs leads to the cluster and to nothing else; kubectl and talosctl are told of it.
fn programs_go_along(site: &Site, inventory: &Changed) {
    use std::io::BufRead as _;
    let mut child = site
        .command(&["proxy", "-o", "json"], inventory)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    for line in std::io::BufReader::new(child.stdout.take().unwrap()).lines() {
        said.push_str(&line.unwrap());
        if said.ends_with('}') {
            break;
        }
    }
    let announced: serde_json::Value = serde_json::from_str(&said).unwrap();
    let proxy = daedal_dial::Proxy::parse(announced["proxy"].as_str().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dial = |host: &str, port| {
        let target = daedal_dial::Target::new(host, port);
        runtime
            .block_on(daedal_dial::Dial::dial(&proxy, &target))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    dial("10.0.0.11", 50_000).unwrap();
    dial("10.0.0.20", 6443).unwrap();
    dial("atlas.lan", 8006).unwrap();
    for (host, port) in [("127.0.0.1", site.at().port()), ("nas.lan", 443), ("atlas.lan", 22)] {
        let refused = dial(host, port).unwrap_err();
        assert!(refused.contains("502 Bad Gateway"), "{refused}");
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let bin = site.home.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for program in ["kubectl", "talosctl"] {
        use std::os::unix::fs::PermissionsExt as _;
        let script = "#!/bin/sh\necho \"$HTTPS_PROXY $NO_PROXY $KUBECONFIG $TALOSCONFIG $*\"\nexit 7\n";
        std::fs::write(bin.join(program), script).unwrap();
        std::fs::set_permissions(bin.join(program), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = site.command(&[program], inventory);
        command.args(["--", "get", "nodes"]).env("PATH", &bin).env("NO_PROXY", "10.0.0.0/8");
        let ran = command.output().unwrap();
        let said = text(&ran.stdout);
        assert_eq!(ran.status.code(), Some(7), "{said}{}", text(&ran.stderr));
        let words: Vec<&str> = said.split_whitespace().collect();
        let [proxy, kubeconfig, talosconfig, "get", "nodes"] = words[..] else { panic!("{said}") };
        assert!(proxy.starts_with("http://127.0.0.1:"), "{said}");
        assert!(
            kubeconfig.ends_with("/outputs/kubeconfig") && talosconfig.ends_with("/outputs/talosconfig"),
            "{said}"
        );
    }
    let mut command = site.command(&["kubectl"], inventory);
    let ran = command.env("PATH", site.home.path()).output().unwrap();
    assert_eq!(ran.status.code(), Some(66), "{}", text(&ran.stderr));
}

/// Passes connections on to a server, and cuts each after some bytes: every one somewhere else.
struct Cutter {
    port: u16,
    cuts: Arc<AtomicUsize>,
}

impl Cutter {
    fn before(server: SocketAddr, budgets: Vec<usize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(AtomicUsize::new(0));
        let counted = cuts.clone();
        std::thread::spawn(move || {
            let mut budgets = budgets.into_iter();
            for client in listener.incoming().flatten() {
                // At last the line holds.
                let budget = budgets.next().unwrap_or(usize::MAX);
                let counted = counted.clone();
                std::thread::spawn(move || pass(&client, server, budget, &counted));
            }
        });
        Self { port, cuts }
    }
}

fn pass(client: &TcpStream, server: SocketAddr, budget: usize, cuts: &AtomicUsize) {
    let Ok(server) = TcpStream::connect(server) else { return };
    let (mut inwards, mut outwards) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut inwards, &mut outwards);
        let _ = outwards.shutdown(Shutdown::Both);
    });
    let (mut from, mut to, mut left) = (&server, client, budget);
    let mut buffer = [0; 4096];
    while left > 0 {
        let most = buffer.len().min(left);
        let Ok(n @ 1..) = from.read(&mut buffer[..most]) else { break };
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
        left -= n;
    }
    if left == 0 {
        cuts.fetch_add(1, Ordering::SeqCst);
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

/// The connection is cut again and again, in the handshake and in the middle of everything: what is left converges, and etcd is
/// bootstrapped once.
/// Mission: F7
#[test]
fn an_apply_survives_a_connection_that_is_cut_again_and_again() {
    let site = Site::new(&[("count: 2\n", "count: 0\n")]);
    let budgets: Vec<usize> = (0..60).map(|n: usize| 1_200 + (n * 1753) % 9_000).collect();
    let cutter = Cutter::before(site.at(), budgets);
    site.know(cutter.port);
    let inventory = site.inventory(&site.by_key(cutter.port));
    let mut runs = 0;
    loop {
        runs += 1;
        let ran = site.run(&["apply", "--yes"], &inventory);
        if ran.status.success() {
            break;
        }
        let said = text(&ran.stderr);
        assert!(matches!(ran.status.code(), Some(1 | 69)), "{said}");
        assert!(runs < 60, "it does not converge: {said}");
    }
    let cuts = cutter.cuts.load(Ordering::SeqCst);
    assert!(cuts >= 20, "the line was cut only {cuts} times in {runs} runs");
    let status = site.run(&["status", "-o", "json"], &inventory);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["healthy"], true, "{status:#}");
    assert!(good(&site.run(&["plan"], &inventory)).contains("No changes"));
    assert_eq!(site.served.world()["machines"]["last_cluster"], 1, "etcd was bootstrapped once");
}

/// Passes connections on to a server, until all that are open are cut at once.
struct Line {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Line {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = open.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(server) else { continue };
                let ends = [near.try_clone().unwrap(), far.try_clone().unwrap()];
                kept.lock().unwrap().extend(ends);
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
                {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { port, open }
    }

    fn cut(&self) {
        for end in self.open.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// Applies, and cuts the line when the `nth` step begins, and again until it is done. Whether there was such a step.
fn apply_cut_at(site: &Site, inventory: &Changed, line: &Line, nth: usize) -> bool {
    use std::io::BufRead as _;
    let mut apply = site.command(&["apply", "--yes", "-o", "json"], inventory);
    let mut apply =
        apply.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut begun = 0;
    for event in std::io::BufReader::new(apply.stderr.take().unwrap()).lines().map(Result::unwrap) {
        if event.contains("\"stepStarted\"") {
            if begun == nth {
                line.cut();
            }
            begun += 1;
        }
    }
    let mut code = apply.wait().unwrap().code();
    for again in 0.. {
        if code == Some(0) {
            break;
        }
        assert!(matches!(code, Some(1 | 69)) && again < 10, "cut at step {nth}: exit {code:?}");
        code = site.run(&["apply", "--yes"], inventory).status.code();
    }
    begun > nth
}

/// The line is cut as each step begins, a sample of them unless `DAEDAL_PROOF=full`: the cluster is the declared one in the end, and etcd
/// was bootstrapped once.
/// Mission: F7
#[test]
fn an_apply_survives_a_cut_at_every_step() {
    let site = Site::new(&[("count: 3 ", "count: 1 "), ("count: 2\n", "count: 0\n")]);
    let line = Line::to(site.at());
    site.know(line.port);
    let inventory = site.inventory(&site.by_key(line.port));
    let every = if std::env::var("DAEDAL_PROOF").is_ok_and(|proof| proof == "full") { 1 } else { 4 };
    let mut made = 0;
    loop {
        let cut = apply_cut_at(&site, &inventory, &line, made * every);
        made += 1;
        let plan = site.run(&["plan", "--detailed-exitcode"], &inventory);
        assert_eq!(plan.status.code(), Some(0), "{}{}", text(&plan.stdout), text(&plan.stderr));
        good(&site.run(&["destroy", "--confirm", "home"], &inventory));
        if !cut {
            break;
        }
    }
    assert!((made - 1) * every >= 8, "an apply has more steps than {}", made * every);
    assert_eq!(
        site.served.world()["machines"]["last_cluster"],
        made,
        "etcd was bootstrapped once in each cluster"
    );
}
