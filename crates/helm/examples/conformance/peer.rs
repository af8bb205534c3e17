//! Real Helm, and us behind the same face.

use std::path::{Path, PathBuf};
use std::process::Command;

use daedal_helm::{Chart, Error, File, KubeVersion, PrintOptions, RenderOptions, ValuesBuilder, render};

/// The Kubernetes version both sides are told.
pub const KUBE_VERSION: &str = "1.31.0";

/// What a rendering came to: the printed manifests, or the complaint.
pub type Outcome = Result<String, String>;

/// The real thing.
pub struct Helm(PathBuf);

impl Helm {
    /// The newest built Helm 3, unless `HELM` names another.
    pub fn find() -> Option<Helm> {
        if let Some(path) = std::env::var_os("HELM") {
            return Some(Helm(path.into()));
        }
        let folder = std::env::var_os("DAEDAL_PEERS")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/real-peers/bin")))?;
        let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
            .ok()?
            .filter_map(Result::ok)
            .filter(|e| e.file_name().to_string_lossy().starts_with("helm-"))
            .map(|e| e.path().join("helm"))
            .filter(|p| p.is_file())
            .collect();
        found.sort();
        found.pop().map(Helm)
    }

    /// What it calls itself.
    pub fn version(&self) -> String {
        let output = Command::new(&self.0).args(["version", "--short"]).output();
        output.map(|o| format!("helm {}", String::from_utf8_lossy(&o.stdout).trim())).unwrap_or_default()
    }

    /// `helm template`.
    pub fn template(&self, chart: &Path, values: Option<&Path>, crds: bool) -> Outcome {
        let mut command = Command::new(&self.0);
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
}

/// Helm's message without what it logs before and advises after.
fn complaint(stderr: &str) -> String {
    let start = stderr.find("Error: ").map_or(0, |at| at + "Error: ".len());
    stderr[start..].trim().trim_end_matches("Use --debug flag to render out invalid YAML").trim().to_owned()
}

/// The same by us.
pub fn ours(chart: &Path, values: Option<&str>, crds: bool) -> Outcome {
    ours_inner(chart, values, crds).map_err(|e| e.to_string())
}

/// The same by us, of files in memory.
pub fn ours_of_files(files: Vec<File>) -> Outcome {
    Chart::from_files(files).and_then(|chart| rendered(&chart, None, false)).map_err(|e| e.to_string())
}

fn ours_inner(chart: &Path, values: Option<&str>, crds: bool) -> Result<String, Error> {
    rendered(&Chart::load(chart)?, values, crds)
}

fn rendered(chart: &Chart, values: Option<&str>, crds: bool) -> Result<String, Error> {
    let mut builder = ValuesBuilder::new();
    if let Some(text) = values {
        builder = builder.file(text.as_bytes())?;
    }
    let mut options =
        RenderOptions { release_name: "rel".into(), namespace: "ns".into(), ..RenderOptions::default() };
    options.capabilities.kube_version = KubeVersion::parse(KUBE_VERSION)?;
    options.capabilities.go_version = go_version();
    options.now = (1_700_000_000, 0);
    let print = PrintOptions { include_crds: crds, ..PrintOptions::default() };
    render(chart, &builder.build(), &options)?.to_text(&print)
}

/// The Go version the built Helm says it has, which templates can see.
fn go_version() -> String {
    static VERSION: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    VERSION
        .get_or_init(|| {
            let text = Helm::find().map(|h| h.version_long()).unwrap_or_default();
            text.split("GoVersion:\"").nth(1).and_then(|t| t.split('"').next()).unwrap_or_default().to_owned()
        })
        .clone()
}

impl Helm {
    fn version_long(&self) -> String {
        let output = Command::new(&self.0).arg("version").output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
    }
}
