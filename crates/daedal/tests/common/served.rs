//! A lab in the foreground, reached as any Proxmox is: through its proxy, with its CA and its token.

use std::io::BufRead as _;
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
        let lab = Lab::new();
        let mut child = command(["lab", "serve", "-o", "json", "--lab-speed", "60", "--lab-dir"])
            .arg(lab.dir())
            .arg("-f")
            .arg(root().join("examples/home/cluster.yaml"))
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

    /// What it announced about itself.
    pub fn announced(&self, key: &str) -> &str {
        self.announced[key].as_str().unwrap()
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
