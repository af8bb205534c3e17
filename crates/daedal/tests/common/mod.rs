//! Runs the real binary.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod hands;
pub mod served;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

/// The root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The binary with arguments, in a plain environment.
pub fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daedal"));
    command.args(args).env("NO_COLOR", "1").env_remove("DAEDAL_LOG").stdin(std::process::Stdio::null());
    // Whoever runs the tests keeps their key, and none but theirs.
    command.env("XDG_CONFIG_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("config"));
    command.env_remove("DAEDAL_KEY").env_remove("DAEDAL_KEY_FILE");
    command
}

/// Lets inventories run programs, by settings in this folder.
pub fn allow_commands<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    let settings = folder.join("settings.yaml");
    std::fs::write(&settings, "allowCommands: true\n").unwrap();
    command.env("DAEDAL_SETTINGS", settings)
}

/// Runs the binary to its end.
pub fn daedal<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Output {
    command(args).output().unwrap()
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Looks until it is so. However slow the machine is, this is long enough; it only ends a test that would hang.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(600), "never so: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A lab of its own in a folder of its own, stopped when this is dropped.
pub struct Lab {
    folder: tempfile::TempDir,
    speed: &'static str,
}

impl Lab {
    /// A folder in which the first `--lab` starts a lab.
    pub fn new() -> Self {
        Self::at_speed("60")
    }

    fn at_speed(speed: &'static str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), speed }
    }

    /// The same, with a lab so slow that a run is still under way whatever else the machine does first.
    pub fn slow() -> Self {
        Self::at_speed("1")
    }

    /// Stops the lab and gives it the usual speed; the next command starts it again.
    pub fn hurry(&mut self) {
        good(&command(["lab", "stop", "--lab-dir"]).arg(self.dir()).output().unwrap());
        self.speed = "60";
    }

    /// Changes the lab's world behind its back, as if somebody else had; the next command starts the lab again.
    pub fn tamper(&self, change: impl FnOnce(&mut serde_json::Value)) {
        good(&command(["lab", "stop", "--lab-dir"]).arg(self.dir()).output().unwrap());
        let file = self.dir().join("world.json");
        let mut world = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        change(&mut world);
        std::fs::write(file, serde_json::to_vec(&world).unwrap()).unwrap();
    }

    /// The lab's folder.
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("lab")
    }

    /// A command on an example in this lab.
    pub fn command(&self, command_line: &[&str], example: &str) -> Command {
        let file = root().join("examples").join(example).join("cluster.yaml");
        self.command_on(command_line, &file)
    }

    /// A command on an inventory in this lab.
    pub fn command_on(&self, command_line: &[&str], file: &Path) -> Command {
        let mut command = command(command_line);
        command.args(["--lab", "--lab-speed", self.speed, "--lab-dir"]).arg(self.dir()).arg("-f").arg(file);
        command
    }

    /// An apply of an example that has begun: it holds the lock and has said how many steps it takes.
    pub fn begin_apply(
        &self,
        example: &str,
    ) -> (Child, std::io::BufReader<std::process::ChildStderr>, String) {
        use std::process::Stdio;
        let mut apply = self.command(&["apply", "--yes"], example);
        let mut child = apply.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut progress = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains(" steps\n") {
            let read = std::io::BufRead::read_line(&mut progress, &mut said).unwrap();
            assert_ne!(read, 0, "it ended before it began: {said}");
        }
        (child, progress, said)
    }

    /// Root at the lab's Proxmox.
    pub async fn root(&self, endpoint: &str) -> daedal_proxmox::Client {
        let status = command(["lab", "status", "-o", "json", "--lab-dir"]).arg(self.dir()).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let proxy = format!("http://{}", status["proxy"].as_str().unwrap());
        let password = std::fs::read_to_string(self.dir().join("token")).unwrap();
        let ca = std::fs::read_to_string(self.dir().join("ca.pem")).unwrap();
        daedal_proxmox::Client::anonymous(endpoint)
            .dialer(std::sync::Arc::new(daedal_dial::Proxy::parse(&proxy).unwrap()))
            .trust(daedal_proxmox::Trust::Ca(ca))
            .log_in("root@pam", password.trim())
            .await
            .unwrap()
    }

    /// Runs it to its end.
    pub fn run(&self, command_line: &[&str], example: &str) -> Output {
        self.command(command_line, example).output().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = command(["lab", "stop", "--lab-dir"]).arg(self.dir()).output();
    }
}

/// The program of somebody else that a variable names, or none after saying that it was skipped. What was named must be
/// there.
#[allow(clippy::print_stdout, reason = "what is skipped is said")]
pub fn client(variable: &str) -> Option<PathBuf> {
    let Some(path) = std::env::var_os(variable).map(PathBuf::from) else {
        println!("skipped: {variable} names no program");
        return None;
    };
    assert!(path.is_file(), "{variable} names {}, which is not there", path.display());
    Some(path)
}

/// Insists that a run ended well and gives what it printed.
#[track_caller]
pub fn good(run: &Output) -> String {
    assert!(
        run.status.success(),
        "exit {:?}\n--- stdout\n{}\n--- stderr\n{}",
        run.status.code(),
        text(&run.stdout),
        text(&run.stderr)
    );
    text(&run.stdout)
}

/// An example with some of its text replaced, in a folder of its own.
pub struct Changed {
    folder: tempfile::TempDir,
}

impl Changed {
    /// The example, with each left text replaced by the right one.
    pub fn new(example: &str, replacements: &[(&str, &str)]) -> Self {
        let mut document =
            std::fs::read_to_string(root().join("examples").join(example).join("cluster.yaml")).unwrap();
        for (from, to) in replacements {
            assert!(document.contains(from), "the example still says: {from}");
            document = document.replace(from, to);
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cluster.yaml"), document).unwrap();
        Self { folder }
    }

    /// The inventory.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("cluster.yaml")
    }

    /// Runs a command on it in a lab.
    pub fn run(&self, lab: &Lab, command_line: &[&str]) -> Output {
        lab.command_on(command_line, &self.file()).output().unwrap()
    }

    /// What a command that ends well prints for programs.
    pub fn json(&self, lab: &Lab, command_line: &[&str]) -> serde_json::Value {
        let run = self.run(lab, &[command_line, &["-o", "json"]].concat());
        good(&run);
        serde_json::from_slice(&run.stdout).unwrap()
    }
}

/// What the home example pins.
pub const FINGERPRINT: &str = "fingerprint: \"5A:3C:0E:91:7B:D2:48:F6:1D:A9:63:BE:07:C4:8F:22:E5:70:9A:34:CB:16:5D:F8:81:2E:B7:49:90:6C:D3:1F\"";

/// A small cluster: one control plane and one worker.
pub const SMALL: &[(&str, &str)] = &[("count: 3 ", "count: 1 "), ("count: 2\n", "count: 1\n")];

/// Another cluster beside the home example: name, VMIDs and addresses of its own.
pub const BESIDE: &[(&str, &str)] = &[
    ("name: home ", "name: work "),
    ("vmid: 300", "vmid: 310"),
    ("vmid: 303", "vmid: 313"),
    ("10.0.0.11", "10.0.0.31"),
    ("10.0.0.21", "10.0.0.41"),
    ("vip: 10.0.0.20", "vip: 10.0.0.30"),
];
