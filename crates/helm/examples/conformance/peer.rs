//! Real Helm, and us behind the same face.

use std::path::{Path, PathBuf};
use std::process::Command;

use daedal_helm::{Chart, Error, File, KubeVersion, PrintOptions, RenderOptions, ValuesBuilder, render};

use crate::peers;

/// The Kubernetes version both sides are told.
pub const KUBE_VERSION: &str = "1.31.0";

/// What a rendering came to: the printed manifests, or the complaint.
pub type Outcome = Result<String, String>;

/// The real thing, and what it says of itself, which templates can see.
pub struct Helm {
    program: PathBuf,
    version: String,
    go_version: String,
}

impl Helm {
    /// The built Helm of a major version.
    pub fn find(major: u32) -> Option<Helm> {
        let program = peers::helm(major)?;
        let output = Command::new(&program).arg("version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let part =
            |name: &str| text.split(&format!("{name}:\"")).nth(1)?.split('"').next().map(ToOwned::to_owned);
        Some(Helm {
            program,
            version: part("Version").unwrap_or_default(),
            go_version: part("GoVersion").unwrap_or_default(),
        })
    }

    /// What it calls itself.
    pub fn version(&self) -> String {
        format!("helm {}, built with {}", self.version, self.go_version)
    }

    /// `helm template`.
    pub fn template(&self, chart: &Path, values: Option<&Path>, crds: bool) -> Outcome {
        let mut command = Command::new(&self.program);
        command.args(["template", "rel", &chart.to_string_lossy(), "--namespace", "ns"]);
        command.args(["--kube-version", KUBE_VERSION]);
        if let Some(values) = values {
            command.args(["-f", &values.to_string_lossy()]);
        }
        if crds {
            command.arg("--include-crds");
        }
        match command.output() {
            Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Ok(output) => Err(complaint(&String::from_utf8_lossy(&output.stderr))),
            Err(e) => Err(format!("cannot run helm: {e}")),
        }
    }

    /// The same by us.
    pub fn ours(&self, chart: &Path, values: Option<&str>, crds: bool) -> Outcome {
        told(Chart::load(chart).and_then(|chart| self.rendered(&chart, values, crds)))
    }

    /// The same by us, of files in memory.
    pub fn ours_of_files(&self, files: Vec<File>) -> Outcome {
        told(Chart::from_files(files).and_then(|chart| self.rendered(&chart, None, false)))
    }

    fn rendered(&self, chart: &Chart, values: Option<&str>, crds: bool) -> Result<String, Error> {
        let mut builder = ValuesBuilder::new();
        if let Some(text) = values {
            builder = builder.file(text.as_bytes())?;
        }
        let mut options =
            RenderOptions { release_name: "rel".into(), namespace: "ns".into(), ..RenderOptions::default() };
        options.capabilities.kube_version = KubeVersion::parse(KUBE_VERSION)?;
        options.capabilities.helm_version = self.version.clone();
        options.capabilities.go_version = self.go_version.clone();
        options.now = (1_700_000_000, 0);
        let print = PrintOptions { include_crds: crds, ..PrintOptions::default() };
        render(chart, &builder.build(), &options)?.to_text(&print)
    }
}

/// Our message as Helm's is read.
fn told(result: Result<String, Error>) -> Outcome {
    result.map_err(|e| e.to_string().trim().to_owned())
}

/// Helm's message without what it logs before and advises after.
fn complaint(stderr: &str) -> String {
    let start = stderr.find("Error: ").map_or(0, |at| at + "Error: ".len());
    stderr[start..].trim().trim_end_matches("Use --debug flag to render out invalid YAML").trim().to_owned()
}
