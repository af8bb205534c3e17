//! A lab in the foreground, reached as any Proxmox is: through its proxy, with its CA and its token.

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Stdio};

use super::{Lab, command, root};

/// A lab in the foreground, of which only its proxy, its CA and its token are used.
pub struct Served {
    lab: Lab,
    child: Child,
    announced: serde_json::Value,
}

impl Served {
    /// Starts it and waits until it answers.
    pub fn start() -> Self {
        Self::start_in(Lab::new(), &root().join("examples/home/cluster.yaml"))
    }

    /// The same with a datacenter for this inventory.
    pub fn start_in(lab: Lab, inventory: &Path) -> Self {
        Self::start_with(lab, inventory, &[])
    }

    /// The same for an inventory that needs variables.
    pub fn start_with(lab: Lab, inventory: &Path, variables: &[(&str, &str)]) -> Self {
        let mut child = command(["lab", "serve", "-o", "json", "--lab-speed", "60", "--lab-dir"])
            .arg(lab.dir())
            .arg("-f")
            .arg(inventory)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // One JSON document, once everything answers.
        let mut document = String::new();
        for line in std::io::BufReader::new(child.stdout.take().unwrap()).lines() {
            document.push_str(&line.unwrap());
            if document.ends_with('}') {
                break;
            }
        }
        let announced = serde_json::from_str(&document).unwrap();
        Self { lab, child, announced }
    }

    /// The lab's folder.
    pub fn folder(&self) -> std::path::PathBuf {
        self.lab.dir()
    }

    /// What it announced about itself.
    pub fn announced(&self, key: &str) -> &str {
        self.announced[key].as_str().unwrap()
    }

    /// The files of a kind on a storage of all hosts.
    pub fn files(&self, endpoint: &str, storage: &str, content: &str) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let root = self.lab.root(endpoint).await;
            let mut files = Vec::new();
            for host in root.resources_of("node").await.unwrap() {
                let volumes = root.volumes(&host.node, storage, Some(content)).await.unwrap();
                files.extend(volumes.into_iter().map(|volume| volume.volid));
            }
            files
        })
    }

    /// Stops it, and gives its whole world as it is on disk.
    pub fn world(&self) -> serde_json::Value {
        super::good(&command(["lab", "stop", "--lab-dir"]).arg(self.lab.dir()).output().unwrap());
        serde_json::from_slice(&std::fs::read(self.lab.dir().join("world.json")).unwrap()).unwrap()
    }

    /// The secret of its token, which is root's password, too.
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.announced("tokenSecret")).unwrap().trim().to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = command(["lab", "stop", "--lab-dir"]).arg(self.lab.dir()).output();
        let _ = self.child.wait();
    }
}
