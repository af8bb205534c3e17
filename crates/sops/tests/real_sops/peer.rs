//! The real program, run in a folder of its own with keys of its own.

use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr as _;

use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use daedal_sops::Identities;
use serde_json::Value as Json;

pub struct Peer {
    program: PathBuf,
    folder: tempfile::TempDir,
    pub identities: Identities,
    pub recipient: String,
    pub second: String,
}

impl Peer {
    /// The real program, or none after saying that it was skipped.
    pub fn find() -> Option<Self> {
        let Some(program) = std::env::var_os("DAEDAL_SOPS").map(PathBuf::from) else {
            println!("skipped: DAEDAL_SOPS names no program");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let keys = [Identity::generate(), Identity::generate()];
        let text: String = keys.iter().map(|key| format!("{}\n", key.to_string().expose_secret())).collect();
        std::fs::write(folder.path().join("keys.txt"), &text).unwrap();
        let [recipient, second] = keys.map(|key| key.to_public().to_string());
        Some(Self { program, folder, identities: Identities::parse(&text).unwrap(), recipient, second })
    }

    /// How many random documents are compared: `DAEDAL_SOPS_CASES`, or as many as usual.
    pub fn cases(&self, usual: usize) -> usize {
        std::env::var("DAEDAL_SOPS_CASES").ok().and_then(|text| usize::from_str(&text).ok()).unwrap_or(usual)
    }

    fn run(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let home = self.folder.path();
        let mut command = Command::new(&self.program);
        command.current_dir(home).args(args).env_clear();
        command
            .env("HOME", home)
            .env("SOPS_AGE_KEY_FILE", home.join("keys.txt"))
            .env("SOPS_DISABLE_VERSION_CHECK", "1");
        let output = command.output().unwrap();
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn text(&self, args: &[&str]) -> Result<String, String> {
        self.run(args).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn write(&self, name: &str, content: &[u8]) -> String {
        let file = self.folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, content).unwrap();
        name.to_owned()
    }

    /// Encrypts by the settings of a rule for this recipient, as `.sops.yaml` has them.
    pub fn encrypt(&self, kind: &str, plain: &[u8], settings: &str) -> Result<String, String> {
        self.encrypt_in_folder(&self.config(settings), &format!("plain.{kind}"), plain)
    }

    /// A `.sops.yaml` of one rule.
    pub fn config(&self, settings: &str) -> String {
        format!("creation_rules:\n  - age: {}\n{settings}", self.recipient)
    }

    pub fn encrypt_in_folder(&self, config: &str, file: &str, plain: &[u8]) -> Result<String, String> {
        self.write(".sops.yaml", config.as_bytes());
        let file = self.write(file, plain);
        self.text(&["encrypt", &file])
    }

    pub fn decrypt(&self, kind: &str, closed: &str) -> Result<String, String> {
        let file = self.write(&format!("closed.{kind}"), closed.as_bytes());
        self.text(&["decrypt", &file])
    }

    pub fn decrypt_bytes(&self, kind: &str, closed: &str) -> Result<Vec<u8>, String> {
        let file = self.write(&format!("closed.{kind}"), closed.as_bytes());
        self.run(&["decrypt", &file])
    }

    pub fn decrypt_json(&self, kind: &str, closed: &str) -> Result<Json, String> {
        let file = self.write(&format!("closed.{kind}"), closed.as_bytes());
        let text = self.text(&["decrypt", "--output-type", "json", &file])?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    pub fn set(&self, kind: &str, closed: &str, path: &str, value: &str) -> Result<String, String> {
        let file = self.write(&format!("edited.{kind}"), closed.as_bytes());
        self.run(&["set", &file, path, value])?;
        Ok(std::fs::read_to_string(self.folder.path().join(&file)).unwrap())
    }
}
