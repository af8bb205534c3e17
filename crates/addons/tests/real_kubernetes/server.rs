//! A real API server with its etcd, for one test run.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// What a machine may take to start an API server when it is busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// Programs that a test runs.
struct Peers {
    etcd: PathBuf,
    server: PathBuf,
    kubectl: PathBuf,
}

/// The newest built peer whose folder starts with this.
fn built(prefix: &str, program: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("DAEDAL_PEERS")?;
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path().join(program))
        .filter(|file| file.is_file())
        .collect();
    found.sort();
    found.pop()
}

impl Peers {
    fn find() -> Option<Self> {
        Some(Self {
            etcd: built("etcd-v", "etcd")?,
            server: built("kubernetes-", "kube-apiserver")?,
            kubectl: built("kubernetes-", "kubectl")?,
        })
    }
}

/// A running API server, ended with its value.
pub struct Server {
    peers: Peers,
    folder: TempDir,
    running: Vec<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in self.running.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts one, or says why not.
    pub fn start() -> Option<Self> {
        let Some(peers) = Peers::find() else {
            println!(
                "skipped: DAEDAL_PEERS names no folder with etcd-v*/etcd and kubernetes-*/kube-apiserver"
            );
            return None;
        };
        let mut server = Self { peers, folder: tempfile::tempdir().unwrap(), running: Vec::new() };
        let [etcd, peer, api] = [free_port(), free_port(), free_port()];
        let at = |name: &str| server.folder.path().join(name).display().to_string();
        let key = Command::new("openssl").args(["genrsa", "-out", &at("sa.key"), "2048"]).output().unwrap();
        assert!(key.status.success(), "openssl makes no key");
        std::fs::write(at("tokens.csv"), "secret,admin,admin,system:masters\n").unwrap();
        let mut store = Command::new(&server.peers.etcd);
        store.arg("--unsafe-no-fsync").args(["--data-dir", &at("etcd")]);
        for (option, port) in [
            ("listen-client", etcd),
            ("advertise-client", etcd),
            ("listen-peer", peer),
            ("initial-advertise-peer", peer),
        ] {
            store.arg(format!("--{option}-urls=http://127.0.0.1:{port}"));
        }
        store.arg(format!("--initial-cluster=default=http://127.0.0.1:{peer}"));
        let mut kubernetes = Command::new(&server.peers.server);
        kubernetes.args([
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            format!("--cert-dir={}", at("certs")),
            format!("--secure-port={api}"),
            format!("--token-auth-file={}", at("tokens.csv")),
            format!("--service-account-key-file={}", at("sa.key")),
            format!("--service-account-signing-key-file={}", at("sa.key")),
        ]);
        kubernetes.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--disable-admission-plugins=ServiceAccount",
        ]);
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "peer",
            "clusters": [{"name": "peer", "cluster":
                {"server": format!("https://127.0.0.1:{api}"), "insecure-skip-tls-verify": true}}],
            "users": [{"name": "admin", "user": {"token": "secret"}}],
            "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": "admin"}}],
        });
        std::fs::write(at("kubeconfig"), config.to_string()).unwrap();
        for mut command in [store, kubernetes] {
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            server.running.push(child);
        }
        let begin = Instant::now();
        while !server.kubectl(&["get", "--raw", "/readyz"], "").status.success() {
            assert!(begin.elapsed() < PATIENCE, "the API server does not get ready");
            std::thread::sleep(Duration::from_millis(500));
        }
        Some(server)
    }

    fn run(&self, program: &Path, args: &[&str], input: &str) -> Output {
        let home = self.folder.path();
        let mut command = Command::new(program);
        command.args(args).env("KUBECONFIG", home.join("kubeconfig")).env("HOME", home);
        command.env("KUBECTL_APPLYSET", "true");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    pub fn kubectl(&self, args: &[&str], input: &str) -> Output {
        self.run(&self.peers.kubectl, args, input)
    }

    /// What kubectl prints of a command that must succeed.
    pub fn kubectl_ok(&self, args: &[&str], input: &str) -> String {
        let output = self.kubectl(args, input);
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Applies an object on the server, and gives it as it is then.
    pub fn apply(&self, object: &Value, dry: bool) -> Value {
        let mut args = vec![
            "apply",
            "--server-side",
            "--field-manager=daedal",
            "--show-managed-fields",
            "-o",
            "json",
            "-f",
            "-",
        ];
        if dry {
            args.push("--dry-run=server");
        }
        serde_json::from_str(&self.kubectl_ok(&args, &object.to_string())).unwrap()
    }

    /// An object as it is.
    pub fn get(&self, object: &Value) -> Value {
        let args = ["get", "--show-managed-fields", "-o", "json", "-f", "-"];
        let mut found: Value = serde_json::from_str(&self.kubectl_ok(&args, &object.to_string())).unwrap();
        // What is read from a stream is a list, even of one.
        if found["kind"] == "List" { found["items"][0].take() } else { found }
    }
}
