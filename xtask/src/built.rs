//! Programs that cargo built for the whole workspace. Built package by package, dependencies would get other features and be built
//! once more for each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A built program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// `package/target`, the package by the name of its folder.
    pub label: String,
    pub executable: PathBuf,
    /// The package's folder, in which cargo runs it.
    pub folder: PathBuf,
    /// Whether it is a test.
    pub test: bool,
}

impl Binary {
    /// The program in the surroundings that cargo gives it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).stdin(Stdio::null());
        command
    }
}

/// Runs a cargo command that builds, and gives the programs that it built.
pub fn build(cargo: &mut Command) -> Result<Vec<Binary>, String> {
    let cargo = cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let built = cargo.output().map_err(|e| format!("cannot run cargo: {e}"))?;
    if !built.status.success() {
        return Err("it does not build".into());
    }
    Ok(String::from_utf8_lossy(&built.stdout).lines().filter_map(binary).collect())
}

/// The program that a message of cargo tells of, if it does.
fn binary(message: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?;
    let label = format!("{package}/{}", message["target"]["name"].as_str()?);
    Some(Binary { label, executable, folder, test: message["profile"]["test"] == true })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn cargo_tells_which_binaries_are_tests() {
        let message = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/crates/lab/Cargo.toml","target":{{"name":"lab_story"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = binary(&message(true, r#""/p/target/debug/deps/lab_story-1f""#)).unwrap();
        assert_eq!((found.label.as_str(), found.test), ("lab/lab_story", true));
        assert_eq!(found.folder, Path::new("/p/crates/lab"));
        assert!(!binary(&message(false, r#""/p/target/debug/daedal""#)).unwrap().test);
        assert_eq!(binary(&message(true, "null")), None);
        assert_eq!(binary(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(binary("warning: not JSON"), None);
    }
}
