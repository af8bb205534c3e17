//! Runs the suites that compare us with real peers, and says which were skipped because a peer is not there.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use crate::{built, cargo, peers};

/// A suite: tests that need a peer, and how to tell that it is there.
struct Suite {
    name: &'static str,
    what: &'static str,
    peer: fn() -> Option<PathBuf>,
    /// The variable in which the tests are told where the peer is, where they do not look for it themselves.
    told_in: Option<&'static str>,
    /// What to do where the peer is not there.
    wanted: &'static str,
    run: Way,
    /// What runs instead under `--built-only`, where every change waits for it and nothing may be downloaded.
    quick: Option<Way>,
}

/// How a suite is run.
#[derive(Clone, Copy)]
enum Way {
    /// Tests of a package (the name of its folder), or only those with one of these in their names.
    Tests { package: &'static str, name: &'static str, only: &'static [&'static str] },
    /// A program of a package.
    Example { package: &'static str, name: &'static str, release: bool, args: &'static [&'static str] },
}

impl Way {
    /// Builds it with the workspace, and gives the command that runs it.
    fn command(self) -> Result<Command, String> {
        let mut build = cargo();
        let (package, name) = match self {
            Self::Tests { package, name, .. } => {
                build.args(["test", "--no-run", "--workspace", "--test", name]);
                (package, name)
            }
            Self::Example { package, name, release, .. } => {
                build.args(["build", "--workspace", "--example", name]).args(release.then_some("--release"));
                (package, name)
            }
        };
        let label = format!("{package}/{name}");
        let built = built::build(&mut build)?.into_iter().find(|binary| binary.label == label);
        let mut command = built.ok_or_else(|| format!("cargo built no {label}"))?.command();
        match self {
            Self::Tests { only, .. } => command.args(["--nocapture", "--include-ignored"]).args(only),
            Self::Example { args, .. } => command.args(args),
        };
        Ok(command)
    }
}

/// How a suite went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything was compared and is the same.
    Agrees,
    /// What was compared is the same, but something was skipped.
    InPart,
    /// Something is not the same.
    Differs,
    /// The peer is not there.
    Missing,
}

impl Verdict {
    fn of(success: bool, skipped: bool) -> Self {
        match (success, skipped) {
            (false, _) => Self::Differs,
            (true, true) => Self::InPart,
            (true, false) => Self::Agrees,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::InPart => "agrees in part: something was skipped",
            Self::Differs => "DIFFERS",
            Self::Missing => "skipped",
        }
    }

    /// Whether it is good enough; with `built_only`, what could not be compared is no failure.
    fn passes(self, built_only: bool) -> bool {
        match self {
            Self::Agrees => true,
            Self::Differs => false,
            Self::InPart | Self::Missing => built_only,
        }
    }
}

fn kubectl() -> Option<PathBuf> {
    peers::on_path("kubectl").or_else(|| peers::built("kubernetes-", "kubectl"))
}

/// The SSH server, unpacked or installed, where its client's tools are on the PATH.
fn openssh() -> Option<PathBuf> {
    peers::on_path("ssh-keygen").and(peers::on_path("ssh-agent"))?;
    let installed = Some(PathBuf::from("/usr/sbin/sshd")).filter(|sshd| sshd.is_file());
    peers::built("openssh-", "usr/sbin/sshd").or(installed)
}

const SUITES: &[Suite] = &[
    Suite {
        name: "talos",
        what: "secrets, machine configs and patches beside Talos's own library",
        peer: || peers::built("config-tool-", "config-tool"),
        told_in: None,
        wanted: "build config-tool",
        run: Way::Tests { package: "talos-config", name: "conformance", only: &[] },
        quick: None,
    },
    Suite {
        name: "factory",
        what: "schematic ids beside the Image Factory's own library",
        peer: || peers::built("schematic-id-", "schematic-id"),
        told_in: None,
        wanted: "build schematic-id",
        run: Way::Tests { package: "talos-image", name: "conformance", only: &[] },
        quick: None,
    },
    Suite {
        name: "proxmox-client",
        what: "recorded answers of the real API, as the client reads them",
        peer: || peers::proxmox_data().filter(|data| data.is_dir()),
        told_in: None,
        wanted: "set DAEDAL_PROXMOX_DATA to a folder of recorded exchanges",
        run: Way::Tests { package: "proxmox", name: "suite", only: &["recordings::"] },
        quick: None,
    },
    Suite {
        name: "proxmox",
        what: "recorded exchanges with the real API and the refusals of its schema, against the lab",
        peer: || peers::proxmox_data().filter(|data| data.is_dir()),
        told_in: None,
        wanted: "set DAEDAL_PROXMOX_DATA to a folder of recorded exchanges",
        run: Way::Tests { package: "lab", name: "proxmox", only: &["replay::", "schema::"] },
        quick: None,
    },
    Suite {
        name: "proxmox-schema",
        what: "every request of the client beside the public API schemas of 8.4 and 9.1",
        peer: || peers::proxmox_data().filter(|data| data.is_dir()),
        told_in: None,
        wanted: "set DAEDAL_PROXMOX_DATA to a folder of API schemas",
        run: Way::Tests { package: "proxmox", name: "suite", only: &["requests::"] },
        quick: None,
    },
    Suite {
        name: "proxmoxer",
        what: "unmodified proxmoxer (Python) against a served lab",
        peer: || peers::built("proxmoxer-", "bin/python"),
        told_in: Some("DAEDAL_PROXMOXER"),
        wanted: "build proxmoxer (CONTRIBUTING.md)",
        run: Way::Tests { package: "daedal", name: "cli", only: &["proxmox_clients::proxmoxer"] },
        quick: None,
    },
    Suite {
        name: "go-proxmox",
        what: "unmodified go-proxmox against a served lab",
        peer: || peers::built("go-proxmox-", "go-proxmox"),
        told_in: Some("DAEDAL_GO_PROXMOX"),
        wanted: "build go-proxmox (CONTRIBUTING.md)",
        run: Way::Tests { package: "daedal", name: "cli", only: &["proxmox_clients::go_proxmox"] },
        quick: None,
    },
    Suite {
        name: "ansible",
        what: "the unmodified community.proxmox modules of Ansible against a served lab",
        peer: || peers::built("ansible-", "bin/ansible-playbook"),
        told_in: Some("DAEDAL_ANSIBLE"),
        wanted: "build ansible (CONTRIBUTING.md)",
        run: Way::Tests { package: "daedal", name: "cli", only: &["proxmox_clients::ansible"] },
        quick: None,
    },
    Suite {
        name: "terraform",
        what: "the unmodified bpg provider of Terraform, under OpenTofu, against a served lab",
        peer: || peers::built("opentofu-", "tofu"),
        told_in: Some("DAEDAL_TOFU"),
        wanted: "build opentofu and the provider (CONTRIBUTING.md)",
        run: Way::Tests { package: "daedal", name: "cli", only: &["proxmox_clients::terraform"] },
        quick: None,
    },
    Suite {
        name: "helm",
        what: "real charts and 10,000 generated template snippets beside helm template",
        peer: || peers::built("helm-v3.", "helm"),
        told_in: None,
        wanted: "build helm",
        run: Way::Example { package: "helm", name: "conformance", release: true, args: &[] },
        quick: Some(Way::Example {
            package: "helm",
            name: "conformance",
            release: false,
            args: &["--offline", "1000"],
        }),
    },
    Suite {
        name: "helm4",
        what: "the same beside helm template of Helm 4",
        peer: || peers::built("helm-v4.", "helm"),
        told_in: None,
        wanted: "build helm 4",
        run: Way::Example { package: "helm", name: "conformance", release: true, args: &["--helm4"] },
        quick: None,
    },
    Suite {
        name: "certificates",
        what: "keys and certificates that charts make, read and verified by OpenSSL and Go",
        peer: || peers::on_path("openssl").filter(|_| peers::on_path("go").is_some()),
        told_in: Some("DAEDAL_OPENSSL"),
        wanted: "install openssl and go",
        run: Way::Tests { package: "helm", name: "suite", only: &["real_verifiers::"] },
        quick: None,
    },
    Suite {
        name: "s3",
        what: "a store in versitygw, and its refusal where that ignores conditional writes",
        peer: || peers::built("versitygw-", "versitygw"),
        told_in: Some("DAEDAL_VERSITYGW"),
        wanted: "build versitygw (CONTRIBUTING.md)",
        run: Way::Tests { package: "store", name: "real_s3", only: &["versitygw"] },
        quick: None,
    },
    Suite {
        name: "s3-moto",
        what: "a store in moto",
        peer: || peers::built("moto-", "bin/moto_server"),
        told_in: Some("DAEDAL_MOTO"),
        wanted: "build moto (CONTRIBUTING.md)",
        run: Way::Tests { package: "store", name: "real_s3", only: &["moto"] },
        quick: None,
    },
    Suite {
        name: "vault",
        what: "secrets and a store in a real Vault, by token, AppRole and JWT",
        peer: || peers::built("vault-", "vault-peer"),
        told_in: Some("DAEDAL_VAULT"),
        wanted: "build vault-peer (CONTRIBUTING.md)",
        run: Way::Tests { package: "store", name: "real_vault", only: &[] },
        quick: None,
    },
    Suite {
        name: "age",
        what: "unmodified age opens what is encrypted at rest, and the other way round",
        peer: || peers::built("age-", "age"),
        told_in: Some("DAEDAL_AGE"),
        wanted: "build age (CONTRIBUTING.md)",
        run: Way::Tests { package: "store", name: "real_age", only: &[] },
        quick: None,
    },
    Suite {
        name: "sops",
        what: "unmodified sops and ours open, edit and refuse each other's files: YAML, JSON, dotenv, any bytes",
        peer: || peers::built("sops-", "sops"),
        told_in: Some("DAEDAL_SOPS"),
        wanted: "build sops (CONTRIBUTING.md)",
        run: Way::Tests { package: "sops", name: "real_sops", only: &[] },
        quick: None,
    },
    Suite {
        name: "sops-bundle",
        what: "unmodified sops opens and edits the secrets bundle that is kept in a SOPS file",
        peer: || peers::built("sops-", "sops"),
        told_in: Some("DAEDAL_SOPS"),
        wanted: "build sops (CONTRIBUTING.md)",
        run: Way::Tests { package: "store", name: "sops_bundle", only: &["the_real_sops"] },
        quick: None,
    },
    Suite {
        name: "ssh",
        what: "OpenSSH's server, agent and known_hosts beside ours",
        peer: openssh,
        told_in: Some("DAEDAL_SSHD"),
        wanted: "install openssh-server and openssh-client, or unpack the first (CONTRIBUTING.md)",
        run: Way::Tests { package: "ssh", name: "openssh", only: &[] },
        quick: None,
    },
    Suite {
        name: "addons",
        what: "comparisons, sets and readiness of add-ons beside a real API server and kubectl",
        peer: || peers::built("kubernetes-", "kube-apiserver").and(peers::built("etcd-v", "etcd")),
        told_in: None,
        wanted: "build etcd and kubernetes",
        run: Way::Tests { package: "addons", name: "real_kubernetes", only: &[] },
        quick: None,
    },
    Suite {
        name: "kubectl",
        what: "unmodified kubectl against a served lab",
        peer: kubectl,
        told_in: Some("DAEDAL_KUBECTL"),
        wanted: "install or build kubectl",
        run: Way::Tests { package: "daedal", name: "cli", only: &["real_clients::real_kubectl"] },
        quick: None,
    },
    Suite {
        name: "talosctl",
        what: "unmodified talosctl against a served lab",
        peer: || peers::built("talos-v1.12", "talosctl"),
        told_in: Some("DAEDAL_TALOSCTL"),
        wanted: "build talosctl v1.12",
        run: Way::Tests { package: "daedal", name: "cli", only: &["real_talosctl::talosctl_1_12"] },
        quick: None,
    },
    Suite {
        name: "talosctl-1.13",
        what: "the same of version 1.13",
        peer: || peers::built("talos-v1.13", "talosctl"),
        told_in: Some("DAEDAL_TALOSCTL_1_13"),
        wanted: "build talosctl v1.13",
        run: Way::Tests { package: "daedal", name: "cli", only: &["real_talosctl::talosctl_1_13"] },
        quick: None,
    },
    Suite {
        name: "nodes",
        what: "an ordinary apply that ends on real Talos nodes",
        peer: || kit("talos-v1.12"),
        told_in: Some("DAEDAL_REAL_PEERS"),
        wanted: "build talos v1.12, and set DAEDAL_REAL_PEERS to the kit that runs it",
        run: Way::Tests { package: "daedal", name: "cli", only: &["on_real_nodes_of_1_12"] },
        quick: None,
    },
    Suite {
        name: "nodes-1.13",
        what: "the same of version 1.13",
        peer: || kit("talos-v1.13"),
        told_in: Some("DAEDAL_REAL_PEERS"),
        wanted: "build talos v1.13, and set DAEDAL_REAL_PEERS to the kit that runs it",
        run: Way::Tests { package: "daedal", name: "cli", only: &["on_real_nodes_of_1_13"] },
        quick: None,
    },
    Suite {
        name: "nodes-authority",
        what: "real nodes of both versions whose authority of Kubernetes changes",
        peer: || kit("talos-v1.12").and(kit("talos-v1.13")),
        told_in: Some("DAEDAL_REAL_PEERS"),
        wanted: "build talos v1.12 and v1.13, and set DAEDAL_REAL_PEERS to the kit that runs it",
        run: Way::Tests {
            package: "daedal",
            name: "cli",
            only: &["the_authority_of_kubernetes_changes_on_real_nodes"],
        },
        quick: None,
    },
];

/// The kit that runs real nodes, where it is named and these nodes are built.
fn kit(nodes: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DAEDAL_REAL_PEERS").map(PathBuf::from);
    peers::built(nodes, "machined")?;
    named.or_else(|| peers::on_path("real-peers")).filter(|kit| kit.is_file())
}

/// Runs the named suites, or all.
pub fn run(args: &[String]) -> ExitCode {
    let built_only = args.iter().any(|a| a == "--built-only");
    let wanted: Vec<&String> = args.iter().filter(|a| !a.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|name| !SUITES.iter().any(|s| s.name == name.as_str())) {
        let known: Vec<_> = SUITES.iter().map(|s| s.name).collect();
        eprintln!("no suite is called '{unknown}'; there are: {}", known.join(", "));
        return ExitCode::from(64);
    }
    let mut results = Vec::new();
    for suite in SUITES.iter().filter(|s| wanted.is_empty() || wanted.iter().any(|w| w.as_str() == s.name)) {
        println!("\n==> {}: {}", suite.name, suite.what);
        let (verdict, reasons) = match (suite.peer)() {
            None => {
                println!("skipped: not on this machine: {}", suite.wanted);
                (Verdict::Missing, Vec::new())
            }
            Some(peer) => {
                println!("beside {}", peer.display());
                match suite.quick.filter(|_| built_only).unwrap_or(suite.run).command() {
                    Err(problem) => (Verdict::Differs, vec![problem]),
                    Ok(mut command) => {
                        command.env("DAEDAL_PEERS", peers::folder());
                        // Some tests ask a second peer, if it is there.
                        command.envs(kubectl().map(|kubectl| ("DAEDAL_KUBECTL", kubectl)));
                        command.envs(suite.told_in.map(|variable| (variable, peer)));
                        compared(&mut command)
                    }
                }
            }
        };
        results.push((suite, verdict, reasons));
    }
    println!("\n{:<15} verdict", "suite");
    for (suite, verdict, reasons) in &results {
        let help = match verdict {
            Verdict::Missing => format!(", not on this machine: {}", suite.wanted),
            _ => String::new(),
        };
        println!("{:<15} {}{help}", suite.name, verdict.text());
        for reason in reasons.iter().filter(|_| *verdict == Verdict::Differs) {
            println!("    {reason}");
        }
    }
    if results.iter().all(|(_, verdict, _)| verdict.passes(built_only)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs a suite, shows what it prints, and listens for what it skips: a suite that compared nothing has not agreed. Also
/// gives what it says of differences, so that the last table can repeat it: all else has scrolled away by then.
fn compared(command: &mut Command) -> (Verdict, Vec<String>) {
    let mut run = || -> std::io::Result<(Verdict, Vec<String>)> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let errors = child.stderr.take();
        let errors = thread::spawn(move || {
            let mut reasons = Reasons::default();
            for line in lines(errors) {
                eprintln!("{line}");
                reasons.hear(&line);
            }
            reasons
        });
        let mut skipped = false;
        let mut rows = Vec::new();
        let mut reasons = Reasons::default();
        for line in lines(child.stdout.take()) {
            skipped |= skips(&line);
            reasons.hear(&line);
            match row(&line) {
                Some(row) => rows.push(row),
                None => println!("{line}"),
            }
        }
        reasons.lines.extend(errors.join().unwrap_or_default().lines);
        let verdict = Verdict::of(child.wait()?.success(), skipped);
        if !rows.is_empty() {
            let width = rows.iter().map(|[check, ..]| check.chars().count()).max().unwrap_or(0).max(60);
            println!("\n{:<width$} {:>8} {:>12}", "check", "cases", "differences");
            for [check, cases, differences] in &rows {
                println!("{check:<width$} {cases:>8} {differences:>12}");
            }
        }
        Ok((verdict, reasons.lines))
    };
    run().unwrap_or_else(|error| (Verdict::Differs, vec![format!("cannot run the suite: {error}")]))
}

/// Lines of a program's output, whatever is in them.
fn lines(output: Option<impl Read>) -> impl Iterator<Item = String> {
    let whole = output.into_iter().flat_map(|output| BufReader::new(output).split(b'\n'));
    whole.map_while(Result::ok).map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// What a suite says of why it does not agree.
#[derive(Default)]
struct Reasons {
    lines: Vec<String>,
    /// The message of a panic stands on the lines after it.
    panicked: bool,
}

impl Reasons {
    /// Enough to know where to look.
    const MOST: usize = 20;

    fn hear(&mut self, line: &str) {
        let says = ["DIFFERS: ", " panicked at ", "error: ", "error["].iter().any(|word| line.contains(word));
        self.panicked &=
            !line.is_empty() && !line.starts_with("note: ") && !line.starts_with("stack backtrace");
        if (says || self.panicked) && self.lines.len() < Self::MOST {
            self.lines.push(line.to_owned());
        }
        self.panicked |= line.contains(" panicked at ");
    }
}

/// What a suite counted, if it says so on this line: the check, the cases, the differences.
fn row(line: &str) -> Option<[String; 3]> {
    let mut words = line.split_once("conformance\t")?.1.split('\t').map(str::to_owned);
    Some([words.next()?, words.next()?, words.next()?])
}

/// Whether a suite says on this line that it skips something; a test's name may stand before it.
fn skips(line: &str) -> bool {
    line.contains("skipped: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_suite_differs_is_heard() {
        let mut reasons = Reasons::default();
        let said = "test a ... ok\nDIFFERS: talosctl: health\nmore\nthread 'a' panicked at a.rs:1:2:\nleft: 1\nright: 2\nnote: run with\nafter";
        said.lines().for_each(|line| reasons.hear(line));
        let heard = ["DIFFERS: talosctl: health", "thread 'a' panicked at a.rs:1:2:", "left: 1", "right: 2"];
        assert_eq!(reasons.lines, heard);
    }

    #[test]
    fn a_suite_that_skips_has_not_agreed() {
        assert!(skips("skipped: talos-v1.12.0/talosctl is not there"));
        assert!(skips("test real_kubectl_lists_the_nodes ... skipped: no kubectl"));
        assert!(!skips("test result: ok. 3 passed; 0 failed; 0 ignored"));
        assert_eq!(
            row("test x ... conformance\tpatches\t10\t0"),
            Some(["patches", "10", "0"].map(str::to_owned))
        );
        assert_eq!(row("test x ... ok"), None);
        for (success, skipped, verdict, passes, passes_if_built_only) in [
            (true, false, Verdict::Agrees, true, true),
            (true, true, Verdict::InPart, false, true),
            (false, false, Verdict::Differs, false, false),
            (false, true, Verdict::Differs, false, false),
        ] {
            assert_eq!(Verdict::of(success, skipped), verdict);
            assert_eq!((verdict.passes(false), verdict.passes(true)), (passes, passes_if_built_only));
        }
        assert!(!Verdict::Missing.passes(false) && Verdict::Missing.passes(true));
    }

    #[test]
    fn every_suite_is_run_for_every_change() {
        // These two repeat others beside further versions, for too long.
        let left_out = ["helm4", "nodes-authority"];
        let script = include_str!("../../.ci/run");
        let line = script.lines().find(|line| line.contains("xtask conformance --built-only"));
        let run: Vec<&str> = line.unwrap().split(' ').collect();
        for suite in SUITES.iter().map(|suite| suite.name) {
            assert_eq!(run.contains(&suite), !left_out.contains(&suite), "{suite}");
        }
    }

    #[test]
    fn what_a_program_prints_decides() {
        let shell = |script: &str| compared(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo same"), (Verdict::Agrees, vec![]));
        assert_eq!(shell("echo 'skipped: nothing there'"), (Verdict::InPart, vec![]));
        let reasons = vec!["DIFFERS: a".to_owned(), "error: b".to_owned()];
        assert_eq!(shell("echo 'error: b' >&2; echo 'DIFFERS: a'; exit 1"), (Verdict::Differs, reasons));
        let (verdict, reasons) = compared(&mut Command::new("./no-such-program"));
        assert_eq!(verdict, Verdict::Differs);
        assert!(reasons.iter().any(|reason| reason.starts_with("cannot run the suite")), "{reasons:?}");
    }
}
